"""The collector that reads the metrics of a slave at a scrape. :mod:`dumpfilter.slave.facts` declares them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from dumpfilter.slave.facts import CHANNELS, PROCESS, THREADS, views
from dumpfilter.slave.measurements import SYNC_TIME
from dumpfilter.slave.slave import Slave


class SlaveCollector(Collector):
    """A collector that reads a slave's metrics at a scrape. It waits for no statement of the console."""

    def __init__(self, slave: Slave) -> None:
        self._slave = slave

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the slave."""
        channels = views(self._slave.channels_now)
        yield from THREADS.families([thread for view in channels for thread in (view.io, view.sql)])
        yield from CHANNELS.families(channels)
        yield from PROCESS.families([SYNC_TIME])

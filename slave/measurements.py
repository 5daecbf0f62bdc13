"""The counters and latencies that a slave records for its metrics while it works.

Everything else that the metrics show is read from the channels at a scrape.
"""

from __future__ import annotations

from dataclasses import dataclass

from dumpfilter.base import files
from dumpfilter.console.metrics.latency import DELAY_BUCKETS, WORK_BUCKETS, Latency


@dataclass
class Applied:
    """The counts of an applier, over all starts of the SQL thread. After an error some transactions count twice."""

    events_filtered: int = 0
    """The number of row events and statements that the slave's own filter dropped."""
    transactions: int = 0
    """The number of transactions that the applier has completed."""
    committed_at: float | None = None
    """The Unix time at which the server committed the newest transaction, seconds. None if the binlog has no time."""


class ChannelMeasurements:
    """The counters and latencies of one channel."""

    def __init__(self) -> None:
        self.applied = Applied()
        self.relay_delay = Latency(DELAY_BUCKETS)
        self.apply_delay = Latency(DELAY_BUCKETS)


SYNC_TIME = Latency(WORK_BUCKETS)
"""The recorder of synchronizations, which all channels of the process share, as they share the disk."""
files.SYNC_OBSERVERS.append(SYNC_TIME.observe)

"""The counters and latencies that a slave records for its metrics while it works.

All other metrics are read from the channels at a scrape.
"""

from __future__ import annotations

from dataclasses import dataclass

from dumpfilter.base import files
from dumpfilter.console.metrics.latency import DELAY_BUCKETS, WORK_BUCKETS, Latency


@dataclass
class Applied:
    """The counts of a channel's applier over all its starts. After an error, transactions that are applied again count
    twice.
    """

    events_filtered: int = 0
    """The number of row events and statements that the slave's own filter dropped."""
    transactions: int = 0
    """The number of transactions that the applier has completed."""
    committed_at: float | None = None
    """The Unix time at which the server committed the newest transaction, seconds. None if the binlog does not hold
    the time.
    """


class ChannelMeasurements:
    """The measurements of one channel: the applier's counts, and histograms of two delays. The delays run from a
    transaction's commit on the server until the slave has received it, and until the slave has applied it.
    """

    def __init__(self) -> None:
        self.applied = Applied()
        self.relay_delay = Latency(DELAY_BUCKETS)
        self.apply_delay = Latency(DELAY_BUCKETS)


SYNC_TIME = Latency(WORK_BUCKETS)
"""The latency of syncs to the disk. All channels of the process share it, as they share the disk."""
files.SYNC_OBSERVERS.append(SYNC_TIME.observe)

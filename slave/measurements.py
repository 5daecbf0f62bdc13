"""The counters and latencies that a slave records for its metrics while it works.

Everything else that the metrics show is read from the channels at a scrape.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import time as unix_time

from dumpfilter import files
from dumpfilter.metrics.definition import histogram
from dumpfilter.metrics.latency import DELAY_BUCKETS, WORK_BUCKETS, Latency

CHANNEL = ("channel",)

RELAY_DELAY = histogram(
    "dumpfilter_slave_relay_delay_seconds",
    "Time from the commit of a chunk's first transaction on the server to its write to the relay log. "
    "MySQL 8.0.1 and later tell the commit in microseconds. Of other binlogs the event's time in whole seconds counts.",
    DELAY_BUCKETS,
    CHANNEL,
)
APPLY_DELAY = histogram(
    "dumpfilter_slave_apply_delay_seconds",
    "Time from the commit of a transaction on the server to its commit on the slave's target. "
    "The slave measures the last transaction of each run that the applier applies without a pause.",
    DELAY_BUCKETS,
    CHANNEL,
)
SYNC = histogram(
    "dumpfilter_slave_sync_seconds",
    "Time in which the disk synchronizes a relay log or a state file (fdatasync).",
    WORK_BUCKETS,
)


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
        self.relay_delay = Latency(RELAY_DELAY)
        self.apply_delay = Latency(APPLY_DELAY)
        self.last_chunk_at = 0.0
        """The Unix time of the newest message of the master's stream, seconds. 0 before the first message."""

    def note_chunk(self) -> None:
        """Note that a message of the master's stream has come."""
        self.last_chunk_at = unix_time()


SYNC_TIME = Latency(SYNC)
"""The recorder of synchronizations, which all channels of the process share, as they share the disk."""
files.SYNC_OBSERVERS.append(SYNC_TIME.observe)

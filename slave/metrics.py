"""The metrics of a slave: facts about its channels and their threads, and the collector that reads them at a scrape.

docs/metrics.md has the table of the metrics. ``python tools/metrics_table.py`` writes the table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from dumpfilter.metrics.facts import Fact, Facts
from dumpfilter.metrics.latency import Latency
from dumpfilter.slave.channel import Channel, ChannelState
from dumpfilter.slave.lag import relay_lag
from dumpfilter.slave.measurements import SYNC_TIME
from dumpfilter.slave.slave import Configured, Slave
from dumpfilter.slave.state.counters_info import CountersInfo
from dumpfilter.slave.status import io_error, sql_error


@dataclass(frozen=True)
class ChannelView:
    """A channel as one scrape sees it."""

    name: str
    channel: Channel
    state: ChannelState
    counted: CountersInfo
    """The channel's counts since its first start."""
    relay_files: int
    relay_bytes: int
    lag_bytes: int
    lag_seconds: float | None


@dataclass(frozen=True)
class ThreadView:
    """One of a channel's two threads as a scrape sees it."""

    channel: str
    thread: str
    running: bool
    errors: int
    error_number: int
    error_at: float


def _gauge(name: str, help: str, read: str | Callable[[Any], Any]) -> Fact:
    return Fact("", read=read, metric=f"dumpfilter_slave_{name}", help=help)


def _counter(name: str, help: str, read: str | Callable[[Any], float]) -> Fact:
    return _gauge(f"{name}_total", help, read)


def _latency(name: str, help: str, read: str | Callable[[Any], Latency]) -> Fact:
    return _gauge(name, help, read)._replace(type=Latency)


THREADS: Facts[ThreadView] = Facts(
    (
        _gauge(
            "thread_running",
            "1 while a thread of the channel runs, otherwise 0. The I/O thread is io, the applier sql.",
            "running",
        ),
        _counter(
            "errors",
            "Errors of the thread. Those of the I/O thread include lost connections and failed attempts to connect.",
            "errors",
        ),
        _gauge(
            "last_error_number",
            "The number of the thread's newest error, as in SHOW REPLICA STATUS. It is 0 without an error.",
            "error_number",
        ),
        _gauge(
            "last_error_timestamp_seconds",
            "Unix time of the thread's newest error. There is no value without an error.",
            lambda view: view.error_at or None,
        ),
    ),
    labels={"channel": lambda view: view.channel, "thread": lambda view: view.thread},
)
"""The facts about each of a channel's two threads."""

CHANNELS: Facts[ChannelView] = Facts(
    (
        _gauge(
            "connected",
            "1 while the channel is registered with its master and receives a dump, otherwise 0.",
            lambda view: float(view.channel.io.connected),
        ),
        _gauge(
            "lag_bytes",
            "Bytes of the relay log that the applier has not applied. The relay log ends at the place that the master "
            "told last.",
            "lag_bytes",
        ),
        _gauge(
            "lag_seconds",
            "Time since the server wrote the first event that the slave has received and not applied. It is 0 if the "
            "applier has applied everything.",
            "lag_seconds",
        ),
        _gauge(
            "last_message_timestamp_seconds",
            "Unix time of the newest message from the master, heartbeats included. There is no value before the "
            "first one.",
            lambda view: view.channel.measured.last_chunk_at or None,
        ),
        _gauge(
            "received_file_number",
            "Number of the master's binlog up to which the channel has received everything.",
            lambda view: _number(view.state.received.source_file),
        ),
        _gauge(
            "received_position_bytes",
            "Position in the binlog of dumpfilter_slave_received_file_number.",
            "state.received.source_position",
        ),
        _gauge(
            "applied_file_number",
            "Number of the master's binlog up to which the applier has applied everything.",
            lambda view: _number(view.state.applied.source_file),
        ),
        _gauge(
            "applied_position_bytes",
            "Position in the binlog of dumpfilter_slave_applied_file_number.",
            "state.applied.source_position",
        ),
        _gauge("relay_log_bytes", "Size of all relay log files of the channel.", "relay_bytes"),
        _gauge("relay_log_files", "Relay log files of the channel.", "relay_files"),
        _counter("connections", "Connections on which a dump began.", "counted.connections"),
        _counter(
            "messages_received",
            "Messages of the master's stream, heartbeats included.",
            "counted.chunks",
        ),
        _counter("heartbeats_received", "Heartbeats of the master.", "counted.heartbeats"),
        _counter("bytes_received", "Bytes of events received.", "counted.bytes_received"),
        _counter("events_received", "Events received.", lambda view: view.counted.counts["events_sent"]),
        _counter(
            "events_undecided",
            "Events received about which the master could not decide.",
            lambda view: view.counted.counts["events_undecided"],
        ),
        _counter(
            "master_bytes_read",
            "Bytes of events that the master has read for this channel.",
            lambda view: view.counted.counts["bytes_read"],
        ),
        _counter(
            "master_bytes_dropped",
            "Bytes of events that the master has dropped for this channel.",
            lambda view: view.counted.counts["bytes_dropped"],
        ),
        _counter(
            "master_events_dropped",
            "Events that the master has dropped for this channel.",
            lambda view: view.counted.counts["events_dropped"],
        ),
        _counter(
            "events_filtered",
            "Row events and statements that the slave's own filter dropped after the master had sent them.",
            "channel.measured.applied.events_filtered",
        ),
        _counter(
            "transactions_applied",
            "Transactions that the applier has completed.",
            "channel.measured.applied.transactions",
        ),
        _latency(
            "relay_delay_seconds",
            "Time from the commit of a chunk's first transaction on the server to its write to the relay log. "
            "MySQL 8.0.1 and later tell the commit in microseconds. Of other binlogs the event's time in whole seconds "
            "counts.",
            "channel.measured.relay_delay",
        ),
        _latency(
            "apply_delay_seconds",
            "Time from the commit of a transaction on the server to its commit on the slave's target. "
            "The slave measures the last transaction of each run that the applier applies without a pause.",
            "channel.measured.apply_delay",
        ),
    ),
    labels={"channel": lambda view: view.name},
)
"""The facts about each channel."""

PROCESS: Facts[Latency] = Facts(
    (
        _latency(
            "sync_seconds",
            "Time in which the disk synchronizes a relay log or a state file (fdatasync).",
            lambda latency: latency,
        ),
    )
)
"""The facts about the whole process."""

METRICS = (THREADS, CHANNELS, PROCESS)
"""The facts that are metrics of a slave, in the order of docs/metrics.md."""


class SlaveCollector(Collector):
    """A collector that reads a slave's metrics at a scrape. It waits for no statement of the console."""

    def __init__(self, slave: Slave) -> None:
        self._slave = slave

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the slave."""
        channels = self._slave.channels_now
        yield from THREADS.families([each for one in channels for each in _threads(one)])
        now = time.time()
        yield from CHANNELS.families([_view(one, now) for one in channels])
        yield from PROCESS.families([SYNC_TIME])


def _threads(configured: Configured) -> Iterator[ThreadView]:
    name, channel = configured.info.channel, configured.channel
    counted = channel.counters.info
    number, _, at = io_error(channel)
    yield ThreadView(name, "io", channel.io_worker.running, counted.io_errors, number, at)
    number, _, at = sql_error(channel.sql_worker)
    yield ThreadView(name, "sql", channel.sql_worker.running, counted.sql_errors, number, at)


def _view(configured: Configured, now: float) -> ChannelView:
    channel = configured.channel
    state = channel.now()
    lag = relay_lag(configured.directory, state.applied.relay_position, state.received.relay_position, now)
    return ChannelView(
        configured.info.channel,
        channel,
        state,
        channel.counters.info,
        relay_files=lag.files,
        relay_bytes=lag.bytes,
        lag_bytes=lag.lag_bytes,
        lag_seconds=lag.lag_seconds,
    )


def _number(file: str) -> float | None:
    """Return the number at the end of a binlog's name, or None for a name without a number."""
    number = file.rpartition(".")[2]
    return int(number) if number.isascii() and number.isdigit() else None

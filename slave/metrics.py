"""The metrics of a slave: their definitions, and the collector that reads their values at a scrape.

docs/metrics.md has the table of the definitions. ``python tools/metrics_table.py`` writes the table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from dumpfilter.metrics.definition import Definition, Labels, Reading, counter, gauge
from dumpfilter.metrics.latency import family_of
from dumpfilter.slave.channel import Channel, ChannelState
from dumpfilter.slave.lag import lag_seconds, relay_log_sizes, unapplied
from dumpfilter.slave.measurements import APPLY_DELAY, CHANNEL, RELAY_DELAY, SYNC, SYNC_TIME
from dumpfilter.slave.slave import Configured, Slave
from dumpfilter.slave.state.counters_info import CountersInfo
from dumpfilter.slave.status import io_error, sql_error


@dataclass(frozen=True)
class ChannelView:
    """A channel as one scrape sees it."""

    channel: Channel
    state: ChannelState
    counted: CountersInfo
    """The channel's counts since its first start."""
    relay_files: int
    relay_bytes: int
    lag_bytes: int
    lag_seconds: float | None


def _gauge(name: str, help: str, read: Callable[[ChannelView], float | None]) -> Reading[ChannelView]:
    return Reading(gauge(f"dumpfilter_slave_{name}", help, CHANNEL), read)


def _counter(name: str, help: str, read: Callable[[ChannelView], float]) -> Reading[ChannelView]:
    return Reading(counter(f"dumpfilter_slave_{name}_total", help, CHANNEL), read)


PER_CHANNEL: tuple[Reading[ChannelView], ...] = (
    _gauge(
        "connected",
        "1 while the channel is registered with its master and receives a dump, otherwise 0.",
        lambda view: float(view.channel.io.connected),
    ),
    _gauge(
        "lag_bytes",
        "Bytes of the relay log that the applier has not applied. The relay log ends at the place that the master told "
        "last.",
        lambda view: view.lag_bytes,
    ),
    _gauge(
        "lag_seconds",
        "Time since the server wrote the first event that the slave has received and not applied. It is 0 if the "
        "applier has applied everything.",
        lambda view: view.lag_seconds,
    ),
    _gauge(
        "last_message_timestamp_seconds",
        "Unix time of the newest message from the master, heartbeats included. There is no value before the first one.",
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
        lambda view: view.state.received.source_position,
    ),
    _gauge(
        "applied_file_number",
        "Number of the master's binlog up to which the applier has applied everything.",
        lambda view: _number(view.state.applied.source_file),
    ),
    _gauge(
        "applied_position_bytes",
        "Position in the binlog of dumpfilter_slave_applied_file_number.",
        lambda view: view.state.applied.source_position,
    ),
    _gauge("relay_log_bytes", "Size of all relay log files of the channel.", lambda view: view.relay_bytes),
    _gauge("relay_log_files", "Relay log files of the channel.", lambda view: view.relay_files),
    _counter("connections", "Connections on which a dump began.", lambda view: view.counted.connections),
    _counter(
        "messages_received",
        "Messages of the master's stream, heartbeats included.",
        lambda view: view.counted.chunks,
    ),
    _counter("heartbeats_received", "Heartbeats of the master.", lambda view: view.counted.heartbeats),
    _counter("bytes_received", "Bytes of events received.", lambda view: view.counted.bytes_received),
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
        lambda view: view.channel.measured.applied.events_filtered,
    ),
    _counter(
        "transactions_applied",
        "Transactions that the applier has completed.",
        lambda view: view.channel.measured.applied.transactions,
    ),
)
"""The metrics that each channel has."""

_THREAD = (*CHANNEL, "thread")


@dataclass(frozen=True)
class ThreadView:
    """One of a channel's two threads as a scrape sees it."""

    running: bool
    errors: int
    error_number: int
    error_at: float


PER_THREAD: tuple[Reading[ThreadView], ...] = (
    Reading(
        gauge(
            "dumpfilter_slave_thread_running",
            "1 while a thread of the channel runs, otherwise 0. The I/O thread is io, the applier sql.",
            _THREAD,
        ),
        lambda view: float(view.running),
    ),
    Reading(
        counter(
            "dumpfilter_slave_errors_total",
            "Errors of the thread. Those of the I/O thread include lost connections and failed attempts to connect.",
            _THREAD,
        ),
        lambda view: view.errors,
    ),
    Reading(
        gauge(
            "dumpfilter_slave_last_error_number",
            "The number of the thread's newest error, as in SHOW REPLICA STATUS. It is 0 without an error.",
            _THREAD,
        ),
        lambda view: view.error_number,
    ),
    Reading(
        gauge(
            "dumpfilter_slave_last_error_timestamp_seconds",
            "Unix time of the thread's newest error. There is no value without an error.",
            _THREAD,
        ),
        lambda view: view.error_at or None,
    ),
)
"""The metrics that each of a channel's two threads has."""

METRICS: tuple[Definition, ...] = (
    *(each.definition for each in PER_THREAD),
    *(each.definition for each in PER_CHANNEL),
    RELAY_DELAY,
    APPLY_DELAY,
    SYNC,
)
"""The definitions of all metrics of a slave, in the order of the documentation."""


class SlaveCollector(Collector):
    """A collector that reads a slave's metrics at a scrape. It waits for no statement of the console."""

    def __init__(self, slave: Slave) -> None:
        self._slave = slave

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the slave."""
        channels = [({"channel": one.info.channel}, one) for one in self._slave.channels_now]
        threads = [each for labels, one in channels for each in _threads(labels, one.channel)]
        for per_thread in PER_THREAD:
            yield per_thread.family(threads)
        now = time.time()
        views: list[tuple[Labels, ChannelView]] = [(labels, _view(one, now)) for labels, one in channels]
        for per_channel in PER_CHANNEL:
            yield per_channel.family(views)
        measured = [(labels, one.channel.measured) for labels, one in channels]
        yield family_of(RELAY_DELAY, [(labels, each.relay_delay) for labels, each in measured])
        yield family_of(APPLY_DELAY, [(labels, each.apply_delay) for labels, each in measured])
        yield family_of(SYNC, [({}, SYNC_TIME)])


def _threads(labels: Labels, channel: Channel) -> Iterator[tuple[Labels, ThreadView]]:
    counted = channel.counters.info
    number, _, at = io_error(channel)
    io = ThreadView(channel.io_worker.running, counted.io_errors, number, at)
    yield {**labels, "thread": "io"}, io
    number, _, at = sql_error(channel.sql_worker)
    sql = ThreadView(channel.sql_worker.running, counted.sql_errors, number, at)
    yield {**labels, "thread": "sql"}, sql


def _view(configured: Configured, now: float) -> ChannelView:
    channel = configured.channel
    state = channel.now()
    sizes = relay_log_sizes(configured.directory)
    left = unapplied(sizes, state.applied.relay_position, state.received.relay_position)
    return ChannelView(
        channel,
        state,
        channel.counters.info,
        relay_files=len(sizes),
        relay_bytes=sum(sizes.values()),
        lag_bytes=sum(end - begin for _, begin, end in left),
        lag_seconds=lag_seconds(configured.directory, left, now),
    )


def _number(file: str) -> float | None:
    """Return the number at the end of a binlog's name, or None for a name without a number."""
    number = file.rpartition(".")[2]
    return int(number) if number.isascii() and number.isdigit() else None

"""Facts about a master's slaves, drains, filters, source, calls and caches, each declared once.

The console's tables, the metrics, docs/metrics.md and ``dumpfilter status`` are made from these declarations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dumpfilter.dump import Counts
from dumpfilter.filter import FilterSemantics, ReplicationFilter
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.master.known_slaves import KnownSlave, Presence
from dumpfilter.metrics.facts import Fact, Facts
from dumpfilter.metrics.latency import Latency
from dumpfilter.printable import printable
from dumpfilter.sql.result import ColumnType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dumpfilter.index.lag import BinlogEnd
    from dumpfilter.lint.findings import FilterWarning
    from dumpfilter.master.counters import SlaveCounts
    from dumpfilter.master.drain import Drain
    from dumpfilter.master.imposed import ImposedFilter
    from dumpfilter.master.measurements import CacheState, Measurements
    from dumpfilter.master.register import RegisteredSlave
    from dumpfilter.master.source import SourceThread

LONGEST_LABEL = 64
"""The length at which label values are cut, characters. MySQL's channel and user names are not longer."""

_LONGEST_WARNING = 500
"""The length to which a warning about a filter is cut, characters."""

_INTEGER, _TEXT, _TIME = ColumnType.INTEGER, ColumnType.TEXT, ColumnType.TIMESTAMP


def rule_text(rule_filter: ReplicationFilter) -> str:
    """Return the rules of a filter as one line."""
    return " ".join(map(str, rule_filter.rules))


def semantics_of(rule_filter: ReplicationFilter) -> str:
    """Return the name of the semantics by which a filter decides."""
    effective = isinstance(rule_filter, EffectiveFilter)
    return str(FilterSemantics.EFFECTIVE if effective else FilterSemantics.CLASSIC)


def listed(values: Iterable[object]) -> str:
    """Return values as one text with commas."""
    return ",".join(map(str, values))


class SlaveView(NamedTuple):
    """A slave, and the binlog at the same moment, without which the lag is not known."""

    slave: KnownSlave
    end: BinlogEnd | None = None

    @property
    def lag_bytes(self) -> int | None:
        """The bytes of the binlog that the slave's dump has not reached. None if the file is gone."""
        return None if self.end is None else self.end.lag_bytes(self.slave.place)

    @property
    def lag_seconds(self) -> float | None:
        """The time since the first event was written that the slave's dump has not reached."""
        return None if self.end is None else self.end.lag_seconds(self.slave.place)


def _slave_metric(name: str, help: str, read: str | Callable[[SlaveView], Any]) -> Fact:
    return Fact("", read=read, metric=f"dumpfilter_master_{name}", help=help)


def _slave_count(name: str, help: str) -> Fact:
    return Fact(name, _INTEGER, f"slave.counts.{name}", f"dumpfilter_master_{name}_total", help)


def _registered(
    name: str, type: ColumnType = _TEXT, read: Callable[[RegisteredSlave], Any] | None = None
) -> Fact:
    """Return a fact that only a registered slave has."""

    def value(view: SlaveView) -> Any:
        registered = view.slave.registered
        if registered is None:
            return None
        return getattr(registered, name) if read is None else read(registered)

    return Fact(name, type, value)


SLAVES: Facts[SlaveView] = Facts(
    (
        Fact("server_id", _INTEGER, "slave.server_id"),
        Fact("uuid", _TEXT, "slave.uuid"),
        Fact("host", _TEXT, "slave.host"),
        Fact("port", _INTEGER, "slave.port"),
        Fact("channel", _TEXT, "slave.channel"),
        Fact("user", _TEXT, "slave.user"),
        _registered("filter_version", _INTEGER),
        Fact(
            "dumping",
            _INTEGER,
            lambda view: view.slave.presence is Presence.CONNECTED,
            "dumpfilter_master_slave_dumping",
            "1 while a dump to the slave runs, otherwise 0.",
        ),
        _slave_metric(
            "slave_gone",
            "1 if no dump runs for a slave that the master has served within --keep-slaves or that a [[replica]] "
            "names, otherwise 0. It is 0 for a slave that asked for the end of the binlog and got it.",
            lambda view: view.slave.presence.is_missing,
        ),
        Fact("file", _TEXT, "slave.file"),
        Fact("position", _INTEGER, "slave.position"),
        _slave_count("transactions_read", "Transactions read for the slave."),
        _slave_count("transactions_dropped", "Transactions of which the slave got no event."),
        _slave_count("events_read", "Events read for the slave."),
        _slave_count("events_sent", "Events sent to the slave."),
        _slave_count("events_dropped", "Events that the filter dropped."),
        _slave_count(
            "events_undecided",
            "Events sent because the master could not decide about them. The slave decides about these events.",
        ),
        _slave_count("bytes_read", "Bytes of events read for the slave."),
        _slave_count("bytes_sent", "Bytes of events sent to the slave."),
        Fact("bytes_dropped", _INTEGER, "slave.counts.bytes_dropped"),
        _slave_metric(
            "bytes_dropped_total",
            "Bytes of events that the filter dropped.",
            # A payload that is compressed again can be longer than before, and a counter is never negative.
            lambda view: max(view.slave.counts.bytes_dropped, 0),
        ),
        _slave_count(
            "bytes_gtid",
            "Bytes of the events that a real replica got in place of dropped transactions, so that it has their GTIDs.",
        ),
        _registered("registered_at", _TIME),
        Fact(
            "last_seen_at",
            _TIME,
            "slave.last_seen_at",
            "dumpfilter_master_slave_last_seen_timestamp_seconds",
            "Unix time of the newest chunk, heartbeat or end of a dump for the slave.",
        ),
        _registered("semantics", read=lambda slave: semantics_of(slave.filter)),
        _registered("rules", read=lambda slave: rule_text(slave.filter)),
        _registered("imposed", read=lambda slave: listed(one.name for one in slave.imposed)),
        Fact(
            "lag_bytes",
            _INTEGER,
            "lag_bytes",
            "dumpfilter_master_slave_lag_bytes",
            "Bytes of the binlog, later files included, that the dump to the slave has not reached.",
        ),
        Fact(
            "lag_seconds",
            ColumnType.DOUBLE,
            "lag_seconds",
            "dumpfilter_master_slave_lag_seconds",
            "Time since the server wrote the first event that the dump to the slave has not reached. It is 0 for a "
            "slave that has everything.",
        ),
        _registered("protocol", _INTEGER),
        _registered("program_version"),
        Fact("state", _TEXT, "slave.presence.value"),
        Fact("gone_since", _TEXT, "slave.gone_since"),
        Fact(
            "drained",
            _INTEGER,
            "slave.is_drained",
            "dumpfilter_master_slave_drained",
            "1 while the operator has drained the slave, otherwise 0.",
        ),
        Fact("entry", _TEXT, "slave.entry"),
        Fact("refusal", _TEXT, "slave.refusal"),
    ),
    labels={
        "slave": lambda view: view.slave.uuid or view.slave.entry,
        "server_id": lambda view: str(view.slave.server_id),
        "channel": lambda view: view.slave.channel[:LONGEST_LABEL],
        "user": lambda view: view.slave.user[:LONGEST_LABEL],
    },
)

COUNTERS: Facts[SlaveCounts] = Facts(
    (
        Fact("user", _TEXT, "key.user"),
        Fact("channel", _TEXT, "key.channel"),
        Fact("uuid", _TEXT, "key.uuid"),
        Fact("server_id"),
        Fact("host", _TEXT),
        Fact("dumps"),
        *(Fact(name, _INTEGER, f"counts.{name}") for name in Counts.__slots__),
        Fact("first_seen_at", _TIME),
        Fact("last_seen_at", _TIME),
    )
)


class DrainView(NamedTuple):
    """A drain, and the registered slaves that it concerns."""

    drain: Drain
    slaves: list[RegisteredSlave]


DRAINS: Facts[DrainView] = Facts(
    (
        Fact("drained_by", _TEXT, lambda view: view.drain.who.by[0]),
        Fact("value", _TEXT, lambda view: view.drain.who.by[1]),
        Fact("channel", _TEXT, "drain.who.channel"),
        Fact("reason", _TEXT, "drain.reason"),
        Fact("since", _TIME, "drain.since"),
        Fact("registered", _INTEGER, lambda view: len(view.slaves)),
        Fact("still_dumping", _INTEGER, lambda view: sum(bool(slave.dump) for slave in view.slaves)),
    )
)

WRITE_RULES: Facts[tuple[str, str]] = Facts(
    (Fact("semantics", _TEXT, lambda pair: pair[0]), Fact("rule", _TEXT, lambda pair: pair[1]))
)

IMPOSED: Facts[ImposedFilter] = Facts(
    (
        Fact("name", _TEXT),
        Fact("server_ids", _TEXT, lambda one: listed(sorted(one.server_ids))),
        Fact("users", _TEXT, lambda one: listed(sorted(one.users))),
        Fact("networks", _TEXT, lambda one: listed(one.networks)),
        Fact("semantics", _TEXT, lambda one: semantics_of(one.filter)),
        Fact("rules", _TEXT, lambda one: rule_text(one.filter)),
    )
)


class WarningView(NamedTuple):
    """A warning about the filter of a registered slave."""

    slave: RegisteredSlave
    warning: FilterWarning


FILTER_WARNINGS: Facts[WarningView] = Facts(
    (
        Fact("server_id", _INTEGER, "slave.server_id"),
        Fact("channel", _TEXT, lambda view: printable(view.slave.channel)),
        Fact("user", _TEXT, lambda view: printable(view.slave.user)),
        Fact("uuid", _TEXT, "slave.uuid"),
        Fact("code", _TEXT, "warning.code.label"),
        Fact("rules", _TEXT, lambda view: printable(" ".join(map(str, view.warning.rules)))),
        Fact("warning", _TEXT, lambda view: printable(view.warning.what, _LONGEST_WARNING)),
        Fact("cure", _TEXT, lambda view: printable(view.warning.cure, _LONGEST_WARNING)),
    )
)


SOURCE: Facts[SourceThread] = Facts(
    (
        Fact("address", _TEXT, lambda source: str(source.follower.url)),
        Fact("state", _TEXT),
        Fact(
            "",
            read="is_connected",
            metric="dumpfilter_master_source_connected",
            help="1 while the source sends its binlog, otherwise 0.",
        ),
        Fact("file", _TEXT, "follower.progress.file"),
        Fact("position", _INTEGER, "follower.progress.position"),
        Fact(
            "bytes_received",
            _INTEGER,
            "follower.progress.bytes",
            "dumpfilter_master_source_received_bytes_total",
            "Bytes of events that came from the source.",
        ),
        Fact(
            "connections",
            _INTEGER,
            "follower.connections",
            "dumpfilter_master_source_connections_total",
            "Connections on which the source was asked for events.",
        ),
        Fact(
            "failures",
            _INTEGER,
            "follower.failures",
            "dumpfilter_master_source_failures_total",
            "Attempts to reach the source that failed, and connections that ended with an error.",
        ),
        Fact(
            "last_event_at",
            _TIME,
            lambda source: source.follower.progress.events_at or None,
            "dumpfilter_master_source_last_event_timestamp_seconds",
            "Time at which the last event came from the source.",
        ),
        Fact("last_error", _TEXT, "follower.last_error"),
        Fact("last_error_at", _TIME, lambda source: source.follower.last_error_at or None),
    )
)


class Master(NamedTuple):
    """A master as one scrape sees it."""

    serving: bool
    modified_at: float | None
    """The Unix time of the newest binlog's last write. None if the binlog set cannot be read."""
    end: BinlogEnd
    drains: int
    scanned_bytes: int
    scanned_events: int
    measured: Measurements


def _metric(
    name: str, help: str, read: str | Callable[[Any], Any], type: ColumnType | type[Latency] = _INTEGER
) -> Fact:
    return Fact("", type, read, f"dumpfilter_master_{name}", help)


MASTER: Facts[Master] = Facts(
    (
        _metric("serving", "1 while the gRPC server accepts calls, otherwise 0.", "serving"),
        _metric(
            "binlog_readable",
            "1 if the scrape could open the newest binlog and read from it, otherwise 0.",
            lambda master: master.modified_at is not None,
        ),
        _metric("binlog_files", "Files in the binlog set.", "end.files"),
        _metric("binlog_bytes", "Size of all files in the binlog set.", "end.bytes"),
        _metric(
            "binlog_modified_timestamp_seconds",
            "Unix time of the last write to the newest binlog.",
            "modified_at",
        ),
        _metric("drains", "Drains in force. A drain can concern any number of slaves.", "drains"),
        _metric(
            "send_delay_seconds",
            "Time from the commit of a chunk's first transaction to the moment at which a dump hands the chunk to "
            "gRPC. MySQL 8.0.1 and later tell the commit in microseconds. Of other binlogs the event's time in whole "
            "seconds counts.",
            "measured.send_delay",
            Latency,
        ),
        _metric(
            "plan_seconds",
            "Time in which the master decides which events of a segment it sends, for all dumps that it decides "
            "together.",
            "measured.plan",
            Latency,
        ),
        _metric(
            "encode_seconds",
            "Time in which the master reads the events of a chunk and makes its messages, once for all slaves that get "
            "them.",
            "measured.encode",
            Latency,
        ),
        _metric(
            "scanned_bytes_total",
            "Bytes of the binlog that the master has scanned. All slaves share a scan.",
            "scanned_bytes",
        ),
        _metric("scanned_events_total", "Events that the master has scanned.", "scanned_events"),
    )
)


class Counted(NamedTuple):
    """A number of things of one kind, with the limit of the number where there is one."""

    kind: str
    number: float
    limit: int = 0


STATES: Facts[Counted] = Facts(
    (
        _metric(
            "slaves",
            "Slaves that the master knows, by state, as in the table dumpfilter.slaves of the console.",
            "number",
        ),
    ),
    labels={"state": lambda one: one.kind},
)

CALLS: Facts[Counted] = Facts(
    (
        _metric(
            "calls",
            "Calls under way, by kind. Dumps have the kind dump, watches of gRPC's health service the kind watch. "
            "Connections of the replication port, also those that dump, have the kind replica_connection.",
            "number",
        ),
        _metric("calls_limit", "The most calls of a kind that may be under way.", "limit"),
    ),
    labels={"kind": lambda one: one.kind},
)

FAILED_CALLS: Facts[Counted] = Facts(
    (
        _metric(
            "failed_calls_total",
            "Calls that the master refused, and dumps that ended with an error, by the error's class.",
            "number",
        ),
    ),
    labels={"reason": lambda one: one.kind},
)

CACHES: Facts[tuple[str, CacheState]] = Facts(
    (
        _metric(
            "cache_bytes",
            "Memory of a cache's entries. The cache segments holds scanned parts of binlogs, and the cache chunks has "
            "messages that slaves share. The cache steps, with decisions, is bounded by its number of entries.",
            lambda cache: cache[1].bytes,
        ),
        _metric(
            "cache_limit_bytes",
            "The most memory that a cache's entries may take.",
            lambda cache: cache[1].limit_bytes,
        ),
        _metric("cache_entries", "Entries in a cache.", lambda cache: cache[1].entries),
        _metric(
            "cache_hits_total", "Look-ups that found their entry in the cache.", lambda cache: cache[1].hits
        ),
        _metric(
            "cache_misses_total",
            "Look-ups that did not find their entry in the cache, so that the master made the entry anew.",
            lambda cache: cache[1].misses,
        ),
    ),
    labels={"cache": lambda cache: cache[0]},
)

METRICS = (MASTER, STATES, CALLS, FAILED_CALLS, SLAVES, CACHES)
"""The facts that are metrics of each master, in the order of docs/metrics.md."""

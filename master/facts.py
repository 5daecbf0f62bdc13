"""The columns and metrics of a master's slaves, drains (orders to send slaves away), filters and source (the followed
server). Each is declared once.

The console's tables, the metrics, docs/metrics.md and ``dumpfilter status`` are made from these declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from dumpfilter.analyse.lint.findings import FilterWarning
from dumpfilter.base.printable import printable
from dumpfilter.console.facts import Fact, Facts, column, metric
from dumpfilter.console.sql.result import ColumnType
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.index.lag import BinlogEnd
from dumpfilter.master.config import Drift, ImposedFilter, OnDrift, ReplicaEntry
from dumpfilter.master.register import KnownSlave, Presence, RegisteredSlave
from dumpfilter.master.who import Drain

LONGEST_LABEL = 64
"""The length to which label values of metrics are cut, characters. MySQL's channel and user names are not longer."""

_LONGEST_WARNING = 500
"""The length to which a warning about a filter is cut, characters."""

PREFIX = "dumpfilter_master_"
"""The prefix of the names of all of a master's Prometheus metrics."""

_INTEGER, _TEXT, _TIME = ColumnType.INTEGER, ColumnType.TEXT, ColumnType.TIMESTAMP


def rule_text(rule_filter: ReplicationFilter) -> str:
    """Return the rules of a filter as one line of text, separated by spaces."""
    return " ".join(map(str, rule_filter.rules))


def semantics_of(rule_filter: ReplicationFilter) -> str:
    """Return the name of the semantics by which a filter decides, ``effective`` or ``classic``.

    Effective rules (WL#2516) decide by the tables that a statement changes. Classic rules decide as a MySQL or MariaDB
    server does.
    """
    effective = isinstance(rule_filter, EffectiveFilter)
    return str(FilterSemantics.EFFECTIVE if effective else FilterSemantics.CLASSIC)


def listed(values: Iterable[object]) -> str:
    """Return the values as one text, separated by commas, for a column of a console table."""
    return ",".join(map(str, values))


class SlaveView(NamedTuple):
    """A slave, and the end of the binlog at the time of a query. From the two, the columns of the slave's row in a
    console table are computed.
    """

    slave: KnownSlave
    end: BinlogEnd


def _registered(read: Callable[[RegisteredSlave], Any], type: ColumnType = _TEXT) -> Fact:
    """Return the declaration of a column whose value ``read`` takes from a slave's registration. The value is NULL for
    a slave that is not registered.
    """

    def value(view: SlaveView) -> Any:
        return None if view.slave.registered is None else read(view.slave.registered)

    return column(value, type)


def _count(name: str) -> Fact:
    return column(f"slave.counts.{name}", metric=f"{name}_total")


class Slaves(
    Facts[SlaveView],
    prefix=PREFIX,
    labels={
        "slave": lambda view: view.slave.peer.uuid or view.slave.entry,
        "server_id": lambda view: str(view.slave.peer.server_id),
        "channel": lambda view: view.slave.peer.channel[:LONGEST_LABEL],
        "user": lambda view: view.slave.peer.user[:LONGEST_LABEL],
    },
):
    """The columns of the console table ``dumpfilter.slaves`` (one row for each slave), and the metrics of a master's
    slaves.
    """

    server_id = column("slave.peer.server_id")
    uuid = column("slave.peer.uuid", _TEXT)
    host = column("slave.peer.host", _TEXT)
    port = column("slave.peer.port")
    channel = column("slave.peer.channel", _TEXT)
    user = column("slave.peer.user", _TEXT)
    filter_version = _registered(attrgetter("filter_version"), _INTEGER)
    dumping = column(lambda view: view.slave.presence is Presence.CONNECTED, metric="slave_dumping")
    """1 while a dump to the slave runs."""
    slave_gone = metric("slave.presence.is_missing")
    """1 if no dump runs for a slave that was served or refused within --keep-slaves, or that a [[replica]] table of
    the configuration names. It is 1 for a drained slave (sent away), too, and 0 for one that read up to the end and
    left."""
    file = column("slave.file", _TEXT)
    position = column("slave.position")
    transactions_read = _count("transactions_read")
    """Transactions read for the slave."""
    transactions_dropped = _count("transactions_dropped")
    """Transactions of which the slave got no event."""
    events_read = _count("events_read")
    """Events read for the slave."""
    events_sent = _count("events_sent")
    """Events sent to the slave."""
    events_dropped = _count("events_dropped")
    """Events that the filter dropped."""
    events_undecided = _count("events_undecided")
    """Events sent because only the slave can tell whether its filter drops them."""
    bytes_read = _count("bytes_read")
    """Bytes of events read for the slave."""
    bytes_sent = _count("bytes_sent")
    """Bytes of events sent to the slave."""
    bytes_dropped = column("slave.counts.bytes_dropped")
    # A payload that is compressed again can be longer than before, and a counter is never negative.
    bytes_dropped_total = metric(lambda view: max(view.slave.counts.bytes_dropped, 0))
    """Bytes of events that the filter dropped."""
    bytes_gtid = _count("bytes_gtid")
    """Bytes of the empty transactions that a real replica got in place of dropped ones."""
    registered_at = _registered(attrgetter("registered_at"), _TIME)
    last_seen_at = column(
        lambda view: view.slave.last_seen_at or None, _TIME, metric="slave_last_seen_timestamp_seconds"
    )
    """Unix time of the newest message with events, heartbeat or end of a dump for the slave."""
    semantics = _registered(lambda slave: semantics_of(slave.filter))
    rules = _registered(lambda slave: rule_text(slave.filter))
    imposed = _registered(lambda slave: listed(one.name for one in slave.imposed))
    lag_bytes = column(lambda view: view.end.lag_bytes(view.slave.place), metric="slave_lag_bytes")
    """Bytes of the binlog that the dump has not reached, over all files."""
    lag_seconds = column(
        lambda view: view.end.lag_seconds(view.slave.place), ColumnType.DOUBLE, metric="slave_lag_seconds"
    )
    """Time since the server wrote the first event that the dump has not reached."""
    protocol = _registered(attrgetter("peer.protocol"), _INTEGER)
    program_version = _registered(attrgetter("peer.program_version"))
    state = column("slave.presence.value", _TEXT)
    gone_since = column("slave.gone_since", _TEXT)
    drained = column("slave.is_drained", metric="slave_drained")
    """1 while the operator has drained the slave (sent it away)."""
    entry = column("slave.entry", _TEXT)
    refusal = column("slave.refusal", _TEXT)


class DrainView(NamedTuple):
    """The data of one row of a console table: a drain (the operator's order to send slaves away), with the registered
    slaves that the drain's conditions select.
    """

    drain: Drain
    slaves: list[RegisteredSlave]


class Drains(Facts[DrainView]):
    """The columns of the console table ``dumpfilter.drains``, with one row for each drain (the operator's order to send
    slaves away).
    """

    drained_by = column(lambda view: view.drain.who.by[0], _TEXT)
    value = column(lambda view: view.drain.who.by[1], _TEXT)
    channel = column("drain.who.channel", _TEXT)
    reason = column("drain.reason", _TEXT)
    since = column("drain.since", _TIME)
    registered = column(lambda view: len(view.slaves))
    still_dumping = column(lambda view: sum(bool(slave.dump) for slave in view.slaves))


class WriteRules(Facts[tuple[str, str]]):
    """The columns of the console table ``dumpfilter.write_rules``, with one row for each rule like ``--binlog-do-db``
    that the master applies to the binlog.

    A row is made from a pair of texts: the name of the rules' semantics, and the rule. With ``server`` and ``worklog``
    the rules are ``--binlog-do-db`` and ``--binlog-ignore-db``. The two differ for statements without a default
    database. With ``effective`` the rules decide by the database and table that an event changes
    (:class:`~dumpfilter.filter.rules.WriteSemantics`).
    """

    semantics = column(itemgetter(0), _TEXT)
    rule = column(itemgetter(1), _TEXT)


class ImposedFilters(Facts[ImposedFilter]):
    """The columns of the console table ``dumpfilter.imposed_filters``, with one row for each filter that the master's
    operator imposes on slaves.
    """

    name = column(type=_TEXT)
    server_ids = column(lambda one: listed(sorted(one.server_ids)), _TEXT)
    users = column(lambda one: listed(sorted(one.users)), _TEXT)
    networks = column(lambda one: listed(one.networks), _TEXT)
    semantics = column(lambda one: semantics_of(one.filter), _TEXT)
    rules = column(lambda one: rule_text(one.filter), _TEXT)


class EntryView(NamedTuple):
    """The data of one row of a console table: a ``[[replica]]`` table of the master's configuration file, and the
    registered replicas that the table's conditions select. The ``[[replica]]`` table has the filter rules now in force.

    ``changed_at`` is the Unix time at which an operator changed the rules on the console; None if the rules are those
    of the file.
    """

    entry: ReplicaEntry
    changed_at: float | None
    slaves: list[RegisteredSlave]

    @property
    def origin(self) -> str:
        """The origin of the filter: ``configuration`` (the file), ``console`` (the statement CHANGE REPLICATION
        FILTER), or ``replica`` (the master uses the replica's own filter).
        """
        if self.changed_at is not None:
            return "console"
        return "replica" if self.entry.adopt else "configuration"

    @property
    def on_drift(self) -> str | None:
        """The action when the replica's own filter would apply events that the master drops (drift): ``warn`` or
        ``refuse``. None if the master does not compare the two filters.
        """
        compares = self.entry.connect is not None and not self.entry.adopt
        return str(self.entry.on_drift or OnDrift.WARN) if compares else None


class ReplicaFilters(Facts[EntryView]):
    """The columns of the console table ``dumpfilter.replica_filters``, with one row for each ``[[replica]]`` table of
    the configuration file.
    """

    entry = column("entry.key", _TEXT)
    user = column("entry.user", _TEXT)
    channel = column("entry.channel", _TEXT)
    server_ids = column(lambda view: listed(sorted(view.entry.server_ids)), _TEXT)
    networks = column(lambda view: listed(view.entry.networks), _TEXT)
    origin = column(type=_TEXT)
    semantics = column(lambda view: str(view.entry.semantics), _TEXT)
    rules = column(lambda view: view.entry.filter and rule_text(view.entry.filter), _TEXT)
    changed_at = column(type=_TIME)
    own_filter_read = column(lambda view: view.entry.connect is not None)
    on_drift = column(type=_TEXT)
    registered = column(lambda view: len(view.slaves))
    dumping = column(lambda view: sum(bool(slave.dump) for slave in view.slaves))


class ReplicaDrift(Facts[Drift]):
    """The columns of the console table ``dumpfilter.replica_drift``. A row is a warning about a replica whose own
    filter would apply events that the master drops for it, or could not be compared with the master's filter.
    """

    user = column("peer.user", _TEXT)
    channel = column("peer.channel", _TEXT)
    server_id = column("peer.server_id")
    uuid = column("peer.uuid", _TEXT)
    address = column(lambda told: str(told.peer.address), _TEXT)
    refused = column("is_refused")
    since = column(type=_TIME)
    reason = column("text", _TEXT)


class WarningView(NamedTuple):
    """The data of one row of a console table: a warning about the filter of a registered slave, with the slave."""

    slave: RegisteredSlave
    warning: FilterWarning


class FilterWarnings(Facts[WarningView]):
    """The columns of the console table ``dumpfilter.filter_warnings``, with one row for each warning about suspicious
    rules in a slave's filter.
    """

    server_id = column("slave.peer.server_id")
    channel = column(lambda view: printable(view.slave.peer.channel), _TEXT)
    user = column(lambda view: printable(view.slave.peer.user), _TEXT)
    uuid = column("slave.peer.uuid", _TEXT)
    code = column("warning.code.value", _TEXT)
    rules = column(lambda view: printable(" ".join(map(str, view.warning.rules))), _TEXT)
    warning = column(lambda view: printable(view.warning.what, _LONGEST_WARNING), _TEXT)
    cure = column(lambda view: printable(view.warning.cure, _LONGEST_WARNING), _TEXT)


class Source(Facts[Any], prefix=f"{PREFIX}source_"):
    """The columns of the console table ``dumpfilter.source``, and the metrics of the thread that follows a running
    server (:class:`~dumpfilter.master.source.SourceThread`).
    """

    address = column(lambda source: str(source.url), _TEXT)
    state = column(type=_TEXT)
    connected = metric("is_connected")
    """1 while the source sends its binlog."""
    file = column("progress.file", _TEXT)
    position = column("progress.position")
    bytes_received = column("progress.bytes", metric="received_bytes_total")
    """Bytes of events that came from the source."""
    connections = column("connections", metric="connections_total")
    """Connections on which the source was asked for events."""
    failures = column("failures", metric="failures_total")
    """Failed attempts to reach the source, and connections that ended with an error."""
    last_event_at = column(
        lambda source: source.progress.events_at or None,
        _TIME,
        metric="last_event_timestamp_seconds",
    )
    """Time at which the last event came from the source."""
    last_error = column("last_error", _TEXT)
    last_error_at = column(lambda source: source.last_error_at or None, _TIME)

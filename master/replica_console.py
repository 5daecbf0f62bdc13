"""The statement and the tables of the master's console about the filters of real replicas."""

from __future__ import annotations

from typing import NamedTuple

from dumpfilter.base.errors import OptionError
from dumpfilter.console.metrics.facts import Facts, column, declared
from dumpfilter.console.sql import commands as C
from dumpfilter.console.sql.result import ColumnType, Note, Result
from dumpfilter.console.sql.server_errors import ER_UNKNOWN_ERROR
from dumpfilter.master.facts import listed, rule_text
from dumpfilter.master.register import RegisteredSlave
from dumpfilter.master.replica_entry import OnDrift, ReplicaEntry
from dumpfilter.master.replicas.control import ReplicaControl
from dumpfilter.master.replicas.filters import Drift

_TEXT, _TIME = ColumnType.TEXT, ColumnType.TIMESTAMP


class EntryView(NamedTuple):
    """A ``[[replica]]`` of the configuration, and the filter and replicas that it has now."""

    entry: ReplicaEntry
    changed_at: float | None
    slaves: list[RegisteredSlave]

    @property
    def origin(self) -> str:
        """The place from which the filter comes."""
        if self.changed_at is not None:
            return "console"
        return "replica" if self.entry.adopt else "configuration"

    @property
    def on_drift(self) -> str | None:
        """The fate of a replica with drift. None if the master cannot see drift."""
        return (
            None
            if self.entry.adopt or self.entry.connect is None
            else str(self.entry.on_drift or OnDrift.WARN)
        )


class _EntryFacts:
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


class _DriftFacts:
    user = column("peer.user", _TEXT)
    channel = column("peer.channel", _TEXT)
    server_id = column("peer.server_id")
    uuid = column("peer.uuid", _TEXT)
    address = column(lambda told: str(told.peer.address), _TEXT)
    refused = column("is_refused")
    since = column(type=_TIME)
    reason = column("text", _TEXT)


REPLICA_FILTERS: Facts[EntryView] = Facts(declared(_EntryFacts, ""))
DRIFT: Facts[Drift] = Facts(declared(_DriftFacts, ""))

_LONGEST_NOTE = 512
"""The longest text of a warning in the servers' protocol, characters."""


def change_replica_filter(control: ReplicaControl | None, command: C.ChangeReplicaFilter) -> Result:
    """Carry out ``CHANGE REPLICATION FILTER … FOR REPLICA 'user'``. Raises SqlError."""
    if control is None:
        raise ER_UNKNOWN_ERROR("This master has no real replicas: it was started without --replica-port")
    try:
        entry = control.choose(command.user, channel=command.channel, server_id=command.server_id)
        slaves, warnings = control.change(entry, command.clauses)
    except OptionError as error:
        raise ER_UNKNOWN_ERROR(str(error)) from None
    return Result(
        affected=len(slaves), notes=[Note("Warning", 1105, text[:_LONGEST_NOTE]) for text in warnings]
    )


def entry_views(control: ReplicaControl) -> list[EntryView]:
    """Return each ``[[replica]]`` of the configuration with its filter and its replicas."""
    changed = {one.who: one.changed_at for one in control.filters.changes}
    return [
        EntryView(entry, changed.get(entry.who), control.replicas_of(entry))
        for entry in control.filters.entries
    ]

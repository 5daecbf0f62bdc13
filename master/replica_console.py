"""The statements and tables of the master's console about the filters of real replicas."""

from __future__ import annotations

from datetime import UTC, datetime

from dumpfilter.errors import OptionError
from dumpfilter.filter.compare import Beyond
from dumpfilter.master.replica_entry import ReplicaEntry
from dumpfilter.master.replicas.changes import Scope
from dumpfilter.master.replicas.control import Changed, ReplicaControl, widening
from dumpfilter.printable import printable
from dumpfilter.sql import commands as C
from dumpfilter.sql.result import Column, ColumnType, Note, Result
from dumpfilter.sql.server_errors import ER_UNKNOWN_ERROR

_INTEGER = ColumnType.INTEGER

REPLICA_FILTERS = (
    Column("entry"),
    Column("user"),
    Column("channel"),
    Column("server_ids"),
    Column("networks"),
    Column("origin"),
    Column("semantics"),
    Column("rules"),
    Column("changed_at", ColumnType.TIMESTAMP),
    Column("own_filter_read", _INTEGER),
    Column("on_drift"),
    Column("registered", _INTEGER),
    Column("dumping", _INTEGER),
)
"""The columns of the table ``dumpfilter.replica_filters``."""

REPLICA_DRIFT = (
    Column("user"),
    Column("channel"),
    Column("server_id", _INTEGER),
    Column("uuid"),
    Column("address"),
    Column("refused", _INTEGER),
    Column("since", ColumnType.TIMESTAMP),
    Column("reason"),
)
"""The columns of the table ``dumpfilter.replica_drift``."""

_LONGEST_NOTE = 512
"""The longest text of a warning in the servers' protocol, characters."""


def change_replica_filter(control: ReplicaControl | None, command: C.ChangeReplicaFilter) -> Result:
    """Carry out ``CHANGE REPLICATION FILTER … FOR REPLICA 'user'``. Raises SqlError."""
    if control is None:
        raise ER_UNKNOWN_ERROR("This master has no real replicas: it was started without --replica-port")
    try:
        entry = control.choose(command.user, channel=command.channel, server_id=command.server_id)
        changed = control.change(entry, command.clauses)
    except OptionError as error:
        raise ER_UNKNOWN_ERROR(str(error)) from None
    notes = [_warning(text) for text in _warnings(control, changed)]
    return Result(affected=len(changed.slaves), notes=notes)


def _warnings(control: ReplicaControl, changed: Changed) -> list[str]:
    texts = []
    if changed.widens is not Beyond.NOTHING:
        dumping = [slave for slave in changed.slaves if slave.file]
        for slave in dumping:
            told = widening(changed.old, changed.new, slave)
            texts.append(f"server id {slave.server_id}, channel {printable(slave.channel)!r}: {told}")
        if not dumping:
            texts.append(
                "the new filter passes events that the old one dropped. They do not come back to replicas that have "
                "received or executed their GTIDs; such a replica needs a new copy of these tables (docs/filters.md)"
            )
    if changed.entry.connect is None:
        texts.append("the replica's own filter stays as it is: change it, too, on the replica")
    if not control.filters.changes.on_change:
        texts.append("the change ends with this master, which was started without --state-dir")
    return texts


def _warning(text: str) -> Note:
    return Note("Warning", 1105, text[:_LONGEST_NOTE])


def replica_filter_rows(control: ReplicaControl | None) -> list[list[object]]:
    """Return the rows of the table ``dumpfilter.replica_filters``, one for each ``[[replica]]``."""
    if control is None:
        return []
    changed = {one.scope: one.changed_at for one in control.filters.changes.all()}
    return [_row(control, entry, changed.get(Scope.of(entry))) for entry in control.filters.entries]


def _row(control: ReplicaControl, entry: ReplicaEntry, changed_at: float | None) -> list[object]:
    used = control.filters.used(entry)
    slaves = control.replicas_of(entry)
    if changed_at is not None:
        origin = "console"
    else:
        origin = "replica" if entry.adopts else "configuration"
    return [
        entry.key,
        entry.user,
        entry.channel,
        ",".join(map(str, sorted(entry.server_ids))),
        ",".join(map(str, entry.networks)),
        origin,
        str(entry.semantics),
        None if used is None else " ".join(map(str, used.rules)),
        None if changed_at is None else datetime.fromtimestamp(changed_at, UTC),
        int(entry.connect is not None),
        None if entry.adopts or entry.connect is None else str(entry.on_drift),
        len(slaves),
        sum(bool(slave.dump) for slave in slaves),
    ]


def replica_drift_rows(control: ReplicaControl | None) -> list[list[object]]:
    """Return the rows of the table ``dumpfilter.replica_drift``, one for each replica with drift at the last look."""
    if control is None:
        return []
    return [
        [
            told.peer.user,
            told.peer.channel,
            told.peer.server_id,
            told.peer.uuid,
            str(told.peer.address),
            int(told.is_refused),
            datetime.fromtimestamp(told.since, UTC),
            told.text,
        ]
        for told in control.filters.drifting()
    ]

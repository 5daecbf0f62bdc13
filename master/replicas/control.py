"""Changes of the filters of real replicas while they receive events. They come from the console or from the
configuration file.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from dumpfilter.base.errors import DumpfilterError, OptionError
from dumpfilter.base.printable import printable
from dumpfilter.filter import ReplicationFilter
from dumpfilter.filter.compare import Beyond, passes_beyond
from dumpfilter.filter.rules import FilterClause
from dumpfilter.master.limits import Overloaded
from dumpfilter.master.register import NotRegistered, Register, RegisteredSlave, Unregistered
from dumpfilter.master.replica_entry import ReplicaEntry
from dumpfilter.master.replicas.filters import ReplicaFilters, same_filters
from dumpfilter.master.who import Who, audit_slave

log = structlog.get_logger("dumpfilter.master")


class ReplicaControl:
    """Changes the filters of real replicas. Running dumps apply the new filter at their next transaction boundary."""

    def __init__(self, filters: ReplicaFilters, register: Register) -> None:
        self.filters = filters
        self._register = register

    def choose(self, user: str, *, channel: str | None = None, server_id: int | None = None) -> ReplicaEntry:
        """Return the ``[[replica]]`` table of ``user`` that a console statement names.

        ``channel`` and ``server_id`` select among several tables; None selects any. Raises OptionError when no table or
        several tables match.
        """
        mine = [entry for entry in self.filters.entries if entry.user == user]
        if not mine:
            raise OptionError(f"there is no [[replica]] of user {printable(user)!r} in the configuration")
        found = [
            entry
            for entry in mine
            if channel in (None, entry.channel) and (server_id is None or server_id in entry.server_ids)
        ]
        if len(found) == 1:
            return found[0]
        listed = "; ".join(f"{entry.key} for {entry.conditions}" for entry in mine)
        raise OptionError(
            f"user {printable(user)!r} has {'several' if found else 'no'} [[replica]] with these conditions: name "
            f"the channel or a server id of one as the configuration does ({printable(listed)})"
        )

    def change(
        self, entry: ReplicaEntry, clauses: Sequence[FilterClause]
    ) -> tuple[list[RegisteredSlave], list[str]]:
        """Replace rules in the filter of a ``[[replica]]`` table, also in the running dumps of its replicas.

        For each kind of rule, the last clause replaces all rules of that kind, as in CHANGE REPLICATION FILTER. Return
        the registered replicas of the table, and warnings for the operator. Raises OptionError, for example for a table
        that adopts the replica's own filter.
        """
        old = entry.filter
        if old is None:
            raise OptionError(
                f"{entry.key} adopts the filter that the replica itself has: say CHANGE REPLICATION FILTER on the "
                "replica, and let it reconnect"
            )
        rules = list(old.rules)
        for clause in clauses:
            rules = [rule for rule in rules if rule.kind is not clause.kind] + list(clause.rules)
        entry = self.filters.change(entry, rules)
        new = entry.filter
        assert new is not None
        slaves = self.replicas_of(entry)
        for slave in slaves:
            self._change(slave, new)
        warnings: list[str] = []
        if passes_beyond(new, old).beyond is not Beyond.NOTHING:
            dumping = [slave for slave in slaves if slave.file]
            warnings += [
                f"server id {slave.peer.server_id}, channel {printable(slave.peer.channel)!r}: "
                + _widening(old, new, slave)
                for slave in dumping
            ]
            if not dumping:
                warnings.append(
                    "the new filter passes events that the old one dropped. They do not come back to replicas that "
                    "have received or executed their GTIDs; such a replica needs a new copy of these tables "
                    "(docs/filters.md)"
                )
        if entry.connect is None:
            warnings.append("the replica's own filter stays as it is: change it, too, on the replica")
        if not self.filters.on_change:
            warnings.append("the change ends with this master, which was started without --state-dir")
        return slaves, warnings

    def take_over(self, entries: Sequence[ReplicaEntry]) -> None:
        """Put the ``[[replica]]`` tables of a configuration that was read again into force, also in running dumps.

        A dump ends if the replica's user is gone or has another password. It also ends if the table's ``adopt`` has
        changed, or the connection by which the master adopts the replica's own filter.
        """
        before = {
            slave.slave_id: self.entry_of(slave)
            for slave in self._register.all()
            if slave.peer.is_real_replica
        }
        self.filters.replace(entries)

        def reason(slave: RegisteredSlave) -> DumpfilterError | None:
            if slave.slave_id not in before:
                return None
            old, new = before[slave.slave_id], self.entry_of(slave)
            if old is not None and new is not None and _login_facts(old) == _login_facts(new):
                return None
            return Unregistered(
                f"the master's configuration has changed for user {printable(slave.peer.user)!r}: connect again"
            )

        for slave in self._register.remove_all(reason):
            self._note("end of the registration", slave, str(slave.ended_by))
        for slave in self._register.all():
            entry = self.entry_of(slave) if slave.slave_id in before else None
            used = None if entry is None else entry.filter
            if used is None or same_filters(used, slave.filter):
                continue
            old_filter = slave.filter
            self._change(slave, used)
            self._note("change of filter", slave, "ok", _widening(old_filter, used, slave))

    def _change(self, slave: RegisteredSlave, new: ReplicationFilter) -> None:
        """Change the filter of a registered replica. If the filter takes too much memory, end the replica's
        registration and dump instead.
        """
        try:
            self._register.change_filter(slave.slave_id, new)
        except NotRegistered:
            log.debug("the replica left before its filter changed", server_id=slave.peer.server_id)
        except Overloaded as error:
            failed = error
            self._register.remove_all(lambda one: failed if one.slave_id == slave.slave_id else None)

    def replicas(self) -> dict[Who, list[RegisteredSlave]]:
        """Return the registered replicas by the condition of the ``[[replica]]`` table that their filter comes from."""
        found: dict[Who, list[RegisteredSlave]] = {}
        for slave in self._register.all():
            entry = self.entry_of(slave)
            if entry is not None:
                found.setdefault(entry.who, []).append(slave)
        return found

    def replicas_of(self, entry: ReplicaEntry) -> list[RegisteredSlave]:
        """Return the registered replicas whose filter comes from this ``[[replica]]`` table."""
        return self.replicas().get(entry.who, [])

    def entry_of(self, slave: RegisteredSlave) -> ReplicaEntry | None:
        """Return the ``[[replica]]`` table that a replica's filter comes from. Return None for a dumpfilter slave, and
        for a replica that no table matches.
        """
        if not slave.peer.is_real_replica:
            return None
        return self.filters.find(slave.peer)

    def _note(self, what: str, slave: RegisteredSlave, result: str, warning: str = "") -> None:
        """Write a change that concerns a replica to the audit log and to the ordinary log.

        ``what`` is the action, and ``result`` its outcome. A ``warning`` that is not empty replaces the result, and the
        ordinary log gets it as a warning.
        """
        audit_slave(what, slave.peer, slave.peer.endpoint, warning or result)
        (log.warning if warning else log.info)(
            f"replica: {what}",
            **slave.peer.fields,
            result=printable(warning or result),
            rules=printable(" ".join(map(str, slave.filter.rules))),
        )


def _login_facts(entry: ReplicaEntry) -> tuple[object, ...]:
    """Return the values of a ``[[replica]]`` table whose change forces the replica to connect again."""
    return entry.stored, entry.adopt, entry.connect if entry.adopt else None


def _widening(old: ReplicationFilter, new: ReplicationFilter, slave: RegisteredSlave) -> str:
    """Return a warning text if ``new`` may send events that ``old`` dropped, or an empty text."""
    wider = passes_beyond(new, old)
    if wider.beyond is Beyond.NOTHING:
        return ""
    what = wider.example if wider.beyond is Beyond.SOMETHING else "events that the old one dropped"
    return (
        f"the new filter passes {printable(what)} from {printable(slave.file)}:{slave.position} on; what the old one "
        "dropped before does not come back, and the replica needs a new copy of these tables (docs/filters.md)"
    )

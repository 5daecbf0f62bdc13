"""The choice of each real replica's filter from the ``[[replica]]`` tables of the master's configuration."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import structlog

from dumpfilter.base.errors import DumpfilterError, OptionError
from dumpfilter.base.printable import printable
from dumpfilter.base.recent import Recent
from dumpfilter.base.security.passwords import ConsolePassword
from dumpfilter.filter import FilterSemantics, ReplicationFilter
from dumpfilter.filter.compare import Beyond, passes_beyond
from dumpfilter.master.replica_entry import ConnectBack, Drift, OnDrift, ReplicaEntry, first_fitting
from dumpfilter.master.replicas.own_filter import FilterUnreadable, OwnFilter, read_own_filter
from dumpfilter.master.who import Peer, Who, audit_slave

log = structlog.get_logger("dumpfilter.master")

_Replica = tuple[str, str, int, str]
"""User, channel, server id and UUID of a replica."""

_LONGEST_EXAMPLE = 120

_MOST_REMEMBERED = 10_000
"""The largest number of replicas for which the master remembers the last warning, or the last adopted filter."""

ReadFilter = Callable[[ConnectBack, Peer], OwnFilter]


class ReplicaRefused(DumpfilterError):
    """The error for a replica that the master does not serve. The text says what the operator must do."""

    grpc_code = "FAILED_PRECONDITION"

    def __init__(self, text: str, *, momentary: bool = False) -> None:
        super().__init__(text)
        self.momentary = momentary
        """Whether the replica should try again without help.

        A replica stops at error 1236. At any other error it logs the text and reconnects.
        """


@dataclass(frozen=True)
class ChosenFilter:
    """The filter by which the master decides which events a replica gets, and the configuration table that it comes
    from.
    """

    entry: ReplicaEntry
    """The table of the configuration that the filter comes from."""
    filter: ReplicationFilter


@dataclass(frozen=True)
class ChangedFilter:
    """A change of the rules of one ``[[replica]]`` table that an operator made on the console."""

    who: Who
    """The condition of the changed table, by which the table is found again after the file has changed."""
    semantics: FilterSemantics
    rules: tuple[str, ...]
    in_place_of: tuple[str, ...]
    """The rules of the file at the time of the change. If the file has other rules later, the change ends."""
    changed_at: float

    def applied(self, entry: ReplicaEntry | None) -> ReplicaEntry | None:
        """Return a copy of ``entry``, the table in the configuration file, with the changed rules. Return None if the
        table is gone, or if its rules in the file are no longer those that were changed.
        """
        if entry is None or self.semantics is not entry.semantics or self.in_place_of != _rules(entry):
            return None
        try:
            return entry.with_rules(self.rules)
        except OptionError:
            return None


def _rules(entry: ReplicaEntry) -> tuple[str, ...] | None:
    return None if entry.filter is None else tuple(map(str, entry.filter.rules))


class ReplicaFilters:
    """The passwords and filters of real replicas, from the ``[[replica]]`` tables of the configuration. Thread-safe.

    ``read`` is the function that connects to a replica and reads the replica's own filter.
    """

    def __init__(self, entries: Sequence[ReplicaEntry] = (), *, read: ReadFilter = read_own_filter) -> None:
        self._lock = threading.Lock()
        self._read = read
        self._file = {entry.who: entry for entry in entries}
        """The tables as they are in the configuration file, by their conditions."""
        self.changes: tuple[ChangedFilter, ...] = ()
        """The changes that operators made on the console, in the order in which they were made."""
        self.entries = tuple(entries)
        """The ``[[replica]]`` tables in force, in the order of the file, with the rules that operators changed."""
        self.on_change: list[Callable[[], None]] = []
        """Functions that are called after each change of :attr:`changes`, to save the changes."""
        self._drifts: Recent[_Replica, Drift] = Recent(_MOST_REMEMBERED)
        """The last warning about each replica whose own filter is wider than the master's (drift)."""
        self._adopted: Recent[_Replica, ReplicationFilter] = Recent(_MOST_REMEMBERED)
        """The own filter of each replica when the master adopted it last."""

    def replace(self, entries: Sequence[ReplicaEntry]) -> None:
        """Put the tables of a configuration that was read again into force.

        A filter that was changed on the console stays, unless the file now has other rules than at the time of the
        change.
        """
        with self._lock:
            self._file = {entry.who: entry for entry in entries}
            is_dropped = self._use(self.changes)
        if is_dropped:
            self._tell()

    def restore(self, saved: Iterable[ChangedFilter]) -> None:
        """Apply the changes that operators made on the console in the master's last run. A change whose table is gone
        or has other rules is dropped.
        """
        with self._lock:
            self._use(saved)

    def change(self, entry: ReplicaEntry, rules: Iterable[object]) -> ReplicaEntry:
        """Change the rules of a ``[[replica]]`` table, and return the table with the new rules. Raises OptionError for
        a rule that is not valid.

        If ``rules`` equal those of the configuration file, the table counts as unchanged again.
        """
        changed = entry.with_rules(map(str, rules))
        with self._lock:
            own, new = _rules(self._file.get(entry.who, entry)) or (), _rules(changed) or ()
            kept = [one for one in self.changes if one.who != entry.who]
            if new != own:
                kept.append(ChangedFilter(entry.who, entry.semantics, new, own, time.time()))
            self._use(kept)
        self._tell()
        return changed

    def _use(self, changes: Iterable[ChangedFilter]) -> bool:
        """Put the file's tables into force with these changes. Return whether a change was dropped, because its table
        is gone or has other rules in the file.
        """
        applied = [(changed, changed.applied(self._file.get(changed.who))) for changed in changes]
        self.changes = tuple(changed for changed, entry in applied if entry is not None)
        in_force = {entry.who: entry for _, entry in applied if entry is not None}
        self.entries = tuple(in_force.get(who, entry) for who, entry in self._file.items())
        for changed, entry in applied:
            if entry is None:
                log.info(
                    "the configuration replaces a filter that was changed on the console",
                    user=printable(changed.who.by[1]),
                    rules=printable(" ".join(changed.rules)),
                )
        return len(self.changes) < len(applied)

    def _tell(self) -> None:
        for tell in self.on_change:
            tell()

    def accounts(self) -> dict[str, ConsolePassword]:
        """Return the stored password of each user that replicas may log in as, by user name."""
        return {entry.user: entry.stored for entry in self.entries}

    def find(self, peer: Peer) -> ReplicaEntry | None:
        """Return the first table whose conditions a replica meets, or None if it meets those of no table."""
        return first_fitting(self.entries, peer)

    def asks(self, peer: Peer) -> bool:
        """Tell whether :meth:`filter_for` may connect to the replica ``peer``, and so may take seconds."""
        entry = self.find(peer)
        return entry is not None and entry.connect is not None

    def filter_for(self, peer: Peer) -> ChosenFilter:
        """Return the filter for a replica that asks for a dump. The call may connect to the replica, and may take
        seconds.

        Raises ReplicaRefused if the replica meets no ``[[replica]]`` table's conditions, or if its own filter is to be
        adopted and cannot be read. A replica whose own filter is wider than its filter on the master is also refused
        (drift). With ``on_drift = "warn"`` it is refused once with a warning, and its next attempt is served.
        """
        entry = self.find(peer)
        if entry is None:
            raise ReplicaRefused(
                f"no [[replica]] of user {printable(peer.user)!r} is for channel {printable(peer.channel)!r}, server "
                f"id {peer.server_id} and address {peer.address}: add one to the master's configuration"
            )
        if entry.filter is None:
            return ChosenFilter(entry, self._adopt(entry, peer))
        # A program that only reads the binlog, such as mysqlbinlog, registers without a port and has no filter.
        if entry.connect is not None and (entry.connect.port or peer.port):
            self._check_own(entry, entry.connect, peer, entry.filter)
        return ChosenFilter(entry, entry.filter)

    def is_current(self, chosen: ChosenFilter) -> bool:
        """Tell whether the ``[[replica]]`` table that ``chosen`` comes from is still in force unchanged.

        Another thread may have replaced the tables, or changed the table's rules, since the filter was chosen.
        """
        return chosen.entry in self.entries

    def _adopt(self, entry: ReplicaEntry, peer: Peer) -> ReplicationFilter:
        """Connect to the replica and return its own filter. Raises ReplicaRefused when it cannot be read."""
        assert entry.connect is not None
        try:
            own = self._read(entry.connect, peer)
        except FilterUnreadable as error:
            raise ReplicaRefused(f"adopt: {error}", momentary=error.momentary) from None
        if own.not_dropped:
            log.warning(
                "rules of the replica are not adopted, since each text can be one rule or several",
                **peer.fields,
                address=str(peer.address),
                rules=printable("; ".join(own.not_dropped)),
                hint="the master sends these events; if no name has a comma, say so with commas_separate = true",
            )
        self._note_widening(peer, own.sure)
        return own.sure

    def _note_widening(self, peer: Peer, own: ReplicationFilter) -> None:
        """Warn when a replica's own filter is now wider than when the master adopted it last."""
        with self._lock:
            old = self._adopted.get(_key(peer))
            self._adopted[_key(peer)] = own
        if old is None:
            return
        wider = passes_beyond(own, old)
        if wider.beyond is Beyond.NOTHING:
            return
        text = (
            "the replica's own filter has been widened: what the master dropped before does not come back, unless the "
            "replica discarded its relay log before (STOP REPLICA, RESET REPLICA, CHANGE REPLICATION FILTER)"
        )
        _warn("adopted filter widened", peer, text, example=printable(wider.example))

    def _check_own(
        self, entry: ReplicaEntry, connect: ConnectBack, peer: Peer, used: ReplicationFilter
    ) -> None:
        """Compare the replica's own filter with ``used``, its filter on the master. Refuse the replica if its own
        filter is wider (drift) or cannot be compared.

        With ``on_drift = "refuse"`` a replica whose filter is surely wider is always refused. Any other replica is
        refused only once for each new warning, so that it logs the warning, and its next attempt is served. The master
        logs the warning, too. Raises ReplicaRefused with the warning as text.
        """
        try:
            text, is_sure = _difference(self._read(connect, peer), used)
        except FilterUnreadable as error:
            text, is_sure = f"{_INCOMPARABLE}: {error}", False
        refuses = is_sure and entry.on_drift is OnDrift.REFUSE
        with self._lock:
            known = self._drifts.get(_key(peer))
            is_known = known is not None and known.text == text
            if not text:
                self._drifts.pop(_key(peer), None)
            elif not is_known:
                self._drifts[_key(peer)] = Drift(peer, text, refuses, time.time())
        if not text or (is_known and not refuses):
            return
        _warn("drift", peer, text, refuses)
        if refuses:
            raise ReplicaRefused(text)
        # A replica shows no text of a source that serves it. At an error it logs the text and reconnects at once.
        raise ReplicaRefused(f"warning: {text} (the next attempt is served)", momentary=True)

    def drifting(self) -> list[Drift]:
        """Return the warnings about replicas whose own filter was wider than their filter on the master at the last
        comparison. The newest comes last.
        """
        with self._lock:
            return list(self._drifts.values())


_INCOMPARABLE = "the replica's own filter cannot be compared with its filter on the master"


def _difference(own: OwnFilter, used: ReplicationFilter) -> tuple[str, bool]:
    """Compare a replica's own filter with ``used``, the filter that the master uses for it.

    Return the warning, which is empty if there is no drift, and whether the replica's own filter is surely wider.
    """
    surely = passes_beyond(own.sure, used)
    if surely.beyond is Beyond.NOTHING:
        return "", False
    likely = passes_beyond(own.likely, used) if own.doubts else surely
    if likely.beyond is Beyond.SOMETHING:
        by = f"by {likely.rule}" if likely.rule is not None else "since no rule keeps them"
        example = printable(likely.example, _LONGEST_EXAMPLE)
        text = (
            f"the replica's own filter is wider than its filter on the master: the replica would apply {example}, "
            f"which the master drops ({printable(by, _LONGEST_EXAMPLE)}); give both the same rules"
        )
        return text, True
    reason = "see to it that the master drops nothing that the replica wants"
    if likely.beyond is Beyond.NOTHING:
        doubts = printable("; ".join(own.doubts), _LONGEST_EXAMPLE)
        reason = (
            f"{doubts} can be one rule or several; if no name has a comma, say so with commas_separate = true in the "
            "[[replica]]"
        )
    return f"{_INCOMPARABLE}: {reason}", False


def same_filters(one: ReplicationFilter, other: ReplicationFilter) -> bool:
    """Tell whether two filters have the same rules and compare names alike, and so decide alike."""
    return type(one) is type(other) and one.rules == other.rules and one.names == other.names


def _key(peer: Peer) -> _Replica:
    return peer.user, peer.channel, peer.server_id, peer.uuid


def _warn(event: str, peer: Peer, text: str, refused: bool | None = None, **details: str) -> None:
    """Write a warning about a replica to the ordinary log and to the audit log.

    ``refused`` says whether the replica was refused; None leaves this field out.
    """
    fate = {} if refused is None else {"refused": refused}
    log.warning(event, **peer.fields, address=str(peer.address), reason=text, **details, **fate)
    audit_slave(event, peer, str(peer.address), text, **{name: int(value) for name, value in fate.items()})

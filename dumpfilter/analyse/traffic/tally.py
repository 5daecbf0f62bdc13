"""The tally: one pass over binlogs that counts the traffic under any number of filters.

A :class:`Tally` reads the segments (parts of binlog files) that a :class:`~dumpfilter.dump.thread.DumpThread` would
read. An atom is a run of consecutive events that every filter sends or drops together
(:mod:`dumpfilter.dump.atoms`). The tally counts each atom under the condition that makes a filter send it, for
example "table 5 is sent". The result, :class:`~dumpfilter.analyse.traffic.facts.Facts`, is small, and any filter can
be applied to it.

Conditions do not give the size of a compressed transaction of which a part is dropped. The tally counts such a
transaction whole. The tally then cuts the transaction with the dump thread's own code, once for each group of filters
with equal verdicts, and counts the difference for these filters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.analyse.traffic import _group as K
from dumpfilter.analyse.traffic.facts import (
    DECIDING,
    Conditions,
    Facts,
    Ints,
    Mask,
    Origin,
    added_up,
)
from dumpfilter.base.memory import lazy_zeros
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump import atoms as A
from dumpfilter.dump.chunk import ReadAt
from dumpfilter.dump.packets.stand_ins import StandInSizes
from dumpfilter.dump.payload import KeptPayload, filter_payload
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, TableFlags
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subject, Subjects

BUCKET_SECONDS = 60
"""The default length of a time bucket, seconds. Bytes are summed by time bucket."""

_MOST_UNITS = 1 << 16
"""The number of units (rows of counts) above which a :class:`Tally` (a counter of traffic) first merges equal ones
before it enlarges its arrays.
"""

_ROOM = 1024
"""The initial length of most arrays in which a :class:`Tally` collects its counts, entries. It must be a power of 2."""

_OPEN_STATEMENT = (R.GTID, R.FRAME, R.CONTEXT, R.TABLE_MAP, R.ROWS, R.GAP)
"""The roles of events after which a statement may continue. A role says how an event travels in a filtered stream."""

_CHANGES = (R.ROWS, R.ROWS_END, R.STATEMENT)
"""The roles of events about whose tables or statements filters decide. A role says how an event travels in a filtered
stream. A table map alone is not sent.
"""

_SENT_ALWAYS = (R.KEEP, R.XA)
"""The roles of events that every filter sends. A role says how an event travels in a filtered stream."""


class _Events(NamedTuple):
    """The columns of events that are needed for counting them, as arrays with one entry for each event. The columns are
    offset, size, role (how the event travels in a filtered stream), and number of the table or statement.
    """

    offset: Ints
    size: Ints
    role: npt.NDArray[np.uint8]
    subject: npt.NDArray[np.int32]


_NO_EVENTS = _Events(
    np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.int32)
)


class Tally:
    """A counter of bytes and events by the condition under which a filter sends them, such as "this table is sent".
    Segments (consecutive events of one file) must be added in binlog order.

    The result describes dumps that begin at the start of the set and whose filter never changes.

    Parameters:
        subjects: the register that numbers the set's tables and statements. The segments must have been scanned with
            statements and compressed transactions.
        sources: the register that numbers the set's GTID sources (server UUIDs, or domains and server ids).
        filters: the verdicts of each slave's filter. A filter's index in this list is its number in
            :meth:`~dumpfilter.analyse.traffic.facts.Facts.sent`.
        bucket_seconds: the length of a time bucket. The part of a transaction in one segment counts in the bucket of
            its last event with a timestamp. Without any timestamp, it counts in the previous transaction's bucket.
    """

    def __init__(
        self,
        subjects: Subjects,
        sources: SourceNumbers,
        *,
        filters: Sequence[TableFlags],
        bucket_seconds: int = BUCKET_SECONDS,
    ) -> None:
        self._subjects = subjects
        self._filters = _Filters(filters)
        self._origins = _Origins(sources)
        self._stand_ins = StandInSizes(sources)
        self._bucket_seconds = bucket_seconds
        self._given_only = False
        self._time = 0
        """The last nonzero event timestamp, Unix seconds."""
        self._held = _NO_EVENTS
        """The events of an unfinished statement for which only events of the next segment tell which filters send them.
        """
        self._exact: dict[bytes, int] = {}
        """The numbers of the conditions of the form "exactly these filters send the events". A key is the list of the
        filters, as the bytes of an array.
        """
        self._memory = K.Memory(
            state=np.zeros(K.STATE, np.int64),
            subjects=np.zeros((_ROOM, K.SUBJECT_COLUMNS), np.int64),
            deciding=np.zeros(_ROOM, np.int32),
            scratch=np.zeros(_ROOM, np.int32),
            conditions=np.zeros((_ROOM, K.CONDITION_COLUMNS), np.int64),
            members=np.zeros(4 * _ROOM, np.int32),
            slots=np.full(2 * _ROOM, -1, np.int64),
            units=np.zeros((_ROOM, K.UNIT_COLUMNS), np.int64),
            atoms=np.zeros((_ROOM, A.ATOM_COLUMNS), np.int64),
            lists=np.zeros((A.ROOTS + A.MOST_LISTS * _ROOM, A.LIST_COLUMNS), np.int64),
        )
        for number, member in ((K.C_ALWAYS, K.ALWAYS), (K.C_NEVER, K.NO_SUBJECT)):
            self._store(number, np.array([member], np.int32))
        self._memory.lists[: A.ROOTS, A.L_ONLY] = A.NO_SUBJECT

    def beside(self) -> Tally:
        """Return a second counter for the same events but another size of each, for example the bytes that compression
        saved.

        The second counter's sums begin at 0. It continues after the events that were added to this one, possibly inside
        a transaction, and uses the same numbers of tables and statements. The caller must add all further events to
        both counters.
        """
        found = copy(self)
        found._stand_ins = copy(self._stand_ins)
        found._held = self._held._replace(size=np.zeros_like(self._held.size))
        copies = {name: getattr(self._memory, name).copy() for name in K.Memory._fields}
        found._memory = self._memory._replace(**copies)
        found._memory.state[K.FRAME_BYTES] = 0
        found._take_units()
        return found

    def add(self, segment: Segment, read: ReadAt, *, keys: Ints | None = None) -> None:
        """Count the events of the next segment (consecutive events of one file).

        ``read`` reads bytes of the segment's file, which is needed for compressed transactions of which a filter drops
        a part. ``keys`` has a number for each transaction; counts are then kept by this number instead of by time
        bucket. Raises BinlogCorrupt for a compressed transaction that cannot be opened.
        """
        if not segment.continues:
            self._held = _NO_EVENTS
            self._memory.state[K.IS_OPEN] = 0
        was_open = bool(self._memory.state[K.IS_OPEN])
        role, subject, doubts, cut = self._with_payloads(segment)
        events = _Events(segment.offset, segment.size, role, subject)
        txn_event, held = segment.txn_event, len(self._held.offset)
        if held:
            both = ([getattr(one, name) for one in (self._held, events)] for name in _Events._fields)
            events = _Events(*map(np.concatenate, both))
            txn_event = txn_event + held
            txn_event[0] = 0
        columns = K.Columns(
            *events,
            txn_event,
            segment.txn_subject,
            segment.txn_source,
            self._origins.of(segment),
            self._buckets(segment) if keys is None else keys,
            self._stand_ins.of(segment),
            segment.open,
        )
        subjects, count = len(self._subjects) + 2, len(events.offset)
        self._grow(
            subjects=subjects,
            deciding=subjects,
            scratch=subjects,
            atoms=count,
            lists=A.ROOTS + A.MOST_LISTS * count,
        )
        txn = 0
        for event in (*cut, None):
            stop = len(segment.txn_subject) if event is None else segment.transaction_of(event) + 1
            while (txn := K.group(columns, self._memory, txn, stop)) < stop:
                self._enlarge(count, adds_up=keys is None)
            if event is not None:
                self._correct(segment, columns, event, int(subject[event]), read)
        self._held = _held(events, int(self._memory.state[K.HELD])) if segment.open else _NO_EVENTS
        for event, number in doubts:
            txn = segment.transaction_of(event)
            if segment.txn_subject[txn] == R.MIXED or (was_open and txn == 0):
                condition = int(self._memory.subjects[subject[event], K.S_CONDITION])
                self._add(columns, txn, condition, 0, 0, number)

    def _buckets(self, segment: Segment) -> Ints:
        time = segment.time
        found = time[segment.txn_event[1:] - 1].astype(np.int64)
        if not found.all():
            latest = np.maximum.accumulate(np.where(time > 0, np.arange(1, len(time) + 1), 0))
            found = np.append(self._time, time)[latest[segment.txn_event[1:] - 1]].astype(np.int64)
        self._time = int(found[-1]) if len(found) else self._time
        return found // self._bucket_seconds

    def _with_payloads(
        self, segment: Segment
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32], list[tuple[int, int]], list[int]]:
        """Return the events of a segment (consecutive events of one file) in the form in which they are counted. Each
        compressed transaction is represented as one rows event on all its tables. If it changes no table, its event
        gets the role FRAME, like BEGIN.

        The result has four values:

        - the role of each event, which tells how the event travels in a filtered stream.
        - the subject of each event: the number of its table or statement, or of a set of tables.
        - a pair of numbers for each compressed transaction with a single subject. They are the index of its event, and
          the number of inner events about which a filter may be unable to decide.
        - the indexes of the compressed transactions of which a filter may send a part.
        """
        role, subject = segment.role, segment.subject
        doubts: list[tuple[int, int]] = []
        cut: list[int] = []
        if not segment.payloads:
            return role, subject, doubts, cut
        role, subject = role.copy(), subject.copy()
        for event, inner in sorted(segment.payloads.items()):
            kind, of_inner = R.ROWS_END, int(inner.txn_subject[0])
            if of_inner >= 0:
                doubts.append((event, int(np.count_nonzero(inner.subject == of_inner))))
            elif of_inner == R.NOTHING:
                kind = R.FRAME
            else:
                self._given_only = True
                inner_role = inner.role & R.ROLE_MASK
                changes = np.unique(inner.subject[np.isin(inner_role, _CHANGES)])
                if np.isin(inner_role, _SENT_ALWAYS).any() or (len(changes) and changes[0] < 0):
                    of_inner = R.UNMAPPED
                elif len(changes):
                    of_inner = self._subjects.any_of(changes.tolist())
                else:
                    kind = R.FRAME
                # If each filter has the same verdict about all tables of the transaction, each filter sends the
                # transaction whole or not at all.
                if not len(inner.set_subject) or not all(
                    one.is_whole or one.is_nothing
                    for one in self._filters.groups(np.unique(inner.set_subject))
                ):
                    cut.append(event)
            role[event] = kind | (role[event] & R.ENDS)
            subject[event] = of_inner
        return role, subject, doubts, cut

    def _correct(self, segment: Segment, columns: K.Columns, event: int, subject: int, read: ReadAt) -> None:
        """Count, for each group of filters with equal verdicts, the difference between a whole Transaction_payload
        event (compressed transaction) and the part that these filters send.

        ``event`` is the index of the event in ``segment``. The event has been counted whole, as the last transaction,
        under ``subject``, the number that stands for all tables of the transaction. ``read`` reads bytes of the file.
        """
        memory, filters = self._memory, self._filters
        size, inner = int(segment.size[event]), segment.payloads[event]
        is_always = subject == R.UNMAPPED
        is_counted = is_always | filters.any_sent(np.array([subject], np.int32)[: int(subject >= 0)])
        # Servers write only a GTID event before a compressed transaction, but the format allows other events, too. With
        # them a filter also sends an event of which it drops all content.
        deciding = memory.deciding[: memory.state[K.DECIDING]]
        framed = filters.any_sent(deciding) | bool(memory.state[K.IS_ALWAYS])
        parts: dict[tuple[int, int, int], Mask] = defaultdict(lambda: np.zeros(len(filters), np.bool_))
        decides = (inner.role & R.ROLE_MASK >= R.TABLE_MAP) & (inner.subject >= 0)
        for group in filters.groups(np.unique(inner.subject[decides])):
            if not is_counted[group.filters].any():
                parts[size, 1, 0] |= group.filters & framed
            elif not group.is_whole or not len(inner.set_subject):
                answer = filters.decide(group, segment, event, read)
                parts[answer.size - size, 0, answer.undecided - is_always] |= group.filters
        txn = segment.transaction_of(event)
        for part, who in parts.items():
            if any(part) and who.any():
                self._add(columns, txn, self._exactly(who), *part)

    def _exactly(self, who: Mask) -> int:
        """Return the number of the condition "exactly the filters marked in ``who`` send these events", and store the
        condition if it is new. ``who`` has one Boolean for each filter with rules.
        """
        members = K.NO_SUBJECT - 1 - self._filters.numbers[who]
        number = self._exact.setdefault(members.tobytes(), self.conditions_count)
        if number == self.conditions_count:
            self._store(number, members)
        return number

    def _store(self, number: int, members: npt.NDArray[np.int32]) -> None:
        used = int(self._memory.state[K.N_MEMBERS])
        end = used + len(members)
        self._grow(conditions=number + 1, members=end)
        self._memory.members[used:end] = members
        self._memory.conditions[number] = -1, used, end, -1
        self._memory.state[: K.N_MEMBERS + 1] = number + 1, end

    def _add(
        self, columns: K.Columns, txn: int, condition: int, size: int, events: int, undecided: int
    ) -> None:
        self._grow(units=int(self._memory.state[K.N_UNITS]) + 1)
        self._memory.state[K.ORIGIN] = columns.txn_origin[txn]
        K.add(self._memory, condition, int(columns.txn_bucket[txn]), size, events, undecided)

    @property
    def conditions_count(self) -> int:
        """The number of different conditions (such as "table 5 is sent") that the added events have so far."""
        return int(self._memory.state[K.N_CONDITIONS])

    def _conditions(self) -> Conditions:
        """Return all conditions (such as "table 5 is sent"). The conditions name tables and statements by their numbers
        in the register of tables and statements.
        """
        rows, end = self._memory.conditions[: self.conditions_count], self._memory.state[K.N_MEMBERS]
        return Conditions(
            rows[:, K.Q_REQUIRED].astype(np.int32),
            np.append(rows[:, K.Q_START], end),
            self._memory.members[:end],
        )

    def _take_units(self) -> Ints:
        """Return the traffic that was counted since the last call, as units (rows of bytes, events and other counts),
        and reset the counts.

        The columns are those of :data:`~dumpfilter.analyse.traffic.facts.COLUMNS`. The array is valid until the next
        call of :meth:`add`.
        """
        units = self._memory.units[: self._memory.state[K.N_UNITS]]
        self._memory.conditions[units[:, K.U_CONDITION], K.Q_LATEST] = -1
        self._memory.state[K.N_UNITS] = 0
        return units

    def take(self) -> Facts:
        """Return the counts of bytes and events since the last call of this method, and reset them. Several rows of
        counts may have equal condition (such as "this table is sent"), origin (server and domain) and time bucket.

        If a transaction has not ended, its later events may decide which filters send its earlier ones. These earlier
        events are not included, but returned by a later call.
        """
        units = self._take_units().copy()
        is_used = np.zeros(self.conditions_count, np.bool_)
        is_used[units[:, K.U_CONDITION]] = True
        used = np.flatnonzero(is_used)
        subjects, conditions = self._without_sets(self._conditions().chosen(used))
        units[:, K.U_CONDITION] = (np.cumsum(is_used) - 1)[units[:, K.U_CONDITION]]
        given_only, self._given_only = self._given_only, False
        return Facts(
            subjects,
            conditions,
            self._origins.found,
            self._bucket_seconds,
            given_only,
            self._stand_ins.take_stretches(),
            *np.ascontiguousarray(units.T),
        )

    def _without_sets(self, conditions: Conditions) -> tuple[tuple[Subject, ...], Conditions]:
        """Replace each subject number that stands for a set of tables by the tables of the set. ``conditions`` says
        which subjects (tables and statements) a filter must send.

        Return a tuple of the subjects that occur, and the new conditions, which refer to subjects by their index in
        this tuple.
        """
        numbers: dict[int, int] = {}
        with self._subjects.lock:
            lengths = np.zeros(len(self._subjects), np.int64)
            new: list[int] = []
            for number in conditions.met().tolist():
                members = [numbers.setdefault(one, len(numbers)) for one in self._subjects.single(number)]
                # The set of an XA transaction without changes is empty.
                new += members or [K.NO_SUBJECT]
                lengths[number] = len(members) or 1
            subjects = tuple([self._subjects[number] for number in numbers])
        start = np.concatenate([[0], np.cumsum(lengths)])
        return subjects, conditions.expanded(start, np.array(new, np.int32))

    def _enlarge(self, events: int, *, adds_up: bool) -> None:
        """Make room in the tally's arrays for the conditions (such as "table 5 is sent") and units (rows of counts) of
        a transaction with ``events`` events.

        With ``adds_up`` True, many units may be reduced by adding up those with equal condition, origin (server and
        domain) and time bucket. With False the arrays are only made longer.
        """
        memory = self._memory
        count = int(memory.state[K.N_UNITS])
        if count + events + 2 <= len(memory.units):
            self._grow(conditions=len(memory.conditions) + 1, members=len(memory.members) + 1)
            return
        if adds_up and count > _MOST_UNITS:
            units = added_up(self._take_units())
            memory.units[: len(units)] = units
            count = memory.state[K.N_UNITS] = len(units)
        # Half of the units stay free, so that units are not added up again soon.
        self._grow(units=2 * count + events + 2)

    def _grow(self, **wanted: int) -> None:
        """Enlarge the arrays in which the tally collects its counts. ``wanted`` maps names of these arrays to lengths.
        An array that is shorter than its length there gets twice this length.

        The hash table of conditions (such as "table 5 is sent") is enlarged with the array of conditions.
        """
        for name, length in wanted.items():
            column = getattr(self._memory, name)
            if length > len(column):
                longer = lazy_zeros((2 * length, *column.shape[1:]), column.dtype)
                longer[: len(column)] = column
                self._memory = self._memory._replace(**{name: longer})
        slots = 1 << (2 * len(self._memory.conditions) - 1).bit_length()
        if slots > len(self._memory.slots):
            self._memory = self._memory._replace(slots=np.full(slots, -1, np.int64))
            K.rehash(self._memory)


def _held(events: _Events, first: int) -> _Events:
    """Return the events from index ``first`` on that must be considered again together with the next segment (part of
    the file), because their conditions depend on later events. A condition says which filters send an event.

    Rows events have been counted already. For each statement and table the last rows event is returned all the same,
    with the size 0 and the offset COUNTED, which marks events that have been counted. The conditions of the statement's
    earlier events depend on this table, but not on the tables of later statements.
    """
    role, subject = events.role[first:], events.subject[first:]
    is_rows = role == R.ROWS
    stays = ~is_rows
    rows = np.flatnonzero(is_rows)[::-1]
    part = np.cumsum(~np.isin(role, _OPEN_STATEMENT))
    stays[rows[np.unique(part[rows] << 32 | (subject[rows] - R.UNMAPPED), return_index=True)[1]]] = True
    size = np.where(is_rows, 0, events.size[first:])
    offset = np.where(is_rows, K.COUNTED, events.offset[first:])
    return _Events(offset[stays], size[stays], role[stays], subject[stays])


class _Group(NamedTuple):
    """A group of filters with equal verdicts (send, drop or undecided) about the tables of a compressed transaction.
    ``filters`` has one Boolean for each filter with rules, which is True for the filters of the group.
    """

    filters: Mask
    is_whole: bool
    """Whether these filters certainly send all tables of the compressed transaction."""
    is_nothing: bool
    """Whether these filters drop all tables of the compressed transaction."""


class _Filters:
    """All filters with rules for which a :class:`Tally` counts the bytes and events that the filter sends. Filters with
    equal verdicts (send, drop or undecided) are evaluated together.
    """

    def __init__(self, filters: Sequence[TableFlags]) -> None:
        on = [(number, flags) for number, flags in enumerate(filters) if flags.is_on]
        self.numbers = np.array([number for number, _ in on], np.int32)
        self._flags = [flags for _, flags in on]
        self._groups: dict[bytes, list[_Group]] = {}

    def __len__(self) -> int:
        return len(self.numbers)

    def any_sent(self, subjects: npt.NDArray[np.int32]) -> Mask:
        """Return a Boolean array that tells for each filter whether it sends at least one of ``subjects`` (numbers of
        tables or statements).
        """
        sent: Mask = np.any(self._of(subjects) & FILTER_BINLOG_SEND_F, axis=0)
        return sent

    def groups(self, subjects: npt.NDArray[np.int32]) -> list[_Group]:
        """Divide the filters into groups that have equal verdicts (send, drop or undecided) about all of ``subjects``
        (numbers of tables or statements).
        """
        key = subjects.tobytes()
        if key not in self._groups:
            different, which = np.unique(self._of(subjects).T, axis=0, return_inverse=True)
            self._groups[key] = [
                _Group(
                    which.ravel() == k,
                    bool(np.all(verdicts == FILTER_BINLOG_SEND_F)),
                    not np.any(verdicts & FILTER_BINLOG_SEND_F),
                )
                for k, verdicts in enumerate(different)
            ]
        return self._groups[key]

    def decide(self, group: _Group, segment: Segment, event: int, read: ReadAt) -> KeptPayload:
        """Return the part of a compressed transaction that the filters of ``group`` send.

        ``event`` is the index of the transaction's event in ``segment``. ``read(offset, length)`` returns bytes of the
        file. All filters of a group have equal verdicts, so only the first is evaluated.
        """
        return filter_payload(self._flags[int(np.argmax(group.filters))], segment, event, read)

    def _of(self, subjects: npt.NDArray[np.int32]) -> npt.NDArray[np.uint32]:
        """Return the filters' verdicts about ``subjects`` (numbers of tables or statements) as a uint32 array, with a
        row for each subject and a column for each filter. An entry is a combination of the flags in :data:`DECIDING`:
        "sent" and "undecided".
        """
        if not len(subjects) or not self._flags:
            return np.zeros((len(subjects), len(self)), np.uint32)
        return np.stack([flags.array()[subjects] for flags in self._flags], axis=1) & DECIDING


class _Origins:
    """A register that numbers the servers and domains of transactions. Number 0 stands for events that every slave
    wants.
    """

    def __init__(self, sources: SourceNumbers) -> None:
        self._sources = sources
        self._numbers: dict[Origin | None, int] = {None: 0}

    @property
    def found(self) -> tuple[Origin | None, ...]:
        """The servers and domains found so far. An entry's index is the number that :meth:`of` gives to its server and
        domain. Entry 0 is None, for events that every slave wants.
        """
        return tuple(self._numbers)

    def of(self, segment: Segment) -> npt.NDArray[np.int64]:
        """Return an int64 array with one number for each transaction of ``segment`` (consecutive events of one file):
        the index of its server and domain in :attr:`found`.
        """
        fd = segment.format_description
        source = segment.txn_source
        if fd.family != "mariadb":
            # MySQL's GTIDs have no domain, so their sources need not be told apart.
            source = np.minimum(source, np.int32(R.NOTHING))
        # Few servers write by turns, so that a run of transactions of one origin is long.
        pairs = segment.txn_server.astype(np.int64) << 32 | (source.astype(np.int64) & 0xFFFFFFFF)
        begins = np.flatnonzero(np.diff(pairs, prepend=~pairs[:1]))
        different, which = np.unique(pairs[begins], return_inverse=True)
        numbers = []
        for server, number in zip(
            (different >> 32 & 0xFFFFFFFF).tolist(), different.astype(np.int32).tolist(), strict=True
        ):
            origin = None
            if number != R.KEPT:
                domain = self._sources.key(number)[0] if number >= 0 else None
                assert not isinstance(domain, bytes)
                origin = Origin(server, domain, fd.header.server_id)
            numbers.append(self._numbers.setdefault(origin, len(self._numbers)))
        runs = np.diff(begins, append=len(pairs))
        return np.repeat(np.array(numbers, np.int64)[which], runs)

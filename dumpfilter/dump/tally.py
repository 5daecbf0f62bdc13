"""One pass over binlogs that says how much a dump would send, for any number of filters.

A :class:`Tally` is given the segments that a :class:`~dumpfilter.dump.thread.DumpThread` would be given, and notes for
each event under what condition on a filter's answers a dump sends it, instead of asking one filter. What comes out
(:class:`~dumpfilter.dump.tallied.Tallied`) is small, and asked afterwards.

The conditions follow from how a dump thread walks a transaction: rows and statements go by their subject; the frame
with any of them; context and table maps with the rows that follow them in their statement. Only of a compressed
transaction that is cut the size cannot be had from such a rule: those are cut, by the dump thread's own code, once for
each different set of answers among the filters that the tally was given.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump import _tally as K
from dumpfilter.dump.chunk import ReadAt
from dumpfilter.dump.conditions import EVERYTHING, Conditions, ConditionTable, Mask, empty_slots, longer
from dumpfilter.dump.payload import KeptPayload, PayloadFilter
from dumpfilter.dump.tallied import Origin, Tallied, merge
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_UNDECIDED_F, TableFlags
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subject, Subjects

BUCKET_SECONDS = 60
"""A minute: what rates are told by."""

_DEPENDS = -1
"""Of a compressed transaction: what is left of it depends on the filter."""


class Tally:
    """Segments in, in order; how much is sent under what condition out.

    Parameters:
        subjects: the set's, with which the segments are scanned (statements and compressed transactions too).
        sources: the set's GTID sources.
        filters: each slave's flags, and which origins it wants. A filter's number, in
            :meth:`~dumpfilter.dump.tallied.Tallied.sent`, is its place here.
        bucket_seconds: the length of a bucket of time. All of a transaction that one segment has falls into that of its
            last event there; without a timestamp, into the one before.

    Transactions are decided as by a dump thread from the set's beginning on, whose filter never changes.
    """

    def __init__(
        self,
        subjects: Subjects,
        sources: SourceNumbers,
        *,
        filters: Sequence[tuple[TableFlags, OriginFilter | None]],
        bucket_seconds: int = BUCKET_SECONDS,
    ) -> None:
        self._subjects = subjects
        self._filters = _Filters([flags for flags, _ in filters], subjects, sources)
        self._origins = _Origins(
            sources, told_apart=any(origin is not None and origin.is_on for _, origin in filters)
        )
        self._bucket_seconds = bucket_seconds
        self._given_only = False
        self._state = np.zeros(K.STATE_SIZE, np.int64)
        # a subject each
        self._subject_rows = np.zeros((64, K.SUBJECT_COLUMNS), np.int64)
        self._deciding = np.zeros(64, np.int32)
        self._tables = np.zeros(64, np.int32)
        self._extra = np.zeros(64, np.int32)
        self._scratch = np.zeros(64, np.int32)
        self._pending = np.zeros((64, K.PENDING_COLUMNS), np.int64)
        self._conditions = ConditionTable(self._state)
        self._conditions.intern(K.ALWAYS, self._scratch[:0])
        self._conditions.intern(K.ANY, self._scratch[:0])
        self._units = np.zeros((0, K.UNIT_COLUMNS), np.int64)
        self._unit_slots = np.full(1, -1, np.int64)
        self._make_room(waiting=0, members=0)

    def add(self, segment: Segment, read: ReadAt) -> None:
        """Take in a segment. ``read`` reads its file, for compressed transactions that are cut.

        Raises BinlogCorrupt for one that cannot be opened any more.
        """
        self._make_room_for(segment)
        payloads = self._payloads(segment)
        origins = self._origins.of(segment)
        conditions = self._conditions
        txn, event = 0, 0
        while True:
            code, txn, event = K.tally(
                segment.size,
                segment.time,
                segment.role,
                segment.subject,
                segment.txn_event,
                segment.txn_subject,
                segment.txn_source,
                origins,
                segment.open,
                self._bucket_seconds,
                payloads.event,
                payloads.start,
                payloads.member,
                payloads.undecided,
                txn,
                event,
                self._state,
                self._subject_rows,
                self._deciding,
                self._tables,
                self._pending,
                conditions.rows,
                conditions.members,
                conditions.slots,
                self._units,
                self._unit_slots,
                self._extra,
                self._scratch,
            )
            if code == K.DONE:
                return
            if code == K.FULL:
                self._make_room(waiting=int(self._state[K.T_PENDING]), members=len(payloads.member))
            else:
                self._end_with(segment, event, read)
                txn, event = txn + 1, event + 1

    def take(self) -> Tallied:
        """What was found since the last time. Of a transaction that is open what waits for its end is still to come."""
        units = self._units[: self._state[K.T_UNITS]]
        used, condition = np.unique(units[:, K.U_CONDITION], return_inverse=True)
        subjects, conditions, numbers = self._without_sets(used)
        found = Tallied(
            subjects,
            conditions,
            self._origins.found,
            self._bucket_seconds,
            self._given_only,
            numbers[condition],
            *(units[:, column].copy() for column in range(K.U_ORIGIN, K.UNIT_COLUMNS)),
        )
        self._given_only = False
        self._state[K.T_UNITS] = 0
        self._unit_slots.fill(-1)
        self._conditions.rows[:, K.Q_LATEST] = -1
        return merge([found])  # without sets of subjects some conditions may be the same

    def _without_sets(
        self, wanted: npt.NDArray[np.int64]
    ) -> tuple[tuple[Subject, ...], Conditions, npt.NDArray[np.int64]]:
        """Conditions, those ``wanted``, of tables and statements only: what those are, all conditions, the numbers of
        those wanted."""
        conditions = self._conditions.conditions()
        made_of: list[list[int]] = []
        numbers: dict[int, int] = {}
        with self._subjects.lock:
            met = np.zeros(len(self._subjects), np.bool_)
            K.meet(conditions.kind, conditions.required, conditions.start, conditions.member, wanted, met)
            for number, is_met in enumerate(met.tolist()):
                members = self._members(number) if is_met else []
                made_of.append([numbers.setdefault(member, len(numbers)) for member in members])
            subjects = tuple(self._subjects[number] for number in numbers)
        table = ConditionTable(np.zeros(K.STATE_SIZE, np.int64))
        own = np.arange(len(subjects), dtype=np.int32)
        start = np.cumsum([0, *map(len, made_of)], dtype=np.int64)
        found = table.add(conditions, wanted, start, np.array(list(itertools.chain(*made_of)), np.int32), own)
        return subjects, table.conditions(), found

    def _members(self, number: int) -> list[int]:
        """The tables and statements that a subject is made of."""
        members = self._subjects.members(number)
        if members is None:
            return [number]
        return sorted({inner for member in members for inner in self._members(member)})

    def _payloads(self, segment: Segment) -> _Payloads:
        """The compressed transactions, as the compiled pass takes them."""
        events = sorted(segment.payloads)
        members: list[npt.NDArray[np.int32]] = []
        undecided = []
        for event in events:
            inner = segment.payloads[event]
            subject = inner.txn_subject[0]
            counted = 0
            if subject >= 0:
                members.append(inner.txn_subject)
                counted = int(np.count_nonzero(inner.subject == subject))
            elif subject == R.NOTHING:
                members.append(inner.set_subject[:0])
            else:
                # several: plain ones go whole or not at all with filters that have one answer for all of them
                several = np.unique(inner.set_subject)
                plain = len(several) and all(
                    group.is_whole or group.is_nothing for group in self._filters.groups(several)
                )
                self._given_only = True
                members.append(several if plain else several[:0])
                counted = 0 if plain else _DEPENDS
            undecided.append(counted)
        return _Payloads(
            np.array(events, np.int64),
            np.cumsum([0, *map(len, members)], dtype=np.int64),
            np.concatenate([np.empty(0, np.int32), *members]),
            np.array(undecided, np.int64),
        )

    def _end_with(self, segment: Segment, event: int, read: ReadAt) -> None:
        """Finish the open transaction, which ends with a compressed one of which filters get different parts."""
        state, filters = self._state, self._filters
        size = int(segment.size[event])
        inner = segment.payloads[event]
        decides = (inner.role & 0x7F >= R.TABLE_MAP) & (inner.subject >= 0)
        kept = np.zeros(len(filters), np.bool_)
        parts: dict[tuple[int, int], Mask] = defaultdict(lambda: np.zeros(len(filters), np.bool_))
        for group in filters.groups(np.unique(inner.subject[decides])):
            if len(inner.set_subject) and group.is_nothing:
                continue
            if len(inner.set_subject) and group.is_whole:
                part = (size, 0)
            else:
                answer = filters.decide(group, segment, event, read)
                part = (answer.size, answer.undecided)
            if part[0]:
                parts[part] |= group.filters
                kept |= group.filters
        # servers write nothing else into such a transaction, but none of the rules forbids it
        framed = kept | bool(state[K.T_ALWAYS])
        framed |= filters.any_sent(self._deciding[: state[K.T_DECIDING]])
        parts[size, 0] |= framed & ~kept
        waiting = int(state[K.T_PENDING])
        self._make_room(waiting=waiting + len(parts), members=len(filters))
        for (part_size, undecided), who in parts.items():
            self._add(who, part_size, 1, undecided=undecided, whole=(part_size, undecided) == (size, 0))
        tables = self._tables[: state[K.T_TABLES]]
        for subject, since, part_size, events in self._pending[:waiting].tolist():
            who = kept | filters.any_sent(tables[self._subject_rows[tables, K.S_LAST] > since])
            if subject >= 0:
                who &= filters.any_sent(np.array([subject], np.int32))
            self._add(who, part_size, events)
        self._add(framed, int(state[K.T_FRAME_BYTES]), int(state[K.T_FRAME_EVENTS]), transactions=1)
        K.close(state)

    def _add(
        self,
        who: Mask,
        size: int,
        events: int,
        *,
        transactions: int = 0,
        undecided: int = 0,
        whole: bool = True,
    ) -> None:
        """Add what these filters are sent; ``whole``: one without rules too."""
        members = self._filters.numbers[who]
        if whole:
            members = np.concatenate([np.array([EVERYTHING], np.int32), members])
        condition = self._conditions.intern(K.EXACTLY, members)
        state = self._state
        K.add_unit(
            state,
            self._units,
            self._unit_slots,
            self._conditions.rows,
            condition,
            int(state[K.T_ORIGIN]),
            int(state[K.T_TIME]) // self._bucket_seconds,
            size,
            events,
            transactions,
            undecided,
        )

    def _make_room_for(self, segment: Segment) -> None:
        """Room for what a segment can bring that does not depend on what is in it."""
        subjects = len(self._subjects) + 1
        if subjects > len(self._subject_rows):
            self._subject_rows = longer(self._subject_rows, 2 * subjects)
            self._deciding = longer(self._deciding, 2 * subjects)
            self._tables = longer(self._tables, 2 * subjects)
            self._extra = longer(self._extra, 2 * subjects)
            self._scratch = longer(self._scratch, 2 * subjects)
        waiting = int(self._state[K.T_PENDING]) + len(segment.role)
        if waiting > len(self._pending):
            self._pending = longer(self._pending, waiting)

    def _make_room(self, *, waiting: int, members: int) -> None:
        """Room for what one event can bring, ``waiting`` before it and with conditions of ``members`` more subjects."""
        state = self._state
        members = (waiting + 2) * (int(state[K.T_TABLES]) + members + 2) + int(state[K.T_DECIDING])
        self._conditions.make_room(waiting + 8, members)
        wanted = int(state[K.T_UNITS]) + waiting + 8
        if wanted > len(self._units):
            self._units = longer(self._units, 2 * wanted)
            self._unit_slots = empty_slots(2 * wanted)
            K.rehash_units(self._units, state[K.T_UNITS], self._unit_slots)


class _Payloads(NamedTuple):
    """See :func:`dumpfilter.dump._tally.tally`."""

    event: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    member: npt.NDArray[np.int32]
    undecided: npt.NDArray[np.int64]


class _Group(NamedTuple):
    """Filters with the same answers about some subjects."""

    filters: Mask
    is_whole: bool
    """All are surely sent."""
    is_nothing: bool
    """None is sent."""


class _Filters:
    """The filters that have rules, asked together."""

    def __init__(self, filters: Sequence[TableFlags], subjects: Subjects, sources: SourceNumbers) -> None:
        on = [(number, flags) for number, flags in enumerate(filters) if flags.is_on]
        self.numbers = np.array([number for number, _ in on], np.int32)
        self._flags = [flags for _, flags in on]
        self._payloads = [PayloadFilter(flags) for flags in self._flags]
        self._subjects = subjects
        self._answers = np.zeros((0, len(on)), np.uint32)
        self._groups: dict[bytes, list[_Group]] = {}

    def __len__(self) -> int:
        return len(self.numbers)

    def any_sent(self, subjects: npt.NDArray[np.int32]) -> Mask:
        """For each filter whether it sends one of the subjects."""
        sent: Mask = np.any(self._of(subjects) & FILTER_BINLOG_SEND_F, axis=0)
        return sent

    def groups(self, subjects: npt.NDArray[np.int32]) -> list[_Group]:
        """The filters by what they say of these subjects."""
        key = subjects.tobytes()
        if key not in self._groups:
            answers = np.ascontiguousarray(self._of(subjects).T)
            alike: dict[bytes, list[int]] = {}
            for number, answer in enumerate(answers):
                alike.setdefault(answer.tobytes(), []).append(number)
            self._groups[key] = [
                _group(answers[numbers[0]], numbers, len(self)) for numbers in alike.values()
            ]
        return self._groups[key]

    def decide(self, group: _Group, segment: Segment, event: int, read: ReadAt) -> KeptPayload:
        """What is left of a compressed transaction by these filters."""
        return self._payloads[int(np.argmax(group.filters))].decide(segment, event, read)

    def _of(self, subjects: npt.NDArray[np.int32]) -> npt.NDArray[np.uint32]:
        """The answers, a row a subject and a column a filter."""
        known, wanted = len(self._answers), len(self._subjects)
        if wanted > known:
            more = np.zeros((wanted - known, len(self)), np.uint32)
            for column, flags in enumerate(self._flags):
                more[:, column] = flags.array()[known:wanted]
            more &= FILTER_BINLOG_SEND_F | FILTER_UNDECIDED_F
            self._answers = np.concatenate([self._answers, more])
        return self._answers[subjects]


def _group(answers: npt.NDArray[np.uint32], numbers: list[int], n_filters: int) -> _Group:
    filters = np.zeros(n_filters, np.bool_)
    filters[numbers] = True
    return _Group(
        filters,
        bool(np.all(answers == FILTER_BINLOG_SEND_F)),
        not np.any(answers & FILTER_BINLOG_SEND_F),
    )


class _Origins:
    """Numbers origins as they are met; 0 is what every slave wants."""

    def __init__(self, sources: SourceNumbers, *, told_apart: bool) -> None:
        self._sources = sources
        self._told_apart = told_apart
        self._numbers: dict[Origin | None, int] = {None: 0}

    @property
    def found(self) -> tuple[Origin | None, ...]:
        """All of them, by number."""
        return tuple(self._numbers)

    def of(self, segment: Segment) -> npt.NDArray[np.int64]:
        """Each transaction's."""
        if not self._told_apart:
            return np.zeros(len(segment.txn_subject), np.int64)
        fd = segment.format_description
        source = segment.txn_source
        if fd.family != "mariadb":
            source = np.minimum(source, np.int32(R.NOTHING))  # their GTIDs say nothing that is asked
        pairs = np.stack([segment.txn_server.astype(np.int64), source.astype(np.int64)])
        different, which = np.unique(pairs, axis=1, return_inverse=True)
        numbers = []
        for server, number in different.T.tolist():
            origin = None
            if number != R.KEPT:
                domain = self._sources.key(number, fd.family)[0] if number >= 0 else None
                assert not isinstance(domain, bytes)
                origin = Origin(server, domain, fd.header.server_id)
            numbers.append(self._numbers.setdefault(origin, len(self._numbers)))
        return np.array(numbers, np.int64)[which.reshape(-1)]

"""The tally: one pass over binlogs that counts the traffic that any number of filters would cause.

A :class:`Tally` reads the segments that a :class:`~dumpfilter.dump.thread.DumpThread` would read. It counts each event
under the condition under which a filter sends the event, for example "table 5 is sent". The result
(:class:`~dumpfilter.dump.tallied.Tallied`) is small, and each filter is applied to the result.

The conditions follow from the grammar at the head of :mod:`dumpfilter.dump.atoms`. They do not tell the new size of a
compressed transaction of which a part is dropped. The tally therefore cuts such transactions with the dump thread's own
code, once for each group of filters with equal verdicts.
"""

from __future__ import annotations

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
from dumpfilter.dump.stand_ins import StandInSizes
from dumpfilter.dump.tallied import Origin, Tallied, merge
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_UNDECIDED_F, TableFlags
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subject, Subjects

BUCKET_SECONDS = 60
"""The default length of a time bucket, seconds. Reports show traffic by the minute."""

_BY_TIME = np.empty(0, np.int64)
"""The keys of transactions that are counted by time, which are none."""

_DEPENDS = -1
"""The mark -1 in place of a number of undecided events. It stands for a compressed transaction of which different
filters send different parts."""


class Tally:
    """Counts bytes and events by the condition under which a filter sends them, segment by segment in binlog order.

    Parameters:
        subjects: the tables and statements of the binlog set. The segments must have been scanned with statements and
            compressed transactions.
        sources: the numbers of the set's GTID sources.
        filters: for each slave, the verdicts of its filter, and the server ids and domains that it wants. A filter's
            index in this list is its number in :meth:`~dumpfilter.dump.tallied.Tallied.sent`.
        bucket_seconds: the length of a time bucket. The part of a transaction in one segment counts in the bucket of
            its last event. If no event has a timestamp, it counts in the bucket of the previous transaction.
        any_origin: whether the result must hold for slaves that want other server ids and domains than the given ones.
            Transactions are then counted by origin in any case.

    The result describes dumps that begin at the set's beginning and whose filter never changes.
    """

    def __init__(
        self,
        subjects: Subjects,
        sources: SourceNumbers,
        *,
        filters: Sequence[tuple[TableFlags, OriginFilter | None]],
        bucket_seconds: int = BUCKET_SECONDS,
        any_origin: bool = False,
    ) -> None:
        self._subjects = subjects
        self._filters = _Filters([flags for flags, _ in filters], subjects)
        self._origins = _Origins(
            sources,
            told_apart=any_origin or any(origin is not None and origin.is_on for _, origin in filters),
        )
        self._stand_ins = StandInSizes(sources)
        self._bucket_seconds = bucket_seconds
        self._given_only = False
        self._memory = K.Memory(
            np.zeros(1, K.STATE),
            np.zeros((64, K.SUBJECT_COLUMNS), np.int64),
            deciding=np.zeros(64, np.int32),
            tables=np.zeros(64, np.int32),
            buffered=np.zeros(64, K.BUFFERED),
            extra=np.zeros(64, np.int32),
            scratch=np.zeros(64, np.int32),
        )
        self._conditions = ConditionTable()
        self._conditions.intern(K.ALWAYS, np.zeros(0, np.int32))
        self._conditions.intern(K.ANY, np.zeros(0, np.int32))
        self._units = K.UnitRows(
            np.zeros(1, np.int64), np.zeros((0, K.UNIT_COLUMNS), np.int64), np.full(1, -1, np.int64)
        )
        self._make_room(buffered=0, members=0)

    def add(self, segment: Segment, read: ReadAt, *, keys: npt.NDArray[np.int64] | None = None) -> None:
        """Count the events of the next segment.

        ``read`` reads the segment's file, which is needed for compressed transactions of which a filter drops a part.
        With ``keys``, each transaction is counted under its key instead of its time bucket. The callers that give keys
        take the counts by :meth:`take_units`.
        Raises BinlogCorrupt for a compressed transaction that cannot be opened.
        """
        self._make_room_for(segment)
        payloads = self._payloads(segment)
        columns = K.Columns(
            segment.size,
            segment.time,
            segment.role,
            segment.subject,
            segment.txn_event,
            segment.txn_subject,
            segment.txn_source,
            self._origins.of(segment),
            self._stand_ins.of(segment),
            segment.open,
            self._bucket_seconds,
            _BY_TIME if keys is None else keys,
        )
        txn, event = 0, 0
        while True:
            code, txn, event = K.tally(
                columns, payloads, self._memory, self._conditions.arrays, self._units, txn, event
            )
            if code == K.DONE:
                return
            if code == K.FULL:
                self._make_room(buffered=self._state("buffered"), members=len(payloads.member))
            else:
                bucket = self._state("time") // self._bucket_seconds if keys is None else int(keys[txn])
                self._end_with(segment, event, read, int(columns.txn_stand_in[txn]), bucket)
                txn, event = txn + 1, event + 1

    @property
    def condition_rows(self) -> K.ConditionRows:
        """The conditions so far, with the numbers that :meth:`take_units` tells. A condition keeps its number."""
        return self._conditions.arrays

    @property
    def found_origins(self) -> tuple[Origin | None, ...]:
        """The servers and domains so far, with the numbers that :meth:`take_units` tells."""
        return self._origins.found

    def subjects_of(self, condition: int) -> tuple[int | None, list[int]]:
        """Return the number of a condition's required subject, or None, and the numbers of its other subjects.

        A subject is a table or statement. A condition that lists filters has no subjects.
        """
        arrays = self._conditions.arrays
        row = arrays.rows[condition].tolist()
        required = row[K.Q_REQUIRED]
        members = arrays.members[row[K.Q_START] : row[K.Q_END]].tolist()
        return (None if required < 0 else required), ([] if row[K.Q_KIND] == K.EXACTLY else members)

    def take_units(self) -> npt.NDArray[np.int64]:
        """Return the counts since the last call as rows, one for each unit, and start again from 0.

        The module :mod:`dumpfilter.dump._tally` names the columns. The rows of one key stand together, and are valid
        until the next call of :meth:`add`.
        """
        units = self._units.rows[: self._units.count[0]]
        self._conditions.arrays.rows[units[:, K.U_CONDITION], K.Q_LATEST] = -1
        self._units.count[0] = 0
        self._units.slots.fill(-1)
        return units

    def take(self) -> Tallied:
        """Return the counts since the last call of this method, and start again from 0.

        Buffered events of an open transaction are not counted yet, because later events decide about them. A later call
        returns them.
        """
        units = self._units.rows[: self._units.count[0]]
        condition = units[:, K.U_CONDITION]
        is_used = np.zeros(int(self._conditions.arrays.counts[0]), np.bool_)
        is_used[condition] = True
        subjects, conditions, numbers = self._without_sets(self._conditions.chosen(np.flatnonzero(is_used)))
        condition = (np.cumsum(is_used) - 1)[condition]
        if numbers is not None:
            condition = numbers[condition]
        found = Tallied(
            subjects,
            conditions,
            self._origins.found,
            self._bucket_seconds,
            self._given_only,
            self._stand_ins.take_stretches(),
            condition,
            *(units[:, column].copy() for column in range(K.U_ORIGIN, K.UNIT_COLUMNS)),
        )
        self._given_only = False
        self._units.count[0] = 0
        self._units.slots.fill(-1)
        self._conditions.arrays.rows[:, K.Q_LATEST] = -1
        # Two conditions that named different sets of tables may be equal after each set is replaced by its tables.
        return found if numbers is None else merge([found])

    def _without_sets(
        self, conditions: Conditions
    ) -> tuple[tuple[Subject, ...], Conditions, npt.NDArray[np.int64] | None]:
        """Replace each set of tables in the conditions by the tables in the set.

        Return the tables and statements, the new conditions, and the new number of each condition. The last is None if
        there is no set, so that each condition keeps its number.
        """
        numbers: dict[int, int] = {}
        made_of: list[int] = []
        with self._subjects.lock:
            met = conditions.met(len(self._subjects))
            found = np.flatnonzero(met).tolist()
            if all(self._subjects.members(number) is None for number in found):
                subjects = tuple([self._subjects[number] for number in found])
                return subjects, conditions.with_subjects(np.cumsum(met) - 1), None
            lengths = met.astype(np.int64)
            for number in found:
                if self._subjects.members(number) is None:
                    made_of.append(numbers.setdefault(number, len(numbers)))
                else:
                    members = self._members(number)
                    made_of += [numbers.setdefault(member, len(numbers)) for member in members]
                    lengths[number] = len(members)
            subjects = tuple([self._subjects[number] for number in numbers])
        table = ConditionTable()
        own = np.arange(len(subjects), dtype=np.int32)
        start = np.concatenate([[0], np.cumsum(lengths)])
        everything = np.arange(len(conditions))
        renumbered = table.add(conditions, everything, start, np.array(made_of, np.int32), own)
        return subjects, table.conditions(), renumbered

    def _members(self, number: int) -> list[int]:
        members = self._subjects.members(number)
        if members is None:
            return [number]
        return sorted({inner for member in members for inner in self._members(member)})

    def _payloads(self, segment: Segment) -> K.Payloads:
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
                # If each filter has the same verdict about all tables of the transaction, each filter sends the
                # transaction whole or not at all.
                several = np.unique(inner.set_subject)
                plain = len(several) and all(
                    group.is_whole or group.is_nothing for group in self._filters.groups(several)
                )
                self._given_only = True
                members.append(several if plain else several[:0])
                counted = 0 if plain else _DEPENDS
            undecided.append(counted)
        return K.Payloads(
            np.array(events, np.int64),
            np.cumsum([0, *map(len, members)], dtype=np.int64),
            np.concatenate([np.empty(0, np.int32), *members]),
            np.array(undecided, np.int64),
        )

    def _end_with(self, segment: Segment, event: int, read: ReadAt, stand_in: int, bucket: int) -> None:
        """Count the end of the open transaction, whose last event is a Transaction_payload event.

        Different filters send different parts of this event, so each group of equal filters is counted separately.
        ``stand_in`` has the bytes of the transaction's stand-in, and ``bucket`` the key under which it is counted.
        """
        memory, filters = self._memory, self._filters
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
        # Servers write only a GTID event before a compressed transaction, but the format allows other events, too.
        framed = kept | bool(self._state("is_always"))
        framed |= filters.any_sent(memory.deciding[: self._state("deciding")])
        parts[size, 0] |= framed & ~kept
        buffered = self._state("buffered")
        self._make_room(buffered=buffered + len(parts), members=len(filters))
        for (part_size, undecided), who in parts.items():
            is_whole = (part_size, undecided) == (size, 0)
            self._add(bucket, who, part_size, 1, undecided=undecided, whole=is_whole)
        tables = memory.tables[: self._state("tables")]
        for subject, since, part_size, events in memory.buffered[:buffered].tolist():
            who = kept | filters.any_sent(tables[memory.subjects[tables, K.S_LAST] > since])
            if subject >= 0:
                who &= filters.any_sent(np.array([subject], np.int32))
            self._add(bucket, who, part_size, events)
        self._add(
            bucket,
            framed,
            self._state("frame_bytes"),
            self._state("frame_events"),
            transactions=1,
            stand_in=stand_in,
        )
        K.close(memory)

    def _add(
        self,
        bucket: int,
        who: Mask,
        size: int,
        events: int,
        *,
        transactions: int = 0,
        undecided: int = 0,
        stand_in: int = 0,
        whole: bool = True,
    ) -> None:
        members = self._filters.numbers[who]
        if whole:
            members = np.concatenate([np.array([EVERYTHING], np.int32), members])
        condition = self._conditions.intern(K.EXACTLY, members)
        K.add_unit(
            self._units,
            self._conditions.arrays,
            condition,
            self._state("origin"),
            bucket,
            size,
            events,
            transactions,
            undecided,
            stand_in,
        )

    def _make_room_for(self, segment: Segment) -> None:
        memory = self._memory
        subjects = len(self._subjects) + 1
        if subjects > len(memory.subjects):
            memory = memory._replace(
                subjects=longer(memory.subjects, 2 * subjects),
                deciding=longer(memory.deciding, 2 * subjects),
                tables=longer(memory.tables, 2 * subjects),
                extra=longer(memory.extra, 2 * subjects),
                scratch=longer(memory.scratch, 2 * subjects),
            )
        buffered = self._state("buffered") + len(segment.role)
        if buffered > len(memory.buffered):
            memory = memory._replace(buffered=longer(memory.buffered, buffered))
        self._memory = memory

    def _make_room(self, *, buffered: int, members: int) -> None:
        members = (buffered + 2) * (self._state("tables") + members + 2) + self._state("deciding")
        self._conditions.make_room(buffered + 8, members)
        wanted = int(self._units.count[0]) + buffered + 8
        if wanted > len(self._units.rows):
            rows = longer(self._units.rows, 2 * wanted)
            self._units = self._units._replace(rows=rows, slots=empty_slots(2 * wanted))
            K.rehash_units(self._units)

    def _state(self, name: str) -> int:
        return int(self._memory.state[name][0])


class _Group(NamedTuple):
    """Filters that have the same verdicts about the tables of a compressed transaction."""

    filters: Mask
    is_whole: bool
    """Whether the filters of the group surely send all tables of the compressed transaction."""
    is_nothing: bool
    """Whether the filters of the group drop all tables of the compressed transaction."""


class _Filters:
    """All filters of a tally that have rules. Each method asks all of them at once."""

    def __init__(self, filters: Sequence[TableFlags], subjects: Subjects) -> None:
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
        """Tell for each filter whether it sends at least one of these tables or statements."""
        sent: Mask = np.any(self._of(subjects) & FILTER_BINLOG_SEND_F, axis=0)
        return sent

    def groups(self, subjects: npt.NDArray[np.int32]) -> list[_Group]:
        """Divide the filters into groups that have the same verdicts about these tables and statements."""
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
        """Return the part of a compressed transaction that the filters of a group send.

        All filters of a group have the same verdicts, so only the first one is asked.
        """
        return self._payloads[int(np.argmax(group.filters))].decide(segment, event, read)

    def _of(self, subjects: npt.NDArray[np.int32]) -> npt.NDArray[np.uint32]:
        """Return the filters' verdicts as uint32 bits, with a row for each subject and a column for each filter."""
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
    """Gives numbers to the servers and domains that transactions come from. Number 0 stands for events that every slave
    wants."""

    def __init__(self, sources: SourceNumbers, *, told_apart: bool) -> None:
        self._sources = sources
        self._told_apart = told_apart
        self._numbers: dict[Origin | None, int] = {None: 0}

    @property
    def found(self) -> tuple[Origin | None, ...]:
        """The servers and domains found so far, in the order of their numbers. The first entry is None."""
        return tuple(self._numbers)

    def of(self, segment: Segment) -> npt.NDArray[np.int64]:
        """Return for each transaction of a segment the number of the server and domain that it comes from."""
        if not self._told_apart:
            return np.zeros(len(segment.txn_subject), np.int64)
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
                domain = self._sources.key(number, fd.family)[0] if number >= 0 else None
                assert not isinstance(domain, bytes)
                origin = Origin(server, domain, fd.header.server_id)
            numbers.append(self._numbers.setdefault(origin, len(self._numbers)))
        runs = np.diff(begins, append=len(pairs))
        return np.repeat(np.array(numbers, np.int64)[which], runs)

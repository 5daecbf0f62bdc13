"""The traffic of each transaction under any number of filters, counted in one pass over the binlogs.

A :class:`TransactionTally` counts as a :class:`~dumpfilter.traffic.tally.Tally` does, but under each transaction
instead of each time bucket. Units of one transaction that the same filters are sent are added up. A set of such filters
is a *pattern*. The result (:class:`TransactionTraffic`) has an entry for each transaction and pattern. Its size depends
neither on the number of filters nor on the number of tables.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.event_time import MICROSECONDS, commit_time
from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, EventType
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.chunk import ReadAt
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, TableFlags
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subject, Subjects
from dumpfilter.traffic.facts import COLUMNS, EXACTLY, Conditions, Ints, Words, wants
from dumpfilter.traffic.tally import Tally

GivenFilter = tuple[ReplicationFilter, OriginFilter | None]
"""A filter, and the server ids and domains that its slave wants (None: all)."""

SchemasOf = Callable[[Subject], Sequence[str]]
"""A function that returns the schemas to which the events of a table or statement belong."""

MILLION = 1_000_000
"""The unit of compression ratios, which are integers so that each engine rounds alike."""

_WORD = 64
"""The number of filters whose bits share a word."""

_Item = TypeVar("_Item", bound=np.generic)

_SECOND = int(MICROSECONDS)
_UNKNOWN = -2
"""The number in place of a pattern that nobody has looked up."""
_NO_FILTER = -1
"""The number in place of a pattern for events that no filter is sent."""

# The layout of MySQL's GTID events, without the events' headers.
_CLOCK_TYPE_AT = 1 + 16 + 8
"""The offset of the byte that says whether logical timestamps follow, which stand before the commit time."""
_HAS_TIMES = 2
_COMMIT_TIME_AT = _CLOCK_TYPE_AT + 1 + 8 + 8
_COMMIT_TIME_LENGTH = 7
_HAS_ORIGINAL_TIME = 1 << 55


class Pattern(NamedTuple):
    """The filters that are sent certain events, and the schemas to which these events belong."""

    filters: bytes
    """A bit for each filter, in words of 64 bits (little endian)."""
    schemas: tuple[str, ...]

    def has(self, number: int) -> bool:
        """Return whether the filter with this number is sent the events."""
        place, bit = divmod(number, 8)
        return bool(self.filters[place] >> bit & 1)


class Sums(NamedTuple):
    """The traffic of one slave by transaction. The arrays have one entry for each transaction that is sent."""

    transaction: Ints
    bytes: Ints
    events: Ints
    compressed: Ints
    """The bytes of the events as zstd, by the ratios of the events' schemas."""


@dataclass(frozen=True, eq=False)
class TransactionTraffic:
    """The traffic of consecutive transactions of a binlog set, by transaction and pattern.

    A pattern is a set of filters that are sent the same events.
    """

    file: npt.NDArray[np.int32]
    """For each transaction, the number of its file."""
    end: Ints
    """For each transaction, the offset in the file at which it ends."""
    time: Ints
    """For each transaction, the time of its commit, Unix microseconds; 0 if no event tells it."""
    is_exact: npt.NDArray[np.bool_]
    """For each transaction, whether ``time`` has microseconds. Otherwise it is a whole second."""
    bytes: Ints
    """For each transaction, the bytes of a slave without a filter."""
    events: npt.NDArray[np.int32]
    """For each transaction, the events of a slave without a filter."""
    stand_in: npt.NDArray[np.int32]
    """For each transaction, the bytes of the stand-in that a real replica gets if the transaction is dropped; 0: it
    needs none."""
    patterns: tuple[Pattern, ...]
    transaction: Ints
    """For each entry, the index of its transaction, ascending. -1: the entry is before the first transaction."""
    pattern: npt.NDArray[np.int32]
    """For each entry, the index of its pattern in ``patterns``."""
    entry_bytes: Ints
    entry_events: npt.NDArray[np.int32]
    is_frame: npt.NDArray[np.bool_]
    """For each entry, whether it has the transaction's GTID event, BEGIN and COMMIT, with which each sent transaction
    travels. False for all entries of events between transactions."""
    before: tuple[int, int] = (0, 0)
    """The bytes and events before the first transaction, of a slave without a filter."""

    def __len__(self) -> int:
        return len(self.time)

    def of_filter(self, number: int, ratio: Ints | None = None) -> Sums:
        """Return the traffic of a slave with the filter of this number, by transaction.

        ``ratio`` has the compression ratio of each pattern, in millionths; None: the events are not compressed.
        Events between transactions count with the sent transaction before them.
        """
        return self.weighted(np.array([pattern.has(number) for pattern in self.patterns], np.int64), ratio)

    def weighted(self, weight: Ints, ratio: Ints | None = None) -> Sums:
        """Return the traffic of a slave that gets the events of pattern k ``weight[k]`` times, by transaction.

        Events between transactions count with the sent transaction before them, and those before the first sent
        transaction with that one. If nothing but such events is sent, the result is empty.
        """
        sent = np.flatnonzero(weight[self.pattern])
        pattern, transaction = self.pattern[sent], self.transaction[sent]
        first = np.flatnonzero(np.diff(transaction, prepend=-2))
        is_sent = np.logical_or.reduceat(self.is_frame[sent], first) if len(first) else np.zeros(0, np.bool_)
        places = np.flatnonzero(is_sent)
        if not len(places):
            return Sums(*np.zeros((4, 0), np.int64))
        size = weight[pattern] * self.entry_bytes[sent]
        compressed = size if ratio is None else size * ratio[pattern]
        counts = np.stack([size, weight[pattern] * self.entry_events[sent], compressed])
        sums = np.add.reduceat(counts, first, axis=1)
        sums[:, places[0]] += sums[:, : places[0]].sum(axis=1)
        if ratio is not None:
            sums[2] //= MILLION
        return Sums(transaction[first[places]], *np.add.reduceat(sums, places, axis=1))


class Verdicts:
    """The filters that send each table and statement, as rows of words with one bit for each filter.

    Tallies of different threads share the verdicts, so that each filter is asked once about each table.

    Parameters:
        filters: the filters. A filter without rules sends everything, and is not asked.
    """

    def __init__(self, filters: Sequence[ReplicationFilter]) -> None:
        # The register of subjects is not used, because the flags are asked about subjects without numbers.
        flags = [TableFlags(one, Subjects()) for one in filters]
        self._asked = [(number, one) for number, one in enumerate(flags) if one.is_on]
        self.width = max(1, -(-len(filters) // _WORD))
        """The number of words of a row."""
        self.rules = self.bits(number for number, _ in self._asked)
        """The row with the bits of the filters that have rules."""
        self.every = self.bits(range(len(filters)))
        """The row with the bits of all filters."""
        self._of: dict[Subject, Words] = {}
        self._lock = threading.Lock()

    def bits(self, numbers: Iterable[int]) -> Words:
        """Return a row in which the bits of these filters are set."""
        words = np.zeros(self.width, np.uint64)
        for number in numbers:
            words[number // _WORD] |= np.uint64(1 << number % _WORD)
        return words

    def of(self, subject: Subject) -> Words:
        """Return the row of a table or statement, with the bits of the filters that have rules and send it."""
        found = self._of.get(subject)
        if found is None:
            with self._lock:
                found = self._of.get(subject)
                if found is None:
                    found = self._of[subject] = self.bits(
                        number for number, flags in self._asked if flags.bits(subject) & FILTER_BINLOG_SEND_F
                    )
        return found


class TransactionTally:
    """Counts the traffic of each transaction of a binlog file under any number of filters, segment by segment.

    Parameters:
        subjects, sources: the numbers of the set's tables and statements, and of its GTID sources. The segments must
            have been scanned with statements and compressed transactions.
        filters: each filter, and the server ids and domains that its slave wants. A filter's index is its number.
        verdicts: the verdicts of these filters, which tallies of the same filters may share.
        schemas_of: tells the schemas of a table or statement. None: patterns have no schemas.
        keep_all: whether to keep also events that no filter is sent, which a split by schema may send.
    """

    def __init__(
        self,
        subjects: Subjects,
        sources: SourceNumbers,
        *,
        filters: Sequence[GivenFilter],
        verdicts: Verdicts | None = None,
        schemas_of: SchemasOf | None = None,
        keep_all: bool = False,
    ) -> None:
        with_flags = [(TableFlags(one, subjects), origin) for one, origin in filters]
        self._tally = Tally(subjects, sources, filters=with_flags)
        verdicts = verdicts or Verdicts([one for one, _ in filters])
        origins = [origin for _, origin in filters]
        self._patterns = _Patterns(self._tally, subjects, verdicts, origins, schemas_of, keep_all=keep_all)
        self._start()

    def _start(self) -> None:
        self._count = 0
        self._columns: list[_Columns] = []
        self._entries: list[Ints] = []
        self._before = np.zeros(3, np.int64)

    def add(self, segment: Segment, data: npt.NDArray[np.uint8], data_offset: int, read: ReadAt) -> None:
        """Count the transactions of the next segment.

        ``data`` has the bytes of the file from ``data_offset`` on, and ``read`` reads the file. Raises BinlogCorrupt
        for a compressed transaction that cannot be opened.
        """
        starts = (segment.txn_source != R.KEPT) & (segment.txn_subject != R.SKIP)
        is_real = starts.copy()
        if segment.continues:
            starts[0] = False
        keys = np.cumsum(starts, dtype=np.int64) + (self._count - 1)
        self._tally.add(segment, read, keys=keys)
        first = self._count - 1
        self._count += int(np.count_nonzero(starts))
        dense, entries = self._count_units(first)
        self._entries.append(entries)
        times, is_exact = _times(segment, data, data_offset, read)
        ends = np.append(segment.offset[segment.txn_event[1:-1]], segment.end)
        if len(starts) and is_real[0] and not starts[0]:
            # The transaction began in an earlier segment, whose GTID event told the time if it told any.
            self._columns[-1].finish(int(ends[0]), int(times[0]))
        if self._columns:
            self._columns[-1].dense[-1] += dense[0]
        else:
            self._before += dense[0]
        if starts.any():
            self._columns.append(_Columns(ends[starts], times[starts], is_exact[starts], dense[1:]))

    def _count_units(self, first: int) -> tuple[Ints, Ints]:
        """Return the sums of a segment by transaction for a slave without a filter, and those by pattern.

        ``first`` is the key of the first transaction. The columns of the first result are bytes, events and bytes of
        stand-ins. Those of the second are the key, the pattern, bytes, events and the number of transactions.
        """
        units = dict(zip(COLUMNS, self._tally.take_units().T, strict=True))
        key, wanted = units["bucket"] - first, self._count - first
        patterns = self._patterns.of_units(units["origin"], units["condition"])
        everything = self._patterns.for_everything[units["condition"]]
        dense = np.stack(
            [
                _sums(key[everything], units["bytes"][everything], wanted),
                _sums(key[everything], units["events"][everything], wanted),
                _sums(key, units["stand_in_bytes"], wanted),
            ],
            axis=1,
        )
        kept = patterns >= 0
        pairs, which = np.unique(key[kept] << 32 | patterns[kept], return_inverse=True)
        counts = [_sums(which, units[name][kept], len(pairs)) for name in ("bytes", "events", "transactions")]
        return dense, np.stack([(pairs >> 32) + first, pairs & 0xFFFFFFFF, *counts], axis=1)

    def take(self, file: int = 0) -> TransactionTraffic:
        """Return the traffic since the last call of this method, and start again from 0.

        Call it between two transactions. ``file`` is the number of the file in the set.
        """
        before = self._before.tolist()[:2]
        found = _traffic(self._columns, self._entries, self._patterns.found, file, (before[0], before[1]))
        self._start()
        return found

    def new_subjects(self) -> frozenset[Pattern]:
        """Return the filters that send each table and statement, and its schemas, as far as no earlier call told them.

        Origins that a slave ignores do not matter. Equal results are returned once.
        """
        return self._patterns.new_subjects()


@dataclass
class _Columns:
    """The transactions that begin in one segment, of which there is at least one."""

    end: Ints
    time: Ints
    is_exact: npt.NDArray[np.bool_]
    dense: Ints

    def finish(self, end: int, time: int) -> None:
        """Note the end of the last transaction, which continued in a later segment, and its time if not yet known."""
        self.end[-1] = end
        if not self.is_exact[-1] and time:
            self.time[-1] = time


def _traffic(
    columns: Sequence[_Columns],
    entries_of: Sequence[Ints],
    patterns: Sequence[Pattern],
    file: int,
    before: tuple[int, int],
) -> TransactionTraffic:
    entries = np.concatenate([np.zeros((0, 5), np.int64), *entries_of])
    dense = np.concatenate([np.zeros((0, 3), np.int64), *(each.dense for each in columns)])
    end = np.concatenate([np.zeros(0, np.int64), *(each.end for each in columns)])
    used, pattern = np.unique(entries[:, 1], return_inverse=True)
    return TransactionTraffic(
        file=np.full(len(end), file, np.int32),
        end=end,
        time=np.concatenate([np.zeros(0, np.int64), *(each.time for each in columns)]),
        is_exact=np.concatenate([np.zeros(0, np.bool_), *(each.is_exact for each in columns)]),
        bytes=np.ascontiguousarray(dense[:, 0]),
        events=dense[:, 1].astype(np.int32),
        stand_in=dense[:, 2].astype(np.int32),
        patterns=tuple(patterns[k] for k in used.tolist()),
        transaction=np.ascontiguousarray(entries[:, 0]),
        pattern=pattern.astype(np.int32),
        entry_bytes=np.ascontiguousarray(entries[:, 2]),
        entry_events=entries[:, 3].astype(np.int32),
        is_frame=entries[:, 4] > 0,
        before=before,
    )


def join(parts: Sequence[TransactionTraffic]) -> TransactionTraffic:
    """Return the traffic of consecutive parts of a binlog set as one.

    All parts must have been counted for the same filters.
    """
    numbers: dict[Pattern, int] = {}
    transaction, pattern = [], []
    before = [0, 0]
    dense_bytes = [part.bytes.copy() for part in parts]
    dense_events = [part.events.copy() for part in parts]
    count = 0
    last: int | None = None
    for k, part in enumerate(parts):
        renumbered = [numbers.setdefault(each, len(numbers)) for each in part.patterns]
        pattern.append(np.array(renumbered, np.int32)[part.pattern])
        transaction.append(part.transaction + count)
        if last is None:
            before = [a + b for a, b in zip(before, part.before, strict=True)]
        else:
            dense_bytes[last][-1] += part.before[0]
            dense_events[last][-1] += part.before[1]
        last = k if len(part) else last
        count += len(part)
    return TransactionTraffic(
        file=_joined([part.file for part in parts], np.int32),
        end=_joined([part.end for part in parts], np.int64),
        time=_joined([part.time for part in parts], np.int64),
        is_exact=_joined([part.is_exact for part in parts], np.bool_),
        bytes=_joined(dense_bytes, np.int64),
        events=_joined(dense_events, np.int32),
        stand_in=_joined([part.stand_in for part in parts], np.int32),
        patterns=tuple(numbers),
        transaction=_joined(transaction, np.int64),
        pattern=_joined(pattern, np.int32),
        entry_bytes=_joined([part.entry_bytes for part in parts], np.int64),
        entry_events=_joined([part.entry_events for part in parts], np.int32),
        is_frame=_joined([part.is_frame for part in parts], np.bool_),
        before=(before[0], before[1]),
    )


def _joined(columns: Iterable[npt.NDArray[_Item]], dtype: type[_Item]) -> npt.NDArray[_Item]:
    found: npt.NDArray[_Item] = np.concatenate([np.zeros(0, dtype), *columns])
    return found


def _times(
    segment: Segment, data: npt.NDArray[np.uint8], data_offset: int, read: ReadAt
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the commit time of each transaction of a segment, microseconds, and whether a GTID event tells it."""
    checksum = segment.format_description.checksum
    first = segment.txn_event[:-1]
    exact = np.zeros(len(first), np.int64)
    if segment.format_description.family == "mysql":
        kind = segment.type[first]
        body = segment.offset[first] - data_offset + HEADER_LENGTH
        end = body - HEADER_LENGTH + segment.size[first] - (CHECKSUM_LENGTH if checksum else 0)
        is_long = body + _COMMIT_TIME_AT + _COMMIT_TIME_LENGTH <= end
        told = np.flatnonzero(np.isin(kind, (EventType.GTID, EventType.ANONYMOUS_GTID)) & is_long)
        told = told[data[body[told] + _CLOCK_TYPE_AT] == _HAS_TIMES]
        for k in range(_COMMIT_TIME_LENGTH):
            exact[told] |= data[body[told] + _COMMIT_TIME_AT + k].astype(np.int64) << 8 * k
        exact &= _HAS_ORIGINAL_TIME - 1
        for t in np.flatnonzero(kind == EventType.GTID_TAGGED).tolist():
            at, size = int(segment.offset[first[t]]), int(segment.size[first[t]])
            exact[t] = round((commit_time(read(at, size), checksum=checksum) or 0) * MICROSECONDS)
    known = np.maximum.accumulate(np.where(segment.time > 0, np.arange(len(segment.time)), -1))
    last = known[segment.txn_event[1:] - 1] if len(first) else first
    seconds = np.where(last >= first, segment.time[last].astype(np.int64), 0)
    is_exact = exact > 0
    return np.where(is_exact, exact, seconds * _SECOND), is_exact


def _sums(numbers: Ints, values: Ints, length: int) -> Ints:
    """Return the sum of the values with each number from 0 to ``length``."""
    # The function bincount adds floats, which represent every byte count up to 2**53 exactly.
    return np.bincount(numbers, weights=values, minlength=length).astype(np.int64)


class _Patterns:
    """The patterns of a tally's conditions. A pattern is the set of filters that are sent the same events."""

    def __init__(
        self,
        tally: Tally,
        subjects: Subjects,
        verdicts: Verdicts,
        wanted: Sequence[OriginFilter | None],
        schemas_of: SchemasOf | None,
        *,
        keep_all: bool,
    ) -> None:
        self._tally = tally
        self._subjects = subjects
        self._of_subject = verdicts
        self._wanted = wanted
        self._schemas_of = schemas_of or (lambda subject: ())
        self._keep_all = keep_all
        self._verdicts = np.zeros((0, verdicts.width), np.uint64)
        """The words of each subject."""
        self._words = np.zeros((0, verdicts.width), np.uint64)
        """The words of each condition."""
        self._wants = np.zeros((0, verdicts.width), np.uint64)
        """The words of each origin."""
        self.for_everything = np.zeros(0, np.bool_)
        """For each condition, whether a slave without a filter is sent the events."""
        self._of_condition = np.zeros((0, 0), np.int32)
        """For each origin and condition, the number of the pattern in ``found``, or a negative constant."""
        self.found: list[Pattern] = []
        self._numbers: dict[Pattern, int] = {}
        self._sets: list[tuple[str, ...]] = [()]
        """The sets of schemas, by number."""
        self._set_numbers: dict[tuple[str, ...], int] = {(): 0}
        self._set_of_subject: list[int] = []
        """For each subject, the number of the set of its schemas."""
        self._told = 0

    def new_subjects(self) -> frozenset[Pattern]:
        """Return the patterns of the tables and statements that have appeared since the last call."""
        self._add_subjects()
        first, self._told = self._told, len(self._verdicts)
        words = self._verdicts[first:] | (self._of_subject.every & ~self._of_subject.rules)
        schemas = [self._sets[number] for number in self._set_of_subject[first:]]
        return frozenset(map(Pattern, map(np.ndarray.tobytes, words), schemas))

    def of_units(self, origin: Ints, condition: Ints) -> npt.NDArray[np.int32]:
        """Return the number of each unit's pattern, or a negative constant."""
        self._add_subjects()
        self._add_conditions()
        unknown = self._of_condition[origin, condition] == _UNKNOWN
        if unknown.any():
            width = self._of_condition.shape[1]
            where, c = np.divmod(np.unique(origin[unknown] * width + condition[unknown]), width)
            self._of_condition[where, c] = self._look_up(self._words[c] & self._wants[where], c)
        return self._of_condition[origin, condition]

    def _look_up(self, words: Words, conditions: Ints) -> npt.NDArray[np.int32]:
        """Return the numbers of the patterns of conditions, which the filters of ``words`` meet."""
        sets = self._schema_sets(self._tally.conditions().chosen(conditions))
        numbers = np.full(len(words), _NO_FILTER, np.int32)
        kept = np.flatnonzero(words.any(axis=1) | self._keep_all)
        rows = np.ascontiguousarray(np.column_stack([words, sets.astype(np.uint64)])[kept])
        different, which = np.unique(rows.view(f"V{8 * rows.shape[1]}").reshape(-1), return_inverse=True)
        found = []
        for row in different.tolist():
            pattern = Pattern(row[:-8], self._sets[int.from_bytes(row[-8:], "little")])
            found.append(self._numbers.setdefault(pattern, len(self._numbers)))
        numbers[kept] = np.array(found, np.int32)[which]
        self.found += list(self._numbers)[len(self.found) :]
        return numbers

    def _schema_sets(self, conditions: Conditions) -> Ints:
        """Return the numbers in ``_sets`` of the schemas to which the events of each condition belong.

        A compression ratio is known for single schemas only, so that several schemas matter for a split alone.
        """
        set_of = np.array(self._set_of_subject, np.int64)
        has_required, names = conditions.required >= 0, conditions.names_subjects
        if not self._keep_all:
            set_of[[len(self._sets[number]) != 1 for number in self._set_of_subject]] = 0
            found = np.zeros(len(conditions), np.int64)
            filled = np.flatnonzero((conditions.lengths > 0) & (conditions.kind != EXACTLY))
            of_member = set_of[np.where(names, conditions.member, 0)]
            if len(filled):
                first = np.minimum.reduceat(of_member, conditions.start[filled])
                is_one = first == np.maximum.reduceat(of_member, conditions.start[filled])
                found[filled] = np.where(is_one, first, 0)
            found[has_required] = set_of[conditions.required[has_required]]
            return found
        made = []
        for c in range(len(conditions)):
            members = [] if conditions.kind[c] == EXACTLY else conditions.members(c).tolist()
            schemas = set(itertools.chain.from_iterable(self._sets[set_of[member]] for member in members))
            if has_required[c]:
                schemas.intersection_update(self._sets[set_of[conditions.required[c]]])
            made.append(self._set_number(schemas))
        return np.array(made, np.int64)

    def _set_number(self, schemas: Iterable[str]) -> int:
        found = tuple(sorted(schemas))
        number = self._set_numbers.setdefault(found, len(self._sets))
        if number == len(self._sets):
            self._sets.append(found)
        return number

    def _add_conditions(self) -> None:
        origins, known = self._tally.found_origins, len(self._words)
        if len(origins) == len(self._wants) and self._tally.conditions_count == known:
            return
        new = self._tally.conditions(known)
        of_subject = self._of_subject
        words = new.words(self._verdicts, of_subject.every, of_subject.rules)
        self._words = np.concatenate([self._words, words])
        self.for_everything = np.concatenate([self.for_everything, new.for_everything])
        more = [
            of_subject.bits(n for n, wanted in enumerate(self._wanted) if wants(wanted, origin))[np.newaxis]
            for origin in origins[len(self._wants) :]
        ]
        self._wants = np.concatenate([self._wants, *more])
        larger = np.full((len(origins), len(self._words)), _UNKNOWN, np.int32)
        larger[: len(self._of_condition), :known] = self._of_condition
        self._of_condition = larger

    def _add_subjects(self) -> None:
        if len(self._subjects) == len(self._verdicts):
            return
        rows = list(self._verdicts)
        for number in range(len(rows), len(self._subjects)):
            members = self._subjects.members(number)
            if members is None:
                subject = self._subjects[number]
                rows.append(self._of_subject.of(subject))
                schemas = set(self._schemas_of(subject))
            else:
                # A filter that sends a member of a set sends the set. A member has a smaller number than its set.
                none = self._of_subject.bits(())
                rows.append(np.bitwise_or.reduce([none, *(rows[member] for member in members)]))
                inner = (self._sets[self._set_of_subject[member]] for member in members)
                schemas = set(itertools.chain.from_iterable(inner))
            self._set_of_subject.append(self._set_number(schemas))
        self._verdicts = np.stack(rows)


def ratios_of(traffic: TransactionTraffic, by_schema: Mapping[str, int], whole: int) -> Ints:
    """Return the compression ratio of each pattern, in millionths.

    ``by_schema`` has the ratios of schemas. Events of several schemas, or of none, have the ratio ``whole``.
    """
    return np.array(
        [
            by_schema.get(pattern.schemas[0], whole) if len(pattern.schemas) == 1 else whole
            for pattern in traffic.patterns
        ],
        np.int64,
    )

"""The traffic of each transaction under any number of filters, counted in one pass over the binlogs.

A :class:`TransactionTally` counts as a :class:`~dumpfilter.dump.tally.Tally` does, but under each transaction instead
of each time bucket. Units of one transaction that the same filters are sent are added up. A set of such filters is a
*pattern*. The result (:class:`TransactionTraffic`) has an entry for each transaction and pattern. Its size depends
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
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump import _transaction_kernels as K
from dumpfilter.dump._tally import U_CONDITION, U_ORIGIN
from dumpfilter.dump.chunk import ReadAt
from dumpfilter.dump.conditions import longer
from dumpfilter.dump.tallied import Origin
from dumpfilter.dump.tally import Tally
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, TableFlags
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subject, Subjects

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

GivenFilter = tuple[ReplicationFilter, OriginFilter | None]
"""A filter, and the server ids and domains that its slave wants (None: all)."""

SchemasOf = Callable[[Subject], Sequence[str]]
"""A function that returns the schemas to which the events of a table or statement belong."""

MILLION = K.MILLION
"""The unit of compression ratios, which are integers so that each engine rounds alike."""

_Item = TypeVar("_Item", bound=np.generic)

_SECOND = int(MICROSECONDS)
_UNKNOWN = -2
"""The number in place of a pattern that nobody has looked up."""
_NO_FILTER = -1
"""The number in place of a pattern for events that no filter is sent."""


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
        place, bit = divmod(number, 8)
        weight = np.array([pattern.filters[place] >> bit & 1 for pattern in self.patterns], np.int64)
        return self.weighted(weight, ratio)

    def weighted(self, weight: Ints, ratio: Ints | None = None) -> Sums:
        """Return the traffic of a slave that gets the events of pattern k ``weight[k]`` times, by transaction."""
        if ratio is None:
            ratio = np.full(len(self.patterns), MILLION, np.int64)
        out = np.empty((len(self) + 1, 4), np.int64)
        n = K.sent_of(
            self.transaction,
            self.pattern,
            self.entry_bytes,
            self.entry_events,
            self.is_frame,
            weight,
            ratio,
            out,
        )
        return Sums(*(np.ascontiguousarray(out[:n, k]) for k in range(4)))


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
        self.width = max(1, -(-len(filters) // K.WORD))
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
            words[number // K.WORD] |= np.uint64(1 << number % K.WORD)
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
        self._patterns = _Patterns(subjects, verdicts, origins, schemas_of, keep_all=keep_all)
        self._dense = np.zeros((1024, K.DENSE_COLUMNS), np.int64)
        self._sparse = np.zeros((0, K.SPARSE_COLUMNS), np.int64)
        self._start()

    def _start(self) -> None:
        self._count = 0
        self._columns: list[_Columns] = []
        self._entries: list[Ints] = []
        self._before = np.zeros(K.DENSE_COLUMNS, np.int64)

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
        self._entries.append(self._count_units(first))
        times, is_exact = _times(segment, data, data_offset, read)
        ends = np.append(segment.offset[segment.txn_event[1:-1]], segment.end)
        dense = self._dense[: self._count - first].copy()
        if len(starts) and is_real[0] and not starts[0]:
            # The transaction began in an earlier segment, whose GTID event told the time if it told any.
            self._columns[-1].finish(int(ends[0]), int(times[0]))
        if self._columns:
            self._columns[-1].dense[-1] += dense[0]
        else:
            self._before += dense[0]
        if starts.any():
            self._columns.append(_Columns(ends[starts], times[starts], is_exact[starts], dense[1:]))

    def _count_units(self, first: int) -> Ints:
        units = self._tally.take_units()
        wanted = self._count - first
        if wanted > len(self._dense):
            self._dense = np.zeros((2 * wanted, K.DENSE_COLUMNS), np.int64)
        if len(units) > len(self._sparse):
            self._sparse = np.zeros((2 * len(units), K.SPARSE_COLUMNS), np.int64)
        self._dense[:wanted] = 0
        patterns = self._patterns
        patterns.look_up(self._tally, units)
        n = K.add_units(
            units,
            patterns.of_condition,
            patterns.is_everything,
            first,
            self._dense,
            self._sparse,
            patterns.scratch(),
        )
        return self._sparse[:n].copy()

    def take(self, file: int = 0) -> TransactionTraffic:
        """Return the traffic since the last call of this method, and start again from 0.

        Call it between two transactions. ``file`` is the number of the file in the set.
        """
        before = (int(self._before[K.D_BYTES]), int(self._before[K.D_EVENTS]))
        found = _traffic(self._columns, self._entries, self._patterns.found, file, before)
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
    entries = np.concatenate([np.zeros((0, K.SPARSE_COLUMNS), np.int64), *entries_of])
    dense = np.concatenate([np.zeros((0, K.DENSE_COLUMNS), np.int64), *(each.dense for each in columns)])
    end = np.concatenate([np.zeros(0, np.int64), *(each.end for each in columns)])
    used, pattern = np.unique(entries[:, K.S_PATTERN], return_inverse=True)
    return TransactionTraffic(
        file=np.full(len(end), file, np.int32),
        end=end,
        time=np.concatenate([np.zeros(0, np.int64), *(each.time for each in columns)]),
        is_exact=np.concatenate([np.zeros(0, np.bool_), *(each.is_exact for each in columns)]),
        bytes=np.ascontiguousarray(dense[:, K.D_BYTES]),
        events=dense[:, K.D_EVENTS].astype(np.int32),
        stand_in=dense[:, K.D_STAND_IN].astype(np.int32),
        patterns=tuple(patterns[k] for k in used.tolist()),
        transaction=np.ascontiguousarray(entries[:, K.S_KEY]),
        pattern=pattern.astype(np.int32),
        entry_bytes=np.ascontiguousarray(entries[:, K.S_BYTES]),
        entry_events=entries[:, K.S_EVENTS].astype(np.int32),
        is_frame=entries[:, K.S_TRANSACTIONS] > 0,
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
    exact = np.zeros(len(segment.txn_subject), np.int64)
    if segment.format_description.family == "mysql":
        K.commit_times(
            data,
            data_offset,
            segment.offset,
            segment.size,
            segment.type,
            segment.txn_event,
            checksum,
            exact,
        )
        for t in np.flatnonzero(exact == K.DECODE).tolist():
            i = int(segment.txn_event[t])
            at, size = int(segment.offset[i]), int(segment.size[i])
            found = commit_time(read(at, size), checksum=checksum)
            exact[t] = round((found or 0) * MICROSECONDS)
    seconds = np.zeros(len(exact), np.int64)
    K.last_times(segment.time, segment.txn_event, seconds)
    is_exact = exact > 0
    return np.where(is_exact, exact, seconds * _SECOND), is_exact


class _Patterns:
    """The patterns of a tally's conditions. A pattern is the set of filters that are sent the same events."""

    def __init__(
        self,
        subjects: Subjects,
        verdicts: Verdicts,
        wanted: Sequence[OriginFilter | None],
        schemas_of: SchemasOf | None,
        *,
        keep_all: bool,
    ) -> None:
        self._subjects = subjects
        self._of_subject = verdicts
        self._wanted = wanted
        self._schemas_of = schemas_of
        self._keep_all = keep_all
        self._width = verdicts.width
        self._every, self._rules = verdicts.every, verdicts.rules
        self._verdicts = np.zeros((0, self._width), np.uint64)
        self._words = np.zeros((0, self._width), np.uint64)
        self._schemas: list[tuple[str, ...]] = []
        self._wants: list[Words] = []
        self._known = 0
        self.is_everything = np.zeros(0, np.bool_)
        self.of_condition = np.zeros((0, 0), np.int32)
        """For each origin and condition, the number of the pattern in ``found``, or a negative constant."""
        self._numbers: dict[Pattern, int] = {}
        self.found: list[Pattern] = []
        self._latest = np.zeros(64, np.int64)
        self._told = 0
        self._sets: list[tuple[str, ...]] = [()]
        """The sets of schemas, by number. The number 0 is the empty set."""
        self._set_numbers: dict[tuple[str, ...], int] = {(): 0}
        self._subject_sets: list[int] = []

    def new_subjects(self) -> frozenset[Pattern]:
        """Return the patterns of the tables and statements that have appeared since the last call."""
        self._add_subjects()
        first, self._told = self._told, len(self._verdicts)
        words = self._verdicts[first:] | (self._every & ~self._rules)
        return frozenset(
            Pattern(words[number - first].tobytes(), self._schemas_of_subject(number))
            for number in range(first, self._told)
        )

    def scratch(self) -> Ints:
        """Return an array with the entry -1 for each pattern."""
        if len(self.found) > len(self._latest):
            self._latest = np.zeros(2 * len(self.found), np.int64)
        self._latest.fill(-1)
        return self._latest

    def look_up(self, tally: Tally, units: Ints) -> None:
        """Find the patterns of all units."""
        self._add_conditions(tally)
        self._add_origins(tally.found_origins)
        origin, condition = units[:, U_ORIGIN], units[:, U_CONDITION]
        unknown = np.flatnonzero(self.of_condition[origin, condition] == _UNKNOWN)
        if not len(unknown):
            return
        width = self.of_condition.shape[1]
        pairs = np.unique(origin[unknown] * width + condition[unknown])
        where, c = np.divmod(pairs, width)
        words = self._words[c] & np.stack(self._wants)[where]
        numbers = np.full(len(pairs), _NO_FILTER, np.int32)
        kept = np.arange(len(pairs)) if self._keep_all else np.flatnonzero(words.any(axis=1))
        if len(kept):
            numbers[kept] = self._numbers_of(words[kept], self._schema_sets(tally, c[kept]))
        self.of_condition[where, c] = numbers

    def _numbers_of(self, words: Words, schemas: Ints) -> npt.NDArray[np.int32]:
        """Return the numbers of the patterns with these words and sets of schemas, one in each row."""
        rows = np.ascontiguousarray(np.column_stack([words, schemas.astype(np.uint64)]))
        different, which = np.unique(rows.view(f"V{8 * rows.shape[1]}").reshape(-1), return_inverse=True)
        numbers = []
        for row in different.tolist():
            schema_set = self._sets[int.from_bytes(row[-8:], "little")]
            pattern = Pattern(row[:-8], schema_set)
            number = self._numbers.setdefault(pattern, len(self._numbers))
            if number == len(self.found):
                self.found.append(pattern)
            numbers.append(number)
        return np.array(numbers, np.int32)[which]

    def _schema_sets(self, tally: Tally, conditions: Ints) -> Ints:
        """Return the numbers in ``_sets`` of the schemas to which the events of each condition belong."""
        if self._schemas_of is None:
            return np.zeros(len(conditions), np.int64)
        if not self._keep_all:
            # A compression ratio is known for single schemas only, so compiled code finds the conditions that have one.
            found = np.zeros(len(conditions), np.int64)
            K.only_set(tally.condition_rows, conditions, self._know_subject_sets(), found)
            return found
        return np.array(
            [self._set_number(self._schemas_of_condition(tally, c)) for c in conditions.tolist()], np.int64
        )

    def _set_number(self, schemas: tuple[str, ...]) -> int:
        number = self._set_numbers.setdefault(schemas, len(self._sets))
        if number == len(self._sets):
            self._sets.append(schemas)
        return number

    def _know_subject_sets(self) -> Ints:
        """Return for each subject the number of the set with its only schema, or 0."""
        for number in range(len(self._subject_sets), len(self._subjects)):
            schemas = self._schemas_of_subject(number)
            self._subject_sets.append(self._set_number(schemas if len(schemas) == 1 else ()))
        return np.array(self._subject_sets, np.int64)

    def _add_conditions(self, tally: Tally) -> None:
        rows = tally.condition_rows
        first, last = self._known, int(rows.counts[0])
        if last == first:
            return
        self._add_subjects()
        if last > len(self._words):
            self._words = longer(self._words, 2 * last)
            self.is_everything = longer(self.is_everything, 2 * last)
            more = np.full((self.of_condition.shape[0], 2 * last), _UNKNOWN, np.int32)
            more[:, : self.of_condition.shape[1]] = self.of_condition
            self.of_condition = more
        K.words_of(
            rows,
            first,
            last,
            self._verdicts,
            self._rules,
            self._every,
            self._words[first:last],
            self.is_everything[first:last],
        )
        self._known = last

    def _add_subjects(self) -> None:
        known, wanted = len(self._verdicts), len(self._subjects)
        if wanted == known:
            return
        more = [self._verdicts]
        for number in range(known, wanted):
            members = self._subjects.members(number)
            if members is None:
                more.append(self._of_subject.of(self._subjects[number])[np.newaxis])
            else:
                # A filter that sends a member of a set sends the set. A member has a smaller number than its set.
                row = np.zeros(self._width, np.uint64)
                for member in members:
                    row |= self._row(member, known, more)
                more.append(row[np.newaxis])
        self._verdicts = np.concatenate(more)

    def _row(self, number: int, known: int, more: Sequence[Words]) -> Words:
        row: Words = self._verdicts[number] if number < known else more[1 + number - known][0]
        return row

    def _add_origins(self, origins: Sequence[Origin | None]) -> None:
        for origin in origins[len(self._wants) :]:
            self._wants.append(
                self._of_subject.bits(
                    number
                    for number, wanted in enumerate(self._wanted)
                    if wanted is None
                    or origin is None
                    or wanted.wants(origin.server_id, origin.domain_id, writer=origin.writer)
                )
            )
        missing = len(self._wants) - self.of_condition.shape[0]
        if missing:
            more = np.full((missing, self.of_condition.shape[1]), _UNKNOWN, np.int32)
            self.of_condition = np.concatenate([self.of_condition, more])

    def _schemas_of_condition(self, tally: Tally, condition: int) -> tuple[str, ...]:
        if self._schemas_of is None:
            return ()
        required, members = tally.subjects_of(condition)
        found = {schema for member in members for schema in self._schemas_of_subject(member)}
        if required is not None:
            found &= set(self._schemas_of_subject(required))
        return tuple(sorted(found))

    def _schemas_of_subject(self, number: int) -> tuple[str, ...]:
        while len(self._schemas) <= number:
            members = self._subjects.members(len(self._schemas))
            if members is None:
                assert self._schemas_of is not None
                self._schemas.append(tuple(self._schemas_of(self._subjects[len(self._schemas)])))
            else:
                inner = (self._schemas[member] for member in members)
                self._schemas.append(tuple(sorted(set(itertools.chain.from_iterable(inner)))))
        return self._schemas[number]


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

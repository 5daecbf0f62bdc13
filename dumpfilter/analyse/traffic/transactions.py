"""The traffic of each transaction under any number of filters, counted in one pass over the binlogs.

A :class:`TransactionTally` counts like a :class:`~dumpfilter.analyse.traffic.tally.Tally`, but by transaction
instead of by time bucket. The counts of a transaction's events that are sent to exactly the same filters are summed.
Such a set of filters is a *pattern*. The result, :class:`TransactionTraffic`, has one entry for each pair of
transaction and pattern. Its size depends neither on the number of filters nor on the number of tables.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.analyse.traffic.facts import Conditions, Facts, Ints, Words, of_numbers, sums, wants
from dumpfilter.analyse.traffic.tally import Tally
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

GivenFilter = tuple[ReplicationFilter, OriginFilter | None]
"""A filter with the server ids and domains that its slave wants (None: all)."""

SchemasOf = Callable[[Subject], Sequence[str]]
"""A function that returns the schemas to which the events of a table or statement belong."""

MILLION = 1_000_000
"""The denominator of compression ratios. They are integers, so that all engines (threads or Spark) round alike."""

_WORD = 64
"""The number of filters in a word, one bit each."""

_SECOND = int(MICROSECONDS)

# The layout of MySQL's GTID events, without the events' headers.
_CLOCK_TYPE_AT = 1 + 16 + 8
"""The byte offset in a GTID event's body of the code that announces logical timestamps and commit time."""
_HAS_TIMES = 2
_COMMIT_TIME_AT = _CLOCK_TYPE_AT + 1 + 8 + 8
_COMMIT_TIME_LENGTH = 7
_HAS_ORIGINAL_TIME = 1 << 55


class Pattern(NamedTuple):
    """A set of filters that receive certain events, and the schemas to which these events belong."""

    filters: bytes
    """One bit for each filter, in 64-bit little-endian words."""
    schemas: tuple[str, ...]

    def has(self, number: int) -> bool:
        """Return whether the filter with index ``number`` is in the set."""
        place, bit = divmod(number, 8)
        return bool(self.filters[place] >> bit & 1)


class Sums(NamedTuple):
    """The traffic of one slave, with one entry for each transaction that it is sent."""

    transaction: Ints
    bytes: Ints
    events: Ints
    compressed: Ints
    """The size of the events after zstd compression, bytes, estimated from the compression ratios of their schemas."""


@dataclass(frozen=True, eq=False)
class TransactionTraffic:
    """The traffic of consecutive transactions of a binlog set, with an entry for each pair of transaction and
    pattern.

    A pattern is a set of filters that receive the same events of the transaction.
    """

    file: npt.NDArray[np.int32]
    """For each transaction, the index of its file in the binlog set."""
    end: Ints
    """For each transaction, the byte offset in its file at which it ends."""
    time: Ints
    """For each transaction, its commit time, Unix microseconds; 0 if none of its events has a timestamp."""
    is_exact: npt.NDArray[np.bool_]
    """For each transaction, whether ``time`` is exact to microseconds. Otherwise it is a whole second."""
    bytes: Ints
    """For each transaction, the bytes that a slave without a filter receives."""
    events: npt.NDArray[np.int32]
    """For each transaction, the number of events that a slave without a filter receives."""
    stand_in: npt.NDArray[np.int32]
    """For each transaction, the size of its stand-in in bytes; 0 if it needs none.

    A stand-in is an empty transaction that a real replica gets in place of a dropped one.
    """
    patterns: tuple[Pattern, ...]
    transaction: Ints
    """For each entry, the index of its transaction, ascending. -1: its events precede the first transaction."""
    pattern: npt.NDArray[np.int32]
    """For each entry, the index of its pattern in ``patterns``."""
    entry_bytes: Ints
    entry_events: npt.NDArray[np.int32]
    is_frame: npt.NDArray[np.bool_]
    """For each entry, whether it includes the GTID event, BEGIN and COMMIT of its transaction. Every filter that
    receives the transaction receives this entry. It is False for events between transactions.
    """
    before: tuple[int, int] = (0, 0)
    """The bytes and the number of the events before the first transaction, as a slave without a filter receives them.
    """

    def __len__(self) -> int:
        return len(self.time)

    def of_filter(self, number: int, ratio: Ints | None = None) -> Sums:
        """Return the traffic of a slave that has the filter with index ``number``, by transaction.

        ``ratio`` has the compression ratio of each pattern, in millionths (None: no compression). Events between
        transactions count with the sent transaction before them.
        """
        return self.weighted(np.array([pattern.has(number) for pattern in self.patterns], np.int64), ratio)

    def weighted(self, weight: Ints, ratio: Ints | None = None) -> Sums:
        """Return the traffic of a slave that receives the events of pattern k ``weight[k]`` times, by transaction.

        ``ratio`` has the compression ratio of each pattern, in millionths (None: no compression). Events between
        transactions count with the sent transaction before them, and events before the first sent transaction count
        with that transaction. If no transaction is sent, the result is empty.
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
        found = np.add.reduceat(counts, first, axis=1)
        found[:, places[0]] += found[:, : places[0]].sum(axis=1)
        if ratio is not None:
            found[2] //= MILLION
        return Sums(transaction[first[places]], *np.add.reduceat(found, places, axis=1))


_COLUMNS = tuple(one.name for one in fields(TransactionTraffic) if one.name not in ("patterns", "before"))


class Verdicts:
    """The filters that send each table and statement, as rows of 64-bit words with one bit per filter.

    Tallies in several threads can share this cache, so that each filter is evaluated once per table. Filters without
    rules send everything, and are not evaluated.
    """

    def __init__(self, filters: Sequence[ReplicationFilter]) -> None:
        # The register of subjects is not used, because the flags are asked about subjects without numbers.
        self._flags = [TableFlags(one, Subjects()) for one in filters]
        self.rules = words_of([one.is_on for one in self._flags])
        """The row with the bits of all filters that have rules."""
        self.every = words_of([True] * len(filters))
        """The row with the bits of all filters."""
        self._of: dict[Subject, Words] = {}
        self._lock = threading.Lock()

    def of(self, subject: Subject) -> Words:
        """Return the row with the bits of those filters that have rules and send ``subject``, a table or statement."""
        with self._lock:
            if subject not in self._of:
                self._of[subject] = words_of(
                    [one.is_on and one.bits(subject) & FILTER_BINLOG_SEND_F != 0 for one in self._flags]
                )
            return self._of[subject]


def words_of(is_set: Sequence[bool]) -> Words:
    """Return the bits ``is_set`` as a row of 64-bit words."""
    bits = np.zeros(max(1, -(-len(is_set) // _WORD)) * _WORD, np.bool_)
    bits[: len(is_set)] = is_set
    return np.packbits(bits, bitorder="little").view(np.uint64)


class TransactionTally:
    """Counts the traffic of each transaction of a binlog file under any number of filters, segment by segment.

    Parameters:
        subjects, sources: the registers of the set's tables and statements, and of its GTID sources. The segments must
            have been scanned with statements and compressed transactions.
        filters: each filter, with the server ids and domains that its slave wants. A filter's index is its number.
        verdicts: the cached verdicts of these filters, which several tallies may share. None: a new cache.
        schemas_of: returns the schemas of a table or statement. None: patterns have no schemas.
        keep_all: whether to count also events that no filter sends, which a split by schema may send.
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
        self._subjects = subjects
        self._verdicts = verdicts or Verdicts([one for one, _ in filters])
        self._wanted = [origin for _, origin in filters]
        self._schemas_of = schemas_of or (lambda subject: ())
        self._keep_all = keep_all
        self._told = 0
        self._start()

    def _start(self) -> None:
        self._count = 0
        self._columns: list[_Columns] = []

    def add(self, segment: Segment, data: npt.NDArray[np.uint8], data_offset: int, read: ReadAt) -> None:
        """Count the transactions of the next segment.

        ``data`` has the bytes of the file from ``data_offset`` on, and ``read`` reads other bytes of the file.
        Raises BinlogCorrupt for a compressed transaction that cannot be opened.
        """
        starts = (segment.txn_source != R.KEPT) & (segment.txn_subject != R.SKIP)
        is_real = starts.copy()
        if segment.continues:
            starts[0] = False
        keys = np.cumsum(starts, dtype=np.int64) + (self._count - 1)
        self._tally.add(segment, read, keys=keys)
        self._count += int(np.count_nonzero(starts))
        times, is_exact = _times(segment, data, data_offset, read)
        ends = np.append(segment.offset[segment.txn_event[1:-1]], segment.end)
        if len(starts) and is_real[0] and not starts[0]:
            # The transaction began in an earlier segment, whose GTID event told the time if it told any.
            last = self._columns[-1]
            last.end[-1] = ends[0]
            if not last.is_exact[-1] and times[0]:
                last.time[-1] = times[0]
        if starts.any():
            self._columns.append(_Columns(ends[starts], times[starts], is_exact[starts]))

    def take(self, file: int = 0) -> TransactionTraffic:
        """Return the traffic since the last call of this method, and reset the counts.

        The last added segment must end at a transaction boundary. ``file`` is the file's index in the set, which the
        result records.
        """
        facts = self._tally.take(add_up=False)
        everything = facts.sent(None)
        # The number 0 is for events before the first transaction.
        key, length = facts.bucket + 1, self._count + 1
        nbytes, events = (
            sums(key[everything], each[everything], length) for each in (facts.bytes, facts.events)
        )
        patterns, number = self._patterns(facts)
        kept = np.flatnonzero(number >= 0)
        pairs, entry = np.unique(key[kept] << 32 | number[kept], return_inverse=True)
        of_entry = [
            sums(entry, each[kept], len(pairs)) for each in (facts.bytes, facts.events, facts.transactions)
        ]
        end, time, is_exact = map(np.concatenate, zip(_NO_COLUMNS, *self._columns, strict=True))
        found = TransactionTraffic(
            file=np.full(self._count, file, np.int32),
            end=end,
            time=time,
            is_exact=is_exact,
            bytes=nbytes[1:],
            events=events[1:].astype(np.int32),
            stand_in=sums(key, facts.stand_in_bytes, length)[1:].astype(np.int32),
            patterns=patterns,
            transaction=(pairs >> 32) - 1,
            pattern=(pairs & 0xFFFFFFFF).astype(np.int32),
            entry_bytes=of_entry[0],
            entry_events=of_entry[1].astype(np.int32),
            is_frame=of_entry[2] > 0,
            before=(int(nbytes[0]), int(events[0])),
        )
        self._start()
        return found

    def new_subjects(self) -> frozenset[Pattern]:
        """Return the distinct patterns (sending filters, and schemas) of all tables and statements registered since
        the last call.

        Whether a slave ignores the origin is not considered.
        """
        first, self._told = self._told, len(self._subjects)
        found = set()
        for number in range(first, self._told):
            # A filter that sends a member of a set sends the set.
            members = [self._subjects[one] for one in self._subjects.single(number)]
            words = np.bitwise_or.reduce([self._verdicts.of(one) for one in members])
            words |= self._verdicts.every & ~self._verdicts.rules
            schemas = set(itertools.chain.from_iterable(map(self._schemas_of, members)))
            found.add(Pattern(words.tobytes(), tuple(sorted(schemas))))
        return frozenset(found)

    def _patterns(self, facts: Facts) -> tuple[tuple[Pattern, ...], Ints]:
        """Return the patterns of the units in ``facts``, and the index of each unit's pattern (-1: no filter sends
        its events).
        """
        verdicts = self._verdicts
        of_subject = np.array([verdicts.of(one) for one in facts.subjects], np.uint64)
        words = facts.conditions.words(
            of_subject.reshape(-1, len(verdicts.every)), verdicts.every, verdicts.rules
        )
        wanted = np.stack([words_of([wants(one, found) for one in self._wanted]) for found in facts.origins])
        pairs, pair = np.unique(facts.origin << 32 | facts.condition, return_inverse=True)
        origin, condition = pairs >> 32, pairs & 0xFFFFFFFF
        words = words[condition] & wanted[origin]
        sets, of_condition = self._schema_sets(facts)
        kept = np.flatnonzero(words.any(axis=1) | self._keep_all)
        rows = np.column_stack([words[kept], of_condition[condition[kept]].astype(np.uint64)])
        _, first, number = np.unique(
            rows.view(f"V{rows.itemsize * rows.shape[1]}").ravel(), return_index=True, return_inverse=True
        )
        numbers = np.full(len(pairs), -1, np.int64)
        numbers[kept] = number
        patterns = tuple(Pattern(row[:-1].tobytes(), sets[int(row[-1])]) for row in rows[first])
        return patterns, numbers[pair]

    def _schema_sets(self, facts: Facts) -> tuple[list[tuple[str, ...]], Ints]:
        """Return a list of schema sets, and for each condition the index of the set to which its events belong.

        Compression ratios are known for single schemas only. Unless ``keep_all`` is set, events of several schemas
        therefore have the empty set.
        """
        conditions = facts.conditions
        schemas = [tuple(self._schemas_of(subject)) for subject in facts.subjects]
        sets: dict[tuple[str, ...], int] = {(): 0}
        if self._keep_all:
            each = (self._schemas_of_condition(conditions, k, schemas) for k in range(len(conditions)))
            numbers = np.array([sets.setdefault(one, len(sets)) for one in each], np.int64)
            return list(sets), numbers
        only = np.array(
            [sets.setdefault(one if len(one) == 1 else (), len(sets)) for one in schemas], np.int64
        )
        of_member = of_numbers(only, conditions.member)
        least, most = (one.reduceat(of_member, conditions.start[:-1]) for one in (np.minimum, np.maximum))
        found = np.where(least == most, least, 0)
        return list(sets), np.where(conditions.required < 0, found, of_numbers(only, conditions.required))

    def _schemas_of_condition(
        self, conditions: Conditions, number: int, schemas: Sequence[tuple[str, ...]]
    ) -> tuple[str, ...]:
        members = conditions.members(number).tolist()
        found = set(itertools.chain.from_iterable(schemas[member] for member in members if member >= 0))
        required = int(conditions.required[number])
        return tuple(sorted(found if required < 0 else found.intersection(schemas[required])))


class _Columns(NamedTuple):
    """The transactions that begin in one segment: end offset, commit time, and whether this time is exact."""

    end: Ints
    time: Ints
    is_exact: npt.NDArray[np.bool_]


_NO_COLUMNS = _Columns(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_))


def join(parts: Sequence[TransactionTraffic]) -> TransactionTraffic:
    """Return the traffic of consecutive parts of a binlog set as that of one set. The parts must not be empty, and all
    must have been counted for equal filters.

    Transactions are numbered through all parts, and equal patterns (sets of filters) get one number. The events before
    a part's first transaction count with the last transaction of the parts before.
    """
    numbers: dict[Pattern, int] = {}
    columns: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in _COLUMNS}
    count, before = 0, np.zeros(2, np.int64)
    for part in parts:
        renumbered = [numbers.setdefault(each, len(numbers)) for each in part.patterns]
        found = {name: getattr(part, name) for name in _COLUMNS}
        found["pattern"] = np.array(renumbered, np.int32)[part.pattern]
        found["transaction"] = part.transaction + count
        if count:
            last = next(k for k in reversed(range(len(columns["end"]))) if len(columns["end"][k]))
            for name, more in zip(("bytes", "events"), part.before, strict=True):
                columns[name][last] = columns[name][last].copy()
                columns[name][last][-1] += more
        else:
            before += part.before
        for name, column in found.items():
            columns[name].append(column)
        count += len(part)
    return TransactionTraffic(
        patterns=tuple(numbers),
        before=(int(before[0]), int(before[1])),
        **{name: np.concatenate(each) for name, each in columns.items()},
    )


def _times(
    segment: Segment, data: npt.NDArray[np.uint8], data_offset: int, read: ReadAt
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the commit time of each transaction of a segment (Unix microseconds), and whether it comes from a GTID
    event.

    ``data`` has the bytes of the file from the offset ``data_offset`` on, and ``read`` reads other bytes of the file.
    """
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


def ratios_of(traffic: TransactionTraffic, by_schema: Mapping[str, int], whole: int) -> Ints:
    """Return the compression ratio of each pattern of ``traffic``, in millionths.

    ``by_schema`` has the ratios of schemas. Events of several schemas, or of none, have the ratio ``whole``.
    """
    return np.array(
        [
            by_schema.get(pattern.schemas[0], whole) if len(pattern.schemas) == 1 else whole
            for pattern in traffic.patterns
        ],
        np.int64,
    )

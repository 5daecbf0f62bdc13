"""The bytes that a master would send of each transaction under any number of filters, counted in one pass over
binlogs.

A :class:`TransactionTally` counts like a :class:`~dumpfilter.analyse.traffic.tally.Tally`, but by transaction instead
of by time bucket. Events of a transaction that exactly the same filters send are counted together. The size of the
result, :class:`TransactionTraffic`, depends neither on the number of filters nor on the number of tables.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.analyse.traffic.facts import Facts, Ints, Mask, flags_of, side_by_side, sums
from dumpfilter.analyse.traffic.tally import Tally
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, EventType, numbers_at
from dumpfilter.binlog.gtid_events import (
    CLOCK_TYPE_AT,
    COMMIT_TIME_AT,
    COMMIT_TIME_LENGTH,
    FIXED_TIME,
    LOGICAL_TIMESTAMP_TYPECODE,
    MICROSECONDS,
    ORIGINAL_TIME_FOLLOWS,
    commit_time,
)
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.chunk import ReadAt
from dumpfilter.filter.base import OriginFilter, ReplicationFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.opened import OpenedEvents
from dumpfilter.index.subjects import Subject, Subjects, TableSubject

GivenFilter = tuple[ReplicationFilter, OriginFilter | None]
"""A filter with the server ids and domains that its slave wants (None: all)."""

_SECOND = int(MICROSECONDS)


class Sent(NamedTuple):
    """The transactions of a binlog set of which a filter passes at least one event, with the number of bytes and events
    that pass.

    The arrays have one entry for each of these transactions.
    """

    transaction: Ints
    """The indexes of the transactions in the binlog set, ascending."""
    bytes: Ints
    """The bytes of each transaction's events. Events outside transactions (format descriptions, rotations) count with
    the sent transaction before them. Events before the first sent transaction count with that transaction.
    """
    events: Ints
    """The number of each transaction's events. MySQL's replication protocol adds some bytes to each event."""
    outside: tuple[int, int] = (0, 0)
    """The bytes and the number of events outside transactions if no transaction is sent. Otherwise zeros, since these
    events count with a sent transaction.
    """


@dataclass(frozen=True, eq=False)
class TransactionTraffic:
    """The transactions of consecutive binlog files, with counts of bytes and events by condition (such as "this table
    is sent"). The bytes under each given filter are computed from these counts.
    """

    file: npt.NDArray[np.int32]
    """For each transaction, the index of its file in the binlog set."""
    end: Ints
    """For each transaction, the byte offset in its file at which it ends."""
    time: Ints
    """For each transaction, its commit time, Unix microseconds; 0 if none of its events has a timestamp."""
    is_exact: npt.NDArray[np.bool_]
    """For each transaction, whether ``time`` is exact to microseconds. Otherwise it is a whole second."""
    stand_in: npt.NDArray[np.int32]
    """For each transaction, the size of its stand-in in bytes; 0 if it needs none.

    A stand-in is an empty transaction that a real replica gets in place of a dropped one.
    """
    facts: Facts
    """The counts under each condition (such as "this table is sent"). The bucket of a unit (row of counts) is the index
    of its transaction, or -1 if its events precede the first transaction. Buckets ascend, and in each the unit that
    counts the transaction is first. Units have no counts of stand-ins and of undecided events.

    Tables with equal verdicts are one table. The counts are valid for the given filters only.
    """

    def __len__(self) -> int:
        return len(self.time)

    def of_filter(self, given: GivenFilter, number: int) -> Sent:
        """Return the bytes and events of each transaction that a slave receives if it has the filter ``given``.

        ``number`` is the filter's index in the list of filters for which the transactions were counted.
        """
        flags = flags_of(given[0], self.facts.subjects)
        return self.of_rows(self.facts.sent(flags, given[1], number))

    def first_equal(self, filters: Sequence[GivenFilter]) -> list[int]:
        """Return for each filter the index of the first filter that passes the same events of this traffic.

        ``filters`` are those for which the transactions were counted.
        """
        first: dict[tuple[bytes, OriginFilter | None], int] = {}
        return [
            first.setdefault(
                (self.facts.holding(flags_of(one, self.facts.subjects), number).tobytes(), origin), number
            )
            for number, (one, origin) in enumerate(filters)
        ]

    def of_rows(self, sent: Mask) -> Sent:
        """Return the transactions that a filter sends, with the number of bytes and events of each. ``sent`` marks the
        rows of counts that the filter sends, and is the result of :meth:`Facts.sent` for this filter.

        A row counts the events of one transaction under one condition (such as "this table is sent"). Events between
        transactions count with the sent transaction before them, and events before the first sent transaction count
        with that transaction. If no transaction is sent, the arrays are empty.
        """
        facts, rows = self.facts, np.flatnonzero(sent)
        sizes, events = facts.bytes[rows], facts.events[rows]
        starts = np.flatnonzero(facts.transactions[rows])
        if not len(starts):
            return Sent(starts, starts, starts, (int(sizes.sum()), int(events.sum())))
        transaction = facts.bucket[rows[starts]].astype(np.int64)
        starts[0] = 0
        return Sent(
            transaction, np.add.reduceat(sizes, starts), np.add.reduceat(events, starts, dtype=np.int64)
        )


_COLUMNS = tuple(one.name for one in fields(TransactionTraffic) if one.name != "facts")


class Verdicts:
    """A cache of which filters send which table or statement.

    Traffic counters in several threads can share this cache, so that each filter is evaluated once per table.
    """

    def __init__(self, filters: Sequence[ReplicationFilter]) -> None:
        self._filters = list(enumerate(filters))
        self._of: dict[Subject, int] = {}
        self._of_database: dict[str, list[tuple[int, ReplicationFilter]]] = {}
        self._lock = threading.Lock()

    def of(self, subject: Subject) -> int:
        """Return which filters send ``subject`` (a table or statement), as bits: bit ``n`` is set if the filter with
        index ``n`` sends it.
        """
        with self._lock:
            if subject not in self._of:
                asked = (
                    self._passing(subject.database) if isinstance(subject, TableSubject) else self._filters
                )
                self._of[subject] = sum(1 << number for number, one in asked if one.verdict(subject).passes)
            return self._of[subject]

    def _passing(self, database: str) -> list[tuple[int, ReplicationFilter]]:
        """Return the filters whose database rules do not drop all tables of a database, each with its index."""
        if database not in self._of_database:
            self._of_database[database] = [
                (number, one)
                for number, one in self._filters
                if not isinstance(one, Filter) or one.db_ok(one.rewrite_db(database))
            ]
        return self._of_database[database]


class TransactionTally:
    """A counter of the traffic of each transaction of a binlog file under any number of filters. The caller adds the
    file's segments, which are runs of consecutive events.

    Parameters:
        subjects, sources: the registers that number the set's tables and statements, and its GTID sources. The segments
            must have been scanned with statements and compressed transactions.
        filters: each filter, with the server ids and domains that its slave wants. A filter's index in this list is its
            number in :meth:`TransactionTraffic.of_filter`.
        verdicts: the cached verdicts of these filters, which several tallies may share. None: a new cache.
    """

    def __init__(
        self,
        subjects: Subjects,
        sources: SourceNumbers,
        *,
        filters: Sequence[GivenFilter],
        verdicts: Verdicts | None = None,
    ) -> None:
        self._tally = Tally(subjects, sources, filters=[TableFlags(one, subjects) for one, _ in filters])
        self._subjects = subjects
        self._verdicts = verdicts or Verdicts([one for one, _ in filters])
        self._start()

    def _start(self) -> None:
        self._count = 0
        self._columns: list[_Columns] = []

    def add(self, events: OpenedEvents, read: ReadAt) -> None:
        """Count the transactions of the next segment (consecutive events of one file).

        ``read(offset, length)`` returns bytes of this file. Raises BinlogCorrupt for a compressed transaction that
        cannot be opened.
        """
        segment = events.segment
        starts = (segment.txn_source != R.KEPT) & (segment.txn_subject != R.SKIP)
        is_real = starts.copy()
        if segment.continues:
            starts[0] = False
        keys = np.cumsum(starts, dtype=np.int64) + (self._count - 1)
        self._tally.add(segment, read, keys=keys)
        self._count += int(np.count_nonzero(starts))
        times, is_exact = _times(events)
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
        """Return the counts by transaction since the last call of this method, and reset them.

        The events that were added last must end with a complete transaction. ``file`` is the file's index in the set,
        which the result records.
        """
        facts = self._tally.take()
        end, time, is_exact = map(np.concatenate, zip(_NO_COLUMNS, *self._columns, strict=True))
        found = TransactionTraffic(
            file=np.full(self._count, file, np.int32),
            end=end,
            time=time,
            is_exact=is_exact,
            # The number 0 is for events before the first transaction.
            stand_in=sums(facts.bucket + 1, facts.stand_in_bytes, self._count + 1)[1:].astype(np.int32),
            facts=self._merged(facts),
        )
        self._start()
        return found

    def _merged(self, facts: Facts) -> Facts:
        """Merge those tables of ``facts`` (traffic counts) about which all filters have equal verdicts (send, drop or
        undecided). Then merge rows of counts that have become equal. Order the rows by transaction, and leave out
        columns that are not needed.
        """
        found = facts.relabeled(map(self._verdicts.of, facts.subjects))
        keys = (found.bucket * len(found.conditions) + found.condition) * len(found.origins) + found.origin
        # The rows are nearly in order, which a stable sort makes use of.
        order = np.argsort(keys, kind="stable")
        first = np.flatnonzero(np.diff(keys[order], prepend=keys.min(initial=0) - 1))
        columns = {name: getattr(found, name)[order[first]].astype(np.int32) for name in _KEYS}
        for name, kept in _COUNTS.items():
            columns[name] = np.add.reduceat(getattr(found, name)[order], first).astype(kept)
        # The unit that counts a transaction comes first.
        order = np.argsort(2 * columns["bucket"] + (columns["transactions"] == 0), kind="stable")
        columns = {name: column[order] for name, column in columns.items()}
        none = np.zeros(0, np.int64)
        return replace(found, **columns, undecided=none, stand_ins=none, stand_in_bytes=none)


_KEYS = ("condition", "origin", "bucket")
"""The columns that identify a row of counts: condition (such as "this table is sent"), origin (server and domain), and
index of the transaction. They are kept as int32, to save memory.
"""
_COUNTS = {"bytes": np.int64, "events": np.int32, "transactions": np.int32}
"""The columns with the counts of a row, and the types in which they are kept."""


class _Columns(NamedTuple):
    """The transactions that begin in one segment (consecutive events of one file), as arrays with one entry for each:
    end offset, commit time, and whether this time is exact.
    """

    end: Ints
    time: Ints
    is_exact: npt.NDArray[np.bool_]


_NO_COLUMNS = _Columns(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_))


def join(parts: Sequence[TransactionTraffic]) -> TransactionTraffic:
    """Concatenate the transactions of consecutive parts of a binlog set, with their counted bytes and events. All parts
    must have been counted for the same filters.

    No part may be empty. Transactions are numbered through all parts. The events before a part's first transaction
    count with the last transaction of the parts before.
    """
    counts = itertools.accumulate(map(len, parts), initial=0)
    facts = side_by_side(
        [
            replace(part.facts, bucket=part.facts.bucket + count)
            for part, count in zip(parts, counts, strict=False)
        ]
    )
    conditions, numbers = facts.conditions.folded()
    return TransactionTraffic(
        facts=replace(facts, conditions=conditions, condition=numbers[facts.condition].astype(np.int32)),
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS},
    )


def _times(events: OpenedEvents) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return two arrays with one entry for each transaction in ``events``: its commit time in Unix microseconds, and
    whether this time is exact because it comes from a GTID event. Otherwise the time is the last timestamp of the
    transaction's events, or 0 without a timestamp.
    """
    segment, data = events.segment, events.data
    checksum = segment.format_description.checksum
    first = segment.txn_event[:-1]
    exact = np.zeros(len(first), np.int64)
    if segment.format_description.family == "mysql":
        kind = segment.type[first]
        body = segment.offset[first] - segment.start + HEADER_LENGTH
        end = body - HEADER_LENGTH + segment.size[first] - (CHECKSUM_LENGTH if checksum else 0)
        is_long = body + COMMIT_TIME_AT + COMMIT_TIME_LENGTH <= end
        told = np.flatnonzero(np.isin(kind, tuple(FIXED_TIME)) & is_long)
        told = told[data[body[told] + CLOCK_TYPE_AT] == LOGICAL_TIMESTAMP_TYPECODE]
        exact[told] = numbers_at(data, body[told] + COMMIT_TIME_AT, COMMIT_TIME_LENGTH)
        exact &= ORIGINAL_TIME_FOLLOWS - 1
        for t in np.flatnonzero(kind == EventType.GTID_TAGGED).tolist():
            start = body[t] - HEADER_LENGTH
            event = data[start : start + int(segment.size[first[t]])].tobytes()
            exact[t] = round((commit_time(event, checksum=checksum) or 0) * MICROSECONDS)
    known = np.maximum.accumulate(np.where(segment.time > 0, np.arange(len(segment.time)), -1))
    last = known[segment.txn_event[1:] - 1] if len(first) else first
    seconds = np.where(last >= first, segment.time[last].astype(np.int64), 0)
    is_exact = exact > 0
    return np.where(is_exact, exact, seconds * _SECOND), is_exact

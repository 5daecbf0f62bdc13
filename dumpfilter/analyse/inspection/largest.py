"""The largest transactions and statements of a binlog set, found in one pass and in bounded memory, and their texts."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dumpfilter.analyse.inspection.flat_events import FlatEvents, Ints
from dumpfilter.base.errors import BinlogError
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import decode_transaction_payload
from dumpfilter.binlog.context_events import decode_annotate_rows, decode_rows_query
from dumpfilter.binlog.events import (
    HEADER_LENGTH,
    STATEMENTS,
    EventHeader,
    EventType,
    Symbol,
)
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import MariadbGtid, MysqlGtid
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.index.fileset import BinlogFile, BinlogSet
from dumpfilter.index.segment import Segment
from dumpfilter.index.statements import decode_statement_event
from dumpfilter.index.subjects import Subject, Subjects

_OF_STATEMENTS = frozenset({R.CONTEXT, R.TABLE_MAP, R.ROWS, R.ROWS_END, R.STATEMENT, R.DUMMY_ROWS})
_ENDS_STATEMENT = frozenset({R.ROWS_END, R.STATEMENT, R.DUMMY_ROWS})
_IS_PART: npt.NDArray[np.bool_] = np.array([role in _OF_STATEMENTS for role in range(R.ROLE_MASK + 1)])
_IS_END: npt.NDArray[np.bool_] = np.array([role in _ENDS_STATEMENT for role in range(R.ROLE_MASK + 1)])


@dataclass
class Large:
    """A large transaction or statement: its place, its size, and the tables that it changes."""

    file: str
    position: int
    """The position of the first event in the file. For a statement of a compressed transaction it is the position of
    the Transaction_payload event."""
    inside: int
    """For a part of a compressed transaction, the offset of the first event in the uncompressed bytes; otherwise -1."""
    gtid: str
    """The transaction's GTID; empty without a GTID."""
    time: int
    """The timestamp of the last event, Unix seconds."""
    size: int
    """The size without compression, bytes."""
    stored: int
    """The bytes in the file. A part of a compressed transaction has its share of the compressed bytes."""
    events: int
    tables: dict[int, int] = field(default_factory=dict)
    """The bytes without compression of each subject (table or statement), by the subject's number."""
    changes: set[str] = field(default_factory=set)
    """The kinds of change of the rows events: insert, update, delete."""

    def add(self, other: Large) -> None:
        """Add the part that lies in the next segment."""
        self.time = other.time or self.time
        self.size += other.size
        self.stored += other.stored
        self.events += other.events
        self.changes |= other.changes
        for number, size in other.tables.items():
            self.tables[number] = self.tables.get(number, 0) + size

    def subjects(self, subjects: Subjects) -> list[Subject]:
        """Return the tables and statements, those with most bytes first. Sets of them are left out."""
        sizes: dict[Subject, int] = {}
        for number, size in self.tables.items():
            if subjects.members(number) is None:
                sizes[subjects[number]] = sizes.get(subjects[number], 0) + size
        return sorted(sizes, key=lambda subject: (-sizes[subject], str(subject)))


class _Top:
    """Keeps the ``most`` largest objects of all that are offered."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[int, int, Large]] = []
        self._turn = itertools.count(0, -1)

    @property
    def least(self) -> int:
        """The size that another object must exceed to be kept."""
        return self._heap[0][0] if len(self._heap) >= self._most else -1

    def offer(self, one: Large) -> None:
        if one.size > self.least:
            put = heapq.heappushpop if len(self._heap) >= self._most else heapq.heappush
            put(self._heap, (one.size, next(self._turn), one))

    def largest(self) -> list[Large]:
        """Return the kept objects, the largest first, and the earlier of two equal ones first."""
        return [one for _, _, one in sorted(self._heap, key=lambda entry: (-entry[0], -entry[1]))]


class Largest:
    """Finds the largest transactions and statements, segment by segment.

    The sizes are those without compression. ``most`` is the number of objects to keep of each sort.
    """

    def __init__(self, most: int, sources: SourceNumbers) -> None:
        self._sources = sources
        self._transactions, self._statements = _Top(most), _Top(most)
        self._most = most
        self._open_transaction: Large | None = None
        self._open_statement: Large | None = None

    @property
    def transactions(self) -> list[Large]:
        """The largest transactions, the largest first."""
        return self._transactions.largest()

    @property
    def statements(self) -> list[Large]:
        """The largest statements, the largest first."""
        return self._statements.largest()

    def add(self, segment: Segment, flat: FlatEvents) -> None:
        """Look at the next segment. ``flat`` has its events with those of compressed transactions."""
        if not len(flat.event):
            return
        self._add_transactions(segment, flat)
        self._add_statements(segment, flat)

    def _add_transactions(self, segment: Segment, flat: FlatEvents) -> None:
        first, end = flat.first_of_transaction, np.append(flat.first_of_transaction[1:], len(flat.event))
        sizes = np.add.reduceat(flat.size, first)
        sizes[segment.txn_source == _BETWEEN] = -1
        if segment.continues:
            sizes[0] = max(sizes[0], 0)
        always = {0} if segment.continues else set()
        if segment.open:
            always.add(len(first) - 1)
        for txn in sorted(always.union(_largest(sizes, self._most, self._transactions.least))):
            if sizes[txn] < 0:
                continue
            one = self._describe(segment, flat, int(first[txn]), int(end[txn]))
            if txn == 0 and segment.continues and self._open_transaction is not None:
                self._open_transaction.add(one)
                one = self._open_transaction
            self._open_transaction = one if segment.open and txn == len(first) - 1 else None
            if self._open_transaction is None:
                self._transactions.offer(one)

    def _add_statements(self, segment: Segment, flat: FlatEvents) -> None:
        part, ends = _IS_PART[flat.role], _IS_END[flat.role]
        begins = part.copy()
        begins[1:] &= ends[:-1] | ~part[:-1]
        first = np.flatnonzero(begins)
        goes_on = bool(segment.continues and part[0] and self._open_statement is not None)
        if not goes_on:
            self._open_statement = None
        if not len(first):
            return
        sizes = np.add.reduceat(np.where(part, flat.size, 0), first)
        # A statement ends before the next one begins, and before the first event that is no part of a statement.
        stops = np.append(first[1:], len(flat.event))
        is_open = bool(segment.open and part[-1] and not ends[-1])
        always = {0} if goes_on else set()
        if is_open:
            always.add(len(first) - 1)
        for k in sorted(always.union(_largest(sizes, self._most, self._statements.least))):
            begin, stop = int(first[k]), int(stops[k])
            others = np.flatnonzero(~part[begin:stop])
            one = self._describe(segment, flat, begin, begin + int(others[0]) if len(others) else stop)
            if k == 0 and goes_on and self._open_statement is not None:
                self._open_statement.add(one)
                one = self._open_statement
            self._open_statement = one if is_open and k == len(first) - 1 else None
            if self._open_statement is None:
                self._statements.offer(one)

    def _describe(self, segment: Segment, flat: FlatEvents, first: int, end: int) -> Large:
        event, last = int(flat.event[first]), int(flat.event[end - 1])
        txn = segment.transaction_of(event)
        subject = flat.subject[first:end]
        owned = subject >= 0
        numbers, which = np.unique(subject[owned], return_inverse=True)
        weights = np.bincount(which, weights=flat.size[first:end][owned], minlength=len(numbers))
        tables = dict(zip(numbers.tolist(), weights.astype(np.int64).tolist(), strict=True))
        return Large(
            file=segment.file,
            position=int(segment.offset[event]),
            inside=int(flat.inside[first]),
            gtid=self._gtid(segment, txn),
            time=int(segment.time[last]),
            size=int(flat.size[first:end].sum()),
            stored=int(flat.stored[first:end].sum()),
            events=end - first,
            tables=tables,
            changes={_CHANGES[kind] for kind in np.unique(flat.type[first:end]).tolist() if kind in _CHANGES},
        )

    def _gtid(self, segment: Segment, txn: int) -> str:
        number = int(segment.txn_source[txn])
        if number < 0:
            return ""
        first, second = self._sources.key(number, segment.format_description.family)
        gno = int(segment.txn_number[txn])
        if isinstance(first, bytes):
            return str(MysqlGtid(first, gno, str(second)))
        return str(MariadbGtid(first, int(second), gno))


_BETWEEN = -3
"""The value of ``txn_source`` for events between transactions."""

_CHANGES = {int(kind): kind.kind.change for kind in EventType if kind.kind.change}


def _largest(sizes: Ints, most: int, least: int) -> list[int]:
    """Return the indexes of the ``most`` largest sizes above ``least``."""
    found = np.flatnonzero(sizes > least)
    if len(found) > most:
        found = found[np.argsort(-sizes[found], kind="stable")[:most]]
    return [int(one) for one in found]


LONGEST = 1000
"""The most characters of a statement's text to return."""


def statement_text(binlogs: BinlogSet, file: str, position: int, inside: int | None) -> str:
    """Return the beginning of the text of a statement; empty if the binlog has no text of the statement.

    Rows events have a text if the server writes Rows_query or Annotate_rows events. The statement's first event is at
    ``position`` of a file. For a statement of a compressed transaction, ``position`` is that of the
    Transaction_payload event, and ``inside`` the offset of the statement's first event in the uncompressed bytes.
    """
    try:
        with binlogs.file(file) as opened:
            fd = opened.format_description
            events = (
                _events(opened, position, fd) if inside is None else _inside(opened, position, inside, fd)
            )
            for kind, body in events:
                text = _text(kind, body, fd)
                if text is not None:
                    return text[:LONGEST]
    except BinlogError:
        # The scan has read these events without an error. A second format description event in a relay log can give
        # them a layout that is not known here.
        return ""
    return ""


def _text(kind: int, body: bytes | memoryview, fd: FormatDescription) -> str | None:
    """Return the text of an event, empty if no text can follow, and None if later events can have the text."""
    if kind in STATEMENTS:
        return decode_statement_event(EventType(kind), body, fd).text
    if kind == EventType.ROWS_QUERY:
        return decode_rows_query(body).decode("utf-8", "replace")
    if kind == EventType.ANNOTATE_ROWS:
        return decode_annotate_rows(body).decode("utf-8", "replace")
    is_context = kind in set(EventType) and EventType(kind).kind.symbol == Symbol.CONTEXT
    return None if is_context else ""


def _events(
    file: BinlogFile, position: int, fd: FormatDescription
) -> Iterator[tuple[int, bytes | memoryview]]:
    while True:
        header = EventHeader.unpack(file.read(position, HEADER_LENGTH))
        yield header.type, fd.body(file.read(position, header.size))
        position += header.size


def _inside(
    file: BinlogFile, position: int, inside: int, fd: FormatDescription
) -> Iterator[tuple[int, bytes | memoryview]]:
    header = EventHeader.unpack(file.read(position, HEADER_LENGTH))
    payload = decode_transaction_payload(fd.body(file.read(position, header.size)))
    offset = 0
    for inner, event in payload.events():
        if offset >= inside:
            # The events of a compressed transaction have no checksums.
            yield inner.type, event[HEADER_LENGTH:]
        offset += inner.size

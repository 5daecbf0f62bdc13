"""The search for the largest transactions and statements of a binlog set, in one pass and bounded memory, and the
reading of their texts.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

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
from dumpfilter.binlog.query import decode_statement_event
from dumpfilter.index.fileset import BinlogFile, BinlogSet
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subject, Subjects, TableSubject

_OF_STATEMENTS = frozenset({R.CONTEXT, R.TABLE_MAP, R.ROWS, R.ROWS_END, R.STATEMENT, R.DUMMY_ROWS})
_ENDS_STATEMENT = frozenset({R.ROWS_END, R.STATEMENT, R.DUMMY_ROWS})
_IS_PART: npt.NDArray[np.bool_] = np.array([role in _OF_STATEMENTS for role in range(R.ROLE_MASK + 1)])
_IS_END: npt.NDArray[np.bool_] = np.array([role in _ENDS_STATEMENT for role in range(R.ROLE_MASK + 1)])


_MOST_TABLES = 100
"""The maximum number of table names in the JSON of one large transaction or statement."""


@dataclass
class Large:
    """A large transaction or statement, with its position, size and tables."""

    file: str
    position: int
    """The byte offset of its first event in the file. For a statement inside a compressed transaction, this is the
    offset of the Transaction_payload event.
    """
    gtid: str
    """The transaction's GTID; empty without a GTID."""
    time: int
    """The timestamp of the last event, Unix seconds; 0 for none."""
    bytes: int
    """The bytes in the binlog file. A statement inside a compressed transaction counts with its share of the
    compressed bytes.
    """
    uncompressed: int
    events: int
    inside: int
    """The byte offset of its first event in the uncompressed payload, or -1 outside compressed transactions."""
    of_subjects: dict[int, int]
    """The uncompressed bytes of each subject (a table, or a statement with its tables), by the subject's number."""
    changes: set[str]
    """The changes that its rows events make: ``insert``, ``update``, ``delete``."""
    tables: list[str] = field(default_factory=list)
    """The changed tables as ``schema.table``, or the schemas if the tables are unknown, in descending order of bytes.
    """
    kinds: list[str] = field(default_factory=list)
    """The kinds of its statements, such as INSERT, and the changes of its rows events, such as "insert rows"."""
    text: str = ""
    """The beginning of the statement's text. Empty for a transaction, and for rows whose statement the binlog does
    not contain.
    """

    def add(self, other: Large) -> None:
        """Merge two parts of one transaction or statement that continues in the next segment. ``other`` is the later
        part.
        """
        self.time = other.time or self.time
        self.uncompressed += other.uncompressed
        self.bytes += other.bytes
        self.events += other.events
        self.changes |= other.changes
        for number, size in other.of_subjects.items():
            self.of_subjects[number] = self.of_subjects.get(number, 0) + size

    def name_tables(self, subjects: Subjects) -> None:
        """Set ``tables`` and ``kinds``, the names of the changed tables and the kinds of statements, for the output.

        ``of_subjects`` has only numbers, which ``subjects`` translates into tables and statements. A number that
        stands for several tables at once is ignored.
        """
        sizes: dict[Subject, int] = {}
        for number, size in self.of_subjects.items():
            if subjects.members(number) is None:
                sizes[subjects[number]] = sizes.get(subjects[number], 0) + size
        largest = sorted(sizes, key=lambda subject: (-sizes[subject], str(subject)))
        kinds = [each.kind.value for each in largest if not isinstance(each, TableSubject)]
        self.tables = list(dict.fromkeys(name for each in largest for name in _names(each)))
        self.kinds = [*dict.fromkeys(kinds), *(f"{change} rows" for change in sorted(self.changes))]

    def as_dict(self) -> dict[str, Any]:
        """Return this object as a dictionary for JSON."""
        return {
            "file": self.file,
            "position": self.position,
            "gtid": self.gtid,
            "time": self.time or None,
            "bytes": self.bytes,
            "events": self.events,
            "tables": self.tables[:_MOST_TABLES],
            "text": self.text,
            "kinds": self.kinds,
            "bytes_uncompressed": self.uncompressed,
            "tables_number": len(self.tables),
        }


def _names(subject: Subject) -> list[str]:
    """Return the names of the tables that a subject (a table or statement) changes, or its schemas if the tables are
    unknown.
    """
    named = [".".join(filter(None, table)) for table in subject.tables()]
    return named or list(subject.schemas())


class _Top:
    """A collection that keeps the ``most`` largest of the transactions, or of the statements, that are added to it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[int, int, Large]] = []
        self._turn = itertools.count(0, -1)
        self.open: Large | None = None
        """The transaction or statement that continues in the next segment, or None."""

    def add(self, sizes: Ints, describe: Callable[[int], Large], *, goes_on: bool, is_open: bool) -> None:
        """Add the transactions or statements of a segment, whose uncompressed sizes are ``sizes``. Negative sizes
        are ignored.

        ``describe`` returns the :class:`Large` for an index. ``goes_on`` tells whether the first one continues the
        previous segment's last one. ``is_open`` tells whether the last one continues in the next segment.
        """
        if not goes_on:
            self.open = None
        last = len(sizes) - 1
        always = ({0} if goes_on else set()) | ({last} if is_open else set())
        for number in sorted(always.union(self._candidates(sizes))):
            if sizes[number] < 0:
                continue
            one = describe(number)
            if number == 0 and self.open is not None:
                self.open.add(one)
                one = self.open
            self.open = one if is_open and number == last else None
            if self.open is None and one.uncompressed > self._least:
                put = heapq.heappushpop if len(self._heap) >= self._most else heapq.heappush
                put(self._heap, (one.uncompressed, next(self._turn), one))

    @property
    def _least(self) -> int:
        """The size that a further transaction or statement must exceed to be kept, bytes; -1 while fewer than the
        maximum are kept.
        """
        return self._heap[0][0] if len(self._heap) >= self._most else -1

    def _candidates(self, sizes: Ints) -> list[int]:
        found = np.flatnonzero(sizes > self._least)
        if len(found) > self._most:
            found = found[np.argsort(-sizes[found], kind="stable")[: self._most]]
        return [int(one) for one in found]

    def largest(self) -> list[Large]:
        """Return the kept transactions or statements in descending order of size. Of two equal sizes the earlier one
        comes first.
        """
        return [one for _, _, one in sorted(self._heap, key=lambda entry: (-entry[0], -entry[1]))]


class Largest:
    """Finds the transactions and statements with the largest uncompressed sizes.

    The caller adds the binlog set's segments (consecutive events of one file). ``most`` is the number of
    transactions, and of statements, to keep. ``sources`` has the UUID or domain behind each number with which a
    segment identifies the source of a GTID.
    """

    def __init__(self, most: int, sources: SourceNumbers) -> None:
        self._sources = sources
        self.transactions, self.statements = _Top(most), _Top(most)

    def add(self, segment: Segment, flat: FlatEvents) -> None:
        """Add the transactions and statements of the next segment. ``flat`` has its events, with compressed
        transactions opened.
        """
        if not len(flat.event):
            return
        first, end = flat.first_of_transaction, np.append(flat.first_of_transaction[1:], len(flat.event))
        sizes = np.add.reduceat(flat.size, first)
        sizes[segment.txn_source == R.KEPT] = -1
        if segment.continues:
            sizes[0] = max(sizes[0], 0)
        self.transactions.add(
            sizes,
            lambda txn: self._describe(segment, flat, int(first[txn]), int(end[txn])),
            goes_on=bool(segment.continues),
            is_open=bool(segment.open),
        )
        self._add_statements(segment, flat)

    def _add_statements(self, segment: Segment, flat: FlatEvents) -> None:
        part, ends = _IS_PART[flat.role], _IS_END[flat.role]
        begins = part.copy()
        begins[1:] &= ends[:-1] | ~part[:-1]
        first = np.flatnonzero(begins)
        # A statement ends before the next one begins, and before the first event that is no part of a statement.
        stops = np.append(first[1:], len(flat.event))

        def describe(number: int) -> Large:
            begin, stop = int(first[number]), int(stops[number])
            others = np.flatnonzero(~part[begin:stop])
            return self._describe(segment, flat, begin, begin + int(others[0]) if len(others) else stop)

        self.statements.add(
            np.add.reduceat(np.where(part, flat.size, 0), first) if len(first) else first,
            describe,
            goes_on=bool(segment.continues and part[0] and self.statements.open is not None),
            is_open=bool(segment.open and part[-1] and not ends[-1]),
        )

    def _describe(self, segment: Segment, flat: FlatEvents, first: int, end: int) -> Large:
        event, last = int(flat.event[first]), int(flat.event[end - 1])
        subject = flat.subject[first:end]
        owned = subject >= 0
        numbers, which = np.unique(subject[owned], return_inverse=True)
        weights = np.bincount(which, weights=flat.size[first:end][owned], minlength=len(numbers))
        return Large(
            file=segment.file,
            position=int(segment.offset[event]),
            gtid=self._gtid(segment, segment.transaction_of(event)),
            time=int(segment.time[last]),
            bytes=int(flat.stored[first:end].sum()),
            uncompressed=int(flat.size[first:end].sum()),
            events=end - first,
            inside=int(flat.inside[first]),
            of_subjects=dict(zip(numbers.tolist(), weights.astype(np.int64).tolist(), strict=True)),
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


_CHANGES = {int(kind): kind.kind.change for kind in EventType if kind.kind.change}


LONGEST = 1000
"""The maximum length of a statement's text, characters. Longer texts are cut."""


def statement_text(binlogs: BinlogSet, one: Large) -> str:
    """Return the beginning of the text of the large statement ``one``, or an empty text if the binlog does not have
    it.

    Rows events have a text only if the server writes Rows_query or Annotate_rows events.
    """
    try:
        with binlogs.file(one.file) as opened:
            fd = opened.format_description
            for kind, body in _events(opened, one, fd):
                text = _text(kind, body, fd)
                if text is not None:
                    return text[:LONGEST]
    except BinlogError:
        # The scan has read these events without an error. A second format description event in a relay log can give
        # them a layout that is not known here.
        return ""
    return ""


def _text(kind: int, body: bytes | memoryview, fd: FormatDescription) -> str | None:
    """Return the statement's text in one event. None: a later event of the statement may have it. Empty: the
    statement has no text.
    """
    if kind in STATEMENTS:
        return decode_statement_event(EventType(kind), body, fd).text
    if kind == EventType.ROWS_QUERY:
        return decode_rows_query(body).decode("utf-8", "replace")
    if kind == EventType.ANNOTATE_ROWS:
        return decode_annotate_rows(body).decode("utf-8", "replace")
    is_context = kind in set(EventType) and EventType(kind).kind.symbol == Symbol.CONTEXT
    return None if is_context else ""


def _events(file: BinlogFile, one: Large, fd: FormatDescription) -> Iterator[tuple[int, bytes | memoryview]]:
    """Yield type and body of each event, beginning with the first event of the large statement ``one``."""
    position = one.position
    while True:
        header = EventHeader.unpack(file.read(position, HEADER_LENGTH))
        body = fd.body(file.read(position, header.size))
        if one.inside >= 0:
            break
        yield header.type, body
        position += header.size
    offset = 0
    for inner, event in decode_transaction_payload(body).events():
        if offset >= one.inside:
            # The events of a compressed transaction have no checksums.
            yield inner.type, event[HEADER_LENGTH:]
        offset += inner.size

"""The search for the largest transactions and statements of a binlog set, in one pass and bounded memory, and the
reading of their texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dumpfilter.analyse.inspection.flat_events import FlatEvents, Ints
from dumpfilter.base.errors import BinlogError
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import decode_transaction_payload
from dumpfilter.binlog.context_events import decode_annotate_rows, decode_rows_query
from dumpfilter.binlog.events import (
    HEADER_LENGTH,
    STATEMENTS,
    EventType,
    Symbol,
    types_of,
)
from dumpfilter.binlog.gtid import MariadbGtid, MysqlGtid
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.query import decode_statement_event
from dumpfilter.index.fileset import BinlogFile, BinlogSet
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subject, Subjects, TableSubject

_ENDS_STATEMENT = (R.ROWS_END, R.STATEMENT, R.DUMMY_ROWS)
_OF_STATEMENTS = (R.CONTEXT, R.TABLE_MAP, R.ROWS, *_ENDS_STATEMENT)

_MOST_TABLES = 100
"""The maximum number of table names in the JSON of one large transaction or statement."""


@dataclass
class Large:
    """A large transaction or statement, with its position, size and tables. The fields are named as in the JSON."""

    file: str
    position: int
    """The byte offset of its first event in the file. For a statement inside a compressed transaction, this is the
    offset of the Transaction_payload event.
    """
    gtid: str
    """The transaction's GTID; empty without a GTID."""
    time: int | None
    """The timestamp of the last event, Unix seconds; None without a timestamp."""
    bytes: int
    """The bytes in the binlog file. A statement inside a compressed transaction counts with its share of the
    compressed bytes.
    """
    bytes_uncompressed: int
    events: int
    inside: int
    """The byte offset of its first event in the uncompressed payload, or -1 outside compressed transactions."""
    of_subjects: Counter[int]
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
        self.bytes_uncompressed += other.bytes_uncompressed
        self.bytes += other.bytes
        self.events += other.events
        self.changes |= other.changes
        self.of_subjects.update(other.of_subjects)

    def name_tables(self, subjects: Subjects) -> None:
        """Set ``tables`` and ``kinds``, the names of the changed tables and the kinds of statements, for the output.

        ``of_subjects`` has only numbers, which ``subjects`` translates into tables and statements. A number that
        stands for several tables at once is ignored.
        """
        sizes = Counter[Subject]()
        for number, size in self.of_subjects.items():
            if subjects.members(number) is None:
                sizes[subjects[number]] += size
        largest = sorted(sizes, key=lambda subject: (-sizes[subject], str(subject)))
        kinds = [each.kind.value for each in largest if not isinstance(each, TableSubject)]
        self.tables = list(dict.fromkeys(name for each in largest for name in _names(each)))
        self.kinds = [*dict.fromkeys(kinds), *(f"{change} rows" for change in sorted(self.changes))]

    def as_dict(self) -> dict[str, Any]:
        """Return this transaction or statement, with its position, size and tables, as a dictionary for JSON."""
        found = {name: value for name, value in vars(self).items() if name not in _INTERNAL}
        return found | {"tables": self.tables[:_MOST_TABLES], "tables_number": len(self.tables)}


_INTERNAL = ("inside", "of_subjects", "changes")
"""The fields of :class:`Large` that the JSON does not have."""


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
        self.largest: list[Large] = []
        """The kept transactions or statements in descending order of size. Of two equal sizes the earlier one comes
        first.
        """
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
        least = self.largest[-1].bytes_uncompressed if len(self.largest) >= self._most else -1
        larger = np.flatnonzero(sizes > least)
        if len(larger) > self._most:
            larger = larger[np.argsort(-sizes[larger], kind="stable")[: self._most]]
        always = ({0} if goes_on else set()) | ({last} if is_open else set())
        for number in sorted(always.union(larger.tolist())):
            if sizes[number] < 0:
                continue
            one = describe(number)
            if number == 0 and self.open is not None:
                self.open.add(one)
                one = self.open
            self.open = one if is_open and number == last else None
            if self.open is None:
                self.largest.append(one)
        self.largest.sort(key=lambda one: -one.bytes_uncompressed)
        del self.largest[self._most :]


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
        part, ends = np.isin(flat.role, _OF_STATEMENTS), np.isin(flat.role, _ENDS_STATEMENT)
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
            time=int(segment.time[last]) or None,
            bytes=int(flat.stored[first:end].sum()),
            bytes_uncompressed=int(flat.size[first:end].sum()),
            events=end - first,
            inside=int(flat.inside[first]),
            of_subjects=Counter(dict(zip(numbers.tolist(), weights.astype(np.int64).tolist(), strict=True))),
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
            for kind, body in _events(opened, one):
                if kind in STATEMENTS:
                    return decode_statement_event(EventType(kind), body, opened.format_description).text[
                        :LONGEST
                    ]
                if kind in _TEXTS_OF_ROWS:
                    return _TEXTS_OF_ROWS[kind](body).decode("utf-8", "replace")[:LONGEST]
                if kind not in _CONTEXTS:
                    break
    except BinlogError:
        # The scan has read these events without an error. A second format description event in a relay log can give
        # them a layout that is not known here.
        pass
    return ""


_CONTEXTS = types_of(Symbol.CONTEXT)
_TEXTS_OF_ROWS: dict[int, Callable[[bytes | memoryview], bytes]] = {
    EventType.ROWS_QUERY: decode_rows_query,
    EventType.ANNOTATE_ROWS: decode_annotate_rows,
}


def _events(file: BinlogFile, one: Large) -> Iterator[tuple[int, bytes | memoryview]]:
    """Yield type and body of each event, beginning with the first event of the large statement ``one``."""
    position = one.position
    event = file.read_event(position)
    while one.inside < 0:
        yield event[4], file.format_description.body(event)
        position += len(event)
        event = file.read_event(position)
    offset = 0
    for header, inner in decode_transaction_payload(file.format_description.body(event)).events():
        if offset >= one.inside:
            # The events of a compressed transaction have no checksums.
            yield header.type, inner[HEADER_LENGTH:]
        offset += header.size

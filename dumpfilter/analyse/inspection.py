"""The statistics of a binlog set that ``dumpfilter inspect`` prints.

The statistics are the events and bytes by type, schema and table, the largest transactions and statements, and rates
over time. Compressed transactions are opened. The memory does not depend on the size of the set. The output is JSON, or
tables for terminals of 80 columns or more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from dumpfilter.analyse.by_heading import (
    NO_TABLE,
    NOTHING,
    ByHeading,
    FlatEvents,
    HeadingSums,
    OverTimeOptions,
    Rates,
    Volume,
    flat_events,
    over_time,
    rates,
)
from dumpfilter.analyse.report.measures import OverTime
from dumpfilter.analyse.report.terminal import Cell, table
from dumpfilter.analyse.report.text import human_bytes, human_duration, human_files, share, shorten, utc
from dumpfilter.analyse.traffic.facts import Ints, sums
from dumpfilter.base.byte_bar import byte_progress
from dumpfilter.base.errors import BinlogCorrupt, BinlogError, BinlogUnsupported
from dumpfilter.base.printable import printable, visible
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import decode_transaction_payload
from dumpfilter.binlog.events import (
    EventType,
    Symbol,
    by_number,
    event_name,
    types_of,
)
from dumpfilter.binlog.gtid import empty_set
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.index.fileset import BinlogSet, SegmentReader, gtids_before
from dumpfilter.index.opened import TEXTS, OpenedEvents
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
    """The byte offset in the file of the first event of the transaction or statement. For a statement inside a
    compressed transaction, this is the offset of the Transaction_payload event.
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
    of_subjects: Counter[int]
    """The uncompressed bytes of each subject (a table, or a statement with its tables), by the subject's number."""
    changes: set[str]
    """The changes that the rows events of the transaction or statement make: ``insert``, ``update``, ``delete``."""
    tables: list[str] = field(default_factory=list)
    """The changed tables as ``schema.table``, or the schemas if the tables are unknown, in descending order of bytes.
    """
    kinds: list[str] = field(default_factory=list)
    """The kinds of the statements, such as INSERT, and of the changes of rows events, such as "insert rows"."""
    text: str = ""
    """The beginning of the statement's text. Empty for a transaction, and for rows whose statement the binlog does
    not contain.
    """

    def add(self, other: Large) -> None:
        """Add the bytes, events and changes of ``other`` to this large transaction or statement. ``other`` is its
        continuation in the next segment (consecutive events of one file).
        """
        self.time = other.time or self.time
        self.bytes_uncompressed += other.bytes_uncompressed
        self.bytes += other.bytes
        self.events += other.events
        self.changes |= other.changes
        self.text = self.text or other.text
        self.of_subjects.update(other.of_subjects)

    def name_tables(self, subjects: Subjects) -> None:
        """Set ``tables`` and ``kinds``, the names of the changed tables and the kinds of statements, for the output.

        The attribute ``of_subjects`` has numbers of tables and statements, which the register ``subjects`` translates.
        A number that stands for several tables at once is ignored.
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


_INTERNAL = ("of_subjects", "changes")
"""The fields of :class:`Large` that the JSON does not have."""


def _names(subject: Subject) -> list[str]:
    """Return the names of the tables that a subject (a table or statement) changes, or its schemas if the tables are
    unknown.
    """
    named = [".".join(filter(None, table)) for table in subject.tables()]
    return named or list(subject.schemas())


class _Top:
    """A collection that keeps, of the transactions or statements that are added to it, the ``most`` with the largest
    uncompressed sizes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.largest: list[Large] = []
        """The kept transactions or statements in descending order of size. Of two equal sizes the earlier one comes
        first.
        """
        self.open: Large | None = None
        """The transaction or statement that continues in the next segment (part of the file), or None."""

    def add(self, sizes: Ints, describe: Callable[[int], Large], *, goes_on: bool, is_open: bool) -> None:
        """Add the transactions, or the statements, of the next segment (consecutive events of one file). ``sizes`` has
        the uncompressed size of each. An entry with a negative size is no transaction, and is ignored.

        ``describe`` returns the :class:`Large` for an index in ``sizes``. ``goes_on`` tells whether the first entry of
        ``sizes`` continues the last entry of the previous segment. ``is_open`` tells whether the last entry continues
        in the next segment.
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
    """A search for the transactions and statements with the largest uncompressed sizes.

    The caller adds the binlog set's segments (consecutive events of one file). ``most`` is the number of
    transactions, and of statements, to keep. ``sources`` has the UUID or domain behind each number with which a
    segment identifies the source of a GTID.
    """

    def __init__(self, most: int, sources: SourceNumbers) -> None:
        self._sources = sources
        self.transactions, self.statements = _Top(most), _Top(most)

    def add(self, flat: FlatEvents) -> None:
        """Add the transactions and statements of the next segment (consecutive events of one file), with compressed
        transactions opened.
        """
        segment = flat.segment
        if not len(flat.row):
            return
        first, end = segment.txn_event[:-1], segment.txn_event[1:]
        sizes = np.add.reduceat(segment.size, first)
        sizes[segment.txn_source == R.KEPT] = -1
        if segment.continues:
            sizes[0] = max(sizes[0], 0)
        self.transactions.add(
            sizes,
            lambda txn: self._describe(flat, int(first[txn]), int(end[txn])),
            goes_on=bool(segment.continues),
            is_open=bool(segment.open),
        )
        self._add_statements(flat)

    def _add_statements(self, flat: FlatEvents) -> None:
        segment = flat.segment
        role = segment.role & R.ROLE_MASK
        part, ends = np.isin(role, _OF_STATEMENTS), np.isin(role, _ENDS_STATEMENT)
        begins = part.copy()
        begins[1:] &= ends[:-1] | ~part[:-1]
        first = np.flatnonzero(begins)
        # A statement ends before the next one begins, and before the first event that is no part of a statement.
        stops = np.append(first[1:], len(flat.row))

        def describe(number: int) -> Large:
            begin, stop = int(first[number]), int(stops[number])
            others = np.flatnonzero(~part[begin:stop])
            stop = begin + int(others[0]) if len(others) else stop
            found = self._describe(flat, begin, stop)
            found.text = _text(flat, begin, stop)
            return found

        self.statements.add(
            np.add.reduceat(np.where(part, segment.size, 0), first) if len(first) else first,
            describe,
            goes_on=bool(segment.continues and part[0] and self.statements.open is not None),
            is_open=bool(segment.open and part[-1] and not ends[-1]),
        )

    def _describe(self, flat: FlatEvents, first: int, end: int) -> Large:
        segment, events = flat.segment, slice(first, end)
        subject, size = segment.subject[events], segment.size[events]
        owned = subject >= 0
        numbers, which = np.unique(subject[owned], return_inverse=True)
        weights = sums(which, size[owned], len(numbers))
        txn = segment.transaction_of(first)
        source = int(segment.txn_source[txn])
        return Large(
            file=segment.file,
            position=int(segment.offset[first]),
            gtid="" if source < 0 else self._sources.gtid(source, int(segment.txn_number[txn])),
            time=int(segment.time[end - 1]) or None,
            bytes=int(flat.stored[events].sum()),
            bytes_uncompressed=int(size.sum()),
            events=end - first,
            of_subjects=Counter(dict(zip(numbers.tolist(), weights.tolist(), strict=True))),
            changes={_CHANGES[kind] for kind in np.unique(segment.type[events]).tolist() if kind in _CHANGES},
        )


_CHANGES = {int(kind): kind.kind.change for kind in EventType if kind.kind.change}


_LONGEST = 1000
"""The maximum length of a statement's text, characters. Longer texts are cut."""


def _text(flat: FlatEvents, first: int, stop: int) -> str:
    """Return the beginning of the text of a statement. Its events are those of ``flat``, a segment with opened
    compressed transactions, from index ``first`` to the one before ``stop``. The result is empty if the binlog does not
    have the text, or if the event with the text is malformed. Rows events have a text only if the server writes
    Rows_query or Annotate_rows events.
    """
    for row, kind in zip(flat.row[first:stop].tolist(), flat.segment.type[first:stop].tolist(), strict=True):
        if kind in TEXTS:
            with suppress(BinlogError):
                return flat.events.text(row)[:_LONGEST]
            break
        if kind not in _CONTEXTS:
            break
    return ""


_CONTEXTS = types_of(Symbol.CONTEXT)


NOT_OPENED = "(not opened)"
"""The name under which compressed transactions count that are damaged or too large to open. Reports show this name in
place of a schema's name.
"""

TOP = 10
"""The default of ``--top``: the number of tables, transactions and statements to list."""


@dataclass
class Compression:
    """The compressed transactions and events of a binlog set: numbers, and bytes with and without compression."""

    transactions: int = 0
    """The number of transactions that MySQL compressed as a whole (Transaction_payload events)."""
    events: int = 0
    """The number of events whose rows or statement MariaDB compressed."""
    bytes: int = 0
    """The bytes, in the binlog files, of all transactions and events that a server compressed."""
    bytes_uncompressed: int = 0
    """The bytes that the compressed transactions and events take without compression."""
    transactions_not_opened: int = 0
    """The number of compressed transactions that are damaged or too large to open, so that their tables are unknown."""

    @property
    def ratio(self) -> float | None:
        """The size without compression, divided by the size with compression; None without a compressed event."""
        return share(self.bytes_uncompressed, self.bytes)


@dataclass
class Inspection:
    """The statistics of a binlog set, such as events by type, traffic by table, large transactions, rates and GTIDs.
    Sizes are in bytes of whole events, and times in Unix seconds.
    """

    server_version: str
    family: str
    files: list[tuple[str, int]] = field(default_factory=list)
    events: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The number and the bytes of the events of each type, by the type's name."""
    events_inside_compressed_transactions: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each event type by name, the number and the uncompressed bytes of the events inside compressed
    transactions.
    """
    tables: dict[tuple[str, str], Volume] = field(default_factory=dict)
    """The traffic of each table, by schema and table, including events inside compressed transactions.

    :mod:`dumpfilter.analyse.by_heading` defines which events count for which table.
    """
    over_time: OverTime | None = None
    """The bytes of each schema or table in each period. None if they were not requested."""
    compression: Compression = field(default_factory=Compression)
    transactions: int = 0
    largest_transactions: list[Large] = field(default_factory=list)
    largest_statements: list[Large] = field(default_factory=list)
    rates: Rates = field(default_factory=Rates)
    gtids: str = ""
    gtids_before: str = ""
    gtids_dropped: str = ""
    """The GTIDs of transactions that the master dropped, read from the Gap events of a slave's relay log."""
    first_time: int | None = None
    last_time: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the statistics of the binlog set as a dictionary for JSON: the fields of this object by name, and the
        traffic by schema.
        """
        found = {
            **vars(self),
            "files": [{"name": name, "bytes": size} for name, size in self.files],
            "events": {kind: {"events": n, "bytes": size} for kind, (n, size) in self.events.items()},
            "events_inside_compressed_transactions": {
                kind: {"events": n, "bytes_uncompressed": size}
                for kind, (n, size) in self.events_inside_compressed_transactions.items()
            },
            "schemas": {name: volume._asdict() for name, volume in self.schemas().items()},
            "tables": [
                {"schema": schema, "table": table, **volume._asdict()}
                for (schema, table), volume in self.tables.items()
            ],
            "compression": {**vars(self.compression), "ratio": self.compression.ratio},
            "largest_transactions": [one.as_dict() for one in self.largest_transactions],
            "largest_statements": [one.as_dict() for one in self.largest_statements],
            "rates": {**self.rates._asdict(), "buckets": [one._asdict() for one in self.rates.buckets]},
        }
        del found["over_time"]
        if self.over_time is not None:
            found["over_time"] = self.over_time.model_dump(mode="json", exclude={"names"})
            for period in found["over_time"]["periods"]:
                period["start"] = period["start"] or None
        return found

    def schemas(self) -> dict[str, Volume]:
        """Return the traffic (events and bytes) of each schema, in descending order of bytes."""
        sums: dict[str, Volume] = {}
        for (schema, _), volume in self.tables.items():
            sums[schema] = sums.get(schema, NOTHING).plus(volume)
        return _by_bytes(sums)


Key = TypeVar("Key", str, tuple[str, str])


def _by_bytes(volumes: Mapping[Key, Volume]) -> dict[Key, Volume]:
    return dict(sorted(volumes.items(), key=lambda item: (-item[1].bytes, item[0])))


def inspect_set(
    binlogs: BinlogSet,
    *,
    verify: bool = True,
    progress: Console | None = None,
    top: int = TOP,
    over_time: OverTimeOptions | None = None,
) -> Inspection:
    """Scan all files of a binlog set and return statistics, such as the events and bytes by type and table, and the
    largest transactions. Raises BinlogError for a damaged file.

    ``verify`` tells whether event checksums are verified. ``progress`` is the console for a progress bar (None: no
    bar). ``top`` is the number of transactions, and of statements, to list. ``over_time`` has the options for bytes
    over time (None: do not compute them).
    """
    names = binlogs.names
    with binlogs.file(names[0]) as first:
        fd = first.format_description
        before = gtids_before(first).all
    found = Inspection(fd.server_version, fd.family)
    found.files = [(name, binlogs.size(name)) for name in names]
    found.gtids_before = "" if before is None else str(before)
    work = Inspector(found, top, over_time)
    with byte_progress(progress, "scanning", sum(size for _, size in found.files)) as advance:
        for reader, segment in binlogs.segments(work.subjects, work.sources, verify=verify):
            work.add(reader, segment)
            advance(segment.end - segment.start)
    work.finish()
    return found


class Inspector:
    """A scan that computes the statistics of a binlog set and writes them into the :class:`Inspection` ``found``.

    The caller adds the set's segments (consecutive events of one file). ``top`` is the number of largest transactions,
    and of statements, to find. ``over_time`` has the options for bytes over time (None: do not compute
    them).
    """

    def __init__(self, found: Inspection, top: int = TOP, over_time: OverTimeOptions | None = None) -> None:
        self.subjects, self.sources = Subjects(), SourceNumbers()
        self._found = found
        self._by_type, self._inside = np.zeros((2, 2, 256), np.int64)
        self._over_time = over_time
        self._by_heading = ByHeading(
            self.subjects, self.sources, None if over_time is None else over_time.period
        )
        self._all, self._not_opened = NOTHING, NOTHING
        self._largest = Largest(top, self.sources)
        self._gtids, self._dropped = empty_set(found.family), empty_set(found.family)

    def add(self, reader: SegmentReader, segment: Segment) -> None:
        """Count the events of the next segment (consecutive events of one file). ``reader`` must have just read this
        segment, and still hold its bytes.
        """
        flat = flat_events(OpenedEvents(segment, reader.data))
        self._add_types(segment, flat)
        self._by_heading.add(flat, reader.file.read)
        self._largest.add(flat)
        self._add_times(segment)
        self._add_compression(segment, flat)
        family = segment.format_description.family
        # A transaction counts where it ends, since the last one of a file may not be written to its end yet.
        source, gtids = segment.txn_source[: segment.ended], segment.txn_number[: segment.ended]
        self._found.transactions += int(np.count_nonzero(source != R.KEPT))
        numbers = np.unique(source[source >= 0]).tolist()
        if numbers and family != self._found.family:
            raise BinlogUnsupported(
                f"the file has GTIDs of {family}, and the first file of the set is of {self._found.family}; "
                "inspect the files of each server alone",
                file=segment.file,
            )
        for number in numbers:
            self._gtids.add_many(self.sources.key(number), gtids[source == number])
        for _, number, first, last, _, _ in segment.dropped.tolist():
            self._dropped.add_range(self.sources.key(number), first, last)

    def _add_types(self, segment: Segment, flat: FlatEvents) -> None:
        self._by_type += _counted(segment.type, segment.size)
        inside = flat.is_inside
        self._inside += _counted(flat.segment.type[inside], flat.segment.size[inside])
        not_opened = (flat.segment.type == EventType.TRANSACTION_PAYLOAD) & (flat.segment.subject < 0)
        self._all = self._all.plus(_volume(flat, np.ones(len(flat.row), np.bool_)))
        self._not_opened = self._not_opened.plus(_volume(flat, not_opened))

    def _add_times(self, segment: Segment) -> None:
        found = self._found
        times = segment.time[segment.time > 0]
        if len(times):
            found.first_time = min(int(times.min()), found.first_time or _NO_TIME)
            found.last_time = max(int(times.max()), found.last_time or 0)

    def _add_compression(self, segment: Segment, flat: FlatEvents) -> None:
        compression, kind = self._found.compression, flat.segment.type
        packed, not_opened = _IS_PACKED[kind], kind == EventType.TRANSACTION_PAYLOAD
        compressed = packed | not_opened | flat.is_inside
        compression.transactions += int(np.count_nonzero(segment.type == EventType.TRANSACTION_PAYLOAD))
        compression.transactions_not_opened += int(np.count_nonzero(not_opened))
        compression.events += int(np.count_nonzero(packed))
        compression.bytes += int(flat.stored[compressed].sum())
        compression.bytes_uncompressed += int(flat.segment.size[compressed & ~not_opened].sum())
        for row, size in zip(flat.row[not_opened].tolist(), flat.stored[not_opened].tolist(), strict=True):
            compression.bytes_uncompressed += _announced_size(flat.events.body(row), size)

    def finish(self) -> None:
        """Write the final sums into the :class:`Inspection` (the statistics of the set) that was given to the
        constructor.
        """
        found, sums = self._found, self._by_heading.sums()
        found.gtids, found.gtids_dropped = str(self._gtids), str(self._dropped)
        found.events = _by_name(self._by_type)
        found.events_inside_compressed_transactions = _by_name(self._inside)
        found.tables = self._tables(sums)
        found.over_time = None if self._over_time is None else over_time(sums, self._over_time)
        found.rates = rates(sums)
        found.largest_transactions = self._largest.transactions.largest
        found.largest_statements = self._largest.statements.largest
        for one in (*found.largest_transactions, *found.largest_statements):
            one.name_tables(self.subjects)

    def _tables(self, sums: HeadingSums) -> dict[tuple[str, str], Volume]:
        volumes: dict[tuple[str, str], Volume] = {}
        for heading, volume in sums.by_heading().items():
            # A table may have the name that stands for a schema's statements.
            volumes[heading.labels] = volumes.get(heading.labels, NOTHING).plus(volume)
        volumes.pop((NO_TABLE, ""), None)
        # The tally leaves out the Gap events of a relay log, which belong to no table.
        known = reduce(Volume.plus, volumes.values(), self._not_opened)
        volumes |= {(NO_TABLE, ""): self._all.minus(known), (NOT_OPENED, ""): self._not_opened}
        return _by_bytes({key: volume for key, volume in volumes.items() if volume.events})


_NO_TIME = 1 << 32
"""A number of Unix seconds that is larger than every timestamp of an event."""

_IS_PACKED = by_number(lambda kind: kind.compressed) > 0
_IS_PACKED[EventType.TRANSACTION_PAYLOAD] = False
"""For each event type by number, whether MariaDB compressed the event's rows or statement."""


def _announced_size(body: bytes | memoryview, size: int) -> int:
    try:
        return decode_transaction_payload(body).uncompressed_size
    except BinlogCorrupt:
        return size


def _by_name(sums: npt.NDArray[np.int64]) -> dict[str, tuple[int, int]]:
    """Return the number and bytes of each event type that occurs, by type name, in descending order of bytes.

    ``sums`` has the shape (2, 256), with a column for each type number. Row 0 has the number of events, and row 1 their
    bytes.
    """
    return {
        event_name(kind): (int(sums[0, kind]), int(sums[1, kind]))
        for kind in sorted(np.flatnonzero(sums[0]).tolist(), key=lambda k: -int(sums[1, k]))
    }


def _counted(types: npt.NDArray[np.uint8], sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the number of events (row 0) and their bytes (row 1) for each type number, as an int64 array of shape (2,
    256). ``types`` and ``sizes`` have one entry for each event.
    """
    return np.stack([np.bincount(types, minlength=256), sums(types.astype(np.int64), sizes, 256)])


def _volume(flat: FlatEvents, which: npt.NDArray[np.bool_]) -> Volume:
    return Volume(int(which.sum()), int(flat.stored[which].sum()), int(flat.segment.size[which].sum()))


_TEXT_SHOWN = 38
"""The maximum length of a statement's text, characters. The MySQL GTID in the line above is at least as long."""

_NAME_SHOWN = 16
"""The maximum length of a column's head in the table of bytes over time, characters."""

_BYTES_SHOWN = 8
"""The width of a number of bytes, such as "1023 KiB", characters."""

_TABLES_SHOWN = 3
"""The maximum number of tables to name for one large transaction or statement."""


def render_inspection(found: Inspection, console: Console, *, top: int = TOP) -> None:
    """Print the statistics of a binlog set as tables. ``top`` limits the listed tables, transactions and statements."""
    total = sum(size for _, size in found.files)
    console.print(f"[bold]{_files(found)}, {total:,} bytes, written by {escape(found.server_version)}")
    if found.first_time is not None and found.last_time is not None:
        console.print(f"time: {_time(found.first_time)} to {_time(found.last_time)}")
    else:
        console.print("time: –")
    console.print(f"transactions: {found.transactions:,}")
    _print_compression(found, console, total)
    console.print(f"GTIDs: {_short(found.gtids) or 'none'}", soft_wrap=True)
    for title, gtids in (("before them", found.gtids_before), ("dropped by the master", found.gtids_dropped)):
        if gtids:
            console.print(f"{title}: {_short(gtids)}", soft_wrap=True)
    events, inside = (
        [((kind,), sums) for kind, sums in types.items()]
        for types in (found.events, found.events_inside_compressed_transactions)
    )
    _print_sums(console, "Events by type", ["type"], events, total)
    if inside:
        whole = sum(size for _, (_, size) in inside)
        _print_sums(console, "Events inside compressed transactions", ["type"], inside, whole)
    compressed = bool(found.compression.bytes)
    schemas = [((name,), volume[: 2 + compressed]) for name, volume in found.schemas().items()]
    _print_sums(console, "Bytes by schema", ["schema"], schemas, total)
    tables = [(key, volume[: 2 + compressed]) for key, volume in found.tables.items()]
    _print_sums(console, "Bytes by table", ["schema", "table"], tables[:top], total)
    if len(tables) > top:
        console.print(f"… and {len(tables) - top} more tables (--top {len(tables)} shows all)")
    if found.over_time is not None:
        _print_over_time(console, found.over_time, top)
    _print_large(console, "Largest transactions", found.largest_transactions[:top], compressed=compressed)
    _print_large(console, "Largest statements", found.largest_statements[:top], compressed=compressed)
    _print_highest_rate(console, found.rates)


def _files(found: Inspection) -> str:
    names = [escape(visible(found.files[k][0])) for k in (0, -1)]
    return f"{human_files(len(found.files))}[/], {' to '.join(dict.fromkeys(names))}"


def _print_compression(found: Inspection, console: Console, total: int) -> None:
    one = found.compression
    if one.ratio is None:
        return
    what = []
    if one.transactions:
        what.append(f"{one.transactions:,} of {found.transactions:,} transactions")
    if one.events:
        what.append(f"{one.events:,} events")
    console.print(
        f"compression: {' and '.join(what)}, {one.bytes_uncompressed:,} bytes in {one.bytes:,} "
        f"({one.ratio:.1f} to 1, {_percent(one.bytes, total)} of the files)"
    )
    if one.transactions_not_opened:
        console.print(
            f"compressed transactions that are too large to open, or damaged: {one.transactions_not_opened:,}"
        )


def _print_sums(
    console: Console,
    title: str,
    names: Sequence[str],
    sums: Sequence[tuple[Sequence[str], Sequence[int]]],
    total: int,
) -> None:
    """Print a table with a row for each type, schema or table.

    ``names`` are the heads of the columns before the sums. ``sums`` has a pair for each row: the texts of these
    columns, and the sums. The sums are events, bytes, and perhaps the bytes without compression. ``total`` is the
    number of bytes that counts as 100 %.
    """
    figures = [
        "events",
        "bytes",
        "share",
        *(["uncompressed"] if any(len(row) > 2 for _, row in sums) else []),
    ]
    rows = [
        (*keys, f"{n:,}", f"{size:,}", _percent(size, total), *(f"{each:,}" for each in uncompressed))
        for keys, (n, size, *uncompressed) in sums
    ]
    console.print(table((*names, *figures), rows, title=title, numbers=figures))


def _print_large(console: Console, title: str, objects: list[Large], *, compressed: bool) -> None:
    if not objects:
        return
    rows: list[tuple[Cell, ...]] = []
    for one in objects:
        names = list(map(visible, one.tables[:_TABLES_SHOWN]))
        if len(one.tables) > _TABLES_SHOWN:
            names.append(f"and {len(one.tables) - _TABLES_SHOWN:,} more")
        where = Text("\n".join(filter(None, (f"{visible(one.file)}:{one.position}", one.gtid))))
        if one.text:
            where.append("\n" + printable(" ".join(one.text.split()), _TEXT_SHOWN), "dim")
        changes = "\n".join([", ".join(one.kinds), *names]).strip()
        rows.append(
            (where, changes, f"{one.bytes_uncompressed:,}", *([f"{one.bytes:,}"] if compressed else []))
        )
    # A GTID of MySQL takes 40 columns, so that the headings of the other columns are short.
    figures = ("size", "in file") if compressed else ("bytes",)
    title += ", by size without compression" if compressed else ""
    console.print(table(("place", "changes", *figures), rows, title=title, numbers=figures))


def _print_over_time(console: Console, found: OverTime, top: int) -> None:
    """Print a table of bytes with one row for each period. The largest schemas or tables have a column each, at most
    ``top`` and as many as fit. The last column sums up the others.
    """
    room = console.width - sum(
        2 + width for width in (len("2026-11-22 10:00:00"), _BYTES_SHOWN, _BYTES_SHOWN)
    )
    shown = []
    for name in found.names[:top]:
        room -= 2 + max(_BYTES_SHOWN, min(len(name), _NAME_SHOWN))
        if room < 0:
            break
        shown.append(name)
    others = len(found.names) - len(shown)
    heads = ["all", *(shorten(visible(name), _NAME_SHOWN) for name in shown)]
    heads += [f"{others:,} more"] if others else []
    rows = []
    for period in found.periods:
        own = [period.bytes.get(name, 0) for name in shown]
        total = sum(period.bytes.values())
        cells = [total, *own, *([total - sum(own)] if others else [])]
        time = utc(period.start) if period.start else "no timestamp"
        rows.append((time, *(human_bytes(cell) if cell else "–" for cell in cells)))
    title = f"Bytes by {found.by.value} over time, {human_duration(found.period_seconds)} a row"
    console.print(table(("from, UTC", *heads), rows, title=title, numbers=heads, framed=False))


def _print_highest_rate(console: Console, rates: Rates) -> None:
    timed = [(one.bytes, one.start) for one in rates.buckets if one.start is not None]
    if timed:
        nbytes, start = max(timed, key=lambda pair: pair[0])
        console.print(
            f"highest rate: {nbytes / rates.bucket_seconds:,.0f} bytes a second from {_time(start)} on, "
            f"for {human_duration(rates.bucket_seconds)}"
        )


def _percent(size: int, total: int) -> str:
    return f"{100 * size / max(total, 1):.1f} %"


def _time(seconds: int) -> str:
    return f"{utc(seconds)} UTC"


def _short(gtids: str) -> str:
    return gtids if len(gtids) <= 2000 else f"{gtids[:2000]}… ({len(gtids):,} characters; --json has all)"

"""The planning of a query of the data source ``binlog``, and the work of its tasks.

A range is a sequence of complete transactions in one file. Each task reads one range and yields its events as rows.
An index pass over the files, which runs in threads of the driver, determines the ranges.

With the option ``table``, the rows are one table's changed rows with typed columns. The types come from the table's
Table_map events. An ALTER TABLE changes them, so the struct has the columns of all versions of the table.
"""

from __future__ import annotations

import difflib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.events import ROWS, EventType
from dumpfilter.binlog.format import DEFAULT_NAMES, Family, FormatDescription
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.rows.arrow import MAP_TYPE, RowImageReader, struct_of, with_names
from dumpfilter.binlog.rows.table import Table, describe_table
from dumpfilter.binlog.rows_events import TABLE_ID_LENGTH, decode_rows_header, decode_table_map
from dumpfilter.dump.chunk import WHOLE_SEGMENT
from dumpfilter.dump.thread import DumpThread, SentEvents
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.addresses import file_name
from dumpfilter.index.fileset import open_file
from dumpfilter.index.scanner import MAX_OPENED
from dumpfilter.index.subjects import Subjects, TableSubject
from dumpfilter.spark_jobs.engines import ThreadRunner
from dumpfilter.spark_jobs.options import BLOCK_SIZE
from dumpfilter.spark_jobs.ranges import (
    Damage,
    Range,
    blocks_of,
    index_parts,
    parts_of,
)
from dumpfilter.spark_jobs.source.columns import (
    IMAGES,
    OF_SUBJECTS,
    ROW_TYPES,
    EventColumns,
    encoded,
    exploded,
    text_of,
    true_of,
)
from dumpfilter.spark_jobs.source.options import KnownColumns, SourceOptions, version_of

_log = logging.getLogger(__name__)


class Predicate(NamedTuple):
    """A condition of a query's WHERE clause on one column, which the Spark data source evaluates itself. The fields are
    the column's name, the test of values, and the values to compare with.
    """

    column: str
    test: Callable[[pa.Array], pa.Array]
    """Return whether the condition holds for each of the values: true, false, or null for unknown, as in SQL."""
    limits: tuple[Any, ...] | None = None
    """The values with which the condition compares the column, such as 5 in ``position > 5``. None for a NOT.

    A condition that is true for any number of an interval is true at an end of the interval, or at one of these values
    that lies inside. So a few tests decide about a whole interval.
    """


def read_batches(
    wanted: Range,
    options: SourceOptions,
    columns: Sequence[str] | None = None,
    predicates: Sequence[Predicate] = (),
    *,
    images: RowImageReader | None = None,
    for_parquet: bool = False,
    block_size: int = BLOCK_SIZE,
) -> Iterator[pa.RecordBatch]:
    """Yield the events of one part of a binlog file for which all predicates are true, as Arrow batches in file order.
    With ``options.exploded``, yield the changed rows of these events.

    Parameters:
        wanted: the part of the file to read, which consists of complete transactions.
        options: the options of the query. Only events that pass ``options.filter`` are yielded.
        columns: the names of the batches' columns. None: the columns of ``options``.
        predicates: conditions on columns, from the query's WHERE clause.
        images: the reader of changed rows (:func:`image_reader`). A reader of an earlier part of the file already knows
            the tables that it has met. None: a new reader.
        for_parquet: whether the batches have the schema :func:`encoded`, with dictionaries for repeated texts.
            Otherwise they have the types of ``options``.
        block_size: the number of bytes to read at a time, which become one batch. Larger blocks need more memory.

    Raises BinlogError with file and position for a damaged file, and ColumnsChanged if the table of ``options`` was
    altered after the query began.
    """
    schema = pa.schema([(name, options.types[name]) for name in columns or options.columns])
    if for_parquet:
        schema = encoded(schema)
    if options.table is not None:
        of_table = zip(("database", "table"), options.table, strict=True)
        predicates = (*predicates, *(Predicate(name, partial(pc.equal, value)) for name, value in of_table))
    tested = {predicate.column for predicate in predicates}
    needed = {*schema.names, *tested}
    if options.exploded:
        # The rows of all events are read, and therefore counted, whichever columns are asked for.
        needed = needed - ({"rows"} - tested) | {*IMAGES}
    filters = {name: k for name, k in options.slave_of_column.items() if name in needed}
    if options.filter is not None:
        filters[FILTER] = len(options.slaves)
    statements = options.opened or bool(needed & OF_SUBJECTS)
    subjects, sources = Subjects(), SourceNumbers()
    reader = images or image_reader(options)
    with open_file(wanted.path) as file:
        blocks = partial(blocks_of, file, wanted, subjects, sources, block_size=block_size, with_head=True)
        sent = None
        if filters:
            # A dump may decide about an event only when it has seen later events. Therefore the filters decide about
            # the whole range first.
            threads = [
                DumpThread(
                    TableFlags(one.filter(wanted.names), subjects),
                    sources,
                    origin=one.origin,
                    chunk_size=WHOLE_SEGMENT,
                )
                for one in options.definitions
            ]
            for thread in threads:
                thread.start_file(wanted.start, file.read)
            sent = SentEvents(threads)
            for block in blocks(verify=options.read.verify):
                sent.add(block.segment)
        events = EventColumns(
            file.name,
            subjects,
            sources,
            wanted=needed,
            filters=filters,
            image_reader=reader,
            sent=sent,
        )
        verify = options.read.verify and sent is None
        max_opened = MAX_OPENED if options.opened else 0
        for block in blocks(verify=verify, statements=statements, max_opened=max_opened):
            events.take(block)
            yield from _batches(events, schema, predicates, options)


def image_reader(options: SourceOptions, invalid_dates: Counter[str] | None = None) -> RowImageReader:
    """Return a reader that decodes the images of rows before and after their change. ``options`` (of a Spark query or
    an export) say which column types the values have.

    The reader counts impossible dates, such as February 30, in ``invalid_dates`` by column name. Such dates become
    null.
    """
    return RowImageReader(
        options.row_types,
        names=options.names,
        check=None if options.known_columns is None else options.known_columns.check,
        invalid_dates=invalid_dates,
    )


def invalid_dates_of(options: SourceOptions, counts: Counter[str]) -> str:
    """Return a warning about dates such as 0000-00-00 that became null because no calendar has them.

    ``counts`` has the number of such dates by column, and ``options`` names their table. The text is empty without such
    dates, or without the option ``table``.
    """
    if not counts or options.table is None:
        return ""
    columns = ", ".join(f"{count:,} of {name}" for name, count in sorted(counts.items()))
    return (
        f"dates of {'.'.join(options.table)} are null since no calendar has them, such as 0000-00-00: {columns}; the "
        "maps before and after of the exploded form, without a table, have their text"
    )


FILTER = "the filter"
"""The internal name of the column that tells for each event whether it passes the query's option ``filter``. No column
of the data source has this name.
"""


def _batches(
    events: EventColumns, schema: pa.Schema, predicates: Sequence[Predicate], options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """Yield one Arrow batch with the columns of ``schema``. The batch has the query's selection from the events that
    ``events`` has taken last. Yield nothing if the query selects none of these events.

    The query selects the events that pass its filter (the option ``filter``) and meet its conditions. ``predicates``
    are these conditions, each on one column, from the query's WHERE clause. In exploded form (``options.exploded``) the
    batch has a row for each changed row of the events, otherwise for each event.
    """
    keep = None if options.filter is None else np.flatnonzero(events.column(FILTER))
    for predicate in predicates:
        if keep is not None and not keep.size:
            break
        passed = np.flatnonzero(true_of(predicate.test, events.column(predicate.column, keep)))
        keep = passed if keep is None else keep[passed]
    images = events.changed_rows(keep) if options.exploded else None
    count = len(events) if keep is None else keep.size
    if not count:
        return
    arrays: dict[str, pa.Array] = {}
    if images is not None:
        types = events.type if keep is None else events.type[keep]
        rows = exploded(images, np.isin(types, [*ROWS]), others=options.table is None)
        arrays = {name: rows[name] for name in ("rows", *ROW_TYPES)}
    for field in schema:
        if field.name not in arrays:
            values = events.column(field.name, keep)
            arrays[field.name] = values if images is None else values.take(rows["event"])
    yield pa.RecordBatch.from_arrays([arrays[one.name].cast(one.type) for one in schema], schema=schema)


def plan_ranges(
    options: SourceOptions,
    predicates: Sequence[Predicate] = (),
    on_damage: Callable[[Damage], object] = _log.warning,
) -> list[Range]:
    """Return the ranges (parts of binlog files) that a query must read, one for each task.

    ``predicates`` are the query's conditions on columns. Ranges in which they cannot be true are omitted. A file
    excluded by a condition on ``file`` is not even opened, unless ``options`` define replication filters (by ``filter``
    or slaves). Such filters need the prepared XA transactions of all files.

    Raises BinlogError for a missing or damaged file, and OptionError for a binlog file's URI with a syntax error. With
    ``onCorrupt=skip``, the damaged part of a file is skipped instead, and ``on_damage`` is called with the
    damage.
    """
    of_file = [] if options.definitions else [one for one in predicates if one.column == "file"]
    parts = [one for one in parts_of(options.sources) if may_hold(of_file, one.path, 0, 1)]
    indexed = index_parts(parts, ThreadRunner(), options.read, follows_xa=bool(options.definitions))
    for index in indexed.files:
        if index.damage is not None:
            on_damage(index.damage)
    names = indexed.newest.names if options.definitions else DEFAULT_NAMES
    found = [one for one in indexed.ranges if may_hold(predicates, one.path, one.start, one.end)]
    return [replace(one, names=names) for one in found]


def may_hold(predicates: Iterable[Predicate], path: str, start: int, end: int) -> bool:
    """Tell whether the bytes of a binlog file from ``start`` to ``end`` - 1 can contain an event that meets all of
    ``predicates``, the conditions of a query's WHERE clause.

    Only predicates on the columns ``file`` and ``position`` are evaluated, so the file need not be read. ``path`` is
    its path.
    """
    for one in predicates:
        if one.column == "file":
            values = pa.array([text_of(file_name(path))])
        elif one.column == "position" and one.limits is not None:
            # A comparison that is true anywhere in the part is true at an end of the part, or at a value of its own.
            inside = [value for value in one.limits if value is not None and start <= value < end]
            values = pa.array([start, end - 1, *inside], pa.int64())
        else:
            continue
        if not pc.any(one.test(values)).as_py():
            return False
    return True


_HINTS = 3
"""The maximum number of similar table names in the error about an unknown table."""

NEW_COLUMNS = "new_columns"
"""The name of the struct field that holds columns added to a table after the query's columns were fixed."""

Version = tuple[Table, Family]


def with_types(options: SourceOptions, warn: Callable[[str], object] = _log.warning) -> SourceOptions:
    """Return the query's ``options`` with the Arrow types of the columns ``before`` and ``after``, which hold the
    values of a changed row.

    The types are structs with the columns of the table that the option ``table`` names. With ``newColumns=stop`` the
    result also has these columns' names, so that tasks detect a later ALTER TABLE. With ``newColumns=map`` the structs
    have a map for columns added later.

    Without the option ``table``, or if the types are already known, ``options`` is returned unchanged. Otherwise the
    whole set is read. ``warn`` is called if row images lack columns, because a null in the structs may then be an
    unknown value. ``warn`` is also called if only some of the binlogs record the column names.

    Raises BinlogError for a missing or damaged file. With the option ``skipCorrupt`` the damaged part is skipped
    without a warning, because the query itself warns of the damage. Raises OptionError if the set has no changed rows
    of the table. Raises OptionError if the option ``columnNames`` has a wrong number of names, or if the binlogs record
    all names.
    """
    if options.table is None or options.row_types is not None:
        return options
    wanted, name = TableSubject(*options.table), ".".join(options.table)
    # The query itself tells of damaged files.
    ranges = plan_ranges(options, on_damage=lambda damage: None)
    looks = ThreadRunner()(partial(_look, table=wanted), ranges, "reading tables")
    read = [version for look in looks for version in look.versions.values()]
    if not read:
        others = {other for look in looks for other in look.others}
        near = " or ".join(difflib.get_close_matches(name, sorted(others), _HINTS))
        meant = f"; did you mean {near}?" if near else ""
        raise OptionError(f"option table: the binlog set has no changed rows of {name}{meant}")
    tables = [table for table, _ in read]
    _check_names(name, options.names, tables)
    versions = [(with_names(table, options.names), family) for table, family in read]
    found = struct_of(versions)
    known = KnownColumns(name, tuple(found.names), frozenset(version_of(*each) for each in versions))
    if options.new_columns == "map":
        found = _with_map(found)
    if any(look.lacks for look in looks):
        warn(_lacking_columns(name, any(look.is_partial for look in looks)))
    if not options.names and len({table.has_names for table in tables}) > 1:
        warn(_half_named(name, tables))
    return replace(
        options, row_types=(found, found), known_columns=known if options.new_columns == "stop" else None
    )


def _with_map(columns: pa.StructType) -> pa.StructType:
    name = NEW_COLUMNS
    while name in columns.names:
        name += "_"
    return pa.struct([*columns, pa.field(name, MAP_TYPE)])


def _check_names(name: str, names: Sequence[str], tables: Sequence[Table]) -> None:
    """Check ``names``, the column names that the user gave with the option ``columnNames``. Empty: no check.

    ``tables`` has the versions of the table ``name`` that the binlogs contain. Raises OptionError if all of them
    record their column names. Raises it also if the number of ``names`` differs from the number of columns. Of several
    versions without recorded names, the one with the most columns counts.
    """
    if not names:
        return
    counts = [len(table.columns) for table in tables if not table.has_names]
    if not counts:
        raise OptionError(
            f"option columnNames: the binlog has the names of the columns of {name}; leave the option out"
        )
    if len(names) != max(counts):
        raise OptionError(
            f"option columnNames: it has {len(names)} names, and {name} has {max(counts)} columns; "
            "name all columns, in order"
        )


def _lacking_columns(name: str, is_partial: bool) -> str:
    """Return a warning that row images of the table ``name`` lack columns, so that a null may stand for an unknown
    value.

    ``is_partial`` tells whether an update contains only the changes of a JSON value.
    """
    json = ", and a JSON value can be an SQL expression such as JSON_REPLACE(…)" if is_partial else ""
    return (
        f"row images of {name} lack columns (binlog_row_image is not FULL): a null in before or after is NULL or "
        f"a column that the image lacks{json}; binlog_row_image=FULL has all values from then on, and the maps before "
        "and after of the exploded form, without a table, tell the two apart"
    )


def _half_named(name: str, tables: Sequence[Table]) -> str:
    """Return a warning about the table ``name``, for which only some binlogs record the names of columns. ``tables``
    has the versions of the table that the binlogs contain.
    """

    def kinds(table: Table) -> list[tuple[int, int]]:
        return [(column.type, column.metadata) for column in table.columns]

    others = [kinds(table) for table in tables if not table.has_names]
    lists = {
        ",".join(column.name for column in one.columns)
        for one in tables
        if one.has_names and all(kinds(one) == other for other in others)
    }
    names = lists.pop() if len(lists) == 1 else "NAMES"
    return (
        f"some binlogs have the names of the columns of {name}, and others do not (binlog_row_metadata is not FULL): "
        f"their values are in @1, @2 and so on, beside the names; --column-names '{names}' (the option columnNames of "
        "Spark) joins them, if the columns have not changed"
    )


class _Look:
    """The data that a task collects from one range (part of a binlog file), from which the types of a table's columns
    are determined.

    The data are the versions of the table that the option ``table`` names, and the names of all tables. A version is
    the table's columns as one Table_map event describes them.
    """

    def __init__(self) -> None:
        self.versions: dict[bytes, Version] = {}
        """The versions of the table. The key is the body of a Table_map event without the table id, so that equal
        versions count once.
        """
        self.others: set[str] = set()
        self.lacks = False
        """Whether any row image of the table lacks columns."""
        self.is_partial = False
        """Whether any update whose row images lack columns contains only the changes of a JSON value."""

    def add(self, kind: EventType, body: bytes, fd: FormatDescription) -> None:
        """Record what an event tells about the table that the option ``table`` names. A table map gives a version of
        the table's columns. A rows event shows whether row images lack columns.

        ``body`` is the event without header and checksum.
        """
        if kind is EventType.TABLE_MAP:
            # The table id at the begin differs between equal tables.
            key = body[TABLE_ID_LENGTH:]
            if key not in self.versions:
                self.versions[key] = describe_table(decode_table_map(body), fd.family), fd.family
            return
        header = decode_rows_header(kind, body)
        every = (1 << header.column_count) - 1
        bitmaps = (header.columns_before, header.columns_after)
        if any(bits is not None and int.from_bytes(bits, "little") & every != every for bits in bitmaps):
            self.lacks = True
            self.is_partial |= kind == EventType.PARTIAL_UPDATE_ROWS


def _look(wanted: Range, table: TableSubject) -> _Look:
    subjects, sources = Subjects(), SourceNumbers()
    found = _Look()
    with open_file(wanted.path) as file:
        for events in blocks_of(file, wanted, subjects, sources, verify=False):
            subject, kind = events.column(lambda one: one.subject), events.column(lambda one: one.type)
            is_map_or_rows = np.isin(kind, [EventType.TABLE_MAP, *ROWS]) & (subject >= 0)
            known = np.unique(subject[is_map_or_rows]).tolist()
            numbers = [k for k in known if subjects.members(k) is None and subjects[k] == table]
            for row in np.flatnonzero(is_map_or_rows & np.isin(subject, numbers)).tolist():
                found.add(events.kind(row), events.body(row), events.format_description)
    tables = (one for one in subjects.since(0) if isinstance(one, TableSubject))
    found.others = {f"{one.database}.{one.table}" for one in tables}
    return found

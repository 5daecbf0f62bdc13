"""The option ``table``: one table's changed rows with typed columns, whose types are read from the binlog set.

The types come from the table's Table_map events. An ALTER TABLE changes them, so the struct has the columns of all
versions of the table.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.events import ROWS, EventType
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.rows import MAP_TYPE, RowImageReader, Table, describe_table
from dumpfilter.binlog.rows.arrow import struct_of, with_names
from dumpfilter.binlog.rows_events import decode_rows_header, decode_table_map
from dumpfilter.index.fileset import open_file
from dumpfilter.index.subjects import Subjects, TableSubject
from dumpfilter.spark_jobs.engines import ThreadRunner
from dumpfilter.spark_jobs.ranges import Range, blocks_of
from dumpfilter.spark_jobs.source.columns import TEXT_TYPES, EventColumns
from dumpfilter.spark_jobs.source.options import KnownColumns, SourceOptions, version_of
from dumpfilter.spark_jobs.source.reading import plan_ranges

_HINTS = 3
"""The maximum number of similar table names in the error about an unknown table."""

_ROWS_HEADER = 8
"""The number of leading bytes of a rows event's header that are ignored when headers are compared: the table id and
the flags.
"""

NEW_COLUMNS = "new_columns"
"""The name of the struct field that holds columns added to a table after the query's columns were fixed."""

Version = tuple[Table, Family]

_log = logging.getLogger(__name__)


def with_types(options: SourceOptions, warn: Callable[[str], object] = _log.warning) -> SourceOptions:
    """Return the query's ``options`` with the Arrow types of the columns ``before`` and ``after``, which hold the
    values of a changed row.

    The types are structs with the columns of the table that the option ``table`` names. With ``newColumns=stop`` the
    result also has these columns' names, so that tasks detect a later ALTER TABLE. With ``newColumns=map`` the structs
    have a map for columns added later.

    Without the option ``table``, or if the types are already known, ``options`` is returned unchanged. Otherwise the
    whole set is read. ``warn`` is called with each warning about values that the structs cannot hold.

    Raises BinlogError. Raises OptionError if the set has no rows of the table, or if the option ``columnNames`` is
    superfluous or has a wrong number of names.
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
    """Return a warning that row images lack columns."""
    json = ", and a JSON value can be an SQL expression such as JSON_REPLACE(…)" if is_partial else ""
    return (
        f"row images of {name} lack columns (binlog_row_image is not FULL): a null in before or after is NULL or "
        f"a column that the image lacks{json}; binlog_row_image=FULL has all values from then on, and the maps before "
        "and after of the exploded form, without a table, tell the two apart"
    )


def _half_named(name: str, tables: Sequence[Table]) -> str:
    """Return a warning about a table whose column names only some of the binlogs record."""

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
    """The result of reading one range: the versions of the wanted table, and the names of all other tables."""

    def __init__(self) -> None:
        self.versions: dict[bytes, Version] = {}
        """The versions of the table by the content of their table maps."""
        self.others: set[str] = set()
        self.lacks = False
        """Whether any row image of the table lacks columns."""
        self.is_partial = False
        """Whether any update whose row images lack columns contains only the changes of a JSON value."""
        self._headers: set[tuple[int, bytes]] = set()
        self._lengths: dict[int, int] = {}

    def add(self, kind: EventType, body: bytes, fd: FormatDescription) -> None:
        """Evaluate a table map or a rows event of the table, given the event's type and body."""
        length = fd.post_header_length(kind)
        if kind is not EventType.TABLE_MAP:
            self._add_rows(kind, body, length)
            return
        # The table id at the begin differs between equal tables.
        key = body[length - 2 :]
        if key not in self.versions:
            self.versions[key] = describe_table(decode_table_map(body, length), fd.family), fd.family

    def _add_rows(self, kind: EventType, body: bytes, length: int) -> None:
        # Most events of a table have equal headers, so that a look-up takes the place of decoding.
        if (kind, body[_ROWS_HEADER : self._lengths.get(kind, 0)]) in self._headers:
            return
        header = decode_rows_header(kind, body, length or None)
        if header.is_dummy:
            return
        if not header.extra:
            self._lengths[kind] = header.rows_offset
            self._headers.add((kind, body[_ROWS_HEADER : header.rows_offset]))
        every = (1 << header.column_count) - 1
        bitmaps = (header.columns_before, header.columns_after)
        if any(bits is not None and int.from_bytes(bits, "little") & every != every for bits in bitmaps):
            self.lacks = True
            self.is_partial |= kind == EventType.PARTIAL_UPDATE_ROWS


def _look(wanted: Range, table: TableSubject) -> _Look:
    subjects, sources = Subjects(), SourceNumbers()
    found = _Look()
    with open_file(wanted.path) as file:
        # The column ``sql`` stands for the bodies of all events, which only opened transactions have.
        events = EventColumns(
            file.name,
            subjects,
            sources,
            wanted=TEXT_TYPES,
            opened=True,
            filters={},
            image_reader=RowImageReader(),
        )
        for block in blocks_of(file, wanted, subjects, sources, verify=False):
            events.take(block.segment, block.data)
            is_map_or_rows = np.isin(events.type, [EventType.TABLE_MAP, *ROWS]) & (events.subject >= 0)
            known = np.unique(events.subject[is_map_or_rows]).tolist()
            # A table can have two numbers.
            numbers = [k for k in known if subjects.members(k) is None and subjects[k] == table]
            for event in np.flatnonzero(is_map_or_rows & np.isin(events.subject, numbers)).tolist():
                found.add(EventType(events.type[event]), events.body(event), events.format_description)
    tables = (one for one in subjects.since(0) if isinstance(one, TableSubject))
    found.others = {f"{one.database}.{one.table}" for one in tables}
    return found

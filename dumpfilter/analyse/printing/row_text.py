"""Printing of row images as pseudo-SQL, as ``mysqlbinlog -v`` and ``mariadb-binlog -v`` print them.

All lines are comments (``### …``). With a verbosity of 2 each value has its column's type and metadata behind it. The
text follows ``print_verbose_one_row`` and ``log_event_print_value`` of ``sql/log_event.cc`` of both servers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

import numpy as np

from dumpfilter.analyse.printing.literals import quoted_name
from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog import row_image as T
from dumpfilter.binlog.compression import rows_data
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.row_image import AFTER, BEFORE, ColumnPlan, ImageLayout, Layouts, as_arrays
from dumpfilter.binlog.row_walk import NULL, RowsError, find_rows
from dumpfilter.binlog.rows import Column, Table, describe_table
from dumpfilter.binlog.rows.json_binary import changes_expression, json_changes, json_value, sql_quoted
from dumpfilter.binlog.rows.table import bit_count, char_length
from dumpfilter.binlog.rows.texts import ByteMap, CellError, Form, Style, StyledColumns, cell_texts
from dumpfilter.binlog.rows_events import RowsHeader, TableMap, encode_table_map, is_pre_ga

_SPOOLED = 16 << 20
"""The most bytes of lines of one statement that stay in memory. More bytes go to a temporary file."""
_PIECE = 1 << 20
"""The bytes of rows that become one piece of lines, at least one row."""
_TABLE_ID_LENGTH = 6
_MOST_COLUMNS = 1 << 18
"""The number of columns of all tables at which the printer forgets them."""

TYPES = 2
"""The verbosity from which on each value has its column's type and metadata behind it."""

_CHANGES_LINE = "\n###      "
"""The text between the lines of a JSON value's changes."""

_PARTITIONS = 1
"""The kind of extra data of rows events that names partitions (``enum_extra_row_info_typecode``)."""

_INTEGER_NAMES = {
    T.TINY: "TINYINT",
    T.SHORT: "SHORTINT",
    T.INT24: "MEDIUMINT",
    T.LONG: "INT",
    T.LONGLONG: "LONGINT",
}
_PLAIN_NAMES = {
    T.FLOAT: "FLOAT",
    T.DOUBLE: "DOUBLE",
    T.YEAR: "YEAR",
    T.DATE: "DATE",
    T.NEWDATE: "DATE",
    T.TIME: "TIME",
    T.DATETIME: "DATETIME",
    T.TIMESTAMP: "TIMESTAMP",
    T.JSON: "JSON",
    T.GEOMETRY: "GEOMETRY",
    T.NULL: "NULL",
}
_FRACTION_NAMES = {T.TIME2: "TIME", T.DATETIME2: "DATETIME", T.TIMESTAMP2: "TIMESTAMP"}
_BLOB_NAMES = {
    1: "TINYBLOB/TINYTEXT",
    2: "BLOB/TEXT",
    3: "MEDIUMBLOB/MEDIUMTEXT",
    4: "LONGBLOB/LONGTEXT",
}
_ENUM_NAMES = {1: "ENUM(1 byte)", 2: "ENUM(2 bytes)"}


class StatementRows:
    """The lines for the rows of one statement, collected until its end, as the servers' programs print them."""

    def __init__(self, verbosity: int) -> None:
        self._text = RowText(verbosity)
        self._maps: dict[int, TableMap] = {}
        self._lines: SpooledTemporaryFile[bytes] | None = None

    def map(self, table: TableMap) -> None:
        """Take a table map of the statement. Its names are those to print."""
        self._maps[table.table_id] = table

    def add(self, rows: RowsHeader, body: bytes | memoryview, family: Family) -> None:
        """Collect the lines for the rows of an event. Raises BinlogError for malformed rows."""
        if rows.is_dummy:
            return
        table = self._maps.get(rows.table_id)
        if table is None:
            raise BinlogCorrupt(
                f"rows event: no Table_map event tells the columns of table id {rows.table_id}"
            )
        if self._lines is None:
            self._lines = SpooledTemporaryFile(max_size=_SPOOLED)  # noqa: SIM115 (closed by flush)
        if is_pre_ga(rows.type):
            self._lines.write(b"### rows of a server before MySQL 5.1.18, which cannot be told apart\n")
        else:
            self._lines.writelines(self._text.lines(table, rows, rows_data(rows, body), family))

    def flush(self, write: Callable[[bytes], object]) -> None:
        """Print the lines collected so far, and forget the statement's table maps."""
        self._maps.clear()
        if self._lines is None:
            return
        with self._lines as lines:
            self._lines = None
            lines.seek(0)
            while piece := lines.read(_PIECE):
                write(piece)


class _Lines(NamedTuple):
    """The lines of the rows of one layout."""

    layouts: Layouts
    """The arrays of the layout alone."""
    styled: StyledColumns
    empty: list[int]
    """The places before which a cell that is NULL stands for an image without columns. Its text is the first lines."""


class _Printed:
    """A table, and the lines of its layouts that were met."""

    def __init__(self, table: TableMap, family: Family) -> None:
        self.table: Table = describe_table(table, family)
        self.plan = ColumnPlan.from_table_map(table)
        self.lines: dict[tuple[ImageLayout, bytes], _Lines] = {}
        """The lines by layout, and by the first lines of the first image."""


class RowText:
    """A printer of the rows of rows events as comment lines. ``verbosity`` is 1, or 2 for types behind the values.

    It remembers the tables that it met.
    """

    def __init__(self, verbosity: int) -> None:
        self._verbosity = verbosity
        self._tables: dict[tuple[Family, bytes], _Printed] = {}
        self._column_count = 0

    def lines(
        self, table: TableMap, rows: RowsHeader, data: bytes | memoryview, family: Family
    ) -> Iterator[bytes]:
        """Yield the lines for the rows of a rows event, in pieces of whole rows.

        ``table`` is the event's table map with the names to print. ``data`` are its uncompressed rows. Raises
        BinlogError for malformed rows.
        """
        if rows.is_dummy:
            return
        name = _in_one_line(quoted_name(table.database) + b"." + quoted_name(table.table))
        found = self._lines(table, rows, _extra_line(rows) + _HEADS[rows.kind] % name, family)
        raw = np.frombuffer(data, np.uint8)
        begin, end = np.zeros(1, np.int64), np.array([raw.size], np.int64)
        try:
            cells = find_rows(raw, begin, end, begin, found.layouts)
        except RowsError as error:
            raise error.error from None
        start, length = cells.start, cells.length
        width, count = len(found.styled.styles), cells.event.size
        if found.empty:
            shape = (count, width - len(found.empty))
            start, length = (
                np.insert(one.reshape(shape), found.empty, NULL, axis=1).ravel() for one in (start, length)
            )
        step = max(1, count * _PIECE // max(1, raw.size))
        for first in range(0, count, step):
            some = slice(first * width, (first + step) * width)
            column = np.tile(np.arange(width), min(step, count - first))
            try:
                text, _ = cell_texts(raw, start[some], length[some], column, found.styled)
            except CellError as error:
                raise error.error from None
            yield text.tobytes()

    def _lines(self, table: TableMap, rows: RowsHeader, head: bytes, family: Family) -> _Lines:
        key = (family, encode_table_map(table)[_TABLE_ID_LENGTH:])
        known = self._tables.get(key)
        if known is None:
            if self._column_count > _MOST_COLUMNS:
                self._tables.clear()
                self._column_count = 0
            known = self._tables[key] = _Printed(table, family)
        layout = known.plan.layout(rows)
        lines = known.lines.get((layout, head))
        if lines is None:
            lines = known.lines[layout, head] = self._new_lines(known, layout, head, family)
            self._column_count += len(lines.styled.styles)
        return lines

    def _new_lines(self, known: _Printed, layout: ImageLayout, head: bytes, family: Family) -> _Lines:
        heads = (head, b"### SET\n") if layout.images & BEFORE else (b"", head)
        styles: list[Style] = []
        empty: list[int] = []
        for bit, first, columns in zip((BEFORE, AFTER), heads, (layout.before, layout.after), strict=True):
            if not layout.images & bit:
                continue
            made = [self._style(number + 1, known.table.columns[number], family) for number in columns]
            if made:
                before, behind, null = made[0].around
                made[0] = made[0]._replace(around=(first + before, behind, first + null))
            else:
                empty.append(len(styles) - len(empty))
                made = [Style(Form.PENDING, around=(b"", b"", first))]
            styles += made
        layouts = as_arrays([layout], fill_unchanged=False)
        return _Lines(layouts, StyledColumns.of(styles), empty)

    def _style(self, number: int, column: Column, family: Family) -> Style:
        types = not_null = null = b""
        if self._verbosity >= TYPES:
            types = b" /* %s meta=%d nullable=%d is_null=" % (
                _type_name(column, family).encode(),
                column.metadata,
                column.nullable,
            )
            not_null, null = b"%d */" % False, b"%d */" % True
        style = _style(column, family)
        quote = b"'" if style.form in _QUOTED else b""
        name = b"###   @%d=" % number
        return style._replace(
            changes=lambda data, _: changes_expression(f"@{number}", list(json_changes(data)), _CHANGES_LINE),
            around=(name + quote, quote + types + not_null + b"\n", name + b"NULL" + types + null + b"\n"),
        )


_ONE_LINE = bytes.maketrans(b"\n\r\0", b"   ")


def _in_one_line(name: bytes) -> bytes:
    # A line end in a table's name would end the comment, and the client would run the rest as a statement.
    return name.translate(_ONE_LINE)


_HEADS = {
    "insert": b"### INSERT INTO %s\n### SET\n",
    "delete": b"### DELETE FROM %s\n### WHERE\n",
    "update": b"### UPDATE %s\n### WHERE\n",
}


def _extra_line(rows: RowsHeader) -> bytes:
    extra = rows.extra
    if not extra:
        return b""
    if extra[0] == _PARTITIONS:
        numbers = [int.from_bytes(extra[at : at + 2], "little") for at in range(1, len(extra), 2)]
        if len(extra) == 3:
            return b"### Extra row info for partitioning: partition: %d\n" % numbers[0]
        if len(extra) == 5:
            # The target comes first in the event, and second in the text.
            names = (numbers[1], numbers[0])
            return b"### Extra row info for partitioning: source_partition: %d target_partition: %d\n" % names
    # The content of NDB's extra data is known to NDB alone.
    return b"### Extra row data: type %d, %d bytes\n" % (extra[0], len(extra))


def _type_name(column: Column, family: Family) -> str:
    kind, metadata = column.type, column.metadata
    if kind in _INTEGER_NAMES:
        return _INTEGER_NAMES[kind]
    if kind in _PLAIN_NAMES:
        return _PLAIN_NAMES[kind]
    if kind in _FRACTION_NAMES:
        return f"{_FRACTION_NAMES[kind]}({metadata})"
    if kind == T.NEWDECIMAL:
        return f"DECIMAL({metadata >> 8},{metadata & 0xFF})"
    if kind == T.BIT:
        return f"BIT({bit_count(column)})"
    if kind == T.ENUM:
        return _ENUM_NAMES.get(metadata & 0xFF, "ENUM")
    if kind == T.SET:
        return f"SET({metadata & 0xFF} bytes)"
    if kind == T.STRING:
        return f"STRING({char_length(metadata)})"
    if kind == T.VECTOR:
        return f"VECTOR({column.dimensions or '?'})"
    if kind in (T.VARCHAR, T.VAR_STRING, T.VARCHAR_COMPRESSED):
        name = f"VARSTRING({metadata})"
    else:
        name = _BLOB_NAMES.get(metadata, "BLOB")
    return f"{name} COMPRESSED" if kind in (T.VARCHAR_COMPRESSED, T.BLOB_COMPRESSED) else name


def _style(column: Column, family: Family) -> Style:
    kind, metadata = column.type, column.metadata
    if kind in _INTEGER_NAMES:
        # The programs do not know whether a column is UNSIGNED, and print both numbers.
        return Style(Form.BOTH)
    if kind == T.BIT:
        return Style(Form.BITS, bit_count(column))
    if kind == T.SET:
        return Style(Form.BITS, 8 * (metadata & 0xFF))
    if kind in _PENDING_PRINTERS:
        return Style(Form.PENDING, 0, (), _PENDING_PRINTERS[kind])
    if kind in _FORMS:
        return Style(_FORMS[kind], _PARAMETERS.get(kind, metadata))
    return Style(Form.MAPPED, ByteMap.MYSQL if family == "mysql" else ByteMap.MARIADB)


def _json(data: bytes) -> str:
    return sql_quoted(json_value(data).text)


def _float(data: bytes) -> str:
    value: float = struct.unpack("<f", data)[0]
    return f"{value:<20g}"


def _double(data: bytes) -> str:
    value: float = struct.unpack("<d", data)[0]
    return f"{value:.20g}"


def _vector(data: bytes) -> str:
    if len(data) % 4:
        raise BinlogCorrupt(f"a VECTOR value has {len(data)} bytes, which is no number of floats")
    return f"[{','.join(f'{value:.5e}' for value in np.frombuffer(data, '<f4').tolist())}]"


_FORMS = {
    T.ENUM: Form.UNSIGNED,
    T.YEAR: Form.YEAR,
    T.DATE: Form.DATE,
    T.NEWDATE: Form.DATE,
    T.TIME: Form.OLD_TIME,
    T.DATETIME: Form.OLD_DATETIME,
    T.TIMESTAMP: Form.UNSIGNED,
    T.TIME2: Form.TIME,
    T.DATETIME2: Form.DATETIME,
    T.TIMESTAMP2: Form.SECONDS,
    T.NEWDECIMAL: Form.DECIMAL,
}
_PARAMETERS = {T.YEAR: 1900, T.DATE: ord(":"), T.NEWDATE: ord(":")}
"""The parameters of the forms that do not depend on the column's metadata."""
_QUOTED = frozenset({Form.DATE, Form.OLD_TIME, Form.OLD_DATETIME, Form.TIME, Form.DATETIME, Form.MAPPED})
_PENDING_PRINTERS: dict[int, Callable[[bytes], str]] = {
    T.FLOAT: _float,
    T.DOUBLE: _double,
    T.JSON: _json,
    T.VECTOR: _vector,
    T.NULL: lambda data: "NULL",
}

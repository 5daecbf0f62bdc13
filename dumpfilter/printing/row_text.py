"""Printing of row images as pseudo-SQL, as ``mysqlbinlog -v`` and ``mariadb-binlog -v`` print them.

All lines are comments (``### …``). With a verbosity of 2 each value has its column's type and metadata behind it. The
text follows ``print_verbose_one_row`` and ``log_event_print_value`` of ``sql/log_event.cc`` of both servers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from tempfile import SpooledTemporaryFile

import numpy as np

from dumpfilter.binlog import row_image as T
from dumpfilter.binlog.compression import rows_data
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.rows import RowsHeader, TableMap, is_pre_ga
from dumpfilter.errors import BinlogCorrupt
from dumpfilter.printing.literals import quoted_name
from dumpfilter.rows import Column, Printed, PrintedColumn, RowPrinter
from dumpfilter.rows.json_binary import changes_expression, json_changes, json_value, sql_quoted
from dumpfilter.rows.table import char_length

ToSql = Callable[[bytes], bytes]

_SPOOLED = 16 << 20
"""The most bytes of lines of one statement that stay in memory. More bytes go to a temporary file."""
_PIECE = 1 << 20

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

_MYSQL_ESCAPES = {
    ord("'"): b"\\'",
    ord("\\"): b"\\\\",
    8: b"\\b",
    9: b"\\t",
    10: b"\\n",
    12: b"\\f",
    13: b"\\r",
}


def _escapes(special: dict[int, bytes]) -> list[bytes]:
    return [special.get(byte) or (b"\\x%02x" % byte if byte < 32 else bytes((byte,))) for byte in range(256)]


_ESCAPES: dict[Family, list[bytes]] = {"mysql": _escapes(_MYSQL_ESCAPES), "mariadb": _escapes({})}
"""The bytes that each byte of a string is printed as. MariaDB escapes neither quotes nor backslashes."""


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


class RowText:
    """A printer of the rows of rows events as comment lines. ``verbosity`` is 1, or 2 for types behind the values."""

    def __init__(self, verbosity: int) -> None:
        self._verbosity = verbosity
        self._printer = RowPrinter(self._column, _ESCAPES)

    def lines(
        self, table: TableMap, rows: RowsHeader, data: bytes | memoryview, family: Family
    ) -> Iterator[bytes]:
        """Yield the lines for the rows of a rows event, in pieces of whole rows.

        ``table`` is the event's table map with the names to print. ``data`` are its uncompressed rows. Raises
        BinlogError for malformed rows.
        """
        name = _in_one_line(quoted_name(table.database) + b"." + quoted_name(table.table))
        head = _extra_line(rows) + _HEADS[rows.kind] % name
        between = b"### SET\n" if rows.kind == "update" else b""
        return self._printer.lines(table, rows, data, family, (head, between))

    def _column(self, number: int, column: Column, family: Family) -> PrintedColumn:
        types = not_null = null = b""
        if self._verbosity >= TYPES:
            types = b" /* %s meta=%d nullable=%d is_null=" % (
                _type_text(column, family),
                column.metadata,
                column.nullable,
            )
            not_null, null = b"%d */" % False, b"%d */" % True
        form, parameter = _form(column)
        return PrintedColumn(
            form,
            parameter,
            b"###   @%d=" % number,
            types + not_null + b"\n",
            b"NULL" + types + null + b"\n",
            _PENDING_PRINTERS.get(column.type, _unprintable),
            lambda data: changes_expression(f"@{number}", list(json_changes(data)), _CHANGES_LINE).encode(),
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


def _type_text(column: Column, family: Family) -> bytes:
    return _type_name(column, family).encode()


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
        return f"BIT({8 * (metadata >> 8) + (metadata & 0xFF)})"
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


def _form(column: Column) -> tuple[Printed, int]:
    kind, metadata = column.type, column.metadata
    if kind in _INTEGER_NAMES:
        return Printed.INTEGER, 0
    if kind == T.BIT:
        return Printed.BITS, 8 * (metadata >> 8) + (metadata & 0xFF)
    if kind in _PENDING_PRINTERS:
        return Printed.PENDING, 0
    return _FORMS.get(kind, Printed.STRING), metadata


def _json(data: bytes) -> bytes:
    value = json_value(data)
    text = sql_quoted(value.text)
    return text.encode("utf-8", "replace")


def _float(data: bytes) -> bytes:
    value: float = struct.unpack("<f", data)[0]
    return b"%-20g" % value


def _double(data: bytes) -> bytes:
    value: float = struct.unpack("<d", data)[0]
    return b"%.20g" % value


def _vector(data: bytes) -> bytes:
    if len(data) % 4:
        raise BinlogCorrupt(f"a VECTOR value has {len(data)} bytes, which is no number of floats")
    return b"[" + b",".join(b"%.5e" % value for value in np.frombuffer(data, "<f4").tolist()) + b"]"


def _unprintable(data: bytes) -> bytes:
    raise AssertionError("compiled code prints the values of this column")


_FORMS = {
    T.ENUM: Printed.NUMBER,
    T.SET: Printed.SET,
    T.YEAR: Printed.YEAR,
    T.DATE: Printed.DATE,
    T.NEWDATE: Printed.DATE,
    T.TIME: Printed.OLD_TIME,
    T.DATETIME: Printed.OLD_DATETIME,
    T.TIMESTAMP: Printed.NUMBER,
    T.TIME2: Printed.TIME,
    T.DATETIME2: Printed.DATETIME,
    T.TIMESTAMP2: Printed.TIMESTAMP,
    T.NEWDECIMAL: Printed.DECIMAL,
}
_PENDING_PRINTERS: dict[int, ToSql] = {
    T.FLOAT: _float,
    T.DOUBLE: _double,
    T.JSON: _json,
    T.VECTOR: _vector,
    T.NULL: lambda data: b"NULL",
}

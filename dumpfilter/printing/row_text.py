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
from dumpfilter.binlog.decimals import decimal_text
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.rows import RowsHeader, TableMap, is_pre_ga
from dumpfilter.errors import BinlogCorrupt
from dumpfilter.printing.literals import quoted_name
from dumpfilter.rows import Column, EventRows, Row, Value
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
        self._events = EventRows()
        self._printers: dict[tuple[Family, Column], tuple[ToSql, bytes]] = {}

    def lines(
        self, table: TableMap, rows: RowsHeader, data: bytes | memoryview, family: Family
    ) -> Iterator[bytes]:
        """Yield the lines for the rows of a rows event, each with its line end.

        ``table`` is the event's table map with the names to print. ``data`` are its uncompressed rows. Raises
        BinlogError for malformed rows.
        """
        name = _in_one_line(quoted_name(table.database) + b"." + quoted_name(table.table))
        extra = _extra_line(rows)
        for row in self._events.rows(table, rows, data, family):
            yield extra
            yield from self._row(rows, row, name, family)

    def _row(self, rows: RowsHeader, row: Row, name: bytes, family: Family) -> Iterator[bytes]:
        if rows.kind == "insert":
            yield b"### INSERT INTO %s\n### SET\n" % name
        elif rows.kind == "delete":
            yield b"### DELETE FROM %s\n### WHERE\n" % name
        else:
            yield b"### UPDATE %s\n### WHERE\n" % name
        for value in row.before or ():
            yield self._value(value, family)
        if rows.kind == "update":
            yield b"### SET\n"
        for value in row.after or ():
            yield self._value(value, family)

    def _value(self, value: Value, family: Family) -> bytes:
        key = (family, value.column)
        known = self._printers.get(key)
        if known is None:
            if len(self._printers) >= _MOST_PRINTERS:
                self._printers.clear()
            known = self._printers[key] = (_printer(value.column, family), _type_text(value.column, family))
        print_value, type_text = known
        if value.data is None:
            text = b"NULL"
        elif value.is_changes:
            changes = list(json_changes(value.data))
            text = changes_expression(f"@{value.number}", changes, _CHANGES_LINE).encode()
        else:
            text = print_value(value.data)
        types = b""
        if self._verbosity >= TYPES:
            column = value.column
            types = b" /* %s meta=%d nullable=%d is_null=%d */" % (
                type_text,
                column.metadata,
                column.nullable,
                value.data is None,
            )
        return b"###   @%d=%s%s\n" % (value.number, text, types)


_ONE_LINE = bytes.maketrans(b"\n\r\0", b"   ")


def _in_one_line(name: bytes) -> bytes:
    # A line end in a table's name would end the comment, and the client would run the rest as a statement.
    return name.translate(_ONE_LINE)


_MOST_PRINTERS = 1 << 14
"""The most columns whose printing is remembered."""


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


def _printer(column: Column, family: Family) -> ToSql:
    kind, metadata = column.type, column.metadata
    if kind in _INTEGER_NAMES:
        return _integer
    if kind in (T.ENUM, T.SET, T.BIT):
        return _bits_printer(column)
    if kind == T.NEWDECIMAL:
        return lambda data: decimal_text(data, metadata >> 8, metadata & 0xFF).encode()
    if kind == T.JSON:
        return _json
    if kind in _FRACTION_PRINTERS:
        print_fraction = _FRACTION_PRINTERS[kind]
        return lambda data: print_fraction(data, metadata)
    if kind in _PLAIN_PRINTERS:
        return _PLAIN_PRINTERS[kind]
    escapes = _ESCAPES[family]
    return lambda data: _quoted(data, escapes)


def _quoted(data: bytes, escapes: list[bytes]) -> bytes:
    return b"'" + b"".join([escapes[byte] for byte in data]) + b"'"


def _integer(data: bytes) -> bytes:
    signed = int.from_bytes(data, "little", signed=True)
    if signed >= 0:
        return b"%d" % signed
    # The programs do not know whether the column is UNSIGNED, and print both numbers.
    return b"%d (%d)" % (signed, int.from_bytes(data, "little"))


def _bits_printer(column: Column) -> ToSql:
    metadata = column.metadata
    if column.type == T.BIT:
        count = 8 * (metadata >> 8) + (metadata & 0xFF)
        return lambda data: f"b'{int.from_bytes(data, 'big') & ((1 << count) - 1):0{count}b}'".encode()
    if column.type == T.ENUM:
        return lambda data: b"%d" % int.from_bytes(data, "little")
    # Like the programs, print the bytes of a SET in the order in which they are stored: the lowest byte is first.
    return lambda data: f"b'{int.from_bytes(data, 'big'):0{8 * len(data)}b}'".encode()


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


def _date(data: bytes) -> bytes:
    value = int.from_bytes(data, "little")
    return b"'%04d:%02d:%02d'" % (value >> 9, value >> 5 & 15, value & 31)


def _old_time(data: bytes) -> bytes:
    value = int.from_bytes(data, "little", signed=True)
    sign = b"-" if value < 0 else b""
    value = abs(value)
    return b"'%s%02d:%02d:%02d'" % (sign, value // 10000, value // 100 % 100, value % 100)


def _old_datetime(data: bytes) -> bytes:
    date, clock = divmod(int.from_bytes(data, "little"), 1_000_000)
    return b"'%04d-%02d-%02d %02d:%02d:%02d'" % (
        date // 10000,
        date // 100 % 100,
        date % 100,
        clock // 10000,
        clock // 100 % 100,
        clock % 100,
    )


def _fraction(value: int, decimals: int) -> bytes:
    # The fraction has two digits a byte, and the last digit of an odd number of decimals is not shown.
    return b".%0*d" % (decimals, value // 10 if decimals & 1 else value) if decimals else b""


def _time2(data: bytes, decimals: int) -> bytes:
    shift = 8 * (len(data) - 3)
    value = int.from_bytes(data, "big") - (0x800000 << shift)
    sign = b"-" if value < 0 else b""
    seconds, fraction = abs(value) >> shift, abs(value) & ((1 << shift) - 1)
    clock = b"%02d:%02d:%02d" % (seconds >> 12 & 0x3FF, seconds >> 6 & 63, seconds & 63)
    return b"'%s%s%s'" % (sign, clock, _fraction(fraction, decimals))


def _datetime2(data: bytes, decimals: int) -> bytes:
    value = int.from_bytes(data[:5], "big") - 0x8000000000
    sign = b"-" if value < 0 else b""
    days, clock = abs(value) >> 17, abs(value) & 0x1FFFF
    text = b"%04d-%02d-%02d %02d:%02d:%02d" % (
        (days >> 5) // 13,
        (days >> 5) % 13,
        days & 31,
        clock >> 12,
        clock >> 6 & 63,
        clock & 63,
    )
    return b"'%s%s%s'" % (sign, text, _fraction(int.from_bytes(data[5:], "big"), decimals))


def _timestamp2(data: bytes, decimals: int) -> bytes:
    return b"%d%s" % (
        int.from_bytes(data[:4], "big"),
        _fraction(int.from_bytes(data[4:], "big"), decimals),
    )


_FRACTION_PRINTERS: dict[int, Callable[[bytes, int], bytes]] = {
    T.TIME2: _time2,
    T.DATETIME2: _datetime2,
    T.TIMESTAMP2: _timestamp2,
}
_PLAIN_PRINTERS: dict[int, ToSql] = {
    T.FLOAT: _float,
    T.DOUBLE: _double,
    T.YEAR: lambda data: b"%04d" % (1900 + data[0]),
    T.DATE: _date,
    T.NEWDATE: _date,
    T.TIME: _old_time,
    T.DATETIME: _old_datetime,
    T.TIMESTAMP: lambda data: b"%d" % int.from_bytes(data, "little"),
    T.VECTOR: _vector,
    T.NULL: lambda data: b"NULL",
}

"""The printing of row images as pseudo-SQL, as ``mysqlbinlog -v`` and ``mariadb-binlog -v`` do.

All lines are comments (``### …``). With verbosity 2, each value is followed by its column's type and metadata. The
text follows ``print_verbose_one_row`` and ``log_event_print_value`` of ``sql/log_event.cc`` of both servers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from dumpfilter.analyse.printing.literals import quoted_name
from dumpfilter.base.compiler.arrays import Bytes2
from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog import row_image as T
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.rows.events import LayoutTable
from dumpfilter.binlog.rows.json_binary import changes_expression, json_changes, json_value, sql_quoted
from dumpfilter.binlog.rows.table import INTEGERS, Column, Table, bit_count, char_length, describe_table
from dumpfilter.binlog.rows.texts import ByteMap, Form, Style, bits, years
from dumpfilter.binlog.rows_events import RowsHeader, TableMap

TYPES = 2
"""The lowest verbosity at which each value is followed by its column's type and metadata."""

_CHANGES_LINE = "\n###      "
"""The separator between the changes of a partially updated JSON value."""

_FLOAT_BYTES = 4
_PARTITIONS = 1
"""The type code of the extra data in a rows event that names partitions (``enum_extra_row_info_typecode``)."""

_TYPE_NAMES = {
    T.TINY: "TINYINT",
    T.SHORT: "SHORTINT",
    T.INT24: "MEDIUMINT",
    T.LONG: "INT",
    T.LONGLONG: "LONGINT",
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
    T.TIME2: "TIME({metadata})",
    T.DATETIME2: "DATETIME({metadata})",
    T.TIMESTAMP2: "TIMESTAMP({metadata})",
    T.NEWDECIMAL: "DECIMAL({high},{low})",
    T.BIT: "BIT({bits})",
    T.SET: "SET({low} bytes)",
    T.STRING: "STRING({length})",
    T.VECTOR: "VECTOR({dimensions})",
    T.VARCHAR: "VARSTRING({metadata})",
    T.VAR_STRING: "VARSTRING({metadata})",
    T.VARCHAR_COMPRESSED: "VARSTRING({metadata}) COMPRESSED",
}
"""The names of column types printed after values. The names of ENUM and BLOB types depend on the metadata."""

_BLOB_NAMES = {
    1: "TINYBLOB/TINYTEXT",
    2: "BLOB/TEXT",
    3: "MEDIUMBLOB/MEDIUMTEXT",
    4: "LONGBLOB/LONGTEXT",
}
_ENUM_NAMES = {1: "ENUM(1 byte)", 2: "ENUM(2 bytes)"}


def row_layouts(
    verbosity: int, rewrite_db: Callable[[str], str], styles: Sequence[Style] = ()
) -> LayoutTable:
    """Return a cache that tells how the row images of each table are printed: types, names and text of all columns.

    ``verbosity`` is 1, or 2 to print types after values. ``rewrite_db`` returns the printed name of a database. The
    cache numbers the styles, the ways in which bytes become text. ``styles`` are styles for other texts than columns,
    and have the first numbers, from 0 on. The styles of the tables' columns have the next numbers.
    """

    def described(table: TableMap, family: Family) -> Table:
        one = describe_table(table, family)
        # The programs print the columns' numbers, also when the binlog tells names.
        columns = tuple(replace(column, name=f"@{k + 1}") for k, column in enumerate(one.columns))
        return replace(one, database=rewrite_db(one.database), columns=columns)

    def style(column: Column, family: Family) -> Style:
        types = not_null = null = b""
        if verbosity >= TYPES:
            types = b" /* %s meta=%d nullable=%d is_null=" % (
                _type_name(column).encode(),
                column.metadata,
                column.nullable,
            )
            not_null, null = b"%d */" % False, b"%d */" % True
        style = _style(column, family)
        quote = b"'" if style.form in _QUOTED else b""
        name = b"###   " + column.name.encode() + b"="
        return style._replace(
            changes=lambda data, _: changes_expression(column.name, list(json_changes(data)), _CHANGES_LINE),
            around=(name + quote, quote + types + not_null + b"\n", name + b"NULL" + types + null + b"\n"),
        )

    return LayoutTable(described, style=style, heads=_heads, fill_unchanged=False, styles=styles)


def _heads(table: Table, rows: RowsHeader) -> tuple[bytes, bytes]:
    """Return the text printed before a row's before image, and the text printed before its after image. ``rows`` is the
    decoded header of the rows event.
    """
    name = (quoted_name(table.database) + b"." + quoted_name(table.name)).translate(_ONE_LINE)
    first = _extra_line(rows) + _HEADS[rows.kind] % name
    return first, b"### SET\n" if rows.kind == "update" else first


_ONE_LINE = bytes.maketrans(b"\n\r\0", b"   ")
"""The translation that replaces line ends in a table's name. A line end would end the comment, and the client would
run the rest of the name.
"""

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


def _type_name(column: Column) -> str:
    kind, metadata = column.type, column.metadata
    if kind == T.ENUM:
        return _ENUM_NAMES.get(metadata & 0xFF, "ENUM")
    if kind not in _TYPE_NAMES:
        compressed = " COMPRESSED" if kind == T.BLOB_COMPRESSED else ""
        return _BLOB_NAMES.get(metadata, "BLOB") + compressed
    return _TYPE_NAMES[kind].format(
        metadata=metadata,
        high=metadata >> 8,
        low=metadata & 0xFF,
        bits=bit_count(column),
        length=char_length(metadata),
        dimensions=column.dimensions or "?",
    )


def _style(column: Column, family: Family) -> Style:
    kind, metadata = column.type, column.metadata
    if kind in INTEGERS:
        # The programs do not know whether a column is UNSIGNED, and print both numbers.
        return Style(Form.BOTH)
    if kind in (T.BIT, T.SET):
        return bits(bit_count(column) if kind == T.BIT else 8 * (metadata & 0xFF))
    if kind == T.YEAR:
        return years(1900)
    if kind in _PENDING_PRINTERS:
        return Style(Form.PENDING, 0, _PENDING_PRINTERS[kind])
    if kind in (T.FLOAT, T.DOUBLE):
        return Style(Form.TOGETHER, together=_real_texts)
    if kind in _FORMS:
        return Style(_FORMS[kind], _PARAMETERS.get(kind, metadata))
    return Style(Form.MAPPED, ByteMap.MYSQL if family == "mysql" else ByteMap.MARIADB)


def _json(data: bytes) -> str:
    return sql_quoted(json_value(data).text)


def _real_texts(raw: Bytes2) -> pa.StringArray:
    form = "%-20g\0" if raw.shape[1] == _FLOAT_BYTES else "%.20g\0"
    numbers = raw.view(f"<f{raw.shape[1]}").ravel()
    return pa.array((form * numbers.size % tuple(numbers.tolist())).split("\0")[:-1])


def _vector(data: bytes) -> str:
    if len(data) % 4:
        raise BinlogCorrupt(f"a VECTOR value has {len(data)} bytes, which is no number of floats")
    return f"[{','.join(f'{value:.5e}' for value in np.frombuffer(data, '<f4').tolist())}]"


_FORMS = {
    T.ENUM: Form.UNSIGNED,
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
_PARAMETERS = {T.DATE: ord(":"), T.NEWDATE: ord(":")}
"""For each column type, the parameter of its printing style, if the parameter is not the column's metadata. For dates
it is the separator.
"""
_QUOTED = frozenset({Form.DATE, Form.OLD_TIME, Form.OLD_DATETIME, Form.TIME, Form.DATETIME, Form.MAPPED})
_PENDING_PRINTERS: dict[int, Callable[[bytes], str]] = {
    T.JSON: _json,
    T.VECTOR: _vector,
    T.NULL: lambda data: "NULL",
}

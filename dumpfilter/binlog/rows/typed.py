"""Conversion of row image values to typed Arrow arrays: integers, decimals, times, binary values and texts.

:func:`column_type` gives the Arrow type of each column. Types without an Arrow type that all readers know become text,
as in maps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dumpfilter.base.errors import BinlogUnsupported
from dumpfilter.binlog import row_image as T
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.rows.charsets import BINARY, charset_of
from dumpfilter.binlog.rows.table import TEXTS, Column, Table, bit_count, char_length
from dumpfilter.binlog.rows.texts import CellTexts, Form, Style, StyledColumns
from dumpfilter.binlog.rows.values import uncompressed_value

Bytes = npt.NDArray[np.uint8]
Int64 = npt.NDArray[np.int64]

MOST_TEXT = (1 << 31) - 1
"""The maximum size of all values in an Arrow array of strings or of binary values, bytes."""
MOST_DIGITS = 38
"""The maximum number of digits of a decimal in Spark and in Arrow's decimal128. A DECIMAL of MySQL has up to 65."""

_BIGGEST = pa.decimal128(20, 0)
"""The type of numbers up to 2**64 - 1. Spark has no unsigned integers."""
_INTEGERS = {
    T.TINY: (1, pa.int8(), pa.int16()),
    T.SHORT: (2, pa.int16(), pa.int32()),
    T.INT24: (3, pa.int32(), pa.int32()),
    T.LONG: (4, pa.int32(), pa.int64()),
    T.LONGLONG: (8, pa.int64(), _BIGGEST),
}
"""For each type of integers its width in bytes, and the Arrow types of signed and of unsigned integers."""
_LOCAL_TIME = pa.timestamp("us")
_INSTANT = pa.timestamp("us", "UTC")
_OTHERS = {
    T.FLOAT: pa.float32(),
    T.DOUBLE: pa.float64(),
    T.YEAR: pa.int16(),
    T.DATE: pa.date32(),
    T.NEWDATE: pa.date32(),
    T.DATETIME: _LOCAL_TIME,
    T.DATETIME2: _LOCAL_TIME,
    T.TIMESTAMP: _INSTANT,
    T.TIMESTAMP2: _INSTANT,
    T.GEOMETRY: pa.binary(),
}
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
"""The maximum number of decimal digits of each integer type."""
_EXACT_IN_DOUBLE = frozenset({pa.int8(), pa.int16(), pa.int32(), pa.float32(), pa.float64()})
_COPIED = StyledColumns.of([Style(Form.COPY)])
"""The style of a single column whose values stay as they are."""
_MICROSECONDS = 1_000_000
_DAY = 86400


def column_type(column: Column, family: Family) -> pa.DataType:
    """Return the Arrow type for the values of a column of a server of ``family``."""
    kind = column.type
    if kind in _INTEGERS:
        return _INTEGERS[kind][2 if column.unsigned else 1]
    if kind in _OTHERS:
        return _OTHERS[kind]
    if kind == T.BIT:
        return pa.int64() if bit_count(column) < 64 else _BIGGEST
    if kind == T.NEWDECIMAL:
        precision, scale = column.metadata >> 8, column.metadata & 0xFF
        return pa.decimal128(precision, scale) if precision <= MOST_DIGITS else pa.string()
    if kind in TEXTS and kind != T.VECTOR and charset_of(column.collation, family) == BINARY:
        return pa.binary()
    return pa.string()


def common_type(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """Return a type that has all values of two types: a wider number, or text.

    >>> common_type(pa.int16(), pa.int64()), common_type(pa.int32(), pa.date32())
    (DataType(int64), DataType(string))
    >>> common_type(pa.decimal128(8, 2), pa.int64())
    Decimal128Type(decimal128(21, 2))
    """
    if first == second:
        return first
    if first in _DIGITS and second in _DIGITS:
        return max(first, second, key=lambda one: _DIGITS[one])
    if {first, second} <= _EXACT_IN_DOUBLE:
        return pa.float64()
    if {first, second} == {pa.date32(), _LOCAL_TIME}:
        return _LOCAL_TIME
    wholes, scales = [], []
    for one in (first, second):
        if pa.types.is_decimal(one):
            wholes.append(one.precision - one.scale)
            scales.append(one.scale)
        elif one in _DIGITS:
            wholes.append(_DIGITS[one])
            scales.append(0)
        else:
            return pa.string()
    digits = max(wholes) + max(scales)
    return pa.decimal128(digits, max(scales)) if digits <= MOST_DIGITS else pa.string()


def _check_size(size: int) -> None:
    """Raise BinlogUnsupported if values that have ``size`` bytes together do not fit into one Arrow array."""
    if size > MOST_TEXT:
        raise BinlogUnsupported(f"the values of the rows have {size} bytes, more than {MOST_TEXT}")


def joined_values(kind: pa.DataType, values: Bytes, at: Int64, has: npt.NDArray[np.bool_]) -> pa.Array:
    """Return an Arrow array of type ``kind`` from strings or binary values that lie one after the other in ``values``.

    ``at`` has the offset of each value and the end of the last value, shape (n + 1,). Entries for which ``has``,
    bool of shape (n,), is false are null. Raises BinlogUnsupported for more than :data:`MOST_TEXT` bytes.
    """
    _check_size(values.size)
    offsets = pa.py_buffer(at.astype(np.int32))
    return pa.Array.from_buffers(kind, has.size, [validity(has), offsets, pa.py_buffer(values)])


def validity(has: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    """Return the validity bitmap of an Arrow array, in which entries are null where ``has`` is false. None if all are
    valid.
    """
    return None if has.all() else pa.py_buffer(np.packbits(has, bitorder="little"))


def struct_of(tables: Iterable[tuple[Table, Family]]) -> pa.StructType:
    """Return a struct type with the columns of all given versions of one table.

    A field has the :func:`common_type` of the columns with its name. Column names are compared without regard to case,
    as on the server.
    """
    fields: dict[str, tuple[str, pa.DataType]] = {}
    for table, family in tables:
        for column in table.columns:
            kind = column_type(column, family)
            name, other = fields.get(column.name.lower(), (column.name, kind))
            fields[column.name.lower()] = name, common_type(other, kind)
    return pa.struct(list(fields.values()))


def with_names(table: Table, names: Sequence[str]) -> Table:
    """Return a copy of ``table`` whose columns are called ``names``, in order, if the binlog has no column names.

    A name followed by the word UNSIGNED makes the column UNSIGNED, if the binlog does not tell the sign.
    """
    columns = list(table.columns)
    for number, (column, text) in enumerate(zip(columns, names, strict=False)):
        name, _, rest = text.strip().partition(" ")
        unsigned = column.unsigned
        if unsigned is None and rest.strip().lower() == "unsigned":
            unsigned = True
        columns[number] = replace(column, name=column.name if table.has_names else name, unsigned=unsigned)
    return replace(table, columns=tuple(columns))


def typed_values(data: Bytes, start: Int64, length: Int64, column: Column) -> pa.Array:
    """Return the values of cells of one column, in the column's type (:func:`column_type`).

    ``start`` and ``length`` are the byte ranges of the cells in ``data``; a negative length is NULL. Dates that no
    calendar has, such as ``0000-00-00``, and dates of the year 0 become null. Types that become text, and DECIMAL, are
    not handled here. Raises BinlogCorrupt for malformed values of MariaDB's compressed columns, and BinlogUnsupported
    for more than :data:`MOST_TEXT` bytes of values.
    """
    kind = column.type
    null = length < 0
    if kind in TEXTS or kind == T.GEOMETRY:
        return _binary(data, start, length, column)
    if kind == T.BIT:
        return _array(_big(data, start, null, (bit_count(column) + 7) // 8), null, pa.uint64()).cast(
            pa.int64() if bit_count(column) < 64 else _BIGGEST
        )
    if kind in _INTEGERS:
        width, signed, unsigned = _INTEGERS[kind]
        value = _little(data, start, null, width)
        if column.unsigned:
            return _array(value, null, pa.uint64()).cast(unsigned)
        shift = 64 - 8 * width
        return _array(value.view(np.int64) << shift >> shift, null, pa.int64()).cast(signed)
    if kind in (T.FLOAT, T.DOUBLE):
        real = np.dtype(f"<f{column.metadata}")
        return pa.array(_bytes(data, start, null, real.itemsize).view(real).ravel(), mask=null).cast(
            _OTHERS[kind]
        )
    if kind == T.YEAR:
        year = _little(data, start, null, 1).astype(np.int64)
        return _array(np.where(year > 0, 1900 + year, 0), null, pa.int64()).cast(pa.int16())
    return _moments(data, start, null, column)


def _array(values: npt.NDArray[np.generic], null: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind, mask=null)


def _bytes(data: Bytes, start: Int64, null: npt.NDArray[np.bool_], width: int) -> Bytes:
    """Return the bytes of the cells as an array, uint8 of shape (number of cells, ``width``). The bytes of NULL are
    zeros.
    """
    found = np.zeros((start.size, width), np.uint8)
    valid = ~null
    found[valid] = data[start[valid][:, None] + np.arange(width)]
    return found


def _little(data: Bytes, start: Int64, null: npt.NDArray[np.bool_], width: int) -> npt.NDArray[np.uint64]:
    found = np.zeros((start.size, 8), np.uint8)
    found[:, :width] = _bytes(data, start, null, width)
    number: npt.NDArray[np.uint64] = found.view("<u8").ravel()
    return number


def _big(data: Bytes, start: Int64, null: npt.NDArray[np.bool_], width: int) -> npt.NDArray[np.uint64]:
    found = np.zeros((start.size, 8), np.uint8)
    found[:, 8 - width :] = _bytes(data, start, null, width)
    number: npt.NDArray[np.uint64] = found.view(">u8").ravel().astype(np.uint64)
    return number


def _moments(data: Bytes, start: Int64, null: npt.NDArray[np.bool_], column: Column) -> pa.Array:
    kind, decimals = column.type, column.metadata
    if kind in (T.DATE, T.NEWDATE):
        date = _little(data, start, null, 3).astype(np.int64)
        days, valid = _days(date >> 9, date >> 5 & 15, date & 31)
        return pa.array(days.astype(np.int32), pa.int32(), mask=null | ~valid).cast(pa.date32())
    if kind in (T.TIMESTAMP, T.TIMESTAMP2):
        read = _little if kind == T.TIMESTAMP else _big
        seconds = read(data, start, null, 4).astype(np.int64)
        # The server stores 0000-00-00 00:00:00 as 0, and has no value for the begin of 1970.
        valid = seconds > 0
    else:
        seconds, valid = (_old_datetimes if kind == T.DATETIME else _datetimes)(data, start, null)
    micro = seconds * _MICROSECONDS
    width = (decimals + 1) // 2
    if kind in (T.DATETIME2, T.TIMESTAMP2) and width:
        first = start + (4 if kind == T.TIMESTAMP2 else 5)
        micro += _big(data, first, null, width).astype(np.int64) * 10 ** (6 - 2 * width)
    return pa.array(micro, pa.int64(), mask=null | ~valid).cast(_OTHERS[kind])


Moments = tuple[Int64, npt.NDArray[np.bool_]]


def _datetimes(data: Bytes, start: Int64, null: npt.NDArray[np.bool_]) -> Moments:
    value = _big(data, start, null, 5).astype(np.int64) - 0x8000000000
    date, clock = value >> 17, value & 0x1FFFF
    days, valid = _days((date >> 5) // 13, (date >> 5) % 13, date & 31)
    seconds = (clock >> 12) * 3600 + (clock >> 6 & 63) * 60 + (clock & 63)
    return days * _DAY + seconds, valid & (value >= 0)


def _old_datetimes(data: Bytes, start: Int64, null: npt.NDArray[np.bool_]) -> Moments:
    digits = _little(data, start, null, 8).astype(np.int64)
    date, clock = digits // 1_000_000, digits % 1_000_000
    days, valid = _days(date // 10000, date // 100 % 100, date % 100)
    return days * _DAY + clock // 10000 * 3600 + clock // 100 % 100 * 60 + clock % 100, valid


def _days(year: Int64, month: Int64, day: Int64) -> Moments:
    """Return the days since 1970 of dates, and whether each date exists in the calendar."""
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (year >= 1) & (year <= 9999)
    months = np.where(valid, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    days = months.astype("datetime64[D]").astype(np.int64) + np.where(valid, day - 1, 0)
    next_month = (months + 1).astype("datetime64[D]").astype(np.int64)
    return days, valid & (days < next_month)


def _binary(data: Bytes, start: Int64, length: Int64, column: Column) -> pa.Array:
    if column.type in (T.VARCHAR_COMPRESSED, T.BLOB_COMPRESSED):
        raw = [
            None if size < 0 else uncompressed_value(data[at : at + size].tobytes())
            for at, size in zip(start.tolist(), length.tolist(), strict=True)
        ]
        _check_size(sum(len(one) for one in raw if one is not None))
        return pa.array(raw, pa.binary())
    null = length < 0
    if column.type == T.STRING:
        text, at = _padded(data, start, np.where(null, 0, length), null, char_length(column.metadata))
    else:
        text, at = CellTexts(data, start, length, np.zeros(length.size, np.int64), _COPIED).joined()
    return joined_values(pa.binary(), text, at, ~null)


def _padded(
    data: Bytes, start: Int64, size: Int64, null: npt.NDArray[np.bool_], least: int
) -> tuple[Bytes, Int64]:
    """Return the values of a BINARY column of ``least`` bytes in one array, and the offsets of the values with the end
    of the last value.

    The binlog leaves out the last zero bytes of BINARY. Raises BinlogUnsupported for more than :data:`MOST_TEXT` bytes.
    """
    at = np.concatenate([[0], np.cumsum(np.where(null, 0, np.maximum(size, least)))])
    _check_size(int(at[-1]))
    text = np.zeros(at[-1], np.uint8)
    # Byte k of the values, one after the other, comes from this offset in the data.
    behind = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    text[np.repeat(at[:-1], size) + behind] = data[np.repeat(start, size) + behind]
    return text, at

"""Conversion of cells (values of row images) to text, with one style for each column. A style tells how values become
text, and which texts stand before and after each value.

Compiled code converts most values. Python code converts single values such as JSON, and numbers with a point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dumpfilter.base.compiler.arrays import Bools, Bytes, Bytes2, Int64s
from dumpfilter.base.errors import BinlogCorrupt, BinlogError
from dumpfilter.binlog import row_image as T
from dumpfilter.binlog.charsets import BINARY, CODECS, LATIN1, charset_name, decode
from dumpfilter.binlog.compression import inflated
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.row_walk import NULL
from dumpfilter.binlog.rows import _text_kernels as K
from dumpfilter.binlog.rows._text_kernels import ByteMap, Form
from dumpfilter.binlog.rows.json_binary import (
    changed_document,
    changes_expression,
    json_changes,
    json_value,
    plain_number,
)
from dumpfilter.binlog.rows.table import INTEGERS, Column, bit_count, char_length

__all__ = ["ByteMap", "CellError", "CellTexts", "Form", "Style", "StyledColumns"]

_WIDEST = 48
"""The largest size of the text of a number, date or time, characters, also for malformed values."""
_SHORT_LINE = 5
"""The size of the shortest line of base64, bytes."""


class CellError(Exception):
    """An error about the value of one cell (one column of one row).

    ``cell`` is the cell's index in the arrays of cells. The caller finds the event by this index. ``error`` says what
    is wrong.
    """

    def __init__(self, cell: int, error: BinlogError) -> None:
        self.cell = cell
        self.error = error
        super().__init__(str(error))


Documents = Mapping[int, tuple[int, int]]
"""The byte ranges (offset, length) of JSON documents before partial updates, by the index of the cell (column value in
an after-image) that has the changes.
"""

NO_DOCUMENTS: Documents = MappingProxyType({})


Together = Callable[[Bytes2], pa.StringArray]
"""A function that makes the texts of many values, given their bytes as an array of shape (values, bytes of a value)."""


def number_texts(values: npt.NDArray[np.floating]) -> pa.StringArray:
    """Return, for each floating-point number, the shortest text that reads back as the same number, in MySQL's form
    (:func:`plain_number`).

    >>> number_texts(np.array([1.0, 0.1, 1e22, 1e-5])).to_pylist()
    ['1', '0.1', '1e22', '0.00001']
    >>> number_texts(np.array([0.1, 16777216], np.float32)).to_pylist()
    ['0.1', '16777216']
    """
    texts = pc.cast(pa.array(values), pa.string())
    # Only texts with an exponent may differ from MySQL's.
    other = pc.match_substring(texts, "e")
    plain = pa.array([*map(plain_number, texts.filter(other).to_pylist())], pa.string())
    return pc.replace_with_mask(texts, other, plain)


def real_texts(raw: Bytes2) -> pa.StringArray:
    """Return the texts of FLOAT or DOUBLE values, given their bytes, one row for each value."""
    return number_texts(raw.view(f"<f{raw.shape[1]}").ravel())


def by_number(text_of: Callable[[int], str], *, is_big: bool = False) -> Together:
    """Return a function that makes the texts of many unsigned integers, given a uint8 array with one row of bytes for
    each integer. The function calls ``text_of``, which makes the text of one integer, once for each distinct integer.

    With ``is_big`` the bytes of an integer are big-endian, otherwise little-endian.
    """

    def texts(raw: Bytes2) -> pa.StringArray:
        wide = np.zeros((len(raw), 8), np.uint8)
        wide[:, : raw.shape[1]] = raw[:, ::-1] if is_big else raw
        distinct, which = np.unique(wide.view("<u8").ravel(), return_inverse=True)
        return pa.array([*map(text_of, distinct.tolist())], pa.string()).take(pa.array(which))

    return texts


@cache
def bits(count: int, *, is_big: bool = True) -> Style:
    """Return the style (rule of conversion to text) of BIT or SET values that become ``count`` binary digits, such as
    ``b'101'``. ``is_big`` tells whether the stored bytes are big-endian.
    """
    return Style(
        Form.TOGETHER,
        together=by_number(lambda value: f"b'{value % (1 << count):0{count}b}'", is_big=is_big),
    )


@cache
def years(zero: int) -> Style:
    """Return the style (rule of conversion to text) of YEAR values. ``zero`` is the year that a stored 0 means."""
    return Style(Form.TOGETHER, together=by_number(lambda value: f"{1900 + value if value else zero:04}"))


def _no_value(data: bytes) -> str:
    raise AssertionError("compiled code converts the values of this column")


class Style(NamedTuple):
    """The way in which the values of a column become text: the conversion, the conversion's parameters, and the texts
    before and after each value.
    """

    form: Form
    parameter: int = 0
    value: Callable[[bytes], str] = _no_value
    """The function that makes the text of one value. The function is used only if ``form`` is PENDING, because compiled
    code makes the other texts.
    """
    changes: Callable[[bytes, bytes | None], str] = lambda data, document: _no_value(data)
    """The function that converts the changes of a partial update of JSON values to text. The function gets the changes,
    and the JSON document before the update, or None if the row image lacks the document.
    """
    together: Together = real_texts
    """The function that makes the texts of all values at once, if ``form`` is TOGETHER."""
    around: tuple[bytes, bytes, bytes] = (b"", b"", b"")
    """Three texts around the text of a cell (value of a column): one before a value, one after a value, and one that
    stands for NULL.
    """

    def after(self, text: bytes) -> Style:
        """Return a copy of this style (how a column's values become text) that puts ``text`` before the text of each
        value, also before NULL.
        """
        before, behind, null = self.around
        return self._replace(around=(text + before, behind, text + null))

    def room(self) -> tuple[int, int]:
        """Return two numbers ``(a, b)`` that limit the size of texts, for buffers. The text of a stored value of n
        bytes has at most ``a + b * n`` bytes. The texts before and after each value (``around``) are not counted.

        The limit does not hold for the conversions (``form``) PENDING and TOGETHER, whose texts Python code makes
        instead of compiled code.
        """
        if self.form == Form.DECIMAL:
            return (self.parameter >> 8) + _WIDEST, 0
        if self.form in (Form.UTF8, Form.HEX, Form.COPY, Form.BASE64, Form.CHECKSUM):
            return _SHORT_LINE + 2 * self.parameter, 2
        return (0, K.MAPPED_BYTES) if self.form == Form.MAPPED else (_WIDEST, 0)


class StyledColumns(NamedTuple):
    """The styles of many columns (how their values become text). ``columns`` has the styles as arrays for compiled
    code.
    """

    styles: list[Style]
    columns: K.Columns
    pending: Bools
    """For each column, whether Python code makes the texts of its values, instead of compiled code."""

    @classmethod
    def of(cls, styles: list[Style]) -> StyledColumns:
        """Return the given styles, together with arrays in which compiled code reads the same styles. A style tells how
        the values of a column become text. Column k has the style ``styles[k]``.
        """
        around, around_at = _joined([text for style in styles for text in style.around])
        form = np.array([style.form for style in styles], np.uint8)
        before, behind, null = np.diff(around_at).reshape(-1, 3).T
        room, per_byte = np.array([style.room() for style in styles], np.int64).reshape(-1, 2).T.copy()
        room += np.maximum(before + behind, null)
        parameters = np.array([style.parameter for style in styles], np.int64)
        columns = K.Columns(form, parameters, around, around_at, room, per_byte)
        return cls(styles, columns, (form == Form.PENDING) | (form == Form.TOGETHER))


class CellTexts:
    """The texts of many cells (values of single columns in row images), made in pieces (:meth:`pieces`) or all at once
    (:meth:`joined`).

    ``start`` and ``length`` are the byte ranges of the cells in ``data``. ``column`` has the index of each cell's
    column in ``styled``, which tells how values become text. NULL becomes the text that the column has for NULL.
    ``documents`` has the byte ranges in ``data`` of the JSON documents before partial updates, by the index of the
    cell. Raises CellError for a malformed value.
    """

    def __init__(
        self,
        data: Bytes,
        start: Int64s,
        length: Int64s,
        column: Int64s,
        styled: StyledColumns,
        documents: Documents = NO_DOCUMENTS,
    ) -> None:
        self._cells = data, start, length, column, styled.columns
        self._more = self._pending_texts(styled, documents)
        self._next = 0
        """The index of the next text to use among the texts that Python code has made, for the cells (values) that
        compiled code cannot convert.
        """

    def _pending_texts(self, styled: StyledColumns, documents: Documents) -> tuple[Bytes, Int64s]:
        data, start, length, column, columns = self._cells
        pending = np.flatnonzero(styled.pending[column] & (length != NULL))
        if not pending.size:
            return _NO_TEXTS
        of_cell = column[pending]
        is_together = columns.form[of_cell] == Form.TOGETHER
        others, made = np.flatnonzero(~is_together), []
        for k in others.tolist():
            cell = int(pending[k])
            at, size, style = int(start[cell]), int(length[cell]), styled.styles[of_cell[k]]
            try:
                if size < NULL:
                    place, amount = documents.get(cell, (0, -1))
                    document = data[place : place + amount].tobytes() if amount >= 0 else None
                    text = style.changes(data[at : at + NULL - 1 - size].tobytes(), document)
                else:
                    text = style.value(data[at : at + size].tobytes())
            except BinlogError as error:
                raise CellError(cell, error) from error
            made.append(text.encode("utf-8", "replace"))
        places, texts = [others], [pa.array(made, pa.large_binary())]
        together = np.flatnonzero(is_together)
        met, first, which = np.unique(of_cell[together], return_index=True, return_inverse=True)
        groups: dict[tuple[Together, int], int] = {}
        sizes = length[pending[together[first]]].tolist()
        of_column = [
            groups.setdefault((styled.styles[one].together, size), len(groups))
            for one, size in zip(met.tolist(), sizes, strict=True)
        ]
        group = np.array(of_column, np.int64)[which]
        order = np.argsort(group, kind="stable")
        ends = np.cumsum(np.bincount(group, minlength=1))
        for (text_of, size), some in zip(groups, np.split(together[order], ends), strict=False):
            raw = data[start[pending[some]][:, None] + np.arange(size)]
            places.append(some)
            texts.append(text_of(raw).cast(pa.large_binary()))
        ordered = pa.concat_arrays(texts).take(pa.array(np.argsort(np.concatenate(places))))
        _, ends, joined = ordered.buffers()
        return np.frombuffer(joined or b"\0", np.uint8), np.frombuffer(ends, np.int64)[: pending.size + 1]

    def pieces(self, first: int, last: int, size: int) -> Iterator[bytes]:
        """Yield the texts of the cells (values of single columns in row images) ``first`` to ``last`` (exclusive). The
        texts stand one after another, without separators, in byte strings of about ``size`` bytes.

        Each call must begin at the cell at which the call before ended, because texts made by Python code are taken in
        order.
        """
        data, start, length, column, columns = self._cells
        cells = start[:last], length[:last], column[:last]
        out = np.empty(size, np.uint8)
        while first < last:
            first, self._next, end = K.write_texts(
                data, *cells, columns, *self._more, first, self._next, out, 0, _NO_OFFSETS
            )
            if end:
                yield out[:end].tobytes()
            else:
                out = np.empty(2 * out.size, np.uint8)

    def joined(self) -> tuple[Bytes, Int64s]:
        """Return the texts of all cells (values of single columns), joined in one uint8 array. The second result is an
        int64 array with the offset of each text, and at the end the offset after the last text.
        """
        data, start, length, column, columns = self._cells
        out = np.empty(data.size + _WIDEST * start.size, np.uint8)
        out_at = np.empty(start.size + 1, np.int64)
        done = number = end = 0
        while True:
            done, number, end = K.write_texts(
                data, start, length, column, columns, *self._more, done, number, out, end, out_at
            )
            if done == start.size:
                return out[:end], out_at
            larger = np.empty(2 * out.size, np.uint8)
            larger[:end] = out[:end]
            out = larger


def _joined(texts: list[bytes]) -> tuple[Bytes, Int64s]:
    joined = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
    at = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return joined[: at[-1]], at


_NO_TEXTS = _joined([])
_NO_OFFSETS: Int64s = np.empty(0, np.int64)


_FLOAT_BYTES = 4
_PACKED = 0x80
"""The bit in the first byte of a compressed column's value (MariaDB) that marks compressed bytes."""
_UNWRAPPED = 0x08
"""The bit in the first byte of a compressed column's value (MariaDB) that marks a deflate stream without zlib's header.
"""


_FORMS = {
    T.TIME: Form.OLD_TIME,
    T.DATETIME: Form.OLD_DATETIME,
    T.TIMESTAMP: Form.OLD_TIMESTAMP,
    T.TIME2: Form.TIME,
    T.DATETIME2: Form.DATETIME,
    T.TIMESTAMP2: Form.TIMESTAMP,
    T.NEWDECIMAL: Form.DECIMAL,
    T.GEOMETRY: Form.HEX,
}
_DASH = ord("-")


def text_style(column: Column, family: Family) -> Style:
    """Return the style (rule of conversion) by which the values of a column become plain text, without quotes or
    column names around them.

    ``family`` is the kind of server that wrote the binlog, MySQL or MariaDB.
    """
    kind = column.type
    charset = charset_name(column.collation, family)
    if kind in INTEGERS:
        return Style(Form.UNSIGNED if column.unsigned else Form.SIGNED)
    if kind in (T.ENUM, T.SET):
        if not column.values:
            return (
                Style(Form.UNSIGNED) if kind == T.ENUM else bits(8 * (column.metadata & 0xFF), is_big=False)
            )
        # The names of an ENUM of binary strings are text, too, if they are UTF-8.
        names = [decode(value, None if charset == BINARY else charset) for value in column.values]
        return Style(Form.TOGETHER, together=by_number(partial(_name if kind == T.ENUM else _members, names)))
    if kind == T.BIT:
        return bits(bit_count(column))
    if kind == T.YEAR:
        return years(0)
    if kind in (T.FLOAT, T.DOUBLE):
        return Style(Form.TOGETHER)
    if kind in (T.DATE, T.NEWDATE):
        return Style(Form.DATE, _DASH)
    if kind in _FORMS:
        return Style(_FORMS[kind], column.metadata if _FORMS[kind] != Form.HEX else 0)
    if kind in (T.JSON, T.TYPED_ARRAY):
        return Style(Form.PENDING, 0, lambda data: json_value(data).json, _changes(column.name))
    if kind == T.VECTOR:
        return Style(Form.PENDING, 0, _vector)
    if kind in (T.VARCHAR_COMPRESSED, T.BLOB_COMPRESSED):
        return Style(Form.PENDING, 0, lambda data: decode(uncompressed_value(data), charset))
    if charset == BINARY:
        return Style(Form.HEX, char_length(column.metadata) if kind == T.STRING else 0)
    if charset == LATIN1:
        return Style(Form.MAPPED, ByteMap.LATIN1)
    # Bytes of an unknown character set are text if they are UTF-8. Those of a known set that Python lacks are no UTF-8.
    codec = "utf-8" if column.collation is None else CODECS.get(charset or "")
    if codec == "utf-8":
        return Style(Form.UTF8)
    return Style(Form.HEX if codec is None else Form.PENDING, 0, lambda data: decode(data, charset))


def _name(names: list[str], value: int) -> str:
    # The value 0 of an ENUM is the empty string that stands for an invalid value.
    return str(value) if value > len(names) else ["", *names][value]


def _members(names: list[str], value: int) -> str:
    numbers = (number for number in range(64) if value >> number & 1)
    return ",".join(names[number] if number < len(names) else str(number + 1) for number in numbers)


def _changes(name: str) -> Callable[[bytes, bytes | None], str]:
    def text(data: bytes, document: bytes | None) -> str:
        """Return the JSON text of ``document``, the binary JSON before a partial update, after the changes ``data``. If
        ``document`` is None, return an SQL expression that makes the changes.
        """
        if document is not None:
            return changed_document(document, data)
        return changes_expression(f"`{name.replace('`', '``')}`", list(json_changes(data)))

    return text


def _vector(data: bytes) -> str:
    if len(data) % _FLOAT_BYTES:
        raise BinlogCorrupt(f"a VECTOR value has {len(data)} bytes, which is no number of floats")
    return f"[{','.join(number_texts(np.frombuffer(data, '<f4')).to_pylist())}]"


def uncompressed_value(data: bytes) -> bytes:
    """Return the value of a compressed column of MariaDB (``COLUMN_FORMAT COMPRESSED``), given its stored bytes.

    The first byte is 0 before a plain value. Any other first byte tells how many bytes (1 to 4) the uncompressed length
    takes. This length and the compressed value follow. Empty bytes are an empty value. Raises BinlogCorrupt for
    malformed bytes.
    """
    if not data:
        return b""
    first, width = data[0], data[0] & 7
    if first == 0:
        return data[1:]
    if not first & _PACKED or first & 0x70 or not 1 <= width <= 4 or len(data) < 1 + width:
        raise BinlogCorrupt(
            f"a compressed column's value starts with byte 0x{first:02x}, which no server writes"
        )
    return inflated(
        data[1:], width, "the data of a compressed column's value", wrapped=not first & _UNWRAPPED
    )

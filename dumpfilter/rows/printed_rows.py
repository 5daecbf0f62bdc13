"""The lines of rows events for programs that print them. Compiled code writes most values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.rows import RowsHeader, TableMap, encode_table_map
from dumpfilter.rows import _printed_kernels as K
from dumpfilter.rows._cell_kernels import NULL, Cells
from dumpfilter.rows._printed_kernels import Printed
from dumpfilter.rows.cells import FoundRows, RowsError, changes_length, find_cells
from dumpfilter.rows.layouts import KnownTable, LayoutTable, TableKey
from dumpfilter.rows.table import Column

__all__ = ["Printed", "PrintedColumn", "RowPrinter"]

_TABLE_ID_LENGTH = 6
_MOST_COLUMNS = 1 << 18
"""The number of columns of all tables at which the printer forgets them."""
_PIECE = 1 << 20
"""The bytes of rows that become one piece of lines, at least one row."""

ToBytes = Callable[[bytes], bytes]
Bytes = npt.NDArray[np.uint8]


class PrintedColumn(NamedTuple):
    """The line of one column: the texts around its values, and how the values are printed."""

    form: Printed
    parameter: int
    prefix: bytes
    """The text before a value and before NULL."""
    suffix: bytes
    """The text behind a value, with the line end."""
    null_text: bytes
    """The text of NULL and what is behind it, with the line end."""
    print_value: ToBytes
    """The function that prints a value of the form PENDING."""
    print_changes: ToBytes
    """The function that prints the changes of a partial update to a JSON value."""


class _Image(NamedTuple):
    """The columns of one image of a layout."""

    columns: list[PrintedColumn]
    template: K.Template
    is_pending: npt.NDArray[np.bool_]
    """Whether Python code prints the values of each column."""
    any_pending: bool
    """Whether Python code may have to print a value, also the changes of a partial update."""


class _Printed(NamedTuple):
    """A table, and what printing its rows needs."""

    known: KnownTable
    layouts: LayoutTable
    """The layouts of this table alone: their arrays are made anew for each layout that is met."""
    images: dict[int, tuple[_Image, _Image]]


class RowPrinter:
    """A printer of the rows of rows events. It remembers the tables that it met.

    ``describe`` returns the line of a column, given the column's number from 1 on, the column, and the server's family.
    ``escapes`` has the 256 texts that the bytes of a string are printed as, by the server's family.
    """

    def __init__(
        self, describe: Callable[[int, Column, Family], PrintedColumn], escapes: dict[Family, list[bytes]]
    ) -> None:
        self._describe = describe
        self._escapes = {family: _escapes(texts) for family, texts in escapes.items()}
        self._tables: dict[TableKey, _Printed] = {}
        self._column_count = 0

    def lines(
        self,
        table: TableMap,
        header: RowsHeader,
        data: bytes | memoryview,
        family: Family,
        heads: tuple[bytes, bytes],
    ) -> Iterator[bytes]:
        """Yield the lines for the rows of a rows event, in pieces of whole rows.

        ``data`` are its uncompressed rows (:func:`dumpfilter.binlog.compression.rows_data`). ``heads`` are the lines
        before the image before the change (or the only image), and those before the image after it. Raises BinlogError
        for malformed rows, and BinlogUnsupported for rows events of servers before 5.1.18.
        """
        if header.is_dummy:
            return
        known, layouts, by_layout = self._known(table, family)
        layout = layouts.layout(known, header)
        raw = np.frombuffer(bytes(data), np.uint8)
        start, end = np.zeros(1, np.int64), np.array([raw.size], np.int64)
        try:
            found = find_cells(raw, start, end, np.array([layout]), layouts.arrays()[0])
        except RowsError as error:
            raise error.error from None
        images = by_layout.get(layout)
        if images is None:
            images = by_layout[layout] = self._image(
                known, layout, family, is_partial=header.type == EventType.PARTIAL_UPDATE_ROWS
            )
        rows = found.row_event.size
        step = max(1, rows * _PIECE // max(1, raw.size))
        for first in range(0, rows, step):
            yield self._piece(raw, found, (first, min(first + step, rows)), images, heads, family)

    def _piece(
        self,
        raw: Bytes,
        found: FoundRows,
        rows: tuple[int, int],
        images: tuple[_Image, _Image],
        heads: tuple[bytes, bytes],
        family: Family,
    ) -> bytes:
        first, last = rows
        texts: list[bytes] = []
        before, after = (
            (image.template, _cells(raw, cells, image, rows, texts))
            for image, cells in zip(images, (found.before, found.after), strict=True)
        )
        made = _NOTHING_MADE
        if texts:
            made = K.Made(_array(b"".join(texts)), np.cumsum([0, *map(len, texts)], dtype=np.int64))
        lines = K.Heads(_array(heads[0]), _array(heads[1]))
        room = K.most_bytes(last - first, before, after, made, lines)
        out = np.empty(room, np.uint8)
        size = K.print_rows(raw, last - first, before, after, made, lines, self._escapes[family], out)
        return out[:size].tobytes()

    def _known(self, table: TableMap, family: Family) -> _Printed:
        key = (family, encode_table_map(table)[_TABLE_ID_LENGTH:])
        found = self._tables.get(key)
        if found is None:
            if self._column_count > _MOST_COLUMNS:
                self._tables.clear()
                self._column_count = 0
            layouts = LayoutTable(fill_unchanged=False)
            found = self._tables[key] = _Printed(layouts.add_table(key, table, family), layouts, {})
            self._column_count += layouts.column_count
        return found

    def _image(
        self, known: KnownTable, layout: int, family: Family, *, is_partial: bool
    ) -> tuple[_Image, _Image]:
        before, after = (
            _image(
                [self._describe(number + 1, known.table.columns[number], family) for number in numbers],
                is_partial=is_partial,
            )
            for numbers in known.image_columns[layout]
        )
        return before, after


def _image(columns: list[PrintedColumn], *, is_partial: bool) -> _Image:
    texts = [text for one in columns for text in (one.prefix, one.suffix, one.null_text)]
    form = np.array([one.form for one in columns], np.uint8)
    template = K.Template(
        form,
        np.array([one.parameter for one in columns], np.int64),
        _array(b"".join(texts)),
        np.cumsum([0, *map(len, texts)], dtype=np.int64),
    )
    is_pending = form == Printed.PENDING
    return _Image(columns, template, is_pending, is_partial or bool(is_pending.any()))


def _cells(
    raw: Bytes, cells: Cells, image: _Image, rows: tuple[int, int], texts: list[bytes]
) -> K.ImageCells:
    """Return the cells of the images of some rows, and append the texts of those that Python code prints."""
    width = len(image.columns)
    start, length = (values[rows[0] * width : rows[1] * width] for values in (cells.start, cells.length))
    if not image.any_pending:
        return K.ImageCells(start, length, _NO_NUMBERS)
    pending = (length < NULL) | (np.tile(image.is_pending, rows[1] - rows[0]) & (length >= 0))
    made = np.full(start.size, -1, np.int64)
    for k in np.flatnonzero(pending).tolist():
        column, at, size = image.columns[k % width], int(start[k]), int(length[k])
        made[k] = len(texts)
        if size < NULL:
            texts.append(column.print_changes(raw[at : at + changes_length(size)].tobytes()))
        else:
            texts.append(column.print_value(raw[at : at + size].tobytes()))
    return K.ImageCells(start, length, made)


_NO_NUMBERS = np.empty(0, np.int64)


def _escapes(texts: list[bytes]) -> K.Escapes:
    widest = max(map(len, texts))
    return K.Escapes(
        _array(b"".join(text.ljust(widest, b"\0") for text in texts)).reshape(len(texts), widest),
        np.array([len(text) for text in texts], np.uint8),
    )


def _array(text: bytes) -> Bytes:
    # numba compiles separate versions of a function for read-only and writable buffers, and these are read-only.
    return np.frombuffer(text, np.uint8) if text else _EMPTY


_EMPTY = np.frombuffer(b"\0", np.uint8)[:0]
_NOTHING_MADE = K.Made(_EMPTY, np.zeros(1, np.int64))

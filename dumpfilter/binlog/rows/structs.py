"""Row images as Arrow arrays: structs with a field for each column of one table, or maps of texts."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dumpfilter.base.errors import BinlogError, BinlogUnsupported
from dumpfilter.binlog import row_image as T
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.row_walk import NULL
from dumpfilter.binlog.rows.table import Column
from dumpfilter.binlog.rows.texts import NO_DOCUMENTS, CellError, CellTexts, Documents, StyledColumns
from dumpfilter.binlog.rows.typed import column_type, typed_values

Int64 = npt.NDArray[np.int64]

MAP_TYPE = pa.map_(pa.string(), pa.string())
"""The type of the columns ``before`` and ``after``: the values of one row by column name.

A column without a name in the binlog has the name ``@1``, ``@2`` and so on, as in ``mysqlbinlog -v``. A value is text,
or null for NULL. A column that the row image lacks has no entry.
"""


MOST_TEXT = (1 << 31) - 1
"""The most bytes of text in an Arrow array of strings."""


class Cells(NamedTuple):
    """The cells of one kind of images, of all rows. Row r has the cells ``row[r] : row[r + 1]``."""

    row: Int64
    start: Int64
    length: Int64


class Images(NamedTuple):
    """The cells of row images of one kind (before or after), to be made Arrow arrays."""

    has: npt.NDArray[np.bool_]
    """Whether each row has the image."""
    cells: Cells
    column: Int64
    """The number of each cell's column in the :class:`StyledColumns`."""
    documents: Documents = NO_DOCUMENTS


def structs(
    data: npt.NDArray[np.uint8],
    images: Images,
    styled: StyledColumns,
    described: list[tuple[Column, Family]],
    wanted: pa.StructType,
    invalid_dates: Counter[str],
) -> pa.StructArray:
    """Return the row images as structs of the type ``wanted``, null for rows without the image.

    ``described`` has each column of ``styled`` and the family of its server. A field is null where the row image lacks
    the column. A field that is a map has the columns without a field of their own, as texts; without such a field they
    are left out. ``invalid_dates`` counts dates that become null. Raises CellError for a malformed value, and for a
    value that the type of its field cannot have.
    """
    count = images.has.size
    row = np.repeat(np.arange(count), np.diff(images.cells.row))
    number_of = {field.name.lower(): number for number, field in enumerate(wanted)}
    field_of = np.array([number_of.get(column.name.lower(), -1) for column, _ in described], np.int64)
    field = field_of[images.column]
    arrays = []
    for number, one in enumerate(wanted):
        if pa.types.is_map(one.type):
            others = np.flatnonzero(field < 0)
            try:
                arrays.append(maps(data, _only(images, others, row), styled, described, one.type))
            except CellError as error:
                raise CellError(int(others[error.cell]), error.error) from error
            continue
        cells = np.flatnonzero(field == number)
        arrays.append(_field(data, images, cells, row[cells], styled, described, one, invalid_dates))
    if not arrays:
        return pa.array([{} if has else None for has in images.has.tolist()], wanted)
    valid = None if images.has.all() else pa.py_buffer(np.packbits(images.has, bitorder="little"))
    return pa.Array.from_buffers(wanted, count, [valid], children=arrays, null_count=int((~images.has).sum()))


def maps(
    data: npt.NDArray[np.uint8],
    images: Images,
    styled: StyledColumns,
    described: list[tuple[Column, Family]],
    kind: pa.MapType = MAP_TYPE,
) -> pa.MapArray:
    """Return the row images as maps of texts, null for rows without the image. Raises CellError."""
    items = _strings(data, images.cells, images.column, styled, images.documents)
    names = pa.array([column.name for column, _ in described], pa.string())
    keys = names.take(pa.array(images.column))
    entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
    offsets = pa.py_buffer(images.cells.row.astype(np.int32))
    valid = None if images.has.all() else pa.py_buffer(np.packbits(images.has, bitorder="little"))
    return pa.Array.from_buffers(
        kind, images.has.size, [valid, offsets], children=[entries], null_count=int((~images.has).sum())
    )


def _strings(
    data: npt.NDArray[np.uint8], cells: Cells, column: Int64, styled: StyledColumns, documents: Documents
) -> pa.StringArray:
    """Return the text of each cell, or null for NULL. Raises CellError."""
    text, at = CellTexts(data, cells.start, cells.length, column, styled, documents).joined()
    if text.size > MOST_TEXT:
        what = f"the values of the rows have {text.size} bytes, more than {MOST_TEXT}"
        raise CellError(0, BinlogUnsupported(what))
    null = cells.length == NULL
    valid = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    return pa.StringArray.from_buffers(
        column.size, pa.py_buffer(at.astype(np.int32)), pa.py_buffer(text), valid, int(null.sum())
    )


def _only(images: Images, cells: Int64, row: Int64) -> Images:
    """Return row images with some of their cells alone. ``row`` has the row of each cell of ``images``."""
    first = np.searchsorted(row[cells], np.arange(images.has.size + 1))
    start, length = images.cells.start[cells], images.cells.length[cells]
    return Images(images.has, Cells(first, start, length), images.column[cells], _documents(images, cells))


def _documents(images: Images, cells: Int64) -> Documents:
    if not images.documents:
        return NO_DOCUMENTS
    return {
        place: images.documents[cell] for place, cell in enumerate(cells.tolist()) if cell in images.documents
    }


def _field(
    data: npt.NDArray[np.uint8],
    images: Images,
    cells: Int64,
    row: Int64,
    styled: StyledColumns,
    described: list[tuple[Column, Family]],
    wanted: pa.Field,
    invalid_dates: Counter[str],
) -> pa.Array:
    """Return the values of one field for all rows. ``cells`` are the field's cells, and ``row`` their rows."""
    count = images.has.size
    column = images.column[cells]
    parts, order = [], []
    # A table that was altered has several columns of one name.
    for one in np.unique(column).tolist():
        chosen = np.flatnonzero(column == one)
        parts.append(_values(data, images, cells[chosen], one, styled, described[one], wanted, invalid_dates))
        order.append(row[chosen])
    if not parts:
        return pa.nulls(count, wanted.type)
    if len(parts) == 1 and row.size == count:
        return parts[0]
    place = np.full(count, -1, np.int64)
    place[np.concatenate(order)] = np.arange(cells.size)
    return pa.concat_arrays(parts).take(pa.array(place, mask=place < 0))


def _values(
    data: npt.NDArray[np.uint8],
    images: Images,
    cells: Int64,
    number: int,
    styled: StyledColumns,
    described: tuple[Column, Family],
    wanted: pa.Field,
    invalid_dates: Counter[str],
) -> pa.Array:
    column, family = described
    kind = column_type(column, family)
    start, length = images.cells.start[cells], images.cells.length[cells]
    try:
        is_decimal = column.type == T.NEWDECIMAL
        if wanted.type == pa.string() or kind == pa.string() or is_decimal:
            some = Cells(images.cells.row[:1], start, length)
            found = _strings(data, some, np.full(cells.size, number), styled, _documents(images, cells))
            if is_decimal and wanted.type != pa.string():
                found = found.cast(kind)
        else:
            found = typed_values(data, start, length, column)
            # Only a date becomes null that is not NULL.
            invalid = found.null_count - int((length < 0).sum())
            if invalid:
                invalid_dates[column.name] += invalid
        return found if found.type == wanted.type else found.cast(wanted.type)
    except CellError as error:
        raise CellError(int(cells[error.cell]), error.error) from error
    except BinlogError as error:
        raise CellError(int(cells[0]), error) from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        what = f"a value of the column {column.name} ({kind}) does not fit the type {wanted.type}"
        raise CellError(int(cells[0]), BinlogUnsupported(f"{what}; give the column another type")) from error

"""Conversion of row images to Arrow arrays: structs with a field for each column of one table, or maps of texts."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
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
from dumpfilter.binlog.rows.typed import column_type, joined_values, typed_values, validity

Int64 = npt.NDArray[np.int64]

MAP_TYPE = pa.map_(pa.string(), pa.string())
"""The Arrow type of a row image as a map: the values of one row, as text, by column name.

A column without a name in the binlog has the name ``@1``, ``@2`` and so on, as in ``mysqlbinlog -v``. A value is text,
or null for NULL. A column that the row image lacks has no entry.
"""


class Images(NamedTuple):
    """The cells (values of single columns) of many rows' before-images, or of their after-images, from which one Arrow
    array is made.
    """

    data: npt.NDArray[np.uint8]
    styled: StyledColumns
    described: list[tuple[Column, Family]]
    """For each column of ``styled``, its description and the family of its server."""
    has: npt.NDArray[np.bool_]
    """For each row, whether it has such an image. Inserts have no before-image, and deletes have no after-image."""
    row: Int64
    """The index of the row to which each cell belongs."""
    start: Int64
    length: Int64
    column: Int64
    """The index in ``styled`` of the column to which each cell belongs."""
    documents: Documents = NO_DOCUMENTS

    def structs(self, wanted: pa.StructType, invalid_dates: Counter[str]) -> pa.StructArray:
        """Return the row images as an array of structs of the type ``wanted``, null for rows that have no such image.

        A field is null where the row image lacks the column. A field of a map type collects, as texts, the columns that
        have no field. Without such a field these columns are left out. ``invalid_dates`` counts dates that become null.
        Raises CellError for a malformed value, and for a value that does not fit the type of its field.
        """
        number_of = {field.name.lower(): number for number, field in enumerate(wanted)}
        field_of = np.array(
            [number_of.get(column.name.lower(), -1) for column, _ in self.described], np.int64
        )
        field = field_of[self.column]
        arrays = []
        for number, one in enumerate(wanted):
            is_map = pa.types.is_map(one.type)
            with self._some(np.flatnonzero(field < 0 if is_map else field == number)) as some:
                arrays.append(some.maps(one.type) if is_map else some._field(one, invalid_dates))
        if not arrays:
            return pa.array([{} if has else None for has in self.has.tolist()], wanted)
        return self._arrays(wanted, [], arrays)

    def maps(self, kind: pa.MapType = MAP_TYPE) -> pa.MapArray:
        """Return the row images as an Arrow array of maps from column name to text. A row without the image is null.

        Raises CellError for a malformed value.
        """
        items = self._strings()
        names = pa.array([column.name for column, _ in self.described], pa.string())
        keys = names.take(pa.array(self.column))
        entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
        first = np.searchsorted(self.row, np.arange(self.has.size + 1))
        return self._arrays(kind, [pa.py_buffer(first.astype(np.int32))], [entries])

    def _arrays(self, kind: pa.DataType, buffers: list[pa.Buffer], children: list[pa.Array]) -> pa.Array:
        return pa.Array.from_buffers(kind, self.has.size, [validity(self.has), *buffers], children=children)

    def _strings(self) -> pa.StringArray:
        """Return the text of each cell, or null for NULL. Raises CellError."""
        made = CellTexts(self.data, self.start, self.length, self.column, self.styled, self.documents)
        text, at = made.joined()
        try:
            return joined_values(pa.string(), text, at, self.length != NULL)
        except BinlogUnsupported as error:
            raise CellError(0, error) from error

    @contextlib.contextmanager
    def _some(self, cells: Int64) -> Iterator[Images]:
        """Yield a copy of this object with only the given cells (values).

        A CellError in the ``with`` block gets the cell's index among the cells of this object.
        """
        documents = NO_DOCUMENTS
        if self.documents:
            numbers = enumerate(cells.tolist())
            documents = {k: self.documents[cell] for k, cell in numbers if cell in self.documents}
        columns = (self.row[cells], self.start[cells], self.length[cells], self.column[cells])
        try:
            yield Images(self.data, self.styled, self.described, self.has, *columns, documents)
        except CellError as error:
            raise CellError(int(cells[error.cell]), error.error) from error

    def _field(self, wanted: pa.Field, invalid_dates: Counter[str]) -> pa.Array:
        """Return the values of the field ``wanted`` for all rows, null for rows without a cell. All cells of this
        object must belong to this field.
        """
        if not self.row.size:
            return pa.nulls(self.has.size, wanted.type)
        # A table that was altered has several columns of one name.
        order = np.argsort(self.column, kind="stable")
        numbers, first = np.unique(self.column[order], return_index=True)
        if numbers.size == 1 and self.row.size == self.has.size:
            return self._values(int(numbers[0]), wanted, invalid_dates)
        parts = []
        for number, cells in zip(numbers.tolist(), np.split(order, first[1:]), strict=True):
            with self._some(cells) as some:
                parts.append(some._values(number, wanted, invalid_dates))
        place = np.full(self.has.size, -1, np.int64)
        place[self.row[order]] = np.arange(order.size)
        return pa.concat_arrays(parts).take(pa.array(place, mask=place < 0))

    def _values(self, number: int, wanted: pa.Field, invalid_dates: Counter[str]) -> pa.Array:
        """Return the values of the cells, which all belong to the column ``number``, in the type of the field
        ``wanted``.
        """
        column, family = self.described[number]
        kind = column_type(column, family)
        try:
            is_decimal = column.type == T.NEWDECIMAL
            if wanted.type == pa.string() or kind == pa.string() or is_decimal:
                found = self._strings()
                if is_decimal and wanted.type != pa.string():
                    found = found.cast(kind)
            else:
                found = typed_values(self.data, self.start, self.length, column)
                # Only a date becomes null that is not NULL.
                invalid = found.null_count - int((self.length < 0).sum())
                if invalid:
                    invalid_dates[column.name] += invalid
            return found if found.type == wanted.type else found.cast(wanted.type)
        except BinlogError as error:
            raise CellError(0, error) from error
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            what = f"a value of the column {column.name} ({kind}) does not fit the type {wanted.type}"
            raise CellError(0, BinlogUnsupported(f"{what}; give the column another type")) from error

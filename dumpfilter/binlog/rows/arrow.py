"""The decoder of row images: it reads rows events and returns the changed rows as Arrow arrays.

A row image becomes a struct with a field for each column of one table, or a map of texts. :func:`column_type` gives the
Arrow type of each column: integers, decimals, times, binary values and texts. Types without an Arrow type that all
readers know become text, as in maps.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dumpfilter.base.compiler.arrays import Bools, Bytes, Int64s
from dumpfilter.base.errors import BinlogError, BinlogUnsupported
from dumpfilter.binlog import row_image as T
from dumpfilter.binlog.charsets import BINARY, charset_name
from dumpfilter.binlog.events import GTIDS, EventType
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.binlog.row_image import AFTER, BEFORE, Layouts
from dumpfilter.binlog.row_walk import NULL, FoundRows, RowsError, find_rows
from dumpfilter.binlog.rows.events import LayoutTable, RowsEvents, RowsEventsFinder, with_map
from dumpfilter.binlog.rows.table import TEXTS, Column, Table, bit_count, char_length, describe_table
from dumpfilter.binlog.rows.texts import (
    CellError,
    CellTexts,
    Documents,
    Form,
    Style,
    StyledColumns,
    uncompressed_value,
)
from dumpfilter.binlog.rows_events import TableMap

MOST_TEXT = (1 << 31) - 1
"""The maximum size of all values in an Arrow array of strings or of binary values, bytes."""
MOST_DIGITS = 38
"""The maximum number of digits of a decimal in Spark and in Arrow's decimal128. A DECIMAL of MySQL has up to 65."""

_BIGGEST = pa.decimal128(20, 0)
"""The type of numbers up to 2**64 - 1. Spark has no unsigned integers."""
_INTEGERS = {
    T.TINY: (pa.int8(), pa.int16()),
    T.SHORT: (pa.int16(), pa.int32()),
    T.INT24: (pa.int32(), pa.int32()),
    T.LONG: (pa.int32(), pa.int64()),
    T.LONGLONG: (pa.int64(), _BIGGEST),
}
"""For each type of integers the Arrow types of signed and of unsigned integers."""
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
_BY_VALUE = frozenset({pa.binary(), pa.float32(), pa.float64()})
"""The types of values that are read from the stored bytes. Other types are read from the values' texts."""
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
"""The maximum number of decimal digits of each integer type."""
_EXACT_IN_DOUBLE = frozenset({pa.int8(), pa.int16(), pa.int32(), pa.float32(), pa.float64()})


def column_type(column: Column, family: Family) -> pa.DataType:
    """Return the Arrow type for the values of a column. ``family`` is the kind of server that wrote the binlog, MySQL
    or MariaDB.
    """
    kind = column.type
    if kind in _INTEGERS:
        return _INTEGERS[kind][bool(column.unsigned)]
    if kind in _OTHERS:
        return _OTHERS[kind]
    if kind == T.BIT:
        return _bit_type(column)
    if kind == T.NEWDECIMAL:
        precision, scale = column.metadata >> 8, column.metadata & 0xFF
        return pa.decimal128(precision, scale) if precision <= MOST_DIGITS else pa.string()
    if kind in TEXTS and kind != T.VECTOR and charset_name(column.collation, family) == BINARY:
        return pa.binary()
    return pa.string()


def _bit_type(column: Column) -> pa.DataType:
    return pa.int64() if bit_count(column) < 64 else _BIGGEST


def common_type(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """Return an Arrow type that holds all values of two Arrow types: one of the two, a wider number, or text. Of a date
    and a timestamp without a time zone, the result is the timestamp.

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
    """Raise BinlogUnsupported if values of ``size`` bytes in total do not fit into one Arrow array."""
    if size > MOST_TEXT:
        raise BinlogUnsupported(f"the values of the rows have {size} bytes, more than {MOST_TEXT}")


def joined_values(kind: pa.DataType, values: Bytes, at: Int64s, has: Bools) -> pa.Array:
    """Return an Arrow array of type ``kind`` from strings or binary values that lie one after the other in ``values``.

    ``at`` has the offset of each value and the end of the last value, shape (n + 1,). Entries for which ``has``,
    bool of shape (n,), is false are null. Raises BinlogUnsupported for more than :data:`MOST_TEXT` bytes.
    """
    _check_size(values.size)
    offsets = pa.py_buffer(at.astype(np.int32))
    return pa.Array.from_buffers(kind, has.size, [validity(has), offsets, pa.py_buffer(values)])


def validity(has: Bools) -> pa.Buffer | None:
    """Return the validity bitmap of an Arrow array, in which entry k is null where ``has[k]`` is false. The result is
    None if no entry is null.
    """
    return None if has.all() else pa.py_buffer(np.packbits(has, bitorder="little"))


def struct_of(tables: Iterable[tuple[Table, Family]]) -> pa.StructType:
    """Return an Arrow struct type with a field for each column name in any of the given versions of one table.

    A version is the table's description and the family of its server. A field has the :func:`common_type` of all
    columns with its name. Column names are compared without regard to case, as on the server.
    """
    fields: dict[str, tuple[str, pa.DataType]] = {}
    for table, family in tables:
        for column in table.columns:
            kind = column_type(column, family)
            name, other = fields.get(column.name.lower(), (column.name, kind))
            fields[column.name.lower()] = name, common_type(other, kind)
    return pa.struct(list(fields.values()))


def with_names(table: Table, names: Sequence[str]) -> Table:
    """Return a copy of ``table`` in which column k has the name ``names[k]``. Further columns keep their names. If the
    binlog tells the names of the columns, all columns keep these names.

    An entry of ``names`` may end in a space and the word UNSIGNED, as in ``id UNSIGNED``. The column is then UNSIGNED
    if the binlog does not tell the sign, whether or not it tells the names.
    """
    columns = list(table.columns)
    for number, (column, text) in enumerate(zip(columns, names, strict=False)):
        name, _, rest = text.strip().partition(" ")
        unsigned = column.unsigned
        if unsigned is None and rest.strip().lower() == "unsigned":
            unsigned = True
        columns[number] = replace(column, name=column.name if table.has_names else name, unsigned=unsigned)
    return replace(table, columns=tuple(columns))


def typed_values(data: Bytes, start: Int64s, length: Int64s, column: Column) -> pa.Array:
    """Return stored values of one column as an Arrow array of the column's type (:func:`column_type`). The column must
    hold binary values, BIT or floating-point numbers.

    Value k has ``length[k]`` bytes at ``data[start[k]]``; a negative length is NULL. Raises BinlogCorrupt for malformed
    values of MariaDB's compressed columns, and BinlogUnsupported for more than :data:`MOST_TEXT` bytes of values.
    """
    kind = column.type
    if kind in TEXTS or kind == T.GEOMETRY:
        return _binary(data, start, length, column)
    width = (bit_count(column) + 7) // 8 if kind == T.BIT else column.metadata
    has = length >= 0
    numbers = np.zeros((start.size, 8 if kind == T.BIT else width), np.uint8)
    numbers[has, numbers.shape[1] - width :] = data[start[has][:, None] + np.arange(width)]
    form = ">u8" if kind == T.BIT else f"<f{width}"
    values = numbers.view(form).ravel()
    found = pa.array(values.astype(values.dtype.newbyteorder("=")), mask=~has)
    return found.cast(_OTHERS[kind] if kind != T.BIT else _bit_type(column))


def value_of_text(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Return the numbers, dates or times for which the texts of cells (values of single columns) stand, as an array of
    the Arrow type ``kind``.

    Dates that no calendar has, such as ``0000-00-00``, and dates of the year 0 become null. Raises pyarrow.ArrowInvalid
    for a text that is not a value of the type.
    """
    if not pa.types.is_temporal(kind):
        return texts.cast(kind)
    texts = pc.if_else(pc.starts_with(texts, "0000"), None, texts)
    local = _LOCAL_TIME if pa.types.is_timestamp(kind) else kind
    try:
        return texts.cast(local).cast(kind)
    except pa.ArrowInvalid:
        distinct = texts.dictionary_encode()
        is_date = pa.array([_is_date(text) for text in distinct.dictionary.to_pylist()])
        valid = pc.if_else(is_date, distinct.dictionary, None)
        return valid.take(distinct.indices).cast(local).cast(kind)


def _is_date(text: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(datetime.fromisoformat(text))
    return False


def _binary(data: Bytes, start: Int64s, length: Int64s, column: Column) -> pa.Array:
    if column.type in (T.VARCHAR_COMPRESSED, T.BLOB_COMPRESSED):
        raw = [
            None if size < 0 else uncompressed_value(data[at : at + size].tobytes())
            for at, size in zip(start.tolist(), length.tolist(), strict=True)
        ]
        _check_size(sum(len(one) for one in raw if one is not None))
        return pa.array(raw, pa.binary())
    # The binlog leaves out the last zero bytes of BINARY.
    least = char_length(column.metadata) if column.type == T.STRING else 0
    copied = StyledColumns.of([Style(Form.COPY, least)])
    text, at = CellTexts(data, start, length, np.zeros(length.size, np.int64), copied).joined()
    return joined_values(pa.binary(), text, at, length >= 0)


MAP_TYPE = pa.map_(pa.string(), pa.string())
"""The Arrow type of a row image as a map: the values of one row, as text, by column name.

A column without a name in the binlog has the name ``@1``, ``@2`` and so on, as in ``mysqlbinlog -v``. A value is text,
or null for NULL. A column that the row image lacks has no entry.
"""
WORDS = pa.dictionary(pa.int32(), pa.string())
"""The Arrow dictionary type for texts that repeat. An array of this type stores each text once."""
ENCODED_MAP_TYPE = pa.map_(WORDS, pa.string())
"""The Arrow type of a row image as a map from column name to text, as :data:`MAP_TYPE`, but with dictionary-encoded
names.
"""


class Images(NamedTuple):
    """The cells (values of single columns) of many rows' before-images, or of their after-images, from which one Arrow
    array is made. The fields tell the bytes, the row and the column of each cell.
    """

    data: Bytes
    styled: StyledColumns
    described: list[tuple[Column, Family]]
    """For each table column in ``styled`` (how values become text), the column's description and the family of its
    server.
    """
    names: pa.DictionaryArray
    """The names of the table columns in ``styled`` (how values become text), in their order. :meth:`maps` uses them as
    the keys of the maps.
    """
    has: Bools
    """For each row, whether it has an image of this kind (before or after the change). Inserts have no before-image,
    and deletes have no after-image.
    """
    cell: Int64s
    """For each cell (value of a column in a row), the index among the cells of both images of all rows. Errors and
    ``documents`` name a cell by this index.
    """
    row: Int64s
    """For each cell (value of a column), the index of the row to which the cell belongs."""
    start: Int64s
    length: Int64s
    """The size of each cell's stored value, bytes. -1 means NULL, and ``-2 - n`` means n bytes of changes to a JSON
    value.
    """
    column: Int64s
    """For each cell (value of a column), the index of the table column in ``styled``, which tells how its values become
    text.
    """
    documents: Documents

    def structs(self, wanted: pa.StructType, invalid_dates: Counter[str]) -> pa.StructArray:
        """Return the before-images (or after-images) of the rows as an Arrow array of structs, with one entry for each
        row. A row without such an image is null.

        ``wanted`` is the type of the structs. A column becomes the field of the same name. A field is null where the
        row image lacks the column. A field of a map type collects, as texts, the columns that have no field. Without
        such a field these columns are left out. ``invalid_dates`` counts, by column name, the dates that become null
        because no calendar has them. Raises CellError for a malformed value, and for a value that does not fit the type
        of its field.
        """
        number_of = {field.name.lower(): number for number, field in enumerate(wanted)}
        field_of = np.array(
            [number_of.get(column.name.lower(), -1) for column, _ in self.described], np.int64
        )
        field = field_of[self.column]
        arrays = []
        for number, one in enumerate(wanted):
            is_map = pa.types.is_map(one.type)
            some = self._some(np.flatnonzero(field < 0 if is_map else field == number))
            arrays.append(some.maps().cast(one.type) if is_map else some._field(one, invalid_dates))
        if not arrays:
            return pa.array([{} if has else None for has in self.has.tolist()], wanted)
        return self._arrays(wanted, [], arrays)

    def maps(self) -> pa.MapArray:
        """Return the before-images (or after-images) of the rows as an Arrow array of maps from column name to text,
        with one entry for each row. A row without such an image is null.

        Raises CellError for a malformed value, and for more than :data:`MOST_TEXT` bytes of values.
        """
        items = self._strings()
        keys = self.names.take(pa.array(self.column))
        kind = ENCODED_MAP_TYPE
        entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
        first = np.cumsum(np.bincount(self.row + 1, minlength=self.has.size + 1))
        return self._arrays(kind, [pa.py_buffer(first.astype(np.int32))], [entries])

    def _arrays(self, kind: pa.DataType, buffers: list[pa.Buffer], children: list[pa.Array]) -> pa.Array:
        return pa.Array.from_buffers(kind, self.has.size, [validity(self.has), *buffers], children=children)

    def _strings(self) -> pa.StringArray:
        """Return the texts of all cells (values of single columns in rows) of this object, in their order, with null
        for NULL. Raises CellError for a malformed value, and for more than :data:`MOST_TEXT` bytes of texts.
        """
        changes = np.flatnonzero(self.length < NULL)
        cells = zip(changes.tolist(), self.cell[changes].tolist(), strict=True)
        documents = {k: self.documents[cell] for k, cell in cells if cell in self.documents}
        try:
            made = CellTexts(self.data, self.start, self.length, self.column, self.styled, documents)
            text, at = made.joined()
            return joined_values(pa.string(), text, at, self.length != NULL)
        except CellError as error:
            raise CellError(int(self.cell[error.cell]), error.error) from error
        except BinlogUnsupported as error:
            raise CellError(int(self.cell[0]), error) from error

    def _some(self, chosen: Int64s) -> Images:
        """Return a copy of this object with only some of its cells (values of single columns in rows). ``chosen`` has
        the indexes of these cells in the array ``cell`` of this object.
        """
        columns = {name: getattr(self, name)[chosen] for name in ("cell", "row", "start", "length", "column")}
        return self._replace(**columns)

    def _field(self, wanted: pa.Field, invalid_dates: Counter[str]) -> pa.Array:
        """Return the values of the field ``wanted`` of a struct, as an Arrow array with one entry for each row.

        Every cell (value of a column) of this object must belong to this field. An entry is null for a row without a
        cell, for NULL, and for a date that no calendar has. ``invalid_dates`` counts such dates by column name. Raises
        CellError for a malformed value, and for a value that does not fit the type of the field.
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
            parts.append(self._some(cells)._values(number, wanted, invalid_dates))
        place = np.full(self.has.size, -1, np.int64)
        place[self.row[order]] = np.arange(order.size)
        return pa.concat_arrays(parts).take(pa.array(place, mask=place < 0))

    def _values(self, number: int, wanted: pa.Field, invalid_dates: Counter[str]) -> pa.Array:
        """Return the values of all cells (values of one column in rows) of this object, in their order, as an Arrow
        array of the type of the field ``wanted``.

        ``number`` is the index of the cells' common column in the list ``described`` of this object. ``invalid_dates``
        counts, by column name, the dates that become null because no calendar has them. Raises CellError for a
        malformed value, and for a value that does not fit the type.
        """
        column, family = self.described[number]
        kind = column_type(column, family)
        try:
            if pa.string() in (kind, wanted.type):
                found = self._strings()
            elif column.type == T.BIT or kind in _BY_VALUE:
                found = typed_values(self.data, self.start, self.length, column)
            else:
                found = value_of_text(self._strings(), kind)
                # Only a date becomes null that is not NULL.
                invalid = found.null_count - int((self.length < 0).sum())
                if invalid:
                    invalid_dates[column.name] += invalid
            return found if found.type == wanted.type else found.cast(wanted.type)
        except BinlogError as error:
            raise CellError(int(self.cell[0]), error) from error
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            what = f"a value of the column {column.name} ({kind}) does not fit the type {wanted.type}"
            wrong = BinlogUnsupported(f"{what}; give the column another type")
            raise CellError(int(self.cell[0]), wrong) from error


_ENDS: Bools = np.isin(np.arange(256), [*GTIDS, EventType.XID])
"""For each event type, whether such an event (GTID events and Xid) ends the validity of all earlier Table_map events.
"""


class ChangedRows(NamedTuple):
    """The changed rows of many rows events: for each row its event, and its content before and after the change. The
    rows are in the order of the events.
    """

    event: Int64s
    """The index of the rows event to which each row belongs, ascending."""
    before: pa.MapArray
    """The rows before the change (:data:`ENCODED_MAP_TYPE`, or a struct); null for inserted rows."""
    after: pa.MapArray
    """The rows after the change (:data:`ENCODED_MAP_TYPE`, or a struct); null for deleted rows.

    With ``binlog_row_image=MINIMAL`` the after-image of an update has the changed columns only.
    """


class RowImageReader:
    """A decoder of the rows events in a stream. The caller passes consecutive portions of the stream to :meth:`read`,
    which returns the changed rows, before and after the change, as Arrow arrays.

    The first portion must begin at a transaction boundary. From one call to the next, the reader remembers the
    Table_map events that are still valid, because their statement has not ended.

    Parameters:
        types: two Arrow struct types, for rows before the change and for rows after the change. With types, the caller
            should select rows events of one table only, by the argument ``wanted`` of :meth:`read`. None: each row
            becomes a map from column name to text.
        names: one list of column names, in the order of the columns. The list is used for every table whose columns
            have no names in the binlog. An entry may end in the word UNSIGNED (:func:`with_names`).
        check: a function that is called with each new description of a table whose rows are decoded, and with the
            server family. The function may raise a BinlogError, which :meth:`read` passes on.
        invalid_dates: a counter in which the reader counts, by column name, the dates that become null in a struct
            because no calendar has them.
    """

    def __init__(
        self,
        types: tuple[pa.StructType, pa.StructType] | None = None,
        *,
        names: Sequence[str] = (),
        check: Callable[[Table, Family], None] | None = None,
        invalid_dates: Counter[str] | None = None,
    ) -> None:
        self._invalid_dates: Counter[str] = Counter() if invalid_dates is None else invalid_dates
        self._types = types

        def described(table: TableMap, family: Family) -> Table:
            one = with_names(describe_table(table, family), names)
            if check is not None:
                check(one, family)
            return one

        self._finder = RowsEventsFinder(partial(LayoutTable, described))

    def read(
        self,
        data: Bytes,
        start: Int64s,
        size: Int64s,
        type: Bytes,
        position: Int64s,
        fd: FormatDescription,
        *,
        wanted: Bools | None = None,
    ) -> ChangedRows:
        """Return the changed rows of the rows events among the given events, before and after the change. The events
        are the portion of the stream that follows the portion of the last call.

        Event k has ``size[k]`` bytes from ``data[start[k]]`` (uint8) on, with its common header and, if ``fd`` (the
        format description event) says so, its checksum. ``type`` has the events' types, and ``position`` their byte
        offsets in the file, for errors. With ``wanted`` (one bool for each event) only the rows events with a true
        entry are decoded; None means all.

        Raises BinlogCorrupt or BinlogUnsupported with the event's position when an event cannot be decoded.
        """
        found = self._finder.find(
            data, start, size, type, fd, closes=_ENDS[type], wanted=wanted, position=position
        )
        return self._decode(found, position)

    def _decode(self, events: RowsEvents, position: Int64s) -> ChangedRows:
        layouts = self._finder.layouts.arrays()
        of_event, layout_of, start, end, _, data = events
        try:
            found = find_rows(data, start, end, layout_of, layouts)
        except RowsError as error:
            # The Table_map event may be the damaged one: it tells where each value ends.
            what = with_map(error.error, int(events.map[error.event]))
            raise what.located(None, int(position[of_event[error.event]])) from error.error
        event, layout = of_event[found.event], layout_of[found.event]
        documents = _documents(found, layout, layouts)
        # The cells of a row's before-image come before those of its after-image.
        before = (layouts.second - layouts.first[:-1])[layout]
        counts = np.stack((before, np.diff(found.cell) - before), axis=1)
        is_after = np.repeat(np.tile([False, True], event.size), counts.ravel())
        styled, described = self._finder.layouts.styled(), self._finder.layouts.described
        names = pa.array([column.name for column, _ in described], pa.string()).dictionary_encode()
        made = []
        for number, bit in enumerate((BEFORE, AFTER)):
            cell = np.flatnonzero(is_after == bool(number))
            row = np.repeat(np.arange(event.size), counts[:, number])
            columns = cell, row, found.start[cell], found.length[cell], found.column[cell]
            has = layouts.images[layout] & bit != 0
            images = Images(data, styled, described, names, has, *columns, documents)
            try:
                if self._types is None:
                    made.append(images.maps())
                else:
                    made.append(images.structs(self._types[number], self._invalid_dates))
            except CellError as error:
                wrong = _row_of(error.cell, found)
                raise error.error.located(None, int(position[event[wrong]])) from error.error
        return ChangedRows(event, *made)


def _row_of(cell: int, found: FoundRows) -> int:
    return int(np.searchsorted(found.cell, cell, side="right")) - 1


def _documents(found: FoundRows, layout: Int64s, layouts: Layouts) -> Documents:
    """Return where the JSON documents that partial updates change lie in the before-images. The result maps the index
    of the cell (column value in an after-image) with the changes to the document's byte range (offset, size) in the
    rows data.

    ``layout`` has the index of each row's layout (columns and value sizes) in ``layouts``. Changes whose before-image
    lacks the column, or has NULL there, are left out.
    """
    documents = {}
    for cell in np.flatnonzero(found.length < NULL).tolist():
        row = _row_of(cell, found)
        first = found.cell[row]
        document = layouts.document[layouts.first[layout[row]] + cell - first]
        size = int(found.length[first + document])
        if document >= 0 and size >= 0:
            documents[cell] = int(found.start[first + document]), size
    return documents

"""The search for rows events in a stream. The search finds the byte ranges of the rows and the layouts of the row
images: which columns an image has, and the sizes of the values. The layouts are cached as arrays for compiled code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dumpfilter.base.compiler.arrays import Bools, Bytes, Int32s, Int64s
from dumpfilter.base.errors import BinlogCorrupt, BinlogError
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import rows_data
from dumpfilter.binlog.events import HEADER_LENGTH, ROWS, STMT_END_F, EventType, by_number, numbers_at
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.binlog.row_image import NO_LAYOUTS, Layouts, joined_layouts, row_layout
from dumpfilter.binlog.row_walk import UNKNOWN, count_rows
from dumpfilter.binlog.rows.table import Column, Table, describe_table
from dumpfilter.binlog.rows.texts import Style, StyledColumns, text_style
from dumpfilter.binlog.rows_events import (
    FLAGS_LENGTH,
    TABLE_ID_LENGTH,
    RowsHeader,
    TableMap,
    decode_rows_header,
    decode_table_map,
    rows_offsets,
)

_MOST_COLUMNS = 1 << 18
"""The number of cached columns, of all tables and layouts, at which the cache is cleared. A column takes some 200
bytes of memory.
"""
_IS_MAP: Bools = np.arange(256) == EventType.TABLE_MAP
_IS_ROWS: Bools = np.isin(np.arange(256), [*ROWS])
_WATCHED = _IS_MAP | _IS_ROWS


_IS_COMPARED: Bools = by_number(lambda kind: kind.change is not None and not kind.compressed) > 0
"""For each event type, whether the headers of such rows events are compared, so that equal ones are decoded once."""


TableKey = tuple[Family, bytes]
"""The server family, and the content of a Table_map event without the table id."""


@dataclass(slots=True)
class KnownTable:
    """A table that a Table_map event described, with a cache of the layouts of its row images. A layout tells which
    columns an image has, and the sizes of the values.

    A :class:`LayoutTable` numbers the columns of all its tables. ``first_column`` is the number of this table's first
    column, and its other columns have the numbers after that.
    """

    table: Table
    map: TableMap
    first_column: int
    layouts: dict[tuple[int, bytes], int] = field(default_factory=dict)
    """The indexes, in the arrays of the :class:`LayoutTable`, of the layouts that rows events of the table have had.

    The key is an event's type, with the bytes of its header after the flags. Events with equal keys have one layout.
    """


class LayoutTable:
    """A cache of the layouts of row images, with arrays for compiled code. A layout tells which columns an image has,
    and the sizes of the values. Each layout has a number, its index in the arrays.

    Parameters:
        describe: a function that returns the table of a new Table_map event, and may raise a BinlogError.
        style: a function that returns how the values of a column become text.
        heads: a function that returns two texts: one to print before each before-image, and one before each
            after-image. They become a part of the text of the image's first value.
        fill_unchanged: whether the after-image gets a JSON value that a partial update leaves unchanged from the
            before-image. If False, the after-image has an empty list of changes there, as in the event.
        styles: the styles (ways to convert values to text) of further columns, which belong to no table. These columns
            have the first numbers, from 0 on.
    """

    def __init__(
        self,
        describe: Callable[[TableMap, Family], Table] = describe_table,
        *,
        style: Callable[[Column, Family], Style] = text_style,
        heads: Callable[[Table, RowsHeader], Sequence[bytes]] = lambda table, rows: (),
        fill_unchanged: bool = True,
        styles: Sequence[Style] = (),
    ) -> None:
        self._describe, self._style, self._heads = describe, style, heads
        self._fill_unchanged = fill_unchanged
        self.described: list[tuple[Column, Family]] = []
        """The columns of all described tables, each with the family of its server (MySQL or MariaDB). Without
        ``styles`` and ``heads``, a column's index is its number in :attr:`Layouts.column`.
        """
        self.tables: dict[TableKey, KnownTable] = {}
        self._styles = [*styles]
        self._joined, self._new = NO_LAYOUTS, list[Layouts]()
        self._column_count = 0
        self._styled: StyledColumns | None = None

    @property
    def column_count(self) -> int:
        """The number of cached columns, of all tables and layouts. Callers start a new cache when the number becomes
        too large.
        """
        return len(self.described) + self._column_count

    def add_table(self, key: TableKey, table: TableMap, family: Family) -> KnownTable:
        """Describe the table of a Table_map event, cache the description under ``key``, and return it.

        ``key`` is the server family with the content of the event after the table id. Raises BinlogCorrupt for an
        inconsistent event, and the errors of the function ``describe``.
        """
        described = self._describe(table, family)
        known = KnownTable(described, table, len(self._styles))
        self.described += [(column, family) for column in described.columns]
        self.tables[key] = known
        self._styles += [self._style(column, family) for column in described.columns]
        self._styled = None
        return known

    def add_layout(self, known: KnownTable, rows: RowsHeader) -> int:
        """Add the layout (columns and value sizes) of the row images in a rows event of the table ``known``. Return the
        layout's index in :meth:`arrays`.

        ``rows`` is the decoded header of the event. Raises BinlogCorrupt for a header that does not fit the table.
        """
        layout = row_layout(known.map, rows)
        self._column_count += layout.column.size
        layout = layout._replace(column=layout.column + known.first_column)
        if not self._fill_unchanged:
            layout = layout._replace(document=np.full_like(layout.document, -1))
        images = np.split(layout.column, layout.second)
        for text, columns in zip(self._heads(known.table, rows), images, strict=False):
            if columns.size:
                self._styles.append(self._styles[columns[0]].after(text))
                columns[0] = len(self._styles) - 1
                self._styled = None
        self._new.append(layout)
        return self._joined.images.size + len(self._new) - 1

    def arrays(self) -> Layouts:
        """Return all cached layouts as arrays, which compiled code needs to find rows. A layout tells which columns a
        row image has, and the sizes of the values.
        """
        if self._new:
            self._joined = joined_layouts((self._joined, *self._new))
            self._new.clear()
        return self._joined

    def styled(self) -> StyledColumns:
        """Return the styles of all cached columns, as arrays for compiled code. A style tells how the values of a
        column become text.
        """
        if self._styled is None:
            self._styled = StyledColumns.of(self._styles)
        return self._styled


class RowsEvents(NamedTuple):
    """The rows events that :meth:`RowsEventsFinder.find` found, in stream order. Each field except ``data`` is an int64
    array with one entry for each event. The rows of event k lie at ``data[start[k] : end[k]]``.
    """

    event: Int64s
    """The index of the event in the arguments of :meth:`RowsEventsFinder.find`."""
    layout: Int64s
    """The number of the layout of the event's row images in the :class:`LayoutTable`."""
    start: Int64s
    end: Int64s
    """The byte offset in :attr:`data` at which the event's rows end."""
    map: Int64s
    """The position of the event's Table_map event in the binlog file, bytes. If the caller gave no positions, the entry
    is the index of the Table_map event in the arguments.
    """
    data: Bytes
    """The bytes that the caller gave, followed by the uncompressed rows of events that MariaDB compressed."""


class RowsEventsFinder:
    """A finder of the rows events in a stream of events, which is passed to :meth:`find` in portions. The first event
    must be at a transaction boundary.

    From one call to the next, the finder remembers the Table_map events that are still valid, because their statement
    has not ended. ``new_layouts`` makes an empty cache for the layouts of row images (their columns and value sizes).
    """

    def __init__(self, new_layouts: Callable[[], LayoutTable] = LayoutTable) -> None:
        self._new_layouts = new_layouts
        self.layouts = new_layouts()
        self._maps: dict[bytes, _Map] = {}
        """The valid Table_map events, by table id."""

    def find(
        self,
        data: Bytes,
        start: Int64s,
        size: Int64s,
        type: Bytes,
        fd: FormatDescription,
        *,
        closes: Bools,
        wanted: Bools | None = None,
        position: Int64s | None = None,
    ) -> RowsEvents:
        """Return the rows events among the given events, without events that have no rows. With ``wanted`` (one bool
        for each event), only the rows events with a true entry.

        Event k has the type ``type[k]`` and ``size[k]`` bytes from ``data[start[k]]`` (uint8) on, with its common
        header. ``fd``, the format description event, tells whether events end in a checksum. ``closes`` marks the
        events after which no earlier Table_map event is valid, such as the end of a transaction.

        ``position`` has the byte offset of each event in the file. Raises BinlogCorrupt or BinlogUnsupported, with this
        offset, when an event cannot be decoded. With ``position`` None such events are left out, and no error is
        raised.
        """
        if self.layouts.column_count > _MOST_COLUMNS:
            self.layouts = self._new_layouts()
        watched = np.flatnonzero(_WATCHED[type] | closes)
        search = _Search(
            data,
            type[watched],
            start[watched] + HEADER_LENGTH,
            (start + size)[watched] - fd.checksum_length,
            watched if position is None else position[watched],
            closes[watched],
            fd,
            self.layouts,
            self._maps,
        )
        is_wanted = _IS_ROWS[search.type] if wanted is None else _IS_ROWS[search.type] & wanted[watched]
        found = search.find(np.flatnonzero(is_wanted))
        if search.errors and position is not None:
            place, error = min(search.errors, key=lambda each: each[0])
            raise error.located(None, int(search.position[place])) from error
        if search.closed:
            self._maps.clear()
        self._maps.update(search.maps_in_force())
        return found._replace(event=watched[found.event])

    def forget_maps(self) -> None:
        """Forget all Table_map events, for a search that continues at another transaction boundary."""
        self._maps.clear()


class _Map(NamedTuple):
    """A Table_map event: its content after the table id, and its position in the binlog file, bytes."""

    content: bytes
    position: int


@dataclass
class _Search:
    """A search for the layouts of the row images in the rows events of one portion of the stream. A layout tells which
    columns an image has, and the sizes of the values.

    The search needs Table_map events, rows events, and events after which no Table_map event is valid. ``type``,
    ``first``, ``last``, ``position`` and ``closes`` are arrays with one entry for each such event. ``maps`` has the
    Table_map events that were valid before this portion, by table id.
    """

    data: Bytes
    type: Bytes
    first: Int64s
    last: Int64s
    """The byte offsets in ``data`` at which the body of each event begins and ends. For compressed rows that the search
    has uncompressed, the offsets of these rows.
    """
    position: Int64s
    closes: Bools
    fd: FormatDescription
    layouts: LayoutTable
    maps: Mapping[bytes, _Map]

    def __post_init__(self) -> None:
        self.errors: list[tuple[int, BinlogError]] = []
        """The errors of events that cannot be decoded, each with the event's index among the events of this search."""
        self._parts, self._size = [self.data], self.data.size
        """The pieces of the result's array ``data``, and their total size, bytes. The first piece is the data of the
        search. The uncompressed rows of MariaDB's compressed events follow.
        """
        data, first, last, type = self.data, self.first, self.last, self.type
        body = first + TABLE_ID_LENGTH
        is_map, is_rows = _IS_MAP[type] & (body <= last), _IS_ROWS[type] & (body <= last)
        flags = data[np.minimum(body, data.size - 1)]
        ends_statement = is_rows & (body < last) & (flags & STMT_END_F != 0)
        ends = self.closes | ends_statement
        self.closed = int(ends.sum())
        self._before = np.cumsum(ends) - ends
        """For each event, the number of earlier events after which no Table_map event is valid any more."""
        self._map_of = np.where(is_rows, self._latest_maps(is_map), -1)
        """For each rows event, the index of its Table_map event; -1 if the Table_map event is not among the events."""
        self._map_position = self.position[self._map_of]
        self._same_as = np.arange(first.size)
        """For each event, the index of the first event with equal content, which may be the event itself.

        For a rows event, equal content means the same type, an equal Table_map event, and an equal header after the
        flags.
        """
        maps = np.flatnonzero(is_map)
        self._same_as[maps] = maps[_first_equal(_codes(_slices(data, body[maps], last[maps])))]
        self._length = np.zeros_like(first)
        """The length of a rows event's header, bytes, or 0 if headers are not compared."""
        rows = np.flatnonzero(_IS_COMPARED[type] & (self._map_of >= 0))
        end = rows_offsets(data, first[rows], type[rows])
        is_whole = (end > 0) & (end <= last[rows])
        rows, end = rows[is_whole], end[is_whole]
        self._length[rows] = end - first[rows]
        header = _codes(_slices(data, body[rows] + FLAGS_LENGTH, end)) << 8 | type[rows]
        same_map = self._same_as[self._map_of[rows]]
        self._same_as[rows] = rows[_first_equal(_codes(pa.array(header * first.size + same_map)))]

    def _latest_maps(self, is_map: Bools) -> Int64s:
        """Return an int64 array that has for each event the index of the latest valid Table_map event with the same
        table id; -1 for none.

        ``is_map`` is true for Table_map events. Only the entries of rows events are used.
        """
        table = numbers_at(self.data, self.first, TABLE_ID_LENGTH)
        order = np.argsort(table, kind="stable")
        found = np.empty_like(order)
        found[order] = order[np.maximum.accumulate(np.where(is_map[order], np.arange(order.size), 0))]
        is_valid = is_map[found] & (table[found] == table) & (self._before[found] == self._before)
        return np.where(is_valid, found, -1)

    def _body(self, event: int) -> bytes:
        return self.data[self.first[event] : self.last[event]].tobytes()

    def _table_id(self, event: int) -> bytes:
        return self._body(event)[:TABLE_ID_LENGTH]

    def _map(self, event: int) -> _Map:
        return _Map(self._body(event)[TABLE_ID_LENGTH:], int(self.position[event]))

    def maps_in_force(self) -> dict[bytes, _Map]:
        """Return the Table_map events of this portion of the stream that are still valid at its end, by table id."""
        left = np.flatnonzero(_IS_MAP[self.type] & (self._before == self.closed))
        return {self._table_id(event): self._map(event) for event in left.tolist()}

    def find(self, rows: Int64s) -> RowsEvents:
        """Return the byte ranges and the layouts of rows events. A layout tells which columns the event's row images
        have, and the sizes of the values.

        ``rows`` has the indexes of the rows events among the events of this search. Events without rows are left out.
        So are events that cannot be decoded, whose errors are added to the list ``errors`` of this search.
        """
        # One event stands for those whose table and header are equal, so that a comparison takes the place of decoding.
        group = self._same_as[rows]
        first, layout_of = np.full((2, self.type.size), -1)
        first[group[::-1]] = rows[::-1]
        groups = np.flatnonzero(first >= 0)
        layout_of[groups] = [self._layout_or_none(event) for event in first[groups].tolist()]
        layouts = layout_of[group]
        found, layout = rows[layouts >= 0], layouts[layouts >= 0]
        start = self.first[found] + self._length[found]
        data = np.concatenate(self._parts) if len(self._parts) > 1 else self.data
        return RowsEvents(found, layout, start, self.last[found], self._map_position[found], data)

    def _layout_or_none(self, event: int) -> int:
        """Return the index of a rows event's layout in the :class:`LayoutTable`; -1 for an event without rows, or if
        the event cannot be decoded. A layout tells which columns the row images have, and the sizes of the values.

        ``event`` is the event's index among the events of this search. The caller also uses the layout for events with
        an equal header and an equal Table_map event. The error of an event that cannot be decoded is added to the list
        ``errors`` of this search.
        """
        try:
            if length := int(self._length[event]):
                return self._layout(event, self._map(int(self._map_of[event])), length)
            return self._layout_of_one(event)
        except BinlogError as error:
            self.errors.append((event, error))
            return -1

    def _layout(self, event: int, map: _Map, length: int) -> int:
        """Return the index in the :class:`LayoutTable` of the layout of a rows event's row images. A layout (columns
        and value sizes) that is not cached yet is added.

        ``event`` is the event's index among the events of this search. ``map`` is the Table_map event of the rows
        event, and ``length`` the length of the rows event's header, bytes.
        """
        known, first = self._known(event, map), self.first[event]
        header = self.data[first + TABLE_ID_LENGTH + FLAGS_LENGTH : first + length].tobytes()
        key = int(self.type[event]), header
        layout = known.layouts.get(key)
        if layout is None:
            layout = known.layouts[key] = self.layouts.add_layout(known, self._header(event))
        return layout

    def _header(self, event: int) -> RowsHeader:
        return decode_rows_header(int(self.type[event]), self._body(event))

    def _layout_of_one(self, event: int) -> int:
        header = self._header(event)
        if header.is_dummy:
            return -1
        here = int(self._map_of[event])
        map = self._map(here) if here >= 0 else None
        if map is None and not self._before[event]:
            # No earlier event of this piece has ended the validity of the Table_map events before the piece.
            map = self.maps.get(self._table_id(event))
        if map is None:
            raise BinlogCorrupt(
                f"rows event: no Table_map event tells the columns of table id {header.table_id}"
            )
        layout = self._layout(event, map, header.rows_offset)
        self._length[event], self._map_position[event] = header.rows_offset, map.position
        if header.compressed:
            rows = np.frombuffer(rows_data(header, self._body(event)), np.uint8)
            self._parts.append(rows)
            self._length[event], self.first[event] = 0, self._size
            self._size = self.last[event] = self._size + rows.size
        return layout

    def _known(self, event: int, map: _Map) -> KnownTable:
        key = self.fd.family, map.content
        known = self.layouts.tables.get(key)
        if known is None:
            try:
                table = decode_table_map(self._table_id(event) + map.content)
                known = self.layouts.add_table(key, table, self.fd.family)
            except BinlogError as error:
                raise with_map(error, map.position) from error
        return known


def _slices(data: Bytes, begin: Int64s, end: Int64s) -> pa.LargeBinaryArray:
    """Return an Arrow array of the byte strings ``data[begin[k] : end[k]]``, which must not overlap.

    The byte strings may lie in ``data`` in any order, since the caller appends the events of compressed transactions,
    uncompressed, after all others.
    """
    order = np.argsort(begin, kind="stable")
    edges = np.stack((begin[order], end[order]), axis=1).ravel()
    buffers = [None, pa.py_buffer(np.append(edges, edges[-1:])), pa.py_buffer(data)]
    # Every second value lies between two slices.
    index = np.empty_like(order)
    index[order] = np.arange(0, edges.size, 2)
    return pa.Array.from_buffers(pa.large_binary(), edges.size, buffers).take(pa.array(index))


def _codes(values: pa.Array) -> Int64s:
    """Return an int64 code for each value. Equal values get equal codes, numbered from 0 in the order of first
    appearance.
    """
    codes: Int64s = values.dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def _first_equal(codes: Int64s) -> Int64s:
    """Return for each of ``codes`` (a result of :func:`_codes`) the index at which the same code first appears."""
    first: Int64s = np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))
    return first[codes]


class RowCounter:
    """A counter of the rows in the rows events of a stream, which is passed to :meth:`count` in portions. The first
    event must be at a transaction boundary.

    From one call to the next, the counter remembers the columns of the tables. The counter also remembers the Table_map
    events that are still valid, because their statement has not ended.
    """

    def __init__(self) -> None:
        self._finder = RowsEventsFinder()

    def count(
        self, data: Bytes, start: Int64s, size: Int64s, type: Bytes, role: Bytes, fd: FormatDescription
    ) -> Int32s:
        """Return the number of rows of each event, int32.

        UNKNOWN stands for events that are not rows events, and for rows that cannot be counted. Rows cannot be counted
        if they are malformed, or lack their table map. A dummy rows event, which only ends a statement, has 0 rows.

        Event k has ``size[k]`` bytes from ``data[start[k]]`` (uint8) on, and the event type ``type[k]``. ``role`` has
        the role of each event (:mod:`dumpfilter.binlog.roles`), with the bit ENDS at the end of a transaction. ``fd``
        is the format description event.
        """
        counts: Int32s = np.full(start.size, UNKNOWN, np.int32)
        is_dummy = role & R.ROLE_MASK == R.DUMMY_ROWS
        counts[is_dummy] = 0
        closes = (role & R.ENDS != 0) | is_dummy
        found = self._finder.find(data, start, size, type, fd, closes=closes, wanted=~is_dummy)
        if found.event.size:
            layouts = self._finder.layouts.arrays()
            counts[found.event] = count_rows(found.data, found.start, found.end, found.layout, layouts)
        return counts


def with_map(error: BinlogError, position: int) -> BinlogError:
    """Return a copy of an error about a rows event whose text also names the position of the event's Table_map event.

    The Table_map event may be the damaged one, since it tells how rows are laid out. ``position`` is its byte offset in
    the file.
    """
    return type(error)(f"{error.what} (its Table_map event is at {position})")

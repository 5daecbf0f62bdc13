"""The search for rows events in a stream. The search finds the byte ranges of the rows and the layouts of the row
images: which columns an image has, and the sizes of the values. The layouts are cached as arrays for compiled code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

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


_KEY_AT = TABLE_ID_LENGTH + FLAGS_LENGTH
"""The offset in the body of a rows event after table id and flags. The rest of the event's header begins there, and
decides which columns the row images have.
"""

_NO_ROWS = -1
"""The value in place of the index of a layout (columns and value sizes of row images) for an event that has no rows, or
cannot be decoded.
"""

TableKey = tuple[Family, bytes]
"""The server family, and the content of a Table_map event without the table id."""


@dataclass(slots=True)
class KnownTable:
    """A table that a Table_map event described, as an entry of a :class:`LayoutTable`. This cache has tables, and the
    layouts (columns and sizes) of their row images.

    The cache numbers the columns of all tables in it. ``first_column`` is the number of this table's first column, and
    its other columns have the numbers after that.
    """

    table: Table
    map: TableMap
    first_column: int


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
        self.numbers: dict[tuple[Family, bytes, int, bytes], int] = {}
        """The indexes, in the arrays of :meth:`arrays`, of the layouts that rows events have had so far.

        A key has the table's family and Table_map event (:data:`TableKey`), the rows event's type, and the bytes of its
        header after the flags. Events with equal keys have one layout.
        """
        self._styles = [*styles]
        self._joined, self._new = NO_LAYOUTS, list[Layouts]()
        self._column_count = 0
        self._styled: StyledColumns | None = None

    @property
    def column_count(self) -> int:
        """The number of cached columns: the columns of all tables, and those of all layouts of row images. Callers
        start a new cache when the number becomes too large.
        """
        return len(self.described) + self._column_count

    def add_table(self, key: TableKey, table: TableMap, family: Family) -> KnownTable:
        """Describe the table of a Table_map event, cache the description under ``key``, and return it.

        ``key`` is the server family with the content of the event after the table id. Raises BinlogCorrupt for an
        inconsistent event, and any other BinlogError that the constructor's function ``describe`` raises for the
        event's table.
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
        """Return the styles of all columns of this cache's tables, as a list and as arrays for compiled code. A style
        tells how the values of a column become text.
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
    """The index in the :class:`LayoutTable` of the layout of the event's row images, which tells their columns and the
    sizes of the values.
    """
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
        self._maps: dict[int, _Map] = {}
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
        kinds, firsts = type[watched], start[watched] + HEADER_LENGTH
        lasts = (start + size)[watched] - fd.checksum_length
        contents, places = firsts + TABLE_ID_LENGTH, watched if position is None else position[watched]
        is_map, is_rows = _IS_MAP[kinds] & (contents <= lasts), _IS_ROWS[kinds]
        ends_statement = is_rows & (contents < lasts) & (numbers_at(data, contents, 1) & STMT_END_F != 0)
        closed = np.cumsum(closes[watched] | ends_statement)
        # An event that ends the validity of Table_map events still has its own.
        before = np.concatenate(([0], closed))[:-1]
        table_id = numbers_at(data, firsts, TABLE_ID_LENGTH)
        maps = _latest_maps(table_id, is_map, before)
        rows = np.flatnonzero(is_rows if wanted is None else is_rows & wanted[watched])
        begins, ends, maps = rows_offsets(data, firsts[rows], kinds[rows]), lasts[rows], maps[rows]
        begins[(begins > ends) | ~_IS_COMPARED[kinds[rows]] | (maps < 0)] = 0
        map_positions = places[maps]
        view, numbers, family = data.data, self.layouts.numbers, fd.family
        layouts, parts, total = list[int](), [data], data.size
        columns = kinds[rows], firsts[rows], begins, contents[maps], lasts[maps]
        for event, (kind, first, begin, map_first, map_last) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        ):
            layout = None
            if begin:
                # Events with equal headers and Table_map events have one layout. A look-up takes the place of decoding.
                header_key = view[first + _KEY_AT : begin].tobytes()
                layout = numbers.get((family, view[map_first:map_last].tobytes(), kind, header_key))
            if layout is None:
                number, body = rows[event], bytes(view[first : ends[event]])
                # The statement may have begun in an earlier portion.
                table_map = None if before[number] else self._maps.get(int(table_id[number]))
                if maps[event] >= 0:
                    table_map = _Map(bytes(view[map_first:map_last]), int(map_positions[event]))
                try:
                    layout, header = self._decode(kind, body, table_map, family)
                    if table_map is not None:
                        begins[event], map_positions[event] = first + header.rows_offset, table_map.position
                    if header.compressed:
                        parts.append(np.frombuffer(rows_data(header, body), np.uint8))
                        begins[event], total = total, total + parts[-1].size
                        ends[event] = total
                except BinlogError as error:
                    if position is not None:
                        raise error.located(None, int(places[number])) from error
                    layout = _NO_ROWS
            layouts.append(layout)
        # A copy of this finder keeps the maps of its own.
        self._maps = {} if closed.any() else self._maps.copy()
        for number in np.flatnonzero(is_map & (before == closed[-1:])).tolist():
            content = bytes(view[contents[number] : lasts[number]])
            self._maps[int(table_id[number])] = _Map(content, int(places[number]))
        layout_of = np.array(layouts, np.int64)
        found = np.flatnonzero(layout_of != _NO_ROWS)
        data = np.concatenate(parts) if len(parts) > 1 else data
        return RowsEvents(
            watched[rows[found]], layout_of[found], begins[found], ends[found], map_positions[found], data
        )

    def forget_maps(self) -> None:
        """Forget all Table_map events, for a search that continues at another transaction boundary."""
        self._maps = {}

    def _decode(
        self, kind: int, body: bytes, table_map: _Map | None, family: Family
    ) -> tuple[int, RowsHeader]:
        """Return the index of a rows event's layout in the :class:`LayoutTable`, and the event's decoded header. A
        layout tells which columns the row images have, and the sizes of the values. The index is _NO_ROWS for a dummy
        rows event.

        ``kind`` is the number of the event's type, and ``table_map`` the Table_map event of its table. Raises
        BinlogCorrupt or BinlogUnsupported for an event that cannot be decoded, also if ``table_map`` is None.
        """
        header = decode_rows_header(kind, body)
        if header.is_dummy:
            return _NO_ROWS, header
        if table_map is None:
            raise BinlogCorrupt(
                f"rows event: no Table_map event tells the columns of table id {header.table_id}"
            )
        table = family, table_map.content
        key = *table, kind, body[_KEY_AT : header.rows_offset]
        if table not in self.layouts.tables:
            try:
                decoded = decode_table_map(body[:TABLE_ID_LENGTH] + table_map.content)
                self.layouts.add_table(table, decoded, family)
            except BinlogError as error:
                raise with_map(error, table_map.position) from error
        if key not in self.layouts.numbers:
            self.layouts.numbers[key] = self.layouts.add_layout(self.layouts.tables[table], header)
        return self.layouts.numbers[key], header


class _Map(NamedTuple):
    """A Table_map event: its content after the table id, and its position in the binlog file, bytes."""

    content: bytes
    position: int


def _latest_maps(table_id: Int64s, is_map: Bools, before: Int64s) -> Int64s:
    """Return an int64 array that has for each event the index of the latest valid Table_map event with the same table
    id; -1 for none.

    ``is_map`` is true for Table_map events. ``before`` has for each event the number of earlier events that end a
    statement or transaction. A Table_map event is valid for the events that have the same number. Only the results for
    rows events are meaningful.
    """
    order = np.argsort(table_id, kind="stable")
    found = np.empty_like(order)
    found[order] = order[np.maximum.accumulate(np.where(is_map[order], np.arange(order.size), 0))]
    is_valid = is_map[found] & (table_id[found] == table_id) & (before[found] == before)
    return np.where(is_valid, found, -1)


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

"""The search for rows events in a stream. It finds the byte ranges of their rows and the layouts of their row images:
which columns an image has, and the sizes of the values. The layouts are cached as arrays for compiled code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dumpfilter.base.compiler.arrays import Bools, Bytes, Int32s, Int64s
from dumpfilter.base.errors import BinlogCorrupt, BinlogError
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import rows_data
from dumpfilter.binlog.events import HEADER_LENGTH, ROWS, STMT_END_F, EventType
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.binlog.row_image import ImageLayout, Layouts, as_arrays
from dumpfilter.binlog.row_walk import UNKNOWN, count_rows
from dumpfilter.binlog.rows.table import Column, Table, describe_table
from dumpfilter.binlog.rows.texts import Style, StyledColumns, head_style, text_style
from dumpfilter.binlog.rows_events import (
    ROWS_HEADER_LENGTH_V0,
    RowsHeader,
    TableMap,
    decode_rows_header,
    decode_table_map,
)

_MOST_COLUMNS = 1 << 18
"""The number of cached columns, of all tables and layouts, at which the cache is cleared. A column takes some 200
bytes of memory.
"""
_FLAGS_LENGTH = 2
_IS_ROWS: Bools = np.isin(np.arange(256), [*ROWS])
_WATCHED: Bools = _IS_ROWS | (np.arange(256) == EventType.TABLE_MAP)

TableKey = tuple[Family, bytes, bytes]
"""The server family, the lengths of post-headers in the file, and the content of a Table_map event after the table id.
"""


@dataclass(slots=True)
class KnownTable:
    """A table that a Table_map event described, with a cache of the layouts (columns and value sizes) of its row
    images.
    """

    table: Table
    first_column: int
    layouts: dict[tuple[int, bytes], int] = field(default_factory=dict)
    """The numbers of the layouts that rows events of the table have had so far.

    The key is an event's type, with the bytes of its header after the flags. Events with equal keys have one layout.
    """
    plain: dict[int, int] = field(default_factory=dict)
    """The length of a rows event's header without extra data, by the type of event, bytes."""


class LayoutTable:
    """A cache of the layouts (columns and value sizes) of row images. Each layout has a number, its index in the arrays
    for compiled code.

    Parameters:
        describe: returns the table of a new Table_map event, and may raise a BinlogError.
        style: returns how the values of a column become text.
        heads: returns the two texts that precede the values of the before-image and after-image; None: no such texts.
        fill_unchanged: whether a JSON value that a partial update leaves unchanged is taken from the before-image.
        styles: the styles (ways to convert values to text) of columns that belong to no table.
    """

    def __init__(
        self,
        describe: Callable[[TableMap, Family], Table] = describe_table,
        *,
        style: Callable[[Column, Family], Style] = text_style,
        heads: Callable[[Table, RowsHeader], tuple[bytes, bytes]] | None = None,
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
        self._layouts: list[ImageLayout] = []
        self._columns: list[int] = []
        self._head_columns: list[int] = []
        self._arrays: Layouts | None = None
        self._styled: StyledColumns | None = None

    @property
    def column_count(self) -> int:
        """The number of cached columns, of all tables and layouts. Callers start a new cache when the number becomes
        too large.
        """
        return len(self.described) + len(self._columns)

    def add_table(self, key: TableKey, table: TableMap, family: Family) -> KnownTable:
        """Describe the table of a Table_map event, cache the description under ``key``, and return it.

        Raises BinlogCorrupt, and the errors of ``describe``.
        """
        described = self._describe(table, family)
        known = KnownTable(described, len(self._styles))
        self.described += [(column, family) for column in described.columns]
        self.tables[key] = known
        self._styles += [self._style(column, family) for column in described.columns]
        self._styled = None
        return known

    def add_layout(self, known: KnownTable, rows: RowsHeader) -> int:
        """Add the layout (columns and value sizes) of the row images in a rows event of the table ``known``, and return
        the layout's number.

        ``rows`` is the decoded header of the event. Raises BinlogCorrupt for a header that does not fit the table, and
        BinlogUnsupported for servers before 5.1.18.
        """
        layout = known.table.plan.layout(rows)
        self._layouts.append(layout)
        self._columns += [known.first_column + column for column in (*layout.before, *layout.after)]
        if self._heads is None:
            self._head_columns += (-1, -1)
        else:
            self._head_columns += range(len(self._styles), len(self._styles) + 2)
            self._styles += [head_style(text) for text in self._heads(known.table, rows)]
            self._styled = None
        self._arrays = None
        return len(self._layouts) - 1

    def arrays(self) -> Layouts:
        """Return all layouts (columns and value sizes of row images) as arrays, which compiled code needs to
        find rows.
        """
        if self._arrays is None:
            self._arrays = as_arrays(
                self._layouts, self._columns, self._head_columns, fill_unchanged=self._fill_unchanged
            )
        return self._arrays

    def styled(self) -> StyledColumns:
        """Return the styles of all cached columns (how the values of each become text), as arrays for compiled code."""
        if self._styled is None:
            self._styled = StyledColumns.of(self._styles)
        return self._styled


class RowsEvents(NamedTuple):
    """The rows events that :meth:`RowsEventsFinder.find` found, in stream order. Each field except ``data`` is an int64
    array with one entry for each event.
    """

    event: Int64s
    """The index of the event in the arguments of :meth:`RowsEventsFinder.find`."""
    layout: Int64s
    """The number of the layout of the event's row images in the :class:`LayoutTable`."""
    start: Int64s
    end: Int64s
    """The byte offset in :attr:`data` at which the event's rows end."""
    map: Int64s
    """The position of the event's Table_map event in the binlog file, bytes. If the caller gave no positions, it is an
    index in the arguments.
    """
    data: Bytes
    """The bytes that the caller gave, followed by the uncompressed rows of events that MariaDB compressed."""


class RowsEventsFinder:
    """A finder of the rows events in a stream of events, which is passed to :meth:`find` in portions. The first event
    must be at a transaction boundary.

    From one call to the next, the finder remembers the valid Table_map events, whose statement has not ended.
    """

    def __init__(self, new_layouts: Callable[[], LayoutTable] = LayoutTable) -> None:
        self._new_layouts = new_layouts
        self.layouts = new_layouts()
        self._maps: Maps = {}
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
        """Return the rows events among the given events. With ``wanted``, only those for which ``wanted`` is true.

        Event k has the type ``type[k]`` and ``size[k]`` bytes from ``data[start[k]]`` (uint8) on, with its common
        header. ``fd``, the format description event, tells whether events end in a checksum. ``closes`` marks the
        events after which no earlier Table_map event is valid, such as the end of a transaction. Raises BinlogCorrupt
        or BinlogUnsupported, with the event's ``position``, when an event cannot be decoded. With ``position`` None
        such events are left out.
        """
        if self.layouts.column_count > _MOST_COLUMNS:
            self.layouts, self._maps = self._new_layouts(), self.maps_in_force
        is_wanted = _IS_ROWS[type] if wanted is None else _IS_ROWS[type] & wanted
        watched = np.flatnonzero(_WATCHED[type] | closes)
        first, last = start[watched] + HEADER_LENGTH, (start + size)[watched] - fd.checksum_length
        place = watched if position is None else position[watched]
        piece = _Piece(data.tobytes(), fd, self.layouts, self._maps)
        columns = (watched, place, type[watched], first, last, is_wanted[watched], closes[watched])
        piece.read(*(column.tolist() for column in columns), skips_errors=position is None)
        return piece.found(data)

    @property
    def maps_in_force(self) -> Maps:
        """A copy of the Table_map events that are valid after the last event given to the finder, by table id. Pass the
        copy to :meth:`restore_maps` to continue from this point again.
        """
        return {table_id: map._replace(known=None) for table_id, map in self._maps.items()}

    def restore_maps(self, maps: Maps) -> None:
        """Replace the valid Table_map events by ``maps``, an earlier value of :attr:`maps_in_force`, to continue the
        search from that earlier point.
        """
        self._maps = {**maps}

    def forget_maps(self) -> None:
        """Forget all Table_map events, for a search that continues at another transaction boundary."""
        self._maps.clear()


class _Map(NamedTuple):
    """A Table_map event: its content after the table id, its position, and the table if one is known."""

    content: bytes
    position: int
    known: KnownTable | None = None


_new_map = tuple.__new__
"""A function that makes a _Map from the class and a tuple of all fields. It takes half the time of ``_Map(…)``."""

Maps = dict[bytes, _Map]


class _Piece:
    """A piece of the stream. ``maps`` are the valid Table_map events: first those before the piece, then those after
    it.
    """

    def __init__(self, data: bytes, fd: FormatDescription, layouts: LayoutTable, maps: Maps) -> None:
        self._data, self._fd, self._layouts, self._maps = data, fd, layouts, maps
        self._map_length = fd.post_header_length(EventType.TABLE_MAP)
        self._id_length = 4 if self._map_length == ROWS_HEADER_LENGTH_V0 else 6
        self._key = fd.family, fd.post_header_lengths
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._opened: list[bytes] = []
        self._size = len(data)

    def read(self, *columns: Sequence[int], skips_errors: bool) -> None:
        """Read events: their number, position, type, begin and end of the body, whether the event is a wanted rows
        event, and whether no Table_map event is valid after it.

        Raises BinlogCorrupt or BinlogUnsupported for a rows event that cannot be decoded.
        """
        data, maps, known_tables, rows = self._data, self._maps, self._layouts.tables, self._rows
        id_length, head_length = self._id_length, self._id_length + _FLAGS_LENGTH
        for event, place, kind, first, last, is_wanted, closes in zip(*columns, strict=True):
            flags = first + id_length
            if kind == EventType.TABLE_MAP:
                content = data[flags:last]
                maps[data[first:flags]] = _new_map(
                    _Map, (content, place, known_tables.get((*self._key, content)))
                )
            elif is_wanted:
                layout = None
                map = maps.get(data[first:flags])
                if map is not None and map.known is not None:
                    # A comparison with the headers decoded before takes the place of decoding.
                    begin = first + map.known.plain.get(kind, 0)
                    layout = (
                        map.known.layouts.get((kind, data[first + head_length : begin]))
                        if begin <= last
                        else None
                    )
                if map is not None and layout is not None:
                    rows.append((event, layout, begin, last, map.position))
                else:
                    try:
                        self._decode(event, kind, first, last, map)
                    except BinlogError as error:
                        if not skips_errors:
                            raise error.located(None, place) from error
            if closes or (kind != EventType.TABLE_MAP and flags < last and data[flags] & STMT_END_F):
                maps.clear()

    def _decode(self, event: int, kind: int, first: int, last: int, map: _Map | None) -> None:
        body = self._data[first:last]
        header = decode_rows_header(kind, body, self._fd.post_header_length(kind) or None)
        if header.is_dummy:
            return
        if map is None:
            raise BinlogCorrupt(
                f"rows event: no Table_map event tells the columns of table id {header.table_id}"
            )
        known = self._layouts.tables.get((*self._key, map.content)) or self._describe(
            map, body[: self._id_length]
        )
        key = kind, body[self._id_length + _FLAGS_LENGTH : header.rows_offset]
        if key not in known.layouts:
            known.layouts[key] = self._layouts.add_layout(known, header)
        begin = first + header.rows_offset
        if header.compressed:
            opened = bytes(rows_data(header, body))
            self._opened.append(opened)
            begin, last = self._size, self._size + len(opened)
            self._size = last
        elif not header.extra:
            known.plain[kind] = header.rows_offset
        self._rows.append((event, known.layouts[key], begin, last, map.position))

    def _describe(self, map: _Map, table_id: bytes) -> KnownTable:
        try:
            table = decode_table_map(table_id + map.content, self._map_length)
            return self._layouts.add_table((*self._key, map.content), table, self._fd.family)
        except BinlogError as error:
            raise with_map(error, map.position) from error

    def found(self, data: Bytes) -> RowsEvents:
        """Return the rows events of the piece, whose bytes are ``data``, without those that could not be decoded."""
        if self._opened:
            data = np.concatenate((data, np.frombuffer(b"".join(self._opened), np.uint8)))
        event, layout, start, end, map = np.array(self._rows, np.int64).reshape(-1, 5).T.copy()
        return RowsEvents(event, layout, start, end, map, data)


class RowCounter:
    """A counter of the rows in the rows events of a stream, which is passed to :meth:`count` in portions. The first
    event must be at a transaction boundary.

    From one call to the next, the counter remembers the valid Table_map events and the columns of the tables.
    """

    def __init__(self) -> None:
        self._finder = RowsEventsFinder()

    def count(
        self, data: Bytes, start: Int64s, size: Int64s, type: Bytes, role: Bytes, fd: FormatDescription
    ) -> Int32s:
        """Return the number of rows of each event, int32.

        UNKNOWN stands for events that are not rows events, and for rows that cannot be counted. Rows cannot be counted
        if they are malformed, lack their table map, or are of a server before 5.1.18. Event k has ``size[k]`` bytes
        from ``data[start[k]]`` (uint8) on, and the event type ``type[k]``. ``role`` tells, among others, which events
        end a transaction (:class:`~dumpfilter.index.segment.Segment`). ``fd`` is the format description event.
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
    """Return a copy of the error about a rows event whose text also names the position of its Table_map event."""
    return type(error)(f"{error.what} (its Table_map event is at {position})")

"""The search for rows events in a stream. It finds the byte ranges of their rows and the layouts of their row images:
which columns an image has, and the sizes of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import BinlogCorrupt, BinlogError
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import rows_data
from dumpfilter.binlog.events import HEADER_LENGTH, ROWS, ROWS_V2, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.row_walk import UNKNOWN, count_rows
from dumpfilter.binlog.rows._alike import (
    FLAGS_LENGTH,
    MAP,
    OTHER,
    ROWS_ONE_BITMAP,
    ROWS_TWO_BITMAPS,
    ROWS_UNCOMPARED,
    Alike,
    find_alike,
)
from dumpfilter.binlog.rows.layouts import KnownTable, LayoutTable
from dumpfilter.binlog.rows_events import (
    ROWS_HEADER_LENGTH_V0,
    ROWS_HEADER_LENGTH_V2,
    RowsHeader,
    decode_rows_header,
    decode_table_map,
    is_pre_ga,
    rows_kind,
)

_MOST_COLUMNS = 1 << 18
"""The number of cached columns, of all tables and layouts, at which the cache is cleared. A column takes some 200
bytes of memory.
"""
_IS_MAP: npt.NDArray[np.bool_] = np.arange(256) == EventType.TABLE_MAP
_IS_ROWS: npt.NDArray[np.bool_] = np.isin(np.arange(256), [*ROWS])
_WATCHED = _IS_MAP | _IS_ROWS


def _class(type: int) -> int:
    if type == EventType.TABLE_MAP:
        return MAP
    if type not in ROWS:
        return OTHER
    if is_pre_ga(type) or EventType(type).kind.compressed:
        return ROWS_UNCOMPARED
    return ROWS_TWO_BITMAPS if rows_kind(type) == "update" else ROWS_ONE_BITMAP


_CLASS_OF = np.array([_class(type) for type in range(256)], np.uint8)

Bytes = npt.NDArray[np.uint8]
Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class RowsEvents(NamedTuple):
    """The rows events that :meth:`RowsEventsFinder.find` found, in stream order, as int64 columns with one entry for
    each event.
    """

    event: Int64
    """The index of the event in the arguments of :meth:`RowsEventsFinder.find`."""
    layout: Int64
    """The number of the layout of the event's row images in the :class:`LayoutTable`."""
    start: Int64
    end: Int64
    """The end of the byte range of the event's rows in :attr:`data`. ``start`` is its begin."""
    map: Int64
    """The position of the event's Table_map event."""
    data: Bytes
    """The bytes that the caller gave, followed by the uncompressed rows of events that MariaDB compressed."""


class RowsEventsFinder:
    """A finder of the rows events in a stream, given piece by piece. The first event must be at a transaction
    boundary.

    From one call to the next, the finder remembers the valid Table_map events, whose statement has not ended.
    """

    def __init__(self, new_layouts: Callable[[], LayoutTable] = LayoutTable) -> None:
        self._new_layouts = new_layouts
        self.layouts = new_layouts()
        self._maps: dict[bytes, _Map] = {}
        """The valid Table_map events, by table id."""

    def find(
        self,
        data: Bytes,
        start: Int64,
        size: Int64,
        type: Bytes,
        fd: FormatDescription,
        *,
        closes: Bools,
        wanted: Bools | None = None,
        position: Int64 | None = None,
    ) -> RowsEvents:
        """Return the rows events among the given events. With ``wanted``, only those for which ``wanted`` is true.

        Event k has ``size[k]`` bytes from ``data[start[k]]`` (uint8) on, with its common header and, if ``fd`` says so,
        its checksum. ``closes`` marks the events that end the validity of all Table_map events, such as the end of a
        transaction. Raises BinlogCorrupt or BinlogUnsupported, with the event's ``position``, when an event cannot be
        decoded. With ``position`` None such events are left out.
        """
        if self.layouts.column_count > _MOST_COLUMNS:
            self.layouts = self._new_layouts()
        watched = np.flatnonzero(_WATCHED[type] | closes)
        events = _Watched(
            data,
            type[watched],
            start[watched] + HEADER_LENGTH,
            (start + size)[watched] - fd.checksum_length,
            watched if position is None else position[watched],
            closes[watched],
            fd,
        )
        is_wanted = _IS_ROWS[events.type] if wanted is None else _IS_ROWS[events.type] & wanted[watched]
        search = _Search(events, self.layouts, self._maps)
        found = search.find(np.flatnonzero(is_wanted))
        if search.errors and position is not None:
            place, error = min(search.errors, key=lambda each: each[0])
            raise at_position(error, int(events.position[place])) from error
        if events.closed:
            self._maps.clear()
        self._maps.update(events.maps_in_force())
        return found._replace(event=watched[found.event])

    @property
    def maps_in_force(self) -> Maps:
        """A copy of the Table_map events that are valid after the last event, by table id. :meth:`restore_maps` takes
        it back.
        """
        return {**self._maps}

    def restore_maps(self, maps: Maps) -> None:
        """Make the Table_map events of an earlier :attr:`maps_in_force` valid again, and no others."""
        self._maps = {**maps}

    def forget_maps(self) -> None:
        """Forget all Table_map events, for a search that continues at another transaction boundary."""
        self._maps.clear()


class _Map(NamedTuple):
    """A Table_map event: its content after the table id, and its position."""

    content: bytes
    position: int


Maps = dict[bytes, _Map]


class _Watched:
    """The events of a piece of the stream that the search for rows needs, as columns: Table_map events, rows events,
    and events after which no Table_map event is valid.
    """

    def __init__(
        self,
        data: Bytes,
        type: Bytes,
        first: Int64,
        last: Int64,
        position: Int64,
        closes: Bools,
        fd: FormatDescription,
    ) -> None:
        self.data, self.raw, self.fd = data, data.tobytes(), fd
        self.type, self.first, self.last, self.position = type, first, last, position
        """Columns of the events: type, byte offsets of begin and end of the body in the data, and position in the file.
        """
        map_length = fd.post_header_length(EventType.TABLE_MAP)
        self.id_length = 4 if map_length == ROWS_HEADER_LENGTH_V0 else 6
        alike = Alike.of(len(first))
        self.map_of, self.same_as, self.length, self._before = alike[:4]
        self.closed = find_alike(
            data, first, last, type, _CLASS_OF, _has_extra(fd), closes, self.id_length, alike
        )

    def body(self, event: int) -> bytes:
        """Return the body of the event with the index ``event``."""
        return self.raw[self.first[event] : self.last[event]]

    def table_id(self, event: int) -> bytes:
        """Return the bytes of the table id of a Table_map event or rows event."""
        return self.body(event)[: self.id_length]

    def map(self, event: int) -> _Map:
        """Return event number ``event`` of this piece of the stream, which must be a Table_map event."""
        return _Map(self.body(event)[self.id_length :], int(self.position[event]))

    def earlier_map(self, event: int, maps: Mapping[bytes, _Map]) -> _Map | None:
        """Return the Table_map event of a rows event from ``maps``, the events that were valid before this piece of
        the stream.

        None if ``maps`` has no such event, or if an earlier event of this piece has ended the validity of ``maps``.
        """
        return None if self._before[event] else maps.get(self.table_id(event))

    def maps_in_force(self) -> dict[bytes, _Map]:
        """Return the Table_map events of this piece that are still valid at its end, by table id."""
        left = np.flatnonzero(_IS_MAP[self.type] & (self._before == self.closed))
        return {self.table_id(event): self.map(event) for event in left.tolist()}


class _Search:
    """A search for the layouts of the row images in the rows events of one piece of the stream."""

    def __init__(self, events: _Watched, layouts: LayoutTable, maps: Mapping[bytes, _Map]) -> None:
        self.errors: list[tuple[int, BinlogError]] = []
        """Events that cannot be decoded, by their index among the watched events."""
        self._events, self._layouts, self._maps = events, layouts, maps
        self._tables: dict[int, KnownTable] = {}
        """The tables by the index of the first Table_map event with their content."""
        self._single: list[tuple[int, int, int, int, int]] = []
        self._opened: list[bytes] = []
        self._size = events.data.size

    def find(self, rows: Int64) -> RowsEvents:
        """Return the rows events with the indices ``rows``, without the events whose layout cannot be determined."""
        events = self._events
        # One event stands for those whose table and header are equal, so that a comparison takes the place of decoding.
        _, first, of = np.unique(events.same_as[rows], return_index=True, return_inverse=True)
        layouts = np.array([self._layout_or_none(event) for event in rows[first].tolist()], np.int64)[of]
        alike, layout = rows[layouts >= 0], layouts[layouts >= 0]
        columns = (
            alike,
            layout,
            events.first[alike] + events.length[alike],
            events.last[alike],
            events.position[events.map_of[alike]],
        )
        single = np.array(self._single, np.int64).reshape(-1, len(columns)).T
        joined = [np.concatenate(both) for both in zip(columns, single, strict=True)]
        order = np.argsort(joined[0])
        data = events.data
        if self._opened:
            data = np.concatenate((data, np.frombuffer(b"".join(self._opened), np.uint8)))
        event, layout, start, end, map = (one[order] for one in joined)
        return RowsEvents(event, layout, start, end, map, data)

    def _layout_or_none(self, event: int) -> int:
        """Return the layout number that a group of rows events with equal headers shares; -1 if there is none.

        ``event`` is the first of the group. If it cannot be decoded, the error is added to ``errors``. An event whose
        header was not compared with others is a group of one. Its layout goes to the result directly, and -1 is
        returned.
        """
        try:
            if self._events.length[event]:
                return self._layout(event)
            self._find_one(event)
        except BinlogError as error:
            self.errors.append((event, error))
        return -1

    def _layout(self, event: int) -> int:
        events = self._events
        here = int(events.same_as[events.map_of[event]])
        known = self._tables.get(here)
        if known is None:
            known = self._tables[here] = self._known(event, events.map(int(events.map_of[event])))
        first = int(events.first[event])
        header = events.raw[first + events.id_length + FLAGS_LENGTH : first + int(events.length[event])]
        key = int(events.type[event]), header
        layout = known.by_header.get(key)
        if layout is None:
            layout = known.by_header[key] = self._layouts.layout(known, self._header(event))
        return layout

    def _header(self, event: int) -> RowsHeader:
        events, kind = self._events, int(self._events.type[event])
        return decode_rows_header(kind, events.body(event), events.fd.post_header_length(kind) or None)

    def _find_one(self, event: int) -> None:
        events, header = self._events, self._header(event)
        if header.is_dummy:
            return
        here = int(events.map_of[event])
        map = events.map(here) if here >= 0 else events.earlier_map(event, self._maps)
        if map is None:
            raise BinlogCorrupt(
                f"rows event: no Table_map event tells the columns of table id {header.table_id}"
            )
        layout = self._layouts.layout(self._known(event, map), header)
        start, end = int(events.first[event]) + header.rows_offset, int(events.last[event])
        if header.compressed:
            rows = bytes(rows_data(header, events.body(event)))
            self._opened.append(rows)
            start, end = self._size, self._size + len(rows)
            self._size = end
        self._single.append((event, layout, start, end, map.position))

    def _known(self, event: int, map: _Map) -> KnownTable:
        events = self._events
        key = events.fd.family, map.content
        known = self._layouts.tables.get(key)
        if known is None:
            try:
                length = events.fd.post_header_length(EventType.TABLE_MAP)
                table = decode_table_map(events.table_id(event) + map.content, length)
                known = self._layouts.add_table(key, table, events.fd.family)
            except BinlogError as error:
                raise with_map(error, map.position) from error
        return known


def _has_extra(fd: FormatDescription) -> Bools:
    """Return for each of the 256 event types whether the header of its rows events has extra data, bool.

    The length of the type's post-header in ``fd`` decides. Without a length, the type's version does.
    """
    found = np.zeros(256, np.bool_)
    for kind in ROWS:
        length = fd.post_header_length(kind)
        found[kind] = length == ROWS_HEADER_LENGTH_V2 if length else kind in ROWS_V2
    return found


class RowCounter:
    """A counter of the rows in the rows events of a stream, given piece by piece. The first event must be at a
    transaction boundary.

    From one piece of the stream to the next, the counter remembers the valid Table_map events and the columns of the
    tables.
    """

    def __init__(self) -> None:
        self._finder = RowsEventsFinder()

    def count(
        self, data: Bytes, start: Int64, size: Int64, type: Bytes, role: Bytes, fd: FormatDescription
    ) -> npt.NDArray[np.int32]:
        """Return the number of rows of each event, int32.

        UNKNOWN stands for events that are not rows events, and for rows that cannot be counted. Rows cannot be
        counted if they are malformed, lack their table map, or are of a server before 5.1.18. Event k has ``size[k]``
        bytes from ``data[start[k]]`` (uint8) on. The other columns are the columns of a
        :class:`~dumpfilter.index.segment.Segment`.
        """
        counts: npt.NDArray[np.int32] = np.full(start.size, UNKNOWN, np.int32)
        is_dummy = role & R.ROLE_MASK == R.DUMMY_ROWS
        counts[is_dummy] = 0
        closes = (role & R.ENDS != 0) | is_dummy
        found = self._finder.find(data, start, size, type, fd, closes=closes, wanted=~is_dummy)
        if found.event.size:
            layouts = self._finder.layouts.arrays()
            counts[found.event] = count_rows(found.data, found.start, found.end, found.layout, layouts)
        return counts


def at_position(error: BinlogError, position: int) -> BinlogError:
    """Return a copy of ``error`` that names the position of the bad event."""
    return type(error)(error.what, file=error.file, position=position)


def with_map(error: BinlogError, position: int) -> BinlogError:
    """Return a copy of the error about a rows event whose text also names the position of its Table_map event."""
    return type(error)(f"{error.what} (its Table_map event is at {position})")

"""The rows events of a stream: where their rows lie, and in which layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import rows_data
from dumpfilter.binlog.events import HEADER_LENGTH, ROWS, STMT_END_F, EventType
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.binlog.row_walk import UNKNOWN, count_rows
from dumpfilter.binlog.rows import ROWS_HEADER_LENGTH_V0, decode_rows_header, decode_table_map
from dumpfilter.errors import BinlogCorrupt, BinlogError
from dumpfilter.rows.layouts import KnownTable, LayoutTable, TableKey
from dumpfilter.rows.table import Table

_MOST_COLUMNS = 1 << 18
"""The number of columns, of all tables and layouts, at which they are forgotten. A column takes some 200 bytes."""
_ROWS = frozenset(map(int, ROWS))
_IS_MAP: npt.NDArray[np.bool_] = np.arange(256) == EventType.TABLE_MAP
_IS_ROWS: npt.NDArray[np.bool_] = np.isin(np.arange(256), [*ROWS])
_WATCHED = _IS_MAP | _IS_ROWS

Bytes = npt.NDArray[np.uint8]
Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class RowsEvents:
    """The rows events found: where their rows lie, and the numbers of their layouts."""

    def __init__(self, data: Bytes) -> None:
        self.data = data
        self.event: list[int] = []
        self.layout: list[int] = []
        self.start: list[int] = []
        self.end: list[int] = []
        self.map: list[int] = []
        """The position of each event's Table_map event."""
        self._opened: list[bytes] = []
        self._size = data.size

    def add(self, event: int, layout: int, table: int, start: int, end: int) -> None:
        """Add an event whose rows lie in the data. ``table`` is the position of its Table_map event."""
        self.event.append(event)
        self.layout.append(layout)
        self.start.append(start)
        self.end.append(end)
        self.map.append(table)

    def add_opened(self, event: int, layout: int, table: int, rows: bytes) -> None:
        """Add an event with rows that MariaDB had compressed."""
        self.add(event, layout, table, self._size, self._size + len(rows))
        self._opened.append(rows)
        self._size += len(rows)

    def all_data(self) -> Bytes:
        """Return the data, followed by the uncompressed rows."""
        if not self._opened:
            return self.data
        return np.concatenate((self.data, np.frombuffer(b"".join(self._opened), np.uint8)))


class RowsEventsFinder:
    """The search for the rows events of a stream, which begins between two transactions.

    From one call to the next, the search remembers the Table_map events in force. The parameters are those of
    :class:`LayoutTable`.
    """

    def __init__(
        self, names: Sequence[str] = (), check: Callable[[Table, Family], None] | None = None
    ) -> None:
        self._new_layouts = partial(LayoutTable, names, check)
        self.layouts = self._new_layouts()
        self._maps: dict[bytes, tuple[TableKey, int]] = {}
        """The tables and positions of the Table_map events in force, by table id."""

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
        """Return the rows events among the events given, if ``wanted`` is None or true for them.

        Event k has ``size[k]`` bytes from ``data[start[k]]`` (uint8) on, with its common header and, if ``fd`` says so,
        its checksum. After the events for which ``closes`` is true no Table_map event is in force.

        Raises BinlogCorrupt or BinlogUnsupported, with the event's ``position``, when an event cannot be decoded.
        Without positions such events are left out.
        """
        if self.layouts.column_count > _MOST_COLUMNS:
            self.layouts = self._new_layouts()
        found = RowsEvents(data)
        raw = data.tobytes()
        watched = np.flatnonzero(_WATCHED[type] | closes)
        is_wanted = _IS_ROWS[type] if wanted is None else _IS_ROWS[type] & wanted
        first = start[watched] + HEADER_LENGTH
        end = (start + size)[watched] - fd.checksum_length
        places = watched if position is None else position[watched]
        id_length = _id_length(fd)
        columns = (
            watched,
            type[watched],
            _IS_MAP[type[watched]],
            is_wanted[watched],
            closes[watched],
            first,
            end,
            places,
        )
        maps, family = self._maps, fd.family
        for k, kind, is_map, is_wanted, closes_all, at, last, place in zip(
            *(one.tolist() for one in columns), strict=True
        ):
            body_at = at + id_length
            if is_map:
                maps[raw[at:body_at]] = (family, raw[body_at:last]), place
                continue
            if is_wanted:
                try:
                    self._add(found, k, kind, raw, at, last, id_length, fd)
                except BinlogError as error:
                    if position is not None:
                        raise at_position(error, place) from error
            if closes_all or (kind in _ROWS and last > body_at and raw[body_at] & STMT_END_F):
                maps.clear()
        return found

    def _add(
        self,
        found: RowsEvents,
        k: int,
        kind: int,
        raw: bytes,
        at: int,
        last: int,
        id_length: int,
        fd: FormatDescription,
    ) -> None:
        mapped = self._maps.get(raw[at : at + id_length])
        known, place = None, 0
        if mapped is not None:
            key, place = mapped
            known = self.layouts.tables.get(key) or self._new_table(raw[at : at + id_length], key, place, fd)
            # Most events of a table have equal headers, so that a look-up takes the place of decoding.
            header = known.header_lengths.get(kind)
            if header is not None:
                layout = known.by_header.get((kind, raw[at + id_length + 2 : at + header]))
                if layout is not None:
                    found.add(k, layout, place, at + header, last)
                    return
        body = raw[at:last]
        rows = decode_rows_header(kind, body, fd.post_header_length(kind) or None)
        if rows.is_dummy:
            return
        if known is None:
            raise BinlogCorrupt(
                f"rows event: no Table_map event tells the columns of table id {rows.table_id}"
            )
        layout = self.layouts.layout(known, rows)
        if rows.compressed:
            found.add_opened(k, layout, place, bytes(rows_data(rows, body)))
            return
        if not rows.extra:
            known.header_lengths[kind] = rows.rows_offset
            known.by_header[kind, body[id_length + 2 : rows.rows_offset]] = layout
        found.add(k, layout, place, at + rows.rows_offset, last)

    def _new_table(self, table_id: bytes, key: TableKey, position: int, fd: FormatDescription) -> KnownTable:
        try:
            table = decode_table_map(table_id + key[1], fd.post_header_length(EventType.TABLE_MAP))
            return self.layouts.add_table(key, table, fd.family)
        except BinlogError as error:
            raise with_map(error, position) from error


class RowCounter:
    """A counter of the rows in the rows events of a stream, which begins between two transactions.

    From one piece of the stream to the next, the counter remembers the Table_map events in force and the columns of
    the tables.
    """

    def __init__(self) -> None:
        self._finder = RowsEventsFinder()

    def count(
        self, data: Bytes, start: Int64, size: Int64, type: Bytes, role: Bytes, fd: FormatDescription
    ) -> npt.NDArray[np.int32]:
        """Return the number of rows of each event, int32.

        The number is UNKNOWN for events that are not rows events, and for rows that cannot be counted: without a table
        map, malformed, or of a server before 5.1.18.

        Event k has ``size[k]`` bytes from ``data[start[k]]`` (uint8) on. The other columns are those of a
        :class:`~dumpfilter.index.segment.Segment`, all of one length.
        """
        counts: npt.NDArray[np.int32] = np.full(start.size, UNKNOWN, np.int32)
        is_dummy = role & R.ROLE_MASK == R.DUMMY_ROWS
        counts[is_dummy] = 0
        closes = (role & R.ENDS != 0) | is_dummy
        found = self._finder.find(data, start, size, type, fd, closes=closes, wanted=~is_dummy)
        if found.event:
            first, end, layout = (np.array(one, np.int64) for one in (found.start, found.end, found.layout))
            layouts, _ = self._finder.layouts.arrays()
            counts[found.event] = count_rows(found.all_data(), first, end, layout, layouts)
        return counts


def at_position(error: BinlogError, position: int) -> BinlogError:
    """Return the error with the position of the event that it is about."""
    return type(error)(error.what, file=error.file, position=position)


def with_map(error: BinlogError, position: int) -> BinlogError:
    """Return the error of a rows event with the position of its Table_map event."""
    return type(error)(f"{error.what} (its Table_map event is at {position})")


def _id_length(fd: FormatDescription) -> int:
    return 4 if fd.post_header_length(EventType.TABLE_MAP) == ROWS_HEADER_LENGTH_V0 else 6

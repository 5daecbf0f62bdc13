"""The reader of row images: rows events in, Arrow arrays of changed rows out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dumpfilter.binlog.compression import rows_data
from dumpfilter.binlog.events import GTIDS, HEADER_LENGTH, ROWS, STMT_END_F, EventType
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.binlog.rows import ROWS_HEADER_LENGTH_V0, TableMap, decode_rows_header, decode_table_map
from dumpfilter.errors import BinlogCorrupt, BinlogError
from dumpfilter.rows._cell_kernels import columns_of_cells
from dumpfilter.rows.cells import RowsError, documents_before, find_cells
from dumpfilter.rows.layouts import AFTER, BEFORE, KnownTable, LayoutTable, TableKey
from dumpfilter.rows.structs import Images, maps, structs
from dumpfilter.rows.table import Table
from dumpfilter.rows.texts import NO_DOCUMENTS, CellError

_MOST_COLUMNS = 1 << 18
"""The number of columns, of all tables and layouts, at which the reader forgets them. A column takes some 200 bytes."""
_ENDS = GTIDS | {EventType.XID}
"""The events after which no Table_map event is in force."""
_WATCHED: npt.NDArray[np.bool_] = np.isin(np.arange(256), [EventType.TABLE_MAP, *ROWS, *_ENDS])
_COMPRESSED = frozenset(kind for kind in ROWS if kind.kind.compressed)

Bytes = npt.NDArray[np.uint8]
Int64 = npt.NDArray[np.int64]


class ChangedRows(NamedTuple):
    """The changed rows of many rows events, one entry for each row, in the order of the events."""

    event: Int64
    """The number of the rows event that each row belongs to, ascending."""
    before: pa.MapArray
    """The rows before the change (:data:`dumpfilter.rows.MAP_TYPE`, or a struct); null for inserted rows."""
    after: pa.MapArray
    """The rows after the change (:data:`dumpfilter.rows.MAP_TYPE`, or a struct); null for deleted rows.

    With ``binlog_row_image=MINIMAL`` the after-image of an update has the changed columns only.
    """


class _Mapped(NamedTuple):
    """A Table_map event in force."""

    key: TableKey
    table: TableMap
    position: int
    """The position of the event in the file."""


class _RowsEvents:
    """The rows events to decode: where their rows lie, and their layouts."""

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
        data = self.data
        if self._opened:
            data = np.concatenate((data, np.frombuffer(b"".join(self._opened), np.uint8)))
        # numba compiles separate versions of a function for read-only and writable buffers.
        data = data.view()
        data.flags.writeable = False
        return data


class RowImageReader:
    """A reader of the row images in a stream of events, which begins between two transactions.

    From one call to the next, the reader remembers the Table_map events in force.

    Parameters:
        types: the struct types of the rows before and after the change; None: maps of texts. Only the rows of one table
            should be wanted then (:func:`dumpfilter.rows.typed.struct_of`).
        names: the names of the columns, in order, of tables whose binlog does not tell names.
        check: called with each version of a table whose rows are wanted. May raise a BinlogError.
        invalid_dates: counts, by the name of the column, the dates that are null in a struct since no calendar has
            them.
    """

    def __init__(
        self,
        types: tuple[pa.StructType, pa.StructType] | None = None,
        *,
        names: Sequence[str] = (),
        check: Callable[[Table, Family], None] | None = None,
        invalid_dates: Counter[str] | None = None,
    ) -> None:
        self._check = check
        self._invalid_dates: Counter[str] = Counter() if invalid_dates is None else invalid_dates
        self._maps: dict[int, _Mapped] = {}
        self._types = types
        self._names = names
        self._layouts = LayoutTable(names=names)

    def read(
        self,
        data: Bytes,
        start: Int64,
        size: Int64,
        type: Bytes,
        position: Int64,
        fd: FormatDescription,
        *,
        wanted: npt.NDArray[np.bool_] | None = None,
    ) -> ChangedRows:
        """Return the changed rows of all rows events among the events given.

        Event k has ``size[k]`` bytes from ``data[start[k]]`` (uint8) on, with its common header and, if ``fd`` says so,
        its checksum. ``type`` has the events' types, and ``position`` their positions in the file, for errors. With
        ``wanted`` only the rows events for which it is true are decoded. Raises BinlogCorrupt or BinlogUnsupported with
        the event's position when an event cannot be decoded.
        """
        if self._layouts.column_count > _MOST_COLUMNS:
            self._layouts = LayoutTable(names=self._names)
        events = _RowsEvents(data)
        view = memoryview(np.ascontiguousarray(data))  # type: ignore[arg-type]
        id_length = _id_length(fd)
        for k in np.flatnonzero(_WATCHED[type]).tolist():
            first = int(start[k]) + HEADER_LENGTH
            body = view[first : int(start[k]) + int(size[k]) - fd.checksum_length]
            kind = int(type[k])
            try:
                if kind == EventType.TABLE_MAP:
                    self._map(body, id_length, fd, int(position[k]))
                elif kind in _ENDS:
                    self._maps.clear()
                else:
                    if wanted is None or wanted[k]:
                        self._rows(events, k, kind, body, first, fd)
                    if len(body) > id_length and body[id_length] & STMT_END_F:
                        self._maps.clear()
            except BinlogError as error:
                raise _at(error, int(position[k])) from error
        return self._decode(events, position)

    def _map(self, body: memoryview, id_length: int, fd: FormatDescription, position: int) -> None:
        table_id = int.from_bytes(body[:id_length], "little")
        # The table id differs between equal tables. The rest of the event is the table.
        key = (fd.family, bytes(body[id_length:]))
        known = self._layouts.tables.get(key)
        table = known.map if known else decode_table_map(body, fd.post_header_length(EventType.TABLE_MAP))
        self._maps[table_id] = _Mapped(key, table, position)

    def _rows(
        self, events: _RowsEvents, k: int, kind: int, body: memoryview, first: int, fd: FormatDescription
    ) -> None:
        id_length = _id_length(fd)
        mapped = self._maps.get(int.from_bytes(body[:id_length], "little"))
        known, place = None, 0
        if mapped is not None:
            known, place = self._known(mapped, fd), mapped.position
            # Most events of a table have equal headers, so that a look-up takes the place of decoding.
            header = known.header_lengths.get(kind)
            if header is not None:
                layout = known.by_header.get((kind, bytes(body[id_length + 2 : header])))
                if layout is not None:
                    events.add(k, layout, place, first + header, first + len(body))
                    return
        rows = decode_rows_header(kind, body, fd.post_header_length(kind) or None)
        if rows.is_dummy:
            return
        if known is None:
            raise BinlogCorrupt(
                f"rows event: no Table_map event tells the columns of table id {rows.table_id}"
            )
        layout = self._layouts.layout(known, rows)
        if rows.compressed:
            events.add_opened(k, layout, place, bytes(rows_data(rows, body)))
            return
        if not rows.extra:
            known.header_lengths[kind] = rows.rows_offset
            known.by_header[kind, bytes(body[id_length + 2 : rows.rows_offset])] = layout
        events.add(k, layout, place, first + rows.rows_offset, first + len(body))

    def _known(self, mapped: _Mapped, fd: FormatDescription) -> KnownTable:
        known = self._layouts.tables.get(mapped.key)
        if known is not None:
            return known
        try:
            known = self._layouts.add_table(mapped.key, mapped.table, fd.family)
            if self._check is not None:
                self._check(known.table, fd.family)
        except BinlogError as error:
            raise _with_map(error, mapped.position) from error
        return known

    def _decode(self, events: _RowsEvents, position: Int64) -> ChangedRows:
        data = events.all_data()
        layouts, columns = self._layouts.arrays()
        layout_of = np.array(events.layout, np.int64)
        of_event = np.array(events.event, np.int64)
        try:
            found = find_cells(
                data, np.array(events.start, np.int64), np.array(events.end, np.int64), layout_of, layouts
            )
        except RowsError as error:
            # The Table_map event may be the damaged one: it tells where each value ends.
            what = _with_map(error.error, events.map[error.event])
            raise _at(what, int(position[of_event[error.event]])) from error.error
        places = documents_before(found, layout_of, layouts)
        starts, lengths = found.before.start, found.before.length
        documents = {cell: (int(starts[place]), int(lengths[place])) for cell, place in places.items()}
        event = of_event[found.row_event]
        images = layouts.images[layout_of[found.row_event]]
        made = []
        for number, (bit, cells, layout_at, columns_of, changed) in enumerate(
            (
                (BEFORE, found.before, layouts.before, columns.before, NO_DOCUMENTS),
                (AFTER, found.after, layouts.after, columns.after, documents),
            )
        ):
            column = np.empty(cells.start.size, np.int64)
            columns_of_cells(found.row_event, layout_of, layout_at, columns_of, cells.row, column)
            try:
                made.append(self._images(data, Images(images & bit != 0, cells, column, changed), number))
            except CellError as error:
                row = int(np.searchsorted(cells.row, error.cell, "right")) - 1
                raise _at(error.error, int(position[event[row]])) from error.error
        return ChangedRows(event, *made)

    def _images(self, data: Bytes, images: Images, number: int) -> pa.Array:
        forms = self._layouts.forms()
        if self._types is not None:
            described = self._layouts.described
            return structs(data, images, forms, described, self._types[number], self._invalid_dates)
        return maps(data, images, forms)


def _id_length(fd: FormatDescription) -> int:
    return 4 if fd.post_header_length(EventType.TABLE_MAP) == ROWS_HEADER_LENGTH_V0 else 6


def _at(error: BinlogError, position: int) -> BinlogError:
    return type(error)(error.what, file=error.file, position=position)


def _with_map(error: BinlogError, position: int) -> BinlogError:
    return type(error)(f"{error.what} (its Table_map event is at {position})")

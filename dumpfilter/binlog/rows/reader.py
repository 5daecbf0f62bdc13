"""The decoder of row images: it reads rows events and returns the changed rows as Arrow arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dumpfilter.binlog.events import GTIDS, EventType
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.binlog.row_image import AFTER, BEFORE
from dumpfilter.binlog.row_walk import NULL, RowsError, find_rows
from dumpfilter.binlog.rows.events import LayoutTable, RowsEvents, RowsEventsFinder, with_map
from dumpfilter.binlog.rows.structs import Images
from dumpfilter.binlog.rows.table import Table, describe_table
from dumpfilter.binlog.rows.texts import CellError, Documents
from dumpfilter.binlog.rows.typed import with_names
from dumpfilter.binlog.rows_events import TableMap

_ENDS: npt.NDArray[np.bool_] = np.isin(np.arange(256), [*GTIDS, EventType.XID])
"""For each event type, whether no earlier Table_map event is valid after such an event: GTID events and Xid."""

Bytes = npt.NDArray[np.uint8]
Int64 = npt.NDArray[np.int64]


class ChangedRows(NamedTuple):
    """The changed rows of many rows events: for each row its event, and its content before and after the change. The
    rows are in the order of the events.
    """

    event: Int64
    """The index of the rows event to which each row belongs, ascending."""
    before: pa.MapArray
    """The rows before the change (:data:`dumpfilter.binlog.rows.MAP_TYPE`, or a struct); null for inserted rows."""
    after: pa.MapArray
    """The rows after the change (:data:`dumpfilter.binlog.rows.MAP_TYPE`, or a struct); null for deleted rows.

    With ``binlog_row_image=MINIMAL`` the after-image of an update has the changed columns only.
    """


class RowImageReader:
    """A decoder of the row images in a stream of events. The first event given must stand at a transaction boundary.

    From one call to the next, the reader remembers the valid Table_map events, whose statement has not ended.

    Parameters:
        types: the struct types of the rows before and after the change; None: maps of texts. With struct types, only
            the rows of one table should be wanted (:func:`dumpfilter.binlog.rows.typed.struct_of`).
        names: the column names, in order, for tables whose binlog has no names.
        check: called with each version of a table whose rows are wanted. May raise a BinlogError.
        invalid_dates: a counter, by column name, of the dates that become null in a struct because the calendar lacks
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
        start: Int64,
        size: Int64,
        type: Bytes,
        position: Int64,
        fd: FormatDescription,
        *,
        wanted: npt.NDArray[np.bool_] | None = None,
    ) -> ChangedRows:
        """Return the changed rows of all rows events among the given events.

        Event k has ``size[k]`` bytes from ``data[start[k]]`` (uint8) on, with its common header and, if ``fd`` says so,
        its checksum. ``type`` has the events' types, and ``position`` their byte offsets in the file, for errors. With
        ``wanted`` only the rows events for which it is true are decoded. Raises BinlogCorrupt or BinlogUnsupported with
        the event's position when an event cannot be decoded.
        """
        found = self._finder.find(
            data, start, size, type, fd, closes=_ENDS[type], wanted=wanted, position=position
        )
        return self._decode(found, position)

    def _decode(self, events: RowsEvents, position: Int64) -> ChangedRows:
        layouts = self._finder.layouts.arrays()
        of_event, layout_of, start, end, _, data = events
        try:
            found = find_rows(data, start, end, layout_of, layouts)
        except RowsError as error:
            # The Table_map event may be the damaged one: it tells where each value ends.
            what = with_map(error.error, int(events.map[error.event]))
            raise what.located(None, int(position[of_event[error.event]])) from error.error
        event, layout = of_event[found.event], layout_of[found.event]
        row = np.repeat(np.arange(event.size), np.diff(found.cell))
        # The index of each cell's column among the columns of all layouts.
        place = np.arange(row.size) + (layouts.first[layout] - found.cell[:-1])[row]
        is_after = place >= layouts.second[layout][row]
        documents = _documents(found.length, layouts.document[place], found.start, found.cell[row])
        styled, described = self._finder.layouts.styled(), self._finder.layouts.described
        made = []
        for number, bit in enumerate((BEFORE, AFTER)):
            chosen = np.flatnonzero(is_after == bool(number))
            changed = {
                int(np.searchsorted(chosen, cell)): place for cell, place in documents.items() if number
            }
            columns = row[chosen], found.start[chosen], found.length[chosen], found.column[chosen]
            images = Images(data, styled, described, layouts.images[layout] & bit != 0, *columns, changed)
            try:
                if self._types is None:
                    made.append(images.maps())
                else:
                    made.append(images.structs(self._types[number], self._invalid_dates))
            except CellError as error:
                wrong = int(row[chosen[error.cell]])
                raise error.error.located(None, int(position[event[wrong]])) from error.error
        return ChangedRows(event, *made)


def _documents(length: Int64, document: npt.NDArray[np.int32], start: Int64, first: Int64) -> Documents:
    """Return the byte ranges (offset, size) of the JSON documents that partial updates change, by the index of the
    cell with the changes.

    ``document`` has, for each cell, the index of the document's cell within the row, or -1. ``first`` is the index of
    the row's first cell. Changes whose before-image lacks the column, or has NULL there, are left out.
    """
    changes = np.flatnonzero((length < NULL) & (document >= 0))
    before = first[changes] + document[changes]
    places = zip(changes.tolist(), start[before].tolist(), length[before].tolist(), strict=True)
    return {cell: (at, size) for cell, at, size in places if size >= 0}

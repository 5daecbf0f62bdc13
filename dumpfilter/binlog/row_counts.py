"""The number of rows in the rows events of a stream, counted by compiled code without a Python object for each event.

:mod:`dumpfilter.binlog.row_image` finds the rows of one event. This module counts the rows of all events of a segment
(consecutive events scanned at once).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import _row_count_kernels as K
from dumpfilter.binlog.compression import rows_data
from dumpfilter.binlog.events import HEADER_LENGTH, ROWS, ROWS_V2, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.row_image import ColumnPlan
from dumpfilter.binlog.rows import (
    ROWS_HEADER_LENGTH_V2,
    decode_rows_header,
    decode_table_map,
    is_pre_ga,
    rows_kind,
)
from dumpfilter.errors import BinlogError

UNKNOWN = K.UNKNOWN
"""The count of an event that is not a rows event, or whose rows cannot be counted."""

_CHANGES = {"insert": K.INSERT, "update": K.UPDATE, "delete": K.DELETE}


def _kinds() -> npt.NDArray[np.uint8]:
    found: npt.NDArray[np.uint8] = np.zeros(256, np.uint8)
    for kind in ROWS:
        found[kind] = (
            _CHANGES[rows_kind(kind)]
            + K.COMPRESSED * kind.kind.compressed
            + K.PARTIAL * (kind == EventType.PARTIAL_UPDATE_ROWS)
            + K.UNCOUNTED * is_pre_ga(kind)
        )
    return found


_EVENT_KINDS = _kinds()
_NOTHING: npt.NDArray[np.uint8] = np.frombuffer(b"", np.uint8)


class RowCounter:
    """A counter of the rows in the rows events of a stream, which begins between two transactions.

    From one piece of the stream to the next, the counter remembers the Table_map events in force and the columns of
    the tables.
    """

    def __init__(self) -> None:
        self._plan_numbers: dict[bytes, int] = {}
        """The number of the plan (the sizes of a table's columns) for each list of column types and metadata."""
        self._plans = K.Plans(
            of_subject=np.full(1024, -1, np.int32),
            shapes=np.empty(0, np.uint8),
            shape_start=np.zeros(1, np.int64),
            column_sizes=np.empty(0, np.int32),
            column_start=np.zeros(1, np.int64),
            json_columns=np.empty(0, np.int32),
        )
        self._scratch: npt.NDArray[np.int32] = np.empty((2, 64), np.int32)
        self._maps = K.OpenMaps(np.zeros(256, np.int64), np.zeros(256, np.int32))
        self._open_maps = 0

    def count(
        self,
        data: npt.NDArray[np.uint8],
        start: npt.NDArray[np.int64],
        size: npt.NDArray[np.int64],
        type: npt.NDArray[np.uint8],
        role: npt.NDArray[np.uint8],
        subject: npt.NDArray[np.int32],
        fd: FormatDescription,
    ) -> npt.NDArray[np.int32]:
        """Return the number of rows of each event, int32.

        :data:`UNKNOWN` stands for events that are not rows events, and for rows that cannot be counted: without a
        table map, malformed, or of a server before 5.1.18.

        Event k has ``size[k]`` bytes from ``data[start[k]]`` (uint8) on. The other columns are those of a
        :class:`~dumpfilter.index.segment.Segment`, all of one length.
        """
        counts: npt.NDArray[np.int32] = np.full(start.size, UNKNOWN, np.int32)
        if start.size:
            self._make_room_for(int(subject.max()))
        data = data.view()
        # numba compiles separate versions of a function for read-only and writable buffers. A view that is always
        # read-only saves the second version.
        data.flags.writeable = False
        id_length = 4 if fd.post_header_length(EventType.TABLE_MAP) == 6 else 6
        events = K.Events(data, start, size, type, role, subject)
        format = K.Format(fd.checksum_length, id_length, _header_lengths(fd), _EVENT_KINDS)
        opened = K.Opened(-1, _NOTHING, True)
        i, looked_ahead = 0, False
        while True:
            stop, i, self._open_maps = K.count_rows(
                events, format, self._plans, self._maps, self._open_maps, opened, self._scratch, counts, i
            )
            if stop == K.Stop.DONE:
                return counts
            if stop == K.Stop.MORE_MAPS:
                self._maps = K.OpenMaps._make(np.concatenate((one, np.zeros_like(one))) for one in self._maps)
                continue
            if stop == K.Stop.NEW_SHAPE:
                # Each return of the compiled count to Python costs as much as counting a hundred events. Therefore
                # the first return looks ahead for all new tables of the segment.
                new_tables = [] if looked_ahead else self._new_tables(events, i)
                looked_ahead = True
                for k in {i, *new_tables}:
                    self._learn_shape(events, k, id_length, fd)
            else:
                body = _body(events, i, fd).tobytes()
                found = _open(int(type[i]), body, fd)
                opened = K.Opened(i, _NOTHING if found is None else found, found is not None)

    def _new_tables(self, events: K.Events, first: int) -> list[int]:
        subjects = events.subject[first:]
        maps = np.flatnonzero((events.type[first:] == EventType.TABLE_MAP) & (subjects >= 0))
        maps = maps[self._plans.of_subject[subjects[maps]] < 0]
        return [first + int(maps[k]) for k in np.unique(subjects[maps], return_index=True)[1]]

    def _learn_shape(self, events: K.Events, i: int, id_length: int, fd: FormatDescription) -> None:
        body = _body(events, i, fd)
        first, last = K.shape_of(body, 0, body.size, id_length)
        if first < 0:
            return
        shape = body[first:last].tobytes()
        if shape not in self._plan_numbers:
            self._add_plan(shape, body.tobytes(), fd)
        self._plans.of_subject[events.subject[i]] = self._plan_numbers[shape]

    def _make_room_for(self, subject: int) -> None:
        known = self._plans.of_subject
        if subject >= known.size:
            more = np.full(2 * subject - known.size, -1, np.int32)
            self._plans = self._plans._replace(of_subject=np.concatenate((known, more)))

    def _add_plan(self, shape: bytes, body: bytes, fd: FormatDescription) -> None:
        try:
            plan = ColumnPlan.from_table_map(
                decode_table_map(body, fd.post_header_length(EventType.TABLE_MAP))
            )
            sizes, json_columns = plan.sizes, plan.json_columns
        except BinlogError:
            # The slave reports a Table_map event with impossible columns. The count only leaves out the rows of its
            # table.
            sizes, json_columns = np.empty(0, np.int32), -1
        old = self._plans
        self._plan_numbers[shape] = len(self._plan_numbers)
        shapes = np.concatenate((old.shapes, np.frombuffer(shape, np.uint8)))
        column_sizes = np.concatenate((old.column_sizes, sizes))
        self._plans = K.Plans(
            of_subject=old.of_subject,
            shapes=shapes,
            shape_start=np.append(old.shape_start, shapes.size),
            column_sizes=column_sizes,
            column_start=np.append(old.column_start, column_sizes.size),
            json_columns=np.append(old.json_columns, np.int32(json_columns)),
        )
        if sizes.size > self._scratch.shape[1]:
            self._scratch = np.empty((2, sizes.size), np.int32)


def _header_lengths(fd: FormatDescription) -> npt.NDArray[np.uint8]:
    return np.array(
        [
            fd.post_header_length(kind) or (ROWS_HEADER_LENGTH_V2 if kind in ROWS_V2 else 0)
            for kind in range(256)
        ],
        np.uint8,
    )


def _body(events: K.Events, i: int, fd: FormatDescription) -> npt.NDArray[np.uint8]:
    start = int(events.start[i])
    return events.data[start + HEADER_LENGTH : start + int(events.size[i]) - fd.checksum_length]


def _open(type: int, body: bytes, fd: FormatDescription) -> npt.NDArray[np.uint8] | None:
    try:
        rows = decode_rows_header(type, body, fd.post_header_length(type) or None)
        return np.frombuffer(bytes(rows_data(rows, body)), np.uint8)
    except BinlogError:
        return None

"""How many rows the rows events of a stream hold, counted without a Python object an event.

Where a row ends is :mod:`dumpfilter.binlog.row_image`'s to tell; this is the same knowledge for whole segments.
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
"""The count of an event that has no rows, or whose rows cannot be counted."""

_KINDS = {"insert": 1, "update": 2, "delete": 3}


def _kinds() -> npt.NDArray[np.uint8]:
    found: npt.NDArray[np.uint8] = np.zeros(256, np.uint8)
    for kind in ROWS:
        found[kind] = (
            _KINDS[rows_kind(kind)]
            + 8 * kind.kind.compressed
            + 16 * (kind == EventType.PARTIAL_UPDATE_ROWS)
            + 32 * is_pre_ga(kind)
        )
    return found


_EVENT_KINDS = _kinds()
_NOTHING: npt.NDArray[np.uint8] = np.frombuffer(b"", np.uint8)


class RowCounter:
    """Counts through a stream that begins at a transaction boundary; it remembers the table maps in force from one
    piece to the next, and the shapes of the tables it has met."""

    def __init__(self) -> None:
        self._subject_plan: npt.NDArray[np.int32] = np.full(1024, -1, np.int32)
        self._plans: dict[bytes, int] = {}
        self._shapes: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._plan_shape: npt.NDArray[np.int64] = np.zeros(1, np.int64)
        self._column_sizes: npt.NDArray[np.int32] = np.empty(0, np.int32)
        self._plan_sizes: npt.NDArray[np.int64] = np.zeros(1, np.int64)
        self._plan_json: npt.NDArray[np.int32] = np.empty(0, np.int32)
        self._scratch: npt.NDArray[np.int32] = np.empty((2, 64), np.int32)
        self._map_ids: npt.NDArray[np.int64] = np.zeros(256, np.int64)
        self._map_plans: npt.NDArray[np.int32] = np.zeros(256, np.int32)
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
        """The rows of each event, int32; :data:`UNKNOWN` for what is no rows event and for rows that cannot be
        counted (no table map, malformed, or of a server before 5.1.18).

        Event k stands in ``data`` (uint8) from ``start[k]`` on and has ``size[k]`` bytes; the other columns are a
        :class:`~dumpfilter.index.segment.Segment`'s, all of one length.
        """
        counts: npt.NDArray[np.int32] = np.full(start.size, UNKNOWN, np.int32)
        if start.size:
            highest = int(subject.max())
            if highest >= self._subject_plan.size:
                more = np.full(2 * highest - self._subject_plan.size, -1, np.int32)
                self._subject_plan = np.concatenate((self._subject_plan, more))
        header_lengths = _header_lengths(fd)
        data = data.view()
        data.flags.writeable = False  # one compiled version serves all kinds of buffers
        id_length = 4 if fd.post_header_length(EventType.TABLE_MAP) == 6 else 6
        opened, opened_at, readable, i = _NOTHING, -1, True, 0
        while True:
            code, i, self._open_maps = K.count_rows(
                data,
                start,
                size,
                type,
                role,
                subject,
                fd.checksum_length,
                id_length,
                header_lengths,
                _EVENT_KINDS,
                self._subject_plan,
                self._plan_shape,
                self._shapes,
                self._plan_sizes,
                self._column_sizes,
                self._plan_json,
                self._map_ids,
                self._map_plans,
                self._open_maps,
                opened,
                opened_at,
                readable,
                self._scratch,
                counts,
                i,
            )
            if code == K.DONE:
                return counts
            if code == K.MORE_MAPS:
                self._map_ids = np.concatenate((self._map_ids, np.zeros_like(self._map_ids)))
                self._map_plans = np.concatenate((self._map_plans, np.zeros_like(self._map_plans)))
                continue
            event_start, end = int(start[i]) + HEADER_LENGTH, int(start[i] + size[i]) - fd.checksum_length
            body = data[event_start:end].tobytes()
            if code == K.NEW_SHAPE:
                first, last = K.shape_of(data, event_start, end, id_length)
                shape = data[first:last].tobytes()
                if shape not in self._plans:
                    self._add_plan(shape, body, fd)
                self._subject_plan[subject[i]] = self._plans[shape]
            else:
                opened_at = i
                found = _open(int(type[i]), body, fd)
                opened, readable = (_NOTHING, False) if found is None else (found, True)

    def _add_plan(self, shape: bytes, body: bytes, fd: FormatDescription) -> None:
        try:
            plan = ColumnPlan.from_table_map(
                decode_table_map(body, fd.post_header_length(EventType.TABLE_MAP))
            )
            sizes, json_columns = plan.sizes, plan.json_columns
        except BinlogError:
            # the slave's to judge; here its rows are not counted
            sizes, json_columns = np.empty(0, np.int32), -1
        self._plans[shape] = len(self._plans)
        self._shapes = np.concatenate((self._shapes, np.frombuffer(shape, np.uint8)))
        self._plan_shape = np.append(self._plan_shape, self._shapes.size)
        self._column_sizes = np.concatenate((self._column_sizes, sizes))
        self._plan_sizes = np.append(self._plan_sizes, self._column_sizes.size)
        self._plan_json = np.append(self._plan_json, np.int32(json_columns))
        if sizes.size > self._scratch.shape[1]:
            self._scratch = np.empty((2, sizes.size), np.int32)


def _header_lengths(fd: FormatDescription) -> npt.NDArray[np.uint8]:
    """The post-header's length by type of rows event; what the format description leaves out is v2 as released."""
    return np.array(
        [
            fd.post_header_length(kind) or (ROWS_HEADER_LENGTH_V2 if kind in ROWS_V2 else 0)
            for kind in range(256)
        ],
        np.uint8,
    )


def _open(type: int, body: bytes, fd: FormatDescription) -> npt.NDArray[np.uint8] | None:
    """The rows of an event that MariaDB compressed; None when they cannot be opened."""
    try:
        rows = decode_rows_header(type, body, fd.post_header_length(type) or None)
        return np.frombuffer(bytes(rows_data(rows, body)), np.uint8)
    except BinlogError:
        return None

"""The compiled count of the rows in rows events: one pass over the events of a segment.

For each table id of the current statement, the count remembers a *plan*: the sizes of the table's columns. The count
returns to its caller at an event that needs Python code, and goes on from there later. :class:`Stop` names the
reasons. Tests compare the count with plain Python code, which decodes event by event with the project's decoders.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog._row_kernels import PARTIAL_JSON_UPDATES, _skip_image
from dumpfilter.binlog.events import HEADER_LENGTH, EventType
from dumpfilter.compiler.kernels import njit


class Stop(enum.IntEnum):
    """The reasons for which :func:`count_rows` returns."""

    DONE = 0
    """The count returns because the rows of all events are counted."""
    NEW_SHAPE = 1
    """The count returns because no plan (list of column sizes) exists for the columns of the next Table_map event."""
    OPEN = 2
    """The count returns because MariaDB compressed the rows of the next event. The caller uncompresses the rows."""
    MORE_MAPS = 3
    """The count returns because the arrays for the statement's Table_map events are full. The caller enlarges the
    arrays.
    """


UNKNOWN = -1
"""The count of an event that is not a rows event, or whose rows cannot be counted."""

# The constants from CHANGE to UNCOUNTED are the bits of the number that describes the kind of a rows event.
CHANGE = 7
"""The bits of an event's kind that hold INSERT, UPDATE or DELETE; 0 for an event that is not a rows event."""
INSERT, UPDATE, DELETE = 1, 2, 3
COMPRESSED = 8
PARTIAL = 16
"""The bit of an event's kind for a partial update of JSON columns (binlog_row_value_options=PARTIAL_JSON)."""
UNCOUNTED = 32
"""The bit of an event's kind for rows events before MySQL 5.1.18, whose layout does not allow a count."""

_EXTRA_DATA_HEADER = 10
"""The length of the post-header (the fixed part of the body) of rows events of version 2, bytes.

Extra data follow this post-header.
"""


class Events(NamedTuple):
    """The events of one buffer, as arrays. Event k has ``size[k]`` bytes from ``data[start[k]]`` on."""

    data: npt.NDArray[np.uint8]
    start: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    type: npt.NDArray[np.uint8]
    role: npt.NDArray[np.uint8]
    subject: npt.NDArray[np.int32]


class Format(NamedTuple):
    """The facts from the format description event that the count of rows needs."""

    checksum_length: int
    table_id_length: int
    header_lengths: npt.NDArray[np.uint8]
    """The length of the post-header of each event type, by the type's number, bytes."""
    kinds: npt.NDArray[np.uint8]
    """The kind of each event type, by the type's number: the bits :data:`CHANGE`, ``COMPRESSED``, ``PARTIAL`` and
    ``UNCOUNTED``.
    """


class Plans(NamedTuple):
    """The column layouts of the tables met so far, each with a plan: the sizes of the columns' values.

    A shape is the part of a Table_map event's body that holds the columns' types and metadata. Plan p has the shape
    ``shapes[shape_start[p] : shape_start[p + 1]]``.
    """

    of_subject: npt.NDArray[np.int32]
    """The number of the plan that each table had last, indexed by the table's number; -1 for a table without a plan.
    """
    shapes: npt.NDArray[np.uint8]
    shape_start: npt.NDArray[np.int64]
    column_sizes: npt.NDArray[np.int32]
    """The sizes of the columns' values of all plans, bytes, one plan after the other.

    The entry ``-n`` says that each value begins with its length in n bytes.
    """
    column_start: npt.NDArray[np.int64]
    """The index in ``column_sizes`` at which the columns of each plan begin."""
    json_columns: npt.NDArray[np.int32]
    """The number of JSON columns of each plan; -1 for a plan whose rows cannot be counted."""


class OpenMaps(NamedTuple):
    """The Table_map events in force: the Table_map events of the statement whose rows are being counted.

    A statement has few Table_map events, so a table id is searched from the end of the arrays, without a hash table.
    """

    ids: npt.NDArray[np.int64]
    plans: npt.NDArray[np.int32]


class Opened(NamedTuple):
    """The uncompressed rows of one rows event that MariaDB compressed."""

    event: int
    """The number of the rows event in its segment; -1 when no event is uncompressed."""
    rows: npt.NDArray[np.uint8]
    readable: bool
    """Whether the caller could uncompress the rows of the compressed event."""


@njit(cache=True, nogil=True, inline="always")
def _packed(data, at, end):
    if at >= end:
        return np.int64(0), np.int64(-1)
    first = np.int64(data[at])
    if first < 251:
        return first, at + 1
    width = 2 if first == 252 else 3 if first == 253 else 8 if first == 254 else 0
    if width == 0 or at + 1 + width > end:
        return np.int64(0), np.int64(-1)
    value = np.int64(0)
    for k in range(width):
        value |= np.int64(data[at + 1 + k]) << (8 * k)
    return value, at + 1 + width


@njit(cache=True, nogil=True)
def shape_of(data, start, end, id_length):
    """Return the start and end of the columns' types and metadata in a Table_map event; (-1, -1) when the event is too
    short.
    """
    at = start + id_length + 2
    for _ in range(2):
        if at >= end:
            return np.int64(-1), np.int64(-1)
        at += np.int64(data[at]) + 2
    first = at
    columns, at = _packed(data, at, end)
    if at < 0 or columns < 0 or columns > end - at:
        return np.int64(-1), np.int64(-1)
    at += columns
    if at < end:
        length, at = _packed(data, at, end)
        if at < 0 or length < 0 or length > end - at:
            return np.int64(-1), np.int64(-1)
        at += length
    return first, at


@njit(cache=True, nogil=True, inline="always")
def _present(data, at, sizes, out):
    n = 0
    for k in range(sizes.size):
        if data[at + (k >> 3)] >> (k & 7) & 1:
            out[n] = sizes[k]
            n += 1
    return n


@njit(cache=True, nogil=True)
def _rows_of(data, at, end, before, after, partial_bytes):
    count = 0
    while at < end:
        here = at
        if before.size:
            here = _skip_image(data, here, end, before)
            if here < 0:
                return np.int64(UNKNOWN)
        if after.size or partial_bytes >= 0:
            if partial_bytes >= 0:
                if here >= end or data[here] > PARTIAL_JSON_UPDATES:
                    return np.int64(UNKNOWN)
                here += 1 + (partial_bytes if data[here] else 0)
            here = _skip_image(data, here, end, after)
            if here < 0:
                return np.int64(UNKNOWN)
        if here == at:
            return np.int64(UNKNOWN)
        at = here
        count += 1
    return np.int64(count)


@njit(cache=True, nogil=True, inline="always")
def _table_id(data, at, length):
    table_id = np.int64(0)
    for k in range(length):
        table_id |= np.int64(data[at + k]) << (8 * k)
    return table_id


@njit(cache=True, nogil=True)
def count_rows(events, format, plans, maps, open_maps, opened, scratch, out, i):
    """Count the rows of the events from number ``i`` on into ``out``, until a :class:`Stop` (a reason to return to the
    caller).

    ``open_maps`` is the number of Table_map events in force in ``maps``. ``scratch`` (int32[2, columns]) has room for
    the columns of the widest table. Returns ``(stop, i, open_maps)``.
    """
    # Local variables hold the arrays, because compiled code changes a reference count at each use of an array in a
    # tuple.
    data, starts, sizes, types, roles, subjects = events
    checksum_length, id_length, header_lengths, kinds = format
    of_subject, shapes, shape_start, column_sizes, column_start, json_columns = plans
    map_ids, map_plans = maps
    opened_event, opened_rows, readable = opened
    before, after = scratch[0], scratch[1]
    while i < starts.size:
        kind = np.int64(types[i])
        what = kinds[kind]
        role = roles[i] & R.ROLE_MASK
        start = starts[i] + HEADER_LENGTH
        end = starts[i] + sizes[i] - checksum_length
        if kind == EventType.TABLE_MAP:
            plan = np.int64(-1)
            first, last = shape_of(data, start, end, id_length)
            if first >= 0 and subjects[i] >= 0:
                plan = np.int64(of_subject[subjects[i]])
                if plan < 0 or not _has_shape(
                    data, first, last, shapes, shape_start[plan], shape_start[plan + 1]
                ):
                    return np.int64(Stop.NEW_SHAPE), i, open_maps
            if open_maps >= map_ids.size:
                return np.int64(Stop.MORE_MAPS), i, open_maps
            map_ids[open_maps] = _table_id(data, start, id_length)
            map_plans[open_maps] = plan
            open_maps += 1
        elif what:
            if role == R.DUMMY_ROWS:
                out[i] = 0
            elif what < UNCOUNTED:
                plan = -1
                table_id = _table_id(data, start, id_length)
                for k in range(open_maps - 1, -1, -1):
                    if map_ids[k] == table_id:
                        plan = map_plans[k]
                        break
                if plan >= 0 and json_columns[plan] >= 0:
                    columns = column_sizes[column_start[plan] : column_start[plan + 1]]
                    at = _skip_extra_data(data, start + id_length + 2, end, header_lengths[kind])
                    at = _bitmaps(data, at, end, columns.size, what)
                    if at >= 0 and not what & COMPRESSED:
                        out[i] = _count(data, at, data, end, columns, json_columns[plan], what, before, after)
                    elif at >= 0 and opened_event != i:
                        return np.int64(Stop.OPEN), i, open_maps
                    elif at >= 0 and readable:
                        out[i] = _count(
                            data,
                            at,
                            opened_rows,
                            opened_rows.size,
                            columns,
                            json_columns[plan],
                            what,
                            before,
                            after,
                        )
            if role == R.ROWS_END or role == R.DUMMY_ROWS:
                # The server closes its tables at the end of a statement, so that no Table_map event stays in force.
                open_maps = 0
        if roles[i] & R.ENDS:
            open_maps = 0
        i += 1
    return np.int64(Stop.DONE), i, open_maps


@njit(cache=True, nogil=True)
def _has_shape(data, first, last, shapes, begin, end):
    if end - begin != last - first:
        return False
    for k in range(last - first):  # noqa: SIM110 (compiled code has no generators)
        if shapes[begin + k] != data[first + k]:
            return False
    return True


@njit(cache=True, nogil=True, inline="always")
def _skip_extra_data(data, at, end, header_length):
    if header_length != _EXTRA_DATA_HEADER:
        return at
    extra = np.int64(0)
    if at + 2 <= end:
        extra = np.int64(data[at]) | np.int64(data[at + 1]) << 8
    return at + extra if extra >= 2 else end


@njit(cache=True, nogil=True, inline="always")
def _bitmaps(data, at, end, columns, what):
    found, at = _packed(data, at, end)
    images = 2 if what & CHANGE == UPDATE else 1
    fits = at >= 0 and found == columns and at + images * ((columns + 7) >> 3) <= end
    return at if fits else np.int64(-1)


@njit(cache=True, nogil=True, inline="always")
def _count(data, at, rows, end, columns, json_columns, what, before, after):
    width = (columns.size + 7) >> 3
    first = _present(data, at, columns, before)
    second = np.int64(0)
    at += width
    if what & CHANGE == UPDATE:
        second = _present(data, at, columns, after)
        at += width
    partial = np.int64((json_columns + 7) >> 3 if what & PARTIAL else -1)
    begin = np.int64(0) if what & COMPRESSED else at
    return _rows_of(rows, begin, end, before[:first], after[:second], partial)

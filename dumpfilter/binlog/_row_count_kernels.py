"""The compiled count of the rows in rows events: one pass over the events of a segment.

It keeps which table map each table id stands for, as a number of a *plan* (how long the table's columns are). What it
has not met, a table map of a new shape or rows that have to be opened, it leaves to the caller and goes on from there.
Its plain-Python twin is in the tests: the project's decoders, event by event.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dumpfilter.binlog import roles as R
from dumpfilter.binlog._row_kernels import PARTIAL_JSON_UPDATES, _skip_image

# Why a count came back.
DONE = 0
NEW_SHAPE = 1  # event i is a table map whose plan is to be made
OPEN = 2  # event i holds rows that MariaDB compressed
MORE_MAPS = 3  # no room for another table map

UNKNOWN = -1
"""What stands for the number of rows of an event that has none, or whose rows cannot be counted."""


@njit(cache=True, nogil=True, inline="always")
def _packed(data, at, end):
    """A packed integer: ``(value, where it ends)``; where it ends is -1 when it is none."""
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
    """Where in a table map's body its columns' types and metadata stand: ``(from, to)``, (-1, -1) when it is too
    short."""
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
    """The sizes of the columns whose bit is set in the bitmap at ``at``; how many there are."""
    n = 0
    for k in range(sizes.size):
        if data[at + (k >> 3)] >> (k & 7) & 1:
            out[n] = sizes[k]
            n += 1
    return n


@njit(cache=True, nogil=True)
def _rows_of(data, at, end, before, after, partial_bytes):
    """The number of rows from ``at`` to ``end``, or UNKNOWN. ``before``, ``after``: sizes of the columns present in
    the images; an insert's or a delete's only image is ``before``."""
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


@njit(cache=True, nogil=True)
def count_rows(
    data,
    starts,
    sizes,
    types,
    roles,
    subjects,
    trailer,
    id_length,
    header_lengths,
    kinds,
    subject_plan,
    plan_shape,
    shapes,
    plan_sizes,
    column_sizes,
    plan_json,
    map_ids,
    map_plans,
    open_maps,
    opened,
    opened_at,
    readable,
    scratch,
    out,
    i,
):
    """Count from event ``i`` on; returns ``(code, i, open_maps)``.

    ``data``: uint8, with event k at ``starts[k]``, ``sizes[k]`` bytes long, of which the last ``trailer`` are its
    checksum. ``header_lengths``: of rows events by type, bytes. ``kinds``: by type 0 for no rows event, 1 insert, 2
    update, 3 delete, and 8 more when compressed, 16 when a partial update, 32 when never to be taken apart.

    Plans: ``subject_plan[s]`` is the number of the plan that table s had last, -1 for none. A plan's shape is
    ``shapes[plan_shape[p]:plan_shape[p + 1]]``, its columns' sizes are in ``column_sizes`` from ``plan_sizes[p]`` to
    ``plan_sizes[p + 1]``; ``plan_json[p]`` its JSON columns, -1 for a plan that is of no use.

    ``map_ids``, ``map_plans``: the table maps in force, ``open_maps`` of them. ``opened``: the rows of event
    ``opened_at`` (-1: of none), opened; not ``readable``: they cannot be opened.
    """
    n = starts.size
    while i < n:
        kind = np.int64(types[i])
        what = kinds[kind]
        if kind == 19:
            start = starts[i] + 19
            end = starts[i] + sizes[i] - trailer
            first, last = shape_of(data, start, end, id_length)
            plan = subject_plan[subjects[i]] if subjects[i] >= 0 else -1
            if first >= 0 and subjects[i] >= 0:
                same = plan >= 0 and plan_shape[plan + 1] - plan_shape[plan] == last - first
                if same:
                    for k in range(last - first):
                        if shapes[plan_shape[plan] + k] != data[first + k]:
                            same = False
                            break
                if not same:
                    return NEW_SHAPE, i, open_maps
            else:
                plan = -1
            if open_maps >= map_ids.size:
                return MORE_MAPS, i, open_maps
            table_id = np.int64(0)
            for k in range(id_length):
                table_id |= np.int64(data[start + k]) << (8 * k)
            map_ids[open_maps] = table_id
            map_plans[open_maps] = plan
            open_maps += 1
        elif what:
            if roles[i] & 0x7F == R.DUMMY_ROWS:
                out[i] = 0
            elif what < 32:
                at = starts[i] + 19
                end = starts[i] + sizes[i] - trailer
                table_id = np.int64(0)
                for k in range(id_length):
                    table_id |= np.int64(data[at + k]) << (8 * k)
                plan = -1
                for k in range(open_maps - 1, -1, -1):
                    if map_ids[k] == table_id:
                        plan = map_plans[k]
                        break
                at += id_length + 2
                if header_lengths[kind] == 10:
                    extra = np.int64(0)
                    if at + 2 <= end:
                        extra = np.int64(data[at]) | np.int64(data[at + 1]) << 8
                    at = at + extra if extra >= 2 else end
                columns, at = _packed(data, at, end)
                if plan >= 0 and at >= 0 and plan_json[plan] >= 0:
                    sizes_of = column_sizes[plan_sizes[plan] : plan_sizes[plan + 1]]
                    width = (sizes_of.size + 7) >> 3
                    images = 2 if what & 7 == 2 else 1
                    if columns == sizes_of.size and at + images * width <= end:
                        if what & 8 and opened_at != i:
                            return OPEN, i, open_maps
                        first_count = _present(data, at, sizes_of, scratch[0])
                        first_image = scratch[0, :first_count]
                        second_image = scratch[1, :0]
                        at += width
                        if images == 2:
                            second_count = _present(data, at, sizes_of, scratch[1])
                            second_image = scratch[1, :second_count]
                            at += width
                        partial = (plan_json[plan] + 7) >> 3 if what & 16 else -1
                        if what & 8:
                            if readable:
                                out[i] = _rows_of(opened, 0, opened.size, first_image, second_image, partial)
                        else:
                            out[i] = _rows_of(data, at, end, first_image, second_image, partial)
            # the last of its statement: the tables are closed
            if roles[i] & 0x7F == R.ROWS_END or roles[i] & 0x7F == R.DUMMY_ROWS:
                open_maps = 0
        if roles[i] & R.ENDS:
            open_maps = 0
        i += 1
    return DONE, i, open_maps

"""The compiled search for rows events whose Table_map events and headers are equal."""

from __future__ import annotations

import numpy as np

from dumpfilter.base.compiler.kernels import njit

OTHER, MAP, ROWS_UNCOMPARED, ROWS_ONE_BITMAP, ROWS_TWO_BITMAPS = range(5)
"""The classes of events: rows events by the number of bitmaps in their headers, if these are compared."""

FLAGS_LENGTH = 2
_NO_EXTRA = 2
"""The length of extra data that has nothing but its length, which has two bytes."""
_STMT_END_F = 1
_TWO_BYTES = 252
"""The first byte of a packed integer with two more bytes."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(24)


@njit(cache=True, nogil=True)
def find_alike(data, first, last, type, class_of, has_extra, closes, id_length):
    """Return four int64 columns for the Table_map events and rows events of a piece of the stream.

    Event k has its body in ``data[first[k]:last[k]]``. ``class_of`` and ``has_extra`` have an entry for each type of
    event: its class, and whether its header has extra data. After events of ``closes``, and after rows events with
    STMT_END_F, no Table_map event is in force.

    - ``map_of``: the index of the Table_map event in force for a rows event, or -1 without one in this piece.
    - ``same_as``: the index of the first event with equal content. For a rows event this is an equal type and
      Table_map event, and an equal header behind the flags.
    - ``length``: the length of a rows event's header, or 0 where headers are not compared.

    - ``before``: the number of earlier events after which no Table_map event is in force.

    The last result is the number of all such events.
    """
    count = first.size
    map_of, same_as = np.full(count, -1, np.int64), np.arange(count)
    length, before = np.zeros(count, np.int64), np.zeros(count, np.int64)
    id, number = np.zeros(count, np.int64), np.zeros(count, np.int64)
    begin, end = np.zeros(count, np.int64), np.zeros(count, np.int64)
    size = 64
    while size < 2 * count:
        size *= 2
    mask = np.uint64(size - 1)
    # Two hash tables with open addressing: the newest Table_map event of each id, and the first event of each content.
    maps, contents = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
    closed = 0
    for k in range(count):
        before[k] = closed
        kind, at, body = class_of[type[k]], first[k], first[k] + id_length
        is_rows = kind != OTHER and kind != MAP
        if kind != OTHER and body <= last[k]:
            for i in range(id_length):
                id[k] |= np.int64(data[at + i]) << (8 * i)
            slot = (np.uint64(id[k]) * _FACTOR >> _SHIFT) & mask
            while maps[slot] >= 0 and id[maps[slot]] != id[k]:
                slot = (slot + np.uint64(1)) & mask
            if kind == MAP:
                maps[slot] = k
                number[k], begin[k], end[k] = -1, body, last[k]
            elif maps[slot] >= 0 and before[maps[slot]] == closed:
                map_of[k] = maps[slot]
            if map_of[k] >= 0 and kind != ROWS_UNCOMPARED:
                place = body + FLAGS_LENGTH
                if has_extra[type[k]]:
                    is_plain = place + 2 <= last[k] and data[place] == _NO_EXTRA and data[place + 1] == 0
                    place = place + 2 if is_plain else last[k]
                columns = 0
                if place < last[k]:
                    columns = np.int64(data[place])
                    place += 1
                    if columns == _TWO_BYTES and place + 2 <= last[k]:
                        columns = np.int64(data[place]) | np.int64(data[place + 1]) << 8
                        place += 2
                    elif columns >= _TWO_BYTES - 1:
                        columns = 0
                place += (columns + 7) // 8 * (kind - ROWS_ONE_BITMAP + 1)
                if columns and place <= last[k]:
                    length[k] = place - at
                    number[k] = same_as[map_of[k]] * 256 + type[k]
                    begin[k], end[k] = body + FLAGS_LENGTH, place
            if kind == MAP or length[k]:
                hash = np.uint64(number[k])
                for i in range(begin[k], end[k]):
                    hash = (hash ^ np.uint64(data[i])) * _FACTOR
                slot = (hash >> _SHIFT) & mask
                while contents[slot] >= 0:
                    other = contents[slot]
                    i = 0
                    if number[other] == number[k] and end[other] - begin[other] == end[k] - begin[k]:
                        while i < end[k] - begin[k] and data[begin[other] + i] == data[begin[k] + i]:
                            i += 1
                        if i == end[k] - begin[k]:
                            break
                    slot = (slot + np.uint64(1)) & mask
                if contents[slot] < 0:
                    contents[slot] = k
                same_as[k] = contents[slot]
        ends = is_rows and body < last[k] and data[body] & _STMT_END_F != 0
        if closes[k] or ends:
            closed += 1
    return map_of, same_as, length, before, closed

"""The compiled search for equal Table_map events and equal headers of rows events, so that each distinct one is
decoded only once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.base.compiler.arrays import Bools, Bytes, Int64s
from dumpfilter.base.compiler.kernels import kernel

OTHER, MAP, ROWS_UNCOMPARED, ROWS_ONE_BITMAP, ROWS_TWO_BITMAPS = range(5)
"""The classes of events for :func:`find_alike`. Rows events are divided by whether their headers are compared, and by
the number of column bitmaps in their headers.
"""

FLAGS_LENGTH = 2
_NO_EXTRA = 2
"""The length of empty extra data of a rows event: the two bytes of the length itself."""
_STMT_END_F = 1
_TWO_BYTES = 252
"""The first byte of a packed integer that has two more bytes."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(24)


class Alike(NamedTuple):
    """The result of :func:`find_alike`, which groups equal Table_map events and equal headers of rows events, so that
    each is decoded only once. The arrays have one entry for each event.

    ``map_of`` has the index of each rows event's Table_map event, and ``same_as`` the index of the first equal event.
    Some fields are only the working memory of the search.
    """

    map_of: Int64s
    """For each rows event, the index of its Table_map event. -1 for a rows event whose Table_map event is not among the
    events, and for all other events.
    """
    same_as: Int64s
    """For each event, the index of the first event with equal content, which may be the event itself.

    For a rows event, equal content means the same type, an equal Table_map event, and an equal header after the flags.
    """
    length: Int64s
    """The length of a rows event's header, bytes, or 0 if headers are not compared."""
    before: Int64s
    """For each event, the number of earlier events after which no Table_map event is valid any more. A rows event with
    STMT_END_F is such an event.
    """
    id: Int64s
    number: Int64s
    begin: Int64s
    end: Int64s
    """The fields by which each event is compared. Two events are equal if they have the same ``number`` and equal bytes
    from offset ``begin`` to ``end``.

    ``number`` is -1 for a Table_map event. For a rows event it combines the type with the index of the first Table_map
    event that is equal to the rows event's. ``id`` is the table id.
    """
    maps: Int64s
    contents: Int64s
    """Two hash tables of event indexes, with open addressing. ``maps`` finds the latest Table_map event by table id.
    ``contents`` finds the first event of equal content.
    """

    @classmethod
    def of(cls, count: int) -> Alike:
        """Return an object with arrays for ``count`` events, which :func:`find_alike` fills."""
        nothing = np.full(count, -1, np.int64)
        numbers = np.zeros((6, count), np.int64)
        tables = np.full((2, max(64, 1 << (2 * count - 1).bit_length() if count else 0)), -1, np.int64)
        length, before, *compared = numbers
        return cls(nothing, np.arange(count), length, before, *compared, *tables)


@kernel
def find_alike(
    data: Bytes,
    first: Int64s,
    last: Int64s,
    type: Bytes,
    class_of: Bytes,
    has_extra: Bools,
    closes: Bools,
    id_length: int,
    found: Alike,
):
    """Find the Table_map events with equal content, and the rows events with equal headers, among consecutive events.
    Write the result to ``found``.

    Event k has its body in ``data[first[k]:last[k]]``. ``class_of`` (Table_map, rows or other) and ``has_extra``
    (whether the rows header has extra data) are indexed by event type. ``id_length`` is the number of bytes of a table
    id. ``closes`` marks the events after which no earlier Table_map event is valid, as after a rows event with
    STMT_END_F. Return the number of events that end this validity.
    """
    map_of, same_as, length, before = found.map_of, found.same_as, found.length, found.before
    id, number, begin, end = found.id, found.number, found.begin, found.end
    maps, contents = found.maps, found.contents
    mask = np.uint64(maps.size - 1)
    closed = 0
    for k in range(first.size):
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
    return closed

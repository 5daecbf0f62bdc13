"""The uncompressed sizes of events that MariaDB compressed.

Nothing is uncompressed. The compressed rows or statement begin with their uncompressed length
(:mod:`dumpfilter.binlog.compression`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.events import HEADER_LENGTH, ROWS_V2, EventType, by_number
from dumpfilter.binlog.format import FormatDescription

_PLAIN, _STATEMENT, _ROWS_ONE_IMAGE, _ROWS_TWO_IMAGES = 0, 1, 2, 3

_LAYOUTS: npt.NDArray[np.uint8] = by_number(
    lambda kind: (
        _PLAIN
        if not kind.compressed or kind.number == EventType.TRANSACTION_PAYLOAD
        else _STATEMENT
        if kind.number == EventType.QUERY_COMPRESSED
        else _ROWS_TWO_IMAGES
        if kind.change == "update"
        else _ROWS_ONE_IMAGE
    )
).astype(np.uint8)
"""The layout of the bytes before an event's compressed part, by the number of the event type. ``_PLAIN`` stands for a
type without a compressed part.
"""

_V2: npt.NDArray[np.bool_] = np.array([number in ROWS_V2 for number in range(256)])
"""For each event type, whether it is a rows event with extra data after the post-header (version 2)."""

_TABLE_ID_AND_FLAGS = 8
_DATABASE_LENGTH_AT = 8
_STATUS_LENGTH_AT = 11
_ONE_BYTE = 250
"""The largest value of the servers' packed integers that takes one byte."""
_MOST_WIDTH = 4
"""The largest number of bytes in which MariaDB stores an uncompressed length."""


def uncompressed_sizes(
    data: npt.NDArray[np.uint8],
    start: npt.NDArray[np.int64],
    size: npt.NDArray[np.int64],
    type: npt.NDArray[np.uint8],
    fd: FormatDescription,
) -> npt.NDArray[np.int64]:
    """Return the size that each event would have without MariaDB's compression, bytes, int64.

    Event k has the type ``type[k]`` and ``size[k]`` bytes from ``data[start[k]]`` on. ``fd`` is the format description
    event of the file. Events that MariaDB did not compress keep their size, as do malformed events and MySQL's
    compressed transactions. If no event is compressed, the result is the array ``size`` itself.
    """
    events = np.flatnonzero(_LAYOUTS[type])
    if not len(events):
        return size
    kind, begin = type[events], start[events]
    layout = _LAYOUTS[kind]
    end = begin + size[events] - fd.checksum_length

    def number(at: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.int64]:
        # A malformed event may end before the number. Then the number is any, and the last check finds the error.
        parts = [data[np.minimum(at + k, data.size - 1)].astype(np.int64) << 8 * k for k in range(width)]
        return np.asarray(sum(parts))

    body = begin + HEADER_LENGTH
    of_statement = fd.post_header_length(EventType.QUERY) + number(body + _DATABASE_LENGTH_AT, 1) + 1
    of_statement += number(body + _STATUS_LENGTH_AT, 2)
    at = body + _TABLE_ID_AND_FLAGS
    at += np.where(_V2[kind], number(at, 2), 0)
    # The number of columns is a packed integer of 1 or 3 bytes.
    columns = number(at, 1)
    is_wide = columns > _ONE_BYTE
    columns = np.where(is_wide, number(at + 1, 2), columns)
    images = np.where(layout == _ROWS_TWO_IMAGES, 2, 1)
    at += np.where(is_wide, 3, 1) + images * ((columns + 7) >> 3)
    at = np.where(layout == _STATEMENT, body + of_statement, at)
    first = number(at, 1)
    width = first & 7
    length = np.zeros_like(at)
    for k in range(_MOST_WIDTH):
        length = np.where(k < width, length << 8 | number(at + 1 + k, 1), length)
    is_right = (first & 0x80 != 0) & (width >= 1) & (width <= _MOST_WIDTH) & (at + 1 + width <= end)
    out = size.copy()
    out[events] = np.where(is_right, size[events] - (end - at) + length, size[events])
    return out

"""The uncompressed sizes of events that MariaDB compressed, read by compiled code.

Nothing is uncompressed. The compressed rows or statement begin with their uncompressed length
(:mod:`dumpfilter.binlog.compression`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dumpfilter.base.compiler.kernels import njit
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
"""The layout of each event type before its compressed part, by the type's number."""

_V2: npt.NDArray[np.bool_] = np.array([number in ROWS_V2 for number in range(256)])
"""Whether extra data follow the post-header of a rows event, by the type's number."""

_TABLE_ID_AND_FLAGS = 8
_DATABASE_LENGTH_AT = 8
_STATUS_LENGTH_AT = 11
_ONE_BYTE = 250
"""The largest packed integer of one byte."""


def uncompressed_sizes(
    data: npt.NDArray[np.uint8],
    start: npt.NDArray[np.int64],
    size: npt.NDArray[np.int64],
    type: npt.NDArray[np.uint8],
    fd: FormatDescription,
) -> npt.NDArray[np.int64]:
    """Return the size that each event would have without MariaDB's compression, bytes.

    Event k has ``size[k]`` bytes from ``data[start[k]]`` on. The result is ``size`` itself without a compressed event.
    Other events keep their size, as do malformed events and MySQL's compressed transactions.
    """
    compressed = np.flatnonzero(_LAYOUTS[type])
    if not len(compressed):
        return size
    out = size.copy()
    data = data.view()
    data.flags.writeable = False  # numba would compile separate versions for read-only and writable arrays
    _read_sizes(
        data,
        start,
        size,
        type,
        compressed,
        _LAYOUTS,
        _V2,
        fd.post_header_length(EventType.QUERY),
        fd.checksum_length,
        out,
    )
    return out


@njit(cache=True, nogil=True)
def _read_sizes(
    data, start, size, type, events, layouts, has_extra, query_header_length, checksum_length, out
):
    for i in events:
        at = start[i] + HEADER_LENGTH
        end = start[i] + size[i] - checksum_length
        layout = layouts[type[i]]
        if layout == _STATEMENT:
            if at + query_header_length > end:
                continue
            database = np.int64(data[at + _DATABASE_LENGTH_AT])
            status = np.int64(data[at + _STATUS_LENGTH_AT]) | np.int64(data[at + _STATUS_LENGTH_AT + 1]) << 8
            at += query_header_length + status + database + 1
        else:
            at += _TABLE_ID_AND_FLAGS
            if has_extra[type[i]]:
                if at + 2 > end:
                    continue
                at += np.int64(data[at]) | np.int64(data[at + 1]) << 8
            if at + 3 > end:
                continue
            # The number of columns is a packed integer of 1 or 3 bytes.
            columns = np.int64(data[at])
            at += 1
            if columns > _ONE_BYTE:
                columns = np.int64(data[at]) | np.int64(data[at + 1]) << 8
                at += 2
            images = 2 if layout == _ROWS_TWO_IMAGES else 1
            at += images * ((columns + 7) >> 3)
        if at + 1 > end:
            continue
        width = np.int64(data[at]) & 7
        if not data[at] & 0x80 or width < 1 or width > 4 or at + 1 + width > end:
            continue
        length = np.int64(0)
        for k in range(width):
            length = length << 8 | np.int64(data[at + 1 + k])
        out[i] = size[i] - (end - at) + length

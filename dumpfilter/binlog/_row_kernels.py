"""The compiled search for the offsets of the row images in one rows event.

Tests compare this search with :func:`dumpfilter.binlog.row_image.row_images_reference`, which does the same in plain
Python.
"""

from __future__ import annotations

import numpy as np

from dumpfilter.compiler.kernels import njit

# The codes with which walk() returns to its caller. DONE says that the rows data end after a whole row.
DONE = 0
FULL = 1  # The code when the output array is full. The caller enlarges the array and goes on.
CUT = 2  # The code when the rows data end inside a row.
EMPTY_ROW = 3  # The code when a row has no bytes, so that the walk would never end.
# The code when the value_options of a partial update of JSON values have an unknown bit.
BAD_VALUE_OPTIONS = 4

PARTIAL_JSON_UPDATES = 1
"""The only known bit of value_options in the after-image of a partial update (the server's ``PARTIAL_JSON_UPDATES``).

The bitmap ``partial_bits`` follows value_options when this bit is set.
"""


@njit(cache=True, nogil=True, inline="always")
def _skip_image(data, at, end, sizes):
    count = sizes.size
    nulls = at
    at += (count + 7) >> 3
    if at > end:
        return np.int64(-1)
    bits = np.int64(0)
    for k in range(count):
        if k & 7 == 0:
            bits = np.int64(data[nulls + (k >> 3)])
        is_null = bits & 1
        bits >>= 1
        if is_null:
            continue
        size = np.int64(sizes[k])
        if size < 0:
            if at - size > end:
                return np.int64(-1)
            length = np.int64(data[at])
            if size < -1:
                length |= np.int64(data[at + 1]) << 8
                if size < -2:
                    length |= np.int64(data[at + 2]) << 16
                    if size < -3:
                        length |= np.int64(data[at + 3]) << 24
            at += length - size
        else:
            at += size
        if at > end:
            return np.int64(-1)
    return at


@njit(cache=True, nogil=True)
def walk(data, at, before, after, has_before, has_after, partial_bytes, out, count):
    """Write the offsets of the row images in one rows event to ``out``, up to the end of the data or to a problem.

    The walk begins at offset ``at`` of ``data``. ``before`` and ``after`` are the sizes of the columns in the two
    images. ``has_before`` and ``has_after`` tell which images a row has. ``partial_bytes`` is the size of a partial
    update's partial_bits, or -1 for other events. ``out[k]`` gets (before start, before end, after start, after end)
    of row k. ``count`` is the number of rows that ``out`` already has.

    Returns ``(code, at, count)``. The code is DONE or names the problem, ``at`` is the offset of the first row that is
    not done, and ``count`` is the number of rows done.
    """
    end = np.int64(data.size)
    at = np.int64(at)
    while at < end:
        if count >= out.shape[0]:
            return FULL, at, count
        here = at
        if has_before:
            before_end = _skip_image(data, here, end, before)
            if before_end < 0:
                return CUT, at, count
            out[count, 0] = here
            out[count, 1] = before_end
            here = before_end
        if has_after:
            after_start = here
            if partial_bytes >= 0:
                if here >= end:
                    return CUT, at, count
                options = data[here]
                # value_options is a packed integer, which has one byte as long as only one bit is defined.
                if options > PARTIAL_JSON_UPDATES:
                    return BAD_VALUE_OPTIONS, at, count
                here += 1
                if options == PARTIAL_JSON_UPDATES:
                    here += partial_bytes
            after_end = _skip_image(data, here, end, after)
            if after_end < 0:
                return CUT, at, count
            out[count, 2] = after_start
            out[count, 3] = after_end
            here = after_end
        if here == at:
            return EMPTY_ROW, at, count
        at = here
        count += 1
    return DONE, at, count

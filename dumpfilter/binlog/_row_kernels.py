"""The compiled walk over the rows of one rows event: where each row image starts and ends.

Its plain-Python twin is :func:`dumpfilter.binlog.row_image.row_images_reference`; tests hold one to the
other.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# Why a walk came back.
DONE = 0
FULL = 1  # no room for another row
CUT = 2  # the data end inside a row
EMPTY_ROW = 3  # a row without a byte: the data would never end
BAD_VALUE_OPTIONS = 4  # an unknown bit in a partial update's value_options

PARTIAL_JSON_UPDATES = 1


@njit(cache=True, nogil=True, inline="always")
def _skip_image(data, at, end, sizes):
    """Where the image that starts at ``at`` ends, or -1 when the data end first.

    ``sizes``: one int32 for each column present; ``n >= 0`` is a value of n bytes, ``-n`` a length of n bytes
    (little-endian) and as many bytes as it says.
    """
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
    """Walk rows from ``at`` to the end of ``data`` until something needs the caller.

    ``partial_bytes``: -1, or for a partial update the bytes of its partial_bits. Row k's images go to
    ``out[k]`` as (before start, before end, after start, after end). Returns ``(code, at, count)``: why it
    came back, the first byte of the row at hand, and the rows done.
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
                # A packed integer; with one bit defined it never needs a second byte.
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

"""The compiled search for the values in the row images of many rows events.

A *cell* is one value of one row image: a place in the data, or NULL. The kernel writes the cells of all rows one after
the other, so that events of different tables are read in one pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.row_image import PARTIAL_JSON_UPDATES
from dumpfilter.compiler.kernels import njit

# The codes with which find_cells() returns to its caller. DONE says that all events are read to their ends.
DONE = 0
FULL = 1  # The code when an output array is full. The caller enlarges the arrays and goes on.
CUT = 2  # The code when the rows data end inside a row.
EMPTY_ROW = 3  # The code when a row has no bytes, so that the walk would never end.
BAD_VALUE_OPTIONS = 4  # The code when a partial update of JSON values has unknown value_options.

NULL = -1
"""The length of a cell that is NULL. A length of ``-2 - n`` marks n bytes of changes to a JSON value."""


class Layouts(NamedTuple):
    """The columns of the row images of each layout (a table, a kind of change, and the columns present).

    The columns of all images lie in one list. Layout k has its before-image at ``before[k] : before[k + 1]`` of the
    arrays ``before_…``, and its after-image likewise.
    """

    before: npt.NDArray[np.int64]
    before_size: npt.NDArray[np.int32]
    """The size of the values of each column, bytes. The entry ``-n`` says: a value begins with n bytes of length."""
    after: npt.NDArray[np.int64]
    after_size: npt.NDArray[np.int32]
    after_before: npt.NDArray[np.int32]
    """The number of each column of the after-image in the before-image; -1 for columns that the before-image lacks."""
    after_json: npt.NDArray[np.int32]
    """The number of each JSON column among its table's JSON columns; -1 for other columns."""
    images: npt.NDArray[np.uint8]
    """The images that a row has: 1 for a before-image, plus 2 for an after-image."""
    partial_bytes: npt.NDArray[np.int32]
    """The size of ``partial_bits`` in a partial update of JSON values, bytes; -1 for other changes."""


class Cells(NamedTuple):
    """The cells of one kind of images, of all rows. Row r has the cells ``row[r] : row[r + 1]``."""

    row: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]


@njit(cache=True, nogil=True, inline="always")
def _image(data, at, end, sizes, first, last, out_start, out_length, k):
    nulls = at
    at += (last - first + 7) >> 3
    if at > end:
        return np.int64(-1)
    for c in range(last - first):
        if data[nulls + (c >> 3)] >> (c & 7) & 1:
            out_start[k + c] = 0
            out_length[k + c] = NULL
            continue
        size = np.int64(sizes[first + c])
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
            at -= size
        else:
            length = size
        if length > end - at:
            return np.int64(-1)
        out_start[k + c] = at
        out_length[k + c] = length
        at += length
    return at


@njit(cache=True, nogil=True)
def find_cells(data, starts, ends, layout_of, layouts, before, after, row_event, e, at, rows):
    """Write the cells of the rows of all events from event ``e`` and offset ``at`` on, until a problem or a full array.

    The rows of event k lie at ``data[starts[k] : ends[k]]``. ``rows`` is the number of rows that the outputs already
    have. Returns ``(code, event, offset, rows)``. The code is DONE, or it names the reason to return.
    """
    before_at, before_size, after_at, after_size, after_before, after_json, images, partial_bytes = layouts
    before_row, before_start, before_length = before
    after_row, after_start, after_length = after
    kb = before_row[rows]
    ka = after_row[rows]
    while e < starts.size:
        end = ends[e]
        layout = layout_of[e]
        b0, b1 = before_at[layout], before_at[layout + 1]
        a0, a1 = after_at[layout], after_at[layout + 1]
        has, partial = images[layout], partial_bytes[layout]
        while at < end:
            if rows >= row_event.size or kb + b1 - b0 > before_start.size or ka + a1 - a0 > after_start.size:
                return FULL, e, at, rows
            here = at
            if has & 1:
                here = _image(data, here, end, before_size, b0, b1, before_start, before_length, kb)
                if here < 0:
                    return CUT, e, at, rows
            if has & 2:
                bits = np.int64(-1)
                if partial >= 0:
                    if here >= end:
                        return CUT, e, at, rows
                    options = data[here]
                    # value_options is a packed integer, which has one byte as long as only one bit is defined.
                    if options > PARTIAL_JSON_UPDATES:
                        return BAD_VALUE_OPTIONS, e, at, rows
                    here += 1
                    if options == PARTIAL_JSON_UPDATES:
                        bits = here
                        here += partial
                        if here > end:
                            return CUT, e, at, rows
                here = _image(data, here, end, after_size, a0, a1, after_start, after_length, ka)
                if here < 0:
                    return CUT, e, at, rows
                if bits >= 0:
                    for c in range(a1 - a0):
                        json = after_json[a0 + c]
                        changes = json >= 0 and data[bits + (json >> 3)] >> (json & 7) & 1
                        if changes and after_length[ka + c] == 0 and after_before[a0 + c] >= 0:
                            # A JSON value without changes is the value of the before-image.
                            same = kb + after_before[a0 + c]
                            after_start[ka + c] = before_start[same]
                            after_length[ka + c] = before_length[same]
                        elif changes and after_length[ka + c] >= 0:
                            after_length[ka + c] = -2 - after_length[ka + c]
            if here == at:
                return EMPTY_ROW, e, at, rows
            at = here
            row_event[rows] = e
            rows += 1
            kb += b1 - b0
            ka += a1 - a0
            before_row[rows] = kb
            after_row[rows] = ka
        e += 1
        if e < starts.size:
            at = starts[e]
    return DONE, e, at, rows


@njit(cache=True, nogil=True)
def columns_of_cells(row_event, layout_of, layout_at, columns, row, out):
    """Write the column of each cell to ``out``.

    Layout k has the columns ``columns[layout_at[k] : layout_at[k + 1]]``.
    """
    for r in range(row_event.size):
        first = layout_at[layout_of[row_event[r]]]
        for k in range(row[r], row[r + 1]):
            out[k] = columns[first + k - row[r]]

"""The search for the rows in the data of rows events: the byte offsets of rows, of their images and of their values.

A *cell* is one value of one row image: its offset and length in the data, or NULL. The cells of a row's
before-image come before the cells of its after-image. One compiled function reads many events of different tables in
one pass. Tests compare it with plain Python.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np

from dumpfilter.base.compiler.arrays import Bytes, Int32s, Int64s
from dumpfilter.base.compiler.kernels import inlined, kernel
from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.row_image import AFTER, BEFORE, Layouts, row_layout
from dumpfilter.binlog.rows_events import RowsHeader, TableMap

NULL = -1
"""The value of :attr:`FoundRows.length` for a cell (a value in a row image) that is NULL. A length of ``-2 - n`` stands
for n bytes of changes to a JSON value.
"""
UNKNOWN = -1
"""The result of :func:`count_rows` for an event whose rows cannot be counted."""

_PARTIAL_JSON_UPDATES = 1
"""The only known bit of value_options in the after-image of a partial update (the server's ``PARTIAL_JSON_UPDATES``).

The bitmap ``partial_bits`` follows value_options when this bit is set.
"""
_FEWEST_ROWS = 16
_LIKELY_ROW = 48
"""The assumed size of a row, bytes. The number of rows, for which output arrays are first allocated, is estimated by
this size.
"""


class _Stop(enum.IntEnum):
    """The reasons for which the compiled pass over rows events returns."""

    DONE = 0
    FULL = 1
    """The output arrays are full. The caller enlarges them, and the pass continues."""
    CUT = 2
    EMPTY_ROW = 3
    BAD_VALUE_OPTIONS = 4


_PROBLEMS = {
    _Stop.CUT: "the rows data end inside a row",
    _Stop.EMPTY_ROW: "there are rows data for rows without columns",
    _Stop.BAD_VALUE_OPTIONS: "an update has unknown value_options",
}


class FoundRows(NamedTuple):
    """The rows that were found in the data of many rows events, and their cells. A cell is the value of one column in
    one row image.

    Row r has the cells ``cell[r] : cell[r + 1]``. ``start`` and ``length`` have the byte offset in the searched data
    and the length of each cell. A length of -1 means NULL, and ``-2 - n`` means n bytes of changes to a JSON value.
    """

    event: Int64s
    """For each row, the index of the event that has the row."""
    middle: Int64s
    """For each row, the byte offset in the data at which its before-image ends and its after-image begins."""
    end: Int64s
    cell: Int64s
    start: Int64s
    length: Int64s
    column: Int64s
    """For each cell (value in a row image), the number of its table column
    (:attr:`~dumpfilter.binlog.row_image.Layouts.column`).
    """


class RowsError(Exception):
    """An error in the rows data of one event, when the rows of many events were searched together.

    ``event`` is the index of the damaged event among these events. ``row`` is the index of the row in that event, and
    ``at`` the byte offset of the row in the event's rows data. ``error`` says what is wrong.
    """

    def __init__(self, event: int, error: BinlogCorrupt, row: int, at: int) -> None:
        self.event, self.row, self.at = event, row, at
        self.error = error
        super().__init__(str(error))


def find_rows(data: Bytes, start: Int64s, end: Int64s, layout_of: Int64s, layouts: Layouts) -> FoundRows:
    """Find all rows in the data of many rows events, and their cells (values of single columns). The rows of event k
    lie at ``data[start[k] : end[k]]``.

    ``layouts`` describe row images (their columns and sizes), and ``layout_of`` has the index of each event's layout.
    Raises RowsError when the data of an event do not consist of whole rows.
    """
    room = _FEWEST_ROWS + int((end - start).sum()) // _LIKELY_ROW
    found = _new_rows(room, 4 * room)
    event = rows = 0
    at = int(start[0]) if start.size else 0
    while True:
        stop, event, at, rows = _walk(
            data, start, end, layout_of, layouts, found, _NO_COUNTS, event, at, rows
        )
        if stop == _Stop.DONE:
            used = int(found.cell[rows])
            return FoundRows(
                *(one[:rows] for one in found[:3]),
                found.cell[: rows + 1],
                *(one[:used] for one in found[4:]),
            )
        if stop != _Stop.FULL:
            row = rows - int(np.searchsorted(found.event[:rows], event))
            what = f"rows event: {_PROBLEMS[_Stop(stop)]}"
            raise RowsError(event, BinlogCorrupt(what), row, at - int(start[event]))
        more = _new_rows(2 * found.event.size, 2 * found.start.size)
        for old, new in zip(found, more, strict=True):
            new[: old.size] = old
        found = more


def count_rows(data: Bytes, start: Int64s, end: Int64s, layout_of: Int64s, layouts: Layouts) -> Int32s:
    """Return the number of rows in each rows event, int32, or UNKNOWN for an event whose rows cannot be counted.

    The rows of event k lie at ``data[start[k] : end[k]]``. ``layouts`` describe row images (their columns and sizes),
    and ``layout_of`` has the index of each event's layout.
    """
    counts = np.empty(start.size, np.int32)
    at = int(start[0]) if start.size else 0
    _walk(data, start, end, layout_of, layouts, _new_rows(0, 0), counts, 0, at, 0)
    return counts


class RowImages(NamedTuple):
    """The offsets of the row images in the rows data of one rows event, int64 of shape (number of rows,).

    Inserts have no before-images and deletes have no after-images, so that such images are empty. An image begins with
    its null bitmap. The after-image of a partial update begins with its value_options instead. The images follow one
    another without gaps and fill the data.
    """

    start: Int64s
    """The byte offset in the rows data at which each row, and so its before-image, begins."""
    middle: Int64s
    """For each row, the byte offset in the rows data at which the before-image ends and the after-image begins."""
    end: Int64s


def row_images(table: TableMap, rows: RowsHeader, data: bytes | bytearray | memoryview) -> RowImages:
    """Return the offsets of the row images in the rows data of a rows event. A dummy rows event has no images.

    Parameters:
        table: the event's Table_map event.
        rows: the decoded header of the event.
        data: the uncompressed rows data (:func:`dumpfilter.binlog.compression.rows_data`).

    Raises BinlogCorrupt when the data do not consist of whole rows.
    """
    if rows.is_dummy:
        nothing = np.empty(0, np.int64)
        return RowImages(nothing, nothing, nothing)
    layouts = row_layout(table, rows)
    begin, end = np.zeros(1, np.int64), np.array([len(data)], np.int64)
    try:
        found = find_rows(np.frombuffer(data, np.uint8), begin, end, begin, layouts)
    except RowsError as error:
        where = f"(row {error.row}, byte {error.at} of the rows)"
        raise BinlogCorrupt(f"{error.error.what} {where}") from None
    return RowImages(np.concatenate((begin, found.end))[:-1], found.middle, found.end)


_NO_COUNTS: Int32s = np.empty(0, np.int32)


def _new_rows(rows: int, cells: int) -> FoundRows:
    event, middle, end = (np.empty(rows, np.int64) for _ in range(3))
    places = (np.empty(cells, np.int64) for _ in range(3))
    return FoundRows(event, middle, end, np.zeros(rows + 1, np.int64), *places)


@inlined
def _image(data, at, end, layouts, first, last, writes_cells, out, k):
    """Return the byte offset after the row image that begins at offset ``at`` of ``data``, or -1 if the image does not
    end by ``end``.

    ``layouts`` (a Layouts) has the sizes of columns, and the image has the columns with the indexes ``first`` to
    ``last`` (exclusive) there. With ``writes_cells``, also write the offset, length and column number of each cell
    (value) to ``out`` (a FoundRows), from its entry ``k`` on.
    """
    sizes, out_start, out_length, out_column = layouts.size, out.start, out.length, out.column
    nulls = at
    at += (last - first + 7) >> 3
    if at > end:
        return np.int64(-1)
    bits = np.int64(0)
    for c in range(last - first):
        if writes_cells:
            out_column[k + c] = layouts.column[first + c]
        if c & 7 == 0:
            bits = np.int64(data[nulls + (c >> 3)])
        is_null = bits & 1
        bits >>= 1
        if is_null:
            if writes_cells:
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
        if writes_cells:
            out_start[k + c] = at
            out_length[k + c] = length
        at += length
    return at


@kernel
def _walk(
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    layout_of: Int64s,
    layouts: Layouts,
    out: FoundRows,
    counts: Int32s,
    e: int,
    at: int,
    rows: int,
):
    """Search the rows of many rows events, and write the rows to ``out``, until a malformed row or a full output array.

    The rows of event i lie at ``data[starts[i] : ends[i]]``, and ``layout_of[i]`` is the index of its layout (columns
    and sizes of the row images). The search begins at event ``e`` and byte offset ``at``. ``rows`` is the number of
    rows that ``out`` already has. If ``counts`` has entries, only the number of rows of each event is written, to
    ``counts``. An event with a malformed row then gets UNKNOWN, and the search goes on.

    Return ``(stop, event, offset, rows)``: a :class:`_Stop` (the reason to stop), and the values of ``e``, ``at`` and
    ``rows`` with which to continue.
    """
    firsts, seconds, images = layouts.first, layouts.second, layouts.images
    row_event, row_middle, row_end, row_cell = out.event, out.middle, out.end, out.cell
    cell_start, cell_length = out.start, out.length
    writes = counts.size == 0
    k = row_cell[rows]
    while e < starts.size:
        end, layout = ends[e], layout_of[e]
        first, second, last = firsts[layout], seconds[layout], firsts[layout + 1]
        partial = np.int64(layouts.partial_bytes[layout])
        has_before, has_after = images[layout] & BEFORE != 0, images[layout] & AFTER != 0
        after, width = second - first, last - first
        count = 0
        while at < end:
            if writes and (rows >= row_event.size or k + width > cell_start.size):
                return np.int64(_Stop.FULL), e, at, rows
            stop = np.int64(_Stop.DONE)
            middle = here = at
            if has_before:
                middle = here = _image(data, at, end, layouts, first, second, writes, out, k)
            bits = np.int64(-1)
            if here >= 0 and has_after:
                if partial >= 0:
                    if here >= end:
                        here = np.int64(-1)
                    # value_options is a packed integer, which has one byte as long as only one bit is defined.
                    elif data[here] > _PARTIAL_JSON_UPDATES:
                        stop = np.int64(_Stop.BAD_VALUE_OPTIONS)
                    else:
                        has_bits = data[here] == _PARTIAL_JSON_UPDATES
                        here += 1
                        if has_bits:
                            bits = here
                            here += partial
                if here >= 0 and stop == _Stop.DONE:
                    here = _image(data, here, end, layouts, second, last, writes, out, k + after)
                if here >= 0 and bits >= 0 and writes and stop == _Stop.DONE:
                    for c in range(last - second):
                        bit = layouts.json[second + c]
                        if bit < 0 or not data[bits + (bit >> 3)] >> (bit & 7) & 1:
                            continue
                        document, cell = layouts.document[second + c], k + after + c
                        if cell_length[cell] == 0 and document >= 0:
                            # A JSON value without changes is the value of the before-image.
                            cell_start[cell] = cell_start[k + document]
                            cell_length[cell] = cell_length[k + document]
                        elif cell_length[cell] >= 0:
                            cell_length[cell] = -2 - cell_length[cell]
            if here < 0:
                stop = np.int64(_Stop.CUT)
            elif here == at and stop == _Stop.DONE:
                stop = np.int64(_Stop.EMPTY_ROW)
            if stop != _Stop.DONE:
                if writes:
                    return stop, e, at, rows
                count = UNKNOWN
                break
            at = here
            count += 1
            if writes:
                row_event[rows], row_middle[rows], row_end[rows] = e, middle, here
                rows += 1
                k += width
                row_cell[rows] = k
        if not writes:
            counts[e] = count
        e += 1
        if e < starts.size:
            at = starts[e]
    return np.int64(_Stop.DONE), e, at, rows

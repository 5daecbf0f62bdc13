"""The search for the cells (values of row images) in many rows events."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.errors import BinlogCorrupt
from dumpfilter.rows import _cell_kernels as K

_FEWEST_ROWS = 16
_LIKELY_ROW = 48
"""The size of a row, bytes, from which the first size of the arrays is guessed."""

_PROBLEMS = {
    K.CUT: "the rows data end inside a row",
    K.EMPTY_ROW: "there are rows data for rows without columns",
    K.BAD_VALUE_OPTIONS: "an update has unknown value_options",
}

Bytes = npt.NDArray[np.uint8]
Int64 = npt.NDArray[np.int64]


class FoundRows(NamedTuple):
    """The rows of many rows events, and their cells."""

    row_event: Int64
    """The number of the event that each row belongs to."""
    before: K.Cells
    after: K.Cells


class RowsError(Exception):
    """An error about one of many rows events. The caller knows where the event lies."""

    def __init__(self, event: int, error: BinlogCorrupt) -> None:
        self.event = event
        self.error = error
        super().__init__(str(error))


def changes_length(length: int) -> int:
    """Return the number of bytes of changes to a JSON value, from the length of its cell."""
    return K.NULL - 1 - length


def find_cells(data: Bytes, start: Int64, end: Int64, layout_of: Int64, layouts: K.Layouts) -> FoundRows:
    """Return the cells of all rows. The rows of event k lie at ``data[start[k] : end[k]]``.

    ``layout_of`` has the number of each event's layout. Raises RowsError when the data do not consist of whole rows.
    """
    # numba compiles separate versions of a function for read-only and writable buffers.
    data = data.view()
    data.flags.writeable = False
    rows = _FEWEST_ROWS + int((end - start).sum()) // _LIKELY_ROW
    row_event = np.empty(rows, np.int64)
    before, after = _new_cells(rows), _new_cells(rows)
    event = done = 0
    at = int(start[0]) if start.size else 0
    while True:
        code, event, at, done = K.find_cells(
            data, start, end, layout_of, layouts, before, after, row_event, event, at, done
        )
        if code == K.DONE:
            return FoundRows(row_event[:done], _cut(before, done), _cut(after, done))
        if code != K.FULL:
            raise RowsError(event, BinlogCorrupt(f"rows event: {_PROBLEMS[code]}"))
        row_event = _doubled(row_event)
        before, after = _more_cells(before), _more_cells(after)


def documents_before(found: FoundRows, layout_of: Int64, layouts: K.Layouts) -> dict[int, int]:
    """Return the cells with the JSON documents that partial updates change.

    The keys are the numbers of those cells of the after-images that are changes to a JSON value. Each value is the
    number of the cell of the before-image that has the document. Changes whose before-image lacks the column, or has
    NULL there, are left out.
    """
    after, before = found.after, found.before
    changes = np.flatnonzero(after.length < K.NULL)
    row = np.searchsorted(after.row, changes, "right") - 1
    first = layouts.after[layout_of[found.row_event[row]]]
    column = layouts.after_before[first + changes - after.row[row]]
    cell = before.row[row] + column
    return {
        int(change): int(document)
        for change, document, number in zip(changes, cell, column, strict=True)
        if number >= 0 and before.length[document] >= 0
    }


def _new_cells(rows: int) -> K.Cells:
    return K.Cells(np.zeros(rows + 1, np.int64), np.empty(4 * rows, np.int64), np.empty(4 * rows, np.int64))


def _doubled(values: Int64) -> Int64:
    return np.concatenate((values, np.empty_like(values)))


def _more_cells(cells: K.Cells) -> K.Cells:
    row = np.concatenate((cells.row, np.empty(cells.row.size - 1, np.int64)))
    return K.Cells(row, _doubled(cells.start), _doubled(cells.length))


def _cut(cells: K.Cells, rows: int) -> K.Cells:
    count = int(cells.row[rows])
    return K.Cells(cells.row[: rows + 1], cells.start[:count], cells.length[:count])

"""The row images of the data source ``binlog``: the columns ``before``, ``after`` and ``row``.

The row images of a rows event are the values of its changed rows, before and after the change. In the usual form an
event is one row of the data source, with lists of row images. In exploded form each changed row is a row of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dumpfilter.rows import MAP_TYPE, ChangedRows

Int64 = npt.NDArray[np.int64]

ROW_TYPES: dict[str, pa.DataType] = {"row": pa.int32()}
"""The column with the number of a changed row in its event, if each changed row is a row of the data source."""

IMAGES = ("before", "after")
"""The columns with row images."""


def image_types(*, exploded: bool) -> dict[str, pa.DataType]:
    """Return the columns with the row images, with their types.

    A row image is a map from the names of columns to values as text. An event has a list of row images, one for each
    changed row. In exploded form each changed row is a row of the data source, with one row image.
    """
    return dict.fromkeys(IMAGES, MAP_TYPE if exploded else pa.list_(MAP_TYPE))


def joined(parts: Sequence[ChangedRows]) -> ChangedRows:
    """Return the changed rows of several parts in one, in the order of the events."""
    event = np.concatenate([part.event for part in parts])
    order = np.argsort(event, kind="stable")
    before, after = (
        pa.concat_arrays(arrays).take(pa.array(order))
        for arrays in ([part.before for part in parts], [part.after for part in parts])
    )
    return ChangedRows(event[order], before, after)


def image_lists(images: pa.MapArray, event: Int64, count: int) -> pa.ListArray:
    """Return the row images of each event as a list; null for an event that has no such images.

    ``event`` has the ascending event number of each row image. There are ``count`` events.
    """
    valid = np.asarray(images.is_valid())
    per_event = np.bincount(event[valid], minlength=count)
    offsets = np.concatenate([[0], np.cumsum(per_event)]).astype(np.int32)
    return pa.ListArray.from_arrays(
        pa.array(offsets),
        images.filter(pa.array(valid)),
        type=pa.list_(MAP_TYPE),
        mask=pa.array(per_event == 0),
    )


class ExplodedRows(NamedTuple):
    """The rows of the data source in exploded form: one for each changed row, and one for each event without rows."""

    event: Int64
    """The number of the event that each row comes from, ascending."""
    row: pa.Array
    """The number of the changed row in its event, from 0, int32; null for an event without rows."""
    before: pa.Array
    """The row images, as maps or structs."""
    after: pa.Array

    def only_changed_rows(self) -> ExplodedRows:
        """Return the rows without those of events that change no row."""
        changed = self.row.is_valid()
        rows, before, after = (one.filter(changed) for one in (self.row, self.before, self.after))
        return ExplodedRows(self.event[np.asarray(changed)], rows, before, after)


def exploded(images: ChangedRows, count: int) -> ExplodedRows:
    """Return the rows in exploded form of ``count`` events, whose numbers the row images have."""
    per_event = np.bincount(images.event, minlength=count)
    lines = np.maximum(per_event, 1)
    event = np.repeat(np.arange(count), lines)
    row = np.arange(event.size) - np.repeat(np.cumsum(lines) - lines, lines)
    without = (per_event == 0)[event]
    image = pa.array((np.cumsum(per_event) - per_event)[event] + row, mask=without)
    return ExplodedRows(
        event,
        pa.array(row.astype(np.int32), mask=without),
        images.before.take(image),
        images.after.take(image),
    )

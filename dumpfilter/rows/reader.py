"""The reader of row images: rows events in, Arrow arrays of changed rows out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dumpfilter.binlog.format import FormatDescription

MAP_TYPE = pa.map_(pa.string(), pa.string())
"""The type of the columns ``before`` and ``after``: the values of one row by column name.

A column without a name in the binlog has the name ``@1``, ``@2`` and so on, as in ``mysqlbinlog -v``. A value is text, or
null for NULL. A column that the row image lacks has no entry.
"""


class ChangedRows(NamedTuple):
    """The changed rows of many rows events, one entry for each row, in the order of the events."""

    event: npt.NDArray[np.int64]
    """The number of the rows event that each row belongs to, ascending."""
    before: pa.MapArray
    """The rows before the change (:data:`MAP_TYPE`); null for inserted rows."""
    after: pa.MapArray
    """The rows after the change (:data:`MAP_TYPE`); null for deleted rows.

    With ``binlog_row_image=MINIMAL`` the after-image of an update has the changed columns only.
    """


class RowImageReader:
    """A reader of the row images in a stream of events, which begins between two transactions.

    From one call to the next, the reader remembers the Table_map events in force.
    """

    def read(
        self,
        data: npt.NDArray[np.uint8],
        start: npt.NDArray[np.int64],
        size: npt.NDArray[np.int64],
        type: npt.NDArray[np.uint8],
        position: npt.NDArray[np.int64],
        fd: FormatDescription,
        *,
        wanted: npt.NDArray[np.bool_] | None = None,
    ) -> ChangedRows:
        """Return the changed rows of all rows events among the events given.

        Event k has ``size[k]`` bytes from ``data[start[k]]`` (uint8) on, with its common header and, if ``fd`` says so,
        its checksum. ``type`` has the events' types, and ``position`` their positions in the file, for errors. With
        ``wanted`` only the rows events for which it is true are decoded. Raises BinlogCorrupt or BinlogUnsupported with
        the event's position when an event cannot be decoded.
        """
        raise NotImplementedError

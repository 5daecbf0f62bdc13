"""The texts of cells (values of row images) as an Arrow array of strings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dumpfilter.errors import BinlogError, BinlogUnsupported
from dumpfilter.rows import _text_kernels as K
from dumpfilter.rows._cell_kernels import NULL, Cells
from dumpfilter.rows.cells import changes_length
from dumpfilter.rows.layouts import ColumnForms
from dumpfilter.rows.numbers import number_texts
from dumpfilter.rows.values import changed_json

MOST_TEXT = (1 << 31) - 1
"""The most bytes of text in an Arrow array of strings."""


class CellError(Exception):
    """An error about one value. The caller knows the event that the value is from."""

    def __init__(self, cell: int, error: BinlogError) -> None:
        self.cell = cell
        self.error = error
        super().__init__(str(error))


Documents = Mapping[int, tuple[int, int]]
"""The places of JSON documents in the data: the start and the length, by the number of the cell that changes it."""

NO_DOCUMENTS: Documents = MappingProxyType({})


def cell_texts(
    data: npt.NDArray[np.uint8],
    cells: Cells,
    column: npt.NDArray[np.int64],
    columns: ColumnForms,
    documents: Documents = NO_DOCUMENTS,
) -> pa.StringArray:
    """Return the text of each cell, or null for NULL. ``column`` has the number of each cell's column.

    ``documents`` are the JSON documents before the partial updates. A cell with changes to one of them becomes the
    whole document after the update. Raises CellError for a malformed value.
    """
    count = cells.start.size
    forms, parameters = columns.forms, columns.parameters
    room = K.most_bytes(cells.length, column, forms, parameters, columns.label_bytes)
    text = np.empty(room, np.uint8)
    text_at = np.empty(count + 1, np.int64)
    pending = np.zeros(count, np.bool_)
    size = K.write_texts(
        data, cells.start, cells.length, column, forms, parameters, columns.labels, text, text_at, pending
    )
    if pending.any():
        more = _pending_texts(data, cells, column, columns, documents, np.flatnonzero(pending))
        more_at = np.cumsum([0, *map(len, more)], dtype=np.int64)
        joined = np.empty(size + more_at[-1], np.uint8)
        joined_at = np.empty(count + 1, np.int64)
        made = np.frombuffer(b"".join(more) or b"\0", np.uint8)
        K.splice(text, text_at, pending, made, more_at, joined, joined_at)
        text, text_at, size = joined, joined_at, joined.size
    if size > MOST_TEXT:
        raise CellError(
            0, BinlogUnsupported(f"the values of the rows have {size} bytes, more than {MOST_TEXT}")
        )
    null = cells.length == NULL
    valid = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    return pa.StringArray.from_buffers(
        count, pa.py_buffer(text_at.astype(np.int32)), pa.py_buffer(text[:size]), valid, int(null.sum())
    )


def _pending_texts(
    data: npt.NDArray[np.uint8],
    cells: Cells,
    column: npt.NDArray[np.int64],
    columns: ColumnForms,
    documents: Documents,
    pending: npt.NDArray[np.int64],
) -> list[bytes]:
    of_cell = column[pending]
    real = columns.forms[of_cell] == K.Form.REAL
    texts = np.empty(pending.size, object)
    for kind in (np.float32, np.float64):
        width = np.dtype(kind).itemsize
        chosen = real & (columns.parameters[of_cell] == width)
        raw = np.empty(width * int(chosen.sum()), np.uint8)
        K.gather(data, cells.start[pending[chosen]], width, raw)
        texts[chosen] = [text.encode() for text in number_texts(raw.view(kind))]
    for k in np.flatnonzero(~real):
        texts[k] = _converted(data, cells, int(pending[k]), columns.converters[of_cell[k]], documents)
    found: list[bytes] = texts.tolist()
    return found


def _converted(
    data: npt.NDArray[np.uint8],
    cells: Cells,
    k: int,
    converter: tuple[str, Callable[[bytes], str]],
    documents: Documents,
) -> bytes:
    name, convert = converter
    start, length = int(cells.start[k]), int(cells.length[k])
    try:
        if length < NULL:
            document = None
            if k in documents:
                at, size = documents[k]
                document = data[at : at + size].tobytes()
            changes = data[start : start + changes_length(length)].tobytes()
            text = changed_json(name, changes, document)
        else:
            text = convert(data[start : start + length].tobytes())
        return text.encode("utf-8", "replace")
    except BinlogError as error:
        raise CellError(k, error) from error

"""The layouts of row images: the columns of each kind of rows events, as arrays for the compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dumpfilter.binlog import row_image as T
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.row_image import ColumnPlan
from dumpfilter.binlog.rows import RowsHeader, TableMap, is_pre_ga
from dumpfilter.errors import BinlogCorrupt, BinlogUnsupported
from dumpfilter.rows._cell_kernels import Layouts
from dumpfilter.rows._text_kernels import Form, Labels
from dumpfilter.rows.charsets import BINARY, LATIN1, UTF8, codec_of, decode
from dumpfilter.rows.table import INTEGERS, Column, Table, char_length, describe_table
from dumpfilter.rows.typed import with_names
from dumpfilter.rows.values import ToText, to_text

BEFORE, AFTER = 1, 2
"""The bits of the images that a row has."""

_FORMS = {
    T.YEAR: Form.YEAR,
    T.DATE: Form.DATE,
    T.NEWDATE: Form.DATE,
    T.TIME: Form.OLD_TIME,
    T.DATETIME: Form.OLD_DATETIME,
    T.TIMESTAMP: Form.OLD_TIMESTAMP,
    T.TIME2: Form.TIME,
    T.DATETIME2: Form.DATETIME,
    T.TIMESTAMP2: Form.TIMESTAMP,
    T.NEWDECIMAL: Form.DECIMAL,
    T.GEOMETRY: Form.HEX,
}
_PYTHONS = frozenset({T.JSON, T.TYPED_ARRAY, T.VECTOR, T.VARCHAR_COMPRESSED, T.BLOB_COMPRESSED, T.NULL})
"""The types whose values Python code converts."""

_TEXT_FORMS = {UTF8: Form.UTF8, LATIN1: Form.LATIN1, BINARY: Form.HEX}


TableKey = tuple[Family, bytes]
"""The server family, and the content of a Table_map event without the table id."""


class ColumnForms(NamedTuple):
    """The ways to convert the columns of all tables to text, with one entry for each column."""

    forms: npt.NDArray[np.uint8]
    parameters: npt.NDArray[np.int64]
    label_bytes: npt.NDArray[np.int64]
    labels: Labels
    names: pa.Array
    """The columns' names."""
    converters: list[tuple[str, ToText]]
    """The name of each column, and the function that converts its values in Python code."""


class ImageColumns(NamedTuple):
    """The columns of the images of all layouts: the numbers of the columns in :class:`ColumnForms`."""

    before: npt.NDArray[np.int64]
    after: npt.NDArray[np.int64]


@dataclass(slots=True)
class KnownTable:
    """A table whose columns are in the arrays, and the layouts of its row images that were met so far."""

    table: Table
    map: TableMap
    plan: ColumnPlan
    first_column: int
    layouts: dict[tuple[int, bytes, bytes | None], int] = field(default_factory=dict)
    header_lengths: dict[int, int] = field(default_factory=dict)
    """The length of the body before the rows, for each type of rows events that have no extra data."""
    image_columns: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)
    """The numbers of the columns that the before-image and the after-image have, by layout."""
    by_header: dict[tuple[int, bytes], int] = field(default_factory=dict)
    """The layouts by the events' type and by the bytes between the table id and the rows."""


class LayoutTable:
    """The layouts met so far. Each has a number, by which the compiled code finds its columns.

    With ``fill_unchanged``, a JSON value that a partial update leaves unchanged is that of the before-image. Otherwise
    the value is an empty list of changes. ``names`` name the columns of tables whose binlog does not
    (:func:`dumpfilter.rows.typed.with_names`).
    """

    def __init__(self, *, fill_unchanged: bool = True, names: Sequence[str] = ()) -> None:
        self._fill_unchanged = fill_unchanged
        self._names = names
        self.described: list[tuple[Column, Family]] = []
        """All columns, by number, and the family of the server of each."""
        self.tables: dict[TableKey, KnownTable] = {}
        self._columns: list[tuple[Form, int, int, str, ToText]] = []
        self._labels: list[bytes] = []
        self._before: list[tuple[int, int]] = []
        self._after: list[tuple[int, int, int, int]] = []
        self._before_at, self._after_at = [0], [0]
        self._images: list[int] = []
        self._partial: list[int] = []
        self._arrays: tuple[Layouts, ImageColumns] | None = None
        self._forms: ColumnForms | None = None

    @property
    def column_count(self) -> int:
        """The number of columns of all tables and layouts."""
        return len(self._columns) + len(self._before) + len(self._after)

    def add_table(self, key: TableKey, table: TableMap, family: Family) -> KnownTable:
        """Add and return the table of a Table_map event. Raises BinlogCorrupt."""
        plan = ColumnPlan.from_table_map(table)
        described = with_names(describe_table(table, family), self._names)
        known = KnownTable(described, table, plan, len(self._columns))
        for column in known.table.columns:
            self.described.append((column, family))
            self._columns.append((*self._form(column, family), column.name, to_text(column, family)))
        self.tables[key] = known
        self._forms = None
        return known

    def layout(self, known: KnownTable, rows: RowsHeader) -> int:
        """Return the number of the layout of a rows event. Raises BinlogCorrupt and BinlogUnsupported."""
        if is_pre_ga(rows.type):
            raise BinlogUnsupported("rows events of servers before 5.1.18 cannot be split into rows")
        if rows.column_count != known.plan.sizes.size:
            raise BinlogCorrupt(
                f"rows event: it has {rows.column_count} columns, and its Table_map event has {known.plan.sizes.size}"
            )
        key = (rows.type, rows.columns_before, rows.columns_after)
        number = known.layouts.get(key)
        if number is None:
            number = known.layouts[key] = self._add(known, rows)
        return number

    def _add(self, known: KnownTable, rows: RowsHeader) -> int:
        first = _present(rows.columns_before, known.plan)
        before = first if rows.kind != "insert" else []
        after = first if rows.kind == "insert" else []
        if rows.kind == "update":
            after = _present(rows.columns_after or b"", known.plan)
        place = {column: k for k, column in enumerate(before)} if self._fill_unchanged else {}
        sizes = known.plan.sizes.tolist()
        json = [k for k, column in enumerate(known.table.columns) if column.type == T.JSON]
        partial = rows.type == EventType.PARTIAL_UPDATE_ROWS
        self._before += [(known.first_column + c, sizes[c]) for c in before]
        self._after += [
            (
                known.first_column + c,
                sizes[c],
                place.get(c, -1),
                json.index(c) if partial and c in json else -1,
            )
            for c in after
        ]
        self._before_at.append(len(self._before))
        self._after_at.append(len(self._after))
        known.image_columns[len(self._images)] = (before, after)
        self._images.append({"insert": AFTER, "delete": BEFORE, "update": BEFORE | AFTER}[rows.kind])
        self._partial.append((len(json) + 7) // 8 if partial else -1)
        self._arrays = None
        return len(self._images) - 1

    def arrays(self) -> tuple[Layouts, ImageColumns]:
        """Return the layouts as arrays, and the columns of their images."""
        if self._arrays is None:
            before = np.array(self._before, np.int64).reshape(-1, 2)
            after = np.array(self._after, np.int64).reshape(-1, 4)
            self._arrays = (
                Layouts(
                    before=np.array(self._before_at, np.int64),
                    before_size=before[:, 1].astype(np.int32),
                    after=np.array(self._after_at, np.int64),
                    after_size=after[:, 1].astype(np.int32),
                    after_before=after[:, 2].astype(np.int32),
                    after_json=after[:, 3].astype(np.int32),
                    images=np.array(self._images, np.uint8),
                    partial_bytes=np.array(self._partial, np.int32),
                ),
                ImageColumns(before[:, 0].copy(), after[:, 0].copy()),
            )
        return self._arrays

    def forms(self) -> ColumnForms:
        """Return the ways to convert all columns to text."""
        if self._forms is None:
            names = [column[3] for column in self._columns]
            converters = [column[4] for column in self._columns]
            self._forms = ColumnForms(
                np.array([column[0] for column in self._columns], np.uint8),
                np.array([column[1] for column in self._columns], np.int64),
                np.array([column[2] for column in self._columns], np.int64),
                Labels(
                    np.frombuffer(b"".join(self._labels) or b"\0", np.uint8),
                    np.cumsum([0, *map(len, self._labels)], dtype=np.int64),
                ),
                pa.array(names, pa.string()),
                list(zip(names, converters, strict=True)),
            )
        return self._forms

    def _form(self, column: Column, family: Family) -> tuple[Form, int, int]:
        kind = column.type
        if kind in INTEGERS:
            return (Form.UNSIGNED if column.unsigned else Form.SIGNED), 0, 0
        if kind in (T.ENUM, T.SET):
            return self._named(column, family)
        if kind == T.BIT:
            return Form.BITS, 8 * (column.metadata >> 8) + (column.metadata & 0xFF), 0
        if kind in (T.FLOAT, T.DOUBLE):
            return Form.REAL, column.metadata, 0
        if kind in _FORMS:
            return _FORMS[kind], column.metadata, 0
        if kind in _PYTHONS:
            return Form.PENDING, 0, 0
        codec = codec_of(column.collation, family)
        if kind == T.STRING and codec == BINARY:
            return Form.PADDED_HEX, char_length(column.metadata), 0
        if codec is None:
            # Bytes of an unknown character set are text if they are UTF-8. Those of a known set that Python lacks are
            # no UTF-8.
            return (Form.UTF8 if column.collation is None else Form.HEX), 0, 0
        return _TEXT_FORMS.get(codec, Form.PENDING), 0, 0

    def _named(self, column: Column, family: Family) -> tuple[Form, int, int]:
        if not column.values:
            return (Form.UNSIGNED if column.type == T.ENUM else Form.SET_BITS), 0, 0
        codec = codec_of(column.collation, family)
        labels = [decode(value, codec).encode() for value in column.values]
        first = len(self._labels)
        self._labels += labels
        sizes = [len(label) for label in labels]
        form = Form.ENUM if column.type == T.ENUM else Form.SET
        return form, first << 16 | len(labels), max(sizes) if column.type == T.ENUM else sum(sizes)


def _present(bitmap: bytes, plan: ColumnPlan) -> list[int]:
    # The plan checks the length of the bitmap.
    plan.present(bitmap)
    return [c for c in range(plan.sizes.size) if bitmap[c >> 3] >> (c & 7) & 1]

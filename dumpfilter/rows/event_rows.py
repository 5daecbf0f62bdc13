"""The rows of one rows event, value by value, for programs that print them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.rows import RowsHeader, TableMap, encode_table_map
from dumpfilter.rows._cell_kernels import NULL, Cells
from dumpfilter.rows.cells import RowsError, changes_length, find_cells
from dumpfilter.rows.layouts import KnownTable, LayoutTable
from dumpfilter.rows.table import Column, Table

_TABLE_ID_LENGTH = 6
_MOST_COLUMNS = 1 << 18
"""The number of columns, of all tables and layouts, at which the reader forgets them."""


class Value(NamedTuple):
    """One value of a row image."""

    number: int
    """The number of the column in its table, from 1 on."""
    column: Column
    data: bytes | None
    """The value as the binlog stores it; None for NULL."""
    is_changes: bool
    """Whether the data are changes to a JSON value, instead of a value (partial update)."""


class Row(NamedTuple):
    """One changed row. Inserts have no before-image, and deletes have no after-image."""

    before: list[Value] | None
    after: list[Value] | None


class EventRows:
    """A reader of the rows of single rows events. It remembers the tables that it met."""

    def __init__(self) -> None:
        self._layouts = LayoutTable(fill_unchanged=False)

    def table(self, table: TableMap, family: Family) -> Table:
        """Return the table of a table map. Raises BinlogCorrupt."""
        return self._known(table, family).table

    def rows(
        self, table: TableMap, header: RowsHeader, data: bytes | memoryview, family: Family
    ) -> Iterator[Row]:
        """Yield the changed rows of a rows event.

        ``data`` are its uncompressed rows (:func:`dumpfilter.binlog.compression.rows_data`). Raises BinlogCorrupt, and
        BinlogUnsupported for rows events of servers before 5.1.18.
        """
        if header.is_dummy:
            return
        known = self._known(table, family)
        layout = self._layouts.layout(known, header)
        raw = bytes(data)
        start, end = np.zeros(1, np.int64), np.array([len(raw)], np.int64)
        try:
            found = find_cells(
                np.frombuffer(raw, np.uint8), start, end, np.array([layout]), self._layouts.arrays()[0]
            )
        except RowsError as error:
            raise error.error from None
        before, after = (
            [(number + 1, known.table.columns[number]) for number in numbers]
            for numbers in known.image_columns[layout]
        )
        has_before, has_after = header.kind != "insert", header.kind != "delete"
        for row in range(found.row_event.size):
            yield Row(
                _values(raw, found.before, row, before) if has_before else None,
                _values(raw, found.after, row, after) if has_after else None,
            )

    def _known(self, table: TableMap, family: Family) -> KnownTable:
        key = (family, encode_table_map(table)[_TABLE_ID_LENGTH:])
        known = self._layouts.tables.get(key)
        if known is None:
            if self._layouts.column_count > _MOST_COLUMNS:
                self._layouts = LayoutTable(fill_unchanged=False)
            known = self._layouts.add_table(key, table, family)
        return known


def _values(raw: bytes, cells: Cells, row: int, columns: list[tuple[int, Column]]) -> list[Value]:
    first = int(cells.row[row])
    starts = cells.start[first : first + len(columns)].tolist()
    lengths = cells.length[first : first + len(columns)].tolist()
    values = []
    for (number, column), start, length in zip(columns, starts, lengths, strict=True):
        if length >= 0:
            values.append(Value(number, column, raw[start : start + length], False))
        elif length == NULL:
            values.append(Value(number, column, None, False))
        else:
            values.append(Value(number, column, raw[start : start + changes_length(length)], True))
    return values

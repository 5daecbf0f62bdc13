"""The layouts of row images that a reader has met: the columns of each kind of rows events, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.row_image import ColumnPlan, ImageLayout, Layouts, as_arrays
from dumpfilter.binlog.rows.table import Column, Table, describe_table
from dumpfilter.binlog.rows.texts import StyledColumns
from dumpfilter.binlog.rows.typed import with_names
from dumpfilter.binlog.rows.values import text_style
from dumpfilter.binlog.rows_events import RowsHeader, TableMap

TableKey = tuple[Family, bytes]
"""The server family, and the content of a Table_map event without the table id."""


@dataclass(slots=True)
class KnownTable:
    """A table whose columns are in the arrays, and the layouts of its row images that were met so far."""

    table: Table
    plan: ColumnPlan
    first_column: int
    numbers: dict[ImageLayout, int] = field(default_factory=dict)
    by_header: dict[tuple[int, bytes], int] = field(default_factory=dict)
    """The layouts by the events' type and by the bytes between the flags and the rows."""


class LayoutTable:
    """The layouts met so far. Each has a number, by which the compiled code finds its columns.

    ``names`` name the columns of tables whose binlog does not (:func:`dumpfilter.binlog.rows.typed.with_names`).
    ``check`` is called with each new table, and may raise a BinlogError.
    """

    def __init__(
        self, names: Sequence[str] = (), check: Callable[[Table, Family], None] | None = None
    ) -> None:
        self._names = names
        self._check = check
        self.described: list[tuple[Column, Family]] = []
        """All columns, by number, and the family of the server of each."""
        self.tables: dict[TableKey, KnownTable] = {}
        self._layouts: list[ImageLayout] = []
        self._columns: list[int] = []
        self._arrays: tuple[Layouts, npt.NDArray[np.int64]] | None = None
        self._styled: StyledColumns | None = None

    @property
    def column_count(self) -> int:
        """The number of columns of all tables and layouts."""
        return len(self.described) + len(self._columns)

    def add_table(self, key: TableKey, table: TableMap, family: Family) -> KnownTable:
        """Add and return the table of a Table_map event. Raises BinlogCorrupt, and the errors of ``check``."""
        described = with_names(describe_table(table, family), self._names)
        if self._check is not None:
            self._check(described, family)
        known = KnownTable(described, ColumnPlan.from_table_map(table), len(self.described))
        self.described += [(column, family) for column in described.columns]
        self.tables[key] = known
        self._styled = None
        return known

    def layout(self, known: KnownTable, rows: RowsHeader) -> int:
        """Return the number of the layout of a rows event. Raises BinlogCorrupt and BinlogUnsupported."""
        layout = known.plan.layout(rows)
        number = known.numbers.get(layout)
        if number is None:
            number = known.numbers[layout] = len(self._layouts)
            self._layouts.append(layout)
            self._columns += [known.first_column + column for column in (*layout.before, *layout.after)]
            self._arrays = None
        return number

    def arrays(self) -> tuple[Layouts, npt.NDArray[np.int64]]:
        """Return the layouts as arrays, and the number in :attr:`described` of each of their columns."""
        if self._arrays is None:
            self._arrays = as_arrays(self._layouts), np.array(self._columns, np.int64)
        return self._arrays

    def styled(self) -> StyledColumns:
        """Return the styles of all columns' texts."""
        if self._styled is None:
            self._styled = StyledColumns.of(text_style(*described) for described in self.described)
        return self._styled

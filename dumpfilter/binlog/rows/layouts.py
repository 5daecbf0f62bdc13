"""The cache of row image layouts (which columns an image has, and the sizes of its values), as arrays for compiled
code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.row_image import ColumnPlan, ImageLayout, Layouts, as_arrays
from dumpfilter.binlog.rows.table import Column, Table, describe_table
from dumpfilter.binlog.rows.texts import Style, StyledColumns, head_style
from dumpfilter.binlog.rows.values import text_style
from dumpfilter.binlog.rows_events import RowsHeader, TableMap

TableKey = tuple[Family, bytes]
"""The server family, and the content of a Table_map event without the table id."""


@dataclass(slots=True)
class KnownTable:
    """A table that a Table_map event described, with a cache of the layouts (columns and value sizes) of its row
    images.
    """

    table: Table
    plan: ColumnPlan
    first_column: int
    numbers: dict[tuple[ImageLayout, bytes], int] = field(default_factory=dict)
    """The number of each layout, by layout and extra data of the rows events."""
    by_header: dict[tuple[int, bytes], int] = field(default_factory=dict)
    """The layout numbers of the table's rows events, by event type and the bytes of the header after the flags."""


class LayoutTable:
    """A cache of the layouts (columns and value sizes) of row images. Each layout has a number, its index in the arrays
    for compiled code.

    Parameters:
        describe: returns the table of a new Table_map event, and may raise a BinlogError.
        style: returns how the values of a column become text.
        heads: returns the two texts that precede the values of the before-image and after-image; None: no such texts.
        fill_unchanged: whether a JSON value that a partial update leaves unchanged is taken from the before-image.
        styles: the styles (ways to convert values to text) of columns that belong to no table.
    """

    def __init__(
        self,
        describe: Callable[[TableMap, Family], Table] = describe_table,
        *,
        style: Callable[[Column, Family], Style] = text_style,
        heads: Callable[[Table, RowsHeader], tuple[bytes, bytes]] | None = None,
        fill_unchanged: bool = True,
        styles: Sequence[Style] = (),
    ) -> None:
        self._describe, self._style, self._heads = describe, style, heads
        self._fill_unchanged = fill_unchanged
        self.described: list[tuple[Column, Family]] = []
        """The columns of all described tables, each with the family of its server (MySQL or MariaDB). Without
        ``styles`` and ``heads``, a column's index is its number in :attr:`Layouts.column`.
        """
        self.tables: dict[TableKey, KnownTable] = {}
        self._styles = [*styles]
        self._layouts: list[ImageLayout] = []
        self._columns: list[int] = []
        self._head_columns: list[int] = []
        self._arrays: Layouts | None = None
        self._styled: StyledColumns | None = None

    @property
    def column_count(self) -> int:
        """The number of cached columns, of all tables and layouts. Callers start a new cache when the number becomes
        too large.
        """
        return len(self.described) + len(self._columns)

    def add_table(self, key: TableKey, table: TableMap, family: Family) -> KnownTable:
        """Describe the table of a Table_map event, cache the description under ``key``, and return it.

        Raises BinlogCorrupt, and the errors of ``describe``.
        """
        described = self._describe(table, family)
        known = KnownTable(described, ColumnPlan.from_table_map(table), len(self._styles))
        self.described += [(column, family) for column in described.columns]
        self.tables[key] = known
        self._styles += [self._style(column, family) for column in described.columns]
        self._styled = None
        return known

    def layout(self, known: KnownTable, rows: RowsHeader) -> int:
        """Return the number of the layout (columns and value sizes) of the row images in a rows event of the table
        ``known``. A new layout gets the next number.

        ``rows`` is the decoded header of the event. Raises BinlogCorrupt for a header that does not fit the table, and
        BinlogUnsupported for servers before 5.1.18.
        """
        layout = known.plan.layout(rows)
        number = known.numbers.get((layout, rows.extra))
        if number is None:
            number = known.numbers[layout, rows.extra] = len(self._layouts)
            self._layouts.append(layout)
            self._columns += [known.first_column + column for column in (*layout.before, *layout.after)]
            if self._heads is None:
                self._head_columns += (-1, -1)
            else:
                self._head_columns += range(len(self._styles), len(self._styles) + 2)
                self._styles += [head_style(text) for text in self._heads(known.table, rows)]
                self._styled = None
            self._arrays = None
        return number

    def arrays(self) -> Layouts:
        """Return all layouts (columns and value sizes of row images) as arrays, which compiled code needs to
        find rows.
        """
        if self._arrays is None:
            self._arrays = as_arrays(
                self._layouts, self._columns, self._head_columns, fill_unchanged=self._fill_unchanged
            )
        return self._arrays

    def styled(self) -> StyledColumns:
        """Return how the values of each cached column become text, as arrays for compiled code."""
        if self._styled is None:
            self._styled = StyledColumns.of(self._styles)
        return self._styled

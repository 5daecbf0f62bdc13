"""The Parquet tables beside a report: their columns with types and meanings, and the writing of their files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TEXT, INT, FLOAT, BOOL = pa.string(), pa.int64(), pa.float64(), pa.bool_()
TEXTS = pa.list_(pa.string())
TIME = pa.timestamp("us", tz="UTC")
"""A moment, which Parquet's readers show as a date and a time in UTC."""

_ROWS_OF_A_GROUP = 10_000
"""The rows of a row group. A query for one slave or one hour reads only the groups whose statistics have it."""


@dataclass(frozen=True)
class Column:
    """One column of a table, as the file's schema and the documentation have it."""

    name: str
    type: pa.DataType
    meaning: str


@dataclass(frozen=True)
class ParquetTable:
    """The form of one table: the meaning of a row, the columns, and the order of the rows."""

    row: str
    """The meaning of a row, which completes "a row for …"."""
    columns: tuple[Column, ...]
    order: tuple[str, ...] = ()
    """The columns by which the rows ascend. Nulls come last."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema. Each field has its meaning as metadata."""
        return pa.schema(
            [pa.field(one.name, one.type, metadata={"meaning": one.meaning.encode()}) for one in self.columns]
        )

    def of_rows(self, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
        """Return the rows as an Arrow table in the order of this form. Columns that a row has not are null."""
        made = pa.Table.from_pylist(list(rows), self.schema)
        if self.order:
            made = made.sort_by([(name, "ascending") for name in self.order])
        return made.replace_schema_metadata({"row": self.row})

    def write(self, table: pa.Table, path: Path) -> None:
        """Write a table to a Parquet file, with the statistics and the order of its rows."""
        sorting = pq.SortingColumn.from_ordering(
            self.schema, [(name, "ascending") for name in self.order], null_placement="at_end"
        )
        pq.write_table(
            table,
            path,
            compression="zstd",
            row_group_size=_ROWS_OF_A_GROUP,
            write_statistics=True,
            write_page_index=True,
            sorting_columns=sorting or None,
        )


def write_tables(forms: Mapping[str, ParquetTable], made: Mapping[str, pa.Table], directory: Path) -> None:
    """Write each table to the file ``NAME.parquet`` in ``directory``."""
    for name, table in made.items():
        forms[name].write(table, directory / f"{name}.parquet")

"""The Parquet tables beside a report: their columns with types and meanings, and writing their files."""

from __future__ import annotations

import re
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dumpfilter.base.options.docstrings import attribute_texts

TEXT, INT, FLOAT, BOOL = pa.string(), pa.int64(), pa.float64(), pa.bool_()
TEXTS = pa.list_(pa.string())
TIME = pa.timestamp("us", tz="UTC")
"""The Arrow type of a point in time, which Parquet's readers show as a date and a time in UTC."""

UnixTime = Annotated[int, TIME]
"""The type of a model's field with Unix seconds, whose column has the type :data:`TIME`."""

_TYPES = {bool: BOOL, int: INT, float: FLOAT, tuple: TEXTS}
"""The column types for the types of a model's fields. All other fields become text."""

_ROWS_OF_A_GROUP = 10_000
"""The number of rows in a row group. A query for one slave or one hour reads only the groups that can contain it."""


@dataclass(frozen=True)
class Column:
    """One column of a table, as it is in the file's schema and in the documentation."""

    name: str
    type: pa.DataType
    meaning: str


@dataclass(frozen=True)
class ParquetTable:
    """The definition of one table: the meaning of a row, the columns, and the sort order."""

    row: str
    """The meaning of a row, as the end of the phrase "a row for …"."""
    columns: tuple[Column, ...]
    order: tuple[str, ...] = ()
    """The columns by which the rows are sorted, ascending. Nulls come last."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema. Each field has its meaning as metadata."""
        return pa.schema(
            [pa.field(one.name, one.type, metadata={"meaning": one.meaning.encode()}) for one in self.columns]
        )

    def of_rows(self, rows: Iterable[dict[str, Any]]) -> pa.Table:
        """Return the rows as a sorted Arrow table. Columns that a row lacks are null.

        A number in a column of the type :data:`TIME` is Unix seconds.
        """
        times = [one.name for one in self.columns if one.type == TIME]
        made = pa.Table.from_pylist([row | _moments(row, times) for row in rows], self.schema)
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


def _moments(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, int]:
    return {name: row[name] * 1_000_000 for name in names if isinstance(row.get(name), int)}


def columns_of(
    model: type[BaseModel], *, without: Collection[str] = (), prefix: str = "", about: str = ""
) -> Iterator[Column]:
    """Yield a column for each field of a pydantic model. The docstring after the field is the column's meaning.

    A field that is a model itself becomes several columns, whose names begin with the field's name, as in :func:`flat`.
    Fields whose name is in ``without`` are left out. ``prefix`` is put before each name. ``about`` says what the fields
    of an inner model are about.
    """
    texts = attribute_texts(model)
    for name, field in model.model_fields.items():
        if name in without:
            continue
        kind = _kind(field)
        text = _plain(texts.get(name, ""))
        meaning = f"{about}: {text[:1].lower()}{text[1:]}" if about else text
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            # The first sentence says what the inner fields are about.
            yield from columns_of(
                kind, prefix=f"{prefix}{name}_", about=about or text.split(". ")[0].rstrip(".")
            )
        else:
            yield Column(prefix + name, TIME if TIME in field.metadata else _TYPES.get(kind, TEXT), meaning)


def _kind(field: FieldInfo) -> Any:
    """Return a field's type without None and without type arguments, such as ``tuple`` for ``tuple[str, ...] |
    None``.
    """
    kind: Any = field.annotation
    if isinstance(kind, types.UnionType):
        (kind,) = (one for one in get_args(kind) if one is not type(None))
    return get_origin(kind) or kind


def _plain(text: str) -> str:
    """Return a docstring as Markdown for the documentation of a table, in which None is called null.

    >>> _plain("The number in ``members``, or None without :attr:`Results.limit`.")
    'The number in `members`, or null without `Results.limit`.'
    """
    return re.sub(r"\bNone\b", "null", re.sub(r":\w+:", "", text).replace("``", "`"))


def flat(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested mappings as one level, with the keys joined by underscores."""
    row: dict[str, Any] = {}
    for name, value in members.items():
        if isinstance(value, Mapping):
            row |= {f"{name}_{key}": inner for key, inner in flat(value).items()}
        else:
            row[name] = value
    return row


def write_tables(forms: Mapping[str, ParquetTable], made: Mapping[str, pa.Table], directory: Path) -> None:
    """Write each table to the file ``NAME.parquet`` in ``directory``."""
    for name, table in made.items():
        forms[name].write(table, directory / f"{name}.parquet")

"""The Parquet tables of a report: the columns with types and meanings, and the writing of files."""

from __future__ import annotations

import re
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dumpfilter.base.options.docstrings import attribute_texts

TEXT, INT, FLOAT, BOOL = pa.string(), pa.int64(), pa.float64(), pa.bool_()
TEXTS = pa.list_(pa.string())
TIME = pa.timestamp("us", tz="UTC")
"""The Arrow type of a point in time. Readers of Parquet show it as date and time in UTC."""

UnixTime = Annotated[int, TIME]
"""The type annotation of a model's field that holds Unix seconds. Its column has the type :data:`TIME`."""

_TYPES = {bool: BOOL, int: INT, float: FLOAT, tuple: TEXTS}
"""The column type for each Python type of a model's field. Other fields become text."""

_ROWS_OF_A_GROUP = 10_000
"""The number of rows in a Parquet row group. A query for one slave or one hour reads only the row groups that can
match.
"""


class Column(NamedTuple):
    """One column of a table, with the name, Arrow type and meaning that the Parquet file's schema and the documentation
    show.
    """

    name: str
    type: pa.DataType
    meaning: str


class ParquetTable(NamedTuple):
    """The definition of one Parquet table: the meaning of a row, and the columns."""

    row: str
    """The meaning of a row, worded as the end of the phrase "a row for …"."""
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema. Each field's metadata contains the column's meaning."""
        return pa.schema(
            [pa.field(one.name, one.type, metadata={"meaning": one.meaning.encode()}) for one in self.columns]
        )

    def of_rows(self, rows: Iterable[dict[str, Any]]) -> pa.Table:
        """Return the rows as an Arrow table. Columns missing in a row are null.

        A number in a column of the type :data:`TIME` must be Unix seconds.
        """
        in_seconds = pa.timestamp("s", tz="UTC")
        given = [one.with_type(in_seconds) if one.type == TIME else one for one in self.schema]
        made = pa.Table.from_pylist(list(rows), pa.schema(given)).cast(self.schema)
        return made.replace_schema_metadata({"row": self.row})


def columns_of(
    model: type[BaseModel], *, without: Collection[str] = (), prefix: str = "", about: str = ""
) -> Iterator[Column]:
    """Yield a column for each field of a pydantic model. The field's docstring is the column's meaning.

    A field whose type is itself a model gives several columns, whose names begin with the field's name (as in
    :func:`flat`). Fields in ``without`` are left out. ``prefix`` is put before each column's name, and ``about`` before
    each meaning, with a colon.
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
    """Convert a docstring to Markdown for the documentation of a table. None is renamed to null.

    >>> _plain("The number in ``members``, or None without :attr:`Results.limit`.")
    'The number in `members`, or null without `Results.limit`.'
    """
    return re.sub(r"\bNone\b", "null", re.sub(r":\w+:", "", text).replace("``", "`"))


def flat(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested mappings as one flat dictionary, with the keys of each path joined by underscores."""
    row: dict[str, Any] = {}
    for name, value in members.items():
        if isinstance(value, Mapping):
            row |= {f"{name}_{key}": inner for key, inner in flat(value).items()}
        else:
            row[name] = value
    return row


def write_tables(made: Mapping[str, pa.Table], directory: Path) -> None:
    """Write each table of ``made`` to the file ``NAME.parquet`` in ``directory``. ``NAME`` is the table's key."""
    for name, table in made.items():
        pq.write_table(
            table, directory / f"{name}.parquet", compression="zstd", row_group_size=_ROWS_OF_A_GROUP
        )

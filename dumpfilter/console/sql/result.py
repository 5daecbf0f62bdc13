"""The result of a client's statement: either OK or rows with typed columns, in both cases with warnings."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple


def as_shown(time: datetime) -> str:
    """Return the text with which a server shows a time in a TIMESTAMP(6) column.

    A time with a time zone is converted to the machine's time zone, as a server with ``time_zone = SYSTEM`` does.

    >>> as_shown(datetime(2026, 1, 2))
    '2026-01-02 00:00:00.000000'
    """
    local = time if time.tzinfo is None else time.astimezone().replace(tzinfo=None)
    return local.isoformat(" ", "microseconds")


def text_of(value: object) -> str:
    """Return the text of a row's value as a server sends it to clients.

    >>> text_of(1e3), text_of(0.1), text_of(True), text_of(datetime(2026, 1, 2))
    ('1000', '0.1', '1', '2026-01-02 00:00:00.000000')
    """
    return _TEXTS.get(type(value), str)(value)


def size_of_row(row: Sequence[Any]) -> int:
    """Return the approximate memory that a row of a result takes, bytes."""
    return sys.getsizeof(row) + sum(map(sys.getsizeof, row))


_TEXTS: Mapping[type[Any], Callable[[Any], str]] = {
    bool: lambda value: str(int(value)),
    float: lambda value: repr(value).removesuffix(".0"),
    bytes: lambda value: value.decode("utf-8", "replace"),
    datetime: as_shown,
}
"""The functions that return the texts of values by their types. Values of other types have the text of ``str``."""


ZERO_TIMESTAMP = "0000-00-00 00:00:00.000000"
"""The value that a server shows in a TIMESTAMP(6) column for a time that does not exist yet.

For example, the time of the last error has this value before the first error.
"""


class _Type(NamedTuple):
    """The names of a column's type in the information_schema and in SQLite, and its numbers in the client protocol."""

    sql: str
    """The SQL type that information_schema.COLUMNS shows in COLUMN_TYPE. The first word is shown in DATA_TYPE."""
    declared: str
    """The type with which the column is declared in an SQLite table, since SQLite runs each SELECT."""
    wire: int
    """The number of the type in the client protocol."""
    decimals: int = 0


class ColumnType(_Type, enum.Enum):
    """The types that the values of a column can have. The type decides how the values are sent to the client."""

    TEXT = "longtext", "TEXT COLLATE NOCASE", 253
    INTEGER = "bigint unsigned", "INTEGER", 8
    """A column of the SQL type BIGINT: integers of 64 bits, signed or unsigned."""
    DOUBLE = "double", "REAL", 5, 31
    TIMESTAMP = "timestamp(6)", "TEXT", 7, 6
    """A column of the SQL type TIMESTAMP(6). A row holds each value as a ``datetime.datetime``, or as the text that
    :func:`as_shown` makes of one.
    """


@dataclass(frozen=True)
class Column:
    """The name and type of one column of a result or of a table."""

    name: str
    type: ColumnType = ColumnType.TEXT


@dataclass(frozen=True)
class Note:
    """One row of SHOW WARNINGS: a note, warning or error about a statement."""

    level: str
    """The severity of the note: ``Note``, ``Warning`` or ``Error``."""
    number: int
    message: str


@dataclass(frozen=True)
class Result:
    """The answer to one statement, or the columns and current rows of a table that SELECT can read.

    An answer without columns is sent as an OK packet, not as a result set.

    ``affected`` is the number of affected rows, and ``notes`` are the warnings for SHOW WARNINGS.
    """

    columns: Sequence[Column] = ()
    rows: Sequence[Sequence[Any]] = ()
    """The rows of the result. Each row has one value for each column, and None stands for NULL."""
    affected: int = 0
    notes: Sequence[Note] = ()


OK = Result()

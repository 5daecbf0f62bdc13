"""What a command answers: rows with typed columns, or just OK; and warnings, as a server gives them."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class ColumnType(enum.Enum):
    """What a column holds, as a client is told."""

    TEXT = "text"
    INTEGER = "integer"
    """64 bits; unsigned ones too."""
    DOUBLE = "double"
    TIMESTAMP = "timestamp"
    """``datetime.datetime``, shown with microseconds (``TIMESTAMP(6)``)."""


@dataclass(frozen=True)
class Column:
    """One column of a result or of a table."""

    name: str
    type: ColumnType = ColumnType.TEXT


@dataclass(frozen=True)
class Note:
    """One row of SHOW WARNINGS."""

    level: str
    """``Note`` or ``Warning``."""
    number: int
    message: str


@dataclass(frozen=True)
class Result:
    """The answer to one statement: without columns it is OK."""

    columns: Sequence[Column] = ()
    rows: Sequence[Sequence[Any]] = ()
    """Each as long as ``columns``; None is NULL."""
    affected: int = 0
    notes: Sequence[Note] = ()


OK = Result()


@dataclass(frozen=True)
class Table:
    """A table that can be selected from, as it is at this moment."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]

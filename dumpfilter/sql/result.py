"""The answer to a statement: OK or rows with typed columns, and warnings."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


def as_shown(time: datetime) -> str:
    """Return a time as a server shows a TIMESTAMP(6).

    A time with a time zone is shown in the machine's time zone (``time_zone = SYSTEM``).

    >>> as_shown(datetime(2026, 1, 2))
    '2026-01-02 00:00:00.000000'
    """
    local = time if time.tzinfo is None else time.astimezone().replace(tzinfo=None)
    return local.isoformat(" ", "microseconds")


class ColumnType(enum.Enum):
    """The type of a column's values."""

    TEXT = "text"
    INTEGER = "integer"
    """An integer of 64 bits, signed or unsigned."""
    DOUBLE = "double"
    TIMESTAMP = "timestamp"
    """A ``datetime.datetime``, which :func:`as_shown` writes."""


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
    """The answer to one statement. Without columns the answer is OK."""

    columns: Sequence[Column] = ()
    rows: Sequence[Sequence[Any]] = ()
    """The rows, each as long as ``columns``. None is NULL."""
    affected: int = 0
    notes: Sequence[Note] = ()


OK = Result()


@dataclass(frozen=True)
class Table:
    """The present content of a table that SELECT can read."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]

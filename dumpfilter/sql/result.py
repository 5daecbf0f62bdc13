"""What a command answers: rows with typed columns, or just OK; and warnings, as a server gives them."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


def as_shown(time: datetime) -> str:
    """A time as a server shows a TIMESTAMP(6): an aware one in the time zone of the machine (``SYSTEM``).

    >>> as_shown(datetime(2026, 1, 2))
    '2026-01-02 00:00:00.000000'
    """
    local = time if time.tzinfo is None else time.astimezone().replace(tzinfo=None)
    return local.isoformat(" ", "microseconds")


class ColumnType(enum.Enum):
    """What a column holds, as a client is told."""

    TEXT = "text"
    INTEGER = "integer"
    """64 bits; unsigned ones too."""
    DOUBLE = "double"
    TIMESTAMP = "timestamp"
    """``datetime.datetime``, see :func:`as_shown`."""


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

"""What a statement touches, as far as a filter asks."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class StatementKind(enum.Enum):
    """The kinds of statement that filters tell apart."""

    CREATE_DATABASE = "CREATE DATABASE"
    ALTER_DATABASE = "ALTER DATABASE"
    DROP_DATABASE = "DROP DATABASE"
    OTHER = "statement"

    @property
    def is_database(self) -> bool:
        """Whether it is about a whole database."""
        return self is not StatementKind.OTHER


@dataclass(frozen=True)
class Statement:
    """The subject of a statement: equal statements get equal verdicts.

    The text is not part of it: what a filter asks of a text is read once, into these fields.
    """

    kind: StatementKind
    current_database: str | None
    """The database of the event's header (the session's USE); None when there was none."""
    database: str | None = None
    """The database that CREATE, ALTER or DROP DATABASE names."""
    updated_databases: tuple[str, ...] | None = None
    """Databases of what it updates, sorted; None when not known. From the status variables
    (Q_UPDATED_DB_NAMES) where the server wrote them, else from the text."""

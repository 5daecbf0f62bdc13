"""What a statement touches, as far as a filter asks."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dumpfilter.binlog.query import TableName


class StatementKind(enum.Enum):
    """The kinds of statement; the value is what ``--statement-kind`` and the reports call them."""

    CREATE_DATABASE = "CREATE DATABASE"
    ALTER_DATABASE = "ALTER DATABASE"
    DROP_DATABASE = "DROP DATABASE"
    INSERT = "INSERT"
    REPLACE = "REPLACE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    LOAD_DATA = "LOAD DATA"
    CREATE_TABLE = "CREATE TABLE"
    CREATE_TABLE_LIKE = "CREATE TABLE LIKE"
    CREATE_TABLE_SELECT = "CREATE TABLE SELECT"
    ALTER_TABLE = "ALTER TABLE"
    DROP_TABLE = "DROP TABLE"
    RENAME_TABLE = "RENAME TABLE"
    TRUNCATE_TABLE = "TRUNCATE TABLE"
    CREATE_INDEX = "CREATE INDEX"
    DROP_INDEX = "DROP INDEX"
    VIEW = "VIEW"
    SEQUENCE = "SEQUENCE"
    CREATE_TRIGGER = "CREATE TRIGGER"
    DROP_TRIGGER = "DROP TRIGGER"
    ROUTINE = "ROUTINE"
    EVENT = "EVENT"
    ACCOUNT = "ACCOUNT"
    MAINTENANCE = "MAINTENANCE"
    FLUSH = "FLUSH"
    SELECT = "SELECT"
    SET = "SET"
    OTHER = "OTHER"
    """Understood, and none of the above: servers, tablespaces, spatial reference systems …"""
    UNKNOWN = "UNKNOWN"
    """Not understood."""

    @property
    def is_database(self) -> bool:
        """Whether it is about a whole database."""
        return self in _DATABASE_KINDS


_DATABASE_KINDS = frozenset(
    {StatementKind.CREATE_DATABASE, StatementKind.ALTER_DATABASE, StatementKind.DROP_DATABASE}
)


TableLists = tuple[tuple[TableName, ...], ...]


@dataclass(frozen=True, slots=True)
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
    updated: TableLists | None = None
    """The lists of updated tables that a server puts its table rules to (``Rpl_filter::tables_ok``), in the
    server's order; each list must pass. No list: table rules do not touch this statement. An empty list: it
    has tables and updates none, which never passes. GRANT on a table has two: that table, then the grant
    tables. None: it cannot be told."""
    involved: tuple[TableName, ...] = ()
    """Where ``updated`` cannot be told: the tables that the event's own tables info (WL#40) names, which are those it
    updates and those it reads, without a mark."""

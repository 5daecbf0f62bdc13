"""The subject of a statement: the kind, databases and tables that a filter decides by."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dumpfilter.binlog.query import TableName


class StatementKind(enum.Enum):
    """The kind of a statement. The value is its name in ``--statement-kind`` and in reports."""

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
    """A statement of another known kind: servers, tablespaces, spatial reference systems …"""
    UNKNOWN = "UNKNOWN"
    """A statement that the parser does not understand."""

    @property
    def is_database(self) -> bool:
        """Whether the statement creates, alters or drops a database."""
        return self in _DATABASE_KINDS


_DATABASE_KINDS = frozenset(
    {StatementKind.CREATE_DATABASE, StatementKind.ALTER_DATABASE, StatementKind.DROP_DATABASE}
)


TableLists = tuple[tuple[TableName, ...], ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """The subject of a statement. Equal subjects get equal verdicts.

    The text is not part of the subject: the fields hold everything in the text that a filter looks at.
    """

    kind: StatementKind
    current_database: str | None
    """The default database in the event's header (the session's USE); None for none."""
    database: str | None = None
    """The database that CREATE, ALTER or DROP DATABASE names."""
    updated_databases: tuple[str, ...] | None = None
    """The databases that the statement updates, sorted; None when they cannot be told.

    They are the event's Q_UPDATED_DB_NAMES where the server wrote it, else the databases in the text.
    """
    updated: TableLists | None = None
    """The lists of updated tables that a server applies its table rules to, in the server's order.

    Each list is one call of ``Rpl_filter::tables_ok``, and each must pass. GRANT on a table has two lists: that table,
    and the grant tables. Without a list no table rule applies. An empty list never passes: the statement has tables and
    updates none. None: the updated tables cannot be told.
    """
    involved: tuple[TableName, ...] = ()
    """The tables in the event's tables info (WL#40) when ``updated`` is None, else nothing.

    The tables info does not mark which of its tables the statement updates, and which it only reads.
    """

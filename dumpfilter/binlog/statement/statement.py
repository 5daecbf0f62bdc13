"""The facts about a statement by which a filter decides: its kind, databases and tables."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from dumpfilter.binlog.query import TableName


class StatementKind(enum.Enum):
    """The kind of a statement, such as INSERT or CREATE TABLE.

    The value is its name in ``--statement-kind`` and in reports.
    """

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
    """A statement that the parser understands but that has no kind in this list, such as CREATE SERVER or DROP
    TABLESPACE.
    """
    UNKNOWN = "UNKNOWN"
    """A statement that the parser does not understand. Its tables are unknown, too."""

    @property
    def is_database(self) -> bool:
        """Whether the statement creates, alters or drops a database."""
        return self in _DATABASE_KINDS


_DATABASE_KINDS = frozenset(
    {StatementKind.CREATE_DATABASE, StatementKind.ALTER_DATABASE, StatementKind.DROP_DATABASE}
)


class SchemaAndTable(NamedTuple):
    """The schema and the table for which reports count events. None stands for none, or for more than one."""

    schema: str | None
    table: str | None


TableLists = tuple[tuple[TableName, ...], ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as a filter sees it: its kind, databases and tables.

    Filters give the same verdict about equal statements.

    The text is left out. The fields hold everything in the text that a filter looks at.
    """

    kind: StatementKind
    current_database: str | None
    """The default database in the event's header (the session's USE); None for none."""
    database: str | None = None
    """The database that a CREATE, ALTER or DROP DATABASE statement names; None for other statements."""
    updated_databases: tuple[str, ...] | None = None
    """The databases that the statement updates, sorted; None when they cannot be told.

    They are the event's Q_UPDATED_DB_NAMES if the server wrote it, else the databases in the text.
    """
    updated: TableLists | None = None
    """The lists of updated tables to which a server applies its table rules; None when the tables cannot be told.

    The server calls ``Rpl_filter::tables_ok`` once for each list, and each list must pass. GRANT on a table has two
    lists: the table, and the grant tables. With no list at all, no table rule applies. An empty list never passes: the
    statement has tables and updates none of them. The tables of a list are in the server's order.
    """
    involved: tuple[TableName, ...] = ()
    """The tables that the event lists in WL#40's extended format (a Query event with table names).

    The field is filled only when ``updated`` is None.

    The event does not tell which of these tables the statement updates, and which it only reads.
    """

    @property
    def is_on_table(self) -> bool:
        """Whether the statement is known to make, change or remove a table or a table's rows.

        CREATE DATABASE and CREATE FUNCTION are on no table. GRANT is on the grant tables.
        """
        return bool(self.involved or any(self.updated or ()))

    def tables(self) -> tuple[TableName, ...]:
        """Return the tables that the statement updates. A name without a database gets the current one."""
        named = (table for tables in self.updated or () for table in tables)
        return tuple(
            dict.fromkeys(TableName(table.database or self.current_database, table.table) for table in named)
        )

    def schemas(self) -> tuple[str, ...]:
        """Return the schemas that the statement changes, sorted.

        CREATE, ALTER and DROP DATABASE change the named database. Any other statement changes the databases of the
        objects that the event or the text names. If neither tells them, the statement counts for its current database.
        """
        current = (self.current_database,)
        if self.kind.is_database:
            named: tuple[str | None, ...] = (self.database or self.current_database,)
        elif self.updated_databases is not None:
            named = self.updated_databases
        else:
            named = tuple(table.database for table in self.tables()) or current
        return tuple(sorted({name for name in named if name}))

    def schema_and_table(self) -> SchemaAndTable:
        """Return the only schema that the statement changes, and in it the only table that the statement updates."""
        schemas, tables = self.schemas(), self.tables()
        if len(schemas) != 1:
            return SchemaAndTable(None, None)
        is_one = len(tables) == 1 and tables[0].database == schemas[0]
        return SchemaAndTable(schemas[0], tables[0].table if is_one else None)

"""The data that result from parsing a statement, such as its kind, databases and tables. Replication filters decide by
these three.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from dumpfilter.binlog.query import TableName


class StatementKind(enum.Enum):
    """The kinds of statements that the parser distinguishes, such as INSERT or CREATE TABLE.

    The value of a kind is its name in the option ``--statement-kind`` and in reports.
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
    """A statement that the parser understands but for which this enumeration has no other kind, such as CREATE SERVER
    or DROP TABLESPACE.
    """
    UNKNOWN = "UNKNOWN"
    """A statement that the parser does not understand. The tables of such a statement are unknown, too."""

    @property
    def is_database(self) -> bool:
        """Whether the statement creates, alters or drops a database."""
        return self in _DATABASE_KINDS


_DATABASE_KINDS = frozenset(
    {StatementKind.CREATE_DATABASE, StatementKind.ALTER_DATABASE, StatementKind.DROP_DATABASE}
)


Names = tuple[TableName, ...]
"""Names of tables or other objects in a statement. A name without a database is in the default database."""

TableLists = tuple[Names, ...]


class SchemaAndTable(NamedTuple):
    """The schema and the table under which reports count an event. A field is None if the event has no such name, or
    several.
    """

    schema: str | None
    table: str | None


class Thing(enum.Enum):
    """The types of objects on a server that a statement can create, change or drop, such as table or trigger. The value
    of a type is its name in messages.
    """

    DATABASE = "database"
    TABLE = "table"
    """A table, view or sequence. These three share one namespace."""
    TRIGGER = "trigger"
    PROCEDURE = "procedure"
    FUNCTION = "function"
    PACKAGE = "package"
    PACKAGE_BODY = "package body"
    LIBRARY = "library"
    EVENT = "event"
    ACCOUNT = "account"
    """A user or role. As a TableName, an account has its host in ``database`` and its name in ``table``."""
    GRANT = "grant"
    OTHER = "object"


class Verb(enum.Enum):
    """The actions of statements that create, change or remove objects or rights, such as CREATE or GRANT."""

    CREATE = "CREATE"
    ALTER = "ALTER"
    DROP = "DROP"
    RENAME = "RENAME"
    GRANT = "GRANT"
    REVOKE = "REVOKE"


class Change(enum.Enum):
    """The kinds of changes that a statement makes to rows of a table. A trigger fires at one of these kinds."""

    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(frozen=True)
class Mentions:
    """The tables and functions that a statement's text names. A name without a database is in the default database."""

    tables: Names = ()
    """The tables, views and sequences that the text names, each once."""
    functions: Names = ()
    """The names before an opening parenthesis, some of which may be stored functions."""
    parents: Names = ()
    """The tables after REFERENCES, to which foreign keys refer."""
    changed: tuple[tuple[TableName, Change], ...] = ()
    """The tables whose rows the text may change, each with the change. Tables of an UPDATE whose columns its SET clause
    certainly does not change are left out.

    For such a table a server opens the triggers for UPDATE, too, but changes no row. For CREATE VIEW and ALTER VIEW,
    the field has instead the tables directly in the FROM clause of the view's query, which a change of the view
    changes.
    """
    sequences: Names = ()
    """The tables after NEXT VALUE FOR, or in functions such as NEXTVAL."""
    is_sure: bool = False
    """Whether ``tables`` has all tables that the text names, for sure."""


NO_MENTIONS = Mentions()


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in the form in which filters decide about it: its kind, databases and tables, without the text.

    Filters look at these fields only. Equal statements therefore get equal verdicts (send or drop), so that verdicts
    can be cached.
    """

    kind: StatementKind
    current_database: str | None
    """The default database in the event's header (the session's USE); None for none."""
    database: str | None = None
    """The database that a CREATE, ALTER or DROP DATABASE statement names; None for other statements."""
    updated_databases: tuple[str, ...] | None = None
    """The databases that the statement updates, sorted; None when they are unknown.

    The databases are the event's Q_UPDATED_DB_NAMES if the server wrote this variable, else the databases in the text.
    """
    updated: TableLists | None = None
    """The lists of updated tables to which a server applies its table rules; None when the tables are unknown.

    The server calls ``Rpl_filter::tables_ok`` once for each list, and each list must pass. GRANT on a table has two
    lists: the table, and the grant tables. With no list at all, no table rule applies. An empty list never passes: the
    statement has tables and updates none of them. The tables of a list are in the server's order.
    """
    looks_first: bool = False
    """Whether a replica checks that the table or routine of a GRANT exists before it applies its table rules to the
    grant tables, the second list of ``updated``.
    """
    involved: Names = ()
    """The tables that a Query event of the extended format (WL#40) lists, or the grant tables of MariaDB's SET DEFAULT
    ROLE. The field is filled only when ``updated`` is None.

    The event does not tell which of these tables the statement updates, and which it only reads.
    """

    dropped_trigger: TableName | None = None
    """The trigger that a DROP TRIGGER names; None for other statements, and for MariaDB's DROP TRIGGER IF EXISTS.

    A replica applies its table rules to the trigger's table. The text does not name this table, which is in the
    trigger's database. The statement has no effect on a replica without the trigger.
    """

    @property
    def is_on_table(self) -> bool:
        """Whether the statement is known to create, change or remove a table or a table's rows.

        CREATE DATABASE and CREATE FUNCTION are on no table. GRANT is on the grant tables.
        """
        return bool(self.involved or any(self.updated or ()))

    def tables(self) -> Names:
        """Return the tables that the statement updates; an empty tuple if they are unknown. A name without a database
        gets the default database.
        """
        named = (table for tables in self.updated or () for table in tables)
        return tuple(
            dict.fromkeys(TableName(table.database or self.current_database, table.table) for table in named)
        )

    def schemas(self) -> tuple[str, ...]:
        """Return the schemas (databases) that the statement changes, sorted, each once.

        CREATE, ALTER and DROP DATABASE change the database that they name. For any other statement the result is
        ``updated_databases``. If these are unknown, the result has the databases of the updated tables. If there are no
        known tables either, the result is the default database, or empty for a session without one.
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
        """Return the schema and table under which reports count the statement. A field is None if the statement changes
        no schema (or table), or several.
        """
        schemas, tables = self.schemas(), self.tables()
        if len(schemas) != 1:
            return SchemaAndTable(None, None)
        is_one = len(tables) == 1 and tables[0].database == schemas[0]
        return SchemaAndTable(schemas[0], tables[0].table if is_one else None)


@dataclass(frozen=True, slots=True)
class StatementFacts:
    """The result of parsing a statement: its kind, and the objects that it creates, changes or names. A name without a
    database is in the default database.

    Two functions return such facts. :func:`~dumpfilter.binlog.statement.parse.read_head` stops after the names of the
    objects. It leaves ``body`` (the names in a query or body) and ``merged`` (the tables of a MERGE table) empty.
    :func:`~dumpfilter.binlog.statement.facts.read_facts` also parses a view's query or a routine's body, and fills
    these fields.
    """

    kind: StatementKind
    verb: Verb | None = None
    """The action of a CREATE, ALTER, DROP, RENAME, GRANT or REVOKE statement whose objects are known. None for all
    other statements, also for statements on objects that :class:`Thing` does not list, such as CREATE SERVER.

    CREATE INDEX and DROP INDEX count as ALTER of their table. SET PASSWORD FOR and SET DEFAULT ROLE count as ALTER of
    their accounts.
    """
    thing: Thing = Thing.OTHER
    """The type of the objects that the statement creates, changes or removes. OTHER if ``verb`` is None."""
    database: str | None = None
    """The database that a CREATE, ALTER or DROP DATABASE statement names; None for other statements."""
    updated: TableLists | None = None
    """The lists of updated tables to which a server applies its table rules; None when the text does not tell them.

    :attr:`Statement.updated` explains the lists. The value is also None for an UPDATE of several tables, which has
    ``listed`` instead.
    """
    looks_first: bool = False
    """Whether a replica checks that the table or routine of a GRANT exists before it applies its table rules to the
    grant tables (:attr:`Statement.looks_first`).
    """
    listed: Names | None = None
    """The tables of an UPDATE of several tables, in the server's order; None for other statements. For MariaDB's SET
    DEFAULT ROLE, the grant tables that decide whether a replica looks for the user and changes the role.

    The bits of the event's Q_TABLE_MAP_FOR_UPDATE tell which tables of this list the statement updates. The list may be
    incomplete (``listed_whole``).
    """
    listed_whole: bool = True
    """Whether ``listed`` holds all tables of the UPDATE. If False, it holds only the first few of them."""
    objects: Names | None = None
    """The tables, views, routines and other objects that the statement creates, changes or drops.

    The field is None when these objects are unknown, and for CREATE, ALTER and DROP DATABASE. The field is empty for
    statements about accounts and rights. For an UPDATE of several tables it also has tables that the statement only
    reads.
    """
    sources: Names = ()
    """The table after LIKE in a CREATE TABLE … LIKE, whose columns the new table gets; empty for other statements."""
    renames: tuple[tuple[TableName, TableName], ...] = ()
    """The pairs of old and new name of renamed objects, in the order of the text."""
    temporary: bool = False
    """Whether the statement has the word TEMPORARY, as in CREATE TEMPORARY TABLE."""
    is_plain_table: bool = False
    """Whether the statement creates, alters, drops or renames with the word TABLE, and not with VIEW or SEQUENCE."""
    conditional: bool = False
    """Whether the statement has IF EXISTS or IF NOT EXISTS."""
    replaces: bool = False
    """Whether the statement has OR REPLACE."""
    after_verb: int = 0
    """The offset in the text after the verb (the word CREATE, for example), where OR REPLACE may be inserted,
    characters.
    """
    after_thing: int = 0
    """The offset in the text after the word for the type of object, where IF EXISTS may be inserted, characters."""
    needs: tuple[tuple[Thing, TableName], ...] = ()
    """The objects that must exist besides ``objects``, each with its type. Examples are a trigger's table, the object
    of a GRANT, the package of a package body, and the default roles of a user.
    """
    dropped_trigger: TableName | None = None
    """The trigger of a DROP TRIGGER, as in :attr:`Statement.dropped_trigger`."""
    fired_by: tuple[Change, ...] = ()
    """For CREATE TRIGGER, the row changes that fire the trigger."""
    definer: Names = ()
    """The account after DEFINER, with whose rights a view, trigger or routine runs. Empty for SQL SECURITY INVOKER."""
    accounts: Names = ()
    """The accounts that the statement is about, and the roles that a GRANT grants."""
    on: str = ""
    """A normalized text of what a GRANT or REVOKE is about: the granted roles, ``proxy`` with an account, or the type
    of the object such as PROCEDURE. The text is empty for a table.
    """
    granted_on: TableName | None = None
    """The object of a GRANT or REVOKE; None for roles, proxies and other statements. ``*`` stands for all names."""
    body: Mentions = NO_MENTIONS
    """The names in a statement that changes data, in a view's query, in a trigger's or routine's body, or in the
    columns and the query of a table.
    """
    merged: Names = ()
    """The tables after UNION in the options of a table, of which a MERGE table consists."""
    absorbed: Names = ()
    """The tables that MariaDB's ALTER TABLE … CONVERT TABLE turns into partitions. Afterwards they no longer exist as
    tables.
    """
    checks_foreign_keys: bool = True

    @property
    def names(self) -> Names:
        """The objects that the statement creates, changes or removes. Only statements with a ``verb`` (:class:`Verb`)
        have such names.

        The tuple is empty for other statements, for GRANT and REVOKE, and when the objects are unknown. RENAME TABLE
        and ALTER EVENT … RENAME list the old and the new names. ALTER TABLE … RENAME and RENAME USER list only the old
        names. The TableName of a database has the database's name in the field ``table``, and ``database`` None.
        """
        if self.thing is Thing.DATABASE:
            return (TableName(None, self.database),) if self.database else ()
        if self.thing is Thing.ACCOUNT:
            return self.accounts
        if self.thing is Thing.TABLE and self.verb is Verb.ALTER:
            # The lists of updated tables hold those that must exist. The other objects are new ones.
            return self._updated
        return self.objects or () if self.verb is not None else ()

    @property
    def also_makes(self) -> Names:
        """The tables that MariaDB's ALTER TABLE … CONVERT PARTITION … TO TABLE creates from partitions."""
        if self.thing is not Thing.TABLE or self.verb is not Verb.ALTER:
            return ()
        known = {*self._updated, *self.absorbed, *(new for _, new in self.renames)}
        return tuple(name for name in self.objects or () if name not in known)

    @property
    def makes(self) -> Names:
        """The tables, views and sequences that the statement creates, or to which it gives a new name."""
        if self.thing is not Thing.TABLE:
            return ()
        made = self.names if self.verb is Verb.CREATE else ()
        return (*made, *self.also_makes, *(new for _, new in self.renames))

    @property
    def tables(self) -> Names:
        """All tables, views and sequences that the statement names. If
        :func:`~dumpfilter.binlog.statement.parse.read_head` returned this object, the tables in a query or body are
        missing, because that function does not parse them.
        """
        if self.verb is None:
            return self.body.tables
        own = self.names if self.thing is Thing.TABLE else ()
        needed = (name for thing, name in self.needs if thing is Thing.TABLE)
        body = self.body
        return (
            *own,
            *self.makes,
            *self.absorbed,
            *needed,
            *body.tables,
            *body.parents,
            *self.merged,
        )

    @property
    def _updated(self) -> Names:
        return tuple(name for listed in self.updated or () for name in listed)


UNKNOWN = StatementFacts(StatementKind.UNKNOWN)

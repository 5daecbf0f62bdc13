"""The objects that a statement makes, changes and removes: tables, triggers, routines, accounts and so on."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.mentions import NO_MENTIONS, Change, Mentions


class Thing(enum.Enum):
    """The kind of an object on a server. The value is its name in messages."""

    DATABASE = "database"
    TABLE = "table"
    """A table, view or sequence, which share their names."""
    TRIGGER = "trigger"
    PROCEDURE = "procedure"
    FUNCTION = "function"
    PACKAGE = "package"
    LIBRARY = "library"
    EVENT = "event"
    ACCOUNT = "account"
    """A user or role. As a TableName the host is the database."""
    GRANT = "grant"
    OTHER = "object"


class Verb(enum.Enum):
    """The work of a statement that defines objects."""

    CREATE = "CREATE"
    ALTER = "ALTER"
    DROP = "DROP"
    RENAME = "RENAME"
    GRANT = "GRANT"
    REVOKE = "REVOKE"


@dataclass(frozen=True)
class Definition:
    """The effects of a statement that makes, changes or removes objects. Names are as in the text."""

    verb: Verb
    thing: Thing
    names: tuple[TableName, ...] = ()
    """The objects that the statement makes, changes or removes."""
    also_makes: tuple[TableName, ...] = ()
    """Further tables that an ALTER TABLE makes."""
    renames: tuple[tuple[TableName, TableName], ...] = ()
    temporary: bool = False
    is_plain_table: bool = False
    """Whether the object is a table and neither a view nor a sequence."""
    conditional: bool = False
    """Whether the statement has IF EXISTS or IF NOT EXISTS."""
    replaces: bool = False
    """Whether the statement has OR REPLACE."""
    after_verb: int = 0
    """The offset in the text after the verb, where OR REPLACE may be inserted."""
    after_thing: int = 0
    """The offset in the text after the word for the object, where IF EXISTS may be inserted."""
    tables: tuple[TableName, ...] = ()
    """The tables that must exist besides the objects: a trigger's or index's table, the table of a GRANT."""
    routines: tuple[tuple[Thing, TableName], ...] = ()
    """The routines that must exist, for GRANT and REVOKE."""
    changes: tuple[Change, ...] = ()
    """The changes of rows that fire the trigger."""
    body: Mentions = field(default=NO_MENTIONS)
    """The names in a view's query, in a body, or behind LIKE and SELECT of CREATE TABLE.

    :func:`~dumpfilter.binlog.statement.facts.read_definition` finds them. The parser of heads leaves them out.
    """
    body_at: int = 0
    """The offset in the text of a trigger's body."""
    merged: tuple[TableName, ...] = ()
    """The tables behind UNION in the options of a table, which a MERGE table consists of. Found with ``body``."""
    accounts: tuple[TableName, ...] = ()
    """The accounts that a GRANT or REVOKE is for, and the roles that it grants."""
    on: str = ""
    """The object of a GRANT or REVOKE, and the granted roles, in one form for both."""


THINGS = {
    "DATABASE": Thing.DATABASE,
    "SCHEMA": Thing.DATABASE,
    "TABLE": Thing.TABLE,
    "TABLES": Thing.TABLE,
    "VIEW": Thing.TABLE,
    "SEQUENCE": Thing.TABLE,
    "TRIGGER": Thing.TRIGGER,
    "PROCEDURE": Thing.PROCEDURE,
    "FUNCTION": Thing.FUNCTION,
    "PACKAGE": Thing.PACKAGE,
    "LIBRARY": Thing.LIBRARY,
    "EVENT": Thing.EVENT,
    "USER": Thing.ACCOUNT,
    "ROLE": Thing.ACCOUNT,
}
"""The kinds of objects by the words that name them in a statement."""

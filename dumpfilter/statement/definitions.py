"""The objects that a statement makes, changes and removes: tables, triggers, routines, accounts and so on.

:mod:`dumpfilter.statement.parse` tells the tables that a filter asks about. This module tells more about statements
that define objects: whether they have IF EXISTS or OR REPLACE, where such words would stand, and the accounts.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import TableName
from dumpfilter.statement.mentions import NO_MENTIONS, Change, Mentions, mentions
from dumpfilter.statement.modifiers import skip_modifiers
from dumpfilter.statement.parse import parse_statement
from dumpfilter.statement.reader import MOST_TOKENS, TokenReader
from dumpfilter.statement.references import DERIVED, read_references
from dumpfilter.statement.statement import StatementKind
from dumpfilter.statement.tokens import BINLOG

K = StatementKind


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
    """The names in a view's query, in a body, or behind LIKE and SELECT of CREATE TABLE."""
    merged: tuple[TableName, ...] = ()
    """The tables behind UNION in the options of a table, which a MERGE table consists of."""
    accounts: tuple[TableName, ...] = ()
    """The accounts that a GRANT or REVOKE is for, and the roles that it grants."""
    on: str = ""
    """The object of a GRANT or REVOKE, and the granted roles, in one form for both."""


_THINGS = {
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
_VERBS = {verb.value: verb for verb in Verb}
_AFTER_FROM = ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "WITH", "UNION", "WINDOW")
_INNODB = "INNODB"
_NOT_AN_ACCOUNT = ("CURRENT_USER", "CURRENT_ROLE", "NONE", "ALL", "DEFAULT", "PUBLIC")


def read_definition(text: str, family: Family = "mysql") -> Definition | None:
    """Return the objects that a statement makes, changes or removes; None for other statements.

    >>> read_definition("DROP TRIGGER shop.t").names
    (TableName(database='shop', table='t'),)
    """
    reader = TokenReader(text, dialect=BINLOG[family], most=MOST_TOKENS)
    while reader.accept("(", ";"):
        pass
    if reader.sees("SET"):
        reader.advance()
        if reader.accept("STATEMENT"):
            if not reader.skip_to("FOR"):
                return None
        elif reader.accept("PASSWORD"):
            return _on_accounts(reader, Verb.ALTER) if reader.accept("FOR") else None
        elif reader.accept("DEFAULT") and reader.accept("ROLE"):
            return _on_accounts(reader, Verb.ALTER) if reader.skip_to("FOR", "TO") else None
        else:
            return None
    verb = _VERBS.get(reader.token.word)
    if verb is None:
        return None
    after_verb = reader.advance().end
    if verb in (Verb.GRANT, Verb.REVOKE):
        return _grant(reader, verb)
    if verb is Verb.RENAME and reader.accept("USER"):
        return _rename_user(reader)
    return _defines(reader, text, family, verb, after_verb)


def _defines(
    reader: TokenReader, text: str, family: Family, verb: Verb, after_verb: int
) -> Definition | None:
    replaces, temporary = skip_modifiers(reader)
    token = reader.advance()
    what, after_thing = token.word, token.end
    if what == "PACKAGE" and reader.sees("BODY"):
        return None
    conditional = reader.exists()
    parsed = parse_statement(text, family)
    if what == "INDEX":
        names = parsed.updated[0] if parsed.updated else ()
        return Definition(Verb.ALTER, Thing.TABLE, names)
    thing = _THINGS.get(what)
    if thing is None:
        return None
    if thing is Thing.ACCOUNT:
        found = _on_accounts(reader, verb)
        return Definition(
            verb, thing, found.names, conditional=conditional, replaces=replaces, after_verb=after_verb,
            after_thing=after_thing,
        )  # fmt: skip
    renames: tuple[tuple[TableName, TableName], ...] = parsed.renames
    names = parsed.objects or ()
    also: tuple[TableName, ...] = ()
    tables: tuple[TableName, ...] = ()
    changes: tuple[Change, ...] = ()
    body = NO_MENTIONS
    if thing is Thing.DATABASE:
        names = (TableName(None, parsed.database),) if parsed.database else ()
    elif thing is Thing.TRIGGER and verb is Verb.CREATE:
        tables = parsed.updated[0] if parsed.updated else ()
        changes, body = _trigger(text, family)
    elif thing is Thing.EVENT and verb is Verb.ALTER and len(names) > 1:
        renames, names = ((names[0], names[1]),), names[:1]
    elif thing is Thing.TABLE:
        # The lists of updated tables hold those that must exist. The other objects are new ones.
        updated = tuple(name for listed in parsed.updated or () for name in listed)
        if verb is Verb.ALTER:
            new = {name for _, name in renames}
            also = tuple(name for name in names if name not in updated and name not in new)
            names = updated
        if verb is Verb.CREATE or (verb is Verb.ALTER and what == "VIEW"):
            body = _body(text, family, names, parsed.sources)
            if what == "VIEW":
                body = replace(body, changed=_changed_by_view(text, family))
        elif verb is Verb.ALTER:
            body = Mentions(parents=_body(text, family, names, ()).parents)
    elif verb is not Verb.DROP:
        body = _body(text, family, names, ())
    return Definition(
        Verb.RENAME if renames and verb is not Verb.ALTER else verb, thing, names, also, renames,
        parsed.temporary or temporary, what in ("TABLE", "TABLES"), conditional, replaces, after_verb, after_thing,
        tables, (), changes, body, _merged(text, family) if what == "TABLE" and verb is not Verb.DROP else (),
    )  # fmt: skip


def _body(text: str, family: Family, own: tuple[TableName, ...], sources: tuple[TableName, ...]) -> Mentions:
    found = mentions(text, family)
    tables = tuple(dict.fromkeys((*sources, *(name for name in found.tables if name not in own))))
    functions = tuple(name for name in found.functions if name not in own)
    parents = () if _without_foreign_keys(text) else found.parents
    return Mentions(tables, found.writes, functions, parents, found.changed)


def _changed_by_view(text: str, family: Family) -> tuple[tuple[TableName, Change], ...]:
    """Return the tables that a change of a view changes: those directly in the FROM clause of its query."""
    reader = TokenReader(text, dialect=BINLOG[family], most=MOST_TOKENS)
    if not (reader.skip_to("AS") and reader.skip_to("SELECT") and reader.skip_to("FROM")):
        return ()
    found = read_references(reader, frozenset(), *_AFTER_FROM, or_end=True)
    names = () if found is None else dict.fromkeys(name for name, _ in found.top if name is not DERIVED)
    return tuple((name, Change.UPDATE) for name in names)


def _merged(text: str, family: Family) -> tuple[TableName, ...]:
    reader = TokenReader(text, dialect=BINLOG[family], most=MOST_TOKENS)
    found: tuple[TableName, ...] = ()
    while reader.skip_to("UNION"):
        reader.accept("=")
        if reader.accept("(") and not reader.sees("SELECT", "("):
            found = reader.names() or ()
    return found


def _without_foreign_keys(text: str) -> bool:
    # Only InnoDB checks foreign keys. Other engines ignore them. The engine stands behind the list of columns, of which
    # one may have the name engine, and before a query.
    reader = TokenReader(text, dialect=BINLOG["mariadb"], most=MOST_TOKENS)
    if reader.skip_to("ENGINE", "SELECT", "AS") != "ENGINE":
        return False
    reader.accept("=")
    return reader.token.value.upper() != _INNODB


def _trigger(text: str, family: Family) -> tuple[tuple[Change, ...], Mentions]:
    reader = TokenReader(text, dialect=BINLOG[family], most=MOST_TOKENS)
    reader.skip_to("BEFORE", "AFTER")
    changes = []
    while verb := reader.accept("INSERT", "UPDATE", "DELETE"):
        changes.append(Change(verb))
        if verb == "UPDATE" and reader.accept("OF"):
            reader.names()
        reader.accept("OR")
    reader.skip_to("ROW")
    return tuple(changes), mentions(text[reader.token.start :], family)


def _account(reader: TokenReader) -> TableName | None:
    if not reader.token.is_name:
        return None
    token = reader.advance()
    if token.word in _NOT_AN_ACCOUNT:
        if reader.accept("("):
            reader.accept(")")
        return TableName("", "")
    host = "%"
    if reader.accept("@"):
        if not reader.token.is_name:
            return None
        host = reader.advance().value
    return TableName(host.lower(), token.value)


def _accounts(reader: TokenReader) -> tuple[TableName, ...]:
    found = []
    while (account := _account(reader)) is not None:
        if account.table:
            found.append(account)
        # The next account stands behind a comma outside of parentheses and strings.
        while not reader.at_end and not reader.sees(",", "FROM", "TO", "REQUIRE", "WITH", ";"):
            if reader.accept("("):
                reader.skip_parentheses()
            else:
                reader.advance()
        if not reader.accept(","):
            break
    return tuple(dict.fromkeys(found))


def _on_accounts(reader: TokenReader, verb: Verb) -> Definition:
    return Definition(verb, Thing.ACCOUNT, _accounts(reader))


def _rename_user(reader: TokenReader) -> Definition | None:
    pairs = []
    while True:
        old = _account(reader)
        new = _account(reader) if reader.accept("TO") else None
        if old is None or new is None:
            return None
        pairs.append((old, new))
        if not reader.accept(","):
            return Definition(
                Verb.RENAME, Thing.ACCOUNT, tuple(old for old, _ in pairs), renames=tuple(pairs)
            )


def _grant(reader: TokenReader, verb: Verb) -> Definition | None:
    conditional = reader.exists()
    after_verb = reader.token.start
    first, creates = [], False
    roles = reader.text[reader.token.start : reader.token.start]
    while not reader.at_end and not reader.sees("ON", "TO", "FROM"):
        token = reader.token
        if token.word in ("CREATE", "ALL"):
            creates = True
        first.append(token.value.lower())
        reader.skip_parentheses() if reader.accept("(") else reader.advance()
    tables: tuple[TableName, ...] = ()
    routines: tuple[tuple[Thing, TableName], ...] = ()
    if reader.accept("ON"):
        what = reader.accept("PROCEDURE", "FUNCTION", "PACKAGE", "LIBRARY", "TABLE")
        if what in ("PACKAGE", "LIBRARY"):
            return None
        if reader.accept("*"):
            name = TableName(None, "*")
            if reader.accept("."):
                reader.advance()
                name = TableName("*", "*")
        elif reader.token.is_name:
            database = reader.advance().value
            if not reader.accept("."):
                name = TableName(None, database)
            elif reader.accept("*"):
                name = TableName(database, "*")
            elif reader.token.is_name:
                name = TableName(database, reader.advance().value)
            else:
                return None
        else:
            return None
        on = f"{what} {name.database}.{name.table}"
        if what in ("PROCEDURE", "FUNCTION"):
            routines = ((Thing[what], name),)
        elif name.table != "*" and not (creates and verb is Verb.GRANT):
            tables = (name,)
        granted: tuple[TableName, ...] = ()
    else:
        roles = " ".join(first)
        on = roles
        granted = () if "all" in first or "proxy" in first else tuple(
            TableName("%", role) for role in first if role.isidentifier() and role not in ("admin", "option", "for")
        )  # fmt: skip
    if not reader.accept("TO", "FROM"):
        return None
    accounts = _accounts(reader)
    return Definition(
        verb, Thing.GRANT, conditional=conditional, after_verb=after_verb, tables=tables, routines=routines,
        accounts=(*accounts, *granted), on=on,
    )  # fmt: skip

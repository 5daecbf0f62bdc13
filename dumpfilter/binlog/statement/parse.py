"""The parser of binlogged statements, which finds a statement's kind, its updated tables, and the objects that it
creates or renames.

The parser reads only the head of a statement, word by word, because the tables that a server applies its table rules
to stand there. It reports a statement that it does not understand as unknown and never guesses.
:mod:`dumpfilter.binlog.statement.reads` finds the tables that a statement reads.

Which tables count, and in which order, follows ``mysql_execute_command`` of both servers: the tables marked *updating*
in the global table list (the server's list of a statement's tables). Recorded for every kind in tests/oracle/data
(``*-statement-kinds``, ``*-forms``, ``*-forms2``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.accounts import grant_tables, read_accounts, read_grant, read_rename_user
from dumpfilter.binlog.statement.definitions import THINGS, Definition, Thing, Verb
from dumpfilter.binlog.statement.mentions import Change
from dumpfilter.binlog.statement.modifiers import skip_modifiers
from dumpfilter.binlog.statement.reader import MOST_TOKENS, TokenReader
from dumpfilter.binlog.statement.references import read_references
from dumpfilter.binlog.statement.statement import Statement, StatementKind, TableLists
from dumpfilter.binlog.statement.tokens import BINLOG, Token

K = StatementKind

_NOTHING: TableLists = ()
"""The value of :attr:`StatementText.updated` for a statement that updates no table. No table rule applies to it."""


@dataclass(frozen=True, slots=True)
class StatementText:
    """The facts that the parser finds in a statement's text.

    Names are as in the text. A name without a database is in the current database.
    """

    kind: StatementKind
    database: str | None = None
    """The database that a CREATE, ALTER or DROP DATABASE statement names; None for other statements."""
    updated: TableLists | None = None
    """The lists of updated tables to which a server applies its table rules; None when the text does not tell them.

    :attr:`Statement.updated` explains the lists. The value is also None for an UPDATE of several tables, which has
    ``listed`` instead.
    """
    listed: tuple[TableName, ...] | None = None
    """The tables of an UPDATE of several tables, in the server's order, or the first of them; None for other
    statements.

    The bits of the event's Q_TABLE_MAP_FOR_UPDATE tell which tables of this list the statement updates.
    """
    listed_whole: bool = True
    """Whether ``listed`` holds all tables of the UPDATE. If false, the parser found only the first of them."""
    objects: tuple[TableName, ...] | None = None
    """The tables, views, routines and other objects that the statement creates, changes or drops; None when they
    cannot be told.
    """
    sources: tuple[TableName, ...] = ()
    """The table after LIKE in a CREATE TABLE … LIKE, whose columns the new table gets; empty for other statements."""
    renames: tuple[tuple[TableName, TableName], ...] = ()
    """The pairs of old and new name in a RENAME TABLE or ALTER TABLE … RENAME, in the order of the text."""
    temporary: bool = False
    """Whether the statement has the word TEMPORARY, as in CREATE TEMPORARY TABLE."""


UNKNOWN = StatementText(K.UNKNOWN)


def parse_statement(text: str, family: Family = "mysql") -> StatementText:
    """Return the facts that the head of a statement tells: its kind, updated tables, created and renamed objects.

    The parser takes double quotes for a name wherever a name must stand. Therefore it does not need to know whether
    ANSI_QUOTES was on.

    >>> parse_statement("UPDATE LOW_PRIORITY shop.orders o SET o.total = 1").updated
    ((TableName(database='shop', table='orders'),),)
    >>> parse_statement("CREATE PROCEDURE p() DELETE FROM t").updated
    ()
    >>> parse_statement("RENAME TABLE a TO d2.b").renames
    ((TableName(database=None, table='a'), TableName(database='d2', table='b')),)
    """
    return _Reader(text, family).parsed()


def parse_definition(text: str, family: Family) -> tuple[StatementText, Definition | None]:
    """Return the facts of :func:`parse_statement`, and the objects that a statement makes, changes or removes."""
    reader = _Reader(text, family, defines=True)
    return reader.parsed(), None if reader.cut else reader.definition


class _Reader(TokenReader):
    """The cursor over a statement, and the objects that the statement defines, if the caller wants to know them.

    A scan of a binlog reads each new shape of a statement. It needs no definitions, which take half of the time.
    """

    def __init__(self, text: str, family: Family, *, defines: bool = False) -> None:
        super().__init__(text, dialect=BINLOG[family], most=MOST_TOKENS)
        self.family: Family = family
        self.defines = defines
        self.definition: Definition | None = None

    def parsed(self) -> StatementText:
        """Return the facts that the head of the statement tells."""
        parsed = _statement(self, self.family)
        # The parser stops after a number of tokens, and the rest of the statement may name more tables.
        return replace(UNKNOWN, kind=parsed.kind) if self.cut else parsed


def make_statement(
    parsed: StatementText,
    *,
    current_database: str | None,
    updated_databases: tuple[str, ...] | None = None,
    table_map_for_update: int | None = None,
    tables_info: tuple[TableName, ...] | None = None,
) -> Statement:
    """Return the kind, databases and tables of a statement, which together are the subject that filters decide about.

    Parameters:
        parsed: the facts from the statement's text.
        current_database: the event's default database; None for none.
        updated_databases: the event's Q_UPDATED_DB_NAMES. With None, the databases in the text are used.
        table_map_for_update: the event's Q_TABLE_MAP_FOR_UPDATE, whose bits tell which tables an UPDATE changes.
        tables_info: the table names that an event in WL#40's extended format carries. They are used only where the
            text does not tell the updated tables, because they do not say which tables are only read.
    """
    if updated_databases is None:
        updated_databases = _databases(parsed, current_database)
    updated = parsed.updated if parsed.listed is None else _picked(parsed, table_map_for_update or 0)
    return Statement(
        parsed.kind,
        current_database,
        parsed.database,
        None if updated_databases is None else tuple(sorted(updated_databases)),
        updated,
        (tables_info or ()) if updated is None else (),
    )


def _picked(parsed: StatementText, table_map: int) -> TableLists | None:
    assert parsed.listed is not None
    if not table_map:
        # An old master did not log Q_TABLE_MAP_FOR_UPDATE. In that case a replica finds the updated tables only when
        # it opens them.
        return None
    numbers = [n for n in range(table_map.bit_length()) if table_map >> n & 1]
    if not parsed.listed_whole and numbers[-1] >= len(parsed.listed):
        return None
    # Q_TABLE_MAP_FOR_UPDATE also has bits for the tables inside a view. A bit beyond the list `listed` marks such a
    # table, which the text does not name.
    return (tuple(parsed.listed[n] for n in numbers if n < len(parsed.listed)),)


def _databases(parsed: StatementText, current: str | None) -> tuple[str, ...] | None:
    if parsed.kind.is_database:
        named = parsed.database or current
        return (named,) if named else None
    if parsed.objects is None:
        return None
    found = {name.database if name.database is not None else current for name in parsed.objects}
    return None if None in found else tuple(db for db in found if db is not None)


# Each of the following functions parses the statements that begin with a certain word, such as INSERT.


def _statement(reader: _Reader, family: Family) -> StatementText:
    while reader.accept("(", ";"):
        pass
    verb = reader.advance()
    read = _READERS.get(verb.word)
    return read(reader, verb, family) if read else UNKNOWN


def _on(
    kind: StatementKind,
    names: tuple[TableName, ...] | None,
    *,
    renames: tuple[tuple[TableName, TableName], ...] = (),
    sources: tuple[TableName, ...] = (),
    temporary: bool = False,
) -> StatementText:
    if names is None:
        return replace(UNKNOWN, kind=kind)
    objects = (*names, *(new for _, new in renames if new not in names))
    return StatementText(
        kind, updated=(names,), objects=objects, renames=renames, sources=sources, temporary=temporary
    )


def _without_tables(kind: StatementKind, objects: tuple[TableName, ...] | None = ()) -> StatementText:
    return StatementText(kind, updated=_NOTHING, objects=objects)


def _insert(reader: TokenReader, kind: StatementKind) -> StatementText:
    reader.accept_all("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE")
    reader.accept("INTO")
    return _on(kind, reader.names(1))


def _update(reader: TokenReader, ctes: frozenset[str]) -> StatementText:
    reader.accept_all("LOW_PRIORITY", "IGNORE")
    unknown = replace(UNKNOWN, kind=K.UPDATE)
    # In MariaDB, FOR PORTION OF may stand between a single table and SET.
    found = read_references(reader, ctes, "SET", "FOR")
    if found is None:
        return unknown
    if len(found.top) > 1:
        objects = None
        if found.whole:
            objects = tuple(dict.fromkeys(name for name, _ in found.top if name.database != ""))
        return replace(unknown, listed=found.in_order, listed_whole=found.whole, objects=objects)
    name = found.top[0][0]
    return unknown if name.database == "" else _on(K.UPDATE, (name,))


def _delete(reader: TokenReader, ctes: frozenset[str]) -> StatementText:
    reader.accept_all("LOW_PRIORITY", "QUICK", "IGNORE", "HISTORY")
    unknown = replace(UNKNOWN, kind=K.DELETE)
    from_first = bool(reader.accept("FROM"))
    targets = _targets(reader)
    if targets is None:
        return unknown
    if not reader.accept("USING" if from_first else "FROM"):
        # A DELETE with one target deletes from that table. Its alias, PARTITION or WHERE may follow.
        return _on(K.DELETE, (targets[0],)) if from_first and len(targets) == 1 else unknown
    found = read_references(reader, ctes, "WHERE", "ORDER", "LIMIT", "RETURNING", or_end=True)
    if found is None:
        return unknown
    # A target of a DELETE of several tables is a table's alias or name. The server's order of the tables is that of
    # the FROM clause.
    wanted = set(targets)
    updated = []
    for name, alias in found.top:
        plain = alias == name.table
        for target in targets:
            same = target.table.lower() == alias.lower()
            if same and (target.database is None or (plain and target.database == name.database)):
                wanted.discard(target)
                if name.database == "":
                    return unknown
                updated.append(name)
                break
    if wanted:
        # Only the server can tell whether the target `d1.a` is the table `a` of the FROM clause, since `d1` may be the
        # current database.
        return unknown
    return _on(K.DELETE, tuple(updated))


def _targets(reader: TokenReader) -> tuple[TableName, ...] | None:
    found = []
    while True:
        parts = []
        while reader.token.is_name:
            parts.append(reader.advance().value)
            if not reader.accept("."):
                break
            if reader.accept("*"):
                break
        if not parts or len(parts) > 2:
            return None
        found.append(TableName(*parts) if len(parts) == 2 else TableName(None, parts[0]))
        if not reader.accept(","):
            return tuple(found)


def _with(reader: _Reader, begin: Token, family: Family) -> StatementText:
    reader.accept("RECURSIVE")
    ctes = set()
    while True:
        if not reader.token.is_name:
            return UNKNOWN
        ctes.add(reader.advance().value.lower())
        if not reader.skip_to("AS") or not reader.accept("("):
            return UNKNOWN
        reader.skip_parentheses()
        if not reader.accept(","):
            break
    verb = reader.accept("UPDATE", "DELETE")
    if not verb:
        return UNKNOWN
    return (_update if verb == "UPDATE" else _delete)(reader, frozenset(ctes))


def _load(reader: _Reader, begin: Token, family: Family) -> StatementText:
    if not reader.accept("DATA", "XML") or not reader.skip_to("INTO") or not reader.accept("TABLE"):
        return UNKNOWN
    return _on(K.LOAD_DATA, reader.names(1))


class _Head(NamedTuple):
    """The words of a CREATE, ALTER or DROP before the names of the objects."""

    verb: Verb
    thing: Thing
    temporary: bool
    conditional: bool


def _definition(reader: _Reader, begin: Token, family: Family) -> StatementText:
    replaces, temporary = skip_modifiers(reader)
    token = reader.advance()
    what = token.word
    is_body = what == "PACKAGE" and bool(reader.accept("BODY"))
    head = _Head(Verb[begin.word], THINGS.get(what, Thing.OTHER), temporary, reader.exists())
    if reader.defines and not is_body:
        reader.definition = Definition(
            head.verb,
            head.thing,
            temporary=temporary,
            is_plain_table=what in ("TABLE", "TABLES"),
            conditional=head.conditional,
            replaces=replaces,
            after_verb=begin.end,
            after_thing=token.end,
        )
    parsed = _defined(reader, what, head)
    if reader.definition is not None and head.thing not in (Thing.TRIGGER, Thing.ACCOUNT):
        reader.definition = _completed(reader.definition, what, parsed)
    return parsed


def _completed(head: Definition, what: str, parsed: StatementText) -> Definition | None:
    """Return a definition with the objects that the statement names; None where the statement defines none."""
    updated = tuple(name for listed in parsed.updated or () for name in listed)
    names, renames = parsed.objects or (), parsed.renames
    also: tuple[TableName, ...] = ()
    if what == "INDEX":
        return Definition(Verb.ALTER, Thing.TABLE, updated)
    if head.thing is Thing.OTHER:
        return None
    if head.thing is Thing.DATABASE:
        names = (TableName(None, parsed.database),) if parsed.database else ()
    elif head.thing is Thing.EVENT and len(names) > 1:
        renames, names = ((names[0], names[1]),), names[:1]
    elif head.thing is Thing.TABLE and head.verb is Verb.ALTER:
        # The lists of updated tables hold those that must exist. The other objects are new ones.
        new = {name for _, name in renames}
        also = tuple(name for name in names if name not in updated and name not in new)
        names = updated
    return replace(head, names=names, also_makes=also, renames=renames)


def _defined(reader: _Reader, what: str, head: _Head) -> StatementText:
    """Read the rest of the head of a CREATE, ALTER or DROP, behind the word for the object and IF EXISTS."""
    verb, temporary = head.verb, head.temporary
    if head.thing is Thing.TRIGGER:
        return _trigger(reader, verb)
    if head.thing is Thing.ACCOUNT:
        if reader.definition is not None:
            reader.definition = replace(reader.definition, names=read_accounts(reader))
        return _account(reader.family, *(() if verb is Verb.ALTER else ("*",)))
    if what in ("TABLE", "TABLES"):
        return _table(reader, head)
    if what in ("VIEW", "SEQUENCE"):
        kind = K.VIEW if what == "VIEW" else K.SEQUENCE
        names = reader.names(0 if verb is Verb.DROP else 1)
        if verb is Verb.DROP and temporary and head.conditional:
            return StatementText(kind, updated=_NOTHING, objects=names, temporary=True)
        return _on(kind, names, temporary=temporary)
    if what == "INDEX":
        kind = K.CREATE_INDEX if verb is Verb.CREATE else K.DROP_INDEX
        return _on(kind, reader.names(1) if reader.skip_to("ON") else None)
    if head.thing is Thing.DATABASE:
        return _database(reader, verb)
    if what in ("PROCEDURE", "FUNCTION", "PACKAGE", "LIBRARY", "EVENT"):
        kind = K.EVENT if what == "EVENT" else K.ROUTINE
        names = reader.names(1)
        if what == "FUNCTION" and reader.accept("RETURNS") and reader.advance() and reader.accept("SONAME"):
            names = ()  # A loadable function (CREATE FUNCTION … RETURNS … SONAME) belongs to no database.
        if what == "EVENT" and verb is Verb.ALTER and names and reader.skip_to("RENAME"):
            reader.accept("TO")
            new = reader.name()
            names = (*names, new) if new else None
        return _without_tables(kind, names)
    if what in ("SERVER", "TABLESPACE", "LOGFILE", "INSTANCE", "RESOURCE", "REFERENCE", "PREPARE"):
        return _without_tables(K.OTHER)
    return UNKNOWN


_DATABASE_OPTIONS = frozenset(["DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION", "COMMENT", "READ"])


def _database(reader: TokenReader, verb: Verb) -> StatementText:
    kind = K(f"{verb.value} DATABASE")
    # ALTER DATABASE may omit the database's name, so that the first option stands in its place.
    if (verb is Verb.ALTER and reader.token.word in _DATABASE_OPTIONS) or not reader.token.is_name:
        return StatementText(kind, updated=_NOTHING)
    return StatementText(kind, reader.advance().value, updated=_NOTHING)


def _trigger(reader: _Reader, verb: Verb) -> StatementText:
    found, reader.definition = reader.definition, None
    trigger = reader.name()
    if trigger is None:
        return UNKNOWN
    if verb is Verb.DROP:
        if found is not None:
            reader.definition = replace(found, names=(trigger,))
        # For DROP TRIGGER, the replica applies its table rules to the trigger's table, which the text does not name.
        return StatementText(K.DROP_TRIGGER, updated=None, objects=(trigger,))
    reader.skip_to("BEFORE", "AFTER")
    changes = []
    while change := reader.accept("INSERT", "UPDATE", "DELETE"):
        changes.append(Change(change))
        if change == "UPDATE" and reader.accept("OF"):
            reader.names()
        reader.accept("OR")
    table = reader.name() if reader.skip_to("ON") else None
    if table is None:
        return replace(UNKNOWN, kind=K.CREATE_TRIGGER)
    if found is not None:
        reader.skip_to("ROW")
        reader.definition = replace(
            found, names=(trigger,), tables=(table,), changes=tuple(changes), body_at=reader.token.start
        )
    return StatementText(K.CREATE_TRIGGER, updated=((table,),), objects=(trigger,))


def _table(reader: TokenReader, head: _Head) -> StatementText:
    temporary = head.temporary
    if head.verb is Verb.DROP:
        names = reader.names()
        if temporary and head.conditional and names:
            # A replica always executes DROP TEMPORARY TABLE IF EXISTS (mysql_execute_command). Otherwise a temporary
            # table that passed the filter would stay.
            return StatementText(K.DROP_TABLE, updated=_NOTHING, objects=names, temporary=True)
        return _on(K.DROP_TABLE, names, temporary=temporary)
    names = reader.names(1)
    creates = head.verb is Verb.CREATE
    if names is None:
        return replace(UNKNOWN, kind=K.CREATE_TABLE if creates else K.ALTER_TABLE)
    return _create_table(reader, names, temporary) if creates else _alter_table(reader, names)


def _create_table(reader: TokenReader, names: tuple[TableName, ...], temporary: bool) -> StatementText:
    in_parentheses = bool(reader.accept("("))
    if reader.accept("LIKE"):
        return _on(K.CREATE_TABLE_LIKE, names, sources=reader.names(1) or (), temporary=temporary)
    if in_parentheses and not reader.sees("SELECT", "WITH"):
        reader.skip_parentheses()
        in_parentheses = False
    kind = K.CREATE_TABLE_SELECT if in_parentheses or _query_follows(reader) else K.CREATE_TABLE
    return _on(kind, names, temporary=temporary)


def _query_follows(reader: TokenReader) -> bool:
    while found := reader.skip_to("SELECT", "AS", "TABLE", "VALUES", "(", "WITH"):
        if found in ("SELECT", "TABLE", "VALUES"):
            return True
        if found == "(":  # An opening parenthesis begins a query or the list of a table option.
            if reader.sees("SELECT", "WITH", "(", "TABLE", "VALUES"):
                return True
            reader.skip_parentheses()
        if found == "AS" and reader.sees("SELECT", "WITH", "TABLE", "VALUES", "("):
            return True
        if found == "WITH" and reader.token.is_name and not reader.sees("SYSTEM", "PARSER"):
            return True
    return False


def _alter_table(reader: TokenReader, names: tuple[TableName, ...]) -> StatementText:
    unknown = replace(UNKNOWN, kind=K.ALTER_TABLE)
    renames: tuple[tuple[TableName, TableName], ...] = ()
    others: tuple[TableName, ...] = ()
    while verb := reader.skip_to("RENAME", "EXCHANGE", "CONVERT"):
        if verb == "RENAME":
            if reader.sees("COLUMN", "INDEX", "KEY"):
                continue
            reader.accept("TO", "AS", "=")
            new = reader.name()
            if new is None:
                return unknown
            renames = ((names[0], new),)
        elif verb == "EXCHANGE":
            if not reader.accept("PARTITION"):
                continue
            if not reader.skip_to("WITH") or not reader.accept("TABLE"):
                return unknown
            other = reader.name()
            if other is None:
                return unknown
            names = (*names, other)
        else:
            # MariaDB's ALTER TABLE … CONVERT turns a partition into a table, or a table into a partition. MariaDB
            # applies no table rule to that second table.
            if reader.accept("PARTITION") and not reader.skip_to("TO"):
                return unknown
            if reader.accept("TABLE"):
                other = reader.name()
                if other is None:
                    return unknown
                others = (*others, other)
    made = _on(K.ALTER_TABLE, names, renames=renames)
    assert made.objects is not None
    return replace(made, objects=(*made.objects, *others))


def _rename(reader: _Reader, begin: Token, family: Family) -> StatementText:
    if reader.accept("USER"):
        reader.definition = read_rename_user(reader) if reader.defines else None
        return _account(family, "*")
    unknown = replace(UNKNOWN, kind=K.RENAME_TABLE)
    after_thing = reader.token.end
    if not reader.accept("TABLE", "TABLES"):
        return unknown
    conditional = reader.exists()
    pairs: list[tuple[TableName, TableName]] = []
    while True:
        old = reader.name()
        new = reader.name() if reader.skip_to("TO") else None
        if old is None or new is None:
            return unknown
        pairs.append((old, new))
        reader.accept("NOWAIT")
        if reader.accept("WAIT"):
            reader.advance()
        if not reader.accept(","):
            break
    names = tuple(name for pair in pairs for name in pair)
    if reader.defines:
        reader.definition = Definition(
            Verb.RENAME,
            Thing.TABLE,
            names,
            renames=tuple(pairs),
            is_plain_table=True,
            conditional=conditional,
            after_verb=begin.end,
            after_thing=after_thing,
        )
    return StatementText(K.RENAME_TABLE, updated=(names,), objects=names, renames=tuple(pairs))


def _account(family: Family, *opened: str) -> StatementText:
    return StatementText(K.ACCOUNT, updated=(grant_tables(family, *opened),), objects=())


def _maintenance(reader: _Reader, begin: Token, family: Family) -> StatementText:
    reader.accept("NO_WRITE_TO_BINLOG", "LOCAL")
    if not reader.accept("TABLE", "TABLES", "VIEW"):
        return UNKNOWN
    return _on(K.MAINTENANCE, reader.names())


def _flush(reader: _Reader, begin: Token, family: Family) -> StatementText:
    reader.accept("NO_WRITE_TO_BINLOG", "LOCAL")
    if reader.accept("TABLE", "TABLES") and reader.token.is_name and not reader.sees("WITH", "FOR"):
        return _on(K.FLUSH, reader.names())
    return _without_tables(K.FLUSH)


def _truncate(reader: _Reader, begin: Token, family: Family) -> StatementText:
    reader.accept("TABLE")
    return _on(K.TRUNCATE_TABLE, reader.names(1))


def _grant(reader: _Reader, begin: Token, family: Family) -> StatementText:
    updated, reader.definition = read_grant(reader, Verb[begin.word], family)
    return StatementText(K.ACCOUNT, updated=updated, objects=None if updated is None else ())


def _set(reader: _Reader, begin: Token, family: Family) -> StatementText:
    is_password = bool(reader.accept("PASSWORD"))
    if is_password or reader.accept("DEFAULT"):
        if not is_password and not reader.accept("ROLE"):
            return UNKNOWN
        named = reader.accept("FOR") if is_password else reader.skip_to("FOR", "TO")
        if named and reader.defines:
            reader.definition = Definition(Verb.ALTER, Thing.ACCOUNT, read_accounts(reader))
        return _account(family)
    # MariaDB's SET STATEMENT … FOR makes settings for one statement, which follows FOR.
    if reader.accept("STATEMENT"):
        return _statement(reader, family) if reader.skip_to("FOR") and reader.nest() else UNKNOWN
    return _without_tables(K.SET)


def _call(reader: _Reader, begin: Token, family: Family) -> StatementText:
    while not reader.at_end:
        if reader.advance().word == "FROM":
            return replace(UNKNOWN, kind=K.SELECT)
    return StatementText(K.SELECT, updated=_NOTHING)


_READERS: dict[str, Callable[[_Reader, Token, Family], StatementText]] = {
    "INSERT": lambda reader, *_: _insert(reader, K.INSERT),
    "REPLACE": lambda reader, *_: _insert(reader, K.REPLACE),
    "UPDATE": lambda reader, *_: _update(reader, frozenset()),
    "DELETE": lambda reader, *_: _delete(reader, frozenset()),
    "WITH": _with,
    "LOAD": _load,
    "CREATE": _definition,
    "ALTER": _definition,
    "DROP": _definition,
    "RENAME": _rename,
    "TRUNCATE": _truncate,
    "ANALYZE": _maintenance,
    "OPTIMIZE": _maintenance,
    "REPAIR": _maintenance,
    "CHECK": _maintenance,
    "FLUSH": _flush,
    "GRANT": _grant,
    "REVOKE": _grant,
    "SET": _set,
    "SELECT": _call,
    "DO": _call,
    "CALL": _call,
}

"""The parser of binlogged statements, which finds a statement's kind, its updated tables, and the objects that it
creates or renames.

The parser reads only the head of a statement, word by word, because the tables to which a server applies its table
rules stand there. The parser reports a statement that it does not understand as unknown and never guesses.
:mod:`dumpfilter.binlog.statement.facts` finds the tables that a statement reads.

Which tables count, and in which order, follows ``mysql_execute_command`` of both servers: the tables marked *updating*
in the global table list (the server's list of a statement's tables). Recorded for every kind in tests/oracle/data
(``*-statement-kinds``, ``*-forms``, ``*-forms2``, ``*-forms3``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.reader import References, StatementReader, read_references
from dumpfilter.binlog.statement.statement import (
    UNKNOWN,
    Change,
    Names,
    Statement,
    StatementFacts,
    StatementKind,
    TableLists,
    Thing,
    Verb,
)
from dumpfilter.binlog.statement.tokens import Token, TokenReader

K = StatementKind
_About = dict[str, Any]
"""The keyword arguments for :class:`StatementFacts` that follow from the words before the objects' names in a CREATE,
ALTER or DROP statement.
"""

_NOTHING: TableLists = ()
"""The value of :attr:`StatementFacts.updated` for a statement that updates no table. No table rule applies to it."""


def parse_statement(text: str, family: Family = "mysql") -> StatementFacts:
    """Parse a statement up to the names of its objects. Return its kind, updated tables, created and renamed objects.
    The body of a view or routine is not parsed. A text that the parser does not understand has the kind UNKNOWN.

    The parser takes double quotes for a name wherever a name must stand. Therefore it does not need to know whether
    ANSI_QUOTES was on.

    >>> parse_statement("UPDATE LOW_PRIORITY shop.orders o SET o.total = 1").updated
    ((TableName(database='shop', table='orders'),),)
    >>> parse_statement("CREATE PROCEDURE p() DELETE FROM t").updated
    ()
    >>> parse_statement("RENAME TABLE a TO d2.b").renames
    ((TableName(database=None, table='a'), TableName(database='d2', table='b')),)
    """
    reader = StatementReader(text, family)
    parsed = read_head(reader)
    has_order = parsed.listed is not None or (
        parsed.kind is K.DELETE and max(map(len, parsed.updated or [()])) > 1
    )
    if has_order and _UNKNOWN_ORDER[family].search(text):
        return replace(parsed, updated=None, listed=None)
    if parsed.listed is not None and _SUBQUERY.search(text, reader.token.start):
        # The tables of a subquery after SET come after ``listed``.
        return replace(parsed, listed_whole=False)
    return parsed


_UNKNOWN_ORDER = {
    "mysql": re.compile(r"(?<![a-z_])RIGHT\b(?!\s*\()", re.IGNORECASE),
    "mariadb": re.compile(r"(?<![a-z_])(?:NEXTVAL|LASTVAL|CURRVAL|SETVAL|VALUE[\W\dM]+FOR)\b", re.IGNORECASE),
}
"""For each server family, a pattern for the text of an UPDATE or DELETE of several tables. If the pattern is found, the
master does not know the order in which a replica checks the tables.

MySQL 9.7 lists the tables right of a RIGHT JOIN before those left of it, and MySQL 5.7 after them. The version of the
replica counts, which the master does not know. MariaDB also lists the sequences of an expression. A digit may precede a
word, as in ``/*!50000RIGHT*/``.
"""
_SUBQUERY = re.compile(r"(?<![a-z_])(?:SELECT|TABLE)\b", re.IGNORECASE)


def read_head(reader: StatementReader) -> StatementFacts:
    """Parse a statement up to the names of its objects, and return its kind, updated tables, created and renamed
    objects.

    The cursor ``reader`` then stands before the rest, for example before the body of a trigger. If the cursor reaches
    its limit of tokens, the result has only the kind.
    """
    parsed = _statement(reader)
    # The parser stops after a number of tokens, and the rest of the statement may name more tables.
    return StatementFacts(parsed.kind) if reader.cut else parsed


def make_statement(
    parsed: StatementFacts,
    *,
    current_database: str | None,
    updated_databases: tuple[str, ...] | None = None,
    table_map_for_update: int | None = None,
    tables_info: Names | None = None,
) -> Statement:
    """Return the kind, databases and tables of a statement in the form in which filters decide about it.

    Parameters:
        parsed: the parsed text of the statement.
        current_database: the event's default database; None for none.
        updated_databases: the event's Q_UPDATED_DB_NAMES. With None, the databases in the text are used.
        table_map_for_update: the event's Q_TABLE_MAP_FOR_UPDATE, whose bits tell which tables an UPDATE changes. With
            None or 0, the updated tables of an UPDATE of several tables are unknown.
        tables_info: the list of tables in a Query event of the extended format (WL#40). The list is used only if the
            text does not tell the updated tables, because the list does not say which tables are only read.
    """
    if updated_databases is None:
        updated_databases = _databases(parsed, current_database)
    updated = parsed.updated if parsed.listed is None else _picked(parsed, table_map_for_update or 0)
    involved = parsed.listed if parsed.kind is K.ACCOUNT else tables_info
    return Statement(
        parsed.kind,
        current_database,
        parsed.database,
        None if updated_databases is None else tuple(sorted(updated_databases)),
        updated,
        parsed.looks_first,
        (involved or ()) if updated is None else (),
        parsed.dropped_trigger,
    )


def _picked(parsed: StatementFacts, table_map: int) -> TableLists | None:
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


def _databases(parsed: StatementFacts, current: str | None) -> tuple[str, ...] | None:
    if parsed.kind.is_database:
        named = parsed.database or current
        return (named,) if named else None
    if parsed.objects is None:
        return None
    found = {name.database if name.database is not None else current for name in parsed.objects}
    return None if None in found else tuple(db for db in found if db is not None)


# Each of the following functions parses the statements that begin with a certain word, such as INSERT.


def _statement(reader: StatementReader) -> StatementFacts:
    while reader.accept("(", ";"):
        pass
    begin = reader.advance()
    read = STATEMENTS.get(begin.word)
    return read(reader, begin) if read else UNKNOWN


def _on(kind: StatementKind, names: Names | None, **more: Any) -> StatementFacts:
    """Return the facts of a statement of the kind ``kind`` that updates the tables ``names``.

    ``names`` is None if the names could not be parsed. Then the facts have only the kind. ``more`` are further fields
    of the facts.
    """
    return (
        StatementFacts(kind)
        if names is None
        else StatementFacts(kind, updated=(names,), objects=names, **more)
    )


def _without_tables(kind: StatementKind, names: Names | None = (), **more: Any) -> StatementFacts:
    """Return the facts of a statement of the kind ``kind`` to which a server applies no table rule, such as CREATE
    FUNCTION.

    ``names`` are its objects, or None if the names could not be parsed. ``more`` are further fields of the facts.
    """
    return StatementFacts(kind, updated=_NOTHING, objects=names, **({} if names is None else more))


def _written(reader: StatementReader, kind: StatementKind, *changes: Change) -> StatementFacts:
    """Parse the name of the one table whose rows a statement changes, and return the result of parsing: the statement's
    kind, table and changes. The cursor is before the name.

    ``changes`` tells how the statement changes rows, such as INSERT.
    """
    names = reader.names(1)
    reader.note_writes(names or (), *changes)
    return _on(kind, names)


def _insert(reader: StatementReader, begin: Token) -> StatementFacts:
    reader.accept_all("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE")
    reader.accept("INTO")
    return _written(reader, K(begin.word), Change.INSERT, *[Change.DELETE] * (begin.word == "REPLACE"))


def _update(reader: StatementReader, begin: Token) -> StatementFacts:
    reader.accept_all("LOW_PRIORITY", "IGNORE")
    unknown = StatementFacts(K.UPDATE)
    found = read_references(reader, "SET")
    # In MariaDB, FOR PORTION OF may stand between a single table and SET. In a list of tables, FOR stands in NEXT VALUE
    # FOR, and the list is not read to its end.
    found.is_read |= len(found.top) == 1 and bool(reader.accept("FOR"))
    reader.note_update(found.top)
    if not found.is_read:
        return unknown
    if len(found.top) > 1:
        objects = None
        if found.whole:
            objects = tuple(dict.fromkeys(name for name, _ in found.top if name.database != ""))
        return replace(unknown, listed=found.in_order, listed_whole=found.whole, objects=objects)
    name = found.top[0][0]
    return unknown if name.database == "" else _on(K.UPDATE, (name,))


def _delete(reader: StatementReader, begin: Token) -> StatementFacts:
    # In MySQL, and after another modifier in MariaDB, HISTORY is a table's name.
    if reader.family == "mysql" or not reader.accept("HISTORY"):
        reader.accept_all("LOW_PRIORITY", "QUICK", "IGNORE")
    from_first = bool(reader.accept("FROM"))
    targets = _targets(reader)
    found, names = References(), None
    if targets is None:
        pass
    elif reader.accept("USING" if from_first else "FROM"):
        found = read_references(reader, "WHERE", "ORDER", "LIMIT", "RETURNING", or_end=True)
        names = _deleted_from(found, targets) if found.is_read else None
    elif from_first and len(targets) == 1:
        # A DELETE with one target deletes from that table. Its alias, PARTITION or WHERE may follow.
        names = targets
    written = (name for name, _ in found.top if name.database != "") if names is None else names
    reader.note_writes(written, Change.DELETE)
    return _on(K.DELETE, names)


def _deleted_from(found: References, targets: Names) -> Names | None:
    """Return the tables from which a DELETE with several tables deletes; None when the text does not tell them.

    ``found`` has the tables of the FROM clause. ``targets`` are the names or aliases of the tables to delete from. The
    result has the server's order, which is the order of the FROM clause.
    """
    by_alias: dict[str, list[int]] = {}
    for number, (_, alias) in enumerate(found.top):
        by_alias.setdefault(alias.lower(), []).append(number)
    updated = set()
    for target in dict.fromkeys(targets):
        meant = _tables_meant(found, target, by_alias.get(target.table.lower(), []))
        if len(meant) > 1 and len(targets) == 1:
            # The target is no alias. So it is the table of that name in the current database.
            return targets
        # Only the server can tell whether the target `d1.a` is the table `a` of the FROM clause, since `d1` may be the
        # current database.
        if len(meant) != 1 or found.top[meant[0]][0].database == "":
            return None
        updated.add(meant[0])
    return tuple(found.top[number][0] for number in sorted(updated))


def _tables_meant(found: References, target: TableName, named: list[int]) -> list[int]:
    """Return the indexes in ``found.top`` (the tables of a FROM clause) of the tables that a target of a DELETE may
    mean. ``named`` are the indexes of the tables whose alias is the target's name, apart from case.

    The server's ``multi_delete_table_match`` compares a target without a database with aliases, and with the names of
    tables in the current database. Case counts unless lower_case_table_names is set. In that case two tables never
    differ in case only.
    """
    alike = [
        number
        for number in named
        if target.database is None or found.top[number][0] == (target.database, found.top[number][1])
    ]
    exact = [number for number in alike if found.top[number][1] == target.table] or alike
    if target.database is not None or len(alike) == 1:
        return exact
    aliases = [number for number in exact if found.top[number][0].table != target.table]
    return aliases or [number for number in exact if found.top[number][0].database is None] or alike


def _targets(reader: TokenReader) -> Names | None:
    found = []
    reader.accept(".")
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


def _with(reader: StatementReader, begin: Token) -> StatementFacts:
    is_recursive = bool(reader.accept("RECURSIVE"))
    while True:
        # EXCHANGE PARTITION p WITH TABLE t stands in a routine's body, and has no common table expression.
        if not reader.token.is_name or reader.sees("TABLE"):
            return UNKNOWN
        cte = reader.advance().value
        reader.accept_parentheses()
        if not reader.accept("AS") or not reader.accept("("):
            return UNKNOWN
        reader.read_cte(cte, is_recursive=is_recursive)
        if not reader.accept(","):
            break
    if not reader.sees("UPDATE", "DELETE"):
        return UNKNOWN
    verb = reader.advance()
    return (_update if verb.word == "UPDATE" else _delete)(reader, verb)


def _load(reader: StatementReader, begin: Token) -> StatementFacts:
    if not reader.accept("DATA", "XML"):
        return UNKNOWN
    replaces = reader.skip_to("REPLACE", "INTO") == "REPLACE"
    if (replaces and not reader.accept("INTO")) or not reader.accept("TABLE"):
        return UNKNOWN
    return _written(reader, K.LOAD_DATA, Change.INSERT, *[Change.DELETE] * replaces)


def _definition(reader: StatementReader, begin: Token) -> StatementFacts:
    replaces, temporary, definer = _skip_modifiers(reader)
    token = reader.advance()
    what, verb = token.word, Verb[begin.word]
    read, thing = _DEFINITIONS.get(what, (None, Thing.OTHER))
    if thing is Thing.PACKAGE and reader.sees("BODY"):
        thing, token = Thing.PACKAGE_BODY, reader.advance()
    conditional = reader.exists()
    about: _About = {}
    if thing is not Thing.OTHER:
        about = {
            "verb": verb,
            "thing": thing,
            "temporary": temporary,
            "is_plain_table": what in ("TABLE", "TABLES"),
            "conditional": conditional,
            "replaces": replaces,
            "definer": definer,
            "after_verb": begin.end,
            "after_thing": token.end,
        }
    return UNKNOWN if read is None else read(reader, what, verb, about)


_MODIFIERS = (
    *("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "AGGREGATE", "ONLINE", "OFFLINE", "IGNORE", "UNDO"),
    *("JSON", "RELATIONAL", "DUALITY", "MATERIALIZED", "OR", "TEMPORARY", "DEFINER", "ALGORITHM", "SQL"),
)


def _skip_modifiers(reader: TokenReader) -> tuple[bool, bool, Names]:
    """Consume the words between CREATE, ALTER or DROP and the word for the type of object. Return whether OR REPLACE
    was among them, whether TEMPORARY was, and the account after DEFINER.
    """
    replaces = temporary = False
    definer: Names = ()
    while word := reader.accept(*_MODIFIERS):
        temporary |= word == "TEMPORARY"
        if word == "OR":
            replaces |= bool(reader.accept("REPLACE"))
        elif word == "SQL":
            reader.advance()
            reader.advance()
        elif word == "ALGORITHM":
            reader.accept("=")
            reader.advance()
        elif word == "DEFINER":
            reader.accept("=")
            account = _read_account(reader)
            definer = (account,) if account and account.table else ()
    return replaces, temporary, definer


def _table(reader: StatementReader, what: str, verb: Verb, about: _About) -> StatementFacts:
    if verb is not Verb.DROP and what in ("TABLE", "TABLES"):
        return (_create_table if verb is Verb.CREATE else _alter_table)(reader, about)
    kind = K.DROP_TABLE if what in ("TABLE", "TABLES") else K(what)
    names = reader.names(0 if verb is Verb.DROP else 1)
    if verb is Verb.DROP and about["temporary"] and about["conditional"] and names:
        # A replica always executes DROP TEMPORARY TABLE (or SEQUENCE) IF EXISTS (mysql_execute_command). Otherwise a
        # temporary table that passed the filter would stay.
        return _without_tables(kind, names, **about)
    if kind is K.SEQUENCE and verb is Verb.ALTER and names:
        # MariaDB does not mark the sequence as updated. So any table rule drops the statement, as the empty list says.
        return StatementFacts(kind, updated=((), names), objects=names, **about)
    return _on(kind, names, **about)


def _index(reader: StatementReader, what: str, verb: Verb, about: _About) -> StatementFacts:
    kind = K.CREATE_INDEX if verb is Verb.CREATE else K.DROP_INDEX
    names = reader.names(1) if reader.skip_to("ON") else None
    return _on(kind, names, verb=Verb.ALTER, thing=Thing.TABLE)


def _routine(reader: StatementReader, what: str, verb: Verb, about: _About) -> StatementFacts:
    names = reader.names(1)
    if what == "FUNCTION" and reader.accept("RETURNS") and reader.advance() and reader.accept("SONAME"):
        names = ()  # A loadable function (CREATE FUNCTION … RETURNS … SONAME) belongs to no database.
    if about.get("thing") is Thing.PACKAGE_BODY and verb is Verb.CREATE and names:
        return _without_tables(K.ROUTINE, names, needs=((Thing.PACKAGE, names[0]),), **about)
    return _without_tables(K.ROUTINE, names, **about)


def _event(reader: StatementReader, what: str, verb: Verb, about: _About) -> StatementFacts:
    names = reader.names(1)
    # DO begins the event's body, whose statements may rename tables.
    if verb is Verb.ALTER and names and reader.skip_to("RENAME", "DO") == "RENAME":
        reader.accept("TO")
        if new := reader.name():
            return _without_tables(K.EVENT, (*names, new), renames=((names[0], new),), **about)
    return _without_tables(K.EVENT, names, **about)


def _user(reader: StatementReader, what: str, verb: Verb, about: _About) -> StatementFacts:
    opened = () if verb is Verb.ALTER else ("*",)
    accounts = _read_accounts(reader)
    roles = _read_accounts(reader) if reader.accept("DEFAULT") and reader.accept("ROLE") else ()
    of_new = tuple((Thing.ACCOUNT, role) for role in roles)
    needs = of_new if verb is Verb.CREATE else _rights(roles, accounts)
    return _account(reader, *opened, accounts=accounts, needs=needs, **about)


_DATABASE_OPTIONS = frozenset(["DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION", "COMMENT", "READ"])


def _database(reader: StatementReader, what: str, verb: Verb, about: _About) -> StatementFacts:
    kind = K(f"{verb.value} DATABASE")
    # ALTER DATABASE may omit the database's name, so that the first option stands in its place.
    if (verb is Verb.ALTER and reader.token.word in _DATABASE_OPTIONS) or not reader.token.is_name:
        return StatementFacts(kind, updated=_NOTHING, **about)
    return StatementFacts(kind, database=reader.advance().value, updated=_NOTHING, **about)


def _trigger(reader: StatementReader, what: str, verb: Verb, about: _About) -> StatementFacts:
    trigger = reader.name()
    if trigger is None:
        return UNKNOWN
    if verb is Verb.DROP:
        # For DROP TRIGGER, the replica applies its table rules to the trigger's table, which the text does not name.
        # Without the trigger the replica does nothing. But MariaDB then logs DROP TRIGGER IF EXISTS.
        dropped = None if reader.family == "mariadb" and about["conditional"] else trigger
        return StatementFacts(K.DROP_TRIGGER, objects=(trigger,), dropped_trigger=dropped, **about)
    reader.skip_to("BEFORE", "AFTER")
    changes = []
    while change := reader.accept("INSERT", "UPDATE", "DELETE"):
        changes.append(Change(change))
        if change == "UPDATE" and reader.accept("OF"):
            reader.names()
        reader.accept("OR")
    table = reader.name() if reader.skip_to("ON") else None
    if table is None:
        return StatementFacts(K.CREATE_TRIGGER)
    if table.database is None:
        # In CREATE TRIGGER, a table without a database is in the trigger's database (LEX::copy_db_to).
        table = TableName(trigger.database, table.table)
    reader.skip_to("ROW")
    return StatementFacts(
        K.CREATE_TRIGGER,
        updated=((table,),),
        objects=(trigger,),
        needs=((Thing.TABLE, table),),
        fired_by=tuple(changes),
        **about,
    )


def _create_table(reader: StatementReader, about: _About) -> StatementFacts:
    names = reader.names(1)
    if names is None:
        return StatementFacts(K.CREATE_TABLE)
    in_parentheses = bool(reader.accept("("))
    if reader.accept("LIKE"):
        return _on(K.CREATE_TABLE_LIKE, names, sources=reader.names(1) or (), **about)
    if in_parentheses and not reader.sees("SELECT", "WITH"):
        reader.skip_parentheses()
        in_parentheses = False
    is_query = in_parentheses or _query_follows(reader)
    return _on(K.CREATE_TABLE_SELECT if is_query else K.CREATE_TABLE, names, **about)


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


def _alter_table(reader: StatementReader, about: _About) -> StatementFacts:
    unknown = StatementFacts(K.ALTER_TABLE)
    names = reader.names(1)
    if names is None:
        return unknown
    if reader.accept("ANALYZE", "CHECK", "OPTIMIZE", "REPAIR") and reader.accept("PARTITION"):
        return _on(K.MAINTENANCE, names)
    renames: tuple[tuple[TableName, TableName], ...] = ()
    others: Names = ()
    absorbed: Names = ()
    while verb := reader.skip_to("RENAME", "EXCHANGE", "CONVERT"):
        if verb == "RENAME":
            if reader.sees("COLUMN", "INDEX", "KEY"):
                continue
            reader.accept("TO", "AS", "=")
        else:
            of_partition = reader.accept("PARTITION")
            if verb == "EXCHANGE" and not of_partition:
                continue
            if of_partition and not reader.skip_to("WITH" if verb == "EXCHANGE" else "TO"):
                return unknown
            if not reader.accept("TABLE"):
                if verb == "EXCHANGE":
                    return unknown
                continue
        other = reader.name()
        if other is None:
            return unknown
        if verb == "RENAME":
            renames = ((names[0], other),)
        elif verb == "EXCHANGE":
            names = (*names, other)
        else:
            # MariaDB's ALTER TABLE … CONVERT turns a partition into a table, or a table into a partition. MariaDB
            # applies no table rule to that second table.
            others = (*others, other)
            absorbed = absorbed if of_partition else (*absorbed, other)
    made = tuple(new for _, new in renames if new not in names)
    objects = (*names, *made, *others)
    return StatementFacts(
        K.ALTER_TABLE, updated=(names,), objects=objects, renames=renames, absorbed=absorbed, **about
    )


def _rename(reader: StatementReader, begin: Token) -> StatementFacts:
    if reader.accept("USER"):
        return _rename_user(reader)
    unknown = StatementFacts(K.RENAME_TABLE)
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
    return StatementFacts(
        K.RENAME_TABLE,
        Verb.RENAME,
        Thing.TABLE,
        updated=(names,),
        objects=names,
        renames=tuple(pairs),
        is_plain_table=True,
        conditional=conditional,
        after_verb=begin.end,
        after_thing=after_thing,
    )


def _rename_user(reader: StatementReader) -> StatementFacts:
    found = _account(reader, "*")
    pairs = []
    while True:
        old = _read_account(reader)
        new = _read_account(reader) if reader.accept("TO") else None
        if old is None or new is None:
            return found
        pairs.append((old, new))
        if not reader.accept(","):
            accounts = tuple(old for old, _ in pairs)
            return replace(
                found, verb=Verb.RENAME, thing=Thing.ACCOUNT, accounts=accounts, renames=tuple(pairs)
            )


def _account(reader: StatementReader, *opened: str, accounts: Names = (), **about: Any) -> StatementFacts:
    tables = grant_tables(reader.family, *opened)
    return StatementFacts(K.ACCOUNT, updated=(tables,), objects=(), accounts=accounts, **about)


def _maintenance(reader: StatementReader, begin: Token) -> StatementFacts:
    reader.accept("NO_WRITE_TO_BINLOG", "LOCAL")
    if not reader.accept("TABLE", "TABLES", "VIEW"):
        return UNKNOWN
    return _on(K.MAINTENANCE, reader.names())


def _flush(reader: StatementReader, begin: Token) -> StatementFacts:
    reader.accept("NO_WRITE_TO_BINLOG", "LOCAL")
    if reader.accept("TABLE", "TABLES") and not reader.sees("WITH", "FOR") and (names := reader.names()):
        return _on(K.FLUSH, names)
    return _without_tables(K.FLUSH)


def _truncate(reader: StatementReader, begin: Token) -> StatementFacts:
    reader.accept("TABLE")
    return _written(reader, K.TRUNCATE_TABLE)


# The statements about accounts.

_NOT_AN_ACCOUNT = ("CURRENT_USER", "CURRENT_ROLE", "NONE", "ALL", "DEFAULT")
_MYSQL = (
    *("user", "db", "tables_priv", "columns_priv", "procs_priv", "proxies_priv", "role_edges"),
    *("default_roles", "global_grants", "password_history"),
)
_MARIADB = ("db", "tables_priv", "columns_priv", "procs_priv", "proxies_priv", "roles_mapping", "global_priv")


def grant_tables(family: Family, *opened: str) -> Names:
    """Return the grant tables (``mysql.user``, ``mysql.db`` and so on) that a statement such as GRANT or CREATE USER
    opens, in the server's order. The server applies its table rules to them.

    MySQL opens all grant tables (``enum ACL_TABLES``). MariaDB opens global_priv and the tables whose names are in
    ``opened`` (``Grant_tables::open_and_lock``). The name ``"*"`` stands for all grant tables. Recorded in
    tests/oracle/data/recordings/{mysql,mariadb}-forms{,2}.
    """
    if family == "mysql":
        names: tuple[str, ...] = _MYSQL
    elif "*" in opened:
        names = _MARIADB
    else:
        names = tuple(name for name in _MARIADB if name in opened or name == "global_priv")
    return tuple(TableName("mysql", name) for name in names)


def _read_account(reader: TokenReader) -> TableName | None:
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


def _read_accounts(reader: TokenReader) -> Names:
    found = []
    while (account := _read_account(reader)) is not None:
        if account.table:
            found.append(account)
        # The next account stands behind a comma outside of parentheses and strings.
        while not reader.at_end and not reader.sees(
            ",", "FOR", "FROM", "TO", "REQUIRE", "WITH", "DEFAULT", ";"
        ):
            if reader.accept("IDENTIFIED"):
                reader.accept("WITH")
            elif not reader.accept_parentheses():
                reader.advance()
        if not reader.accept(","):
            break
    return tuple(dict.fromkeys(found))


def _rights(roles: Names, accounts: Names) -> tuple[tuple[Thing, TableName], ...]:
    """Return the grants that must exist before ``roles`` become default roles of ``accounts``, one for each role and
    account. A grant is a pair of ``Thing.GRANT`` and a TableName, with the role in the field ``database`` and the
    account as ``user@host`` in the field ``table``.
    """
    return tuple(
        (Thing.GRANT, TableName(role.table.lower(), f"{account.table}@{account.database}"))
        for role in roles
        for account in accounts
    )


def _grant(reader: StatementReader, begin: Token) -> StatementFacts:
    verb, conditional = Verb[begin.word], reader.exists()
    is_proxy = reader.sees("PROXY")
    words, columns = [], False
    while not reader.at_end and not reader.sees("ON", "TO", "FROM"):
        words.append(reader.token.value.lower())
        if reader.accept_parentheses():
            columns = True
        else:
            reader.advance()
    # The right CREATE may be granted on a missing table, and the right CREATE VIEW may not.
    creates = not columns and any(
        word == "all" or (word == "create" and after != "view") for word, after in pairwise([*words, ""])
    )
    granted: Names = ()
    needs: tuple[tuple[Thing, TableName], ...] = ()
    of_object: Names = ()
    granted_on: TableName | None = None
    is_known = True
    if is_proxy:
        opened = ["proxies_priv"]
        proxied = _read_account(reader) if reader.accept("ON") else None
        on = f"proxy {proxied.table}@{proxied.database}" if proxied else "proxy"
    elif not reader.accept("ON"):
        no_role = ("admin", "option", "for")
        if "all" not in words:
            granted = tuple(
                TableName("%", word) for word in words if word.isidentifier() and word not in no_role
            )
        # MySQL revokes a role that is not granted, with a warning.
        conditional |= reader.family == "mysql" and words[:1] != ["all"]
        opened = ["*" if words[:1] == ["all"] else "roles_mapping"]
        on = " ".join(words)
    else:
        first, name, what = reader.token.word, _granted_on(reader), ""
        # Before TO or FROM, a word such as PACKAGE is the table's name.
        if first in ("PROCEDURE", "FUNCTION", "PACKAGE", "LIBRARY", "TABLE") and not reader.sees(
            "TO", "FROM"
        ):
            what = first
            if what == "PACKAGE":
                reader.accept("BODY")
            name = _granted_on(reader)
        if name is None:
            return StatementFacts(K.ACCOUNT)
        # A server revokes rights on an object that no longer exists.
        if verb is Verb.GRANT and what in ("PROCEDURE", "FUNCTION"):
            needs = ((Thing[what], name),)
        elif verb is Verb.GRANT and name.table != "*" and not creates:
            needs = ((Thing.TABLE, name),)
        is_known = what not in ("PACKAGE", "LIBRARY")
        if name.table == "*":
            opened = ["db"]
        else:
            of_object = (name,)
            opened = ["tables_priv" if what in ("", "TABLE") else "procs_priv"]
            opened += ["columns_priv"] if columns else []
        on, granted_on = "" if what == "TABLE" else what, name
    opens = grant_tables(reader.family, *opened)
    found = StatementFacts(
        K.ACCOUNT,
        updated=(of_object, opens) if of_object else (opens,),
        looks_first=verb is Verb.GRANT and (on != "" or not creates),
        objects=(),
    )
    if not is_known or not reader.accept("TO", "FROM"):
        return found
    return replace(
        found,
        verb=verb,
        thing=Thing.GRANT,
        conditional=conditional,
        needs=needs,
        accounts=(*_read_accounts(reader), *granted),
        on=on,
        granted_on=granted_on,
    )


def _granted_on(reader: TokenReader) -> TableName | None:
    if reader.accept("*"):
        if reader.accept("."):
            reader.advance()
            return TableName("*", "*")
        return TableName(None, "*")
    reader.accept(".")
    if not reader.token.is_name:
        return None
    first = reader.advance().value
    if not reader.accept("."):
        return TableName(None, first)
    if reader.accept("*"):
        return TableName(first, "*")
    return TableName(first, reader.advance().value) if reader.token.is_name else None


def _set(reader: StatementReader, begin: Token) -> StatementFacts:
    is_password = bool(reader.accept("PASSWORD"))
    if is_password or reader.accept("DEFAULT"):
        if not is_password and not reader.accept("ROLE"):
            return UNKNOWN
        found, roles = _account(reader), () if is_password else _read_accounts(reader)
        if reader.family == "mariadb" and not is_password:
            # If a replica's rules pass roles_mapping, it looks for the user and the role before it checks the rules on
            # global_priv (acl_check_set_default_role). Without them it stops, so it must get the statement.
            found = replace(found, listed=grant_tables("mariadb", "roles_mapping"))
        if reader.accept("FOR") if is_password else reader.skip_to("FOR", "TO"):
            accounts = _read_accounts(reader)
            found = replace(
                found,
                verb=Verb.ALTER,
                thing=Thing.ACCOUNT,
                accounts=accounts,
                needs=_rights(roles, accounts),
            )
        return found
    # MariaDB's SET STATEMENT … FOR makes settings for one statement, which follows FOR.
    if reader.accept("STATEMENT"):
        if not reader.skip_to("FOR") or not reader.nest():
            return UNKNOWN
        found = _statement(reader)
        reader.unnest()
        return found
    return _without_tables(K.SET)


def _call(reader: StatementReader, begin: Token) -> StatementFacts:
    while not reader.at_end:
        if reader.token.word == "FROM":
            return StatementFacts(K.SELECT)
        reader.skip()
    return StatementFacts(K.SELECT, updated=_NOTHING)


STATEMENTS: dict[str, Callable[[StatementReader, Token], StatementFacts]] = {
    **dict.fromkeys(("INSERT", "REPLACE"), _insert),
    "UPDATE": _update,
    "DELETE": _delete,
    "WITH": _with,
    "LOAD": _load,
    **dict.fromkeys(("CREATE", "ALTER", "DROP"), _definition),
    "RENAME": _rename,
    "TRUNCATE": _truncate,
    **dict.fromkeys(("ANALYZE", "OPTIMIZE", "REPAIR", "CHECK"), _maintenance),
    "FLUSH": _flush,
    **dict.fromkeys(("GRANT", "REVOKE"), _grant),
    "SET": _set,
    **dict.fromkeys(("SELECT", "DO", "CALL"), _call),
}
"""The parsers of statements, by the word with which a statement begins. A parser gets that word's token."""

_Definition = Callable[[StatementReader, str, Verb, _About], StatementFacts]
_DEFINITIONS: dict[str, tuple[_Definition, Thing]] = {
    **dict.fromkeys(("TABLE", "TABLES", "VIEW", "SEQUENCE"), (_table, Thing.TABLE)),
    "INDEX": (_index, Thing.OTHER),
    **dict.fromkeys(("DATABASE", "SCHEMA"), (_database, Thing.DATABASE)),
    "TRIGGER": (_trigger, Thing.TRIGGER),
    **{what: (_routine, Thing[what]) for what in ("PROCEDURE", "FUNCTION", "PACKAGE", "LIBRARY")},
    "EVENT": (_event, Thing.EVENT),
    **dict.fromkeys(("USER", "ROLE"), (_user, Thing.ACCOUNT)),
    **dict.fromkeys(
        ("SERVER", "TABLESPACE", "LOGFILE", "INSTANCE", "RESOURCE", "REFERENCE", "PREPARE"),
        (lambda *_: _without_tables(K.OTHER), Thing.OTHER),
    ),
}
"""For each keyword that names a type of object, such as TRIGGER: the parser for the rest of a CREATE, ALTER or DROP
statement, and the type. The rest begins after the keyword and IF EXISTS.
"""

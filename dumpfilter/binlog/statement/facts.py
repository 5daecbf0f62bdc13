"""The facts about a statement: its kind, the objects that it makes, changes and removes, and the names in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import QueryEvent, TableName
from dumpfilter.binlog.statement.definitions import Definition, Thing, Verb
from dumpfilter.binlog.statement.mentions import NO_MENTIONS, Change, Mentions, mentions, remembered_mentions
from dumpfilter.binlog.statement.parse import parse_definition
from dumpfilter.binlog.statement.reader import MOST_TOKENS, TokenReader
from dumpfilter.binlog.statement.references import DERIVED, read_references
from dumpfilter.binlog.statement.shape import LONGEST_REMEMBERED, read_text, statement_shape, without_brackets
from dumpfilter.binlog.statement.statement import StatementKind
from dumpfilter.binlog.statement.tokens import BINLOG

K = StatementKind

CHANGING_ROWS = frozenset({K.INSERT, K.REPLACE, K.UPDATE, K.DELETE, K.LOAD_DATA})
CHANGING_DATA = CHANGING_ROWS | {K.SELECT, K.TRUNCATE_TABLE}
"""The kinds of statement that define no object, and fail where a table or function is missing."""

_AFTER_FROM = ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "WITH", "UNION", "WINDOW")
_INNODB = "INNODB"

NO_FOREIGN_KEY_CHECKS = 1 << 26
"""The bit of a Query event's ``flags2`` for a session with foreign_key_checks=0 (OPTION_NO_FOREIGN_KEY_CHECKS)."""


@dataclass(frozen=True)
class StatementFacts:
    """The facts about a statement. Names are as in the text."""

    kind: StatementKind
    definition: Definition | None = None
    """The objects that the statement makes, changes or removes; None for statements that change data."""
    names: Mentions = NO_MENTIONS
    """The names in a statement that changes data."""
    checks_foreign_keys: bool = True

    @property
    def makes(self) -> tuple[TableName, ...]:
        """The tables, views and sequences that exist after the statement, and did not before."""
        found = self.definition
        if found is None or found.thing is not Thing.TABLE:
            return ()
        made = found.names if found.verb is Verb.CREATE else ()
        return (*made, *found.also_makes, *(new for _, new in found.renames))

    @property
    def tables(self) -> tuple[TableName, ...]:
        """All tables, views and sequences that the statement names."""
        found = self.definition
        if found is None:
            return self.names.tables
        own = found.names if found.thing is Thing.TABLE else ()
        body = found.body
        written = tuple(table for table, _ in body.writes)
        return (*own, *self.makes, *found.tables, *body.tables, *body.parents, *found.merged, *written)


NO_FACTS = StatementFacts(K.OTHER)


def statement_facts(query: QueryEvent, family: Family) -> StatementFacts:
    """Return the facts about a decoded statement.

    A statement that failed on its server did only a part of its work. It has no facts but its kind.
    """
    sql_mode = query.status.sql_mode or 0
    kind = read_text(query.text, family=family, sql_mode=sql_mode).kind
    if query.error_code:
        return StatementFacts(kind)
    if kind in CHANGING_DATA:
        shape = statement_shape(query.text, family=family, sql_mode=sql_mode)
        read = remembered_mentions if len(shape) <= LONGEST_REMEMBERED else mentions
        return StatementFacts(kind, names=read(shape, family))
    definition = read_definition(without_brackets(query.text, family=family, sql_mode=sql_mode), family)
    checks = not (query.status.flags2 or 0) & NO_FOREIGN_KEY_CHECKS
    return StatementFacts(kind, definition, checks_foreign_keys=checks)


def read_definition(text: str, family: Family = "mysql") -> Definition | None:
    """Return the objects that a statement makes, changes or removes; None for other statements.

    >>> read_definition("DROP TRIGGER shop.t").names
    (TableName(database='shop', table='t'),)
    """
    parsed, found = parse_definition(text, family)
    if (
        found is None
        or found.verb is Verb.DROP
        or found.thing in (Thing.DATABASE, Thing.ACCOUNT, Thing.GRANT)
    ):
        return found
    if found.thing is Thing.TRIGGER:
        return replace(found, body=mentions(text[found.body_at :], family))
    body = _body(text, family, found.names, parsed.sources)
    if found.thing is Thing.TABLE and found.verb is Verb.ALTER and parsed.kind is not K.VIEW:
        body = Mentions(tables=body.sequences, parents=body.parents)
    elif parsed.kind is K.VIEW:
        body = replace(body, changed=_changed_by_view(text, family))
    return replace(found, body=body, merged=_merged(text, family) if found.is_plain_table else ())


def _body(text: str, family: Family, own: tuple[TableName, ...], sources: tuple[TableName, ...]) -> Mentions:
    found = mentions(text, family)
    tables = tuple(dict.fromkeys((*sources, *(name for name in found.tables if name not in own))))
    functions = tuple(name for name in found.functions if name not in own)
    parents = () if _without_foreign_keys(text) else found.parents
    return replace(found, tables=tables, functions=functions, parents=parents)


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

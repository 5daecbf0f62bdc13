"""The facts about a statement: its kind, the objects that it makes, changes and removes, and the names in it."""

from __future__ import annotations

from dataclasses import dataclass

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import QueryEvent, TableName
from dumpfilter.statement.definitions import Definition, Thing, Verb, read_definition
from dumpfilter.statement.mentions import NO_MENTIONS, Mentions, mentions, remembered_mentions
from dumpfilter.statement.shape import LONGEST_REMEMBERED, read_text, statement_shape, without_brackets
from dumpfilter.statement.statement import StatementKind

K = StatementKind

CHANGING_ROWS = frozenset({K.INSERT, K.REPLACE, K.UPDATE, K.DELETE, K.LOAD_DATA})
CHANGING_DATA = CHANGING_ROWS | {K.SELECT, K.TRUNCATE_TABLE}
"""The kinds of statement that define no object, and fail where a table or function is missing."""

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

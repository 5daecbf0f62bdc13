"""Parsing of a statement's head (the words up to the objects' names), and of the names in the rest of its text."""

from __future__ import annotations

from dataclasses import replace

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import QueryEvent
from dumpfilter.binlog.statement.mentions import BodyReader, read_mentions
from dumpfilter.binlog.statement.parse import read_head
from dumpfilter.binlog.statement.shape import read_text, statement_shape, without_brackets
from dumpfilter.binlog.statement.statement import Change, Mentions, StatementFacts, StatementKind, Thing, Verb

K = StatementKind

CHANGING_ROWS = frozenset({K.INSERT, K.REPLACE, K.UPDATE, K.DELETE, K.LOAD_DATA})
CHANGING_DATA = CHANGING_ROWS | {K.SELECT, K.TRUNCATE_TABLE}
"""The kinds of statement that define no object. They fail if a table or function is missing."""

_WITHOUT_BODY = frozenset({Thing.DATABASE, Thing.ACCOUNT, Thing.GRANT})

NO_FOREIGN_KEY_CHECKS = 1 << 26
"""The bit of a Query event's ``flags2`` for a session with foreign_key_checks=0 (OPTION_NO_FOREIGN_KEY_CHECKS)."""


def statement_facts(query: QueryEvent, family: Family) -> StatementFacts:
    """Parse the statement of a decoded Query event completely: its kind, the objects that it changes, and all other
    tables and routines in its text.

    A statement that failed on its server did only a part of its work. For such a statement, the result has only the
    kind.
    """
    sql_mode = query.status.sql_mode or 0
    head = read_text(query.text, family=family, sql_mode=sql_mode)
    if query.error_code:
        return StatementFacts(head.kind)
    if head.kind in CHANGING_DATA:
        shape = statement_shape(query.text, family=family, sql_mode=sql_mode)
        return replace(head, body=read_mentions(shape, family))
    # The shape has no strings, in which accounts have their names.
    found = read_facts(without_brackets(query.text, family=family, sql_mode=sql_mode), family)
    return replace(found, checks_foreign_keys=not (query.status.flags2 or 0) & NO_FOREIGN_KEY_CHECKS)


def read_facts(text: str, family: Family = "mysql") -> StatementFacts:
    """Parse a statement that creates, changes or removes objects, such as CREATE VIEW. The result also has the names in
    the statement's query, columns or routine body.

    >>> read_facts("CREATE VIEW shop.v AS SELECT * FROM hr.t").body.tables
    (TableName(database='hr', table='t'),)
    """
    reader = BodyReader(text, family)
    head = read_head(reader)
    if head.verb in (None, Verb.DROP, Verb.RENAME) or head.thing in _WITHOUT_BODY:
        return head
    found = reader.mentions()
    if head.thing is Thing.TRIGGER:
        return replace(head, body=found)
    if head.kind in (K.ALTER_TABLE, K.SEQUENCE, K.CREATE_INDEX, K.DROP_INDEX) and head.verb is Verb.ALTER:
        tables = found.sequences
        found = Mentions(parents=found.parents)
    else:
        tables = (*head.sources, *(name for name in found.tables if name not in head.names))
    # Only InnoDB checks foreign keys. Other engines ignore them.
    parents = found.parents if reader.engine in ("", "INNODB") else ()
    functions = tuple(name for name in found.functions if name not in head.names)
    body = replace(found, tables=tuple(dict.fromkeys(tables)), functions=functions, parents=parents)
    if head.kind is K.VIEW:
        # A change of a view changes the tables that stand directly in the FROM clause of its query.
        first = dict.fromkeys(reader.first_list or ())
        body = replace(body, changed=tuple((name, Change.UPDATE) for name in first))
    return replace(head, body=body, merged=reader.merged if head.is_plain_table else ())

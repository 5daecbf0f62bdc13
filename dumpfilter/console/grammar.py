"""The grammar of the statements that the console itself answers, such as SHOW TABLES, SET and KILL.

Each statement is declared at the function that carries it out. The function gets the session and the parsed values of
the statement, and returns the result.
"""

from __future__ import annotations

import functools
from typing import NoReturn

from dumpfilter.binlog.statement.tokens import TokenKind
from dumpfilter.console.settings import read_settings
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.commands import limit
from dumpfilter.console.sql.cursor import Cursor
from dumpfilter.console.sql.grammar import Grammar

_UNSUPPORTED = "ENGINE LIBRARY MUTEX PARSE_TREE PRIVILEGES PROFILE PROFILES"
_UNSUPPORTED_CREATE = "EVENT FUNCTION LIBRARY PACKAGE PROCEDURE SEQUENCE SERVER TRIGGER USER"
"""The words after SHOW (``_UNSUPPORTED``) and SHOW CREATE of statements that a server has and a console lacks."""

_QUERIES = ("SELECT", "WITH", "(", "FORMAT", "ANALYZE", "INSERT", "UPDATE", "DELETE", "TABLE", "FOR")
"""The words after EXPLAIN with which a query begins. A console cannot explain queries."""


def _skip_rest(cursor: Cursor) -> dict[str, str]:
    """Consume all remaining tokens, which have no effect."""
    while not cursor.at_end:
        cursor.advance()
    return {}


def _rest_of(cursor: Cursor) -> str:
    """Consume all remaining tokens, and return their text. Raises SqlError 1064 if no token is left."""
    begin = cursor.token.start
    if cursor.at_end:
        cursor.fail()
    _skip_rest(cursor)
    return cursor.text[begin:]


def _condition(cursor: Cursor) -> dict[str, str]:
    if cursor.accept("WHERE"):
        return {"where": _rest_of(cursor)}
    cursor.expect("LIKE")
    return {"pattern": cursor.token.value, "like": _rest_of(cursor)}


def _table_name(cursor: Cursor) -> dict[str, str]:
    name = cursor.identifier()
    if cursor.accept("."):
        return {"schema": name, "name": cursor.identifier()}
    return {"name": name} | ({"schema": cursor.identifier()} if cursor.accept("FROM", "IN") else {})


def _number(cursor: Cursor) -> int:
    """Consume and return a connection id. Numbers above 2**64 - 1 become 2**64 - 1, which no connection has."""
    return cursor.unsigned() if cursor.token.kind is TokenKind.INTEGER else cursor.fail()


def _refuse(statement: str, words: str, cursor: Cursor) -> NoReturn:
    raise server_errors.ER_NOT_SUPPORTED_YET(f"{statement} {cursor.expect(*words.split())}")


def _refuse_to_explain(cursor: Cursor) -> NoReturn:
    cursor.expect(*_QUERIES)
    raise server_errors.ER_NOT_SUPPORTED_YET("EXPLAIN")


GRAMMAR = Grammar(
    {
        "condition": _condition,
        "explained": _refuse_to_explain,
        "identifier": Cursor.identifier,
        "limit": limit,
        "number": _number,
        "rest": _skip_rest,
        "settings": read_settings,
        "table": _table_name,
        "text": _rest_of,
        "unsupported": functools.partial(_refuse, "SHOW", _UNSUPPORTED),
        "unsupported_create": functools.partial(_refuse, "SHOW CREATE", _UNSUPPORTED_CREATE),
    },
    {"condition": ("LIKE", "WHERE")},
)
"""The grammar to which the statements are added, with the parsers of the values that their syntax names."""

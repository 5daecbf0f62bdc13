"""The readers of the values in statements that the console itself answers, such as SHOW TABLES, SET and KILL.

Each such statement is declared at the function that carries it out. The function gets the parsed values of the
statement and the session, and returns the result.
"""

from __future__ import annotations

from dumpfilter.binlog.statement.tokens import Token, TokenKind
from dumpfilter.console.settings import read_settings
from dumpfilter.console.sql.commands import GRAMMAR as GRAMMAR
from dumpfilter.console.sql.cursor import Cursor


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


def _whole(cursor: Cursor) -> dict[str, str]:
    """Consume the rest of the statement without reading its tokens, and return the whole text."""
    end = len(cursor.text)
    cursor.token = Token(TokenKind.END, "", end, end)
    return {"text": cursor.text}


GRAMMAR.readers.update(
    condition=_condition,
    identifier=Cursor.identifier,
    number=_number,
    rest=_skip_rest,
    settings=read_settings,
    table=_table_name,
    text=_rest_of,
    whole=_whole,
)
GRAMMAR.optional["condition"] = ("LIKE", "WHERE")

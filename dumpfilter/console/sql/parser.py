"""The parser of the console's statements. It turns the text of a statement into a command object."""

from __future__ import annotations

from datetime import datetime

from dumpfilter.binlog.statement.tokens import TokenKind, tokens
from dumpfilter.console.sql.commands import GRAMMAR, Command, Query
from dumpfilter.console.sql.cursor import Cursor
from dumpfilter.console.sql.server_errors import ER_EMPTY_QUERY, SqlError

_SPACE = " \t\n\v\f\r"
_OTHERS = {
    "START": ("TRANSACTION", "GROUP_REPLICATION"),
    "STOP": ("GROUP_REPLICATION",),
    "RESET": ("BINARY", "MASTER", "PERSIST", "QUERY"),
}
"""The second words of statements with these first words that are not about replication."""


def parse_statement(text: str, now: datetime | None = None) -> Command:
    """Parse one statement, with or without a semicolon at its end, and return it as a command.

    A statement that is not about replication becomes a ``Query``, whose text is not parsed further. ``now`` is the
    value of NOW(), a local time without a time zone. Its default is the current time. Raises SqlError: ER_PARSE_ERROR
    for text that the grammar does not allow, ER_EMPTY_QUERY, and other errors that the server's parser raises.

    >>> parse_statement("stop replica sql_thread for channel 'Ch1'")
    StopReplica(threads=<Threads.SQL: 2>, channel='ch1', every=False)
    >>> parse_statement("SELECT 1")
    Query(text='SELECT 1')
    >>> parse_statement("RESET REPLICA NONE")
    Traceback (most recent call last):
    dumpfilter.console.sql.server_errors.SqlError: ERROR 1064 (42000): You have an error in your SQL syntax; check \
the manual that corresponds to your MySQL server version for the right syntax to use near 'NONE' at line 1
    """
    # The server strips white space before it parses. Line 1 in its error messages is therefore the line of the first
    # other character.
    text = text.lstrip(_SPACE).rstrip(_SPACE + ";")
    if not text:
        raise ER_EMPTY_QUERY()
    cursor = Cursor(text)
    if cursor.sees(";"):
        cursor.fail()
    first = cursor.advance().word
    second = cursor.token.word
    if first in ("SHOW", "FLUSH"):
        is_known = cursor.at_end or second in GRAMMAR.seconds(first)
    else:
        is_known = bool(GRAMMAR.seconds(first)) and second not in _OTHERS.get(first, ())
    if not is_known:
        return Query(text)
    try:
        command: Command = GRAMMAR.parse(text, now)
    except SqlError:
        if first == "FLUSH":
            return Query(text)
        raise
    return command


def split_statements(text: str) -> list[str]:
    """Split a text into its statements, which semicolons separate.

    A semicolon in quotes or in a comment separates nothing. A server reports a syntax error for an empty statement
    before another statement (``;; SELECT 1``). Therefore the text from the empty statement on is returned as the last
    statement, and :func:`parse_statement` reports the error for it. For a text without statements, the result is one
    empty statement. The running time is linear in the length of the text.

    >>> split_statements("SELECT ';' ; STOP REPLICA; ")
    ["SELECT ';'", 'STOP REPLICA']
    """
    text = text.rstrip(_SPACE + ";")
    statements: list[str] = []
    begin = 0
    is_empty = True
    # Most texts are one statement, which need not be read twice.
    for token in tokens(text) if ";" in text else ():
        if token.kind is not TokenKind.SYMBOL or token.value != ";":
            is_empty = False
        elif is_empty:
            break
        else:
            statements.append(text[begin : token.start].strip(_SPACE))
            begin, is_empty = token.end, True
    return [*statements, text[begin:].strip(_SPACE)]

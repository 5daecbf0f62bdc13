r"""The division of a script into statements, as the ``mysql`` client does: ``;``, ``\g`` or ``\G`` ends a statement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class ScriptStatement:
    r"""One statement of an SQL script, with its line number and the output format that its terminator asks for."""

    text: str
    line: int
    """The number of the script's line on which the statement begins, counted from 1, for error messages."""
    vertical: bool = False
    r"""Whether the statement ended with ``\G``. Its rows are then printed with one line for each column."""


def script_statements(script: str) -> Iterator[ScriptStatement]:
    r"""Yield the statements of a script, without empty statements.

    A statement ends at ``;``, ``\g`` or ``\G`` outside quotes and comments.

    >>> [(s.text, s.line, s.vertical) for s in script_statements("SELECT ';'; -- a;\nSHOW REPLICA STATUS\\G")]
    [("SELECT ';'", 1, False), ('SHOW REPLICA STATUS', 2, True)]
    """
    # numpy takes 0.1 s to import, and dumpfilter status divides no script.
    from dumpfilter.binlog.statement.tokens import Lexer, TokenKind

    lexer, begin, first = Lexer(script), 0, -1
    while True:
        token = lexer.next()
        command = script[token.end : token.end + 1] if token.value == "\\" else ""
        ends = token.kind is TokenKind.SYMBOL and (token.value == ";" or command in ("g", "G"))
        if ends or token.kind in (TokenKind.END, TokenKind.BAD):
            # A quote that is never closed takes the rest of the script into the statement, which the server refuses.
            end = len(script) if token.kind is TokenKind.BAD else token.start
            if first < 0 and token.kind is TokenKind.BAD:
                first = token.start
            if first >= 0:
                text = script[first:end].strip()
                yield ScriptStatement(text, script.count("\n", 0, first) + 1, command == "G")
            if not ends:
                return
            begin, first = token.end + len(command), -1
            if command:
                lexer = Lexer(script, begin)
        elif first < 0:
            # A version comment (/*! … */) before the first word is part of the statement, since servers execute it.
            conditional = script.find("/*!", begin, token.start)
            first = conditional if conditional >= 0 else token.start

"""The execution of SET statements: session variables, user variables, SET NAMES and SET CHARACTER SET."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from mysql_mimic.charset import CharacterSet

from dumpfilter.console.executor import Interrupt
from dumpfilter.console.session import Session
from dumpfilter.console.variables import Value
from dumpfilter.sql import server_errors
from dumpfilter.sql.plain import Kind, plain_value
from dumpfilter.statement.tokens import Token, TokenKind

_GLOBAL_SCOPES = ("GLOBAL", "PERSIST", "PERSIST_ONLY")
_SCOPES = (*_GLOBAL_SCOPES, "SESSION", "LOCAL")
_CHARACTER_SET_VARIABLES = ("character_set_client", "character_set_connection", "character_set_results")
_LITERAL_WORDS: dict[str, Value] = {"DEFAULT": None, "NULL": None, "ON": 1, "TRUE": 1, "OFF": 0, "FALSE": 0}
"""The values of the words that can stand alone after ``=`` in a SET. None sets the variable to its default."""


class Assignment(NamedTuple):
    """One assignment ``name = value`` of a SET statement."""

    is_user_variable: bool
    name: str
    value: Sequence[Token]
    """The tokens of the value."""
    globally: bool
    """Whether the assignment has the scope GLOBAL, PERSIST or PERSIST_ONLY. The console refuses such assignments."""


def apply_set(session: Session, text: str, words: Sequence[Token], interrupt: Interrupt) -> None:
    """Carry out a client's SET statement, whose tokens are ``words``, in the client's session.

    The values of all assignments are computed before the first variable is set. SET TRANSACTION has no effect. Raises
    SqlError 1064 for wrong syntax, and 1115 for an unknown character set. Raises 1193 for an unknown variable, 1227 for
    a GLOBAL scope, and 1229 or 1238 for a variable that cannot be set.
    """
    computed = []
    for part in split_set(words):
        if not part:
            raise server_errors.syntax_error(text, words[-1].end)
        first = part[0].word
        if first == "TRANSACTION" or [word.word for word in part[1:2]] == ["TRANSACTION"]:
            return
        if first in ("NAMES", "CHARACTER", "CHARSET"):
            named = part[2 if first == "CHARACTER" else 1 :]
            if not named:
                raise server_errors.syntax_error(text, part[-1].end)
            _set_names(session, named[0].value)
            continue
        assignment = read_assignment(text, part)
        computed.append((assignment, _value(session, text, assignment.value, interrupt)))
    for assignment, value in computed:
        if assignment.is_user_variable:
            session.set_user_variable(assignment.name, value)
        else:
            _set_variable(session, assignment, value)


def split_set(words: Sequence[Token]) -> list[list[Token]]:
    """Return the tokens of each assignment of a SET statement, whose tokens are ``words``."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for word in words[1:]:
        symbol = word.value if word.kind is TokenKind.SYMBOL else ""
        depth += (symbol == "(") - (symbol == ")")
        if symbol == ";":
            break
        if symbol == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def read_assignment(text: str, part: Sequence[Token]) -> Assignment:
    """Return the assignment that some tokens of the SET statement ``text`` are. Raises SqlError 1064."""

    def value_at(position: int) -> str:
        return part[position].value if position < len(part) else ""

    def start_of(position: int) -> int:
        return part[position].start if position < len(part) else part[-1].end

    at = 0
    while value_at(at) == "@":
        at += 1
    is_user_variable = at == 1
    globally = False
    scope = part[at].word if at < len(part) else ""
    if scope in _SCOPES and not is_user_variable and value_at(at + 1) not in ("", "=", ":"):
        globally = scope in _GLOBAL_SCOPES
        at += 2 if value_at(at + 1) == "." else 1
        while value_at(at) in ("@", "."):
            at += 1
    if at >= len(part) or not part[at].is_name:
        raise server_errors.syntax_error(text, start_of(at))
    name = value_at(at)
    at += 1
    if value_at(at) == ":" and value_at(at + 1) == "=":
        at += 2
    elif value_at(at) == "=":
        at += 1
    else:
        raise server_errors.syntax_error(text, start_of(at))
    if at >= len(part):
        raise server_errors.syntax_error(text, part[-1].end)
    return Assignment(is_user_variable, name, part[at:], globally)


def _value(session: Session, text: str, part: Sequence[Token], interrupt: Interrupt) -> Value:
    if len(part) == 1 and part[0].kind is TokenKind.WORD:
        return _LITERAL_WORDS.get(part[0].word, part[0].value)
    plain = plain_value(part)
    if plain is not None and plain.kind is Kind.LITERAL:
        return plain.value
    source = text[part[0].start : part[-1].end]
    result = session.select(f"SELECT {source}", interrupt)
    value: Value = result.rows[0][0]
    return value


def _set_variable(session: Session, assignment: Assignment, value: Value) -> None:
    name = assignment.name.lower()
    if name in _CHARACTER_SET_VARIABLES and isinstance(value, str):
        _known_character_set(value)
    session.variables.set(assignment.name, value, globally=assignment.globally)
    if name == "character_set_results" and isinstance(value, str):
        session.character_set = _known_character_set(value)


def _set_names(session: Session, name: str) -> None:
    character_set = CharacterSet.utf8mb4 if name.upper() == "DEFAULT" else _known_character_set(name)
    for variable in _CHARACTER_SET_VARIABLES:
        session.variables.set(variable, character_set.name, globally=False)
    session.character_set = character_set


def _known_character_set(name: str) -> CharacterSet:
    lower = name.lower()
    with contextlib.suppress(KeyError, LookupError):
        found = CharacterSet["utf8" if lower == "utf8mb3" else lower]
        "".encode(found.codec)
        return found
    raise server_errors.ER_UNKNOWN_CHARACTER_SET(name)

"""SET: session variables, user variables, NAMES and CHARACTER SET."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mysql_mimic.charset import CharacterSet

from dumpfilter.console.interrupt import Interrupt
from dumpfilter.console.variables import Value
from dumpfilter.sql import server_errors as catalogue
from dumpfilter.sql.errors import SqlError
from dumpfilter.sql.lexer import Token, TokenKind

if TYPE_CHECKING:
    from dumpfilter.console.session import Session

_SCOPES = ("GLOBAL", "PERSIST", "PERSIST_ONLY", "SESSION", "LOCAL")
_GLOBAL_SCOPES = _SCOPES[:3]
_CHARACTER_SET_VARIABLES = ("character_set_client", "character_set_connection", "character_set_results")


def apply_set(session: Session, text: str, words: Sequence[Token], interrupt: Interrupt) -> None:
    """One SET statement: all of its assignments are evaluated before the first is made.

    Raises SqlError: 1064, 1193 for an unknown variable, 1238 for one that is read only, 1115 for a character set.
    """
    assignments = []
    for part in _split(words[1:]):
        if not part:
            raise catalogue.syntax_error(text, words[-1].end)
        first = part[0].word
        if first == "TRANSACTION" or [word.word for word in part[1:2]] == ["TRANSACTION"]:
            return
        if first in ("NAMES", "CHARACTER", "CHARSET"):
            named = part[2 if first == "CHARACTER" else 1 :]
            if not named:
                raise catalogue.syntax_error(text, part[-1].end)
            _set_names(session, named[0].value)
            continue
        assignments.append(_assignment(session, text, part, interrupt))
    for is_user_variable, name, value, globally in assignments:
        if is_user_variable:
            session.user_variables[name.lower()] = value
        else:
            _set_variable(session, name, value, globally=globally)


def _split(words: Sequence[Token]) -> list[list[Token]]:
    """The assignments, at their commas."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for word in words:
        symbol = word.value if word.kind is TokenKind.SYMBOL else ""
        depth += (symbol == "(") - (symbol == ")")
        if symbol == ";":
            break
        if symbol == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _assignment(
    session: Session, text: str, part: Sequence[Token], interrupt: Interrupt
) -> tuple[bool, str, Value, bool]:
    """Whether it is a user variable, its name, the value, whether it is meant globally."""
    at = 0
    signs = 0
    while part[at : at + 1] and part[at].value == "@":
        at, signs = at + 1, signs + 1
    globally = False
    scope = part[at].word if at < len(part) else ""
    if scope in _SCOPES and signs != 1 and at + 1 < len(part) and part[at + 1].value not in ("=", ":"):
        globally = scope in _GLOBAL_SCOPES
        at += 2 if part[at + 1].value == "." else 1
        while part[at : at + 1] and part[at].value in ("@", "."):
            at += 1
    if at >= len(part) or part[at].kind not in (
        TokenKind.WORD,
        TokenKind.QUOTED,
        TokenKind.NAME,
        TokenKind.STRING,
    ):
        raise catalogue.syntax_error(text, part[at].start if at < len(part) else part[-1].end)
    name = part[at].value
    at += 1
    if [word.value for word in part[at : at + 2]] == [":", "="]:
        at += 2
    elif [word.value for word in part[at : at + 1]] == ["="]:
        at += 1
    else:
        raise catalogue.syntax_error(text, part[at].start if at < len(part) else part[-1].end)
    if at >= len(part):
        raise catalogue.syntax_error(text, part[-1].end)
    return signs == 1, name, _value(session, text, part[at:], interrupt), globally


def _value(session: Session, text: str, part: Sequence[Token], interrupt: Interrupt) -> Value:
    if len(part) == 1 and part[0].kind is TokenKind.WORD:
        word = part[0].word
        plain: dict[str, Value] = {"DEFAULT": None, "NULL": None, "ON": 1, "TRUE": 1, "OFF": 0, "FALSE": 0}
        return plain.get(word, part[0].value)
    source = text[part[0].start : part[-1].end]
    result = session.select(f"SELECT {source}", interrupt)
    value: Value = result.rows[0][0]
    return value


def _set_variable(session: Session, name: str, value: Value, *, globally: bool) -> None:
    if name.lower() in _CHARACTER_SET_VARIABLES and isinstance(value, str):
        _known_character_set(value)
    session.variables.set(name, value, globally=globally)
    if name.lower() == "character_set_results" and isinstance(value, str):
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
    raise SqlError(1115, "42000", f"Unknown character set: '{name[:64]}'")

"""The SET statement: session variables, user variables, SET NAMES and SET CHARACTER SET."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from mysql_mimic.charset import CharacterSet

from dumpfilter.console.session import Session
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.cursor import Cursor
from dumpfilter.console.sql.plain import Kind, plain_value
from dumpfilter.console.sql.result import OK, Result
from dumpfilter.console.variables import Value

_GLOBAL_SCOPES = ("GLOBAL", "PERSIST", "PERSIST_ONLY")
_SCOPES = (*_GLOBAL_SCOPES, "SESSION", "LOCAL")
_CHARACTER_SET_VARIABLES = ("character_set_client", "character_set_connection", "character_set_results")
_WORD = re.compile(r"[A-Za-z_$][0-9A-Za-z_$]*")
_LITERAL_WORDS: dict[str, Value] = {"DEFAULT": None, "NULL": None, "ON": 1, "TRUE": 1, "OFF": 0, "FALSE": 0}
"""The values of the words that can be the whole value in a SET. None sets the variable to its default."""


class Assignment(NamedTuple):
    """One assignment ``name = value`` of a SET statement."""

    is_user_variable: bool
    name: str
    value: str
    """The text of the value's expression."""
    globally: bool
    """Whether the assignment has the scope GLOBAL, PERSIST or PERSIST_ONLY. The console refuses such assignments."""


def read_settings(cursor: Cursor) -> tuple[Assignment, ...]:
    """Consume the assignments of a SET statement at the cursor, and return them. The result for SET TRANSACTION is
    empty. Raises SqlError 1064 (a syntax error).
    """
    settings = cursor.separated(lambda: _read_setting(cursor))
    return tuple(assignment for assignments in settings for assignment in assignments)


def _read_setting(cursor: Cursor) -> list[Assignment]:
    if word := cursor.accept("NAMES", "CHARACTER", "CHARSET"):
        if word == "CHARACTER":
            cursor.expect("SET")
        begin, end = cursor.token.start, cursor.token.end
        _read_name(cursor)
        if cursor.accept("COLLATE"):
            # A collation has no effect.
            _read_name(cursor)
        return [Assignment(False, name, cursor.text[begin:end], False) for name in _CHARACTER_SET_VARIABLES]
    signs = 0
    while cursor.accept("@"):
        signs += 1
    scope = cursor.accept(*_SCOPES) if signs != 1 else ""
    while scope and cursor.accept(".", "@"):
        """Accept ``@@session.name`` and ``SESSION name``."""
    if cursor.accept("TRANSACTION"):
        _read_value(cursor)
        return []
    name = _read_name(cursor)
    cursor.accept(":")
    cursor.expect("=")
    return [Assignment(signs == 1, name, _read_value(cursor), scope in _GLOBAL_SCOPES)]


def _read_name(cursor: Cursor) -> str:
    return cursor.advance().value if cursor.token.is_name else cursor.fail()


def _read_value(cursor: Cursor) -> str:
    """Consume the tokens up to the next comma outside parentheses, and return their text, which is not empty."""
    begin = end = cursor.token.start
    depth = 0
    while not (cursor.at_end or cursor.sees(";") or (cursor.sees(",") and not depth)):
        depth += cursor.sees("(") - cursor.sees(")")
        end = cursor.advance().end
    return cursor.text[begin:end] or cursor.fail()


def apply_settings(session: Session, settings: Sequence[Assignment]) -> Result:
    """Carry out a SET statement in the client's session.

    The values of all assignments are computed before the first variable is set. Raises SqlError 1115 for an unknown
    character set, 1193 for an unknown variable, 1227 for a GLOBAL scope, and 1229 or 1238 for a variable that cannot be
    set.
    """
    for assignment, value in [(one, _computed(session, one.value)) for one in settings]:
        if assignment.is_user_variable:
            session.set_user_variable(assignment.name, value)
        else:
            _set_variable(session, assignment, value)
    return OK


def _computed(session: Session, source: str) -> Value:
    if _WORD.fullmatch(source):
        return _LITERAL_WORDS.get(source.upper(), source)
    plain = plain_value(source)
    if plain is not None and plain.kind is Kind.LITERAL:
        return plain.value
    value: Value = session.select(f"SELECT {source}").rows[0][0]
    return value


def _set_variable(session: Session, assignment: Assignment, value: Value) -> None:
    name, character_set = assignment.name.lower(), CharacterSet.utf8mb4
    if name in _CHARACTER_SET_VARIABLES and value is not None:
        character_set = _known_character_set(str(value))
    session.variables.set(assignment.name, value, globally=assignment.globally)
    if name == "character_set_results":
        session.character_set = character_set


def _known_character_set(name: str) -> CharacterSet:
    lower = name.lower()
    with contextlib.suppress(KeyError, LookupError):
        found = CharacterSet["utf8" if lower == "utf8mb3" else lower]
        "".encode(found.codec)
        return found
    raise server_errors.ER_UNKNOWN_CHARACTER_SET(name)

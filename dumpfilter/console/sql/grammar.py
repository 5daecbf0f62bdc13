"""The interpreter of the syntax of a console's statements, and the cursor with which the interpreter reads a statement
token by token.

A statement is declared once. The declaration has the syntax, the role that the statement needs, whether the audit log
records it, and its name in the documentation. A form of syntax is a text of these words:

- ``START`` or ``REPLICA|SLAVE``: a keyword, or one of several keywords,
- ``user:line``: the value of the field ``user``, which the reader function ``line`` parses,
- ``*:limit``: the values of several fields, which the reader function returns as a mapping,
- ``:rest``: a value that the reader function parses and that no field gets,
- ``all:ALL``: a keyword, and a field that is true if the statement has the keyword,
- ``[…]``: an optional group of words, which is absent if the next token does not fit its first word.

The cursor raises the server's syntax error at the first token that the grammar does not allow.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

from dumpfilter.binlog.statement.tokens import Token, TokenKind, TokenReader
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.server_errors import SqlError

T = TypeVar("T")

MAX_UNSIGNED = 2**64 - 1
_MAX_DIGITS = len(str(MAX_UNSIGNED)) + 1

_WORDS = re.compile(r"\[|\]|[^\s\[\]]+")


@functools.cache
def reserved() -> frozenset[str]:
    """Return the reserved words of MySQL 9.7, which can name a table or database only in backticks.

    sqlglot has those of MySQL 8.0. The others are from ``information_schema.keywords`` of MySQL 9.7.
    """
    # sqlglot takes 0.1 s to import, and a slave without a console reads no names.
    from sqlglot.generators.mysql import MySQLGenerator

    of_8 = {word.upper() for word in MySQLGenerator.RESERVED_KEYWORDS}
    older = {"MASTER_BIND", "MASTER_SSL_VERIFY_SERVER_CERT"}
    return frozenset(of_8 - older | {"EXTERNAL", "LIBRARY", "QUALIFY", "TABLESAMPLE"})


class Cursor(TokenReader):
    """A cursor over the tokens of a client's statement.

    "Consume" means: check that the next token has the expected form, return it, and move the cursor after it. A method
    that consumes raises SqlError (ER_PARSE_ERROR, at the next token) if the token has another form.
    """

    def fail(self) -> NoReturn:
        """Raise the server's syntax error (ER_PARSE_ERROR), which quotes the statement from the next token on."""
        raise server_errors.syntax_error(self.text, self.token.start)

    def expect(self, *words: str) -> str:
        """Consume the next token, which must be one of the keywords or symbols ``words``, and return it as text.

        Raises a syntax error for any other token.
        """
        return self.accept(*words) or self.fail()

    def take(self, pattern: re.Pattern[str]) -> Token:
        """Consume the text that ``pattern`` matches at the start of the next token, and return it as one token.

        Unquoted option values such as ``127.0.0.1`` need this method, since they consist of several SQL tokens. Raises
        a syntax error if the pattern does not match.
        """
        taken = self._lexer.take(pattern, self.token.start)
        if taken is None:
            self.fail()
        self.token = self._lexer.next()
        return taken

    def end(self) -> None:
        """Check that at most a semicolon follows the tokens consumed so far. Raises a syntax error for other text."""
        self.accept(";")
        if self.token.kind is not TokenKind.END:
            self.fail()

    def separated(self, read: Callable[[], T]) -> list[T]:
        """Consume comma-separated values of the statement, each by a call of ``read``, and return the values."""
        found = [read()]
        while self.accept(","):
            found.append(read())
        return found

    def parenthesized(self, read: Callable[[], T]) -> list[T]:
        """Consume a list of comma-separated values in parentheses, which may be empty. Each value is consumed by a call
        of ``read``. Return the values.
        """
        self.expect("(")
        found = [] if self.sees(")") else self.separated(read)
        self.expect(")")
        return found

    def rest(self) -> str:
        """Consume the rest of the statement without reading its tokens, and return its text."""
        begin, end = self.token.start, len(self.text)
        self.token = Token(TokenKind.END, "", end, end)
        return self.text[begin:]

    def whole(self) -> str:
        """Consume the rest of the statement without reading its tokens, and return the whole statement."""
        self.rest()
        return self.text

    def at_string(self) -> bool:
        """Tell whether the next token of the statement is a string in quotes."""
        return self.token.kind is TokenKind.STRING

    def string(self) -> str:
        """Consume a string in quotes (TEXT_STRING_sys in the server's grammar), and return its value.

        Raises a syntax error for any other token.
        """
        return self._of_kind(TokenKind.STRING).value

    def line(self) -> str:
        """Consume a string in quotes that has no line feed, and return its value.

        The server's grammar calls such a string TEXT_STRING_sys_nonewline. Raises ER_WRONG_VALUE for a string with a
        line feed, and a syntax error for any other token.
        """
        value = self.string()
        if "\n" in value:
            raise server_errors.ER_WRONG_ARGUMENT_LF(value.partition("\0")[0])
        return value

    def channel(self) -> str:
        """Consume the name of a replication channel, a string without line feeds, and return it in lower case."""
        return self.line().lower()

    def identifier(self) -> str:
        """Consume the name of a database, table or similar (``ident`` in the server's grammar), and return it.

        A name is a word that is not reserved, or any text in backticks. Raises a syntax error for any other token.
        """
        if self.token.kind is TokenKind.WORD and self.token.word in reserved():
            self.fail()
        return self._of_kind(TokenKind.NAME, TokenKind.QUOTED, TokenKind.WORD).value

    def unsigned(self) -> int:
        """Consume a number (``ulong_num`` in the server's grammar), and return it as an integer.

        As on a server, a fraction and an exponent are cut off, and larger values become 2**64 - 1. Hexadecimal numbers
        are allowed. Raises a syntax error for any other token.
        """
        if self.token.kind is TokenKind.HEX:
            return min(_number(self.advance().value[2:], 16), MAX_UNSIGNED)
        return self.position()

    def position(self) -> int:
        """Consume a number that is not hexadecimal (``ulonglong_num`` in the server's grammar), and return an integer.

        As on a server, a fraction and an exponent are cut off, and larger values become 2**64 - 1. Raises a syntax
        error for any other token.
        """
        return min(_number(re.split(r"[.eE]", self._decimal())[0]), MAX_UNSIGNED)

    def integer(self) -> int:
        """Consume an unsigned integer of at most 64 bits, and return it. Raises a syntax error for any other token."""
        if self.token.kind is not TokenKind.INTEGER or _number(self.token.value) > MAX_UNSIGNED:
            self.fail()
        return _number(self.advance().value)

    def real(self) -> float:
        """Consume a number that may have a fraction and an exponent, and return it as a float.

        Raises a syntax error for any other token, also for a hexadecimal number.
        """
        return float(self._decimal())

    def _decimal(self) -> str:
        return self._of_kind(TokenKind.INTEGER, TokenKind.DECIMAL, TokenKind.FLOAT).value

    def _of_kind(self, *kinds: TokenKind) -> Token:
        return self.advance() if self.token.kind in kinds else self.fail()


def _number(digits: str, base: int = 10) -> int:
    """Return the number that ``digits`` write in the base ``base``. For a number above 2**64, return any number above
    2**64, because Python is slow to convert thousands of digits.
    """
    return int(digits.lstrip("0")[:_MAX_DIGITS] or "0", base)


class Role(enum.StrEnum):
    """The roles of a user of a console (a port for MySQL clients), from the lowest to the highest.

    A role decides which statements the user may run.
    """

    READ = "read"
    """Statements that show the state of replication, and change nothing."""
    REPLICATE_ADMIN = "replicate-admin"
    """Everything that starts, stops and configures replication, and shows the contents of binlogs."""
    ALL = "all"
    """Everything, including deletion of binlogs, and statements about all slaves or other users."""

    def includes(self, other: Role) -> bool:
        """Tell whether a user with this role may run all statements that the role ``other`` allows.

        >>> Role.REPLICATE_ADMIN.includes(Role.READ), Role.REPLICATE_ADMIN.includes(Role.ALL)
        (True, False)
        """
        order = list(Role)
        return order.index(self) >= order.index(other)


class Need(NamedTuple):
    """The lowest role of a user who may run a statement of the console, and whether the statement changes anything."""

    statement: str
    """The name of the statement in the documentation, or the names of several statements."""
    role: Role
    changes: bool = False
    """Whether the statement changes the state of the master, the slave or the console. The audit log records it."""


READERS: dict[str, Callable[[Cursor], Any]] = dict(vars(Cursor))
"""The functions that parse a value in a statement, by name: the methods of :class:`Cursor`, and those that other
modules add. In the syntax ``user:line``, the function ``line`` reads the value of the field ``user``.
"""
NEEDS: list[Need] = []
"""The required role of each declared statement, and whether it changes anything."""
FORMS: dict[str, list[tuple[Sequence[str], Callable[..., Any]]]] = {}
"""The forms of syntax, by first word. A form is its words and the function that gets the values.

The first word of a statement in parentheses is ``(``.
"""


def form(syntax: str, made: Callable[..., Any]) -> None:
    """Add an allowed syntax, such as ``STOP REPLICA [threads:threads]``.

    In this example the part in brackets is optional, and ``threads:threads`` is the field ``threads``, whose value the
    function ``READERS["threads"]`` parses. :func:`parse` calls ``made`` with the fields' values as keyword arguments,
    and returns its result.
    """
    words = _WORDS.findall(syntax)
    for first in words[0].split("|"):
        FORMS.setdefault(first, []).append((words, made))


def parse(text: str) -> Any:
    """Parse a statement whose first word begins a syntax that :func:`form` has added, and is therefore a key of
    :data:`FORMS`. Return the result of that syntax's function ``made``, which is called with the values in the
    statement.

    Raises SqlError: ER_PARSE_ERROR at the first token that no syntax allows, and the errors of the functions that
    read values.
    """
    failures: list[tuple[int, SqlError]] = []
    opening = Cursor(text).token
    for words, made in FORMS[opening.word or opening.value]:
        cursor = Cursor(text)
        try:
            values = _match(words, cursor)
            cursor.end()
            return made(**values)
        except SqlError as failed:
            is_syntax = failed.number == server_errors.ER_PARSE_ERROR.number
            failures.append((cursor.token.start if is_syntax else len(text) + 1, failed))
    raise max(failures, key=lambda failure: failure[0])[1]


def _match(words: Sequence[str], cursor: Cursor) -> dict[str, Any]:
    values: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if word == "[":
            group, begin = list(iter(rest.__next__, "]")), cursor.token
            try:
                found = _match(group, cursor)
            except SqlError:
                if cursor.token is begin:
                    continue
                raise
            if "channel" in values and "channel" in found:
                raise server_errors.ER_WRONG_ARGUMENTS(
                    "CONNECTION_NAME AND FOR CHANNEL CAN NOT BE SPECIFIED AT THE SAME TIME)"
                )
            values |= found
            continue
        field, colon, reader = word.partition(":")
        if not colon:
            cursor.expect(*word.split("|"))
        elif reader.isupper():
            cursor.expect(reader)
            values[field] = True
        else:
            value = READERS[reader](cursor)
            values |= value if field == "*" else {field: value} if field else {}
    return values

"""The interpreter of the statements' syntax.

A statement about replication is declared once, at its command class (the class that holds its values). The declaration
has the syntax, the role that the statement needs, whether the audit log records it, and its name in the documentation.
A statement that the console itself answers is declared at the function that carries it out. A form of syntax is a text
of these words:

- ``START`` or ``REPLICA|SLAVE``: a keyword, or one of several keywords,
- ``channel:name``: the value of the field ``channel``, which the reader function ``name`` parses,
- ``*:limit``: the values of several fields, which the reader function returns as a mapping,
- ``all:ALL``: a keyword, and a field that is true if the statement has the keyword,
- ``[…]``: an optional group of words, which is present if the next token begins its first word.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dumpfilter.console.sql.cursor import Cursor
from dumpfilter.console.sql.server_errors import ER_PARSE_ERROR, ER_WRONG_ARGUMENTS, SqlError

_WORDS = re.compile(r"\[|\]|[^\s\[\]]+")


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


@dataclass(frozen=True)
class Need:
    """The lowest role of a user who may run a statement of the console, and whether the statement changes anything."""

    statement: str
    """The statement's form, for the documentation."""
    role: Role
    changes: bool = False
    """Whether the statement changes the state of the master, the slave or the console. The audit log records it."""


Reader = Callable[[Cursor], Any]


class Grammar:
    """The syntax of the statements that the console (a port for MySQL clients) accepts, and the parser for them.

    ``readers`` has the functions that parse one value of a statement. In the syntax text ``channel:name``, the reader
    function ``name`` parses the value of the field ``channel``. ``optional`` has, for some readers, the keywords with
    which an optional value begins. Other optional values must begin with a string in quotes.
    """

    def __init__(self, readers: Mapping[str, Reader], optional: Mapping[str, tuple[str, ...]]) -> None:
        self.needs: dict[type[Any], Need] = {}
        """The required role of each statement, and whether it changes anything, by the statement's class."""
        self.readers = dict(readers)
        """The functions that read values, by name. A module with statements of its own adds its readers."""
        self.optional = dict(optional)
        """The keywords with which an optional value begins, by the name of its reader."""
        self._forms: dict[str, list[tuple[Sequence[str], Callable[..., Any]]]] = {}
        """The forms of syntax, by first word. A form is its words and the function or class that gets the values."""

    def form(self, syntax: str, made: Callable[..., Any]) -> None:
        """Add an allowed syntax, such as ``STOP REPLICA [threads:threads]``.

        In this example the part in brackets is optional, and ``threads:threads`` is the field ``threads``, whose value
        the reader function of this name parses. :meth:`parse` calls ``made`` with the fields' values as keyword
        arguments, and returns its result.
        """
        words = _WORDS.findall(syntax)
        for first in words[0].split("|"):
            self._forms.setdefault(first, []).append((words, made))

    def call(self, syntax: str, function: Callable[..., Any], *arguments: object) -> None:
        """Add an allowed syntax for a statement that a function carries out, such as SHOW WARNINGS.

        :meth:`parse` returns a ``functools.partial`` of ``function``, with ``arguments`` as first arguments and the
        parsed values as keyword arguments. The caller adds the other arguments, and calls it.
        """
        self.form(syntax, functools.partial(functools.partial, function, *arguments))

    @property
    def beginnings(self) -> Collection[str]:
        """The words with which the declared statements begin, such as ``STOP``. For a statement in parentheses it is
        ``(``.
        """
        return self._forms.keys()

    def parse(self, text: str, now: datetime | None = None) -> Any:
        """Parse a statement whose first word is in :attr:`beginnings`. Return an object with its values, or a function
        that carries the statement out.

        ``now`` is the value of NOW(), a local time without a time zone. Raises SqlError: ER_PARSE_ERROR at the first
        token that no syntax allows, and the errors of the functions that read values.
        """
        failures: list[tuple[int, SqlError]] = []
        opening = Cursor(text).token
        for words, made in self._forms[opening.word or opening.value]:
            cursor = Cursor(text, now)
            try:
                values = self._match(words, cursor)
                cursor.end()
                return made(**values)
            except SqlError as failed:
                is_syntax = failed.number == ER_PARSE_ERROR.number
                failures.append((cursor.token.start if is_syntax else len(text) + 1, failed))
        raise max(failures, key=lambda failure: failure[0])[1]

    def _match(self, words: Sequence[str], cursor: Cursor) -> dict[str, Any]:
        values: dict[str, Any] = {}
        rest = iter(words)
        for word in rest:
            if word == "[":
                group = list(iter(rest.__next__, "]"))
                if self._begins(group[0], cursor):
                    found = self._match(group, cursor)
                    if "channel" in values and "channel" in found:
                        raise ER_WRONG_ARGUMENTS(
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
            elif field == "*":
                values |= self.readers[reader](cursor)
            else:
                values[field] = self.readers[reader](cursor)
        return values

    def _begins(self, word: str, cursor: Cursor) -> bool:
        _, colon, reader = word.partition(":")
        if not colon:
            return cursor.sees(*word.split("|"))
        if reader.isupper():
            return cursor.sees(reader)
        return cursor.sees(*self.optional[reader]) if reader in self.optional else cursor.at_string()

"""The interpreter of the statements' syntax. :mod:`dumpfilter.console.sql.commands` declares the statements.

A statement is declared once, at the class of its values: its syntax, the right that it needs, whether the audit log
records it, and its name in the documentation. The words of a form of syntax are:

- ``START`` or ``REPLICA|SLAVE``: a keyword, or one of several,
- ``channel:name``: the value of the field ``channel``, which the reader ``name`` reads,
- ``*:limit``: the values of several fields, which the reader returns as a mapping,
- ``all:ALL``: a keyword, and a field that is true if the keyword is there,
- ``[…]``: words that may be missing. The first of them decides.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from dumpfilter.console.sql.cursor import Cursor
from dumpfilter.console.sql.server_errors import ER_PARSE_ERROR, ER_WRONG_ARGUMENTS, SqlError

_WORDS = re.compile(r"\[|\]|[^\s\[\]]+")

T = TypeVar("T")


class Role(enum.StrEnum):
    """The rights of an account on a console, from the least to the most."""

    READ = "read"
    """Statements that show the state of replication, and change nothing."""
    REPLICATE_ADMIN = "replicate-admin"
    """Everything that starts, stops and configures replication, and shows the contents of binlogs."""
    ALL = "all"
    """Everything: also what deletes binlogs, what concerns all slaves, and what concerns other users."""

    def includes(self, other: Role) -> bool:
        """Tell whether this role may do what ``other`` may do.

        >>> Role.REPLICATE_ADMIN.includes(Role.READ), Role.REPLICATE_ADMIN.includes(Role.ALL)
        (True, False)
        """
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True)
class Need:
    """The right that one kind of statement needs, and whether the statement changes anything."""

    statement: str
    """The statement's form, for the documentation."""
    role: Role
    changes: bool = False
    """Whether the statement changes the state of the master, the slave or the console. The audit log records it."""


Reader = Callable[[Cursor], Any]


class Grammar:
    """The declared statements.

    ``optional`` has the keywords with which an optional value begins, for readers of values that do not begin with a
    string.
    """

    def __init__(self, readers: Mapping[str, Reader], optional: Mapping[str, Sequence[str]]) -> None:
        self.needs: dict[type[Any], Need] = {}
        """The need of each kind of statement."""
        self.readers = dict(readers)
        """The functions that read values, by name. A module with statements of its own adds its readers."""
        self._optional = optional
        self._forms: dict[str, list[tuple[Sequence[str], Callable[..., Any]]]] = {}
        """The forms of syntax, by first word. A form is its words and the function or class that gets the values."""

    def statement(
        self, name: str, role: Role, *forms: str, changes: bool = False
    ) -> Callable[[type[T]], type[T]]:
        """Declare a statement and its forms of syntax, as a decorator of the class of its values."""

        def declare(made: type[T]) -> type[T]:
            self.needs[made] = Need(name, role, changes)
            for form in forms:
                self.form(form, made)
            return made

        return declare

    def form(self, syntax: str, made: Callable[..., Any]) -> None:
        """Declare a form of syntax. ``made`` gets the values by their names, and returns the statement."""
        words = _WORDS.findall(syntax)
        for first in words[0].split("|"):
            self._forms.setdefault(first, []).append((words, made))

    def call(self, syntax: str, function: Callable[..., Any], *arguments: object) -> None:
        """Declare a form of syntax whose statement is a function. A call of the statement calls ``function``.

        The function gets ``arguments``, then the arguments of the call, then the values by their names.
        """
        self.form(syntax, functools.partial(functools.partial, function, *arguments))

    @property
    def beginnings(self) -> Collection[str]:
        """The words with which the declared statements begin."""
        return self._forms.keys()

    def seconds(self, first: str) -> set[str]:
        """Return the keywords that can follow the first word of a declared statement."""
        return {word for words, _ in self._forms.get(first, ()) for word in _seconds(words)}

    def parse(self, text: str, now: datetime | None = None) -> Any:
        """Parse a statement that begins as a declared one, and return its values.

        ``now`` is the value of NOW(), a local time without a time zone. Raises SqlError, for a wrong syntax at the
        first token that no form allows.
        """
        failures: list[tuple[int, SqlError]] = []
        for words, made in self._forms[Cursor(text).token.word]:
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
        return cursor.sees(*self._optional[reader]) if reader in self._optional else cursor.at_string()


def _seconds(words: Sequence[str]) -> list[str]:
    """Return the words that can follow the first word of a form."""
    if words[1] != "[":
        return words[1].rpartition(":")[2].split("|")
    end = words.index("]")
    return [*words[2].split("|"), *words[end + 1].split("|")]

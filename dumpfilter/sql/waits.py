"""The functions of SELECT that wait for a replica: their calls in a statement, and their arguments.

A wait may last for ever, and a worker process of the console has little time. Therefore the console finds the calls,
waits in a thread of its own, and gives the results to the worker. A call belongs into a SELECT without FROM, where a
server evaluates it exactly once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlglot import exp

from dumpfilter.sql import server_errors
from dumpfilter.sql.result import Note

WAIT_FUNCTIONS = {
    "source_pos_wait": (2, 4),
    "master_pos_wait": (2, 4),
    "wait_for_executed_gtid_set": (1, 2),
    "master_gtid_wait": (1, 2),
}
"""The least and the most arguments of each function, by the function's name in lower case."""

_MENTION = re.compile("|".join(WAIT_FUNCTIONS), re.IGNORECASE)

Value = int | float | str | None


@dataclass(frozen=True)
class Wait:
    """A call of a function that waits, with the values of its arguments."""

    name: str
    """The name of the function in lower case."""
    arguments: tuple[Value, ...]

    def argument(self, number: int) -> Value:
        """Return an argument, or None for one that is missing."""
        return self.arguments[number] if number < len(self.arguments) else None


class Waited(NamedTuple):
    """The end of a wait: the function's value, and the warnings for the client."""

    value: int | None
    notes: Sequence[Note] = ()


def mentions_wait(text: str) -> bool:
    """Tell whether a statement may call a function that waits."""
    return _MENTION.search(text) is not None


def calls_of(tree: exp.Expr) -> Iterator[exp.Anonymous]:
    """Yield the calls of functions that wait, in the order of the statement.

    Raises SqlError 1582 for a wrong number of arguments, and 1235 for a call in a statement with FROM.
    """
    for call in tree.find_all(exp.Anonymous, bfs=False):
        name = call.name.lower()
        if name not in WAIT_FUNCTIONS:
            continue
        least, most = WAIT_FUNCTIONS[name]
        if not least <= len(call.expressions) <= most:
            raise server_errors.ER_WRONG_PARAMCOUNT_TO_NATIVE_FCT(call.name)
        is_plain = (
            isinstance(tree, exp.Select) and len(list(tree.find_all(exp.Select, exp.From, exp.With))) == 1
        )
        if not is_plain:
            raise server_errors.ER_NOT_SUPPORTED_YET(f"{call.name.upper()}() in a statement with FROM")
        yield call


def key_of(call: exp.Anonymous) -> str:
    """Return the name under which the value of a call stands among the functions of the session."""
    return call.sql(dialect="mysql", normalize_functions=False)


def literal_of(argument: exp.Expr) -> tuple[bool, Value]:
    """Return whether an argument is a literal, and its value."""
    if isinstance(argument, exp.Null):
        return True, None
    if isinstance(argument, exp.Literal):
        text = argument.name
        if argument.is_string:
            return True, text
        return True, int(text) if text.isdecimal() else float(text)
    if isinstance(argument, exp.Neg):
        known, value = literal_of(argument.this)
        if known and isinstance(value, int | float):
            return True, -value
    return False, None

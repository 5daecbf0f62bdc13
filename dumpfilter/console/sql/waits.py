"""The functions of SELECT that wait for replication, such as WAIT_FOR_EXECUTED_GTID_SET, with their arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dumpfilter.console.sql.result import Note

Value = int | float | str | None

_MISSING: Any = object()


@dataclass(frozen=True)
class Wait:
    """A call of a function that waits for replication, with the values of its arguments."""

    name: str
    """The name of the function in lower case."""
    arguments: tuple[Value, ...]

    def argument(self, number: int) -> Value:
        """Return the argument at index ``number``, or None if the call does not have it."""
        return self.arguments[number] if number < len(self.arguments) else None


class Waited(NamedTuple):
    """The result of a wait: the function's value (None for NULL), and the warnings for the client."""

    value: int | None
    notes: Sequence[Note] = ()


def wait_functions(wait: Callable[[Wait], int | None]) -> Mapping[str, Callable[..., int | None]]:
    """Return the SQL functions that wait for replication, by their names in lower case.

    Each function calls ``wait`` with its name and arguments, and returns the result.
    """

    def for_position(
        name: str, file: Value, position: Value, timeout: Value = _MISSING, channel: Value = _MISSING
    ) -> int | None:
        return wait(Wait(name, _given(file, position, timeout, channel)))

    def for_gtids(name: str, gtids: Value, timeout: Value = _MISSING) -> int | None:
        return wait(Wait(name, _given(gtids, timeout)))

    return {
        "source_pos_wait": functools.partial(for_position, "source_pos_wait"),
        "master_pos_wait": functools.partial(for_position, "master_pos_wait"),
        "wait_for_executed_gtid_set": functools.partial(for_gtids, "wait_for_executed_gtid_set"),
        "master_gtid_wait": functools.partial(for_gtids, "master_gtid_wait"),
    }


def _given(*arguments: Value) -> tuple[Value, ...]:
    return tuple(argument for argument in arguments if argument is not _MISSING)

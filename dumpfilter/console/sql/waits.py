"""The functions of SELECT that wait for replication, such as WAIT_FOR_EXECUTED_GTID_SET, with their arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dumpfilter.console.sql.result import Note

Value = int | float | str | None

WAITS: Mapping[str, range] = {
    **dict.fromkeys(("source_pos_wait", "master_pos_wait"), range(2, 5)),
    **dict.fromkeys(("wait_for_executed_gtid_set", "master_gtid_wait"), range(1, 3)),
}
"""The functions that wait for replication, by their names in lower case, each with the allowed numbers of arguments."""


@dataclass(frozen=True)
class Wait:
    """A call of an SQL function that waits for replication, such as SOURCE_POS_WAIT, with the arguments' values."""

    name: str
    """The name of the function in lower case."""
    arguments: tuple[Value, ...]

    def argument(self, number: int) -> Value:
        """Return the argument at index ``number``, or None if the call does not have it."""
        return self.arguments[number] if number < len(self.arguments) else None


class Waited(NamedTuple):
    """The result of an SQL function that waits for replication: its value (None for NULL), and the warnings for the
    client.
    """

    value: int | None
    notes: Sequence[Note] = ()

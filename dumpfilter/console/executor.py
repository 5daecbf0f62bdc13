"""What the console needs of the process it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from dumpfilter.sql.commands import Command
from dumpfilter.sql.result import Result, Table


class Executor(Protocol):
    """A master's or a slave's side of the console. Called from worker threads, several at a time."""

    def execute(self, command: Command) -> Result:
        """Carry out any command but :class:`~dumpfilter.sql.commands.Query`.

        Blocks until it is done. Raises :class:`~dumpfilter.sql.errors.SqlError`.
        """
        ...

    def table(self, schema: str, name: str) -> Table | None:
        """A table as it is now, by lower-case names; None when there is none."""
        ...

    def table_names(self) -> list[tuple[str, str]]:
        """Schema and name of every table, lower case."""
        ...

    def variables(self) -> Mapping[str, str | int]:
        """System variables of this process by the server's names (``server_id``, ``server_uuid``, ``version`` …)."""
        ...

"""The part of a master or slave that a console calls, and the signal that ends a statement early."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol

from dumpfilter.sql.commands import Command
from dumpfilter.sql.result import Result, Table


class Executor(Protocol):
    """A master or slave, as its console sees it. Worker threads call it, several at a time."""

    def execute(self, command: Command) -> Result:
        """Carry out any command but :class:`~dumpfilter.sql.commands.Query`.

        Blocks until the command is done. Raises :class:`~dumpfilter.sql.server_errors.SqlError`.
        """
        ...

    def table(self, schema: str, name: str) -> Table | None:
        """Return a table's present content by its lower-case names, or None when there is no such table."""
        ...

    def table_names(self) -> list[tuple[str, str]]:
        """Return the schema and name of every table, in lower case."""
        ...

    def variables(self) -> Mapping[str, str | int]:
        """Return this process's system variables under the server's names (``server_id``, ``version`` …)."""
        ...


class Interrupt(threading.Event):
    """The signal that ends one statement early, set by KILL QUERY or when the client has gone."""

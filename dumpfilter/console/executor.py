"""The interface that a master or slave implements for its console."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from dumpfilter.console.sql.commands import Command
from dumpfilter.console.sql.result import Result


class Executor(Protocol):
    """The interface that a master or slave implements for its console, a port for MySQL clients. By this interface the
    console carries out replication commands and reads status tables.

    Several worker threads of the console call these methods at the same time.
    """

    @property
    def version(self) -> str:
        """The server version that clients see in the greeting and in ``@@version``, such as ``8.4.0``.

        Reading it must not wait, since the console reads it before each login.
        """
        ...

    def execute(self, command: Command) -> Result:
        """Carry out a replication command such as START REPLICA, and return its result when it is done.

        The console itself answers all other statements. Raises SqlError for a command that fails.
        """
        ...

    @property
    def tables(self) -> Mapping[tuple[str, str], Callable[[], Result]]:
        """The functions that return the columns and current rows of each status table that clients can read.

        The keys are schema and name in lower case, for example ``performance_schema`` and
        ``replication_applier_status``.
        """
        ...

    def variables(self) -> Mapping[str, str | int]:
        """Return the process's system variables by the names that they have in MySQL (``server_id``, ``version`` …)."""
        ...

    @property
    def functions(self) -> Mapping[str, Callable[..., int | None]]:
        """The SQL functions that only this process has, such as WAIT_FOR_EXECUTED_GTID_SET, by name in lower case.

        The functions may wait for replication. They get the arguments' values, and their parameters limit the number of
        arguments. They observe the interrupt and the time limit of the running statement
        (:func:`~dumpfilter.console.sql.interruption.running_interrupt`), and add their warnings to its ``notes``.
        """
        ...

"""The interface that a master or slave implements for its console."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from dumpfilter.console.sql.commands import Command
from dumpfilter.console.sql.interruption import Interrupt
from dumpfilter.console.sql.result import Result, Table
from dumpfilter.console.sql.waits import Wait, Waited


class Executor(Protocol):
    """The interface that a master or slave implements, so that its console can carry out replication commands and read
    status tables.

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
    def tables(self) -> Mapping[tuple[str, str], Callable[[], Table]]:
        """The functions that return the columns and current rows of each status table that clients can read.

        The keys are schema and name in lower case, for example ``performance_schema`` and
        ``replication_applier_status``.
        """
        ...

    def variables(self) -> Mapping[str, str | int]:
        """Return the process's system variables by the names that they have in MySQL (``server_id``, ``version`` …)."""
        ...


@runtime_checkable
class Waiting(Protocol):
    """The additional interface of a master or slave whose clients can call SQL functions that wait for replication,
    such as WAIT_FOR_EXECUTED_GTID_SET.
    """

    def wait(self, call: Wait, interrupt: Interrupt, seconds: float | None) -> Waited:
        """Execute an SQL function that waits for replication, and return its value.

        The timeout among the function's own arguments ends the wait with a value, as in MySQL. ``seconds`` is the time
        limit of the whole statement (None: no limit). Raises SqlError 3024 after this limit, 1317 when another thread
        sets ``interrupt``, and other errors for wrong arguments.
        """
        ...

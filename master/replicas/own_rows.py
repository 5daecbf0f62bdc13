"""The console's tables as a replica's user sees them: without the rows of other users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dumpfilter.base.printable import printable
from dumpfilter.console.executor import Executor
from dumpfilter.console.sql.commands import Command, ShowReplicas
from dumpfilter.console.sql.result import Result, Table

_OF_THE_OPERATOR = ("drains", "imposed_filters")
"""The tables that name several users, hosts or networks in a row. A replica's user sees them empty."""


class OwnRows:
    """An executor that hides from a user of the replication port what it tells about other users."""

    def __init__(self, executor: Executor, user: str) -> None:
        self._executor = executor
        self._names = (user, printable(user))

    def execute(self, command: Command) -> Result:
        """Carry out a replication command. SHOW REPLICAS lists the user's own replicas."""
        result = self._executor.execute(command)
        slaves = self.table("dumpfilter", "slaves")
        if not isinstance(command, ShowReplicas) or slaves is None:
            return result
        server_ids = {row[0] for row in slaves.rows}
        return replace(result, rows=[row for row in result.rows if row[0] in server_ids])

    def table(self, schema: str, name: str) -> Table | None:
        """Return a table with the rows of the user, or with all rows if no row belongs to a user."""
        found = self._executor.table(schema, name)
        if found is None or schema != "dumpfilter":
            return found
        if name in _OF_THE_OPERATOR:
            return replace(found, rows=())
        names = [column.name for column in found.columns]
        if "user" not in names:
            return found
        at = names.index("user")
        return replace(found, rows=[row for row in found.rows if row[at] in self._names])

    def table_names(self) -> list[tuple[str, str]]:
        """Return the schema and the name of every table."""
        return self._executor.table_names()

    def variables(self) -> Mapping[str, str | int]:
        """Return the system variables."""
        return self._executor.variables()

    def __getattr__(self, name: str) -> Any:
        # Some executors can also wait.
        return getattr(self._executor, name)

"""The state of one client's session, and the SELECTs that read it.

The functions here block and do no I/O of their own. The connection calls them from a worker thread, one statement at
a time. :mod:`dumpfilter.console.statements` finds the function for a statement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from mysql_mimic.charset import CharacterSet

from dumpfilter.console.executor import Executor, Interrupt
from dumpfilter.console.information_schema import SCHEMA, information_schema_table, schemas_of
from dumpfilter.console.variables import Value, Variables
from dumpfilter.sql import server_errors
from dumpfilter.sql.result import Column, Note, Result, Table
from dumpfilter.sql.select import DEFAULT_SECONDS, Environment, no_such_table, select

SHOWN_SCHEMA = "@"
"""The schema of the tables that SHOW makes for one statement.

No client can name a schema of that name without quotes.
"""

_MILLISECONDS = 1000


class Processes(Protocol):
    """The other connections, as a session may ask for them."""

    def kill(self, connection_id: int, *, query_only: bool) -> bool:
        """End a connection, or only its statement. Return False when there is no such connection."""
        ...

    def processes(self) -> Sequence[Sequence[object]]:
        """Return the rows of SHOW PROCESSLIST."""
        ...

    def status(self) -> Mapping[str, int]:
        """Return the rows of SHOW STATUS."""
        ...


class Session:
    """The state of one client's session."""

    def __init__(
        self, executor: Executor, processes: Processes, connection_id: int, user: str, host: str
    ) -> None:
        self.user = user
        self.host = host
        self.connection_id = connection_id
        self.tls_version = ""
        self.tls_cipher = ""
        self.executor = executor
        self.processes = processes
        self.database: str | None = None
        self.character_set = CharacterSet.utf8mb4
        self.diagnostics: Sequence[Note] = ()
        """The rows of SHOW WARNINGS."""
        self.variables = Variables(executor.variables)
        self.user_variables: dict[str, Value] = {}
        self.questions = 0
        """The number of statements so far (the status variable Questions)."""

    def reset(self) -> None:
        """Reset the session for COM_RESET_CONNECTION. The current database stays."""
        self.diagnostics = ()
        self.variables.reset()
        self.user_variables.clear()

    def use(self, database: str) -> None:
        """Make this the current database. Raises SqlError 1049."""
        if database.lower() == SCHEMA:
            database = SCHEMA
        if database not in schemas_of(self.executor):
            raise server_errors.ER_BAD_DB_ERROR(database)
        self.database = database

    def select(self, text: str, interrupt: Interrupt, shown: Mapping[str, Table] | None = None) -> Result:
        """Run a SELECT, which may also read the tables ``shown`` of :data:`SHOWN_SCHEMA`. Raises SqlError."""

        def find(schema: str, name: str) -> Table | None:
            return shown.get(name) if shown and schema == SHOWN_SCHEMA else self.find_table(schema, name)

        limit = self.variables.all()["max_execution_time"]
        seconds = int(limit) / _MILLISECONDS if isinstance(limit, int) and limit > 0 else DEFAULT_SECONDS
        return select(text, self._environment(find), stop=interrupt, seconds=seconds)

    def _environment(self, find: Callable[[str, str], Table | None]) -> Environment:
        variables = self.variables.all()
        account = f"{self.user}@{self.host}"
        return Environment(
            find_table=find,
            schemas=schemas_of(self.executor),
            database=self.database,
            variables={
                **variables,
                "warning_count": len(self.diagnostics),
                "pseudo_thread_id": self.connection_id,
            },
            user_variables=self.user_variables,
            functions={
                **dict.fromkeys(("user", "current_user", "session_user", "system_user"), account),
                **dict.fromkeys(("database", "schema"), self.database),
                "version": variables.get("version"),
                "connection_id": self.connection_id,
                "row_count": -1,
                "found_rows": 0,
                "last_insert_id": 0,
            },
        )

    def find_table(self, schema: str, name: str) -> Table | None:
        """Return a table that SELECT can read, or None. Names compare exactly, as with lower_case_table_names=0."""
        if schema == SCHEMA:
            return information_schema_table(self.executor, name)
        return self.executor.table(schema, name) if (schema, name) in self.executor.table_names() else None

    def columns_of(self, table: str) -> Sequence[Column]:
        """Return the columns of a table of the current database (COM_FIELD_LIST). Raises SqlError 1046, 1146."""
        if self.database is None:
            raise server_errors.ER_NO_DB_ERROR()
        found = self.find_table(self.database, table)
        if found is None:
            raise no_such_table(self.database, table, schemas_of(self.executor))
        return found.columns

    def statistics(self) -> str:
        """Return the answer to COM_STATISTICS."""
        status = self.processes.status()
        return (
            f"Uptime: {status['Uptime']}  Threads: {status['Threads_connected']}  Questions: {self.questions}"
        )

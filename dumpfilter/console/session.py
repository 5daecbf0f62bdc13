"""The state of one client between statements (current database, variables, warnings), and the running of its SELECTs.

A worker thread of the console runs the session's methods, one statement at a time. The methods block until they are
done, and do no network I/O.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mysql_mimic.charset import CharacterSet

from dumpfilter.console.information_schema import SCHEMA, information_schema_table, schemas_of
from dumpfilter.console.memory import Memory
from dumpfilter.console.port import ClientPort
from dumpfilter.console.roles import Role
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.interruption import acquire, running_interrupt
from dumpfilter.console.sql.result import Note, Result
from dumpfilter.console.sql.rewriting import Environment, no_such_table
from dumpfilter.console.sql.select import DEFAULT_SECONDS, select
from dumpfilter.console.variables import Value, Variables

SHOWN_SCHEMA = "@"
"""The name of the schema that holds temporary tables while the console answers a SHOW statement.

The console puts the rows of SHOW … LIKE or WHERE into such a table, and filters them by a SELECT. No real schema has
this name, and a client could write the name only in backticks.
"""

_READS = re.compile(r"\b(?:FROM|TABLE|VALUES)\b", re.IGNORECASE)
"""The pattern of a SELECT that may read tables. Any other one has a single row, such as a variable or a function that
waits for replication.
"""

_MILLISECONDS = 1000


class Session:
    """The state that a client keeps between its statements, such as current database, variables and warnings.

    Parameters:
        port: the port that the client is connected to.
        share: the limit of the memory of the user variables.
        connection_id: the number of the connection, as in SHOW PROCESSLIST.
        user, host: the account that has logged in.
    """

    def __init__(
        self,
        port: ClientPort,
        share: Memory,
        connection_id: int,
        user: str,
        host: str,
    ) -> None:
        self._share = share
        self.user = user
        self.host = host
        self.connection_id = connection_id
        self.tls_version = ""
        self.tls_cipher = ""
        self.executor = port.executor_of(user)
        """The master or slave, as this user's statements see it."""
        self.port = port
        self.limits = port.limits[user]
        self.database: str | None = None
        self.character_set = CharacterSet.utf8mb4
        self.diagnostics: Sequence[Note] = ()
        """The errors, warnings and notes of the last statement, which SHOW WARNINGS returns."""
        self.variables = Variables(self.executor.variables)
        self.user_variables: dict[str, Value] = {}
        self.questions = 0
        """The number of statements that the session has executed (the status variable Questions)."""

    @property
    def role(self) -> Role:
        """The current role of the session's user, which decides what statements the user may run."""
        return self.port.role_of(self.user)

    def set_user_variable(self, name: str, value: Value) -> None:
        """Set the user variable ``@name``. Raises SqlError 1041 if the client's memory limit is exceeded."""
        name = name.lower()
        old = self._variable_size(name, self.user_variables[name]) if name in self.user_variables else 0
        self._share.take(self._variable_size(name, value))
        self._share.give_back(old)
        self.user_variables[name] = value

    @staticmethod
    def _variable_size(name: str, value: Value) -> int:
        return sys.getsizeof(name) + sys.getsizeof(value)

    def reset(self) -> None:
        """Set the client's variables back and remove its warnings, as COM_RESET_CONNECTION demands. Keep the current
        database.
        """
        self.diagnostics = ()
        self.variables.reset()
        for name, value in self.user_variables.items():
            self._share.give_back(self._variable_size(name, value))
        self.user_variables.clear()

    def use(self, database: str) -> None:
        """Make ``database`` the current database. Raises SqlError 1049 if there is no such database."""
        database = self.schema(database)
        if database not in schemas_of(self.executor):
            raise server_errors.ER_BAD_DB_ERROR(database)
        self.database = database

    def schema(self, name: str | None) -> str:
        """Return the schema that a statement means: ``name``, or the current database if ``name`` is None.

        Raises SqlError 1046 if ``name`` is None and no database is selected.
        """
        name = self.database if name is None else name
        if name is None:
            raise server_errors.ER_NO_DB_ERROR()
        return SCHEMA if name.lower() == SCHEMA else name

    def select(self, text: str, shown: Mapping[str, Result] | None = None) -> Result:
        """Run a SELECT in this session, and return its result.

        ``shown`` has temporary tables by name, which the SELECT can read in the schema ``@``. SHOW uses such a table to
        apply LIKE and WHERE. Raises SqlError.
        """

        def find(schema: str, name: str) -> Result | None:
            return shown.get(name) if shown and schema == SHOWN_SCHEMA else self.find_table(schema, name)

        limit = self.variables.all()["max_execution_time"]
        given = int(limit) / _MILLISECONDS if isinstance(limit, int) and limit > 0 else None
        seconds = given or DEFAULT_SECONDS
        interrupt = running_interrupt()
        slot = self.limits.selects if _READS.search(text) else threading.Lock()
        interrupt.seconds, interrupt.notes = given, []
        acquire(slot, interrupt, seconds)
        try:
            result = select(text, self._environment(find), stop=interrupt, seconds=seconds)
        finally:
            slot.release()
        return replace(result, notes=interrupt.notes)

    def _environment(self, find: Callable[[str, str], Result | None]) -> Environment:
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
            waits=self.executor.functions,
        )

    def find_table(self, schema: str, name: str) -> Result | None:
        """Return the columns and rows of a table that SELECT can read, or None if there is no such table.

        Upper and lower case differ in names, as on a server with lower_case_table_names=0. Names of
        tables in information_schema ignore case.
        """
        if schema == SCHEMA:
            return information_schema_table(self.executor, name)
        read = self.executor.tables.get((schema, name))
        return None if read is None else read()

    def table(self, schema: str | None, name: str) -> Result:
        """Return the columns and rows of a table that SELECT can read. ``schema`` None means the current database.
        Raises SqlError for a table that does not exist.
        """
        schema = self.schema(schema)
        found = self.find_table(schema, name)
        if found is None:
            raise no_such_table(schema, name, schemas_of(self.executor))
        return found

    def statistics(self) -> str:
        """Return the line of statistics that ``mysqladmin status`` shows (the answer to COM_STATISTICS)."""
        status = self.port.status()
        return (
            f"Uptime: {status['Uptime']}  Threads: {status['Threads_connected']}  Questions: {self.questions}"
        )

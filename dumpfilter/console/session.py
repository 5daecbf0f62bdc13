"""The state of one client between statements (current database, variables, warnings), and the tables that SELECT reads.

A worker thread of the console runs the session's methods, one statement at a time. The methods block until they are
done, and do no network I/O.

Some system variables come from the master or slave, such as ``server_id``. The other variables exist because client
programs set or read them when they connect. For the same reason there is an ``information_schema``, from whose rows
SHOW statements are made, too. A table without rows exists so that client programs can read the table without an error.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
import sys
import time
import tomllib
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import resources
from typing import Any

from mysql_mimic.charset import CharacterSet
from mysql_mimic.constants import INFO_SCHEMA

from dumpfilter.console import answers
from dumpfilter.console.limits import CLIENT_MEMORY, CONSOLE_MEMORY
from dumpfilter.console.port import ClientPort
from dumpfilter.console.prepared import Prepared
from dumpfilter.console.sql import columns, server_errors
from dumpfilter.console.sql.columns import columns_of
from dumpfilter.console.sql.commands import Executor
from dumpfilter.console.sql.grammar import Role
from dumpfilter.console.sql.interruption import held, running_interrupt
from dumpfilter.console.sql.result import Column, ColumnType, Note, Result
from dumpfilter.console.sql.select import INFORMATION_SCHEMA, Environment, schema_of, select
from dumpfilter.console.wire import MAX_ALLOWED_PACKET

Value = str | int | float | None

COLLATION = "utf8mb4_0900_ai_ci"


_TOLD = tomllib.loads(resources.files("dumpfilter.console.sql").joinpath("variables.toml").read_text("utf-8"))
SESSION_VARIABLES: dict[str, Value] = _TOLD["session"]
"""The system variables that a session can set, with their default values."""

CHARACTER_SET_VARIABLES = ("character_set_client", "character_set_connection", "character_set_results")
"""The variables that SET NAMES sets."""

GLOBAL_VARIABLES: dict[str, Value] = {
    **_TOLD["global"],
    "max_allowed_packet": MAX_ALLOWED_PACKET,
    "system_time_zone": time.tzname[0],
}
"""The system variables that no client can set, with their values."""

_LONGEST_VALUE = 1024

ENGINE = "PERFORMANCE_SCHEMA"
"""The only storage engine that the table ENGINES of the console's ``information_schema`` lists."""

_COLLATION_ID = 255
"""The number that a MySQL server gives to the collation utf8mb4_0900_ai_ci."""

_TYPES = {"INT": ColumnType.INTEGER, "TEXT": ColumnType.TEXT}

Row = Mapping[str, Any]
"""The values of a row by column name. A missing column is NULL."""

_OWN_SCHEMA = "@"
"""The name of the schema of the tables behind SHOW VARIABLES, STATUS and PROCESSLIST. No real schema has this name, and
a client could write the name only in backticks.
"""
_READS = re.compile(r"\b(?:FROM|TABLE)\b", re.IGNORECASE)
"""The pattern of a SELECT that may read tables. Any other SELECT has a single row, such as a variable or the result of
a function that waits for replication.
"""
DEFAULT_SECONDS = 60.0
"""The time limit of a SELECT of tables in a session that has not set ``max_execution_time``, seconds."""
MOST_SECONDS = 600.0
"""The longest time limit of a SELECT of tables that a session can set by ``max_execution_time``, seconds."""
_MILLISECONDS = 1000


_COLUMNS = {
    table: tuple(Column(name.upper(), _TYPES[kind]) for name, kind in of.items())
    for table, of in INFO_SCHEMA[INFORMATION_SCHEMA].items()
} | columns.INFORMATION_SCHEMA
"""The columns of each table of the ``information_schema``, by the table's name in lower case.

The tables come from the library mysql_mimic. The product adds tables, and a column, that the client DBeaver reads.
"""


_NO_COLUMN = Column("")
_EMPTY = ("TABLE_COMMENT", "COLUMN_KEY", "EXTRA", "COLUMN_COMMENT")


def _catalog(executor: Executor, *, with_columns: bool) -> Iterator[Row]:
    """Yield a row for each column of each table that clients can read. The row has the values of the column, of its
    table and of its schema, by the names that they have in the ``information_schema``.

    Without ``with_columns`` yield only one row for each table, without meaningful values for a column. That is faster,
    because the columns of a table are known only from the result of its function in :attr:`Executor.tables`. This
    function also computes all rows of the table.
    """
    tables = dict(executor.tables)
    tables |= {(INFORMATION_SCHEMA, name.upper()): partial(Result, of) for name, of in _COLUMNS.items()}
    for (schema, name), read in sorted(tables.items()):
        is_inner = schema == INFORMATION_SCHEMA
        for position, column in enumerate(read().columns if with_columns else [_NO_COLUMN], 1):
            is_text = column.type is ColumnType.TEXT
            yield {
                **dict.fromkeys(("CATALOG_NAME", "TABLE_CATALOG"), "def"),
                **dict.fromkeys(("SCHEMA_NAME", "TABLE_SCHEMA"), schema),
                **dict.fromkeys(_EMPTY, ""),
                "DEFAULT_CHARACTER_SET_NAME": "utf8mb4",
                "DEFAULT_COLLATION_NAME": COLLATION,
                "TABLE_NAME": name,
                "TABLE_TYPE": "SYSTEM VIEW" if is_inner else "BASE TABLE",
                "ENGINE": None if is_inner else schema.upper(),
                "VERSION": 10,
                "TABLE_COLLATION": None if is_inner else COLLATION,
                "COLUMN_NAME": column.name,
                "ORDINAL_POSITION": position,
                "IS_NULLABLE": "YES",
                "DATA_TYPE": re.split("[ (]", column.type.sql)[0],
                "CHARACTER_SET_NAME": "utf8mb4" if is_text else None,
                "COLLATION_NAME": COLLATION if is_text else None,
                "COLUMN_TYPE": column.type.sql,
                "PRIVILEGES": "select",
            }


_CONSTANT_ROWS: Mapping[str, Sequence[Sequence[Value]]] = {
    "character_sets": [("utf8mb4", COLLATION, "UTF-8 Unicode", 4)],
    "collations": [(COLLATION, "utf8mb4", _COLLATION_ID, "Yes", "Yes", 0, "NO PAD")],
    "engines": [(ENGINE, "DEFAULT", "Performance Schema", "NO", "NO", "NO")],
}
"""The rows of the ``information_schema`` tables that never change, by the table's name. Other tables have no rows,
except for those that :func:`_information` makes from the catalog.
"""


def _information(executor: Executor, table: str) -> Result:
    """Return the columns and rows of the ``information_schema`` table ``table``, whose name is in lower case.

    The rows of COLUMNS, SCHEMATA and TABLES describe the tables that clients can read. Any other table has constant
    rows or none.
    """
    found, names = _COLUMNS[table], [column.name for column in _COLUMNS[table]]
    if table not in ("columns", "schemata", "tables"):
        return Result(found, _CONSTANT_ROWS.get(table, ()))
    rows = _catalog(executor, with_columns=table == "columns")
    return Result(found, list(dict.fromkeys(tuple(map(row.get, names)) for row in rows)))


class Session:
    """The state that a client keeps between its statements, such as current database, variables and warnings.

    Parameters:
        port: the port that the client is connected to.
        connection_id: the number of the connection, as in SHOW PROCESSLIST.
        user, host: the account that has logged in.
    """

    def __init__(self, port: ClientPort, connection_id: int, user: str, host: str) -> None:
        self.user = user
        self.host = host
        self.connection_id = connection_id
        self.tls_version = ""
        self.tls_cipher = ""
        self.executor = port.executor_of(user)
        """The master or slave that carries out this user's statements."""
        self.port = port
        self.limits = port.limits[user]
        self.database: str | None = None
        self.diagnostics: Sequence[Note] = ()
        """The errors, warnings and notes of the last statement, which SHOW WARNINGS returns."""
        self.system_variables: dict[str, Value] = {}
        """The values of the system variables that the client has set, by name."""
        self.user_variables: dict[str, Value] = {}
        """The values of the user variables (``@x``) by their names in lower case."""
        self.prepared: dict[int, Prepared] = {}
        """The client's prepared statements by statement id."""
        self.is_closed = False
        """Whether the client has left."""
        self.questions = 0
        """The number of statements that the session has executed (the status variable Questions)."""

    @property
    def role(self) -> Role:
        """The current role of the session's user, which decides what statements the user may run."""
        return self.port.role_of(self.user)

    def may_see(self, user: str | None) -> bool:
        """Tell whether the client may list and end connections of ``user``; None for a connection without a login.

        Every account may list and end its own connections, and an account with the role ``all`` every connection.
        """
        return user == self.user or self.role.includes(Role.ALL)

    def variables(self) -> Mapping[str, Value]:
        """Return the present values of all system variables (``@@x``) of the session by their names."""
        own: dict[str, Value] = {"pseudo_thread_id": self.connection_id, **self.executor.variables()}
        return ChainMap(own, self.system_variables, SESSION_VARIABLES, GLOBAL_VARIABLES)

    def character_set(self, variable: str = "character_set_results") -> CharacterSet:
        """Return the character set that the system variable ``variable`` names. The client sends statements in
        ``character_set_client``, and gets results in ``character_set_results``.
        """
        value = self.system_variables.get(variable, SESSION_VARIABLES[variable])
        return _character_set(str(value))

    def checked(self, name: str, value: Value, globally: bool) -> tuple[str, Value]:
        """Check that the client may give a system variable a value, and return the variable's name in lower case and
        the value. For a ``value`` of None return the default.

        Raises SqlError 1193 for an unknown variable, and 1227 if ``globally`` is true (SET GLOBAL). Raises 1238 for a
        variable that cannot be set, 1231 for a very long text, and 1115 for a character set that clients cannot use.
        """
        name = name.lower()
        if name in CHARACTER_SET_VARIABLES and value is not None:
            _character_set(str(value))
        if name not in self.variables():
            raise server_errors.ER_UNKNOWN_SYSTEM_VARIABLE(name)
        if globally:
            raise server_errors.ER_SPECIFIC_ACCESS_DENIED_ERROR("SUPER or SYSTEM_VARIABLES_ADMIN")
        if name in self.executor.variables() or name not in SESSION_VARIABLES:
            raise server_errors.ER_INCORRECT_GLOBAL_LOCAL_VAR(name, "read only")
        if isinstance(value, str) and len(value) > _LONGEST_VALUE:
            raise server_errors.ER_WRONG_VALUE_FOR_VAR(name, value)
        return name, SESSION_VARIABLES[name] if value is None else value

    def keep(self, user_variables: dict[str, Value], prepared: dict[int, Prepared]) -> None:
        """Replace the client's user variables (values by name) and prepared statements (by statement id).

        Raises SqlError 1041 if the new variables and statements take more than ``CLIENT_MEMORY`` bytes. Raises 1041
        also if the client's memory grows, and all clients of the port together would then need more than
        ``CONSOLE_MEMORY`` bytes. After an error nothing is replaced.
        """
        parts = itertools.chain.from_iterable(one.parts for one in prepared.values())
        size = sum(map(sys.getsizeof, itertools.chain(user_variables, user_variables.values(), parts)))
        kept, limit = self.port.kept, ""
        with self.port.keeping:
            more = size - kept[self.connection_id]
            if size > CLIENT_MEMORY:
                limit = f"a connection may have {CLIENT_MEMORY >> 10} KiB; close statements, or reconnect"
            elif more > 0 and kept.total() + more > CONSOLE_MEMORY:
                limit = f"all connections may have {CONSOLE_MEMORY >> 20} MiB; try again later, or with less"
            if limit:
                raise server_errors.ER_OUT_OF_CONSOLE_MEMORY(f"prepared statements and variables of {limit}")
            if not self.is_closed:
                kept[self.connection_id] = size
        self.user_variables, self.prepared = user_variables, prepared

    def close(self) -> None:
        """Subtract the memory of this session's client, which has left, from the memory that counts against the port's
        limit. A statement of the client may still be running.
        """
        with self.port.keeping:
            self.is_closed = True
            self.port.kept.pop(self.connection_id, None)

    def reset(self) -> None:
        """Remove the client's variables, prepared statements and warnings, as COM_RESET_CONNECTION demands. The
        character sets are then the defaults, as on a server. Keep the current database.
        """
        self.diagnostics = ()
        self.system_variables = {}
        self.keep({}, {})

    def schema(self, name: str | None) -> str:
        """Return the schema that a statement means: ``name``, or the current database if ``name`` is None.

        Raises SqlError 1046 if ``name`` is None and no database is selected, and 1049 if there is no such schema.
        """
        name = schema_of(name, self.database)
        if name not in (INFORMATION_SCHEMA, *(schema for schema, _ in self.executor.tables)):
            raise server_errors.ER_BAD_DB_ERROR(name)
        return name

    def select(self, text: str, *, is_own: bool = False) -> Result:
        """Run a SELECT in this session, and return its result. The time limit is the session's ``max_execution_time``.
        By default a SELECT that may read tables has a limit of 60 seconds, and any other SELECT has none.

        ``is_own`` is true for the console's own SELECT of few rows, which does not wait for the user's other SELECTs.
        Raises SqlError, for example 1317 after an interruption and 3024 after the time limit.
        """
        limit = self.variables()["max_execution_time"]
        given = int(limit) / _MILLISECONDS if isinstance(limit, int) and limit > 0 else None
        reads = not is_own and _READS.search(text) is not None
        seconds = min(given or DEFAULT_SECONDS, MOST_SECONDS) if reads else given or math.inf
        interrupt = running_interrupt()
        interrupt.deadline = time.monotonic() + seconds
        with held(self.limits.selects, interrupt) if reads else contextlib.nullcontext():
            return select(text, self._environment(), interrupt)

    def _environment(self) -> Environment:
        variables = self.variables()
        account = f"{self.user}@{self.host}"
        values = {
            **dict.fromkeys(("user", "current_user", "session_user", "system_user"), account),
            **dict.fromkeys(("database", "schema"), self.database),
            "version": variables["version"],
            "connection_id": self.connection_id,
        }
        functions: dict[str, Callable[..., Any]] = {
            name: partial(values.__getitem__, name) for name in values
        }
        functions |= self.executor.functions
        return Environment(self.find_table, self.database, variables, self.user_variables, functions)

    def find_table(self, schema: str, name: str) -> Result:
        """Return the columns and rows of the table ``name`` in ``schema``, as SELECT reads them.

        Upper and lower case differ in names, as on a server with lower_case_table_names=0. Names of tables in
        information_schema ignore case. Raises SqlError for a table that does not exist: 1049 if there is no such
        schema, and 1146 otherwise.
        """
        if schema == INFORMATION_SCHEMA and name.lower() in _COLUMNS:
            return _information(self.executor, name.lower())
        if schema == _OWN_SCHEMA and name in _OWN_TABLES:
            return _OWN_TABLES[name](self)
        read = self.executor.tables.get((schema, name))
        if read is None:
            raise server_errors.ER_NO_SUCH_TABLE(self.schema(schema), name)
        return read()


def _character_set(name: str) -> CharacterSet:
    found = answers.CHARACTER_SETS.get(name.lower().replace("utf8mb3", "utf8"))
    if found is None:
        raise server_errors.ER_UNKNOWN_CHARACTER_SET(name)
    return found


def _pairs(values: Mapping[str, object]) -> Result:
    rows = [(name, "" if value is None else str(value)) for name, value in sorted(values.items())]
    return Result(columns_of("Variable_name Value"), rows)


def _status(session: Session) -> Result:
    own = {
        "Questions": session.questions,
        "Ssl_cipher": session.tls_cipher,
        "Ssl_version": session.tls_version,
    }
    return _pairs({**session.port.status(), **own})


def _processlist(session: Session) -> Result:
    clients = [client for _, client in sorted(session.port.listed.copy().items())]
    rows = [client.row() for client in clients if session.may_see(client.user)]
    return Result(columns_of("Id User Host db Command Time State Info"), rows)


_OWN_TABLES: Mapping[str, Callable[[Session], Result]] = {
    "processlist": _processlist,
    "status": _status,
    "variables": lambda session: _pairs(session.variables()),
}
"""The functions that return the tables behind some SHOW statements, by name."""

"""The replication statements of the console, the port of a master or slave for MySQL clients.

:func:`statement` declares a statement's syntax, required role, audit and documentation. A master's and a slave's
console have one method for each statement that they carry out. :mod:`dumpfilter.console.sql.grammar` reads the syntax.
A command only holds the values that the statement contains. The parser does not check that a channel or file exists.

The grammar is that of MySQL 9.7 (``sql_yacc.yy``). The older words MASTER and SLAVE are added, and MariaDB 10.11's
forms with a connection name (``STOP SLAVE 'name'``). Filter options are added, too, such as ``REPLICATE-DO-DB``
(proposed by WL#2387) and ``DO`` (WL#2516).
"""

from __future__ import annotations

import enum
import functools
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from dumpfilter.binlog.statement.tokens import TokenKind
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.clauses import effective_rules, filter_clauses, moment, source
from dumpfilter.console.sql.grammar import FORMS, NEEDS, READERS, Cursor, Need, Role, form, parse
from dumpfilter.console.sql.result import Result

_UNTIL_PLACES = [f"{log}_LOG_{part}" for log in ("SOURCE", "MASTER", "RELAY") for part in ("FILE", "POS")]
_UNTIL_OTHER = ("SQL_BEFORE_GTIDS", "SQL_AFTER_GTIDS", "MASTER_GTID_POS", "SQL_AFTER_MTS_GAPS")

FOR_CHANNEL = "[FOR CHANNEL channel:channel]"
_EVENTS = "EVENTS [IN file:string] [FROM position:position] [LIMIT *:limit]"

_SPACE = " \t\n\v\f\r"
MAX_STATEMENT = 64 << 10
"""The length limit, in characters, of all statements but START REPLICA, whose UNTIL may name a large GTID set.

Parsing a longer statement would hold the interpreter's lock for longer than the master may delay a commit.
"""
_KNOWN = """
    ALTER ANALYZE BINLOG CACHE CALL CHECK CHECKSUM CLONE CREATE DEALLOCATE DELETE DRAIN DROP EXECUTE GET GRANT HANDLER
    HELP IMPORT INSERT INSTALL LOAD LOCK OPTIMIZE PREPARE RELEASE RENAME REPAIR REPLACE RESIGNAL RESTART REVOKE
    SAVEPOINT SHUTDOWN SIGNAL TRUNCATE UNDRAIN UNINSTALL UNREGISTER UPDATE VALUES XA
"""
"""The first words of the statements that a server or a master knows and this console refuses with error 1235.

A statement with an unknown first word is a syntax error.
"""


class Threads(enum.Flag):
    """The replication threads (I/O thread and SQL thread) that a START REPLICA or STOP REPLICA statement can name."""

    IO = enum.auto()
    SQL = enum.auto()
    BOTH = IO | SQL


_THREADS = {"IO_THREAD": Threads.IO, "RELAY_THREAD": Threads.IO, "SQL_THREAD": Threads.SQL}


def _threads(cursor: Cursor) -> Threads:
    return functools.reduce(operator.or_, cursor.separated(lambda: _THREADS[cursor.expect(*_THREADS)]))


def _until(cursor: Cursor) -> Mapping[str, Any]:
    """Consume the condition after UNTIL in START REPLICA, and return its values by field name. Raises SqlError for a
    syntax error, and for a position without file or offset.

    For a position, the fields are ``log`` (Source or Relay), ``file`` and ``position``. For GTIDs, they are ``gtids``
    and ``before``, which is true for SQL_BEFORE_GTIDS. For SQL_AFTER_MTS_GAPS, the only field is ``after_gaps``.
    """
    given: dict[str, Any] = {}
    logs: set[str] = set()

    def member() -> None:
        option = cursor.expect(*_UNTIL_PLACES, *(() if given else _UNTIL_OTHER))
        if option == "SQL_AFTER_MTS_GAPS":
            given["after_gaps"] = True
            return
        cursor.expect("=")
        if option in _UNTIL_OTHER:
            given.update(gtids=cursor.line(), before=option == "SQL_BEFORE_GTIDS")
            return
        log = "Relay" if option.startswith("RELAY") else "Source"
        logs.add(log)
        value = {"file": cursor.line()} if option.endswith("FILE") else {"position": cursor.position()}
        given.update(log=log, **value)

    cursor.separated(member)
    if logs and (len(logs) > 1 or given.keys() != {"log", "file", "position"}):
        raise server_errors.ER_BAD_REPLICA_UNTIL_COND()
    return given


def limit(cursor: Cursor) -> Mapping[str, int]:
    """Consume the tokens of a LIMIT clause, ``[offset,] count`` or ``count OFFSET offset``, in a statement of a client.

    Return the numbers under the keys ``offset`` (default 0) and ``count``.
    """
    first = _count(cursor)
    if cursor.accept(","):
        return {"offset": first, "count": _count(cursor)}
    return {"offset": _count(cursor) if cursor.accept("OFFSET") else 0, "count": first}


def _count(cursor: Cursor) -> int:
    # In LIMIT, the server's grammar (limit_option) takes a name for a variable of a stored program. The console has no
    # stored programs.
    if cursor.token.kind in (TokenKind.WORD, TokenKind.QUOTED):
        raise server_errors.ER_SP_UNDECLARED_VAR(cursor.identifier())
    return cursor.integer()


READERS.update(
    effective=effective_rules,
    filters=filter_clauses,
    limit=limit,
    moment=moment,
    source=source,
    threads=_threads,
    until=_until,
)


def statement(name: str, role: Role, *forms: str, changes: bool = False) -> Callable[..., Command]:
    """Add a statement to the console's grammar. Return a function that makes a :class:`Command` from the values in such
    a statement.

    ``name`` is the statement's name in the documentation, and ``role`` the least role of a user who may run it. Each of
    ``forms`` is an allowed syntax, such as ``STOP REPLICA [threads:threads]``. ``changes`` is true for a statement that
    the audit log records.

    A master or slave carries out the statement STOP REPLICA by its method ``_stop_replica``, and likewise for other
    names. The method gets the values in the statement as keyword arguments, such as ``threads`` in the example. Three
    of them are in many statements:

    - ``channel``: the channel in lower case. The default channel is "".
    - ``old``: true for the older words SLAVE or MASTER. The result then has the older column names.
    - ``every``: true for MariaDB's statements for all channels, such as START ALL SLAVES.
    """
    need = Need(name, role, changes)
    method = re.sub(r"\W+", "_", f"_{name.partition(',')[0].lower()}")
    NEEDS.append(need)

    def made(**values: Any) -> Command:
        return Command(need, method, values)

    for syntax in forms:
        form(syntax, made)
    return made


class Command(NamedTuple):
    """A parsed statement of a client: the required role, the method that carries the statement out, and the method's
    arguments. The master or slave (:class:`Executor`) carries out a statement about replication, such as START REPLICA.
    The console itself carries out any other statement.
    """

    need: Need
    method: Any
    """The name of the executor's method that carries the statement out, or the console's function that does. A function
    of the console gets the client's session, too.
    """
    values: dict[str, Any]
    """The values in the statement, by the method's parameters. Absent optional values are left out."""


# Several clauses may set the same kind of rule (such as REPLICATE_DO_DB). The last of these clauses applies.
statement(
    "CHANGE REPLICATION FILTER",
    Role.REPLICATE_ADMIN,
    f"CHANGE REPLICATION FILTER clauses:filters {FOR_CHANNEL}",
    changes=True,
)

# The statement exists in dumpfilter only. It changes the filter by which a master sends events to a real replica (a
# MySQL or MariaDB server). User, server id and channel select one [[replica]] table of the master's configuration.
statement(
    "CHANGE REPLICATION FILTER … FOR REPLICA",
    Role.ALL,
    "CHANGE REPLICATION FILTER clauses:filters FOR REPLICA|SLAVE user:line [SERVER_ID server_id:integer] "
    f"{FOR_CHANNEL}",
    changes=True,
)

# Beyond the servers' options, the statement may have filter rules, which are in ``clauses``. Each entry of ``options``
# is an option's name and value. The name is the newer one (SOURCE instead of MASTER) without the prefix SOURCE_.
# IGNORE_SERVER_IDS, DO_DOMAIN_IDS and IGNORE_DOMAIN_IDS are tuples of int. FILTER_ON is an option of this product, and
# chooses the side that filters: MASTER, SLAVE or BOTH. Each clause replaces all rules of one kind that the channel had
# before. REPLICATE-DO-DB='a', REPLICATE-DO-DB='b' is one clause of two rules.
statement(
    "CHANGE REPLICATION SOURCE TO",
    Role.REPLICATE_ADMIN,
    f"CHANGE REPLICATION SOURCE TO *:source {FOR_CHANNEL}",
    f"CHANGE old:MASTER [channel:channel] TO *:source {FOR_CHANNEL}",
    changes=True,
)

# MySQL's worklog WL#2516 proposes CHANGE BINLOG 'bar' TO DO='db1.%', IGNORE='%_backup.table2'. The statement sets the
# rules by which a master hides events from all its slaves. The name is the base name of the binlog files.
statement("CHANGE BINLOG", Role.ALL, "CHANGE BINLOG name:line TO clauses:effective", changes=True)

_start_replica = statement("START REPLICA", Role.REPLICATE_ADMIN, changes=True)


def _checked_start(**values: Any) -> Command:
    until = values.get("until")
    login = {"user", "password", "default_auth", "plugin_dir"} & values.keys()
    if values.get("threads") is Threads.SQL and login:
        raise server_errors.ER_SQLTHREAD_WITH_SECURE_REPLICA()
    if until is not None and "after_gaps" in until:
        raise server_errors.ER_NOT_SUPPORTED_YET("START REPLICA UNTIL SQL_AFTER_MTS_GAPS")
    return _start_replica(**values)


form(
    "START REPLICA|SLAVE [channel:channel] [threads:threads] [UNTIL until:until] [USER = user:line] "
    "[PASSWORD = password:line] [DEFAULT_AUTH = default_auth:line] [PLUGIN_DIR = plugin_dir:line] "
    f"{FOR_CHANNEL}",
    _checked_start,
)
form("START every:ALL SLAVES|REPLICAS [threads:threads]", _start_replica)
statement(
    "STOP REPLICA",
    Role.REPLICATE_ADMIN,
    f"STOP REPLICA|SLAVE [channel:channel] [threads:threads] {FOR_CHANNEL}",
    "STOP every:ALL SLAVES|REPLICAS [threads:threads]",
    changes=True,
)

# RESET REPLICA deletes the relay log and the position in the source's log. ALL also deletes the connection settings.
statement(
    "RESET REPLICA",
    Role.REPLICATE_ADMIN,
    f"RESET REPLICA|SLAVE [channel:channel] [all:ALL] {FOR_CHANNEL}",
    changes=True,
)
statement(
    "SHOW REPLICA STATUS",
    Role.READ,
    f"SHOW REPLICA [channel:channel] STATUS {FOR_CHANNEL}",
    f"SHOW old:SLAVE [channel:channel] STATUS {FOR_CHANNEL}",
    "SHOW every:ALL REPLICAS STATUS",
    "SHOW every:ALL old:SLAVES STATUS",
)
statement("SHOW REPLICAS", Role.READ, "SHOW REPLICAS", "SHOW REPLICA HOSTS", "SHOW old:SLAVE HOSTS")
statement(
    "SHOW BINARY LOG STATUS",
    Role.READ,
    "SHOW BINARY LOG STATUS",
    "SHOW BINLOG STATUS",
    "SHOW old:MASTER STATUS",
)
statement("SHOW BINARY LOGS", Role.READ, "SHOW BINARY|MASTER LOGS")
statement(
    "SHOW BINLOG EVENTS, SHOW RELAYLOG EVENTS",
    Role.REPLICATE_ADMIN,
    f"SHOW BINLOG {_EVENTS}",
    f"SHOW relay_log:RELAYLOG [channel:channel] {_EVENTS} {FOR_CHANNEL}",
)

# The field ``before`` is usually a local time without a time zone. If the statement names a time zone, the datetime has
# it. NULL and texts that are no datetime become the beginning of 1970, so that no file is purged, with warnings.
statement(
    "PURGE BINARY LOGS",
    Role.ALL,
    "PURGE BINARY|MASTER LOGS TO to:string",
    "PURGE BINARY|MASTER LOGS BEFORE *:moment",
    changes=True,
)

# FLUSH PRIVILEGES reads the configuration of users again.
statement("FLUSH PRIVILEGES", Role.ALL, "FLUSH [LOCAL|NO_WRITE_TO_BINLOG] PRIVILEGES", changes=True)


def parse_statement(text: str) -> Command:
    """Parse one statement, with or without a semicolon at its end. The text of a SELECT is not parsed yet.

    Raises SqlError: ER_PARSE_ERROR for text that the grammar does not allow, ER_EMPTY_QUERY, and other errors that the
    server's parser raises.

    >>> parse_statement("stop replica sql_thread for channel 'Ch1'").values
    {'threads': <Threads.SQL: 2>, 'channel': 'ch1'}
    >>> parse_statement("RESET REPLICA NONE")
    Traceback (most recent call last):
    dumpfilter.console.sql.server_errors.SqlError: ERROR 1064 (42000): You have an error in your SQL syntax; check \
the manual that corresponds to your MySQL server version for the right syntax to use near 'NONE' at line 1
    """
    # The server strips white space before it parses. Line 1 in its error messages is therefore the line of the first
    # other character.
    text = text.lstrip(_SPACE).rstrip(_SPACE + ";")
    if not text:
        raise server_errors.ER_EMPTY_QUERY()
    opening = Cursor(text).token
    first = opening.word or opening.value
    if len(text) > MAX_STATEMENT and first != "START":
        raise server_errors.too_long(MAX_STATEMENT)
    if first in FORMS:
        return parse(text)  # type: ignore[no-any-return]
    is_known = first in _KNOWN.split()
    raise server_errors.ER_NOT_SUPPORTED_YET(first) if is_known else server_errors.syntax_error(text, 0)


class Executor(Protocol):
    """The interface that a master or slave implements for its console, a port for MySQL clients. By this interface the
    console carries out replication commands and reads status tables.

    Several worker threads of the console call these methods at the same time.
    """

    @property
    def version(self) -> str:
        """The server version that clients see in the greeting and in ``@@version``, such as ``8.4.0``.

        This property must not wait, since the console reads it before each login.
        """

    def execute(self, command: Command) -> Result:
        """Execute a statement about replication, and return its result. Raises SqlError, with error 1235 for a
        statement that this process does not carry out.
        """
        method: Callable[..., Result] | None = getattr(self, command.method, None)
        if method is None:
            raise server_errors.ER_NOT_SUPPORTED_YET(command.need.statement)
        return method(**command.values)

    @property
    def tables(self) -> Mapping[tuple[str, str], Callable[[], Result]]:
        """The functions that return the columns and current rows of each status table that clients can read.

        The keys are schema and name in lower case, for example ``performance_schema`` and
        ``replication_applier_status``.
        """

    def variables(self) -> Mapping[str, str | int]:
        """Return the process's system variables by the names that they have in MySQL (``server_id``, ``version`` …)."""

    @property
    def functions(self) -> Mapping[str, Callable[..., str | int | None]]:
        """The SQL functions that a SELECT can call on this process in addition to those of every console, by name in
        lower case. An example is WAIT_FOR_EXECUTED_GTID_SET on a slave.

        The value for a name is the Python function that computes the SQL function. It gets the arguments of the SQL
        call as positional arguments. A call with another number of arguments than the function has parameters fails.
        The function may wait for replication. It ends early when the running statement is interrupted or exceeds its
        time limit (:func:`~dumpfilter.console.sql.interruption.running_interrupt`).
        """
        return {}

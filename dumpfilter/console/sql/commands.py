"""The replication statements of the console, each as a class whose fields are the statement's values.

The decorator of a statement's class declares its syntax, required role, audit and documentation. A master's and a
slave's console have one method for each class that they carry out.
:mod:`dumpfilter.console.sql.grammar` reads the syntax. A command only holds the values that the statement contains, and
does not check that a channel or file exists.

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
from dataclasses import InitVar, dataclass
from datetime import datetime
from typing import Any, Literal, Protocol, TypeVar, dataclass_transform

from dumpfilter.binlog.statement.tokens import TokenKind
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.clauses import effective_rules, filter_clauses, moment, source
from dumpfilter.console.sql.grammar import Cursor, Grammar, Need, Role
from dumpfilter.console.sql.result import Note, Result
from dumpfilter.filter.rules import FilterClause as FilterClause

_UNTIL_LOGS: Mapping[str, UntilLog] = {"SOURCE": "Source", "MASTER": "Source", "RELAY": "Relay"}
_UNTIL_OTHER = ("SQL_BEFORE_GTIDS", "SQL_AFTER_GTIDS", "MASTER_GTID_POS", "SQL_AFTER_MTS_GAPS")
_UNTIL_PLACE = {
    f"{word}_LOG_{field}": (log, name)
    for word, log in _UNTIL_LOGS.items()
    for field, name in (("FILE", "file"), ("POS", "position"))
}

T = TypeVar("T")

_FOR_CHANNEL = "[FOR CHANNEL channel:channel]"
_EVENTS = "EVENTS [IN file:string] [FROM position:position] [LIMIT *:limit]"

_CAPITAL = re.compile("[A-Z]")
_SPACE = " \t\n\v\f\r"
MAX_STATEMENT = 64 << 10
"""The length limit, in characters, of all statements but START REPLICA, whose UNTIL may name a large GTID set.

Parsing a longer statement would hold the interpreter's lock for longer than the master may delay a commit.
"""
_KNOWN = """
    ALTER ANALYZE BINLOG CACHE CALL CHECK CHECKSUM CLONE CREATE DEALLOCATE DELETE DRAIN DROP EXECUTE GET GRANT HANDLER
    HELP IMPORT INSERT INSTALL LOAD LOCK OPTIMIZE PREPARE RELEASE RENAME REPAIR REPLACE RESIGNAL RESTART REVOKE
    SAVEPOINT SHUTDOWN SIGNAL TRUNCATE UNDRAIN UNINSTALL UNREGISTER UPDATE XA
"""
"""The first words of the statements that a server or a master knows and this console refuses with error 1235.

A statement with an unknown first word is a syntax error.
"""


class Threads(enum.Flag):
    """The replication threads that a START REPLICA or STOP REPLICA statement names."""

    IO = enum.auto()
    SQL = enum.auto()
    BOTH = IO | SQL


UntilLog = Literal["Source", "Relay"]


@dataclass(frozen=True)
class Until:
    """The condition of ``START REPLICA … UNTIL``, at which the replication threads stop.

    The condition is either a position in the source's log or in the relay log, or a GTID set. The fields of the kinds
    of condition that the statement does not use stay empty.
    """

    log: UntilLog | None = None
    file: str = ""
    position: int = 0
    gtids: str = ""
    before_gtids: bool = False
    after_gaps: bool = False


_THREADS = {"IO_THREAD": Threads.IO, "RELAY_THREAD": Threads.IO, "SQL_THREAD": Threads.SQL}


def _threads(cursor: Cursor) -> Threads:
    return functools.reduce(operator.or_, cursor.separated(lambda: _THREADS[cursor.expect(*_THREADS)]))


def _until(cursor: Cursor) -> Until:
    given: dict[str, Any] = {}
    logs: set[UntilLog] = set()

    def member() -> None:
        option = cursor.expect(*_UNTIL_PLACE, *(() if given else _UNTIL_OTHER))
        if option == "SQL_AFTER_MTS_GAPS":
            given["after_gaps"] = True
            return
        cursor.expect("=")
        if option in _UNTIL_OTHER:
            given.update(gtids=cursor.line(), before_gtids=option == "SQL_BEFORE_GTIDS")
            return
        log, field = _UNTIL_PLACE[option]
        logs.add(log)
        given[field] = cursor.line() if field == "file" else cursor.position()

    cursor.separated(member)
    if logs and (len(logs) > 1 or given.keys() != {"file", "position"}):
        raise server_errors.ER_BAD_REPLICA_UNTIL_COND()
    return Until(next(iter(logs), None), **given)


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


def for_channel(cursor: Cursor) -> str | None:
    """Consume the tokens ``FOR CHANNEL 'name'`` of a client's statement, if they are next. Return the name in lower
    case, or None without the clause.
    """
    if not cursor.accept("FOR"):
        return None
    cursor.expect("CHANNEL")
    return cursor.channel()


def _owner(cursor: Cursor) -> Mapping[str, Any]:
    """Consume the clause that selects whose filter is changed, and return its values by field name; empty without one.

    The clause is ``FOR REPLICA 'user' [SERVER_ID n] [FOR CHANNEL 'name']``, or ``FOR CHANNEL 'name'``.
    """
    if not cursor.accept("FOR"):
        return {}
    if cursor.accept("CHANNEL"):
        return {"channel": cursor.channel()}
    cursor.expect("REPLICA", "SLAVE")
    user = cursor.line()
    server_id = cursor.integer() if cursor.accept("SERVER_ID") else None
    return {"user": user, "server_id": server_id, "channel": for_channel(cursor)}


GRAMMAR = Grammar(
    {
        "effective": effective_rules,
        "filters": filter_clauses,
        "limit": limit,
        "moment": moment,
        "owner": _owner,
        "source": source,
        "threads": _threads,
        "until": _until,
    },
    {"threads": tuple(_THREADS)},
)
"""The grammar with the readers of the values that the statements' syntax names. :func:`statement` adds the statements.
"""


@dataclass_transform(frozen_default=True)
def statement(name: str, role: Role, *forms: str, changes: bool = False) -> Callable[[type[T]], type[T]]:
    """Return a decorator that adds a statement to the console's grammar, and makes the decorated class of its values a
    frozen dataclass.

    ``name`` is the statement's name in the documentation, and ``role`` the least role of a user who may run it. Each of
    ``forms`` is an allowed syntax, such as ``STOP REPLICA [threads:threads]``. ``changes`` is true for a statement that
    the audit log records.
    """

    def declare(made: type[T]) -> type[T]:
        made = dataclass(frozen=True)(made)
        GRAMMAR.needs[made] = Need(name, role, changes)
        for form in forms:
            GRAMMAR.form(form, made)
        return made

    return declare


@dataclass(frozen=True, kw_only=True)
class Command:
    """The base class of parsed statements about replication. An object holds the values of one statement, such as START
    REPLICA.
    """

    channel: str | None = None
    """The channel in the statement, in lower case. None without a FOR CHANNEL clause. The default channel is ""."""
    old: bool = False
    """Whether the statement has the older words SLAVE or MASTER. The result then has the older column names."""
    every: bool = False
    """Whether the statement is one of MariaDB's for all channels, such as START ALL SLAVES."""


@statement("CHANGE REPLICATION FILTER", Role.REPLICATE_ADMIN, changes=True)
class ChangeReplicationFilter(Command):
    """The statement ``CHANGE REPLICATION FILTER``, for one channel or, with ``channel`` None, for all channels.

    ``clauses`` are in the order of the statement. If several clauses set the same kind of rule (such as
    REPLICATE_DO_DB), the last of these clauses applies.
    """

    clauses: tuple[FilterClause, ...]


@statement("CHANGE REPLICATION FILTER … FOR REPLICA", Role.ALL, changes=True)
class ChangeReplicaFilter(Command):
    """The statement ``CHANGE REPLICATION FILTER … FOR REPLICA 'user' [SERVER_ID n] [FOR CHANNEL 'name']``.

    The statement exists in dumpfilter only. It changes the filter by which a master sends events to a real replica (a
    MySQL or MariaDB server). User, server id and channel select one ``[[replica]]`` section of the master's
    configuration file.
    """

    clauses: tuple[FilterClause, ...]
    user: str
    server_id: int | None = None


def _change_filter(clauses: tuple[FilterClause, ...], user: str | None = None, **more: Any) -> Command:
    if user is None:
        return ChangeReplicationFilter(clauses, **more)
    return ChangeReplicaFilter(clauses, user, **more)


# The two statements are one form, so that a long list of rules is read once.
GRAMMAR.form("CHANGE REPLICATION FILTER clauses:filters *:owner", _change_filter)


@statement(
    "CHANGE REPLICATION SOURCE TO",
    Role.REPLICATE_ADMIN,
    f"CHANGE REPLICATION SOURCE TO *:source {_FOR_CHANNEL}",
    f"CHANGE old:MASTER [channel:channel] TO *:source {_FOR_CHANNEL}",
    changes=True,
)
class ChangeSource(Command):
    """The statement ``CHANGE MASTER TO`` or ``CHANGE REPLICATION SOURCE TO``.

    Beyond the servers' options, the statement may have filter rules, which are in ``clauses``. Each entry of
    ``options`` is an option's name and value. The name is the newer one (SOURCE instead of MASTER) without the prefix
    SOURCE_. The slave carries out these options.

    - ``HOST``, ``PORT``, ``USER``, ``PASSWORD``, ``LOG_FILE``, ``LOG_POS``, ``AUTO_POSITION``,
    - ``CONNECT_RETRY``, ``RETRY_COUNT``, ``HEARTBEAT_PERIOD``, ``USE_GTID``,
    - ``IGNORE_SERVER_IDS``, ``DO_DOMAIN_IDS``, ``IGNORE_DOMAIN_IDS``: tuples of int,
    - ``FILTER_ON``: ``MASTER``, ``SLAVE`` or ``BOTH``, an option of this product. It chooses which side filters.

    The parser accepts the server's other options too, and the slave answers that it does not support them.
    """

    options: tuple[tuple[str, str | int | float | tuple[int, ...] | None], ...]
    clauses: tuple[FilterClause, ...] = ()
    """The filter rules of the statement. Each clause replaces all rules of one kind that the channel had before.

    ``REPLICATE-DO-DB='a', REPLICATE-DO-DB='b'`` is one clause of two rules.
    """


@statement("CHANGE BINLOG", Role.ALL, "CHANGE BINLOG name:line TO clauses:effective", changes=True)
class ChangeBinlog(Command):
    """The statement ``CHANGE BINLOG 'bar' TO DO='db1.%', IGNORE='%_backup.table2'``, which sets the rules by which a
    master hides events from all its slaves.

    MySQL's worklog WL#2516 proposes the statement. ``name`` is the base name of the binlog files, such as ``binlog`` of
    ``binlog.000001``.
    """

    name: str
    clauses: tuple[FilterClause, ...]


@statement(
    "START REPLICA",
    Role.REPLICATE_ADMIN,
    "START REPLICA|SLAVE [channel:channel] [threads:threads] [UNTIL until:until] [USER = user:line] "
    "[PASSWORD = password:line] [DEFAULT_AUTH = default_auth:line] [PLUGIN_DIR = plugin_dir:line] "
    f"{_FOR_CHANNEL}",
    "START every:ALL SLAVES|REPLICAS [threads:threads]",
    changes=True,
)
class StartReplica(Command):
    """The statement ``START {SLAVE|REPLICA}``."""

    threads: Threads = Threads.BOTH
    until: Until | None = None
    user: str | None = None
    password: str | None = None
    default_auth: InitVar[str | None] = None
    plugin_dir: InitVar[str | None] = None

    def __post_init__(self, default_auth: str | None, plugin_dir: str | None) -> None:
        login = (self.user, self.password, default_auth, plugin_dir)
        if self.threads is Threads.SQL and any(value is not None for value in login):
            raise server_errors.ER_SQLTHREAD_WITH_SECURE_REPLICA()
        if self.until is not None and self.until.after_gaps:
            raise server_errors.ER_NOT_SUPPORTED_YET("START REPLICA UNTIL SQL_AFTER_MTS_GAPS")


@statement(
    "STOP REPLICA",
    Role.REPLICATE_ADMIN,
    f"STOP REPLICA|SLAVE [channel:channel] [threads:threads] {_FOR_CHANNEL}",
    "STOP every:ALL SLAVES|REPLICAS [threads:threads]",
    changes=True,
)
class StopReplica(Command):
    """The statement ``STOP {SLAVE|REPLICA}``."""

    threads: Threads = Threads.BOTH


@statement(
    "RESET REPLICA",
    Role.REPLICATE_ADMIN,
    f"RESET REPLICA|SLAVE [channel:channel] [all:ALL] {_FOR_CHANNEL}",
    changes=True,
)
class ResetReplica(Command):
    """The statement ``RESET {SLAVE|REPLICA} [ALL]``, which deletes the relay log and the position in the source's log.

    With ALL the statement also deletes the channel's connection settings.
    """

    all: bool = False


@statement(
    "SHOW REPLICA STATUS",
    Role.READ,
    f"SHOW REPLICA [channel:channel] STATUS {_FOR_CHANNEL}",
    f"SHOW old:SLAVE [channel:channel] STATUS {_FOR_CHANNEL}",
    "SHOW every:ALL REPLICAS STATUS",
    "SHOW every:ALL old:SLAVES STATUS",
)
class ShowReplicaStatus(Command):
    """The statement ``SHOW {SLAVE|REPLICA} STATUS``."""


@statement("SHOW REPLICAS", Role.READ, "SHOW REPLICAS", "SHOW REPLICA HOSTS", "SHOW old:SLAVE HOSTS")
class ShowReplicas(Command):
    """The statement ``SHOW SLAVE HOSTS`` or ``SHOW REPLICAS``, which lists the slaves of a master."""


@statement(
    "SHOW BINARY LOG STATUS",
    Role.READ,
    "SHOW BINARY LOG STATUS",
    "SHOW BINLOG STATUS",
    "SHOW old:MASTER STATUS",
)
class ShowBinaryLogStatus(Command):
    """The statement ``SHOW MASTER STATUS`` or ``SHOW BINARY LOG STATUS``, which shows the end of the newest binlog
    file.
    """


@statement("SHOW BINARY LOGS", Role.READ, "SHOW BINARY|MASTER LOGS")
class ShowBinaryLogs(Command):
    """The statement ``SHOW {BINARY|MASTER} LOGS``, which lists the binlog files and their sizes."""


@statement(
    "SHOW BINLOG EVENTS, SHOW RELAYLOG EVENTS",
    Role.REPLICATE_ADMIN,
    f"SHOW BINLOG {_EVENTS}",
    f"SHOW relay_log:RELAYLOG [channel:channel] {_EVENTS} {_FOR_CHANNEL}",
)
class ShowBinlogEvents(Command):
    """The statement ``SHOW BINLOG EVENTS [IN 'file'] [FROM position] [LIMIT [offset,] count]``.

    If ``relay_log`` is true, the statement is ``SHOW RELAYLOG EVENTS … [FOR CHANNEL 'name']``. ``channel`` is None for
    SHOW BINLOG EVENTS.
    """

    file: str | None = None
    position: int = 4
    offset: int = 0
    count: int | None = None
    relay_log: bool = False


@statement(
    "PURGE BINARY LOGS",
    Role.ALL,
    "PURGE BINARY|MASTER LOGS TO to:string",
    "PURGE BINARY|MASTER LOGS BEFORE *:moment",
    changes=True,
)
class PurgeBinaryLogs(Command):
    """The statement ``PURGE {BINARY|MASTER} LOGS {TO 'file' | BEFORE datetime}``.

    ``to`` is the file name. Exactly one of ``to`` and ``before`` is not None.
    """

    to: str | None = None
    before: datetime | None = None
    """The time after BEFORE in the statement, usually a local time without a time zone.

    The server purges binlog files that are older.

    If the statement names a time zone, the datetime has it. NULL and texts that are no datetime become the beginning
    of 1970, so that no file is purged.
    """
    warnings: tuple[Note, ...] = ()
    """The parser's warnings about the datetime in ``before``. The client sees them before any warnings of the purge."""


@statement("FLUSH PRIVILEGES", Role.ALL, "FLUSH [LOCAL|NO_WRITE_TO_BINLOG] PRIVILEGES", changes=True)
class FlushPrivileges(Command):
    """The statement ``FLUSH [LOCAL | NO_WRITE_TO_BINLOG] PRIVILEGES``, which reads the configuration of users again."""


def parse_statement(text: str) -> Any:
    """Parse one statement, with or without a semicolon at its end.

    A statement about replication is returned as a command, an object of a class of
    :mod:`dumpfilter.console.sql.commands`. Any other statement is returned as a function that carries the statement out
    in a given session. The text of a SELECT is not parsed yet.

    Raises SqlError: ER_PARSE_ERROR for text that the grammar does not allow, ER_EMPTY_QUERY, and other errors that the
    server's parser raises.

    >>> parse_statement("stop replica sql_thread for channel 'Ch1'")
    StopReplica(channel='ch1', old=False, every=False, threads=<Threads.SQL: 2>)
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
    if first in GRAMMAR.beginnings:
        return GRAMMAR.parse(text)
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

        Reading it must not wait, since the console reads it before each login.
        """
        ...

    def execute(self, command: Command) -> Result:
        """Carry out a replication command by the method with the name of its class, such as ``_start_replica``, and
        return its result when it is done.

        The console itself answers all other statements. Raises SqlError for a command that fails.
        """
        kind = type(command).__name__
        method: Callable[[Command], Result] | None = getattr(
            self, _CAPITAL.sub(r"_\g<0>", kind).lower(), None
        )
        if method is None:
            raise server_errors.ER_NOT_SUPPORTED_YET(kind)
        return method(command)

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
    def functions(self) -> Mapping[str, Callable[..., str | int | None]]:
        """The SQL functions that only this process has, such as WAIT_FOR_EXECUTED_GTID_SET, by name in lower case.

        The functions may wait for replication. They get the arguments' values, and their parameters limit the number of
        arguments. They observe the interrupt and the time limit of the running statement
        (:func:`~dumpfilter.console.sql.interruption.running_interrupt`), and add their warnings to its ``notes``.
        """
        return {}

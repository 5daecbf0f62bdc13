"""The parser of the console's statements. It turns the text of a statement into a command object.

The grammar is that of MySQL 9.7 (``sql_yacc.yy``). Three things are added: the older words MASTER and SLAVE, MariaDB
10.11's forms with a connection name (``STOP SLAVE 'name'``), and the filter options that WL#2387 and WL#2516 propose.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from dumpfilter.sql.commands import (
    ChangeBinlog,
    ChangeReplicaFilter,
    ChangeReplicationFilter,
    ChangeSource,
    Command,
    DrainReplicas,
    FlushPrivileges,
    PurgeBinaryLogs,
    Query,
    ReplicaChoice,
    ResetReplica,
    ShowBinaryLogs,
    ShowBinaryLogStatus,
    ShowBinlogEvents,
    ShowReplicas,
    ShowReplicaStatus,
    StartReplica,
    StopReplica,
    Threads,
    UndrainReplicas,
    UnregisterReplica,
    Until,
)
from dumpfilter.sql.cursor import Cursor
from dumpfilter.sql.datetimes import datetime_expression
from dumpfilter.sql.filters import RuleOptions, filter_clauses
from dumpfilter.sql.result import Note
from dumpfilter.sql.server_errors import (
    ER_BAD_REPLICA_UNTIL_COND,
    ER_EMPTY_QUERY,
    ER_NOT_SUPPORTED_YET,
    ER_SP_UNDECLARED_VAR,
    ER_SQLTHREAD_WITH_SECURE_REPLICA,
    ER_WRONG_ARGUMENTS,
)
from dumpfilter.sql.source_options import source_options
from dumpfilter.statement.tokens import TokenKind

_REPLICA = ("REPLICA", "SLAVE")
_LONG_AGO = datetime(1970, 1, 1)
"""The time that PURGE BINARY LOGS BEFORE NULL uses. No binlog file is older, so that no file is purged."""
_SPACE = " \t\n\v\f\r"


def parse_statement(text: str, now: datetime | None = None) -> Command:
    """Parse one statement, with or without a semicolon at its end, and return it as a command.

    A statement that is not about replication becomes a ``Query``, whose text is not parsed further. ``now`` is the
    value of NOW(), a local time without a time zone. Its default is the current time. Raises SqlError: ER_PARSE_ERROR
    for text that the grammar does not allow, ER_EMPTY_QUERY, and other errors that the server's parser raises.

    >>> parse_statement("stop replica sql_thread for channel 'Ch1'")
    StopReplica(threads=<Threads.SQL: 2>, channel='ch1', every=False)
    >>> parse_statement("SELECT 1")
    Query(text='SELECT 1')
    >>> parse_statement("RESET REPLICA NONE")
    Traceback (most recent call last):
    dumpfilter.sql.server_errors.SqlError: ERROR 1064 (42000): You have an error in your SQL syntax; check the manual \
that corresponds to your MySQL server version for the right syntax to use near 'NONE' at line 1
    """
    # The server strips white space before it parses. Line 1 in its error messages is therefore the line of the first
    # other character.
    text = text.lstrip(_SPACE).rstrip(_SPACE + ";")
    if not text:
        raise ER_EMPTY_QUERY()
    cursor = Cursor(text)
    parse = _STATEMENTS.get(cursor.token.word)
    if parse is None:
        if cursor.sees(";"):
            cursor.fail()
        return Query(text)
    cursor.advance()
    command = parse(cursor, now)
    if command is None:
        return Query(text)
    cursor.end()
    return command


def _change(cursor: Cursor, now: datetime | None) -> Command:
    if cursor.accept("REPLICATION"):
        if cursor.expect("FILTER", "SOURCE") == "FILTER":
            return _change_filter(cursor)
        return _change_source(cursor, old=False)
    if cursor.accept("MASTER"):
        return _change_source(cursor, old=True)
    cursor.expect("BINLOG")
    name = cursor.line()
    cursor.expect("TO")
    rules = RuleOptions()
    while True:
        if not rules.read(cursor, classic=False):
            cursor.fail()
        if not cursor.accept(","):
            return ChangeBinlog(name, rules.clauses)


def _change_filter(cursor: Cursor) -> Command:
    clauses = filter_clauses(cursor)
    if not cursor.accept("FOR"):
        return ChangeReplicationFilter(clauses)
    if cursor.expect("CHANNEL", *_REPLICA) == "CHANNEL":
        return ChangeReplicationFilter(clauses, cursor.line().lower())
    user = cursor.line()
    server_id = cursor.integer() if cursor.accept("SERVER_ID") else None
    return ChangeReplicaFilter(clauses, user, server_id, _for_channel(cursor))


def _change_source(cursor: Cursor, *, old: bool) -> ChangeSource:
    name = _connection_name(cursor) if old else None
    cursor.expect("TO")
    options, clauses = source_options(cursor)
    return ChangeSource(options, clauses, _for_channel(cursor, name), old)


def _for_channel(cursor: Cursor, name: str | None = None) -> str | None:
    # In MariaDB a statement may name the channel either by a connection name after SLAVE or by FOR CHANNEL, not by
    # both.
    if not cursor.accept("FOR"):
        return name
    cursor.expect("CHANNEL")
    channel = cursor.line().lower()
    if name is not None:
        raise ER_WRONG_ARGUMENTS("CONNECTION_NAME AND FOR CHANNEL CAN NOT BE SPECIFIED AT THE SAME TIME)")
    return channel


def _connection_name(cursor: Cursor) -> str | None:
    return cursor.line().lower() if cursor.at_string() else None


def _start(cursor: Cursor, now: datetime | None) -> Command | None:
    if cursor.token.word in ("TRANSACTION", "GROUP_REPLICATION"):
        return None
    if cursor.accept("ALL"):
        cursor.expect("SLAVES", "REPLICAS")
        return StartReplica(_threads(cursor), every=True)
    cursor.expect(*_REPLICA)
    name = _connection_name(cursor)
    threads = _threads(cursor)
    limited = bool(cursor.accept("UNTIL"))
    until = _until(cursor) if limited else None
    login = {option: _login(cursor, option) for option in ("USER", "PASSWORD", "DEFAULT_AUTH", "PLUGIN_DIR")}
    channel = _for_channel(cursor, name)
    if threads is Threads.SQL and any(value is not None for value in login.values()):
        raise ER_SQLTHREAD_WITH_SECURE_REPLICA()
    if limited and until is None and cursor.at_end:
        raise ER_NOT_SUPPORTED_YET("START REPLICA UNTIL SQL_AFTER_MTS_GAPS")
    return StartReplica(threads, channel, until, login["USER"], login["PASSWORD"])


def _threads(cursor: Cursor) -> Threads:
    names = {"IO_THREAD": Threads.IO, "RELAY_THREAD": Threads.IO, "SQL_THREAD": Threads.SQL}
    if not (word := cursor.accept(*names)):
        return Threads.BOTH
    threads = names[word]
    while cursor.accept(","):
        threads |= names[cursor.expect(*names)]
    return threads


def _login(cursor: Cursor, option: str) -> str | None:
    if not cursor.accept(option):
        return None
    cursor.expect("=")
    return cursor.line()


_UNTIL_PLACE = {
    "SOURCE_LOG_FILE": "source_file",
    "MASTER_LOG_FILE": "source_file",
    "SOURCE_LOG_POS": "source_position",
    "MASTER_LOG_POS": "source_position",
    "RELAY_LOG_FILE": "relay_file",
    "RELAY_LOG_POS": "relay_position",
}


def _until(cursor: Cursor) -> Until | None:
    until = None
    if option := cursor.accept("SQL_BEFORE_GTIDS", "SQL_AFTER_GTIDS", "MASTER_GTID_POS"):
        cursor.expect("=")
        until = Until(gtids=cursor.line(), before_gtids=option == "SQL_BEFORE_GTIDS")
    elif not cursor.accept("SQL_AFTER_MTS_GAPS"):
        return _until_place(cursor)
    if cursor.accept(","):
        _until_place(cursor)
        raise ER_BAD_REPLICA_UNTIL_COND()
    return until


def _until_place(cursor: Cursor) -> Until:
    given: dict[str, int | str] = {}
    while True:
        name = _UNTIL_PLACE[cursor.expect(*_UNTIL_PLACE)]
        cursor.expect("=")
        given[name] = cursor.line() if name.endswith("file") else cursor.position()
        if not cursor.accept(","):
            break
    match given:
        case {"source_file": str(file), "source_position": int(position)} if len(given) == 2:
            return Until(source_file=file, source_position=position)
        case {"relay_file": str(file), "relay_position": int(position)} if len(given) == 2:
            return Until(relay_file=file, relay_position=position)
    raise ER_BAD_REPLICA_UNTIL_COND()


def _stop(cursor: Cursor, now: datetime | None) -> Command | None:
    if cursor.token.word == "GROUP_REPLICATION":
        return None
    if cursor.accept("ALL"):
        cursor.expect("SLAVES", "REPLICAS")
        return StopReplica(_threads(cursor), every=True)
    cursor.expect(*_REPLICA)
    name = _connection_name(cursor)
    return StopReplica(_threads(cursor), _for_channel(cursor, name))


def _reset(cursor: Cursor, now: datetime | None) -> Command | None:
    if cursor.token.word in ("BINARY", "MASTER", "PERSIST", "QUERY"):
        return None
    cursor.expect(*_REPLICA)
    name = _connection_name(cursor)
    everything = bool(cursor.accept("ALL"))
    return ResetReplica(everything, _for_channel(cursor, name))


def _show(cursor: Cursor, now: datetime | None) -> Command | None:
    if cursor.at_end:
        cursor.fail()
    match cursor.accept("SLAVE", "REPLICA", "REPLICAS", "ALL", "MASTER", "BINARY", "BINLOG", "RELAYLOG"):
        case "SLAVE":
            if cursor.accept("HOSTS"):
                return ShowReplicas(old=True)
            return _show_status(cursor, old=True)
        case "REPLICA":
            if cursor.accept("HOSTS"):
                return ShowReplicas()
            return _show_status(cursor, old=False)
        case "REPLICAS":
            return ShowReplicas()
        case "ALL":
            old = cursor.expect("SLAVES", "REPLICAS") == "SLAVES"
            cursor.expect("STATUS")
            return ShowReplicaStatus(old=old, every=True)
        case "MASTER":
            return (
                ShowBinaryLogStatus(old=True)
                if cursor.expect("LOGS", "STATUS") == "STATUS"
                else ShowBinaryLogs()
            )
        case "BINARY":
            if cursor.expect("LOGS", "LOG") == "LOGS":
                return ShowBinaryLogs()
            cursor.expect("STATUS")
            return ShowBinaryLogStatus()
        case "BINLOG":
            if cursor.expect("EVENTS", "STATUS") == "STATUS":
                return ShowBinaryLogStatus()
            return _show_events(cursor, relay_log=False)
        case "RELAYLOG":
            name = _connection_name(cursor)
            cursor.expect("EVENTS")
            return _show_events(cursor, relay_log=True, name=name)
    return None


def _show_status(cursor: Cursor, *, old: bool) -> ShowReplicaStatus:
    name = _connection_name(cursor)
    cursor.expect("STATUS")
    return ShowReplicaStatus(_for_channel(cursor, name), old)


def _show_events(cursor: Cursor, *, relay_log: bool, name: str | None = None) -> ShowBinlogEvents:
    file = cursor.string() if cursor.accept("IN") else None
    position = cursor.position() if cursor.accept("FROM") else 4
    offset, count = 0, None
    if cursor.accept("LIMIT"):
        count = _limit(cursor)
        if cursor.accept(","):
            offset, count = count, _limit(cursor)
        elif cursor.accept("OFFSET"):
            offset = _limit(cursor)
    channel = _for_channel(cursor, name) if relay_log else None
    return ShowBinlogEvents(file, position, offset, count, relay_log, channel)


def _limit(cursor: Cursor) -> int:
    # In LIMIT, the server's grammar (limit_option) takes a name for a variable of a stored program. The console has no
    # stored programs.
    if cursor.token.kind in (TokenKind.WORD, TokenKind.QUOTED):
        name = cursor.identifier()
        raise ER_SP_UNDECLARED_VAR(name)
    return cursor.integer()


def _purge(cursor: Cursor, now: datetime | None) -> Command:
    cursor.expect("BINARY", "MASTER")
    cursor.expect("LOGS")
    if cursor.expect("TO", "BEFORE") == "TO":
        return PurgeBinaryLogs(to=cursor.string())
    warnings: list[Note] = []
    before = datetime_expression(cursor, now or datetime.now(), warnings)
    return PurgeBinaryLogs(before=before or _LONG_AGO, warnings=tuple(warnings))


def _flush(cursor: Cursor, now: datetime | None) -> Command | None:
    cursor.accept("LOCAL", "NO_WRITE_TO_BINLOG")
    if cursor.accept("PRIVILEGES") and cursor.at_end:
        return FlushPrivileges()
    return None


def _unregister(cursor: Cursor, now: datetime | None) -> Command:
    cursor.expect(*_REPLICA)
    if cursor.at_string():
        uuid = cursor.line()
        return UnregisterReplica(uuid=uuid, channel=_for_channel(cursor))
    return UnregisterReplica(cursor.integer(), channel=_for_channel(cursor))


def _drain(cursor: Cursor, now: datetime | None) -> Command:
    choice = _replica_choice(cursor)
    return DrainReplicas(choice, cursor.line() if cursor.accept("REASON") else "")


def _undrain(cursor: Cursor, now: datetime | None) -> Command:
    return UndrainReplicas(_replica_choice(cursor))


def _replica_choice(cursor: Cursor) -> ReplicaChoice:
    if cursor.accept("ALL"):
        cursor.expect("REPLICAS", "SLAVES")
        return ReplicaChoice(channel=_for_channel(cursor))
    cursor.expect(*_REPLICA)
    match cursor.accept("USER", "HOST"):
        case "USER":
            return ReplicaChoice("user", cursor.line(), _for_channel(cursor))
        case "HOST":
            return ReplicaChoice("host", cursor.line(), _for_channel(cursor))
    if cursor.at_string():
        return ReplicaChoice("uuid", cursor.line(), _for_channel(cursor))
    return ReplicaChoice("server_id", cursor.integer(), _for_channel(cursor))


_STATEMENTS: dict[str, Callable[[Cursor, datetime | None], Command | None]] = {
    "CHANGE": _change,
    "START": _start,
    "STOP": _stop,
    "RESET": _reset,
    "SHOW": _show,
    "PURGE": _purge,
    "FLUSH": _flush,
    "UNREGISTER": _unregister,
    "DRAIN": _drain,
    "UNDRAIN": _undrain,
}
"""The parsing functions by the statement's first word.

A parsing function returns None for a statement that is not about replication, such as SHOW TABLES.
"""

_PART = re.compile(
    r"""(?: [^;'"`\#/-]++
          | '(?: [^'\\]++ | \\.?+ | '' )*+ (?: ' | \Z )
          | "(?: [^"\\]++ | \\.?+ | "" )*+ (?: " | \Z )
          | `[^`]*+ (?: ` | \Z )
          | \#[^\n]*+
          | --(?=[\x00-\x20\x7f]|\Z) [^\n]*+
          | /\* (?> .*? (?: \*/ | \Z ) )
          | [/-]
        )++""",
    re.VERBOSE | re.DOTALL,
)
# The outer group of this pattern is not possessive, because Python before 3.11.5 matches such groups wrongly
# (gh-106052).
_NOTHING = re.compile(
    r"(?:[ \t\n\v\f\r]++|\#[^\n]*+|--(?=[\x00-\x20\x7f]|\Z)[^\n]*+|/\*(?!!)(?>.*?\*/))*", re.DOTALL
)


def split_statements(text: str) -> list[str]:
    """Split a text into its statements, which semicolons separate.

    A semicolon in quotes or in a comment separates nothing. A server reports a syntax error for an empty statement
    before another statement (``;; SELECT 1``). Therefore the text from the empty statement on is returned as the last
    statement, and :func:`parse_statement` reports the error for it. For a text without statements, the result is one
    empty statement. The running time is linear in the length of the text.

    >>> split_statements("SELECT ';' ; STOP REPLICA; ")
    ["SELECT ';'", 'STOP REPLICA']
    """
    end = len(text.rstrip(_SPACE + ";"))
    statements = []
    at = 0
    while at < end:
        part = _PART.match(text, at, end)
        nothing = _NOTHING.match(text, at, end)
        assert nothing is not None, "the pattern matches the empty string"
        if part is None or nothing.end() == part.end() < end:
            statements.append(text[at:end].strip(_SPACE))
            break
        statements.append(part[0].strip(_SPACE))
        at = part.end() + 1
    return statements or [""]

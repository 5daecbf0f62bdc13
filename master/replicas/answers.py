"""The answers to the queries that replicas and programs like mysqlbinlog send before they ask for a dump.

There are few such queries. They set or read session variables for heartbeats, checksums, identity and GTIDs, or read
system variables of the source. They are answered here without the SQL engine. The SQL console executes all other
statements.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dumpfilter.binlog.statement.tokens import Token, TokenKind, tokens
from dumpfilter.console.session import Session
from dumpfilter.console.settings import Assignment, read_settings
from dumpfilter.console.sql.cursor import Cursor
from dumpfilter.console.sql.plain import Item, Kind, Plain, Value, plain_select, plain_value
from dumpfilter.console.sql.result import OK, Column, ColumnType, Result
from dumpfilter.console.sql.server_errors import ER_UNKNOWN_SYSTEM_VARIABLE, SqlError
from dumpfilter.master.replicas.source import Source, gtid_position

_ABSENT = re.compile(r"rpl_semi_sync\w*")
"""The pattern of the system variables of semi-synchronous replication.

A replica that finds none of them goes on asynchronously, as at a server without the plugin. The master cannot confirm
a commit of the source.
"""

_ON = (1, "1")


class SessionState(NamedTuple):
    """The properties of a replica that it has set as user variables on its connection, such as its UUID and heartbeat
    interval.
    """

    heartbeat_seconds: float | None
    """The interval between heartbeats while no event is sent, seconds. None: the replica has set none."""
    checksum: str | None
    """The checksum algorithm that the replica expects before the first format description event. None: it does not
    know checksums.
    """
    uuid: str
    """The replica's server UUID, empty for MariaDB and for programs."""
    capability: int
    """The capability level of a MariaDB replica: which kinds of events it understands
    (``@mariadb_slave_capability``).
    """
    connect_state: str | None
    """The GTIDs that a MariaDB replica has, as text. None: the dump begins at a file and position."""
    until: str | None
    """The GTIDs after which a MariaDB replica wants to stop, as text. None: it does not stop."""
    is_strict: bool = False
    """Whether a MariaDB replica runs with ``gtid_strict_mode``."""
    ignores_duplicates: bool = False
    """Whether a MariaDB replica runs with ``gtid_ignore_duplicates``."""


def answer(statement: str, source: Source, session: Session) -> Result | None:
    """Return the result of a statement that replicas send before a dump, such as SET of user variables or SELECT of a
    system variable. Return None for a statement that the SQL console must execute.

    ``source`` is the server that wrote the binlog, and may have to read binlog files. A SET changes the user variables
    of ``session``. Raises SqlError.
    """
    if (item := plain_select(statement)) is not None:
        return _select(item, source)
    cursor = Cursor(statement)
    match cursor.advance().word:
        case "SET":
            try:
                settings = read_settings(cursor)
            except SqlError:
                return None
            return _set(settings, source, session)
        case "SHOW":
            return _show([word for word in tokens(statement) if word.value != ";"], source)
    return None


def _set(settings: Sequence[Assignment], source: Source, session: Session) -> Result | None:
    found: dict[str, Value] = {}
    for one in settings:
        if not one.is_user_variable:
            return None
        match plain_value(one.value):
            case Plain(Kind.LITERAL, value=value):
                found[one.name] = value
            case Plain(Kind.SYSTEM_VARIABLE, name):
                found[one.name] = source.variable(name)
                if found[one.name] is None:
                    raise ER_UNKNOWN_SYSTEM_VARIABLE(name)
            case _:
                return None
    for name, given in found.items():
        session.set_user_variable(name, given)
    return OK


def _select(item: Item, source: Source) -> Result | None:
    value: Value = None
    match item.plain:
        case Plain(Kind.SYSTEM_VARIABLE, name):
            if _ABSENT.fullmatch(name):
                raise ER_UNKNOWN_SYSTEM_VARIABLE(name)
            value = source.variable(name)
        case Plain(Kind.CALL, "unix_timestamp", arguments=()):
            value = int(time.time())
        case Plain(Kind.CALL, "version", arguments=()):
            value = source.version
        case Plain(Kind.CALL, "binlog_gtid_pos", arguments=(str() as file, int() as position)):
            if source.family == "mariadb":
                value = gtid_position(source.store, file, position)
                return Result([Column(item.column)], [(value,)])
    if value is None:
        return None
    kind = ColumnType.INTEGER if isinstance(value, int) else ColumnType.TEXT
    return Result([Column(item.column, kind)], [(value,)])


def _show(words: Sequence[Token], source: Source) -> Result | None:
    names = [word.word for word in words[1:] if word.word not in ("GLOBAL", "SESSION")]
    if names != ["VARIABLES", "LIKE", ""] or words[-1].kind is not TokenKind.STRING:
        return None
    columns = [Column("Variable_name"), Column("Value")]
    name = words[-1].value.lower()
    if _ABSENT.fullmatch(name.rstrip("%")):
        return Result(columns)
    value = source.variable(name)
    return None if value is None else Result(columns, [(name, str(value))])


def session_state(variables: Mapping[str, object]) -> SessionState:
    """Return the properties of a replica that its user variables state so far. ``variables`` has their values by name.

    Newer replicas call some variables ``source_…`` or ``replica_…``, and older ones ``master_…`` or ``slave_…``.
    """

    def text(name: str) -> str | None:
        value = variables.get(name)
        return None if value is None else str(value)

    period = variables.get("source_heartbeat_period", variables.get("master_heartbeat_period"))
    checksum = variables.get("source_binlog_checksum", variables.get("master_binlog_checksum"))
    uuid = variables.get("replica_uuid", variables.get("slave_uuid"))
    capability = variables.get("mariadb_slave_capability")
    return SessionState(
        heartbeat_seconds=period / 1e9 if isinstance(period, int) else None,
        checksum=None if checksum is None else str(checksum).upper(),
        uuid=uuid.lower() if isinstance(uuid, str) else "",
        capability=capability if isinstance(capability, int) else 0,
        connect_state=text("slave_connect_state"),
        until=text("slave_until_gtid"),
        is_strict=variables.get("slave_gtid_strict_mode") in _ON,
        ignores_duplicates=variables.get("slave_gtid_ignore_duplicates") in _ON,
    )

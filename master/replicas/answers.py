"""The answers to the queries that replicas and programs like mysqlbinlog send before they ask for a dump.

The queries are few and known: session variables by which the two sides agree on heartbeats, checksums, identity and
GTIDs, and the source's own variables. They are answered here without the SQL engine. All other statements go to the
console's statements.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import NamedTuple

from dumpfilter.binlog.statement.tokens import Token, TokenKind, tokens
from dumpfilter.console.session import Session
from dumpfilter.console.settings import Assignment, Names, read_settings
from dumpfilter.console.sql.cursor import Cursor
from dumpfilter.console.sql.plain import Kind, Plain, Value, plain_select, plain_value
from dumpfilter.console.sql.result import OK, Column, ColumnType, Result
from dumpfilter.console.sql.server_errors import ER_UNKNOWN_SYSTEM_VARIABLE, SqlError
from dumpfilter.master.replicas.source import Source

_ABSENT = re.compile(r"rpl_semi_sync\w*")
"""System variables of semi-synchronous replication.

A replica that finds none of them goes on asynchronously, as at a server without the plugin. The master cannot confirm
a commit of the source.
"""


_ON = (1, "1")


class SessionState(NamedTuple):
    """A replica's description of itself in session variables."""

    heartbeat_seconds: float | None
    """The time between heartbeats while nothing else is sent. None: the replica has not said."""
    checksum: str | None
    """The checksum that the replica expects before the first format description. None: it knows no checksums."""
    uuid: str
    """The replica's server UUID, empty for MariaDB and for programs."""
    capability: int
    """The kinds of events that a MariaDB replica understands (``@mariadb_slave_capability``)."""
    connect_state: str | None
    """The GTIDs that a MariaDB replica has. None: file and position tell where the dump begins."""
    until: str | None
    """The GTIDs after which a MariaDB replica wants to stop."""
    is_strict: bool = False
    """Whether a MariaDB replica runs with ``gtid_strict_mode``."""
    ignores_duplicates: bool = False
    """Whether a MariaDB replica runs with ``gtid_ignore_duplicates``."""


class Handshake:
    """The answers to the queries of one replica, and the session variables that the replica has set."""

    def __init__(self, source: Source, session: Session) -> None:
        self._source = source
        self._session = session

    def answer(self, statement: str) -> Result | None:
        """Return the answer to a statement, or None for one that the console's statements must answer.

        The method may read binlogs. Raises SqlError.
        """
        if (items := plain_select(statement)) is not None:
            return self._select(items[0].plain, items[0].column) if len(items) == 1 else None
        cursor = Cursor(statement)
        match cursor.advance().word:
            case "SET":
                try:
                    settings = read_settings(cursor)
                except SqlError:
                    return None
                return self._set(settings)
            case "SHOW":
                return self._show([word for word in tokens(statement) if word.value != ";"])
        return None

    def _set(self, settings: Sequence[Assignment | Names]) -> Result | None:
        found: dict[str, Value] = {}
        for one in settings:
            if isinstance(one, Names) or not one.is_user_variable:
                return None
            value = plain_value(one.value)
            if value is None or value.kind not in (Kind.LITERAL, Kind.SYSTEM_VARIABLE):
                return None
            found[one.name] = value.value if value.kind is Kind.LITERAL else self._variable(value.name)
        for name, given in found.items():
            self._session.set_user_variable(name, given)
        return OK

    def _variable(self, name: str) -> Value:
        value = self._source.variable(name)
        if value is None:
            raise ER_UNKNOWN_SYSTEM_VARIABLE(name)
        return value

    def _select(self, plain: Plain, column: str) -> Result | None:
        value: Value = None
        match plain:
            case Plain(Kind.SYSTEM_VARIABLE, name):
                if _ABSENT.fullmatch(name):
                    raise ER_UNKNOWN_SYSTEM_VARIABLE(name)
                value = self._source.variable(name)
            case Plain(Kind.CALL, "unix_timestamp", arguments=()):
                value = int(time.time())
            case Plain(Kind.CALL, "version", arguments=()):
                value = self._source.version
            case Plain(Kind.CALL, "binlog_gtid_pos", arguments=(str() as file, int() as position)):
                if self._source.family == "mariadb":
                    return _one(column, self._source.gtid_position(file, position))
        return None if value is None else _one(column, value)

    def _show(self, words: Sequence[Token]) -> Result | None:
        names = [word.word for word in words[1:] if word.word not in ("GLOBAL", "SESSION")]
        if names != ["VARIABLES", "LIKE", ""] or words[-1].kind is not TokenKind.STRING:
            return None
        columns = [Column("Variable_name"), Column("Value")]
        name = words[-1].value.lower()
        if _ABSENT.fullmatch(name.rstrip("%")):
            return Result(columns)
        value = self._source.variable(name)
        return None if value is None else Result(columns, [(name, str(value))])

    @property
    def state(self) -> SessionState:
        """The replica's description of itself so far."""
        period = self._either("heartbeat_period")
        checksum = self._either("binlog_checksum")
        uuid = self._session.user_variables.get(
            "replica_uuid", self._session.user_variables.get("slave_uuid")
        )
        capability = self._session.user_variables.get("mariadb_slave_capability")
        return SessionState(
            heartbeat_seconds=period / 1e9 if isinstance(period, int) else None,
            checksum=None if checksum is None else str(checksum).upper(),
            uuid=uuid.lower() if isinstance(uuid, str) else "",
            capability=capability if isinstance(capability, int) else 0,
            connect_state=self._text("slave_connect_state"),
            until=self._text("slave_until_gtid"),
            is_strict=self._session.user_variables.get("slave_gtid_strict_mode") in _ON,
            ignores_duplicates=self._session.user_variables.get("slave_gtid_ignore_duplicates") in _ON,
        )

    def _either(self, name: str) -> object:
        """Return a variable that newer replicas call ``source_…`` and older ones ``master_…``."""
        return self._session.user_variables.get(
            f"source_{name}", self._session.user_variables.get(f"master_{name}")
        )

    def _text(self, name: str) -> str | None:
        value = self._session.user_variables.get(name)
        return None if value is None else str(value)


def _one(name: str, value: Value) -> Result:
    kind = ColumnType.INTEGER if isinstance(value, int) else ColumnType.TEXT
    return Result([Column(name, kind)], [(value,)])

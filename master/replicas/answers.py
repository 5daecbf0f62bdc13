"""The answers to the queries that replicas and programs like mysqlbinlog send before they ask for a dump.

The queries are few and known: session variables by which the two sides agree on heartbeats, checksums, identity and
GTIDs, and the source's own variables. They are answered here without the SQL engine. All other statements go to the
console's statements.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dumpfilter.binlog.format import Family
from dumpfilter.sql.result import OK, Column, ColumnType, Result
from dumpfilter.sql.server_errors import ER_OUT_OF_CONSOLE_MEMORY, ER_UNKNOWN_SYSTEM_VARIABLE

Value = str | int | None

MAX_VARIABLES = 64
"""The most user variables that a replica can set."""
MAX_VARIABLES_TEXT = 1 << 20
"""The most characters that the names and values of a replica's user variables have together."""

_LONGEST_NAME = 64

_VALUE = r"""-?\d{1,20}|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|@@(?:global\.)?\w+|null"""
_SET_NAMES = re.compile(r"set\s+names\s+['\"]?\w+['\"]?(?:\s+collate\s+['\"]?\w+['\"]?)?", re.IGNORECASE)
_SET = re.compile(r"set\s+(?=@[^@])", re.IGNORECASE)
_ASSIGNMENT = re.compile(rf"@(\w+)\s*:?=\s*({_VALUE})\s*(,|$)\s*", re.IGNORECASE | re.DOTALL)
_SELECT = re.compile(
    r"select\s+(?P<text>@@(?:global\.|session\.)?(?P<system>\w+)|@(?P<user>\w+)|(?P<function>\w+)\s*\(\s*"
    r"(?P<arguments>'[^'\\]*'\s*,\s*\d{1,10}\s*)?\))(?:\s+as\s+(?P<alias>\w+))?",
    re.IGNORECASE,
)
_SHOW = re.compile(r"show\s+(?:(?:global|session)\s+)?variables\s+like\s+'(?P<name>[\w%]+)'", re.IGNORECASE)
_ARGUMENTS = re.compile(r"'([^']*)'\s*,\s*(\d+)")
_ESCAPED = re.compile(r"\\(.)|''|\"\"", re.DOTALL)

_ABSENT = re.compile(r"rpl_semi_sync\w*")
"""System variables of semi-synchronous replication.

A replica that finds none of them goes on asynchronously, as at a server without the plugin. The master cannot confirm
a commit of the source.
"""


@dataclass(frozen=True)
class Source:
    """The facts about the server that wrote the binlog, as replicas ask for them."""

    family: Family
    version: str
    server_id: int
    server_uuid: str
    has_checksums: Callable[[], bool]
    """Tell whether the newest events end in a checksum. The function may read binlogs."""
    row_metadata: Callable[[], str]
    """Return ``binlog_row_metadata``. The function may read binlogs."""
    gtid_mode: Callable[[], str]
    """Return MySQL's ``gtid_mode``. The function may read binlogs."""
    gtid_position: Callable[[str, int], str | None]
    """Return MariaDB's GTID position at a place in a binlog file. The function may read binlogs."""

    def variable(self, name: str) -> Value:
        """Return a system variable of the server, or None if replicas do not ask for it. ``name`` is in lower case."""
        fixed: dict[str, Value] = {"server_id": self.server_id, "version": self.version}
        if name in fixed:
            return fixed[name]
        if name == "binlog_checksum":
            return "CRC32" if self.has_checksums() else "NONE"
        if name == "binlog_row_metadata":
            return self.row_metadata()
        if self.family == "mariadb":
            # The id belongs to events without GTIDs, from servers before MariaDB 10.0.
            return 0 if name == "gtid_domain_id" else None
        if name == "gtid_mode":
            return self.gtid_mode()
        return self.server_uuid if name == "server_uuid" else None


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
    """The session variables of one replica, and the answers to its queries."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.variables: dict[str, Value] = {}
        """The user variables (``@x``) that the replica has set, by names in lower case."""

    def answer(self, statement: str) -> Result | None:
        """Return the answer to a statement, or None for one that the console's statements must answer.

        The method may read binlogs. Raises SqlError.
        """
        text = statement.strip().rstrip(";").rstrip()
        if _SET_NAMES.fullmatch(text):
            return OK
        if (begin := _SET.match(text)) is not None:
            return self._set(text[begin.end() :])
        if (select := _SELECT.fullmatch(text)) is not None:
            return self._select(select)
        if (show := _SHOW.fullmatch(text)) is not None:
            return self._show(show["name"])
        return None

    def _set(self, assignments: str) -> Result | None:
        found: dict[str, Value] = {}
        at = 0
        while at < len(assignments):
            one = _ASSIGNMENT.match(assignments, at)
            if one is None:
                return None
            found[one[1].lower()] = self._value(one[2])
            at = one.end()
            is_last = at == len(assignments)
            if bool(one[3]) == is_last:
                return None
        self._keep(found)
        return OK

    def _keep(self, found: Mapping[str, Value]) -> None:
        changed = {**self.variables, **found}
        size = sum(len(name) + len(str(value)) for name, value in changed.items())
        if len(changed) > MAX_VARIABLES or size > MAX_VARIABLES_TEXT or max(map(len, found)) > _LONGEST_NAME:
            raise ER_OUT_OF_CONSOLE_MEMORY("a replica may keep 64 user variables with 1 MiB")
        self.variables = changed

    def _value(self, literal: str) -> Value:
        if literal[0] in "'\"":
            return _ESCAPED.sub(lambda one: one[1] or one[0][0], literal[1:-1])
        if literal.startswith("@@"):
            name = literal.rpartition(".")[2].lstrip("@").lower()
            value = self._source.variable(name)
            if value is None:
                raise ER_UNKNOWN_SYSTEM_VARIABLE(name)
            return value
        return None if literal.lower() == "null" else int(literal)

    def _select(self, select: re.Match[str]) -> Result | None:
        name = select["alias"] or select["text"]
        if select["user"] is not None:
            if select["user"].lower() not in self.variables:
                # Programs may use variables that the console's statements have set.
                return None
            return _one(name, self.variables[select["user"].lower()])
        if select["system"] is not None:
            system = select["system"].lower()
            if _ABSENT.fullmatch(system):
                raise ER_UNKNOWN_SYSTEM_VARIABLE(system)
            value = self._source.variable(system)
            return None if value is None else _one(name, value)
        function = select["function"].lower()
        if function == "binlog_gtid_pos" and select["arguments"] and self._source.family == "mariadb":
            place = _ARGUMENTS.match(select["arguments"])
            assert place is not None
            return _one(name, self._source.gtid_position(place[1], int(place[2])))
        if select["arguments"]:
            return None
        if function == "unix_timestamp":
            return _one(name, int(time.time()))
        return _one(name, self._source.version) if function == "version" else None

    def _show(self, pattern: str) -> Result | None:
        columns = [Column("Variable_name"), Column("Value")]
        name = pattern.lower()
        if _ABSENT.fullmatch(name.rstrip("%")):
            return Result(columns)
        value = self._source.variable(name)
        return None if value is None else Result(columns, [(name, str(value))])

    @property
    def state(self) -> SessionState:
        """The replica's description of itself so far."""
        period = self._either("heartbeat_period")
        checksum = self._either("binlog_checksum")
        uuid = self.variables.get("replica_uuid", self.variables.get("slave_uuid"))
        capability = self.variables.get("mariadb_slave_capability")
        return SessionState(
            heartbeat_seconds=period / 1e9 if isinstance(period, int) else None,
            checksum=None if checksum is None else str(checksum).upper(),
            uuid=uuid.lower() if isinstance(uuid, str) else "",
            capability=capability if isinstance(capability, int) else 0,
            connect_state=self._text("slave_connect_state"),
            until=self._text("slave_until_gtid"),
            is_strict=self.variables.get("slave_gtid_strict_mode") in _ON,
            ignores_duplicates=self.variables.get("slave_gtid_ignore_duplicates") in _ON,
        )

    def _either(self, name: str) -> Value:
        """Return a variable that newer replicas call ``source_…`` and older ones ``master_…``."""
        return self.variables.get(f"source_{name}", self.variables.get(f"master_{name}"))

    def _text(self, name: str) -> str | None:
        value = self.variables.get(name)
        return None if value is None else str(value)


def _one(name: str, value: Value) -> Result:
    kind = ColumnType.INTEGER if isinstance(value, int) else ColumnType.TEXT
    return Result([Column(name, kind)], [(value,)])

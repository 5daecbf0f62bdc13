"""The values of each statement about replication, as classes whose fields have the statement's defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import dumpfilter.master.console  # noqa: F401 — It declares statements.
from dumpfilter.console.sql import commands
from dumpfilter.console.sql.commands import Threads
from dumpfilter.console.sql.result import Note
from dumpfilter.filter.rules import FilterClause


@dataclass(frozen=True, kw_only=True)
class Command:
    """The values that many statements have."""

    channel: str | None = None
    old: bool = False
    every: bool = False


@dataclass(frozen=True)
class ChangeReplicationFilter(Command):
    clauses: tuple[FilterClause, ...]


@dataclass(frozen=True)
class ChangeReplicaFilter(Command):
    clauses: tuple[FilterClause, ...]
    user: str
    server_id: int | None = None


@dataclass(frozen=True)
class ChangeSource(Command):
    options: tuple[tuple[str, str | int | float | tuple[int, ...] | None], ...]
    clauses: tuple[FilterClause, ...] = ()


@dataclass(frozen=True)
class ChangeBinlog(Command):
    name: str
    clauses: tuple[FilterClause, ...]


@dataclass(frozen=True)
class Until:
    """The condition of START REPLICA UNTIL, a position or a GTID set."""

    log: str | None = None
    file: str = ""
    position: int = 0
    gtids: str = ""
    before: bool = False


@dataclass(frozen=True)
class StartReplica(Command):
    threads: Threads = Threads.BOTH
    until: Until | None = None
    user: str | None = None
    password: str | None = None
    default_auth: str | None = field(default=None, compare=False)
    plugin_dir: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class StopReplica(Command):
    threads: Threads = Threads.BOTH


@dataclass(frozen=True)
class ResetReplica(Command):
    all: bool = False


class ShowReplicaStatus(Command):
    pass


class ShowReplicas(Command):
    pass


class ShowBinaryLogStatus(Command):
    pass


class ShowBinaryLogs(Command):
    pass


@dataclass(frozen=True)
class ShowBinlogEvents(Command):
    file: str | None = None
    position: int = 4
    offset: int = 0
    count: int | None = None
    relay_log: bool = False


@dataclass(frozen=True)
class PurgeBinaryLogs(Command):
    to: str | None = None
    before: datetime | None = None
    warnings: tuple[Note, ...] = ()


class FlushPrivileges(Command):
    pass


@dataclass(frozen=True, kw_only=True)
class OfSlaves(Command):
    uuid: str | None = None
    server_id: int | None = None
    user: str | None = None
    host: str | None = None
    reason: str = ""


class UnregisterReplica(OfSlaves):
    pass


class Drain(OfSlaves):
    pass


class Undrain(OfSlaves):
    pass


METHODS = {
    re.sub(r"(?=[A-Z])", "_", one.__name__).lower(): one
    for one in (*Command.__subclasses__(), *OfSlaves.__subclasses__())
}
del METHODS["_of_slaves"]
METHODS["_change_replication_source_to"] = METHODS.pop("_change_source")
METHODS["_change_replication_filter_for_replica"] = METHODS.pop("_change_replica_filter")
"""The classes by the names of the methods that carry the statements out."""


def as_class(command: commands.Command) -> Command:
    """Return a parsed statement as an object of its class."""
    made: Any = METHODS[command.method]
    until = command.values.get("until")
    return made(**command.values | ({} if until is None else {"until": Until(**until)}))  # type: ignore[no-any-return]


def parsed(text: str) -> Any:
    """Parse a statement, and return an object of its class. Raises SqlError."""
    found = commands.parse_statement(text)
    return as_class(found) if isinstance(found.method, str) else found

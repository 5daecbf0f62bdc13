"""The commands, as the parser gives them: values only, nothing is looked up or checked against a state.

A ``channel`` of None means that the statement has no FOR CHANNEL clause; ``""`` is the default channel.
``old`` says that the statement was written with the old words (SLAVE, MASTER), which name the columns of
what it shows.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime

from dumpfilter.filter.rules import FilterClause as FilterClause
from dumpfilter.sql.result import Note


class Threads(enum.Flag):
    """Which threads START and STOP are about."""

    IO = enum.auto()
    SQL = enum.auto()
    BOTH = IO | SQL


@dataclass(frozen=True)
class Command:
    """Base of all commands."""


@dataclass(frozen=True)
class ChangeReplicationFilter(Command):
    """WL#7057 and WL#7361. Clauses as written: of several of one kind the last one counts."""

    clauses: tuple[FilterClause, ...]
    channel: str | None = None


@dataclass(frozen=True)
class ChangeSource(Command):
    """``CHANGE MASTER TO`` / ``CHANGE REPLICATION SOURCE TO``, WL#2387's and WL#2516's extensions among the options.

    ``options`` are by their new names without the prefix SOURCE_: ``HOST``, ``PORT``, ``USER``, ``PASSWORD``,
    ``LOG_FILE``, ``LOG_POS``, ``AUTO_POSITION``, ``CONNECT_RETRY``, ``RETRY_COUNT``, ``HEARTBEAT_PERIOD``,
    ``IGNORE_SERVER_IDS``, ``DO_DOMAIN_IDS``, ``IGNORE_DOMAIN_IDS`` (tuples of int), ``USE_GTID``, ``FILTER_ON``
    (``MASTER``, ``SLAVE``, ``BOTH``; ours), and the server's others, which are parsed and told as not supported.
    """

    options: tuple[tuple[str, str | int | float | tuple[int, ...] | None], ...]
    clauses: tuple[FilterClause, ...] = ()
    """Filter rules, classic or effective; each clause replaces the rules of its kind. REPLICATE-DO-DB='a',
    REPLICATE-DO-DB='b' is one clause of two rules."""
    channel: str | None = None
    old: bool = False


@dataclass(frozen=True)
class ChangeBinlog(Command):
    """``CHANGE BINLOG 'bar' TO DO='db1.%', IGNORE='%_backup.table2'`` (WL#2516)."""

    name: str
    clauses: tuple[FilterClause, ...]


@dataclass(frozen=True)
class Until:
    """``START REPLICA … UNTIL``."""

    source_file: str = ""
    source_position: int = 0
    relay_file: str = ""
    relay_position: int = 0
    gtids: str = ""
    before_gtids: bool = False


@dataclass(frozen=True)
class StartReplica(Command):
    """``START {SLAVE|REPLICA}``. ``every`` is MariaDB's START ALL SLAVES."""

    threads: Threads = Threads.BOTH
    channel: str | None = None
    until: Until | None = None
    user: str | None = None
    password: str | None = None
    every: bool = False


@dataclass(frozen=True)
class StopReplica(Command):
    """``STOP {SLAVE|REPLICA}``. ``every`` is MariaDB's STOP ALL SLAVES."""

    threads: Threads = Threads.BOTH
    channel: str | None = None
    every: bool = False


@dataclass(frozen=True)
class ResetReplica(Command):
    """``RESET {SLAVE|REPLICA} [ALL]``."""

    all: bool = False
    channel: str | None = None


@dataclass(frozen=True)
class ShowReplicaStatus(Command):
    """``SHOW {SLAVE|REPLICA} STATUS``. ``every`` is MariaDB's SHOW ALL SLAVES STATUS."""

    channel: str | None = None
    old: bool = False
    every: bool = False


@dataclass(frozen=True)
class ShowReplicas(Command):
    """``SHOW SLAVE HOSTS`` / ``SHOW REPLICAS``."""

    old: bool = False


@dataclass(frozen=True)
class ShowBinaryLogStatus(Command):
    """``SHOW MASTER STATUS`` / ``SHOW BINARY LOG STATUS``."""

    old: bool = False


@dataclass(frozen=True)
class ShowBinaryLogs(Command):
    """``SHOW {BINARY|MASTER} LOGS``."""


@dataclass(frozen=True)
class ShowBinlogEvents(Command):
    """``SHOW BINLOG EVENTS [IN 'file'] [FROM position] [LIMIT [offset,] count]``; of the relay log with
    ``relay_log`` (``SHOW RELAYLOG EVENTS … [FOR CHANNEL]``)."""

    file: str | None = None
    position: int = 4
    offset: int = 0
    count: int | None = None
    relay_log: bool = False
    channel: str | None = None


@dataclass(frozen=True)
class PurgeBinaryLogs(Command):
    """``PURGE {BINARY|MASTER} LOGS {TO 'file' | BEFORE datetime}``; exactly one of them is set."""

    to: str | None = None
    before: datetime | None = None
    """Without a time zone: the local one's. NULL, and what is no datetime, is the beginning of 1970."""
    warnings: tuple[Note, ...] = ()
    """What is to be said about the datetime, before anything else."""


@dataclass(frozen=True)
class Query(Command):
    """A statement that is not the product's own: SELECT, SET, USE, SHOW VARIABLES … For the session to answer."""

    text: str

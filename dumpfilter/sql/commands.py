"""The commands that the parser returns. They are values: the parser looks up nothing and knows no state.

A ``channel`` of None means that the statement has no FOR CHANNEL clause; ``""`` is the default channel.
``old`` tells that the statement has the old words (SLAVE, MASTER). They choose the names of the shown columns.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime

from dumpfilter.filter.rules import FilterClause as FilterClause
from dumpfilter.sql.result import Note


class Threads(enum.Flag):
    """The replication threads that START and STOP name."""

    IO = enum.auto()
    SQL = enum.auto()
    BOTH = IO | SQL


@dataclass(frozen=True)
class Command:
    """The base of all commands."""


@dataclass(frozen=True)
class ChangeReplicationFilter(Command):
    """``CHANGE REPLICATION FILTER`` (WL#7057, WL#7361).

    The clauses are as written. Of several clauses of the same kind the last one counts.
    """

    clauses: tuple[FilterClause, ...]
    channel: str | None = None


@dataclass(frozen=True)
class ChangeSource(Command):
    """``CHANGE MASTER TO`` / ``CHANGE REPLICATION SOURCE TO``, with the extensions of WL#2387 and WL#2516.

    ``options`` have their new names without the prefix SOURCE_. The slave knows these:

    - ``HOST``, ``PORT``, ``USER``, ``PASSWORD``, ``LOG_FILE``, ``LOG_POS``, ``AUTO_POSITION``,
    - ``CONNECT_RETRY``, ``RETRY_COUNT``, ``HEARTBEAT_PERIOD``, ``USE_GTID``,
    - ``IGNORE_SERVER_IDS``, ``DO_DOMAIN_IDS``, ``IGNORE_DOMAIN_IDS``: tuples of int,
    - ``FILTER_ON``: ``MASTER``, ``SLAVE`` or ``BOTH``, an option of this product.

    The parser accepts the server's other options too, and the slave answers that it does not support them.
    """

    options: tuple[tuple[str, str | int | float | tuple[int, ...] | None], ...]
    clauses: tuple[FilterClause, ...] = ()
    """The filter rules among the options, classic or effective. Each clause replaces the rules of its kind.

    REPLICATE-DO-DB='a', REPLICATE-DO-DB='b' is one clause of two rules.
    """
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
    """``PURGE {BINARY|MASTER} LOGS {TO 'file' | BEFORE datetime}``. Exactly one of the two is set."""

    to: str | None = None
    before: datetime | None = None
    """The local time, without a time zone. NULL and texts that are no datetime are the beginning of 1970."""
    warnings: tuple[Note, ...] = ()
    """Warnings about the datetime. They come before the other warnings of the statement."""


@dataclass(frozen=True)
class Query(Command):
    """A statement that is no command: SELECT, SET, USE, SHOW VARIABLES … The session answers it."""

    text: str

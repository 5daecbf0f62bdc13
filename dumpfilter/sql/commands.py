"""The commands that the parser of the console's statements returns, one class for each kind of statement.

A command only holds the values that the statement contains. The parser checks no channel or file for existence.

In all commands, a ``channel`` of None means that the statement has no FOR CHANNEL clause. The default channel is "".
``old`` is true for a statement with the older words SLAVE or MASTER. The result then has the older column names.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from dumpfilter.filter.rules import FilterClause as FilterClause
from dumpfilter.sql.result import Note


class Threads(enum.Flag):
    """The replication threads that a START REPLICA or STOP REPLICA statement names."""

    IO = enum.auto()
    SQL = enum.auto()
    BOTH = IO | SQL


@dataclass(frozen=True)
class Command:
    """The base class of all commands that a client's statement can be parsed into."""


@dataclass(frozen=True)
class ChangeReplicationFilter(Command):
    """The statement ``CHANGE REPLICATION FILTER`` (WL#7057, WL#7361).

    ``clauses`` are in the order of the statement. If two clauses set the same kind of rule (such as
    REPLICATE_DO_DB), the last of them wins.
    """

    clauses: tuple[FilterClause, ...]
    channel: str | None = None


@dataclass(frozen=True)
class ChangeReplicaFilter(Command):
    """The statement ``CHANGE REPLICATION FILTER … FOR REPLICA 'user' [SERVER_ID n] [FOR CHANNEL 'name']``.

    This product's statement changes the filter that a master holds for a user's real replicas. User, server id and
    channel name one ``[[replica]]`` of the master's configuration.
    """

    clauses: tuple[FilterClause, ...]
    user: str
    server_id: int | None = None
    channel: str | None = None


@dataclass(frozen=True)
class ChangeSource(Command):
    """The statement ``CHANGE MASTER TO`` or ``CHANGE REPLICATION SOURCE TO``.

    WL#2387 and WL#2516 extend the statement by filter rules, which are in ``clauses``. Each entry of ``options`` is
    an option's name and value. The name is the newer one (SOURCE instead of MASTER) without the prefix SOURCE_. The
    slave carries out these options.

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
    channel: str | None = None
    old: bool = False


@dataclass(frozen=True)
class ChangeBinlog(Command):
    """The statement ``CHANGE BINLOG 'bar' TO DO='db1.%', IGNORE='%_backup.table2'``.

    WL#2516 proposes this statement to set the filter rules of a named binlog.
    """

    name: str
    clauses: tuple[FilterClause, ...]


@dataclass(frozen=True)
class Until:
    """The condition of ``START REPLICA … UNTIL``, at which the replication threads stop.

    The condition is either a source's file and position, a relay log's file and position, or a GTID set. The fields of
    the kinds of condition that the statement does not use stay empty.
    """

    source_file: str = ""
    source_position: int = 0
    relay_file: str = ""
    relay_position: int = 0
    gtids: str = ""
    before_gtids: bool = False


@dataclass(frozen=True)
class StartReplica(Command):
    """The statement ``START {SLAVE|REPLICA}``.

    ``every`` is true for MariaDB's START ALL SLAVES, which starts all channels.
    """

    threads: Threads = Threads.BOTH
    channel: str | None = None
    until: Until | None = None
    user: str | None = None
    password: str | None = None
    every: bool = False


@dataclass(frozen=True)
class StopReplica(Command):
    """The statement ``STOP {SLAVE|REPLICA}``.

    ``every`` is true for MariaDB's STOP ALL SLAVES, which stops all channels.
    """

    threads: Threads = Threads.BOTH
    channel: str | None = None
    every: bool = False


@dataclass(frozen=True)
class ResetReplica(Command):
    """The statement ``RESET {SLAVE|REPLICA} [ALL]``, which deletes the relay log and the position in the source's log.

    With ALL it also deletes the connection settings of the channel.
    """

    all: bool = False
    channel: str | None = None


@dataclass(frozen=True)
class ShowReplicaStatus(Command):
    """The statement ``SHOW {SLAVE|REPLICA} STATUS``.

    ``every`` is true for MariaDB's SHOW ALL SLAVES STATUS, which shows all channels.
    """

    channel: str | None = None
    old: bool = False
    every: bool = False


@dataclass(frozen=True)
class ShowReplicas(Command):
    """The statement ``SHOW SLAVE HOSTS`` or ``SHOW REPLICAS``, which lists the slaves of a master."""

    old: bool = False


@dataclass(frozen=True)
class ShowBinaryLogStatus(Command):
    """The statement ``SHOW MASTER STATUS`` or ``SHOW BINARY LOG STATUS``."""

    old: bool = False


@dataclass(frozen=True)
class ShowBinaryLogs(Command):
    """The statement ``SHOW {BINARY|MASTER} LOGS``."""


@dataclass(frozen=True)
class ShowBinlogEvents(Command):
    """The statement ``SHOW BINLOG EVENTS [IN 'file'] [FROM position] [LIMIT [offset,] count]``.

    If ``relay_log`` is true, the statement is ``SHOW RELAYLOG EVENTS … [FOR CHANNEL]``. Only that one has a channel.
    """

    file: str | None = None
    position: int = 4
    offset: int = 0
    count: int | None = None
    relay_log: bool = False
    channel: str | None = None


@dataclass(frozen=True)
class PurgeBinaryLogs(Command):
    """The statement ``PURGE {BINARY|MASTER} LOGS {TO 'file' | BEFORE datetime}``.

    Either ``to`` (a file name) or ``before`` is set, and the other is None.
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


@dataclass(frozen=True)
class FlushPrivileges(Command):
    """The statement ``FLUSH [LOCAL | NO_WRITE_TO_BINLOG] PRIVILEGES``, which reads the configuration of users again."""


@dataclass(frozen=True)
class UnregisterReplica(Command):
    """The statement ``UNREGISTER REPLICA {server_id | 'uuid'} [FOR CHANNEL 'name']`` of this product.

    It ends the registrations of a slave with a master. Either ``server_id`` or ``uuid`` is set. A channel of None means
    all channels.
    """

    server_id: int | None = None
    uuid: str | None = None
    channel: str | None = None


@dataclass(frozen=True)
class ReplicaChoice:
    """The replicas that a DRAIN or UNDRAIN statement names: all, or those with one server id, UUID, user or host."""

    by: Literal["all", "server_id", "uuid", "user", "host"] = "all"
    value: str | int = ""
    channel: str | None = None


@dataclass(frozen=True)
class DrainReplicas(Command):
    """The statement ``DRAIN {REPLICA … | ALL REPLICAS} [FOR CHANNEL 'name'] [REASON 'text']`` of this product.

    The dumps of these replicas end between two transactions, and the master refuses the replicas until UNDRAIN.
    """

    choice: ReplicaChoice
    reason: str = ""


@dataclass(frozen=True)
class UndrainReplicas(Command):
    """The statement ``UNDRAIN {REPLICA … | ALL REPLICAS} [FOR CHANNEL 'name']`` of this product."""

    choice: ReplicaChoice


@dataclass(frozen=True)
class Query(Command):
    """A statement that is not about replication, such as SELECT, SET, USE or SHOW VARIABLES.

    The parser keeps only the ``text``, without checking it. The client's session answers the statement.
    """

    text: str

"""A small executor for the console's tests: two tables, a channel that starts and stops, and slow commands."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Mapping

from dumpfilter.base.errors import ConnectionLost
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.commands import Command
from dumpfilter.console.sql.result import OK, Column, ColumnType, Note, Result
from tests.console.sql.parsed import (
    ChangeReplicationFilter,
    ResetReplica,
    ShowReplicas,
    ShowReplicaStatus,
    StartReplica,
    StopReplica,
    as_class,
)

FILTERS = Result(
    [
        Column("CHANNEL_NAME"),
        Column("FILTER_NAME"),
        Column("FILTER_RULE"),
        Column("CONFIGURED_BY"),
        Column("ACTIVE_SINCE", ColumnType.TIMESTAMP),
        Column("COUNTER", ColumnType.INTEGER),
    ],
    [
        ("", "REPLICATE_DO_DB", "shop", "STARTUP_OPTIONS", datetime.datetime(2026, 11, 21, 10, 0, 0), 5),
        (
            "Ch1",
            "REPLICATE_DO_DB",
            "db1,db2",
            "STARTUP_OPTIONS_FOR_CHANNEL",
            datetime.datetime(2026, 11, 21, 11, 0, 0, 250),
            7,
        ),
        (
            "ch2",
            "REPLICATE_WILD_DO_TABLE",
            "a\\_%.é",
            "CHANGE_REPLICATION_FILTER_FOR_CHANNEL",
            datetime.datetime(2026, 11, 22),
            0,
        ),
    ],
)
STATUS = Result(
    [Column("CHANNEL_NAME"), Column("SERVICE_STATE"), Column("REMAINING_DELAY", ColumnType.INTEGER)],
    [("", "ON", None), ("ch1", "OFF", None)],
)


class SmallExecutor:
    """An executor with the default channel only. Its STOP REPLICA waits for ``release``."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        """Set when STOP REPLICA has begun."""
        self.release = threading.Event()
        self.commands: list[Command] = []

    def execute(self, command: Command) -> Result:
        self.commands.append(command)
        match as_class(command):
            case StopReplica():
                self.stopping.set()
                self.release.wait()
                return OK
            case StartReplica():
                return Result(notes=[server_errors.ER_REPLICA_CHANNEL_WAS_RUNNING.note("")])
            case ChangeReplicationFilter(clauses, channel=None):
                return Result(
                    affected=len(clauses), notes=[Note("Warning", 1, "one"), Note("Note", 2, "two")]
                )
            case ChangeReplicationFilter(channel=str(channel)):
                raise server_errors.ER_REPLICA_CHANNEL_DOES_NOT_EXIST(channel)
            case ShowReplicaStatus():
                return Result(
                    [Column("Replica_IO_State"), Column("Source_Port", ColumnType.INTEGER)], [("", 3306)]
                )
            case ResetReplica():
                raise ConnectionLost("127.0.0.1:3307 does not answer")
            case ShowReplicas():
                raise RuntimeError("a defect")
        return OK

    tables: Mapping[tuple[str, str], Callable[[], Result]] = {
        ("performance_schema", "replication_applier_filters"): lambda: FILTERS,
        ("performance_schema", "replication_applier_status"): lambda: STATUS,
    }

    functions: Mapping[str, Callable[..., int | None]] = {}
    version = "8.0.0-dumpfilter-0.1.0"

    def variables(self) -> Mapping[str, str | int]:
        return {"version": self.version, "server_id": 7, "server_uuid": "6b8e"}

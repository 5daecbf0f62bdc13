"""The rows of SHOW REPLICA STATUS, and of the tables about replication channels in performance_schema and dumpfilter.

:mod:`dumpfilter.sql.columns` defines the columns of the tables that a server has, too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.errors import (
    BinlogError,
    ConnectionLost,
    DumpfilterError,
    DumpTakenOver,
    RegistrationRefused,
    SlaveIncident,
    TlsError,
)
from dumpfilter.filter.channels import ChannelFilters, Setting
from dumpfilter.filter.convert import filter_from_proto
from dumpfilter.filter.rules import RuleKind
from dumpfilter.slave.channel import Channel, ChannelState
from dumpfilter.slave.lag import relay_lag
from dumpfilter.slave.slave import Configured
from dumpfilter.slave.threads.worker import Worker
from dumpfilter.sql.columns import PERFORMANCE_SCHEMA, replica_status_columns
from dumpfilter.sql.commands import Threads
from dumpfilter.sql.result import Column, ColumnType, Table

_I = ColumnType.INTEGER
_STATUS = [column.name for column in replica_status_columns()]
_NEVER = "0000-00-00 00:00:00.000000"

# Error numbers that a server shows in SHOW REPLICA STATUS for the errors that end a thread, with the server's names.
ER_SOURCE_FATAL_ERROR_READING_BINLOG = 1236
ER_REPLICA_INCIDENT = 1590
ER_REPLICA_FATAL_ERROR = 1593
ER_REPLICA_RELAY_LOG_READ_FAILURE = 1594
ER_REPLICA_RELAY_LOG_WRITE_FAILURE = 1595
ER_REPLICA_SOURCE_COM_FAILURE = 1597
CR_CONN_HOST_ERROR = 2003
CR_SSL_CONNECTION_ERROR = 2026


@dataclass(frozen=True)
class Seen:
    """A channel, with the places of its threads at one moment. Everything in a row is computed from these places."""

    configured: Configured
    state: ChannelState

    def lag(self) -> tuple[int, float | None]:
        """Return the bytes that are received and not applied, and the age of the first of them in seconds."""
        applied, received = self.state
        found = relay_lag(
            self.configured.directory, applied.relay_position, received.relay_position, time.time()
        )
        return found.lag_bytes, found.lag_seconds


def look(channels: Sequence[Configured]) -> list[Seen]:
    """Return the channels with their places at this moment."""
    return [Seen(one, one.channel.now()) for one in channels]


def status_row(seen: Seen, filters: ChannelFilters, executed: str) -> list[Any]:
    """Return the values of one channel's row in SHOW REPLICA STATUS, in the order of the columns.

    ``executed`` is the GTID set that all channels of the slave have applied. A server shows this set for every
    channel.
    """
    configured = seen.configured
    info, channel = configured.info, configured.channel
    relay, master = seen.state
    until, until_file, until_position = ("None", "", 0) if channel.until is None else channel.until.shown
    rules = {setting.kind: setting.rule_text for setting in filters.settings(info.channel)}
    io_number, io_text, io_time = io_error(channel)
    sql_number, sql_text, sql_time = sql_error(channel.sql_worker)
    values: dict[str, Any] = dict.fromkeys(_STATUS, "")
    values |= {
        "Replica_IO_State": channel.io.state if channel.io_worker.running else "",
        "Source_Host": info.host,
        "Source_User": info.user,
        "Source_Port": info.port,
        "Connect_Retry": math.ceil(info.connect_retry),
        "Source_Log_File": master.source_file or info.log_file,
        "Read_Source_Log_Pos": master.source_position or info.log_pos,
        "Relay_Log_File": relay.relay_file or "relay-bin.000001",
        "Relay_Log_Pos": relay.relay_offset or 4,
        "Relay_Source_Log_File": relay.source_file or info.log_file,
        "Replica_IO_Running": io_running(channel),
        "Replica_SQL_Running": "Yes" if channel.sql_worker.running else "No",
        **{kind.status_column: rules.get(kind, "") for kind in RuleKind},
        "Last_Errno": sql_number,
        "Last_Error": sql_text,
        "Skip_Counter": 0,
        "Exec_Source_Log_Pos": relay.source_position or (info.log_pos if info.log_file else 0),
        "Relay_Log_Space": sum(path.stat().st_size for path in configured.directory.glob("relay-bin.[0-9]*")),
        "Until_Condition": until,
        "Until_Log_File": until_file,
        "Until_Log_Pos": until_position,
        "Source_SSL_Allowed": "Yes" if info.ssl else "No",
        "Source_SSL_CA_File": info.ssl_ca,
        "Source_SSL_Cert": info.ssl_cert,
        "Source_SSL_Key": info.ssl_key,
        "Seconds_Behind_Source": _seconds_behind(seen),
        "Source_SSL_Verify_Server_Cert": "Yes" if info.verifies_host else "No",
        "Last_IO_Errno": io_number,
        "Last_IO_Error": io_text,
        "Last_SQL_Errno": sql_number,
        "Last_SQL_Error": sql_text,
        "Replicate_Ignore_Server_Ids": ", ".join(map(str, sorted(set(info.ignore_server_ids)))),
        "Source_Server_Id": channel.master_server_id,
        "Source_UUID": master.master_uuid,
        "Source_Info_File": str(configured.directory / "source.info"),
        "SQL_Delay": 0,
        "SQL_Remaining_Delay": None,
        "Replica_SQL_Running_State": (
            "Replica has read all relay log; waiting for more updates" if channel.sql_worker.running else ""
        ),
        "Source_Retry_Count": info.retry_count,
        "Last_IO_Error_Timestamp": _short_time(io_time),
        "Last_SQL_Error_Timestamp": _short_time(sql_time),
        "Retrieved_Gtid_Set": master.retrieved,
        "Executed_Gtid_Set": executed,
        "Auto_Position": int(info.auto_position),
        "Channel_Name": info.channel,
        "Get_Source_public_key": 0,
    }
    return [values[name] for name in _STATUS]


def executed_gtids(channels: Sequence[Seen]) -> str:
    """Return the GTIDs that all channels together have applied (``gtid_executed``), as text.

    MySQL and MariaDB have different GTIDs, which do not fit into one set. The first channel with GTIDs decides
    which of the two the set has. Channels with GTIDs of the other kind are left out.
    """
    total = None
    for one in channels:
        family, text = one.state.received.family, one.state.applied.executed
        if not family or not text:
            continue
        found = parse_gtid_set(text, family)
        if total is None:
            total = found
        elif type(found) is type(total):
            total.update(found)
    return "" if total is None else str(total)


def io_running(channel: Channel) -> str:
    """Return ``Replica_IO_Running`` of SHOW REPLICA STATUS for a channel: "Yes", "No" or "Connecting"."""
    if not channel.io_worker.running:
        return "No"
    return "Yes" if channel.io.connected else "Connecting"


def io_error(channel: Channel) -> tuple[int, str, float]:
    """Return the newest error of a channel's I/O thread: its error number, its text and its Unix time in seconds.

    It is the error that ended the thread. While the thread tries to reconnect, it is the reason why the newest attempt
    failed. Without an error the values are 0, "" and 0.
    """
    worker = channel.io_worker
    if worker.error is not None:
        return _io_number(worker.error), str(worker.error), worker.error_at
    if channel.io.last_error:
        text = f"Error connecting to source '{channel.options.master.address}': {channel.io.last_error}"
        return CR_CONN_HOST_ERROR, text, channel.io.last_error_at
    return 0, "", 0.0


def sql_error(worker: Worker) -> tuple[int, str, float]:
    """Return the error that ended the applier: its error number, its text and its Unix time in seconds.

    Without an error the values are 0, "" and 0.
    """
    error = worker.error
    if error is None:
        return 0, "", 0.0
    if isinstance(error, SlaveIncident):
        number = ER_REPLICA_INCIDENT
    elif isinstance(error, BinlogError):
        number = ER_REPLICA_RELAY_LOG_READ_FAILURE
    else:
        number = ER_REPLICA_FATAL_ERROR
    return number, str(error), worker.error_at


def _io_number(error: BaseException) -> int:
    if isinstance(error, TlsError):
        return CR_SSL_CONNECTION_ERROR
    if isinstance(error, ConnectionLost):
        return CR_CONN_HOST_ERROR
    if isinstance(error, RegistrationRefused):
        return ER_REPLICA_SOURCE_COM_FAILURE
    if isinstance(error, BinlogError | DumpTakenOver):
        return ER_SOURCE_FATAL_ERROR_READING_BINLOG
    return (
        ER_REPLICA_FATAL_ERROR if isinstance(error, DumpfilterError) else ER_REPLICA_RELAY_LOG_WRITE_FAILURE
    )


def _seconds_behind(seen: Seen) -> int | None:
    """Return ``Seconds_Behind_Source``: the age of the first received event that is not applied.

    As in a server, the result is None (NULL) while the applier is stopped. It is also None if the applier has applied
    everything and the I/O thread has no connection, unless nothing was ever received.
    """
    channel = seen.configured.channel
    if Threads.SQL not in channel.running:
        return None
    left, seconds = seen.lag()
    if not left:
        return 0 if channel.io.connected or seen.state.received.relay_position is None else None
    return None if seconds is None else int(seconds)


def _short_time(when: float) -> str:
    return datetime.fromtimestamp(when).strftime("%y%m%d %H:%M:%S") if when else ""


def _long_time(when: float) -> datetime | str:
    return datetime.fromtimestamp(when, UTC) if when else _NEVER


CHANNEL_COLUMNS = (
    Column("CHANNEL_NAME"),
    Column("FILTER_ON"),
    Column("FILTER_SEMANTICS"),
    Column("FILTER_VERSION", _I),
    Column("IMPOSED_BY"),
    Column("IMPOSED_RULES"),
    Column("CONNECTIONS", _I),
    Column("CHUNKS", _I),
    Column("BYTES_RECEIVED", _I),
    Column("BYTES_READ", _I),
    Column("BYTES_DROPPED", _I),
    Column("EVENTS_SENT", _I),
    Column("EVENTS_DROPPED", _I),
    Column("EVENTS_UNDECIDED", _I),
    Column("HEARTBEATS", _I),
    Column("TRANSACTIONS_READ", _I),
    Column("TRANSACTIONS_DROPPED", _I),
    Column("IO_ERRORS", _I),
    Column("SQL_ERRORS", _I),
    Column("COUNTING_SINCE", ColumnType.TIMESTAMP),
    Column("LAG_BYTES", _I),
    Column("LAG_SECONDS", ColumnType.DOUBLE),
)

HIT_COLUMNS = (Column("CHANNEL_NAME"), Column("RULE_KIND"), Column("HITS", _I))


def _filter_row(setting: Setting) -> list[Any]:
    return [setting.filter_name, setting.rule_text, setting.configured_by.value, setting.active_since]


def filters_table(filters: ChannelFilters) -> Table:
    """Return ``performance_schema.replication_applier_filters``: each channel's filter rules, with counts of their
    uses (WL#7361 E)."""
    return Table(
        PERFORMANCE_SCHEMA["replication_applier_filters"],
        [
            [name, *_filter_row(setting), setting.counter]
            for name in filters.channels
            for setting in filters.settings(name)
        ],
    )


def global_filters_table(filters: ChannelFilters) -> Table:
    """Return ``performance_schema.replication_applier_global_filters``: the filter rules that new channels start with
    (WL#7361 F)."""
    return Table(
        PERFORMANCE_SCHEMA["replication_applier_global_filters"],
        [_filter_row(setting) for setting in filters.global_settings()],
    )


def connection_table(channels: Sequence[Configured]) -> Table:
    """Return ``performance_schema.replication_connection_status``: state, GTIDs and error of each I/O thread."""
    return Table(
        PERFORMANCE_SCHEMA["replication_connection_status"], [_connection_row(one) for one in channels]
    )


def _connection_row(configured: Configured) -> list[Any]:
    channel = configured.channel
    number, text, when = io_error(channel)
    state = {"Yes": "ON", "No": "OFF", "Connecting": "CONNECTING"}[io_running(channel)]
    thread = channel.io_worker.thread_id if channel.io.connected else None
    heartbeats = channel.received.heartbeats
    return [
        configured.info.channel,
        "",
        channel.master_info.master_uuid,
        thread,
        state,
        heartbeats,
        _long_time(channel.received.last_heartbeat_at),
        channel.master_info.retrieved,
        number,
        text,
        _long_time(when),
        "",
        *[_NEVER] * 4,
        "",
        *[_NEVER] * 3,
    ]


def configuration_table(channels: Sequence[Configured]) -> Table:
    """Return ``performance_schema.replication_connection_configuration``: how each channel connects to its master."""
    return Table(
        PERFORMANCE_SCHEMA["replication_connection_configuration"],
        [_configuration_row(one) for one in channels],
    )


def _configuration_row(configured: Configured) -> list[Any]:
    info = configured.info
    return [
        *(info.channel, info.host, info.port, info.user, "", str(int(info.auto_position))),
        *("YES" if info.ssl else "NO", info.ssl_ca, "", info.ssl_cert, "", info.ssl_key),
        *("YES" if info.verifies_host else "NO", "", ""),
        *(math.ceil(info.connect_retry), info.retry_count, info.heartbeat_period),
        *("", "", "NO", "", "uncompressed", 3, None, "0", "0"),
    ]


def applier_configuration_table(channels: Sequence[Configured]) -> Table:
    """Return ``performance_schema.replication_applier_configuration``, with the same values for every channel.

    The slave has none of the options that this table shows, such as a delay.
    """
    rows = [[one.info.channel, 0, None, "NO", "STREAM", "OFF", None] for one in channels]
    return Table(PERFORMANCE_SCHEMA["replication_applier_configuration"], rows)


def applier_table(channels: Sequence[Configured]) -> Table:
    """Return ``performance_schema.replication_applier_status``, which says whether each channel's applier runs."""
    rows = [
        [one.info.channel, "ON" if one.channel.sql_worker.running else "OFF", None, 0] for one in channels
    ]
    return Table(PERFORMANCE_SCHEMA["replication_applier_status"], rows)


def channels_table(channels: Sequence[Configured]) -> Table:
    """Return the table ``dumpfilter.channels``, which no server has.

    The table shows each channel's filter, the filters that the master imposes, and how much the filters drop. The
    counts outlive connections and restarts.
    """
    return Table(CHANNEL_COLUMNS, [_channel_row(one) for one in channels])


def _channel_row(configured: Configured) -> list[Any]:
    channel = configured.channel
    info = channel.counters.info
    counts = info.counts
    return [
        configured.info.channel,
        configured.info.filter_on,
        channel.options.semantics.value.upper(),
        channel.io.filter_version,
        ",".join(one.name for one in channel.imposed),
        " ".join(imposed_rules(channel)),
        info.connections,
        info.chunks,
        info.bytes_received,
        counts["bytes_read"],
        counts["bytes_dropped"],
        counts["events_sent"],
        counts["events_dropped"],
        counts["events_undecided"],
        info.heartbeats,
        counts["transactions_read"],
        counts["transactions_dropped"],
        info.io_errors,
        info.sql_errors,
        datetime.fromtimestamp(info.since, UTC),
        *Seen(configured, channel.now()).lag(),
    ]


def hits_table(channels: Sequence[Configured]) -> Table:
    """Return the table ``dumpfilter.filter_hits``: the hits of each kind of rule since the channel began to count.

    Unlike COUNTER of ``replication_applier_filters``, these hits outlive a change of the filter and a restart.
    """
    return Table(
        HIT_COLUMNS,
        [
            [one.info.channel, option, count]
            for one in channels
            for option, count in sorted(one.channel.counters.info.hits.items())
        ],
    )


def imposed_rules(channel: Channel) -> list[str]:
    """Return the rules of all filters that the master's operator has set for this slave's channel.

    Each rule is text in the spelling of the command line, such as ``--replicate-do-db=shop``.
    """
    return [str(rule) for one in channel.imposed for rule in filter_from_proto(one.filter).rules]

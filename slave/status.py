"""What a slave shows of its channels: SHOW REPLICA STATUS and the tables of performance_schema.

Columns, their order and their types are those of MySQL 9.7; recorded in tests/console/data.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.errors import BinlogError, ConnectionLost, DumpfilterError
from dumpfilter.filter.channels import ChannelFilters, Setting
from dumpfilter.filter.convert import filter_from_proto
from dumpfilter.filter.rules import RuleKind
from dumpfilter.sql.commands import Threads
from dumpfilter.sql.result import Column, ColumnType, Table
from slave.channel import Channel
from slave.errors import DumpTakenOver, RegistrationRefused, SlaveIncident
from slave.slave import Configured
from slave.worker import Worker

_T, _I = ColumnType.TEXT, ColumnType.INTEGER
_NEVER = "0000-00-00 00:00:00.000000"

_STATUS: tuple[tuple[str, ColumnType], ...] = (
    ("Replica_IO_State", _T),
    ("Source_Host", _T),
    ("Source_User", _T),
    ("Source_Port", _I),
    ("Connect_Retry", _I),
    ("Source_Log_File", _T),
    ("Read_Source_Log_Pos", _I),
    ("Relay_Log_File", _T),
    ("Relay_Log_Pos", _I),
    ("Relay_Source_Log_File", _T),
    ("Replica_IO_Running", _T),
    ("Replica_SQL_Running", _T),
    ("Replicate_Do_DB", _T),
    ("Replicate_Ignore_DB", _T),
    ("Replicate_Do_Table", _T),
    ("Replicate_Ignore_Table", _T),
    ("Replicate_Wild_Do_Table", _T),
    ("Replicate_Wild_Ignore_Table", _T),
    ("Last_Errno", _I),
    ("Last_Error", _T),
    ("Skip_Counter", _I),
    ("Exec_Source_Log_Pos", _I),
    ("Relay_Log_Space", _I),
    ("Until_Condition", _T),
    ("Until_Log_File", _T),
    ("Until_Log_Pos", _I),
    ("Source_SSL_Allowed", _T),
    ("Source_SSL_CA_File", _T),
    ("Source_SSL_CA_Path", _T),
    ("Source_SSL_Cert", _T),
    ("Source_SSL_Cipher", _T),
    ("Source_SSL_Key", _T),
    ("Seconds_Behind_Source", _I),
    ("Source_SSL_Verify_Server_Cert", _T),
    ("Last_IO_Errno", _I),
    ("Last_IO_Error", _T),
    ("Last_SQL_Errno", _I),
    ("Last_SQL_Error", _T),
    ("Replicate_Ignore_Server_Ids", _T),
    ("Source_Server_Id", _I),
    ("Source_UUID", _T),
    ("Source_Info_File", _T),
    ("SQL_Delay", _I),
    ("SQL_Remaining_Delay", _I),
    ("Replica_SQL_Running_State", _T),
    ("Source_Retry_Count", _I),
    ("Source_Bind", _T),
    ("Last_IO_Error_Timestamp", _T),
    ("Last_SQL_Error_Timestamp", _T),
    ("Source_SSL_Crl", _T),
    ("Source_SSL_Crlpath", _T),
    ("Retrieved_Gtid_Set", _T),
    ("Executed_Gtid_Set", _T),
    ("Auto_Position", _I),
    ("Replicate_Rewrite_DB", _T),
    ("Channel_Name", _T),
    ("Source_TLS_Version", _T),
    ("Source_public_key_path", _T),
    ("Get_Source_public_key", _I),
    ("Network_Namespace", _T),
)

_NO_SSL = (
    "Source_SSL_CA_File",
    "Source_SSL_CA_Path",
    "Source_SSL_Cert",
    "Source_SSL_Cipher",
    "Source_SSL_Key",
)


def status_columns(*, old: bool) -> list[Column]:
    """The columns of SHOW REPLICA STATUS; with ``old``, of SHOW SLAVE STATUS."""
    return [Column(_old_name(name) if old else name, type_) for name, type_ in _STATUS]


def _old_name(name: str) -> str:
    if name == "Get_Source_public_key":
        return "Get_master_public_key"
    return name.replace("Source", "Master").replace("Replica_", "Slave_")


def status_row(configured: Configured, filters: ChannelFilters, executed: str) -> list[Any]:
    """One channel's row. ``executed`` is the slave's set: as in a server it is the same on every channel."""
    info, channel = configured.info, configured.channel
    master, relay = channel.master_info, channel.relay_log_info
    rules = {setting.kind: setting.rule_text for setting in filters.settings(info.channel)}
    io_number, io_text, io_time = io_error(channel)
    sql_number, sql_text, sql_time = sql_error(channel.sql_worker)
    values: dict[str, Any] = dict.fromkeys((name for name, _ in _STATUS), "")
    values |= {
        "Replica_IO_State": channel.io.state if channel.io_worker.running else "",
        "Source_Host": info.host,
        "Source_User": info.user,
        "Source_Port": info.port,
        "Connect_Retry": _whole(info.connect_retry),
        "Source_Log_File": master.source_file or info.log_file,
        "Read_Source_Log_Pos": master.source_position or info.log_pos,
        "Relay_Log_File": relay.relay_file or "relay-bin.000001",
        "Relay_Log_Pos": relay.relay_offset or 4,
        "Relay_Source_Log_File": relay.source_file or info.log_file,
        "Replica_IO_Running": io_running(channel),
        "Replica_SQL_Running": "Yes" if channel.sql_worker.running else "No",
        "Replicate_Do_DB": rules.get(RuleKind.DO_DB, ""),
        "Replicate_Ignore_DB": rules.get(RuleKind.IGNORE_DB, ""),
        "Replicate_Do_Table": rules.get(RuleKind.DO_TABLE, ""),
        "Replicate_Ignore_Table": rules.get(RuleKind.IGNORE_TABLE, ""),
        "Replicate_Wild_Do_Table": rules.get(RuleKind.WILD_DO_TABLE, ""),
        "Replicate_Wild_Ignore_Table": rules.get(RuleKind.WILD_IGNORE_TABLE, ""),
        "Replicate_Rewrite_DB": rules.get(RuleKind.REWRITE_DB, ""),
        "Last_Errno": sql_number,
        "Last_Error": sql_text,
        "Skip_Counter": 0,
        "Exec_Source_Log_Pos": relay.source_position or (info.log_pos if info.log_file else 0),
        "Relay_Log_Space": sum(path.stat().st_size for path in configured.directory.glob("relay-bin.[0-9]*")),
        "Until_Condition": "None",
        "Until_Log_Pos": 0,
        "Source_SSL_Allowed": "No",
        "Seconds_Behind_Source": _seconds_behind(channel),
        "Source_SSL_Verify_Server_Cert": "No",
        "Last_IO_Errno": io_number,
        "Last_IO_Error": io_text,
        "Last_SQL_Errno": sql_number,
        "Last_SQL_Error": sql_text,
        "Replicate_Ignore_Server_Ids": ", ".join(map(str, sorted(set(info.ignore_server_ids)))),
        "Source_Server_Id": channel.source_server_id,
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
    return [values[name] for name, _ in _STATUS]


def executed_gtids(channels: Sequence[Configured]) -> str:
    """What all channels have applied (``gtid_executed``). Channels of another family than the first are left out."""
    total = None
    for one in channels:
        family, text = one.channel.master_info.family, one.channel.relay_log_info.executed
        if not family or not text:
            continue
        found = parse_gtid_set(text, family)
        if total is None:
            total = found
        elif type(found) is type(total):
            total.update(found)
    return "" if total is None else str(total)


def io_running(channel: Channel) -> str:
    """``Replica_IO_Running``."""
    if not channel.io_worker.running:
        return "No"
    return "Yes" if channel.io.connected else "Connecting"


def io_error(channel: Channel) -> tuple[int, str, float]:
    """Number, text and Unix time of what the I/O thread stumbled over; 0 and "" when it did not."""
    worker = channel.io_worker
    if worker.error is not None:
        return _io_number(worker.error), str(worker.error), worker.error_at
    if channel.io.last_error:
        text = f"Error connecting to source '{channel.options.source.address}': {channel.io.last_error}"
        return 2003, text, channel.io.last_error_at
    return 0, "", 0.0


def sql_error(worker: Worker) -> tuple[int, str, float]:
    """The same of the applier."""
    error = worker.error
    if error is None:
        return 0, "", 0.0
    if isinstance(error, SlaveIncident):
        number = 1590  # ER_REPLICA_INCIDENT
    elif isinstance(error, BinlogError):
        number = 1594  # ER_REPLICA_RELAY_LOG_READ_FAILURE
    else:
        number = 1593  # ER_REPLICA_FATAL_ERROR
    return number, str(error), worker.error_at


def _io_number(error: BaseException) -> int:
    if isinstance(error, ConnectionLost):
        return 2003  # CR_CONN_HOST_ERROR
    if isinstance(error, RegistrationRefused):
        return 1597  # ER_REPLICA_SOURCE_COM_FAILURE
    if isinstance(error, BinlogError | DumpTakenOver):
        return 1236  # ER_SOURCE_FATAL_ERROR_READING_BINLOG
    return 1593 if isinstance(error, DumpfilterError) else 1595  # ER_REPLICA_RELAY_LOG_WRITE_FAILURE


def _seconds_behind(channel: Channel) -> int | None:
    """0 where all that was received has been applied; else unknown: NULL, as in a server whose threads do not run."""
    if Threads.SQL not in channel.running or not channel.io.connected:
        return None
    return 0 if channel.master_info.relay_position == channel.relay_log_info.relay_position else None


def _short_time(when: float) -> str:
    return datetime.fromtimestamp(when).strftime("%y%m%d %H:%M:%S") if when else ""


def _long_time(when: float) -> datetime | str:
    return datetime.fromtimestamp(when, UTC) if when else _NEVER


def _whole(number: float) -> int | float:
    return int(number) if number == int(number) else number


# -- performance_schema

FILTER_COLUMNS = (
    Column("CHANNEL_NAME"),
    Column("FILTER_NAME"),
    Column("FILTER_RULE"),
    Column("CONFIGURED_BY"),
    Column("ACTIVE_SINCE", ColumnType.TIMESTAMP),
    Column("COUNTER", _I),
)
GLOBAL_FILTER_COLUMNS = FILTER_COLUMNS[1:-1]
CONNECTION_COLUMNS = (
    Column("CHANNEL_NAME"),
    Column("GROUP_NAME"),
    Column("SOURCE_UUID"),
    Column("THREAD_ID", _I),
    Column("SERVICE_STATE"),
    Column("COUNT_RECEIVED_HEARTBEATS", _I),
    Column("LAST_HEARTBEAT_TIMESTAMP", ColumnType.TIMESTAMP),
    Column("RECEIVED_TRANSACTION_SET"),
    Column("LAST_ERROR_NUMBER", _I),
    Column("LAST_ERROR_MESSAGE"),
    Column("LAST_ERROR_TIMESTAMP", ColumnType.TIMESTAMP),
    Column("LAST_QUEUED_TRANSACTION"),
    Column("LAST_QUEUED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP", ColumnType.TIMESTAMP),
    Column("LAST_QUEUED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP", ColumnType.TIMESTAMP),
    Column("LAST_QUEUED_TRANSACTION_START_QUEUE_TIMESTAMP", ColumnType.TIMESTAMP),
    Column("LAST_QUEUED_TRANSACTION_END_QUEUE_TIMESTAMP", ColumnType.TIMESTAMP),
    Column("QUEUEING_TRANSACTION"),
    Column("QUEUEING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP", ColumnType.TIMESTAMP),
    Column("QUEUEING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP", ColumnType.TIMESTAMP),
    Column("QUEUEING_TRANSACTION_START_QUEUE_TIMESTAMP", ColumnType.TIMESTAMP),
)
APPLIER_COLUMNS = (
    Column("CHANNEL_NAME"),
    Column("SERVICE_STATE"),
    Column("REMAINING_DELAY", _I),
    Column("COUNT_TRANSACTIONS_RETRIES", _I),
)
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
)


def _filter_row(setting: Setting) -> list[Any]:
    return [setting.filter_name, setting.rule_text, setting.configured_by.value, setting.active_since]


def filters_table(filters: ChannelFilters) -> Table:
    """``replication_applier_filters`` (WL#7361 E)."""
    return Table(
        FILTER_COLUMNS,
        [
            [name, *_filter_row(setting), setting.counter]
            for name in filters.channels
            for setting in filters.settings(name)
        ],
    )


def global_filters_table(filters: ChannelFilters) -> Table:
    """``replication_applier_global_filters`` (WL#7361 F)."""
    return Table(GLOBAL_FILTER_COLUMNS, [_filter_row(setting) for setting in filters.global_settings()])


def connection_table(channels: Sequence[Configured]) -> Table:
    """``replication_connection_status``."""
    return Table(CONNECTION_COLUMNS, [_connection_row(one) for one in channels])


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


def applier_table(channels: Sequence[Configured]) -> Table:
    """``replication_applier_status``."""
    rows = [
        [one.info.channel, "ON" if one.channel.sql_worker.running else "OFF", None, 0] for one in channels
    ]
    return Table(APPLIER_COLUMNS, rows)


def channels_table(channels: Sequence[Configured]) -> Table:
    """``dumpfilter.channels``: what servers have no word for."""
    return Table(CHANNEL_COLUMNS, [_channel_row(one) for one in channels])


def _channel_row(configured: Configured) -> list[Any]:
    channel = configured.channel
    received, counts = channel.received, channel.received.counts
    return [
        configured.info.channel,
        configured.info.filter_on,
        channel.options.semantics.value.upper(),
        channel.io.filter_version,
        ",".join(one.name for one in channel.imposed),
        " ".join(imposed_rules(channel)),
        received.connections,
        received.chunks,
        received.bytes_received,
        counts["bytes_read"],
        counts["bytes_dropped"],
        counts["events_sent"],
        counts["events_dropped"],
        counts["events_undecided"],
    ]


def imposed_rules(channel: Channel) -> list[str]:
    """What the master imposes on a channel, as options."""
    return [str(rule) for one in channel.imposed for rule in filter_from_proto(one.filter).rules]

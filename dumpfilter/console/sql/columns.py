"""The columns of SHOW REPLICA STATUS and similar statements, and of the performance_schema's replication tables.

Names and order were read from running servers, MySQL 9.7 and MariaDB 10.11. The consoles of masters and of slaves offer
the same tables. A table that has no meaning on one of them has no rows there.
"""

from __future__ import annotations

from dataclasses import replace

from dumpfilter.console.sql.result import Column, ColumnType
from dumpfilter.filter.rules import RuleKind


def _columns(text: str) -> tuple[Column, ...]:
    return tuple(
        Column(name, ColumnType(kind) if kind else ColumnType.TEXT)
        for name, _, kind in (word.partition(":") for word in text.split())
    )


_RULES = " ".join(kind.status_column for kind in RuleKind if not kind.is_rewrite)
_STATUS = _columns(f"""
    Replica_IO_State Source_Host Source_User Source_Port:integer Connect_Retry:integer Source_Log_File
    Read_Source_Log_Pos:integer Relay_Log_File Relay_Log_Pos:integer Relay_Source_Log_File
    Replica_IO_Running Replica_SQL_Running {_RULES} Last_Errno:integer Last_Error Skip_Counter:integer
    Exec_Source_Log_Pos:integer Relay_Log_Space:integer Until_Condition Until_Log_File
    Until_Log_Pos:integer Source_SSL_Allowed Source_SSL_CA_File Source_SSL_CA_Path Source_SSL_Cert
    Source_SSL_Cipher Source_SSL_Key Seconds_Behind_Source:integer Source_SSL_Verify_Server_Cert
    Last_IO_Errno:integer Last_IO_Error Last_SQL_Errno:integer Last_SQL_Error Replicate_Ignore_Server_Ids
    Source_Server_Id:integer Source_UUID Source_Info_File SQL_Delay:integer SQL_Remaining_Delay:integer
    Replica_SQL_Running_State Source_Retry_Count:integer Source_Bind Last_IO_Error_Timestamp
    Last_SQL_Error_Timestamp Source_SSL_Crl Source_SSL_Crlpath Retrieved_Gtid_Set Executed_Gtid_Set
    Auto_Position:integer Replicate_Rewrite_DB Channel_Name Source_TLS_Version Source_public_key_path
    Get_Source_public_key:integer Network_Namespace
""")
_OLD_NAMES = {"Get_Source_public_key": "Get_master_public_key"}


def _old_name(name: str) -> str:
    if name in _OLD_NAMES:
        return _OLD_NAMES[name]
    if name.startswith("Replica_"):
        name = "Slave_" + name.removeprefix("Replica_")
    return name.replace("Source", "Master")


REPLICA_STATUS = (_STATUS, tuple(replace(column, name=_old_name(column.name)) for column in _STATUS))
"""The columns of MySQL's SHOW REPLICA STATUS, and of SHOW SLAVE STATUS."""

REPLICAS = (
    _columns("Server_Id:integer Host Port:integer Source_Id:integer Replica_UUID"),
    _columns("Server_id:integer Host Port:integer Master_id:integer Slave_UUID"),
)
"""The columns of SHOW REPLICAS, and of SHOW SLAVE HOSTS. MariaDB has only the first four."""

BINARY_LOG_STATUS = _columns("File Position:integer Binlog_Do_DB Binlog_Ignore_DB Executed_Gtid_Set")
"""The columns of SHOW BINARY LOG STATUS. MariaDB's result lacks the last one."""

BINARY_LOGS = _columns("Log_name File_size:integer Encrypted")
"""The columns of SHOW BINARY LOGS. MariaDB's result lacks the last one."""


def _transaction(prefix: str, times: str) -> str:
    stages = ["ORIGINAL_COMMIT", "IMMEDIATE_COMMIT", *times.split()]
    return " ".join([prefix, *(f"{prefix}_{stage}_TIMESTAMP:timestamp" for stage in stages)])


_ERROR = "LAST_ERROR_NUMBER:integer LAST_ERROR_MESSAGE LAST_ERROR_TIMESTAMP:timestamp"

PERFORMANCE_SCHEMA: dict[str, tuple[Column, ...]] = {
    "replication_applier_filters": _columns(
        "CHANNEL_NAME FILTER_NAME FILTER_RULE CONFIGURED_BY ACTIVE_SINCE:timestamp COUNTER:integer"
    ),
    "replication_applier_global_filters": _columns(
        "FILTER_NAME FILTER_RULE CONFIGURED_BY ACTIVE_SINCE:timestamp"
    ),
    "replication_applier_configuration": _columns(
        "CHANNEL_NAME DESIRED_DELAY:integer PRIVILEGE_CHECKS_USER REQUIRE_ROW_FORMAT "
        "REQUIRE_TABLE_PRIMARY_KEY_CHECK ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS_TYPE "
        "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS_VALUE"
    ),
    "replication_connection_configuration": _columns(
        "CHANNEL_NAME HOST PORT:integer USER NETWORK_INTERFACE AUTO_POSITION SSL_ALLOWED SSL_CA_FILE SSL_CA_PATH "
        "SSL_CERTIFICATE SSL_CIPHER SSL_KEY SSL_VERIFY_SERVER_CERTIFICATE SSL_CRL_FILE SSL_CRL_PATH "
        "CONNECTION_RETRY_INTERVAL:integer CONNECTION_RETRY_COUNT:integer HEARTBEAT_INTERVAL:double TLS_VERSION "
        "PUBLIC_KEY_PATH GET_PUBLIC_KEY NETWORK_NAMESPACE COMPRESSION_ALGORITHM ZSTD_COMPRESSION_LEVEL:integer "
        "TLS_CIPHERSUITES SOURCE_CONNECTION_AUTO_FAILOVER GTID_ONLY"
    ),
    "replication_applier_status": _columns(
        "CHANNEL_NAME SERVICE_STATE REMAINING_DELAY:integer COUNT_TRANSACTIONS_RETRIES:integer"
    ),
    "replication_connection_status": _columns(
        "CHANNEL_NAME GROUP_NAME SOURCE_UUID THREAD_ID:integer SERVICE_STATE COUNT_RECEIVED_HEARTBEATS:integer "
        f"LAST_HEARTBEAT_TIMESTAMP:timestamp RECEIVED_TRANSACTION_SET {_ERROR} "
        + _transaction("LAST_QUEUED_TRANSACTION", "START_QUEUE END_QUEUE")
        + " "
        + _transaction("QUEUEING_TRANSACTION", "START_QUEUE")
    ),
}
"""The columns of each replication table of the performance_schema, by table name, in the order of MySQL 9.7."""

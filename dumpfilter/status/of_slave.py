"""The status of a running slave by its console."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dumpfilter.security.guarded_client import Login
from dumpfilter.status.console import ask
from dumpfilter.status.model import Record, channel_record, slave_record

_COLUMNS = {
    "channel": "Channel_Name",
    "io_running": "Replica_IO_Running",
    "sql_running": "Replica_SQL_Running",
    "io_error": "Last_IO_Error",
    "sql_error": "Last_SQL_Error",
    "received_file": "Source_Log_File",
    "received_position": "Read_Source_Log_Pos",
    "applied_file": "Relay_Source_Log_File",
    "applied_position": "Exec_Source_Log_Pos",
    "relay_file": "Relay_Log_File",
    "relay_position": "Relay_Log_Pos",
    "retrieved_gtids": "Retrieved_Gtid_Set",
    "executed_gtids": "Executed_Gtid_Set",
    "filter_on": "FILTER_ON",
    "lag_bytes": "LAG_BYTES",
    "lag_seconds": "LAG_SECONDS",
}
"""The facts about a channel, with the columns of SHOW REPLICA STATUS and of ``dumpfilter.channels``."""


def slave_status(login: Login) -> Record:
    """Ask a running slave's console. Raises ConnectionLost, NotOurs or StatusRefused."""
    version, ((variables, *_), rows, counts, hits) = ask(
        login,
        "slave",
        [
            "SELECT @@server_uuid AS uuid, @@datadir AS datadir",
            "SHOW REPLICA STATUS",
            "SELECT * FROM dumpfilter.channels",
            "SELECT * FROM dumpfilter.filter_hits",
        ],
    )
    more = {row["CHANNEL_NAME"]: row for row in counts}
    return slave_record(
        console=f"{login.host}:{login.port}",
        relay_dir=variables["datadir"],
        server_uuid=variables["uuid"],
        version=version,
        channels=[_channel(row, more.get(row["Channel_Name"], {}), hits) for row in rows],
    )


_NO_COUNTERS = ("LAG_BYTES",)
"""The numbers of ``dumpfilter.channels`` that are no counts since the channel's first start."""


def _channel(row: Mapping[str, Any], more: Mapping[str, Any], hits: Iterable[Mapping[str, Any]]) -> Record:
    """Return a channel's record from its rows of SHOW REPLICA STATUS and of ``dumpfilter.channels``."""
    both = {**more, **row}
    return channel_record(
        **{name: both[column] for name, column in _COLUMNS.items() if column in both},
        source=f"{row['Source_Host']}:{row['Source_Port']}",
        counters={
            name.lower(): value
            for name, value in more.items()
            if isinstance(value, int) and name not in _NO_COUNTERS
        },
        hits={hit["RULE_KIND"]: hit["HITS"] for hit in hits if hit["CHANNEL_NAME"] == row["Channel_Name"]},
    )

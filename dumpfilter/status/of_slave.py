"""The status of a slave: of a running one by its console, or of any one by the files of its relay directory."""

from __future__ import annotations

import configparser
import fcntl
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dumpfilter.errors import OptionError, StateCorrupt
from dumpfilter.security.guarded_client import Login
from dumpfilter.slave.lag import relay_lag
from dumpfilter.slave.state import CHANNELS, LOCK, master_info, source_info
from dumpfilter.slave.state.counters_info import CountersInfo, counters_file
from dumpfilter.slave.state.master_info import MasterInfoFile
from dumpfilter.slave.state.relay_log_info import RelayLogInfoFile
from dumpfilter.slave.state.source_info import source_info_file
from dumpfilter.status.console import ask
from dumpfilter.status.model import ChannelStatus, SlaveStatus

_COUNTERS = (
    *("connections", "heartbeats", "chunks", "bytes_received", "bytes_read", "bytes_dropped", "events_sent"),
    *(
        "events_dropped",
        "events_undecided",
        "transactions_read",
        "transactions_dropped",
        "io_errors",
        "sql_errors",
    ),
)
"""The names of a channel's counts. In capitals they are columns of ``dumpfilter.channels``."""

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


def slave_status(login: Login) -> SlaveStatus:
    """Ask a running slave's console. Raises ConnectionLost, NotOurs or StatusRefused."""
    version, answers = ask(
        login,
        "slave",
        [
            "SELECT @@server_uuid AS uuid, @@datadir AS datadir",
            "SHOW REPLICA STATUS",
            "SELECT * FROM dumpfilter.channels",
            "SELECT * FROM dumpfilter.filter_hits",
        ],
    )
    (variables, *_), rows, counts, hits = answers
    by_name = {row["CHANNEL_NAME"]: row for row in counts}
    return SlaveStatus(
        console=f"{login.host}:{login.port}",
        relay_dir=variables["datadir"],
        server_uuid=variables["uuid"],
        version=version,
        channels=[_from_row({**by_name.get(row["Channel_Name"], {}), **row}, hits) for row in rows],
    )


def _from_row(row: Mapping[str, Any], hits: Iterable[Mapping[str, Any]]) -> ChannelStatus:
    facts = {name: row.get(column) for name, column in _COLUMNS.items()}
    more = {
        "source": f"{row['Source_Host']}:{row['Source_Port']}",
        "counters": {name: row.get(name.upper()) or 0 for name in _COUNTERS},
        "hits": {hit["RULE_KIND"]: hit["HITS"] for hit in hits if hit["CHANNEL_NAME"] == row["Channel_Name"]},
    }
    return ChannelStatus.model_validate(facts | more)


def relay_directory_status(directory: Path) -> SlaveStatus:
    """Read a relay directory, without changing anything, whether a slave runs there or not.

    Raises OptionError for a directory that is no slave's. A file that cannot be used is a problem in the status.
    """
    names = ("auto.cnf", source_info.NAME, master_info.NAME)
    if not any((directory / name).exists() for name in names):
        what = "is no relay directory of a slave" if directory.is_dir() else "is no directory"
        raise OptionError(
            f"--relay-dir={directory}: {what} (it has none of {', '.join(names)}); name the --relay-dir of a slave"
        )
    process = _process(directory)
    status = SlaveStatus(
        relay_dir=str(directory), server_uuid=_uuid(directory), running=process is not None, process=process
    )
    for each in (directory, *sorted((directory / CHANNELS).glob("*/"))):
        if each != directory or any((each / name).exists() for name in names[1:]):
            status.channels.append(_channel(each, named=each != directory))
    return status


def _channel(directory: Path, *, named: bool) -> ChannelStatus:
    name = directory.name if named else ""
    facts: dict[str, Any] = {"channel": name}
    try:
        source = source_info_file(directory).load()
        if source is not None:
            facts |= {"channel": source.channel, "source": source.address, "filter_on": source.filter_on}
        applied = RelayLogInfoFile(directory).load()
        received = MasterInfoFile(directory).peek()
        counted = counters_file(directory).load() or CountersInfo()
    except StateCorrupt as error:
        return ChannelStatus.model_validate(facts | {"unusable": str(error)})
    lag = relay_lag(directory, applied.relay_position, received.relay_position, time.time())
    values = counted.model_dump()
    more = {
        "received_file": received.source_file,
        "received_position": received.source_position,
        "applied_file": applied.source_file,
        "applied_position": applied.source_position,
        "relay_file": applied.relay_file,
        "relay_position": applied.relay_offset,
        "retrieved_gtids": received.retrieved,
        "executed_gtids": applied.executed,
        "lag_bytes": lag.lag_bytes,
        "lag_seconds": lag.lag_seconds,
        "counters": {name: values.get(name, counted.counts.get(name, 0)) for name in _COUNTERS},
    }
    # Hits and the newest errors have the same names in the file.
    return ChannelStatus.model_validate(values | facts | more)


def _uuid(directory: Path) -> str:
    parser = configparser.ConfigParser()
    try:
        parser.read_string((directory / "auto.cnf").read_text("utf-8"))
        return parser["auto"]["server-uuid"]
    except (OSError, UnicodeDecodeError, configparser.Error, KeyError):
        return ""


def _process(directory: Path) -> int | None:
    """Return the number of the process that has locked the relay directory, or None. 0 stands for an unknown number."""
    try:
        lock = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # A slave that starts at this very moment waits for a second until the lock is free.
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 32, 0).decode("ascii", "replace").strip()
        return int(holder) if holder.isascii() and holder.isdigit() else 0
    finally:
        os.close(lock)
    return None

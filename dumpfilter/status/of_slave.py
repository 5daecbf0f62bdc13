"""The status of a slave: of a running one by its console, or of any one by the files of its relay directory."""

from __future__ import annotations

import configparser
import fcntl
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dumpfilter.errors import OptionError, StateCorrupt
from dumpfilter.security.guarded_client import Login
from dumpfilter.slave.channel import CHANNELS
from dumpfilter.slave.lag import relay_lag
from dumpfilter.slave.state import LOCK, master_info, source_info
from dumpfilter.slave.state.counters_info import CountersInfo, counters_file
from dumpfilter.slave.state.master_info import MasterInfoFile
from dumpfilter.slave.state.relay_log_info import RelayLogInfoFile
from dumpfilter.slave.state.source_info import source_info_file
from dumpfilter.status.console import ask, number, text
from dumpfilter.status.model import ChannelStatus, SlaveStatus

_COUNTERS = {
    "connections": "CONNECTIONS",
    "heartbeats": "HEARTBEATS",
    "chunks": "CHUNKS",
    "bytes_received": "BYTES_RECEIVED",
    "bytes_read": "BYTES_READ",
    "bytes_dropped": "BYTES_DROPPED",
    "events_sent": "EVENTS_SENT",
    "events_dropped": "EVENTS_DROPPED",
    "events_undecided": "EVENTS_UNDECIDED",
    "transactions_read": "TRANSACTIONS_READ",
    "transactions_dropped": "TRANSACTIONS_DROPPED",
    "io_errors": "IO_ERRORS",
    "sql_errors": "SQL_ERRORS",
}
"""The names of a channel's counts, with the columns of ``dumpfilter.channels``."""


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
    by_name = {text(row, "CHANNEL_NAME"): row for row in counts}
    channels = []
    for row in rows:
        name = text(row, "Channel_Name")
        its_hits = {
            text(hit, "RULE_KIND"): number(hit, "HITS") for hit in hits if text(hit, "CHANNEL_NAME") == name
        }
        channels.append(_from_row(row, by_name.get(name, {}), its_hits))
    return SlaveStatus(
        console=f"{login.host}:{login.port}",
        relay_dir=text(variables, "datadir"),
        server_uuid=text(variables, "uuid"),
        version=version,
        channels=channels,
    )


def _from_row(row: Mapping[str, Any], counts: Mapping[str, Any], hits: dict[str, int]) -> ChannelStatus:
    seconds = counts.get("LAG_SECONDS")
    return ChannelStatus(
        channel=text(row, "Channel_Name"),
        source=f"{text(row, 'Source_Host')}:{number(row, 'Source_Port')}",
        filter_on=text(counts, "FILTER_ON"),
        io_running=text(row, "Replica_IO_Running"),
        sql_running=text(row, "Replica_SQL_Running"),
        io_error=text(row, "Last_IO_Error"),
        sql_error=text(row, "Last_SQL_Error"),
        received_file=text(row, "Source_Log_File"),
        received_position=number(row, "Read_Source_Log_Pos"),
        applied_file=text(row, "Relay_Source_Log_File"),
        applied_position=number(row, "Exec_Source_Log_Pos"),
        relay_file=text(row, "Relay_Log_File"),
        relay_position=number(row, "Relay_Log_Pos"),
        retrieved_gtids=text(row, "Retrieved_Gtid_Set"),
        executed_gtids=text(row, "Executed_Gtid_Set"),
        lag_bytes=None if counts.get("LAG_BYTES") is None else number(counts, "LAG_BYTES"),
        lag_seconds=None if seconds is None else float(seconds),
        counters={name: number(counts, column) for name, column in _COUNTERS.items()},
        hits=hits,
    )


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
    status = ChannelStatus(channel=directory.name if named else "")
    try:
        source = source_info_file(directory).load()
        if source is not None:
            status.channel, status.source, status.filter_on = source.channel, source.address, source.filter_on
        applied = RelayLogInfoFile(directory).load()
        received = MasterInfoFile(directory).peek()
        counted = counters_file(directory).load() or CountersInfo()
    except StateCorrupt as error:
        status.unusable = str(error)
        return status
    status.received_file, status.received_position = received.source_file, received.source_position
    status.applied_file, status.applied_position = applied.source_file, applied.source_position
    status.relay_file, status.relay_position = applied.relay_file, applied.relay_offset
    status.retrieved_gtids, status.executed_gtids = received.retrieved, applied.executed
    lag = relay_lag(directory, applied.relay_position, received.relay_position, time.time())
    status.lag_bytes, status.lag_seconds = lag.lag_bytes, lag.lag_seconds
    values = counted.model_dump()
    status.counters = {name: values.get(name, counted.counts.get(name, 0)) for name in _COUNTERS}
    status.hits = dict(counted.hits)
    status.last_io_error, status.last_io_error_at = counted.last_io_error, counted.last_io_error_at
    status.last_sql_error, status.last_sql_error_at = counted.last_sql_error, counted.last_sql_error_at
    return status


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

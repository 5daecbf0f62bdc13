"""The status of a slave, read from the files of its relay directory, whether the slave runs or not."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Any

from dumpfilter.base.errors import OptionError, StateCorrupt
from dumpfilter.commands.server_status.model import Record, channel_record, slave_record
from dumpfilter.slave.relay_log import relay_lag
from dumpfilter.slave.state import (
    CHANNELS,
    LOCK,
    CountersInfo,
    MasterInfo,
    RelayLogInfo,
    SourceInfo,
    server_uuid,
)


def relay_directory_status(directory: Path) -> Record:
    """Return the status record (dictionary) of a slave, read from the files of its relay directory.

    Nothing is changed, and the slave may be running. Raises OptionError if the directory is not a slave's. A file that
    cannot be used is a problem in the record.
    """
    names = ("auto.cnf", SourceInfo.NAME, MasterInfo.NAME)
    if not any((directory / name).exists() for name in names):
        what = "is no relay directory of a slave" if directory.is_dir() else "is no directory"
        raise OptionError(
            f"--relay-dir={directory}: {what} (it has none of {', '.join(names)}); name the --relay-dir of a slave"
        )
    process = _process(directory)
    channels = [_channel(each, each.name) for each in sorted((directory / CHANNELS).glob("*/"))]
    if any((directory / name).exists() for name in names[1:]):
        channels.insert(0, _channel(directory, ""))
    return slave_record(
        relay_dir=str(directory),
        server_uuid=_uuid(directory),
        running=process is not None,
        process=process,
        channels=channels,
    )


def _channel(directory: Path, name: str) -> Record:
    facts: dict[str, Any] = {"channel": name}
    try:
        source = SourceInfo.file(directory).load()
        if source is not None:
            facts |= {"channel": source.channel, "source": source.address, "filter_on": source.filter_on}
        applied = RelayLogInfo.read(directory)
        received = MasterInfo.read(directory)
        counted = CountersInfo.read(directory)
    except StateCorrupt as error:
        return channel_record(**facts, unusable=str(error))
    lag = relay_lag(directory, applied.relay_position, received.relay_position, time.time())
    values = counted.model_dump()
    # Hits and the newest errors have the same names in the file.
    same = ("hits", "last_io_error", "last_io_error_at", "last_sql_error", "last_sql_error_at")
    numbers = {name: value for name, value in values.items() if isinstance(value, int)}
    return channel_record(
        **facts,
        **{name: values[name] for name in same},
        received_file=received.source_file,
        received_position=received.source_position,
        applied_file=applied.source_file,
        applied_position=applied.source_position,
        relay_file=applied.relay_file,
        relay_position=applied.relay_offset,
        retrieved_gtids=received.retrieved,
        executed_gtids=applied.executed,
        lag_bytes=lag.lag_bytes,
        lag_seconds=lag.lag_seconds,
        counters=numbers | CountersInfo().counts | counted.counts,
    )


def _uuid(directory: Path) -> str:
    try:
        return server_uuid(directory) if (directory / "auto.cnf").exists() else ""
    except StateCorrupt:
        return ""


def _process(directory: Path) -> int | None:
    """Return the id of the process that has locked the relay directory; None without a lock, 0 if the id is unknown."""
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

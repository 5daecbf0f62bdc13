"""The status of a slave, read from the files of its relay directory, whether the slave runs or not."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from dumpfilter.base.errors import OptionError, StateCorrupt
from dumpfilter.commands.server_status.model import CHANNEL, SLAVE, Record, channel_of_slave
from dumpfilter.slave.facts import STORED, Channels, StoredChannel
from dumpfilter.slave.state import CHANNELS, LOCK, MasterInfo, SourceInfo, server_uuid


def relay_directory_status(directory: Path) -> Record:
    """Return the status record (dictionary) of a slave, read from the files of its relay directory (the directory of
    its relay logs and state files).

    Nothing is changed, and the slave may be running. Raises OptionError if the directory is not a slave's, and
    StateCorrupt if its ``auto.cnf`` has no UUID. Another file that cannot be used is a problem in the record.
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
    return SLAVE | {
        "relay_dir": str(directory),
        "server_uuid": server_uuid(directory) if (directory / names[0]).exists() else "",
        "running": process is not None,
        "process": process,
        "channels": channels,
    }


def _channel(directory: Path, name: str) -> Record:
    try:
        stored = StoredChannel.read(directory)
    except StateCorrupt as error:
        return {**CHANNEL, "channel": name, "unusable": str(error)}
    record = channel_of_slave(Channels.document(stored, STORED), stored.counted.hits)
    return record | {name: value for name, value in stored.counted if name.startswith("last_")}


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

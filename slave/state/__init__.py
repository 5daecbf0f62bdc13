"""The files in a channel's relay directory: relay logs, positions, connection options, and the slave's UUID.

``infos.py`` has the state files. ``relay_log.py`` describes the order of writes that keeps the relay log usable after a
crash.
"""

from __future__ import annotations

from pathlib import Path

from dumpfilter.base.files import DirectoryLock
from dumpfilter.base.state_file import Format

LOCK = "slave.lock"
"""The file in a relay directory by which a slave locks the directory."""

CHANNELS = "channels"
"""The subdirectory of the relay directory in which each named channel has its own directory.

The default channel keeps its files in the relay directory itself.
"""

AFRESH = "to start afresh, remove the relay directory"
"""The last words of error texts about unusable state files, which tell the user the remedy.

The remedy is safe, because the slave can fetch everything in its relay directory from the master again.
"""

FORMAT = Format(2, "relay directory", AFRESH)
"""The format of the state files that this release writes and reads."""


def lock_directory(directory: Path, *, patience: float = 1.0) -> DirectoryLock:
    """Lock a relay directory, so that two slaves never share one. Raises DirectoryBusy after ``patience`` seconds."""
    return DirectoryLock(
        directory / LOCK,
        f"{directory}: another slave works here (process {{process}}): stop that process, or give this slave "
        "a relay directory of its own",
        patience=patience,
    )

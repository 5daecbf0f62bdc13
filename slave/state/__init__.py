"""The files in a channel's relay directory: relay logs, positions, connection options, and the slave's identity.

The identity is the slave's server UUID, and the secret that proves to the master that a registration is this slave's.

``infos.py`` has the state files. ``relay_log.py`` describes the order of writes that keeps the relay log usable after a
crash.
"""

from __future__ import annotations

from pathlib import Path

from dumpfilter.base.files import DirectoryLock
from dumpfilter.base.state_file import Format

LOCK = "slave.lock"
"""The name of the lock file in a relay directory."""

CHANNELS = "channels"
"""The subdirectory of the relay directory in which each named channel has its own directory.

The default channel keeps its files in the relay directory itself.
"""

AFRESH = "to start afresh, remove the relay directory"
"""The end of error texts about unusable state files, which tells the user what to do.

The remedy is safe, because the slave can fetch everything in its relay directory from the master again.
"""

FORMAT = Format(2, "relay directory", AFRESH)
"""The format of the state files that this release writes and reads."""


def lock_directory(directory: Path, *, patience: float = 1.0) -> DirectoryLock:
    """Lock a relay directory, so that no other slave uses it, and return the lock. Wait up to ``patience`` seconds,
    then raise DirectoryBusy.
    """
    return DirectoryLock(
        directory / LOCK,
        f"{directory}: another slave works here (process {{process}}): stop that process, or give this slave "
        "a relay directory of its own",
        patience=patience,
    )

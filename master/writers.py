"""A search for the process that has a binlog file open for writing, usually a database server."""

from __future__ import annotations

import os
from pathlib import Path

_PROCESSES = Path("/proc")


def writer_of(path: Path) -> int | None:
    """Return the id of another process that has the file open for writing, or None when none is found.

    Only root sees the processes of other users, and nobody sees those of other containers. Usually a user who cannot
    inspect a server's process cannot delete the server's files either. Raises OSError for a missing file.
    """
    wanted = path.stat()
    for process in _PROCESSES.glob("[0-9]*"):
        if int(process.name) == os.getpid():
            continue
        try:
            descriptors = os.listdir(process / "fd")
        except OSError:
            continue
        for number in descriptors:
            try:
                found = os.stat(process / "fd" / number)
                if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino) and _writes(
                    process, number
                ):
                    return int(process.name)
            except OSError:
                # The process closed the file descriptor after the directory was listed.
                continue
    return None


def _writes(process: Path, number: str) -> bool:
    for line in (process / "fdinfo" / number).read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "flags":
            return int(value, 8) & os.O_ACCMODE != os.O_RDONLY
    return False

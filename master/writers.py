"""Which process writes a file."""

from __future__ import annotations

import os
from pathlib import Path

_PROCESSES = Path("/proc")


def writer_of(path: Path) -> int | None:
    """The number of another process that has the file open for writing; None when there is none, or none that this
    process may look into (those of other users, unless it is root's; other containers').

    Who may not look into a server's process may not delete its files either, as a rule. Raises OSError when there is no
    such file.
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
                continue  # it was closed meanwhile
    return None


def _writes(process: Path, number: str) -> bool:
    for line in (process / "fdinfo" / number).read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "flags":
            return int(value, 8) & os.O_ACCMODE != os.O_RDONLY
    return False

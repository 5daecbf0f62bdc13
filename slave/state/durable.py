"""The few ways in which this package changes files: every one is a step between which a crash may fall.

What the steps promise together is in ``relay_log.py`` and ``state_file.py``; the tests place a
crash before, inside and after each of them. An ``OSError`` becomes an OutputError that names the
file.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from dumpfilter.binlog.writer import sync_path, writing
from dumpfilter.errors import DirectoryBusy


def create(path: Path, mode: int = 0o640) -> int:
    """Open an empty file for writing, whatever was there before. Returns its descriptor."""
    with writing(path):
        return os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, mode)


def write(path: Path, fd: int, data: bytes | memoryview) -> None:
    """Write all of ``data`` at the descriptor's offset. ``path`` only serves the error's text."""
    with writing(path):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]


def truncate(path: Path, fd: int, size: int) -> None:
    """Cut the file to ``size`` bytes and put the descriptor's offset there."""
    with writing(path):
        os.ftruncate(fd, size)
        os.lseek(fd, size, os.SEEK_SET)


def sync(path: Path, fd: int) -> None:
    """Wait until the file's data is on the disk."""
    with writing(path):
        os.fdatasync(fd)


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk."""
    with writing(path):
        sync_path(path)


def rename(source: Path, target: Path) -> None:
    """Put a file in the place of another, at once."""
    with writing(target):
        os.replace(source, target)


def remove(path: Path) -> None:
    """Remove a file; one that is not there is no error."""
    with writing(path):
        path.unlink(missing_ok=True)


def replace(path: Path, data: bytes, *, synced: bool, mode: int = 0o640) -> None:
    """Give a file new content, whole or not at all: written beside, then renamed.

    With ``synced``, it is on the disk when this returns; without, it survives the process but perhaps not
    the machine.
    """
    beside = path.with_name(path.name + ".new")
    fd = create(beside, mode)
    try:
        write(beside, fd, data)
        if synced:
            sync(beside, fd)
    finally:
        os.close(fd)
    rename(beside, path)
    if synced:
        sync_directory(path.parent)


class DirectoryLock:
    """Holds a directory against a second process (``flock`` on its file ``slave.lock``).

    The lock ends with the process, however it ends. One that is just dying gets ``patience`` seconds. Raises
    :class:`DirectoryBusy`.
    """

    def __init__(self, directory: Path, *, patience: float = 1.0) -> None:
        path = directory / "slave.lock"
        with writing(path):
            directory.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o640)
        deadline = time.monotonic() + patience
        while not self._taken():
            if time.monotonic() < deadline:
                time.sleep(0.02)
                continue
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._fd)
            raise DirectoryBusy(
                f"{directory}: another slave works here (process {holder}): stop it, or give this one "
                "a relay directory of its own"
            )
        with writing(path):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, b"%d\n" % os.getpid(), 0)

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Let the directory go."""
        os.close(self._fd)

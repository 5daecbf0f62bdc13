"""The steps in which the slave changes files. A crash may come between any two of these steps.

``relay_log.py`` and ``state_file.py`` say what a sequence of steps guarantees. The tests place a crash
before, inside and after each step. An ``OSError`` becomes an OutputError that names the file.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from dumpfilter.binlog.writer import sync_path, writing
from dumpfilter.errors import DirectoryBusy


def create(path: Path, mode: int = 0o640) -> int:
    """Create a file, or empty an existing one. Return a descriptor for writing."""
    with writing(path):
        return os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, mode)


def write(path: Path, fd: int, data: bytes | memoryview) -> None:
    """Write all of ``data`` at the descriptor's offset. An error's text names ``path``."""
    with writing(path):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]


def truncate(path: Path, fd: int, size: int) -> None:
    """Truncate the file to ``size`` bytes and move the descriptor's offset to its end."""
    with writing(path):
        os.ftruncate(fd, size)
        os.lseek(fd, size, os.SEEK_SET)


def sync(path: Path, fd: int) -> None:
    """Wait until the file's data is on the disk."""
    with writing(path):
        os.fdatasync(fd)


def sync_directory(path: Path) -> None:
    """Wait until a directory's entries are on the disk."""
    with writing(path):
        sync_path(path)


def rename(old: Path, new: Path) -> None:
    """Rename a file atomically. A file of the new name is replaced."""
    with writing(new):
        os.replace(old, new)


def remove(path: Path) -> None:
    """Remove a file if it exists."""
    with writing(path):
        path.unlink(missing_ok=True)


def replace(path: Path, data: bytes, *, synced: bool, mode: int = 0o640) -> None:
    """Replace a file's content atomically: write a new file beside it and rename that file.

    With ``synced``, the content is on the disk when this function returns and survives a crash of the
    machine. Without, it survives only a crash of the process.
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
    """The lock on a relay directory: ``flock`` on its file ``slave.lock``.

    The operating system releases the lock when the process ends. A process that is just ending gets
    ``patience`` seconds. Raises :class:`DirectoryBusy`.
    """

    def __init__(self, directory: Path, *, patience: float = 1.0) -> None:
        path = directory / "slave.lock"
        with writing(path):
            directory.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o640)
        deadline = time.monotonic() + patience
        while not self._try_lock():
            if time.monotonic() < deadline:
                time.sleep(0.02)
                continue
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._fd)
            raise DirectoryBusy(
                f"{directory}: another slave works here (process {holder}): stop that process, or give this slave "
                "a relay directory of its own"
            )
        with writing(path):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, b"%d\n" % os.getpid(), 0)

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Release the lock."""
        os.close(self._fd)

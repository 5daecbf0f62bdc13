"""The system calls with which the slave changes its files: one function each to create, write, sync, rename.

The slave changes files only through these functions, so that tests can simulate a crash before, inside and after
each of them. ``relay_log.py`` and ``state_file.py`` combine the functions to crash-safe changes. Every function
raises OutputError, which names the file, when the operating system reports an error.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

from dumpfilter.binlog.writer import sync_path, writing
from dumpfilter.errors import DirectoryBusy, OutputError
from dumpfilter.slave.measurements import SYNC_TIME


def create(path: Path, mode: int = 0o640) -> int:
    """Create the file ``path``, or empty it if it exists. Return a file descriptor that is open for writing.

    ``mode`` is the permissions of a new file, before the umask.
    """
    with writing(path):
        return os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, mode)


def write(path: Path, fd: int, data: bytes | memoryview) -> None:
    """Write all of ``data`` at the current offset of the file descriptor ``fd``.

    ``path`` is only used in the text of an OutputError.
    """
    with writing(path):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]


def truncate(path: Path, fd: int, size: int) -> None:
    """Truncate the open file to ``size`` bytes, and move the offset of ``fd`` to the file's new end.

    ``path`` is only used in the text of an OutputError.
    """
    with writing(path):
        os.ftruncate(fd, size)
        os.lseek(fd, size, os.SEEK_SET)


def sync(path: Path, fd: int) -> None:
    """Wait until the data of the open file is on the disk (``fdatasync``)."""
    with writing(path), SYNC_TIME.measured():
        os.fdatasync(fd)


def sync_directory(path: Path) -> None:
    """Wait until the entries of the directory ``path`` are on the disk, so that a rename survives a power failure."""
    with writing(path):
        sync_path(path)


def rename(old: Path, new: Path) -> None:
    """Rename a file. If a file named ``new`` exists, it is replaced atomically."""
    with writing(new):
        os.replace(old, new)


def remove(path: Path) -> None:
    """Remove a file if it exists."""
    with writing(path):
        path.unlink(missing_ok=True)


def replace(path: Path, data: bytes, *, synced: bool, mode: int = 0o640) -> None:
    """Write ``data`` to a new file and rename it to ``path``, so that a crash leaves the old or the new content.

    With ``synced`` the new content is on the disk when this function returns, and survives a crash of the
    machine. Without ``synced`` the new content surely survives only a crash of the process.
    """
    beside = path.with_name(path.name + ".new")
    fd = create(beside, mode)
    try:
        try:
            write(beside, fd, data)
            if synced:
                sync(beside, fd)
        finally:
            os.close(fd)
        rename(beside, path)
    except OutputError:
        # On a full disk the half-written file must not take the space that another file needs.
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    if synced:
        sync_directory(path.parent)


class DirectoryLock:
    """A lock on a relay directory (``flock`` on its file ``slave.lock``), so that two slaves never share one.

    The constructor takes the lock, and creates the directory if it is missing. If another process holds the lock,
    the constructor waits up to ``patience`` seconds, because that process may be ending. After that time it
    raises DirectoryBusy. The operating system gives up the lock when the process ends, even after a crash.
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
        """Give up the lock, so that another process can use the relay directory."""
        os.close(self._fd)

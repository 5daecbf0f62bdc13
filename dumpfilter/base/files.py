"""Changes of files that survive a crash: write, sync, rename, atomic replacement, and the lock of a directory.

Tests simulate a crash before, inside and after each of the small functions (``create``, ``write``, ``truncate``,
``sync``, ``sync_path``, ``rename``, ``remove``). Therefore the larger functions call the small ones by their names in
this module. Unless a function says otherwise, it raises OutputError, which names the file, when the operating system
reports an error.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from dumpfilter.base.errors import DirectoryBusy, OutputError

_LOCK_RETRY = 0.02
"""The time between two attempts to take a lock, seconds."""


SYNC_OBSERVERS: list[Callable[[float], None]] = []
"""The functions that receive the duration of each :func:`sync`, such as a slave's histogram."""


@contextlib.contextmanager
def writing(path: Path, *, doing: str = "written") -> Iterator[None]:
    """Raise an OutputError that names ``path`` when the ``with`` block raises an OSError. ``doing`` completes the
    sentence "the file cannot be …".
    """
    try:
        yield
    except OSError as error:
        raise _cannot(doing, path, error) from error


def _cannot(doing: str, path: Path, error: OSError) -> OutputError:
    return OutputError(f"{path}: cannot be {doing}: {error.strerror or error}")


def create(path: Path, mode: int = 0o640) -> int:
    """Create the file ``path``, in place of a file of this name. Return a descriptor that is open for reading and
    writing.

    A symbolic link of this name is removed, so that nothing is written to the link's target. ``mode`` is the
    permissions of the new file, before the umask. Raises OutputError if the operating system refuses.
    """
    with writing(path):
        path.unlink(missing_ok=True)
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, mode)


def write(path: Path, fd: int, data: bytes | memoryview) -> None:
    """Write all of ``data`` at the current offset of the file descriptor ``fd``. Raises OutputError that names
    ``path``.
    """
    # A source's commits are written one by one. Here a ``with`` statement would take as long as the system call.
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
    except OSError as error:
        raise _cannot("written", path, error) from error


def truncate(path: Path, fd: int, size: int) -> None:
    """Truncate the open file to ``size`` bytes, and move the offset of ``fd`` to the file's new end. Raises OutputError
    that names ``path``.
    """
    with writing(path):
        os.ftruncate(fd, size)
        os.lseek(fd, size, os.SEEK_SET)


def sync(path: Path, fd: int) -> None:
    """Wait until the data of the open file is on the disk (``fdatasync``). Raises OutputError that names ``path``."""
    begin = time.perf_counter()
    with writing(path):
        os.fdatasync(fd)
    for observe in SYNC_OBSERVERS:
        observe(time.perf_counter() - begin)


def sync_path(path: Path) -> None:
    """Sync a file, or the entries of a directory, to the disk (``fsync``), so that a rename survives a power failure.
    Raises OutputError if the operating system refuses.
    """
    with writing(path):
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def rename(old: Path, new: Path) -> None:
    """Rename a file. An existing file with the name ``new`` is replaced atomically. Raises OutputError if the operating
    system refuses.
    """
    with writing(new):
        os.replace(old, new)


def remove(path: Path) -> None:
    """Remove a file. Do nothing if it does not exist. Raises OutputError if the operating system refuses."""
    with writing(path):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def committed(
    path: Path, *, beside: Path | None = None, synced: bool = True, mode: int = 0o666
) -> Iterator[BinaryIO]:
    """Yield a new file for writing, which replaces ``path`` atomically at the end of the ``with`` block. An OSError in
    the block, or in writing the file, is raised as OutputError.

    After an error in the block or in writing, ``path`` stays unchanged and the new file is removed. Until the end the
    new file has the name ``beside``, by default the name of ``path`` with ``.new`` at its end. Concurrent writers of
    one path need different names. With ``synced`` the replaced file survives a power failure. Without ``synced`` it
    surely survives only a crash of the process.
    """
    # Unlike with_name, this also accepts a path without a name, which the rename then refuses.
    beside = beside or Path(f"{path}.new")
    descriptor = create(beside, mode)
    try:
        with writing(beside), open(descriptor, "wb") as file:
            yield file
            file.flush()
            if synced:
                sync(beside, descriptor)
        rename(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    if synced:
        sync_path(path.parent)


def replace(path: Path, data: bytes, *, synced: bool = True, mode: int = 0o640) -> None:
    """Replace the content of a file atomically, so that a crash leaves the old or the new content. Raises OutputError
    if the operating system refuses.

    With ``synced`` the new content also survives a power failure. ``mode`` is the permissions of the file, before the
    umask.
    """
    with committed(path, synced=synced, mode=mode) as file:
        write(Path(f"{path}.new"), file.fileno(), data)


def replace_directory(new: Path, target: Path, aside: Path) -> None:
    """Rename the directory ``new`` to ``target``. An existing ``target`` is renamed to ``aside`` first, and the caller
    removes ``aside``.

    If the renaming fails or is interrupted, the error is raised, and the existing directory has its old name again.
    Raises OutputError if the rename cannot be synced to the disk.
    """
    try:
        if target.exists():
            os.rename(target, aside)
        os.rename(new, target)
    except BaseException:
        if aside.exists() and not target.exists():
            os.rename(aside, target)
        raise
    sync_path(target.parent)


@contextlib.contextmanager
def locked(path: Path, busy: str, *, waits: bool = False) -> Iterator[int]:
    """Lock an existing file or directory exclusively for the body of a ``with`` statement. Yield its descriptor.

    The operating system releases the lock when the process ends. If another process holds the lock, wait for it with
    ``waits``, and otherwise raise OutputError with the text ``busy``. Raises OutputError if ``path`` cannot be opened.
    """
    with writing(path):
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OutputError(busy) from None
        yield handle
    finally:
        os.close(handle)


class DirectoryLock:
    """A lock on a directory (``flock`` on the file ``path`` in it), so that two processes never share the directory.

    The constructor takes the lock, and creates the directory if it is missing. If another process holds the lock, the
    constructor waits up to ``patience`` seconds, because that process may be ending. After that time it raises
    DirectoryBusy with the text ``busy``, in which ``{process}`` stands for that process's number. The constructor
    raises OutputError if the lock file cannot be made. The operating system gives up the lock when the process ends,
    even after a crash.
    """

    def __init__(self, path: Path, busy: str, *, patience: float = 0.0) -> None:
        with writing(path.parent, doing="made"):
            path.parent.mkdir(parents=True, exist_ok=True)
        with writing(path):
            self._fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
        deadline = time.monotonic() + patience
        try:
            while not self._try_lock():
                if time.monotonic() >= deadline:
                    holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
                    raise DirectoryBusy(busy.replace("{process}", holder))
                time.sleep(_LOCK_RETRY)
            with writing(path):
                os.ftruncate(self._fd, 0)
                os.pwrite(self._fd, b"%d\n" % os.getpid(), 0)
        except BaseException:
            self.release()
            raise

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Release the lock, so that another process can lock the directory."""
        os.close(self._fd)

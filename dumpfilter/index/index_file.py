"""The index file of a binlog set, and the writer that appends to a set.

The index file is a text file that names the set's binlog files, one on each line. A :class:`LogWriter` appends to the
copy of a running server's binlogs that a master fetches, or to a slave's relay log. A crash at any moment leaves a
valid set, which at worst lacks its newest events. The first events of a file are on the disk before the index names the
file. The owner of the set decides up to which position a file is valid after a crash, and truncates the rest.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections import deque
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Generic, Self, TypeVar

from dumpfilter.base import files
from dumpfilter.base.errors import BinlogCorrupt, BinlogMissing, OutputError
from dumpfilter.base.files import committed, writing
from dumpfilter.binlog.reader import open_regular, read_up_to

MAX_INDEX = 16 << 20
"""The largest index file that is read, bytes. This suffices for more than 100,000 names, even with long directories."""

MAX_NAME = 4096
"""The longest line of an index file that is accepted, bytes. Linux has no longer paths, and servers write at most 512
bytes.
"""


INDEX_CHANGES = threading.Lock()
"""The lock that a thread of this process holds while it changes an index file. A purge and a receiver that begins a
file take this lock.
"""


def read_index(index: Path) -> list[str]:
    """Return the lines of an index file without white space around them.

    The last element is the text after the last line end: the empty text, or a line that a server is still writing.
    Raises BinlogMissing if there is no such file, BinlogUnreadable if the system cannot read it, and BinlogCorrupt for
    content that no server writes.
    """
    try:
        source = open_regular(index)
    except BinlogMissing as error:
        raise BinlogMissing(f"cannot read the index: {error.what}", file=error.file) from None
    with source:
        return parse_index(read_up_to(source.fileno(), 0, MAX_INDEX + 1, file=str(index)), file=str(index))


def take_out(index: Path, names: Collection[str]) -> None:
    """Remove the lines of the binlog files ``names`` from an index file. The file keeps its owner and mode.

    The change is atomic: after a crash the index file is either the old or the new one. Raises OutputError if the file
    cannot be read or replaced, or if a server changes it at the same time.
    """
    with writing(index, doing="read"):
        old = index.read_bytes()
        before = index.stat()
    lines = old.splitlines(keepends=True)
    gone = {name.encode("utf-8", "surrogateescape") for name in names}
    left = [line for line in lines if line.strip().rpartition(b"/")[2] not in gone]
    if left == lines:
        return
    with committed(index, beside=index.with_name(f"{index.name}.purge")) as file:
        file.write(b"".join(left))
        os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
        if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(file.fileno(), before.st_uid, before.st_gid)
        if index.read_bytes() != old:
            raise OutputError(f"{index}: a server is writing this set: its index has just changed")


def parse_index(data: bytes, *, file: str) -> list[str]:
    r"""Return the lines of an index file's content without white space around them. ``file`` is the file's name for
    errors.

    The last element is the text after the last line end: the empty text, or a line that a server is still writing.
    Raises BinlogCorrupt for content that no server writes, and for more than :data:`MAX_INDEX` bytes.

    >>> parse_index(b"./bin.000001\n./bin.00", file="bin.index")
    ['./bin.000001', './bin.00']
    """
    if len(data) > MAX_INDEX:
        raise BinlogCorrupt(
            f"the index has more than the limit of {MAX_INDEX} bytes; name the right file, "
            "or purge old binlogs on the server",
            file=file,
        )
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if b"\0" in line or len(line) > MAX_NAME:
            what = "a NUL byte" if b"\0" in line else f"{len(line)} bytes, more than any path"
            raise BinlogCorrupt(f"line {number} of the index has {what}; {_CURE}", file=file)
    return [line.decode("utf-8", "surrogateescape").strip() for line in lines]


_CURE = "copy the index again from the server, or correct the line"


def write_index(index: Path, names: Sequence[str], *, mode: int = 0o640) -> None:
    """Replace the index file of a binlog set by a file with the given names, in the servers' format. The replacement is
    atomic, also in a crash. Raises OutputError.
    """
    text = "".join(f"./{name}\n" for name in names)
    files.replace(index, text.encode("utf-8", "surrogateescape"), mode=mode)


class GrowingFile:
    """A binlog or relay log file that is open for appending. ``fd`` is its file descriptor, and ``end`` its present
    size, bytes. Methods raise OutputError when the system reports an error, unless their texts say otherwise.
    """

    def __init__(self, path: Path, fd: int, end: int) -> None:
        self.path = path
        self.name = path.name
        self.end = end
        """The size of the file, bytes."""
        self.is_synced = False
        """Whether all written bytes are on the disk, or are being synced by :meth:`LogWriter.sync_later`."""
        self._fd = fd

    @classmethod
    def create(cls, path: Path, head: bytes, *, mode: int = 0o640) -> Self:
        """Create a file that begins with the bytes ``head``, and open it for appending. A file of this name that a
        crash left is replaced. Raises OutputError.
        """
        made = cls(path, files.create(path, mode), 0)
        try:
            made.append(head)
        except BaseException:
            made.close()
            raise
        return made

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open an existing file to append at its end. Raises OSError, which the caller converts."""
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        return cls(path, fd, os.lseek(fd, 0, os.SEEK_END))

    def append(self, data: bytes | memoryview) -> None:
        """Append ``data`` to the file. Raises OutputError when the system reports an error. The file is then truncated
        to its former end if the system allows.
        """
        self.is_synced = False
        try:
            files.write(self.path, self._fd, data)
        except OutputError:
            with contextlib.suppress(OutputError):
                files.truncate(self.path, self._fd, self.end)
            raise
        self.end += len(data)

    def cut(self, end: int) -> None:
        """Truncate the file to the size ``end``, bytes, to remove invalid or incomplete events after this offset.
        ``end`` must not be larger than the file. Raises OutputError.
        """
        if self.end > end:
            files.truncate(self.path, self._fd, end)
        self.end = end

    def read(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes of the file from the byte offset ``offset`` on, or fewer at the file's end. Raises
        OutputError when the system cannot read the file.
        """
        with files.writing(self.path, doing="read"):
            return os.pread(self._fd, length, offset)

    def sync(self) -> None:
        """Wait until all written bytes are on the disk (``fdatasync``). Raises OutputError when this fails."""
        if not self.is_synced:
            files.sync(self.path, self._fd)
            self.is_synced = True

    def close(self) -> None:
        """Close the file without a sync to the disk."""
        os.close(self._fd)


F = TypeVar("F", bound=GrowingFile)


class LogWriter(Generic[F]):
    """A writer that appends to a binlog set or relay log of this process. An index file names the set's files, and the
    newest file is open for appending.

    With ``synced`` a new file's first bytes are synced to the disk before the index names the file, and all of a file
    is synced before the next file begins. Without it, only :meth:`sync` and :meth:`sync_later` sync. ``index`` is the
    path of the index file; None before the first file, if its name is not known yet.
    """

    def __init__(self, index: Path | None, *, synced: bool) -> None:
        self.index = index
        self.file: F | None = None
        """The open file, to which events are appended. None before :meth:`begin`, and after an error in :meth:`begin`.
        """
        self._synced = synced
        self._syncing_thread = ThreadPoolExecutor(1, "log-sync")
        self._syncing: deque[Future[None]] = deque()
        """The calls of :meth:`sync_later` whose results have not been checked yet."""

    @property
    def names(self) -> list[str]:
        """The names of the binlog or relay log files that the index file lists, oldest first."""
        return [] if self.index is None else [Path(line).name for line in read_index(self.index) if line]

    def begin(self, index: Path, made: F) -> F:
        """Add the new file ``made`` to the index file ``index``, so that later events are appended to this file. Return
        ``made``.

        Raises OutputError if a file cannot be written. After an error the new file is closed, and the index does not
        name it.
        """
        try:
            if self._synced:
                made.sync()
            # Another thread may have purged files since.
            with INDEX_CHANGES:
                write_index(index, [*self.names, made.name])
        except BaseException:
            made.close()
            raise
        self.index, self.file = index, made
        return made

    @property
    def is_synced(self) -> bool:
        """Whether all written bytes are known to be on the disk."""
        return not self._syncing and (self.file is None or self.file.is_synced)

    @property
    def is_syncing(self) -> bool:
        """Whether a sync that :meth:`sync_later` has started is still running."""
        return any(not one.done() for one in self._syncing)

    def sync(self) -> None:
        """Wait until all written bytes are on the disk. Raises OutputError when this fails, or when a sync of
        :meth:`sync_later` has failed.
        """
        self._see_results(0)
        if self.file is not None:
            self.file.sync()

    def sync_later(self, *then: Path) -> None:
        """Start to sync the open file to the disk in another thread, and return at once. The files ``then``, such as a
        state file, are synced after the open file.

        At most two such syncs are unfinished. A further call waits until one has finished, so that a slow disk slows
        down the sender of the log. A call when nothing is left to sync starts no sync, and waits for all unfinished
        ones. Raises OutputError when an earlier sync has failed.
        """
        assert self.file is not None
        self._see_results(0 if self.file.is_synced and not then else 1)
        if then or not self.file.is_synced:
            self.file.is_synced = True
            self._syncing.append(self._syncing_thread.submit(_write_to_disk, (self.file.path, *then)))

    def _see_results(self, most: int) -> None:
        """Wait until at most ``most`` syncs of :meth:`sync_later` are unfinished. Raises OutputError when a finished
        sync has failed.
        """
        while len(self._syncing) > most:
            error = self._syncing.popleft().exception()
            if error is not None:
                wait(self._syncing)
                self._syncing.clear()
                if self.file is not None:
                    self.file.is_synced = False
                raise error

    def close_file(self, *, synced: bool = True) -> None:
        """Close the open file, if any, after the unfinished syncs of :meth:`sync_later`. The file is synced to the disk
        first if both this argument and the constructor's argument ``synced`` are True.

        Raises OutputError when this sync fails, or when one of :meth:`sync_later` has failed. The file is closed even
        then.
        """
        file, self.file = self.file, None
        ended, self._syncing = self._syncing, deque()
        wait(ended)
        try:
            for one in ended:
                one.result()
            if file is not None and self._synced and synced:
                file.sync()
        finally:
            if file is not None:
                file.close()


def _write_to_disk(paths: Sequence[Path]) -> None:
    for path in paths:
        with files.writing(path):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            files.sync(path, descriptor)
        finally:
            os.close(descriptor)

"""A channel's relay log as a binlog set that grows, up to the position that the channel has published.

Behind that position the relay log may end inside a transaction, which the slave receives again after a lost connection.
Up to that position the relay log never changes, until the channel goes back. Then the set is closed for good, and its
readers end with an error after which a replica connects again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dumpfilter.errors import BinlogError, BinlogUnreadable
from dumpfilter.index.fileset import BinlogFile, BinlogSet
from dumpfilter.slave.state.relay_log import BASENAME, RelayPosition, file_number


class RelayWentBack(BinlogUnreadable):
    """The error for the reader of a relay log of which the slave discards a part. It passes by itself."""

    def __init__(
        self,
        what: str = "the slave discards this part of its relay log, and receives it again; connect again",
        *,
        file: str | None = None,
        position: int | None = None,
        momentary: bool = True,
    ) -> None:
        super().__init__(what, file=file, position=position, momentary=momentary)


class ReceivedEnd:
    """The position up to which a relay log may be read. One thread moves it, and any thread reads it."""

    def __init__(self, position: RelayPosition) -> None:
        self.position = position
        self.is_closed = False
        """Whether the slave discards a part of the relay log before the position. It stays so for good."""

    def close(self) -> None:
        """End all reading. The reader of a file notices that when it checks what it has read."""
        self.is_closed = True


class RelayFile(BinlogFile):
    """A relay log file that ends where the slave's complete transactions end."""

    def __init__(self, path: Path, end: ReceivedEnd) -> None:
        self._end = end
        super().__init__(path)

    def _left(self, offset: int, length: int) -> int:
        """Return how many of the bytes from ``offset`` on may be read."""
        if self._end.is_closed:
            raise RelayWentBack(file=self.name)
        here = self._end.position
        if here.file != self.name:
            return length
        return max(0, min(length, here.offset - offset))

    @property
    def size(self) -> int:
        """The size of the complete part of the file now, bytes."""
        return self._left(0, super().size)

    def read_up_to(self, offset: int, length: int) -> bytes:
        return super().read_up_to(offset, self._left(offset, length))

    def read_into(self, buffer: npt.NDArray[np.uint8], offset: int) -> int:
        return super().read_into(buffer[: self._left(offset, buffer.size)], offset)


class RelaySet(BinlogSet):
    """The relay log files of a channel, up to the one that holds ``end``. Raises BinlogError."""

    def __init__(self, directory: Path, end: ReceivedEnd) -> None:
        super().__init__([], directory / f"{BASENAME}.index")
        self._end = end
        self.refresh()

    def refresh(self) -> bool:
        """Read the index file again, and tell whether the list of files has changed."""
        before = list(self._paths)
        with self._going_back():
            super().refresh()
        newest = file_number(self._end.position.file)
        # The slave names a file in its index before it publishes a position in the file.
        self._paths = {name: path for name, path in self._paths.items() if file_number(name) <= newest}
        return before != list(self._paths)

    def growth(self) -> tuple[object, ...]:
        """Return a value that changes when the relay log grows, or loses files."""
        if self._end.is_closed:
            return ("closed",)
        return (*self._end.position, self.names[0])

    def size(self, name: str) -> int:
        """Return the size of the complete part of a file, bytes."""
        with self._going_back():
            size = super().size(name)
        here = self._end.position
        return min(size, here.offset) if name == here.file else size

    def file(self, name: str) -> BinlogFile:
        """Open a relay log file."""
        with self._going_back():
            return RelayFile(self.path(name), self._end)

    @contextmanager
    def _going_back(self) -> Iterator[None]:
        """Raise RelayWentBack in place of an error about files that the slave is discarding."""
        try:
            yield
        except BinlogError as error:
            if self._end.is_closed:
                raise RelayWentBack(file=error.file) from error
            raise

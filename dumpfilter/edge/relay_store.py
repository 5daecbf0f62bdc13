"""A channel's relay log as a binlog set that grows, up to the position that the channel has published.

Behind that position the relay log may end inside a transaction, which the slave receives again after a lost connection.
Up to that position the relay log never changes, until the channel goes back. Then the set is closed for good, and its
readers end with an error after which a replica connects again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.gtid import GtidSet, MysqlGtidSet
from dumpfilter.errors import BinlogError, BinlogUnreadable, PositionError
from dumpfilter.index.fileset import BinlogFile, BinlogSet
from dumpfilter.index.previous_gtids import gtids_before
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.logged import Logged
from dumpfilter.master.store import BinlogStore
from dumpfilter.slave.state.relay_log import BASENAME, RelayPosition, file_number

_UNKNOWN = (
    "the slave does not know which GTIDs came before its relay log, because it began in the middle of a binlog file; "
    "start the slave with --auto-position or at the beginning of a file (CHANGE REPLICATION SOURCE TO "
    "SOURCE_AUTO_POSITION=1), or wait until its master begins another binlog file"
)


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


@dataclass(eq=False)
class ReceivedEnd:
    """The position up to which a relay log may be read. One thread moves it, and any thread reads it."""

    position: RelayPosition
    is_closed: bool = False
    """Whether the slave discards a part of the relay log before the position. It stays so for good."""


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
        return length if here.file != self.name else max(0, min(length, here.offset - offset))

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


class RelayStore(BinlogStore):
    """The relay log of one channel, read up to ``end``.

    ``is_complete`` says that the slave has received everything from the beginning of its first binlog file on, or from
    its own GTIDs on.
    """

    def __init__(self, directory: Path, end: ReceivedEnd, *, is_complete: bool) -> None:
        self._is_complete = is_complete
        super().__init__(RelaySet(directory, end))
        self.upstream = _cannot_ask

    def previous_gtids(self, name: str) -> GtidSet | None:
        """Return the GTIDs that no file from ``name`` on has. A replica must have these GTIDs if its dump begins there.

        The slave had received some of them before the file, and the writer's file names the others at its beginning. A
        slave that began in the middle of a file learns the GTIDs before from the writer's next file.
        Raises PositionError when they are unknown.
        """
        before = super().previous_gtids(name)
        if before is not None or self._is_complete:
            return before
        names = self.binlogs.names
        for later in names[names.index(name) + 1 :]:
            logged, received, _ = gtids_before(self.open_file(later).file)
            # MariaDB's positions do not tell where the slave began.
            if isinstance(logged, MysqlGtidSet):
                return logged if received is None else logged - received
        raise PositionError(_UNKNOWN, file=name)

    def _check_gtids(self, indexed: IndexedFile, following: str) -> None:
        """Trust the slave, which checks its relay log itself. Each file's head tells the size of the file before."""


def _cannot_ask() -> Logged:
    raise BinlogUnreadable("the slave may not have received everything from its master", momentary=True)

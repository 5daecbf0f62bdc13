"""The store over a channel's relay log, which knows the GTIDs before each relay log file."""

from __future__ import annotations

from pathlib import Path

from dumpfilter.binlog.gtid import GtidSet, MysqlGtidSet
from dumpfilter.edge.relay_set import ReceivedEnd, RelaySet
from dumpfilter.errors import BinlogUnreadable, PositionError
from dumpfilter.index.previous_gtids import gtids_before
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.logged import Logged
from dumpfilter.master.store import BinlogStore

_UNKNOWN = (
    "the slave does not know which GTIDs came before its relay log, because it began in the middle of a binlog file; "
    "start the slave with --auto-position or at the beginning of a file (CHANGE REPLICATION SOURCE TO "
    "SOURCE_AUTO_POSITION=1), or wait until its master begins another binlog file"
)


def _cannot_ask() -> Logged:
    raise BinlogUnreadable("the slave may not have received everything from its master", momentary=True)


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

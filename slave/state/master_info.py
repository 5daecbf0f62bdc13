"""The state file ``master.info``: the I/O thread's position.

The I/O thread saves resume points only. A resume point is a position in the master's binlog from which a dump
can continue, and the offset up to which the relay log holds everything before that position.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import NonNegativeInt

from dumpfilter.binlog.format import NameCollation
from dumpfilter.errors import StateCorrupt
from dumpfilter.slave.state import AFRESH, state_file
from dumpfilter.slave.state.relay_log import BASENAME, RelayPosition

NAME = "master.info"


class MasterInfo(state_file.State):
    """The content of ``master.info``. Before the first chunk, file names are empty and numbers are 0.

    Members are named as in SHOW REPLICA STATUS, where MySQL calls the master "source".
    """

    master_uuid: str = ""
    """The master's server_uuid. A master over binlogs without a UUID makes one at each start."""
    family: Literal["", "mysql", "mariadb"] = ""
    """The family of servers that wrote the binlogs. ``retrieved`` is a GTID set of this family."""
    names: Literal["", "general_ci", "general1400_as_ci"] = ""
    """The collation for names that the slave and the master agreed on in the first stream."""
    source_file: str = ""
    """The base name of the master's binlog file that the I/O thread reads (``Source_Log_File``)."""
    source_position: NonNegativeInt = 0
    """The offset in ``source_file`` from which the next dump continues, bytes. The offset lies between two
    transactions."""
    relay_file: str = ""
    """The base name of the relay log that holds the events of ``source_file``."""
    relay_offset: NonNegativeInt = 0
    """The offset up to which ``relay_file`` is complete, bytes."""
    retrieved: str = ""
    """The GTIDs of the completed transactions (``Retrieved_Gtid_Set``), including those that the master
    dropped."""
    filter_version: NonNegativeInt = 0
    """The version of the filter that selected the newest events."""

    filter_digest: str = ""
    """The digest of the filter that selected the events beyond the applier's position.

    A slave that starts with another filter fetches these events again.
    """

    other_filters: bool = False
    """Whether the channel has ever had another filter.

    With another filter the applier may have prepared XA transactions that the current filter drops.
    """

    @property
    def name_collation(self) -> NameCollation | None:
        """The collation for names that this channel keeps. None before the first stream."""
        if self.names:
            return NameCollation(self.names)
        # An early release knew only one collation and did not write the collation's name into the file.
        return NameCollation.GENERAL_CI if self.source_file else None

    @property
    def relay_position(self) -> RelayPosition | None:
        """The position up to which the relay log is complete. None before the first relay log."""
        return RelayPosition(self.relay_file, self.relay_offset) if self.relay_file else None


class MasterInfoFile:
    """The file ``master.info`` in a relay directory.

    ``sync_every`` is ``--sync-master-info``: after that many events the slave synchronizes the relay log, and
    then this file, to the disk. 0 leaves synchronizing to the operating system. A crash of the process loses
    nothing in either case. A crash of the machine may lose data that was not synchronized.
    """

    def __init__(self, directory: Path, *, sync_every: int = 10_000) -> None:
        self.path = directory / NAME
        self.sync_every = sync_every

    def load(self) -> MasterInfo:
        """Return the saved state, or an empty one in a directory that has never had a slave.

        Raises :class:`StateCorrupt` when the file is unusable, or when it is missing beside relay logs.
        """
        info = state_file.load(self.path, NAME, MasterInfo)
        if info is not None:
            return info
        if any(self.path.parent.glob(f"{BASENAME}.[0-9]*")):
            raise StateCorrupt(f"{self.path}: the file is missing beside relay logs; {AFRESH}")
        info = MasterInfo()
        self.save(info, synced=True)
        return info

    def save(self, info: MasterInfo, *, synced: bool) -> None:
        """Replace the file."""
        state_file.save(self.path, NAME, info, synced=synced)

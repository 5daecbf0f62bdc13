"""Master_info: how far the I/O thread is, in the state file ``master.info``.

It is advanced only to a chunk's resume point, so everything it says lies between two transactions: the
place in the master's binlog from which to go on, and the place in the relay log up to which everything
before that is there.
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
    """What ``master.info`` says. Before the first chunk, file names are empty and numbers 0."""

    master_uuid: str = ""
    """The master's server_uuid (for binlogs without one, an id of that run of the master)."""
    family: Literal["", "mysql", "mariadb"] = ""
    """Whose binlogs they are; decides how ``retrieved`` is written."""
    names: Literal["", "general_ci", "general1400_as_ci"] = ""
    """The collation for names that master and slave agreed on with the first stream."""
    source_file: str = ""
    """Base name of the master's binlog file that is being read (``Relay_Master_Log_File``)."""
    source_position: NonNegativeInt = 0
    """Offset in it from which to go on, bytes; between two transactions."""
    relay_file: str = ""
    """Base name of the relay log that belongs to ``source_file``."""
    relay_offset: NonNegativeInt = 0
    """Up to here the relay log is complete, bytes."""
    retrieved: str = ""
    """The GTIDs completed so far (``Retrieved_Gtid_Set``), with those that held nothing for this slave."""
    filter_version: NonNegativeInt = 0
    """The version of the filter that the newest events were chosen with."""

    filter_digest: str = ""
    """Of the filter that the events beyond the applier's place were chosen with: with another one they have to be
    fetched anew."""

    other_filters: bool = False
    """Whether there was ever another filter: the applier may have prepared XA transactions that this one drops."""

    @property
    def name_collation(self) -> NameCollation | None:
        """The collation for names that this slave keeps to; None before the first stream."""
        if self.names:
            return NameCollation(self.names)
        # a release that knew one collation only wrote this state
        return NameCollation.GENERAL_CI if self.source_file else None

    @property
    def relay_position(self) -> RelayPosition | None:
        """Up to where the relay log is complete; None before the first file."""
        return RelayPosition(self.relay_file, self.relay_offset) if self.relay_file else None


class MasterInfoFile:
    """``master.info`` in a relay directory.

    ``sync_every`` is ``--sync-master-info``: the file is synchronized to the disk (and the relay log before
    it) after that many events; 0 leaves it to the operating system. A killed process loses nothing either
    way; this is about the machine.
    """

    def __init__(self, directory: Path, *, sync_every: int = 10_000) -> None:
        self.path = directory / NAME
        self.sync_every = sync_every

    def load(self) -> MasterInfo:
        """The recorded state. A directory that never had a slave gets an empty one.

        Raises :class:`StateCorrupt` when the file cannot be used, or when there are relay logs without it.
        """
        info = state_file.load(self.path, NAME, MasterInfo)
        if info is not None:
            return info
        if any(self.path.parent.glob(f"{BASENAME}.[0-9]*")):
            raise StateCorrupt(f"{self.path}: is missing although there are relay logs beside it; {AFRESH}")
        info = MasterInfo()
        self.save(info, synced=True)
        return info

    def save(self, info: MasterInfo, *, synced: bool) -> None:
        """Replace the file."""
        state_file.save(self.path, NAME, info, synced=synced)

"""The state file ``master.info``: how far the I/O thread has received the master's binlog.

The file always holds a resume point: a position between two transactions of the master's binlog, from which a
dump can continue. With it stands the offset up to which the relay log holds everything before that position.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import NonNegativeInt

from dumpfilter.base.errors import StateCorrupt
from dumpfilter.base.state_file import State, StateFile
from dumpfilter.binlog.format import NameCollation
from dumpfilter.slave.state import AFRESH, FORMAT
from dumpfilter.slave.state.relay_log import BASENAME, RelayPosition

NAME = "master.info"


class MasterInfo(State):
    """The content of ``master.info``: the I/O thread's resume point, and the filter that selected the events.

    Before the slave has received anything, file names are empty and numbers are 0. Members are named as in SHOW
    REPLICA STATUS, where MySQL calls the master "source".
    """

    master_uuid: str = ""
    """The server_uuid of the master that the position belongs to. A master whose binlogs contain no server_uuid
    makes a new one at each start."""
    family: Literal["", "mysql", "mariadb"] = ""
    """The family of servers that wrote the master's binlogs. The GTID set ``retrieved`` has this family's format."""
    names: Literal["", "general_ci", "general1400_as_ci"] = ""
    """The collation by which filters compare names of databases and tables.

    Slave and master agreed on the collation in the first stream, and the channel keeps it.
    """
    source_file: str = ""
    """The base name of the master's binlog file that the I/O thread reads (``Source_Log_File``)."""
    source_position: NonNegativeInt = 0
    """The offset in the binlog file ``source_file`` from which the next dump continues, bytes. It lies between
    two transactions."""
    relay_file: str = ""
    """The base name of the relay log file that holds the received events of ``source_file``."""
    relay_offset: NonNegativeInt = 0
    """The offset in ``relay_file`` up to which the file holds complete transactions, bytes. After a crash the
    slave truncates the file to this offset."""
    retrieved: str = ""
    """The GTIDs of all transactions that the slave has received completely or that the master dropped
    (``Retrieved_Gtid_Set``)."""
    except_gtids: str = ""
    """The GTIDs that the slave had when it asked this master for a dump by GTID set (``SOURCE_AUTO_POSITION``).

    The master's binlog may hold these transactions after the position, too. Each later dump from the position excepts
    them, so that the slave does not apply them again.
    """
    filter_digest: str = ""
    """A hash of the filter that selected those events in the relay log that the applier has not applied.

    If a slave starts with another filter, the hash differs, and the slave requests these events again.
    """

    other_filters: bool = False
    """Whether the channel once had a filter other than the current one.

    If so, the applier may hold prepared XA transactions that the current filter would have dropped. The master
    must then send their XA COMMIT or XA ROLLBACK nevertheless.
    """

    @property
    def name_collation(self) -> NameCollation | None:
        """The collation by which this channel's filters compare names. None before the first stream."""
        return NameCollation(self.names) if self.names else None

    @property
    def relay_position(self) -> RelayPosition | None:
        """The position up to which the relay log holds complete transactions. None before the first relay log file."""
        return RelayPosition(self.relay_file, self.relay_offset) if self.relay_file else None


class MasterInfoFile(StateFile[MasterInfo]):
    """Access to the file ``master.info`` in the relay directory ``directory``.

    ``sync_every`` is the option ``--sync-master-info``. After that many events the slave forces the relay log and
    then ``master.info`` to the disk. With 0 the operating system decides when it writes them. A crash of the
    process loses nothing in either case. A crash of the machine may lose data that was not yet on the disk.
    """

    def __init__(self, directory: Path, *, sync_every: int = 10_000) -> None:
        super().__init__(directory / NAME, MasterInfo, FORMAT)
        self.sync_every = sync_every

    def peek(self) -> MasterInfo:
        """Read ``master.info`` without writing it. Return an empty state without the file. Raises StateCorrupt."""
        return super().load() or MasterInfo()

    def load(self) -> MasterInfo:
        """Read ``master.info``. In a directory that no slave has used, write and return an empty state.

        Raises StateCorrupt when the file is unusable, or when relay logs exist without the file.
        """
        info = super().load()
        if info is None:
            if any(self.path.parent.glob(f"{BASENAME}.[0-9]*")):
                raise StateCorrupt(f"{self.path}: the file is missing beside relay logs; {AFRESH}")
            info = MasterInfo()
            self.save(info)
        return info

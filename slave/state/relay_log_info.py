"""The state file ``relay-log.info``: the applier's position in the relay log, and the target's state there.

The slave writes position and state in one atomic step. After a crash it restores the target to that state and
continues at that position. So no transaction is applied twice or lost.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, NonNegativeInt

from dumpfilter.base.state_file import State, StateFile
from dumpfilter.slave.state import FORMAT
from dumpfilter.slave.state.relay_log import RelayPosition

NAME = "relay-log.info"


class RelayLogInfo(State):
    """The content of ``relay-log.info``: how far the applier has come, and the target's state at that position.

    Before the first transaction, file names are empty and numbers are 0. Members are named as in SHOW REPLICA
    STATUS, where MySQL calls the master "source".
    """

    relay_file: str = ""
    """The base name of the relay log file that the applier reads (``Relay_Log_File``)."""
    relay_offset: NonNegativeInt = 0
    """The offset in ``relay_file`` from which the applier reads the next event, bytes (``Relay_Log_Pos``). It
    lies between two transactions."""
    source_file: str = ""
    """The base name of the master's binlog file that the applied events came from (``Relay_Source_Log_File``)."""
    source_position: NonNegativeInt = 0
    """The offset in ``source_file`` up to which every event was applied or dropped, bytes
    (``Exec_Source_Log_Pos``)."""
    master_uuid: str = ""
    """The server UUID of the master from which the applied transactions came.

    The head event of the relay log file names the master.
    """
    executed: str = ""
    """The GTIDs of the transactions that the applier has applied or the master dropped (``Executed_Gtid_Set``)."""
    target: dict[str, Any] = Field(default_factory=dict)
    """The state that the target returned at this position (:meth:`dumpfilter.slave.targets.Target.state`)."""

    @property
    def relay_position(self) -> RelayPosition | None:
        """The position from which the applier reads on. None at the beginning of the relay log."""
        return RelayPosition(self.relay_file, self.relay_offset) if self.relay_file else None


class RelayLogInfoFile(StateFile[RelayLogInfo]):
    """Access to the file ``relay-log.info`` in the relay directory ``directory``."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / NAME, RelayLogInfo, FORMAT)

    def load(self) -> RelayLogInfo:
        """Read the file. Without the file, return an empty state. Raises StateCorrupt for an unusable file."""
        return super().load() or RelayLogInfo()

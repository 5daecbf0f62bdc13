"""The state file ``relay-log.info``: the applier's position and the target's state.

The slave replaces position and state together. After a crash the target is restored to the state at the
recorded position, and no transaction is applied twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, NonNegativeInt

from dumpfilter.slave.state import state_file
from dumpfilter.slave.state.relay_log import RelayPosition

NAME = "relay-log.info"


class RelayLogInfo(state_file.State):
    """The content of ``relay-log.info``. Before the first transaction, file names are empty and numbers are
    0.

    Members are named as in SHOW REPLICA STATUS, where MySQL calls the master "source".
    """

    relay_file: str = ""
    """The base name of the relay log that the applier reads (``Relay_Log_File``)."""
    relay_offset: NonNegativeInt = 0
    """The offset of the next event in ``relay_file``, bytes (``Relay_Log_Pos``). The offset lies between two
    transactions."""
    source_file: str = ""
    """The base name of the master's file that the applied events came from (``Relay_Source_Log_File``)."""
    source_position: NonNegativeInt = 0
    """The offset in ``source_file`` up to which everything was applied or dropped, bytes
    (``Exec_Source_Log_Pos``)."""
    master_uuid: str = ""
    """The server UUID of the master at the newest recorded state that the applier reached."""
    executed: str = ""
    """The GTIDs of transactions that were applied, or that the master dropped (``Executed_Gtid_Set``)."""
    passed_over: str = ""
    """The GTIDs of received transactions that the slave dropped because of their origin. They are not in
    ``executed``."""
    target: dict[str, Any] = Field(default_factory=dict)
    """The target's state (:meth:`dumpfilter.slave.targets.Target.state`)."""

    @property
    def relay_position(self) -> RelayPosition | None:
        """The applier's position in the relay log. None at its beginning."""
        return RelayPosition(self.relay_file, self.relay_offset) if self.relay_file else None


class RelayLogInfoFile:
    """The file ``relay-log.info`` in a relay directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME

    def load(self) -> RelayLogInfo:
        """Return the saved state, or an empty one before the first save. Raises StateCorrupt."""
        return state_file.load(self.path, NAME, RelayLogInfo) or RelayLogInfo()

    def save(self, info: RelayLogInfo) -> None:
        """Replace the file."""
        state_file.save(self.path, NAME, info, synced=False)

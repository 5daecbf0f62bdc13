"""Relay_log_info: how far the applier is, in the state file ``relay-log.info``.

It holds the target's state too: both are replaced in one step, so after a crash the target is exactly as it
was after the last transaction recorded here, and nothing is applied twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, NonNegativeInt

from dumpfilter.slave.state import state_file
from dumpfilter.slave.state.relay_log import RelayPosition

NAME = "relay-log.info"


class RelayLogInfo(state_file.State):
    """What ``relay-log.info`` says. Before the first transaction, file names are empty and numbers 0."""

    relay_file: str = ""
    """Base name of the relay log that is being applied (``Relay_Log_File``)."""
    relay_offset: NonNegativeInt = 0
    """Offset in it of the next event to be applied, bytes; between two transactions (``Relay_Log_Pos``)."""
    source_file: str = ""
    """The master's file that the applied events came from (``Relay_Source_Log_File``)."""
    source_position: NonNegativeInt = 0
    """Where in it the applied part ends, bytes (``Exec_Source_Log_Pos``)."""
    master_uuid: str = ""
    """Of the master at the newest place in its binlog that was reached and that both knew."""
    executed: str = ""
    """GTIDs of what has been applied, and of what held nothing for this slave (``Executed_Gtid_Set``)."""
    passed_over: str = ""
    """GTIDs of what was received and came from a server that is not wanted: neither executed nor held."""
    target: dict[str, Any] = Field(default_factory=dict)
    """The target's own state."""

    @property
    def relay_position(self) -> RelayPosition | None:
        """Where to go on in the relay log; None at its beginning."""
        return RelayPosition(self.relay_file, self.relay_offset) if self.relay_file else None


class RelayLogInfoFile:
    """``relay-log.info`` in a relay directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME

    def load(self) -> RelayLogInfo:
        """The recorded state, an empty one when nothing was applied yet. Raises StateCorrupt."""
        return state_file.load(self.path, NAME, RelayLogInfo) or RelayLogInfo()

    def save(self, info: RelayLogInfo) -> None:
        """Replace the file."""
        state_file.save(self.path, NAME, info, synced=False)

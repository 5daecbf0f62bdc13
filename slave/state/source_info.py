"""The state file ``source.info``: the options of CHANGE REPLICATION SOURCE TO (``mysql.slave_master_info``).

The file does not hold filters, because a server takes filters from its options at every start (WL#7057).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from dumpfilter.options.defaults import HEARTBEAT_PERIOD
from dumpfilter.slave.state import state_file

NAME = "source.info"


class SourceInfo(state_file.State):
    """The content of ``source.info``: how a channel connects to its master. The file is named after the SQL
    statement.

    The defaults are the server's.
    """

    channel: str = ""
    host: str = ""
    port: int = 3306
    user: str = ""
    password: str = Field(default="", repr=False)
    auto_position: bool = False
    log_file: str = ""
    """The binlog file in which a channel without a position begins. Empty means the master's first binlog."""
    log_pos: int = 4
    """The offset in ``log_file``, bytes."""
    connect_retry: float = 60.0
    """The longest wait between two attempts to connect, seconds."""
    retry_count: int = 10
    """The I/O thread gives up after this many failed attempts in a row. 0 means never. The default is that of
    MySQL 8.4."""
    heartbeat_period: float = HEARTBEAT_PERIOD
    """The time after which an idle master sends a heartbeat, seconds."""
    ignore_server_ids: list[int] = Field(default_factory=list)
    do_domain_ids: list[int] = Field(default_factory=list)
    ignore_domain_ids: list[int] = Field(default_factory=list)
    filter_on: Literal["MASTER", "SLAVE", "BOTH"] = "BOTH"
    """See :class:`~dumpfilter.slave.channel.FilterOn`."""

    @property
    def address(self) -> str:
        """The master's address ``host:port``. An IPv6 address stands in brackets."""
        host = f"[{self.host}]" if ":" in self.host and not self.host.startswith("[") else self.host
        return f"{host}:{self.port}"


def load(directory: Path) -> SourceInfo | None:
    """Return the channel's configuration, or None when there is none. Raises StateCorrupt."""
    return state_file.load(directory / NAME, NAME, SourceInfo)


def save(directory: Path, info: SourceInfo) -> None:
    """Replace the file. Only the file's owner may read it, because it holds a password. Raises OutputError."""
    state_file.save(directory / NAME, NAME, info, synced=True, mode=0o600)

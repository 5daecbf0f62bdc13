"""How a channel reaches its master, in the state file ``source.info``: what CHANGE REPLICATION SOURCE TO says
(``mysql.slave_master_info``). Filters are not among it: they are told anew at every start (WL#7057).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from dumpfilter.options.defaults import HEARTBEAT_PERIOD
from dumpfilter.slave import state_file

NAME = "source.info"


class SourceInfo(state_file.State):
    """What ``source.info`` says. The defaults are the server's."""

    channel: str = ""
    host: str = ""
    port: int = 3306
    user: str = ""
    password: str = Field(default="", repr=False)
    auto_position: bool = False
    log_file: str = ""
    """Where to begin when there is no position yet; empty: the first binlog."""
    log_pos: int = 4
    connect_retry: float = 60.0
    """Seconds."""
    retry_count: int = 10
    """So many failed attempts in a row and the I/O thread gives up; 0: never (MySQL's default is 10 since 8.4)."""
    heartbeat_period: float = HEARTBEAT_PERIOD
    """Seconds."""
    ignore_server_ids: list[int] = Field(default_factory=list)
    do_domain_ids: list[int] = Field(default_factory=list)
    ignore_domain_ids: list[int] = Field(default_factory=list)
    filter_on: Literal["MASTER", "SLAVE", "BOTH"] = "BOTH"
    """See :class:`~dumpfilter.slave.channel.FilterOn`."""

    @property
    def address(self) -> str:
        """``host:port``; an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host and not self.host.startswith("[") else self.host
        return f"{host}:{self.port}"


def load(directory: Path) -> SourceInfo | None:
    """The channel's configuration, or None when there is none. Raises StateCorrupt."""
    return state_file.load(directory / NAME, NAME, SourceInfo)


def save(directory: Path, info: SourceInfo) -> None:
    """Replace the file; only its owner may read it, since it holds a password. Raises OutputError."""
    state_file.save(directory / NAME, NAME, info, synced=True, mode=0o600)

"""The options that all channels of a slave share, and the functions that a slave calls while it receives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dumpfilter.errors import OptionError
from dumpfilter.slave.state.relay_log import RelayPosition
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

DEFAULT_TARGET = "summary"
"""The target of a slave without the option ``--target``."""


@dataclass(frozen=True)
class SlaveOptions:
    """The options that all channels of a slave share. An option that a MySQL server has, too, has the server's name."""

    relay_dir: Path
    server_id: int
    lower_case_table_names: int = 0
    replicate_same_server_id: bool = False
    report_host: str = ""
    report_port: int = 0
    plain_password: bool = False
    """``--source-plain-password``: whether passwords may travel unencrypted to masters on other machines."""
    net_timeout: float = 60.0
    """``--replica-net-timeout``: the time without a message from the master after which the slave reconnects,
    seconds."""
    chunk_size: int = 0
    """The size at which the master shall end a message of the stream (chunk), bytes. 0 lets the master choose."""
    once: bool = False
    """Whether the slave ends at the end of the master's newest binlog, instead of waiting for more events."""
    apply: bool = True
    """Whether the slave starts the appliers by default. If not, it only fills its relay logs, as after ``START REPLICA
    IO_THREAD``."""
    alone: bool = False
    """Whether an error in one thread of a channel leaves the other thread running, as in a server.

    Otherwise an error of the applier stops the I/O thread. After the end of the I/O thread the applier then applies the
    received transactions and ends.
    """
    target: str = DEFAULT_TARGET
    """The name of the target, the object to which each channel applies transactions (``--target``)."""
    sync_relay_log: int = 10_000
    sync_master_info: int = 10_000
    relay_log_expire_seconds: float = 0.0
    """The time after which a relay log file is removed that nobody needs, seconds. 0 keeps all files."""

    def check(self) -> None:
        """Raise OptionError unless the server id is a possible ``--server-id``, from 1 to 4294967295."""
        if not 1 <= self.server_id <= 0xFFFFFFFF:
            raise OptionError(f"--server-id={self.server_id}: give a number from 1 to 4294967295")


@dataclass(frozen=True)
class Watching:
    """Functions that the slave calls while it receives. Their first argument is the channel's name.

    ``on_chunk`` is called after each message of the master's stream, ``on_connect`` after each registration.
    ``on_relay_end`` receives the position up to which the relay log is complete, whenever the position changes. Before
    a channel truncates the relay log, ``on_relay_end`` receives a position further back.
    """

    on_chunk: Callable[[str, pb.Chunk], None] = lambda channel, chunk: None
    on_connect: Callable[[str, rpc.DumpFilterStub, pb.RegisterResponse], None] = (
        lambda channel, stub, answer: None
    )
    on_relay_end: Callable[[str, RelayPosition | None], None] = lambda channel, position: None
    needed_relay_log: Callable[[str], str | None] = lambda channel: None
    """Return the name of the oldest relay log file of a channel that must not be removed yet; None without one."""

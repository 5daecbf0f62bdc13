"""The options with which a channel's I/O thread connects to its master, registers there and asks for events."""

from __future__ import annotations

from dataclasses import dataclass, field

from dumpfilter.options.defaults import HEARTBEAT_PERIOD
from dumpfilter.slave.source_tls import SourceTls
from dumpfilter.v1 import dumpfilter_pb2 as pb


@dataclass(frozen=True)
class MasterOptions:
    """The options of a channel's connection to its master.

    They are the master's address, the slave's identity and login, the position at which the first dump begins, and
    the times after which the slave tries again. A user sets most of them with ``CHANGE REPLICATION SOURCE TO``.
    """

    address: str
    """The host and port of the master's gRPC service, as ``host:port``."""
    server_id: int
    """The slave's ``--server-id``."""
    uuid: str
    """The slave's server UUID."""
    secret: bytes = field(default=b"", repr=False)
    """The slave's secret. Only a slave with the same secret replaces a registration with this server UUID."""
    channel: str = ""
    """The channel's name. The default channel has the empty name."""
    filter: pb.FilterDefinition = field(default_factory=pb.FilterDefinition)
    """The filter that the slave sends to the master when it registers, so that the master filters with it."""
    user: str = ""
    """The user name with which the slave logs in to the master."""
    password: str = field(default="", repr=False)
    """The password with which the slave logs in to the master."""
    plain_password: bool = False
    """``--source-plain-password``: whether the password may travel unencrypted to another machine."""
    tls: SourceTls | None = None
    """``SOURCE_SSL`` and its fellow options. None: the connection has no TLS."""
    report_host: str = ""
    """``--report-host``: the slave's host as the master shows it."""
    report_port: int = 0
    """``--report-port``: the slave's port as the master shows it."""
    once: bool = False
    """Whether the I/O thread ends at the end of the master's newest binlog, instead of waiting for more events."""
    auto_position: bool = False
    """``SOURCE_AUTO_POSITION``: the slave sends its GTID set, and the master finds the position from it.

    The slave does so in the first dump and after a change of master. Other dumps begin at the saved position.
    """
    start_file: str = ""
    """The master's binlog file in which the channel's first dump begins. Later dumps begin at the saved position."""
    start_position: int = 4
    """The offset in ``start_file`` at which the channel's first dump begins, bytes."""
    chunk_size: int = 0
    """The size at which the master shall end a message of the stream (chunk), bytes. 0 lets the master choose."""
    heartbeat_period: float = HEARTBEAT_PERIOD
    """``SOURCE_HEARTBEAT_PERIOD``: the time after which a master without new events sends a heartbeat, seconds."""
    net_timeout: float = 60.0
    """``--replica-net-timeout``: the slave reconnects after this many seconds without a message from the master."""
    connect_retry: float = 60.0
    """``--connect-retry``: the longest wait between two attempts to connect to the master, seconds."""
    retry_count: int = 86_400
    """``--retry-count``: the number of failed attempts to connect in a row after which the I/O thread gives up.

    0 means that the thread never gives up.
    """

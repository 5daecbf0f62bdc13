"""The options with which the I/O thread connects to its master."""

from __future__ import annotations

from dataclasses import dataclass, field

from dumpfilter.options.defaults import HEARTBEAT_PERIOD
from dumpfilter.v1 import dumpfilter_pb2 as pb


@dataclass(frozen=True)
class MasterOptions:
    """The slave's identity, the master's address, and how the I/O thread reads from that master.

    A user sets most of these options with ``CHANGE REPLICATION SOURCE TO``.
    """

    address: str
    """``host:port`` of the master's gRPC service."""
    server_id: int
    """The slave's ``--server-id``."""
    uuid: str
    """The slave's server UUID."""
    channel: str = ""
    """The channel's name. The default channel has the empty name."""
    filter: pb.FilterDefinition = field(default_factory=pb.FilterDefinition)
    """The filter that the slave registers with."""
    user: str = ""
    """The user name that the master checks."""
    password: str = field(default="", repr=False)
    """The user's password."""
    report_host: str = ""
    """``--report-host``: the slave's host as the master shows it."""
    report_port: int = 0
    """``--report-port``: the slave's port as the master shows it."""
    once: bool = False
    """End at the end of the newest binlog."""
    auto_position: bool = False
    """``SOURCE_AUTO_POSITION``: begin by GTID set, the first time and after a change of master."""
    start_file: str = ""
    """The binlog file in which the first dump begins. Later dumps begin at the recorded position."""
    start_position: int = 4
    """The offset in ``start_file`` at which the first dump begins, bytes."""
    chunk_size: int = 0
    """The size of a chunk, bytes. 0 leaves the size to the master."""
    heartbeat_period: float = HEARTBEAT_PERIOD
    """``SOURCE_HEARTBEAT_PERIOD``, seconds."""
    net_timeout: float = 60.0
    """``--replica-net-timeout``: the slave reconnects after this many seconds without a message from the master."""
    connect_retry: float = 60.0
    """``--connect-retry``: the longest wait between two attempts to connect, seconds."""
    retry_count: int = 86_400
    """``--retry-count``: the I/O thread gives up after this many failed attempts in a row. 0 means never."""

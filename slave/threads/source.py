"""The master of a channel, and the slave's identity there."""

from __future__ import annotations

from dataclasses import dataclass, field

from dumpfilter.slave.options import SlaveOptions
from dumpfilter.slave.state.infos import SourceInfo
from dumpfilter.v1 import dumpfilter_pb2 as pb


@dataclass(frozen=True)
class Source:
    """A channel's master. The I/O thread uses the members to connect, to register there and to ask for events."""

    info: SourceInfo
    """The channel's configuration."""
    options: SlaveOptions
    uuid: str = ""
    """The slave's server UUID."""
    secret: bytes = field(default=b"", repr=False)
    """The slave's secret. Only a slave with the same secret replaces a registration with this server UUID."""
    filter: pb.FilterDefinition = field(default_factory=pb.FilterDefinition)
    """The filter that the slave sends to the master when it registers, so that the master filters with it."""

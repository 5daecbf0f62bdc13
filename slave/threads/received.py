"""Counts of the messages, bytes and events that an I/O thread has received from the master."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from dumpfilter.slave.state.counters_info import ChannelCounters
from dumpfilter.v1 import dumpfilter_pb2 as pb


@dataclass
class Received:
    """Counts since the newest start of a channel's I/O thread. A chunk is one message of the master's stream.

    ``counters`` are the channel's counts over all starts, to which the counts are added, too.
    """

    counters: ChannelCounters | None = None

    connections: int = 0
    """The number of times that the I/O thread has connected and received a stream of events (dump) from the master."""
    heartbeats: int = 0
    """The number of heartbeats: messages without events, which show that an idle master is alive."""
    last_heartbeat_at: float = 0.0
    """The Unix time of the newest heartbeat, seconds. 0 before the first heartbeat."""
    chunks: int = 0
    """The number of messages of the stream (chunks), heartbeats included."""
    bytes_received: int = 0
    """The size of all received events together, bytes. Message headers do not count."""
    counts: dict[str, int] = field(default_factory=lambda: {f.name: 0 for f in pb.Counts.DESCRIPTOR.fields})
    """The numbers of events and bytes that the master says it has read, sent and dropped for this slave.

    The keys are the names of the members of the protobuf message ``Counts``.
    """

    def connected(self) -> None:
        """Add one connection with a stream of events."""
        self.connections += 1
        if self.counters is not None:
            self.counters.count_connection()

    def lost(self, reason: str) -> None:
        """Note a lost connection, or a failed attempt to connect."""
        if self.counters is not None:
            self.counters.count_io_error(reason)

    def add(self, chunk: pb.Chunk) -> None:
        """Add one received message of the master's stream to the counts."""
        if self.counters is not None:
            self.counters.count_chunk(chunk)
        self.chunks += 1
        if chunk.heartbeat:
            self.heartbeats += 1
            self.last_heartbeat_at = time.time()
        self.bytes_received += len(chunk.events)
        for name in self.counts:
            self.counts[name] += getattr(chunk.counts, name)

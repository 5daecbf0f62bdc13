"""Counts of the messages that an I/O thread has received."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from dumpfilter.v1 import dumpfilter_pb2 as pb


@dataclass
class Received:
    """Counts of chunks and bytes since the I/O thread was started."""

    connections: int = 0
    """The number of dumps that the master has begun for this thread."""
    heartbeats: int = 0
    """The number of chunks that were heartbeats."""
    last_heartbeat_at: float = 0.0
    """The Unix time of the newest heartbeat, seconds. 0 before the first heartbeat."""
    chunks: int = 0
    """The number of chunks, heartbeats included."""
    bytes_received: int = 0
    """Bytes of raw events."""
    counts: dict[str, int] = field(default_factory=lambda: {f.name: 0 for f in pb.Counts.DESCRIPTOR.fields})
    """The master's counts of the events and bytes that it read, sent and dropped for this slave."""

    def add(self, chunk: pb.Chunk) -> None:
        """Add a chunk to the counts."""
        self.chunks += 1
        if chunk.heartbeat:
            self.heartbeats += 1
            self.last_heartbeat_at = time.time()
        self.bytes_received += len(chunk.events)
        for name in self.counts:
            self.counts[name] += getattr(chunk.counts, name)

"""The recorded streams of real servers, and the files that they were read from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dumpfilter.binlog.events import EventHeader

STREAMS = Path(__file__).parents[2] / "data" / "streams"
BINLOGS = Path(__file__).parents[2] / "oracle" / "data" / "oracle"


@dataclass(frozen=True)
class RecordedStream:
    """The events that a real server sent for one dump. ``tests/data/streams/README.md`` describes the fields."""

    server: str
    binlogs: str
    name: str
    file: str
    position: int
    gtids: str | None
    flags: int
    checksum: str
    events: tuple[bytes, ...]

    @property
    def family(self) -> str:
        return "mariadb" if "MariaDB" in self.server else "mysql"

    @property
    def directory(self) -> Path:
        """The directory of the binlog set."""
        return BINLOGS / self.binlogs

    def __str__(self) -> str:
        return f"{self.binlogs}-{self.name}"


def split_events(data: bytes) -> list[bytes]:
    """Return each of some consecutive events."""
    out, at = [], 0
    while at < len(data):
        size = EventHeader.unpack(data, at).size
        out.append(data[at : at + size])
        at += size
    return out


@cache
def recorded_streams() -> list[RecordedStream]:
    """Return all recorded streams."""
    out = []
    for path in sorted(STREAMS.glob("*.json")):
        document = json.loads(path.read_text())
        for stream in document["streams"]:
            events: list[bytes] = []
            for source, *place in stream.pop("events"):
                if source == "made":
                    events.append(bytes.fromhex(place[0]))
                else:
                    begin, end = place
                    events += split_events((BINLOGS / document["binlogs"] / source).read_bytes()[begin:end])
            out.append(
                RecordedStream(document["server"], document["binlogs"], events=tuple(events), **stream)
            )
    return out

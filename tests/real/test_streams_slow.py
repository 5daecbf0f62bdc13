"""The replication port sends an unfiltered replica, event for event, the stream of a real server.

Only the events that correct a replica's position may come at other times. A real server sends one before the next
event, and the port when nothing else is under way.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from dumpfilter.binlog.events import CHECKSUM_LENGTH, LOG_EVENT_ARTIFICIAL_F, EventHeader, EventType
from dumpfilter.binlog.reader import read_format_description
from tests.dump.packets.record_streams import Request, packets
from tests.dump.packets.streams import BINLOGS, STREAMS, RecordedStream, recorded_streams
from tests.real.behind import PASSWORD, Dumpfilter, ReplicaUser
from tests.slave.processes import Launcher


def _received(port: int, asked: RecordedStream) -> list[bytes]:
    request = Request(asked.name, asked.file, asked.position, asked.gtids, asked.flags, asked.checksum)
    found = list(packets(port, asked.family, request, PASSWORD))
    assert [number for number, _ in found] == [(1 + k) % 256 for k in range(len(found))]
    assert all(payload[0] == 0 for _, payload in found)
    return [payload[1:] for _, payload in found]


def _corrects_position(event: bytes) -> bool:
    header = EventHeader.unpack(event)
    is_artificial_list = header.type == EventType.GTID_LIST and header.flags & LOG_EVENT_ARTIFICIAL_F
    return header.type in (EventType.HEARTBEAT, EventType.HEARTBEAT_V2) or bool(is_artificial_list)


@pytest.mark.parametrize("name", [path.stem for path in sorted(STREAMS.glob("*.json"))])
def test_streams(name: str, launcher: Launcher, tmp_path: Path) -> None:
    with (BINLOGS / name / "bin.000001").open("rb") as file:
        has_checksums = read_format_description(file, file=name).checksum
    behind = Dumpfilter(launcher, tmp_path / "master")
    behind.configure([ReplicaUser("repl", [])])
    behind.start(BINLOGS / name / "bin.index")

    def comparable(events: Iterable[bytes]) -> list[bytes]:
        # A real server leaves the checksum of a changed format description wrong if the file has no checksums.
        return [
            event[:-CHECKSUM_LENGTH]
            if event[4] == EventType.FORMAT_DESCRIPTION and not has_checksums
            else event
            for event in events
            if not _corrects_position(event)
        ]

    for recorded in recorded_streams():
        if recorded.binlogs == name:
            received = _received(behind.port, recorded)
            # The port begins with the whole file where a replica asks for the first event after its head.
            skipped = 2 if recorded.name == "after-format-description" else 0
            assert comparable(received[skipped:]) == comparable(recorded.events[skipped:]), recorded.name

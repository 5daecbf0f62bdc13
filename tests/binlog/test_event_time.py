"""The times of commits that events tell."""

from __future__ import annotations

import pytest

from dumpfilter.binlog.event_time import commit_time, first_time
from dumpfilter.binlog.events import GTIDS, EventType
from dumpfilter.binlog.reader import iter_events
from tests.support import RECORDED, recording_id


@pytest.mark.parametrize("path", RECORDED[::7], ids=recording_id)
def test_commits_lie_near_the_time_of_their_event(path) -> None:
    with path.open("rb") as file:
        for event in iter_events(file, file=str(path)):
            if event.type in GTIDS:
                time = commit_time(event.raw, checksum=event.fd.checksum)
                # A statement begins before its commit. The recordings' statements are short.
                assert time is None or -3600 < time - event.header.timestamp < 3600


def test_mysql_tells_microseconds() -> None:
    path = next(path for path in RECORDED if "mysql-row" in str(path))
    with path.open("rb") as file:
        times = [
            commit_time(event.raw, checksum=event.fd.checksum)
            for event in iter_events(file, file=str(path))
            if event.type == EventType.GTID
        ]
    assert all(times)
    assert any(time % 1 for time in times if time)
    assert times == sorted(times)


def test_a_malformed_gtid_event_has_the_time_of_its_header() -> None:
    head = (
        (77).to_bytes(4, "little")
        + bytes([EventType.GTID])
        + bytes(4)
        + (30).to_bytes(4, "little")
        + bytes(6)
    )
    assert commit_time(head + bytes(11), checksum=True) == 77
    assert commit_time(head[:18], checksum=True) is None
    assert commit_time(b"", checksum=True) is None


def test_the_frame_of_a_file_has_no_commit() -> None:
    path = next(path for path in RECORDED if "mysql-row" in str(path))
    data = path.read_bytes()
    with path.open("rb") as file:
        first = next(event for event in iter_events(file, file=str(path)) if event.type == EventType.GTID)
    found = commit_time(first.raw, checksum=True)
    assert found is not None
    assert commit_time(data[4:], checksum=True) == found
    assert commit_time(data[4 : first.offset], checksum=True) is None
    assert commit_time(event(EventType.ROTATE, 5) * 1000, checksum=True) is None


def event(kind: int, time: int) -> bytes:
    return time.to_bytes(4, "little") + bytes([kind]) + bytes(4) + (19).to_bytes(4, "little") + bytes(6)


def test_the_first_time_passes_over_events_without_one() -> None:
    data = event(EventType.ROTATE, 5) + event(EventType.IGNORABLE, 0) + event(EventType.QUERY, 42)

    def read(offset: int, length: int) -> bytes:
        return data[offset : offset + length]

    assert first_time(read, 0, len(data)) == 42
    assert first_time(read, 38, len(data)) == 42
    assert first_time(read, 0, 38) is None
    assert first_time(read, 57, 100) is None
    assert first_time(lambda offset, length: bytes(length), 0, 1000) is None
    assert first_time(lambda offset, length: event(EventType.ROTATE, 5), 0, 1 << 40) is None

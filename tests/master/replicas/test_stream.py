"""The positions that replicas of both families know, and their corrections."""

from __future__ import annotations

import pytest

from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.binlog.writer import make_event
from dumpfilter.dump.packets.protocol import frame
from dumpfilter.master.replicas.stream import KnownPosition

_4_GIB = 1 << 32
FILE = "bin.000001"


def test_mysql_sums_lengths_and_believes_heartbeats() -> None:
    position = KnownPosition(11, sums=True, corrects=True, v2=False)
    assert not position.is_wrong_at(FILE, 100)
    position.begin(FILE, 100)
    assert not position.is_wrong_at(FILE, 100)
    event = make_event(EventType.XID, bytes(8), end_log_pos=500)
    position.count(event, frame(event, 0), checksum=True)
    assert not position.is_wrong_at(FILE, 100 + len(event))
    assert position.is_wrong_at(FILE, 500)
    # A heartbeat that only says that the master is alive does not go beyond the replica's position.
    alive = EventHeader.unpack(position.heartbeat(500, checksum=True))
    assert alive.end_log_pos == 100 + len(event)
    header = EventHeader.unpack(position.correction(500, checksum=True))
    assert (header.type, header.end_log_pos, header.server_id) == (EventType.HEARTBEAT, 500, 11)
    assert not position.is_wrong_at(FILE, 500)


def test_only_version_2_tells_a_large_position() -> None:
    for v2 in (False, True):
        position = KnownPosition(11, sums=True, corrects=True, v2=v2)
        position.begin(FILE, 100)
        assert position.is_wrong_at(FILE, _4_GIB) == v2
    header = EventHeader.unpack(position.correction(_4_GIB, checksum=True))
    assert header.type == EventType.HEARTBEAT_V2


def test_nothing_corrects_mysqls_file_and_position() -> None:
    position = KnownPosition(11, sums=True, corrects=False, v2=True)
    position.begin(FILE, 100)
    assert not position.is_wrong_at(FILE, 500)


def test_mariadb_reads_the_position() -> None:
    position = KnownPosition(11, sums=False)
    position.begin(FILE, 100)
    events = make_event(EventType.QUERY, bytes(20), end_log_pos=500) + make_event(EventType.QUERY, bytes(20))
    position.count(events, frame(events, 0), checksum=True)
    assert not position.is_wrong_at(FILE, 500)
    assert position.is_wrong_at(FILE, 600)
    header = EventHeader.unpack(position.correction(_4_GIB + 600, checksum=True))
    assert (header.type, header.end_log_pos) == (EventType.GTID_LIST, 600)
    assert not position.is_wrong_at(FILE, _4_GIB + 600)
    assert EventHeader.unpack(position.heartbeat(700, checksum=True)).end_log_pos == 700


@pytest.mark.parametrize(
    "position",
    [KnownPosition(11, sums=True, corrects=True, v2=False), KnownPosition(11, sums=False)],
    ids=["mysql", "mariadb"],
)
def test_a_rotate_event_leads_to_the_next_file(position: KnownPosition) -> None:
    position.begin(FILE, 100)
    body = (4).to_bytes(8, "little") + b"bin.000002"
    event = make_event(EventType.ROTATE, body, end_log_pos=600)
    position.count(event, frame(event, 0), checksum=True)
    # The dump still stands in the first file. A heartbeat with its name would end the replica's connection.
    assert not position.is_wrong_at(FILE, 600)
    alive = position.heartbeat(600, checksum=True)
    assert EventHeader.unpack(alive).end_log_pos == 4
    assert alive[19:-4] == b"bin.000002"

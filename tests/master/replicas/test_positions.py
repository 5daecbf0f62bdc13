"""The positions that replicas of both families know, and their corrections."""

from __future__ import annotations

from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.binlog.writer import make_event
from dumpfilter.master.replicas.positions import ReadPosition, SummedPosition

_4_GIB = 1 << 32


def test_mysql_sums_lengths_and_believes_heartbeats() -> None:
    position = SummedPosition(11, corrects=True, v2=False)
    position.begin(100)
    assert not position.is_wrong_at(100)
    event = make_event(EventType.XID, bytes(8), end_log_pos=500)
    position.count(event)
    assert not position.is_wrong_at(100 + len(event))
    assert position.is_wrong_at(500)
    # A heartbeat that only says that the master is alive does not go beyond the replica's position.
    assert position.known(500) == 100 + len(event)
    header = EventHeader.unpack(position.correction("bin.000001", 500, checksum=True))
    assert (header.type, header.end_log_pos, header.server_id) == (EventType.HEARTBEAT, 500, 11)
    assert not position.is_wrong_at(500)


def test_only_version_2_tells_a_large_position() -> None:
    for v2 in (False, True):
        position = SummedPosition(11, corrects=True, v2=v2)
        assert position.is_wrong_at(_4_GIB) == v2
    header = EventHeader.unpack(position.correction("bin.000001", _4_GIB, checksum=True))
    assert header.type == EventType.HEARTBEAT_V2


def test_nothing_corrects_mysqls_file_and_position() -> None:
    position = SummedPosition(11, corrects=False, v2=True)
    assert not position.is_wrong_at(500)


def test_mariadb_reads_the_position() -> None:
    position = ReadPosition(11)
    position.begin(100)
    events = make_event(EventType.QUERY, bytes(20), end_log_pos=500) + make_event(EventType.QUERY, bytes(20))
    position.count(events)
    assert not position.is_wrong_at(500)
    assert position.is_wrong_at(600)
    header = EventHeader.unpack(position.correction("bin.000001", _4_GIB + 600, checksum=True))
    assert (header.type, header.end_log_pos) == (EventType.GTID_LIST, 600)
    assert not position.is_wrong_at(_4_GIB + 600)
    assert position.known(700) == 700

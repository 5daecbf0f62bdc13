"""Tests of GTID events: bytes of real servers, and every recorded event against its server's SHOW BINLOG EVENTS."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.cursor import encode_varlen
from dumpfilter.binlog.events import GTIDS, EventHeader, EventType
from dumpfilter.binlog.gtid import MariadbGtid, MysqlGtid, parse_uuid
from dumpfilter.binlog.gtid_events import (
    FL_ALLOW_PARALLEL,
    FL_COMMIT_ALTER_E1,
    FL_COMPLETED_XA,
    FL_DDL,
    FL_EXTRA_MULTI_ENGINE_E1,
    FL_EXTRA_THREAD_ID,
    FL_GROUP_COMMIT_ID,
    FL_PREPARED_XA,
    FL_STANDALONE,
    FL_START_ALTER_E1,
    FL_TRANSACTIONAL,
    MariadbGtidEvent,
    MysqlGtidEvent,
    Xid,
    commit_time,
    decode_gtid_tagged,
    decode_mariadb_gtid,
    decode_mysql_gtid,
    first_time,
)
from dumpfilter.binlog.reader import iter_events
from tests.binlog.gtid_fields import LastFields, last_fields, last_tagged_fields
from tests.binlog.plain_events import events
from tests.support import RECORDED, recording_id

DATA = Path(__file__).parents[1] / "oracle" / "data"
RECORDINGS = sorted(path.parent for path in DATA.glob("oracle/*/oracle.json"))
U = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
SERVER = "0e39f2bd-e58f-11f1-b6bb-02fc00000001"


def decode(header: EventHeader, body: bytes) -> MysqlGtidEvent | MariadbGtidEvent | None:
    """Decode a GTID event of any kind. Return None for other events."""
    match header.type:
        case EventType.GTID:
            return decode_mysql_gtid(body)
        case EventType.GTID_TAGGED:
            return decode_gtid_tagged(body)
        case EventType.MARIADB_GTID:
            return decode_mariadb_gtid(body, header.server_id)
    return None


# The values are those that mysqlbinlog of MySQL 9.7.4 printed for these events.
TAGGED = MysqlGtidEvent(MysqlGtid(parse_uuid(SERVER), 2, "a"), 0, 2, 11, 1795253804592466)
TAGGED_REST = LastFields(1000000, 318, 90704, 90704)
TAGGED_BODY = bytes.fromhex(
    "027600000002 1c72c903f50295033d0222c503d902ed0204f10300000002 0408 060261 0808 0a2c"
    "0c7f52ed4d19c66006 0e03127a 10f904 1283120b"
)
UNTAGGED_BODY = bytes.fromhex(
    "000e39f2bde58f11f1b6bb02fc000000010300000000000000 02 0200000000000000 0600000000000000"
    "53dc4d19c66006 fc3b01 50620100"
)
UNTAGGED = MysqlGtidEvent(MysqlGtid(parse_uuid(SERVER), 3), 0, 2, 6, 1795253804588115)
UNTAGGED_REST = LastFields(1795253804588115, 315, 90704, 90704)
# MariaDB 10.11.19, server id 73: COMMIT ALTER, XA PREPARE, XA COMMIT, START ALTER
COMMIT_ALTER = bytes.fromhex("0400000000000000 00000000 29 04 0300000000000000")
XA_PREPARE = bytes.fromhex("0500000000000000 00000000 4c 07000000 01 01 6762 01ff")
XA_COMMIT = bytes.fromhex("0600000000000000 00000000 8d 07000000 01 01 6762")
START_ALTER = bytes.fromhex("0300000000000000 00000000 29 02 0000000000")


def rest(header: EventHeader, body: bytes | memoryview) -> LastFields:
    return (last_tagged_fields if header.type == EventType.GTID_TAGGED else last_fields)(body)


def test_mysql_gtid_of_every_age() -> None:
    assert decode_mysql_gtid(UNTAGGED_BODY) == UNTAGGED
    assert decode_mysql_gtid(memoryview(UNTAGGED_BODY)) == UNTAGGED
    assert last_fields(UNTAGGED_BODY) == UNTAGGED_REST
    gtid = UNTAGGED.gtid
    # The event as MySQL 5.6, 5.7, 8.0.1 and 8.0.2 write it. Each version appends fields to those of the version before.
    for length, fields in {
        25: (),
        42: (2, 6),
        49: (2, 6, UNTAGGED.immediate_commit_timestamp),
        52: (2, 6, UNTAGGED.immediate_commit_timestamp),
    }.items():
        assert decode_mysql_gtid(UNTAGGED_BODY[:length]) == MysqlGtidEvent(gtid, 0, *fields)
    replicated = (
        UNTAGGED_BODY[:42]
        + (5_000_000 | 1 << 55).to_bytes(7, "little")
        + (4_000_000).to_bytes(7, "little")
        + b"\x64"
        + (90704 | 1 << 31).to_bytes(4, "little")
        + (80034).to_bytes(4, "little")
        + (9).to_bytes(8, "little")
    )
    assert decode_mysql_gtid(replicated) == MysqlGtidEvent(gtid, 0, 2, 6, 5_000_000)
    assert last_fields(replicated) == LastFields(4_000_000, 100, 90704, 80034, 9)
    for length in range(25):
        with pytest.raises(BinlogCorrupt):
            decode_mysql_gtid(replicated[:length])


def test_anonymous_gtid_has_none() -> None:
    anonymous = decode_mysql_gtid(UNTAGGED_BODY[:1] + bytes(24) + UNTAGGED_BODY[25:], anonymous=True)
    assert anonymous.gtid is None
    assert anonymous.sequence_number == 6
    with pytest.raises(BinlogCorrupt, match="gno 0"):
        decode_mysql_gtid(bytes(42))


def test_tagged_gtid() -> None:
    assert decode_gtid_tagged(TAGGED_BODY) == TAGGED
    assert last_tagged_fields(TAGGED_BODY) == TAGGED_REST
    for length in range(len(TAGGED_BODY)):
        with pytest.raises(BinlogCorrupt):
            decode_gtid_tagged(TAGGED_BODY[:length])


def test_tagged_gtid_of_a_later_version() -> None:
    def message(needed: int, rest: bytes) -> bytes:
        fields = TAGGED_BODY[3:] + rest
        return b"\2" + encode_varlen(3 + len(fields)) + encode_varlen(needed) + fields

    ticket = encode_varlen(11) + encode_varlen(77)
    later = encode_varlen(12) + b"anything at all"
    for body in (message(0, ticket + later), message(12, ticket)):
        assert decode_gtid_tagged(body) == TAGGED
        assert last_tagged_fields(body).commit_group_ticket == 77
    for body in (message(13, later), message(0, ticket + ticket), b"\4" + TAGGED_BODY[1:]):
        with pytest.raises(BinlogCorrupt):
            decode_gtid_tagged(body)


def test_mariadb_gtid_and_its_optional_fields() -> None:
    xid = Xid(7, b"g", b"b")
    alter = FL_STANDALONE | FL_ALLOW_PARALLEL | FL_DDL
    assert decode_mariadb_gtid(START_ALTER, 73) == MariadbGtidEvent(
        MariadbGtid(0, 73, 3), alter, flags_extra=FL_START_ALTER_E1
    )
    assert decode_mariadb_gtid(COMMIT_ALTER, 73) == MariadbGtidEvent(
        MariadbGtid(0, 73, 4), alter, flags_extra=FL_COMMIT_ALTER_E1, start_alter_seq_no=3
    )
    assert decode_mariadb_gtid(XA_PREPARE, 73) == MariadbGtidEvent(
        MariadbGtid(0, 73, 5),
        FL_TRANSACTIONAL | FL_ALLOW_PARALLEL | FL_PREPARED_XA,
        xid=xid,
        flags_extra=FL_EXTRA_MULTI_ENGINE_E1,
    )
    committed = decode_mariadb_gtid(XA_COMMIT, 73)
    assert committed.xid == xid
    assert committed.flags & FL_COMPLETED_XA
    assert committed.standalone
    grouped = bytes.fromhex("0500000000000000 00000000 06 0900000000000000")
    assert decode_mariadb_gtid(grouped, 1).commit_id == 9
    assert grouped[12] & FL_GROUP_COMMIT_ID
    threaded = START_ALTER[:13] + b"\x10" + (7).to_bytes(4, "little")
    assert decode_mariadb_gtid(threaded, 1).flags_extra == FL_EXTRA_THREAD_ID
    # An event may end before its extra flags. So 13 bytes of an ALTER and 21 bytes of the XA PREPARE are whole events.
    bodies = ((COMMIT_ALTER, 13), (threaded, 13), (XA_PREPARE, 21), (XA_COMMIT, None), (grouped, None))
    for body, whole in bodies:
        for length in range(len(body)):
            if length != whole:
                with pytest.raises(BinlogCorrupt):
                    decode_mariadb_gtid(body[:length], 73)


@pytest.mark.parametrize("body", [TAGGED_BODY, UNTAGGED_BODY, COMMIT_ALTER, XA_PREPARE])
@given(data=st.data())
def test_mutated_bodies_decode_or_are_corrupt(body: bytes, data: st.DataObject) -> None:
    mutated = bytearray(body)
    for at, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(body) - 1), st.integers(0, 255)), min_size=1, max_size=4)
    ):
        mutated[at] = value
    decoders: list[Callable[[bytes], object]] = [
        decode_mysql_gtid,
        decode_gtid_tagged,
        lambda body: decode_mariadb_gtid(body, 1),
    ]
    for decoder in decoders:
        try:
            decoder(bytes(mutated))
        except BinlogCorrupt:
            continue


@pytest.mark.parametrize("folder", RECORDINGS, ids=lambda path: path.name)
def test_recorded_gtids_are_the_ones_the_server_told(folder: Path) -> None:
    oracle = json.loads((folder / "oracle.json").read_text())
    found = [
        (event, header, body)
        for name in oracle["logs"]
        for header, body in events(folder / name)
        if (event := decode(header, body)) is not None
    ]
    # The server's texts are such as "GTID 0-11-1" and "XA START … GTID 0-11-76".
    told = [transaction["gtid"].split("GTID ")[-1] for transaction in oracle["source"]["transactions"]]
    assert [str(event.gtid) for event, *_ in found] == told
    for event, header, body in found:
        if isinstance(event, MysqlGtidEvent):
            last = rest(header, body)
            assert last.original_server_version == last.immediate_server_version == 90704
            assert last.commit_group_ticket is None
            assert event.sequence_number is not None


def test_transaction_lengths_lead_from_gtid_to_gtid() -> None:
    lengths: list[int] = []
    expected = 0
    for n in (1, 2):
        expected = 0
        for header, body in events(DATA / "recordings" / "mysql-tagged" / f"bin.00000{n}"):
            event = decode(header, body)
            start = header.end_log_pos - header.size
            if expected and (event is not None or header.type in (EventType.ROTATE, EventType.STOP)):
                assert start == expected
            if isinstance(event, MysqlGtidEvent):
                length = rest(header, body).transaction_length
                assert length is not None
                expected = start + length
                lengths.append(length)
    assert len(lengths) == 34


def test_recorded_tagged_gtids_are_the_ones_the_server_told() -> None:
    folder = DATA / "recordings" / "mysql-tagged"
    told = [line.split("\t") for line in (folder / "events.tsv").read_text("latin-1").splitlines()]
    decoded = [
        (event, rest(header, body))
        for n in (1, 2)
        for header, body in events(folder / f"bin.00000{n}")
        if isinstance(event := decode(header, body), MysqlGtidEvent)
    ]
    assert [str(event.gtid) for event, _ in decoded] == [
        info.split("'")[1] for *_, kind, _, info in told if kind in ("Gtid", "Gtid_tagged_log_event")
    ]
    replicated = [(event, last) for event, last in decoded if last.original_commit_timestamp == 1000000]
    assert [str(event.gtid)[36:] for event, _ in replicated] == [":a:2"]
    for event, last in replicated:
        assert last.original_server_version == 80034
        assert last.immediate_server_version == 90704
        assert event.immediate_commit_timestamp is not None
        assert event.immediate_commit_timestamp > 1795253804000000


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

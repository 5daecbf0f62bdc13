"""The parsing of a replica's requests for dumps."""

from __future__ import annotations

import struct

import pytest

from dumpfilter.binlog.gtid import MysqlGtidSet
from dumpfilter.binlog.gtid_events import encode_previous_gtids
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.console.wire import MalformedPacket
from dumpfilter.master.dump_start import Wanted
from dumpfilter.master.replicas.answers import (
    MAX_FILE_NAME,
    MAX_GTID_SOURCES,
    parse_binlog_dump,
    parse_binlog_dump_gtid,
    parse_connect_state,
    parse_register_replica,
)

UUID = "6ccd780c-baba-1026-9564-5b8c656024db"

REGISTRATION = struct.pack("<IB", 101, 3) + b"rep" + b"\1u\1p" + struct.pack("<HII", 3307, 0, 11)
DUMP = struct.pack("<IHI", 4, 2, 101) + b"bin.000001"


def by_gtid(text: str, name: bytes = b"", more: int = 0) -> bytes:
    gtids = encode_previous_gtids(MysqlGtidSet.parse(text))
    return struct.pack("<HII", 2, 101, len(name)) + name + struct.pack("<QI", 4, len(gtids) + more) + gtids


def test_the_registration_of_a_replica() -> None:
    found = parse_register_replica(REGISTRATION)
    assert (found.server_id, found.host, found.port) == (101, "rep", 3307)


def test_a_request_with_file_and_position() -> None:
    found = parse_binlog_dump(DUMP)
    assert (found.server_id, found.flags, found.wanted) == (101, 2, Wanted(None, "bin.000001", 4))


def test_a_file_name_may_end_in_nul() -> None:
    assert parse_binlog_dump(DUMP + b"\0").wanted.file == "bin.000001"


@pytest.mark.parametrize("text", ["", f"{UUID}:1-5:7", f"{UUID}:1-5:tag:1-9"])
def test_a_request_with_gtids(text: str) -> None:
    found = parse_binlog_dump_gtid(by_gtid(text, b"bin.000002"))
    wanted = Wanted(MysqlGtidSet.parse(text), "bin.000002", 4)
    assert (found.server_id, found.wanted) == (101, wanted)


def test_a_set_of_too_many_servers_is_refused_by_its_first_bytes() -> None:
    def request(servers: int) -> bytes:
        body = b"".join(struct.pack(">QQ", 1, n) + struct.pack("<QQQ", 1, 1, 2) for n in range(servers))
        return struct.pack("<HIIQI", 2, 101, 0, 4, 8 + len(body)) + struct.pack("<Q", servers) + body

    found = parse_binlog_dump_gtid(request(MAX_GTID_SOURCES)).wanted.gtids
    assert found is not None
    assert found.count() == MAX_GTID_SOURCES
    with pytest.raises(SqlError, match="at most 4096") as caught:
        parse_binlog_dump_gtid(request(MAX_GTID_SOURCES + 1))
    assert caught.value.number == 1236


@pytest.mark.parametrize("parse", [parse_register_replica, parse_binlog_dump, parse_binlog_dump_gtid])
def test_a_request_that_is_cut_is_malformed(parse: object) -> None:
    whole = {parse_register_replica: REGISTRATION, parse_binlog_dump: DUMP[:10]}.get(parse, by_gtid(""))  # type: ignore[call-overload]
    for length in range(len(whole)):
        with pytest.raises(MalformedPacket):
            parse(whole[:length])  # type: ignore[operator]


def test_a_name_or_a_set_that_is_longer_than_its_packet_is_malformed() -> None:
    with pytest.raises(MalformedPacket):
        parse_binlog_dump_gtid(struct.pack("<HII", 2, 101, 0xFFFFFFFF) + b"bin.000001")
    with pytest.raises(MalformedPacket):
        parse_binlog_dump_gtid(by_gtid("", more=1))
    with pytest.raises(MalformedPacket):
        parse_binlog_dump(DUMP + b"x" * MAX_FILE_NAME)


@pytest.mark.parametrize(
    "gtids",
    [
        b"",
        b"\xff" * 8,
        struct.pack("<Q", 1 << 40),
        struct.pack("<Q", 1) + b"u" * 16 + struct.pack("<Q", 1 << 60),
        struct.pack("<Q16sQQQ", 1, b"u" * 16, 1, 9, 3),
    ],
    ids=["empty", "unknown-format", "too-many-uuids", "too-many-intervals", "backwards"],
)
def test_a_set_that_cannot_be_read_is_error_1773(gtids: bytes) -> None:
    data = struct.pack("<HIIQI", 2, 101, 0, 4, len(gtids)) + gtids
    with pytest.raises(SqlError, match="Malformed GTID set encoding") as caught:
        parse_binlog_dump_gtid(data)
    assert caught.value.number == 1773


def test_the_gtids_of_a_mariadb_replica() -> None:
    assert str(parse_connect_state("0-1-5,1-2-7")) == "0-1-5,1-2-7"
    assert not parse_connect_state("")
    with pytest.raises(SqlError, match="malformed slave request") as caught:
        parse_connect_state("0-1-5,0-2-7")
    assert caught.value.number == 1236

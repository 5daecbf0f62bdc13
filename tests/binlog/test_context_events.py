"""Tests of the small events: round trips, and every recorded event against its server's SHOW BINLOG EVENTS."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.context_events import (
    DECIMAL_RESULT,
    INCIDENT_LOST_EVENTS,
    INT_RESULT,
    LAST_INSERT_ID_EVENT,
    REAL_RESULT,
    STRING_RESULT,
    Incident,
    Intvar,
    LoadBlock,
    Rand,
    Rotate,
    UserVar,
    XaPrepare,
    decode_annotate_rows,
    decode_binlog_checkpoint,
    decode_heartbeat,
    decode_incident,
    decode_intvar,
    decode_load_block,
    decode_rand,
    decode_rotate,
    decode_rows_query,
    decode_stop,
    decode_user_var,
    decode_xa_prepare,
    decode_xid,
    encode_rotate,
)
from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader, EventType, is_sound
from dumpfilter.binlog.gtid_events import Xid
from tests.binlog.encoders import encode_intvar, encode_user_var
from tests.binlog.plain_events import events

DATA = Path(__file__).parents[1] / "oracle" / "data"
RECORDINGS = sorted(path.parent for path in DATA.glob("oracle/*/oracle.json"))
TAGGED = DATA / "recordings" / "mysql-tagged"

DECODERS: dict[int, Callable[[bytes], object]] = {
    EventType.ROTATE: decode_rotate,
    EventType.XID: decode_xid,
    EventType.XA_PREPARE: decode_xa_prepare,
    EventType.INTVAR: decode_intvar,
    EventType.RAND: decode_rand,
    EventType.USER_VAR: decode_user_var,
    EventType.ROWS_QUERY: decode_rows_query,
    EventType.ANNOTATE_ROWS: decode_annotate_rows,
    EventType.BEGIN_LOAD_QUERY: decode_load_block,
    EventType.APPEND_BLOCK: decode_load_block,
    EventType.DELETE_FILE: decode_load_block,
    EventType.INCIDENT: decode_incident,
    EventType.HEARTBEAT: decode_heartbeat,
    EventType.STOP: decode_stop,
}


def value_text(variable: UserVar, family: str) -> str:
    """Return a user variable's value as SHOW BINLOG EVENTS shows it. Decimals are not shown in the server's form."""
    if variable.value is None:
        return "NULL"
    if variable.type == INT_RESULT:
        return str(int.from_bytes(variable.value, "little", signed=not variable.unsigned))
    if variable.type == REAL_RESULT:
        return f"{struct.unpack('<d', variable.value)[0]:.17g}"
    return f"X'{variable.value.hex()}'" if family == "mariadb" else f"0x{variable.value.hex().upper()}"


def described(header: EventHeader, body: bytes, family: str) -> tuple[str, str] | None:
    """Return an event's type and the compared part of its info in SHOW BINLOG EVENTS; None for other events."""
    if header.type not in DECODERS:
        return None
    event = DECODERS[header.type](body)
    match event:
        case Intvar(kind, value):
            return "Intvar", f"{'LAST_INSERT_ID' if kind == LAST_INSERT_ID_EVENT else 'INSERT_ID'}={value}"
        case Rand(seed1, seed2):
            return "RAND", f"rand_seed1={seed1},rand_seed2={seed2}"
        case XaPrepare(one_phase, xid):
            return "XA_prepare", f"XA COMMIT {xid} ONE PHASE" if one_phase else f"XA PREPARE {xid}"
        case Rotate(name, position):
            return "Rotate", f"{name};pos={position}"
        case UserVar():
            return "User var", f"@`{event.name}`=" + value_text(event, family)
        case LoadBlock(file_id, data):
            return "Begin_load_query", f";file_id={file_id};block_len={len(data)}"
    if header.type == EventType.ROWS_QUERY:
        return "Rows_query", "# " + event.decode()  # type: ignore[attr-defined]
    if header.type == EventType.ANNOTATE_ROWS:
        return "Annotate_rows", event.decode()  # type: ignore[attr-defined]
    return None


COMPARED = {
    "Intvar", "RAND", "XA_prepare", "User var", "Begin_load_query", "Rows_query", "Annotate_rows",
}  # fmt: skip


def shortened(kind: str, info: str) -> tuple[str, str]:
    """Return a row of the server's SHOW BINLOG EVENTS without the character set and collation of user variables."""
    if kind == "User var" and " COLLATE " in info:
        name, value = info.split("=", 1)
        info = name + "=" + value.split(" ")[1]
    return kind, info


@pytest.mark.parametrize("folder", RECORDINGS, ids=lambda path: path.name)
def test_recorded_events_are_what_the_server_told(folder: Path) -> None:
    oracle = json.loads((folder / "oracle.json").read_text())
    family = "mariadb" if "MariaDB" in oracle["server"] else "mysql"
    found: list[list[tuple[str, str]]] = []
    rotations = []
    for name in oracle["logs"]:
        for header, body in events(folder / name):
            if header.type in (EventType.GTID, EventType.MARIADB_GTID):
                found.append([])
            elif header.type == EventType.ROTATE:
                rotations.append(decode_rotate(body))
                assert encode_rotate(rotations[-1]) == body
            elif found and (told := described(header, body, family)):
                found[-1].append(told)
            elif header.type in DECODERS:
                DECODERS[header.type](body)
    assert rotations == [Rotate(name, 4) for name in oracle["logs"][1:]]
    told_all = [
        [shortened(kind, info) for kind, info in transaction["events"] if kind in COMPARED]
        for transaction in oracle["source"]["transactions"]
    ]
    assert len(found) == len(told_all)
    for mine, theirs in zip(found, told_all, strict=True):
        assert [*dict.fromkeys(mine)] == [*dict.fromkeys(theirs)]  # the recording has repeated lines once


def test_recorded_events_of_every_kind() -> None:
    lines = (TAGGED / "events.tsv").read_text("latin-1").splitlines()
    told = [
        shortened(kind, info.removesuffix(" ;file_id=1"))
        for _, _, kind, _, info in (line.split("\t", 4) for line in lines)
        if kind in COMPARED | {"Rotate"}
    ]
    found = []
    kinds = set()
    for n in (1, 2):
        for header, body in events(TAGGED / f"bin.00000{n}"):
            kinds.add(header.type)
            if header.type == EventType.USER_VAR:
                variable = decode_user_var(body)
                assert encode_user_var(variable) == body
                if variable.type == DECIMAL_RESULT:
                    assert variable.value == bytes.fromhex("19058c149aa4350dfb38d2003039")
                    found.append(("User var", "@`d`=12345678901234567890.12345"))
                    continue
            elif header.type == EventType.INTVAR:
                assert encode_intvar(decode_intvar(body)) == body
            if one := described(header, body, "mysql"):
                found.append(one)
            elif header.type in DECODERS:
                DECODERS[header.type](body)
    assert found == told
    assert kinds >= {
        EventType.ROTATE,
        EventType.XID,
        EventType.XA_PREPARE,
        EventType.INTVAR,
        EventType.RAND,
        EventType.USER_VAR,
        EventType.ROWS_QUERY,
        EventType.BEGIN_LOAD_QUERY,
        EventType.STOP,
    }


# MariaDB 10.11.19, SET @g = POINT(1,2)
POINT = bytes.fromhex(
    "0100000067 00 00 3f000000 19000000 000000000101000000000000000000f03f0000000000000040 02 05 706f696e74"
)
XA_PREPARE = bytes.fromhex("00 07000000 01000000 01000000 6762")  # from MySQL 9.7.4, equal in MariaDB


def test_user_variable_of_a_mariadb_type() -> None:
    variable = decode_user_var(POINT)
    assert (variable.name, variable.type, variable.charset) == ("g", STRING_RESULT, 63)
    without_type_name = len(POINT) - 7
    assert encode_user_var(variable) == POINT[:without_type_name]
    for length in range(len(POINT)):
        if length == without_type_name:
            assert decode_user_var(POINT[:length]) == variable
        else:
            with pytest.raises(BinlogCorrupt):
                decode_user_var(POINT[:length])


def test_dummy_user_variable() -> None:
    """Read the User_var event that MariaDB sends to an old slave in place of an event that the slave does not know."""
    assert decode_user_var(b"\1\0\0\0!\1") == UserVar("!", None)


NAMES = st.text(max_size=20)
U64 = st.integers(0, 2**64 - 1)


@given(NAMES, st.binary(max_size=20), st.integers(0, 2**32 - 1), st.booleans())
def test_user_variables_round_trip(name: str, value: bytes, charset: int, unsigned: bool) -> None:
    for variable in (
        UserVar(name, None),
        UserVar(name, value, STRING_RESULT, charset),
        UserVar(name, value, DECIMAL_RESULT, charset),
        UserVar(name, value[:8].ljust(8, b"\0"), INT_RESULT, charset, unsigned),
        UserVar(name, value[:8].ljust(8, b"\0"), REAL_RESULT, charset),
    ):
        assert decode_user_var(encode_user_var(variable)) == variable


@given(st.sampled_from([1, 2]), U64, st.text(min_size=1, max_size=20))
def test_numbers_and_rotations_round_trip(kind: int, value: int, name: str) -> None:
    assert decode_intvar(encode_intvar(Intvar(kind, value))) == Intvar(kind, value)
    assert decode_rotate(encode_rotate(Rotate(name, value))) == Rotate(name, value)
    raw = value.to_bytes(8, "little")
    assert decode_xid(raw) == value
    assert decode_rand(raw + raw) == Rand(value, value)


def test_xa_prepare() -> None:
    assert decode_xa_prepare(XA_PREPARE) == XaPrepare(False, Xid(7, b"g", b"b"))
    assert decode_xa_prepare(b"\1" + XA_PREPARE[1:]).one_phase
    long = bytes.fromhex("00 07000000 41000000 00000000") + bytes(65)
    for broken in (long, XA_PREPARE + b"x", *(XA_PREPARE[:n] for n in range(len(XA_PREPARE)))):
        with pytest.raises(BinlogCorrupt):
            decode_xa_prepare(broken)


def test_events_that_no_recording_has() -> None:
    assert decode_load_block(b"\5\0\0\0data") == LoadBlock(5, b"data")
    assert decode_incident(b"\1\0\x04lost") == Incident(1, "lost")
    assert decode_incident(b"\1\0") == Incident(1, "")
    assert decode_heartbeat(b"bin.000007") == "bin.000007"
    assert decode_rows_query(b"\x08SELECT 1") == b"SELECT 1"


def test_mysqls_incident_has_two_checksums() -> None:
    """The session's binlog cache and the binlog file of MySQL 9.7.4 have each added a checksum to this event."""
    event = bytes.fromhex("a7c40e6b1a0b00000057000000100a00000001") + b"\1\0"
    event += b"\x39Non-transactional changes were not written to the binlog."
    event += bytes.fromhex("55fb8195 99c148f3")
    assert is_sound(event)
    body = event[HEADER_LENGTH:-CHECKSUM_LENGTH]
    told = "Non-transactional changes were not written to the binlog."
    assert decode_incident(body) == Incident(INCIDENT_LOST_EVENTS, told)
    with pytest.raises(BinlogCorrupt):
        decode_incident(body + b"x")


@pytest.mark.parametrize(
    ("decode", "broken"),
    [
        (decode_rotate, b"\4\0\0\0\0\0\0\0"),
        (decode_xid, bytes(7)),
        (decode_xid, bytes(9)),
        (decode_intvar, b"\1" + bytes(7)),
        (decode_intvar, b"\3" + bytes(8)),
        (decode_rand, bytes(15)),
        (decode_user_var, b"\1\0\0\0a\0\5" + bytes(8)),
        (decode_user_var, b"\1\0\0\0a\0\2" + bytes(8)),
        (decode_rows_query, b""),
        (decode_load_block, b"\1\0\0"),
        (decode_load_block, b""),
        (decode_incident, b"\1"),
        (decode_incident, b"\2\0\0"),
        (decode_incident, b"\1\0\4los"),
        (decode_heartbeat, b""),
        (decode_stop, b"x"),
        (decode_binlog_checkpoint, b"\3\0\0\0b"),
        (decode_binlog_checkpoint, b""),
    ],
)
def test_impossible_bodies_are_corrupt(decode: Callable[[bytes], object], broken: bytes) -> None:
    with pytest.raises(BinlogCorrupt):
        decode(broken)


@pytest.mark.parametrize("kind", DECODERS, ids=lambda kind: EventType(kind).name)
@given(body=st.binary(max_size=60) | st.sampled_from([POINT, XA_PREPARE]), cut=st.integers(0, 60))
def test_any_bytes_decode_or_are_corrupt(kind: int, body: bytes, cut: int) -> None:
    for some in (body, body[:cut]):
        try:
            DECODERS[kind](some)
        except BinlogCorrupt:
            continue

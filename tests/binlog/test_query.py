"""Tests of statements: bytes of real servers, and every recorded statement against its server's SHOW BINLOG EVENTS."""

import dataclasses
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt, BinlogUnsupported
from dumpfilter.binlog import query
from dumpfilter.binlog.events import LOG_EVENT_SUPPRESS_USE_F, EventHeader, EventType
from dumpfilter.binlog.query import (
    ExecuteLoadQueryEvent,
    QueryEvent,
    StatusVariables,
    client_charset,
    decode_execute_load_query,
    decode_query,
    decode_statement,
    decode_status_variables,
    uncompress,
)
from dumpfilter.binlog.statement.facts import statement_shape
from tests.binlog.plain_events import events

DATA = Path(__file__).parents[1] / "oracle" / "data"
RECORDINGS = sorted(path.parent for path in DATA.glob("oracle/*/oracle.json"))


def decode(header: EventHeader, body: bytes) -> QueryEvent | None:
    """Decode an event with a statement. Return None for other events."""
    match header.type:
        case EventType.QUERY:
            return decode_query(body)
        case EventType.QUERY_COMPRESSED:
            return decode_query(body, compressed=True)
        case EventType.EXECUTE_LOAD_QUERY:
            return decode_execute_load_query(body)
    return None


def info(header: EventHeader, event: QueryEvent) -> str:
    """Return the statement's info in SHOW BINLOG EVENTS."""
    if header.flags & LOG_EVENT_SUPPRESS_USE_F or not event.db:
        return event.text
    return f"use `{event.db}`; {event.text}"


@pytest.mark.parametrize("folder", RECORDINGS, ids=lambda path: path.name)
def test_recorded_statements_are_the_ones_the_server_told(folder: Path) -> None:
    oracle = json.loads((folder / "oracle.json").read_text())
    found: list[list[str]] = []
    for name in oracle["logs"]:
        for header, body in events(folder / name):
            if header.type in (EventType.GTID, EventType.MARIADB_GTID):
                found.append([])
            elif event := decode(header, body):
                assert event.has_certain_tokens
                found[-1].append(info(header, event))
    told = [
        [text for kind, text in transaction["events"] if kind.startswith(("Query", "Execute_load"))]
        for transaction in oracle["source"]["transactions"]
    ]
    assert len(found) == len(told)
    for mine, theirs in zip(found, told, strict=True):
        # The recording has repeated lines once, and has no file ids.
        assert [*dict.fromkeys(mine)] == [*dict.fromkeys(theirs)]


def tagged() -> Iterator[tuple[EventHeader, QueryEvent]]:
    for n in (1, 2):
        for header, body in events(DATA / "recordings" / "mysql-tagged" / f"bin.00000{n}"):
            if event := decode(header, body):
                yield header, event


def test_statements_in_several_character_sets() -> None:
    told = []
    lines = (DATA / "recordings" / "mysql-tagged" / "events.tsv").read_bytes().splitlines()
    for _, _, kind, _, text in (line.split(b"\t", 4) for line in lines):
        if kind in (b"Query", b"Execute_load_query"):
            text = text.split(b" /* xid=")[0].split(b" ;file_id=")[0].replace(b"\\\\", b"\\")
            told.append(text.removeprefix(b"use `a`; "))
    found = list(tagged())
    assert [event.raw.rstrip(b" ") for _, event in found] == told
    assert all(event.has_certain_tokens for _, event in found)
    texts = "".join(event.text for _, event in found)
    for piece in ("'café €'", "'中文'", "'日本'", "'🐬'"):
        assert piece in texts


def test_status_variables_of_mysql() -> None:
    by_text = {event.text: event for _, event in tagged()}
    zoned = by_text["INSERT INTO t (s, d) VALUES (NOW(6), 3)"]
    assert zoned == QueryEvent(
        thread_id=9,
        exec_time=0,
        error_code=0,
        db="a",
        status=StatusVariables(
            flags2=0,
            sql_mode=0x45A00020,
            catalog="std",
            auto_increment_increment=3,
            auto_increment_offset=2,
            charset_client=255,
            collation_connection=255,
            collation_server=255,
            time_zone="+01:30",
            lc_time_names=4,
            updated_dbs=("a",),
            microseconds=0x0864FA,
            default_collation_for_utf8mb4=255,
        ),
        raw=b"INSERT INTO t (s, d) VALUES (NOW(6), 3)",
        text="INSERT INTO t (s, d) VALUES (NOW(6), 3)",
        has_certain_tokens=True,
        tables_info=None,
    )
    update = by_text["UPDATE a.t, b.t SET a.t.d = 1, b.t.d = 2 WHERE a.t.i = b.t.i"]
    assert update.updated_dbs == ("b", "a")
    assert update.status.table_map_for_update == 3
    assert by_text["CREATE TABLE b.p (ts TIMESTAMP)"].status.explicit_defaults_for_timestamp == 1
    assert by_text["CREATE TABLE b.p (ts TIMESTAMP)"].status.sql_require_primary_key == 0
    assert by_text["CREATE TABLE b.p (ts TIMESTAMP)"].status.ddl_xid == 69
    assert by_text["ALTER TABLE a.t COMMENT 'primary'"].status.sql_require_primary_key == 1
    assert by_text["CREATE DATABASE b"].status.default_table_encryption == 0
    assert by_text["CREATE TABLE b.t LIKE a.t"].updated_dbs is None
    (load,) = (event for _, event in tagged() if isinstance(event, ExecuteLoadQueryEvent))
    assert load.file_id == 1
    assert load.raw[load.fn_pos_start : load.fn_pos_end].strip() == b"INFILE '/tmp/gt.tsv' INTO"
    assert load.dup_handling == 0


# MariaDB 10.11.19: NOW(6), COMMIT ALTER, GRANT
NOW = (
    bytes.fromhex(
        "0500000000000000010000260000000000010100002054000000000603737464042d002d00080005065359535445"
        "4d8021e90c6100"
    )
    + b"INSERT INTO t (s) VALUES (NOW(6))"
)
COMMIT_ALTER = (
    bytes.fromhex(
        "05000000000000000100002d0000000000010100002054000000000603737464042d002d000800810c0000000000"
        "00008204030000000000000061 00"
    )
    + b"ALTER TABLE t ADD COLUMN x INT"
)
GRANT = (
    bytes.fromhex(
        "05000000000000000100002a0000000000010100002054000000000603737464042d002d0008000b04726f6f74096c"
        "6f63616c686f73746100"
    )
    + b"GRANT SELECT ON a.t TO uu@h"
)


def test_status_variables_of_mariadb() -> None:
    now = decode_query(NOW)
    assert (now.status.time_zone, now.status.microseconds, now.db) == ("SYSTEM", 0x0CE921, "a")
    altered = decode_query(COMMIT_ALTER).status
    assert (altered.ddl_xid, altered.gtid_flags_extra, altered.start_alter_seq_no) == (12, 4, 3)
    assert decode_query(GRANT).status.invoker == ("root", "localhost")
    assert (altered.charset_client, altered.collation_connection, altered.collation_server) == (45, 45, 8)


def test_every_status_variable_is_a_field() -> None:
    fields = {field.name for field in dataclasses.fields(StatusVariables)}
    assert {name for numbers in query._NUMBERS.values() for name, _ in numbers} <= fields
    every = bytes.fromhex(
        "0001000000 010200000000000000 0203737464 00 0303000400 04050006000700 0501 5a 0603737464 070800"
        "080900 090a00000000000000 0a0b000000 0b01750168 0c0261006200 0d0c0000 1001 110d00000000000000"
        "120e00 1301 1400 800f0000 811000000000000000 8202 ff"
    )
    assert decode_status_variables(every) == StatusVariables(
        flags2=1,
        sql_mode=2,
        catalog="std",
        auto_increment_increment=3,
        auto_increment_offset=4,
        charset_client=5,
        collation_connection=6,
        collation_server=7,
        time_zone="Z",
        lc_time_names=8,
        charset_database=9,
        table_map_for_update=10,
        master_data_written=11,
        invoker=("u", "h"),
        updated_dbs=("a", "b"),
        microseconds=15,
        explicit_defaults_for_timestamp=1,
        ddl_xid=16,
        default_collation_for_utf8mb4=14,
        sql_require_primary_key=1,
        default_table_encryption=0,
        gtid_flags_extra=2,
    )


def test_updated_dbs() -> None:
    assert decode_status_variables(b"\x0c\xfe").updated_dbs is None  # 254 stands for more than 16 databases
    assert decode_status_variables(b"").updated_dbs is None
    assert decode_status_variables(b"\x0c\x00").updated_dbs == ()
    assert decode_status_variables(b"\x0c\x01\x00").updated_dbs == ("",)
    assert decode_status_variables(b"\x0c\x01\xff\x00").updated_dbs == ("\udcff",)
    for broken in (b"\x0c", b"\x0c\x02a\x00", b"\x0c\x01a"):
        with pytest.raises(BinlogCorrupt):
            decode_status_variables(broken)


def body(status: bytes, db: bytes, statement: bytes, extra: bytes = b"") -> bytes:
    head = (7).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes([len(db)]) + b"\x10\x04"
    return head + len(status).to_bytes(2, "little") + extra + status + db + b"\0" + statement


def charset(collation: int) -> bytes:
    return b"\x04" + collation.to_bytes(2, "little") * 3


@given(st.text(max_size=30), st.text(st.characters(blacklist_characters="\0"), max_size=60), st.booleans())
def test_round_trip(db: str, statement: str, packed: bool) -> None:
    raw = statement.encode("utf-8", "surrogatepass")
    stored = raw
    if packed:
        stored = b"\x82" + len(raw).to_bytes(2, "big") + zlib.compress(raw)
    name = db.encode("utf-8", "ignore")[:255]
    event = decode_query(body(charset(255), name, stored), compressed=packed)
    assert event.raw == raw
    assert event.text.encode("utf-8", "surrogateescape") == raw
    assert event.db.encode("utf-8", "surrogateescape") == name
    assert (event.thread_id, event.exec_time, event.error_code) == (7, 1, 1040)


@pytest.mark.parametrize(
    ("collation", "raw", "text", "is_certain"),
    [
        (8, b"\xe9\x80\x81", "é€\x81", True),
        (28, b"\xd6\xd0", "中", True),
        # The server takes the backslash for a part of the character.
        (28, b"'\xa1\x5c'", "'\udca1\\'", False),
        (13, b"\x83\x5c", "ソ", True),  # its second byte is a backslash
        (63, "é".encode(), "é", True),
        (83 + 1024, "é".encode(), "é", True),
        (2304, "é".encode(), "é", True),
        (33, b"\xe9'", "\udce9'", True),
        (37, b"\x87", "\udc87", True),  # keybcs2 has no codec in Python
        (11, "é".encode(), "\udcc3\udca9", True),  # ascii
        (12, b"\x8f\xa2\xb7", "\udcff", True),  # part of a name, and no tilde
        (10, b"SELECT '['", "SELECT '['", False),  # swe7, in which the bracket is a letter
        (9999, b"\xe9", "\udce9", True),
    ],
)
def test_statement_texts(collation: int, raw: bytes, text: str, is_certain: bool) -> None:
    event = decode_query(body(charset(collation), b"", raw))
    assert (event.text, event.has_certain_tokens, event.raw, event.db) == (text, is_certain, raw, "")


def test_statement_without_a_character_set() -> None:
    assert decode_query(body(b"", b"", b"BEGIN")).text == "BEGIN"
    assert decode_query(body(b"", b"", b"\xe9")).text == "\udce9"


def test_every_character_set_of_a_client_has_ascii_keywords() -> None:
    for charset in {client_charset(collation) for collation in range(3000)}:
        assert decode_statement(b"SELECT '\xff' 1", charset)[0].startswith("SELECT '")


def test_compressed_statements_that_lie() -> None:
    packed = zlib.compress(b"x" * 100)
    assert uncompress(b"\x81\x64" + packed) == b"x" * 100
    assert uncompress(b"\x84\0\0\0\x64" + packed) == b"x" * 100
    lies = (
        b"",
        b"\x01\x64" + packed,  # no header
        b"\x91\x64" + packed,  # an unknown algorithm
        b"\x80" + packed,
        b"\x85\0\0\0\0\x64" + packed,
        b"\x81\x63" + packed,
        b"\x81\x65" + packed,
        b"\x81\x64" + packed[:-1],
        b"\x81\x64" + packed[1:],
        b"\x81",
    )
    for lie in lies:
        with pytest.raises(BinlogCorrupt):
            uncompress(lie)


def test_post_headers_of_other_lengths_are_not_supported() -> None:
    with pytest.raises(BinlogUnsupported, match="15 bytes"):
        decode_query(NOW, post_header_length=15)
    # Execute_load_query has no extended format
    with pytest.raises(BinlogUnsupported, match="30 bytes"):
        decode_execute_load_query(load(5, 10, 20, 2), post_header_length=30)


def load(file_id: int, start: int, end: int, dup: int) -> bytes:
    numbers = b"".join(number.to_bytes(4, "little") for number in (file_id, start, end))
    return body(b"", b"d", b"LOAD DATA INFILE 'x' INTO TABLE t", numbers + bytes([dup]))


def test_execute_load_query() -> None:
    event = decode_execute_load_query(load(5, 10, 20, 2))
    assert (event.file_id, event.raw[10:20], event.dup_handling, event.db) == (5, b"INFILE 'x'", 2, "d")
    for broken in (load(5, 21, 20, 0), load(5, 10, 99, 0), load(5, 10, 20, 3), load(5, 10, 20, 2)[:26]):
        with pytest.raises(BinlogCorrupt):
            decode_execute_load_query(broken)


def status_end(data: bytes) -> int:
    return 13 + int.from_bytes(data[11:13], "little") + data[8] + 1


@pytest.mark.parametrize("whole", [NOW, COMMIT_ALTER, GRANT])
def test_truncated_bodies_are_corrupt(whole: bytes) -> None:
    for length in range(status_end(whole)):
        with pytest.raises(BinlogCorrupt):
            decode_query(whole[:length])


@pytest.mark.parametrize("whole", [NOW, COMMIT_ALTER, GRANT, load(5, 10, 20, 2)])
@given(data=st.data())
def test_mutated_bodies_decode_or_are_corrupt(whole: bytes, data: Any) -> None:
    mutated = bytearray(whole)
    places = st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255))
    for at, value in data.draw(st.lists(places, min_size=1, max_size=4)):
        mutated[at] = value
    for decoder in (
        decode_query,
        decode_execute_load_query,
        uncompress,
        lambda some: decode_query(some, compressed=True),
        lambda some: decode_query(some, post_header_length=17),
    ):
        try:
            decoder(bytes(mutated))
        except BinlogCorrupt:
            continue


@given(st.sampled_from(sorted({*map(client_charset, range(300))}, key=str)), st.binary(max_size=12))
def test_any_statement_has_a_text(charset: str | None, raw: bytes) -> None:
    statement_shape(decode_statement(raw, charset)[0])

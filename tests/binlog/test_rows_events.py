"""Tests of Table_map events and of the headers of rows events: round trips, all versions, recordings, damage."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.cursor import Cursor, packed_integer
from dumpfilter.binlog.events import MAGIC, ROWS, ROWS_V2, EventType
from dumpfilter.binlog.rows_events import (
    TableMap,
    decode_rows_header,
    decode_table_map,
    encode_table_map,
    rows_kind,
)
from tests.binlog.plain_events import events

DATA = Path(__file__).parents[1] / "oracle" / "data"
BINLOGS = sorted(p for p in DATA.glob("*/*/bin.0*") if p.read_bytes()[:4] == MAGIC)


names = st.text(max_size=40).filter(lambda s: len(s.encode("utf-8", "surrogateescape")) <= 192)


@st.composite
def table_maps(draw: st.DrawFn) -> TableMap:
    types = draw(st.binary(max_size=300))
    nulls = (len(types) + 7) // 8
    return TableMap(
        table_id=draw(st.integers(0, 2**48 - 1)),
        flags=draw(st.integers(0, 2**16 - 1)),
        database=draw(names),
        table=draw(names),
        column_types=types,
        metadata=draw(st.binary(max_size=min(4 * len(types), 400))),
        null_bitmap=draw(st.binary(min_size=nulls, max_size=nulls)),
        optional=draw(st.binary(max_size=50)),
    )


@settings(deadline=None)
@given(table_maps())
def test_a_table_map_comes_back_as_it_was(table):
    assert decode_table_map(encode_table_map(table)) == table
    assert decode_table_map(memoryview(encode_table_map(table))) == table


def test_a_name_that_is_not_utf_8_keeps_its_bytes():
    table = TableMap(1, 0, b"\xff\xfed".decode("utf-8", "surrogateescape"), "t", b"\x03", b"", b"\0")
    body = encode_table_map(table)
    assert b"\x03\xff\xfed\0" in body
    assert decode_table_map(body) == table


@settings(deadline=None)
@given(table_maps(), st.data())
def test_a_damaged_table_map_is_corrupt_or_another_one(table, data):
    body = bytearray(encode_table_map(table))
    del body[data.draw(st.integers(0, len(body))) :]
    if body:
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with suppress(BinlogCorrupt):
        assert isinstance(decode_table_map(bytes(body)), TableMap)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "table id"),
        (b"\1\0\0\0\0\0\1\0" + b"\xfb", "packed integer"),
        (b"\1\0\0\0\0\0\1\0" + b"\xc1" + b"x" * 194, "has 193 bytes"),
        (b"\1\0\0\0\0\0\1\0" + b"\1dx\1t\0", "zero byte"),
        (b"\1\0\0\0\0\0\1\0" + b"\1d\0\1t\0\xfc\1\x10", "4097 columns"),
        (b"\1\0\0\0\0\0\1\0" + b"\1d\0\1t\0\1\3\5", "5 bytes of metadata for 1 columns"),
        (b"\1\0\0\0\0\0\1\0" + b"\1d\0\1t\0\1\3\0", "null bitmap"),
    ],
)
def test_what_is_wrong_with_a_table_map_is_said(body, text):
    with pytest.raises(BinlogCorrupt, match=text):
        decode_table_map(body)


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1))
@example(250)
@example(251)
@example(65536)
@example(2**24)
def test_packed_integers(value):
    cursor = Cursor(packed_integer(value), "test")
    assert cursor.packed("it") == value
    assert cursor.left == 0


UPDATES = {24, 31, 39, 167, 170}
DELETES = {25, 32, 168, 171}


@settings(deadline=None)
@given(
    st.sampled_from(sorted(ROWS)),
    st.integers(0, 2**48 - 1).filter(lambda n: n not in (0xFFFFFF, 0xFFFFFFFF, 2**48 - 1)),
    st.integers(0, 2**16 - 1),
    st.binary(max_size=300),
    st.binary(min_size=1, max_size=40),
    st.binary(max_size=60),
)
def test_a_rows_header_of_every_version(kind, table_id, flags, extra, bitmap, rows):
    v2 = kind in ROWS_V2
    columns = 8 * len(bitmap) - 3
    after = bytes(b ^ 0xFF for b in bitmap)
    body = table_id.to_bytes(6, "little") + flags.to_bytes(2, "little")
    body += (len(extra) + 2).to_bytes(2, "little") + extra if v2 else b""
    body += packed_integer(columns) + bitmap
    body += after if kind in UPDATES else b""
    header = decode_rows_header(kind, body + rows)
    assert (header.table_id, header.flags, header.type) == (table_id, flags, kind)
    assert header.extra == (extra if v2 else b"")
    assert (header.column_count, header.columns_before) == (columns, bitmap)
    if kind in UPDATES:
        assert header.columns_after == after
    else:
        assert header.columns_after is None
    assert (body + rows)[header.rows_offset :] == rows
    assert header.kind == rows_kind(kind)
    assert header.kind == ("update" if kind in UPDATES else "delete" if kind in DELETES else "insert")
    assert header.compressed == (kind >= 166)
    assert header.statement_ends == bool(flags & 1)
    assert not header.is_dummy
    for end in range(header.rows_offset):
        with pytest.raises(BinlogCorrupt):
            decode_rows_header(kind, body[:end])


@pytest.mark.parametrize("kind", sorted(ROWS))
@pytest.mark.parametrize("rest", ["", "00", "0100", "01ff"])
def test_the_dummy_event_only_ends_a_statement(kind, rest):
    body = b"\xff" * 6 + b"\1\0" + (b"\2\0" if kind in ROWS_V2 else b"") + bytes.fromhex(rest)
    if rest_has_columns := rest.startswith("01"):
        body += b"\0" if kind in UPDATES else b""
    header = decode_rows_header(kind, body)
    assert header.is_dummy
    assert header.statement_ends
    assert header.column_count == int(rest_has_columns)


def test_what_is_wrong_with_a_rows_header_is_said():
    with pytest.raises(ValueError, match="Query is not a rows event"):
        decode_rows_header(2, b"")
    with pytest.raises(BinlogCorrupt, match="extra data of 1 bytes"):
        decode_rows_header(30, b"\1\0\0\0\0\0\0\0\1\0\1\1")
    with pytest.raises(BinlogCorrupt, match="ends inside the extra data"):
        decode_rows_header(30, b"\1\0\0\0\0\0\0\0\xff\xff\1\1")
    with pytest.raises(BinlogCorrupt, match="Write_rows event: 0 columns"):
        decode_rows_header(30, b"\1\0\0\0\0\0\0\0\2\0\0")


@settings(deadline=None)
@given(st.sampled_from(sorted(ROWS)), st.binary(max_size=40))
def test_any_bytes_are_a_rows_header_or_corrupt(kind, body):
    try:
        header = decode_rows_header(kind, body)
    except BinlogCorrupt:
        return
    assert header.rows_offset <= len(body)


def test_every_table_map_of_the_recordings_comes_back_and_every_rows_event_has_one():
    maps = found = 0
    for path in BINLOGS:
        tables = {}
        for event, body in events(path):
            kind = event.type
            if kind == EventType.TABLE_MAP:
                table = decode_table_map(body)
                assert encode_table_map(table) == body
                tables[table.table_id] = table
                maps += 1
            elif kind in ROWS:
                header = decode_rows_header(kind, body)
                assert header.column_count == len(tables[header.table_id].column_types)
                found += 1
    assert maps >= 300
    assert found >= 300

"""Tests of row images: the compiled search against plain Python, generated rows with known images, and recordings."""

import json
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog import row_image as T
from dumpfilter.binlog.events import MAGIC
from dumpfilter.binlog.row_image import value_sizes
from dumpfilter.binlog.row_walk import row_images
from dumpfilter.binlog.rows_events import RowsHeader, TableMap, decode_rows_header
from tests.binlog.plain_events import rows_events
from tests.binlog.plain_rows import plain_row_images

DATA = Path(__file__).parents[1] / "oracle" / "data"
BINLOGS = sorted(p for p in DATA.glob("*/*/bin.0*") if p.read_bytes()[:4] == MAGIC)


def images_of(
    table: TableMap, header: RowsHeader, data: bytes | bytearray | memoryview
) -> list[tuple[int, int, int]]:
    """Return each row's offset, the end of its before-image, and the end of the row, as the product finds them."""
    images = row_images(table, header, data)
    assert all(one.dtype == np.int64 for one in images)
    return list(zip(*(one.tolist() for one in images), strict=True))


def table_of(*columns: tuple[int, bytes]) -> TableMap:
    types = bytes(kind for kind, _ in columns)
    return TableMap(1, 1, "d", "t", types, b"".join(m for _, m in columns), bytes((len(types) + 7) // 8))


# --- the size of a value, column type by column type ----------------------------------------------------

STRING_254 = [  # lengths of CHAR columns, bytes, and the column's metadata with real type and length
    (length, bytes((0xFE ^ ((length & 0x300) >> 4), length & 0xFF)))
    for length in (1, 40, 255, 256, 765, 1020)
]


@pytest.mark.parametrize(
    ("kind", "metadata", "size"),
    [
        (T.TINY, b"", 1),
        (T.YEAR, b"", 1),
        (T.SHORT, b"", 2),
        (T.INT24, b"", 3),
        (T.LONG, b"", 4),
        (T.LONGLONG, b"", 8),
        (T.FLOAT, b"\4", 4),
        (T.DOUBLE, b"\x08", 8),
        (T.NULL, b"", 0),
        (T.DATE, b"", 3),
        (T.NEWDATE, b"", 3),
        (T.TIME, b"", 3),
        (T.TIMESTAMP, b"", 4),
        (T.DATETIME, b"", 8),
        *((T.TIME2, bytes((n,)), 3 + (n + 1) // 2) for n in range(7)),
        *((T.TIMESTAMP2, bytes((n,)), 4 + (n + 1) // 2) for n in range(7)),
        *((T.DATETIME2, bytes((n,)), 5 + (n + 1) // 2) for n in range(7)),
        (T.NEWDECIMAL, b"\x0a\x02", 5),
        (T.NEWDECIMAL, b"\x41\x1e", 30),
        (T.NEWDECIMAL, b"\x05\x00", 3),
        (T.NEWDECIMAL, b"\x01\x00", 1),
        (T.BIT, b"\1\0", 1),
        (T.BIT, b"\0\1", 1),
        (T.BIT, b"\1\2", 3),
        (T.BIT, b"\0\x08", 8),
        (T.VARCHAR, b"\xff\0", -1),
        (T.VARCHAR, b"\0\1", -2),
        (T.VARCHAR_COMPRESSED, b"\xff\0", -1),
        (T.VARCHAR_COMPRESSED, b"\xd0\7", -2),
        *((T.STRING, packed, -1 if length < 256 else -2) for length, packed in STRING_254),
        (T.STRING, b"\xf7\1", 1),
        (T.STRING, b"\xf7\2", 2),
        (T.STRING, b"\xf8\x08", 8),
        (T.ENUM, b"\xf7\2", 2),
        (T.SET, b"\xf8\3", 3),
        *((kind, bytes((n,)), -n) for n in (1, 2, 3, 4) for kind in (T.BLOB, T.BLOB_COMPRESSED)),
        (T.TINY_BLOB, b"\1", -1),
        (T.MEDIUM_BLOB, b"\3", -3),
        (T.LONG_BLOB, b"\4", -4),
        (T.GEOMETRY, b"\4", -4),
        (T.JSON, b"\4", -4),
        (T.VECTOR, b"\4", -4),
        (T.TYPED_ARRAY, b"\x08", -4),
        (T.TYPED_ARRAY, b"\x0f\x28\0\0", -4),
        (T.TYPED_ARRAY, b"\xf6\x0a\x02", -4),
        (T.TYPED_ARRAY, b"\x12\6", -4),
    ],
)
def test_the_size_of_a_value(kind, metadata, size):
    types = bytes([T.LONG, kind, T.VARCHAR])
    assert value_sizes(types, metadata + b"\5\0") == (4, size, -1)


@pytest.mark.parametrize(
    ("kind", "metadata", "text"),
    [
        (T.DECIMAL, b"", "cannot be in a rows event"),
        (T.VAR_STRING, b"", "cannot be in a rows event"),
        (T.BOOL, b"", "cannot be in a rows event"),
        (T.INVALID, b"", "cannot be in a rows event"),
        (99, b"", "cannot be in a rows event"),
        (T.BLOB, b"\0", "length of 0 bytes"),
        (T.BLOB, b"\5", "length of 5 bytes"),
        (T.BLOB, b"", "no metadata"),
        (T.VARCHAR, b"\5", "no metadata"),
        (T.TYPED_ARRAY, b"", "no metadata"),
        (T.TYPED_ARRAY, b"\x0f\5", "bytes of metadata"),
        (T.LONG, b"\5", "1 bytes of metadata, of which the columns use 0"),
        (T.FLOAT, b"\5", "has 5 bytes"),
        (T.TIME2, b"\7", "7 decimals"),
        (T.NEWDECIMAL, b"\0\0", "precision 0"),
        (T.NEWDECIMAL, b"\5\6", "scale 6"),
        (T.NEWDECIMAL, b"\x42\0", "precision 66"),
        (T.BIT, b"\x08\0", "8 bits"),
        (T.BIT, b"\1\x08", "65 bits"),
        (T.STRING, b"\xf7\0", "has 0 bytes"),
        (T.STRING, b"\xf8\x09", "has 9 bytes"),
    ],
)
def test_types_and_metadata_that_do_not_fit(kind, metadata, text):
    with pytest.raises(BinlogCorrupt, match=text):
        value_sizes(bytes([kind]), metadata)


# --- rows built from known values -----------------------------------------------------------------------

COLUMNS = [
    (T.TINY, b""),
    (T.LONG, b""),
    (T.LONGLONG, b""),
    (T.DOUBLE, b"\x08"),
    (T.NEWDECIMAL, b"\x0a\x02"),
    (T.BIT, b"\1\2"),
    (T.DATETIME2, b"\6"),
    (T.NULL, b""),
    (T.VARCHAR, b"\x50\0"),
    (T.VARCHAR, b"\0\4"),
    (T.STRING, b"\xfe\x28"),
    (T.STRING, b"\xce\xfc"),
    (T.STRING, b"\xf7\2"),
    (T.BLOB, b"\1"),
    (T.BLOB, b"\2"),
    (T.BLOB, b"\3"),
    (T.LONG_BLOB, b"\4"),
    (T.JSON, b"\4"),
    (T.TYPED_ARRAY, b"\x08"),
]
bits = st.integers(0, 2**32 - 1)


@st.composite
def rows_cases(draw: st.DrawFn) -> tuple[TableMap, RowsHeader, bytes, list[tuple[int, int, int]]]:
    """A table map, the header of a rows event, its rows data, and the offsets of rows and images."""
    table = table_of(*draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=20)))
    sizes = value_sizes(table.column_types, table.metadata)
    kind = draw(st.sampled_from([23, 24, 25, 30, 31, 32, 39, 166, 167, 168]))
    before, after = (
        (draw(bits) & (1 << len(sizes)) - 1) or 1,
        (draw(bits) & (1 << len(sizes)) - 1) or 1,
    )
    data = bytearray()

    def image(present: int) -> None:
        columns = [s for k, s in enumerate(sizes) if present >> k & 1]
        nulls = draw(bits)
        data.extend(
            (nulls & (1 << 8 * ((len(columns) + 7) // 8)) - 1).to_bytes((len(columns) + 7) // 8, "little")
        )
        for k, size in enumerate(columns):
            if nulls >> k & 1:
                continue
            if size < 0:
                length = draw(st.one_of(st.integers(0, 20), st.integers(250, 260), st.just(70_000)))
                length = min(length, (1 << -8 * size) - 1)
                data.extend(length.to_bytes(-size, "little") + b"\xff" * length)
            else:
                data.extend(b"\xee" * size)

    where = []
    for _ in range(draw(st.integers(0, 5))):
        start = len(data)
        if kind in (24, 25, 31, 32, 39, 167, 168):
            image(before)
        middle = len(data)
        if kind not in (25, 32, 168):
            if kind == 39:
                partial = draw(st.booleans())
                json_bytes = (table.column_types.count(T.JSON) + 7) // 8
                data.extend(b"\1" + b"\xff" * json_bytes if partial else b"\0")
            image(before if kind in (23, 30, 166) else after)
        where.append((start, middle, len(data)))
    width = (len(sizes) + 7) // 8
    update = kind in (24, 31, 39, 167)
    header = RowsHeader(
        table_id=1,
        flags=0,
        extra=b"",
        column_count=len(sizes),
        columns_before=before.to_bytes(width, "little"),
        columns_after=after.to_bytes(width, "little") if update else None,
        rows_offset=0,
        kind="update" if update else "delete" if kind in (25, 32, 168) else "insert",
        compressed=False,
        type=kind,
    )
    return table, header, bytes(data), where


@settings(deadline=None)
@given(rows_cases())
def test_the_images_are_where_they_were_put(case):
    table, header, data, where = case
    assert images_of(table, header, data) == where
    assert images_of(table, header, memoryview(bytearray(data))) == where
    assert plain_row_images(table, header, data) == where


@settings(deadline=None, max_examples=150)
@given(rows_cases(), st.data())
def test_damaged_rows_are_corrupt_to_both_in_the_same_words(case, choice):
    table, header, data, _ = case
    damaged = bytearray(data)
    if damaged:
        damaged[choice.draw(st.integers(0, len(data) - 1))] = choice.draw(st.integers(0, 255))
        del damaged[choice.draw(st.integers(0, len(data))) :]
    damaged += choice.draw(st.binary(max_size=3))
    outcome = []
    for find in (images_of, plain_row_images):
        try:
            outcome.append(find(table, header, damaged))
        except BinlogCorrupt as error:
            outcome.append(str(error))
    assert outcome[0] == outcome[1]


def header_of(kind: int, columns: int, before: bytes, after: bytes | None = None) -> RowsHeader:
    body = bytes(8) + (b"\2\0" if kind >= 30 else b"") + bytes((columns,)) + before + (after or b"")
    return decode_rows_header(kind, body)


@pytest.mark.parametrize("find", [images_of, plain_row_images])
@pytest.mark.parametrize(
    ("header", "data", "text"),
    [
        (header_of(30, 2, b"\3"), b"\0\1\2\3", "end inside a row .row 0, byte 0"),
        (header_of(30, 2, b"\3"), b"\3" + b"\0\1\2\3\4\4abc", "row 1, byte 1 "),
        (header_of(30, 2, b"\3"), b"\2\1\2\3", "end inside a row"),
        (header_of(30, 2, b"\0"), b"\0", "rows without columns"),
        (header_of(31, 2, b"\1", b"\1"), b"\0\1\2\3\4", "end inside a row"),
        (header_of(39, 2, b"\1", b"\1"), b"\1", "end inside a row"),
        (header_of(39, 2, b"\1", b"\1"), b"\1\2\1", "unknown value_options"),
        (header_of(30, 3, b"\7"), b"", "3 columns, and its Table_map event has 2"),
    ],
)
def test_what_is_wrong_with_rows_is_said(find, header, data, text):
    with pytest.raises(BinlogCorrupt, match=text):
        find(table_of((T.LONG, b""), (T.VARCHAR, b"\x50\0")), header, data)


@pytest.mark.parametrize("find", [images_of, plain_row_images])
def test_no_rows_and_dummy_rows(find):
    table = table_of((T.LONG, b""))
    assert len(find(table, header_of(30, 1, b"\1"), b"")) == 0
    assert len(find(table, decode_rows_header(31, b"\xff" * 6 + b"\1\0\2\0"), b"")) == 0


def test_many_more_rows_than_expected_and_many_bitmaps():
    """Rows of NULLs take one byte each, so that the array of offsets has to grow. No row is lost."""
    table = table_of(*[(T.LONGLONG, b"")] * 8)
    images = row_images(table, header_of(30, 8, b"\xff"), b"\xff" * 100_000)
    assert images.start.tolist() == list(range(100_000))
    assert images.end.tolist() == list(range(1, 100_001))
    for present in range(1, 256):
        length = 1 + 8 * present.bit_count()
        images = row_images(table, header_of(30, 8, bytes((present,))), bytes(3 * length))
        assert images.end.tolist() == [length, 2 * length, 3 * length]


# --- recordings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", BINLOGS, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_every_rows_event_of_every_recording_parses_to_its_end(path):
    for table, header, data in rows_events(path):
        images = images_of(table, header, data)
        assert images == plain_row_images(table, header, data)
        starts, _, ends = zip(*images, strict=True)
        assert starts == (0, *ends[:-1])
        assert ends[-1] == len(data)


def counts(paths: list[Path]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for path in paths:
        for table, header, data in rows_events(path):
            found[f"{table.database}.{table.table}"][header.kind] += len(images_of(table, header, data))
    return found


@pytest.mark.parametrize("name", ["mysql-row", "mariadb-row"])
def test_inserts_less_deletes_are_the_rows_the_source_ended_with(name):
    """Check the tables that only rows events changed. Those of ``scratch`` were also renamed and truncated."""
    state = json.loads((DATA / "oracle" / name / "oracle.json").read_text())["source"]["state"]
    found = counts(sorted((DATA / "oracle" / name).glob("bin.00*")))
    checked = 0
    for database, tables in state.items():
        for table, facts in tables.items():
            if database != "scratch":
                count = found[f"{database}.{table}"]
                assert count["insert"] - count["delete"] == facts["rows"], (database, table)
                checked += 1
    assert checked == 12


# The numbers of rows that the statements of types.sql inserted, updated and deleted, as the client printed them
# ("Query OK, 2 rows affected"), and SELECT COUNT(*) at the end.
MYSQL_TYPES = {
    "every_type": (6, 19, 2, 4),
    "changes": (1, 1, 0, 1),
    "no_key": (5, 4, 1, 4),
    "defaults": (5, 1, 1, 4),
    "multi_valued": (2, 1, 0, 2),
    "parts": (3, 3, 1, 2),
    "hidden_key": (3, 0, 1, 2),
    "invisible_key": (2, 0, 0, 2),
}
MARIADB_TYPES = {
    "every_type": (6, 7, 2, 4),
    "changes": (2, 2, 1, 1),
    "no_key": (5, 3, 1, 4),
    "defaults": (5, 1, 1, 4),
    "parts": (3, 3, 1, 2),
    "old_temporal": (2, 2, 0, 2),
    "versioned": (2, 0, 0, 2),
}


@pytest.mark.parametrize(("name", "facts"), [("mysql-types", MYSQL_TYPES), ("mariadb-types", MARIADB_TYPES)])
def test_rows_of_every_column_type(name, facts):
    found = counts([DATA / "recordings" / name / "bin.000001"])
    assert set(found) == {f"ty.{table}" for table in facts}
    for table, (inserted, updated, deleted, left) in facts.items():
        count = found[f"ty.{table}"]
        assert (count["insert"], count["update"], count["delete"]) == (inserted, updated, deleted), table
        assert inserted - deleted == left


@pytest.mark.parametrize(
    ("name", "types", "events"),
    [
        (
            "mysql-types",
            {*range(1, 6), 8, 9, 10, 13, *range(15, 20), 242, 245, 246, 252, 254, 255},
            {30, 31, 32, 39},
        ),
        (
            "mariadb-types",
            {*range(1, 6), *range(7, 14), *range(15, 20), 140, 141, 246, 252, 254, 255},
            {23, 24, 25, 166, 167, 168},
        ),
    ],
)
def test_the_recordings_hold_what_they_are_for(name, types, events):
    found = list(rows_events(DATA / "recordings" / name / "bin.000001"))
    assert types <= {kind for table, _, _ in found for kind in table.column_types}
    assert {header.type for _, header, _ in found} == events
    images = {(table.table, header.columns_before) for table, header, _ in found}
    assert len({columns for table, columns in images if table == "every_type"}) >= 4  # full, minimal, noblob
    if name == "mysql-types":
        options = {
            data[middle]
            for table, header, data in found
            if header.type == 39
            for _, middle, _ in images_of(table, header, data)
        }
        assert options == {0, 1}


@given(st.data())
@settings(deadline=None, max_examples=100)
def test_damaged_server_rows_are_corrupt_or_parse(data):
    paths = [p for p in BINLOGS if p.parent.name.endswith("-types") and p.name == "bin.000001"]
    path = data.draw(st.sampled_from(paths))
    found = list(rows_events(path))
    table, header, rows = found[data.draw(st.integers(0, len(found) - 1))]
    damaged = bytearray(rows)
    damaged[data.draw(st.integers(0, len(rows) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(1, len(rows))) :]
    try:
        images = images_of(table, header, damaged)
    except BinlogCorrupt:
        return
    assert images == plain_row_images(table, header, damaged)

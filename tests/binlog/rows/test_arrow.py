"""Row images as Arrow maps and structs: values of every type, partial images, and malformed bytes."""

from __future__ import annotations

import datetime
import re
import tracemalloc
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt, BinlogError, BinlogUnsupported
from dumpfilter.binlog import row_image as T
from dumpfilter.binlog.events import HEADER_LENGTH, ROWS, EventType
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.rows import arrow
from dumpfilter.binlog.rows.arrow import (
    ChangedRows,
    RowImageReader,
    common_type,
    struct_of,
    typed_values,
    value_of_text,
    with_names,
)
from dumpfilter.binlog.rows.table import Column, Table, describe_table
from dumpfilter.binlog.rows_events import decode_table_map
from tests.binlog.rows.recorded import NAMES, RecordedEvent, all_pairs, events, pairs, path_of, read

FULL = ["mariadb1011-full", "mysql97-full"]

STMT_FLAGS = 6
"""The offset in a rows event's body of the byte with STMT_END_F."""


def inserted(name: str, *columns: str) -> list[dict[str, str | None]]:
    """Return the inserted rows of the table that has exactly these columns, or these first ones."""
    found = []
    for before, after in all_pairs(name):
        if before is None and after is not None and list(after)[: len(columns)] == list(columns):
            found.append(after)
    return found


@pytest.mark.parametrize("name", FULL)
def test_numbers(name: str) -> None:
    rows = inserted(name, "id", "t", "tu")
    assert [rows[k]["bu"] for k in range(5)] == [
        "18446744073709551615",
        "9223372036854775808",
        "0",
        "1",
        None,
    ]
    assert [row["m"] for row in rows] == ["-8388608", "8388607", "0", "-1", None]
    assert [row["y"] for row in rows] == ["1901", "2155", "0000", "1999", None]
    reals = inserted(name, "id", "f", "d")
    assert [row["f"] for row in reals[:6]] == ["1.5", "3.4028235e38", "0", "0.33333334", "1000000", "0.00001"]
    assert [row["d"] for row in reals[:4]] == ["-2.25", "1.7976931348623157e308", "0", "0.3333333333333333"]
    decimals = inserted(name, "id", "a", "b", "c", "d", "e")
    assert [row["a"] for row in decimals] == ["12345678.90", "-12345678.90", "0.00", "-0.01", None, "100.00"]
    assert decimals[1]["b"] == "-12345678901234567890123456789012345.123456789012345678901234567890"


@pytest.mark.parametrize("name", FULL)
def test_times_are_in_utc(name: str) -> None:
    first, zero, last, *_ = inserted(name, "id", "d", "t", "t1")
    assert list(first.values())[1:] == [
        "2026-11-21",
        "12:34:56",
        "12:34:56.7",
        "12:34:56.789",
        "12:34:56.789012",
        "2026-11-21 01:02:03",
        "2026-11-21 01:02:03.45",
        "2026-11-21 01:02:03.4567",
        "2026-11-21 01:02:03.456789",
        "2026-11-21 01:02:03",
        "2026-11-21 01:02:03.4",
        "2026-11-21 01:02:03.456",
        "2026-11-21 01:02:03.456789",
    ]
    assert (zero["d"], zero["t6"], zero["ts"]) == ("0000-00-00", "-00:00:00.000001", "0000-00-00 00:00:00")
    assert (last["t"], last["ts6"]) == ("838:59:59", "2038-01-19 03:14:07.999999")


def test_mariadb_has_timestamps_in_the_first_second_of_1970() -> None:
    table, rows = one_statement("mariadb1011-full", "times")
    ts6 = b"\x7f\xff\xff\xff" + (999999).to_bytes(3, "big")
    early = rows._replace(raw=rows.raw.replace(ts6, bytes(4) + ts6[4:]))
    assert [after and after["ts6"] for _, after in pairs(read(RowImageReader(), [table, early]))][1:3] == [
        "0000-00-00 00:00:00.000000",
        "1970-01-01 00:00:00.999999",
    ]


@pytest.mark.parametrize("name", FULL)
def test_texts_are_decoded_by_their_character_sets(name: str) -> None:
    texts = inserted(name, "id", "c", "c255")
    assert [texts[0][column] for column in ("cu", "v", "v300")] == ["süß", "it's", "back\\slash"]
    # The binlog stores BINARY without its last zero bytes.
    assert [texts[k]["b"] for k in range(3)] == ["0x00FF410000", "0x0000000000", "0x0000000000"]
    assert (texts[0]["vb"], texts[0]["bl"], texts[1]["bl"]) == ("0x0102", "0xFF00", "0x")
    sets = inserted(name, "id", "l1", "l2")[0]
    assert " ".join(value or "" for value in list(sets.values())[1:]) == (
        "Grüße € zażółć 日本 日本😀 日本😀 日本😀 日本 日本 日本 日本 日本 Привет Привет é½ äöü日 plain 한국 Ελλ "
        "שלום ğış ß"
    )


@pytest.mark.parametrize("name", FULL)
def test_values_of_enum_set_and_bit_have_names(name: str) -> None:
    rows = inserted(name, "id", "e", "s", "s64")
    assert [row["e"] for row in rows] == ["a", "it's", "ü", None, ""]
    assert [row["s"] for row in rows] == ["x,z", "", "x,y,z,ab", None, ""]
    assert [row["s64"] for row in rows] == ["1,64", "", "2,9,17,33", None, ""]
    assert [row["el"] for row in rows] == ["ö", "ä", None, None, ""]
    assert rows[0]["b9"] == "b'100000001'"


def test_without_metadata_columns_have_numbers() -> None:
    rows = all_pairs("mariadb118-nolog")
    first = rows[0][1]
    assert first is not None
    # Without the metadata a number has a sign, an ENUM is a number, and bytes that are UTF-8 are text.
    assert [first[f"@{k}"] for k in (1, 2, 3, 5)] == ["1", "-128", "-1", "-1"]
    enums = [after for _, after in rows if after and after.get("@5") == "2" and after.get("@6") == "b'1'"]
    assert enums[0]["@2"] == "1"
    assert enums[0]["@3"] == "b'00000101'"
    binary = [after for _, after in rows if after and after.get("@7") == "0x00FF41"]
    assert binary[0]["@6"] == "back\\slash"


@pytest.mark.parametrize("name", FULL)
def test_partial_images_have_the_present_columns(name: str) -> None:
    rows = all_pairs(name)
    assert ({"id": "1"}, {"c08": "8", "note": "second"}) in rows
    assert ({"id": "1"}, {"note": None}) in rows
    assert ({"id": "2"}, None) in rows


def test_json_and_its_partial_updates() -> None:
    rows = [pair for pair in all_pairs("mysql97-full") if any("j" in (image or {}) for image in pair)]
    values = {after["id"]: after["j"] for before, after in rows if before is None and after and "k" in after}
    assert values["1"] == (
        '{"a": 1, "b": [1, 2, {"c": null}], "d": 1.5, "f": false, "s": "text \\"q\\" \\\\ é 日 \\u0001", "t": true, '
        '"big": 12345678901234567890, "i64": -9223372036854775808, "neg": -7}'
    )
    assert values["3"] == '"str"'
    assert values["5"] == (
        "[1e100, 0.0000001, 123456789.123, 0.1, 100.0, 1e15, 1e17, 65535, 65536, -32769, 4294967295, 4294967296]"
    )
    assert values["6"] is None
    updates = [after for before, after in rows if before and after]
    # The image before the update has the document, and with MINIMAL it has the key alone.
    assert {"id": "1", "j": (values["1"] or "").replace('"a": 1', '"a": 2'), "k": "[]"} in updates
    assert {"j": "JSON_REPLACE(`j`, '$.a', 34)", "k": None} in updates


def test_compressed_columns_of_mariadb_are_opened() -> None:
    rows = inserted("mariadb1011-full", "id", "v", "t", "b", "vb", "mt")
    assert rows[0]["v"] == "v" * 400
    assert rows[0]["mt"] == "ü" * 400
    assert rows[0]["vb"] == "0x73686F7274"
    assert [row["t"] for row in rows[1:]] == ["", None, "it's"]


def test_mariadbs_own_types_are_bytes() -> None:
    rows = inserted("mariadb1011-full", "id", "u", "i4")
    assert rows[0]["u"] == "0x123E4567E89B12D3A456426655440000"
    assert rows[2]["i6"] == "0x" + "00" * 16


@pytest.mark.parametrize("name", NAMES)
def test_the_pieces_in_which_events_are_read_do_not_matter(name: str) -> None:
    found = [event for event in events(name) if event.fd.checksum == (name != "mysql97-compressed")]
    whole = pairs(read(RowImageReader(), found))
    for size in (1, 7):
        reader, rows = RowImageReader(), []
        for at in range(0, len(found), size):
            rows += pairs(read(reader, found[at : at + size]))
        assert rows == whole


def test_a_reader_that_forgets_tables_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Table maps in force outlive the layouts, which the reader forgets when there are many."""
    found = [event for event in events("mysql97-full") if event.fd.checksum]
    whole = pairs(read(RowImageReader(), found))
    counts = []
    for most in (1 << 18, 0):
        monkeypatch.setattr("dumpfilter.binlog.rows.events._MOST_COLUMNS", most)
        reader, rows = RowImageReader(), []
        for event in found:
            rows += pairs(read(reader, [event]))
        assert rows == whole
        counts.append(reader._finder.layouts.column_count)
    assert counts[1] < counts[0]


def test_a_table_map_is_in_force_to_the_end_of_its_statement_or_transaction() -> None:
    table, rows = one_statement("mysql97-full", "strings")
    with pytest.raises(BinlogCorrupt, match="no Table_map event tells the columns"):
        read(RowImageReader(), [table, rows, rows])
    more = with_bytes(rows, [(STMT_FLAGS, 0)], 0)
    once, twice = (pairs(read(RowImageReader(), [table, *some])) for some in ([more], [more, rows]))
    assert len(twice) == 2 * len(once) > 0
    end = next(event for event in events("mysql97-full") if event.type == EventType.XID)
    with pytest.raises(BinlogCorrupt, match="no Table_map event tells the columns"):
        read(RowImageReader(), [table, more, end, rows])


def one_statement(name: str, wanted: str) -> list[RecordedEvent]:
    """Return the Table_map event of a table and the rows events after it."""
    found: list[RecordedEvent] = []
    for event in events(name):
        if event.type == EventType.TABLE_MAP and f"\0{len(wanted):c}{wanted}\0".encode() in event.raw:
            found = [event]
        elif event.type in ROWS and found:
            return [*found, event]
    raise AssertionError(wanted)


STATEMENTS = [
    one_statement("mysql97-full", table)
    for table in ("ints", "decimals", "times", "strings", "charsets", "sets", "js", "vec", "part")
] + [one_statement("mariadb1011-full", table) for table in ("special", "comp", "oldtimes", "geo")]
PARTIAL = [event for event in events("mysql97-full") if event.type == EventType.PARTIAL_UPDATE_ROWS]


def with_bytes(event: RecordedEvent, changes: list[tuple[int, int]], cut: int) -> RecordedEvent:
    """Return an event with changed bytes of its body, and with fewer bytes before its checksum."""
    raw = bytearray(event.raw)
    last = len(raw) - event.fd.checksum_length
    for at, byte in changes:
        raw[HEADER_LENGTH + at % (last - HEADER_LENGTH)] = byte
    cut = min(cut, last - HEADER_LENGTH)
    return event._replace(raw=bytes(raw[: last - cut] + raw[last:]))


@settings(max_examples=300)
@given(
    statement=st.sampled_from(STATEMENTS),
    which=st.integers(0, 1),
    changes=st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=3),
    cut=st.one_of(st.just(0), st.integers(0, 40)),
)
def test_malformed_events_give_rows_or_an_error(
    statement: list[RecordedEvent], which: int, changes: list[tuple[int, int]], cut: int
) -> None:
    found = list(statement)
    found[which] = with_bytes(found[which], changes, cut)
    body, fd = statement[0].fd.body(statement[0].raw), statement[0].fd
    table = decode_table_map(body)
    struct = struct_of([(describe_table(table, fd.family), fd.family)])
    for reader in (RowImageReader(), RowImageReader((struct, struct))):
        changed, place = None, found[0].position
        try:
            changed = read(reader, found)
        except BinlogError as error:
            place = error.position or 0
        assert place in [event.position for event in found]
        if changed is not None:
            changed.before.validate(full=True)
            changed.after.validate(full=True)


def test_an_error_names_the_event() -> None:
    found = one_statement("mysql97-full", "strings")
    found[1] = with_bytes(found[1], [], 3)
    with pytest.raises(
        BinlogCorrupt,
        match=rf"^at {found[1].position}: rows event: the rows data end inside a row "
        rf"\(its Table_map event is at {found[0].position}\)$",
    ):
        read(RowImageReader(), found)
    with pytest.raises(BinlogCorrupt, match="no Table_map event tells the columns of table id"):
        read(RowImageReader(), found[1:])


def test_only_the_wanted_events_are_decoded() -> None:
    found = list(events("mysql97-full"))
    sizes = np.array([len(event.raw) for event in found], np.int64)
    types = np.array([event.type for event in found], np.uint8)
    updates = types == EventType.UPDATE_ROWS
    changed = RowImageReader().read(
        np.frombuffer(b"".join(event.raw for event in found), np.uint8),
        np.cumsum(sizes) - sizes,
        sizes,
        types,
        np.array([event.position for event in found], np.int64),
        found[0].fd,
        wanted=updates,
    )
    assert set(changed.event.tolist()) == set(np.flatnonzero(updates).tolist())
    assert changed.before.null_count == changed.after.null_count == 0


def test_the_recordings_hold_no_secrets() -> None:
    for name in NAMES:
        assert not re.search(rb"IDENTIFIED|PASSWORD", path_of(name).read_bytes())


def test_mysql_counts_year_among_numbers() -> None:
    changed = read(RowImageReader(), list(events("mysql97-counted")))
    rows = [dict(row) for row in changed.after.to_pylist()]
    assert rows[0] == {"y": "2026", "s": "-1", "u": "4000000000", "b": "-5"}
    assert rows[2] == {"y": "2155", "s": "-2147483648", "u": "4294967295", "b": "-9223372036854775808"}


def test_mariadb_counts_year_and_geometry_among_numbers_and_texts() -> None:
    found = list(events("mariadb1011-counted"))
    changed = read(RowImageReader(), found)
    rows = [dict(row) for row in changed.after.to_pylist()]
    assert rows[0] == {"y": "2026", "s": "-1", "u": "4000000000", "b": "-5"}
    assert [rows[1][name] for name in ("l", "a", "b", "c")] == ["é1", "é2", "é3", "é4"]
    assert {name: rows[2][name] for name in "enykj"} == {
        "e": "ä",
        "n": "-7",
        "y": "1999",
        "k": "200",
        "j": "é5",
    }


NO_DATE = re.compile(r"0000-|\d{4}-(00-|\d\d-00|02-31)")


def tables(name: str) -> dict[str, tuple[list[RecordedEvent], list[tuple[Table, Family]]]]:
    """Return the events and the versions of each table of a recording."""
    found: dict[str, tuple[list[RecordedEvent], list[tuple[Table, Family]]]] = {}
    current = None
    for event in events(name):
        if event.type == EventType.TABLE_MAP:
            body = event.fd.body(event.raw)
            table = decode_table_map(body)
            current = found.setdefault(table.table, ([], []))
            current[1].append((describe_table(table, event.fd.family), event.fd.family))
        if current is not None and (event.type == EventType.TABLE_MAP or event.type in ROWS):
            current[0].append(event)
    return found


def parts(some: list[RecordedEvent]) -> Iterator[list[RecordedEvent]]:
    """Yield the events with checksums, and those inside compressed transactions, which have none."""
    for checksum in (True, False):
        part = [event for event in some if event.fd.checksum == checksum]
        if part:
            yield part


def as_text(value: Any, kind: pa.DataType, text: str) -> str:
    """Return a typed value as the map has it. ``text`` tells the form where a type has several."""
    if isinstance(value, bytes):
        return "0x" + value.hex().upper()
    if isinstance(value, float):
        same = np.float32(text) == np.float32(value) if kind == pa.float32() else float(text) == value
        return text if same else repr(value)
    if isinstance(value, datetime.datetime):
        assert kind.tz == (None if value.tzinfo is None else "UTC")
        fraction = text.partition(".")[2]
        assert value.microsecond % 10 ** (6 - len(fraction)) == 0
        whole = value.replace(tzinfo=None, microsecond=0).isoformat(" ")
        return whole + (f".{value.microsecond:06}"[: 1 + len(fraction)] if fraction else "")
    if text.startswith("b'") and not isinstance(value, str):
        return f"b'{int(value):0{len(text) - 3}b}'"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return f"{value:04}" if kind == pa.int16() and len(text) == 4 and text.isdigit() else str(value)


@pytest.mark.parametrize("name", NAMES)
def test_typed_values_are_those_of_the_maps(name: str) -> None:
    compared = 0
    for some, versions in tables(name).values():
        struct = struct_of(versions)
        for part in parts(some):
            typed, maps = read(RowImageReader((struct, struct)), part), read(RowImageReader(), part)
            assert typed.event.tolist() == maps.event.tolist()
            for side in ("before", "after"):
                images, texts = getattr(typed, side), getattr(maps, side)
                images.validate(full=True)
                for image, expected in zip(
                    images.to_pylist(), texts.to_pylist(maps_as_pydicts="strict"), strict=True
                ):
                    compared += compare(image, expected, struct)
    assert compared > 20


def compare(image: dict[str, Any] | None, texts: dict[str, str | None] | None, struct: pa.StructType) -> int:
    if image is None or texts is None:
        assert image is texts
        return 0
    assert {column for column, value in image.items() if value is not None} <= texts.keys()
    for column, text in texts.items():
        value, kind = image[column], struct.field(column).type
        if text is not None and value is None:
            assert pa.types.is_temporal(kind)
            assert NO_DATE.match(text), text
        elif text is None:
            assert value is None
        else:
            assert as_text(value, kind, text) == text
    return len(texts)


def test_dates_that_no_calendar_has_are_null() -> None:
    texts = {
        "2024-02-29 23:59:59.5": datetime.datetime(2024, 2, 29, 23, 59, 59, 500_000),
        "9999-12-31 00:00:00": datetime.datetime(9999, 12, 31),
        "0000-00-00 00:00:00": None,
        "0000-05-05 01:02:03": None,
    }
    invalid = dict.fromkeys(("2023-02-29 00:00:00", "2023-00-01 00:00:00", "-2023-01-01 00:00:00", None))
    for given_texts in (texts, texts | invalid):
        found = value_of_text(pa.array([*given_texts], pa.string()), pa.timestamp("us"))
        assert found.to_pylist() == [*given_texts.values()]


def test_binary_values_that_are_too_large_for_an_array_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The binlog leaves out zero bytes at the end of BINARY, and MariaDB compresses rows, so that few bytes suffice."""
    column = Column("a", T.STRING, T.STRING << 8 | 255, nullable=True)
    start, length, data = np.zeros(4, np.int64), np.array([1, 0, -1, 1]), np.ones(1, np.uint8)
    monkeypatch.setattr(arrow, "MOST_TEXT", 3 * 255)
    assert [value and len(value) for value in typed_values(data, start, length, column).to_pylist()] == [
        255,
        255,
        None,
        255,
    ]
    monkeypatch.setattr(arrow, "MOST_TEXT", 3 * 255 - 1)
    with pytest.raises(BinlogUnsupported, match="765 bytes"):
        typed_values(data, start, length, column)


def test_a_large_value_takes_little_memory() -> None:
    column = Column("a", T.LONG_BLOB, 4, nullable=True)
    data = np.arange(1 << 22, dtype=np.int64).astype(np.uint8)
    start, length = np.array([1, 0, 0, 7]), np.array([data.size - 1, -1, 0, 3])
    tracemalloc.start()
    found = typed_values(data, start, length, column)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.to_pylist() == [data[1:].tobytes(), None, b"", bytes([7, 8, 9])]
    assert most < 8 * data.size


def test_each_type_has_an_arrow_type() -> None:
    found = {name: struct_of(versions) for name, (_, versions) in tables("mysql97-full").items()}
    kinds = {field.name: field.type for field in found["ints"]}
    assert [str(kinds[name]) for name in ("t", "tu", "su", "mu", "iu", "b", "bu", "y")] == [
        "int8",
        "int16",
        "int32",
        "int32",
        "int64",
        "int64",
        "decimal128(20, 0)",
        "int16",
    ]
    assert str(found["vec"].field("v").type) == str(found["js"].field("j").type) == "string"
    strings = {field.name: str(field.type) for field in found["strings"]}
    assert (strings["c"], strings["b"], strings["bl"]) == ("string", "binary", "binary")


def column(name: str, kind: int, metadata: int = 0) -> Column:
    return Column(name, kind, metadata, nullable=True)


def test_versions_of_a_table_have_common_columns() -> None:
    first = column("id", T.SHORT), column("gone", T.DATE), column("n", T.NEWDECIMAL, 0x0802)
    second = column("ID", T.LONG), column("n", T.NEWDECIMAL, 0x0A04), column("more", T.DOUBLE, 8)
    old, new = (Table("shop", "t", columns) for columns in (first, second))
    assert list(struct_of([(old, "mysql"), (new, "mysql")])) == [
        pa.field("id", pa.int32()),
        pa.field("gone", pa.date32()),
        pa.field("n", pa.decimal128(10, 4)),
        pa.field("more", pa.float64()),
    ]


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (pa.int8(), pa.int64(), pa.int64()),
        (pa.int64(), pa.decimal128(20, 0), pa.decimal128(20, 0)),
        (pa.decimal128(38, 0), pa.decimal128(10, 5), pa.string()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.int32(), pa.float64(), pa.float64()),
        (pa.int64(), pa.float64(), pa.string()),
        (pa.date32(), pa.timestamp("us"), pa.timestamp("us")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.string()),
        (pa.binary(), pa.string(), pa.string()),
    ],
)
def test_common_types_lose_no_value(first: pa.DataType, second: pa.DataType, both: pa.DataType) -> None:
    assert common_type(first, second) == common_type(second, first) == both


def values(changed: ChangedRows, name: str) -> list[Any]:
    return [None if image is None else image[name] for image in changed.after.to_pylist()]


def test_a_struct_may_have_other_columns_and_wider_types() -> None:
    some = tables("mysql97-full")["ints"][0]
    wanted = pa.struct([("bu", pa.string()), ("T", pa.int64()), ("new", pa.string())])
    changed = read(RowImageReader((wanted, wanted)), some)
    assert values(changed, "bu")[0] == "18446744073709551615"
    assert values(changed, "T")[0] == -128
    assert set(values(changed, "new")) == {None}
    small = pa.struct([("bu", pa.int8())])
    with pytest.raises(
        BinlogUnsupported, match=r"^at \d+: a value of the column bu .* does not fit the type int8"
    ):
        read(RowImageReader((small, small)), some)


def test_names_are_given_where_the_binlog_has_none() -> None:
    some, versions = tables("mariadb118-nolog")["ints"]
    names = ["id", "t", "tu unsigned", "s"]
    table, family = versions[0]
    struct = struct_of([(with_names(table, names), family)])
    assert [field.name for field in struct][:5] == ["id", "t", "tu", "s", "@5"]
    changed = read(RowImageReader((struct, struct), names=names), some)
    assert (values(changed, "t")[0], values(changed, "tu")[0]) == (-128, 255)
    named, family = tables("mysql97-full")["ints"][1][0]
    assert with_names(named, ["a", "b"]) == named

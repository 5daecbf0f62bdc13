"""Row images as structs of typed columns: equal to the maps, whose texts the servers' programs judge."""

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

from dumpfilter.base.errors import BinlogUnsupported
from dumpfilter.binlog import row_image as T
from dumpfilter.binlog.events import ROWS, EventType
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.rows import ChangedRows, Column, RowImageReader, Table, describe_table, typed
from dumpfilter.binlog.rows.typed import common_type, struct_of, typed_values, with_names
from dumpfilter.binlog.rows_events import decode_table_map
from tests.binlog.rows.recorded import NAMES, RecordedEvent, events, read

NO_DATE = re.compile(r"0000-|\d{4}-(00-|\d\d-00|02-31)")


def tables(name: str) -> dict[str, tuple[list[RecordedEvent], list[tuple[Table, Family]]]]:
    """Return the events and the versions of each table of a recording."""
    found: dict[str, tuple[list[RecordedEvent], list[tuple[Table, Family]]]] = {}
    current = None
    for event in events(name):
        if event.type == EventType.TABLE_MAP:
            body = event.fd.body(event.raw)
            table = decode_table_map(body, event.fd.post_header_length(event.type))
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


def test_binary_values_that_are_too_large_for_an_array_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The binlog leaves out zero bytes at the end of BINARY, and MariaDB compresses rows, so that few bytes suffice."""
    column = Column("a", T.STRING, T.STRING << 8 | 255, nullable=True)
    start, length, data = np.zeros(4, np.int64), np.array([1, 0, -1, 1]), np.ones(1, np.uint8)
    monkeypatch.setattr(typed, "MOST_TEXT", 3 * 255)
    assert [value and len(value) for value in typed_values(data, start, length, column).to_pylist()] == [
        255,
        255,
        None,
        255,
    ]
    monkeypatch.setattr(typed, "MOST_TEXT", 3 * 255 - 1)
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
    old = Table(
        "shop", "t", (column("id", T.SHORT), column("gone", T.DATE), column("n", T.NEWDECIMAL, 0x0802))
    )
    new = Table(
        "shop", "t", (column("ID", T.LONG), column("n", T.NEWDECIMAL, 0x0A04), column("more", T.DOUBLE, 8))
    )
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

"""MySQL's binary JSON: values made by an encoder of our own, and malformed bytes."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.rows.json_binary import MOST_DEPTH, json_changes, json_value


def encoded(value: Any) -> bytes:
    """Return a value as MySQL stores it, always in the large form of objects and arrays."""
    kind, data = _encoded(value)
    return bytes((kind,)) + data


def _encoded(value: Any) -> tuple[int, bytes]:
    if value is None or isinstance(value, bool):
        return 4, bytes(({None: 0, True: 1, False: 2}[value],))
    if isinstance(value, int):
        return (9, struct.pack("<q", value)) if value < 1 << 63 else (10, struct.pack("<Q", value))
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    if isinstance(value, str):
        return 12, _sized(value.encode())
    keys = [key.encode() for key in value] if isinstance(value, dict) else []
    values = list(value.values()) if isinstance(value, dict) else value
    entries = 8 + 6 * len(keys) + 5 * len(values)
    head, tail, types = struct.pack("<I", len(values)), b"".join(keys), b""
    at = entries
    key_entries = b""
    for key in keys:
        key_entries += struct.pack("<IH", at, len(key))
        at += len(key)
    for one in values:
        kind, data = _encoded(one)
        if kind == 4:
            types += bytes((kind,)) + struct.pack("<I", data[0])
        else:
            types += bytes((kind,)) + struct.pack("<I", entries + len(tail))
            tail += data
    body = head + struct.pack("<I", entries + len(tail)) + key_entries + types + tail
    return (1 if isinstance(value, dict) else 3), body


def _sized(data: bytes) -> bytes:
    length, head = len(data), b""
    while True:
        head += bytes((length & 0x7F | (0x80 if length > 0x7F else 0),))
        length >>= 7
        if not length:
            return head + data


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=20,
)


@given(value=values)
def test_the_text_has_the_value(value: Any) -> None:
    assert json.loads(json_value(encoded(value)).json) == value


@given(
    value=values,
    changes=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 3),
)
def test_malformed_values_give_a_text_or_an_error(
    value: Any, changes: list[tuple[int, int]], cut: int
) -> None:
    data = bytearray(encoded(value))
    for at, byte in changes:
        data[at % len(data)] = byte
    data = data[: len(data) - cut]
    try:
        text = json_value(bytes(data)).json
    except BinlogCorrupt:
        return
    assert len(text) <= 100 * (len(data) + 1)


def test_values_that_share_their_bytes_are_refused() -> None:
    # Each of these arrays has two elements, which are both the next array.
    level = 2 * 4 + 2 * 5
    data = b"".join(struct.pack("<II", 2, 0) + 2 * (b"\x03" + struct.pack("<I", level)) for _ in range(40))
    with pytest.raises(BinlogCorrupt, match="refers to the same bytes more than once"):
        json_value(b"\x03" + data + struct.pack("<II", 0, 8))


def test_deep_values_are_refused() -> None:
    value: Any = 1
    for _ in range(MOST_DEPTH):
        value = [value]
    assert json.loads(json_value(encoded(value)).json) == value
    with pytest.raises(BinlogCorrupt, match="nested more than 100 times"):
        json_value(encoded([value]))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x03\x01", "unknown operation 3"),
        (b"\x00\x05$.a", "ends inside a JSON path"),
        (b"\x00\x03$.a\x04\x04\x01", "ends inside a JSON value"),
        (b"\x00\x03$.a\x01\x07", "a JSON value ends too early"),
        (b"\x00\x03$.a\x02\x04\x07", "unknown literal 7"),
    ],
)
def test_malformed_changes_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(BinlogCorrupt, match=why):
        list(json_changes(data))

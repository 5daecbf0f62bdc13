"""Tests of the uncompressed sizes of MariaDB's compressed events.

tests/analyse/test_inspection.py has recorded ones.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.binlog.compression import uncompressed_sizes
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from tests.binlog.encoders import compress
from tests.support import DATA, MemoryFile

_FD: FormatDescription = MemoryFile(
    (DATA / "oracle" / "mariadb-row" / "bin.000001").read_bytes()
).format_description


def _event(kind: int, body: bytes) -> bytes:
    size = 19 + len(body) + 4
    return bytes(4) + bytes([kind]) + bytes(4) + size.to_bytes(4, "little") + bytes(6) + body + bytes(4)


def _size_of(event: bytes) -> int:
    data = np.frombuffer(event, np.uint8)
    one = np.array([len(event)])
    return int(uncompressed_sizes(data, np.array([0]), one, np.array([event[4]], np.uint8), _FD)[0])


@given(text=st.binary(min_size=1, max_size=70_000), columns=st.sampled_from([1, 8, 9, 250]))
def test_size(text: bytes, columns: int) -> None:
    """The size is that of the same event with its rows or statement not compressed."""
    bitmap = bytes((columns + 7) // 8)
    for kind in range(EventType.WRITE_ROWS_COMPRESSED_V1, EventType.DELETE_ROWS_COMPRESSED + 1):
        bitmaps = bitmap * (2 if EventType(kind).kind.change == "update" else 1)
        head = bytes(8) + (b"\2\0" if EventType(kind).kind.version == 2 else b"") + bytes([columns]) + bitmaps
        assert _size_of(_event(kind, head + compress(text))) == len(_event(kind, head + text))
    head = bytes(8) + b"\4" + bytes(2) + b"\3\0" + bytes(3) + b"shop\0"
    kind = EventType.QUERY_COMPRESSED
    assert _size_of(_event(kind, head + compress(text))) == len(_event(kind, head + text))


@given(kind=st.integers(165, 171), body=st.binary(max_size=60))
def test_malformed_events_stay_in_bounds(kind: int, body: bytes) -> None:
    event = _event(kind, body)
    assert _size_of(event) >= 0

"""Tests of the compiled CRC32 against zlib."""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.binlog.crc32 import all_sound, crc32
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.writer import make_event


def _check(data: bytes, offset: int = 0) -> None:
    array = np.frombuffer(data, np.uint8).copy() if data else np.zeros(1, np.uint8)
    address, length = np.uintp(array.ctypes.data + offset), np.uintp(len(data) - offset)
    assert crc32(address, length) == zlib.crc32(data[offset:])


def test_every_length() -> None:
    data = bytes((31 * n + n // 7) & 0xFF for n in range(400))
    for length in range(400):
        _check(data[:length])


def test_every_alignment() -> None:
    data = bytes(range(256)) * 2
    for offset in range(80):
        _check(data, offset)


@pytest.mark.parametrize("value", [b"", b"\0" * 1000, b"\xff" * 1000, b"123456789"])
def test_known(value: bytes) -> None:
    _check(value)


@settings(deadline=None)
@given(st.binary(max_size=5000))
def test_anything(data: bytes) -> None:
    _check(data)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=200), min_size=1, max_size=60), st.data())
def test_all_sound_finds_each_wrong_byte(bodies: list[bytes], draw: st.DataObject) -> None:
    events = np.frombuffer(b"".join(make_event(EventType.XID, body) for body in bodies), np.uint8).copy()
    begin = draw.draw(st.sampled_from([0, 19 + len(bodies[0]) + 4]))
    whole = draw.draw(st.integers(begin, len(events)))
    assert all_sound(events, begin, whole)
    if begin < len(events):
        at = draw.draw(
            st.integers(begin, len(events) - 1).filter(lambda at: not 9 <= _inside(events, at) < 13)
        )
        events[at] ^= draw.draw(st.integers(1, 255))
        assert not all_sound(events, begin, len(events))


def _inside(events: npt.NDArray[np.uint8], at: int) -> int:
    """Return the offset in its event of the byte at an offset."""
    first = 0
    while at >= first + (size := int.from_bytes(events[first + 9 : first + 13].tobytes(), "little")):
        first += size
    return at - first

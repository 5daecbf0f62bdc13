"""Values of compressed columns, with malformed heads and lengths."""

from __future__ import annotations

import zlib

import pytest

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.compression import MAX_UNCOMPRESSED_EVENT
from dumpfilter.binlog.rows.texts import uncompressed_value

TEXT = b"row " * 100


def stored(length: int, data: bytes = TEXT, *, first: int = 0x84) -> bytes:
    """Return a compressed column's value whose head announces ``length`` bytes."""
    return bytes([first]) + length.to_bytes(4, "big") + zlib.compress(data)


def test_a_compressed_value_is_opened() -> None:
    assert uncompressed_value(stored(len(TEXT))) == TEXT
    assert uncompressed_value(b"\0plain") == b"plain"
    assert uncompressed_value(b"") == b""


@pytest.mark.parametrize("length", [0, len(TEXT) - 1, len(TEXT) + 1])
def test_a_value_of_another_length_is_damaged(length: int) -> None:
    with pytest.raises(BinlogCorrupt, match=f"announce {length} bytes and hold"):
        uncompressed_value(stored(length))


def test_a_value_may_not_announce_more_than_an_event_can_have() -> None:
    with pytest.raises(BinlogCorrupt, match=f"more than {MAX_UNCOMPRESSED_EVENT}"):
        uncompressed_value(stored(MAX_UNCOMPRESSED_EVENT + 1))


@pytest.mark.parametrize("first", [0x04, 0x80, 0x85, 0xC4])
def test_an_unknown_head_is_damaged(first: int) -> None:
    with pytest.raises(BinlogCorrupt, match="which no server writes"):
        uncompressed_value(stored(len(TEXT), first=first))


def test_a_cut_value_is_damaged() -> None:
    with pytest.raises(BinlogCorrupt):
        uncompressed_value(stored(len(TEXT))[:-8])
    with pytest.raises(BinlogCorrupt, match="which no server writes"):
        uncompressed_value(stored(len(TEXT))[:3])

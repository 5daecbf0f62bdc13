"""Tests of the reader that makes one object of each event."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt, BinlogError, BinlogTruncated
from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.binlog.reader import iter_events, read_format_description
from dumpfilter.binlog.writer import make_event
from tests.strategies import CHECKSUMMED, DIALECTS, MadeBinlog, binlogs, query_body
from tests.support import RECORDED, recording_id


def _read(data: bytes, **options: object) -> list:
    return list(iter_events(BytesIO(data), file="f", **options))


@pytest.mark.parametrize("path", RECORDED, ids=recording_id)
def test_recordings(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[21] &= 0xFE
    with open(path, "rb") as source:
        events = list(iter_events(source, file=path.name))
    assert b"\xfebin" + b"".join(event.raw for event in events) == data
    for event in events:
        assert event.header == EventHeader.unpack(data, event.offset)
        if event.header.end_log_pos or not path.parent.name.startswith("mariadb118"):
            assert event.header.end_log_pos == event.offset + len(event.raw)
        assert event.name.split("(")[0] != "Unknown"
        description = event.type == EventType.FORMAT_DESCRIPTION
        trailer = 4 if event.fd.checksum or (description and event.fd.ends_in_checksum) else 0
        assert bytes(event.body) == event.raw[19 : len(event.raw) - trailer]


@settings(deadline=None)
@given(binlogs())
def test_round_trip(made: MadeBinlog) -> None:
    events = _read(made.data)
    assert b"\xfebin" + b"".join(event.raw for event in events) == made.data
    last = [made.dialect.checksum] if made.fd.ends_in_checksum else made.dialect.lengths[-1:]
    assert bytes(events[0].body).endswith(bytes(last))
    for event in events:
        assert _read(made.data, start=event.offset) == events[events.index(event) :]
        assert _read(made.data, end=event.offset) == events[: events.index(event)] or event.offset == 4


@settings(deadline=None, max_examples=40)
@given(made=binlogs(), data=st.data())
def test_cut(made: MadeBinlog, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(made.data) - 1))
    whole = _read(made.data)
    ends = [event.offset + len(event.raw) for event in whole]
    if cut in ends:
        assert _read(made.data[:cut]) == whole[: ends.index(cut) + 1]
        return
    with pytest.raises(BinlogTruncated) as raised:
        _read(made.data[:cut])
    assert raised.value.file == "f"
    assert raised.value.position == (0 if cut < 4 else max([4, *(end for end in ends if end < cut)]))


@settings(deadline=None, max_examples=80)
@given(made=binlogs(CHECKSUMMED), data=st.data())
def test_flipped_bit(made: MadeBinlog, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(made.data) - 1))
    bit = data.draw(st.integers(0, 7))
    damaged = bytearray(made.data)
    damaged[position] ^= 1 << bit
    if (position, bit) == (21, 0):
        assert _read(bytes(damaged)) == _read(made.data)
        return
    with pytest.raises(BinlogError) as raised:
        _read(bytes(damaged))
    assert raised.value.file == "f"
    assert raised.value.position is not None
    assert raised.value.position <= position


def test_without_verifying() -> None:
    dialect = DIALECTS[0]
    head = b"\xfebin" + dialect.format_description()
    data = bytearray(head + make_event(EventType.QUERY, query_body(b"DO 1")))
    data[-1] ^= 1
    with pytest.raises(BinlogCorrupt, match="checksum mismatch in a Query event"):
        _read(bytes(data))
    assert len(_read(bytes(data), verify=False)) == 2


def test_impossible_lengths() -> None:
    head = b"\xfebin" + DIALECTS[0].format_description()
    for size in (0, 18, 22, 1 << 31, (1 << 32) - 1):
        event = EventHeader(0, EventType.XID, 1, size, 0, 0).pack() + bytes(12)
        with pytest.raises(BinlogCorrupt, match="length is") as raised:
            _read(head + event)
        assert raised.value.position == len(head)
    with pytest.raises(BinlogTruncated, match="after the magic"):
        read_format_description(BytesIO(b"\xfebin"), file="f")

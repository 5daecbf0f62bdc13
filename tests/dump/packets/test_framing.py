"""Packets of events, compared with a plain reference and with the reader of the console's wire layer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.binlog.writer import make_event
from dumpfilter.dump.packets.protocol import NOTHING, frame

LARGEST = 0xFFFFFF


def _packets(payload: bytes, sequence: int) -> Iterator[bytes]:
    """Yield the packets of one payload, as the protocol defines them."""
    while True:
        piece, payload = payload[:LARGEST], payload[LARGEST:]
        yield len(piece).to_bytes(3, "little") + bytes([sequence]) + piece
        sequence = (sequence + 1) % 256
        if len(piece) < LARGEST:
            return


def _expected(events: list[bytes], sequence: int, before: list[bytes]) -> tuple[bytes, int]:
    out = b""
    for event, head in zip(events, before, strict=True):
        for packet in _packets(head + event, sequence):
            out += packet
            sequence = (sequence + 1) % 256
    return out, sequence


EVENTS = st.lists(
    st.builds(
        make_event, st.sampled_from([2, 4, 16, 30, 162]), st.binary(max_size=60), checksum=st.booleans()
    ),
    max_size=300,
)


@given(EVENTS, st.integers(0, 255), st.sampled_from([bytes, bytearray, memoryview, np.frombuffer]))
def test_each_event_is_one_packet(events: list[bytes], sequence: int, kind: type) -> None:
    joined = b"".join(events)
    given_events = np.frombuffer(joined, np.uint8) if kind is np.frombuffer else kind(joined)
    framed, after, *_ = frame(given_events, sequence)
    assert (bytes(framed), after) == _expected(events, sequence, [b"\0"] * len(events))


@given(EVENTS, st.integers(0, 255), st.sampled_from([2, 4, 16, 30, 160, 162, NOTHING]))
def test_events_that_a_replica_has_not_asked_for(events: list[bytes], sequence: int, left_out: int) -> None:
    kept = [event for event in events if event[4] != left_out]
    expected = _expected(kept, sequence, [b"\0"] * len(kept))
    framed, after, *_ = frame(b"".join(events), sequence, left_out=left_out)
    assert (bytes(framed), after) == expected


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_large_event_becomes_several_packets(times: int, more: int) -> None:
    """A payload of a multiple of the largest packet ends with an empty packet."""
    head = b"\0"
    size = times * LARGEST + more - len(head)
    large = EventHeader(1, EventType.QUERY, 1, size, 0, 0).pack() + bytes(size - 19)
    small = make_event(EventType.XID, bytes(8))
    framed, after, *_ = frame(large + small, 254)
    expected = _expected([large, small], 254, [head, head])
    assert after == expected[1]
    assert framed == expected[0]


@pytest.mark.parametrize("cut", [1, 18, 19, 20, 26])
def test_bytes_that_are_no_whole_events(cut: int) -> None:
    event = make_event(EventType.XID, bytes(8), checksum=False)
    for events in (
        event + event[:cut],
        event + bytes([255]) * cut,
        event + EventHeader(0, 2, 1, 18, 0, 0).pack(),
    ):
        with pytest.raises(BinlogCorrupt, match="byte 27 "):
            frame(events, 0)


OUTSIDE = [
    EventType.GTID,
    EventType.GTID_TAGGED,
    EventType.ANONYMOUS_GTID,
    EventType.ROTATE,
    EventType.STOP,
    EventType.FORMAT_DESCRIPTION,
    EventType.HEARTBEAT,
    EventType.HEARTBEAT_V2,
    EventType.PREVIOUS_GTIDS,
]


@pytest.mark.parametrize("gtid", [EventType.GTID, EventType.GTID_TAGGED])
@pytest.mark.parametrize("kind", OUTSIDE)
def test_a_gtid_event_never_stands_alone(gtid: EventType, kind: EventType) -> None:
    """A real mysqld dies of a Gtid event that nothing of its transaction follows."""
    alone = make_event(gtid, bytes(42)) + make_event(kind, bytes(42))
    with pytest.raises(BinlogCorrupt, match="Gtid event"):
        frame(alone, 0)
    frame(make_event(gtid, bytes(42)) + make_event(EventType.XID, bytes(8)) + make_event(kind, bytes(42)), 0)

"""The deframer: whatever way packets are cut on the wire, the same events come out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import ConnectionLost, SourceStreamDamaged
from dumpfilter.binlog.events import EventType
from dumpfilter.receiver.deframing import Deframer
from tests.receiver.fake_source import END, event_at, framed, heartbeat

BUFFER = 512


class Pieces:
    """A socket that gives its bytes in pieces of given lengths, and ends after them."""

    def __init__(self, data: bytes, lengths: list[int]) -> None:
        self._data = data
        self._lengths = lengths or [len(data)]
        self._calls = 0

    def recv_into(self, buffer: memoryview) -> int:
        length = self._lengths[self._calls % len(self._lengths)]
        self._calls += 1
        piece, self._data = self._data[:length], self._data[length:]
        piece, back = piece[: len(buffer)], piece[len(buffer) :]
        self._data = back + self._data
        buffer[: len(piece)] = piece
        return len(piece)


class Reader:
    """A deframer with the place that its events reach."""

    def __init__(self, data: bytes, lengths: list[int], *, position: int = 4) -> None:
        self.position = position
        self.deframer = Deframer(
            Pieces(data, lengths),
            lambda: ("bin.000001", self.position),
            buffer_size=BUFFER,
        )
        self.deframer.checksum = True
        self.events = b""
        self.controls: list[bytes] = []

    def run(self) -> Reader:
        """Read to the end of the connection."""
        try:
            while True:
                item = self.deframer.next()
                if item is None:
                    self.deframer.fill()
                elif isinstance(item, bytes):
                    self.controls.append(item)
                else:
                    for piece in [item] if isinstance(item, memoryview) else item:
                        self.events += bytes(piece)
                        self.position += len(piece)
        except ConnectionLost:
            return self


def consecutive(sizes: list[int], position: int = 4) -> list[bytes]:
    """Return events whose bodies have these sizes."""
    made = []
    for size in sizes:
        made.append(event_at(position, EventType.XID, bytes(range(256)) * (size // 256) + bytes(size % 256)))
        position += len(made[-1])
    return made


@given(st.lists(st.integers(0, 1200), max_size=12), st.lists(st.integers(1, 700), max_size=6), st.data())
def test_events_come_out_as_they_went_in(sizes: list[int], lengths: list[int], data: st.DataObject) -> None:
    events = consecutive(sizes)
    payloads = [b"\0" + event for event in events]
    beats = data.draw(st.lists(st.integers(0, len(payloads)), max_size=3))
    for at in sorted(beats, reverse=True):
        payloads.insert(at, b"\0" + heartbeat("bin.000001", 4))
    read = Reader(framed([*payloads, END]), lengths).run()
    assert read.events == b"".join(events)
    assert len(read.controls) == len(beats) + 1


@pytest.mark.parametrize("at", [5, 30, 150])
def test_a_wrong_checksum_names_its_event(at: int) -> None:
    events = consecutive([40, 40, 40])
    data = bytearray(framed([b"\0" + event for event in events]))
    data[at + 20] ^= 1
    with pytest.raises(SourceStreamDamaged, match=rf"at {4 + 63 * (at // 68)}: .* wrong"):
        Reader(bytes(data), []).run()


def test_a_control_packet_has_to_fit() -> None:
    with pytest.raises(SourceStreamDamaged, match="holds no ordinary event"):
        Reader(framed([b"\0" + heartbeat("b" * 600, 4)]), []).run()


@given(st.binary(max_size=600))
def test_noise_is_an_error_or_nothing(noise: bytes) -> None:
    said = "bin.000001: at "
    try:
        Reader(noise, []).run()
    except SourceStreamDamaged as error:
        said = str(error)
    assert said.startswith("bin.000001: at ")

"""The check of received events before they are written: their lengths, and their checksums."""

from __future__ import annotations

import zlib

import numpy as np

from dumpfilter.base.errors import StreamDamaged
from dumpfilter.binlog.crc32 import all_sound
from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, MAX_EVENT, SOUND
from dumpfilter.binlog.whole_events import UNLIMITED, whole_events


class EventProof:
    """The verification of a stream of events, given piece by piece. A piece may end inside an event, even inside its
    header.

    ``checksum`` tells whether events end in a CRC32. Without checksums only the events' lengths can be checked.
    """

    def __init__(self, *, checksum: bool) -> None:
        self._checksum = checksum
        self._smallest = HEADER_LENGTH + (CHECKSUM_LENGTH if checksum else 0)
        self._header = b""
        """The incomplete header with which the last piece ended; empty if the piece did not end inside a header."""
        self._left = 0
        """The number of bytes that are still missing from an event whose header is complete."""
        self._crc = 0
        """The CRC32 of the incomplete event's bytes so far."""

    @property
    def inside(self) -> bool:
        """Whether the last piece ended inside an event."""
        return bool(self._left or self._header)

    def check(self, events: bytes | memoryview) -> None:
        """Check the next piece of the stream. Raises StreamDamaged for an impossible length or a wrong checksum."""
        at = self._finish(events) if self.inside else 0
        if at >= len(events):
            return
        data = np.frombuffer(events, np.uint8)
        end = int(whole_events(data, at, self._smallest, UNLIMITED))
        if end < 0:
            raise _impossible_length()
        if self._checksum and not all_sound(data, at, end):
            raise _wrong_checksum()
        if end < len(events):
            self._finish(events[end:])

    def _finish(self, piece: bytes | memoryview) -> int:
        """Take the bytes of ``piece`` that belong to the incomplete event, and return their number. Raises
        StreamDamaged.
        """
        at = 0
        if not self._left:
            at = min(HEADER_LENGTH - len(self._header), len(piece))
            self._header += piece[:at]
            if len(self._header) < HEADER_LENGTH:
                return at
            size = int.from_bytes(self._header[9:13], "little")
            if not self._smallest <= size <= MAX_EVENT:
                raise _impossible_length()
            self._left, self._crc = size - HEADER_LENGTH, zlib.crc32(self._header)
            self._header = b""
        rest = piece[at : at + self._left]
        self._left -= len(rest)
        if self._checksum:
            self._crc = zlib.crc32(rest, self._crc)
            if not self._left and self._crc != SOUND:
                raise _wrong_checksum()
        return at + len(rest)


def _impossible_length() -> StreamDamaged:
    return StreamDamaged("an event has an impossible length")


def _wrong_checksum() -> StreamDamaged:
    return StreamDamaged("an event's checksum does not match")

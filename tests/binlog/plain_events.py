"""A plain reader of a file's events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dumpfilter.binlog.compression import decode_transaction_payload
from dumpfilter.binlog.events import EventHeader, EventType


def events(path: Path) -> Iterator[tuple[EventHeader, bytes]]:
    """Yield header and body of a file's events, and of the events inside Transaction_payload events."""
    yield from _events(path.read_bytes(), 4, 4)


def _events(data: bytes, position: int, checksum: int) -> Iterator[tuple[EventHeader, bytes]]:
    while position < len(data):
        header = EventHeader.unpack(data, position)
        end = position + header.size
        if header.type == EventType.FORMAT_DESCRIPTION:
            checksum = 4 if data[end - 5] == 1 else 0
        body = data[position + 19 : end - checksum]
        yield header, body
        if header.type == EventType.TRANSACTION_PAYLOAD:
            yield from _events(decode_transaction_payload(body).open(), 0, 0)
        position = end

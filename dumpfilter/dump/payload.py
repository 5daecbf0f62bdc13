"""A compressed transaction of which a slave gets a part: opened, cut, closed again."""

from __future__ import annotations

from collections.abc import Iterator

from dumpfilter.binlog.compression import (
    NONE,
    TransactionPayload,
    decode_transaction_payload,
    encode_transaction_payload,
)
from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.writer import with_body

_LEVELS = (3, 19)
"""zstd levels, tried one after the other: the server's default, and one that is nearly as small as it gets."""


def open_payload(event: bytes, fd: FormatDescription) -> bytes:
    """The events in a whole Transaction_payload event. Raises BinlogCorrupt."""
    return _decoded(event, fd).open()


def close_payload(events: bytes, source: bytes, fd: FormatDescription) -> bytes | None:
    """A Transaction_payload event with some of the events of ``source``, under its header: its end_log_pos stays.

    None when no form of it is shorter than ``source``.
    """
    header = EventHeader.unpack(source)
    room = header.size - HEADER_LENGTH - fd.checksum_length
    for body in _forms(events, _decoded(source, fd).compression):
        if len(body) < room:
            return with_body(header, body, checksum=fd.checksum)
    return None


def _forms(events: bytes, compression: int) -> Iterator[bytes]:
    if compression == NONE:
        yield encode_transaction_payload(events, compression=NONE)
        return
    for level in _LEVELS:
        yield encode_transaction_payload(events, level)


def _decoded(event: bytes, fd: FormatDescription) -> TransactionPayload:
    return decode_transaction_payload(fd.body(event))

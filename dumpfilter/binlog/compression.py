"""Compressed parts of a binlog: MariaDB's rows and statements, and MySQL's whole transactions.

:func:`uncompressed_sizes` computes how large events would be without MariaDB's compression, and uncompresses nothing.

Decompression stops at the size that the compressed part announces, and :data:`MAX_UNCOMPRESSED` bounds that size.
Whole transactions are uncompressed in pieces, and the events in a piece are checked before the next piece. So a
malformed event of a few bytes cannot fill the memory.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import zstandard

from dumpfilter.base.compiler.arrays import Bools, Bytes, Int64s
from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.cursor import BytesLike, Cursor, packed_integer
from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader, EventType, by_number, numbers_at
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.rows_events import RowsHeader, rows_offsets

ZSTD = 0
"""The compression type of a Transaction_payload that zstd compressed (``compression::type::ZSTD``)."""
NONE = 255
"""The compression type of a Transaction_payload with uncompressed events (``compression::type::NONE``)."""

MAX_UNCOMPRESSED = 1 << 32
"""The largest uncompressed size that a compressed part may announce, bytes.

A larger size is corruption, because servers write at most 4 GiB - 1.
"""

MAX_UNCOMPRESSED_EVENT = 1 << 30
"""The largest uncompressed size that MariaDB's compressed rows or statement may announce, bytes.

No server makes a larger event, because 1 GiB is the most that ``max_allowed_packet`` can be.
"""

_PIECE = 1 << 20
"""The size of the pieces in which a transaction is uncompressed, bytes."""

# The type codes of the fields in a Transaction_payload event (libs/mysql/binlog/event/codecs/binary.cpp).
_OTW_PAYLOAD_HEADER_END_MARK = 0
_OTW_PAYLOAD_SIZE_FIELD = 1
_OTW_PAYLOAD_COMPRESSION_TYPE_FIELD = 2
_OTW_PAYLOAD_UNCOMPRESSED_SIZE_FIELD = 3


def uncompress(data: BytesLike) -> bytes:
    r"""Uncompress the rows or the statement of an event that MariaDB compressed (``binlog_buf_uncompress``).

    The data begin with the byte ``0x80 | algorithm << 4 | n``. The uncompressed length follows in ``n`` bytes (1 to 4,
    big-endian), and then the compressed stream. Algorithm 0 is zlib, and there is no other. Raises BinlogCorrupt when
    the data do not have this layout.

    >>> uncompress(b"\x81\x04" + zlib.compress(b"rows"))
    b'rows'
    """
    if len(data) < 2:
        raise BinlogCorrupt("compressed data end inside their header")
    first = data[0]
    algorithm, width = first >> 4 & 7, first & 7
    if not first & 0x80 or not 1 <= width <= 4 or len(data) < 1 + width:
        raise BinlogCorrupt(f"compressed data start with byte 0x{first:02x}, which no server writes")
    if algorithm != 0:
        raise BinlogCorrupt(f"compressed data have the unknown algorithm {algorithm}")
    return inflated(data[1:], width, "compressed data")


def inflated(data: BytesLike, width: int, what: str, *, wrapped: bool = True) -> bytes:
    """Uncompress data that consist of the uncompressed length, a big-endian integer of ``width`` bytes, and a zlib
    stream.

    Without ``wrapped`` the stream lacks zlib's header. ``what`` is a plural noun for the data, for errors. Raises
    BinlogCorrupt when the data do not have the announced length, or cannot be uncompressed.
    """
    length = int.from_bytes(data[:width], "big")
    if length > MAX_UNCOMPRESSED_EVENT:
        raise BinlogCorrupt(f"{what} announce {length} bytes, more than {MAX_UNCOMPRESSED_EVENT}")
    opener = zlib.decompressobj(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
    try:
        # Ask zlib for one byte more than the event announces. A stream that delivers this byte is longer than
        # announced.
        out = opener.decompress(data[width:], length + 1)
    except zlib.error as error:
        raise BinlogCorrupt(f"{what} cannot be opened: {error}") from error
    if len(out) != length or not opener.eof:
        raise BinlogCorrupt(f"{what} announce {length} bytes and hold {_amount(len(out), length)}")
    return out


def rows_data(rows: RowsHeader, body: BytesLike) -> BytesLike:
    """Return the row data of a rows event, uncompressed if MariaDB compressed them.

    ``body`` is the event without common header and checksum, and ``rows`` is its decoded header. Rows that MariaDB did
    not compress are a slice of ``body``, without a copy when ``body`` is a memoryview. Raises BinlogCorrupt for
    malformed compressed rows.
    """
    data = body[rows.rows_offset :]
    return uncompress(data) if rows.compressed and not rows.is_dummy else data


@dataclass(frozen=True, slots=True)
class TransactionPayload:
    """The content of a Transaction_payload event, a compressed transaction of MySQL 8.0.20 and later. The payload holds
    all events of the transaction except the GTID event.
    """

    compression: int
    """The number of the algorithm that compressed the payload: :data:`ZSTD`, or :data:`NONE` for uncompressed events.

    The method :meth:`open` raises an error for any other number.
    """
    uncompressed_size: int
    """The size of the payload's events before compression, bytes, as the event announces it."""
    payload: BytesLike
    """The transaction's events as the Transaction_payload event stores them, usually compressed."""

    def open(self, *, check_events: bool = False) -> bytes:
        """Return the uncompressed events of the payload as one byte string. Each event has its common header, and none
        has a checksum.

        With ``check_events`` the lengths of the events are checked during decompression. So a payload that holds no
        events is rejected before it fills the memory. Otherwise the events are not looked at.

        Raises BinlogCorrupt when the payload does not have the size that the event announces, when it cannot be
        uncompressed, or when a checked length is impossible.
        """
        # The import loads compiled code, or compiles it, and most commands open no payload.
        from dumpfilter.binlog.whole_events import IMPOSSIBLE, whole_events

        out = io.BytesIO()
        checked = 0
        for piece in self._pieces():
            out.write(piece)
            if check_events:
                with out.getbuffer() as data:
                    events = np.frombuffer(data, np.uint8)
                    checked = whole_events(events, checked, HEADER_LENGTH, self.uncompressed_size)
                    del events  # the buffer cannot grow while an array views it
                if checked == IMPOSSIBLE:
                    raise BinlogCorrupt("a compressed transaction has an event with an impossible length")
        # The buffer's bytes become the result without a copy.
        return out.getvalue()

    def events(self) -> Iterator[tuple[EventHeader, bytes]]:
        """Yield header and bytes of each event in the payload. The events of a payload have no checksums.

        The method needs memory for the largest event only, and not for the whole payload. Raises BinlogCorrupt at an
        incomplete event, at a wrong size, and when the payload cannot be uncompressed. The events before the damage
        have then been yielded.
        """
        data = bytearray()
        left = self.uncompressed_size
        for piece in self._pieces():
            data += piece
            at = 0
            while len(data) - at >= HEADER_LENGTH:
                header = EventHeader.unpack(bytes(data[at : at + HEADER_LENGTH]))
                if not HEADER_LENGTH <= header.size <= left:
                    raise BinlogCorrupt(
                        f"a compressed transaction has an event with the impossible length {header.size}"
                    )
                if header.size > len(data) - at:
                    break
                with memoryview(data) as view:
                    event = bytes(view[at : at + header.size])
                yield header, event
                at += header.size
                left -= header.size
            del data[:at]
        if data:
            raise BinlogCorrupt("a compressed transaction ends inside an event's header")

    def _pieces(self) -> Iterator[bytes]:
        """Yield the uncompressed payload in pieces of at most 1 MiB.

        Raises BinlogCorrupt when the payload does not have the size that the event announces, or cannot be
        uncompressed.
        """
        if self.uncompressed_size > MAX_UNCOMPRESSED:
            raise BinlogCorrupt(
                f"Transaction_payload event announces {self.uncompressed_size} bytes, more than {MAX_UNCOMPRESSED}"
            )
        if self.compression not in (ZSTD, NONE):
            raise BinlogCorrupt(f"Transaction_payload event has the unknown compression {self.compression}")
        reader: Any = io.BytesIO(self.payload)
        if self.compression == ZSTD:
            # A malformed zstd frame may announce gigabytes, and a payload may have several frames.
            reader = zstandard.ZstdDecompressor().stream_reader(self.payload, read_across_frames=True)
        have = 0
        try:
            while have <= self.uncompressed_size and (piece := reader.read(_PIECE)):
                have += len(piece)
                if have <= self.uncompressed_size:
                    yield piece
        except zstandard.ZstdError as error:
            raise BinlogCorrupt(f"Transaction_payload event cannot be opened: {error}") from error
        if have != self.uncompressed_size:
            raise BinlogCorrupt(
                f"Transaction_payload event announces {self.uncompressed_size} bytes and holds "
                f"{_amount(have, self.uncompressed_size)}"
            )


def decode_transaction_payload(body: BytesLike) -> TransactionPayload:
    """Decode the body of a Transaction_payload event (``transaction_payload::decode`` of MySQL's codecs).

    The body is a list of fields up to an end mark, and then the payload. A field has a type, a length and a value, each
    a packed integer. Fields of unknown types are skipped, as the server does. The payload of the result is a slice of
    ``body``. Raises BinlogCorrupt for a malformed body.
    """
    reader = Cursor(body, "Transaction_payload")
    fields: dict[int, int] = {}
    while (field := reader.packed("a field's type")) != _OTW_PAYLOAD_HEADER_END_MARK:
        content = Cursor(reader.sized("a field"), f"field {field} of a Transaction_payload")
        if field in (
            _OTW_PAYLOAD_SIZE_FIELD,
            _OTW_PAYLOAD_COMPRESSION_TYPE_FIELD,
            _OTW_PAYLOAD_UNCOMPRESSED_SIZE_FIELD,
        ):
            fields[field] = content.packed("its value")
            if content.left:
                raise BinlogCorrupt(
                    f"Transaction_payload event: field {field} has the wrong length {content.end}"
                )
    size = fields.get(_OTW_PAYLOAD_SIZE_FIELD)
    compression = fields.get(_OTW_PAYLOAD_COMPRESSION_TYPE_FIELD)
    if size is None or compression is None:
        raise BinlogCorrupt("Transaction_payload event lacks the size or the compression of its payload")
    if size > reader.left:
        raise BinlogCorrupt(
            f"Transaction_payload event: the payload has {reader.left} bytes instead of {size}"
        )
    # Servers omit the field of the uncompressed size exactly when the payload is not compressed.
    uncompressed = fields.get(_OTW_PAYLOAD_UNCOMPRESSED_SIZE_FIELD, size if compression == NONE else None)
    if uncompressed is None:
        raise BinlogCorrupt("Transaction_payload event lacks the uncompressed size of its payload")
    return TransactionPayload(compression, uncompressed, body[reader.at : reader.at + size])


def encode_transaction_payload(events: BytesLike, level: int = 3, *, compression: int = ZSTD) -> bytes:
    """Return the body of a Transaction_payload event that holds the given events.

    ``events`` is one byte string of whole events without checksums. ``level`` is zstd's level, as in
    ``binlog_transaction_compression_level_zstd`` (default 3). ``compression`` is ZSTD or NONE (uncompressed).

    >>> decode_transaction_payload(encode_transaction_payload(b"events")).open()
    b'events'
    """
    fields = [(_OTW_PAYLOAD_COMPRESSION_TYPE_FIELD, compression)]
    if compression == NONE:
        payload = bytes(events)
    else:
        settings = zstandard.ZstdCompressionParameters.from_level(level, source_size=len(events))
        payload = zstandard.ZstdCompressor(compression_params=settings).compress(events)
        fields.append((_OTW_PAYLOAD_UNCOMPRESSED_SIZE_FIELD, len(events)))
    head = b""
    # The fields of a Transaction_payload event have the order in which the server writes them (codecs/binary.cpp,
    # encode).
    for field, value in (*fields, (_OTW_PAYLOAD_SIZE_FIELD, len(payload))):
        packed = packed_integer(value)
        head += packed_integer(field) + packed_integer(len(packed)) + packed
    return head + packed_integer(_OTW_PAYLOAD_HEADER_END_MARK) + payload


def _amount(have: int, announced: int) -> str:
    return "more" if have > announced else f"{have}"


_IS_COMPRESSED: Bools = (
    by_number(lambda kind: kind.compressed and kind.number != EventType.TRANSACTION_PAYLOAD) > 0
)
"""For each event type, whether MariaDB's compressed rows or statement end such an event."""
_DATABASE_LENGTH_AT = 8
_STATUS_LENGTH_AT = 11
_MOST_WIDTH = 4
"""The largest number of bytes in which MariaDB stores an uncompressed length."""


def uncompressed_sizes(
    data: Bytes,
    start: Int64s,
    size: Int64s,
    type: Bytes,
    fd: FormatDescription,
) -> Int64s:
    """Return the size that each event would have without MariaDB's compression, bytes, int64.

    Reports count these sizes, as if the server did not compress. Nothing is uncompressed, because compressed data begin
    with their uncompressed length.

    Event k has the type ``type[k]`` and ``size[k]`` bytes (with header and checksum) from ``data[start[k]]`` on. ``fd``
    is the format description event of the file. Events that MariaDB did not compress keep their size. So do malformed
    events and MySQL's compressed transactions. If no event is compressed, the result is the array ``size`` itself.
    """
    events = np.flatnonzero(_IS_COMPRESSED[type])
    if not len(events):
        return size
    kind, body = type[events], start[events] + HEADER_LENGTH
    end = start[events] + size[events] - fd.checksum_length

    # A malformed event may end before a number. Then the number is any, and the last check finds the error.
    number = partial(numbers_at, data)
    of_statement = body + fd.post_header_length(EventType.QUERY) + number(body + _DATABASE_LENGTH_AT, 1) + 1
    of_statement += number(body + _STATUS_LENGTH_AT, 2)
    of_rows = rows_offsets(data, body, kind)
    at = np.where(kind == EventType.QUERY_COMPRESSED, of_statement, of_rows)
    first = number(at, 1)
    width = first & 7
    length = np.zeros_like(at)
    for k in range(_MOST_WIDTH):
        length = np.where(k < width, length << 8 | number(at + 1 + k, 1), length)
    is_right = (first & 0x80 != 0) & (width >= 1) & (width <= _MOST_WIDTH) & (at + 1 + width <= end)
    out = size.copy()
    out[events] = np.where(is_right, size[events] - (end - at) + length, size[events])
    return out

"""The deframer: it reads the packets of a replication stream from a socket, and extracts the events.

A server sends one event in each packet, after the packet's header (4 bytes) and an OK byte. A compiled function
extracts the events of a whole buffer at once. Memory is limited to two buffers, whatever a server sends. An event that
is larger than a buffer is returned in pieces.
"""

from __future__ import annotations

import socket
import ssl
import zlib
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import ConnectionLost, SourceStreamDamaged
from dumpfilter.binlog.crc32 import all_sound
from dumpfilter.binlog.events import HEADER_LENGTH, MAX_EVENT, SOUND, EventHeader, event_name
from dumpfilter.receiver import _deframe_kernels as K

BUFFER_SIZE = 4 << 20
"""The size of the buffer for packets, and of the buffer for their events, bytes."""

_LAST_POSITION = 0xFFFFFFFF
"""The highest value of an event's ``end_log_pos``, which is the position modulo 4 GiB."""


LargeEvent = Iterator[memoryview]
"""An event that is larger than the buffer. The deframer reads it from the socket while the caller iterates over its
pieces.

A piece is valid until the next piece is taken. If events have checksums, the last piece comes only when the checksum of
this event is right. Otherwise the iterator raises SourceStreamDamaged. It raises ConnectionLost or OSError if the
connection breaks.
"""


Item = memoryview | bytes | LargeEvent
"""An item that a :class:`Deframer` extracts: whole events (memoryview), the payload of a control packet (bytes), or a
large event. A control packet holds no ordinary event, but an error, the end of the dump, or an event such as Rotate or
a heartbeat.
"""


class Deframer:
    """The reader of one replication stream's packets from a socket, which extracts the events.

    Parameters:
        stream: the connection, after the command that begins the dump.
        where: returns the binlog file and the position of the next event. The position is checked against the events,
            and error texts name both.
        buffer_size: the size of each of two buffers, bytes: one for the received packets, one for the extracted events.
    """

    def __init__(
        self, stream: socket.socket, where: Callable[[], tuple[str, int]], *, buffer_size: int = BUFFER_SIZE
    ) -> None:
        self._socket = stream
        self._where = where
        self._buffer: npt.NDArray[np.uint8] = np.empty(buffer_size, np.uint8)
        self._view = self._buffer.data
        self._out: npt.NDArray[np.uint8] = np.empty(buffer_size, np.uint8)
        self._begin = self._end = 0
        self._sequence = 1
        self.checksum = False
        """Whether the events of the present file end in a checksum. The caller sets this attribute."""

    def fill(self) -> None:
        """Wait for bytes from the source (the server that sends the binlog), and read them into the buffer of received
        packets. Raises ConnectionLost if the source has closed the connection, and OSError for an error of the
        connection.
        """
        if self._begin == self._end:
            self._begin = self._end = 0
        elif self._begin:
            rest = self._end - self._begin
            self._buffer[:rest] = self._buffer[self._begin : self._end]
            self._begin, self._end = 0, rest
        got = self._socket.recv_into(self._view[self._end :])
        if not got:
            raise ConnectionLost("the source closed the connection")
        self._end += got

    def fill_at_once(self, most: int, has_more: Callable[[], bool]) -> int:
        """Read the bytes that a non-blocking socket has available, and return their number. Stop at about ``most``
        bytes.

        Several reads may be necessary, because a TLS connection gives one record at a time, and a server may send each
        event in a separate record. Before each further read the method calls ``has_more``, which tells whether the
        source has sent bytes that were not read yet. This call costs less than a read that finds nothing.

        If bytes were read before an error of the connection, the error is not raised, and the next call meets it again.
        Otherwise raises ConnectionLost if the source has closed the connection, and OSError for an error of the
        connection.
        """
        before = self._end - self._begin
        got = 0
        while before + got < self._buffer.size and (not got or (got < most and has_more())):
            try:
                self.fill()
            except (BlockingIOError, ssl.SSLWantReadError):
                break
            except (ConnectionLost, OSError):
                if got:
                    # The next call meets the error again. What came before it may tell the reason.
                    break
                raise
            got = self._end - self._begin - before
        return got

    def next(self) -> Item | None:
        """Return the next events or the next control packet from the buffer of received packets. Return None if the
        buffer holds no whole packet; then call :meth:`fill`.

        A memoryview holds consecutive whole events of the binlog file, and is valid until the next call. A LargeEvent
        is an iterator over the pieces of one event that does not fit into the buffer. Bytes are the payload of a
        control packet: an error, the end of the dump, or an event such as Rotate or a heartbeat. Raises
        SourceStreamDamaged for a packet that no server sends.
        """
        if self._begin == self._end:
            return None
        read, written, self._sequence, is_control = K.deframe(
            self._buffer, self._begin, self._end, self._out, self._sequence, self._where()[1], self._least
        )
        if written and self.checksum and not all_sound(self._out, 0, written):
            raise self._wrong_checksum(written)
        self._begin += read
        if written:
            # The next call meets the cause of the stop again. These events are stored before.
            return self._out.data[:written]
        return self._control() if is_control else self._rest()

    @property
    def _least(self) -> int:
        """The smallest valid length of an event, bytes."""
        return K.LEAST_WITH_CHECKSUM if self.checksum else K.LEAST_WITHOUT_CHECKSUM

    def _control(self) -> bytes | None:
        length, sequence = self._packet()
        if K.PACKET_HEADER + length > self._buffer.size:
            raise self._damaged(f"a packet of {length} bytes that holds no ordinary event")
        if self._end - self._begin < K.PACKET_HEADER + length:
            return None
        first = self._begin + K.PACKET_HEADER
        payload: bytes = self._view[first : first + length].tobytes()
        if payload[0] == K.EVENT_AHEAD:
            self._check_sequence(sequence)
        self._begin = first + length
        self._sequence = (sequence + 1) & 0xFF
        return payload

    def _rest(self) -> LargeEvent | None:
        """Return the event at the start of the buffer of received packets if the event is too large for the buffer. The
        result is an iterator over the event's bytes in pieces. Return None while more bytes of the event's packet must
        come.

        Raises SourceStreamDamaged for a malformed packet.
        """
        head = self._view[self._begin : min(self._end, self._begin + K.PACKET_HEADER + 1 + HEADER_LENGTH)]
        if len(head) < K.PACKET_HEADER:
            return None
        length, sequence = self._packet()
        if length and len(head) > K.PACKET_HEADER:
            self._check_sequence(sequence)
        if length < 1 + HEADER_LENGTH and (not length or len(head) > K.PACKET_HEADER):
            raise self._damaged(f"a packet of {length} bytes, too short for an event")
        if len(head) < K.PACKET_HEADER + 1 + HEADER_LENGTH:
            return None
        header = EventHeader.unpack(head, K.PACKET_HEADER + 1)
        event, size = f"a {event_name(header.type)} event", header.size
        is_last = length < K.LONGEST_PAYLOAD
        if size < self._least or size < length - 1 or (is_last and size != length - 1):
            raise self._damaged(f"{event} whose length is {size}, in a packet with {length - 1} bytes for it")
        if header.end_log_pos not in (0, (self._where()[1] + size) & _LAST_POSITION):
            raise self._damaged(
                f"{event} of {size} bytes says that it ends at {header.end_log_pos}; events are missing, or come again"
            )
        if is_last and K.PACKET_HEADER + length <= self._buffer.size:
            return None
        if size > MAX_EVENT:
            raise self._damaged(f"an event's length is {size}, more than any event has")
        return self._pieces(size)

    def _pieces(self, size: int) -> Iterator[memoryview]:
        """Yield the bytes of the event at the start of the buffer, which comes in one or more packets. ``size`` is the
        length of the event, bytes.

        If events have checksums, the last piece is yielded only if the checksum of this event is right. Raises
        SourceStreamDamaged for a wrong checksum or a malformed packet, and ConnectionLost or OSError if the connection
        breaks.
        """
        crc, left, skip = 0, size, 1
        kind = self._view[self._begin + K.PACKET_HEADER + skip + 4]
        length = K.LONGEST_PAYLOAD
        while length == K.LONGEST_PAYLOAD:
            while self._end - self._begin < K.PACKET_HEADER:
                self.fill()
            length, sequence = self._packet()
            self._check_sequence(sequence)
            rest = length - skip
            if rest > left:
                raise self._damaged(f"packets with more than the {size} bytes of their event")
            if length < K.LONGEST_PAYLOAD and rest < left:
                raise self._damaged(f"packets that end {left - rest} bytes before their event")
            self._sequence = (sequence + 1) & 0xFF
            # The first packet has an OK byte before the event.
            self._begin += K.PACKET_HEADER + skip
            skip = 0
            while rest:
                if self._begin == self._end:
                    self.fill()
                piece = self._view[self._begin : min(self._end, self._begin + rest)]
                self._begin += len(piece)
                rest -= len(piece)
                left -= len(piece)
                crc = zlib.crc32(piece, crc) if self.checksum else SOUND
                if not left and crc != SOUND:
                    raise self._damaged(f"a {event_name(kind)} event of {size} bytes with a wrong checksum")
                yield piece

    def _wrong_checksum(self, written: int) -> SourceStreamDamaged:
        """Return the error about the first event with a wrong checksum among the events that were extracted last.
        ``written`` is the size of these events, bytes.
        """
        file, position = self._where()
        _, at, _ = K.walk(self._out, written, position, True)
        header = EventHeader.unpack(self._out.data, at)
        return SourceStreamDamaged(
            f"{file}: at {position + at}: the source sent a {event_name(header.type)} event of {header.size} bytes "
            "with a wrong checksum"
        )

    def _packet(self) -> tuple[int, int]:
        """Return the length of the payload in bytes and the sequence number, from the header of the packet at the start
        of the buffer.
        """
        head = self._view[self._begin : self._begin + K.PACKET_HEADER]
        return int.from_bytes(head[:3], "little"), head[3]

    def _check_sequence(self, sequence: int) -> None:
        if sequence != self._sequence:
            raise self._damaged(f"packet number {sequence} came where number {self._sequence} was due")

    def _damaged(self, what: str) -> SourceStreamDamaged:
        file, position = self._where()
        place = f"{file}: at {position}: " if file else ""
        return SourceStreamDamaged(f"{place}the source sent {what}")

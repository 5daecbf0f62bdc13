"""The reader of a binlog or relay log that makes one object of each event.

The applier, the inspection of files and the tests use this reader. The dump thread uses the faster
:mod:`dumpfilter.index.scanner`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from dumpfilter.base.errors import BinlogCorrupt, BinlogError, BinlogTruncated
from dumpfilter.binlog.events import (
    CHECKSUM_LENGTH,
    HEADER_LENGTH,
    MAX_EVENT,
    EventHeader,
    EventType,
    event_name,
    is_sound,
)
from dumpfilter.binlog.file_reads import unreadable
from dumpfilter.binlog.format import FormatDescription, check_magic


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a binlog or relay log: its position in the file, its header, its bytes, and the format description
    event that tells its layout.
    """

    offset: int
    """The event's position in its file, bytes."""
    header: EventHeader
    raw: bytes
    """All bytes of the event, with header and checksum."""
    fd: FormatDescription
    """The format description event in force, which tells how the event is laid out.

    For a format description event, it is the event itself.
    """

    @property
    def type(self) -> int:
        return self.header.type

    @property
    def name(self) -> str:
        return event_name(self.header.type)

    @property
    def body(self) -> memoryview:
        """The event without its header and without its checksum."""
        length = len(self.raw)
        of_format = self.type == EventType.FORMAT_DESCRIPTION
        if self.fd.ends_in_checksum if of_format else self.fd.checksum:
            length -= CHECKSUM_LENGTH
        return memoryview(self.raw)[HEADER_LENGTH:length]


def read_format_description(source: BinaryIO, *, file: str) -> FormatDescription:
    """Check the magic number of a file and return its format description event.

    ``source`` is a binary file opened at its start, and ``file`` is its name for errors. Raises BinlogCorrupt,
    BinlogTruncated, BinlogUnreadable or BinlogUnsupported.
    """
    try:
        check_magic(_read(source, 4, 0, file))
        raw = _read_event(source, 4, file)
        if raw is None:
            raise BinlogTruncated("the file ends after the magic number")
        return FormatDescription.parse(raw)
    except BinlogError as error:
        raise error.located(file, 4) from None


def iter_events(
    source: BinaryIO,
    *,
    file: str,
    start: int = 4,
    verify: bool = True,
    end: int | None = None,
) -> Iterator[Event]:
    """Yield the events of a file that begin at offset ``start`` or later, and before ``end``.

    The format description event comes first when ``start`` is 4, and is left out for a larger ``start``. Without
    ``end`` the reading goes on to the end of the file.

    ``source`` is a seekable binary file, and ``file`` is its name for errors. Without ``verify`` the checksums are not
    checked. Raises BinlogCorrupt, BinlogTruncated, BinlogUnreadable or BinlogUnsupported with file and position. An
    incomplete event at the end is BinlogTruncated.
    """
    source.seek(0)
    fd = read_format_description(source, file=file)
    if start == 4:
        yield Event(4, fd.header, fd.raw, fd)
    offset = max(start, 4 + len(fd.raw))
    source.seek(offset)
    while end is None or offset < end:
        try:
            raw = _read_event(source, offset, file)
            if raw is None:
                return
            header = EventHeader.unpack(raw)
            if header.type == EventType.FORMAT_DESCRIPTION:
                fd = FormatDescription.parse(raw)
                raw = fd.raw
            elif header.size < HEADER_LENGTH + fd.checksum_length:
                raise BinlogCorrupt(f"an event's length is {header.size}, less than its header and checksum")
            elif fd.checksum and verify and not is_sound(raw):
                raise BinlogCorrupt(
                    f"checksum mismatch in a {event_name(header.type)} event of {header.size} bytes"
                )
        except BinlogError as error:
            raise error.located(file, offset) from None
        yield Event(offset, header, raw, fd)
        offset += len(raw)


def _read_event(source: BinaryIO, offset: int, file: str) -> bytes | None:
    head = _read(source, HEADER_LENGTH, offset, file)
    if not head:
        return None
    if len(head) < HEADER_LENGTH:
        raise BinlogTruncated(f"the file ends {len(head)} bytes into an event's header")
    size = EventHeader.unpack(head).size
    if size < HEADER_LENGTH:
        raise BinlogCorrupt(f"an event's length is {size}, less than its header")
    if size > MAX_EVENT:
        raise BinlogCorrupt(f"an event's length is {size}, more than any event has")
    rest = _read(source, size - HEADER_LENGTH, offset + HEADER_LENGTH, file)
    if len(rest) < size - HEADER_LENGTH:
        raise BinlogTruncated(f"the file ends {HEADER_LENGTH + len(rest)} bytes into an event of {size}")
    return head + rest


def _read(source: BinaryIO, length: int, offset: int, file: str) -> bytes:
    """Read ``length`` bytes, or fewer at the end of the file. ``offset`` is the position for errors.

    A source without a buffer may return fewer bytes than the file has, so the function reads on.
    """
    try:
        data = source.read(length)
        while len(data) < length and (more := source.read(length - len(data))):
            data += more
    except OSError as error:
        raise unreadable(error, file=file, position=offset) from None
    return data

"""The binlog file that a receiver is writing: the append of events, the repair after a crash, and
LOG_EVENT_BINLOG_IN_USE_F.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dumpfilter.base.errors import DumpfilterError, SourceReplaced
from dumpfilter.base.files import writing
from dumpfilter.binlog.context_events import decode_rotate
from dumpfilter.binlog.events import (
    FLAGS_OFFSET,
    HEADER_LENGTH,
    LOG_EVENT_BINLOG_IN_USE_F,
    MAGIC,
    EventHeader,
    EventType,
)
from dumpfilter.binlog.file_reads import open_regular, read_into
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.reader import read_format_description
from dumpfilter.index.log_writer import GrowingFile
from dumpfilter.receiver._deframe_kernels import walk

_BLOCK = 4 << 20
_LONGEST_CLOSING = 4096
"""The length above which an event is not read as a Rotate or Stop event, with which a server closes a file, bytes."""


class FileEnd(NamedTuple):
    """The end of the undamaged part of a received binlog file. After a crash the receiver truncates the file there."""

    last: int
    """The byte offset of the last whole event."""
    end: int
    """The byte offset after the last whole event. Later bytes are a torn event."""


def find_end(path: Path, description: FormatDescription) -> FileEnd:
    """Return the last whole event of a received file. An event is whole when its length, ``end_log_pos`` and checksum
    are right.

    ``description`` is the file's format description. Raises BinlogError for a file that cannot be read.
    """
    last, at = len(MAGIC), len(MAGIC) + len(description.raw)
    is_wrong = False
    with open_regular(path) as source:
        size = os.fstat(source.fileno()).st_size
        data = np.empty(min(_BLOCK, max(size, 1)), np.uint8)
        while at < size and not is_wrong:
            got = read_into(source.fileno(), data.data, at, file=path.name)
            offset, end, is_wrong = walk(data, got, at, description.checksum)
            if offset >= 0:
                last, at = at + offset, at + end
                continue
            length = EventHeader.unpack(data.data).size if got >= HEADER_LENGTH else size
            if at + length > size:
                break
            # The event is larger than the buffer.
            data = np.empty(length, np.uint8)
    return FileEnd(last, at)


class OpenFile(GrowingFile):
    """The binlog file that a receiver is writing.

    After a reconnection the stream may begin before the end of the file. Events that the file already has are then
    compared with the stream, and not written again.
    """

    def __init__(self, path: Path, fd: int, end: int) -> None:
        super().__init__(path, fd, end)
        self.description: FormatDescription
        self.position = end
        """The byte offset in this file of the next event of the stream."""
        self.is_closed = False
        """Whether the file ends with a Rotate or a Stop event, with which the server closed it."""
        self.next_name = ""
        """The name of the next file in the Rotate event at the end; empty without one."""

    @classmethod
    def begin(cls, path: Path, head: bytes, description: FormatDescription) -> OpenFile:
        """Create a file with the format description event ``head`` (raw bytes), marked as in use
        (LOG_EVENT_BINLOG_IN_USE_F). Raises OutputError.
        """
        marked = bytearray(MAGIC + head)
        marked[FLAGS_OFFSET] |= LOG_EVENT_BINLOG_IN_USE_F
        made = cls.create(path, bytes(marked))
        made.description = description
        return made

    @classmethod
    def resume(cls, path: Path) -> tuple[OpenFile, int]:
        """Open a received file, and cut off an incomplete event at its end. Return the file and the number of bytes
        that were cut off.

        The next stream shall begin at the last whole event. The comparison of this event proves that the source still
        has this file. Raises BinlogError and OutputError.
        """
        with open_regular(path) as source:
            description = read_format_description(source, file=path.name)
        last, end = find_end(path, description)
        with writing(path):
            made = cls.open(path)
        made.description, made.position = description, last
        cut = made.end - end
        try:
            made.cut(end)
            event = made.read(last, end - last if end - last < _LONGEST_CLOSING else HEADER_LENGTH)
            kind = EventHeader.unpack(event).type
            made.is_closed = kind in (EventType.ROTATE, EventType.STOP)
            if kind == EventType.ROTATE:
                made.next_name = decode_rotate(description.body(event)).name
            if made.is_closed:
                made.clear_in_use()
        except BaseException:
            made.close()
            raise
        return made, cut

    @property
    def is_ahead(self) -> bool:
        """Whether the file has events that the source has not sent again in this stream yet."""
        return self.position < self.end

    def check_head(self, sent: FormatDescription) -> None:
        """Check that the source's file of this name begins with the same format description event as this file. Raises
        SourceReplaced.

        ``sent`` is the event that the source has sent. A dump from inside a file sends this event without the time of
        the file's creation, so this field is not compared.
        """
        ours, theirs = self.description.header, sent.header
        if (
            (ours.timestamp, ours.server_id) != (theirs.timestamp, theirs.server_id)
            or sent.post_header_lengths != self.description.post_header_lengths
            or sent.server_version != self.description.server_version
            or sent.checksum != self.description.checksum
        ):
            raise self.replaced("begins differently")

    def replaced(self, how: str) -> SourceReplaced:
        """Return the error to raise when the source has another file under this name. ``how`` is a text that tells the
        difference.
        """
        return SourceReplaced(
            f"{self.name}: at {self.position}: the source's file {how}: it is another server, or its binlogs began "
            f"anew (RESET MASTER), or it lost events in a crash; fetch into another directory than {self.path.parent}"
        )

    def append(self, data: bytes | memoryview) -> None:
        """Process whole events from the stream: compare them with the events that the file has, and write the others.

        Raises SourceReplaced when they differ, and OutputError.
        """
        if self.is_ahead:
            known = min(len(data), self.end - self.position)
            if self.read(self.position, known) != data[:known]:
                raise self.replaced("has other events")
            self.position += known
            data = data[known:]
        if data:
            super().append(data)
            self.position = self.end

    def append_large(self, pieces: Iterable[memoryview]) -> None:
        """Append one event that comes in pieces. If the pieces end in an error, truncate the file to the end of the
        event before, and raise the error.
        """
        position, end = self.position, self.end
        try:
            for piece in pieces:
                self.append(piece)
        except (DumpfilterError, OSError):
            self.position = position
            self.cut(end)
            raise

    def clear_in_use(self) -> None:
        """Clear LOG_EVENT_BINLOG_IN_USE_F in the file's header, as a server does when it closes a file."""
        flags = self.read(FLAGS_OFFSET, 1)[0]
        if flags & LOG_EVENT_BINLOG_IN_USE_F:
            with writing(self.path):
                os.pwrite(self._fd, bytes([flags & ~LOG_EVENT_BINLOG_IN_USE_F]), FLAGS_OFFSET)
            self.is_synced = False

"""Binlog sets: the binlog files that an index file names, in order. A server may still write to the last file.

A binlog file begins with the GTIDs of all transactions before the file, in a Previous_gtids (MySQL) or Gtid_list
(MariaDB) event. A slave's relay log file also has a head event with the GTIDs that the slave had received before the
file.
"""

from __future__ import annotations

import functools
import os
import stat
import sys
import threading
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import (
    BinlogCorrupt,
    BinlogError,
    BinlogMissing,
    BinlogTruncated,
    BinlogUnreadable,
    ConnectionLost,
    GtidError,
    OptionError,
)
from dumpfilter.binlog.context_events import decode_rotate
from dumpfilter.binlog.events import (
    FLAGS_OFFSET,
    GTIDS,
    HEADER_LENGTH,
    LOG_EVENT_ARTIFICIAL_F,
    LOG_EVENT_BINLOG_IN_USE_F,
    MAX_EVENT,
    EventHeader,
    EventType,
    event_name,
    is_sound,
)
from dumpfilter.binlog.format import FormatDescription, NameRules
from dumpfilter.binlog.gap_events import Head, decode_ignorable
from dumpfilter.binlog.gtid import GtidSet, MariadbGtid, MariadbGtidSet, parse_gtid_set
from dumpfilter.binlog.gtid_events import decode_gtid_list, decode_previous_gtids
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.reader import (
    check_whole,
    open_regular,
    read_format_description,
    read_into,
    read_up_to,
    unreadable,
)
from dumpfilter.index import _scan as K
from dumpfilter.index.addresses import (
    cannot_open,
    file_name,
    file_system,
    local_path,
    matching,
    not_here,
    only_index,
    reason_of,
    remote_set,
    remote_size,
)
from dumpfilter.index.index_file import read_index
from dumpfilter.index.scanner import SEGMENT_SIZE, FileScanner
from dumpfilter.index.segment import NONE_PREPARED, Prepared, Segment, WriterPoint
from dumpfilter.index.subjects import Subjects

FileIdentity = tuple[int, int]
"""The identity of a file: its device (``st_dev``) and its inode (``st_ino``)."""

_HEAD = 64 << 10
"""The number of bytes that are read from a remote file when it is opened. Without this buffer, each of the first events
of a file would cost a request.
"""

_BETWEEN = np.empty(8 << 10, np.uint8)
"""The memory into which all readers put the bytes between the byte ranges that they want. Nobody uses these bytes. The
memory has as many bytes as are read from the page cache in the time of one system call.
"""

_MOST_PARTS = 1024
"""The largest number of parts of memory that one system call fills (``IOV_MAX``)."""

_LAST_OF_FILE = frozenset({int(EventType.ROTATE), int(EventType.STOP)})
"""The types of the last event of a file that a server has closed."""


class FileBegin(NamedTuple):
    """The contents of a binlog file's first events, which say from which server and position the later events come.

    A slave begins a relay log file for each binlog file of its master. Such a relay log file has an artificial Rotate
    event, which names the master's file. A head event (an event of dumpfilter) follows, which names the master and the
    GTIDs that the slave had received before.
    """

    format_description: FormatDescription
    file: str
    """The name, without a directory, of the binlog file on the server that wrote the events. For a server's own binlog
    it is the file's own name.
    """
    position: int
    """The position in the writer's binlog file at which the events of this file begin, bytes. The writer is the server
    that wrote the events. For a server's own binlog, it is the offset of the first event after the format description
    event.
    """
    end: int
    """The byte offset in this file of the first event that the writer itself wrote. The format description event, and
    the events that a slave adds to a relay log, are before this offset.
    """
    is_relay_log: bool = False
    origin: Mapping[str, Any] = MappingProxyType({})
    """The JSON members of a relay log file's head event, which names the master. Empty for a server's own binlog, and
    for a relay log file without a head event.
    """


class ScanPoint(NamedTuple):
    """The state of a scan (the reading of events into arrays) at a transaction boundary, such as the prepared XA
    transactions.

    A later scan can begin at this boundary with this state, without reading the part of the file before it.
    """

    prepared: Prepared
    """The XA transactions that are prepared at the boundary."""
    writer: WriterPoint | None = None
    """The position in the binlog of the server that wrote the events, for a relay log. None in a server's own binlog.
    """
    format_description: FormatDescription | None = None
    """The format description event that gives the layout of the events from the transaction boundary on. None: the one
    at the beginning of the file.
    """


FIRST_POINT = ScanPoint(NONE_PREPARED)
"""The state of a scan at the beginning of a server's first binlog file: no XA transaction is prepared."""


class RelayWentBack(BinlogUnreadable):
    """The error for a reader of a relay log when the slave discards a part of the log. The reader may connect again at
    once.
    """

    # A copy of an error is made with its text.
    def __init__(
        self,
        what: str = "the slave discards this part of its relay log, and receives it again; connect again",
        *,
        file: str | None = None,
    ) -> None:
        super().__init__(what, file=file, momentary=True)


@dataclass(eq=False)
class PublishedEnd:
    """The position up to which readers may read a log that this process is writing. The writer's thread advances it,
    and any thread may read it.

    Bytes before the position do not change any more. The position may lie inside a transaction. When the writer
    discards a part of the log, this object is closed for good, and readers of the log get an error.
    """

    position: tuple[str, int]
    """The name of a file of the log, and a byte offset in it."""
    is_closed: bool = False

    def readable(self, name: str, offset: int, length: int) -> int:
        """Return how many of the ``length`` bytes from the byte offset ``offset`` of the file ``name`` may be read.

        The writer of the log has published :attr:`position`, which lies in the newest file. In this file, only the
        bytes before the position may be read, and the result is 0 if there are none. In older files all bytes may be
        read.

        Raises RelayWentBack if the writer has discarded a part of the log.
        """
        if self.is_closed:
            raise RelayWentBack(file=name)
        file, end = self.position
        return length if name != file else max(0, min(length, end - offset))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Convert a BinlogError that the ``with`` block raises into RelayWentBack, if the slave has meanwhile discarded
        a part of the relay log that is read. The error tells a reader that it may connect again.
        """
        try:
            yield
        except BinlogError as error:
            if self.is_closed:
                raise RelayWentBack(file=error.file) from error
            raise


class BinlogFile:
    """One file of a binlog set, opened for reading at any offset. The file is not mapped into memory, because a process
    that reads a mapped file dies when the file is truncated.

    ``end`` is the position up to which the process that writes the log permits reads (None: all of the file). The
    constructor reads the format description event. It raises BinlogMissing if the file cannot be found or opened,
    BinlogUnreadable if the system cannot read it, and another BinlogError for a file that is no binlog.
    """

    _end: PublishedEnd | None = None

    def __init__(self, path: Path, end: PublishedEnd | None = None) -> None:
        self.path = path
        self.name = path.name
        self._end = end
        self._file = open_regular(path)
        try:
            self.format_description: FormatDescription = read_format_description(self._file, file=self.name)
        except BaseException:
            self._file.close()
            raise

    @property
    def first_event(self) -> int:
        """The byte offset of the first event after the file's format description event."""
        return 4 + len(self.format_description.raw)

    @functools.cached_property
    def begin(self) -> FileBegin:
        """The contents of the file's first events: the format description and, in a relay log, the master's file and
        position. Raises BinlogError for a relay log file whose first events are malformed.
        """
        fd, at = self.format_description, self.first_event
        if not self._has_event(at, EventType.ROTATE, LOG_EVENT_ARTIFICIAL_F):
            return FileBegin(fd, self.name, at, at)
        event = self.read_event(at)
        end, origin = at + len(event), {}
        try:
            rotate = decode_rotate(fd.body(event))
            if self._has_event(end, EventType.IGNORABLE):
                event = self.read_event(end)
                head = decode_ignorable(fd.body(event))
                if isinstance(head, Head):
                    end, origin = end + len(event), head.members
        except BinlogCorrupt as error:
            raise error.located(self.name, end) from None
        return FileBegin(fd, rotate.name, rotate.position, end, is_relay_log=True, origin=origin)

    def _has_event(self, offset: int, kind: EventType, flag: int = 0) -> bool:
        """Tell whether a complete event of the type ``kind``, with the header flag ``flag`` (0: any flags), begins at
        the byte offset ``offset``.
        """
        head = self.read_up_to(offset, HEADER_LENGTH)
        if len(head) < HEADER_LENGTH:
            return False
        header = EventHeader.unpack(head)
        return header.type == kind and header.flags & flag == flag and offset + header.size <= self.size

    @property
    def is_relay_log(self) -> bool:
        """Whether the file is a slave's relay log. The ``end_log_pos`` of its events are positions in the master's
        binlog file.
        """
        return self.begin.is_relay_log

    @property
    def is_whole(self) -> bool:
        """Whether the file has all events of the writer's binlog file from the first one on. False for a relay log file
        that begins in the middle of the writer's file. The writer is the server that wrote the events.
        """
        return self.begin.position <= self.first_event

    @property
    def writer_begin(self) -> WriterPoint | None:
        """The writer's position and time at the beginning of a relay log file. The result has the ``sequence_number``
        0, since no earlier transaction is known. None for a server's own binlog. The writer is the server that wrote
        the events.
        """
        if not self.is_relay_log:
            return None
        return WriterPoint(self.begin.position, 0, self.format_description.header.timestamp)

    @property
    def size(self) -> int:
        """The present size of the part of the file that may be read, bytes. In the newest file of a log that this
        process writes, the part ends at the position that the writer has published (:class:`PublishedEnd`). Raises
        RelayWentBack if the writer has discarded a part of the log.
        """
        return self._readable(0, self._status().st_size)

    def _readable(self, offset: int, length: int) -> int:
        return length if self._end is None else self._end.readable(self.name, offset, length)

    @property
    def modified(self) -> int:
        """The time of the last write to the file, nanoseconds since 1970."""
        return self._status().st_mtime_ns

    @property
    def identity(self) -> FileIdentity:
        """The device and the inode of the open file. With them a reader notices that another file has taken the file's
        path.
        """
        return identity_of(self._status())

    @property
    def in_use(self) -> bool:
        """Whether the flag LOG_EVENT_BINLOG_IN_USE_F is set in the file. A server sets the flag while it has the file
        open for writing, and a crash leaves the flag set.
        """
        return bool(self.read(FLAGS_OFFSET, 1)[0] & LOG_EVENT_BINLOG_IN_USE_F)

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes of the file from the byte offset ``offset`` on.

        Raises BinlogTruncated when the file ends before, and BinlogUnreadable when the system reports an error.
        """
        data = self.read_up_to(offset, length)
        check_whole(len(data), length, offset, file=self.name)
        return data

    def read_event(self, offset: int) -> bytes:
        """Return all bytes of the event at the byte offset ``offset``. Raises BinlogTruncated for an incomplete event,
        and BinlogCorrupt for a wrong checksum or an impossible length.
        """
        header = EventHeader.unpack(self.read(offset, HEADER_LENGTH))
        fd = self.format_description
        if header.size < HEADER_LENGTH + fd.checksum_length:
            raise BinlogCorrupt(f"an event's length is {header.size}", file=self.name, position=offset)
        event = self.read(offset, header.size)
        if fd.checksum and not is_sound(event):
            raise BinlogCorrupt(
                f"checksum mismatch in a {event_name(header.type)} event", file=self.name, position=offset
            )
        return event

    def read_up_to(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes of the file from the byte offset ``offset`` on, or fewer where the readable part of
        the file ends.

        Raises BinlogUnreadable when the system reports an error.
        """
        return read_up_to(self._file.fileno(), offset, self._readable(offset, length), file=self.name)

    def read_into(self, buffer: npt.NDArray[np.uint8], offset: int) -> int:
        """Read the file from the byte offset ``offset`` on into ``buffer`` (uint8), and return the number of bytes
        read.

        The number is less than the buffer's size only where the readable part of the file ends. Raises BinlogUnreadable
        when the system reports an error.
        """
        readable = buffer[: self._readable(offset, buffer.size)]
        return read_into(self._file.fileno(), readable.data, offset, file=self.name)

    def read_whole(self, buffer: npt.NDArray[np.uint8], offset: int) -> None:
        """Fill ``buffer`` (uint8) with the file's bytes from the byte offset ``offset`` on.

        Raises BinlogTruncated when the file ends before, and BinlogUnreadable when the system reports an error.
        """
        check_whole(self.read_into(buffer, offset), buffer.size, offset, file=self.name)

    def read_ranges(
        self, buffer: npt.NDArray[np.uint8], ranges: npt.NDArray[np.int64], *, cached: bool
    ) -> bool:
        """Read byte ranges of the file into ``buffer`` (uint8), and return whether all of them were read. The columns
        of ``ranges`` are the offset in the file, the size, and the offset in ``buffer``.

        With ``cached`` the method does not wait for the disk. The result is then also False when not all ranges are in
        the page cache, or when the file system cannot tell. After False, the buffer's content is undefined. The method
        does not check whether the ranges lie before the published end of a log that is being written
        (:class:`PublishedEnd`).
        """
        flags = os.RWF_NOWAIT if cached else 0
        parts = np.empty((min(2 * len(ranges), _MOST_PARTS), 2), np.int64)
        return bool(K.read_ranges(self._file.fileno(), ranges, buffer, _BETWEEN, parts, flags))

    def _status(self) -> os.stat_result:
        try:
            return os.fstat(self._file.fileno())
        except OSError as error:
            raise unreadable(error, file=self.name) from None

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> BinlogFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RemoteFile(BinlogFile):
    """A binlog file on a remote file system, given its URI. The size is read once, when the file is opened, so that
    later growth of the file is not noticed.

    Raises BinlogMissing or OptionError when the file cannot be opened, another BinlogError when it is no binlog, and
    ConnectionLost when a later read fails.
    """

    size = 0

    def __init__(self, uri: str) -> None:
        self.name = file_name(uri)
        self.path = Path(self.name)
        self._uri = uri
        try:
            self._system, self._key = file_system(uri)
            self._source = self._system.open_input_file(self._key)
            self.size = int(self._source.size())
            self._head = bytes(self._source.read_at(min(_HEAD, self.size), 0))
        except OSError as error:
            raise cannot_open(uri, error) from None
        try:
            self.format_description = read_format_description(BytesIO(self._head), file=self.name)
        except BaseException:
            self.close()
            raise

    @property
    def modified(self) -> int:
        """The time of the last write to the file, nanoseconds since 1970; 0 if the file system does not provide it."""
        try:
            return int(self._system.get_file_info(self._key).mtime_ns or 0)
        except OSError as error:
            raise cannot_open(self._uri, error) from None

    def read_up_to(self, offset: int, length: int) -> bytes:
        if offset + length <= len(self._head):
            return self._head[offset : offset + length]
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        try:
            return bytes(self._source.read_at(length, offset))
        except OSError as error:
            # The option --on-corrupt skip must skip damaged bytes of the file, but not bytes that the network failed to
            # deliver. Therefore the error is ConnectionLost and not a kind of damage.
            raise ConnectionLost(f"{self._uri}: at {offset}: cannot be read: {reason_of(error)}") from None

    def read_into(self, buffer: npt.NDArray[np.uint8], offset: int) -> int:
        got = self.read_up_to(offset, buffer.size)
        buffer[: len(got)] = np.frombuffer(got, np.uint8)
        return len(got)

    def read_ranges(
        self, buffer: npt.NDArray[np.uint8], ranges: npt.NDArray[np.int64], *, cached: bool
    ) -> bool:
        return False

    def close(self) -> None:
        self._source.close()

    def _status(self) -> os.stat_result:
        raise not_here(self._uri)


def open_file(address: str) -> BinlogFile:
    """Open a binlog file, given its path or its URI (such as ``s3a://bucket/binlog.000001``). Raises BinlogError when
    the file cannot be opened or is no binlog, and OptionError for a URI with a syntax error.
    """
    local = local_path(address)
    return RemoteFile(address) if local is None else BinlogFile(Path(local))


_spare: list[npt.NDArray[np.uint8]] = []
_MOST_SPARE = 2 * max(2, len(os.sched_getaffinity(0)))
"""The maximum number of buffers that the process keeps for reuse: two for each task that runs."""


def reused_buffer(size: int) -> npt.NDArray[np.uint8]:
    """Return a buffer of ``size`` bytes with arbitrary content.

    The memory is reused for another buffer when no array refers to this buffer any more. New memory would cost more
    than the scan, because the system clears each page at the first write.
    """
    try:
        memory = _spare.pop()
    except IndexError:  # Another thread may take the last buffer at any moment.
        memory = np.empty(size, np.uint8)
    if memory.size < size:
        memory = np.empty(size, np.uint8)
    # Parts of the buffer refer to this array, and not to ``memory``.
    buffer = np.frombuffer(memory.data, np.uint8, size)
    weakref.finalize(buffer, _keep, memory).atexit = False
    return buffer


def _keep(memory: npt.NDArray[np.uint8]) -> None:
    if len(_spare) < _MOST_SPARE:
        _spare.append(memory)


class ScanOptions(TypedDict, total=False):
    """The keyword arguments that a :class:`SegmentReader` (the reader of a binlog file's events) passes on to its base
    class :class:`FileScanner`, which describes them. They say what the scan verifies, parses and decompresses, and
    which XA transactions are prepared at its start.
    """

    verify: bool
    statements: bool
    prepared: Prepared
    max_opened: int


class SegmentReader(FileScanner):
    """A scanner that reads its file itself, one segment (up to 8 MiB of consecutive events) at a time.

    ``data`` holds the bytes of the last segment, from the byte offset :attr:`data_offset` in the file on.
    ``segment_size`` is the largest size of a segment, bytes. A segment of one larger event exceeds this size. The
    ``options`` are further parameters of :class:`FileScanner`, such as ``verify``, which tells whether checksums are
    verified.
    """

    def __init__(
        self,
        file: BinlogFile,
        subjects: Subjects,
        sources: SourceNumbers,
        *,
        segment_size: int = SEGMENT_SIZE,
        **options: Unpack[ScanOptions],
    ) -> None:
        fd, writer = file.format_description, file.writer_begin
        super().__init__(file.name, fd, subjects, sources, writer=writer, **options)
        self.file = file
        self.position = file.first_event
        self._met_end = sys.maxsize
        """The size that the file had when :meth:`next` met its end."""
        self._segment_size = max(segment_size, HEADER_LENGTH)
        self.data = self._buffer = np.empty(0, np.uint8)
        self.data_offset = self.position
        self.limit: int | None = None
        """The byte offset in the file at which the reader stops, or None to read to the end of the file."""

    def next(self) -> Segment | None:
        """Return the next segment of the file: complete events, usually up to 8 MiB. Return None if no further complete
        event follows, or if the reader has reached the byte offset :attr:`limit`.

        At the end of the file, the last events of an incomplete transaction are not returned yet. A later call returns
        the events that a server has written since. Raises BinlogError for a damaged event, and for a file that cannot
        be read.
        """
        if self.limit is not None and self.position >= self.limit:
            return None
        if not self._buffer.size:
            self._buffer = reused_buffer(self._segment_size)
        while True:
            room = self._buffer if self.limit is None else self._buffer[: self.limit - self.position]
            length = self.file.read_into(room, self.position)
            at_end = length < room.size
            data = room[:length]
            segment = self.scan(data, self.position, at_end=at_end)
            if segment is not None:
                self.data, self.data_offset = data, self.position
                self.position = segment.end
                if self._buffer.size > self._segment_size:
                    # The next segments would be as large as the buffer.
                    self.give_away()
                return segment
            # The buffer holds no whole event: the event is larger than the buffer, or a server has not written all of
            # it.
            needed = HEADER_LENGTH
            if length >= HEADER_LENGTH:
                needed = EventHeader.unpack(data[:HEADER_LENGTH].tobytes()).size
            if needed > MAX_EVENT:
                raise BinlogCorrupt(
                    f"an event's length is {needed}", file=self.file.name, position=self.position
                )
            size = self.position + length if at_end else self.limit or self.file.size
            if at_end or self.position + needed > size:
                self._met_end = size
                return None
            self._buffer = np.empty(needed, np.uint8)

    def next_until(self, end: int) -> Segment | None:
        """Scan a part of the file again, from the reader's position up to the byte offset ``end``, where a segment
        (part of the file) of an earlier scan ended. Return the events as one segment. The result is None, or ends
        elsewhere, if the file no longer has these events.
        """
        self.limit = end
        if self._buffer.size < end - self.position:
            self._buffer = np.empty(max(self._segment_size, end - self.position), np.uint8)
        return self.next()

    def check_end(self, *, last: bool) -> None:
        """Raise BinlogTruncated when the file ends inside an event or inside a transaction.

        Call this method after :meth:`next` has returned None. ``last`` tells whether the file is the last of its binlog
        set. The last file may end anywhere while its flag LOG_EVENT_BINLOG_IN_USE_F says that a server has the file
        open. The method then does nothing. It also does nothing if a server has written more, and perhaps closed the
        file, since :meth:`next` met the end.
        """
        if last and (self.file.in_use or self.file.size > self._met_end):
            return
        size = self.file.size
        at = self.position
        while at < size:
            head = self.file.read_up_to(at, HEADER_LENGTH)
            if len(head) < HEADER_LENGTH:
                raise self._truncated(at, f"{len(head)} bytes into an event's header")
            length = EventHeader.unpack(head).size
            if at + length > size or length < HEADER_LENGTH:
                raise self._truncated(at, f"{size - at} bytes into an event of {length} bytes")
            at += length
        if self.position < size or self.in_transaction:
            verb = "continues" if self.in_transaction else "begins"
            raise self._truncated(self.position, f"inside the transaction that {verb} here")

    def _truncated(self, position: int, where: str) -> BinlogTruncated:
        return BinlogTruncated(
            f"the file ends {where}; fetch it again from the server", file=self.file.name, position=position
        )

    def give_away(self) -> None:
        """Leave the bytes of the last segment (the events that :meth:`next` returned last) to the caller, who may keep
        the array :attr:`data`. The next call of :meth:`next` reads into another buffer.
        """
        self._buffer = np.empty(0, np.uint8)

    def release(self) -> None:
        """Free the buffers of a reader that waits at the end of its file, to save memory.

        :meth:`next` allocates them again.
        """
        self.data = self._buffer = np.empty(0, np.uint8)
        super().release()

    @property
    def point(self) -> ScanPoint:
        """The state of the scan at the end of the last segment (the events that :meth:`next` returned last). A later
        scan can begin there with this state, if a transaction boundary is there.
        """
        return ScanPoint(self.prepared, self.writer, self.format_description)

    def rewind(self, position: int, point: ScanPoint = FIRST_POINT) -> None:
        """Move this reader to the byte offset ``position`` of the file, from which :meth:`next` then continues. The
        position must be a transaction boundary, and the caller ensures this.

        ``point`` is the state of the scan at this boundary, such as the prepared XA transactions. A caller gets it from
        :attr:`point` when a reader has reached the boundary. The default is right for a server's own binlog, if no XA
        transaction is prepared at the boundary.
        """
        self.position = position
        self.reset(point.prepared, point.format_description or self.file.format_description, point.writer)


class BinlogSet:
    """A binlog set: binlog files in order, each found by its name without a directory.

    ``paths`` are the files; a file of a remote file system is a URI. ``index`` is the index file, if there is one.
    ``end`` is the position that the set's writer in this process has published, at which the set ends. None: the set
    ends at the end of its last file. Raises OptionError for two different files of one name.
    """

    def __init__(
        self, paths: Iterable[Path | str], index: Path | None = None, end: PublishedEnd | None = None
    ) -> None:
        self.index = index
        self.end = end
        self._refreshing = threading.Lock()
        """The lock that :meth:`refresh` holds, so that no older list of files takes the place of a newer one."""
        self._paths: dict[str, Path | str] = {}
        for path in paths:
            name = path.name if isinstance(path, Path) else file_name(path)
            other = self._paths.setdefault(name, path)
            if other != path:
                raise OptionError(
                    f"two binlog files have the name {name}: {other} and {path}; "
                    "a binlog set needs a different name for each file"
                )

    @classmethod
    def open(cls, source: str | Path | Sequence[str | Path]) -> BinlogSet:
        """Return the binlog set for an address: an index file, a directory with an index file, or binlog files in
        order.

        An address is a path or a URI (:mod:`dumpfilter.index.addresses`). A pattern such as ``binlog.0000*`` names the
        binlog files of one directory that match, in the order of their numbers. Among several files, those that a
        server keeps beside binlogs are ignored, such as GTID indexes.

        Raises BinlogMissing for a missing file, BinlogError for an index file that cannot be read, and OptionError for
        a URI with a syntax error.
        """
        given = [source] if isinstance(source, str | Path) else source
        addresses = [one for each in given for one in matching(str(each))]
        local = [local_path(one) for one in addresses]
        if len(addresses) == 1:
            if local[0] is None:
                return cls(remote_set(addresses[0]))
            path = Path(local[0])
            if path.is_dir():
                return cls.from_index(find_index(path))
            if path.suffix == ".index":
                return cls.from_index(path)
        names = {file_name(one) for one in addresses}
        paths: list[Path | str] = []
        for address, here in zip(addresses, local, strict=True):
            if kept_beside(file_name(address), names):
                continue
            # The error of a file that cannot be opened says what is wrong with its address.
            if here is None:
                remote_size(address)
            else:
                open_regular(Path(here)).close()
            paths.append(address if here is None else Path(here))
        if not paths:
            raise BinlogMissing("no binlog is named")
        return cls(paths)

    @classmethod
    def from_index(cls, index: Path, end: PublishedEnd | None = None) -> BinlogSet:
        """Return the binlog set whose files an index file names. The set ends at ``end``, the position that the set's
        writer in this process has published (None: the end of the last file).

        Relative names are relative to the index file's directory. If an absolute name does not exist, the file of that
        name beside the index file is used, because the set was then moved. Raises BinlogMissing if the index file is
        missing or names no binlog, and another BinlogError if the index file cannot be read.
        """
        found = cls([], index, end)
        found.refresh()
        if not found._paths:
            raise BinlogMissing("the index names no binlog", file=str(index))
        return found

    def refresh(self) -> bool:
        """Read the index file again and tell whether its list of binlog files has changed.

        A set without an index file never changes. An index file that is missing or empty for the moment changes nothing
        either. Raises BinlogError for an index file that cannot be read, or that names two files of one name.
        """
        if self.index is None:
            return False
        with self._refreshing:
            try:
                with self._reading():
                    lines = read_index(self.index)
            except BinlogMissing:
                if self._paths and _is_gone(self.index):
                    # A server deletes its index file before it writes the new one. A missing index file therefore
                    # appears again.
                    return False
                raise
            paths: dict[str, Path | str] = {}
            for number, name in enumerate(lines):
                # A server may still be writing the last line of the index file. Without its line end, the line counts
                # only if its file exists.
                path = self._named(name, is_last=number == len(lines) - 1) if name else None
                if path is not None and paths.setdefault(path.name, path) != path:
                    raise BinlogCorrupt(
                        f"the index names two files {path.name}: {paths[path.name]} and {path}; "
                        "a binlog set needs a different name for each file",
                        file=str(self.index),
                    )
            if self.end is not None:
                # The writer names a file in the index before it publishes a position in the file.
                newest = _order(self.end.position[0])
                paths = {name: path for name, path in paths.items() if _order(name) <= newest}
            if not paths:
                return False
            changed = list(paths) != list(self._paths)
            self._paths = paths
            return changed

    def _named(self, name: str, *, is_last: bool) -> Path | None:
        """Return the path of the binlog file ``name``, as a line of the index file names it. If no file has this path,
        the result is the path of the same name beside the index file. ``is_last`` marks the last line, which a server
        may still be writing. For the last line the result is None if neither path names a regular file.

        Raises BinlogUnreadable when the system cannot look up the path.
        """
        assert self.index is not None
        path = self.index.parent / name
        try:
            mode = _mode(path)
            if not mode:
                path = self.index.parent / path.name
                mode = _mode(path)
        except OSError as error:
            raise unreadable(error, file=str(path)) from None
        return None if is_last and not stat.S_ISREG(mode) else path

    def __contains__(self, name: object) -> bool:
        """Tell whether the set has a binlog file of this name."""
        return name in self._paths

    @property
    def names(self) -> list[str]:
        """The names of the set's binlog files without directories, in order."""
        return list(self._paths)

    @property
    def written_by(self) -> NameRules:
        """The rules by which the server that wrote the newest file compares database and table names. The rules are
        recorded in the file's format description event. Raises BinlogError if the newest file cannot be read.
        """
        with self.file(self.names[-1]) as newest:
            return newest.format_description.names

    @property
    def addresses(self) -> list[str]:
        """The absolute paths, or the URIs, of the set's binlog files, in order."""
        return [one if isinstance(one, str) else str(one.resolve()) for one in self._paths.values()]

    @property
    def paths(self) -> dict[str, Path]:
        """The paths of the set's binlog files on this machine, by name, in order. Raises OptionError for remote
        files.
        """
        return {name: _local(path) for name, path in self._paths.items()}

    def path(self, name: str) -> Path:
        """Return the path of a binlog file on this machine, given its name.

        Raises BinlogMissing when the set has no such file, and OptionError when the file is on a remote file system.
        """
        return _local(self._path(name))

    def _path(self, name: str) -> Path | str:
        try:
            return self._paths[name]
        except KeyError:
            have = f"it has {self.names[0]} to {self.names[-1]}" if self._paths else "it is empty"
            raise BinlogMissing(f"the binlog set has no such file; {have}", file=name) from None

    def after(self, name: str) -> str | None:
        """Return the name of the binlog file that follows the file ``name``. None when ``name`` is the last file, or
        when the set has no later file.

        The file ``name`` itself may be purged already. Raises BinlogMissing if files after it were purged, too, because
        a reader that continued would miss their transactions.
        """
        names = self.names
        if name in self._paths:
            return next(iter(names[names.index(name) + 1 :]), None)
        following = next((later for later in names if _order(later) > _order(name)), None)
        if following is not None and not _is_next(following, name):
            raise BinlogMissing(
                f"the files between this file and {following} were purged while a dump was reading this file; "
                "set the slave up again from a backup",
                file=name,
            )
        return following

    def size(self, name: str) -> int:
        """Return the size of a binlog file's readable part, bytes. Raises BinlogMissing when the set has no such file
        or the file does not exist, and BinlogUnreadable when the system cannot look it up.
        """
        path = self._path(name)
        if isinstance(path, str):
            return remote_size(path)
        with self._reading():
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                raise _not_there(path) from None
            except OSError as error:
                raise unreadable(error, file=str(path)) from None
        return size if self.end is None else self.end.readable(name, 0, size)

    def _reading(self) -> AbstractContextManager[None]:
        return nullcontext() if self.end is None else self.end.reading()

    def growing(self) -> list[Path]:
        """Return the paths of the files that change when the set grows: the newest binlog file, and the index file if
        there is one. Raises OptionError for a remote set.
        """
        # Another thread may refresh the set, so that the list of files is read only once.
        newest = _local(next(reversed(self._paths.values())))
        return [newest] if self.index is None else [newest, self.index]

    def growth(self) -> list[object]:
        """Return a value by which a caller that waits for new events notices growth. The value differs from an earlier
        one if the set has grown in between.

        The value has the sizes, modification times, devices and inodes of the newest binlog file and of the index file.
        So it also changes when another file takes the newest file's name. Raises OSError when a file does not exist.
        """
        found: list[object] = []
        for path in self.growing():
            file = path.stat()
            found += [file.st_size, file.st_mtime_ns, *identity_of(file)]
        return found

    def file(self, name: str) -> BinlogFile:
        """Open a binlog file of the set, given its name. Raises BinlogMissing if the set has no such file or the file
        does not exist, and another BinlogError if the file cannot be read or is no binlog.
        """
        path = self._path(name)
        if isinstance(path, str):
            return RemoteFile(path)
        with self._reading():
            try:
                return BinlogFile(path, self.end)
            except BinlogMissing:
                if self.index is not None and _is_gone(path):
                    raise _not_there(path) from None
                raise

    def segments(
        self, subjects: Subjects, sources: SourceNumbers, *, verify: bool = True
    ) -> Iterator[tuple[SegmentReader, Segment]]:
        """Yield all segments of the binlog set in order, each with the reader that holds the segment's bytes.

        A segment is a run of consecutive events that are read and scanned at once. ``subjects`` is the register that
        numbers the set's tables and statements. ``sources`` is the register that numbers its GTID sources (server
        UUIDs, or MariaDB's domain and server ids). The scan adds new ones to these registers. ``verify`` tells whether
        checksums are verified. Raises BinlogError where the set is damaged.
        """
        for reader in self.readers(subjects, sources, verify=verify):
            while (segment := reader.next()) is not None:
                yield reader, segment

    def readers(
        self, subjects: Subjects, sources: SourceNumbers, *, verify: bool = True
    ) -> Iterator[SegmentReader]:
        """Yield a reader for each binlog file of the set in order. The caller reads all events of a file, by
        :meth:`SegmentReader.next`, before the next file.

        ``subjects`` is the register that numbers the set's tables and statements. ``sources`` is the register that
        numbers its GTID sources (server UUIDs, or MariaDB's domain and server ids). ``verify`` tells whether checksums
        are verified.

        Raises BinlogError where the set is damaged, also when a file ends inside a transaction and no server is writing
        it.
        """
        names = self.names
        prepared = NONE_PREPARED
        for name in names:
            with self.file(name) as file:
                reader = SegmentReader(file, subjects, sources, verify=verify, prepared=prepared)
                yield reader
                prepared = reader.prepared
                reader.check_end(last=name == names[-1])


def identity_of(status: os.stat_result) -> FileIdentity:
    """Return the device and the inode of a file, given the result of ``os.stat``."""
    return status.st_dev, status.st_ino


def _mode(path: Path) -> int:
    """Return the mode (``st_mode``) of a file, or 0 if no file has this path. Raises OSError when the system cannot
    look it up.

    :meth:`pathlib.Path.exists` hides such an error from Python 3.14 on.
    """
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _is_gone(path: Path) -> bool:
    """Tell whether the path certainly names no file. The result is False if the system cannot look the path up, for
    example without a permission for the directory.
    """
    try:
        path.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        pass
    return False


def _local(path: Path | str) -> Path:
    """Return the path of a file on this machine. Raises OptionError for the URI of a remote file."""
    if isinstance(path, str):
        raise not_here(path)
    return path


def _not_there(path: Path) -> BinlogMissing:
    return BinlogMissing(
        "the index names this file, but it is not there; copy it from the server, or remove its line",
        file=str(path),
    )


def _order(name: str) -> tuple[int, str]:
    """Return a key that sorts the names of a server's binlog files in the order in which the server wrote them.

    >>> _order("bin.999999") < _order("bin.1000000")
    True
    """
    return len(name), name


def _is_next(following: str, name: str) -> bool:
    """Tell whether a server writes the binlog file ``following`` directly after the file ``name``, as their numbers
    say.

    >>> _is_next("bin.1000000", "bin.999999"), _is_next("bin.000003", "bin.000001")
    (True, False)
    """
    (base, _, number), (other, _, before) = following.rpartition("."), name.rpartition(".")
    is_numbered = number.isdecimal() and before.isdecimal()
    return base == other and is_numbered and int(number) == int(before) + 1


def gtid_index_of(binlog: Path) -> Path:
    """Return the path of a binlog's GTID index, which MariaDB 11.4 and later keep beside the binlog.

    >>> gtid_index_of(Path("/data/bin.000001")).name
    'bin.000001.idx'
    """
    return binlog.with_name(f"{binlog.name}.idx")


def kept_beside(name: str, others: Collection[str]) -> bool:
    """Tell whether ``name`` is not a binlog but a file that a server keeps beside the binlogs ``others``.

    Such files are a binlog's GTID index, the index file of the set and, in MariaDB, its state file.

    >>> [kept_beside(name, ["bin.000001"]) for name in ("bin.000001.idx", "bin.index", "bin.state", "bin.000002")]
    [True, True, True, False]
    """
    stem, _, ending = name.rpartition(".")
    if ending == "idx":
        return stem in others
    if ending not in ("index", "state"):
        return False
    return any(base == stem and number.isdigit() for base, _, number in (n.rpartition(".") for n in others))


def find_index(directory: Path) -> Path:
    """Return the path of the only index file in a directory.

    Raises BinlogMissing when the directory has no index file or several ones, and BinlogUnreadable when the directory
    cannot be read.
    """
    try:
        # A glob takes a directory without permissions for an empty one.
        found = sorted(path.name for path in directory.iterdir() if path.suffix == ".index")
    except OSError as error:
        raise BinlogUnreadable(str(error.strerror), file=str(directory)) from None
    return directory / only_index(found, str(directory))


def ends_with_rotation(segment: Segment) -> bool:
    """Tell whether the last event of a segment (a part of a binlog file) is a Rotate or Stop event, with which a server
    closes a binlog file.
    """
    return int(segment.type[-1]) in _LAST_OF_FILE


_IN_TRANSACTIONS = GTIDS | {EventType.QUERY}


class GtidsBefore(NamedTuple):
    """The GTIDs of all transactions before a binlog file, as the events at the beginning of the file list them."""

    logged: GtidSet | None
    """The GTIDs that the server had logged before the file, from the Previous_gtids or Gtid_list event. None if the
    file has no such event.
    """
    received: GtidSet | None
    """The GTIDs that a slave had received before this file of its relay log. None if the file's head event, which
    dumpfilter writes, lists none, and for a server's own binlog.
    """
    listed: tuple[MariadbGtid, ...] = ()
    """The last GTID of each domain and server before the file (MariaDB), within a domain in the order in which the
    GTIDs were logged. Empty for MySQL.
    """

    @property
    def all(self) -> GtidSet | None:
        """The GTIDs that the server had logged before the file, and the GTIDs that a slave had received before this
        file of its relay log. None if the file lists neither.
        """
        if self.logged is None or self.received is None:
            return self.received if self.logged is None else self.logged
        return self.logged | self.received


def gtids_before(file: BinlogFile) -> GtidsBefore:
    """Return the GTIDs before a binlog file, from the events at the file's beginning. Raises BinlogError if these
    events are malformed or cannot be read.

    The Previous_gtids or Gtid_list event stands before any transaction. Servers before MySQL 5.6 and MariaDB 10.0 write
    no such event. A relay log file whose slave had received nothing before may lack the event, too.
    """
    fd, offset = file.format_description, file.begin.end
    text = file.begin.origin.get("retrieved")
    try:
        received = parse_gtid_set(text, fd.family) if isinstance(text, str) and text else None
    except GtidError as error:
        what = f"the head event of a relay log is malformed: {error}"
        raise BinlogCorrupt(what, file=file.name) from None
    listed = received.gtids() if isinstance(received, MariadbGtidSet) else ()
    for _ in range(4):
        head = file.read_up_to(offset, HEADER_LENGTH)
        if len(head) < HEADER_LENGTH:
            break
        header = EventHeader.unpack(head)
        if header.type in _IN_TRANSACTIONS or offset + header.size > file.size:
            break
        body = fd.body(file.read_event(offset))
        try:
            if header.type == EventType.PREVIOUS_GTIDS:
                return GtidsBefore(decode_previous_gtids(body), received, listed)
            if header.type == EventType.GTID_LIST:
                found = decode_gtid_list(body)
                return GtidsBefore(found.position(), received, (*listed, *found.gtids))
        except BinlogError as error:
            raise error.located(file.name, offset) from None
        offset += header.size
    return GtidsBefore(None, received, listed)


def add_transactions(gtids: GtidSet, segment: Segment, sources: SourceNumbers) -> None:
    """Add the GTIDs of all transactions that end in a scanned segment (part of a binlog file) to the set ``gtids``.

    The segment has numbers for GTID sources (server UUIDs, or MariaDB's domain and server ids), and ``sources`` maps
    these numbers to the sources. In a relay log, the transactions that the slave's master dropped are added, too.
    """
    source, numbers = segment.txn_source[: segment.ended], segment.txn_number[: segment.ended]
    for number in np.unique(source[source >= 0]).tolist():
        gtids.add_many(sources.key(number), numbers[source == number])
    for _, number, first, last, _, _ in segment.dropped.tolist():
        gtids.add_range(sources.key(number), first, last)


def gtids_through(file: BinlogFile) -> GtidSet | None:
    """Return the GTIDs of all transactions before the end of a binlog file, read from the whole file. None if the
    file's first events do not list the GTIDs before the file. Raises BinlogError if the file is damaged or cannot be
    read.
    """
    found, sources = gtids_before(file).all, SourceNumbers()
    if found is not None:
        reader = SegmentReader(file, Subjects(), sources)
        while (segment := reader.next()) is not None:
            add_transactions(found, segment, sources)
    return found

"""The reading of binlog and relay log files: the system calls, the events of a file, and the decoding of any event.

Every part of dumpfilter that reads a binlog uses the system calls of this module. An error of the operating system
becomes an error that names the file, the byte offset and the remedy. A short read is continued.

:func:`iter_events` makes one object of each event, for the applier, the inspection of files and the tests. The dump
thread uses the faster :mod:`dumpfilter.index.scanner`.
"""

from __future__ import annotations

import errno
import functools
import importlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from dumpfilter.base.errors import (
    BinlogCorrupt,
    BinlogError,
    BinlogMissing,
    BinlogTruncated,
    BinlogUnreadable,
)
from dumpfilter.binlog.events import (
    CHECKSUM_LENGTH,
    GTIDS,
    HEADER_LENGTH,
    MAX_EVENT,
    STATEMENTS,
    EventHeader,
    EventType,
    Symbol,
    event_name,
    is_sound,
)
from dumpfilter.binlog.format import FormatDescription, check_magic
from dumpfilter.binlog.gtid_events import decode_gtid
from dumpfilter.binlog.query import decode_statement_event

_MOMENTARY = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.EINTR,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENOMEM,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)
"""The error numbers of failures that may pass by themselves: lack of resources, or changes on a network file system."""

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
"""The error numbers that mean that no file has this path."""

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading, without a buffer.

    Raises BinlogMissing when the path names no regular file, or when its permissions forbid reading. Raises
    BinlogUnreadable for any other error of the operating system.
    """
    name = str(path)
    if "\0" in name:
        raise BinlogMissing(
            "a NUL byte is in the file's name; correct the name", file=name.replace("\0", "\\0")
        )
    try:
        # Without O_NONBLOCK, the call would wait for ever for a writer when the path leads to a pipe.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise BinlogMissing("no such file", file=name) from None
        if error.errno in _ABSENT:
            raise BinlogMissing(f"no such file: {error.strerror}", file=name) from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise BinlogMissing(
                f"cannot be opened: {error.strerror}; give this user the permission to read the file",
                file=name,
            ) from None
        raise unreadable(error, file=name, doing="opened") from None
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        kind = next((kind for is_kind, kind in _KINDS if is_kind(mode)), "no regular file")
        raise BinlogMissing(f"is {kind}, not a file; name a binlog file", file=name)
    return open(handle, "rb", buffering=0)


def read_up_to(handle: int, offset: int, length: int, *, file: str) -> bytes:
    """Return ``length`` bytes of a file from the byte offset ``offset`` on, or fewer at the file's end.

    ``handle`` is a file descriptor. ``file`` is the file's name for errors. Raises BinlogUnreadable for an error of the
    operating system.
    """
    try:
        data = os.pread(handle, length, offset)
        if len(data) == length or not data:
            return data
        pieces = [data]
        done = len(data)
        while done < length and (data := os.pread(handle, length - done, offset + done)):
            pieces.append(data)
            done += len(data)
    except OSError as error:
        raise unreadable(error, file=file, position=offset) from None
    return b"".join(pieces)


def read_into(handle: int, view: memoryview, offset: int, *, file: str) -> int:
    """Fill ``view`` with the file's bytes from the byte offset ``offset`` on. Return the number of bytes read, which
    is less than the length of ``view`` only at the file's end.

    ``handle`` is a file descriptor. ``file`` is the file's name for errors. Raises BinlogUnreadable for an error of the
    operating system.
    """
    done = 0
    try:
        while done < len(view) and (got := os.preadv(handle, [view[done:]], offset + done)):
            done += got
    except OSError as error:
        raise unreadable(error, file=file, position=offset + done) from None
    return done


def check_whole(got: int, wanted: int, offset: int, *, file: str) -> None:
    """Raise BinlogTruncated if a read returned fewer bytes than the file must have (``got`` < ``wanted``).

    The bytes must have been in the file before, so that the file was truncated if any are missing. ``offset`` is the
    byte offset of the read, and ``file`` the file's name for errors.
    """
    if got < wanted:
        raise BinlogTruncated(
            f"the file was truncated: it has {got} of the {wanted} bytes from here on that it had before; "
            "copy it again from the server",
            file=file,
            position=offset,
        )


def unreadable(
    error: OSError, *, file: str, position: int | None = None, doing: str = "read"
) -> BinlogUnreadable:
    """Return the BinlogUnreadable error for an error that the operating system reports when a file is opened or read.

    ``file`` and ``position`` say where. ``doing`` completes the sentence "the file cannot be …". The error's attribute
    ``momentary`` is true if a later attempt may succeed.
    """
    momentary = error.errno in _MOMENTARY
    cure = "try again" if momentary else "check the disk, or copy the file again from the server"
    return BinlogUnreadable(
        f"cannot be {doing}: {error.strerror or error}; {cure}",
        file=file,
        position=position,
        momentary=momentary,
    )


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

    ``source`` is a binary file opened at its start, and ``file`` is its name for errors. Raises BinlogTruncated for a
    file that ends too early, and BinlogUnreadable for an error of the operating system. Raises BinlogUnsupported for an
    encrypted or too old binlog, and BinlogCorrupt for any other file that is no binlog.
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

    The format description event comes first when ``start`` is 4, and is left out for a larger ``start``. With ``end``
    None the reading goes on to the end of the file.

    ``source`` is a seekable binary file, and ``file`` is its name for errors. With ``verify`` a wrong checksum is
    BinlogCorrupt; otherwise only the checksum of the format description event is checked.

    Raises BinlogCorrupt, BinlogTruncated, BinlogUnreadable or BinlogUnsupported with file and position. An incomplete
    event at the end is BinlogTruncated.
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
    """Read ``length`` bytes from the current position, or fewer at the end of the file.

    ``offset`` and ``file`` name the position in errors. A source without a buffer may return fewer bytes than the file
    has, so the function reads on.
    """
    try:
        data = source.read(length)
        while len(data) < length and (more := source.read(length - len(data))):
            data += more
    except OSError as error:
        raise unreadable(error, file=file, position=offset) from None
    return data


def decode_event(event: Event) -> Any:
    """Decode an event's body and return its content, such as a QueryEvent, a TableMap, or an int for an Xid event.

    The result is None for an event type without a decoder. Raises BinlogCorrupt or BinlogUnsupported, without file and
    position, when the event is malformed.
    """
    try:
        kind = EventType(event.type)
    except ValueError:
        return None
    if (decode := decoder(kind)) is None:
        return None
    body, fd, symbol = event.body, event.fd, kind.kind.symbol
    if symbol == Symbol.FORMAT_DESCRIPTION:
        return fd
    if symbol == Symbol.ROWS:
        return decode(kind, body)
    if kind in STATEMENTS:
        return decode_statement_event(kind, body, fd)
    if kind in GTIDS:
        return decode_gtid(event.header, body)
    return decode(body)


@functools.cache
def decoder(kind: EventType) -> Callable[..., Any] | None:
    """Return the function that decodes the body of an event type; None for a type without a decoder.

    >>> decoder(EventType.XID).__name__, decoder(EventType.VIEW_CHANGE)
    ('decode_xid', None)
    """
    if not kind.kind.decoder:
        return None
    module, _, path = kind.kind.decoder.partition(".")
    found: Any = importlib.import_module(f"dumpfilter.binlog.{module}")
    for name in path.split("."):
        found = getattr(found, name)
    return found  # type: ignore[no-any-return]

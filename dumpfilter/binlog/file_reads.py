"""The system calls that open and read binlog files, with typed errors.

Every part of dumpfilter that reads a binlog uses these functions. An error of the operating system becomes an error
that names the file, the byte offset and the remedy. A short read is continued.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from dumpfilter.base.errors import BinlogMissing, BinlogTruncated, BinlogUnreadable

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
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            kind = next((kind for is_kind, kind in _KINDS if is_kind(mode)), "no regular file")
            raise BinlogMissing(f"is {kind}, not a file; name a binlog file", file=name)
        return open(handle, "rb", buffering=0)
    except OSError as error:
        os.close(handle)
        raise unreadable(error, file=name, doing="opened") from None
    except BaseException:
        os.close(handle)
        raise


def read_up_to(handle: int, offset: int, length: int, *, file: str) -> bytes:
    """Return ``length`` bytes of a file from the byte offset ``offset`` on, or fewer at the file's end.

    ``handle`` is a file descriptor. ``file`` is the file's name for errors. Raises BinlogUnreadable.
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

    ``handle`` is a file descriptor. ``file`` is the file's name for errors. Raises BinlogUnreadable.
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

    ``offset`` is the byte offset of the read, and ``file`` the file's name for errors.
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

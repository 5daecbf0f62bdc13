"""The index file of a binlog set: a text file that names the set's binlog files, one on each line."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Collection
from pathlib import Path

from dumpfilter.base.errors import BinlogCorrupt, BinlogMissing, OutputError
from dumpfilter.base.files import committed, writing
from dumpfilter.binlog.file_reads import open_regular, read_up_to

MAX_INDEX = 16 << 20
"""The largest index file that is read, bytes. This suffices for more than 100,000 names, even with long directories."""

MAX_NAME = 4096
"""The longest line of an index file that is accepted, bytes. Linux has no longer paths, and servers write at most 512
bytes.
"""


INDEX_CHANGES = threading.Lock()
"""The lock that a thread of this process holds while it changes an index file: a purge, and a receiver that begins a
file.
"""


def read_index(index: Path) -> list[str]:
    """Return the lines of an index file without white space around them.

    The last element is the text after the last line end: the empty text, or a line that a server is still writing.
    Raises BinlogMissing, BinlogUnreadable, or BinlogCorrupt for an index file that no server writes.
    """
    try:
        source = open_regular(index)
    except BinlogMissing as error:
        raise BinlogMissing(f"cannot read the index: {error.what}", file=error.file) from None
    with source:
        data = read_up_to(source.fileno(), 0, MAX_INDEX + 1, file=str(index))
        if len(data) > MAX_INDEX:
            size = os.fstat(source.fileno()).st_size
            raise BinlogCorrupt(
                f"the index has {size} bytes, more than the limit of {MAX_INDEX}; name the right file, "
                "or purge old binlogs on the server",
                file=str(index),
            )
    return parse_index(data, file=str(index))


def take_out(index: Path, names: Collection[str]) -> None:
    """Remove the lines of the binlog files ``names`` from an index file. The file keeps its owner and mode.

    The change is atomic: after a crash the index file is either the old or the new one. Raises OutputError, also when a
    server changes the index file at the same time.
    """
    with writing(index):
        old = index.read_bytes()
        before = index.stat()
    lines = old.splitlines(keepends=True)
    left = [line for line in lines if _name(line) not in names]
    if left == lines:
        return
    with committed(index, beside=index.with_name(f"{index.name}.purge")) as file:
        file.write(b"".join(left))
        os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
        if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(file.fileno(), before.st_uid, before.st_gid)
        if index.read_bytes() != old:
            raise OutputError(f"{index}: a server is writing this set: its index has just changed")


def _name(line: bytes) -> str:
    return line.strip().rpartition(b"/")[2].decode("utf-8", "surrogateescape")


def parse_index(data: bytes, *, file: str) -> list[str]:
    r"""Return the lines of an index file's content without white space around them. ``file`` is the file's name for
    errors.

    The last element is the text after the last line end: the empty text, or a line that a server is still writing.
    Raises BinlogCorrupt for content that no server writes.

    >>> parse_index(b"./bin.000001\n./bin.00", file="bin.index")
    ['./bin.000001', './bin.00']
    """
    lines = data.split(b"\n")
    if b"\0" in data or max(map(len, lines)) > MAX_NAME:
        for number, line in enumerate(lines, 1):
            if b"\0" in line:
                raise BinlogCorrupt(f"line {number} of the index has a NUL byte; {_CURE}", file=file)
            if len(line) > MAX_NAME:
                raise BinlogCorrupt(
                    f"line {number} of the index has {len(line)} bytes, more than any path; {_CURE}",
                    file=file,
                )
    return [line.decode("utf-8", "surrogateescape").strip() for line in lines]


_CURE = "copy the index again from the server, or correct the line"

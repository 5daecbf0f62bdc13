"""The versions of the files of a binlog set, by which a later run knows that a file has not changed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from dumpfilter.errors import BinlogError
from dumpfilter.index.fileset import open_file

PROBE = 16 << 10
"""The number of bytes at the beginning and at the end of a file that go into its digest. The beginning has the time at
which the server made the file, and the end has the last transactions."""


@dataclass(frozen=True)
class FileVersion:
    """The facts about a file that change when somebody writes to it. Two equal versions have the same content."""

    path: str
    size: int
    modified: int
    """The time of the last write, nanoseconds since 1970; 0 if the file system does not tell the time."""
    digest: str
    """A digest of the first and the last bytes of the file."""


def versions_of(paths: Sequence[str]) -> tuple[FileVersion | None, ...]:
    """Return the versions of these files, which are paths or URIs.

    The version of a file that cannot be opened is None.
    """
    return tuple(map(_version, paths))


def _version(path: str) -> FileVersion | None:
    digest = hashlib.blake2b(digest_size=16)
    try:
        with open_file(path) as file:
            modified, size = file.modified, file.size
            digest.update(file.read_up_to(0, min(PROBE, size)))
            digest.update(file.read_up_to(max(0, size - PROBE), min(PROBE, size)))
    except BinlogError:
        # The job opens the file again, and tells the user what is wrong.
        return None
    return FileVersion(path, size, modified, digest.hexdigest())

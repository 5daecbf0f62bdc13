"""The distance between a slave's dump and the end of the master's binlog, in bytes and in seconds."""

from __future__ import annotations

import os
from collections.abc import Iterable

from dumpfilter.binlog.event_time import first_time
from dumpfilter.binlog.events import MAGIC
from dumpfilter.binlog.file_reads import open_regular, read_up_to, unreadable
from dumpfilter.errors import BinlogError
from dumpfilter.index.fileset import BinlogSet

Place = tuple[str, int]
"""A binlog file and a position in it."""


class BinlogEnd:
    """The files of a binlog set with their sizes at one moment, from which the lag of any slave follows.

    Slaves at one place share the look at the file. Each look is one read of some bytes.
    """

    def __init__(self, binlogs: BinlogSet, now: float) -> None:
        self._binlogs = binlogs
        self._now = now
        self._sizes = {name: _size(binlogs, name) for name in binlogs.names}
        self._after: dict[str, int] = {}
        """The bytes of all later files, by file."""
        later = 0
        for name in reversed(self._sizes):
            self._after[name] = later
            later += self._sizes[name]
        self.bytes = later
        """The size of all files together, bytes."""
        self._seconds: dict[Place, float | None] = {}

    @property
    def files(self) -> int:
        """The number of files in the set."""
        return len(self._sizes)

    def lag_bytes(self, place: Place) -> int | None:
        """Return the bytes of the binlog after a place. None if the set no longer has the file."""
        file, position = place
        if file not in self._sizes:
            return None
        return max(0, self._sizes[file] - position) + self._after[file]

    def lag_seconds(self, place: Place) -> float | None:
        """Return the time since the server wrote the first event after a place, or 0 if there is no such event.

        Return None if the file is gone or cannot be read.
        """
        if place not in self._seconds:
            self._seconds[place] = self._lag_seconds(*place)
        return self._seconds[place]

    def _lag_seconds(self, file: str, position: int) -> float | None:
        if file not in self._sizes:
            return None
        try:
            for name in self._from(file):
                written = self._first_time(name, position)
                if written is not None:
                    return max(0.0, self._now - written)
                position = len(MAGIC)
        except BinlogError:
            return None
        return 0.0

    def _from(self, file: str) -> Iterable[str]:
        names = list(self._sizes)
        return names[names.index(file) :]

    def _first_time(self, name: str, position: int) -> int | None:
        if position >= self._sizes[name]:
            return None
        path = self._binlogs.path(name)
        # The store keeps the files that it opens. A scrape must not add the files of slaves that are long gone.
        with open_regular(path) as file:
            return first_time(
                lambda offset, length: read_up_to(file.fileno(), offset, length, file=name),
                position,
                self._sizes[name],
            )


def modified(binlogs: BinlogSet) -> float:
    """Return the Unix time of the last write to the newest file, seconds. Raises BinlogError if it is missing."""
    path = binlogs.path(binlogs.names[-1])
    try:
        return path.stat().st_mtime
    except OSError as error:
        raise unreadable(error, file=path.name, doing="found") from None


def _size(binlogs: BinlogSet, name: str) -> int:
    try:
        return os.stat(binlogs.path(name)).st_size
    except (OSError, BinlogError):
        # The index file names a file that is missing. A dump that reaches the file reports it.
        return 0

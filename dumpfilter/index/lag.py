"""The lag of a reader of a binlog set or relay log behind the end of the log, in bytes and in seconds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

from dumpfilter.base.errors import BinlogError
from dumpfilter.base.options.values import FIRST_EVENT

Place = tuple[str, int]
"""A binlog position: the name of a file, and a byte offset in it."""


class BinlogEnd:
    """The end of a binlog set at one moment, from which the lag of any reader (such as a slave) is computed.

    ``paths`` maps the names of the set's files to their paths, oldest first. ``now`` is the present time, Unix seconds.
    ``end`` is the position (file name and byte offset) up to which readers may read. None: the end of the newest file.
    The lag in seconds needs a read of the file, whose result is cached for all readers at one position.
    """

    def __init__(self, paths: Mapping[str, Path], now: float, end: Place | None = None) -> None:
        self._paths = paths
        self._now = now
        self._sizes = {name: _size(path) for name, path in paths.items()}
        self.bytes = sum(self._sizes.values())
        """The size of all files together, bytes, whatever the position ``end``."""
        if end is not None and end[0] in self._sizes:
            before = itertools.takewhile(lambda name: name != end[0], paths)
            self._sizes = {**{name: self._sizes[name] for name in before}, end[0]: end[1]}
        self._after: dict[str, int] = {}
        """The total size of all later files, by file name."""
        later = 0
        for name in reversed(self._sizes):
            self._after[name] = later
            later += self._sizes[name]
        self._seconds: dict[Place, float | None] = {}

    @property
    def files(self) -> int:
        """The number of files in the binlog set."""
        return len(self._paths)

    def lag_bytes(self, place: Place) -> int | None:
        """Return the number of bytes that a reader at the position ``place`` (file name and byte offset) still has to
        read, up to the end of the binlog set. None if the set no longer has the file.
        """
        file, position = place
        if file not in self._sizes:
            return None
        return max(0, self._sizes[file] - position) + self._after[file]

    def lag_seconds(self, place: Place) -> float | None:
        """Return the age, in seconds since its timestamp, of the first event that a reader at the position ``place``
        has not read. Events without a timestamp are skipped.

        ``place`` is a file name and a byte offset. The result is 0 if there is no such event, and None if the set no
        longer has the file or the file cannot be read.
        """
        if place not in self._seconds:
            self._seconds[place] = self._lag_seconds(*place)
        return self._seconds[place]

    def _lag_seconds(self, file: str, position: int) -> float | None:
        if file not in self._sizes:
            return None
        try:
            for name in itertools.dropwhile(lambda name: name != file, self._sizes):
                written = self._first_time(name, position)
                if written is not None:
                    return max(0.0, self._now - written)
                position = FIRST_EVENT
        except BinlogError:
            return None
        return 0.0

    def _first_time(self, name: str, position: int) -> int | None:
        if position >= self._sizes[name]:
            return None
        # The status of a slave that is up to date reads no events, and need not import numpy.
        from dumpfilter.binlog.gtid_events import first_time
        from dumpfilter.binlog.reader import open_regular, read_up_to

        # The store keeps the files that it opens. A scrape must not add the files of slaves that are long gone.
        with open_regular(self._paths[name]) as file:
            return first_time(
                lambda offset, length: read_up_to(file.fileno(), offset, length, file=name),
                position,
                self._sizes[name],
            )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        # The index file names a file that is missing, or it was removed meanwhile. A reader of the file reports it.
        return 0

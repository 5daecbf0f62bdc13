"""The writer's file and positions in a relay log file. Replicas and slaves are told them, not the relay log's."""

from __future__ import annotations

import bisect
import threading
from typing import TYPE_CHECKING, NamedTuple

from dumpfilter.binlog.context_events import decode_rotate
from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader
from dumpfilter.errors import BinlogError
from dumpfilter.packets.relay import RelayPoint, follow

if TYPE_CHECKING:
    from dumpfilter.index.fileset import BinlogFile


_MOST_POINTS = 4096
"""The most points that one file remembers. Between two points a search walks through the events."""


class WriterPosition(NamedTuple):
    """A position in a binlog file of the writer, the server that wrote the binlog of the slave's master."""

    file: str
    """The base name of the writer's binlog file."""
    position: int


class RelayTrack:
    """The facts that are known of the writer along one relay log file. Thread-safe.

    A slave begins a relay log file for each binlog file of its master. The first event of the relay log file names the
    master's file, and the position from which the slave received it.
    """

    def __init__(self, file: BinlogFile) -> None:
        self._file = file
        fd = file.format_description
        self._checksum = fd.checksum
        header = EventHeader.unpack(file.read(file.first_event, HEADER_LENGTH))
        rotate = decode_rotate(fd.body(file.read(file.first_event, header.size)))
        self.begin = WriterPosition(rotate.name, rotate.position)
        """The place in the writer's binlog at which the relay log file begins."""
        self._points = [RelayPoint(file.first_event, 0, rotate.position, fd.header.timestamp)]
        self._lock = threading.Lock()

    @property
    def is_whole(self) -> bool:
        """Whether the relay log file begins with the first event of the writer's file."""
        return self.begin.position <= self._file.first_event

    def at(self, offset: int) -> RelayPoint:
        """Return what is known of the writer at an offset at which an event begins. Raises BinlogError."""
        with self._lock:
            number = bisect.bisect_right(self._points, offset, key=lambda point: point.offset)
            point = self._points[number - 1]
        if point.offset == offset:
            return point
        try:
            point = follow(self._file.read, point, offset, checksum=self._checksum)
        except BinlogError as error:
            raise error.located(self._file.name) from error
        self.note(point)
        return point

    def note(self, point: RelayPoint) -> None:
        """Remember a point, so that a later search begins there."""
        with self._lock:
            number = bisect.bisect_left(self._points, point.offset, key=lambda known: known.offset)
            if number == len(self._points) or self._points[number].offset != point.offset:
                self._points.insert(number, point)
                if len(self._points) > _MOST_POINTS:
                    del self._points[1:-1:2]

    def position_at(self, offset: int) -> WriterPosition:
        """Return the writer's position at an offset of the relay log file. Raises BinlogError."""
        return WriterPosition(self.begin.file, self.at(offset).end)

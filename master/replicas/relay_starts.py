"""The place in a slave's relay log at which the dump for a MariaDB replica begins, from a place in the writer's binlog.

The writer is the server that wrote the binlog of the slave's master. A replica of a slave knows the writer's files and
positions only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader
from dumpfilter.errors import BinlogUnreadable, PositionError
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.store import BinlogStore
from dumpfilter.packets.relay import follow, writer_places


class RelayStart(NamedTuple):
    """A place in a relay log."""

    file: str
    boundary: int
    """The position between two transactions, bytes."""
    wanted: int
    """The position behind the last event that the replica has. It lies inside the transaction after the boundary."""


def relay_start(file: str, position: int, store: BinlogStore) -> RelayStart:
    """Return the place in a relay log that belongs to a place in the writer's binlog.

    An empty ``file`` stands for the first one. Of several relay log files for one file of the writer the newest that
    begins before the position counts. Raises PositionError for a place that the slave has not received, and
    BinlogUnreadable (momentary) for one that the slave will receive.
    """
    names = store.binlogs.names
    if not file:
        first = store.first_position(names[0])
        return RelayStart(names[0], first, first)
    indexed = _holding(file, position, store)
    found = _transaction_at(indexed, position, store)
    if found is not None:
        begin, before = found
        wanted = begin if position <= before else _behind(indexed, begin, position)
        return RelayStart(indexed.name, begin, wanted)
    size = indexed.file.size
    if store.file_after(indexed.name) is None and position > indexed.track.at(size).end:
        raise BinlogUnreadable(
            "the slave has not received its master's binlog up to here yet; connect again",
            file=file,
            position=position,
            momentary=True,
        )
    return RelayStart(indexed.name, size, size)


def _holding(file: str, position: int, store: BinlogStore) -> IndexedFile:
    """Return the newest relay log file for a file of the writer that begins at a position or before."""
    known = []
    for name in reversed(store.binlogs.names):
        indexed = store.open_file(name)
        begin = indexed.track.begin
        if begin.file == file and (begin.position <= position or indexed.track.is_whole):
            return indexed
        known.append(f"{begin.file} from {begin.position} on")
    raise PositionError(
        f"the slave's relay log does not have this place of its master's binlog; it has {', '.join(reversed(known))}. "
        "Use CHANGE MASTER TO MASTER_USE_GTID=slave_pos, or seed the replica from a backup",
        file=file,
        position=position,
    )


def _transaction_at(indexed: IndexedFile, position: int, store: BinlogStore) -> tuple[int, int] | None:
    """Return the first transaction or Gap event that ends behind a position of the writer, or None without one.

    The result is its begin in the relay log, and the writer's position there.
    """
    track = indexed.track
    at = indexed.file.first_event
    begun: tuple[int, int] | None = None
    while (segment := store.segment_of(indexed, at)) is not None:
        places, after = writer_places(segment, indexed.read, track.at(segment.start))
        track.note(after)
        starts = segment.offset[segment.txn_event[:-1]]
        number = int(np.searchsorted(places.end, position, side="right"))
        if number < len(starts):
            is_first = number == 0 and segment.continues
            return begun if is_first else (int(starts[number]), int(places.before[number]))
        if segment.open and not (segment.continues and len(starts) == 1):
            begun = int(starts[-1]), int(places.before[-1])
        at = segment.end
    return None


def _behind(indexed: IndexedFile, begin: int, position: int) -> int:
    """Return the position in the relay log behind the last event that ends at a position of the writer or before."""
    checksum = indexed.file.format_description.checksum
    point = indexed.track.at(begin)
    while True:
        size = EventHeader.unpack(indexed.read(point.offset, HEADER_LENGTH)).size
        following = follow(indexed.read, point, point.offset + size, checksum=checksum)
        if following.end > position:
            return point.offset
        point = following

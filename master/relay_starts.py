"""The place in a slave's relay log at which a dump begins, from a place in the writer's binlog.

The writer is the server that wrote the binlog of the slave's master. The slaves and replicas of a slave know the
writer's files and positions only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.binlog.events import GTIDS, HEADER_LENGTH, EventHeader
from dumpfilter.errors import BinlogUnreadable, PositionError
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.store import BinlogStore
from dumpfilter.packets.relay import writer_places

_FARTHEST = 1 << 31
"""The distance from which on a position of 32 bits lies before another one."""

_UNKNOWN_END = -1
"""The position behind a transaction of which the relay log does not have the end yet."""


class RelayStart(NamedTuple):
    """A place in a relay log."""

    file: str
    boundary: int
    """The position between two transactions, bytes."""
    begun: int
    """The writer's position at the boundary."""
    end: int = 0
    """The writer's position behind the transaction of which the replica has a part; 0 if the replica has none.

    It is negative for a transaction that the slave is still receiving.
    """


def relay_start(file: str, position: int, store: BinlogStore, *, has_earlier: bool = False) -> RelayStart:
    """Return the place in a relay log that belongs to a place in the writer's binlog.

    An empty ``file`` stands for the first one. Of several relay log files for one file of the writer the newest that
    begins before the position counts. ``has_earlier`` says that the reader has the transactions which the slave had
    before it asked its master by GTID, and which the relay log therefore lacks. Raises PositionError for a place that
    the slave has not received, and BinlogUnreadable (momentary) for one that the slave will receive.
    """
    names = store.binlogs.names
    if not file:
        first = store.first_position(names[0])
        return RelayStart(names[0], first, position)
    indexed = _holding(file, position, store)
    found = _transaction_at(indexed, position, store)
    if found is not None:
        boundary, begun, end = found
        begin = _begin(indexed, boundary, begun)
        if begun <= position < begin:
            if has_earlier:
                return RelayStart(indexed.name, boundary, position)
            raise _missing(file, position, f"it has nothing from {begun} to {begin}")
        begun = max(begun, begin)
        return RelayStart(indexed.name, boundary, begun, end if begun < position else 0)
    size = indexed.file.size
    if store.file_after(indexed.name) is None and position > indexed.track.at(size).end:
        raise _not_received(file, position)
    return RelayStart(indexed.name, size, position)


def _holding(file: str, position: int, store: BinlogStore) -> IndexedFile:
    """Return the newest relay log file for a file of the writer that begins at a position or before."""
    known = []
    newest = store.open_file(store.binlogs.names[-1]).track.begin.file
    if _is_later(file, newest):
        raise _not_received(file, position)
    for name in reversed(store.binlogs.names):
        indexed = store.open_file(name)
        begin = indexed.track.begin
        if begin.file == file and (begin.position <= position or indexed.track.is_whole):
            return indexed
        known.append(f"{begin.file} from {begin.position} on")
    raise _missing(file, position, f"it has {', '.join(reversed(known))}")


def _missing(file: str, position: int, what: str) -> PositionError:
    return PositionError(
        f"the slave's relay log does not have this place of its master's binlog; {what}. "
        "Replicate by GTID, or seed the replica from a backup",
        file=file,
        position=position,
    )


def _begin(indexed: IndexedFile, boundary: int, before: int) -> int:
    """Return the writer's position at which a transaction of the relay log begins, if its Gtid event tells it.

    It lies behind ``before``, the position after the event before, where the slave had the transactions in between
    already when it asked its master by GTID. The relay log does not have them.
    """
    header = EventHeader.unpack(indexed.read(boundary, HEADER_LENGTH))
    if header.type not in GTIDS or not header.end_log_pos:
        return before
    distance = (header.end_log_pos - header.size - before) & 0xFFFFFFFF
    return before + distance if distance < _FARTHEST else before


def _not_received(file: str, position: int) -> BinlogUnreadable:
    return BinlogUnreadable(
        "the slave has not received its master's binlog up to here yet; connect again",
        file=file,
        position=position,
        momentary=True,
    )


def _is_later(file: str, newest: str) -> bool:
    """Tell whether a file of the writer comes after the newest one that the slave has received."""
    base, _, number = file.rpartition(".")
    newest_base, _, newest_number = newest.rpartition(".")
    if base != newest_base or not (number.isdecimal() and newest_number.isdecimal()):
        return False
    return int(number) > int(newest_number)


def _transaction_at(indexed: IndexedFile, position: int, store: BinlogStore) -> tuple[int, int, int] | None:
    """Return the first transaction or Gap event that ends behind a position of the writer, or None without one.

    The result is its begin in the relay log, and the writer's positions before and behind it.
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
            if number or not segment.continues:
                begun = int(starts[number]), int(places.before[number])
            assert begun is not None, "a segment that continues a transaction has one before"
            is_open = segment.open and number == len(starts) - 1
            return (*begun, _UNKNOWN_END if is_open else int(places.end[number]))
        if not segment.open:
            begun = None
        elif not (segment.continues and len(starts) == 1):
            begun = int(starts[-1]), int(places.before[-1])
        at = segment.end
    if begun is None or position > track.at(at).end:
        return None
    # The slave is still receiving the transaction, and the replica has everything of it up to here.
    return (*begun, _UNKNOWN_END)

"""The place in a binlog set that belongs to a file and position of the writer.

The writer is the server that wrote the events. Slaves and replicas know its files and positions only. A relay log has
other offsets, and may have several files for one of the writer's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.binlog.events import GTIDS, HEADER_LENGTH, EventHeader, EventType
from dumpfilter.errors import BinlogUnreadable, PositionError
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.store import BinlogStore
from dumpfilter.options.defaults import FIRST_EVENT

_FARTHEST = 1 << 31
"""The distance from which on a position of 32 bits lies before another one."""

_UNKNOWN_END = -1
"""The position behind a transaction of which the set does not have the end yet."""


class FoundPosition(NamedTuple):
    """A boundary of a binlog set, found by a position of the writer."""

    file: str
    boundary: int
    """The offset between two transactions, bytes."""
    begun: int
    """The writer's position at the boundary."""
    end: int = 0
    """The writer's position behind the transaction of which the replica has a part; 0 if the replica has none.

    It is negative for a transaction whose end is not written yet.
    """


def find_position(
    file: str, position: int, store: BinlogStore, *, has_earlier: bool = False
) -> FoundPosition:
    """Return the newest boundary at or before a position in the writer's binlog.

    An empty ``file`` stands for the first one. Of several relay log files for one file of the writer the newest that
    begins before the position counts. ``has_earlier`` says that the reader has the transactions which the slave had
    before it asked its master by GTID, and which the relay log therefore lacks. Raises BinlogMissing, PositionError for
    a place that the set lacks, and BinlogUnreadable (momentary) for one that the slave will receive.
    """
    names = store.binlogs.names
    if not file and store.is_relay_log:
        return FoundPosition(names[0], store.first_position(names[0]), position)
    indexed = _holding(file, position, store) if store.is_relay_log else store.open_file(file or names[0])
    found = _transaction_at(indexed, position, store)
    if found is not None:
        boundary, begun, end = found
        begin = _begin(indexed, boundary, begun)
        if begun <= position < begin:
            if has_earlier:
                return FoundPosition(indexed.name, boundary, position)
            raise _missing(file, position, f"it has nothing from {begun} to {begin}")
        begun = max(begun, begin)
        return FoundPosition(indexed.name, boundary, begun, end if begun < position else 0)
    if not store.is_relay_log:
        # The server has not ended the transaction that holds the position, or the binlog ends there.
        return FoundPosition(indexed.name, position, position)
    size = indexed.file.size
    if store.file_after(indexed.name) is None and position > indexed.position_of(size):
        raise _not_received(file, position)
    return FoundPosition(indexed.name, size, position)


def _holding(file: str, position: int, store: BinlogStore) -> IndexedFile:
    """Return the newest relay log file for a file of the writer that begins at a position or before."""
    known = []
    newest = store.open_file(store.binlogs.names[-1]).file.begin.file
    if _is_later(file, newest):
        raise _not_received(file, position)
    for name in reversed(store.binlogs.names):
        indexed = store.open_file(name)
        begin = indexed.file.begin
        if begin.file == file and (begin.position <= position or indexed.file.is_whole):
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
    if not indexed.file.is_relay_log or header.type not in GTIDS or not header.end_log_pos:
        return before
    distance = (header.end_log_pos - header.size - before) & 0xFFFFFFFF
    return before + distance if distance < _FARTHEST else before


def is_event(position: int, indexed: IndexedFile, store: BinlogStore) -> bool:
    """Tell whether an event of a server's binlog begins at a position, or the binlog ends there."""
    if position <= indexed.file.first_event:
        return position in (FIRST_EVENT, indexed.file.first_event)
    if position > indexed.file.size:
        return False
    segment = store.segment_of(indexed, position)
    return segment is None or bool((segment.offset == position).any())


def is_gap(indexed: IndexedFile, boundary: int) -> bool:
    """Tell whether a Gap event begins at a boundary."""
    return EventHeader.unpack(indexed.read(boundary, HEADER_LENGTH)).type == EventType.IGNORABLE


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

    The result is its begin in the set, and the writer's positions before and behind it.
    """
    at = indexed.boundary_before(position)
    begun: tuple[int, int] | None = None
    while (segment := store.segment_of(indexed, at)) is not None:
        starts = segment.txn_start
        around = segment.positions_of(np.append(starts, segment.end))
        number = int(np.searchsorted(around[1:], position, side="right"))
        if number < len(starts):
            if number or not segment.continues:
                begun = int(starts[number]), int(around[number])
            assert begun is not None, "a segment that continues a transaction has one before"
            is_open = segment.open and number == len(starts) - 1
            return (*begun, _UNKNOWN_END if is_open else int(around[number + 1]))
        if not segment.open:
            begun = None
        elif not (segment.continues and len(starts) == 1):
            begun = int(starts[-1]), int(around[-2])
        at = segment.end
    if begun is None or position > indexed.position_of(at):
        return None
    # The writer has not ended the transaction, and the replica has everything of it up to here.
    return (*begun, _UNKNOWN_END)

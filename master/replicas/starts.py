"""The place in the binlog at which the dump for a real replica begins.

A replica names GTIDs, or a file and a position. The position may lie inside a transaction, because a replica counts
single events. After a connection was lost inside a transaction, the replica asks for what follows its last event.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.dump.exclusion import Exclusion
from dumpfilter.errors import PositionError
from dumpfilter.index.segment import Segment
from dumpfilter.master.dump_start import DumpStart, start_after, start_at
from dumpfilter.master.replicas.failures import before_begin, beyond_end, purged
from dumpfilter.master.replicas.relay_starts import relay_start
from dumpfilter.master.store import BinlogStore
from dumpfilter.options.defaults import FIRST_EVENT


@dataclass(frozen=True)
class ReplicaStart:
    """The start of a dump for a real replica."""

    dump: DumpStart
    """The place between two transactions at which the dump begins."""
    wanted: int = 0
    """The position from which the replica wants events. It lies behind that of ``dump`` inside a transaction."""
    asked: int | None = None
    """The position in the replica's own words, in the binlog of the writer. None: it is ``wanted``."""
    has_first_transaction: bool = False
    """Whether the replica has the first transaction of the file in which the dump begins."""

    @property
    def skips(self) -> int:
        """The number of bytes of the binlog, from the dump's start on, that the replica has already."""
        return max(self.wanted - self.dump.position, 0)


def start_by_gtids(have: GtidSet, store: BinlogStore) -> ReplicaStart:
    """Return the start for a replica that has the transactions with these GTIDs. Raises SqlError 1236."""
    store.refresh()
    try:
        start = start_after(have, store)
    except PositionError:
        before = store.previous_gtids(store.binlogs.names[0])
        raise purged(store.family, "" if before is None else str(before - have)) from None
    return ReplicaStart(start, start.position, has_first_transaction=_has_first_transaction(start, store))


def _has_first_transaction(start: DumpStart, store: BinlogStore) -> bool:
    segment = store.segment_at(start.file, start.position)
    if segment is None:
        return False
    (with_gtid,) = np.nonzero(segment.txn_source >= 0)
    if not with_gtid.size:
        return False
    source, number = (int(column[with_gtid[0]]) for column in (segment.txn_source, segment.txn_number))
    return Exclusion(store.sources, start.gtid_set).has_any(source, number, number)


def start_by_position(file: str, position: int, store: BinlogStore) -> ReplicaStart:
    """Return the start for a replica that names a file, empty for the first one, and a position.

    At a slave's relay log the replica names a file of the writer. Raises BinlogMissing, PositionError for a place where
    no event begins, and SqlError 1236.
    """
    store.refresh()
    if position < FIRST_EVENT:
        raise before_begin(store.family)
    if store.is_relay_log:
        place = relay_start(file, position, store)
        return ReplicaStart(DumpStart(place.file, place.boundary), place.wanted, asked=position)
    start = start_at(file or store.binlogs.names[0], position, store)
    indexed = store.open_file(start.file)
    if position > indexed.file.size:
        raise beyond_end(store.family)
    segment = store.segment_of(indexed, start.position)
    if segment is None or segment.transaction_at(start.position) is not None:
        return ReplicaStart(start, start.position)
    if start.position not in segment.offset[: segment.txn_event[-1]]:
        raise PositionError("no event begins here", file=start.file, position=position)
    while (boundary := _transaction_before(segment, start.position)) is None:
        earlier = store.segment_of(indexed, segment.start - 1)
        assert earlier is not None, "a segment that continues a transaction has one before"
        segment = earlier
    return ReplicaStart(DumpStart(start.file, boundary), start.position)


def _transaction_before(segment: Segment, position: int) -> int | None:
    """Return the position of the last transaction that begins in the segment before ``position``, or None."""
    starts = segment.offset[segment.txn_event[:-1]]
    if segment.continues:
        starts = starts[1:]
    at = int(np.searchsorted(starts, position))
    return int(starts[at - 1]) if at else None

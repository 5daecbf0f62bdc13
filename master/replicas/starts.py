"""The place in the binlog at which the dump for a real replica begins.

A replica names GTIDs, or a file and a position. The position may lie inside a transaction, because a replica counts
single events. After a connection was lost inside a transaction, the replica asks for what follows its last event.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.binlog.gtid_sources import Membership
from dumpfilter.errors import PositionError
from dumpfilter.index.segment import Segment
from dumpfilter.master.ahead import check_no_hole
from dumpfilter.master.dump_start import DumpStart, start_after, start_at
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.relay_starts import relay_start
from dumpfilter.master.replicas.failures import before_begin, beyond_end, purged
from dumpfilter.master.store import BinlogStore
from dumpfilter.options.defaults import FIRST_EVENT


@dataclass(frozen=True)
class ReplicaStart:
    """The start of a dump for a real replica."""

    dump: DumpStart
    """The place between two transactions at which the dump begins."""
    told: int = 0
    """The position that the replica named. From a relay log it is one in the writer's binlog."""
    begun: int = 0
    """The position, in the same binlog, at which the dump begins."""
    end: int = 0
    """The position, in the same binlog, behind the transaction that holds ``told``.

    It is 0 between two transactions, and negative for a transaction of which the end is not known yet.
    """
    checksum: bool = False
    """Whether the events of the file in which the dump begins end in a checksum. Known inside a transaction only."""
    file: str = ""
    """The file that the replica named. Known inside a transaction only."""
    has_first_transaction: bool = False
    """Whether the replica has the first transaction of the file in which the dump begins."""

    @property
    def is_inside(self) -> bool:
        """Whether the replica has a part of the transaction with which the dump begins."""
        return bool(self.end)

    @property
    def skips(self) -> int:
        """The number of bytes of the binlog, from the dump's start on, that the replica has if nothing was dropped."""
        return self.told - self.begun if self.is_inside else 0


def start_by_gtids(have: GtidSet, store: BinlogStore, *, is_strict: bool = False) -> ReplicaStart:
    """Return the start for a replica that has the transactions with these GTIDs.

    With ``is_strict`` (MariaDB's ``gtid_strict_mode``) the binlog must have the replica's last GTIDs themselves. Raises
    SqlError 1236 and ReplicaAhead.
    """
    store.refresh()
    try:
        start = start_after(have, store)
    except PositionError:
        before = store.previous_gtids(store.binlogs.names[0])
        raise purged(store.family, "" if before is None else str(before - have)) from None
    if is_strict:
        check_no_hole(have, start.file, store)
    return ReplicaStart(
        start, start.position, start.position, has_first_transaction=_has_first_transaction(start, store)
    )


def _has_first_transaction(start: DumpStart, store: BinlogStore) -> bool:
    segment = store.segment_at(start.file, start.position)
    if segment is None:
        return False
    (with_gtid,) = np.nonzero(segment.txn_source >= 0)
    if not with_gtid.size:
        return False
    source, number = (int(column[with_gtid[0]]) for column in (segment.txn_source, segment.txn_number))
    key = store.sources.key(source, store.family)
    return start.gtid_set is not None and Membership(start.gtid_set).overlaps(key, number, number)


def start_by_position(
    file: str, position: int, store: BinlogStore, *, is_computed: bool = False
) -> ReplicaStart:
    """Return the start for a replica that names a file, empty for the first one, and a position.

    ``is_computed`` says that the replica computes its position from the events that it received. Such a position
    inside a transaction need not be the beginning of an event (:mod:`dumpfilter.master.replicas.known_events`).

    At a slave's relay log the replica names a file of the writer. Raises BinlogMissing, PositionError for a place where
    no event begins, and SqlError 1236.
    """
    store.refresh()
    if position < FIRST_EVENT:
        raise before_begin(store.family)
    if store.is_relay_log:
        place = relay_start(file, position, store)
        start = DumpStart(place.file, place.boundary)
        return _inside(start, file, position, place.begun, place.end, store)
    start = start_at(file or store.binlogs.names[0], position, store)
    indexed = store.open_file(start.file)
    if position > indexed.file.size:
        raise beyond_end(store.family)
    segment = store.segment_of(indexed, start.position)
    if segment is None or segment.transaction_at(start.position) is not None:
        return ReplicaStart(start, start.position, start.position)
    if not is_computed and start.position not in segment.offset[: segment.txn_event[-1]]:
        raise PositionError("no event begins here", file=start.file, position=position)
    end = _end_of_transaction(segment, start.position, indexed, store)
    while (boundary := _transaction_before(segment, start.position)) is None:
        earlier = store.segment_of(indexed, segment.start - 1)
        assert earlier is not None, "a segment that continues a transaction has one before"
        segment = earlier
    return _inside(DumpStart(start.file, boundary), start.file, start.position, boundary, end, store)


def _inside(start: DumpStart, file: str, told: int, begun: int, end: int, store: BinlogStore) -> ReplicaStart:
    """Return the start of a dump, whose ``end`` is 0 if the replica has no part of a transaction."""
    checksum = bool(end) and store.open_file(start.file).file.format_description.checksum
    return ReplicaStart(start, told, begun, end, checksum, file)


def _transaction_before(segment: Segment, position: int) -> int | None:
    """Return the position of the last transaction that begins in the segment before ``position``, or None."""
    starts = _starts(segment)
    at = int(np.searchsorted(starts, position))
    return int(starts[at - 1]) if at else None


def _end_of_transaction(segment: Segment, position: int, indexed: IndexedFile, store: BinlogStore) -> int:
    """Return the end of the transaction that is open at ``position``, as far as it is written."""
    while True:
        starts = _starts(segment)
        at = int(np.searchsorted(starts, position))
        if at < len(starts):
            return int(starts[at])
        following = store.segment_of(indexed, segment.end) if segment.open else None
        if following is None:
            return segment.end
        segment = following


def _starts(segment: Segment) -> npt.NDArray[np.int64]:
    """Return the positions of the transactions that begin in the segment."""
    starts = segment.offset[segment.txn_event[:-1]]
    return starts[1:] if segment.continues else starts

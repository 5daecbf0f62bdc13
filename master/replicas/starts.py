"""The position in the binlog at which the dump for a real replica begins.

A replica names GTIDs, or a file and a position. The position may lie inside a transaction, because a replica counts
single events. After a connection was lost inside a transaction, the replica asks for the events after its last one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dumpfilter.base.errors import PositionError
from dumpfilter.base.options.defaults import FIRST_EVENT
from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.binlog.gtid_sources import Membership
from dumpfilter.master.ahead import check_no_hole
from dumpfilter.master.dump_start import DumpStart, find_position, is_event, start_after, start_at
from dumpfilter.master.replicas.failures import Said
from dumpfilter.master.store import BinlogStore


def start_by_gtids(have: GtidSet, store: BinlogStore, *, is_strict: bool = False) -> DumpStart:
    """Return the start of a dump for a replica that has the transactions in ``have``.

    With ``is_strict`` (MariaDB's ``gtid_strict_mode``) the binlog must contain the replica's last GTIDs. Raises
    SqlError 1236 when the binlog no longer has transactions that the replica lacks, and ReplicaAhead when ``is_strict``
    fails.
    """
    try:
        start = start_after(have, store)
    except PositionError:
        before = store.previous_gtids(store.binlogs.names[0])
        missing = "" if before is None else str(before - have)
        raise Said.PURGED.error(store.family, f" The missing transactions are '{missing}'.") from None
    if is_strict:
        check_no_hole(have, start.file, store)
    return replace(start, has_first_transaction=_has_first_transaction(have, start, store))


def _has_first_transaction(have: GtidSet, start: DumpStart, store: BinlogStore) -> bool:
    segment = store.segment_at(start.file, start.position)
    if segment is None:
        return False
    (with_gtid,) = np.nonzero(segment.txn_source >= 0)
    if not with_gtid.size:
        return False
    source, number = (int(column[with_gtid[0]]) for column in (segment.txn_source, segment.txn_number))
    key = store.sources.key(source, store.family)
    return Membership(have).overlaps(key, number, number)


def start_by_position(
    file: str, position: int, store: BinlogStore, *, is_computed: bool = False
) -> DumpStart:
    """Return the start of a dump for a replica that names a binlog file and a position (bytes). An empty ``file``
    stands for the first one.

    ``is_computed`` says that the replica computes its position from the events that it received. Such a position inside
    a transaction need not be the beginning of an event (:mod:`dumpfilter.master.replicas.stream`). If the binlog is a
    slave's relay log, the replica names a file of the writer (the server that wrote the events).

    Raises BinlogMissing for an unknown file, PositionError for a position at which no event begins, and SqlError 1236
    for one outside the file.
    """
    store.refresh()
    if position < FIRST_EVENT:
        raise Said.BEFORE_BEGIN.error(store.family)
    if not store.is_relay_log:
        position = start_at(file, position, store).position
        indexed = store.open_file(file or store.binlogs.names[0])
        if position > indexed.file.size:
            raise Said.BEYOND_END.error(store.family)
    found = find_position(file, position, store)
    if not (
        not found.end
        or store.is_relay_log
        or is_computed
        or is_event(position, store.open_file(found.file), store)
    ):
        raise PositionError("no event begins here", file=found.file, position=position)
    return found

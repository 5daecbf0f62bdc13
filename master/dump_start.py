"""The binlog file and position at which a dump begins, found from the position or GTID set that a slave sends."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dumpfilter.binlog.gtid import GtidSet, parse_gtid_set
from dumpfilter.dump.thread import check_start
from dumpfilter.errors import PositionError
from dumpfilter.master.store import BinlogStore
from dumpfilter.options.defaults import FIRST_EVENT
from dumpfilter.v1 import dumpfilter_pb2 as pb


@dataclass(frozen=True)
class DumpStart:
    """The binlog file and position of the first event that a dump reads."""

    file: str = ""
    position: int = 0
    gtid_set: GtidSet | None = None
    """The GTIDs of transactions that the slave has and that the dump leaves out.

    None when the slave named none (no auto-positioning).
    """


def start_of(request: pb.DumpRequest, store: BinlogStore) -> DumpStart:
    """Return the binlog file and position at which the dump for a slave's request begins.

    The request holds a GTID set, or a file and position. Raises GtidError, BinlogMissing or PositionError.
    """
    # Another process may have purged binlog files since the store read the index file.
    store.refresh()
    names = store.binlogs.names
    if request.WhichOneof("start") == "gtid_set":
        return start_after(parse_gtid_set(request.gtid_set, family=store.family), store)
    place = getattr(request, "from")
    start = start_at(place.file or names[0], int(place.position), store)
    if request.except_gtids:
        return replace(start, gtid_set=parse_gtid_set(request.except_gtids, family=store.family))
    return start


def start_after(have: GtidSet, store: BinlogStore) -> DumpStart:
    """Return the start of a dump for a slave that has the transactions with these GTIDs.

    Raises PositionError when the slave lacks GTIDs that the master has purged.
    """
    file = _file_for(have, store)
    return DumpStart(file, store.first_position(file), have)


def start_at(file: str, position: int, store: BinlogStore) -> DumpStart:
    """Check a file name and a position that a slave sent, and return them as the start of a dump.

    Position 0 stands for the beginning of the file. Raises BinlogMissing for a file that the set does not have, and
    PositionError for a position inside the file's magic number.
    """
    if file not in store.binlogs.names and not store.binlogs.refresh():
        # The call raises BinlogMissing for a file that the binlog set does not have.
        store.binlogs.path(file)
    if position < FIRST_EVENT:
        if position:
            raise PositionError("a binlog's events begin at 4", file=file, position=position)
        position = FIRST_EVENT
    return DumpStart(file, max(position, store.first_position(file)))


def check_boundary(start: DumpStart, store: BinlogStore) -> None:
    """Check that a dump's start lies between two transactions. Raises PositionError otherwise."""
    segment = store.segment_at(start.file, start.position)
    # At the end of the last binlog file there are no events whose boundaries could be checked.
    if segment is not None:
        check_start(segment, start.position)


def _file_for(have: GtidSet, store: BinlogStore) -> str:
    """Return the newest binlog file such that the slave has every GTID of the files before.

    Raises PositionError when the slave lacks GTIDs that the master has purged.
    """
    for name in reversed(store.binlogs.names):
        before = store.previous_gtids(name)
        if before is None or have.issuperset(before):
            return name
    first = store.binlogs.names[0]
    missing = store.previous_gtids(first)
    assert missing is not None
    raise PositionError(
        f"the slave lacks GTIDs that the master has purged: {missing - have}; seed it from a backup",
        file=first,
    )

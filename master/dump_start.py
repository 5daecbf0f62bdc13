"""The place at which a dump begins."""

from __future__ import annotations

from dataclasses import dataclass

from dumpfilter.binlog.gtid import GtidSet, parse_gtid_set
from dumpfilter.dump.thread import check_start
from dumpfilter.errors import PositionError
from dumpfilter.master.store import BinlogStore
from dumpfilter.options.defaults import FIRST_EVENT
from dumpfilter.v1 import dumpfilter_pb2 as pb


@dataclass(frozen=True)
class DumpStart:
    """The file and the position of the first event that a dump reads."""

    file: str = ""
    position: int = 0
    gtid_set: GtidSet | None = None
    """The GTIDs that the slave has, which the dump leaves out. None when the slave asked for a position."""


def start_of(request: pb.DumpRequest, store: BinlogStore) -> DumpStart:
    """Return the place that a request asks for. Raises GtidError, BinlogMissing or PositionError."""
    store.refresh()  # another process may have purged the set
    names = store.binlogs.names
    if request.WhichOneof("start") == "gtid_set":
        wanted = parse_gtid_set(request.gtid_set, family=store.family)
        file = _file_for(wanted, store)
        return DumpStart(file, store.first_position(file), wanted)
    place = getattr(request, "from")
    return start_at(place.file or names[0], int(place.position), store)


def start_at(file: str, position: int, store: BinlogStore) -> DumpStart:
    """Return a place in a file of the set. Raises BinlogMissing or PositionError."""
    if file not in store.binlogs.names and not store.binlogs.refresh():
        store.binlogs.path(file)  # raises BinlogMissing
    if position < FIRST_EVENT:
        if position:
            raise PositionError("a binlog's events begin at 4", file=file, position=position)
        position = FIRST_EVENT
    return DumpStart(file, max(position, store.first_position(file)))


def check_boundary(start: DumpStart, store: BinlogStore) -> None:
    """Raise PositionError when the place does not lie between two transactions."""
    segment = store.segment_at(start.file, start.position)
    if segment is not None:  # None at the end of the last file
        check_start(segment, start.position)


def _file_for(have: GtidSet, store: BinlogStore) -> str:
    """Return the newest file before which the slave has every GTID. Raises PositionError when there is none."""
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

"""The binlog file and position at which a dump begins, found from the position or GTID set that a slave sends."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dumpfilter.binlog.gtid import GtidSet, parse_gtid_set
from dumpfilter.binlog.gtid_sources import empty_set
from dumpfilter.dump.thread import check_start
from dumpfilter.errors import PositionError
from dumpfilter.index.previous_gtids import gtids_before
from dumpfilter.master.ahead import Wanted, unknown_domains
from dumpfilter.master.find_position import find_position, is_gap
from dumpfilter.master.logged import add_transactions
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
    told: int | None = None
    """The writer's position that the slave named, if a Gap event of a relay log begins at ``position`` and has it."""
    unknown_domains: frozenset[int] = frozenset()
    """The domains of the slave's GTIDs (MariaDB) of which the binlog has no transaction yet."""


def start_of(request: pb.DumpRequest, store: BinlogStore) -> DumpStart:
    """Return the binlog file and position at which the dump for a slave's request begins.

    The request holds a GTID set, or a file and position. Raises GtidError, BinlogMissing, PositionError, or
    BinlogUnreadable for a position that a slave of a chain has not received yet.
    """
    # Another process may have purged binlog files since the store read the index file.
    store.refresh()
    if request.WhichOneof("start") == "gtid_set":
        return start_after(parse_gtid_set(request.gtid_set, family=store.family), store)
    place = getattr(request, "from")
    try:
        start = start_at(place.file, int(place.position), store)
    except PositionError:
        if not (store.is_relay_log and request.received_gtids):
            raise
        # GTIDs decide whether the slave has everything before a relay log that begins with a later file.
        start = start_after(parse_gtid_set(request.received_gtids, family=store.family), store)
        if store.open_file(start.file).file.begin.file == place.file:
            # In the same file the slave can only go on at its own position.
            raise
        return start
    if store.is_relay_log:
        _check_has_earlier(request, store)
    if request.except_gtids:
        return replace(start, gtid_set=parse_gtid_set(request.except_gtids, family=store.family))
    return start


def wanted_by(request: pb.DumpRequest, store: BinlogStore) -> Wanted:
    """Return the place at which a slave's request asks to begin. Raises GtidError."""
    if request.WhichOneof("start") == "gtid_set":
        return Wanted(parse_gtid_set(request.gtid_set, family=store.family))
    place = getattr(request, "from")
    return Wanted(None, place.file, int(place.position))


def start_after(have: GtidSet, store: BinlogStore) -> DumpStart:
    """Return the start of a dump for a slave that has the transactions with these GTIDs.

    Raises PositionError when the slave lacks GTIDs that the master has purged.
    """
    file = _file_for(have, store)
    return DumpStart(file, store.first_position(file), have, unknown_domains=unknown_domains(have, store))


def start_at(file: str, position: int, store: BinlogStore) -> DumpStart:
    """Check a file name and a position that a slave sent, and return them as the start of a dump.

    An empty file name stands for the first file, and position 0 for the beginning of the file. At a slave's relay log
    the slave names a file of the writer. Raises BinlogMissing for a file that the set does not have, and PositionError
    for a position at which no dump can begin.
    """
    names = store.binlogs.names
    if position < FIRST_EVENT:
        if position:
            raise PositionError("a binlog's events begin at 4", file=file or names[0], position=position)
        position = FIRST_EVENT
    if store.is_relay_log:
        return _start_in_relay_log(file, position, store)
    file = file or names[0]
    if file not in names and not store.binlogs.refresh():
        # The call raises BinlogMissing for a file that the binlog set does not have.
        store.binlogs.path(file)
    return DumpStart(file, max(position, store.first_position(file)))


def _start_in_relay_log(file: str, position: int, store: BinlogStore) -> DumpStart:
    """Return the start of a dump from a file and position of the writer. Raises PositionError and BinlogUnreadable."""
    place = find_position(file, position, store, has_earlier=True)
    indexed = store.open_file(place.file)
    if position <= indexed.file.begin.position:
        return DumpStart(place.file, indexed.file.first_event)
    told = None if indexed.position_of(place.boundary) == position else position
    if place.end and not is_gap(indexed, place.boundary):
        raise PositionError(
            f"lies inside a transaction, which begins at {place.begun}; a dump begins between two transactions",
            file=file,
            position=position,
        )
    return DumpStart(place.file, place.boundary, told=told)


def _check_has_earlier(request: pb.DumpRequest, store: BinlogStore) -> None:
    """Check that a slave has the transactions that the relay log lacks, although they lie in its range of positions.

    Such a relay log belongs to a slave that asked its master by GTID while it had some transactions already. Raises
    PositionError.
    """
    first = store.binlogs.names[0]
    logged, received, _ = gtids_before(store.open_file(first).file)
    if not received:
        return
    have = parse_gtid_set(request.received_gtids or request.except_gtids, family=store.family)
    missing = received - have if logged is None else received - logged - have
    for name in store.binlogs.names:
        # A slave that asked its master by position received these transactions again.
        for segment in store.segments(name) if missing else ():
            present = empty_set(store.family)
            add_transactions(present, segment, store.sources)
            missing = missing - present
    if missing:
        raise PositionError(
            f"the relay log lacks {missing}, which the slave that serves it had before; replicate by GTID "
            "(SOURCE_AUTO_POSITION=1), or seed this slave from a backup",
            file=first,
        )


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

"""The position at which a dump begins: a transaction boundary, found from the GTIDs or the position that a slave or
replica names.

Slaves and replicas name files and positions of the writer, the server that wrote the events. A slave's relay log has
other byte offsets, and may have several files for one of the writer's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dumpfilter.base.errors import BinlogUnreadable, PositionError
from dumpfilter.base.options.values import FIRST_EVENT
from dumpfilter.binlog.events import GTIDS, HEADER_LENGTH, EventHeader, EventType
from dumpfilter.binlog.gtid import GtidSet, empty_set, parse_gtid_set
from dumpfilter.index.fileset import gtids_before
from dumpfilter.master.ahead import Wanted, is_later, unknown_domains
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.logged import add_transactions
from dumpfilter.master.store import BinlogStore
from dumpfilter.v1 import dumpfilter_pb2 as pb

_FARTHEST = 1 << 31
"""The difference from which on a position of 32 bits counts as lying before another one."""

_UNKNOWN_END = -1
"""The value for the end position of a transaction whose end is not written yet."""


@dataclass(frozen=True)
class DumpStart:
    """The transaction boundary at which a dump begins to read a binlog file, and the facts of the slave's request that
    the dump needs, such as the slave's GTIDs.
    """

    file: str = ""
    """The name of the binlog file on this master."""
    position: int = 0
    """The byte offset in the file."""
    gtid_set: GtidSet | None = None
    """The GTIDs of transactions that the slave has and that the dump leaves out.

    None when the slave named none (no auto-positioning).
    """
    told: int | None = None
    """The writer's position that the slave named, if it lies inside the Gap event of a relay log that begins at
    ``position``. None otherwise.

    A Gap event stands for transactions that the master of the relay log's slave dropped.
    """
    unknown_domains: frozenset[int] = frozenset()
    """The MariaDB domains of the slave's GTIDs in which the binlog has no transaction yet."""
    begun: int = 0
    """The position in the writer's file at the boundary, if the slave named a position."""
    end: int = 0
    """The writer's position after the transaction of which the replica has a part; 0 if it has no partial transaction.

    It is negative for a transaction whose end is not written yet.
    """
    has_first_transaction: bool = False
    """Whether ``gtid_set`` has the first transaction of the file in which the dump of a real replica begins."""


def start_of(request: pb.DumpRequest, wanted: Wanted, store: BinlogStore) -> DumpStart:
    """Return the transaction boundary at which the dump for a slave's request begins.

    ``wanted`` has the GTIDs or the position of the request. Raises GtidError, BinlogMissing and PositionError. In a
    chain of slaves, a position that the serving slave has not received yet raises BinlogUnreadable.
    """
    if wanted.gtids is not None:
        return start_after(wanted.gtids, store)
    try:
        start = start_at(wanted.file, wanted.position, store)
    except PositionError:
        if not (store.is_relay_log and request.received_gtids):
            raise
        # GTIDs decide whether the slave has everything before a relay log that begins with a later file.
        start = start_after(parse_gtid_set(request.received_gtids, family=store.family), store)
        if store.open_file(start.file).file.begin.file == wanted.file:
            # In the same file the slave can only go on at its own position.
            raise
        return start
    if store.is_relay_log:
        _check_has_earlier(request, store)
    if request.except_gtids:
        return replace(start, gtid_set=parse_gtid_set(request.except_gtids, family=store.family))
    return start


def wanted_by(request: pb.DumpRequest, store: BinlogStore) -> Wanted:
    """Return the start of a dump that a slave's request names: the GTIDs that the slave has, or a binlog file and a
    position. Raises GtidError.
    """
    if request.WhichOneof("start") == "gtid_set":
        return Wanted(parse_gtid_set(request.gtid_set, family=store.family))
    place = getattr(request, "from")
    return Wanted(None, place.file, int(place.position))


def start_after(have: GtidSet, store: BinlogStore) -> DumpStart:
    """Return the start of a dump for a slave that has the transactions in ``have``. The dump begins with a whole binlog
    file, and leaves out the transactions in ``have``.

    Raises PositionError when the slave lacks GTIDs that the master has purged.
    """
    store.refresh()
    file = _file_for(have, store)
    return DumpStart(file, store.first_position(file), have, unknown_domains=unknown_domains(have, store))


def start_at(file: str, position: int, store: BinlogStore) -> DumpStart:
    """Return the start of a dump at a file and a position in the writer's binlog, which a slave has named. The writer
    is the server that wrote the events.

    An empty file name stands for the first file, and position 0 for the beginning of the file. Raises BinlogMissing for
    a file that the set does not have, and PositionError for a position at which no dump can begin. In a chain of
    slaves, a position that the serving slave has not received yet raises BinlogUnreadable (momentary).
    """
    # Another process may have purged binlog files since the store read the index file.
    store.refresh()
    if position < FIRST_EVENT:
        if position:
            raise PositionError(
                "a binlog's events begin at 4", file=file or store.binlogs.names[0], position=position
            )
        position = FIRST_EVENT
    if not store.is_relay_log:
        indexed = store.open_file(file or store.binlogs.names[0])
        return DumpStart(indexed.name, max(position, indexed.file.first_event))
    start = find_position(file, position, store, has_earlier=True)
    indexed = store.open_file(start.file)
    if position <= indexed.file.begin.position:
        return DumpStart(start.file, indexed.file.first_event)
    if start.end and not is_gap(indexed, start.position):
        raise PositionError(
            f"lies inside a transaction, which begins at {start.begun}; a dump begins between two transactions",
            file=file,
            position=position,
        )
    is_named = indexed.position_of(start.position) == position
    return DumpStart(start.file, start.position, told=None if is_named else position)


def _check_has_earlier(request: pb.DumpRequest, store: BinlogStore) -> None:
    """Check that a slave has the transactions that are missing in the relay log which serves it. Raises PositionError
    otherwise.

    The slave that writes the relay log had these transactions before it asked its own master by GTID. The positions in
    the relay log pass over them.
    """
    first = store.binlogs.names[0]
    logged, received, _ = gtids_before(store.open_file(first).file)
    if not received:
        return
    have = parse_gtid_set(request.received_gtids or request.except_gtids, family=store.family)
    missing = received - have - (logged or empty_set(store.family))
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


def _file_for(have: GtidSet, store: BinlogStore) -> str:
    """Return the newest binlog file at which the dump can begin, because ``have`` contains all GTIDs of the earlier
    files.

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


def find_position(file: str, position: int, store: BinlogStore, *, has_earlier: bool = False) -> DumpStart:
    """Return the newest transaction boundary at or before ``position`` in the binlog file ``file``, as the start of a
    dump.

    ``file`` and ``position`` are those of the writer, the server that wrote the events. An empty ``file`` stands for
    the set's first file. If several relay log files belong to one file of the writer, the newest that begins before the
    position is used. A relay log lacks the transactions that its slave had before it asked its master by GTID.
    ``has_earlier`` says that the reader of the dump has these transactions.

    Raises BinlogMissing for a file, and PositionError for a position, that the set lacks. Raises BinlogUnreadable
    (momentary) for a position that the slave with the relay log has not received yet.
    """
    names = store.binlogs.names
    if not file and store.is_relay_log:
        return DumpStart(names[0], store.first_position(names[0]), begun=position)
    indexed = _holding(file, position, store) if store.is_relay_log else store.open_file(file or names[0])
    found = _transaction_at(indexed, position, store)
    if found is not None:
        boundary, begun, end = found
        begin = _begin(indexed, boundary, begun)
        if begun <= position < begin:
            if has_earlier:
                return DumpStart(indexed.name, boundary, begun=position)
            raise _missing(file, position, f"it has nothing from {begun} to {begin}")
        begun = max(begun, begin)
        return DumpStart(indexed.name, boundary, begun=begun, end=end if begun < position else 0)
    if not store.is_relay_log:
        # The server has not ended the transaction that holds the position, or the binlog ends there.
        return DumpStart(indexed.name, position, begun=position)
    size = indexed.file.size
    if store.file_after(indexed.name) is None and position > indexed.position_of(size):
        raise _not_received(file, position)
    return DumpStart(indexed.name, size, begun=position)


def _holding(file: str, position: int, store: BinlogStore) -> IndexedFile:
    """Return the relay log file with the event at ``position`` of ``file``, a binlog file of the server that wrote
    the events. If several relay log files have parts of ``file``, the newest that begins at or before it is returned.

    Raises PositionError if there is none, and BinlogUnreadable (momentary) if the slave has not received the position
    yet.
    """
    known = []
    newest = store.open_file(store.binlogs.names[-1]).file.begin.file
    if is_later((file, 0), (newest, 0)):
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
    """Return the writer's position at which a transaction begins. The writer is the server that wrote the events.

    ``boundary`` is the transaction's byte offset in the file ``indexed``. ``before`` is the writer's position after the
    event before the transaction, and is returned if no Gtid event tells a better one. The two positions differ where a
    relay log lacks transactions, because its slave had them already.
    """
    header = EventHeader.unpack(indexed.read(boundary, HEADER_LENGTH))
    if header.type not in GTIDS or not header.end_log_pos:
        return before
    distance = (header.end_log_pos - header.size - before) & 0xFFFFFFFF
    return before + distance if distance < _FARTHEST else before


def is_event(position: int, indexed: IndexedFile, store: BinlogStore) -> bool:
    """Tell whether an event begins at the byte offset ``position`` of a server binlog file, or the file ends there."""
    if position <= indexed.file.first_event:
        return position in (FIRST_EVENT, indexed.file.first_event)
    if position > indexed.file.size:
        return False
    segment = store.segment_of(indexed, position)
    return segment is None or bool((segment.offset == position).any())


def is_gap(indexed: IndexedFile, boundary: int) -> bool:
    """Tell whether a Gap event (in place of dropped transactions) begins at the byte offset ``boundary``."""
    return EventHeader.unpack(indexed.read(boundary, HEADER_LENGTH)).type == EventType.IGNORABLE


def _not_received(file: str, position: int) -> BinlogUnreadable:
    return BinlogUnreadable(
        "the slave has not received its master's binlog up to here yet; connect again",
        file=file,
        position=position,
        momentary=True,
    )


def _transaction_at(indexed: IndexedFile, position: int, store: BinlogStore) -> tuple[int, int, int] | None:
    """Return the first transaction or Gap event (dropped transactions) that ends after ``position``, in the writer's
    binlog. Return None if there is none.

    The result is the transaction's byte offset in the file on this master, and the writer's positions before and after
    it. The position after a transaction that is not complete yet is ``_UNKNOWN_END``.
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

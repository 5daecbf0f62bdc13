"""The start of a dump: a transaction boundary, found from the GTIDs or the position that a slave or replica names.

Slaves and replicas name files and positions of the writer, the server that wrote the events. A slave's relay log has
other byte offsets, and may have several files for one of the writer's.

Replicas and slaves that have GTIDs which their source lacks are refused, as MySQL and MariaDB servers refuse them.
MySQL refuses GTIDs with its own UUID that it has not executed. MariaDB refuses a GTID whose number its binlog has not
reached for that server, in a domain that it knows. GTIDs of unknown UUIDs and domains count as those of other servers,
and are accepted.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
import uuid as uuids
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dumpfilter.base.errors import BinlogError, BinlogUnreadable, DumpfilterError, PositionError
from dumpfilter.base.options.values import FIRST_EVENT
from dumpfilter.binlog.events import GTIDS, HEADER_LENGTH, EventHeader, EventType
from dumpfilter.binlog.gtid import (
    GtidSet,
    MariadbGtid,
    MariadbGtidSet,
    MysqlGtidSet,
    empty_set,
    parse_gtid_set,
)
from dumpfilter.index.fileset import add_transactions, gtids_before
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.store import BinlogStore, Logged, logged_before
from dumpfilter.v1 import dumpfilter_pb2 as pb

if TYPE_CHECKING:
    from dumpfilter.master.sharing import SharedReader
    from dumpfilter.master.store import BinlogStore

LONGEST_WAIT = 15.0
"""The longest time that a replica waits for a store that lags behind its source, seconds. The replica then gets an
error and tries again.

The store is the directory with the binlog files that were received from a running server, the source.
"""

_LOOKS = 0.1
"""The interval at which a master that lags behind its source checks whether it has received the transactions that the
replica has, seconds.
"""

_MOST_NAMED = 300
"""The length at which the list of GTIDs in an error is cut, characters."""

_MYSQL = (
    "Replica has more GTIDs than the source has, using the source's SERVER_UUID. This may indicate that the the last "
    "binary log file was truncated or lost, e.g., after a power failure when sync_binlog != 1. The source may have "
    "rolled back transactions that were already replicated to the replica. Replicate any transactions that source has "
    "rolled back from replica to source, and/or commit empty transactions on source to account for transactions that "
    "have been committed on source but are not included in GTID_EXECUTED."
)
_MARIADB = "Error: connecting slave requested to start from GTID {}, which is not in the master's binlog"
_DIVERGED = (
    ". Since the master's binlog contains GTIDs with higher sequence numbers, it probably means that the slave has "
    "diverged due to executing extra erroneous transactions"
)
_HOLE = (
    "The binlog on the master is missing the GTID {} requested by the slave (even though both a prior and a subsequent "
    "sequence number does exist), and GTID strict mode is enabled"
)


class ReplicaAhead(PositionError):
    """The error for a replica or slave with GTIDs that its source lacks, or with a position after the end of the
    source's binlog.

    ``told`` is the error text that a replica gets. For GTIDs, ``told`` is the text of a MySQL or MariaDB server.
    ``gtids`` are the GTIDs that the source lacks. The exception's own text names them, but ``told`` does not.

    ``is_diverged`` is True if the source has logged the same or a higher sequence number in the MariaDB domain of such
    a GTID. Then the source does not merely lag behind. The check of MariaDB's strict mode, :func:`check_no_hole`,
    leaves the value False.
    """

    def __init__(self, told: str, *, gtids: str = "", is_diverged: bool = False) -> None:
        shown = gtids if len(gtids) <= _MOST_NAMED else f"{gtids[:_MOST_NAMED]}…"
        super().__init__(f"{told} The source lacks {shown}." if gtids else told)
        self.told = told
        self.is_diverged = is_diverged


@dataclass(frozen=True)
class Wanted:
    """The start of a dump that a replica or slave asks for: the GTIDs of the transactions that the slave has, or a
    binlog file and a position. ``gtids`` is None for a start by position.
    """

    gtids: GtidSet | None = None
    file: str = ""
    """The name of the binlog file. Empty for the first file, and for a start by GTID."""
    position: int = 0
    ignores_duplicates: bool = False
    """Whether a MariaDB replica may have received GTIDs from another source (``gtid_ignore_duplicates``)."""


def ahead_of(wanted: Wanted, logged: Logged, server_uuid: str) -> ReplicaAhead | None:
    """Return the error with which a server refuses the dump request ``wanted``, because the replica has more than the
    server. Return None if the server accepts the request. ``logged`` has the GTIDs, or the end of the binlog, of this
    server.

    MySQL refuses GTIDs of the server's own UUID, ``server_uuid``, that are not logged. GTIDs of other UUIDs are
    accepted, and so are GTIDs of the own UUID below its lowest logged one. MariaDB refuses a GTID that is not logged if
    its domain has logged transactions. With ``gtid_ignore_duplicates`` on the replica, a GTID above the newest logged
    one of its domain is accepted. Without GTIDs, a file and position after the end of the binlog are refused.
    """
    match wanted.gtids:
        case MysqlGtidSet() as have:
            return _mysql_ahead(have, logged, server_uuid)
        case MariadbGtidSet() as have:
            return _mariadb_ahead(have, logged, ignores_duplicates=wanted.ignores_duplicates)
    if logged.end is None or not is_later((wanted.file, wanted.position), logged.end):
        return None
    return ReplicaAhead("the place is after the end of the binlog")


def _mysql_ahead(have: MysqlGtidSet, logged: Logged, server_uuid: str) -> ReplicaAhead | None:
    own = uuids.UUID(server_uuid).bytes
    lowest: dict[object, int] = {}
    for key, first, _ in logged.gtids:
        lowest.setdefault(key, first)
    ahead = MysqlGtidSet()
    for key, first, last in have - logged.gtids:
        # No binlog file has to hold GTIDs before the first logged one, because SET gtid_purged can name them.
        if key[0] == own and last >= lowest.get(key, 0):
            ahead.add_range(key, first, last)
    return ReplicaAhead(_MYSQL, gtids=str(ahead)) if ahead else None


def _mariadb_ahead(have: MariadbGtidSet, logged: Logged, *, ignores_duplicates: bool) -> ReplicaAhead | None:
    for gtid in have.gtids():
        newest = logged.newest(gtid.domain_id)
        if newest is None or logged.has(gtid) or (ignores_duplicates and newest < gtid.seq_no):
            continue
        is_diverged = newest >= gtid.seq_no
        text = _MARIADB.format(gtid) + (_DIVERGED if is_diverged else "")
        return ReplicaAhead(text, is_diverged=is_diverged)
    return None


def unknown_domains(have: GtidSet, store: BinlogStore) -> frozenset[int]:
    """Return the MariaDB domain ids in ``have``, a replica's GTIDs, of which the binlog has no transaction yet. Return
    an empty set for MySQL, and if the GTIDs of the binlog are not known.

    The dump checks the replica's GTID again when such a domain appears in the binlog.
    """
    if not isinstance(have, MariadbGtidSet):
        return frozenset()
    logged = logged_for(store, have)
    if logged is None:
        return frozenset()
    return frozenset(gtid.domain_id for gtid in have.gtids() if logged.newest(gtid.domain_id) is None)


async def check_place(wanted: Wanted, reader: SharedReader, server_uuid: str) -> None:
    """Check the GTIDs or the position from which a slave or replica wants the binlog, before its dump starts. Raises
    ReplicaAhead for GTIDs that the server which wrote the binlog lacks. ``reader`` reads the served binlog set.
    ``server_uuid`` is the UUID that identifies the set, if possible the UUID of the server that wrote it.

    If the master receives the binlog from a running server and only lags behind, wait until the master has received
    what the replica has. Raises BinlogUnreadable (momentary: a later attempt may succeed) if the master still lags
    after 15 seconds (``LONGEST_WAIT``). A file and position after the end of the binlog are accepted here; the dump
    refuses them later.
    """
    store = reader.store
    ahead = await reader.serve(lambda: _ahead(wanted, store, server_uuid))
    if ahead is None:
        return
    upstream = store.upstream
    if upstream is None or (store.is_relay_log and ahead.is_diverged):
        if wanted.gtids is not None:
            raise ahead
        return
    until = time.monotonic() + LONGEST_WAIT
    source: Logged | None = None
    reason = "its source has more"
    try:
        source = await reader.ask_source(upstream)
        ahead = await reader.serve(functools.partial(ahead_of, wanted, source, server_uuid))
    except DumpfilterError as error:
        reason = f"its source cannot be asked: {error}"
    else:
        if ahead is not None:
            if wanted.gtids is not None:
                raise ahead
            return
    while time.monotonic() < until:
        if await reader.serve(lambda: _ahead(wanted, store, server_uuid, source)) is None:
            return
        await asyncio.sleep(_LOOKS)
    raise BinlogUnreadable(
        f"the binlogs here do not reach the replica's place yet, and {reason}; connect again", momentary=True
    )


def _ahead(
    wanted: Wanted, store: BinlogStore, server_uuid: str, source: Logged | None = None
) -> ReplicaAhead | None:
    """Return the error for a start (GTIDs, or a file and position) that lies after the end of the binlog in ``store``.
    Return None for an acceptable start. A position in a relay log, and a position without a file name, are not checked.

    ``server_uuid`` is the UUID that identifies the binlog set, if possible the UUID of the server that wrote the set.
    ``source`` has the GTIDs of the server from which the master receives the binlog; None if that server was not asked.
    Raises BinlogError if the set's index file or newest file cannot be read.
    """
    store.refresh()
    if wanted.gtids is None:
        name = store.binlogs.names[-1]
        if store.is_relay_log or not wanted.file:
            return None
        logged: Logged | None = Logged(end=(name, store.open_file(name).file.size))
    else:
        logged = logged_for(store, wanted.gtids)
        if logged is not None and source is not None:
            logged = replace(logged, slave_position=source.slave_position)
    if logged is None:
        return None
    ahead = ahead_of(wanted, logged, server_uuid)
    if ahead is not None and isinstance(wanted.gtids, MariadbGtidSet) and not store.is_relay_log:
        position = logged.slave_position | _before_first(wanted.gtids, store)
        ahead = ahead_of(wanted, replace(logged, slave_position=position), server_uuid)
    return ahead


def _before_first(have: MariadbGtidSet, store: BinlogStore) -> frozenset[MariadbGtid]:
    """Return those GTIDs of a MariaDB replica whose sequence number is one below that of the first transaction which
    the binlog ever had of their domain (see :func:`_first_number`).

    The master accepts such a GTID although the binlog lacks it. A server may have applied this transaction as a replica
    without log_slave_updates, and have logged the next ones itself. The server then has this GTID in gtid_slave_pos
    only.
    """
    return frozenset(gtid for gtid in have.gtids() if _first_number(gtid.domain_id, store) == gtid.seq_no + 1)


def _first_number(domain: int, store: BinlogStore) -> int | None:
    """Return the sequence number of the first transaction of a MariaDB replication domain that was ever written to the
    binlog. ``domain`` is the domain's id.

    Return None if a purged file had this transaction, so that its number is not known. Also return None if the binlog
    has no transaction of the domain yet.
    """
    names = store.binlogs.names

    def is_before(name: str) -> bool:
        return any(gtid.domain_id == domain for gtid in gtids_before(store.open_file(name).file).listed)

    found = next((at for at, name in enumerate(names) if is_before(name)), len(names))
    if not found:
        return None
    for segment in store.segments(names[found - 1]):
        for source, number in zip(segment.txn_source.tolist(), segment.txn_number.tolist(), strict=True):
            if source >= 0 and store.sources.key(source)[0] == domain:
                return int(number)
    return None


def is_later(place: tuple[str, int], end: tuple[str, int]) -> bool:
    """Tell whether the binlog position ``place`` (file, offset) comes after the position ``end`` of the same binlog, in
    its file or in a later one.

    Return False for names of different binlogs.
    """
    base, _, number = place[0].rpartition(".")
    newest_base, _, newest = end[0].rpartition(".")
    if base != newest_base or not (number.isdecimal() and newest.isdecimal()):
        return False
    # A client may name a number that is too long for int().
    number, newest = number.lstrip("0"), newest.lstrip("0")
    return (len(number), number, place[1]) > (len(newest), newest, end[1])


def logged_for(store: BinlogStore, have: GtidSet) -> Logged | None:
    """Return the logged GTIDs of the binlog in ``store``, to compare with ``have``, the GTIDs of a replica or slave.

    To save time, the newest file is scanned only if ``have`` has a GTID that no earlier file has. Otherwise the result
    lacks the GTIDs of the newest file. Return None if the newest file is damaged, or does not begin with a GTID set.
    """
    try:
        before = logged_before(store.open_file(store.binlogs.names[-1]).file)
        if before is not None and _has_all(before, have):
            return before
        return store.logged()
    except BinlogError:
        # The dump itself meets the damage, after it has sent what is whole.
        return None


def _has_all(logged: Logged, have: GtidSet) -> bool:
    if isinstance(have, MariadbGtidSet):
        return all(map(logged.has, have.gtids()))
    return logged.gtids.issuperset(have)


def check_no_hole(have: GtidSet, file: str, store: BinlogStore) -> None:
    """Check that the binlog has the GTIDs in ``have``, the position of a MariaDB replica in strict mode. ``file`` is
    the binlog file in which the replica's dump begins.

    As MariaDB does, raises ReplicaAhead for a GTID that is missing between two logged sequence numbers of one server.
    GTIDs after the end of the binlog are not checked here. Raises BinlogError where the binlog is damaged.
    """
    logged = logged_for(store, have)
    if logged is None or not isinstance(have, MariadbGtidSet):
        return
    listed = gtids_before(store.open_file(file).file).listed
    inside = {
        store.sources.number((gtid.domain_id, gtid.server_id)): gtid
        for gtid in have.gtids()
        if gtid not in listed and logged.last.get((gtid.domain_id, gtid.server_id), 0) > gtid.seq_no
    }
    files = itertools.dropwhile(lambda name: name != file, store.binlogs.names if inside else ())
    for segment in itertools.chain.from_iterable(map(store.segments, files)):
        if not inside:
            return
        for _, source, first, last, *_ in segment.dropped.tolist():
            # A transaction that the master of the slave with the relay log dropped is not missing.
            if source in inside and first <= inside[source].seq_no <= last:
                del inside[source]
        for source in inside.keys() & set(segment.txn_source.tolist()):
            numbers = segment.txn_number[segment.txn_source == source]
            later = numbers[numbers >= inside[source].seq_no]
            if not later.size:
                continue
            gtid = inside.pop(source)
            if gtid.seq_no != int(later[0]):
                raise ReplicaAhead(_HOLE.format(gtid))


_FARTHEST = 1 << 31
"""Half of the range of ``end_log_pos`` (32 bits), bytes. A position that would lie at least this far after another one,
modulo 4 GiB, counts as lying before it.
"""

_UNKNOWN_END = -1
"""The value for the end position of a transaction whose end is not written yet."""


@dataclass(frozen=True)
class DumpStart:
    """The transaction boundary at which a dump begins to read a binlog file, and the values of the slave's request that
    the dump needs, such as the slave's GTIDs.
    """

    file: str = ""
    """The name of the binlog file on this master."""
    position: int = 0
    """The byte offset in the file at which the dump begins."""
    gtid_set: GtidSet | None = None
    """The GTIDs of transactions that the slave has and that the dump leaves out.

    None when the slave named none (no auto-positioning).
    """
    told: int | None = None
    """The position that the slave named, if it lies inside the Gap event of a relay log that begins at ``position``;
    otherwise None. The named position belongs to the binlog of the server that wrote the events.

    A Gap event stands for transactions that the master of the relay log's slave dropped.
    """
    unknown_domains: frozenset[int] = frozenset()
    """The MariaDB domains of the slave's GTIDs in which the binlog has no transaction yet."""
    begun: int = 0
    """The position of the transaction boundary at which the dump begins, in the binlog file of the server that wrote
    the events; 0 if the slave named no position.
    """
    end: int = 0
    """The position after the transaction of which the replica has a part, in the binlog of the server that wrote the
    events; 0 if the replica has no partial transaction.

    The value is negative for a transaction whose end is not written yet.
    """
    has_first_transaction: bool = False
    """Whether ``gtid_set`` has the first transaction of the file in which the dump of a real replica begins."""


def start_of(request: pb.DumpRequest, wanted: Wanted, store: BinlogStore) -> DumpStart:
    """Return the transaction boundary at which the dump for a slave's request begins.

    ``wanted`` has the GTIDs or the position of the request. A request by position may also name GTIDs that the dump
    leaves out.

    Raises GtidError for a malformed GTID set, BinlogMissing for an unknown file, and PositionError for a position or
    GTIDs at which no dump can begin. In a chain of slaves, a position that the serving slave has not received yet
    raises BinlogUnreadable.
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
    position. Raises GtidError for a malformed GTID set.
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
    a file that the binlog set does not have, and PositionError for a position at which no dump can begin. In a chain of
    slaves, a position that the serving slave has not received yet raises BinlogUnreadable. The error is marked as
    momentary, which means that a later attempt may succeed.
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
    """Check that a slave has the transactions that are missing in the relay log from which another slave serves it.
    Raises PositionError otherwise.

    The serving slave had these transactions before, and asked its own master by GTID to leave them out. A position in
    the writer's binlog does not show that they are missing.
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

    A file that does not tell the GTIDs of earlier files qualifies, too, because there is nothing to compare with
    ``have``. The exception is a last file that is so new that its GTIDs may not be written yet. This file is skipped if
    the file before it tells its GTIDs. Raises PositionError when the slave lacks GTIDs that the master has purged.
    """
    names = store.binlogs.names
    for name in reversed(names):
        before = store.previous_gtids(name)
        # The newest file may be so new that its Previous_gtids event is not written yet.
        if before is None and name == names[-1] != names[0] and store.previous_gtids(names[-2]) is not None:
            continue
        if before is None or have.issuperset(before):
            return name
    first = names[0]
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
    the binlog set's first file. If several relay log files belong to one file of the writer, the newest that begins
    before the position is used. A relay log lacks transactions that its slave had before it asked its master by GTID.
    ``has_earlier`` says that the client which gets the dump has these transactions, too.

    Raises BinlogMissing for a file that the set does not have, and PositionError for a position that the set lacks.
    Raises BinlogUnreadable for a position that the slave with the relay log has not received yet. The error is marked
    as momentary, which means that a later attempt may succeed.
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
    """Return the relay log file with the event at ``position`` of ``file``, a binlog file of the server that wrote the
    events. If several relay log files have parts of ``file``, the newest that begins at or before ``position`` is
    returned.

    Raises PositionError if there is none. Raises BinlogUnreadable (momentary: a later attempt may succeed) if the slave
    has not received the position yet.
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
    """Return the position in the writer's binlog at which a transaction begins. The writer is the server that wrote the
    events. ``boundary`` is the transaction's byte offset in the file ``indexed``.

    The position is computed from ``end_log_pos`` of the transaction's Gtid event. Without a Gtid event, or with 0 in
    ``end_log_pos``, return ``before``. This is the writer's position after the event that precedes the transaction in
    ``indexed``. The two positions differ where a relay log lacks transactions, because its slave had them already.
    """
    header = EventHeader.unpack(indexed.read(boundary, HEADER_LENGTH))
    if header.type not in GTIDS or not header.end_log_pos:
        return before
    distance = (header.end_log_pos - header.size - before) & 0xFFFFFFFF
    return before + distance if distance < _FARTHEST else before


def is_event(position: int, indexed: IndexedFile, store: BinlogStore) -> bool:
    """Tell whether an event begins at the byte offset ``position`` of ``indexed``, a server's own binlog file (no relay
    log). Return True, too, if no whole transaction has been written at this offset yet, for example at the end of the
    file.
    """
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
    """Return the first transaction or Gap event (dropped transactions) in ``indexed`` that ends after ``position``.
    Return None if there is none. ``position`` belongs to the binlog of the writer, the server that wrote the events.

    The result is a triple: the transaction's byte offset in the file on this master, and the writer's positions before
    and after the transaction. The position after a transaction that is not complete yet is ``_UNKNOWN_END`` (-1).
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

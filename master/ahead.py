"""The refusal of replicas and slaves that have GTIDs which their source lacks. MySQL and MariaDB servers refuse them
alike.

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

from dumpfilter.base.errors import BinlogError, BinlogUnreadable, DumpfilterError, PositionError
from dumpfilter.binlog.gtid import GtidSet, MariadbGtid, MariadbGtidSet, MysqlGtidSet
from dumpfilter.index.fileset import gtids_before
from dumpfilter.master.logged import Logged

if TYPE_CHECKING:
    from dumpfilter.master.sharing import SharedReader
    from dumpfilter.master.store import BinlogStore

LONGEST_WAIT = 15.0
"""The longest time that a replica waits for a store that lags behind its source, seconds. The replica then gets an
error and tries again.

The store is the directory with the binlog files that were received from a running server, the source.
"""

_LOOKS = 0.1
"""The interval at which a lagging store is checked for the replica's position, seconds."""

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

    ``told`` is the error text, as a MySQL or MariaDB server sends it. ``is_diverged`` says that the source has logged
    the same or a higher sequence number in the GTID's MariaDB domain.
    """

    def __init__(self, told: str, *, gtids: str = "", is_diverged: bool = False) -> None:
        shown = gtids if len(gtids) <= _MOST_NAMED else f"{gtids[:_MOST_NAMED]}…"
        super().__init__(f"{told} The source lacks {shown}." if gtids else told)
        self.told = told
        self.is_diverged = is_diverged


@dataclass(frozen=True)
class Wanted:
    """The start of a dump that a replica or slave asks for: the GTIDs that it has, or a binlog file and a position."""

    gtids: GtidSet | None = None
    file: str = ""
    """The name of the binlog file. Empty for the first file, and for a start by GTID."""
    position: int = 0
    ignores_duplicates: bool = False
    """Whether a MariaDB replica may have received GTIDs from another source (``gtid_ignore_duplicates``)."""


def ahead_of(wanted: Wanted, logged: Logged, server_uuid: str) -> ReplicaAhead | None:
    """Return the error for a dump request that a server with the logged transactions ``logged`` would refuse, or None.

    MySQL refuses GTIDs of the server's own UUID, ``server_uuid``, that are not logged. GTIDs before the first logged
    one of this UUID pass, and so do other UUIDs. MariaDB refuses an unlogged GTID in a domain that has logged
    transactions. If ``wanted`` says that the replica ignores duplicates (``gtid_ignore_duplicates``), a GTID above the
    newest logged one of its domain passes. Without GTIDs, a file and position after the end of the binlog are refused.
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
    an empty set for MySQL.

    The dump checks the replica's GTID again when such a domain appears in the binlog.
    """
    if not isinstance(have, MariadbGtidSet):
        return frozenset()
    logged = _logged(store)
    if logged is None:
        return frozenset()
    return frozenset(gtid.domain_id for gtid in have.gtids() if logged.newest(gtid.domain_id) is None)


async def check_place(wanted: Wanted, reader: SharedReader, server_uuid: str) -> None:
    """Check the GTIDs or the position from which a slave or replica wants the binlog. Raises ReplicaAhead for GTIDs
    that the source of the binlog lacks.

    If the master receives the binlog from a running server and only lags behind, wait until the master has received
    what the replica has. Raises BinlogUnreadable (momentary) if the master still lags after LONGEST_WAIT. A file and
    position that the source lacks are accepted here; the dump refuses them later.
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
        source = await asyncio.to_thread(upstream)
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
    Return None for an acceptable start.

    ``source`` has the GTIDs of the server from which the master receives the binlog; None if that server was not asked.
    """
    store.refresh()
    if wanted.gtids is None:
        name = store.binlogs.names[-1]
        if store.is_relay_log or not wanted.file:
            return None
        logged: Logged | None = Logged(end=(name, store.open_file(name).file.size))
    else:
        logged = _logged(store)
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
    """Return the GTIDs of a replica that come directly before the first transaction of their domain in the binlog.

    A server that was a replica without log_slave_updates has such GTIDs in gtid_slave_pos, and not in its binlog.
    """
    return frozenset(gtid for gtid in have.gtids() if _first_number(gtid.domain_id, store) == gtid.seq_no + 1)


def _first_number(domain: int, store: BinlogStore) -> int | None:
    """Return the sequence number of a domain's first transaction in the binlog. Return None if that transaction was
    purged, or is not written yet.
    """
    names = store.binlogs.names

    def is_before(name: str) -> bool:
        return any(gtid.domain_id == domain for gtid in gtids_before(store.open_file(name).file).listed)

    found = next((at for at, name in enumerate(names) if is_before(name)), len(names))
    if not found:
        return None
    for segment in store.segments(names[found - 1]):
        for source, number in zip(segment.txn_source.tolist(), segment.txn_number.tolist(), strict=True):
            if source >= 0 and store.sources.key(source, "mariadb")[0] == domain:
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
    return (int(number), place[1]) > (int(newest), end[1])


def _logged(store: BinlogStore) -> Logged | None:
    """Return the GTIDs that a store has logged. Return None if its newest file is damaged, or does not begin with a
    GTID set.
    """
    try:
        return store.logged()
    except BinlogError:
        # The dump itself meets the damage, after it has sent what is whole.
        return None


def check_no_hole(have: GtidSet, file: str, store: BinlogStore) -> None:
    """Check that the binlog has each GTID in ``have``, the position of a MariaDB replica in strict mode. Raises
    ReplicaAhead.

    MariaDB refuses a GTID that is missing between two logged sequence numbers of one server. ``file`` is the binlog
    file in which the replica's dump begins.
    """
    logged = _logged(store)
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
        for source in inside.keys() & set(segment.txn_source.tolist()):
            numbers = segment.txn_number[segment.txn_source == source]
            later = numbers[numbers >= inside[source].seq_no]
            if not later.size:
                continue
            gtid = inside.pop(source)
            if gtid.seq_no != int(later[0]):
                raise ReplicaAhead(_HOLE.format(gtid))

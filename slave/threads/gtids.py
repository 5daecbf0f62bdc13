"""Functions that read GTIDs from the master's messages and from relay logs, and add them to GTID sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.gtid import Gtid, GtidSet, MariadbGtidSet, parse_gtid_set
from dumpfilter.binlog.gtid_events import decode_gtid_tagged, decode_mariadb_gtid, decode_mysql_gtid
from dumpfilter.binlog.gtid_sources import SourceKey, add_run
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.slave.state.relay_log import RelayPosition, read_index
from dumpfilter.v1 import dumpfilter_pb2 as pb


def ranges(member: pb.GtidRuns) -> Iterator[tuple[int, int]]:
    """Yield the first and the last transaction number of each run of consecutive GTIDs in a message of the master.

    The message encodes each run as two numbers: the distance from the end of the previous run, and the number of
    GTIDs in the run.

    >>> list(ranges(pb.GtidRuns(runs=[1, 5, 3, 2])))
    [(1, 5), (8, 9)]
    """
    last = 0
    for gap, count in zip(member.runs[::2], member.runs[1::2], strict=True):
        first = last + gap
        last = first + count - 1
        yield first, last


def add_runs(gtids: GtidSet, runs: pb.GtidRunsSet) -> None:
    """Add the GTIDs that the master sent with a chunk to the set ``gtids``.

    ``runs`` encodes the GTIDs as runs of consecutive numbers. Raises GtidError when ``gtids`` holds MySQL's GTIDs and
    ``runs`` MariaDB's, or the reverse.
    """
    for member in runs.members:
        key: SourceKey = (member.uuid, member.tag)
        if isinstance(gtids, MariadbGtidSet):
            key = (member.domain_id, member.server_id)
        for first, last in ranges(member):
            add_run(gtids, key, first, last)


def gtid_of(event: Event) -> Gtid | None:
    """Return the GTID in a GTID event of MySQL or MariaDB, or None for any other event."""
    kind = event.header.type
    if kind == EventType.MARIADB_GTID:
        return decode_mariadb_gtid(event.body, event.header.server_id).gtid
    if kind == EventType.GTID_TAGGED:
        return decode_gtid_tagged(event.body).gtid
    if kind == EventType.GTID:
        return decode_mysql_gtid(event.body).gtid
    return None


def up_to(gtids: GtidSet) -> GtidSet:
    """Return the set ``gtids`` with all gaps filled.

    For each server UUID (MySQL) or domain (MariaDB) the result holds all numbers from 1 to the highest in ``gtids``.
    A slave uses the result to find transactions that the master dropped before the highest applied one.

    >>> str(up_to(parse_gtid_set("0-1-3:5")))
    '0-1-5'
    """
    found = gtids.copy()
    for key, _, last in gtids:
        found.add_range(key, 1, last)
    return found


def gtids_between(
    directory: Path, start: RelayPosition, end: RelayPosition, family: Family | None
) -> GtidSet:
    """Read the relay log from ``start`` to ``end`` and return the GTIDs of the transactions there.

    Raises BinlogError when a relay log file is damaged, and StateCorrupt when the relay log's index file is damaged.
    """
    found = parse_gtid_set("", family)
    files = read_index(directory)
    for name in files[files.index(start.file) : files.index(end.file) + 1]:
        path = directory / name
        first = start.offset if name == start.file else 4
        last = end.offset if name == end.file else path.stat().st_size
        with path.open("rb") as file:
            for event in iter_events(file, file=str(path), start=first, end=last):
                gtid = gtid_of(event)
                if gtid is not None:
                    found.add(gtid)
    return found

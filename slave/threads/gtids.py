"""Functions that read GTIDs from the master's messages and from events."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dumpfilter.base.errors import StreamDamaged
from dumpfilter.binlog.events import GTIDS
from dumpfilter.binlog.gtid import Gtid, GtidSet, MariadbGtidSet, SourceKey
from dumpfilter.binlog.gtid_events import decode_gtid
from dumpfilter.binlog.reader import Event
from dumpfilter.v1 import dumpfilter_pb2 as pb

_TAG = re.compile(r"(?:[a-z_][a-z0-9_]{0,31})?")
"""The form of a GTID's tag in MySQL, which may be empty."""


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
    ``runs`` MariaDB's, or the reverse, and StreamDamaged for a malformed message.
    """
    for member in runs.members:
        is_mysql = not isinstance(gtids, MariadbGtidSet)
        if len(member.runs) % 2 or (is_mysql and (len(member.uuid) != 16 or not _TAG.fullmatch(member.tag))):
            raise StreamDamaged("the GTIDs of a chunk are malformed")
        key: SourceKey = (member.uuid, member.tag)
        if isinstance(gtids, MariadbGtidSet):
            key = (member.domain_id, member.server_id)
        for first, last in ranges(member):
            gtids.add_range(key, first, last)


def gtid_of(event: Event) -> Gtid | None:
    """Return the GTID in a GTID event of MySQL or MariaDB, or None for any other event."""
    return decode_gtid(event.header, event.body).gtid if event.type in GTIDS else None

"""Between the contract's runs of GTIDs and GTID sets."""

from __future__ import annotations

from collections.abc import Iterator

from dumpfilter.binlog.gtid import GtidSet, MariadbGtidSet
from dumpfilter.binlog.sources import SourceKey, add_run
from dumpfilter.v1 import dumpfilter_pb2 as pb


def ranges(member: pb.GtidRuns) -> Iterator[tuple[int, int]]:
    """First and last number of each run.

    >>> list(ranges(pb.GtidRuns(runs=[1, 5, 3, 2])))
    [(1, 5), (8, 9)]
    """
    last = 0
    for gap, count in zip(member.runs[::2], member.runs[1::2], strict=True):
        first = last + gap
        last = first + count - 1
        yield first, last


def add_runs(gtids: GtidSet, runs: pb.GtidRunsSet) -> None:
    """Add a chunk's runs to a set. Raises GtidError when they are not of the set's family."""
    for member in runs.members:
        key: SourceKey = (member.uuid, member.tag)
        if isinstance(gtids, MariadbGtidSet):
            key = (member.domain_id, member.server_id)
        for first, last in ranges(member):
            add_run(gtids, key, first, last)

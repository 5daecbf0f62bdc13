"""The chunks of slaves that speak version 1 of the protocol, which do not read the gaps of a chunk.

A slave of version 1 places the GTIDs of a chunk by ``completed``, and counts hits by a list of the chunk.
"""

from __future__ import annotations

from collections import defaultdict

from dumpfilter.binlog.format import NameCollation, NameRules
from dumpfilter.binlog.gap_events import source_key
from dumpfilter.stream.gaps import gaps_from_proto
from dumpfilter.v1 import dumpfilter_pb2 as pb

VERSION = 1


def version1_names(names: NameRules) -> NameRules:
    """Return the rules for names by which a slave of version 1 filters when its filter names no collation.

    Early slaves know only the collation of MariaDB before 11.5. With another collation the master would drop rows that
    such a slave keeps.
    """
    return names._replace(collation=NameCollation.GENERAL_CI)


def fields_of_version1(chunk: pb.Chunk) -> bytes:
    """Return the serialized fields that a slave of version 1 reads in a chunk besides the chunk's own fields.

    The master appends these bytes to the serialized chunk.
    """
    if not chunk.HasField("gaps"):
        return b""
    gaps = gaps_from_proto(chunk.gaps)
    hits: dict[int, int] = defaultdict(int)
    for kind, count in zip(gaps.hit_kind.tolist(), gaps.hit_count.tolist(), strict=True):
        hits[kind] += count
    runs: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for source, first, last in zip(
        gaps.run_source.tolist(), gaps.run_first.tolist(), gaps.run_last.tolist(), strict=True
    ):
        runs[gaps.sources[source]].append((first, last))
    members = [_member(source, sorted(intervals)) for source, intervals in runs.items()]
    return pb.ChunkOfVersion1(
        empty=pb.GtidRunsSet(members=members) if members else None,
        hits=[pb.RuleHits(kind=kind, count=count) for kind, count in sorted(hits.items())],  # type: ignore[arg-type]
    ).SerializeToString()


def _member(source: bytes, intervals: list[tuple[int, int]]) -> pb.GtidRuns:
    """Return the message for a GTID source's intervals, each of which is stored as its distance and its length."""
    key, runs, before = source_key(source), [], 0
    for first, last in intervals:
        runs += [first - before, last - first + 1]
        before = last
    if isinstance(key[0], bytes):
        return pb.GtidRuns(uuid=key[0], tag=str(key[1]), runs=runs)
    domain, server = key
    return pb.GtidRuns(domain_id=domain, server_id=int(server), runs=runs)

"""The gRPC messages (chunks) in which a slave receives the binlog: events, positions, GTIDs, and counts of events and
bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Literal

from dumpfilter.binlog.gtid import SourceKey
from dumpfilter.dump.chunk import ChunkPlan, Counts, Gaps, GtidRuns, Window
from dumpfilter.dump.stream.message import gaps_to_proto, with_events
from dumpfilter.dump.stream.pace import LEAST
from dumpfilter.index.segment import Segment
from dumpfilter.master.advance import DumpPlace, Encoding
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.placed import PlacedPlan
from dumpfilter.v1 import dumpfilter_pb2 as pb

_LEAST_SPLIT = LEAST
"""The size up to which events stay in one message even if the slave asked for smaller messages, bytes."""

_COUNT_NAMES = tuple(field.name for field in pb.Counts.DESCRIPTOR.fields)
_COUNTS = attrgetter(*_COUNT_NAMES)


def position_chunk(
    place: DumpPlace,
    *,
    previous: IndexedFile | None = None,
    announce: bool = False,
    why: Literal["end_of_file", "end_of_log", "heartbeat"] | None = None,
) -> bytes:
    """Return a serialized chunk (gRPC message) without events, which tells the slave the position that its dump has
    reached.

    Parameters:
        previous: the binlog file that the dump has just left, if the chunk is the first of another file; else None.
        announce: whether to add the file's format description event and the position where the dump begins in the file.
            The first chunk of a dump or of a file must have both.
        why: the field of the message to set to true, which tells the reason for the chunk; None for no field.
    """
    file, position = place.told
    chunk = pb.Chunk(
        file=file,
        begin_position=position,
        end_position=position,
        # Inside a transaction a new dump can only begin before the transaction.
        resume_position=place.resume if place.thread.in_transaction else position,
        previous_file="" if previous is None else previous.file.begin.file,
    )
    if why is not None:
        setattr(chunk, why, True)
    if announce:
        chunk.format_description = place.source.file.format_description.raw
        chunk.start_position = position
    return with_events(chunk, b"")


def kept_chunk(announcement: bytes, position: int, kept: int) -> bytes:
    """Return a copy of ``announcement``, the first message of a dump, that also tells the slave how many bytes of
    events are left out. The slave has these ``kept`` bytes from an earlier dump.

    ``position`` is the position at which the next chunk of the dump begins.
    """
    chunk = pb.Chunk.FromString(announcement)
    chunk.end_position = position
    chunk.kept_bytes = kept
    return with_events(chunk, b"")


@dataclass(eq=False, slots=True)
class GrpcPlan(PlacedPlan):
    """The description of one chunk (the byte ranges of events to send), which makes gRPC messages for dumpfilter's own
    slaves.
    """

    gaps: Gaps
    """The gaps (dropped transactions) of the plan, with positions in the writer's binlog file."""
    skipped: int = 0
    """The number of bytes at the beginning of the plan's events that the slave has already, and that the messages
    leave out.
    """

    def messages(self, chunk_size: int, *, window: Window | None = None) -> Iterator[bytes]:
        """Yield the chunk as one serialized message, or as several if the chunk has more than twice ``chunk_size``
        bytes of events.

        ``window`` holds bytes of the file that are in memory already; None for none. Raises BinlogError.
        """
        plan, key_of, skipped = self.plan, self.source.gtid_source, self.skipped
        told, gaps = self.positions, self.gaps
        events = self.events(window)
        size = max(chunk_size, _LEAST_SPLIT)
        if len(events) <= 2 * size:
            size = max(len(events), 1)
        before = told.before
        # A slave that has kept bytes was told no gap among them.
        gaps = gaps.not_before(skipped)
        counts = counts_to_proto(plan.counts)
        completed = runs_to_proto(plan.completed, key_of) if len(plan.completed) else None
        for begin in range(skipped, max(len(events), skipped + 1), size):
            piece = events[begin : begin + size]
            is_last = begin + size >= len(events)
            # The slave saves GTIDs together with a resume point, the position at which it continues after a restart.
            # Therefore only the chunk that contains a resume point, or ends with one, carries GTIDs.
            is_before = begin + size < plan.resume_bytes or (not is_last and not plan.resume_bytes)
            is_here = not is_before and (begin < plan.resume_bytes or (is_last and not plan.resume_bytes))
            resume = told.resume_before if is_before else told.resume
            end = told.end if is_last else max(before, resume)
            here = b""
            if len(gaps) and (is_before or is_here):
                # The gap after the last complete transaction belongs to the chunk that has the resume point.
                some = gaps.between(begin, begin + size if is_before else len(events) + 1)
                here = gaps_to_proto(some, key_of) if len(some) else b""
            chunk = pb.Chunk(
                file=told.file,
                begin_position=before,
                end_position=end,
                resume_position=resume,
                resume_bytes=plan.resume_bytes - begin if is_here and plan.resume_bytes else 0,
                counts=counts if is_last else None,
                completed=completed if is_here else None,
            )
            yield with_events(chunk, piece, here)
            before = end


@dataclass(frozen=True)
class GrpcEncoding(Encoding):
    """The message format of dumps for dumpfilter's own slaves: serialized messages ``Chunk`` of the gRPC contract
    ``dumpfilter.proto``.
    """

    def pieces(self, place: DumpPlace, segment: Segment, plans: Sequence[ChunkPlan]) -> list[PlacedPlan]:
        """Return an object for each chunk of ``plans`` that makes the chunk's gRPC messages. Each object has the
        positions before and after its chunk, and the gaps (dropped transactions) in the chunk.

        The chunks are consecutive in ``segment`` (scanned events), and begin at ``place``, the dump's position.
        """
        return [
            GrpcPlan(plan, place.source, told, plan.gaps.of_writer(segment))
            for plan, told in zip(plans, place.positions(segment, plans), strict=True)
        ]

    def announcement(self, place: DumpPlace, previous: IndexedFile | None) -> bytes:
        is_other_file = previous is not None and previous.name != place.file
        return position_chunk(place, announce=True, previous=previous if is_other_file else None)

    def end_of_file(self, place: DumpPlace) -> list[bytes]:
        return [position_chunk(place, why="end_of_file")]

    def heartbeat(self, place: DumpPlace) -> bytes:
        return position_chunk(place, why="heartbeat")

    def end_of_log(self, place: DumpPlace) -> bytes:
        return position_chunk(place, why="end_of_log")


def counts_to_proto(counts: Counts) -> pb.Counts:
    """Return the gRPC message with the counts of events, bytes and transactions of one chunk or of a whole dump.

    A compressed transaction of which a part was dropped may need more bytes than the whole one. A negative number of
    dropped bytes becomes 0 in the message. The message has no ``bytes_gtid``, because a chunk holds no events in place
    of dropped transactions.
    """
    return pb.Counts(
        **{name: max(value, 0) for name, value in zip(_COUNT_NAMES, _COUNTS(counts), strict=True)}
    )


def runs_to_proto(runs: GtidRuns, key_of: Callable[[int], SourceKey]) -> pb.GtidRunsSet:
    """Return the gRPC message for ``runs``, the GTIDs of the transactions that end in a chunk.

    ``runs`` has one row for each range of GTIDs: the number of the GTID source in the index, and the first and the last
    transaction number. ``key_of`` turns a source's number into (server UUID, tag) or (domain id, server id). The
    message groups the ranges by source, in ascending order. Each range is stored as its distance from the range before
    and its length.
    """
    members = []
    for source, group in groupby(sorted(runs.tolist()), key=itemgetter(0)):
        steps, before = [], 0
        for _, first, last in group:
            steps += [first - before, last - first + 1]
            before = last
        member = pb.GtidRuns(runs=steps)
        key = key_of(source)
        if isinstance(key[0], bytes):
            member.uuid, member.tag = key
        else:
            member.domain_id, member.server_id = key
        members.append(member)
    return pb.GtidRunsSet(members=members)

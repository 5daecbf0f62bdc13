"""The two message formats of a dump: gRPC messages for dumpfilter's own slaves, and plain binlog events for real
replicas of MySQL and MariaDB.

A gRPC message (chunk) has events, positions, GTIDs, and counts of events and bytes.

The connection of a replica makes packets of the events (:mod:`dumpfilter.dump.packets.protocol`), because packets are
numbered by connection. The events are the same for all replicas at one position. A real replica adds a GTID to its GTID
set only when it has executed a transaction with this GTID. Therefore a stand-in (an empty transaction with the GTID)
replaces a dropped transaction (:mod:`dumpfilter.dump.packets.stand_ins`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter, itemgetter

import numpy as np

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.base.options.values import FIRST_EVENT
from dumpfilter.binlog.gtid import SourceKey
from dumpfilter.dump.chunk import ChunkPlan, Counts, Gaps, Window
from dumpfilter.dump.packets.protocol import format_description, rotate
from dumpfilter.dump.packets.stand_ins import NOTHING_DROPPED, Dropped, find_dropped, with_stand_ins
from dumpfilter.dump.stream.message import GapList, Runs, gaps_to_proto, with_events
from dumpfilter.dump.stream.pace import LEAST
from dumpfilter.index.segment import Segment
from dumpfilter.master.advance import (
    DumpPlace,
    Encoding,
    Notice,
    PlacedPlan,
    Ranges,
    read_window,
)
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.v1 import dumpfilter_pb2 as pb

_COUNT_NAMES = tuple(field.name for field in pb.Counts.DESCRIPTOR.fields)
_COUNTS = attrgetter(*_COUNT_NAMES)


def _position_chunk(place: DumpPlace) -> pb.Chunk:
    """Return a chunk (gRPC message) without events, which tells the slave the position that its dump has reached."""
    file, position = place.told
    # Inside a transaction a new dump can only begin before the transaction.
    resume = place.resume if place.thread.in_transaction else position
    return pb.Chunk(file=file, begin_position=position, end_position=position, resume_position=resume)


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
    """The gaps (dropped transactions) of the plan, with positions in the binlog file of the server that wrote the
    events.
    """
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
        size = max(chunk_size, LEAST)
        if len(events) <= 2 * size:
            size = max(len(events), 1)
        before = told.before
        # A slave that has kept bytes was told no gap among them.
        gaps = gaps.not_before(skipped)
        counts = counts_to_proto(plan.counts)
        completed = runs_to_proto(plan.completed.tolist(), key_of) if len(plan.completed) else None
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
        """Return the first chunk of a dump or of the next binlog file in a dump. It has the file's format description
        event, the position where the dump begins in the file, and the name of the previous file, if it is another one.
        """
        chunk = _position_chunk(place)
        if previous is not None and previous.name != place.file:
            chunk.previous_file = previous.file.begin.file
        chunk.format_description = place.source.file.format_description.raw
        chunk.start_position = chunk.end_position
        return with_events(chunk, b"")

    def notice(self, place: DumpPlace, why: Notice) -> bytes:
        chunk = _position_chunk(place)
        setattr(chunk, why, True)
        return with_events(chunk, b"")


def counts_to_proto(counts: Counts) -> pb.Counts:
    """Return the gRPC message with the counts of events, bytes and transactions of one chunk or of a whole dump.

    A compressed transaction of which a part was dropped may need more bytes than the whole one. A negative number of
    dropped bytes becomes 0 in the message. The message has no ``bytes_gtid``, because a chunk holds no events in place
    of dropped transactions.
    """
    return pb.Counts(
        **{name: max(value, 0) for name, value in zip(_COUNT_NAMES, _COUNTS(counts), strict=True)}
    )


def chunk_of_commits(
    place: DumpPlace, end: int, events: bytes, counts: Counts, completed: Runs, gaps: GapList
) -> bytes:
    """Return the chunk (serialized message) from ``place`` to the position ``end`` of the same file, both transaction
    boundaries.

    ``events`` are the bytes that are sent. ``completed`` has the GTIDs of all transactions, and ``gaps`` those of the
    dropped ones.
    """
    file, before = place.told
    key_of = place.source.gtid_source
    chunk = pb.Chunk(
        file=file,
        begin_position=before,
        end_position=end,
        resume_position=end,
        resume_bytes=len(events),
        counts=counts_to_proto(counts),
        completed=runs_to_proto(completed.rows, key_of),
    )
    return with_events(chunk, events, gaps.message(key_of))


def runs_to_proto(runs: Iterable[list[int]], key_of: Callable[[int], SourceKey]) -> pb.GtidRunsSet:
    """Return the gRPC message for ``runs``, the GTIDs of the transactions that end in a chunk.

    ``runs`` has one row for each range of GTIDs: the number of the GTID source in the index, and the first and the last
    transaction number. ``key_of`` turns a source's number into (server UUID, tag) or (domain id, server id). The
    message groups the ranges by source, in ascending order. Each range is stored as its distance from the range before
    and its length.
    """
    members = []
    for source, group in groupby(sorted(runs), key=itemgetter(0)):
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


_MOST_STAND_INS = 32_768
"""The largest number of stand-ins in one message. A Gap event of a few bytes may name millions of dropped GTIDs."""


@dataclass(eq=False, slots=True)
class ReplicaPlan(PlacedPlan):
    """The description of a chunk (one message to slaves), or of a part of a chunk, for a real replica (MySQL or MariaDB
    server). It lists the byte ranges of binlog events to send, and makes one message of these plain events.
    """

    dropped: Dropped = NOTHING_DROPPED
    """The dropped transactions for which the replica gets stand-ins (empty transactions with their GTIDs)."""
    begin: int = 0
    """The byte offset within the chunk's events at which this part of the chunk begins."""
    stop: int | None = None
    """The byte offset within the chunk's events at which this part of the chunk ends; None for the end of the chunk."""
    bytes_gtid: int = 0
    """The size of the message's stand-ins (empty transactions in place of dropped ones), bytes. 0 until the message is
    made.
    """

    @property
    def counts(self) -> Counts:
        """The numbers of events, bytes and transactions in the message, and the bytes of its stand-ins (empty
        transactions for dropped ones).

        If a chunk was split into several messages, only the last one counts the chunk's events. The others count only
        their stand-ins.
        """
        counts = self.plan.counts if self.stop is None else Counts()
        return replace(counts, bytes_gtid=self.bytes_gtid) if self.bytes_gtid else counts

    @property
    def needed(self) -> Ranges | None:
        """The byte ranges of the binlog file from which the message is made. They include the Gtid events of dropped
        transactions that are copied into stand-ins. None if Gtid events must be made anew.
        """
        dropped, ranges = self.dropped, self.plan.ranges
        if dropped.sequence.any():
            return None
        if not len(dropped.place) or self.source.file.format_description.family == "mariadb":
            return ranges
        return np.concatenate([ranges[:, :2], np.column_stack([dropped.offset, dropped.size])])

    def messages(self, chunk_size: int, *, window: Window | None = None) -> Iterator[bytes]:
        """Yield one message with the chunk's events. The message is empty if the chunk has neither events nor stand-ins
        (empty transactions for dropped ones).

        ``chunk_size`` is not used. ``window`` has bytes of the file that are in memory already; None for none. Raises
        BinlogError.
        """
        source, dropped = self.source, self.dropped
        needed = self.needed if window is None and len(dropped.place) else None
        if needed is not None and len(needed):
            # The events and the Gtid events of the stand-ins are read together, where they are near one another.
            window = read_window(source, needed)
        events = self.events(window)[self.begin : self.stop]
        if not len(dropped.place):
            yield _as_bytes(events)
            return
        fd = source.file.format_description
        try:
            out = with_stand_ins(events, dropped, fd, source.gtid_source, source.read, window)
        except BinlogCorrupt as error:
            raise error.located(source.name, int(dropped.offset[0])) from None
        self.bytes_gtid = len(out) - len(events)
        source.check()
        yield bytes(out)

    def parts(self, resume: int) -> Iterator[ReplicaPlan]:
        """Split the chunk (one message), and yield parts with at most ``_MOST_STAND_INS`` stand-ins each, so that no
        message becomes too large. A stand-in is an empty transaction that replaces a dropped one.

        ``resume`` is the last transaction boundary at or before the chunk, a byte offset at which a dump can begin
        again.
        """
        pages = list(self.dropped.pages(_MOST_STAND_INS))
        begin = 0
        for page, following in zip(pages, [*pages[1:], None], strict=True):
            stop = None if following is None else int(following.place[0])
            # A part before the last one ends between two stand-ins, at no position of the writer.
            plan = self.plan if stop is None else replace(self.plan, resume=resume, resume_bytes=0)
            yield replace(
                self, plan=plan, dropped=page._replace(place=page.place - begin), begin=begin, stop=stop
            )
            begin = stop or 0


def _as_bytes(events: bytes | memoryview) -> bytes:
    """Return ``events`` as bytes. The bytes are not copied if ``events`` covers a whole bytes object."""
    whole = events.obj if isinstance(events, memoryview) else events
    return whole if isinstance(whole, bytes) and len(whole) == len(events) else bytes(events)


@dataclass(frozen=True)
class ReplicaEncoding(Encoding):
    """The message format of dumps for real replicas (MySQL and MariaDB servers): plain binlog events. A replica that
    uses GTIDs gets stand-ins (empty transactions) for dropped transactions.

    The end of a file is told by the artificial Rotate event of the next file. The replica's connection itself writes
    heartbeats and the packet at the end of a dump, because it knows the replica's position.
    """

    by_gtid: bool
    """Whether dropped transactions need stand-ins (empty transactions with their GTIDs), because the replica's GTID set
    must stay complete.
    """
    checksum: bool
    """Whether the replica was told that events end in a checksum (``@source_binlog_checksum``)."""
    keeps_temporary_tables: bool = False
    """Whether the replica has the first transaction of the file in which the dump begins.

    If so, the replica knows of the server's start at the beginning of the file, and is not told to drop its temporary
    tables again.
    """

    def pieces(self, place: DumpPlace, segment: Segment, plans: Sequence[ChunkPlan]) -> list[PlacedPlan]:
        """Return an object for each chunk of ``plans`` that makes the chunk's message, with stand-ins (empty
        transactions) for the dropped transactions. A chunk is the byte ranges of one message.

        The chunks are consecutive in ``segment`` (scanned events), and begin at ``place``, the dump's position. In a
        relay log a chunk with very many stand-ins is split into several objects.
        """
        source, resume = place.source, place.thread.resume
        pieces: list[PlacedPlan] = []
        for plan, told in zip(plans, place.positions(segment, plans), strict=True):
            whole = ReplicaPlan(plan, source, told)
            if self.by_gtid and len(plan.gaps.runs):
                whole.dropped = find_dropped(plan, segment, resume, source.read, source.gtid_source)
            pieces += [whole] if segment.position is None else whole.parts(resume)
        return pieces

    def announcement(self, place: DumpPlace, previous: IndexedFile | None) -> bytes:
        """Return the first events of a dump or of the next binlog file in a dump: an artificial Rotate event, which
        names file and position, and the format description event.

        A replica reads the Rotate event before it knows the format of the new file. So the Rotate event has a checksum
        if the events of the previous file have one.
        """
        file = place.source.file
        fd = file.format_description
        is_whole_file = place.position == file.first_event and file.is_whole
        name, position = place.told
        return b"".join(
            (
                rotate(
                    name,
                    FIRST_EVENT if is_whole_file else position,
                    server_id=fd.header.server_id,
                    checksum=self.checksum if previous is None else previous.file.format_description.checksum,
                ),
                format_description(
                    fd,
                    is_whole_file=is_whole_file,
                    # Servers of MySQL keep the tables for all files of the dump.
                    keeps_temporary_tables=self.keeps_temporary_tables
                    and (previous is None or fd.family == "mysql"),
                ),
            )
        )

"""The computation of a dump's next step, and the two message formats of a dump. A dump is the stream of binlog events
to one slave, and a step is its next chunks (messages).

A :class:`DumpPlace` is a binlog position together with everything else that decides the next chunks, such as the
filter. Slaves whose dumps have equal places get equal chunks. Therefore a step is a function of the place, and its
result can be shared. This module keeps no state but a read buffer for each thread, and starts no threads.

The dump thread plans a chunk as a list of byte ranges of a binlog file. A :class:`PlacedPlan` reads these bytes, and
makes the messages of one format. A message is made once, as bytes, for all slaves that get it.

dumpfilter's own slaves get gRPC messages with events, positions, GTIDs, and counts of events and bytes. Real replicas
of MySQL and MariaDB get plain binlog events. The connection of a replica makes packets of the events
(:mod:`dumpfilter.dump.packets.protocol`), because packets are numbered by connection. The events are the same for all
replicas at one position. A real replica adds a GTID to its GTID set only when it has executed a transaction with this
GTID. Therefore a stand-in (an empty transaction with the GTID) replaces a dropped transaction
(:mod:`dumpfilter.dump.packets.stand_ins`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import BinlogCorrupt, BinlogUnreadable, DumpfilterError
from dumpfilter.base.memory import unfilled
from dumpfilter.base.options.values import FIRST_EVENT
from dumpfilter.binlog.gtid import SourceKey
from dumpfilter.binlog.gtid_events import commit_time
from dumpfilter.dump.chunk import ChunkPlan, Counts, Gaps, MessageBytes, change
from dumpfilter.dump.packets.protocol import format_description, rotate
from dumpfilter.dump.packets.stand_ins import NOTHING_DROPPED, Dropped, find_dropped, with_stand_ins
from dumpfilter.dump.stream.message import around_events, gaps_to_proto, with_events
from dumpfilter.dump.stream.pace import LEAST
from dumpfilter.dump.thread import DumpThread, Reach, plan_many
from dumpfilter.index.segment import Segment
from dumpfilter.master.indexed_file import IndexedFile, NotCached
from dumpfilter.master.measurements import MEASURED
from dumpfilter.master.store import BinlogStore
from dumpfilter.v1 import dumpfilter_pb2 as pb


class ToldPositions(NamedTuple):
    """The positions before and after a chunk (message to slaves), as the chunk tells them to slaves. All are positions
    in one binlog file of the server that wrote the events, even if the master serves a relay log with other byte
    offsets.

    ``end`` is the position after the chunk. ``resume`` is the last transaction boundary at or before ``end``, from
    which a new dump can continue.
    """

    file: str
    before: int
    """The position at which the previous chunk (message to slaves) ended, bytes."""
    resume_before: int
    """The last transaction boundary that the earlier chunks (messages) told the slave, a byte offset in the file."""
    end: int
    resume: int


@dataclass(eq=False, slots=True)
class PlacedPlan(ABC):
    """A planned chunk (one message to slaves): the byte ranges to send, the open binlog file, and the positions before
    and after the chunk.

    A subclass makes the messages of one format, for dumpfilter's own slaves or for real replicas.
    """

    plan: ChunkPlan
    source: IndexedFile
    """The open binlog file from which the events are read. Another file may take its name in the meantime."""
    positions: ToldPositions
    committed_at: float | None = field(default=None, init=False)
    """The Unix time at which the first transaction in this chunk (message to slaves) was committed, seconds. None
    before the message is made, or if the time is not known.
    """

    @property
    def counts(self) -> Counts:
        """The numbers of events, bytes and transactions in the chunk (message to slaves). The bytes of stand-ins (empty
        transactions that replace dropped ones for a real replica) are counted only once the messages have been made.
        """
        return self.plan.counts

    @abstractmethod
    def messages(self, chunk_size: int, *, cached: bool = False) -> Sequence[MessageBytes]:
        """Return the messages for slaves with the events of this planned chunk (events that are sent together). Set
        :attr:`committed_at`, the Unix time of the chunk's first commit. Raises BinlogError for unreadable events.

        A chunk with more than twice ``chunk_size`` bytes of events may be split into several messages. With ``cached``
        the method raises NotCached instead of waiting for the disk.
        """

    def events(self, *, cached: bool = False) -> MessageBytes:
        """Return the bytes of the events of this planned chunk (one message to slaves). Set :attr:`committed_at`, the
        Unix time of the chunk's first commit.

        With ``cached`` the method raises NotCached instead of waiting for the disk. Raises BinlogError if the events
        cannot be read.
        """
        plan, source = self.plan, self.source
        offset, size = plan.only_range or (0, 0)
        if size and (window := source.recent(offset, offset + size)) is not None:
            # The scan has just read all of these bytes, so they need not be copied.
            events = window.data.data[offset - window.offset :][:size]
            self.committed_at = commit_time(events, checksum=source.file.format_description.checksum)
            return events
        made, room = unfilled(plan.size)
        self._fill(room, plan.placed, cached=cached)
        return made

    def _fill(self, room: memoryview, ranges: npt.NDArray[np.int64], *, cached: bool) -> None:
        """Read ``ranges`` of the binlog file into ``room``, and change the events of this planned chunk (one message to
        slaves) there as the plan says. For example, a rows event gets STMT_END_F if the master drops the event with
        this flag. Set :attr:`committed_at`, the Unix time of the chunk's first commit.

        Each row of ``ranges`` (int64) has the offset in the file, the size, and the offset in ``room``. The chunk's
        events stand at the beginning of ``room``. After them stand other ranges that the caller reads at the same time,
        such as Gtid events of dropped transactions. With ``cached`` the method raises NotCached instead of waiting for
        the disk. Raises BinlogError if the events cannot be read.
        """
        plan, source = self.plan, self.source
        out, fd = np.frombuffer(room, np.uint8), source.file.format_description
        source.fill(out, ranges, cached=cached)
        change(out, plan, fd)
        if plan.size:
            self.committed_at = commit_time(room, checksum=fd.checksum)


Notice = Literal["end_of_file", "end_of_log", "heartbeat"]
"""The reason for a message without events. The dump has reached the end of a binlog file, ends at the end of the binlog
instead of waiting, or only tells that the master is alive.
"""


_COUNT_NAMES = tuple(field.name for field in pb.Counts.DESCRIPTOR.fields)
_COUNTS = attrgetter(*_COUNT_NAMES)


def _position_chunk(place: DumpPlace) -> pb.Chunk:
    """Return a chunk (gRPC message) without events, which tells the slave the position that its dump has reached.
    ``place`` has this position.
    """
    file, position = place.told
    # Inside a transaction a new dump can only begin before the transaction.
    resume = place.resume if place.thread.in_transaction else position
    return pb.Chunk(file=file, begin_position=position, end_position=position, resume_position=resume)


def kept_chunk(announcement: bytes, position: int, kept: int) -> bytes:
    """Return a copy of ``announcement``, the first message of a dump, that also tells the slave how many bytes of
    events are left out. The slave has these ``kept`` bytes from an earlier dump.

    ``position`` is the position at which the next message of the dump begins.
    """
    chunk = pb.Chunk.FromString(announcement)
    chunk.end_position = position
    chunk.kept_bytes = kept
    return with_events(chunk, b"")


class Frame(NamedTuple):
    """The serialized fields of one gRPC message around its events: ``before`` stands before the events, and ``after``
    behind them.
    """

    begin: int
    """The byte offset at which the events of this message begin, counted from the first event of the chunk. A large
    chunk (events that are sent together) is divided into several messages.
    """
    before: bytes
    after: bytes


@dataclass(eq=False, slots=True)
class GrpcPlan(PlacedPlan):
    """The description of one chunk (the byte ranges of events to send), which makes gRPC messages for dumpfilter's own
    slaves.
    """

    gaps: Gaps
    """The gaps (positions with dropped transactions and their GTIDs) in the planned chunk (message to slaves). The
    positions belong to the binlog file of the server that wrote the events.
    """
    skipped: int = 0
    """The number of bytes at the beginning of the planned events that the messages leave out, because the slave has
    received these bytes in an earlier dump.
    """
    _framed: tuple[int, list[Frame]] | None = field(default=None, init=False)
    """The size of messages in bytes, and the frames (serialized fields around the events of each message) that were
    made for this size last. Messages for further slaves with an equal filter use the frames again.
    """

    def messages(self, chunk_size: int, *, cached: bool = False) -> Sequence[MessageBytes]:
        size = max(chunk_size, LEAST)
        if self.plan.size <= 2 * size:
            size = max(self.plan.size, 1)
        if self._framed is None or self._framed[0] != size:
            self._framed = size, list(self._frames(size))
        frames, total = self._framed[1], self.plan.size
        if self.skipped or len(frames) > 1:
            events = self.events(cached=cached)
            return [
                b"".join((before, events[begin : begin + size], after)) for begin, before, after in frames
            ]
        # The events are read to their place in the message.
        ((_, before, after),) = frames
        message, room = unfilled(len(before) + total + len(after))
        room[: len(before)], room[len(before) + total :] = before, after
        self._fill(room[len(before) : len(before) + total], self.plan.placed, cached=cached)
        return [message]

    def _frames(self, size: int) -> Iterator[Frame]:
        """Yield the frame of each gRPC message: the serialized fields before and after the message's events. The events
        of a large chunk (events that are sent together) are divided into several messages. Each message has at most
        ``size`` bytes of events.
        """
        plan, key_of, skipped = self.plan, self.source.gtid_source, self.skipped
        told, total = self.positions, plan.size
        before = told.before
        # A slave that has kept bytes was told no gap among them.
        gaps = self.gaps.not_before(skipped)
        counts = counts_to_proto(plan.counts)
        completed = runs_to_proto(plan.completed.tolist(), key_of) if len(plan.completed) else None
        for begin in range(skipped, max(total, skipped + 1), size):
            is_last = begin + size >= total
            # The slave saves GTIDs together with a resume point, the position at which it continues after a restart.
            # Therefore only the chunk that contains a resume point, or ends with one, carries GTIDs.
            is_before = begin + size < plan.resume_bytes or (not is_last and not plan.resume_bytes)
            is_here = not is_before and (begin < plan.resume_bytes or (is_last and not plan.resume_bytes))
            resume = told.resume_before if is_before else told.resume
            end = told.end if is_last else max(before, resume)
            here = b""
            if len(gaps) and (is_before or is_here):
                # The gap after the last complete transaction belongs to the chunk that has the resume point.
                some = gaps.between(begin, begin + size if is_before else total + 1)
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
            yield Frame(begin, *around_events(chunk, min(total - begin, size), here))
            before = end


@dataclass(frozen=True)
class GrpcEncoding:
    """The message format of dumps for dumpfilter's own slaves: serialized messages ``Chunk`` of the gRPC contract
    ``dumpfilter.proto``.
    """

    def pieces(
        self, place: DumpPlace, segment: Segment, plan: ChunkPlan, told: ToldPositions
    ) -> Iterable[PlacedPlan]:
        """Return a list with one element: the chunk (message to slaves) that ``plan`` describes, as an object that
        makes gRPC messages. ``plan`` lists the byte ranges of ``segment`` (scanned events) to send.

        ``told`` has the positions before and after the chunk. ``place`` is the dump's position before the segment.
        """
        return [GrpcPlan(plan, place.source, told, plan.gaps.of_writer(segment))]

    def announcement(self, place: DumpPlace, previous: IndexedFile | None) -> bytes:
        """Return the first chunk (message) of a dump, or of the next binlog file in a dump. The chunk has the file's
        format description event, and the position in the file at which the dump begins.

        ``place`` is the dump's position and state at the beginning of the file. ``previous`` is the file that the dump
        has read before; None for the first file. If the two files have different names, the chunk tells the name of the
        previous file.
        """
        chunk = _position_chunk(place)
        if previous is not None and previous.name != place.file:
            chunk.previous_file = previous.file.begin.file
        chunk.format_description = place.source.file.format_description.raw
        chunk.start_position = chunk.end_position
        return with_events(chunk, b"")

    def notice(self, place: DumpPlace, why: Notice) -> bytes:
        """Return a message without events, which tells a slave the dump's position and the reason for the message.
        ``place`` is this position with the dump's state. ``why`` is the reason: the end of a binlog file, the end of
        the binlog, or a heartbeat.
        """
        chunk = _position_chunk(place)
        setattr(chunk, why, True)
        return with_events(chunk, b"")


def counts_to_proto(counts: Counts) -> pb.Counts:
    """Return the gRPC message with the counts of events, bytes and transactions of one message to a slave or of a
    whole dump.

    A compressed transaction that is sent in part may become larger than the whole. The number of dropped bytes is then
    negative, and the message has 0. The message leaves out ``bytes_gtid``, the size of the empty transactions that
    replace dropped ones, because only real replicas get these.
    """
    return pb.Counts(
        **{name: max(value, 0) for name, value in zip(_COUNT_NAMES, _COUNTS(counts), strict=True)}
    )


def runs_to_proto(runs: Iterable[list[int]], key_of: Callable[[int], SourceKey]) -> pb.GtidRunsSet:
    """Return the gRPC message for ``runs``, the GTIDs of the transactions that end in a message to slaves.

    ``runs`` has one row for each range of GTIDs: the number of the GTID source in the index, and the first and the last
    transaction number. ``key_of`` turns a source's number into (server UUID, tag) or (domain id, server id). The
    message groups the ranges by source, in ascending order. Each range is stored as its distance from the range before
    and its length, which takes few bytes.
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
"""The largest number of stand-ins (empty transactions in place of dropped ones) in one message. A Gap event of a few
bytes in a relay log may name millions of dropped GTIDs.
"""


@dataclass(eq=False, slots=True)
class ReplicaPlan(PlacedPlan):
    """The description of one message to a real replica (MySQL or MariaDB server). The message has the plain binlog
    events of a chunk (events that are sent together), or of a part of a chunk. The description lists the events' byte
    ranges in the binlog file, and the method :meth:`messages` makes the message.
    """

    dropped: Dropped = NOTHING_DROPPED
    """The dropped transactions for which the replica gets stand-ins (empty transactions with their GTIDs)."""
    begin: int = 0
    """The byte offset at which this message begins, counted from the first event of the chunk. A chunk (events that are
    sent together) is divided if very many dropped transactions need empty transactions in their place.
    """
    stop: int | None = None
    """The byte offset at which this message ends, counted from the first event of the chunk (events that are sent
    together). None: at the end of the chunk.
    """
    bytes_gtid: int = 0
    """The size of the message's stand-ins (empty transactions in place of dropped ones), bytes. 0 until the message is
    made.
    """

    @property
    def counts(self) -> Counts:
        """The numbers of events, bytes and transactions in the message, and the bytes of its stand-ins (empty
        transactions for dropped ones).

        If a chunk (events that are sent together) was split into several messages, only the last one counts the events.
        The others count only their stand-ins.
        """
        counts = self.plan.counts if self.stop is None else Counts()
        return replace(counts, bytes_gtid=self.bytes_gtid) if self.bytes_gtid else counts

    def messages(self, chunk_size: int, *, cached: bool = False) -> Sequence[MessageBytes]:
        """Return a list of one message with the events that this plan lists and the stand-ins (empty transactions for
        dropped ones). The message is empty if there are none. ``chunk_size`` is not used.

        With ``cached`` the method raises NotCached instead of waiting for the disk. Raises BinlogError if the events
        cannot be read.
        """
        source, dropped = self.source, self.dropped
        if not len(dropped.place):
            return [self.events(cached=cached)[self.begin : self.stop]]
        fd, size, ranges = source.file.format_description, self.plan.size, self.plan.placed
        is_made = dropped.sequence.any()
        if is_made and cached:
            raise NotCached
        is_read = fd.family == "mysql" and not is_made
        if is_read:
            # The events and the Gtid events of the stand-ins are read together, where they are near one another.
            end = size + np.cumsum(dropped.size)
            ranges = np.concatenate(
                (ranges, np.column_stack((dropped.offset, dropped.size, end - dropped.size)))
            )
            ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
        room = np.empty(int(end[-1]) if is_read else size, np.uint8).data
        self._fill(room, ranges, cached=cached)
        events, gtids = room[:size][self.begin : self.stop], room[size:] if is_read else None
        try:
            out = with_stand_ins(events, dropped, fd, source.gtid_source, source.read, gtids)
        except BinlogCorrupt as error:
            raise error.located(source.name, int(dropped.offset[0])) from None
        self.bytes_gtid = len(out) - len(events)
        source.check()
        return [bytes(out)]

    def parts(self, resume: int) -> Iterator[ReplicaPlan]:
        """Split the chunk (one message), and yield parts with at most ``_MOST_STAND_INS`` stand-ins each, so that no
        message becomes too large. A stand-in is an empty transaction that replaces a dropped one.

        ``resume`` is the byte offset in the file of the last transaction boundary at or before the chunk. A dump that
        breaks off before the last part begins again there.
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


@dataclass(frozen=True)
class ReplicaEncoding:
    """The message format of dumps for real replicas (MySQL and MariaDB servers): plain binlog events. A replica that
    uses GTIDs gets stand-ins (empty transactions) for dropped transactions.

    The artificial Rotate event of the next file tells a replica that a file ends. The replica's connection itself
    writes heartbeats and the packet at the end of a dump, because it knows the replica's position.
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

    def pieces(
        self, place: DumpPlace, segment: Segment, plan: ChunkPlan, told: ToldPositions
    ) -> Iterable[PlacedPlan]:
        """Divide one chunk (events that are sent together) into messages of limited size. Return a plan (description)
        of each message, most often only one.

        ``plan`` lists the byte ranges of ``segment`` (scanned events) to send. The messages have stand-ins (empty
        transactions) for the dropped transactions. Only a chunk from a relay log may have so many stand-ins that it
        gives several plans. There, one Gap event stands for any number of dropped transactions. ``told`` has the
        positions before and after the chunk. ``place`` is the dump's position before the segment.
        """
        source, resume = place.source, place.thread.resume
        whole = ReplicaPlan(plan, source, told)
        if self.by_gtid and len(plan.gaps.runs):
            whole.dropped = find_dropped(plan, segment, resume, source.read, source.gtid_source)
        return [whole] if segment.position is None else whole.parts(resume)

    def announcement(self, place: DumpPlace, previous: IndexedFile | None) -> bytes:
        """Return the first events of a dump or of the next binlog file in a dump: an artificial Rotate event, which
        names file and position, and the format description event.

        ``place`` is the dump's position and state at the beginning of the file. ``previous`` is the file that the dump
        has read before; None for the first file. A replica reads the Rotate event before it knows the format of the new
        file. So the Rotate event has a checksum if the events of the previous file have one.
        """
        file = place.source.file
        fd = file.format_description
        is_whole_file = place.position == file.begin.end and file.is_whole
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

    def notice(self, place: DumpPlace, why: Notice) -> bytes:
        """Return empty bytes, since this message format has no message for a notice, such as a heartbeat or the end of
        the binlog. The replica's connection itself writes heartbeats and the packet at the end of a dump.
        """
        return b""


Encoding = GrpcEncoding | ReplicaEncoding
"""The message format of a dump. Encodings that compare equal write equal messages."""


@dataclass(frozen=True, eq=False)
class DumpPlace:
    """A position that a dump has reached in a binlog file, with everything else that decides the dump's next messages:
    the filter's state and the message format. Immutable.
    """

    source: IndexedFile
    """The open binlog file. Another file may take its name in the meantime."""
    thread: DumpThread
    """The dump thread (the filter and its state) at this position. The object never changes: a dump continues with a
    copy (:meth:`DumpThread.fork`).
    """
    end: int
    """The position in the writer's binlog file up to which messages for the slave were made, bytes. In a relay log the
    position may lie inside a Gap event, which stands for dropped transactions.

    The writer is the server that wrote the events.
    """
    resume: int
    """The last transaction boundary up to which messages for the slave were made, a position in the binlog file of the
    server that wrote the events. A new dump can begin there.
    """
    encoding: Encoding
    """The message format in which the slave gets events: gRPC messages, or plain events for a real replica."""
    _hash: int = field(init=False)

    @property
    def file(self) -> str:
        """The base name of the binlog file that the dump reads. In a relay log the name may differ from the one
        that slaves know.
        """
        return self.source.name

    @property
    def position(self) -> int:
        """The byte offset in the file :attr:`file` of the next event that the dump reads, to send or drop it."""
        position = self.thread.position
        assert position is not None
        return position

    @property
    def told(self) -> tuple[str, int]:
        """The writer's binlog file and the position in it that the dump has reached, as slaves know them. The writer is
        the server that wrote the events.
        """
        return self.source.file.begin.file, self.end

    @cached_property
    def heartbeat(self) -> bytes:
        """The message without events that tells slaves whose dumps are at this place (position, filter and state) that
        the master is alive.
        """
        return self.encoding.notice(self, "heartbeat")

    def positions(self, segment: Segment, plans: Sequence[ChunkPlan]) -> list[ToldPositions]:
        """Return the positions before and after each chunk (message to a slave) that ``plans`` describe. All positions
        belong to the binlog of the server that wrote the events.

        ``plans`` describe consecutive chunks of ``segment`` (scanned events). The first chunk begins at the position of
        this :class:`DumpPlace`.
        """
        file, end, resume, last = self.source.file.begin.file, self.end, self.resume, self.thread.resume
        out = []
        for plan in plans:
            before, end = end, segment.position_of(plan.end)
            resume_before = resume
            if plan.resume != last:
                last, resume = plan.resume, segment.position_of(plan.resume)
            out.append(ToldPositions(file, before, resume_before, end, resume))
        return out

    def __eq__(self, other: object) -> bool:
        """Tell whether a dump at this place (position, filter and state) gets the same next messages as a dump at
        ``other``. The master then makes the messages once. Inside a transaction the answer is False for another object,
        because no dumps share messages there.
        """
        if self is other or not isinstance(other, DumpPlace) or self.source is not other.source:
            return self is other
        key = self.thread.key
        ours, theirs = (self.end, self.resume, self.encoding), (other.end, other.resume, other.encoding)
        return key is not None and ours == theirs and key == other.thread.key

    def __post_init__(self) -> None:
        # Each of thousands of dumps at one place looks the place up several times for a commit.
        object.__setattr__(self, "_hash", hash((self.end, self.source, self.thread.flags)))

    def __hash__(self) -> int:
        return self._hash


_STEP_BYTES = 8 << 10
"""The approximate memory of a :class:`Step` (the next messages of a dump), bytes, without the numpy arrays that list
the byte ranges to send, and without changed events.
"""


@dataclass(eq=False)
class Step:
    """The chunks (messages to a slave) of one segment (scanned events of a binlog file), or of the change to the next
    file.

    The chunks lead a dump from the place ``before`` to the place ``after``. A place (:class:`DumpPlace`) is a position
    in a binlog file, together with the slave's filter and what the dump remembers, such as prepared XA transactions.
    """

    pieces: Sequence[bytes | PlacedPlan]
    """The chunks (messages to the slave) in order, each as finished bytes, or as a list of byte ranges of the binlog
    file from which messages can be made.
    """
    after: DumpPlace
    reach: Reach
    """The GTID ranges and server ids of the transactions in these chunks (messages), sent or dropped. They tell whether
    a slave may have some of these transactions already.
    """
    before: DumpPlace
    """The position of the dump before these messages, with the slave's filter and the dump's state."""

    @property
    def nbytes(self) -> int:
        """The approximate memory of this step (chunks of events to send), bytes."""
        plans = [piece.plan for piece in self.pieces if isinstance(piece, PlacedPlan)]
        arrays = sum(array.nbytes for plan in plans for array in plan.arrays)
        return _STEP_BYTES + arrays + sum(len(event) for plan in plans for event in plan.replaced.values())


def step_from(store: BinlogStore, place: DumpPlace) -> Step | None:
    """Return the next step of a dump, which is its next chunks (messages to a slave). Return None when the binlog has
    no more events at present. Raises BinlogError where the binlog is damaged.

    ``place`` is the dump's binlog position with the filter's state. A step covers one segment (a scanned part of the
    file), or leads to the next file. A step has at least one chunk, which has no events if the filter drops the whole
    segment.
    """
    (found,) = steps_from(store, [place])
    if isinstance(found, Exception):
        raise found
    return found


def steps_from(store: BinlogStore, places: Sequence[DumpPlace]) -> list[Step | DumpfilterError | None]:
    """Return for each of ``places`` the next step of a dump (its next chunks, which are messages to a slave), as
    :func:`step_from` does for one place. The result has None where the binlog has no more events at present, and the
    error where a step cannot be made.

    A place is a binlog position with the filter's state. All places lie in one scanned segment of a file, or have one
    position. The filters decide together, which takes less time, and filters that decide alike share their chunks.
    Raises BinlogError where the binlog is damaged.
    """
    source, position = places[0].source, places[0].position
    try:
        segment = store.segment_of(source, position)
        if segment is None:
            following = store.file_following(source, position)
            if following is not None:
                return [step_to_file(place, store.open_file(following)) for place in places]
            segment = store.segment_of(source, position)
            if segment is None:
                return [None] * len(places)
        threads = [place.thread.fork() for place in places]
        with MEASURED.plan.measured():
            planned = plan_many(threads, segment)
        unreadable = next((one for one in planned if isinstance(one, BinlogUnreadable)), None)
        if unreadable is not None:
            raise unreadable
    except BinlogUnreadable:
        # The next dump opens the file again, since the handle of a network file system may have become stale.
        store.forget_files([source.name])
        raise
    reaches = {each: Reach.of(segment, each) for each in {place.position for place in places}}
    alike: dict[Hashable, Sequence[PlacedPlan]] = {}
    return [
        plans
        if isinstance(plans, DumpfilterError)
        else step_over(segment, reaches[place.position], place, thread, plans, alike)
        for place, thread, plans in zip(places, threads, planned, strict=True)
    ]


def step_over(
    segment: Segment,
    reach: Reach,
    place: DumpPlace,
    thread: DumpThread,
    plans: Sequence[ChunkPlan],
    alike: dict[Hashable, Sequence[PlacedPlan]],
) -> Step:
    """Return the step (a dump's next chunks) from ``place`` to the end of ``segment`` (scanned events). Each of
    ``plans`` describes one chunk (message to slaves): the byte ranges to send, and their GTIDs and counts.

    ``place`` is the dump's position with its state, and ``thread`` is the dump's filter with its state after the
    segment. ``reach`` has the segment's GTID ranges and server ids from ``place`` on. ``alike`` has the chunks of this
    segment that were made for other dumps. The key is made of the position, the message format, the size of messages,
    and the choice of bytes to send. A dump with an equal key shares the chunks. Otherwise new chunks are made, and
    added to ``alike``.
    """
    outcome = plans[0].outcome if len(plans) == 1 else None
    key = outcome, place.position, place.end, place.resume, place.encoding, place.thread.chunk_size
    pieces = None if outcome is None else alike.get(key)
    if pieces is None:
        pieces = alike[key] = [
            piece
            for plan, told in zip(plans, place.positions(segment, plans), strict=True)
            for piece in place.encoding.pieces(place, segment, plan, told)
        ]
    last = pieces[-1].positions
    return Step(pieces, DumpPlace(place.source, thread, last.end, last.resume, place.encoding), reach, place)


def place_after(store: BinlogStore, step: Step, piece: PlacedPlan) -> DumpPlace | None:
    """Return the position of a dump after the chunk (message) ``piece``, with the filter's state there. Return None if
    the chunk does not end at a transaction boundary.

    ``step`` has the consecutive chunks that a dump sends next, of which ``piece`` is one. A dump calls this function to
    continue from there without the later chunks of the step.
    """
    place, plan = step.before, piece.plan
    segment = store.segment_of(place.source, place.position)
    number = None if segment is None or plan.end != plan.resume else segment.transaction_at(plan.end)
    if segment is None or not number:
        return None
    thread = place.thread.fork()
    thread.plan(segment.before(number))
    return replace(place, thread=thread, end=piece.positions.end, resume=piece.positions.resume)


def step_to_file(place: DumpPlace, source: IndexedFile) -> Step:
    """Return the step that leads a dump from the end of a file, ``place``, to the beginning of the next file,
    ``source``. The step has the messages to send at the change of the file.
    """
    after = place_in(source, place.thread.fork(), encoding=place.encoding)
    end = place.encoding.notice(place, "end_of_file")
    announcement = place.encoding.announcement(after, place.source)
    return Step([end, announcement] if end else [announcement], after, Reach(), place)


def place_in(
    source: IndexedFile,
    thread: DumpThread,
    position: int | None = None,
    *,
    encoding: Encoding,
    told: int | None = None,
) -> DumpPlace:
    """Return the place (position, filter and state) at which a dump begins to read the binlog file ``source``.
    ``thread``, an object of the class DumpThread, is the dump's filter with its state. The call changes this object, so
    that no other dump may use it.

    ``position`` is a byte offset in the file; None is the file's first event. ``told`` is the position in the binlog of
    the server that wrote the events, if a slave has named one inside a Gap event (dropped transactions) at
    ``position``. Otherwise ``told`` is None. Raises BinlogError if the file cannot be read.
    """
    file = source.file
    # A slave that got the artificial Rotate of a relay log would take the file in it for the file of this dump.
    position = max(position or 0, file.begin.end)
    thread.start_file(position, source.read)
    told = source.position_of(position) if told is None else told
    return DumpPlace(source, thread, told, told, encoding)

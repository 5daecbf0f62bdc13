"""The gRPC messages of a dump (chunks), with events, positions, GTIDs and counts.

The dump thread plans a chunk as a list of byte ranges of a binlog file. This module reads the bytes and makes the
message. A message is made once, as bytes, for all slaves that get it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.event_time import commit_time
from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader
from dumpfilter.binlog.gtid_sources import SourceKey
from dumpfilter.binlog.writer import rebase_array
from dumpfilter.dump import ChunkPlan, Counts, render
from dumpfilter.dump.chunk import GtidRuns, ReadyPlan, render_into
from dumpfilter.dump.decide import REPLACED
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.version1 import VERSION, fields_of_version1
from dumpfilter.stream.gaps import gaps_to_proto
from dumpfilter.stream.proof import chunk_crc32
from dumpfilter.v1 import dumpfilter_pb2 as pb

_READ_COST = 16 << 10
"""The number of bytes that can be read from a file in the time of one system call.

Two byte ranges with fewer bytes between them are read by one call, together with the bytes between them.
"""

_LONGEST_READ = 8 << 20
"""The most bytes that one read takes from a binlog file when byte ranges are read together, bytes."""

_LEAST_SPLIT = 1 << 16
"""The size up to which events stay in one message even if the slave asked for smaller messages, bytes."""

_COUNTS = tuple(field.name for field in pb.Counts.DESCRIPTOR.fields)

_EVENTS_KEY = bytes([pb.Chunk.EVENTS_FIELD_NUMBER << 3 | 2])
"""The first byte of the field ``events`` in a serialized chunk: its number, and the wire type of bytes."""

_scratch = threading.local()
"""The buffer of each thread for bytes of a binlog file, from which ranges are copied."""


def position_chunk(
    source: IndexedFile,
    begin: int,
    position: int,
    resume: int,
    filter_version: int,
    *,
    announce: bool = False,
    previous_file: str = "",
    end_of_file: bool = False,
    end_of_log: bool = False,
    heartbeat: bool = False,
) -> bytes:
    """Return a chunk without events, which tells the slave the position that the dump has reached.

    Parameters:
        begin, position, resume: where the chunk begins and ends, and where a new dump may begin, bytes.
        announce: whether to add the file's format description event and the position where the dump begins in the
            file. The first chunk of a dump and of a file always has both.
        previous_file: the file of the chunk before, if the chunk is the first of another file.
        end_of_file, end_of_log, heartbeat: why the chunk is sent.
    """
    chunk = pb.Chunk(
        file=source.name,
        begin_position=begin,
        end_position=position,
        resume_position=resume,
        filter_version=filter_version,
        end_of_file=end_of_file,
        end_of_log=end_of_log,
        heartbeat=heartbeat,
        previous_file=previous_file,
    )
    if announce:
        chunk.format_description = source.file.format_description.raw
        chunk.start_position = position
    chunk.crc32 = chunk_crc32(chunk)
    return chunk.SerializeToString()


@dataclass(eq=False, slots=True)
class PlacedPlan:
    """The plan of a chunk, together with what the chunk before has told the slave."""

    plan: ChunkPlan
    source: IndexedFile
    """The open binlog file from which the events are read. Another file may take its name meanwhile."""
    end: int
    """The position at which the chunk before ended, bytes."""
    resume: int
    """The last position between two transactions that a chunk before has told the slave."""
    filter_version: int
    protocol: int
    """The version of the protocol in which the chunk is written."""
    committed_at: float | None = None
    """The Unix time at which the first transaction was committed, once messages have been made. None: not known."""

    def messages(self, chunk_size: int) -> Iterator[bytes]:
        """Yield the chunk as a message.

        A plan with far more bytes than ``chunk_size``, for example one large event, becomes several messages.
        """
        plan, key_of = self.plan, self._key_of
        events = self._events() if plan.size else b""
        self.committed_at = commit_time(events, checksum=self.source.file.format_description.checksum)
        most = max(2 * chunk_size, _LEAST_SPLIT)
        size = chunk_size if len(events) > most else max(len(events), 1)
        before = self.end
        for begin in range(0, max(len(events), 1), size):
            piece = events[begin : begin + size]
            is_last = begin + size >= len(events)
            # The slave saves GTIDs together with a resume point, the position at which it continues after a restart.
            # Therefore only the chunk that contains a resume point, or ends with one, carries GTIDs.
            is_before = begin + size < plan.resume_bytes or (not is_last and not plan.resume_bytes)
            is_here = not is_before and (begin < plan.resume_bytes or (is_last and not plan.resume_bytes))
            resume = self.resume if is_before else plan.resume
            end = plan.end if is_last else max(before, resume)
            chunk = pb.Chunk(
                file=plan.file,
                begin_position=before,
                end_position=end,
                resume_position=resume,
                resume_bytes=plan.resume_bytes - begin if is_here and plan.resume_bytes else 0,
                filter_version=self.filter_version,
            )
            if is_last:
                chunk.counts.CopyFrom(counts_to_proto(plan.counts))
            if is_here and len(plan.completed):
                chunk.completed.CopyFrom(runs_to_proto(plan.completed, key_of))
            if is_before or is_here:
                # The gap after the last complete transaction belongs to the chunk that has the resume point.
                gaps = plan.gaps.between(begin, begin + size if is_before else len(events) + 1)
                if len(gaps):
                    chunk.gaps.CopyFrom(gaps_to_proto(gaps, key_of))
            message = _with_events(chunk, piece)
            yield message + fields_of_version1(chunk) if self.protocol == VERSION else message
            before = end

    def _events(self) -> memoryview:
        """Return the bytes of the events that the plan, which is not empty, lists as byte ranges of a binlog file."""
        if isinstance(self.plan, ReadyPlan):
            return memoryview(self.plan.events)
        events = self._read()
        if self.source.file.is_relay_log:
            return self._placed(events)
        return memoryview(events) if isinstance(events, bytes) else events.data

    def _placed(self, events: bytes | npt.NDArray[np.uint8]) -> memoryview:
        """Return events of a relay log with positions of the relay log in ``end_log_pos``.

        Slaves of this master tell their positions from ``end_log_pos``. A relay log has positions of the file from
        which its events came, and this master does not have that file.
        """
        checksum = self.source.file.format_description.checksum
        data = np.frombuffer(bytearray(events), np.uint8)
        at = 0
        for offset, size, patch in self.plan.ranges.tolist():
            position = offset
            if patch == REPLACED:
                original = EventHeader.unpack(self.source.read(offset, HEADER_LENGTH)).size
                position += original - size
            rebase_array(data[at : at + size], position, checksum=checksum)
            at += size
        return data.data

    def _read(self) -> bytes | npt.NDArray[np.uint8]:
        source, plan = self.source, self.plan
        ranges = plan.ranges
        low, high = int(ranges[0, 0]), int(ranges[-1, 0] + ranges[-1, 1])
        if len(ranges) == 1 and not ranges[0, 2]:
            events = source.read(low, high - low)
            source.check()
            return events
        fd = source.file.format_description
        span = high - low
        # Byte ranges near one another are read together with the bytes between them, which saves system calls.
        if ranges[:, 0].min() < low or span > min(_READ_COST * len(ranges), _LONGEST_READ):
            events = render(plan, b"", 0, source.read, fd)
            source.check()
            return events
        buffer = _buffer(span)
        source.read_whole(buffer, low)
        out = np.empty(plan.size, np.uint8)
        render_into(out, plan, buffer, low, source.read, fd)
        source.check()
        return out

    def _key_of(self, number: int) -> SourceKey:
        """Return the GTID source (server UUID, or domain and server id) of a number in the plan."""
        if isinstance(self.plan, ReadyPlan):
            return self.plan.keys[number]
        return self.source.gtid_source(number)


def _buffer(size: int) -> npt.NDArray[np.uint8]:
    """Return the first ``size`` bytes of a buffer that belongs to the present thread."""
    kept: npt.NDArray[np.uint8] | None = getattr(_scratch, "buffer", None)
    if kept is None or kept.size < size:
        kept = _scratch.buffer = np.empty(max(size, 1 << 20), np.uint8)
    return kept[:size]


def _with_events(chunk: pb.Chunk, events: bytes | memoryview) -> bytes:
    """Return the serialized chunk with its events, which are copied only once."""
    chunk.crc32 = chunk_crc32(chunk, len(events))
    head = chunk.SerializeToString()
    if not len(events):
        return head
    return b"".join((head, _EVENTS_KEY, _varint(len(events)), events))


def _varint(number: int) -> bytes:
    """Return a number in the variable-length form of protocol buffers."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def counts_to_proto(counts: Counts) -> pb.Counts:
    """Return the gRPC message with a dump's counts of events, bytes and transactions.

    A compressed transaction without its forbidden part may need more bytes than the whole one, so that the count of
    dropped bytes would be negative. The message then has 0.

    The message has no ``bytes_gtid``, because a chunk holds no events in place of dropped transactions.
    """
    return pb.Counts(**{name: max(getattr(counts, name), 0) for name in _COUNTS})


def runs_to_proto(runs: GtidRuns, key_of: Callable[[int], SourceKey]) -> pb.GtidRunsSet:
    """Return the gRPC message for ``runs``, the intervals of the GTIDs that a chunk completes.

    The message groups the intervals by GTID source (server UUID, or domain and server id). In each group the intervals
    ascend. Each interval is stored as its distance from the interval before and its length. ``key_of`` returns the GTID
    source with a number.
    """
    by_source: dict[int, list[list[int]]] = {}
    for source, first, last in runs.tolist():
        by_source.setdefault(source, []).append([first, last])
    members = []
    for source in sorted(by_source):
        steps, before = [], 0
        for first, last in sorted(by_source[source]):
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

"""The gRPC messages of a dump (chunks), with events, positions, GTIDs and counts.

The dump thread plans a chunk as a list of byte ranges of a binlog file. This module reads the bytes and makes the
message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.event_time import commit_time
from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader
from dumpfilter.binlog.gtid_sources import SourceKey
from dumpfilter.binlog.writer import rebase_array
from dumpfilter.dump import ChunkPlan, Counts, DumpThread, render
from dumpfilter.dump.chunk import GtidRuns, ReadyPlan
from dumpfilter.dump.decide import REPLACED
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.measurements import MEASURED
from dumpfilter.master.register import Register, RegisteredSlave
from dumpfilter.master.store import BinlogStore
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


class ChunkWriter:
    """A maker of one dump's chunks, the gRPC messages with events and positions for the slave.

    The position and the counts of each chunk are also recorded in the register of slaves. The caller sets
    :attr:`source` before the first chunk of each binlog file.
    """

    source: IndexedFile
    """The open binlog file from which the chunks' events are read. Another file may take its name meanwhile."""

    def __init__(
        self, store: BinlogStore, register: Register, slave: RegisteredSlave, position: int, chunk_size: int
    ) -> None:
        self._store = store
        self._register = register
        self._slave = slave
        self._chunk_size = chunk_size
        self._buffer: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._is_first = True
        self._file = ""
        """The base name of the binlog file of the last chunk, empty before the first chunk."""
        self._end = position
        """The binlog position at which the last chunk sent to the slave ended, bytes."""
        self._resume = position
        """The last position between two transactions that a chunk has told the slave. A new dump can begin there."""

    def position(
        self,
        file: str,
        thread: DumpThread,
        *,
        announce: bool = False,
        end_of_file: bool = False,
        end_of_log: bool = False,
        heartbeat: bool = False,
    ) -> pb.Chunk:
        """Return a chunk without events, which tells the slave the position that the dump thread has reached.

        ``announce``: add the file's format description event and the position where the dump begins in the file. The
        first chunk of a dump always has both. ``end_of_file``, ``end_of_log`` and ``heartbeat`` say why the chunk is
        sent.
        """
        position = thread.position or 0
        announce = announce or self._is_first
        chunk = pb.Chunk(
            file=file,
            begin_position=position if announce else self._end,
            end_position=position,
            resume_position=position,
            filter_version=thread.filter_version,
            end_of_file=end_of_file,
            end_of_log=end_of_log,
            heartbeat=heartbeat,
        )
        if announce:
            chunk.format_description = self.source.file.format_description.raw
            chunk.start_position = position
            if file != self._file:
                chunk.previous_file = self._file
            self._is_first = False
        self._file, self._end, self._resume = file, position, position
        self._register.progress(self._slave, file, position, None)
        chunk.crc32 = chunk_crc32(chunk)
        return chunk

    def chunks(self, plan: ChunkPlan, filter_version: int) -> Iterator[pb.Chunk]:
        """Yield the chunk, the message for the slave, that a plan describes.

        The plan lists the byte ranges to send. A plan with far more bytes than a chunk should have, for example one
        large event, becomes several chunks. The position of the plan's end is recorded in the register of slaves.
        """
        begun = perf_counter()
        events = self._events(plan) if plan.size else b""
        committed_at = commit_time(events, checksum=self.source.file.format_description.checksum)
        key_of = self._key_of(plan)
        self._register.progress(self._slave, plan.file, plan.end, plan.counts)
        most = max(2 * self._chunk_size, _LEAST_SPLIT)
        size = self._chunk_size if len(events) > most else max(len(events), 1)
        for begin in range(0, max(len(events), 1), size):
            piece = events[begin : begin + size] if size < len(events) else events
            is_last = begin + size >= len(events)
            # The slave saves GTIDs together with a resume point, the position at which it continues after a restart.
            # Therefore only the chunk that contains a resume point, or ends with one, carries GTIDs.
            is_before = begin + size < plan.resume_bytes or (not is_last and not plan.resume_bytes)
            is_here = not is_before and (begin < plan.resume_bytes or (is_last and not plan.resume_bytes))
            resume = self._resume if is_before else plan.resume
            end = plan.end if is_last else max(self._end, resume)
            chunk = pb.Chunk(
                file=plan.file,
                events=piece,
                begin_position=self._end,
                end_position=end,
                resume_position=resume,
                resume_bytes=plan.resume_bytes - begin if is_here and plan.resume_bytes else 0,
                filter_version=filter_version,
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
            chunk.crc32 = chunk_crc32(chunk)
            self._end = end
            MEASURED.encode.observe(perf_counter() - begun)
            if not begin:
                MEASURED.send_delay.observe_since(committed_at)
            yield chunk
            begun = perf_counter()
        self._resume = plan.resume

    def _events(self, plan: ChunkPlan) -> bytes:
        """Return the bytes of the events that a plan, which is not empty, lists as byte ranges of a binlog file."""
        if isinstance(plan, ReadyPlan):
            return plan.events
        events = self._read(plan)
        return self._placed(plan, events) if self.source.file.is_relay_log else events

    def _placed(self, plan: ChunkPlan, events: bytes) -> bytes:
        """Return events of a relay log with positions of the relay log in ``end_log_pos``.

        Slaves of this master tell their positions from ``end_log_pos``. A relay log has positions of the file from
        which its events came, and this master does not have that file.
        """
        checksum = self.source.file.format_description.checksum
        data = np.frombuffer(bytearray(events), np.uint8)
        at = 0
        for offset, size, patch in plan.ranges.tolist():
            position = offset
            if patch == REPLACED:
                original = EventHeader.unpack(self.source.read(offset, HEADER_LENGTH)).size
                position += original - size
            rebase_array(data[at : at + size], position, checksum=checksum)
            at += size
        return data.tobytes()

    def _read(self, plan: ChunkPlan) -> bytes:
        source, ranges = self.source, plan.ranges
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
        if self._buffer.size < span:
            self._buffer = np.empty(max(span, 1 << 20), np.uint8)
        source.read_whole(self._buffer[:span], low)
        events = render(plan, self._buffer[:span], low, source.read, fd)
        source.check()
        return events

    def _key_of(self, plan: ChunkPlan) -> Callable[[int], SourceKey]:
        """Return the function that gives the GTID source (server UUID, or domain and server id) of a plan's number."""
        if isinstance(plan, ReadyPlan):
            return plan.keys.__getitem__
        store = self._store
        return lambda number: store.sources.key(number, store.family)


def counts_to_proto(counts: Counts) -> pb.Counts:
    """Return the gRPC message with a dump's counts of events, bytes and transactions.

    A compressed transaction without its forbidden part may need more bytes than the whole one, so that the count of
    dropped bytes would be negative. The message then has 0.
    """
    return pb.Counts(**{name: max(getattr(counts, name), 0) for name in counts.__slots__})


def runs_to_proto(runs: GtidRuns, key_of: Callable[[int], SourceKey]) -> pb.GtidRunsSet:
    """Return the gRPC message for ``runs``, the intervals of the GTIDs that a chunk completes.

    The message groups the intervals by GTID source (server UUID, or domain and server id). In each group the intervals
    ascend. Each interval is stored as its distance from the interval before and its length. ``key_of`` returns the GTID
    source with a number.
    """
    members = []
    for source in np.unique(runs[:, 0]).tolist():
        found = runs[runs[:, 0] == source, 1:]
        if np.any(found[1:, 0] < found[:-1, 0]):
            found = found[np.argsort(found[:, 0], kind="stable")]
        steps = np.empty((len(found), 2), np.int64)
        steps[0, 0] = found[0, 0]
        steps[1:, 0] = found[1:, 0] - found[:-1, 1]
        steps[:, 1] = found[:, 1] - found[:, 0] + 1
        member = pb.GtidRuns(runs=steps.ravel().tolist())
        key = key_of(source)
        if isinstance(key[0], bytes):
            member.uuid, member.tag = key
        else:
            member.domain_id, member.server_id = key
        members.append(member)
    return pb.GtidRunsSet(members=members)

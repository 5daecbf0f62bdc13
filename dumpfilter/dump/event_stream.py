"""The events that a slave with a given filter would be sent, one by one, for programs that print them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import EventHeader
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.chunk import WHOLE_SEGMENT, ChunkPlan, Counts, ReadAt, render
from dumpfilter.dump.segment_pass import EVERYTHING, SegmentPass
from dumpfilter.dump.selection import Range
from dumpfilter.dump.thread import DumpThread
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.clever import CleverFilter
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_UNDECIDED_F
from dumpfilter.index.fileset import BinlogSet, SegmentReader
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects
from dumpfilter.index.xa import NONE_PREPARED


class KeptEvent(NamedTuple):
    """One event with the bytes that a slave would be sent."""

    file: str
    fd: FormatDescription
    """The format description event that tells how to decode this event. For a format description event, its own
    content."""
    offset: int
    """The byte offset in ``file`` at which the original event begins."""
    event: bytes
    undecided: bool = False
    """Whether the event is a statement about which the filter cannot decide."""


class PassedStatement(NamedTuple):
    """A statement's event that a slave would not be sent."""

    file: str
    fd: FormatDescription
    offset: int
    event: bytes
    passes: bool
    """Whether the filter passes the statement, so that only the selection of transactions leaves the statement out."""


def kept_events(
    binlogs: BinlogSet,
    rules: ReplicationFilter,
    *,
    clever: CleverFilter | None = None,
    also: ReplicationFilter | None = None,
    wanted: Range = EVERYTHING,
    verify: bool = True,
    counts: Counts | None = None,
    progress: Callable[[int], None] = lambda read: None,
    left_out: Callable[[PassedStatement], None] | None = None,
) -> Iterator[KeptEvent]:
    """Yield the events that a slave with this filter would be sent. Each file begins with its format description event.

    The Gap events of a relay log are there, too, since they are of use to people who read the log.

    Raises BinlogError where a file is damaged.

    Parameters:
        rules: the slave's filter.
        clever: a filter that follows tables through the binlog; it is asked instead of ``rules``.
        also: a second filter. An event is sent only if both filters send the event.
        wanted: the positions, times and GTIDs of the transactions to take.
        verify: whether to verify checksums.
        counts: receives the numbers of events and bytes that were read, sent and dropped.
        progress: called for each segment with the number of bytes read.
        left_out: called for each statement that is not yielded, in the binlog's order among the yielded events.
    """
    subjects, sources = Subjects(), SourceNumbers()
    steps = SegmentPass(binlogs, rules, subjects, sources, clever=clever, also=also, wanted=wanted)
    thread = DumpThread(steps.flags, sources, chunk_size=WHOLE_SEGMENT)
    prepared = NONE_PREPARED
    names = binlogs.names
    for name in names:
        with binlogs.file(name) as file:
            yield KeptEvent(name, file.format_description, 4, file.format_description.raw)
            reader = SegmentReader(file, subjects, sources, verify=verify, prepared=prepared)
            thread.start_file(file.first_event, file.read)
            while not steps.done and (segment := reader.next()) is not None:
                fd = segment.format_description
                applied = steps.apply(segment.with_gaps_sent(), file.read)
                statements = _Statements(applied, steps.flags.array()) if left_out is not None else None
                for plan in thread.plan(applied):
                    if counts is not None:
                        counts.add(plan.counts)
                    data = render(plan, reader.data, reader.data_offset, file.read, fd)
                    for kept in _events(plan, data, fd):
                        if statements is None or left_out is None:
                            yield kept
                            continue
                        for passed in statements.before(kept.offset, file.read):
                            left_out(passed)
                        yield kept._replace(undecided=statements.is_undecided(kept.offset))
                if statements is not None and left_out is not None:
                    for passed in statements.before(segment.end, file.read):
                        left_out(passed)
                progress(segment.end - segment.start)
            if steps.done:
                return
            prepared = reader.prepared
            reader.check_end(last=name == names[-1])


class _Statements:
    """The statements of a segment, with the filter's flags, from the first to the last."""

    def __init__(self, segment: Segment, flags: npt.NDArray[np.uint32]) -> None:
        self._segment = segment
        is_statement = (segment.role & R.ROLE_MASK == R.STATEMENT) & (segment.subject >= 0)
        self._events = np.flatnonzero(is_statement).tolist()
        self._flags = flags[segment.subject[self._events]].tolist()
        self._next = 0

    def before(self, offset: int, read: ReadAt) -> Iterator[PassedStatement]:
        """Yield the statements before an offset that no earlier call has yielded or passed over."""
        segment = self._segment
        while self._next < len(self._events):
            at = int(segment.offset[self._events[self._next]])
            if at >= offset:
                return
            size, flags = int(segment.size[self._events[self._next]]), self._flags[self._next]
            self._next += 1
            passes = bool(flags & FILTER_BINLOG_SEND_F)
            yield PassedStatement(segment.file, segment.format_description, at, read(at, size), passes)

    def is_undecided(self, offset: int) -> bool:
        """Tell whether the filter cannot decide about the event at an offset, and pass over the event."""
        if self._next == len(self._events) or int(self._segment.offset[self._events[self._next]]) != offset:
            return False
        self._next += 1
        return bool(self._flags[self._next - 1] & FILTER_UNDECIDED_F)


def _events(plan: ChunkPlan, data: bytes, fd: FormatDescription) -> Iterator[KeptEvent]:
    at = 0
    for offset, size, _ in plan.ranges.tolist():
        end = at + size
        while at < end:
            length = EventHeader.unpack(data, at).size
            yield KeptEvent(plan.file, fd, offset, data[at : at + length])
            at += length
            offset += length

"""The events that a slave with a given filter would be sent, one by one, for programs that print them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from dumpfilter.binlog.events import EventHeader
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.chunk import WHOLE_SEGMENT, ChunkPlan, Counts, render
from dumpfilter.dump.segment_pass import EVERYTHING, SegmentPass
from dumpfilter.dump.selection import Range
from dumpfilter.dump.thread import DumpThread
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.clever import CleverFilter
from dumpfilter.index.fileset import BinlogSet, SegmentReader
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
                for plan in thread.plan(steps.apply(segment.with_gaps_sent(), file.read)):
                    if counts is not None:
                        counts.add(plan.counts)
                    yield from _events(plan, render(plan, reader.data, reader.data_offset, file.read, fd), fd)
                progress(segment.end - segment.start)
            if steps.done:
                return
            prepared = reader.prepared
            reader.check_end(last=name == names[-1])


def _events(plan: ChunkPlan, data: bytes, fd: FormatDescription) -> Iterator[KeptEvent]:
    at = 0
    for offset, size, _ in plan.ranges.tolist():
        end = at + size
        while at < end:
            length = EventHeader.unpack(data, at).size
            yield KeptEvent(plan.file, fd, offset, data[at : at + length])
            at += length
            offset += length

"""Filtering a binlog set into another one: the dump thread between two sets of files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.writer import BinlogSetWriter
from dumpfilter.dump.chunk import WHOLE_SEGMENT, Counts, render_into
from dumpfilter.dump.segment_pass import EVERYTHING, SegmentPass
from dumpfilter.dump.selection import Range
from dumpfilter.dump.thread import DumpThread
from dumpfilter.filter import ReplicationFilter
from dumpfilter.filter.clever import CleverFilter
from dumpfilter.index.fileset import BinlogSet, SegmentReader
from dumpfilter.index.subjects import Subjects
from dumpfilter.index.xa import NONE_PREPARED


def filter_set(
    binlogs: BinlogSet,
    rule_filter: ReplicationFilter,
    output_dir: Path,
    base: str,
    *,
    clever: CleverFilter | None = None,
    also: ReplicationFilter | None = None,
    wanted: Range = EVERYTHING,
    verify: bool = True,
    overwrite: bool = False,
    progress: Callable[[int], None] = lambda read: None,
) -> Counts:
    """Write what a slave with this filter would be sent as a binlog set: ``<base>.000001`` … and ``<base>.index``.

    Every file of the set gives one file. The events' end_log_pos and checksums are made right for their new
    places (a server reads the set as its own); that costs a pass over the kept bytes, which is little beside
    reading all of them. Rotate events name the new files. ``progress`` is told the bytes read of each segment.
    ``clever``, ``also`` and ``wanted`` are as in :class:`~dumpfilter.dump.segment_pass.SegmentPass`; files after the
    last that is wanted give none.

    Raises BinlogError where the set is damaged and OutputError where the new one cannot be written; then
    nothing is left of it.
    """
    subjects, sources = Subjects(), SourceNumbers()
    prepared = NONE_PREPARED
    steps = SegmentPass(
        binlogs, rule_filter, subjects, sources, clever=clever, also=also, wanted=wanted, whole_files=True
    )
    thread = DumpThread(steps.flags, sources, chunk_size=WHOLE_SEGMENT)
    total = Counts()
    room: npt.NDArray[np.uint8] = np.empty(1 << 20, np.uint8)
    names = binlogs.names
    with BinlogSetWriter(output_dir, base, overwrite=overwrite) as writer:
        for name in names:
            with binlogs.file(name) as file:
                fd = file.format_description
                reader = SegmentReader(file, subjects, sources, verify=verify, prepared=prepared)
                writer.begin(fd)
                thread.start_file(file.first_event, file.read)
                rotated_at: int | None = None
                while not steps.done and (segment := reader.next()) is not None:
                    for plan in thread.plan(steps.apply(segment, file.read)):
                        total.add(plan.counts)
                        if plan.size > room.size:
                            room = np.empty(2 * plan.size, np.uint8)
                        events = room[: plan.size]
                        render_into(events, plan, reader.data, reader.data_offset, file.read, fd)
                        if plan.end == segment.end and segment.type[-1] == EventType.ROTATE:
                            # the writer makes one that names its own next file
                            events = events[: -int(segment.size[-1])]
                            rotated_at = int(segment.time[-1])
                        writer.append_array(events)
                    progress(segment.end - segment.start)
                if steps.done:
                    writer.end()
                    break
                prepared = reader.prepared
                reader.check_end(last=name == names[-1])
                if rotated_at is None:
                    writer.end()
                else:
                    writer.rotate(rotated_at)
    return total

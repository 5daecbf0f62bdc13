"""The filtering of a binlog set into a new binlog set, which holds only the events that a slave would be sent."""

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
    """Write the events that a slave with this filter would be sent as a new binlog set.

    The new files are ``<base>.000001`` … and ``<base>.index`` in ``output_dir``, one for each file that was read. Each
    event gets a new end_log_pos and checksum, so that a server reads the set as its own. Rotate events name the new
    files. Files after the last wanted transaction are not written.

    Raises BinlogError if the set is damaged, and OutputError if the new set cannot be written. After an error no file
    of the new set is left.

    Parameters:
        rule_filter: the slave's filter.
        clever: a filter that follows tables through the binlog; it is asked instead of ``rule_filter``.
        also: a second filter. An event is written only if both filters send the event.
        wanted: the positions, times and GTIDs of the transactions to take.
        verify: whether to verify checksums.
        overwrite: whether existing files may be replaced.
        progress: called for each segment with the number of bytes read.
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
                            # The old Rotate event names a file of the old set. The writer makes a new Rotate event.
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

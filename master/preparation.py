"""The loading of compiled code before a master listens.

Python loads a compiled function when the function is first called. For all functions of a dump together that takes a
second or more, and a minute or more on a machine without compiled code. The process does nothing else meanwhile. The
first slave would wait until its deadline, and so would health checks.
"""

from __future__ import annotations

import contextlib
from itertools import product

import numpy as np

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.binlog.statement import statement_shape
from dumpfilter.dump.chunk import DEFAULT_CHUNK_SIZE, render_into
from dumpfilter.dump.packets.framing import frame
from dumpfilter.dump.thread import DumpThread
from dumpfilter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.master.advance import Encoding, place_in, step_from
from dumpfilter.master.chunks import GrpcEncoding
from dumpfilter.master.placed import PlacedPlan
from dumpfilter.master.replica_encoding import ReplicaEncoding
from dumpfilter.master.store import BinlogStore

_FILTERS: tuple[list[str], ...] = ([], ["--replicate-wild-do-table=%.a%"], ["--replicate-wild-do-table=-.-"])
"""The options of filters that send everything, a part, and hardly anything."""


def load_compiled_code(store: BinlogStore, *, replicas: bool = False) -> None:
    """Decide and read the first segment of the two newest binlog files for three filters, and forget the results.

    ``replicas``: also for real replicas. A binlog that cannot be read is no error here. The dumps that need it report
    it.
    """
    statement_shape("SELECT 1")
    encodings: list[Encoding] = [GrpcEncoding()]
    if replicas:
        encodings.append(ReplicaEncoding(by_gtid=True, checksum=True))
    with contextlib.suppress(DumpfilterError):
        # The newest file may have no GTID, because its server has just begun it.
        for name, encoding, options in product(store.binlogs.names[:-3:-1], encodings, _FILTERS):
            source = store.open_file(name)
            thread = DumpThread(TableFlags(Filter.from_options(options), store.subjects), store.sources)
            step = step_from(store, place_in(source, thread, encoding=encoding))
            if step is None or not isinstance(piece := step.pieces[0], PlacedPlan):
                continue
            for message in piece.messages(DEFAULT_CHUNK_SIZE):
                if encoding is not encodings[0]:
                    frame(message, 0)
            # A plan with one byte range does not need the kernel that collects the bytes.
            out, nothing = np.empty(piece.plan.size, np.uint8), np.empty(0, np.uint8)
            render_into(out, piece.plan, nothing, 0, source.read, source.file.format_description)

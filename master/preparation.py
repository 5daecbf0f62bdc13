"""The loading of compiled code before a master listens.

Python loads a compiled function when the function is first called. For all functions of a dump together that takes a
second or more, and a minute or more on a machine without compiled code. The process does nothing else meanwhile. The
first slave would wait until its deadline, and so would health checks.
"""

from __future__ import annotations

import contextlib

import numpy as np

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.binlog.statement import statement_shape
from dumpfilter.dump.chunk import DEFAULT_CHUNK_SIZE, ChunkPlan, render_into
from dumpfilter.dump.packets.framing import frame
from dumpfilter.dump.thread import DumpThread, plan_many
from dumpfilter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.master.advance import Encoding, place_in, step_from
from dumpfilter.master.chunks import GrpcEncoding
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.placed import PlacedPlan
from dumpfilter.master.replica_encoding import ReplicaEncoding
from dumpfilter.master.store import BinlogStore

_FILTERS: tuple[list[str], ...] = ([], ["--replicate-wild-do-table=%.a%"], ["--replicate-wild-do-table=-.-"])
"""The options of filters that send everything, a part, and hardly anything."""


def load_compiled_code(store: BinlogStore, *, replicas: bool = False) -> None:
    """Decide and read the first segment of a new binlog file for three filters, and forget the result.

    ``replicas``: also for real replicas. A binlog that cannot be read is no error here. The dumps that need it report
    it.
    """
    statement_shape("SELECT 1")
    with contextlib.suppress(DumpfilterError):
        # The newest file may have no GTID, because its server has just begun it.
        any(_planned(store, name, replicas) for name in store.binlogs.names[:-3:-1])


def _planned(store: BinlogStore, name: str, replicas: bool) -> bool:
    """Plan the first segment of a file and make a chunk's messages. Return whether it has GTIDs."""
    source = store.open_file(name)
    encodings: list[Encoding] = [GrpcEncoding()]
    if replicas:
        encodings.append(ReplicaEncoding(by_gtid=True, checksum=True))
    places = [
        place_in(
            source,
            DumpThread(TableFlags(Filter.from_options(options), store.subjects), store.sources),
            encoding=encoding,
        )
        for encoding in encodings
        for options in _FILTERS
    ]
    segment = store.segment_of(source, places[0].position)
    if segment is None:
        return False
    plan_many([place.thread.fork() for place in places], segment)
    for place in places:
        step = step_from(store, place)
        if step is not None and isinstance(piece := step.pieces[0], PlacedPlan):
            for message in piece.messages(DEFAULT_CHUNK_SIZE):
                if isinstance(place.encoding, ReplicaEncoding):
                    frame(message, 0)
            _gather(piece.plan, source)
    return bool((segment.txn_source >= 0).any())


def _gather(plan: ChunkPlan, source: IndexedFile) -> None:
    """Collect the bytes of a plan by the kernel, which a plan with one byte range does not need."""
    render_into(
        np.empty(plan.size, np.uint8),
        plan,
        np.empty(0, np.uint8),
        0,
        source.read,
        source.file.format_description,
    )

"""The loading of compiled code before a master serves anybody.

Python loads a compiled function when the function is first called. For all functions of a dump together that takes a
second or more, in which the process does nothing else. The first slave would wait, and so would health checks.
"""

from __future__ import annotations

import contextlib

from dumpfilter.dump import DumpThread
from dumpfilter.dump.chunk import DEFAULT_CHUNK_SIZE
from dumpfilter.dump.many import plan_many
from dumpfilter.errors import DumpfilterError
from dumpfilter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.master.advance import place_in, step_from
from dumpfilter.master.chunks import GrpcEncoding
from dumpfilter.master.placed import PlacedPlan
from dumpfilter.master.store import BinlogStore
from dumpfilter.stream.versions import MASTER_SPEAKS

_FILTERS: tuple[list[str], ...] = ([], ["--replicate-wild-do-table=%.a%"])
"""The options of filters that send everything, and a part."""


def load_compiled_code(store: BinlogStore) -> None:
    """Decide and read the first segment of a new binlog file for two filters, and forget the result.

    A binlog that cannot be read is no error here. The dumps that need it report it.
    """
    with contextlib.suppress(DumpfilterError):
        # The newest file may be empty, because its server has just begun it.
        any(_planned(store, name) for name in store.binlogs.names[:-3:-1])


def _planned(store: BinlogStore, name: str) -> bool:
    """Plan the first segment of a file and make a chunk's messages. Return whether the file has a segment."""
    source = store.open_file(name)
    places = [
        place_in(
            source,
            DumpThread(TableFlags(Filter.from_options(options), store.subjects), store.sources),
            encoding=GrpcEncoding(MASTER_SPEAKS.highest),
        )
        for options in _FILTERS
    ]
    segment = store.segment_of(source, places[0].position)
    if segment is None:
        return False
    plan_many([place.thread.fork() for place in places], segment)
    for place in places:
        step = step_from(store, place)
        if step is not None and isinstance(piece := step.pieces[0], PlacedPlan):
            for _ in piece.messages(DEFAULT_CHUNK_SIZE):
                pass
    return True

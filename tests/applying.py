"""The applier over whole binlog or relay log files, in a loop of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from dumpfilter.binlog.gtid import Gtid
from dumpfilter.binlog.reader import iter_events
from dumpfilter.filter import ReplicationFilter
from dumpfilter.slave.applier import EventApplier
from dumpfilter.slave.targets import Target


def apply_files(
    paths: Iterable[Path],
    rules: ReplicationFilter,
    target: Target,
    *,
    on_complete: Callable[[Gtid], None] = lambda gtid: None,
) -> None:
    """Apply whole files to a target, in the given order, as far as the filter ``rules`` passes.

    ``on_complete`` receives the GTID of each completed transaction. No file may end inside a transaction.
    """
    applier = EventApplier(rules, target, on_complete=on_complete)
    for path in paths:
        with path.open("rb") as file:
            for event in iter_events(file, file=str(path)):
                applier.feed(event, file=str(path))
            assert not applier.inside, f"{path} ends inside a transaction"

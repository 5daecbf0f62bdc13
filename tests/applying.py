"""The applier over whole binlog or relay log files, in a loop of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from dumpfilter.binlog.gtid import Gtid
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.slave.applier import EventApplier
from dumpfilter.slave.targets import Target


def read_events(path: Path) -> Iterator[Event]:
    """Yield the events of a file."""
    with path.open("rb") as file:
        yield from iter_events(file, file=str(path))


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
    apply_events(((str(path), read_events(path)) for path in paths), rules, target, on_complete=on_complete)


def apply_events(
    files: Iterable[tuple[str, Iterable[Event]]],
    rules: ReplicationFilter,
    target: Target,
    *,
    on_complete: Callable[[Gtid], None] = lambda gtid: None,
) -> None:
    """Apply files to a target as :func:`apply_files` does. Each file is its name for errors, and its events."""
    applier = EventApplier(rules, target, on_complete=on_complete)
    for name, events in files:
        for event in events:
            applier.feed(event, file=name)
        assert not applier.inside, f"{name} ends inside a transaction"

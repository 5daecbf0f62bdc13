"""The transactions in a log: their identities, their bytes, and the offsets at which they end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, zip_longest
from pathlib import Path

import numpy as np

from dumpfilter.base.errors import BinlogTruncated
from dumpfilter.binlog.context_events import decode_rotate
from dumpfilter.binlog.events import GTIDS, LOG_EVENT_ARTIFICIAL_F, LOG_EVENT_RELAY_LOG_F, OF_FILES, EventType
from dumpfilter.binlog.gap_events import is_gap_event
from dumpfilter.binlog.gtid_events import decode_gtid
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.simulation.traffic import Ints
from dumpfilter.testbed.experiment.growth import Grown, reached

Key = tuple[str, int] | str
"""The identity of a transaction: its GTID, or the origin's file and the position after the transaction."""

_BETWEEN = OF_FILES | {EventType.HEARTBEAT, EventType.HEARTBEAT_V2}
"""The event types that occur between transactions."""

_MADE_FOR_A_READER = LOG_EVENT_RELAY_LOG_F | LOG_EVENT_ARTIFICIAL_F
"""The flags of events that were made for a reader and are not in the source's binlog."""


@dataclass
class Logged:
    """One transaction of a binlog or relay log."""

    key: Key
    path: Path
    end: int = 0
    """The byte offset in the file after the transaction."""
    bytes: int = 0
    """The bytes of the transaction's events, and of the events between it and the next transaction."""
    events: int = 0


@dataclass
class Log:
    """The transactions of a binlog or relay log, in its order."""

    transactions: list[Logged]
    time: Ints
    """The time at which each transaction was complete in its file, microseconds (``time.monotonic``); -1: never."""
    bytes_before: int
    """The bytes of events of the source before the first transaction."""
    events_before: int

    def keys(self) -> dict[Key, int]:
        """Return the index of each transaction in ``transactions``, by its key: a GTID, or a position at the origin."""
        return {transaction.key: number for number, transaction in enumerate(self.transactions)}


def read_log(grown: Grown) -> Log:
    """Return the transactions of consecutive files of a binlog or relay log. An incomplete last event is left out.

    ``grown`` has the sizes of the files over time, from which the times of the transactions come.
    """
    before, *read = _read(grown)
    # An outage cut a transaction that is followed by itself. The source sent it again from its beginning.
    transactions = [
        one for one, following in zip_longest(read, read[1:]) if not following or one.key != following.key
    ]
    times = [
        reached(grown[path], np.array([one.end for one in some]))
        for path, some in groupby(transactions, lambda one: one.path)
    ]
    return Log(transactions, np.concatenate([np.empty(0, np.int64), *times]), before.bytes, before.events)


def _read(paths: Iterable[Path]) -> list[Logged]:
    """Return the events of a log before its first transaction, as one entry, and the log's transactions.

    Events between transactions that are missing in the source's binlog, or were read before, are left out. A server
    makes artificial events for a replica that connects, and repeats the first events of the file.
    """
    found = [Logged("", Path())]
    # The source's file and the position after the newest event of a transaction.
    origin = "", 0
    for path in paths:
        source_file = path.name
        is_inside, has_gtid = False, True
        with path.open("rb") as file:
            for event in _whole_events(file, path):
                kind, flags, position = event.type, event.header.flags, event.header.end_log_pos
                if kind == EventType.ROTATE and flags & LOG_EVENT_ARTIFICIAL_F:
                    # It stands at the head of a relay log file, or where the next file of the source begins.
                    source_file = decode_rotate(event.body).name
                    continue
                if kind == EventType.FORMAT_DESCRIPTION or is_gap_event(kind, event.body):
                    continue
                if kind in _BETWEEN:
                    is_repeated = source_file == origin[0] and position <= origin[1]
                    if is_repeated or flags & _MADE_FOR_A_READER:
                        continue
                    is_inside = False
                elif kind in GTIDS:
                    gtid = decode_gtid(event.header, event.body).gtid
                    is_inside, has_gtid = True, gtid is not None
                    found.append(Logged(str(gtid), path))
                current = found[-1]
                if is_inside:
                    origin = source_file, position
                    current.end = event.offset + len(event.raw)
                    if not has_gtid:
                        current.key = origin
                current.bytes += len(event.raw)
                current.events += 1
    return found


def _whole_events(file: object, path: Path) -> Iterator[Event]:
    """Yield the events of a file up to the first incomplete one."""
    try:
        yield from iter_events(file, file=str(path), verify=False)  # type: ignore[arg-type]
    except BinlogTruncated:
        return

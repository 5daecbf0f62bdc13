"""The transactions in a log: their identities, their bytes, and the offsets at which they end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

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


class Logged(NamedTuple):
    """One transaction of a binlog or relay log."""

    key: Key
    path: Path
    end: int
    """The byte offset in the file after the transaction."""
    bytes: int
    """The bytes of the transaction's events, and of the events between it and the next transaction."""
    events: int


@dataclass
class Log:
    """The transactions of a binlog or relay log, in its order."""

    transactions: list[Logged] = field(default_factory=list)
    time: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """The time at which each transaction was complete in its file, microseconds (``time.monotonic``); -1: never."""
    bytes_before: int = 0
    """The bytes of events of the source before the first transaction."""
    events_before: int = 0

    def keys(self) -> dict[Key, int]:
        """Return the index of each transaction in ``transactions``, by its key: a GTID, or a position at the origin."""
        return {transaction.key: number for number, transaction in enumerate(self.transactions)}


def read_log(grown: Grown) -> Log:
    """Return the transactions of consecutive files of a binlog or relay log. An incomplete last event is left out.

    ``grown`` has the sizes of the files over time, from which the times of the transactions come.
    """
    reading = _Reading()
    for path in grown:
        reading.read(path)
    reading.finish()
    log = reading.log
    of_files = groupby(log.transactions, lambda one: one.path)
    times = [reached(grown[path], np.array([one.end for one in some])) for path, some in of_files]
    log.time = np.concatenate([log.time, *times])
    return log


class _Reading:
    """The reading of a binlog or relay log. A transaction is complete when the next transaction begins."""

    def __init__(self) -> None:
        self.log = Log()
        self._key: Key | None = None
        self._place: tuple[Path, int] | None = None
        """The file, and the byte offset of the end, of the current transaction."""
        self._origin: tuple[str, int] = ("", 0)
        """The origin's file and the position after the current transaction."""
        self._bytes = 0
        self._events = 0

    def read(self, path: Path) -> None:
        source_file = path.name
        is_inside = False
        with path.open("rb") as file:
            for event in _whole_events(file, path):
                kind = event.type
                if kind == EventType.ROTATE and event.header.flags & LOG_EVENT_ARTIFICIAL_F:
                    # It stands at the head of a relay log file, or where the next file of the source begins.
                    source_file = decode_rotate(event.body).name
                    continue
                if kind == EventType.FORMAT_DESCRIPTION or is_gap_event(kind, event.body):
                    continue
                if kind in _BETWEEN and self._is_not_of_source(event, source_file):
                    continue
                if kind in GTIDS:
                    self.finish()
                    self._key = _gtid(event)
                    is_inside = True
                elif kind in _BETWEEN:
                    is_inside = False
                end = event.offset + len(event.raw)
                if is_inside:
                    self._place = path, end
                    self._origin = source_file, event.header.end_log_pos
                self._bytes += len(event.raw)
                self._events += 1

    def _is_not_of_source(self, event: Event, source_file: str) -> bool:
        """Tell whether an event between transactions is missing in the source's binlog, or was read before.

        A server makes artificial events for a replica that connects, and repeats the first events of the file.
        ``source_file`` is the source's file that the event comes from.
        """
        is_repeated = source_file == self._origin[0] and event.header.end_log_pos <= self._origin[1]
        return is_repeated or bool(event.header.flags & _MADE_FOR_A_READER)

    def finish(self) -> None:
        """Append the current transaction to the log."""
        if self._place is None:
            self.log.bytes_before += self._bytes
            self.log.events_before += self._events
        else:
            path, end = self._place
            key = self._key or self._origin
            if self.log.transactions and self.log.transactions[-1].key == key:
                # An outage cut the transaction, which the source sent again from its beginning.
                self.log.transactions.pop()
            self.log.transactions.append(Logged(key, path, end, self._bytes, self._events))
        self._place = None
        self._bytes = self._events = 0


def _whole_events(file: object, path: Path) -> Iterator[Event]:
    """Yield the events of a file up to the first incomplete one."""
    try:
        yield from iter_events(file, file=str(path), verify=False)  # type: ignore[arg-type]
    except BinlogTruncated:
        return


def _gtid(event: Event) -> str | None:
    found = decode_gtid(event.header, event.body).gtid
    return None if found is None else str(found)

"""The binlogs and relay logs that the nodes of a topology wrote in a run of an experiment: their transactions, and the
times at which these arrived.

A node's relay log grows when an event arrives. The times at which files grow are therefore the times at which
transactions arrived, for nodes of dumpfilter and real servers alike.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dumpfilter.base.errors import BinlogTruncated
from dumpfilter.binlog.context_events import decode_rotate
from dumpfilter.binlog.events import GTIDS, LOG_EVENT_ARTIFICIAL_F, LOG_EVENT_RELAY_LOG_F, OF_FILES, EventType
from dumpfilter.binlog.gap_events import is_gap_event
from dumpfilter.binlog.gtid_events import decode_gtid
from dumpfilter.binlog.reader import iter_events
from dumpfilter.simulation.traffic import Ints

INTERVAL = 0.001
"""The sampling interval of file sizes, seconds. It is the resolution of measured times."""

LogName = str | tuple[str, str]
"""The name of a log: the origin that writes it, or the node that receives it and the source that the node reads."""


class Watched(NamedTuple):
    """A binlog or relay log to observe: the files of one directory whose names are a common prefix and a number."""

    directory: Path
    prefix: str = ""
    """The prefix of the files' names, up to the period before the number. Empty: any name."""

    def files(self) -> list[Path]:
        """Return the paths of the log's files that exist at this moment, sorted by their numbers."""
        try:
            names = [path for path in self.directory.iterdir() if self._is_file(path.name)]
        except FileNotFoundError:
            return []
        return sorted(names, key=lambda path: int(path.suffix[1:]))

    def _is_file(self, name: str) -> bool:
        base, _, number = name.rpartition(".")
        return number.isdigit() and (base == self.prefix if self.prefix else bool(base))


Growth = Sequence[tuple[int, int]]
"""The sizes of one file over time: samples of the time, microseconds (``time.monotonic``), and the size then."""

Grown = Mapping[Path, Growth]
"""The growth of each file of a log, in the order of the files."""


def reached(growth: Growth, ends: Ints) -> Ints:
    """Return, for each size in ``ends``, the time from which on a file had at least this many bytes, microseconds.

    ``growth`` has pairs of a time and the file's size at that time. A size counts from the moment after which the file
    was never shorter, since it may be truncated in between. The time of a size that the file never had is -1.

    >>> reached([(10, 4), (20, 100), (30, 50), (40, 100)], np.array([4, 50, 60, 101])).tolist()
    [10, 20, 40, -1]
    """
    times, sizes = np.array(growth, np.int64).reshape(-1, 2).T
    # From each sample on, the file never had fewer bytes than this.
    least = np.minimum.accumulate(sizes[::-1])[::-1]
    found: Ints = np.append(times, -1)[np.searchsorted(least, ends)]
    return found


class Recorder:
    """A recorder that notes over time how large the files of several binlogs and relay logs are. The files need not
    exist yet.
    """

    def __init__(self, logs: Mapping[LogName, Watched]) -> None:
        self.grown: dict[LogName, dict[Path, list[tuple[int, int]]]] = {name: {} for name in logs}
        """The recorded growth of each file, by the log's name and the file's path."""
        self._logs = logs

    def run(self, over: threading.Event) -> None:
        """Record the file sizes of all logs every millisecond, until the event ``over`` is set."""
        while not over.wait(INTERVAL):
            self.look()

    def look(self) -> None:
        """Record the sizes that the files of all logs have at this moment."""
        for name, files in self.grown.items():
            for path in _onward(next(reversed(files))) if files else self._logs[name].files():
                with contextlib.suppress(FileNotFoundError):
                    size = path.stat().st_size
                    growth = files.setdefault(path, [])
                    if not growth or growth[-1][1] != size:
                        growth.append((time.monotonic_ns() // 1000, size))


def _onward(path: Path) -> Iterator[Path]:
    """Yield a file of a log, and the files that follow it.

    The next file is looked for before a file is yielded: when the next one exists, the file has its final size.
    """
    while True:
        number = path.suffix[1:]
        following = path.with_suffix(f".{int(number) + 1:0{len(number)}d}")
        is_last = not following.exists()
        yield path
        if is_last:
            return
        path = following


Key = tuple[str, int] | str
"""The identity of a transaction: its GTID, or the origin's file and the position after the transaction."""

_BETWEEN = OF_FILES | {EventType.HEARTBEAT, EventType.HEARTBEAT_V2}
"""The event types that occur between transactions."""

_MADE_FOR_A_READER = LOG_EVENT_RELAY_LOG_F | LOG_EVENT_ARTIFICIAL_F
"""The flags of events that were made for a reader and are not in the source's binlog."""


@dataclass
class Logged:
    """One transaction in a binlog or relay log file: its identity, its end in the file, and its size."""

    key: Key
    path: Path
    end: int = 0
    """The byte offset in the file after the transaction."""
    bytes: int = 0
    """The bytes of the transaction's events, and of the events between it and the next transaction."""
    events: int = 0


class Log(NamedTuple):
    """The transactions of a binlog or relay log, in the order of the log, with the times at which they were written."""

    transactions: list[Logged]
    time: Ints
    """The time at which each transaction was complete in its file, microseconds (``time.monotonic``); -1: never."""
    bytes_before: int
    """The bytes of events of the source before the first transaction."""
    events_before: int


def read_log(grown: Grown) -> Log:
    """Read consecutive files of a binlog or relay log, and return their transactions with the times at which these were
    written. An incomplete last event is left out.

    ``grown`` maps the path of each file to its sizes over time: pairs of a time (microseconds) and the size at that
    time.
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
        # The last event may be incomplete.
        with path.open("rb") as file, contextlib.suppress(BinlogTruncated):
            for event in iter_events(file, file=str(path), verify=False):
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

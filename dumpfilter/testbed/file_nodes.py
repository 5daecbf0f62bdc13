"""The nodes that consist of files: recordings that are replayed, and generated workloads.

A replayed set is written as a server writes its binlog. Transactions appear whole, each at the time at which it is due.
The format description event says "in use" until the file is complete. The index file names a file once the file
exists.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dumpfilter.analyse.traffic.facts import Ints
from dumpfilter.binlog.events import OF_FILES
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.workload import START, GeneratedSet, Span, generate
from dumpfilter.index.fileset import BinlogFile, BinlogSet
from dumpfilter.receiver.store import OpenFile
from dumpfilter.testbed.binlogs import WatchedSet, end_of
from dumpfilter.testbed.node import Feed, Goal, Ground, TestbedNode
from dumpfilter.testbed.values import NOWHERE, ChannelState, Place
from dumpfilter.topology.model import DEFAULT_STYLE, Node, Workload

MICROSECONDS = 1_000_000
_BITS = 8
_READ = 1 << 20


@dataclass(frozen=True, eq=False)
class Timetable:
    """The transactions of one binlog file: the byte offset at which each ends, and the time at which it is due."""

    file: Path
    head: int
    """The byte offset of the first transaction. The bytes before it are written when the file is created."""
    end: Ints
    """The byte offset at which each transaction ends. The last one includes the events at the end of the file."""
    due: Ints
    """The time from the start of the replay until the transaction is due, microseconds."""


def timetables(source: BinlogSet, *, speed: float = 1.0, rate: int | None = None) -> list[Timetable]:
    """Return the timetable of each file of the binlog set ``source`` for a replay: the time at which each transaction
    is due.

    With ``rate`` the set grows by that many bits per second. Otherwise a recording is replayed at ``speed`` times its
    original pace, given by the commit times in MySQL's GTID events. Other binlogs have only the seconds in the events'
    headers. The transactions of one second are then spread evenly over the second.
    """
    # The kernels of the traffic are loaded for sets that grow alone.
    from dumpfilter.spark_jobs.engines import run_here
    from dumpfilter.spark_jobs.simulation import read_traffic

    paths = [source.path(name) for name in source.names]
    traffic = read_traffic(paths, (), run_here)
    if rate is None:
        due = ((traffic.time - traffic.time[:1]) / speed).astype(np.int64)
    else:
        before = np.cumsum([0, *(source.size(name) for name in source.names)])
        due = (before[traffic.file] + traffic.end) * (_BITS * MICROSECONDS) // rate
    found = []
    for number, path in enumerate(paths):
        here = np.flatnonzero(traffic.file == number)
        size, end = source.size(path.name), traffic.end[here]
        end[-1:] = size
        found.append(Timetable(path, _head(path) if end.size else size, end, due[here]))
    return found


def _head(path: Path) -> int:
    """Return the byte offset of the first transaction in the binlog file ``path``, which must have transactions."""
    with path.open("rb") as file:
        events = iter_events(file, file=path.name, verify=False)
        return next(event.offset for event in events if event.type not in OF_FILES)


class Replay:
    """A thread that writes a binlog set into a directory, each transaction when it is due.

    The set consists of the files of the timetables, under their own names. :meth:`pause` and :meth:`resume` stop and
    restart the clock by which transactions are due.
    """

    def __init__(self, tables: Sequence[Timetable], directory: Path, index: str) -> None:
        self.index = directory / index
        self.error: Exception | None = None
        self.is_done = not tables
        """Whether everything has been written."""
        self._tables = tables
        self._directory = directory
        self._ready, self._ended = threading.Event(), threading.Event()
        if self.is_done:
            self._ended.set()
        self._changed = threading.Condition()
        """The condition that a resumed or closed replay notifies."""
        self._is_closed = False
        self._paused_at: float | None = None
        self._began = 0.0
        self._thread = threading.Thread(target=self._run, name=f"replay {directory.name}", daemon=True)

    def start(self, *, is_paused: bool = False) -> None:
        """Start the thread that replays a binlog set: it writes the set's files, each transaction when it is due. The
        first file and the index exist when the method returns.

        With ``is_paused`` the first transaction is written only after :meth:`resume`. Raises the error that ended the
        replay.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        self._began = time.monotonic()
        self._paused_at = self._began if is_paused else None
        self._thread.start()
        self._ready.wait()
        if self.error is not None:
            raise self.error

    def wait_done(self, timeout: float) -> bool:
        """Wait until all transactions of the replayed binlog set are written, and return True. Return False if that
        takes longer than ``timeout`` seconds, and if the replay was closed before.

        Raises the error that ended the replay.
        """
        self._ended.wait(timeout)
        if self.error is not None:
            raise self.error
        return self.is_done

    def pause(self) -> None:
        """Pause the replay of a binlog set: write no further transaction until :meth:`resume`. The call does not wait
        for a transaction that is being written.

        The times of the later transactions move by the length of the pause.
        """
        with self._changed:
            if self._paused_at is None:
                self._paused_at = time.monotonic()

    def resume(self) -> None:
        """End a :meth:`pause` of the replay of a binlog set, so that further transactions are written. Without a pause
        nothing changes.
        """
        with self._changed:
            if self._paused_at is not None:
                self._began += time.monotonic() - self._paused_at
                self._paused_at = None
                self._changed.notify()

    def close(self) -> None:
        """End the thread that writes the binlog set. Transactions that it has not written yet are never written."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self.is_done = all(map(self._write, self._tables))
        except Exception as error:
            # A thread that ended without an error would count as done.
            self.error = error
        self._ended.set()
        self._ready.set()

    def _write(self, table: Timetable) -> bool:
        """Write one file of the binlog set, each transaction when it is due. ``table`` has the file's transactions and
        the times at which they are due.

        Return False if the replay was closed meanwhile, otherwise True.
        """
        is_first = table is self._tables[0]
        # A server makes its next file when it has something to write, at the latest.
        if table.due.size and not is_first and not self._wait_until(int(table.due[0])):
            return False
        with BinlogFile(table.file) as source:
            head = source.read(0, source.first_event)
            made = OpenFile.begin(self._directory / source.name, head[4:], source.format_description)
            try:
                _copy(source, made, len(head), table.head)
                with open(self.index, "a") as index:
                    index.write(f"./{source.name}\n")
                self._ready.set()
                at, number = table.head, 0
                while number < table.end.size:
                    if not self._wait_until(int(table.due[number])):
                        return False
                    ready = max(int(np.searchsorted(table.due, self._clock(), side="right")), number + 1)
                    end = int(table.end[ready - 1])
                    _copy(source, made, at, end)
                    at, number = end, ready
                made.clear_in_use()
            finally:
                made.close()
        return True

    def _clock(self) -> int:
        """Return the time since the start of the replay, without pauses, microseconds."""
        with self._changed:
            now = time.monotonic() if self._paused_at is None else self._paused_at
            return int((now - self._began) * MICROSECONDS)

    def _wait_until(self, due: int) -> bool:
        """Wait until the replay's clock, which stands still during a pause, reaches ``due`` microseconds. Return False
        if the replay was closed meanwhile, otherwise True.
        """
        with self._changed:
            while not self._is_closed and (left := due - self._clock()) > 0:
                self._changed.wait(left / MICROSECONDS if self._paused_at is None else None)
            return not self._is_closed


def _copy(source: BinlogFile, made: OpenFile, start: int, end: int) -> None:
    while start < end:
        data = source.read(start, min(end - start, _READ))
        made.append(memoryview(data))
        start += len(data)


class Files(TestbedNode):
    """A node of a topology that is a set of binlog files without a server: a replayed recording, or a generated
    workload.

    The files are written over time, as by a server, or are complete at once.
    """

    writes_binlog = True

    def __init__(self, ground: Ground, node: Node, feeds: Sequence[Feed]) -> None:
        super().__init__(ground, node, feeds)
        # Files that are complete at once need nothing written.
        self._replay = Replay([], self.directory, "")

    def release(self) -> None:
        """Write further transactions into the node's binlog files, after a pause or after a start with ``hold`` (see
        :func:`dumpfilter.testbed.starting.up`).
        """
        self._replay.resume()

    def _begin(self) -> None:
        if self._watched is not None:
            self.release()
            return
        node, load, holds = self.node, self.node.workload, self._ground.holds_files
        rate, speed = (load.rate, None) if load else (None, node.speed)
        is_whole = rate is None and speed is None and not holds
        if load:
            binlogs = generated_set(load, self.directory / ("binlog" if is_whole else "generated")).index
        else:
            assert node.binlogs is not None
            binlogs = node.binlogs.absolute()
        # A missing file shall be an error of this node.
        source = BinlogSet.open(binlogs)
        if not is_whole:
            tables = timetables(source, speed=math.inf if speed is None else speed, rate=rate)
            index = source.index.name if source.index is not None else "binlog.index"
            self._replay = Replay(tables, self.directory / "binlog", index)
            self._replay.start(is_paused=holds)
            binlogs = self._replay.index
        self._watched = WatchedSet(binlogs)

    def _end(self, *, in_order: bool) -> None:
        self._replay.pause()

    def close(self) -> None:
        self._replay.close()
        self._state = "stopped"

    @property
    def is_done(self) -> bool:
        """Whether all transactions of the replayed or generated binlog set are in the node's binlog files."""
        return self._replay.is_done

    def wait_done(self, timeout: float) -> bool:
        """Wait until all transactions of the replayed or generated binlog set are in the node's files, and return True.
        Return False if that takes longer than ``timeout`` seconds.
        """
        return self._replay.wait_done(timeout)

    def arguments_for_master(self, feed: Feed, store: Path) -> list[str]:
        return [str(self.watched.source)]

    def goal(self) -> Goal:
        return Goal(self, end_of(self.watched.note()))

    def _position(self, channels: Sequence[ChannelState], problems: list[str]) -> tuple[Place, str]:
        if self._replay.error is not None:
            problems.append(f"{self.name}: the replay has ended: {self._replay.error}")
        return end_of(self.watched.note()) if self._watched is not None else NOWHERE, ""


def generated_set(model: Workload, directory: Path) -> GeneratedSet:
    """Write a generated binlog set (a workload) into ``directory``, and return its description.

    ``model`` has the size, the server family, the seed and the rate. The commit times are approximately those at which
    a replay would write the transactions, so that a simulation of the files has the same times.
    """
    span = None if model.rate is None else Span(START, max(1, model.size * 8 // model.rate))
    return generate(directory, model.size, style=model.style or DEFAULT_STYLE, seed=model.seed, span=span)

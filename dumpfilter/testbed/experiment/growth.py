"""Recording the growth of log files over time.

A node's relay log grows when an event arrives. The times at which files grow are therefore the times at which
transactions arrived, for nodes of dumpfilter and real servers alike.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dumpfilter.simulation.traffic import Ints

INTERVAL = 0.001
"""The sampling interval of file sizes, seconds. It is the resolution of measured times."""

LogName = str | tuple[str, str]
"""The name of a log: the origin that writes it, or the node that receives it and the source that the node reads."""


@dataclass(frozen=True)
class Watched:
    """A binlog or relay log: the files in a directory whose names have the same prefix and end in a number."""

    directory: Path
    prefix: str = ""
    """The prefix of the files' names, up to the period before the number. Empty: any name."""

    def files(self) -> list[Path]:
        """Return the existing files of the log, sorted by their numbers."""
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
    """Return the times from which on a file had at least each of the sizes ``ends``, microseconds.

    A size counts from the moment after which the file was never shorter, since it may be truncated in between. The time
    of a size that the file never had is -1.

    >>> reached([(10, 4), (20, 100), (30, 50), (40, 100)], np.array([4, 50, 60, 101])).tolist()
    [10, 20, 40, -1]
    """
    times, sizes = np.array(growth, np.int64).reshape(-1, 2).T
    # From each sample on, the file never had fewer bytes than this.
    least = np.minimum.accumulate(sizes[::-1])[::-1]
    found: Ints = np.append(times, -1)[np.searchsorted(least, ends)]
    return found


class Recorder:
    """A recorder of the sizes of log files over time. The logs need not exist yet. One thread calls :meth:`run`."""

    def __init__(self) -> None:
        self._logs: dict[LogName, tuple[Watched, dict[Path, list[tuple[int, int]]]]] = {}
        """Each log, with the times and sizes of its files."""
        self._changed = threading.Lock()

    def watch(self, name: LogName, watched: Watched) -> None:
        """Record the file sizes of a binlog or relay log from now on, under the key ``name``."""
        with self._changed:
            self._logs[name] = watched, {}

    def run(self, over: threading.Event) -> None:
        """Sample all logs periodically until the event is set."""
        while not over.wait(INTERVAL):
            self.look()

    def look(self) -> None:
        """Sample all logs once."""
        with self._changed:
            for watched, samples in self._logs.values():
                for path in _onward(next(reversed(samples))) if samples else watched.files():
                    with contextlib.suppress(FileNotFoundError):
                        size = path.stat().st_size
                        of_file = samples.setdefault(path, [])
                        if not of_file or of_file[-1][1] != size:
                            of_file.append((time.monotonic_ns() // 1000, size))

    def grown(self) -> Mapping[LogName, Grown]:
        """Return the sizes over time of each file of each recorded log, by the log's name and the file's path."""
        with self._changed:
            return {
                name: {path: tuple(of_file) for path, of_file in samples.items()}
                for name, (_, samples) in self._logs.items()
            }


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

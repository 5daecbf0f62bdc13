"""The parts that the benchmarks share: the binlogs, the runs, and the report."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from dumpfilter.analyse.inspection import inspect_set
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.workload import GeneratedSet, generate
from dumpfilter.filter.filter import Filter
from dumpfilter.index.fileset import BinlogSet

OUT = Path(__file__).parent / "out"
REPOSITORY = Path(__file__).parent.parent
MYSQL_ROOT = Path(os.environ.get("MYSQL_ROOT", "mysqlroot"))
"""The root of a system with MySQL, made with debootstrap. Without it the benchmarks use MariaDB's programs."""

Cases = Mapping[str, Callable[[], object]]
"""The functions that are timed, by name. A function that returns a float has timed itself, in seconds."""


class Options(argparse.Namespace):
    """The options of the command line."""

    names: list[str]
    """The benchmarks to run. None named: all but the ones on request."""
    size: int
    """The size of the binlog, bytes."""
    runs: int
    """The timed runs of each case."""
    strict: bool
    """Whether a missed target is a failure."""
    followers: int
    """The number of slaves that follow a growing binlog."""
    seconds: float
    """The time for which the soak test runs, seconds."""
    family: Family | None
    """The family of the real servers. None: both families."""


def binlogs(
    size: int, *, style: Family = "mysql", file_size: int = 256 << 20, under: Path = OUT
) -> GeneratedSet:
    """Return a generated binlog set of this size in the page cache, and generate it if it does not exist."""
    directory = under / f"{style}-{size >> 10}K-{file_size >> 10}K"
    transactions = directory / "transactions"
    if not transactions.exists():
        shutil.rmtree(directory, ignore_errors=True)
        made = generate(directory, size, style=style, file_size=file_size)
        transactions.write_text(str(made.transactions))
    paths = sorted(directory.glob("bin.??????"))
    size = sum(len(path.read_bytes()) for path in paths)
    return GeneratedSet(directory / "bin.index", paths, size, int(transactions.read_text()))


def schemas_for(sizes: dict[str, int], wanted: float) -> list[str]:
    """Return names whose sizes add up to about the share ``wanted`` (0 to 1) of the sum of all sizes.

    >>> schemas_for({"a": 50, "b": 25, "c": 15, "d": 10}, 0.4)
    ['b', 'c']
    """
    room = wanted * sum(sizes.values())
    best: tuple[float, list[str]] = (room, [])
    ordered = sorted(sizes, key=lambda name: -sizes[name])
    for first in range(len(ordered)):
        chosen, left = [], room
        for name in ordered[first:]:
            if sizes[name] <= left * 1.02:
                chosen.append(name)
                left -= sizes[name]
        if abs(left) < best[0]:
            best = (abs(left), chosen)
    return best[1]


def schema_sizes(made: GeneratedSet) -> dict[str, int]:
    """Return the bytes of the events that change tables of one schema alone, by schema. The headings of other events
    stand in parentheses.
    """
    found = inspect_set(BinlogSet.open(made.index)).schemas()
    return {name: one.bytes for name, one in found.items() if not name.startswith("(")}


def keeping(made: GeneratedSet, share: float) -> list[str]:
    """Return the schemas of a filter that keeps about this share of the bytes. An empty list keeps everything."""
    return [] if share >= 1 else schemas_for(schema_sizes(made), share)


def do_db(names: Sequence[str]) -> Filter:
    """Return the filter that keeps these schemas."""
    return Filter.from_options([f"--replicate-do-db={name}" for name in names])


def steadily(rate: float) -> Iterator[int]:
    """Yield 0, 1, 2 … at a steady rate, in numbers a second."""
    start = time.perf_counter()
    for number in itertools.count():
        time.sleep(max(0.0, start + number / rate - time.perf_counter()))
        yield number


def percentiles(values: Sequence[float]) -> dict[int, float]:
    """Return the 50th, 95th, 99th and 100th percentile of at least one value."""
    return {p: float(np.percentile(values, p)) for p in (50, 95, 99, 100)}


def interleaved(cases: Cases, runs: int, *, warm_up: bool = True) -> dict[str, list[float]]:
    """Return the durations of each case, seconds. The cases take turns, so that a busy machine slows all alike."""
    found: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(-warm_up, runs):
        for name, case in cases.items():
            start = time.perf_counter()
            told = case()
            seconds = told if isinstance(told, float) else time.perf_counter() - start
            if number >= 0:
                found[name].append(seconds)
    return found


class Target(NamedTuple):
    """A target with the value that was reached."""

    text: str
    value: float
    wanted: float
    met: bool


@dataclass
class Report:
    """A table of medians, and the targets that they meet or miss."""

    name: str
    claim: str
    runs: int = 1
    """The timed runs of each case."""
    nbytes: int = 0
    rows: list[tuple[str, str]] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def measure(self, cases: Cases, *, warm_up: bool = True) -> dict[str, float]:
        """Time the cases by turns, add a row for each, and return the medians, seconds."""
        found = interleaved(cases, self.runs, warm_up=warm_up)
        for name, times in found.items():
            m = median(times)
            spread = f"{min(times) * 1e3:.0f} to {max(times) * 1e3:.0f} ms"
            self.row(name, m, f"{m * 1e3:9.1f} ms {self.nbytes / m / 1e9:8.2f} GB/s   ({spread})")
        return {name: self.values[name] for name in found}

    def row(self, name: str, value: float, text: str = "{:9.2f}") -> None:
        """Add a row with a value. ``text`` is a format for the value."""
        self.rows.append((name, text.format(value)))
        self.values[name] = round(value, 6)

    def limit(self, text: str, value: float, wanted: float) -> None:
        """Add a target that the value must not exceed."""
        self.targets.append(Target(f"{text} at most {wanted:g}", round(value, 4), wanted, value <= wanted))

    def target(self, text: str, value: float, wanted: float) -> None:
        """Add a target that the value must reach."""
        self.targets.append(Target(f"{text} at least {wanted:g}", round(value, 4), wanted, value >= wanted))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def print(self) -> bool:
        """Print the table and a line of JSON, and tell whether all targets were met."""
        print(f"\n== {self.name}: {self.claim}")
        width = max((len(name) for name, _ in self.rows), default=0)
        for name, text in self.rows:
            print(f"  {name:{width}} {text}")
        for target in self.targets:
            print(f"  {'met    ' if target.met else 'NOT MET'}  {target.text}: {target.value:.2f}")
        for text in self.notes:
            print(f"  note: {text}")
        targets = [target._asdict() for target in self.targets]
        line = {"bench": self.name, "bytes": self.nbytes, "values": self.values, "targets": targets}
        print(json.dumps(line), flush=True)
        return all(target.met for target in self.targets)

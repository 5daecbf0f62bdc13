"""The parts that the benchmarks share: the binlogs, the runs, the report, the processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.workload.generate import GeneratedSet, Style, generate
from dumpfilter.filter import Filter, RuleKind, make_rule

OUT = Path(__file__).parent / "out"
REPOSITORY = Path(__file__).parent.parent
MYSQL_ROOT = Path(os.environ.get("MYSQL_ROOT", "mysqlroot"))
"""The root of a system with MySQL, made with debootstrap. Without it the benchmarks use MariaDB's programs."""


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    size: int
    """The size of the binlog, bytes."""
    runs: int
    """The timed runs of each case."""
    before: Path | None = None
    """The checkout of another release, whose master is measured beside this one's."""
    followers: int = 1000
    """The number of slaves that follow a growing binlog."""
    seconds: float = 600.0
    """The time for which the soak test runs, seconds."""
    family: Style | None = None
    """The family of the real servers. None: both families."""


def binlogs(
    size: int,
    *,
    style: Style = "mysql",
    checksum: bool = True,
    schemas: int = 20,
    files: int | None = None,
    under: Path = OUT,
) -> GeneratedSet:
    """Return a generated binlog set of this size, and generate it if it does not exist.

    ``files`` is the number of its files. By default each file has 256 MiB.
    """
    name = f"{style}-{size >> 20}M" + ("" if checksum else "-unchecked")
    name += "" if schemas == 20 else f"-{schemas}-schemas"
    name += "" if files is None else f"-{files}-files"
    directory = under / name
    about = directory / "about.json"
    if not about.exists():
        shutil.rmtree(directory, ignore_errors=True)
        file_size = 256 << 20 if files is None else -(-size // files)
        # Sets differ in the number of schemas, but hardly in the number of tables.
        made = generate(
            directory,
            size,
            style=style,
            checksum=checksum,
            schemas=schemas,
            tables=max(2, 1000 // schemas),
            file_size=file_size,
        )
        about.write_text(json.dumps({"transactions": made.transactions, "schemas": made.schemas}))
    known = json.loads(about.read_text())
    files = [p for p in sorted(directory.glob("bin.0*")) if p.suffix != ".index"]
    return GeneratedSet(
        directory / "bin.index",
        files,
        sum(p.stat().st_size for p in files),
        known["transactions"],
        known["schemas"],
    )


def warm(made: GeneratedSet) -> None:
    """Read the files into the page cache."""
    for path in made.files:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass


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


def keeping(made: GeneratedSet, share: float) -> list[str]:
    """Return the schemas of a filter that keeps about this share of the bytes. An empty list keeps everything."""
    return [] if share >= 1 else schemas_for(made.schemas, share)


def do_db(names: Sequence[str]) -> Filter:
    """Return the filter that keeps these schemas."""
    return Filter(
        tuple(make_rule(RuleKind.DO_DB, n) for n in names), names=NameRules("mysql", lower_case_table_names=0)
    )


def timed(work: Callable[[], Any]) -> float:
    """Return the duration of a call, seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def interleaved(
    cases: dict[str, Callable[[], float]], runs: int, *, warm_up: bool = True
) -> dict[str, list[float]]:
    """Return the durations of each case, seconds. The cases take turns, so that a busy machine slows all alike."""
    found: dict[str, list[float]] = {name: [] for name in cases}
    if warm_up:
        for case in cases.values():
            case()
    for _ in range(runs):
        for name, case in cases.items():
            found[name].append(case())
    return found


@dataclass
class Report:
    """A table of medians, and the targets that they meet or miss."""

    name: str
    claim: str
    nbytes: int = 0
    rows: list[tuple[str, str]] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)
    targets: list[tuple[str, float, float, bool]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def times(self, found: dict[str, list[float]], *, nbytes: int | None = None) -> dict[str, float]:
        """Add a row for each case and return the medians, seconds."""
        count = self.nbytes if nbytes is None else nbytes
        medians = {name: median(seconds) for name, seconds in found.items()}
        for name, seconds in found.items():
            m = medians[name]
            spread = f"{min(seconds) * 1e3:.0f} to {max(seconds) * 1e3:.0f} ms"
            self.rows.append((name, f"{m * 1e3:9.1f} ms {count / m / 1e9:8.2f} GB/s   ({spread})"))
            self.values[name] = round(m, 6)
        return medians

    def ratio(self, text: str, name: str, other: str, wanted: float, *, at_most: bool = False) -> None:
        """Add a target for the median of one case divided by that of another."""
        self.target(text, self.values[name] / self.values[other], wanted, at_most=at_most)

    def row(self, name: str, value: float, text: str) -> None:
        """Add a row that is no duration."""
        self.rows.append((name, text))
        self.values[name] = round(value, 6)

    def target(self, text: str, value: float, wanted: float, *, at_most: bool = False) -> None:
        """Add a target and the value that was reached."""
        met = value <= wanted if at_most else value >= wanted
        self.targets.append((f"{text} {'at most' if at_most else 'at least'} {wanted:g}", value, wanted, met))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def print(self) -> bool:
        """Print the table and a line of JSON, and tell whether all targets were met."""
        print(f"\n== {self.name}: {self.claim}")
        width = max((len(name) for name, _ in self.rows), default=0)
        for name, text in self.rows:
            print(f"  {name:{width}} {text}")
        for text, value, _, met in self.targets:
            print(f"  {'met    ' if met else 'NOT MET'}  {text}: {value:.2f}")
        for text in self.notes:
            print(f"  note: {text}")
        line = {
            "bench": self.name,
            "bytes": self.nbytes,
            "values": self.values,
            "targets": [
                {"text": text, "value": round(value, 4), "wanted": wanted, "met": met}
                for text, value, wanted, met in self.targets
            ],
        }
        print(json.dumps(line), flush=True)
        return all(met for *_, met in self.targets)


class Child:
    """A child process that reads lines from its standard input and writes lines to its standard output."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self.process = process
        self._stdin, self._stdout = process.stdin, process.stdout

    def tell(self, line: str) -> None:
        """Send a line."""
        self._stdin.write(f"{line}\n")
        self._stdin.flush()

    def line(self) -> str:
        """Return the next line that the process writes. Raises SystemExit for a process that has ended."""
        line = self._stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args!r}: the process ended with {self.process.wait()}")
        return line.strip()

    def answer(self) -> Any:
        """Return the next line as JSON."""
        return json.loads(self.line())

    def ask(self, request: object) -> Any:
        """Send a request as JSON, and return the answer."""
        self.tell(json.dumps(request))
        return self.answer()

    def end(self) -> list[str]:
        """Terminate the process, and return the lines that nobody has read."""
        self.process.terminate()
        return self.process.communicate()[0].splitlines()


@contextmanager
def child(
    arguments: Sequence[str], tree: Path = REPOSITORY, *, quiet: bool = True, **environment: str
) -> Iterator[Child]:
    """Run Python with these arguments and pipes for standard input and output, and stop the process at the end.

    The process imports the modules of ``tree``, a checkout. A ``quiet`` process has no standard error.
    """
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=tree,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet else None,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tree), **environment},
    )
    try:
        yield Child(process)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def master(index: Path, *options: str, tree: Path = REPOSITORY) -> Iterator[tuple[str, int]]:
    """Run ``dumpfilter master`` of a checkout on a binlog set, and yield its address and process id."""
    with running_master(index, *options, tree=tree) as (ports, pid):
        yield f"127.0.0.1:{ports['port']}", pid


@contextmanager
def running_master(
    source: Path | str, *options: str, ports: Sequence[str] = ("port",), tree: Path = REPOSITORY
) -> Iterator[tuple[dict[str, int], int]]:
    """Run ``dumpfilter master`` of a checkout on a set or an address. Yield its ports and its process id.

    ``ports`` are the options of the ports, without dashes.
    """
    with tempfile.TemporaryDirectory() as directory:
        files = {port: Path(directory, port) for port in ports}
        arguments = ["-c", "from dumpfilter.cli import main; main()", "master", str(source), *options]
        for port, file in files.items():
            arguments += [f"--{port}", "0", f"--{port}-file", str(file)]
        with child(arguments, tree) as process:
            while not all(file.exists() for file in files.values()):
                if (code := process.process.poll()) is not None:
                    raise SystemExit(f"dumpfilter master ended with {code}")
                time.sleep(0.01)
            yield {port: int(file.read_text()) for port, file in files.items()}, process.pid


def has_mysql() -> bool:
    """Tell whether MYSQL_ROOT has a MySQL."""
    return (MYSQL_ROOT / "usr/sbin/mysqld").exists()

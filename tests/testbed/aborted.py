"""Aborted runs of topologies: each is killed, interrupted or fails at a random moment, and nothing may remain.

A run is the command ``dumpfilter topology up`` with a temporary directory and an environment variable of its own. The
variable is inherited, so that every process of the run can be found. By hand::

    python -m tests.testbed.aborted --runs 100
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from dumpfilter.testbed.directory import clean, clean_temporary

MARK = "DUMPFILTER_ABORTED_RUN"
LIMIT = 120.0
"""The longest time until all processes of an aborted run have ended, seconds."""
LONGEST = 4.0
"""The longest time after which a run is aborted, seconds."""

TOPOLOGIES = (
    "m >> web",
    "m >> web[do-db=shop_01]; m >> hr[do-db=shop_02, rate=1mbit] >> hr2",
    "m[rate=1mbit] >> web; m >> hr; m >> all",
    "a[rate=1mbit, tls=yes] >> x; b[tls=yes] >> x[delay=300ms, jitter=20ms]; b >> y[down=0s-1s, down=2s-]",
)
SERVERS = (
    "m[server=mariadb] >> web[do-db=shop]",
    "m[server=mariadb] >> f[role=master] >> r[server=mariadb]",
    "m[server=mariadb, tls=yes] >> f[tls=yes] >> r[server=mariadb, do-db=a, rate=64kbit]; f >> s >> t[server=mariadb]",
)
MYSQL_ROOT = os.environ.get("DUMPFILTER_MYSQL_ROOT")
MYSQL = (f"m[server=mysql, root={MYSQL_ROOT}] >> r[server=mysql, root={MYSQL_ROOT}]; m >> web",)
FAILING = (
    "m >> web; m >> bad[role=slave, options=--no-such-option]",
    "m[binlogs=/no/such/set.index] >> web",
)
FAILING_SERVERS = (
    "m >> web; m >> r[server=mariadb, option=--no-such-option]; m >> hr",
    'm[server=mariadb, init="NO SQL"] >> web',
)
WAYS = (
    "kill -9",
    "kill -9 of the group",
    "Ctrl-C",
    "SIGTERM",
    "SIGHUP",
    "failing start",
    "kill -9 of the keeper",
)


class EndedTooSoon(Exception):
    """The error for a run that ended before it was aborted."""


@dataclass(frozen=True)
class Run:
    """One aborted run: what is started, and how it is aborted."""

    topology: str
    way: str
    after: float
    is_temporary: bool
    """Whether the topology has no directory of its own."""


def random_run(chance: random.Random, *, servers: bool) -> Run:
    """Return a random run."""
    way = chance.choice(WAYS)
    given = TOPOLOGIES + (SERVERS if servers else ()) + (MYSQL if servers and MYSQL_ROOT else ())
    return Run(
        chance.choice((FAILING + (FAILING_SERVERS if servers else ())) if way == "failing start" else given),
        way,
        chance.uniform(0.0, LONGEST),
        chance.random() < 0.5,
    )


def abort(run: Run) -> list[str]:
    """Start a topology, abort it, and return what remains of it, as sentences."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="aborted-") as home:
        temporary, directory, output = Path(home, "tmp"), Path(home, "up"), Path(home, "output")
        temporary.mkdir()
        with output.open("wb") as written:
            process = subprocess.Popen(
                _command(run, directory),
                env={**os.environ, MARK: mark, "TMPDIR": str(temporary), "PYTHONFAULTHANDLER": "1"},
                stdout=written,
                stderr=written,
                start_new_session=True,
            )
        try:
            _abort(run, process, mark)
        except subprocess.TimeoutExpired:
            # The process writes the stacks of its threads.
            process.send_signal(signal.SIGABRT)
            process.wait()
            return [f"the command has not ended after {run.way}: {output.read_text(errors='replace')}"]
        except EndedTooSoon:
            return [f"the command ended by itself: {output.read_text(errors='replace')}"]
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        left = [f"process {pid} still runs: {command}" for pid, command in _left(mark)]
        if directory.exists():
            # After kill -9 the next up or down cleans.
            clean(directory)
            left += [f"{path} remains" for path in directory.iterdir() if path.name not in ("lock", "logs")]
        return [*left, *_left_files(temporary)]


def _command(run: Run, directory: Path) -> list[str]:
    if not run.is_temporary:
        command = ["-m", "dumpfilter", "topology", "up", run.topology, "--directory", str(directory)]
        return [sys.executable, *command]
    return [sys.executable, "-m", "tests.testbed.aborted", "--up", run.topology]


def _abort(run: Run, process: subprocess.Popen[bytes], mark: str) -> None:
    if run.way == "failing start":
        process.wait(LIMIT)
        return
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(run.after)
        raise EndedTooSoon
    if run.way == "kill -9 of the keeper":
        for pid, command in list(_processes(mark)):
            if "dumpfilter.testbed.keeper" in command and _parent(pid) == process.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        # The command notices when it needs the keeper next.
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
    elif run.way == "kill -9 of the group":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        number = {"kill -9": signal.SIGKILL, "Ctrl-C": signal.SIGINT, "SIGTERM": signal.SIGTERM}
        process.send_signal(number.get(run.way, signal.SIGHUP))
    process.wait(LIMIT)


def _processes(mark: str) -> Iterator[tuple[int, str]]:
    """Yield the processes of a run: numbers and command lines."""
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                yield int(entry.name), command


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _left(mark: str) -> list[tuple[int, str]]:
    """Return the processes of a run that have not ended within the limit, and kill them."""
    deadline = time.monotonic() + LIMIT
    while left := list(_processes(mark)):
        if time.monotonic() > deadline:
            for pid, _ in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            break
        time.sleep(0.02)
    return left


def _left_files(temporary: Path) -> list[str]:
    """Return the files that remain in a temporary directory after the next topology has cleaned it."""
    with mock.patch.object(tempfile, "tempdir", str(temporary)):
        clean_temporary()
    return [f"{path} remains" for path in temporary.iterdir()]


def _run_until_signal(topology: str) -> None:
    """Run a topology in a temporary directory until a signal ends it."""
    from dumpfilter.base.endings import ending_at_signals
    from dumpfilter.testbed import up

    with ending_at_signals(), up(topology):
        time.sleep(LIMIT)


def main() -> None:
    """Abort runs, and print what remained of them. Exit with 1 if anything did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--servers", action="store_true", help="also topologies with MariaDB")
    parser.add_argument("--up", help="run this topology until a signal")
    options = parser.parse_args()
    if options.up is not None:
        _run_until_signal(options.up)
        return
    for number in (signal.SIGHUP, signal.SIGINT):
        # nohup and a shell's background ignore these signals, and each run would inherit that.
        signal.signal(number, signal.SIG_DFL if number == signal.SIGHUP else signal.default_int_handler)
    chance = random.Random(options.seed)
    failures = 0
    for number in range(1, options.runs + 1):
        run = random_run(chance, servers=options.servers)
        left = abort(run)
        failures += bool(left)
        print(
            f"{number:4} {run.way:22} after {run.after:4.2f} s  {run.topology:45} {'; '.join(left) or 'clean'}",
            flush=True,
        )
    print(f"{failures} of {options.runs} runs left something")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()

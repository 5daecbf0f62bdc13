"""``python tools/upgrade_pairs.py [COMMIT|DIRECTORY]``: pair today's programs with old ones, and check the results.

The old program comes from a directory, or from the history of this repository, by default from commit 4d55964. All
programs run as processes, with kills and rotations in between. The tests do the same with recorded data, without git.

Packages that only the old program needs (grpcio-reflection for 4d55964) must be in the environment or in PYTHONPATH.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RECORDINGS = ROOT / "tests" / "oracle" / "data" / "oracle"
OLD_COMMIT = "4d55964"
OPTIONS = ("--replicate-ignore-db=hr", "--replicate-rewrite-db=shop->store")
LONGEST_WAIT = 120.0
"""The longest wait for a state of a process, seconds."""

OUTCOME = ("summary", "position", "gtid_set", "retrieved_position", "retrieved_gtid_set")
"""The members of a slave's report that must not depend on the programs."""


def environment(source: Path) -> dict[str, str]:
    """Return the environment of a program in a tree of sources."""
    return {**os.environ, "PYTHONPATH": f"{source}:{os.environ.get('PYTHONPATH', '')}"}


class Pairs:
    """Masters and slaves of two trees of sources, over one recording. All their files are in ``directory``."""

    def __init__(self, trees: dict[str, Path], recording: str, directory: Path) -> None:
        self.trees = trees
        self.directory = directory
        self.binlogs = directory / "binlogs"
        shutil.copytree(RECORDINGS / recording, self.binlogs)
        self.index = (self.binlogs / "bin.index").read_text()
        self.show_files(1)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.numbers = itertools.count(1)
        self.started: list[subprocess.Popen[str]] = []

    def show_files(self, number: int) -> None:
        """Let the masters see the recording's first files."""
        lines = self.index.splitlines(keepends=True)[:number]
        beside = self.binlogs / "bin.index.new"
        beside.write_text("".join(lines))
        beside.rename(self.binlogs / "bin.index")

    def start(self, tree: str, *arguments: str) -> subprocess.Popen[str]:
        source = self.trees[tree]
        process = subprocess.Popen(
            [sys.executable, "-m", "dumpfilter", *arguments],
            cwd=source,
            env=environment(source),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def start_master(self, tree: str) -> subprocess.Popen[str]:
        master = self.start(tree, "master", str(self.binlogs / "bin.index"), "--port", str(self.port))
        wait_until(self.is_listening, master)
        return master

    def is_listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def start_slave(self, tree: str, name: str, *options: str) -> subprocess.Popen[str]:
        return self.start(
            tree,
            *("slave", "--master", f"127.0.0.1:{self.port}", "--relay-dir", str(self.directory / name)),
            *("--server-id", str(100 + next(self.numbers)), "--connect-retry", "0.1", "--summary", "json"),
            *("--summary-file", str(self.directory / f"{name}.json"), *OPTIONS, *options),
        )

    def finish(self, tree: str, name: str, *options: str) -> tuple[int, str]:
        """Run a slave to the end of the newest binlog. Return its exit code and its messages."""
        slave = self.start_slave(tree, name, "--once", *options)
        _, messages = slave.communicate(timeout=LONGEST_WAIT)
        return slave.returncode, messages

    def outcome(self, name: str) -> dict[str, Any]:
        report = json.loads((self.directory / f"{name}.json").read_text())
        return {member: report[member] for member in OUTCOME}

    def has_received(self, name: str, file: str) -> bool:
        """Tell whether a slave has received a whole binlog file."""
        try:
            info = json.loads((self.directory / name / "master.info").read_text())
        except FileNotFoundError:
            return False
        return bool(
            info["source_file"] == file and info["source_position"] == (self.binlogs / file).stat().st_size
        )


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait until a condition is true. End this program with the messages of ``process`` if that ends before."""
    deadline = time.monotonic() + LONGEST_WAIT
    while not condition():
        if process.poll() is not None:
            sys.exit(f"a process ended with {process.returncode}: {process.communicate()[1]}")
        if time.monotonic() > deadline:
            process.kill()
            sys.exit(f"a state does not come: {process.communicate()[1]}")
        time.sleep(0.05)


def end(process: subprocess.Popen[str], number: int) -> None:
    process.send_signal(number)
    process.communicate(timeout=LONGEST_WAIT)


def check(what: str, is_right: bool, found: object = "") -> bool:
    print(f"{'ok   ' if is_right else 'WRONG'} {what}" + ("" if is_right else f": {found}"), flush=True)
    return is_right


def pair(pairs: Pairs, number: signal.Signals, *options: str) -> bool:
    """Start an old slave of an old master, end both, and go on with all pairs. Return whether all is right."""
    about = f"({pairs.binlogs.parent.name}, {number.name} {' '.join(options)})"
    master = pairs.start_master("old")
    for name in ("old-slave", "upgraded"):
        slave = pairs.start_slave("old", name, *options)
        wait_until(lambda name=name: pairs.has_received(name, "bin.000001"), slave)  # type: ignore[misc]
        end(slave, number)
    shutil.copytree(pairs.directory / "upgraded", pairs.directory / "refused")
    code, messages = pairs.finish("new", "refused", *options)
    right = check(
        f"a new slave refuses an old master {about}", code == 1 and "upgrade the master" in messages, messages
    )
    end(master, signal.SIGTERM)
    pairs.show_files(len(pairs.index))
    master = pairs.start_master("new")
    code, messages = pairs.finish("new", "undisturbed", *options)
    right &= check(f"a new slave {about}", code == 0, messages)
    for tree, name, what in (
        ("old", "old-slave", "an old slave goes on at a new master"),
        ("new", "upgraded", "a new slave goes on in an old directory"),
    ):
        code, messages = pairs.finish(tree, name, *options)
        is_equal = code == 0 and pairs.outcome(name) == pairs.outcome("undisturbed")
        right &= check(f"{what} {about}", is_equal, messages or pairs.outcome(name))
    files = {path.name: path.read_bytes() for path in (pairs.directory / "upgraded").iterdir()}
    code, messages = pairs.finish("old", "upgraded", *options)
    after = {path.name: path.read_bytes() for path in (pairs.directory / "upgraded").iterdir()}
    is_refused = code == 1 and "has format 2" in messages and files.keys() == after.keys()
    is_refused &= all(after[name] == data for name, data in files.items() if name != "slave.lock")
    right &= check(f"an old slave refuses an upgraded directory {about}", is_refused, messages)
    end(master, signal.SIGTERM)
    return right


def run(trees: dict[str, Path], made: Path) -> bool:
    """Run all pairs. Return whether all results are right."""
    right = True
    for recording in ("mysql-row", "mariadb-row"):
        for number, options in (
            (signal.SIGKILL, ("--chunk-size", "4096")),
            (signal.SIGTERM, ("--auto-position",)),
        ):
            directory = made / f"{number.name}-{recording}"
            directory.mkdir()
            pairs = Pairs(trees, recording, directory)
            try:
                right &= pair(pairs, number, *options)
            finally:
                for process in pairs.started:
                    process.kill()
                    process.communicate()
    return right


def main() -> None:
    old = sys.argv[1] if len(sys.argv) > 1 else OLD_COMMIT
    with tempfile.TemporaryDirectory() as made:
        if Path(old).is_dir():
            sys.exit(not run({"old": Path(old).resolve(), "new": ROOT}, Path(made)))
        tree = Path(made) / "old"
        subprocess.run(["git", "worktree", "add", "-q", "--detach", str(tree), old], cwd=ROOT, check=True)
        try:
            # Compiling the kernels takes longer than a slave waits for its master.
            warm_up = [sys.executable, "-m", "dumpfilter.warm_up"]
            subprocess.run(warm_up, cwd=tree, env=environment(tree), check=True)
            sys.exit(not run({"old": tree, "new": ROOT}, Path(made)))
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()

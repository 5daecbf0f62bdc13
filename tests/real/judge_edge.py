"""``python -m tests.real.judge_edge mariadb|mysql``: real replicas of a slave's port end as the recorded replicas did.

For each recorded case, a slave with the case's filter receives the recording from a master, and a real replica follows
the slave's port. The replica only renames databases, which no master can do for it. With ``--hops 2`` a second master
serves the slave's relay log to a second slave, and the replica follows that one.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from itertools import groupby
from pathlib import Path

import pymysql

from dumpfilter.testbed.errors import StartFailed
from tests.real.behind import PASSWORD
from tests.real.edge import USER, Edge
from tests.real.judge import Replicas, _worker_options
from tests.real.judging import (
    FILTERED_XA,
    Case,
    Upstream,
    cases,
    differences,
    kept_on_replica,
    recorded_end,
    run,
    set_end,
)
from tests.real.server import Servers, ports_from
from tests.slave.driven import wait_until
from tests.slave.processes import Launcher


class Chain:
    """A master over a recording, and a slave with a case's filter. With two hops a master and a slave more."""

    def __init__(
        self, launcher: Launcher, directory: Path, case: Case, ports: object, hops: int, own: bool
    ) -> None:
        self._launcher = launcher
        self._directory = directory
        self._masters: list[str] = []
        self._edges: list[Edge] = []
        directory.mkdir(parents=True)
        lower = f"--lower-case-table-names={case.lower_case_table_names}"
        binlogs = case.recording.path / "bin.index"
        for hop in range(hops):
            port = self._master(f"master{hop}", binlogs, lower)
            options = [lower, "--io-thread-only", *(case.rules if hop == 0 else ())]
            if case.with_gtids:
                options.append("--auto-position")
            edge = Edge(launcher, directory / f"edge{hop}", *options, port=ports())  # type: ignore[operator]
            edge.start(port)
            self._edges.append(edge)
            binlogs = edge.relay_dir / "relay-bin.index"
        self.port = self._edges[-1].port

    def _master(self, name: str, binlogs: Path, *options: str) -> int:
        wait_until(binlogs.exists)
        note = self._directory / f"{name}.port"
        note.unlink(missing_ok=True)
        self._launcher.start(name, "master", str(binlogs), "--port", "0", "--port-file", str(note), *options)
        self._masters.append(name)
        wait_until(note.exists, lambda: self._launcher.log(name))
        return int(note.read_text())

    @property
    def relay_dir(self) -> Path:
        """The relay directory of the last slave."""
        return self._edges[-1].relay_dir

    def log(self) -> str:
        """Return the end of the last slave's output."""
        return self._edges[-1].log()

    def close(self) -> None:
        """Kill the processes, and remove their files."""
        for edge in self._edges:
            edge.kill()
        for name in self._masters:
            self._launcher.kill(name)
        shutil.rmtree(self._directory)


def main() -> None:
    """Run the cases, and print the counts. The exit status is 1 when a replica ended differently."""
    parser = argparse.ArgumentParser(prog="python -m tests.real.judge_edge")
    parser.add_argument("family", choices=("mariadb", "mysql"))
    parser.add_argument("--only", action="append", default=[], help="a part of RECORDING/CASE; repeatable")
    parser.add_argument("--workers", type=int, default=None, help="the replicas' applier threads")
    parser.add_argument("--hops", type=int, default=1)
    parser.add_argument("--own", action="store_true", help="the replica has its own filter, too")
    parser.add_argument(
        "--by-file", action="store_true", help="replicate by file and position instead of GTID"
    )
    parser.add_argument("--first-port", type=int, default=0, help="the first of a hundred ports to use")
    options = parser.parse_args()
    chosen = [
        case
        for case in cases(options.family)
        if not options.only or any(part in str(case) for part in options.only)
    ]
    counts: Counter[str] = Counter()
    ports = ports_from(options.first_port)
    with tempfile.TemporaryDirectory(prefix="dumpfilter-edge-") as name:
        temporary = Path(name)
        launcher = Launcher(temporary)
        try:
            with Servers(options.family, temporary / "servers", ports) as servers:
                replicas = Replicas(servers, *_worker_options(options.family, options.workers))
                for _, group in groupby(chosen, key=lambda case: case.recording.name):
                    for case in group:
                        verdict = _judge(case, replicas, launcher, temporary / "chain", ports, options)
                        counts[verdict] += 1
        finally:
            launcher.close()
    for verdict, count in sorted(counts.items()):
        print(f"{verdict:32} {count:5}")
    sys.exit(bool(counts["different"] + counts["failed"]))


def _judge(
    case: Case,
    replicas: Replicas,
    launcher: Launcher,
    directory: Path,
    ports: object,
    options: argparse.Namespace,
) -> str:
    started = time.monotonic()
    chain = Chain(launcher, directory, case, ports, options.hops, options.own)
    end = set_end(case.recording)
    own = case.rules if options.own else kept_on_replica(case.rules)
    try:
        got = run(
            replicas.for_case(case),
            Upstream(chain.port, USER, PASSWORD, end),
            case,
            own,
            by_file=options.by_file,
        )
        recorded = recorded_end(case)
        found = differences(case, recorded, got)
        if options.hops == 1 and not got.sql_error[0]:
            places = (("read", got.read), ("executed", got.executed))
            found += [
                f"{name} position: expected {end}, got {place}" for name, place in places if place != end
            ]
        verdict = "different" if found else "equal"
        if found and recorded.sql_error[0] == FILTERED_XA and not got.sql_error[0]:
            # The recorded replica could not end an XA transaction that its own filter had emptied.
            verdict, found = "beyond the XA stop", []
        if found and recorded.sql_error[0] and all(line.startswith("GTIDs") for line in found):
            # The recorder may have read the GTID set before the thread stopped.
            verdict, found = "equal but for the stop's GTIDs", []
    except (pymysql.Error, StartFailed, AssertionError) as error:
        verdict, found = "failed", [f"{type(error).__name__}: {error}"]
    if found:
        print(f"{case}: {verdict} ({time.monotonic() - started:.1f} s)")
        for line in found:
            print(f"    {line[:400]}")
        print(f"    {chain.log()[-1500:]}")
        sys.stdout.flush()
    chain.close()
    return verdict


if __name__ == "__main__":
    # The servers must end with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()

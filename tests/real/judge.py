"""``python -m tests.real.judge mariadb|mysql``: ask real replicas about every recorded case, and count the answers.

For each case three replicas take the recording to its end, one after the other.

- *source*: the replica filters for itself, at a real server that has the recording's binlogs.
- *both*: the replica filters for itself, and dumpfilter filters for it.
- *master*: dumpfilter alone filters. The replica only renames databases, which no master can do for it.

The first must end as the recorded replica did, and the others as the first. MySQL needs ``DUMPFILTER_MYSQL_ROOT``
(tests/real/server.py).
"""

from __future__ import annotations

import argparse
import collections
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import pymysql

from dumpfilter.testbed.errors import StartFailed
from tests.oracle.recordings import Recording
from tests.real.behind import PASSWORD, Dumpfilter, users
from tests.real.judging import (
    FILTERED_XA,
    Case,
    Ended,
    Replicas,
    Upstream,
    cases,
    differences,
    kept_on_replica,
    real_source,
    recorded_end,
    run,
    set_end,
)
from tests.real.server import (
    REPLICATION_PASSWORD,
    REPLICATION_USER,
    RealServer,
    Servers,
    ports_from,
)
from tests.slave.processes import Launcher


@dataclass
class Verdicts:
    """The answers so far."""

    counts: collections.Counter[tuple[str, str]] = field(default_factory=collections.Counter)
    lines: list[dict[str, object]] = field(default_factory=list)

    def add(self, case: Case, way: str, verdict: str, found: list[str], seconds: float) -> None:
        """Note the answer of one replica, and print it."""
        self.counts[way, verdict] += 1
        self.lines.append({"case": str(case), "way": way, "verdict": verdict, "differences": found})
        if verdict != "equal":
            print(f"{case} {way}: {verdict} ({seconds:.1f} s)")
            for line in found:
                print(f"    {line[:400]}")
            sys.stdout.flush()


def judge(
    servers: Servers,
    launcher: Launcher,
    chosen: list[Case],
    *,
    ways: tuple[str, ...],
    replica_options: tuple[str, ...] = (),
    by_file: bool = False,
    ports: Callable[[], int],
) -> Verdicts:
    """Take each case through each way."""
    verdicts = Verdicts()
    replicas = Replicas(servers, *replica_options)
    for recording, group in groupby(chosen, key=lambda case: case.recording):
        asked = list(group)
        started = time.monotonic()
        source: RealServer | None = None
        try:
            source = real_source(servers, recording)
        except StartFailed as error:
            print(f"{recording.name}: no real server reads these binlogs: {str(error)[-300:]}")
        behind = _Behind(launcher, servers.directory / "behind", recording, asked, source, ports)
        if set(ways) != {"source"}:
            behind.start()
        print(f"{recording.name}: ready in {time.monotonic() - started:.1f} s", flush=True)
        for case in asked:
            _judge_case(verdicts, replicas, case, source, behind, ways, by_file=by_file)
        behind.close()
        if source is not None:
            source.kill()
            shutil.rmtree(source.directory)
    return verdicts


class _Behind:
    """A dumpfilter over a recording, with a user for each case."""

    def __init__(
        self,
        launcher: Launcher,
        directory: Path,
        recording: Recording,
        asked: list[Case],
        source: RealServer | None,
        ports: Callable[[], int],
    ) -> None:
        self.end = set_end(recording) if source is None else source.binlog_end()
        lower = max(case.lower_case_table_names for case in asked)
        self._process = Dumpfilter(launcher, directory, f"--lower-case-table-names={lower}", port=ports())
        self._names = {case.name: f"c{number}" for number, case in enumerate(asked)}
        self._process.configure(users({self._names[case.name]: case.rules for case in asked}))
        self._binlogs = recording.path / "bin.index" if source is None else source.data / "bin.index"

    def start(self) -> None:
        """Start the process."""
        self._process.start(self._binlogs)

    def upstream(self, case: Case) -> Upstream:
        """Return the port with the user of a case."""
        return Upstream(self._process.port, self._names[case.name], PASSWORD, self.end)

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()


def _judge_case(
    verdicts: Verdicts,
    replicas: Replicas,
    case: Case,
    source: RealServer | None,
    behind: _Behind,
    ways: tuple[str, ...],
    *,
    by_file: bool,
) -> None:
    recorded = recorded_end(case)
    want = recorded
    for way in ways:
        started = time.monotonic()
        if way == "source":
            if source is None:
                continue
            upstream = Upstream(source.port, REPLICATION_USER, REPLICATION_PASSWORD, source.binlog_end())
        else:
            upstream = behind.upstream(case)
        own = kept_on_replica(case.rules) if way == "master" else case.rules
        replica = replicas.for_case(case)
        try:
            got = run(replica, upstream, case, own, by_file=by_file)
        except (pymysql.Error, StartFailed, AssertionError) as error:
            verdicts.add(
                case, way, "failed", [f"{type(error).__name__}: {error}"], time.monotonic() - started
            )
            if way == "source":
                want = None
            continue
        if want is None:
            want = recorded
        verdict, found = _verdict(case, way, recorded, want, got, replicas.version)
        if way == "source":
            want = got
        verdicts.add(case, way, verdict, found, time.monotonic() - started)


def _verdict(
    case: Case, way: str, recorded: Ended, want: Ended, got: Ended, server_version: tuple[int, ...]
) -> tuple[str, list[str]]:
    """Compare a replica's end with the expected one, and name the kind of answer."""
    found = differences(case, want, got)
    if not found:
        return "equal", []
    if way == "source" and server_version[:2] != case.recording.version:
        return "another version", found
    if way != "source" and differences(case, recorded, want) and not differences(case, recorded, got):
        return "as recorded", found
    if want.sql_error[0] == FILTERED_XA and not got.sql_error[0]:
        return "beyond the XA stop", found
    return "different", found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.real.judge", description="Ask real replicas about every recorded case."
    )
    parser.add_argument("family", choices=("mariadb", "mysql"))
    parser.add_argument("--only", action="append", default=[], help="a part of RECORDING/CASE; repeatable")
    parser.add_argument("--ways", default="source,both,master", help="default: source,both,master")
    parser.add_argument("--workers", type=int, default=None, help="the replicas' applier threads")
    parser.add_argument(
        "--by-file", action="store_true", help="replicate by file and position instead of GTID"
    )
    parser.add_argument("--first-port", type=int, default=0, help="the first of a hundred ports to use")
    parser.add_argument("--report", type=Path, help="write each answer to this JSON file")
    return parser.parse_args()


def _worker_options(family: str, workers: int | None) -> tuple[str, ...]:
    if workers is None:
        return ()
    if family == "mysql":
        return (f"--replica-parallel-workers={workers}",)
    return (f"--slave-parallel-threads={workers}", "--slave-parallel-mode=optimistic")


def _chosen(family: str, only: list[str]) -> Iterator[Case]:
    for case in cases(family):
        if not only or any(part in str(case) for part in only):
            yield case


def main() -> None:
    """Run the judge and print the counts. The exit status is 1 when a replica ended differently."""
    options = _options()
    ports = ports_from(options.first_port)
    with tempfile.TemporaryDirectory(prefix="dumpfilter-judge-") as name:
        temporary = Path(name)
        launcher = Launcher(temporary)
        started = time.monotonic()
        try:
            with Servers(options.family, temporary / "servers", ports) as servers:
                verdicts = judge(
                    servers,
                    launcher,
                    list(_chosen(options.family, options.only)),
                    ways=tuple(options.ways.split(",")),
                    replica_options=_worker_options(options.family, options.workers),
                    by_file=options.by_file,
                    ports=ports,
                )
        finally:
            launcher.close()
    if options.report:
        options.report.write_text(json.dumps(verdicts.lines, indent=1) + "\n")
    print(f"{time.monotonic() - started:.0f} s")
    for (way, verdict), count in sorted(verdicts.counts.items()):
        print(f"{way:8} {verdict:20} {count:5}")
    sys.exit(any(verdict in ("different", "failed") for _, verdict in verdicts.counts))


if __name__ == "__main__":
    # The servers must end with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()

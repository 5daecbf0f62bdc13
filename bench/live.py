"""Live commits: what dumpfilter adds to a transaction between a real source and three real replicas, over TLS.

The replicas are in turns at the source and behind dumpfilter, each with a filter of its own. A loader commits at a
steady rate. Beats, which are transactions that every replica gets, measure the time from commit to applied.
Three slaves of dumpfilter over gRPC, and thirty programs that read as replicas with ten filters, follow the same load.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import quantiles

from bench._common import REPOSITORY, Child, Options, Report, child
from bench._live_reader import TIMED, UNTIMED
from bench._process import processor_seconds, thread_seconds
from bench._servers import PASSWORD, USER, RealServer, behind, in_families, running
from dumpfilter.testbed.servers import Family, SourceAddress
from tests.certificates import Authority

RATES = (200, 1000)
DATABASES = ("shop", "hr", "logs", "crm", "beats")
_BEATS = "replicate-wild-do-table=beats.%"
RULES = {
    "r1": ("replicate-wild-do-table=shop.%", _BEATS),
    "r2": ("replicate-wild-do-table=hr.%", _BEATS),
    "r3": ("replicate-wild-ignore-table=logs.%",),
}
"""The rules of the replica of each user, by user."""

MANY_RULES = {
    f"f{number}": (f"replicate-wild-do-table={one}.%", f"replicate-wild-do-table={other}.%")
    for number, (one, other) in enumerate(combinations(DATABASES, 2))
}
"""The rules of the users of thirty readers."""
READERS_OF_A_FILTER = 3
MANY_RATE = 200

_COLUMNS = "id BIGINT PRIMARY KEY AUTO_INCREMENT, a INT, body VARCHAR(800)"
_UNSYNCED = ("--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2")
_WARM_SECONDS = 3.0
_MEASURED_SECONDS = 12.0
_BEAT_SECONDS = 0.05
_SETTLE_SECONDS = 1.0
_LONGEST_WAIT = 60


@dataclass
class Cost:
    """The cost of a live load for one way of serving the replicas."""

    seconds: float = 0.0
    """The processor time of what serves the replicas, for each transaction, seconds."""
    applied: list[float] = field(default_factory=list)
    """The times from the commit of a beat until a replica had applied it, seconds."""
    committed: list[float] = field(default_factory=list)
    """The times at which the beats were committed (``time.monotonic``), seconds."""

    def add_arrivals(self, arrived: list[float]) -> None:
        """Add the times at which the beats arrived at one reader. Beats before the measured ones do not count."""
        pairs = zip(arrived[-len(self.committed) :], self.committed, strict=True)
        self.applied += [there - committed for there, committed in pairs]

    @property
    def median(self) -> float:
        return quantiles(self.applied, n=100)[49]

    @property
    def p99(self) -> float:
        return quantiles(self.applied, n=100)[98]


class Replicas:
    """Three running replicas, which can be attached to a port."""

    def __init__(self, servers: Sequence[RealServer]) -> None:
        self._servers = servers
        self._pool = ThreadPoolExecutor(len(servers))

    def attach(self, port: int, users: Sequence[str]) -> None:
        """Let each replica follow the server at ``port`` as one of the users."""
        for server, user in zip(self._servers, users, strict=True):
            server.channel().follow(SourceAddress("127.0.0.1", port, user, PASSWORD, tls=True))

    def detach(self) -> None:
        """Stop the replication of each replica."""
        for server in self._servers:
            server.channel().stop()

    def applied(self, gtids: str, committed: float) -> list[float]:
        """Return the time from ``committed`` until each replica has applied a GTID set, seconds."""

        def waited(server: RealServer) -> float:
            (row,) = server.rows(server.dialect.wait(gtids, _LONGEST_WAIT))
            if list(row.values()) != [0]:
                raise SystemExit(f"a replica did not apply {gtids}: {server.channel().status()}")
            return time.monotonic() - committed

        return list(self._pool.map(waited, self._servers))


def beat(source: RealServer) -> tuple[str, float]:
    """Commit a transaction that every replica gets. Return a GTID set that ends with it, and the time."""
    source.run("INSERT INTO beats.t () VALUES ()")
    committed = time.monotonic()
    gtids = "@@GLOBAL.gtid_executed" if source.family == "mysql" else "@@last_gtid"
    (row,) = source.rows(f"SELECT {gtids} AS gtids")
    return str(row["gtids"]).replace("\n", ""), committed


def dump_thread_seconds(source: RealServer) -> float:
    """Return the processor time of the source's dump threads, seconds."""
    if source.family == "mysql":
        where = "performance_schema.threads WHERE PROCESSLIST_COMMAND LIKE 'Binlog Dump%'"
        found = source.rows(f"SELECT THREAD_OS_ID AS id FROM {where}")
    else:
        found = source.rows(
            "SELECT TID AS id FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'"
        )
    assert source.pid is not None
    return sum(thread_seconds(source.pid, row["id"]) for row in found)


def commits(source: RealServer) -> int:
    """Return the number of transactions that the source has committed."""
    (row,) = source.rows("SHOW GLOBAL STATUS LIKE 'Com_commit'")
    return int(row["Value"])


@contextmanager
def load(source: RealServer, rate: int) -> Iterator[None]:
    """Commit transactions at ``rate`` a second while the block runs."""
    with child(["-m", "bench._live_load", str(source.port), str(rate)], quiet=False) as process:
        process.line()
        yield


def measure(source: RealServer, replicas: Replicas | None, spent: Callable[[], float], rate: int) -> Cost:
    """Return the cost of a live load, in the processor time that ``spent`` tells."""
    cost = Cost()
    with load(source, rate):
        time.sleep(_WARM_SECONDS)
        if replicas is not None:
            replicas.applied(
                *beat(source)
            )  # They have caught up with what was committed before they were attached.
        before, count, deadline = spent(), commits(source), time.monotonic() + _MEASURED_SECONDS
        while time.monotonic() < deadline:
            gtids, committed = beat(source)
            cost.committed.append(committed)
            if replicas is not None:
                cost.applied += replicas.applied(gtids, committed)
            time.sleep(_BEAT_SECONDS)
        cost.seconds = (spent() - before) / (commits(source) - count)
    return cost


@contextmanager
def readers(source: RealServer, port: int, users: Sequence[str], timed: str = UNTIMED) -> Iterator[Child]:
    """Let a program read commits as replicas of some users while the block runs. Yield its process."""
    gtids, _ = beat(source)
    arguments = ["-m", "bench._live_reader", source.family, str(port), gtids, timed, *users]
    with child(arguments, quiet=False) as process:
        process.line()
        yield process


def arrival(source: RealServer, port: int, users: Sequence[str], rate: int) -> Cost:
    """Return the times from the commit of a beat until it arrives at three programs that only read.

    Real replicas apply what they get. At a high rate they and the source use all processors of a small machine, and
    their own delay hides the delay of what serves them.
    """
    with readers(source, port, users, TIMED) as process:
        cost = measure(source, None, lambda: 0.0, rate)
        time.sleep(_SETTLE_SECONDS)
        lines = [line.split() for line in process.end()]
    for number in range(len(users)):
        cost.add_arrivals([float(at) for reader, at in lines if int(reader) == number])
    return cost


def busy_seconds() -> tuple[float, float]:
    """Return the time for which the machine's processors were busy since its start, and their time in all, seconds."""
    ticks = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    total = sum(ticks)
    return float(total - ticks[3] - ticks[4]), float(total)


def of_slaves(source: RealServer, port: int, pid: int, rate: int) -> Cost:
    """Return the cost of three slaves over gRPC, with the times from commit to relay log."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        processes = []
        for number, rules in enumerate(RULES.values(), 200):
            process = stack.enter_context(child(["-m", "bench._relay_slave"], quiet=False))
            place = {"address": f"127.0.0.1:{port}", "path": f"{directory}/{number}"}
            process.tell(json.dumps({**place, "rules": rules, "server_id": number, "follow": True}))
            processes.append(process)
        beat(source)
        for process in processes:
            process.line()
        cost = measure(source, None, lambda: processor_seconds(pid), rate)
        time.sleep(_SETTLE_SECONDS)
        for process in processes:
            cost.add_arrivals([float(line) for line in process.end()])
    return cost


def floor(rate: int) -> float:
    """Return the processor time for a transaction of a bare relay over TLS, seconds."""
    command = [sys.executable, "-m", "bench._live_floor", str(rate), str(_MEASURED_SECONDS), str(len(RULES))]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["seconds"])


@contextmanager
def servers(family: Family) -> Iterator[tuple[RealServer, Replicas]]:
    """Run a source and three replicas with filters of their own. All have the tables of the load."""
    with ExitStack() as stack:

        def started(server_id: int, *options: str) -> RealServer:
            return stack.enter_context(running(family, server_id, *_UNSYNCED, *options))

        own = ["--performance-schema=ON"]
        if family == "mariadb":
            secrets = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            issued = Authority(secrets / "ca").issue("localhost")
            # MySQL's default. MariaDB would log the statements, which name no table for the beats.
            own = ["--binlog-format=ROW", f"--ssl-cert={issued.certificate}", f"--ssl-key={issued.key}"]
        source = started(1, *own)
        source.run(
            f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'",
            f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{USER}'@'%'",
            "CREATE USER loader@'%' IDENTIFIED BY 'loader'",
            "GRANT ALL ON *.* TO loader@'%'",
            *(f"CREATE DATABASE {name}" for name in DATABASES),
            *(f"CREATE TABLE {name}.t ({_COLUMNS})" for name in DATABASES),
        )
        replicas = [
            started(number, *(f"--{rule}" for rule in rules))
            for number, rules in enumerate(RULES.values(), 101)
        ]
        yield source, Replicas(replicas)


@contextmanager
def following(source: RealServer) -> Iterator[tuple[int, int, int]]:
    """Run ``dumpfilter master`` that follows the source. Yield its replication port, process id and gRPC port."""
    with tempfile.TemporaryDirectory() as directory:
        secret = Path(directory, "password")
        secret.touch(0o600)
        secret.write_text(PASSWORD)
        address = f"mysql://{USER}@127.0.0.1:{source.port}/?password-file={secret}"
        with behind(address, RULES | MANY_RULES, "--store", f"{directory}/store") as found:
            yield found


def report_of(family: Family) -> Report:
    """Measure a family's servers, and return the report."""
    report = Report(f"live, {family}", "a live commit on its way to three real replicas, over TLS")
    with servers(family) as (source, replicas), following(source) as (port, pid, grpc_port):
        for rate in RATES:
            bare = floor(rate)
            replicas.attach(source.port, [USER] * len(RULES))
            direct = measure(source, replicas, lambda: dump_thread_seconds(source), rate)
            replicas.detach()
            follows = measure(source, None, lambda: processor_seconds(pid), rate)
            replicas.attach(port, list(RULES))
            busy, whole = busy_seconds()
            ours = measure(source, replicas, lambda: processor_seconds(pid), rate)
            busy, whole = (
                after - before for after, before in zip(busy_seconds(), (busy, whole), strict=True)
            )
            replicas.detach()
            read = [
                arrival(source, source.port, [USER] * len(RULES), rate),
                arrival(source, port, list(RULES), rate),
            ]
            for name, cost in zip(("read at the source", "read behind dumpfilter"), read, strict=True):
                report.row(
                    f"{rate}/s, {name}",
                    cost.median,
                    f"commit to arrival {cost.median * 1e3:.1f} ms (p99 {cost.p99 * 1e3:.1f})",
                )
            report.row(f"{rate}/s, processors busy", busy / whole, f"{100 * busy / whole:.0f} %")
            for name, cost in (("at the source", direct), ("behind dumpfilter", ours)):
                report.row(
                    f"{rate}/s, {name}",
                    cost.seconds,
                    f"{cost.seconds * 1e6:7.0f} us of processor time a transaction, commit to applied "
                    f"{cost.median * 1e3:.1f} ms (p99 {cost.p99 * 1e3:.1f})",
                )
            report.row(f"{rate}/s, no replica", follows.seconds, f"{follows.seconds * 1e6:7.0f} us")
            report.row(f"{rate}/s, bare relay", bare, f"{bare * 1e6:7.0f} us")
            report.target(f"{rate}/s: dumpfilter / bare relay", ours.seconds / bare, 2.5, at_most=True)
            report.target(f"{rate}/s: no replica, us", follows.seconds * 1e6, 120, at_most=True)
            direct_read, our_read = read
            added = (our_read.median - direct_read.median) * 1e3
            report.target(f"{rate}/s: added to the median, ms", added, 2, at_most=True)
            added = (our_read.p99 - direct_read.p99) * 1e3
            report.target(f"{rate}/s: added to p99, ms", added, 10, at_most=True)
            slaves = of_slaves(source, grpc_port, pid, rate)
            report.row(
                f"{rate}/s, three slaves over gRPC",
                slaves.seconds,
                f"{slaves.seconds * 1e6:7.0f} us, commit to relay log {slaves.median * 1e3:.1f} ms "
                f"(p99 {slaves.p99 * 1e3:.1f})",
            )
            report.target(f"{rate}/s: commit to relay log, ms", slaves.median * 1e3, 3, at_most=True)
            if rate == MANY_RATE:
                with readers(source, port, [*MANY_RULES] * READERS_OF_A_FILTER):
                    many = measure(source, None, lambda: processor_seconds(pid), rate)
                report.row(f"{rate}/s, thirty readers", many.seconds, f"{many.seconds * 1e6:7.0f} us")
                report.target(f"{rate}/s: thirty / three", many.seconds / ours.seconds, 3, at_most=True)
    report.note("at the source: the processor time of the source's dump threads alone")
    return report


def run(options: Options) -> bool:
    return in_families(options, "live", report_of)

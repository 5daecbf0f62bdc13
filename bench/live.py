"""Live commits: what dumpfilter adds to a transaction between a real source and three real replicas, over TLS.

The replicas are in turns at the source and behind dumpfilter, each with a filter of its own. A loader commits at a
steady rate. Beats, which are transactions that every replica gets, measure the time from commit to applied.
Three slaves of dumpfilter over gRPC, and thirty programs that read as replicas with ten filters, follow the same load.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import quantiles

from bench._child import Child
from bench._common import Options, Report
from bench._live import committing, reading
from bench._process import processor_seconds, thread_seconds
from bench._raw import relay_seconds
from bench._relay_slave import following as following_slave
from bench._servers import PASSWORD, USER, RealServer, behind, in_families, running
from dumpfilter.base.waiting import until
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

    def add_arrivals(self, arrived: Iterable[list[float]]) -> None:
        """Add the times at which the beats arrived at each reader. Beats before the measured ones do not count."""
        for each in arrived:
            pairs = zip(each[-len(self.committed) :], self.committed, strict=True)
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


def measure(source: RealServer, replicas: Replicas | None, spent: Callable[[], float], rate: int) -> Cost:
    """Return the cost of a live load, in the processor time that ``spent`` tells."""
    cost = Cost()
    with Child(committing, source.port, rate):
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


def reader(source: RealServer, port: int, users: Sequence[str]) -> Child:
    """Return a process that reads commits as replicas of some users."""
    gtids, _ = beat(source)
    process = Child(reading, source.family, port, gtids, users)
    process.answer()
    return process


def arrival(source: RealServer, port: int, users: Sequence[str], rate: int) -> Cost:
    """Return the times from the commit of a beat until it arrives at three programs that only read.

    Real replicas apply what they get. At a high rate they and the source use all processors of a small machine, and
    their own delay hides the delay of what serves them.
    """
    with reader(source, port, users) as process:
        cost = measure(source, None, lambda: 0.0, rate)
        time.sleep(_SETTLE_SECONDS)
        cost.add_arrivals(process.ask())
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
        slaves = [
            stack.enter_context(
                Child(following_slave, f"127.0.0.1:{port}", f"{directory}/{number}", rules, number)
            )
            for number, rules in enumerate(RULES.values(), 200)
        ]
        beat(source)
        until(
            lambda: all(slave.ask() for slave in slaves),
            time.monotonic() + _LONGEST_WAIT,
            lambda: SystemExit("a slave received no commit"),
        )
        cost = measure(source, None, lambda: processor_seconds(pid), rate)
        time.sleep(_SETTLE_SECONDS)
        cost.add_arrivals(slave.ask() for slave in slaves)
    return cost


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
    own, theirs = list(RULES), [USER] * len(RULES)
    with servers(family) as (source, replicas), following(source) as (port, pid, grpc_port):

        def spent() -> float:
            return processor_seconds(pid)

        for rate in RATES:

            def row(name: str, cost: Cost, how: str = "", *, rate: int = rate, is_cost: bool = True) -> None:
                used = f"{cost.seconds * 1e6:7.0f} us of processor time a transaction" if is_cost else ""
                took = f"{how} {cost.median * 1e3:.1f} ms (p99 {cost.p99 * 1e3:.1f})" if how else ""
                text = ", ".join(filter(None, (used, took)))
                report.row(f"{rate}/s, {name}", cost.seconds if is_cost else cost.median, text)

            bare = relay_seconds(rate, _MEASURED_SECONDS, len(RULES))
            replicas.attach(source.port, theirs)
            direct = measure(source, replicas, lambda: dump_thread_seconds(source), rate)
            replicas.detach()
            follows = measure(source, None, spent, rate)
            replicas.attach(port, own)
            begin = busy_seconds()
            ours = measure(source, replicas, spent, rate)
            busy, whole = (after - before for after, before in zip(busy_seconds(), begin, strict=True))
            replicas.detach()
            direct_read = arrival(source, source.port, theirs, rate)
            our_read = arrival(source, port, own, rate)
            row("read at the source", direct_read, "commit to arrival", is_cost=False)
            row("read behind dumpfilter", our_read, "commit to arrival", is_cost=False)
            report.row(f"{rate}/s, processors busy", busy / whole, "{:.0%}")
            row("at the source", direct, "commit to applied")
            row("behind dumpfilter", ours, "commit to applied")
            row("no replica", follows)
            row("bare relay", Cost(bare))
            report.limit(f"{rate}/s: dumpfilter / bare relay", ours.seconds / bare, 2.5)
            report.limit(f"{rate}/s: no replica, us", follows.seconds * 1e6, 120)
            added = (our_read.median - direct_read.median) * 1e3
            report.limit(f"{rate}/s: added to the median, ms", added, 2)
            report.limit(f"{rate}/s: added to p99, ms", (our_read.p99 - direct_read.p99) * 1e3, 10)
            slaves = of_slaves(source, grpc_port, pid, rate)
            row("three slaves over gRPC", slaves, "commit to relay log")
            report.limit(f"{rate}/s: commit to relay log, ms", slaves.median * 1e3, 3)
            if rate == MANY_RATE:
                with reader(source, port, [*MANY_RULES] * READERS_OF_A_FILTER):
                    many = measure(source, None, spent, rate)
                row("thirty readers", many)
                report.limit(f"{rate}/s: thirty / three", many.seconds / ours.seconds, 3)
    report.note("at the source: the processor time of the source's dump threads alone")
    return report


def run(options: Options) -> bool:
    return in_families(options, "live", report_of)

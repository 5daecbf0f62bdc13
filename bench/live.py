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
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import psutil

from bench._common import Options, Report, percentiles
from bench._live import committing, reading
from bench._live import following as following_slave
from bench._processes import PASSWORD, Child, Master, master, processor_seconds, thread_seconds
from bench._raw import relay_seconds
from bench._servers import running
from dumpfilter.base.waiting import until
from dumpfilter.binlog.format import Family
from dumpfilter.testbed.servers.server import Server
from dumpfilter.testbed.servers.sql import Account, SourceAddress, channel_states
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
_LAST_GTIDS: dict[Family, str] = {"mysql": "@@GLOBAL.gtid_executed", "mariadb": "@@last_gtid"}
_DUMP_THREADS: dict[Family, str] = {
    "mysql": "THREAD_OS_ID FROM performance_schema.threads WHERE PROCESSLIST_COMMAND",
    "mariadb": "TID FROM information_schema.PROCESSLIST WHERE COMMAND",
}
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

    def ms(self, percentile: int) -> float:
        """Return a percentile of the times from commit to applied, milliseconds."""
        return percentiles(self.applied)[percentile] * 1e3


class Session:
    """One connection to a server. A new one for each statement would lengthen the measured times."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._connection = server.connect()

    def run(self, statement: str) -> Any:
        """Run a statement, and return the only value of its result; None without rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            (value,) = cursor.fetchone() or (None,)
            return value


class Replicas:
    """Three running replicas, which can be attached to a port."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._sessions = [Session(server) for server in servers]
        self._pool = ThreadPoolExecutor(len(servers))

    @contextmanager
    def attached(self, port: int, accounts: Sequence[Account]) -> Iterator[None]:
        """Let each replica follow the server at ``port`` with one of the accounts."""
        servers = [session.server for session in self._sessions]
        for server, account in zip(servers, accounts, strict=True):
            server.set_source(SourceAddress("127.0.0.1", port, account.user, account.password, tls=True))
            server.control("START")
        yield
        for server in servers:
            server.control("STOP")

    def applied(self, gtids: str, committed: float) -> list[float]:
        """Return the time from ``committed`` until each replica has applied a GTID set, seconds."""

        def waited(session: Session) -> float:
            server = session.server
            if session.run(server.dialect.wait(gtids, _LONGEST_WAIT)) != 0:
                raise SystemExit(f"a replica did not apply {gtids}: {channel_states(server)}")
            return time.monotonic() - committed

        return list(self._pool.map(waited, self._sessions))


def beat(source: Session) -> tuple[str, float]:
    """Commit a transaction that every replica gets. Return a GTID set that ends with it, and the time."""
    source.run("INSERT INTO beats.t () VALUES ()")
    committed = time.monotonic()
    return source.run(f"SELECT {_LAST_GTIDS[source.server.family]}").replace("\n", ""), committed


def dump_thread_seconds(source: Session) -> float:
    """Return the processor time of the source's dump threads, seconds."""
    server = source.server
    found = server.sql(f"SELECT {_DUMP_THREADS[server.family]} LIKE 'Binlog Dump%'")
    assert server.process is not None
    used = thread_seconds(server.process.pid)
    return sum(used.get(thread, 0.0) for (thread,) in found)


def measure(source: Session, replicas: Replicas | None, spent: Callable[[], float], rate: int) -> Cost:
    """Return the cost of commits at a steady rate, in the processor time that ``spent`` tells."""
    cost = Cost()
    with Child(committing, source.server.port, source.server.account, rate) as load:
        load.ask()
        time.sleep(_WARM_SECONDS)
        if replicas is not None:
            # They have caught up with what was committed before they were attached.
            replicas.applied(*beat(source))
        before, count, deadline = spent(), load.ask(), time.monotonic() + _MEASURED_SECONDS
        while time.monotonic() < deadline:
            gtids, committed = beat(source)
            cost.committed.append(committed)
            if replicas is not None:
                cost.applied += replicas.applied(gtids, committed)
            time.sleep(_BEAT_SECONDS)
        cost.seconds = (spent() - before) / (load.ask() - count + len(cost.committed))
    return cost


def reader(source: Session, port: int, accounts: Sequence[Account]) -> Child:
    """Return a process that reads commits as replicas with some accounts."""
    gtids, _ = beat(source)
    process = Child(reading, source.server.family, port, gtids, accounts)
    process.answer()
    return process


def read_by(source: Session, readers: Sequence[Child], rate: int, spent: Callable[[], float] = float) -> Cost:
    """Return the cost of a live load, with the times from the commit of a beat until it arrives at each reader.

    Real replicas apply what they get. At a high rate they and the source use all processors of a small machine, and
    their own delay hides the delay of what serves them. Readers do not apply.

    Without ``spent`` the processor time is 0.
    """
    beat(source)
    until(
        lambda: all(all(reader.ask()) for reader in readers),
        time.monotonic() + _LONGEST_WAIT,
        lambda: SystemExit("a reader received no commit"),
    )
    cost = measure(source, None, spent, rate)
    time.sleep(_SETTLE_SECONDS)
    for arrived in (each for reader in readers for each in reader.ask()):
        # The beats before the measured ones do not count.
        beats = zip(arrived[-len(cost.committed) :], cost.committed, strict=True)
        cost.applied += [there - committed for there, committed in beats]
    return cost


@contextmanager
def slaves(address: str) -> Iterator[list[Child]]:
    """Run three slaves over gRPC, each of which answers with the times at which beats were in its relay log."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        yield [
            stack.enter_context(Child(following_slave, address, Path(directory, user), rules, number))
            for number, (user, rules) in enumerate(RULES.items(), 200)
        ]


@contextmanager
def servers(family: Family) -> Iterator[tuple[Session, Replicas, Master]]:
    """Run a source with the tables of the load, three replicas with filters of their own, and a master."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        directory, own = Path(name), ["--performance-schema=ON"]
        if family == "mariadb":
            issued = Authority(directory / "ca").issue("localhost")
            # MySQL's default. MariaDB would log the statements, which name no table for the beats.
            own = ["--binlog-format=ROW", f"--ssl-cert={issued.certificate}", f"--ssl-key={issued.key}"]
        source = stack.enter_context(running(family, 1, *own))
        for database in DATABASES:
            source.sql(f"CREATE DATABASE {database}", f"CREATE TABLE {database}.t ({_COLUMNS})")
        replicas = [
            stack.enter_context(running(family, number, *(f"--{rule}" for rule in rules)))
            for number, rules in enumerate(RULES.values(), 101)
        ]
        where = f"{source.replication.user}@{source.host}:{source.port}"
        address = f"mysql://{where}/?password-file={source.replication_password_file}"
        store, users = str(directory / "store"), {**RULES, **MANY_RULES}
        ours = stack.enter_context(master(address, "--store", store, users=users))
        yield Session(source), Replicas(replicas), ours


def run(report: Report, options: Options) -> None:
    """Measure the servers of the family that the options name."""
    assert options.family is not None
    with servers(options.family) as (source, replicas, ours):
        for rate in RATES:
            _at(rate, report, source, replicas, ours)
    report.note("at the source: the processor time of the source's dump threads alone")


def _accounts(users: Iterable[str]) -> list[Account]:
    return [Account(user, PASSWORD) for user in users]


def _at(rate: int, report: Report, source: Session, replicas: Replicas, master: Master) -> None:
    """Report the costs at a rate of commits."""
    port, spent = source.server.port, partial(processor_seconds, master.pid)
    own, theirs = _accounts(RULES), [source.server.replication] * len(RULES)

    def row(name: str, cost: Cost, how: str = "") -> None:
        used = f"{cost.seconds * 1e6:7.0f} us of processor time a transaction" if cost.seconds else ""
        took = f"{how} {cost.ms(50):.1f} ms (p99 {cost.ms(99):.1f})" if how else ""
        report.row(
            f"{rate}/s, {name}", cost.seconds or cost.ms(50) / 1e3, ", ".join(filter(None, (used, took)))
        )

    def limit(what: str, value: float, wanted: float) -> None:
        report.limit(f"{rate}/s: {what}", value, wanted)

    with replicas.attached(port, theirs), ThreadPoolExecutor(1) as pool:
        # The relay runs beside the same servers. On an idle machine, whose caches it has for itself, it takes half.
        relay = pool.submit(relay_seconds, rate, _MEASURED_SECONDS, len(RULES))
        direct = measure(source, replicas, lambda: dump_thread_seconds(source), rate)
        bare = relay.result()
    follows = measure(source, None, spent, rate)
    with replicas.attached(master.replica_port, own):
        psutil.cpu_percent()
        ours = measure(source, replicas, spent, rate)
        busy = psutil.cpu_percent() / 100
    with reader(source, port, theirs) as process:
        direct_read = read_by(source, [process], rate)
    with reader(source, master.replica_port, own) as process:
        our_read = read_by(source, [process], rate)
    row("read at the source", direct_read, "commit to arrival")
    row("read behind dumpfilter", our_read, "commit to arrival")
    report.row(f"{rate}/s, processors busy", busy, "{:.0%}")
    row("at the source", direct, "commit to applied")
    row("behind dumpfilter", ours, "commit to applied")
    row("no replica", follows)
    row("bare relay", Cost(bare))
    limit("dumpfilter / bare relay", ours.seconds / bare, 2.5)
    limit("no replica, us", follows.seconds * 1e6, 120)
    limit("added to the median, ms", our_read.ms(50) - direct_read.ms(50), 2)
    limit("added to p99, ms", our_read.ms(99) - direct_read.ms(99), 10)
    with slaves(master.address) as started:
        of_slaves = read_by(source, started, rate, spent)
    row("three slaves over gRPC", of_slaves, "commit to relay log")
    limit("commit to relay log, ms", of_slaves.ms(50), 3)
    if rate == MANY_RATE:
        with reader(source, master.replica_port, _accounts(MANY_RULES) * READERS_OF_A_FILTER):
            many = measure(source, None, spent, rate)
        row("thirty readers", many)
        limit("thirty / three", many.seconds / ours.seconds, 3)

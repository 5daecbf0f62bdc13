"""``python -m tests.real.live mariadb|mysql``: compare replicas behind dumpfilter with replicas at the source.

Three filters have two replicas each, twins: one at the real source that filters for itself, and one behind dumpfilter.
A random workload runs in rounds. Within a round things break: servers and dumpfilter are killed, connections are cut or
slow, binlogs are flushed and purged, replicas stop and start. After each round the workload pauses, all replicas reach
the source's end, and twins must be equal in tables, definitions, GTID set and positions. Between two rounds a filter
changes on both sides. ``--seed`` repeats the choices of a run, though not the servers' timing.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pymysql

from dumpfilter.binlog.format import Family
from dumpfilter.testbed.errors import StartFailed
from dumpfilter.topology.links.client import LinkProcess, OpenLink
from dumpfilter.topology.links.shape import PLAIN, LinkShape
from tests.real.behind import PASSWORD, Dumpfilter, ReplicaUser
from tests.real.server import (
    REPLICATION_PASSWORD,
    REPLICATION_USER,
    RealServer,
    ReplicaStatus,
    Servers,
    ports_from,
    wait_for,
)
from tests.real.workload import DEFINITIONS, FILTERS, NARROWER, XA, Writer, prepare, prepare_replica
from tests.slave.processes import Launcher

CATCH_UP = 300.0
"""The longest wait for a replica at the end of a round, seconds."""

SLOW = LinkShape(1_600_000)
"""The shape of a slow connection: 200,000 bytes a second."""
CUT_SECONDS = 0.01
"""The time for which a link is down that was cut in the middle. The replica connects again at once."""

PARTS = (
    "stop",
    "flush",
    "purge",
    "kill source",
    "kill dumpfilter",
    "kill replica",
    "cut",
    "cut in the middle",
    "slow",
    "fail over",
)
"""Events that a run can have."""


class Different(Exception):
    """Twins that differ, or a replica that stopped."""


@dataclass
class Replica:
    """A replica with a link to its upstream."""

    name: str
    server: RealServer
    link: OpenLink
    port: int
    """The link's port."""
    behind_user: str
    is_behind: bool
    """True while the replica is behind dumpfilter."""
    is_slow: bool = False

    def follow(self, port: int) -> None:
        """Connect the replica by GTID, from the GTIDs on that it has. ``port`` is dumpfilter's or the source's."""
        self.link.retarget(port)
        if self.is_behind:
            self.server.follow(self.port, self.behind_user, PASSWORD)
        else:
            self.server.follow(self.port)
        self.server.control("START")


@dataclass
class Twins:
    """A filter's replica that begins at the source, and its replica that begins behind dumpfilter."""

    rules: tuple[str, ...]
    narrowed: bool
    at_source: Replica
    behind: Replica
    own_filter: bool
    """True when the replica behind dumpfilter filters for itself, too."""

    @property
    def filter(self) -> tuple[str, ...]:
        """The filter now."""
        return (*self.rules, NARROWER) if self.narrowed else self.rules

    @property
    def both(self) -> tuple[Replica, Replica]:
        """The two replicas."""
        return self.at_source, self.behind


@dataclass
class Plan:
    """The choices of a run."""

    family: Family
    seconds: float
    seed: int
    filters: int = 3
    writers: int = 3
    workers: int = 4
    round: float = 20.0
    pause: float = 2.0
    """The longest time between two events, seconds."""
    parts: Sequence[str] = PARTS
    remote: bool = False
    """Whether dumpfilter takes its binlog from the server over the network (``mysql://`` with ``--store``)."""
    without_dumpfilter: bool = False
    """Whether all replicas are at the source, which proves the workload and the comparison."""
    large: bool = True
    left_out: Sequence[str] = ()
    """Operations that writers do not run."""
    source_options: tuple[str, ...] = ()
    report: Callable[[str], None] = print
    happened: Counter[str] = field(default_factory=Counter)


class Live:
    """A run of a plan."""

    def __init__(
        self, plan: Plan, servers: Servers, launcher: Launcher, directory: Path, ports: Callable[[], int]
    ) -> None:
        self.plan = plan
        self._random = random.Random(plan.seed)
        self._servers = servers
        self._directory = directory
        self._links = LinkProcess()
        self.source = servers.new("source", 11, *_source_options(plan))
        self.source.start()
        self.dumpfilter = Dumpfilter(launcher, directory / "behind", port=ports())
        self.twins: list[Twins] = []
        chosen = self._random.sample(FILTERS, plan.filters)
        for number, rules in enumerate(chosen):
            replicas = []
            for place in ("source", "behind"):
                server = servers.new(
                    f"{place}{number}", 100 * len(replicas) + 101 + number, *_replica_options(plan)
                )
                server.start()
                prepare_replica(server, plan.writers)
                is_behind = place == "behind" and not plan.without_dumpfilter
                name = f"{place}{number}"
                port = self._links.open(name, self.source.port)
                replicas.append(Replica(name, server, self._links[name], port, f"u{number}", is_behind))
            self.twins.append(
                Twins(
                    rules,
                    False,
                    replicas[0],
                    replicas[1],
                    own_filter=plan.without_dumpfilter or number % 2 == 0,
                )
            )
        self._configure()
        self._start_dumpfilter()
        for twins in self.twins:
            for replica in twins.both:
                self._connect(twins, replica)
        prepare(self.source, plan.writers)
        self.writers = [
            Writer(
                self.source,
                number,
                plan.seed,
                large=plan.large,
                left_out=plan.left_out,
                xa_everywhere="fail over" not in plan.parts,
            )
            for number in range(plan.writers)
        ]

    @property
    def replicas(self) -> list[Replica]:
        """All replicas."""
        return [replica for twins in self.twins for replica in twins.both]

    # -- dumpfilter

    def _configure(self) -> None:
        self.dumpfilter.configure(ReplicaUser(twins.behind.behind_user, twins.filter) for twins in self.twins)

    def _start_dumpfilter(self) -> None:
        if self.plan.without_dumpfilter:
            return
        if not self.plan.remote:
            self.dumpfilter.start(self.source.data / "bin.index")
            return
        password = self._directory / "password"
        password.touch(mode=0o600)
        password.write_text(f"{REPLICATION_PASSWORD}\n")
        address = f"mysql://{REPLICATION_USER}@127.0.0.1:{self.source.port}/?password-file={password}"
        self.dumpfilter.start(address, "--store", str(self._directory / "store"))

    def _set_filter(self, twins: Twins, replica: Replica) -> None:
        own = not replica.is_behind or twins.own_filter
        replica.server.set_filter(twins.filter if own else ())

    def _connect(self, twins: Twins, replica: Replica) -> None:
        self._set_filter(twins, replica)
        replica.follow(self.dumpfilter.port if replica.is_behind else self.source.port)

    # -- rounds

    def run(self) -> None:
        """Run rounds until the time is over. Raises Different."""
        end = time.monotonic() + self.plan.seconds
        number = 0
        while True:
            started = time.monotonic()
            for writer in self.writers:
                writer.resume()
            while time.monotonic() < min(end, started + self.plan.round):
                time.sleep(self._random.uniform(0, self.plan.pause))
                self._happen(self._random.choice(self.plan.parts))
            for writer in self.writers:
                writer.pause()
            waited = time.monotonic()
            self.compare()
            number += 1
            done: Counter[str] = sum((writer.done for writer in self.writers), Counter())
            self.plan.report(
                f"round {number}: {done.total()} operations, source at {self.source.binlog_end()}, equal after "
                f"{time.monotonic() - waited:.1f} s; {dict(self.plan.happened)}"
            )
            if time.monotonic() >= end:
                return
            self._change_a_filter()

    def close(self) -> None:
        """End the writers and the links."""
        for writer in self.writers:
            writer.close()
        self._links.close()

    # -- events

    def _happen(self, name: str) -> None:
        replica = self._random.choice(self.replicas)
        getattr(self, f"_{name.replace(' ', '_')}")(replica)
        self.plan.happened[name] += 1

    def _stop(self, replica: Replica) -> None:
        thread = self._random.choice(("", "SQL_THREAD", "IO_THREAD"))
        replica.server.control("STOP", thread=thread)
        time.sleep(self._random.random())
        replica.server.control("START")

    def _flush(self, _: Replica) -> None:
        self.source.sql("FLUSH BINARY LOGS")

    def _purge(self, _: Replica) -> None:
        """Purge the binlogs that no replica reads any more."""
        needed = []
        if self.plan.remote and not any(replica.is_behind for replica in self.replicas):
            # Nobody would know what dumpfilter has not received yet.
            return
        for replica in self.replicas:
            status = replica.server.status()
            if status is None or not status.executed.file:
                return
            needed.append(status.executed.file)
        self.source.sql(f"PURGE BINARY LOGS TO '{min(needed)}'")

    def _kill_source(self, _: Replica) -> None:
        with self._without(*DEFINITIONS, XA):
            self.source.kill()
            time.sleep(self._random.random())
            self.source.start()

    def _kill_dumpfilter(self, _: Replica) -> None:
        if self.plan.without_dumpfilter:
            return
        self.dumpfilter.kill()
        time.sleep(self._random.random())
        self._start_dumpfilter()

    def _kill_replica(self, replica: Replica) -> None:
        with self._without(*DEFINITIONS, XA):
            if self.plan.family == "mariadb":
                self._wait_for(replica, self.source.binlog_gtids())
            replica.server.kill()
        replica.server.start()
        # A restart forgets filters that statements have set.
        self._set_filter(self._twins_of(replica), replica)
        replica.server.control("START")

    @contextlib.contextmanager
    def _without(self, *operations: str) -> Iterator[None]:
        """Let no writer of a MariaDB source run operations that a killed MariaDB server does not recover as a whole.

        A killed server runs a definition (DDL) again, or logs a ``DROP TABLE`` as a transaction of its own in domain 0.
        A replica, also one at the real source, then stops with error 1950. A killed source logs one writer's
        ``DROP TABLE`` in another writer's domain, so that parallel replicas run the statements in another order.

        A prepared XA transaction whose rows the replica's own filter ignored is gone after a kill. The replica stops
        with error 1397 at its XA COMMIT. A source that is killed soon after XA ROLLBACK has logged the statement and
        may still have the transaction. The next XA ROLLBACK is logged, too, and replicas without do-db rules stop
        with error 1397.
        """
        with contextlib.ExitStack() as held:
            for writer in self.writers if self.plan.family == "mariadb" else ():
                held.enter_context(writer.without(*operations))
            yield

    def _fail_over(self, replica: Replica) -> None:
        """Point a replica behind dumpfilter to the source, or one at the source to dumpfilter."""
        if self.plan.without_dumpfilter:
            return
        replica.server.control("STOP")
        replica.is_behind = not replica.is_behind
        self._connect(self._twins_of(replica), replica)

    def _twins_of(self, replica: Replica) -> Twins:
        return next(twins for twins in self.twins if replica in twins.both)

    def _cut(self, replica: Replica) -> None:
        replica.link.drop_connections()

    def _cut_in_the_middle(self, replica: Replica) -> None:
        # A new plan would forget the end of a cut.
        replica.link.heal()
        replica.link.cut_after(self._random.randrange(1, 200_000), CUT_SECONDS)

    def _slow(self, replica: Replica) -> None:
        replica.is_slow = not replica.is_slow
        replica.link.reshape(SLOW if replica.is_slow else PLAIN)

    def _change_a_filter(self) -> None:
        """Change a filter of twins at the same place, the source's end."""
        twins = self._random.choice(self.twins)
        if not twins.rules:
            return
        for replica in twins.both:
            replica.server.control("STOP")
        twins.narrowed = not twins.narrowed
        self._configure()
        if not self.plan.without_dumpfilter:
            self.dumpfilter.reload()
        for replica in twins.both:
            self._set_filter(twins, replica)
            replica.server.control("START")
        self.plan.happened["change of filter"] += 1

    # -- comparison

    def compare(self) -> None:
        """Wait until all replicas are at the source's end, and compare twins. Raises Different."""
        for replica in self.replicas:
            replica.is_slow = False
            replica.link.reshape(PLAIN)
            replica.link.heal()
        written = self.source.binlog_gtids()
        for replica in self.replicas:
            self._catch_up(replica, written)
        for replica in self.replicas:
            self._settle(replica)
        found = []
        for twins in self.twins:
            found += [f"{twins.behind.name} {list(twins.filter)}: {line}" for line in _differences(twins)]
        if found:
            raise Different("\n".join(found))

    def _catch_up(self, replica: Replica, written: str) -> None:
        """Wait until a replica is at the end of a source to which nobody writes."""
        self._wait_for(replica, written, lambda executed: gtids(executed) == gtids(written))

    def _wait_for(self, replica: Replica, written: str, reached: Callable[[str], bool] | None = None) -> None:
        """Wait until a replica has executed the GTIDs ``written``. Raises Different."""
        has_all = reached or (lambda executed: covers(executed, written))
        deadline = time.monotonic() + CATCH_UP
        while True:
            try:
                if has_all(replica.server.applied_gtids()):
                    return
                status = replica.server.status()
            except pymysql.Error as error:
                if not replica.server.is_running:
                    raise Different(
                        f"{replica.name} died: {replica.server.log.read_text(errors='replace')[-2000:]}"
                    ) from error
                raise
            assert status is not None
            if (status.sql_error[0] and not status.sql_running) or (
                status.io_error[0] and status.io_running == "No"
            ):
                raise Different(f"{replica.name} stopped: {status.sql_error} {status.io_error}")
            if time.monotonic() > deadline:
                raise Different(
                    f"{replica.name} does not come to the end: has {replica.server.applied_gtids()} of {written}, "
                    f"{_shown(status)}"
                )
            time.sleep(0.05)

    def _settle(self, replica: Replica) -> None:
        """Wait until the positions are the source's end, which heartbeats tell.

        A MariaDB source writes a Binlog_checkpoint event when it likes, so that its end moves without a transaction.
        """

        def settled() -> bool:
            status = replica.server.status()
            assert status is not None
            return status.read == status.executed == self.source.binlog_end() and status.behind == "0"

        try:
            wait_for(settled, lambda: "", 60)
        except AssertionError:
            status = replica.server.status()
            raise Different(
                f"{replica.name}: expected to be at {self.source.binlog_end()}: {_shown(status)}"
            ) from None


def _shown(status: ReplicaStatus | None) -> str:
    if status is None:
        return "no status"
    return (
        f"read {status.read}, executed {status.executed}, I/O {status.io_running} {status.io_error}, SQL "
        f"{status.sql_running} {status.sql_error}, behind {status.behind}, retrieved {status.retrieved}"
    )


def gtids(text: str) -> set[str]:
    """Return the parts of a GTID set, whose order differs between MariaDB's variables.

    >>> sorted(gtids("1-11-5,0-11-9"))
    ['0-11-9', '1-11-5']
    """
    return {part.strip() for part in text.split(",") if part.strip()}


def covers(executed: str, written: str) -> bool:
    """Tell whether a MariaDB replica's position has everything of another one, or is after it, in each domain.

    >>> covers("0-11-9,1-11-5", "0-11-7"), covers("0-11-9", "0-11-7,1-11-5"), covers("0-11-9", "0-11-10")
    (True, False, False)
    """
    numbers = {part.split("-")[0]: int(part.split("-")[2]) for part in gtids(executed)}
    return all(
        numbers.get(domain, 0) >= int(number)
        for domain, _, number in (part.split("-") for part in gtids(written))
    )


def _differences(twins: Twins) -> list[str]:
    one, other = twins.at_source.server, twins.behind.server
    found = []
    for what, left, right in (
        ("table", one.state(), other.state()),
        ("definition", one.definitions(), other.definitions()),
    ):
        for name in sorted({*left, *right}):
            if left.get(name) != right.get(name):
                found.append(f"{what} {name}: at the source {left.get(name)}, behind {right.get(name)}")
    if gtids(one.applied_gtids()) != gtids(other.applied_gtids()):
        found.append(f"GTIDs: at the source {one.applied_gtids()}, behind {other.applied_gtids()}")
    return found


def _source_options(plan: Plan) -> list[str]:
    options = ["--max-binlog-size=2M", "--max-allowed-packet=64M", "--binlog-format=MIXED"]
    options.append(f"--binlog-checksum={'NONE' if plan.seed % 3 == 2 else 'CRC32'}")
    return [*options, *plan.source_options]


def _replica_options(plan: Plan) -> list[str]:
    options = ["--max-allowed-packet=64M", "--relay-log-recovery=ON"]
    if plan.family == "mysql":
        return [*options, f"--replica-parallel-workers={plan.workers}", "--replica-net-timeout=20"]
    return [
        *options,
        f"--slave-parallel-threads={plan.workers}",
        "--slave-parallel-mode=optimistic",
        "--slave-net-timeout=20",
    ]


def _plan() -> tuple[Plan, int, bool]:
    parser = argparse.ArgumentParser(
        prog="python -m tests.real.live",
        description="Compare replicas behind dumpfilter with replicas at the source under a live load.",
    )
    parser.add_argument("family", choices=("mariadb", "mysql"))
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--filters", type=int, default=3)
    parser.add_argument("--writers", type=int, default=3)
    parser.add_argument("--workers", type=int, default=4, help="the replicas' applier threads")
    parser.add_argument("--round", type=float, default=20)
    parser.add_argument("--pause", type=float, default=2, help="the longest time between two events, seconds")
    parser.add_argument("--parts", help=f"the events that happen, of: {','.join(PARTS)}")
    parser.add_argument("--remote", action="store_true", help="dumpfilter reads from mysql:// with --store")
    parser.add_argument(
        "--without-dumpfilter",
        action="store_true",
        help="all replicas are at the source, which proves this",
    )
    parser.add_argument("--first-port", type=int, default=0, help="the first of a hundred ports to use")
    parser.add_argument("--keep", action="store_true", help="keep the servers' files after a difference")
    given = parser.parse_args()
    parts = PARTS if given.parts is None else [part for part in given.parts.split(",") if part]
    plan = Plan(
        given.family,
        given.seconds,
        given.seed,
        given.filters,
        given.writers,
        given.workers,
        given.round,
        given.pause,
        parts or ["flush"],
        given.remote,
        given.without_dumpfilter,
    )
    return plan, given.first_port, given.keep


def main() -> None:
    """Run a plan. The exit status is 1 when twins differ."""
    plan, first_port, keep = _plan()
    print(f"{plan.family}, seed {plan.seed}", flush=True)
    plan.report = lambda text: print(text, flush=True)
    temporary = Path(tempfile.mkdtemp(prefix="dumpfilter-live-"))
    launcher = Launcher(temporary)
    failed = False
    try:
        ports = ports_from(first_port)
        with Servers(plan.family, temporary / "servers", ports) as servers:
            live = Live(plan, servers, launcher, temporary, ports)
            try:
                live.run()
            except (Different, StartFailed, AssertionError) as error:
                failed = True
                print(f"DIFFERENT (seed {plan.seed}): {error}\n{live.dumpfilter.log()}")
            finally:
                done: Counter[str] = sum((writer.done for writer in live.writers), Counter())
                errors: Counter[str] = sum((writer.errors for writer in live.writers), Counter())
                print(
                    f"operations {dict(done)}\nerrors of the workload {dict(errors)}\nevents {dict(plan.happened)}"
                )
                live.close()
    finally:
        launcher.close()
        if not (failed and keep):
            shutil.rmtree(temporary, ignore_errors=True)
    sys.exit(failed)


if __name__ == "__main__":
    # The servers must end with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()

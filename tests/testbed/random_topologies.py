"""``python -m tests.testbed.random_topologies``: run random topologies with random faults, and check the law.

Each plan has a topology of up to eight nodes and a schedule of faults. Nodes are killed, stopped and restarted, and
links are cut, silenced and slowed, while the origins write. At the end all nodes run and all links are healed. All
nodes catch up, and the law is checked. A plan that fails is written to a file, which ``--replay`` runs again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pymysql

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.binlog.format import Family
from dumpfilter.testbed import Testbed, TestbedError, up
from dumpfilter.testbed.values import NO_LAG
from dumpfilter.topology import link, master, parse_toml_topology, read, server, slave, to_toml
from dumpfilter.topology.links.shape import PLAIN, LinkShape
from dumpfilter.topology.model import Kind, Node, Reading, Topology, Workload

MOST_NODES = 8
CATCH_UP = 120.0
"""The longest wait for all nodes at the end, seconds."""

_ROOT = {"mysql": os.environ.get("DUMPFILTER_MYSQL_ROOT")}
_DATABASES = ("shop", "hr", "logs")
_WORKLOAD_DATABASES = tuple(f"shop_{number:02}" for number in range(20))
_FORMATS = ("ROW", "MIXED", "STATEMENT")
_FAULTS_OF_NODES = ("kill", "stop", "start", "restart")
_FAULTS_OF_LINKS = ("cut", "cut_after", "silence", "drop", "heal", "rate", "delay")
_MOST_STEPS = 14
_MOST_SEED = (1 << 64) - 1


@dataclass(frozen=True)
class Step:
    """One step of a schedule: a pause, or a fault of a node or link."""

    what: str
    target: str = ""
    number: float = 0


@dataclass(frozen=True)
class Plan:
    """A topology in TOML, and the schedule of its faults."""

    topology: str
    steps: tuple[Step, ...]
    seed: int
    """The seed of what the origins write."""

    def as_json(self) -> str:
        """Return the plan as text for a file."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Return the plan of a file."""
        found = json.loads(text)
        return cls(found["topology"], tuple(Step(**step) for step in found["steps"]), found["seed"])


# -- plans


class _Builder:
    """A topology that grows by one random node at a time."""

    def __init__(self, chance: random.Random, families: Sequence[str], most: int) -> None:
        self._chance = chance
        self._families = families
        self._most = most
        self._nodes: list[Node] = []
        self._origins: dict[str, frozenset[str]] = {}
        """The origins of each node's data."""
        # A slave has one setting for all its sources.
        self._tls = chance.random() < 0.2

    def topology(self) -> Topology:
        """Return a random topology, in which each origin has a reader."""
        for _ in range(self._chance.choice((1, 1, 2))):
            self._add_origin()
        fewest = len(self._nodes) + 1
        number = self._chance.randint(fewest, max(fewest, self._most))
        while len(self._nodes) < number:
            self._add_reader()
        return Topology(tuple(self._nodes))

    def _name(self) -> str:
        return f"n{len(self._nodes)}"

    def _add(self, node: Node, origins: frozenset[str]) -> None:
        self._nodes.append(node)
        self._origins[node.name] = origins

    def _add_origin(self) -> None:
        name = self._name()
        family = self._chance.choice((*self._families, "workload"))
        if family == "workload":
            load = Workload(
                size=self._chance.choice((1 << 18, 1 << 20)),
                rate=self._chance.choice((None, 2_000_000, 8_000_000)),
                seed=self._chance.randrange(1000),
                style=self._chance.choice(("mariadb", "mysql")),
            )
            node = Node(name=name, workload=load)
        else:
            options = (f"--binlog-format={self._chance.choice(_FORMATS)}",) if family == "mariadb" else ()
            if self._chance.random() < 0.3:
                # Files that are full soon make the readers follow rotations.
                options += ("--max-binlog-size=65536",)
            node = server(
                name,
                family,  # type: ignore[arg-type]
                options=options,
                init=tuple(_schema(name)),
                root=_ROOT.get(family),
                tls=self._tls,
            )
        self._add(node, frozenset((name,)))
        for _ in range(self._chance.choice((1, 1, 2))):
            self._add_master(node)

    def _add_master(self, source: Node) -> None:
        name = self._name()
        shape = PLAIN if source.workload else self._link()
        self._add(master(name, source, tls=self._tls, link=shape), self._origins[source.name])

    def _add_reader(self) -> None:
        kinds = [self._slave, self._slave, self._server]
        self._chance.shuffle(kinds)
        for kind in kinds:
            node = kind()
            if node is not None:
                origins = frozenset().union(*(self._origins[reading.source] for reading in node.reads))
                self._add(node, origins)
                return

    def _sources(self, *kinds: Kind) -> list[Node]:
        return [
            node
            for node in self._nodes
            # A slave with several sources serves none of them to others.
            if node.kind in kinds and not (node.kind == "slave" and len(node.reads) > 1)
        ]

    def _slave(self) -> Node:
        # Each channel of a slave has data of its own. So two channels may have the same origin.
        sources = self._pick(self._sources("master", "slave"), may_share=self._chance.random() < 0.3)
        return slave(self._name(), [self._reading(source) for source in sources], tls=self._tls)

    def _server(self) -> Node | None:
        servers = {node.name: node.server for node in self._nodes if node.server}
        sources = [
            node
            for node in self._sources("server", "master", "slave")
            # A generated workload makes no tables, so that no real replica can apply it.
            if self._origins[node.name] <= servers.keys()
        ]
        if not sources:
            return None
        picked = self._pick(sources)
        families = {servers[origin] for source in picked for origin in self._origins[source.name]}
        if len(families) > 1:
            picked = picked[:1]
            families = {servers[origin] for origin in self._origins[picked[0].name]}
        (family,) = families
        twin = self._twin(picked[0])
        if twin is not None and self._chance.random() < 0.7:
            return self._diamond((picked[0], twin), family)
        return server(
            self._name(),
            family,
            [self._reading(source) for source in picked],
            root=_ROOT.get(family),
            tls=self._tls,
        )

    def _twin(self, source: Node) -> Node | None:
        """Return another master of the same server."""
        twins = [
            node
            for node in self._nodes
            if source.kind == node.kind == "master"
            and node != source
            and self._origins[node.name] == self._origins[source.name]
        ]
        return self._chance.choice(twins) if twins else None

    def _diamond(self, sources: Sequence[Node], family: Family) -> Node:
        """Return a replica that gets each transaction on two ways with equal filters."""
        rules = self._reading(sources[0]).rules
        return server(
            self._name(),
            family,
            [read(source, rules=rules) for source in sources],
            # Without this MariaDB applies both arrivals of a transaction. MySQL always skips the second one.
            options=("--gtid-ignore-duplicates=ON",) if family == "mariadb" else (),
            root=_ROOT.get(family),
            tls=self._tls,
        )

    def _pick(self, sources: Sequence[Node], *, may_share: bool = False) -> list[Node]:
        """Return one source, or sometimes two. The two have different origins unless they may share one."""
        first = self._chance.choice(sources)
        others = [
            node
            for node in sources
            if node != first and (may_share or not self._origins[node.name] & self._origins[first.name])
        ]
        return [first, self._chance.choice(others)] if others and self._chance.random() < 0.4 else [first]

    def _reading(self, source: Node) -> Reading:
        origins = sorted(self._origins[source.name])
        origin = next(node for node in self._nodes if node.name == self._chance.choice(origins))
        if origin.workload:
            databases = list(_WORKLOAD_DATABASES)
        else:
            databases = [f"{origin.name}_{database}" for database in _DATABASES]
        return read(source, rules=tuple(self._rules(databases)), link=self._link())

    def _link(self) -> LinkShape:
        chance = self._chance
        if chance.random() < 0.6:
            return PLAIN
        return link(
            chance.choice((None, "8mbit", "40mbit")),
            delay=chance.choice(("0s", "5ms", "60ms")),
            jitter=chance.choice(("0s", "4ms")),
            down=chance.choice(((), (), ("500ms-800ms",), ("0s-300ms", "1s-1.2s"))),
        )

    def _rules(self, databases: Sequence[str]) -> Iterator[str]:
        for _ in range(self._chance.choice((0, 1, 1, 1, 2))):
            database = self._chance.choice(databases)
            yield self._chance.choice(
                (
                    f"replicate-do-db={database}",
                    f"replicate-ignore-db={database}",
                    f"replicate-wild-do-table={database}.%",
                    f"replicate-wild-ignore-table={database}.%",
                    f"replicate-ignore-table={database}.a",
                )
            )


def _schema(origin: str) -> Iterator[str]:
    for database in _DATABASES:
        name = f"{origin}_{database}"
        yield from (
            f"CREATE DATABASE {name}",
            f"USE {name}",
            "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, n INT, t VARCHAR(200))",
            "CREATE TABLE b (id INT PRIMARY KEY, t LONGTEXT)",
        )


def _steps(chance: random.Random, topology: Topology) -> Iterator[Step]:
    nodes = [node.name for node in topology.nodes]
    links = [each.name for each in topology.links]
    for _ in range(chance.randint(3, _MOST_STEPS)):
        yield Step("pause", number=chance.choice((0.05, 0.1, 0.3, 0.6)))
        if links and chance.random() < 0.5:
            what = chance.choice(_FAULTS_OF_LINKS)
            number: float = {
                "cut_after": chance.randrange(20_000),
                "rate": chance.choice((128_000, 1_000_000)),
                "delay": chance.choice((0.02, 0.2)),
                "silence": 0.5,
            }.get(what, 0)
            yield Step(what, chance.choice(links), number)
        else:
            what, target = chance.choice(_FAULTS_OF_NODES), chance.choice(nodes)
            yield Step(what, target)


@st.composite
def plans(draw: st.DrawFn, families: Sequence[str] = ("mariadb",), most: int = MOST_NODES) -> Plan:
    """Return random plans with origins of these families."""
    # Plans of which one is a little simpler than the other help nobody here, so that a seed is all that is drawn.
    chance = random.Random(draw(st.integers(0, _MOST_SEED)))
    topology = _Builder(chance, families, most).topology()
    return Plan(to_toml(topology), tuple(_steps(chance, topology)), chance.randrange(1 << 30))


# -- runs


class _Writer(threading.Thread):
    """Writes random transactions on a server until it is told to stop. It bears that the server is killed."""

    def __init__(self, bed: Testbed, name: str, seed: int) -> None:
        super().__init__(name=f"writer of {name}")
        self._bed = bed
        self._origin = name
        self._chance = random.Random(seed)
        self._ended = threading.Event()
        self.failure: BaseException | None = None

    def stop(self) -> None:
        """End the writing."""
        self._ended.set()
        self.join()

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                # The server may be killed at any moment.
                with contextlib.suppress(DumpfilterError, pymysql.OperationalError, pymysql.InterfaceError):
                    self._write()
                self._ended.wait(0.05)
        except BaseException as error:
            self.failure = error

    def _write(self) -> None:
        with self._bed[self._origin].connect(read_timeout=20) as connection, connection.cursor() as cursor:
            while not self._ended.wait(self._chance.choice((0, 0, 0.01, 0.05))):
                cursor.execute(f"USE {self._origin}_{self._chance.choice(_DATABASES)}")
                for statement in self._transaction():
                    try:
                        cursor.execute(statement)
                    except pymysql.IntegrityError:
                        pass
                    except pymysql.OperationalError as error:
                        # A table that exists already, or a column: the statement before was carried out.
                        if error.args[0] not in (1050, 1051, 1060):
                            raise

    def _transaction(self) -> list[str]:
        chance = self._chance
        kind = chance.random()
        if kind < 0.04:
            return [f"CREATE TABLE x{chance.randrange(3)} (i INT)"]
        if kind < 0.07:
            return [f"DROP TABLE IF EXISTS x{chance.randrange(3)}"]
        if kind < 0.08:
            return ["TRUNCATE TABLE b"]
        if kind < 0.09:
            return [f"ALTER TABLE a ADD COLUMN c{chance.randrange(5)} INT"]
        statements = [self._change() for _ in range(chance.randint(1, 4))]
        if kind < 0.2:
            statements[1:1] = ["SAVEPOINT s", self._change(), "ROLLBACK TO s"]
        if kind < 0.3:
            # One transaction writes to two databases, which filters may treat differently.
            statements += [f"USE {self._origin}_{chance.choice(_DATABASES)}", self._change()]
        return ["BEGIN", *statements, "ROLLBACK" if chance.random() < 0.1 else "COMMIT"]

    def _change(self) -> str:
        chance = self._chance
        number = chance.randrange(200)
        return chance.choice(
            (
                f"INSERT INTO a (n, t) VALUES ({number}, '{'x' * chance.randrange(200)}')",
                f"INSERT INTO a (n, t) SELECT {number}, LEFT(t, 20) FROM b ORDER BY id LIMIT 5",
                f"REPLACE INTO b VALUES ({number}, REPEAT('y', {chance.choice((10, 300, 20_000))}))",
                f"UPDATE a SET n = n + 1 WHERE id % 7 = {number % 7}",
                f"DELETE FROM b WHERE id < {number // 3}",
            )
        )


def run(plan: Plan) -> None:
    """Run a plan. Raises DumpfilterError, of which LawBroken is one, and the failure of a writer."""
    topology = parse_toml_topology(plan.topology)
    with up(topology) as bed:
        writers = [
            _Writer(bed, node.name, plan.seed + number)
            for number, node in enumerate(topology.nodes)
            if node.server and not node.reads
        ]
        try:
            for writer in writers:
                writer.start()
            for step in plan.steps:
                _take(bed, step)
        finally:
            for line in bed.links.values():
                line.restore()
            for node in bed:
                # The readers of a node start after the node itself.
                node.start()
            for writer in writers:
                writer.stop()
        for writer in writers:
            if writer.failure is not None:
                raise writer.failure
        bed.wait_done(CATCH_UP)
        bed.wait_caught_up(CATCH_UP)
        bed.check(CATCH_UP)
        # A slave whose relay log had all transactions may still connect to its source.
        deadline = time.monotonic() + CATCH_UP
        while bed.status().problems and time.monotonic() < deadline:
            time.sleep(0.05)
        _check_figures(bed)
    if bed.directory.exists():
        raise TestbedError(f"{bed.directory} remains")


def _check_figures(bed: Testbed) -> None:
    """Check that a topology in which nothing is written has no lag, and the same figures in status and report."""
    before = {name: line.counters for name, line in bed.links.items()}
    report = bed.report()
    status = bed.status()
    for name, node in status.nodes.items():
        told, its = report["nodes"][name], node.as_dict()
        if "lag_over_time" not in told:
            continue
        figures = {key: its[key] for key in ("place", "gtids", "saved", "lag")}
        figures["received"] = [channel["bytes_received"] for channel in its["channels"]]
        others = {key: told[key] for key in ("place", "gtids", "saved")} | {"lag": NO_LAG._asdict()}
        others["received"] = [channel["bytes_received"] for channel in told["channels"]]
        if figures != others:
            raise TestbedError(f"{name}: the status has {figures}, and the report {others}")
        if (
            bed[name].lag != NO_LAG
            or not 0 <= told["lag"]["p50"] <= told["lag"]["p95"] <= told["lag"]["worst"]
        ):
            raise TestbedError(f"{name}: a lag of {bed[name].lag}, {told['lag']}")
    for name, line in status.links.items():
        # Heartbeats pass meanwhile.
        told = report["links"][name]
        first, second, third = before[name].down, told["bytes_to_target"], line.bytes_to_target
        if not first <= second <= third <= first + 10_000:
            raise TestbedError(f"link {name}: {first}, {second} and {third} bytes one after the other")
    if report["problems"] or status.problems:
        raise TestbedError(f"problems: {report['problems']}, {status.problems}")


def _take(bed: Testbed, step: Step) -> None:
    if step.what == "pause":
        time.sleep(step.number)
    elif step.what in _FAULTS_OF_NODES:
        getattr(bed[step.target], step.what)()
    else:
        line = bed.links[step.target]
        match step.what:
            case "cut":
                line.cut()
            case "cut_after":
                line.cut_after(int(step.number), 0.3)
            case "silence":
                line.silence(step.number)
            case "drop":
                line.drop_connections()
            case "heal":
                line.heal()
            case "rate":
                line.set(rate=int(step.number))
            case "delay":
                line.set(delay=step.number)


def main() -> int:
    """Run plans, print what becomes of each, and write the plans that fail. The exit code is the number of failures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mysql", action="store_true", help="also MySQL servers")
    parser.add_argument("--most", type=int, default=MOST_NODES, help="the most nodes")
    parser.add_argument(
        "--failures", type=Path, default=Path(tempfile.gettempdir()), help="where plans are written"
    )
    parser.add_argument("--replay", type=Path, help="the file of one plan")
    given = parser.parse_args()
    if given.replay:
        run(Plan.from_json(given.replay.read_text()))
        print("the law holds")
        return 0
    counts = {"run": 0, "failed": 0}

    @hypothesis.seed(given.seed)
    @hypothesis.settings(
        max_examples=given.runs,
        phases=[hypothesis.Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(plans(("mariadb", "mysql") if given.mysql else ("mariadb",), given.most))
    def each(plan: Plan) -> None:
        counts["run"] += 1
        began = time.monotonic()
        nodes = plan.topology.count("[node.")
        try:
            run(plan)
            result = "ok"
        except Exception as error:
            counts["failed"] += 1
            file = given.failures / f"plan-{given.seed}-{counts['run']}.json"
            file.write_text(plan.as_json())
            result = f"FAILED: {file}: {error}"
            if not isinstance(error, DumpfilterError):
                traceback.print_exc()
        took = time.monotonic() - began
        print(
            f"{counts['run']:>4} {nodes} nodes {len(plan.steps):>2} steps {took:6.1f} s {result}", flush=True
        )

    each()
    print(f"{counts['run']} run, {counts['failed']} failed")
    return min(counts["failed"], 100)


if __name__ == "__main__":
    sys.exit(main())

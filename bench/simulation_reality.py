"""Simulations beside reality: six topologies run with real processes over shaped links, and simulated."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from bench._common import Options, Report
from dumpfilter import topology
from dumpfilter.simulation.results import Method, Run
from dumpfilter.testbed.experiment.definition import Experiment, Load, Phase
from dumpfilter.testbed.experiment.run import run_experiment
from dumpfilter.topology import read, server, slave
from dumpfilter.topology.links.shape import LinkShape
from dumpfilter.topology.model import Node, Topology, Workload

LAG_TOLERANCE = 0.10
LEAST_LAG_TOLERANCE = 20_000
"""The difference of lags that always counts as equal, microseconds."""
CATCH_UP_TOLERANCE = 0.05

SIZE = 2_500_000
RATE = 4_000_000
"""The bytes and the bits per second of the generated workloads. They take five seconds."""

SHOP = tuple(f"replicate-do-db=shop_{number:02}" for number in range(0, 20, 3))
"""A filter that keeps about half of a generated workload."""
CHUNK_SIZE = "--chunk-size=16384"
"""The size of messages. The time that a message takes on a slow link is otherwise a large part of the lag."""

HR = ("replicate-do-db=shop_01", "replicate-do-db=shop_02")


def _slave(name: str, source: str, rate: int | None, delay: float, rules: tuple[str, ...] = ()) -> Node:
    return slave(name, source, link=LinkShape(rate, delay), rules=rules, options=[CHUNK_SIZE])


def _made(*nodes: Node, seed: int = 1, name: str = "w", master: str = "m") -> tuple[Node, ...]:
    return (
        Node(name=name, workload=Workload(size=SIZE, rate=RATE, seed=seed)),
        topology.master(master, name),
        *nodes,
    )


LOAD = (Phase("load", 5.0),)


def _experiments() -> Iterator[Experiment]:
    web = _slave("web", "m", 3_200_000, 0.05)
    yield Experiment("slow link", Topology(_made(web)), LOAD)
    fan = (
        _slave("web", "m", 1_600_000, 0.02, SHOP),
        _slave("hr", "m", 800_000, 0.1, HR),
        _slave("all", "m", 3_600_000, 0.005),
    )
    yield Experiment("fan-out", Topology(_made(*fan)), LOAD)
    chain = _slave("a", "m", 3_600_000, 0.02), _slave("b", "a", 1_600_000, 0.05, SHOP)
    yield Experiment("chain", Topology(_made(*chain)), LOAD)
    two = slave(
        "sink",
        [read("m", link=LinkShape(1_800_000, 0.02), rules=SHOP), read("n", link=LinkShape(3_600_000, 0.02))],
        options=[CHUNK_SIZE],
    )
    yield Experiment("two sources", Topology((*_made(), *_made(two, seed=2, name="v", master="n"))), LOAD)
    phases = (Phase("load", 1.0), Phase("outage", 2.0, cut=("m:web",)), Phase("load", 1.0))
    yield Experiment("outage", Topology(_made(_slave("web", "m", 6_000_000, 0.03))), phases)
    if shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin"):
        yield _real()


def _real() -> Experiment:
    schemas, rules, link = ("shop", "hr"), ("replicate-wild-do-table=shop.%",), (2_000_000, 0.05)
    tables = [
        statement
        for schema in schemas
        for statement in (
            f"CREATE DATABASE {schema}",
            f"CREATE TABLE {schema}.t (id INT PRIMARY KEY, text MEDIUMTEXT)",
        )
    ]
    nodes = (
        server("db", options=["--binlog-format=ROW"], init=tables),
        topology.master("m", "db"),
        server("replica", "mariadb", "m", link=LinkShape(*link), rules=rules),
        _slave("web", "m", *link, rules),
    )
    statements = tuple(f"REPLACE INTO {schema}.t VALUES ({{n}}, REPEAT('x', 8000))" for schema in schemas)
    return Experiment("real servers", Topology(nodes), LOAD, {"db": Load(statements, 0.012)})


@dataclass
class _Differences:
    """The differences between measurements and their simulations."""

    links: list[bool] = field(default_factory=list)
    """Whether each link has other bytes."""
    lags: list[float] = field(default_factory=lambda: [0.0])
    """The difference of each lag, as a part of what is allowed."""
    catch_ups: list[float] = field(default_factory=lambda: [0.0])


def run(report: Report, options: Options) -> None:
    """Run and simulate the topologies, and report the differences."""
    found = _Differences()
    for experiment in _experiments():
        print(experiment.name, file=sys.stderr, flush=True)
        runs = run_experiment(replace(experiment, repetitions=options.runs)).runs
        real, simulated = (
            [one for one in runs if one.method is method] for method in (Method.MEASURED, Method.SIMULATED)
        )
        _compare_lags(report, experiment.name, real, simulated, found)
        _compare_links(report, experiment.name, real, simulated, found)
    report.row("links compared", len(found.links), "{}")
    report.limit("links whose bytes of events differ", sum(found.links), 0)
    report.limit("the largest difference of p50 or p99, as a part of 10 % or 20 ms", max(found.lags), 1)
    report.limit("the largest difference of a time to catch up", max(found.catch_ups), CATCH_UP_TOLERANCE)
    report.note(
        "times are milliseconds, measured / simulated; overhead is what the protocols add to the events"
    )


def _compare_lags(
    report: Report, name: str, real: Sequence[Run], simulated: Sequence[Run], found: _Differences
) -> None:
    """Compare the medians of the lags over all runs."""
    for number, one in enumerate(real[0].nodes):
        parts = []
        for what in ("p50", "p99"):
            measured, computed = (
                median(getattr(run.nodes[number].lag, what) for run in runs) for runs in (real, simulated)
            )
            allowed = max(LEAST_LAG_TOLERANCE, LAG_TOLERANCE * measured)
            found.lags.append(abs(computed - measured) / allowed)
            parts.append(
                f"{what} {measured / 1e3:.0f} / {computed / 1e3:.0f} ({(computed - measured) / 1e3:+.0f})"
            )
        title = f"{name}: {one.name}" + (f" ({one.channel})" if one.channel else "")
        report.row(title, one.lag.p99, f"{one.transactions:6,} transactions, {', '.join(parts)}")


def _compare_links(
    report: Report, name: str, real: Sequence[Run], simulated: Sequence[Run], found: _Differences
) -> None:
    """Compare the bytes of each run, and the medians of the times to catch up after an outage."""
    for number, link in enumerate(real[0].links):
        pairs = [(run.links[number], its.links[number]) for run, its in zip(real, simulated, strict=True)]
        found.links.append(any(one.bytes != other.bytes for one, other in pairs))
        text = f"{link.bytes:,} / {pairs[0][1].bytes:,} bytes, overhead {(link.overhead or 0) / max(link.bytes, 1):.1%}"
        if link.outages:
            measured, computed = (
                median(one.outages[0].catch_up or 0 for one in each) for each in zip(*pairs, strict=True)
            )
            found.catch_ups.append(abs(computed / max(measured, 1) - 1))
            text += f", caught up after {measured / 1e3:.0f} / {computed / 1e3:.0f}"
        report.row(f"{name}: {link.name}", link.bytes, text)

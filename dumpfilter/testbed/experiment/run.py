"""The execution of experiments: each variant with real processes, and its simulation for comparison."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pymysql

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.waiting import watching
from dumpfilter.simulation.plan import Plan, describe, plan_topology
from dumpfilter.simulation.results import Results, Run, Setting, SourceFigures, Variant
from dumpfilter.simulation.simulate import Options, simulate
from dumpfilter.simulation.traffic import Clock, Sent, SetTraffic
from dumpfilter.spark_jobs.engines import ThreadRunner
from dumpfilter.spark_jobs.simulation.traffic import read_traffic
from dumpfilter.testbed import Testbed, TestbedError, TestbedNode, up
from dumpfilter.testbed.experiment.definition import Experiment, Load, Phase
from dumpfilter.testbed.experiment.growth import Grown, Recorder, Watched
from dumpfilter.testbed.experiment.logged import read_log
from dumpfilter.testbed.experiment.measure import Committed, Crossing, Measured, figures
from dumpfilter.testbed.experiment.variants import phases_for, planned, simulated, topology_for
from dumpfilter.testbed.node import Feed
from dumpfilter.testbed.own_nodes import Master, Slave
from dumpfilter.testbed.server_nodes import StartedServer
from dumpfilter.topology.links.records import History
from dumpfilter.topology.links.shape import Outage

RELAY_LOG = "relay-bin"
"""The prefix of the names of relay logs, of dumpfilter and of servers that a topology starts."""

MICROSECONDS = 1_000_000
NANOSECONDS = 1_000
"""The number of nanoseconds in a microsecond."""

Tell = Callable[[str], None]
"""A function that is called with a message about the progress of the experiment."""


def _tell_with(tell: Tell, title: str, text: str) -> None:
    tell(f"{title}: {text}")


def run_experiment(experiment: Experiment, tell: Tell = lambda _: None) -> Results:
    """Run and simulate each variant of an experiment (way to bring the binlog to the slaves), and return all results.

    A run with faults that cannot be simulated is not simulated, with a warning in the results. ``tell`` is called with
    messages about the progress. Raises DumpfilterError. All processes have ended in any case.
    """
    runs: list[Run] = []
    sources: tuple[SourceFigures, ...] = ()
    warnings: list[str] = []
    for variant in experiment.variants:
        for repetition in range(1, experiment.repetitions + 1):
            title = f"{variant}, run {repetition} of {experiment.repetitions}"
            measured = _run(experiment, variant, repetition, partial(_tell_with, tell, title))
            runs.append(figures(measured))
            if all(phase.only_cuts for phase in experiment.phases):
                found = _simulated(experiment, measured)
                runs += (one.model_copy(update={"repetition": repetition}) for one in found.runs)
                sources = sources or found.sources
                warnings += found.warnings
    if not all(phase.only_cuts for phase in experiment.phases):
        warnings.append("a phase kills nodes, silences links or changes links, so that nothing was simulated")
    return Results(
        name=experiment.name,
        command="dumpfilter topology run",
        sources=sources,
        nodes=describe(experiment.topology),
        limit=experiment.limit,
        runs=tuple(runs),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _simulated(experiment: Experiment, measured: Measured) -> Results:
    """Simulate a measured run, with the commit times and the outages that the run had, and return the results."""
    outages = {name: crossing.outages for name, crossing in measured.crossings.items()}
    plan = plan_topology(simulated(planned(experiment.topology, measured.setting.variant), outages))
    traffics = {name: one.traffic for name, one in measured.committed.items()}
    return simulate(plan, traffics, Options((measured.setting,), experiment.limit))


def _run(experiment: Experiment, variant: Variant, repetition: int, tell: Tell) -> Measured:
    tell("starting")
    topology = topology_for(experiment.topology, variant)
    plan = plan_topology(planned(experiment.topology, variant))
    recorder = Recorder()
    with up(topology, hold=True) as bed, watching(recorder.run, "recorder of logs"):
        for name in plan.origins:
            recorder.watch(name, _binlog(bed[name]))
        for node in (bed[planned.name] for planned in plan.nodes):
            for feed in node.feeds:
                recorder.watch((node.name, feed.source.name), _received_log(node, feed))
        bed.wait_caught_up(experiment.patience)
        before = {name: link.counters.down for name, link in bed.links.items()}
        begin = time.monotonic_ns() // NANOSECONDS
        with _loads(bed, experiment.loads) as wait:
            bed.release()
            for link in bed.links.values():
                # The times of scheduled outages begin with the load.
                link.set()
            for phase in phases_for(experiment.topology, experiment.phases, variant):
                tell(f"{phase.name}, {phase.seconds:g} s")
                _pass(bed, phase, wait)
            tell("writing the rest")
            bed.wait_done(experiment.patience)
        tell("waiting until all nodes have caught up")
        bed.wait_caught_up(experiment.patience)
        recorder.look()
        tell("measuring")
        grown = recorder.grown()
        committed = {name: _committed(bed[name], plan, grown[name], begin) for name in plan.origins}
        received = {name: read_log(files) for name, files in grown.items() if isinstance(name, tuple)}
        return Measured(
            plan,
            Setting(variant=variant),
            committed,
            received,
            _crossings(bed, committed, before),
            experiment.limit,
            repetition,
        )


def _crossings(
    bed: Testbed, committed: Mapping[str, Committed], before: Mapping[str, int]
) -> dict[str, Crossing]:
    """Return the byte counters and outages of all links, by the links' names.

    ``before`` has the number of bytes that had passed each link when the run began. They are subtracted.
    """
    first = min((int(one.traffic.time[0]) for one in committed.values() if len(one.traffic)), default=0)
    shift = time.time() - time.monotonic() + first / MICROSECONDS
    crossings = {}
    for name, link in bed.links.items():
        counters, history = link.counters, link.history
        crossings[name] = Crossing(
            replace(counters, down=counters.down - before[name]),
            _outages(history, shift),
            tuple(replace(one, start=one.start - shift) for one in history.spans),
        )
    return crossings


def _binlog(node: TestbedNode) -> Watched:
    source = node.watched.source
    return Watched(source.parent, source.stem) if source.suffix == ".index" else Watched(source)


def _received_log(node: TestbedNode, feed: Feed) -> Watched:
    """Return the log to which a channel of a node writes the received events."""
    if isinstance(node, Slave):
        return Watched(node.relay_directory(feed), RELAY_LOG)
    if isinstance(node, Master):
        return Watched(node.store.source)
    assert isinstance(node, StartedServer)
    return Watched(node.server.data, f"{RELAY_LOG}-{feed.channel}".lower() if feed.channel else RELAY_LOG)


def _pass(bed: Testbed, phase: Phase, wait: Callable[[float], None]) -> None:
    """Run a phase: inject its faults, wait for its time with ``wait``, and remove the faults."""
    begin = time.monotonic()
    shapes = {name: bed.link(name).shape for name in phase.links}
    for name in phase.cut:
        bed.link(name).cut()
    for name in phase.silent:
        bed.link(name).silence()
    for name, change in phase.links.items():
        bed.link(name).set(**{key: value for key, value in vars(change).items() if value is not None})
    for name in phase.killed:
        bed[name].kill()
    wait(begin + phase.seconds - time.monotonic())
    for name in (*phase.cut, *phase.silent):
        bed.link(name).heal()
    for name, shape in shapes.items():
        bed.link(name).set(rate=shape.rate, delay=shape.delay, jitter=shape.jitter)
    for name in phase.killed:
        bed[name].start()


@contextlib.contextmanager
def _loads(bed: Testbed, loads: Mapping[str, Load]) -> Iterator[Callable[[float], None]]:
    """Run the statements of ``loads`` (by node) again and again on their servers, until the ``with`` block ends.

    The block receives a function that waits for a number of seconds. An error ends the statements of its server. The
    first error is raised by the function as soon as it occurs, and at the latest by the end of the block.
    """
    end, failed = threading.Event(), threading.Event()
    errors: list[DumpfilterError] = []

    def run(node: str, load: Load) -> None:
        try:
            with contextlib.closing(bed[node].connect()) as connection, connection.cursor() as cursor:
                begin, number = time.monotonic(), 0
                while not end.wait(max(0.0, begin + number * load.every - time.monotonic())):
                    text = load.sql[number % len(load.sql)]
                    number += 1
                    cursor.execute(text.replace("{n}", str(number)))
        except (DumpfilterError, pymysql.Error, OSError) as error:
            errors.append(TestbedError(f"load.{node}: {error}"))
            failed.set()

    def wait(seconds: float) -> None:
        if failed.wait(max(0.0, seconds)):
            raise errors[0]

    threads = [threading.Thread(target=run, args=one, name=f"load {one[0]}") for one in loads.items()]
    for thread in threads:
        thread.start()
    try:
        yield wait
    finally:
        end.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


def _committed(node: TestbedNode, plan: Plan, grown: Grown, begin: int) -> Committed:
    """Return the transactions of an origin (the node that wrote the binlog) since the beginning of a run.

    ``grown`` has the sizes of its binlog files over time, from which the commit times follow. ``begin`` is the time at
    which the run began, microseconds (``time.monotonic``).
    """
    traffic: SetTraffic = read_traffic(node.watched.source, plan.filters, ThreadRunner())
    log = read_log(grown)
    by_place = {(one.path.name, one.end): number for number, one in enumerate(log.transactions)}
    numbers = np.array(
        [
            by_place[traffic.files[file], end]
            for file, end in zip(traffic.file.tolist(), traffic.end.tolist(), strict=True)
        ],
        np.int64,
    )
    times = np.maximum.accumulate(log.time[numbers])
    first = int(np.searchsorted(times, begin))
    place = {number: index for index, number in enumerate(numbers.tolist()[first:])}
    return Committed(
        replace(_since(traffic, first), time=times[first:], clock=Clock.GIVEN),
        {key: place[number] for key, number in log.keys().items() if number in place},
        is_whole=not first,
    )


def _since(traffic: SetTraffic, first: int) -> SetTraffic:
    """Return the traffic (bytes of each transaction) from the transaction ``first`` on, renumbered from 0."""
    if not first:
        return traffic

    def sent(one: Sent) -> Sent:
        kept = one.transaction >= first
        return Sent(one.transaction[kept] - first, one.bytes[kept], one.events[kept], one.compressed[kept])

    return replace(
        traffic,
        time=traffic.time[first:],
        end=traffic.end[first:],
        file=traffic.file[first:],
        everything=sent(traffic.everything),
        filtered=tuple(sent(one) for one in traffic.filtered),
        stand_in_bytes=traffic.stand_in_bytes[first:],
    )


def _outages(history: History, shift: float) -> tuple[Outage, ...]:
    """Return the outages in a link's ``history``, in seconds since the first commit.

    ``shift`` is the time of the first commit on the clock of the history, seconds.
    """
    found: list[Outage] = []
    for one in history.happenings:
        last, at = found[-1] if found else None, one.time - shift
        if one.kind == "cut" and (last is None or last.end is not None):
            found.append(Outage(at, None))
        elif one.kind == "healed" and last is not None and last.end is None:
            found[-1] = replace(last, end=at)
        elif one.kind == "connected" and last is not None and last.end is not None and last.connected is None:
            found[-1] = replace(last, connected=at)
    return tuple(found)

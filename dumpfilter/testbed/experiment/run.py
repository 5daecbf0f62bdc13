"""The execution of experiments: each variant (way to bring the binlog to the slaves) runs with real processes, and is
simulated for comparison.

The lags and bytes of a run come from the binlogs and relay logs that the nodes wrote, and from the times at which these
grew. A node's relay log grows when an event arrives. The times at which files grow are therefore the times at which
transactions arrived, for nodes of dumpfilter and real servers alike.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pymysql

from dumpfilter.analyse.traffic.transactions import Sent
from dumpfilter.base.errors import BinlogTruncated, DumpfilterError
from dumpfilter.base.waiting import watching
from dumpfilter.binlog.context_events import decode_rotate
from dumpfilter.binlog.events import GTIDS, LOG_EVENT_ARTIFICIAL_F, LOG_EVENT_RELAY_LOG_F, OF_FILES, EventType
from dumpfilter.binlog.gap_events import is_gap_event
from dumpfilter.binlog.gtid_events import decode_gtid
from dumpfilter.binlog.reader import iter_events
from dumpfilter.simulation.flow import (
    PACKET_BYTES,
    Arrived,
    Flow,
    Form,
    Group,
    Route,
    Router,
    content,
    outcomes_of,
    run_of,
)
from dumpfilter.simulation.plan import Clock, Plan, PlannedNode, SetTraffic, describe, plan_topology
from dumpfilter.simulation.results import Method, Results, Run, Setting, SourceFigures, Variant
from dumpfilter.simulation.simulate import Options, simulate
from dumpfilter.spark_jobs.engines import ThreadRunner
from dumpfilter.spark_jobs.simulation import read_traffic
from dumpfilter.testbed import Testbed, TestbedError, TestbedLink, TestbedNode, up
from dumpfilter.testbed.binlogs import WatchedSet
from dumpfilter.testbed.experiment.definition import (
    Experiment,
    Load,
    Phase,
    links_for,
    planned,
    simulated,
    topology_for,
)
from dumpfilter.testbed.node import Feed
from dumpfilter.testbed.nodes import Master, Slave, StartedServer
from dumpfilter.testbed.values import NOWHERE, Place
from dumpfilter.topology.links.shape import Happening, Outage

# -- the logs of a run

INTERVAL = 0.002
"""The sampling interval of the ends of logs, seconds. It is the resolution of measured times."""

Key = tuple[str, int] | str
"""The identity of a transaction: its GTID, or the binlog file of the server that wrote it and the position after it."""

_BETWEEN = OF_FILES | {EventType.HEARTBEAT, EventType.HEARTBEAT_V2}
"""The event types that occur between transactions."""

_MADE_FOR_A_READER = LOG_EVENT_RELAY_LOG_F | LOG_EVENT_ARTIFICIAL_F
"""The flags of events that were made for a reader and are not in the source's binlog."""


@dataclass
class Logged:
    """One transaction in a binlog or relay log file: its identity (GTID or position in the source's binlog), its end in
    the file, and its size.
    """

    key: Key
    end: Place = NOWHERE
    """The file, and the byte offset in it after the transaction."""
    time: int = -1
    """The time at which the transaction was complete in its file, microseconds (``time.monotonic``); -1: never."""
    bytes: int = 0
    """The bytes of the transaction's events, and of the events between it and the next transaction."""
    events: int = 0


class Log(NamedTuple):
    """The transactions of a binlog or relay log, in the order of the log."""

    before: Logged
    """The events of the source before the first transaction, as one entry."""
    transactions: list[Logged]


def read_log(watched: WatchedSet) -> Log:
    """Read a binlog or relay log, and return its transactions with the times at which these were complete in the log.
    An incomplete last event is left out.
    """
    before, *read = _read(path for path, _ in watched.files())
    # An outage cut a transaction that is followed by itself. The source sent it again from its beginning.
    transactions = [
        one for one, following in zip_longest(read, read[1:]) if not following or one.key != following.key
    ]
    for one in transactions:
        reached = watched.reached(one.end)
        one.time = -1 if reached is None else _microseconds(reached)
    return Log(before, transactions)


def _read(paths: Iterable[Path]) -> list[Logged]:
    """Return the transactions in the files of a binlog or relay log. The first item of the list has the source's events
    before the first transaction.

    Events between transactions that are missing in the source's binlog, or were read before, are left out. A server
    makes artificial events for a replica that connects, and repeats the first events of the file.
    """
    found = [Logged("")]
    # The source's file and the position after the newest event of a transaction.
    origin = "", 0
    for path in paths:
        source_file = path.name
        is_inside, has_gtid = False, True
        # The last event may be incomplete.
        with path.open("rb") as file, contextlib.suppress(BinlogTruncated):
            for event in iter_events(file, file=str(path), verify=False):
                kind, flags, position = event.type, event.header.flags, event.header.end_log_pos
                if kind == EventType.ROTATE and flags & LOG_EVENT_ARTIFICIAL_F:
                    # It stands at the head of a relay log file, or where the next file of the source begins.
                    source_file = decode_rotate(event.body).name
                    continue
                if kind == EventType.FORMAT_DESCRIPTION or is_gap_event(kind, event.body):
                    continue
                if kind in _BETWEEN:
                    is_repeated = source_file == origin[0] and position <= origin[1]
                    if is_repeated or flags & _MADE_FOR_A_READER:
                        continue
                    is_inside = False
                elif kind in GTIDS:
                    gtid = decode_gtid(event.header, event.body).gtid
                    is_inside, has_gtid = True, gtid is not None
                    found.append(Logged(str(gtid)))
                current = found[-1]
                if is_inside:
                    origin = source_file, position
                    current.end = Place(path.name, event.offset + len(event.raw))
                    if not has_gtid:
                        current.key = origin
                current.bytes += len(event.raw)
                current.events += 1
    return found


# -- the execution

RELAY_LOG = "relay-bin"
"""The prefix of the names of relay logs, of dumpfilter and of servers that a topology starts."""

Tell = Callable[[str], None]
"""A function that is called with a message about the progress of the experiment."""


@dataclass(frozen=True, eq=False)
class Committed:
    """The transactions that one origin (a server that wrote a binlog) committed in a run, with the measured commit
    times.
    """

    traffic: SetTraffic
    keys: Mapping[Key, int]
    """The index of each transaction, by its identity."""
    is_whole: bool = True
    """Whether the object has all transactions of the binlog set. If False, the transactions before the run are left
    out.
    """


@dataclass(frozen=True)
class Measured:
    """The measurements of one run of an experiment: the transactions that servers committed, the logs that nodes
    received, and the traffic of each link. The results of the run are computed from them.
    """

    plan: Plan
    setting: Setting
    committed: Mapping[str, Committed]
    """The committed transactions of each node that writes a binlog, by the node's name."""
    received: Mapping[tuple[str, str], Log]
    """The received log of each channel, by the names of the node and of the source that it reads."""
    crossed: Mapping[str, int]
    """The bytes that crossed each link and reached its target, with the protocols' overhead, by the link's name."""
    outages: Mapping[str, tuple[Outage, ...]]
    """The outages of each link. Their times are seconds since the first commit of the run."""


def run_experiment(experiment: Experiment, tell: Tell = lambda _: None) -> Results:
    """Run and simulate each variant of an experiment (way to bring the binlog to the slaves), and return all results.

    If the experiment has faults that cannot be simulated, nothing is simulated, and the results have a warning.
    ``tell`` is called with messages about the progress. Raises DumpfilterError. All processes have ended in any case.
    """
    runs: list[Run] = []
    sources: tuple[SourceFigures, ...] = ()
    warnings: list[str] = []
    limit = _microseconds(experiment.limit)
    is_simulated = all(phase.only_cuts for phase in experiment.phases)
    if not is_simulated:
        warnings.append("a phase kills nodes, silences links or changes links, so that nothing was simulated")
    for variant in experiment.variants:
        for repetition in range(1, experiment.repetitions + 1):
            measured = _run(experiment, variant, repetition, tell)
            found = [figures(measured, limit=limit)]
            if is_simulated:
                plan = plan_topology(simulated(planned(experiment.topology, variant), measured.outages))
                traffics = {name: one.traffic for name, one in measured.committed.items()}
                results = simulate(plan, traffics, Options((measured.setting,), limit))
                found += results.runs
                sources = sources or results.sources
                warnings += results.warnings
            runs += (one.model_copy(update={"repetition": repetition}) for one in found)
    return Results(
        name=experiment.name,
        command="dumpfilter topology run",
        sources=sources,
        nodes=describe(experiment.topology),
        limit=limit,
        runs=tuple(runs),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _run(experiment: Experiment, variant: Variant, repetition: int, tell_all: Tell) -> Measured:
    def tell(text: str) -> None:
        tell_all(f"{variant}, run {repetition} of {experiment.repetitions}: {text}")

    tell("starting")
    topology = topology_for(experiment.topology, variant)
    plan = plan_topology(planned(experiment.topology, variant))
    with up(topology, hold=True) as bed:
        written = {name: bed[name].watched for name in plan.origins}
        received = {
            (node.name, feed.source.name): _received_log(node, feed)
            for node in (bed[planned.name] for planned in plan.nodes)
            for feed in node.feeds
        }

        def look() -> None:
            for log in (*written.values(), *received.values()):
                log.note()

        def record(over: threading.Event) -> None:
            while not over.wait(INTERVAL):
                look()

        with watching(record, "recorder of logs"):
            bed.wait_caught_up(experiment.patience)
            before = {name: link.counters.down for name, link in bed.links.items()}
            begin = _microseconds(time.monotonic())
            with _loads(bed, experiment.loads) as wait:
                bed.release()
                for number, phase in enumerate(experiment.phases, start=1):
                    tell(f"{phase.name or f'phase {number}'}, {phase.seconds:g} s")
                    run_phase(bed, phase, links_for(experiment.topology, variant), wait)
                tell("writing the rest")
                bed.wait_done(experiment.patience)
            tell("waiting until all nodes have caught up")
            bed.wait_caught_up(experiment.patience)
        look()
        tell("measuring")
        committed = {name: _committed(log, plan, begin) for name, log in written.items()}
        logs = {name: read_log(log) for name, log in received.items()}
        crossed = {name: link.counters.down - before[name] for name, link in bed.links.items()}
        first = min((int(one.traffic.time[0]) for one in committed.values() if len(one.traffic)), default=0)
        shift = time.time() - time.monotonic() + first / 1e6
        outages = {name: _outages(link.history, shift) for name, link in bed.links.items()}
        return Measured(plan, Setting(variant=variant), committed, logs, crossed, outages)


def _received_log(node: TestbedNode, feed: Feed) -> WatchedSet:
    """Return the log to which a node writes the events that it receives from one source (``feed``). It is a relay log
    or, for a master of dumpfilter, its copy of the source's binlog.
    """
    if isinstance(node, Master):
        return node.store
    if isinstance(node, Slave):
        return WatchedSet(node.relay_directory(feed) / f"{RELAY_LOG}.index")
    assert isinstance(node, StartedServer)
    name = f"{RELAY_LOG}-{feed.channel}".lower() if feed.channel else RELAY_LOG
    return WatchedSet(node.server.data / f"{name}.index")


def run_phase(bed: Testbed, phase: Phase, names: Mapping[str, str], wait: Callable[[float], None]) -> None:
    """Run one phase of an experiment: cause its faults (such as cut links and killed processes), call ``wait`` with its
    length in seconds, and end the faults.

    ``bed`` is the running topology. ``names`` maps the name that a link has in the experiment to its name in ``bed``.
    Faults of links and nodes that ``bed`` does not have are left out.
    """
    end = time.monotonic() + phase.seconds
    undo: list[Callable[[], object]] = []

    def links(given: Iterable[str]) -> list[TestbedLink]:
        return [bed.link(names[name]) for name in given if name in names]

    for link in links(phase.cut):
        link.cut()
        undo.append(link.heal)
    for link in links(phase.silent):
        link.silence()
        undo.append(link.heal)
    for name, change in phase.links.items():
        for link in links([name]):
            undo.append(partial(link.set, **{key: getattr(link.shape, key) for key in vars(change)}))
            link.set(**{key: value for key, value in vars(change).items() if value is not None})
    for node in (bed[name] for name in phase.killed if name in bed.nodes):
        node.kill()
        undo.append(node.start)
    wait(end - time.monotonic())
    for one in undo:
        one()


@contextlib.contextmanager
def _loads(bed: Testbed, loads: Mapping[str, Load]) -> Iterator[Callable[[float], None]]:
    """Run SQL statements again and again on servers of the running topology ``bed``, until the ``with`` block ends.
    ``loads`` maps a node's name to the statements and their interval.

    The ``with`` statement yields a function that waits for a number of seconds. An error ends the statements of its
    server. The function raises the first error as soon as it occurs. If the function does not run then, the end of the
    block raises the error.
    """
    over = threading.Event()

    def run(node: str, load: Load) -> None:
        try:
            with contextlib.closing(bed[node].connect()) as connection, connection.cursor() as cursor:
                begin, number = time.monotonic(), 0
                while not over.wait(max(0.0, begin + number * load.every - time.monotonic())):
                    text = load.sql[number % len(load.sql)]
                    number += 1
                    cursor.execute(text.replace("{n}", str(number)))
        except (DumpfilterError, pymysql.Error, OSError) as error:
            raise TestbedError(f"load.{node}: {error}") from None

    with ThreadPoolExecutor(len(loads) or 1, "load") as pool:
        running = [pool.submit(run, *one) for one in loads.items()]

        def wait(seconds: float) -> None:
            # The last item never ends, so that the wait is not over when all statements are.
            ended, _ = futures.wait([*running, Future()], max(0.0, seconds), futures.FIRST_EXCEPTION)
            for one in ended:
                one.result()

        try:
            yield wait
        finally:
            over.set()
    for one in running:
        one.result()


def _committed(log: WatchedSet, plan: Plan, begin: int) -> Committed:
    """Return the transactions that a node committed since the beginning of a run, with measured commit times. The node
    is an origin of the topology, and writes the binlog ``log``.

    ``plan`` has the filters under which the transactions' bytes are counted. ``begin`` is the time at which the run
    began, microseconds (``time.monotonic``).
    """
    traffic: SetTraffic = read_traffic(log.source, plan.filters, ThreadRunner())
    by_end = {one.end: one for one in read_log(log).transactions}
    places = zip(traffic.file.tolist(), traffic.end.tolist(), strict=True)
    found = [by_end[Place(traffic.files[file], end)] for file, end in places]
    times = np.maximum.accumulate(np.array([one.time for one in found], np.int64))
    first = int(np.searchsorted(times, begin))
    return Committed(
        replace(_since(traffic, first), time=times[first:], clock=Clock.GIVEN),
        {one.key: number for number, one in enumerate(found[first:])},
        is_whole=not first,
    )


def _since(traffic: SetTraffic, first: int) -> SetTraffic:
    """Return a copy of the traffic (transactions with their bytes) of a binlog set without the transactions before the
    index ``first``. The other transactions are renumbered from 0.
    """
    if not first:
        return traffic

    def sent(number: int | None) -> Sent:
        one = traffic.sent(number)
        kept = one.transaction >= first
        return Sent(one.transaction[kept] - first, one.bytes[kept], one.events[kept])

    return replace(
        traffic,
        sent=sent,
        **{name: getattr(traffic, name)[first:] for name in ("time", "end", "file", "stand_in_bytes")},
    )


def _outages(history: Sequence[Happening], shift: float) -> tuple[Outage, ...]:
    """Return the times in which a link was down, as found in the link's ``history``. They are seconds since the first
    commit of the run, so that a simulation can repeat the outages.

    ``shift`` is the time of the first commit on the clock of the history, seconds.
    """
    found: list[Outage] = []
    for one in history:
        last, at = found[-1] if found else None, one.time - shift
        if one.kind == "cut" and (last is None or last.end is not None):
            found.append(Outage(at, None))
        elif one.kind == "healed" and last is not None and last.end is None:
            found[-1] = replace(last, end=at)
        elif one.kind == "connected" and last is not None and last.end is not None and last.connected is None:
            found[-1] = replace(last, connected=at)
    return tuple(found)


# -- evaluation


def figures(measured: Measured, *, limit: int) -> Run:
    """Return the results of a measured run: the lags of the nodes, and the bytes of the links (connections between
    nodes).

    ``limit`` is a lag, microseconds. The results have the time during which the lag of a node was above this limit.
    """
    router, setting = Router(measured.plan), measured.setting
    groups = [Group(setting, router.routes(node, setting), (node,)) for node in measured.plan.nodes]
    flows = {
        group: [_flow(measured, group.nodes[0], *each) for each in enumerate(group.routes)]
        for group in groups
    }
    outcomes = [outcomes_of([group], of_group, limit=limit)[0] for group, of_group in flows.items()]
    return run_of(groups, outcomes, flows.__getitem__, method=Method.MEASURED)


def _flow(measured: Measured, node: PlannedNode, number: int, route: Route) -> Flow:
    """Return the transactions that a node received over one channel, and their bytes, from the logs of a measured run.
    Times are microseconds since the first commit.

    ``number`` is the channel's index in the node's ``channels``. ``route`` has the links from the origin (the node that
    wrote the binlog) to the node. If several channels share a link, the first one also has the link's bytes that belong
    to no channel.
    """
    channel, last = node.channels[number], route.hops[-1]
    leg = channel.legs[-1]
    sharing = [one for one in node.channels if one.legs[-1].link == leg.link]
    is_first = channel is sharing[0]
    origin, log = measured.committed[channel.origin], measured.received[node.name, channel.name]
    traffic = origin.traffic
    crossed = content(traffic, last.form, last.filter)
    sizes = np.zeros(len(traffic), np.int64)
    sizes[crossed.transaction] = crossed.bytes

    received = [(origin.keys[one.key], one) for one in log.transactions if one.key in origin.keys]
    times = np.full(len(traffic), -1, np.int64)
    for transaction, one in received:
        times[transaction] = one.time
    expected = crossed.transaction if crossed.counts is None else crossed.transaction[crossed.counts]
    came = expected[times[expected] >= 0]
    committed = traffic.time[came] - traffic.time[:1]

    parts = [one for _, one in received]
    if is_first and all(measured.committed[one.origin].is_whole for one in sharing):
        parts.append(log.before)
    nbytes = sum(one.bytes for one in parts)
    # A real replica in place of a slave reads MySQL's protocol, too.
    if last.form in (Form.PACKETS, Form.STAND_INS):
        nbytes += PACKET_BYTES * sum(one.events for one in parts)
    received_at = np.maximum.accumulate(times[came]) - traffic.time[:1]
    return Flow(
        Arrived(came, committed, received_at, len(expected) - len(came)),
        nbytes,
        None,
        (measured.crossed[leg.link] if is_first else 0) - nbytes,
        [
            (_microseconds(one.start), None if one.end is None else _microseconds(one.end))
            for one in measured.outages[leg.link]
        ],
        lambda: (committed, sizes[came]),
        # An event leaves the source a delay before it arrives.
        lambda: (received_at - _microseconds(leg.shape.delay), sizes[came], np.zeros_like(came)),
    )


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)

"""Experiments: comparisons of variants, which are ways to bring the binlog to the slaves.

The definition is a configuration file ``EXPERIMENT.toml``. The topologies with which the variants are run are derived
from the topology in this file. Each variant runs with real processes, and is simulated for comparison.

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
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pymysql
from pydantic import ConfigDict, Field, SkipValidation

from dumpfilter.analyse.traffic.transactions import Sent
from dumpfilter.base.errors import BinlogTruncated, DumpfilterError, OptionError
from dumpfilter.base.options.config_files import Model, load_toml
from dumpfilter.base.options.values import did_you_mean
from dumpfilter.base.waiting import watching
from dumpfilter.binlog.context_events import decode_rotate
from dumpfilter.binlog.events import GTIDS, LOG_EVENT_ARTIFICIAL_F, LOG_EVENT_RELAY_LOG_F, OF_FILES, EventType
from dumpfilter.binlog.gap_events import is_gap_event
from dumpfilter.binlog.gtid_events import decode_gtid
from dumpfilter.binlog.reader import iter_events
from dumpfilter.simulation import flow, lag
from dumpfilter.simulation import plan as plans
from dumpfilter.simulation.results import Method, Results, Run, Setting, SourceFigures, Variant
from dumpfilter.simulation.simulate import Options, simulate, source_figures
from dumpfilter.spark_jobs.engines import ThreadRunner
from dumpfilter.spark_jobs.simulation import read_traffic
from dumpfilter.testbed import Testbed, TestbedError, TestbedLink, TestbedNode, up
from dumpfilter.testbed.binlogs import WatchedSet
from dumpfilter.testbed.node import Feed
from dumpfilter.testbed.nodes import Master, Slave, StartedServer
from dumpfilter.testbed.values import NOWHERE, Place
from dumpfilter.topology import parse_toml_topology, to_toml, topology_from
from dumpfilter.topology.links.shape import Happening, Outage
from dumpfilter.topology.model import Node, NodeError, Rate, Reading, Texts, Time, Topology, check_topology

# -- the definition

_BY_NAME = ConfigDict(populate_by_name=True)
"""The pydantic configuration of a model whose fields Python code sets by their names, and a TOML file by their keys
(aliases).
"""


class Load(Model):
    """The table ``[load.NODE]`` of an experiment's configuration file: SQL statements that run on the server NODE
    during all phases of the experiment.

    One statement runs at each interval. After the last statement the first one runs again.
    """

    sql: Annotated[Texts, Field(min_length=1)]
    """The statements, which are run in turn. ``{n}`` stands for the number of the statement, from 1."""
    every: Annotated[Time, Field(gt=0)]
    """The interval between the starts of two statements, seconds."""


class Change(Model):
    """A table below ``[phase.links]`` of an experiment's configuration file: the rate, delay and jitter that a link (a
    connection between two nodes) has during a phase. None: the value of the topology.
    """

    rate: Rate | None = None
    delay: Time | None = None
    jitter: Time | None = None


class Phase(Model):
    """The table ``[[phase]]`` of an experiment's configuration file: a period of the experiment, with its faults, such
    as cut connections or killed processes. The faults end with the phase.
    """

    model_config = _BY_NAME

    seconds: Annotated[Time, Field(gt=0, alias="for")]
    name: str = ""
    cut: Texts = ()
    """The names of the links (connections between two nodes) that are cut during this phase."""
    silent: Texts = ()
    """The names of the links (between two nodes) that pass no byte although their connections stay open."""
    killed: Texts = ()
    """The names of the nodes that are killed at the beginning of the phase, and started again at its end."""
    links: dict[str, Change] = Field({})
    """The rates and delays of links in this phase that differ from the topology's, by the link's name."""


class Experiment(Model):
    """An experiment: a topology of servers and slaves, the statements that run, the phases with faults, and the
    compared variants (ways to bring the binlog to the slaves).
    """

    model_config = _BY_NAME

    name: str = ""
    topology: Annotated[Topology, SkipValidation]
    """The topology. In the file it is a short string, the name of a file beside the experiment's, or a text in TOML."""
    phases: tuple[Phase, ...] = Field((), alias="phase")
    loads: dict[str, Load] = Field({}, alias="load")
    """The statements that run on each server, by the node's name."""
    variants: Annotated[tuple[Variant, ...], Field(min_length=1)] = (Variant.MASTER,)
    repetitions: Annotated[int, Field(ge=1, le=1000)] = 1
    limit: Time = 1.0
    """The limit for the lag, seconds. The results say how long each node's lag was above this limit."""
    patience: Time = 300.0
    """The time limit, after the last phase, for all nodes to catch up, seconds."""


def load_experiment(path: Path) -> Experiment:
    """Read an experiment from a TOML file and check it. An experiment compares ways to bring the binlog to the slaves.
    Raises OptionError, which names the file and the key, for an invalid experiment.
    """
    file = load_toml(path, Experiment)
    try:
        topology = _topology(file.topology, path)
        experiment = file.model_copy(update={"name": file.name or path.stem, "topology": topology})
        check(experiment)
    except OptionError as error:
        raise OptionError(f"{path}: {error}") from None
    return experiment


def _topology(text: object, path: Path) -> Topology:
    """Return the topology that the key ``topology`` of an experiment's configuration file describes.

    ``text`` is a short string such as ``m >> web``, the name of a TOML file, or TOML itself. ``path`` is the
    experiment's file, beside which a named file is sought. Raises OptionError for an invalid topology.
    """
    if not isinstance(text, str):
        raise OptionError("topology: must be a text: a short string, the name of a TOML file, or its content")
    if "[node." in text:
        return parse_toml_topology(text, file="topology", directory=path.parent, name=path.stem)
    return topology_from(path.parent / text if text.endswith(".toml") and ">>" not in text else text)


def check(experiment: Experiment) -> None:
    """Check that an experiment (the run of a topology with load and faults) is possible, for example that its links and
    nodes exist. Raises OptionError that names the key of the configuration file.
    """
    topology = experiment.topology
    links = [link.name for link in topology.links]
    nodes = [node.name for node in topology.nodes]
    for number, phase in enumerate(experiment.phases, start=1):
        where = f"phase[{number}]"
        for key in ("cut", "silent", "links"):
            _check_names(f"{where}.{key}", getattr(phase, key), links, "link")
        _check_names(f"{where}.killed", phase.killed, nodes, "node")
        for node in experiment.loads.keys() & phase.killed:
            raise OptionError(
                f"{where}.killed: {node} has a load, whose statements would fail; kill another node, or leave out "
                f"load.{node}"
            )
    for node in experiment.loads:
        key = f"load.{node}"
        _check_names(key, [node], nodes, "node")
        if topology[node].kind not in ("server", "running"):
            raise OptionError(f"{key}: {node} is no server, and takes no SQL; name a node with server = …")
    if not experiment.loads and not any(node.is_files for node in topology.nodes):
        raise OptionError("load: nothing would be written; add [load.NODE] with sql, or read from a workload")


def _check_names(key: str, names: Iterable[str], known: list[str], what: str) -> None:
    """Raise OptionError for a name in a configuration file that is not in ``known``.

    ``names`` are the names to check, such as those of links. For the error's text, ``key`` is the configuration file's
    key that has the names, and ``what`` says what they name, such as ``link``.
    """
    for name in names:
        if name not in known:
            raise OptionError(f"{key}: there is no {what} {name!r}{did_you_mean(name, known)}")


# -- the variants

KEEP_RELAY_LOGS = "--relay-log-purge=0"
"""The option by which a real replica keeps applied relay logs, from which its received transactions are read."""

FILTER_ON_SLAVE = "--filter-on=slave"


def topology_for(topology: Topology, variant: Variant) -> Topology:
    """Return a copy of ``topology`` that is changed for a variant of an experiment. A variant is a way to bring the
    binlog to the slaves. Depending on the variant, the master or the slaves filter, or MySQL or MariaDB servers replace
    the slaves.

    Raises OptionError for a variant that the topology does not support.
    """
    masters = _masters(topology) if variant is Variant.PLAIN else {}
    nodes = tuple(
        _keeping(_node(topology, node, variant)) for node in topology.nodes if node.name not in masters
    )
    found = Topology(nodes, topology.name)
    try:
        check_topology(found)
    except NodeError as error:
        raise OptionError(f"variants: {variant}: {error.node}: {error.key}: {error.what}") from None
    return found


def planned(topology: Topology, variant: Variant) -> Topology:
    """Return the topology (nodes, and which node reads which) that is simulated for a variant of an experiment. A
    variant is a way to bring the binlog to the slaves.

    In most variants the result is the original topology. The variants that replace slaves by real servers are simulated
    from the changed topology, because such a server sends its own replicas what it has applied.
    """
    return topology_for(topology, variant) if variant in (Variant.REPLICA, Variant.PLAIN) else topology


def links_for(topology: Topology, variant: Variant) -> dict[str, str]:
    """Return a dictionary from the name of each link in ``topology`` to the link's name when a variant of an experiment
    is run. A variant is a way to bring the binlog to the slaves.

    Plain replication (``Variant.PLAIN``) has no masters of dumpfilter. The links to these masters are left out. A link
    ``m:web`` from a master ``m`` that reads ``db`` is called ``db:web``.
    """
    masters = _masters(topology) if variant is Variant.PLAIN else {}
    return {
        link.name: f"{masters.get(link.source, link.source)}:{link.target}"
        for link in topology.links
        if link.target not in masters
    }


def _masters(topology: Topology) -> dict[str, str]:
    """Return a dictionary from the name of each master of dumpfilter to the name of the node that the master reads."""
    return {node.name: node.reads[0].source for node in topology.nodes if node.kind == "master"}


def simulated(topology: Topology, outages: Mapping[str, tuple[Outage, ...]]) -> Topology:
    """Return a copy of ``topology`` for the simulation that is compared with a measured run. In the copy each link
    (connection between two nodes) has the outages that it had in the run.
    """

    def node_for(node: Node) -> Node:
        def link(one: Reading) -> dict[str, Any]:
            return {"link": replace(one.link, outages=outages.get(f"{one.source}:{node.name}", ()))}

        return _with_reads(node, link)

    return Topology(tuple(map(node_for, topology.nodes)), topology.name)


def _node(topology: Topology, node: Node, variant: Variant) -> Node:
    match variant:
        case Variant.NONE:
            return _with_reads(node, lambda _: {"rules": ()})
        case Variant.SLAVE if node.kind == "slave":
            return node.with_options(FILTER_ON_SLAVE)
        case Variant.SLAVE if node.server and any(topology[one.source].is_own for one in node.reads):
            return _filtering_alone(node)
        case Variant.REPLICA if node.kind == "slave":
            return _as_replica(topology, node, variant)
        case Variant.PLAIN if node.reads:
            return _at_the_source(topology, node)
    return node


def _with_reads(node: Node, change: Callable[[Reading], dict[str, Any]]) -> Node:
    """Return a copy of the node in which its sources have other properties, such as filter rules or links.

    ``change`` is called with each source, and returns a dictionary of the properties that differ.
    """
    return node.with_(reads=tuple(one.model_copy(update=change(one)) for one in node.reads))


def _filtering_alone(node: Node) -> Node:
    """Return the replica ``node`` (a MySQL or MariaDB server) without a filter on its master: the filter rules of its
    source become options of the replica's own command line.

    Raises OptionError for a replica with several sources.
    """
    if len(node.reads) > 1:
        raise OptionError(
            f"variants: {Variant.SLAVE}: {node.name} has several sources, and its rules belong to channels; "
            "leave the variant out, or use slaves of dumpfilter"
        )
    rules = tuple(f"--{rule.removeprefix('--')}" for rule in node.reads[0].rules)
    return _with_reads(node, lambda _: {"rules": ()}).with_options(*rules)


def _at_the_source(topology: Topology, node: Node) -> Node:
    """Return a real replica (MySQL or MariaDB server) in place of ``node``, for plain replication. The replica reads
    the sources of the node's masters directly, and filters for itself.

    ``topology`` has the masters. Raises OptionError if two of them have the same source.
    """
    masters = _masters(topology)
    replica = _as_replica(topology, node, Variant.PLAIN) if node.kind == "slave" else node
    found = _with_reads(replica, lambda one: {"source": masters.get(one.source, one.source)})
    if len({one.source for one in found.reads}) < len(found.reads):
        raise OptionError(
            f"variants: {Variant.PLAIN}: {node.name} reads two masters of one source, which a server reads once; leave "
            "the variant out, or one of the masters"
        )
    return found


def _as_replica(topology: Topology, node: Node, variant: Variant) -> Node:
    """Return a real replica (MySQL or MariaDB server) that replaces the slave ``node`` of dumpfilter in a variant of an
    experiment.

    Raises OptionError if a binlog that the slave reads was not written by a real server of the topology.
    """
    origins = _origins(topology, node)
    for origin in origins:
        if not origin.server:
            raise OptionError(
                f"variants: {variant}: {node.name} would apply the events of {origin.name}, whose tables it does not "
                "have; let the topology begin with a real server"
            )
    # A system that has MySQL beside this machine's is named by the origin alone.
    return node.with_(server=origins[0].server, root=origins[0].root, role=None, options=())


def _origins(topology: Topology, node: Node) -> list[Node]:
    return [origin for one in node.reads for origin in _origins(topology, topology[one.source])] or [node]


def _keeping(node: Node) -> Node:
    """Return the node with the option by which a real replica (MySQL or MariaDB server) keeps its relay logs. The lag
    of the replica is measured from these logs. Other nodes are returned unchanged.
    """
    return node.with_options(KEEP_RELAY_LOGS) if node.server and node.reads else node


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


def read_log(watched: WatchedSet) -> list[Logged]:
    """Read a binlog or relay log, and return its transactions with the times at which these were complete in the log.
    The first item is no transaction: it counts the source's events before the first transaction. An incomplete last
    event is left out.

    A transaction that an outage interrupted, and that the source sent again, is returned once.
    """
    before, *read = _read(path for path, _ in watched.files())
    # An outage cut a transaction that is followed by itself. The source sent it again from its beginning.
    transactions = [
        one for one, following in zip_longest(read, read[1:]) if not following or one.key != following.key
    ]
    for one in transactions:
        reached = watched.reached(one.end)
        one.time = -1 if reached is None else _microseconds(reached)
    return [before, *transactions]


def _read(paths: Iterable[Path]) -> list[Logged]:
    """Return the transactions in the files of a binlog or relay log. The first item of the list is no transaction: it
    counts the source's events before the first transaction.

    Some events between transactions are left out. They are artificial events, which a server makes for a replica that
    connects, and events that a server sends again, such as the first events of a file.
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


class Committed(NamedTuple):
    """The transactions that one origin (a server that wrote a binlog) committed in a run, with the measured commit
    times.
    """

    traffic: plans.SetTraffic
    keys: Mapping[Key, int]
    """The index of each transaction, by its identity (GTID or position)."""
    is_whole: bool = True
    """Whether the object has all transactions of the binlog set. If False, the transactions before the run are left
    out.
    """


class Measured(NamedTuple):
    """The measurements of one run of an experiment: the transactions that servers committed, the logs that nodes
    received, and the traffic of each link. The results of the run are computed from them.
    """

    plan: plans.Plan
    setting: Setting
    committed: Mapping[str, Committed]
    """The committed transactions of each node that writes a binlog, by the node's name."""
    received: Mapping[tuple[str, str], list[Logged]]
    """The transactions in the received log of each channel, by the names of the node and of the source that it reads.
    """
    crossed: Mapping[str, int]
    """The bytes that crossed each link and reached its target, with the protocols' overhead, by the link's name."""
    outages: Mapping[str, tuple[Outage, ...]]
    """The outages of each link. Their times are seconds since the first commit of the run."""


def run_experiment(experiment: Experiment, tell: Tell = lambda _: None) -> Results:
    """Run and simulate each variant of an experiment (way to bring the binlog to the slaves), and return all results.

    If the experiment has faults that cannot be simulated, nothing is simulated, and the results have a warning.
    ``tell`` is called with messages about the progress. Raises DumpfilterError, for example if a node does not start or
    does not catch up in time. All processes have ended in any case.
    """
    runs: list[Run] = []
    sources: tuple[SourceFigures, ...] = ()
    warnings: list[str] = []
    limit = _microseconds(experiment.limit)
    # Cut links are the only faults that a simulation supports.
    is_simulated = not any(phase.silent or phase.killed or phase.links for phase in experiment.phases)
    if not is_simulated:
        warnings.append("a phase kills nodes, silences links or changes links, so that nothing was simulated")
    for variant in experiment.variants:
        for repetition in range(1, experiment.repetitions + 1):
            measured = _run(experiment, variant, repetition, tell)
            found = [figures(measured, limit=limit)]
            traffics = {name: one.traffic for name, one in measured.committed.items()}
            sources = sources or tuple(source_figures(*one) for one in traffics.items())
            if is_simulated:
                plan = plans.plan_topology(simulated(planned(experiment.topology, variant), measured.outages))
                results = simulate(plan, traffics, Options((measured.setting,), limit))
                found += results.runs
                warnings += results.warnings
            runs += (one.model_copy(update={"repetition": repetition}) for one in found)
    return Results(
        name=experiment.name,
        command="dumpfilter topology run",
        sources=sources,
        topology=to_toml(experiment.topology),
        limit=limit,
        runs=tuple(runs),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _run(experiment: Experiment, variant: Variant, repetition: int, tell_all: Tell) -> Measured:
    def tell(text: str) -> None:
        tell_all(f"{variant}, run {repetition} of {experiment.repetitions}: {text}")

    tell("starting")
    topology = topology_for(experiment.topology, variant)
    plan = plans.plan_topology(planned(experiment.topology, variant))
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
    name = f"{RELAY_LOG}-{feed.channel}" if feed.channel else RELAY_LOG
    return WatchedSet(node.server.data / f"{name}.index")


def run_phase(bed: Testbed, phase: Phase, names: Mapping[str, str], wait: Callable[[float], None]) -> None:
    """Run one phase of an experiment: cause its faults (such as cut links and killed processes), call ``wait`` with its
    length in seconds, and end the faults.

    ``bed`` is the running topology. ``names`` maps the name that a link has in the experiment to its name in ``bed``.
    Faults of links and nodes that ``bed`` does not have are left out. If ``wait`` raises an error, the faults do not
    end.
    """
    end = time.monotonic() + phase.seconds

    def links(given: Iterable[str]) -> list[TestbedLink]:
        return [bed.link(names[name]) for name in given if name in names]

    for link in links(phase.cut):
        link.cut()
    for link in links(phase.silent):
        link.silence()
    for name, change in phase.links.items():
        for link in links([name]):
            link.set(**{key: value for key, value in vars(change).items() if value is not None})
    killed = [bed[name] for name in phase.killed if name in bed.nodes]
    for node in killed:
        node.kill()
    wait(end - time.monotonic())
    for link in links(dict.fromkeys((*phase.cut, *phase.silent, *phase.links))):
        link.restore()
    for node in killed:
        node.start()


@contextlib.contextmanager
def _loads(bed: Testbed, loads: Mapping[str, Load]) -> Iterator[Callable[[float], None]]:
    """Run SQL statements again and again on servers of the running topology ``bed``, until the ``with`` block ends.
    ``loads`` maps a node's name to the statements and their interval.

    The ``with`` statement yields a function that waits for a number of seconds. If a statement fails, no more
    statements run on its server. The yielded function then raises TestbedError at once, or at its next call. If it is
    not called again, the end of the block raises the error.
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

    pool = futures.ThreadPoolExecutor(len(loads) or 1, "load")
    running = [pool.submit(run, *one) for one in loads.items()]

    def wait(seconds: float) -> None:
        # The last item never ends, so that the wait is not over when all statements are.
        ended, _ = futures.wait([*running, futures.Future()], max(0.0, seconds), futures.FIRST_EXCEPTION)
        for one in ended:
            one.result()

    try:
        yield wait
    finally:
        over.set()
        # After an error or Ctrl-C nothing waits for a long statement, which ends with its server.
        pool.shutdown(wait=False)
    for one in running:
        one.result()


def _committed(log: WatchedSet, plan: plans.Plan, begin: int) -> Committed:
    """Return the transactions that a node committed since the beginning of a run, with measured commit times. The node
    is an origin of the topology (a server that wrote a binlog), and writes the binlog ``log``.

    ``plan`` has all filters of the topology. For each filter, the result has the bytes of the transactions that the
    filter passes. ``begin`` is the time at which the run began, microseconds (``time.monotonic``).
    """
    traffic: plans.SetTraffic = read_traffic(log.source, plan.filters, ThreadRunner())
    before, *logged = read_log(log)
    by_end = {one.end: one for one in logged}
    places = zip(traffic.file.tolist(), traffic.end.tolist(), strict=True)
    if len(by_end) < len(traffic):
        raise TestbedError(f"{log.source}: lacks GTID events; read MySQL 5.7, MariaDB 10.0 or later")
    found = [by_end[Place(traffic.files[file], end)] for file, end in places]
    times = np.maximum.accumulate(np.array([one.time for one in found], np.int64))
    given = replace(traffic, time=times, clock=plans.Clock.GIVEN)
    first = int(np.searchsorted(times, begin))
    return Committed(
        _since(given, first, before) if first else given,
        {one.key: number for number, one in enumerate(found[first:])},
        is_whole=not first,
    )


def _since(traffic: plans.SetTraffic, first: int, before: Logged) -> plans.SetTraffic:
    """Return a copy of the traffic (transactions with their bytes) of a binlog set without the transactions before the
    index ``first``, and without the events ``before`` all transactions. The other transactions are renumbered from 0.
    """

    def sent(number: int | None) -> Sent:
        one = traffic.sent(number)
        kept = one.transaction >= first
        nbytes, events = one.bytes[kept], one.events[kept]
        if kept.all():
            # The first transaction that the filter passes has the bytes of the events before it.
            nbytes[:1] -= before.bytes
            events[:1] -= before.events
        return Sent(one.transaction[kept] - first, nbytes, events)

    return replace(
        traffic,
        sent=sent,
        **{name: getattr(traffic, name)[first:] for name in ("time", "end", "file", "stand_in_bytes")},
    )


def _outages(history: Sequence[Happening], shift: float) -> tuple[Outage, ...]:
    """Return the times in which a link was down, as found in the link's ``history``. The times are seconds since the
    first commit of the run, so that a simulation can repeat the outages. An outage that has not ended has the end None.

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
    router, setting = flow.Router(measured.plan), measured.setting
    groups = [flow.Group(setting, router.routes(node, setting), (node,)) for node in measured.plan.nodes]
    flows = {
        group: [_flow(measured, group.nodes[0], *each) for each in enumerate(group.routes)]
        for group in groups
    }
    outcomes = [flow.outcomes_of([group], of_group, limit=limit)[0] for group, of_group in flows.items()]
    return flow.run_of(groups, outcomes, flows.__getitem__, method=Method.MEASURED)


def _flow(measured: Measured, node: plans.PlannedNode, number: int, route: flow.Route) -> flow.Flow:
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
    origin, (before, *log) = measured.committed[channel.origin], measured.received[node.name, channel.name]
    traffic = origin.traffic
    crossed = flow.content(traffic, last.form, last.filter)
    sizes = np.zeros(len(traffic), np.int64)
    sizes[crossed.transaction] = crossed.bytes

    received = [(origin.keys[one.key], one) for one in log if one.key in origin.keys]
    times = np.full(len(traffic), -1, np.int64)
    for transaction, one in received:
        times[transaction] = one.time
    expected = crossed.transaction if crossed.counts is None else crossed.transaction[crossed.counts]
    has_come = times[expected] >= 0
    came = expected[has_come]
    since_start = traffic.time - traffic.time[:1]
    committed, lost = since_start[came], since_start[expected[~has_come]]

    parts = [one for _, one in received]
    if is_first and all(measured.committed[one.origin].is_whole for one in sharing):
        parts.append(before)
    nbytes = sum(one.bytes for one in parts)
    # A real replica in place of a slave reads MySQL's protocol, too.
    if last.form in (flow.Form.PACKETS, flow.Form.STAND_INS):
        nbytes += flow.PACKET_BYTES * sum(one.events for one in parts)
    received_at = np.maximum.accumulate(times[came]) - traffic.time[:1]
    return flow.Flow(
        flow.Arrived(came, committed, received_at - committed, lost),
        nbytes,
        None,
        (measured.crossed[leg.link] if is_first else 0) - nbytes,
        [
            (_microseconds(one.start), None if one.end is None else _microseconds(one.end))
            for one in measured.outages[leg.link]
        ],
        lambda window: (
            lag.offered(committed, sizes[came], window),
            # An event leaves the source a delay before it arrives.
            lag.carried(
                received_at - _microseconds(leg.shape.delay), sizes[came], np.zeros_like(came), window
            ),
        ),
    )


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)

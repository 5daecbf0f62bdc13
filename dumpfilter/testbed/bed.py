"""A running topology: its nodes (servers, masters, slaves) and the links between them. A :class:`Testbed` starts the
nodes, waits until they have caught up, checks their data, and ends their processes.

The check is whether the law of dumpfilter holds. By this law, filtering between the server that wrote a binlog and a
node must be invisible to the node's data, position and GTID set. A monitor measures lags and bytes over the run.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import numpy as np

from dumpfilter.base.endings import uninterrupted
from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.options.values import did_you_mean
from dumpfilter.base.waiting import watching
from dumpfilter.testbed.errors import NodeIsDown, NotCaughtUp, StartFailed, TestbedError, Unknown
from dumpfilter.testbed.law import References, check_law
from dumpfilter.testbed.node import Feed, Ground, TestbedLink, TestbedNode
from dumpfilter.testbed.nodes import Files, Master, RunningServerNode, Slave, StartedServer
from dumpfilter.testbed.servers.sql import databases_of
from dumpfilter.testbed.values import TestbedStatus
from dumpfilter.topology.links.client import LinkProcess
from dumpfilter.topology.model import Kind

END_PERIOD = 0.025
"""The interval at which the ends of the binlogs are sampled, seconds. It is the resolution of the lag."""
SAMPLE_PERIOD = 0.5
"""The interval at which the lag of nodes and the bytes of links are sampled, seconds."""
MOST_SAMPLES = 7200
"""The limit of the lag samples that are kept for a node, an hour's. Beyond it, older samples are thinned out."""
_MOST_PLOTTED = 300

_KINDS: Mapping[Kind, type[TestbedNode]] = {
    "server": StartedServer,
    "running": RunningServerNode,
    "recording": Files,
    "workload": Files,
    "master": Master,
    "slave": Slave,
}


class Testbed(AbstractContextManager["Testbed"]):
    """A running topology: the processes of database servers, masters and slaves, and the links that connect them. At
    the end of the ``with`` block all its processes are ended.

    Parameters:
        ground: the topology's model, directory, processes and passwords, which all nodes share.
        links: the process through which all connections between nodes go.
        closing: the calls that end what the topology uses, such as the process of the links. The topology takes them
            over, and :meth:`down` makes them.
    """

    __test__ = False

    def __init__(self, ground: Ground, links: LinkProcess, closing: ExitStack) -> None:
        self.topology = topology = ground.topology
        self.directory = ground.directory
        self.pid = os.getpid()
        self._ground = ground
        self._link_process = links
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._references = References(ground)
        self.links: Mapping[str, TestbedLink] = {
            link.name: TestbedLink(links, link, wait_timeout=ground.wait_timeout) for link in topology.links
        }
        """All links (network connections between two nodes) by name (``SOURCE:TARGET``)."""
        nodes: dict[str, TestbedNode] = {}
        for node in topology.nodes:
            feeds = []
            for reading in node.reads:
                channel = reading.source.lower() if len(node.reads) > 1 else ""
                link = self.links.get(f"{reading.source}:{node.name}")
                feeds.append(Feed(reading, channel, nodes[reading.source], link))
            nodes[node.name] = _KINDS[node.kind](ground, node, feeds)
        self.nodes: Mapping[str, TestbedNode] = nodes
        """All nodes (servers, masters, slaves and binlog sets) by name, sources before their readers."""
        self._samples: dict[str, list[tuple[float, float, int]]] = {
            name: [] for name, node in nodes.items() if node.feeds
        }
        """The lag samples of each node, by the node's name. A sample is a Unix time, and the node's lag in seconds and
        bytes.
        """
        # The last call is made first, and an error of one call does not keep the others from their work.
        self._closing = closing.pop_all()
        self._closing.callback(ground.end_all)
        self._closing.callback(self._at_once, TestbedNode.close)
        self._closing.callback(self._references.close)

    # -- start

    def start(self) -> None:
        """Start all nodes of the topology, each after the nodes from which it replicates, and wait until they are
        ready.

        Then recordings (replayed binlogs) and workloads (generated binlogs) begin to write, and the clocks of the
        links' scheduled outages start. With ``hold=True`` (see :func:`up`) these wait for :meth:`release` instead.

        Raises StartFailed, or another DumpfilterError, if a node does not start. All processes are killed then.
        """
        started: dict[str, Future[None]] = {}
        with ThreadPoolExecutor(len(self.nodes) or 1, "start") as pool:
            try:
                for node in self.nodes.values():
                    started[node.name] = pool.submit(self._start, node, dict(started))
                for future in started.values():
                    # A source comes before its readers, so that the error that began it all is raised.
                    future.result()
            except BaseException:
                # The pool waits for its threads, and these wait for the processes that they start.
                self._ground.end_all()
                raise
        if not self._ground.holds_files:
            self.release()
        self._closing.enter_context(watching(self._monitor, "monitor"))

    def _start(self, node: TestbedNode, started: Mapping[str, Future[None]]) -> None:
        for feed in node.feeds:
            if started[feed.source.name].exception() is not None:
                # The source's own error is the one that is told.
                raise StartFailed(f"{node.name}: its source {feed.source.name} did not start")
            if feed.link is not None:
                feed.link.open(*feed.source.address_for(node.kind))
        node.start()

    def release(self) -> None:
        """Let the binlogs grow, and start the clocks of the links' scheduled outages, in a topology that was started
        with ``hold=True`` (see :func:`up`). Without ``hold`` that has already happened at the start.

        Nodes that are recorded or generated binlogs begin to write their files, transaction by transaction. The times
        of outages count from this call. A node that was stopped begins when it is started.
        """
        for link in self.links.values():
            link.begin_outages()
        for node in self.nodes.values():
            if isinstance(node, Files) and node.is_running:
                node.replay.resume()

    # -- nodes and links

    def __getitem__(self, name: str) -> TestbedNode:
        """Return the node (a server, a master, a slave or a binlog set of the topology) with the name ``name``. Raises
        Unknown if there is no such node.
        """
        if name not in self.nodes:
            raise Unknown(f"there is no node {name!r}{did_you_mean(name, list(self.nodes))}")
        return self.nodes[name]

    def __iter__(self) -> Iterator[TestbedNode]:
        return iter(self.nodes.values())

    def link(self, source: str, target: str = "") -> TestbedLink:
        """Return the link (network connection) from ``source`` to ``target``. Raises Unknown if there is no such link
        or node.

        Without ``target``, ``source`` is the link's name ``SOURCE:TARGET``. If a master of dumpfilter stands between
        the two nodes, the link from this master to ``target`` is returned.
        """
        name = f"{source}:{target}" if target else source
        if name in self.links:
            return self.links[name]
        source, _, target = name.partition(":")
        if target:
            self[source]
            for feed in self[target].feeds:
                reads = [one.source.name for one in feed.source.feeds]
                if feed.link is not None and isinstance(feed.source, Master) and source in reads:
                    return feed.link
        raise Unknown(f"there is no link {name!r}; there are {', '.join(self.links) or 'no links'}")

    # -- waiting

    def wait_caught_up(self, timeout: float | None = None, *, running_only: bool = False) -> None:
        """Wait until every node has applied (as a master: received) everything that its origins wrote before the call.

        The origins of a node are the nodes that wrote its data. With ``running_only`` nodes that do not run are left
        out. Otherwise NodeIsDown is raised for such a node. Raises NotCaughtUp after ``timeout`` seconds, and earlier
        if a replication thread has stopped with an error. None stands for the limit ``wait_timeout`` of :func:`up`.
        """
        self._catch_up(self._ground.deadline(timeout), running_only=running_only)

    def _catch_up(self, deadline: float, *, running_only: bool = False) -> None:
        self._check_all_run(running_only=running_only)
        for node in self.nodes.values():
            if node.feeds and (node.is_running or not running_only):
                node.catch_up(deadline)
        self._check_all_run(running_only=running_only)

    def _check_all_run(self, *, running_only: bool) -> None:
        """Raise NodeIsDown if a node does not run. Recordings (replayed binlogs) and workloads (generated binlogs) are
        excepted, because they may pause.

        With ``running_only`` nothing is checked, because the caller then leaves out nodes that do not run.
        """
        down = [node for node in self.nodes.values() if not isinstance(node, Files) and not node.is_running]
        if down and not running_only:
            states = "\n".join(f"{node.name}: the node is {node.state}, and may lack data" for node in down)
            raise NodeIsDown(
                f"{states}: start() it, or leave out nodes that do not run with running_only=True (for the command "
                "line: dumpfilter topology start, --running-only)"
            )

    def wait_done(self, timeout: float | None = None) -> None:
        """Wait until the binlog files of all recordings and workloads are complete.

        Such a node has no server. A recording replays a recorded binlog set, and a workload a generated one. Its
        transactions are written over time into files, which a master reads. Raises NotCaughtUp after ``timeout``
        seconds, and the error of a node that could not write its files. None stands for the limit ``wait_timeout`` of
        :func:`up`.
        """
        deadline = self._ground.deadline(timeout)
        for node in self.nodes.values():
            if isinstance(node, Files) and not node.replay.wait_done(max(deadline - time.monotonic(), 0.0)):
                raise NotCaughtUp(
                    f"{node.name}: the {node.kind} has not been written to its end in time; it is at "
                    f"{node.status().place}{' and paused' if node.state == 'stopped' else ''}"
                )

    def check(self, timeout: float | None = None, *, running_only: bool = False) -> None:
        """Wait until all nodes have caught up, and compare the data of each replica with what it would have if it read
        everything and filtered for itself.

        With ``running_only`` nothing waits for nodes that do not run, and real replicas (MySQL or MariaDB servers) that
        do not run are left out. A slave of dumpfilter is checked even then, since its files have its state. Without
        ``running_only`` NodeIsDown is raised for a node that does not run.

        Raises LawBroken for a difference, and NotCaughtUp if nodes do not catch up, or cannot be compared, in
        ``timeout`` seconds. Raises StartFailed if a server for the comparison does not start.
        """
        deadline = self._ground.deadline(timeout)
        self._catch_up(deadline, running_only=running_only)
        check_law(self.nodes, self._references, deadline)
        self._check_all_run(running_only=running_only)

    # -- status

    def status(self) -> TestbedStatus:
        """Return the status of the topology: state, position, lag and problems of each node, and state and bytes of
        each link (network connection).
        """
        # Nodes are asked together, so that their places are those of about one moment.
        nodes = dict(zip(self.nodes, self._at_once(TestbedNode.status), strict=True))
        counters = self._link_process.counters() if self.links else {}
        return TestbedStatus(
            name=self.topology.name,
            directory=str(self.directory),
            pid=self.pid,
            nodes=nodes,
            links={name: link.status(counters[name]) for name, link in self.links.items()},
            uptime=time.monotonic() - self._began,
            problems=tuple(problem for node in nodes.values() for problem in node.problems),
        )

    def report(self) -> dict[str, Any]:
        """Return a report of the run so far, as values that JSON can represent.

        The report is the topology's status, with the lag over time and its percentiles for each node that reads others.
        """
        told = self.status().as_dict()
        for name, samples in self._samples.items():
            node, lags = told["nodes"][name], [seconds for _, seconds, _ in samples] or [0.0]
            p50, p95, worst = np.quantile(lags, (0.50, 0.95, 1.0), method="higher").tolist()
            node["lag"] |= {"p50": p50, "p95": p95, "worst": worst}
            node["lag_over_time"] = samples[:: max(len(samples) // _MOST_PLOTTED, 1)]
        return told

    def _monitor(self, over: threading.Event) -> None:
        """Sample at intervals the ends of the nodes' binlogs, each node's lag and each link's bytes, until ``over`` is
        set.
        """
        next_sample = 0.0
        while not over.wait(END_PERIOD):
            # A node that is being killed at this moment has no status. The next sample may have it again.
            for node in self:
                if node.writes_binlog:
                    with contextlib.suppress(DumpfilterError, OSError):
                        node.watched.note()
            now = time.monotonic()
            if now >= next_sample:
                next_sample = now + SAMPLE_PERIOD
                self._sample(now)

    def _sample(self, now: float) -> None:
        with contextlib.suppress(DumpfilterError, OSError):
            for name, counters in self._link_process.counters().items():
                self.links[name].passed.append((now, counters.down))
        for name, samples in self._samples.items():
            with contextlib.suppress(DumpfilterError, OSError):
                if lags := [channel.lag for channel in self.nodes[name].channels()]:
                    samples.append((time.time(), *max(lags)))
                if len(samples) > MOST_SAMPLES:
                    samples[: MOST_SAMPLES // 2] = samples[: MOST_SAMPLES // 2 : 2]

    # -- the end

    def reset(self, timeout: float | None = None) -> None:
        """Bring the running topology back to the state that it had after :func:`up`, so that the next test can use it.

        Links that are cut or silent (pass no bytes) work again, and all get the rate and delay of the topology. Pauses
        and delays of nodes end, and stopped nodes start. On servers whose data only servers of the topology wrote,
        clients are disconnected, databases are dropped, and the ``init`` statements run again. Then the call waits
        until all nodes have caught up.

        ``timeout`` is in seconds. None stands for the limit ``wait_timeout`` of :func:`up`. Raises NotCaughtUp after
        this time, and TestbedError for a replica that keeps databases that its source has dropped.
        """
        deadline = self._ground.deadline(timeout)
        for link in self.links.values():
            link.restore()
        for node in self.nodes.values():
            node.start()
        servers = [node for node in self.nodes.values() if isinstance(node, StartedServer) and _is_ours(node)]
        for node in servers:
            # A lock that a client holds would also stop the end of a pause or of a delay.
            node.end_connections()
        for node in self.nodes.values():
            node.let_go()
        self._catch_up(deadline)
        for node in servers:
            if not node.feeds:
                node.drop_databases()
        self._catch_up(deadline)
        for node in servers:
            if node.feeds and (left := databases_of(node.server)):
                raise TestbedError(
                    f"{node.name}: has databases that its source has dropped: {', '.join(left)}; the topology "
                    "cannot be reset: start a new one"
                )
        for node in servers:
            node.run_init()
        self._catch_up(deadline)

    def down(self) -> None:
        """End all processes of the topology, and remove its files unless ``keep`` was given to :func:`up`. Further
        calls do nothing.

        A temporary directory, which :func:`up` created, is removed. In a directory that the user named, the logs stay.
        """
        with self._lock, uninterrupted():
            self._closing.close()

    def _at_once(self, call: Callable[[TestbedNode], Any]) -> list[Any]:
        """Call ``call`` for each node of the topology, each call in its own thread. Return the results in the nodes'
        order.
        """
        with ThreadPoolExecutor(len(self.nodes) or 1) as pool:
            return list(pool.map(call, self.nodes.values()))

    def __exit__(self, *_: object) -> None:
        self.down()


def _is_ours(node: TestbedNode) -> bool:
    """Tell whether all data of a server node comes from servers that were started for the topology. Then the data may
    be dropped and made again.
    """
    origins = [feed.origin for feed in node.feeds]
    return all(map(_is_ours, origins)) if origins else isinstance(node, StartedServer)

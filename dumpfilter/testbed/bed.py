"""The running topology: its nodes and links, waiting, the check of the law, and the end.

The law says that filtering on the way must be invisible to a node's data, position and GTID set.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from dumpfilter.base.endings import uninterrupted
from dumpfilter.base.options.near import did_you_mean
from dumpfilter.testbed.directory import KEPT, LOCK, State, remove_files
from dumpfilter.testbed.errors import NodeIsDown, NotCaughtUp, StartFailed, TestbedError, Unknown
from dumpfilter.testbed.file_nodes import Files
from dumpfilter.testbed.ground import Ground
from dumpfilter.testbed.law import References, check_law
from dumpfilter.testbed.links import TestbedLink
from dumpfilter.testbed.monitor import Monitor
from dumpfilter.testbed.node import Feed, TestbedNode
from dumpfilter.testbed.own_nodes import Master, Slave
from dumpfilter.testbed.server_nodes import RunningServerNode, StartedServer
from dumpfilter.testbed.values import TestbedStatus
from dumpfilter.topology.links.client import LinkProcess
from dumpfilter.topology.model import Kind, Link, Node

_Result = TypeVar("_Result")

_KINDS: Mapping[Kind, type[TestbedNode]] = {
    "server": StartedServer,
    "running": RunningServerNode,
    "recording": Files,
    "workload": Files,
    "master": Master,
    "slave": Slave,
}


class Testbed(AbstractContextManager["Testbed"]):
    """A running topology. At the end of the ``with`` block all processes that it started are ended.

    Parameters:
        ground: the directory, processes and secrets that the nodes share.
        state: the lock and the state file of the directory.
        links: the process through which all connections between nodes go.
        keep: whether the files stay after the end.
    """

    __test__ = False

    def __init__(self, ground: Ground, state: State, links: LinkProcess, *, keep: bool) -> None:
        self.topology = topology = ground.topology
        self.directory = ground.directory
        self._ground = ground
        self._state = state
        self._keep = keep
        self._link_process = links
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._is_down = False
        self._references = References(ground)
        self.links: Mapping[str, TestbedLink] = {
            link.name: TestbedLink(links, link, wait_timeout=ground.wait_timeout) for link in topology.links
        }
        """All links by name (``SOURCE:TARGET``)."""
        nodes: dict[str, TestbedNode] = {}
        for node in topology.nodes:
            nodes[node.name] = _KINDS[node.kind](ground, node, self._feeds(node, nodes))
        self.nodes: Mapping[str, TestbedNode] = nodes
        """All nodes by name, sources before their readers."""
        self._monitor = Monitor(self.nodes, self.links, links)

    def _feeds(self, node: Node, nodes: Mapping[str, TestbedNode]) -> list[Feed]:
        return [
            Feed(
                reading,
                reading.source if len(node.reads) > 1 else "",
                nodes[reading.source],
                self.links.get(Link(reading.source, node.name, reading.link).name),
            )
            for reading in node.reads
        ]

    # -- start

    def start(self) -> None:
        """Start all nodes, each as soon as the nodes that it reads run. Raises StartFailed."""
        started: dict[str, Future[None]] = {}
        with ThreadPoolExecutor(len(self.nodes) or 1, "start") as pool:
            try:
                for node in self.nodes.values():
                    started[node.name] = pool.submit(self._start, node, dict(started))
                done, _ = wait(started.values(), return_when=FIRST_EXCEPTION)
                for future in started.values():
                    # A source comes before its readers, so that the error that began it all is raised.
                    if future in done:
                        future.result()
            except BaseException:
                # The pool waits for its threads, and these wait for the processes that they start.
                self._ground.end_all()
                raise
        if not self._ground.holds_files:
            self.release()
        self._monitor.start()

    def _start(self, node: TestbedNode, started: Mapping[str, Future[None]]) -> None:
        for feed in node.feeds:
            if started[feed.source.name].exception() is not None:
                # The source's own error is the one that is told.
                raise StartFailed(f"{node.name}: its source {feed.source.name} did not start")
            if feed.link is not None:
                feed.link.open(*feed.source.address_for(node.kind))
        node.start()

    def release(self) -> None:
        """Let the recordings, workloads and scheduled outages of a topology begin that was started with ``hold``."""
        for link in self.links.values():
            link.begin_outages()
        for node in self.nodes.values():
            if isinstance(node, Files):
                node.release()

    # -- nodes and links

    def __getitem__(self, name: str) -> TestbedNode:
        """Return the node ``name``. Raises Unknown."""
        try:
            return self.nodes[name]
        except KeyError:
            raise Unknown(f"there is no node {name!r}{did_you_mean(name, list(self.nodes))}") from None

    def __iter__(self) -> Iterator[TestbedNode]:
        return iter(self.nodes.values())

    def link(self, source: str, target: str = "") -> TestbedLink:
        """Return the link (network connection) from ``source`` to ``target``. Raises Unknown.

        Without ``target``, ``source`` is the link's name ``SOURCE:TARGET``. If a master of dumpfilter stands between
        the two nodes, the link from this master to ``target`` is returned.
        """
        if not target:
            source, _, target = source.partition(":")
        found = self.links.get(f"{source}:{target}")
        if found is None:
            if target:
                self[source]
                for feed in self[target].feeds:
                    reads = [one.source.name for one in feed.source.feeds]
                    if feed.link is not None and isinstance(feed.source, Master) and source in reads:
                        return feed.link
            raise Unknown(
                f"there is no link {source}:{target}; there are {', '.join(self.links) or 'no links'}"
            )
        return found

    # -- waiting

    def wait_caught_up(self, timeout: float | None = None, *, running_only: bool = False) -> None:
        """Wait until every node has applied everything that its origins wrote before the call.

        The origins of a node are the nodes that wrote its data. With ``running_only`` nodes that do not run are left
        out. Otherwise NodeIsDown is raised for such a node. Raises NotCaughtUp after ``timeout`` seconds; None: the
        limit of :func:`up`.
        """
        self._catch_up(self._ground.deadline(timeout), running_only=running_only)

    def _catch_up(self, deadline: float, *, running_only: bool = False) -> None:
        self._check_all_run(running_only=running_only)
        for node in self.nodes.values():
            if node.feeds and (node.is_running or not running_only):
                node.catch_up(deadline)
        self._check_all_run(running_only=running_only)

    def _check_all_run(self, *, running_only: bool) -> None:
        """Raise NodeIsDown if a node does not run. Recordings and generated workloads are excepted, which may pause.

        With ``running_only`` nothing is checked.
        """
        down = [node for node in self.nodes.values() if not isinstance(node, Files) and not node.is_running]
        if down and not running_only:
            states = "\n".join(f"{node.name}: the node is {node.state}, and may lack data" for node in down)
            raise NodeIsDown(
                f"{states}: start() it, or leave out nodes that do not run with running_only=True (for the command "
                "line: dumpfilter topology start, --running-only)"
            )

    def wait_done(self, timeout: float | None = None) -> None:
        """Wait until all recordings and workloads have written everything. Raises NotCaughtUp."""
        deadline = self._ground.deadline(timeout)
        for node in self.nodes.values():
            if isinstance(node, Files) and not node.wait_done(max(deadline - time.monotonic(), 0.0)):
                raise NotCaughtUp(
                    f"{node.name}: the {node.kind} has not been written to its end in time; it is at "
                    f"{node.status().place}{' and paused' if node.state == 'stopped' else ''}"
                )

    def check(self, timeout: float | None = None, *, running_only: bool = False) -> None:
        """Wait until all nodes have caught up, and check for each that filtering on the way has not changed its data.

        With ``running_only`` nothing waits for nodes that do not run, and real replicas that do not run are left out.
        A slave is checked even then, since its files have its state. Raises LawBroken for a difference, NotCaughtUp
        after ``timeout`` seconds, and without ``running_only`` NodeIsDown for a node that does not run.
        """
        deadline = self._ground.deadline(timeout)
        self._catch_up(deadline, running_only=running_only)
        check_law(self.nodes, self._references, max(deadline - time.monotonic(), 1.0))
        self._check_all_run(running_only=running_only)

    # -- status

    def status(self) -> TestbedStatus:
        """Return the status of all nodes and links (network connections)."""
        # Nodes are asked together, so that their places are those of about one moment.
        nodes = dict(zip(self.nodes, self._at_once(TestbedNode.status), strict=True))
        counters = self._link_process.counters() if self.links else {}
        return TestbedStatus(
            name=self.topology.name,
            directory=str(self.directory),
            pid=os.getpid(),
            nodes=nodes,
            links={
                name: link.status(counters[name]) for name, link in self.links.items() if name in counters
            },
            uptime=time.monotonic() - self._began,
        )

    def report(self) -> dict[str, Any]:
        """Return the report of the run (bytes of links, saved bytes and lag of nodes) as values for JSON."""
        return self._monitor.report(self.status())

    # -- the end

    def reset(self, timeout: float | None = None) -> None:
        """Restore the state after :func:`up`, for the next test.

        Links are healed and have the topology's rate and delay. All nodes run. Databases that were created on real
        servers since are dropped, and the statements of ``init`` run again. The connections of all clients of real
        servers end. All nodes have caught up. Raises DumpfilterError.
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
            if node.feeds and (left := node.databases()):
                raise TestbedError(
                    f"{node.name}: has databases that its source has dropped: {', '.join(left)}; the topology "
                    "cannot be reset: start a new one"
                )
        for node in servers:
            node.run_init()
        self._catch_up(deadline)

    def down(self) -> None:
        """End all processes, and remove the directory if :func:`up` created it. Further calls do nothing.

        If the user named the directory, logs and report stay.
        """
        with self._lock:
            if self._is_down:
                return
            self._is_down = True
            with uninterrupted():
                self._down()

    def _down(self) -> None:
        # An error of one step must not keep the others from their work. The last callback runs first.
        with contextlib.ExitStack() as steps:
            steps.callback(self._state.close)
            if not self._keep:
                steps.callback(self._remove_files)
            steps.callback(self._ground.end_all)
            steps.callback(self._link_process.close)
            steps.callback(self._at_once, TestbedNode.close)
            steps.callback(self._references.close)
            steps.callback(self._monitor.close)

    def _at_once(self, call: Callable[[TestbedNode], _Result]) -> list[_Result]:
        """Call a method of each node, each in its own thread, and return the results."""
        with ThreadPoolExecutor(len(self.nodes) or 1) as pool:
            return list(pool.map(call, self.nodes.values()))

    def _remove_files(self) -> None:
        if self._state.is_temporary:
            shutil.rmtree(self.directory, ignore_errors=True)
        else:
            remove_files(self.directory, keep=(LOCK, *KEPT))
            (self.directory / LOCK).unlink(missing_ok=True)

    def __exit__(self, *_: object) -> None:
        self.down()


def _is_ours(node: TestbedNode) -> bool:
    """Tell whether all data of a node comes from servers that were started for the topology."""
    if not node.feeds:
        return isinstance(node, StartedServer)
    return all(_is_ours(feed.origin) for feed in node.feeds)

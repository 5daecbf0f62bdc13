"""A node of a running topology: the common part of all types of nodes."""

from __future__ import annotations

import abc
import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pymysql

from dumpfilter.base.errors import ConnectionLost, StatementRefused
from dumpfilter.testbed.binlogs import WatchedSet
from dumpfilter.testbed.errors import NodeIsDown, SqlFailed, TestbedError
from dumpfilter.testbed.ground import HOST, Ground
from dumpfilter.testbed.links import TestbedLink
from dumpfilter.testbed.servers import SqlServer
from dumpfilter.testbed.values import NO_LAG, ChannelState, Lag, NodeStatus, Place, State, sum_known
from dumpfilter.topology.model import Node, Reading

_SQL_TIMEOUT = 60.0

PAUSED = "is paused (resume() it)"
"""The reason why a paused node does not catch up."""


@dataclass(frozen=True)
class Goal:
    """A position that a node is to reach: the end of a binlog at one moment. The origin is the node that wrote it."""

    origin: str
    place: Place
    gtids: str
    """The GTID set of the origin's binlog at that position. Empty if it was not read."""


class Counted(NamedTuple):
    """The bytes of events that were sent to a reader, and the bytes that its filter saved. None: not counted."""

    sent: int | None = None
    dropped: int | None = None


@dataclass
class Feed:
    """One source of a node: the node that is read, the link (network connection) to it, and the channel that reads.

    ``link`` is None for a node that reads the source's files.
    """

    reading: Reading
    channel: str
    source: TestbedNode
    link: TestbedLink | None
    port: int = 0
    """The port to which the node connects: the link's, or without a link the source's."""
    host: str = HOST

    @property
    def origin(self) -> TestbedNode:
        """The node that wrote the binlog that comes from this source."""
        node = self.source
        while not node.writes_binlog:
            node = node.feeds[0].source
        return node


class TestbedNode(abc.ABC):
    """A node of a running topology: a process of dumpfilter, a real server, a recording or a workload."""

    __test__ = False
    writes_binlog = False
    """Whether the node's readers get positions in the node's own binlog."""

    def __init__(self, ground: Ground, node: Node, feeds: Sequence[Feed]) -> None:
        self.name = node.name
        self.kind = node.kind
        self.node = node
        self.feeds = tuple(feeds)
        self.directory = ground.directory / node.name
        self.log = ground.directory / "logs" / f"{node.name}.log"
        """The file of the node's log."""
        self.state: State = "starting"
        self._ground = ground
        self._lock = threading.RLock()
        self._held_behind = 0.0
        self._is_paused = False
        self._watched: WatchedSet | None = None

    # -- life

    def start(self) -> None:
        """Start the node. After :meth:`kill` or :meth:`stop` it gets the same ports again. Raises StartFailed."""
        with self._lock:
            if self.is_running:
                return
            self.state = "starting"
            try:
                self._begin()
            except BaseException:
                self.state = "failed"
                raise
            self.state = "running"

    def stop(self) -> None:
        """Stop the node's process with its regular shutdown. A recording or workload pauses."""
        self._end_if_running(in_order=True)

    def kill(self) -> None:
        """Kill the node's process with SIGKILL, and wait for its end. A recording or workload pauses."""
        self._end_if_running(in_order=False)

    def restart(self) -> None:
        """Stop the node and start it again."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End the node for good, as fast as possible."""
        # Whoever starts the node at this moment must not leave a process behind.
        with self._lock:
            self._end(in_order=False)
            self.state = "stopped"

    def _end_if_running(self, *, in_order: bool) -> None:
        with self._lock:
            if self.is_running:
                self._end(in_order=in_order)
                self.state = "stopped"

    @abc.abstractmethod
    def _begin(self) -> None:
        """Start the node's process or thread. Raises StartFailed."""

    @abc.abstractmethod
    def _end(self, *, in_order: bool) -> None:
        """End the node's process or thread, by a regular shutdown (``in_order``) or with SIGKILL."""

    @property
    def _is_alive(self) -> bool:
        """Whether the process of a node that was started still runs."""
        return True

    @property
    def is_running(self) -> bool:
        """Whether the node runs."""
        if self.state == "running" and not self._is_alive:
            self.state = "failed"
        return self.state == "running"

    @property
    def pid(self) -> int | None:
        """The id of the node's process; None for a node without a process."""
        return None

    # -- SQL

    @property
    def server(self) -> SqlServer:
        """The SQL connection to the node: a real server, or the console of a node of dumpfilter."""
        raise SqlFailed(f"{self.name} is a {self.kind}, and takes no SQL: ask the node that reads it")

    @property
    def host(self) -> str:
        """The host for SQL clients."""
        return self.server.host

    @property
    def port(self) -> int:
        """The port for SQL clients: the server's port, or the console's port of a node of dumpfilter."""
        return self.server.port

    @property
    def user(self) -> str:
        """The user for SQL clients."""
        return self.server.account.user

    @property
    def password(self) -> str:
        """The user's password."""
        return self.server.account.password

    @property
    def url(self) -> str:
        """The address for SQL clients, ``mysql://USER:PASSWORD@127.0.0.1:PORT/``."""
        return self.server.url

    def connect(self, **options: Any) -> pymysql.Connection[Any]:
        """Return a new PyMySQL connection, with autocommit. ``options`` has arguments of ``pymysql.connect``.

        Raises NodeIsDown.
        """
        self._check_running()
        try:
            return self.server.connect(**{"connect_timeout": _SQL_TIMEOUT, "read_timeout": None, **options})
        except ConnectionLost as error:
            raise NodeIsDown(str(error)) from None

    def execute(self, sql: str, args: Any = None, *, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run one statement on a new connection, and return its rows.

        ``database`` is the connection's default database, by which filters such as do-db decide. Raises NodeIsDown and
        SqlFailed.
        """
        self._check_running()
        try:
            return self.server.sql(sql, arguments=args, database=database)
        except ConnectionLost as error:
            raise NodeIsDown(str(error)) from None
        except StatementRefused as error:
            raise SqlFailed(str(error), error.number) from None

    def _check_running(self) -> None:
        if not self.is_running:
            raise NodeIsDown(f"{self.name}: the node is {self.state}; start it first")

    # -- progress

    def status(self) -> NodeStatus:
        """Return the node's status."""
        problems = []
        if not self.is_running and self.state == "failed":
            problems.append(f"{self.name}: {self._how_it_ended()}")
        place, gtids, channels = self._progress(problems)
        if self.is_running:
            problems += [f"{self.name}: {one.problem}" for one in channels if one.problem]
        ports = self._known_ports()
        has_login = "sql" in ports
        return NodeStatus(
            name=self.name,
            kind=self.kind,
            state=self.state,
            pid=self.pid,
            directory=str(self.directory),
            ports=ports,
            url=self.url if has_login else "",
            user=self.user if has_login else "",
            password=self.password if has_login else "",
            place=place,
            gtids=gtids,
            lag=most(one.lag for one in channels),
            rate=sum(feed.link.throughput for feed in self.feeds if feed.link is not None),
            # A server without channels does not know it. A recording or workload drops nothing.
            saved=sum_known(one.bytes_dropped for one in channels)
            if channels or self.kind == "server"
            else 0,
            channels=channels,
            is_done=self.is_done,
            problems=tuple(problems),
        )

    def _how_it_ended(self) -> str:
        """Return a message about a process that has ended unexpectedly."""
        return f"the process has ended; see its log {self.log}"

    @abc.abstractmethod
    def _progress(self, problems: list[str]) -> tuple[Place, str, tuple[ChannelState, ...]]:
        """Return the node's position, its GTID set and its channels.

        A message about each part that cannot be read is appended to ``problems``.
        """

    def _known_ports(self) -> dict[str, int]:
        """Return the node's ports by their purpose; empty for a node that has never run."""
        return {}

    @property
    def is_done(self) -> bool | None:
        """Whether a recording or workload has been written completely. None for other nodes."""
        return None

    def channels(self) -> tuple[ChannelState, ...]:
        """Return the state of each of the node's sources; empty for a node without sources."""
        return ()

    @property
    def lag(self) -> Lag:
        """The largest lag of the node's channels behind the origins of its data.

        A node that does not run stays at its last position, so that its lag grows with each transaction of its origins.
        """
        return most(channel.lag for channel in self.channels())

    def wait_caught_up(self, timeout: float | None = None) -> None:
        """Wait until the node has applied everything that its origins wrote before the call.

        The origins are the nodes that wrote its data. ``timeout`` is in seconds; None for the default limit. Raises
        NotCaughtUp, and NodeIsDown for a node that does not run.
        """
        self.catch_up(self._ground.deadline(timeout))

    def catch_up(self, deadline: float) -> None:
        """Wait as :meth:`wait_caught_up` does, but until the time ``deadline`` of ``time.monotonic``."""
        self._check_running()
        for goal in self.goals(deadline):
            self.wait_for(goal, deadline)

    def goals(self, deadline: float) -> list[Goal]:
        """Return the positions that the node must reach to have caught up: the ends of its origins' binlogs.

        An origin is a node that wrote the binlog. Origins that are replicas catch up first, until ``deadline`` (a time
        of ``time.monotonic``).
        """
        found = {}
        for feed in self.feeds:
            origin = feed.origin
            if origin.name not in found:
                if origin.feeds and origin.is_running:
                    origin.catch_up(deadline)
                found[origin.name] = origin.goal()
        return list(found.values())

    def wait_for(self, goal: Goal, deadline: float) -> None:
        """Wait until the node has applied its origin's binlog up to the position ``goal``. Raises NotCaughtUp."""
        del goal, deadline

    # -- for readers

    @property
    def watched(self) -> WatchedSet:
        """The binlog set that the node writes. Only for nodes that write one. Raises NodeIsDown before the start."""
        if self._watched is None:
            raise NodeIsDown(f"{self.name}: the node has not been started yet")
        return self._watched

    def goal(self) -> Goal:
        """Return the end of the node's binlog. Only nodes that write a binlog have this method."""
        raise NotImplementedError

    def all_gtids(self) -> str:
        """Return the GTID set of the node's binlog. Only nodes that write a binlog have this method."""
        return self.goal().gtids

    @property
    def slave_port(self) -> int:
        """The port at which slaves of dumpfilter read this node. Only masters and slaves have one."""
        raise NotImplementedError

    @property
    def replica_port(self) -> int:
        """The port at which real replicas, and masters of dumpfilter, read this node. Recordings and workloads have
        none.
        """
        raise NotImplementedError

    def counted_for(self, server_id: int) -> Counted:
        """Return the byte counters of the real replica ``server_id`` that reads this node.

        A real server counts nothing for a replica, so that both counters are None.
        """
        del server_id
        return Counted()

    # -- the rest

    @property
    def logs(self) -> str:
        """The text of the node's log."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def hold_behind(self, seconds: float) -> None:
        """Keep the node's data ``seconds`` behind its sources; 0 ends the delay.

        The seconds are added to the delay of the links to the node. Raises TestbedError for a node that reads files.
        """
        for feed in self.feeds:
            if feed.link is None:
                raise TestbedError(f"{self.name}: reads files, without a link that could be slow")
            feed.link.hold(seconds)
        self._held_behind = seconds

    def pause(self) -> None:
        """Stop applying, but continue to receive, until :meth:`resume`. A restart of the node does not end the
        pause.
        """
        raise TestbedError(f"{self.name}: a {self.kind} applies nothing that could pause")

    def resume(self) -> None:
        """Apply again after :meth:`pause`."""
        raise TestbedError(f"{self.name}: a {self.kind} applies nothing that could pause")

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the node (:meth:`pause`) inside the context."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def let_go(self) -> None:
        """End a pause (:meth:`pause`) and a delay (:meth:`hold_behind`) of the node."""
        if self._is_paused:
            self.resume()
        if self._held_behind:
            self.hold_behind(0.0)


def most(lags: Any) -> Lag:
    """Return the largest of ``lags``, by seconds. Without lags the result is NO_LAG."""
    return max(lags, default=NO_LAG)

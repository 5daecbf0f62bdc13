"""The nodes of a running topology: the common part of all types, and the links to their sources.

All nodes share some resources, such as the directory, passwords, server ids, and the keeper, which starts the nodes'
processes.
"""

from __future__ import annotations

import abc
import contextlib
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pymysql

from dumpfilter.analyse.inspection import inspect_set
from dumpfilter.base.endings import uninterrupted
from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.waiting import until
from dumpfilter.testbed import values
from dumpfilter.testbed.binlogs import WatchedSet
from dumpfilter.testbed.directory import LOCK, LOGS
from dumpfilter.testbed.errors import NodeIsDown, NotCaughtUp, SqlFailed, StartFailed, TestbedError
from dumpfilter.testbed.keeper import Child, Keeper
from dumpfilter.testbed.servers.server import ADDRESS, end_process, write_secret
from dumpfilter.testbed.servers.sql import Account, SqlServer, channel_states
from dumpfilter.topology import notations
from dumpfilter.topology.links.client import LinkProcess, OpenLink
from dumpfilter.topology.links.shape import Counters, LinkState
from dumpfilter.topology.model import Kind, Link, Node, Reading, Topology

# -- what all nodes share

FIRST_SERVER_ID = 101

END_TIMEOUT = 30.0
"""The time limit for the end of a process of dumpfilter, seconds."""


@dataclass
class Ground:
    """The shared resources of all nodes of one running topology: its directory, processes, server ids and passwords."""

    topology: Topology
    directory: Path
    keeper: Keeper
    _: KW_ONLY
    holds_files: bool
    """Whether recordings and workloads (nodes that are binlog files) write their first transaction only at
    :meth:`dumpfilter.testbed.bed.Testbed.release`.
    """
    start_timeout: float
    """The time limit for the start of one node, seconds."""
    wait_timeout: float
    """The default time limit of a wait, seconds."""

    def __post_init__(self) -> None:
        self._children: list[Child] = []
        self._is_ending = threading.Event()
        (self.directory / LOGS).mkdir(exist_ok=True)
        self.console_password = secrets.token_urlsafe(12)
        self.replication_password = secrets.token_urlsafe(12)
        self.console_password_file = self.directory / "console.password"
        write_secret(self.console_password_file, self.console_password)
        # A server's working directory is its data directory.
        self.certificate = self.directory.resolve() / "certificate.pem"
        """The certificate of all nodes with ``tls``. It is self-signed, so that readers verify it as their CA."""
        self.key = self.certificate.with_name("key.pem")
        if any(node.tls for node in self.topology.nodes):
            from dumpfilter.base.security.tls import make_key_pair

            made = make_key_pair(ADDRESS)
            self.certificate.write_bytes(made.certificate)
            write_secret(self.key, made.key.decode())
        self._server_ids = {
            node.name: number for number, node in enumerate(self.topology.nodes, start=FIRST_SERVER_ID)
        }

    def directory_of(self, node: str) -> Path:
        """Return the directory for the files of the node ``node``.

        A node may be called ``logs`` or ``lock``, as files of the topology are. Its directory then has a dot, which no
        other node's directory has.
        """
        return self.directory / (f"{node}.node" if node in (LOCK, LOGS) else node)

    def deadline(self, timeout: float | None) -> float:
        """Return the end of a wait as a time of ``time.monotonic``.

        ``timeout`` is the wait's limit in seconds; None means the topology's default limit (``wait_timeout``).
        """
        return time.monotonic() + (self.wait_timeout if timeout is None else timeout)

    def server_id(self, name: str) -> int:
        """Return the server id for the node ``name``. A hidden server, with which a check compares a replica, is no
        node of the topology, and gets the next free id.
        """
        return self._server_ids.setdefault(name, FIRST_SERVER_ID + len(self._server_ids))

    def start(self, *program: Any, is_executed: bool, before: Child | None = None) -> Child:
        """Start a process that ends with the topology, and return the process. After :meth:`end_all` the new process is
        killed at once.

        ``program`` has the process's name, its arguments, and the path of its log. With ``is_executed`` the arguments
        are the command line of another program, otherwise those of a ``dumpfilter`` command (:meth:`.Keeper.start`).
        ``before`` is the earlier process that the new one replaces, or None.
        """
        if before is not None and before in self._children and before.poll() is not None:
            # Each process has a file descriptor, and a long test may restart nodes a thousand times.
            self._children.remove(before)
        # Nobody else would end a process whose start was interrupted.
        with uninterrupted():
            child = self.keeper.start(*program, is_executed=is_executed)
            self._children.append(child)
        if self._is_ending.is_set():
            child.kill()
        return child

    def end_all(self) -> None:
        """Kill all processes of the topology, and wait for their end. Processes that are started later are killed at
        once.

        The keeper (the process that starts all others) is killed, too, if it is still starting. Raises TestbedError if
        a process survives SIGKILL.
        """
        self._is_ending.set()
        self.keeper.end_if_importing()
        # An error of one call does not keep the others from their work.
        with contextlib.ExitStack() as ending:
            for child in tuple(self._children):
                ending.callback(end_process, child, in_order=False, timeout=END_TIMEOUT)


# -- links

_MOST_PASSED = 5
"""The number of samples of a link's byte counter from which the link's present rate is computed. They span two seconds.
"""


class TestbedLink(OpenLink):
    """A link of a running topology: the network connections between two nodes, with a limited rate and a delay. Tests
    can change the link, cut it, or let it pass no bytes.
    """

    __test__ = False

    def __init__(self, process: LinkProcess, link: Link, *, wait_timeout: float) -> None:
        super().__init__(process, link.name)
        self.source = link.source
        self.target = link.target
        self.shape = replace(link.shape, outages=())
        """The link's current rate, delay, jitter and outages, without the additional delay that :meth:`hold` sets.
        There are no outages before :meth:`begin_outages`, since a slow start must not use them up.
        """
        self.passed: deque[tuple[float, int]] = deque(maxlen=_MOST_PASSED)
        """The latest samples of the bytes that reached the target (the reading node). A sample has its time
        (``time.monotonic``), and the bytes since the link was opened.
        """
        self._link = link
        self._wait_timeout = wait_timeout
        self._changing = threading.Lock()
        self._held = 0.0
        self.port = 0
        """The port of 127.0.0.1 to which the target (the reading node) connects."""

    @property
    def throughput(self) -> float:
        """The rate of bytes from the source to the target (the reading node) in the last seconds, bytes per second. It
        is 0 until the bytes have been counted twice.
        """
        if len(self.passed) < 2:
            return 0.0
        (first, before), (last, after) = self.passed[0], self.passed[-1]
        return (after - before) / (last - first) if last > first else 0.0

    def open(self, host: str, port: int) -> None:
        """Open the link's proxy, through which the target (the reading node) reads the source. The proxy connects to
        the source at ``host`` and ``port``. Call this once.

        The proxy's port is stored in ``port``. Raises LinkError if the process of the links has ended.
        """
        self.port = self._process.open(self.name, port, self.shape, host=host)

    def begin_outages(self) -> None:
        """Start the clock of the link's scheduled outages. Each outage begins and ends a number of seconds after this
        call. Call this once.
        """
        self._set(outages=self._link.shape.outages)

    def wait(self, state: LinkState, timeout: float | None = None) -> None:
        """Wait until the link is ``up``, ``cut`` or ``silent`` (passes no bytes), for example after :meth:`cut_after`.

        ``timeout`` is in seconds; None: the topology's default limit, ``wait_timeout``. Raises NotCaughtUp after this
        time.
        """
        limit = self._wait_timeout if timeout is None else timeout
        until(
            lambda: self.counters.state == state,
            time.monotonic() + limit,
            lambda: NotCaughtUp(
                f"link {self.name}: is {self.counters.state}, and has not become {state} in {limit:g} s; "
                f"{self.counters.down} bytes have reached {self.target}"
            ),
        )

    def set(self, **changes: Any) -> None:
        """Change the link's ``rate`` (bits a second or ``"2mbit"``), ``delay`` or ``jitter`` (seconds or ``"50ms"``).

        The rate None means no limit. Omitted properties stay unchanged. Raises OptionError for an invalid value.
        """
        changed = notations.link(**changes)
        self._set(**{key: getattr(changed, key) for key in changes})

    def hold(self, seconds: float) -> None:
        """Delay all bytes on the link by ``seconds`` in addition to the link's own delay. 0 ends the additional
        delay.
        """
        self._set(held=seconds)

    def restore(self) -> None:
        """Give the link the rate, delay and jitter that the topology defines. A cut, a silence (no byte passes), a
        present outage, and the additional delay of :meth:`hold` end. Later scheduled outages still take place.
        """
        self._set(**vars(replace(self._link.shape, outages=self.shape.outages)), held=0.0)
        self.heal()

    def _set(self, *, held: float | None = None, **changes: Any) -> None:
        # Two commands may change the link at once.
        with self._changing:
            shape, held = replace(self.shape, **changes), self._held if held is None else held
            # A value that no link can have changes nothing.
            self.reshape(replace(shape, delay=shape.delay + held))
            self.shape, self._held = shape, held

    def status(self, counters: Counters | None = None) -> values.LinkStatus:
        """Return the link's status: its state (such as ``cut``), rate, delay, jitter, bytes and connections.

        ``counters`` are the link's counters of bytes and connections, if the caller has read them already; None: they
        are read.
        """
        found = self.counters if counters is None else counters
        return values.LinkStatus(
            name=self.name,
            source=self.source,
            target=self.target,
            state=found.state,
            rate=self.shape.rate,
            delay=self.shape.delay + self._held,
            jitter=self.shape.jitter,
            bytes_to_target=found.down,
            bytes_to_source=found.up,
            connections=found.connections,
            throughput=self.throughput,
        )


# -- nodes

_SQL_TIMEOUT = 60.0

TURN = 1.0
"""The interval at which the threads of a node are checked for errors during a wait, seconds."""


class Goal(NamedTuple):
    """A position that replicas shall reach: the end that the binlog of the node ``origin`` had at one moment."""

    origin: TestbedNode
    place: values.Place
    gtids: str = ""
    """The GTID set, at the goal's position, of the binlog that ``origin`` wrote. Empty if it was not read."""


class Feed(NamedTuple):
    """One source of a node: the node that is read, the link (network connection) to it, and the replication channel
    that reads.

    ``link`` is None for a node that reads the source's files. It is also None for a reference, a server with which a
    check compares a replica.
    """

    reading: Reading
    channel: str
    source: TestbedNode
    link: TestbedLink | None

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port to which a node connects to read its source. They are those of the link's proxy, or
        without a link those of the source itself.
        """
        return self.source.address_for("server") if self.link is None else (ADDRESS, self.link.port)

    @property
    def way(self) -> tuple[Feed, ...]:
        """The connections (feeds) on the way of a binlog, from the node that wrote the binlog to the node that reads
        this feed. The last item is this object.
        """
        return (*(() if self.source.writes_binlog else self.source.feeds[0].way), self)

    @property
    def origin(self) -> TestbedNode:
        """The node that wrote the binlog which the source of this feed passes on. It is the source itself, unless the
        source is a master or slave of dumpfilter.
        """
        return self.way[0].source

    @property
    def fault(self) -> str:
        """A text for errors: the name and the state of the link (network connection to the source) if the link is cut,
        or silent (passes no byte). Otherwise empty.
        """
        state = "up" if self.link is None else self.link.counters.state
        return "" if self.link is None or state == "up" else f"; the link {self.link.name} is {state}"


class TestbedNode(abc.ABC):
    """A node of a running topology: a process of dumpfilter, a MySQL or MariaDB server, or a binlog set without a
    server. Such a set is replayed (a recording) or generated (a workload).
    """

    __test__ = False
    writes_binlog = False
    """Whether the node's readers get positions in the node's own binlog. False for masters and slaves of dumpfilter,
    which pass on the positions of the binlog that they read.
    """
    applies = False
    """Whether the node has SQL threads, which apply what the node has received."""
    process: Child | None = None
    """The node's process. None for a node without a process, and before the first start."""
    account: Account
    """The user and password with which MySQL or MariaDB replicas and masters of dumpfilter log in to read this node's
    binlog. Nodes without a server process have none, and a started server has one after its first start.
    """

    def __init__(self, ground: Ground, node: Node, feeds: Sequence[Feed]) -> None:
        self.name = node.name
        self.kind = node.kind
        self.node = node
        self.feeds = tuple(feeds)
        self.directory = ground.directory_of(node.name)
        self.log = ground.directory / LOGS / f"{node.name}.log"
        """The file of the node's log."""
        self._state: values.State = "starting"
        self._ground = ground
        self._lock = threading.RLock()
        self._held_behind = 0.0
        self._is_paused = False
        self._watched: WatchedSet | None = None
        self._ports: dict[str, int] = {}
        """The ports by their purpose: ``sql``, ``grpc`` or ``replica``. Empty before the first start."""

    # -- life

    def start(self) -> None:
        """Start the node, and wait until it is ready. A node that runs is left alone. After :meth:`kill` or
        :meth:`stop` the node gets the same ports again.

        Raises StartFailed, or another TestbedError, for a node that does not start. Its process is killed then.
        """
        with self._lock:
            if self.is_running:
                return
            self._state = "starting"
            try:
                self._begin()
                if self._is_paused:
                    # The node has started without its threads.
                    self._control("START", "IO_THREAD")
            except BaseException as error:
                self._state = "failed"
                self._end(in_order=False)
                if isinstance(error, DumpfilterError | OSError) and not isinstance(error, TestbedError):
                    text = str(error).removeprefix(f"{self.name}: ")
                    raise StartFailed(f"{self.name}: {text}") from None
                raise
            self._state = "running"

    def stop(self) -> None:
        """Stop the node's process with its regular shutdown. A node without a process (recorded or generated binlog
        files) stops writing its files. A node that does not run is left alone.

        Raises NotRunnable for a server that the topology has not started.
        """
        self._end_if_running(in_order=True)

    def kill(self) -> None:
        """Kill the node's process with SIGKILL, and wait for its end. A node without a process (recorded or generated
        binlog files) stops writing its files. A node that does not run is left alone.

        Raises NotRunnable for a server that the topology has not started.
        """
        self._end_if_running(in_order=False)

    def restart(self) -> None:
        """Stop the node with its regular shutdown, and start it again. Raises StartFailed if it does not start."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Kill the node's process, if it has one, at the end of the topology. The node must not be started again
        afterwards.
        """
        # Whoever starts the node at this moment must not leave a process behind.
        with self._lock:
            self._state = "stopped"
            self._end(in_order=False)

    def _end_if_running(self, *, in_order: bool) -> None:
        with self._lock:
            if self.is_running:
                self._state = "stopped"
                self._end(in_order=in_order)

    @abc.abstractmethod
    def _begin(self) -> None:
        """Start the node's process or thread. Raises DumpfilterError if it cannot start."""

    @abc.abstractmethod
    def _end(self, *, in_order: bool) -> None:
        """End the node's process or thread, by a regular shutdown (``in_order``) or with SIGKILL."""

    def _spawn(self, arguments: Sequence[str], *, is_executed: bool = False) -> Child:
        """Let the keeper (the process that starts all processes of a topology) start the node's process. Store the
        process in :attr:`process`, and return it.

        ``arguments`` are those of a ``dumpfilter`` command. With ``is_executed`` they are instead the whole command
        line of another program, such as ``mysqld``. The process's output is appended to the node's log file.
        """
        program = self.name, arguments, self.log
        self.process = self._ground.start(*program, is_executed=is_executed, before=self.process)
        return self.process

    @property
    def state(self) -> values.State:
        """The state of the node, such as ``running``, or ``failed`` if its process has ended by itself."""
        process = self.process
        has_ended = process is not None and process.poll() is not None
        # A thread that ends the node sets the state first, and a thread that starts it makes another process.
        is_failure = has_ended and self._state == "running" and process is self.process
        return "failed" if is_failure else self._state

    @property
    def is_running(self) -> bool:
        """Whether the node was started, and its process has not ended since."""
        return self.state == "running"

    @property
    def pid(self) -> int | None:
        """The id of the node's process; None for a node without a process, and after the process has ended."""
        return self.process.pid if self.process is not None and self.process.poll() is None else None

    # -- SQL

    @property
    def server(self) -> SqlServer:
        """A client for SQL statements to the node: to the MySQL or MariaDB server, or to the SQL console of a
        dumpfilter process.

        Raises SqlFailed for a node that is only files, and NodeIsDown for a process of dumpfilter that was never
        started.
        """
        raise SqlFailed(f"{self.name} is a {self.kind}, and takes no SQL: ask the node that reads it")

    @property
    def host(self) -> str:
        """The host to which SQL clients connect."""
        return self.server.host

    @property
    def port(self) -> int:
        """The port to which SQL clients connect: the server's port, or the port of the SQL console of a dumpfilter
        process.
        """
        return self.server.port

    @property
    def user(self) -> str:
        """The user name for SQL clients."""
        return self.server.account.user

    @property
    def password(self) -> str:
        """The password of :attr:`user`, for SQL clients."""
        return self.server.account.password

    @property
    def url(self) -> str:
        """The address for SQL clients, ``mysql://USER[:PASSWORD]@HOST:PORT/``."""
        return self.server.url

    def connect(self, **options: Any) -> pymysql.Connection[Any]:
        """Return a new PyMySQL connection to the node, with autocommit. ``options`` has arguments of
        ``pymysql.connect``.

        Raises NodeIsDown if the node does not run or cannot be reached.
        """
        self._check_running()
        return self.server.connect(**{"connect_timeout": _SQL_TIMEOUT, "read_timeout": None, **options})

    def execute(self, sql: str, args: Any = None, *, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run the statement ``sql`` on a new connection, and return its rows as tuples.

        ``args`` are parameters for placeholders in the statement, as for PyMySQL's ``Cursor.execute``. ``database`` is
        the connection's default database, by which filters such as do-db decide. Raises NodeIsDown if the node does not
        run or cannot be reached, and SqlFailed if it refuses the statement.
        """
        self._check_running()
        return self.server.sql(sql, arguments=args, database=database)

    def _check_running(self) -> None:
        if not self.is_running:
            raise NodeIsDown(f"{self.name}: the node is {self.state}; start it first")

    # -- progress

    def status(self) -> values.NodeStatus:
        """Return the node's status: its state, ports, position, GTIDs, lag, and problems as texts."""
        problems = []
        if self.state == "failed":
            code = "" if self.process is None else f" with exit code {self.process.poll()}"
            problems.append(f"{self.name}: the process has ended{code}; see its log {self.log}")
        channels = self._told_channels(problems)
        place, gtids = self._position(channels, problems)
        if self.is_running:
            problems += [f"{self.name}: {one.problem}" for one in channels if one.problem]
        has_sql = "sql" in self._ports
        login = {"url": self.url, "user": self.user, "password": self.password} if has_sql else {}
        return values.NodeStatus(
            name=self.name,
            kind=self.kind,
            state=self.state,
            pid=self.pid,
            directory=str(self.directory),
            ports=self._ports,
            place=place,
            gtids=gtids,
            lag=_most(channels),
            rate=sum(feed.link.throughput for feed in self.feeds if feed.link is not None),
            # A server without channels does not know it. A recording or workload drops nothing.
            saved=values.sum_known(one.bytes_dropped for one in channels)
            if channels or self.kind == "server"
            else 0,
            channels=channels,
            is_done=self.is_done,
            problems=tuple(problems),
            **login,
        )

    def _told_channels(self, problems: list[str]) -> tuple[values.ChannelState, ...]:
        """Return the state of each replication channel of the node, with the values that only a running process
        reports. These are, for example, the states of the threads and the byte counters.

        A message about each value that cannot be read is appended to ``problems``.
        """
        return self.channels()

    @abc.abstractmethod
    def _position(
        self, channels: Sequence[values.ChannelState], problems: list[str]
    ) -> tuple[values.Place, str]:
        """Return the node's position in a binlog (file and byte offset) and its GTID set as text, for its status.

        ``channels`` are the states of the node's replication channels. A message about each part that cannot be read is
        appended to ``problems``.
        """

    @property
    def is_done(self) -> bool | None:
        """Whether the binlog files of a recording (replayed binlogs) or workload (generated binlogs) are complete. None
        for other nodes.
        """
        return None

    def channels(self) -> tuple[values.ChannelState, ...]:
        """Return the state of each replication channel of the node, one for each source. Empty for a node without
        sources.
        """
        return ()

    @property
    def lag(self) -> values.Lag:
        """The largest lag of the node's channels behind the nodes that wrote its data.

        A node that does not run stays at its last position, so that its lag grows with each transaction that these
        nodes write.
        """
        return _most(self.channels())

    def wait_caught_up(self, timeout: float | None = None) -> None:
        """Wait until the node has applied (as a master: received) everything that its origins wrote before the call.

        The origins are the nodes that wrote its data. ``timeout`` is in seconds; None: the topology's default limit,
        ``wait_timeout``. Raises NotCaughtUp after this time, and earlier if a replication thread has stopped with an
        error. Raises NodeIsDown for a node that does not run.
        """
        self.catch_up(self._ground.deadline(timeout))

    def catch_up(self, deadline: float) -> None:
        """Wait until the node has applied (as a master: received) everything that its origins wrote before the call.
        The origins are the nodes that wrote its data.

        If an origin is itself a running replica, the method first waits for the origin. Raises NotCaughtUp at
        ``deadline``, a time of ``time.monotonic``, and earlier if a replication thread has stopped with an error.
        Raises NodeIsDown for a node that does not run.
        """
        self._check_running()
        goals = []
        for origin in dict.fromkeys(feed.origin for feed in self.feeds):
            if origin.feeds and origin.is_running:
                origin.catch_up(deadline)
            goals.append(origin.goal())
        for goal in goals:
            self.wait_for(goal, deadline)

    def wait_for(self, goal: Goal, deadline: float) -> None:
        """Wait until the node has applied (as a master: received) a binlog up to the end that ``goal`` records.

        Raises NotCaughtUp at ``deadline``, a time of ``time.monotonic``, and earlier if a replication thread has
        stopped, unless the node is paused. Raises NodeIsDown for a node that does not run.
        """
        stopped_before = False
        while lack := self._lack(goal, max(min(TURN, deadline - time.monotonic()), 0.0)):
            self._check_running()
            threads: list[values.ChannelState] = []
            if self.applies and not self._is_paused:
                with contextlib.suppress(DumpfilterError):
                    threads = channel_states(self.server, connect_timeout=TURN, read_timeout=TURN)
            # A thread without an error may be about to start, after a restart of the node or a change of its delay.
            stopped = any("No" in (one.io, one.sql) for one in threads)
            has_failed = stopped and (stopped_before or any(one.errors for one in threads))
            stopped_before = stopped
            if has_failed or time.monotonic() >= deadline:
                paused = "is paused (resume() it): " if self._is_paused else ""
                states = "".join(f"; {one.threads}" for one in threads)
                faults = "".join(feed.fault for feed in self.feeds)
                raise NotCaughtUp(f"{self.name}: {paused}{lack}{states}{faults}")

    def _lack(self, goal: Goal, timeout: float) -> str:
        """Wait at most ``timeout`` seconds until the node has applied (as a master: received) a binlog up to ``goal``.
        Return an empty text then, and otherwise a text that says what the node has applied and what it should have.
        """
        raise NotImplementedError

    # -- for readers

    @property
    def watched(self) -> WatchedSet:
        """The binlog files that the node writes. For a server outside the topology they are the copy that a master of
        dumpfilter receives.

        Raises NodeIsDown if there are no such files on this machine (yet).
        """
        if self._watched is None:
            raise NodeIsDown(
                f"{self.name}: there are no binlog files: start the node, or let a master of dumpfilter read it"
            )
        return self._watched

    def goal(self) -> Goal:
        """Return the present end of the node's binlog as a goal, a position that the node's replicas shall reach. Only
        nodes that write a binlog have this method. Raises NodeIsDown if the node has never run.
        """
        raise NotImplementedError

    def all_gtids(self) -> str:
        """Return, as text, the GTIDs of all transactions in the node's binlog files at this moment. Empty without
        files.
        """
        opened = self.watched.opened()
        return "" if opened is None else inspect_set(opened, verify=False).gtids

    def address_for(self, reader: Kind) -> tuple[str, int]:
        """Return the host and port of this node to which nodes that replicate from it connect. ``reader`` is their
        kind, such as ``slave`` or ``server``. Nodes without a server process have no address.
        """
        raise NotImplementedError

    def arguments_for_master(self, feed: Feed, store: Path) -> list[str]:
        """Return the arguments of ``dumpfilter master`` with which it reads this node's binlog.

        ``feed`` is the connection from the master to this node. ``store`` is the directory in which the master keeps a
        binlog that it receives from a server.
        """
        raise NotImplementedError

    def counted_for(self, server_id: int) -> dict[str, Any]:
        """Return how many bytes this node, if it is a master, has sent to a MySQL or MariaDB replica and dropped for
        the replica.

        ``server_id`` is the replica's server id. The keys are the fields ``bytes_received`` and ``bytes_dropped`` of
        :class:`~dumpfilter.testbed.values.ChannelState`. The result is empty for a node that does not count bytes, and
        for a master whose console does not answer.
        """
        return {}

    # -- the rest

    @property
    def logs(self) -> str:
        """The whole text of the node's log file, empty before the first start."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def hold_behind(self, seconds: float) -> None:
        """Keep the node's data ``seconds`` behind its sources; 0 ends the delay.

        ``seconds`` is added to the delay of the links to the node. For a real replica (MySQL or MariaDB server) it
        becomes the delay of applying instead, rounded up to whole seconds. Raises LinkError or OptionError for a time
        that no link can have, and TestbedError for a node that reads files or nothing.
        """
        if not self.feeds:
            raise TestbedError(
                f"{self.name}: reads no other node that it could be behind; name one of its readers"
            )
        self._hold(seconds)
        self._held_behind = seconds

    def _hold(self, seconds: float) -> None:
        for feed in self.feeds:
            if feed.link is None:
                raise TestbedError(f"{self.name}: reads files, without a link that could be slow")
            feed.link.hold(seconds)

    def pause(self) -> None:
        """Stop the node's SQL threads, so that it receives transactions but does not apply them until :meth:`resume`.

        A restart of the node does not end the pause. Raises TestbedError for a node that has no SQL threads, such as a
        master, and NodeIsDown for a node that does not run.
        """
        self._check_applies()
        self._check_running()
        # A wait must not take the pause for a failure.
        self._is_paused = True
        self._control("STOP", "SQL_THREAD")

    def resume(self) -> None:
        """End a :meth:`pause`: start the node's SQL threads again, which apply the transactions received meanwhile.

        If the node does not run, the threads start with it. Raises TestbedError for a node that has no SQL threads.
        """
        self._check_applies()
        if self.is_running:
            self._control("START", "SQL_THREAD")
        self._is_paused = False

    def _check_applies(self) -> None:
        if not self.applies:
            raise TestbedError(f"{self.name}: a {self.kind} applies nothing that could pause")

    def _control(self, verb: str, thread: str) -> None:
        """Start or stop the I/O threads or SQL threads of all replication channels of the node. ``verb`` is START or
        STOP, and ``thread`` is ``IO_THREAD`` or ``SQL_THREAD``.
        """
        self.server.control(verb, [feed.channel for feed in self.feeds], thread)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Keep the node's SQL threads stopped inside the ``with`` block, so that received transactions are not
        applied.
        """
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def let_go(self) -> None:
        """Start the SQL threads again if the node is paused (:meth:`pause`), and end a delay of its data
        (:meth:`hold_behind`).
        """
        if self._is_paused:
            self.resume()
        if self._held_behind:
            self.hold_behind(0.0)


def _most(channels: Sequence[values.ChannelState]) -> values.Lag:
    """Return the largest lag of replication channels, compared by its seconds. Without channels the result is a lag of
    0.
    """
    return max((one.lag for one in channels), default=values.NO_LAG)

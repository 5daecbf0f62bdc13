"""The nodes that are processes of dumpfilter: masters and slaves."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.security.listening import PORT_TAKEN
from dumpfilter.base.waiting import until
from dumpfilter.console.auth import DEFAULT_USER
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.slave.state import CHANNELS
from dumpfilter.slave.state.infos import CountersInfo, MasterInfo, RelayLogInfo
from dumpfilter.testbed.binlogs import WatchedSet, end_of, lag_behind
from dumpfilter.testbed.errors import NodeIsDown, NotCaughtUp, NotRunnable, StartFailed
from dumpfilter.testbed.ground import HOST, REPLICATION_USER, Ground
from dumpfilter.testbed.keeping import Child, Program
from dumpfilter.testbed.node import PAUSED, Counted, Feed, Goal, TestbedNode
from dumpfilter.testbed.server_nodes import RunningServerNode, StartedServer
from dumpfilter.testbed.servers import Account, ReplicaStatus, SqlServer, free_ports, replica_status
from dumpfilter.testbed.servers.process import end_process, start_process
from dumpfilter.testbed.servers.server import write_secret
from dumpfilter.testbed.values import ChannelState, Place
from dumpfilter.topology.model import Node, semantics_of

STOP_TIMEOUT = 30.0
_POLL = 0.005
_LOG_SHOWN = 2000
_LOOK_FOR_ERRORS = 1.0
"""The interval at which the threads of a slave are checked for errors during a wait, seconds."""

_PURPOSES = {"--console-port": "sql", "--port": "grpc", "--serve-port": "grpc", "--replica-port": "replica"}
"""The purpose of each port option, as a node's status calls it."""

_CONNECT_RETRY = "0.5"
"""The longest time between two attempts of a slave to connect, seconds, so that a link that heals is used soon."""


class OwnNode(TestbedNode):
    """A node that is a process of dumpfilter (a master or a slave), with a console."""

    def __init__(self, ground: Ground, node: Node, feeds: Sequence[Feed]) -> None:
        super().__init__(ground, node, feeds)
        self._child: Child | None = None
        self._ports: dict[str, int] = {}
        """The ports, by the name of their option. Empty before the first start."""
        topology = ground.topology
        readers = topology.readers(node.name)
        self._replicas = [reader for reader in readers if reader.kind == "server"]
        self._slaves = [reader for reader in readers if reader.kind == "slave"]

    @property
    def server(self) -> SqlServer:
        account = Account(DEFAULT_USER, self._ground.console_password)
        return SqlServer(self.name, "mysql", HOST, self._known("--console-port"), account)

    @property
    def pid(self) -> int | None:
        child = self._child
        return child.pid if child is not None and child.poll() is None else None

    @property
    def _is_alive(self) -> bool:
        return self.pid is not None

    def _known(self, option: str) -> int:
        try:
            return self._ports[option]
        except KeyError:
            raise NodeIsDown(f"{self.name}: the node has never run, so that it has no port") from None

    @property
    def replica_port(self) -> int:
        return self._known("--replica-port")

    def _port_options(self) -> list[str]:
        """Return the names of the options that set the node's ports, such as ``--port``."""
        raise NotImplementedError

    def _arguments(self) -> list[str]:
        """Return the arguments of the node's command, without the options for ports."""
        raise NotImplementedError

    def _begin(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self._end(in_order=False)
            raise

    def _start(self) -> None:
        """Start the process. If another process took a chosen port first, try other ports."""
        ground, is_new = self._ground, not self._ports
        files = {option: self.directory / option.strip("-") for option in self._port_options()}

        def launch(_: int) -> Child:
            if is_new:
                self._ports = dict(zip(files, free_ports(len(files)), strict=True))
            arguments = self._arguments()
            for option, file in files.items():
                file.unlink(missing_ok=True)
                arguments += [option, str(self._ports[option]), f"{option}-file", str(file)]
            self._child = ground.start(Program(self.name, arguments, self.log))
            return self._child

        def failure(told: str, code: int | None) -> StartFailed:
            how = "did not get ready" if code is None else f"ended with exit code {code}"
            return StartFailed(f"{self.name}: the {self.kind} {how}:\n{told[-_LOG_SHOWN:]}")

        start_process(
            launch,
            lambda: all(file.exists() for file in files.values()),
            failure,
            log=self.log,
            taken=PORT_TAKEN,
            again=is_new,
            deadline=time.monotonic() + ground.start_timeout,
        )

    def _end(self, *, in_order: bool) -> None:
        end_process(self._child, in_order=in_order, timeout=STOP_TIMEOUT)

    def _tls_options(self) -> list[str]:
        """Return the options with which the node serves TLS; empty without ``tls``."""
        ground = self._ground
        return [f"--tls-cert={ground.certificate}", f"--tls-key={ground.key}"] if self.node.tls else []

    def _accounts(self) -> list[dict[str, object]]:
        """Return the ``[[replica]]`` tables of the node's configuration, one for each real replica that reads the node.

        The tables do not have the replication password.
        """
        return [
            {
                "user": REPLICATION_USER,
                "server_ids": [self._ground.server_id(reader.name)],
                "rules": [
                    f"--{rule}" for one in reader.reads if one.source == self.name for rule in one.rules
                ],
            }
            for reader in self._replicas
        ]

    def _replica_config(self) -> list[str]:
        """Write the configuration file with the accounts of real replicas, and return the option that names the file.

        The result is empty if no real replica reads the node.
        """
        accounts = self._accounts()
        if not accounts:
            return []
        file = self.directory / "replicas.toml"
        password = {"password": self._ground.replication_password}
        tables = (
            "\n".join(
                ["[[replica]]", *(f"{key} = {json.dumps(value)}" for key, value in (one | password).items())]
            )
            for one in accounts
        )
        write_secret(file, "\n\n".join(tables))
        return ["--config", str(file)]

    def _known_ports(self) -> dict[str, int]:
        return {_PURPOSES[option]: number for option, number in self._ports.items()}

    def _how_it_ended(self) -> str:
        code = None if self._child is None else self._child.poll()
        return f"the process has ended with exit code {code}; see its log {self.log}"

    def applied_place(self, feed: Feed) -> Place:
        """Return the position up to which a channel (``feed``) has applied the binlog that its origin node wrote."""
        raise NotImplementedError

    def wait_for(self, goal: Goal, deadline: float) -> None:
        waiting = [feed for feed in self.feeds if feed.origin.name == goal.origin]
        next_look = time.monotonic() + _LOOK_FOR_ERRORS

        def is_reached() -> bool:
            nonlocal next_look
            waiting[:] = [feed for feed in waiting if not self.applied_place(feed) >= goal.place]
            if not waiting:
                return True
            if not self.is_running:
                raise NodeIsDown(
                    f"{self.name}: the {self.kind} is {self.state}, at {self.applied_place(waiting[0])}"
                )
            if time.monotonic() >= next_look and not self._is_paused:
                next_look = time.monotonic() + _LOOK_FOR_ERRORS
                self._check_threads(waiting, goal)
            return False

        until(
            is_reached,
            deadline,
            lambda: NotCaughtUp("\n".join(self._behind(feed, goal) for feed in waiting)),
            poll=_POLL,
        )

    def _check_threads(self, waiting: Sequence[Feed], goal: Goal) -> None:
        """Raise NotCaughtUp if the SQL thread of a channel in ``waiting`` has stopped with an error.

        Such a channel cannot reach the position ``goal``. A master has no SQL threads, so that nothing is raised.
        """

    def _behind(self, feed: Feed, goal: Goal) -> str:
        """Return why a channel has not reached the position ``goal``."""
        raise NotImplementedError


class Master(OwnNode):
    """A node that is a master process of dumpfilter."""

    def __init__(self, ground: Ground, node: Node, feeds: Sequence[Feed]) -> None:
        super().__init__(ground, node, feeds)
        self._store: WatchedSet | None = None

    @property
    def slave_port(self) -> int:
        return self._known("--port")

    def _port_options(self) -> list[str]:
        return ["--port", "--console-port", *(["--replica-port"] if self._replicas else [])]

    def _arguments(self) -> list[str]:
        (feed,) = self.feeds
        source = feed.source
        where: list[str]
        if isinstance(source, RunningServerNode | StartedServer):
            where = [source.address_for_master(feed.port), "--store", str(self.directory / "store")]
        else:
            where = [str(source.watched.source)]
        return [
            "master",
            *where,
            f"--console-password-file={self._ground.console_password_file}",
            f"--state-dir={self.directory / 'state'}",
            *self._tls_options(),
            *self._replica_config(),
            *(options_of(self.node)),
        ]

    @property
    def store(self) -> WatchedSet:
        """The binlog set that the master serves: its own copy, or the files that its source writes."""
        (feed,) = self.feeds
        if feed.link is None:
            return feed.source.watched
        if self._store is None:
            self._store = WatchedSet(self.directory / "store")
        return self._store

    def channels(self) -> tuple[ChannelState, ...]:
        (feed,) = self.feeds
        files = self.store.files()
        place = end_of(files)
        origin = feed.source.watched
        lag = lag_behind(origin.note(), origin.history, place, time.monotonic())
        received = sum(size for _, size in files) if feed.link is not None else 0
        return (
            ChannelState(
                "", feed.source.name, place, place, "", lag, bytes_received=received, bytes_dropped=0
            ),
        )

    def counted_for(self, server_id: int) -> Counted:
        """Return the byte counters of the reader ``server_id``, from the master's console. Raises DumpfilterError."""
        rows = self.execute(
            "SELECT bytes_sent, bytes_dropped FROM dumpfilter.slaves WHERE server_id = %s",
            (server_id,),
        )
        return Counted(sum(sent for sent, _ in rows), sum(dropped for _, dropped in rows))

    def applied_place(self, feed: Feed) -> Place:
        return end_of(self.store.files())

    def _progress(self, problems: list[str]) -> tuple[Place, str, tuple[ChannelState, ...]]:
        channels = self.channels()
        return channels[0].applied, "", channels

    def _behind(self, feed: Feed, goal: Goal) -> str:
        return (
            f"{self.name}: the master has {self.applied_place(feed)} of {goal.origin}, and should have {goal.place}:\n"
            f"{self.logs[-_LOG_SHOWN:]}"
        )


class Slave(OwnNode):
    """A node that is a slave process of dumpfilter."""

    def __init__(self, ground: Ground, node: Node, feeds: Sequence[Feed]) -> None:
        super().__init__(ground, node, feeds)
        for feed in self.feeds:
            if isinstance(feed.source, Slave) and len(feed.source.feeds) > 1:
                raise NotRunnable(
                    f"{self.name}: reads {feed.source.name}, which has several sources; a slave serves one "
                    "channel at a port: let the reader read these sources itself"
                )

    @property
    def slave_port(self) -> int:
        return self._known("--serve-port")

    def _port_options(self) -> list[str]:
        if len(self.feeds) > 1 and self._replicas:
            raise NotRunnable(
                f"{self.name}: has several sources, and real replicas; let the replicas read the sources themselves"
            )
        return [
            "--console-port",
            *(["--serve-port"] if self._slaves else []),
            *(["--replica-port"] if self._replicas else []),
        ]

    def _arguments(self) -> list[str]:
        return [
            "slave",
            *(
                f"--master={f'{feed.channel}=' if feed.channel else ''}{HOST}:{feed.port}"
                for feed in self.feeds
            ),
            f"--server-id={self._ground.server_id(self.name)}",
            f"--relay-dir={self.directory / 'relay'}",
            f"--console-password-file={self._ground.console_password_file}",
            f"--connect-retry={_CONNECT_RETRY}",
            "--summary=none",
            *(["--skip-replica-start"] if self._is_paused else []),
            *self._tls_options(),
            *([f"--source-ssl-ca={self._ground.certificate}"] if self.feeds[0].source.node.tls else []),
            *self._replica_config(),
            *rule_options(self.feeds),
            *options_of(self.node),
        ]

    def _start(self) -> None:
        super()._start()
        if self._is_paused:
            try:
                self.server.sql("START REPLICA IO_THREAD")
            except DumpfilterError as error:
                raise StartFailed(str(error)) from None

    def relay_directory(self, feed: Feed) -> Path:
        """Return the directory of a channel's relay logs and state files."""
        relay = self.directory / "relay"
        return relay / CHANNELS / feed.channel if feed.channel else relay

    def applied(self, feed: Feed) -> RelayLogInfo:
        """Return the position up to which a channel (``feed``) has applied, with the applied changes of its target."""
        return RelayLogInfo.read(self.relay_directory(feed))

    def applied_place(self, feed: Feed) -> Place:
        info = self.applied(feed)
        return Place(info.source_file, info.source_position)

    def channels(self) -> tuple[ChannelState, ...]:
        return tuple(self._channel(feed) for feed in self.feeds)

    def _channel(self, feed: Feed) -> ChannelState:
        # The applier's place is read first. It would otherwise lie after the received place.
        applied = self.applied(feed)
        received = MasterInfo.read(self.relay_directory(feed))
        counted = CountersInfo.read(self.relay_directory(feed))
        place = Place(applied.source_file, applied.source_position)
        origin = feed.origin.watched
        return ChannelState(
            channel=feed.channel,
            source=feed.source.name,
            received=Place(received.source_file, received.source_position),
            applied=place,
            gtids=applied.executed,
            lag=lag_behind(origin.note(), origin.history, place, time.monotonic()),
            errors=tuple(error for error in (counted.last_io_error, counted.last_sql_error) if error),
            bytes_received=counted.bytes_received,
            bytes_dropped=counted.counts.get("bytes_dropped", 0),
        )

    def threads(self) -> dict[str, ReplicaStatus]:
        """Return the status of each channel's threads by channel, from the slave's console. Raises DumpfilterError."""
        return {status.channel: status for status in replica_status(self.server)}

    def _progress(self, problems: list[str]) -> tuple[Place, str, tuple[ChannelState, ...]]:
        threads: dict[str, ReplicaStatus] = {}
        counted: dict[str, tuple[int, int]] = {}
        if self.is_running:
            try:
                threads = self.threads()
                rows = self.execute(
                    "SELECT channel_name, bytes_received, bytes_dropped FROM dumpfilter.channels"
                )
                counted = {channel: (int(received), int(dropped)) for channel, received, dropped in rows}
            except DumpfilterError as error:
                problems.append(f"{self.name}: the console does not answer: {error}")
        channels = []
        for found in self.channels():
            its = threads.get(found.channel)
            if its is None or found.channel not in counted:
                channels.append(replace(found, io="No", sql="No"))
                continue
            received, dropped = counted[found.channel]
            channels.append(
                replace(
                    found,
                    io=its.io_state,
                    sql=its.sql_state,
                    errors=tuple(error.text for error in its.errors),
                    bytes_received=received,
                    bytes_dropped=dropped,
                )
            )
        gtids = ", ".join(sorted({one.gtids for one in channels if one.gtids}))
        return channels[0].applied, gtids, tuple(channels)

    def _check_threads(self, waiting: Sequence[Feed], goal: Goal) -> None:
        for feed, threads in self._threads_of(waiting):
            if not threads.sql_running and threads.errors:
                raise NotCaughtUp(self._behind(feed, goal))

    def pause(self) -> None:
        self.execute("STOP REPLICA SQL_THREAD")
        self._is_paused = True

    def resume(self) -> None:
        if self.is_running:
            self.execute("START REPLICA SQL_THREAD")
        self._is_paused = False

    def _threads_of(self, feeds: Sequence[Feed]) -> Iterator[tuple[Feed, ReplicaStatus]]:
        with contextlib.suppress(DumpfilterError):
            threads = self.threads()
            for feed in feeds:
                if feed.channel in threads:
                    yield feed, threads[feed.channel]

    def _behind(self, feed: Feed, goal: Goal) -> str:
        text = f"has applied {self.applied_place(feed)} of {goal.origin}, and should have {goal.place}"
        if self._is_paused:
            return f"{self.name}: {PAUSED}: {text}"
        text = f"{self.name}: {text}"
        for _, threads in self._threads_of([feed]):
            text += f"; {threads}"
        if feed.link is not None and feed.link.counters.state != "up":
            text += f"; the link {feed.link.name} is {feed.link.counters.state}"
        return text


def rule_options(feeds: Sequence[Feed]) -> list[str]:
    """Return the command line options that set the filter rules of a slave's channels."""
    options: list[str] = []
    for feed in feeds:
        for rule in feed.reading.rules:
            name, _, value = rule.removeprefix("--").partition("=")
            options.append(f"--{name}={f'{feed.channel}:' if feed.channel else ''}{value}")
    if semantics_of([rule for feed in feeds for rule in feed.reading.rules]) is FilterSemantics.EFFECTIVE:
        options.append("--filter-semantics=effective")
    return options


def options_of(node: Node) -> list[str]:
    """Return the extra command line options that the topology gives a node, each with leading dashes."""
    return [option if option.startswith("-") else f"--{option}" for option in node.options]

"""The nodes that are processes of dumpfilter: masters and slaves."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.console.auth import DEFAULT_USER
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.slave.state import CHANNELS, CountersInfo, MasterInfo, RelayLogInfo
from dumpfilter.testbed.binlogs import WatchedSet, end_of
from dumpfilter.testbed.errors import NodeIsDown, NotCaughtUp, NotRunnable, StartFailed
from dumpfilter.testbed.keeper import Child, Program
from dumpfilter.testbed.node import PAUSED, Feed, Goal, Ground, TestbedNode
from dumpfilter.testbed.servers.server import (
    ADDRESS,
    REPLICATION,
    Process,
    end_process,
    free_port,
    start_process,
    write_secret,
)
from dumpfilter.testbed.servers.sql import DIALECTS, Account, SqlServer, channel_states
from dumpfilter.testbed.values import ChannelState, Place
from dumpfilter.topology.model import Kind, Node, semantics_of
from dumpfilter.topology.notations import toml_value

STOP_TIMEOUT = 30.0
_POLL = 0.005
_LOG_SHOWN = 2000
_LOOK_FOR_ERRORS = 1.0
"""The interval at which the threads of a slave are checked for errors during a wait, seconds."""

_CONNECT_RETRY = "0.5"
"""The longest time between two attempts of a slave to connect, seconds, so that a link that heals is used soon."""


class OwnNode(TestbedNode):
    """A node of a topology that is a process of dumpfilter (a master or a slave). It has an SQL console."""

    grpc_option: str
    """The option that sets the port at which slaves read the node."""

    def __init__(self, ground: Ground, node: Node, feeds: Sequence[Feed]) -> None:
        super().__init__(ground, node, feeds)
        self._child: Child | None = None
        readers = ground.topology.readers(node.name)
        self.accounts: list[dict[str, Any]] = [
            {
                "user": REPLICATION,
                "server_ids": [ground.server_id(reader.name)],
                "rules": [
                    f"--{rule}" for one in reader.reads if one.source == self.name for rule in one.rules
                ],
            }
            for reader in readers
            if reader.kind == "server"
        ]
        """The accounts of the real replicas that read the node, without the password, as in its configuration file."""
        self._serves_slaves = self.kind == "master" or any(reader.kind == "slave" for reader in readers)

    @property
    def server(self) -> SqlServer:
        account = Account(DEFAULT_USER, self._ground.console_password)
        return SqlServer(self.name, "mysql", ADDRESS, self._known_port("sql"), account)

    @property
    def process(self) -> Process | None:
        return self._child

    def _known_port(self, purpose: str) -> int:
        if purpose not in self._ports:
            raise NodeIsDown(f"{self.name}: the node has never run, so that it has no port")
        return self._ports[purpose]

    def address_for(self, reader: Kind) -> tuple[str, int]:
        return ADDRESS, self._known_port("replica" if reader == "server" else "grpc")

    @property
    def account(self) -> Account:
        return Account(REPLICATION, self._ground.replication_password)

    def _arguments(self) -> list[str]:
        """Return the command line arguments that are specific to the node's command, ``dumpfilter master`` or
        ``dumpfilter slave``.
        """
        raise NotImplementedError

    def _begin(self) -> None:
        """Start the node's process, a ``dumpfilter master`` or ``dumpfilter slave``. If another process took a chosen
        port first, try other ports.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        ground, is_new = self._ground, not self._ports
        options = {"sql": "--console-port"}
        if self._serves_slaves:
            options["grpc"] = self.grpc_option
        if self.accounts:
            options["replica"] = "--replica-port"
        files = {purpose: self.directory / f"{purpose}-port" for purpose in options}

        def launch(_: int) -> Child:
            if is_new:
                self._ports = {purpose: free_port() for purpose in options}
            arguments = [
                self.kind,
                *self._arguments(),
                f"--console-password-file={ground.console_password_file}",
                *([f"--tls-cert={ground.certificate}", f"--tls-key={ground.key}"] if self.node.tls else []),
                *self._config(),
                *(option if option.startswith("-") else f"--{option}" for option in self.node.options),
            ]
            for purpose, option in options.items():
                files[purpose].unlink(missing_ok=True)
                arguments += [option, str(self._ports[purpose]), f"{option}-file", str(files[purpose])]
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
            deadline=time.monotonic() + ground.start_timeout,
        )

    def _config(self) -> list[str]:
        """Write the configuration file with the accounts of real replicas (MySQL and MariaDB servers), and return the
        option that names the file.

        The result is empty if no real replica reads the node.
        """
        if not self.accounts:
            return []
        file = self.directory / "replicas.toml"
        password = {"password": self._ground.replication_password}
        write_secret(file, f"replica = {toml_value([one | password for one in self.accounts])}\n")
        return ["--config", str(file)]

    def _end(self, *, in_order: bool) -> None:
        end_process(self._child, in_order=in_order, timeout=STOP_TIMEOUT)

    def _position(self, channels: Sequence[ChannelState], problems: list[str]) -> tuple[Place, str]:
        return channels[0].applied, ", ".join(sorted({one.gtids for one in channels if one.gtids}))

    def applied_place(self, feed: Feed) -> Place:
        """Return the position up to which a slave has applied, or a master has received, the binlog of one source. It
        is a position in the files of the server that wrote this binlog.

        ``feed`` is the source, with the channel that reads it.
        """
        raise NotImplementedError

    def wait_for(self, goal: Goal, deadline: float) -> None:
        next_look = time.monotonic() + _LOOK_FOR_ERRORS
        while late := [
            feed for feed in self.feeds if feed.origin is goal.origin and not self._has(feed, goal)
        ]:
            if not self.is_running:
                raise NodeIsDown(
                    f"{self.name}: the {self.kind} is {self.state}, at {self.applied_place(late[0])}"
                )
            now, has_failed = time.monotonic(), False
            if now >= next_look and not self._is_paused:
                next_look = now + _LOOK_FOR_ERRORS
                threads = self._threads()
                its = [threads[feed.channel] for feed in late if feed.channel in threads]
                has_failed = any(one.sql == "No" and one.errors for one in its)
            if has_failed or now > deadline:
                raise NotCaughtUp("\n".join(self._behind(feed, goal) for feed in late))
            time.sleep(_POLL)

    def _has(self, feed: Feed, goal: Goal) -> bool:
        return self.applied_place(feed) >= goal.place

    def _threads(self) -> Mapping[str, ChannelState]:
        """Return the states of the node's replication channels, with their threads, in a dictionary by the channels'
        names. It is empty if the node's SQL console does not answer, and for a master.
        """
        problems: list[str] = []
        told = {one.channel: one for one in self._told_channels(problems) if one.io}
        return {} if problems else told

    def _behind(self, feed: Feed, goal: Goal) -> str:
        """Return a text for an error, which says how far a channel (of the source ``feed``) is from ``goal``, and
        why.
        """
        told = f"has applied {self.applied_place(feed)} of {goal.origin.name}, and should have {goal.place}"
        if self._is_paused:
            return f"{self.name}: {PAUSED}: {told}"
        its = self._threads().get(feed.channel)
        return f"{self.name}: {told}{'' if its is None else f'; {its.threads}'}{feed.fault}"


class Master(OwnNode):
    """A node that is a process ``dumpfilter master``, which serves the binlog of its source to slaves and replicas."""

    grpc_option = "--port"

    def __init__(self, ground: Ground, node: Node, feeds: Sequence[Feed]) -> None:
        super().__init__(ground, node, feeds)
        self._store = WatchedSet(self.directory / "store")

    def _arguments(self) -> list[str]:
        (feed,) = self.feeds
        return [
            *feed.source.arguments_for_master(feed, self._store.source),
            f"--state-dir={self.directory / 'state'}",
        ]

    @property
    def store(self) -> WatchedSet:
        """The binlog files that the master serves to slaves and replicas. The master has received them from a server,
        or a recording or workload (a node without a server) writes them.
        """
        (feed,) = self.feeds
        return feed.source.watched if feed.link is None else self._store

    def channels(self) -> tuple[ChannelState, ...]:
        (feed,) = self.feeds
        files = self.store.files()
        place = end_of(files)
        received = sum(size for _, size in files) if feed.link is not None else 0
        lag = feed.source.watched.lag_of(place)
        name = feed.source.name
        return (ChannelState("", name, place, place, "", lag, bytes_received=received, bytes_dropped=0),)

    def counted_for(self, server_id: int) -> dict[str, Any]:
        with contextlib.suppress(DumpfilterError):
            rows = self.execute(
                "SELECT bytes_sent, bytes_dropped FROM dumpfilter.slaves WHERE server_id = %s", (server_id,)
            )
            return {
                "bytes_received": sum(sent for sent, _ in rows),
                "bytes_dropped": sum(dropped for _, dropped in rows),
            }
        return {}

    def applied_place(self, feed: Feed) -> Place:
        return end_of(self.store.files())

    def _behind(self, feed: Feed, goal: Goal) -> str:
        return f"{super()._behind(feed, goal)}:\n{self.logs[-_LOG_SHOWN:]}"


class Slave(OwnNode):
    """A node that is a process ``dumpfilter slave``, which reads from masters or from other slaves. It keeps counts and
    digests of the changes of each table, and no rows.
    """

    grpc_option = "--serve-port"
    applies = True

    def __init__(self, ground: Ground, node: Node, feeds: Sequence[Feed]) -> None:
        super().__init__(ground, node, feeds)
        for feed in self.feeds:
            if isinstance(feed.source, Slave) and len(feed.source.feeds) > 1:
                raise NotRunnable(
                    f"{self.name}: reads {feed.source.name}, which has several sources; a slave serves one "
                    "channel at a port: let the reader read these sources itself"
                )
        if len(self.feeds) > 1 and self.accounts:
            raise NotRunnable(
                f"{self.name}: has several sources, and real replicas; let the replicas read the sources themselves"
            )

    def _arguments(self) -> list[str]:
        masters = [(feed.channel, *feed.address) for feed in self.feeds]
        rules = {feed.channel: feed.reading.rules for feed in self.feeds}
        is_effective = (
            semantics_of([rule for given in rules.values() for rule in given]) is FilterSemantics.EFFECTIVE
        )
        return [
            *(f"--master={name and f'{name}='}{host}:{port}" for name, host, port in masters),
            f"--server-id={self._ground.server_id(self.name)}",
            f"--relay-dir={self.directory / 'relay'}",
            f"--connect-retry={_CONNECT_RETRY}",
            "--summary=none",
            *(["--skip-replica-start"] if self._is_paused else []),
            *([f"--source-ssl-ca={self._ground.certificate}"] if self.feeds[0].source.node.tls else []),
            *DIALECTS["mysql"].rule_options(rules),
            *(["--filter-semantics=effective"] if is_effective else []),
        ]

    def relay_directory(self, feed: Feed) -> Path:
        """Return the directory of the relay logs and state files of one replication channel. ``feed`` is the channel's
        source.
        """
        relay = self.directory / "relay"
        return relay / CHANNELS / feed.channel if feed.channel else relay

    def applied(self, feed: Feed) -> RelayLogInfo:
        """Return the content of ``relay-log.info`` of one replication channel: the applied position, the executed
        GTIDs, and the counts and hashes of the applied changes by table.

        ``feed`` is the channel's source. The file is read even while the slave runs.
        """
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
        return ChannelState(
            channel=feed.channel,
            source=feed.source.name,
            received=Place(received.source_file, received.source_position),
            applied=place,
            gtids=applied.executed,
            lag=feed.origin.watched.lag_of(place),
            errors=tuple(error for error in (counted.last_io_error, counted.last_sql_error) if error),
            bytes_received=counted.counts.get("bytes_received", 0),
            bytes_dropped=counted.counts.get("bytes_dropped", 0),
        )

    def _told_channels(self, problems: list[str]) -> tuple[ChannelState, ...]:
        told: dict[str, dict[str, Any]] = {}
        if self.is_running:
            try:
                for one in channel_states(self.server):
                    told[one.channel] = {"io": one.io, "sql": one.sql, "errors": one.errors}
                for name, received, dropped in self.execute(
                    "SELECT channel_name, bytes_received, bytes_dropped FROM dumpfilter.channels"
                ):
                    told[name] |= {"bytes_received": int(received), "bytes_dropped": int(dropped)}
            except DumpfilterError as error:
                problems.append(f"{self.name}: the console does not answer: {error}")
        return tuple(
            replace(one, **told.get(one.channel, {"io": "No", "sql": "No"})) for one in self.channels()
        )

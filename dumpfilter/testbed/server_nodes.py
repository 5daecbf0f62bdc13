"""Real servers as nodes: a server that is started for the topology, and a server that runs already."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlencode

from dumpfilter.base.errors import ConnectionLost, DumpfilterError, ReplicaBehind, ServerError, ServerMissing
from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.receiver.credentials import find_credentials
from dumpfilter.receiver.url import parse_source_url
from dumpfilter.testbed.applied import AppliedPlaces
from dumpfilter.testbed.binlogs import WatchedSet, end_of, lag_behind
from dumpfilter.testbed.errors import NodeIsDown, NotCaughtUp, NotRunnable, StartFailed
from dumpfilter.testbed.ground import HOST, REPLICATION_USER, Ground
from dumpfilter.testbed.node import PAUSED, Feed, Goal, TestbedNode
from dumpfilter.testbed.servers import (
    Account,
    ReplicaStatus,
    RunningServer,
    Server,
    SourceAddress,
    SqlServer,
    find_program,
    replica_status,
    wait_for_gtids,
)
from dumpfilter.testbed.values import NO_LAG, NOWHERE, ChannelState, Lag, Place
from dumpfilter.topology.model import Node

_THREADS_OF_THE_SERVER = ("system user", "event_scheduler", "unauthenticated user")
"""The users under which SHOW PROCESSLIST lists the server's own threads, and replicas that are just logging in."""

_LAST_LOOK = 5.0
"""The time limit for reading the positions of a server that is about to end, seconds."""

_OF_THE_SERVER = ("information_schema", "mysql", "performance_schema", "sys")


class SqlNode(TestbedNode):
    """A node of a topology that is a MySQL or MariaDB server, to which SQL statements can be sent."""

    writes_binlog = True

    @property
    def account(self) -> Account:
        """The account with which replicas and masters read the server's binlog."""
        raise NotImplementedError

    def address_for_master(self, port: int) -> str:
        """Return the URL at which a master of dumpfilter connects to the server through the link's port ``port``."""
        raise NotImplementedError

    @property
    def replica_port(self) -> int:
        return self.server.port

    def goal(self) -> Goal:
        if not self.is_running:
            # Nobody writes, so that the end is in the files.
            return Goal(self.name, end_of(self.watched.note()), "")
        return Goal(self.name, self.server.binlog_end(), self.server.binlog_gtids())

    def _end_of_binlog(self, problems: list[str]) -> tuple[Place, str]:
        """Return the end of the binlog of a running server, and the server's GTID set."""
        if self.is_running:
            try:
                goal = self.goal()
                # Transactions that a replica's filter drops are not in the replica's binlog.
                return goal.place, self.server.applied_gtids() if self.feeds else goal.gtids
            except (ServerError, ConnectionLost) as error:
                problems.append(str(error))
        return NOWHERE, ""


class StartedServer(SqlNode):
    """A server that was started for the topology, with or without sources."""

    def __init__(self, ground: Ground, node: Node, feeds: Sequence[Feed]) -> None:
        super().__init__(ground, node, feeds)
        self._server: Server | None = None
        self._last: dict[str, ChannelState] = {}
        """The state of the channels when it was last read, by name."""
        self._places = {feed.channel: AppliedPlaces() for feed in self.feeds}
        for feed in self.feeds:
            if feed.origin.node.workload and not node.init:
                raise NotRunnable(
                    f"{self.name}: a real replica cannot apply the generated workload of {feed.source.name}, whose "
                    "tables it does not have; let the topology begin with a server, or make the tables with init"
                )

    @property
    def server(self) -> Server:
        """The server. Raises NodeIsDown before the first start."""
        if self._server is None:
            raise NodeIsDown(f"{self.name}: the server has not been started yet")
        return self._server

    @property
    def _is_alive(self) -> bool:
        return self._server is not None and self._server.is_running

    @property
    def pid(self) -> int | None:
        return None if self._server is None else self._server.pid

    @property
    def account(self) -> Account:
        return self.server.replication

    @property
    def logs(self) -> str:
        return "" if self._server is None else self._server.log_text()

    def address_for_master(self, port: int) -> str:
        options = {"password-file": str(self.server.replication_password_file)}
        if self.node.tls:
            options |= {"tls": "verify-identity", "ca": str(self._ground.certificate)}
        return f"mysql://{self.server.replication.user}@{HOST}:{port}/?{urlencode(options)}"

    def _begin(self) -> None:
        try:
            if self._server is None:
                self._server = self._made()
            self._server.start(self._ground.start_timeout, replicates=not self._is_paused)
            if self._is_paused:
                for feed in self.feeds:
                    self._server.channel(feed.channel).start("IO_THREAD")
            if self._watched is None:
                self._follow_all()
                index = Path(self._server.value("@@GLOBAL.log_bin_index"))
                self._watched = WatchedSet(index if index.is_absolute() else self._server.data / index)
        except ServerMissing:
            raise
        except DumpfilterError as error:
            raise StartFailed(
                f"{self.name}: {error}".replace(f"{self.name}: {self.name}: ", f"{self.name}: ")
            ) from None

    def _made(self) -> Server:
        node = self.node
        origins = [
            one.name for one in self._ground.topology.nodes if one.server == "mariadb" and not one.reads
        ]
        return Server(
            find_program(node.family, node.program, node.root or ""),
            self.directory,
            name=self.name,
            server_id=self._ground.server_id(self.name),
            options=(*self._tls_options(), *node.options),
            rules={feed.channel: feed.reading.rules for feed in self.feeds},
            init=node.init,
            is_replica=bool(self.feeds),
            # MariaDB replicas with several sources keep them apart by the domains of their GTIDs.
            domain=origins.index(self.name) if self.name in origins and len(origins) > 1 else 0,
            spawn=self._ground.spawner(self.name, self.log),
        )

    def _tls_options(self) -> list[str]:
        ground = self._ground
        return [f"--ssl-cert={ground.certificate}", f"--ssl-key={ground.key}"] if self.node.tls else []

    def _follow_all(self) -> None:
        for feed in self.feeds:
            source = feed.source
            ca = self._ground.certificate if source.node.tls else None
            if isinstance(source, SqlNode):
                address = SourceAddress(
                    feed.host, feed.port, source.account.user, source.account.password, ca=ca
                )
            else:
                address = SourceAddress(
                    HOST,
                    feed.port,
                    REPLICATION_USER,
                    self._ground.replication_password,
                    tls=self.node.family == "mysql",
                    ca=ca,
                )
            place = None
            if not self.node.gtid:
                files = feed.origin.watched.files()
                place = Place(files[0][0] if files else "", 4)
            self.server.channel(feed.channel).follow(address, place=place)

    def _end(self, *, in_order: bool) -> None:
        if self._server is not None:
            (self._server.stop if in_order else self._server.kill)()

    def _end_if_running(self, *, in_order: bool) -> None:
        with self._lock:
            if self.is_running:
                self._note_channels()
            super()._end_if_running(in_order=in_order)

    def _note_channels(self) -> None:
        """Record the positions of the channels of a server that is about to end, since its files do not have them."""

        def look() -> None:
            with contextlib.suppress(DumpfilterError, OSError):
                self.channels()

        # A server that does not answer has earlier places.
        looking = threading.Thread(target=look, name=f"last look at {self.name}", daemon=True)
        looking.start()
        looking.join(_LAST_LOOK)

    def channels(self) -> tuple[ChannelState, ...]:
        """Return the state of each channel.

        For a server that does not answer, the positions are the last known ones, with the lag of now.
        """
        if self.feeds and self.is_running:
            with contextlib.suppress(ServerError, ConnectionLost):
                applied = self.server.applied_gtids()
                found = {one.channel: one for one in replica_status(self.server)}
                self._last = {
                    feed.channel: self._channel(feed, found[feed.channel], applied)
                    for feed in self.feeds
                    if feed.channel in found
                }
                return tuple(self._last.values())
        channels = []
        for feed in self.feeds:
            last = self._last.get(feed.channel)
            if last is None:
                last = ChannelState(feed.channel, feed.source.name, NOWHERE, NOWHERE, "", NO_LAG)
            # An origin that has never been started has no binlog.
            with contextlib.suppress(NodeIsDown):
                place, lag = self._place_and_lag(feed, last.applied, last.gtids)
                channels.append(replace(last, applied=place, lag=lag, io="No", sql="No", errors=()))
        return tuple(channels)

    def _channel(self, feed: Feed, status: ReplicaStatus, gtids: str) -> ChannelState:
        place, lag = self._place_and_lag(feed, status.applied, gtids)
        return ChannelState(
            channel=feed.channel,
            source=feed.source.name,
            received=status.received,
            applied=place,
            gtids=gtids,
            lag=lag,
            io=status.io_state,
            sql=status.sql_state,
            errors=tuple(map(str, status.errors)),
        )

    def _with_counts(self, channel: ChannelState) -> ChannelState:
        """Return the channel with the byte counters of the master that serves it. A real source counts no bytes."""
        source = next(feed.source for feed in self.feeds if feed.channel == channel.channel)
        try:
            counted = source.counted_for(self._ground.server_id(self.name))
        except DumpfilterError:
            return channel
        return replace(channel, bytes_received=counted.sent, bytes_dropped=counted.dropped)

    def _place_and_lag(self, feed: Feed, told: Place, gtids: str) -> tuple[Place, Lag]:
        """Return the position up to which the replica has applied the binlog of its origin, and the lag.

        The origin is the node that wrote the binlog. ``told`` is the position that the replica reports, which may lie
        before transactions that have been applied.
        """
        origin = feed.origin.watched
        files = origin.note()
        found = self._places[feed.channel].find(origin.paths(), files, told, gtids)
        lag = lag_behind(files, origin.history, told if found is None else found, time.monotonic())
        if found is None and lag != NO_LAG and self._has_all(feed, gtids):
            return told, NO_LAG
        return (told if found is None else found), lag

    def _has_all(self, feed: Feed, gtids: str) -> bool:
        with contextlib.suppress(DumpfilterError):
            expected = feed.origin.goal().gtids
            return bool(expected) and parse_gtid_set(expected).issubset(parse_gtid_set(gtids))
        return False

    def _progress(self, problems: list[str]) -> tuple[Place, str, tuple[ChannelState, ...]]:
        channels = tuple(map(self._with_counts, self.channels()))
        return *self._end_of_binlog(problems), channels

    def _known_ports(self) -> dict[str, int]:
        return {} if self._watched is None else {"sql": self.port}

    def _how_it_ended(self) -> str:
        return f"the server has ended; see its log {self.log}"

    def wait_for(self, goal: Goal, deadline: float) -> None:
        gtids = goal.gtids or self._origin(goal).all_gtids()
        try:
            wait_for_gtids(
                self.server,
                gtids,
                max(deadline - time.monotonic(), 0.0),
                held=lambda: PAUSED if self._is_paused else "",
            )
        except ReplicaBehind as error:
            cut = [
                feed.link.name
                for feed in self.feeds
                if feed.link is not None and feed.link.counters.state != "up"
            ]
            more = f"; cut or silent: {', '.join(cut)}" if cut else ""
            raise NotCaughtUp(f"{error}{more}") from None
        except ConnectionLost as error:
            raise NodeIsDown(str(error)) from None

    def _origin(self, goal: Goal) -> TestbedNode:
        return next(feed.origin for feed in self.feeds if feed.origin.name == goal.origin)

    def hold_behind(self, seconds: float) -> None:
        """Keep the replica's data ``seconds`` behind its sources, by the servers' delayed replication."""
        self._check_running()
        for feed in self.feeds:
            self.server.channel(feed.channel).set_delay(round(seconds), applies=not self._is_paused)
        self._held_behind = seconds

    def pause(self) -> None:
        self._check_running()
        self._is_paused = True
        for feed in self.feeds:
            self.server.channel(feed.channel).stop("SQL_THREAD")

    def resume(self) -> None:
        if self.is_running:
            for feed in self.feeds:
                self.server.channel(feed.channel).start("SQL_THREAD")
        self._is_paused = False

    def databases(self) -> list[str]:
        """Return the names of all databases but the system databases, such as ``mysql`` and ``sys``."""
        return [name for (name,) in self.server.sql("SHOW DATABASES") if name not in _OF_THE_SERVER]

    def end_connections(self) -> None:
        """End the connections of all clients, since their locks and transactions would stop a replica or a DROP.

        The server's replication threads and the connections that read its binlog stay.
        """
        ours = (*_THREADS_OF_THE_SERVER, self.server.replication.user)
        for row in self.server.rows("SHOW PROCESSLIST"):
            if row["User"] not in ours and not str(row["Command"]).startswith("Binlog Dump"):
                # The client may have ended in the meantime, as the one that asked for this list.
                with contextlib.suppress(ServerError):
                    self.server.sql(f"KILL {row['Id']}")

    def drop_databases(self) -> None:
        """Drop all databases but the system databases, such as ``mysql`` and ``sys``."""
        for name in self.databases():
            # A filter asks for the current database. So replicas that have the database drop it, too.
            self.server.sql(
                "SET FOREIGN_KEY_CHECKS = 0", f"DROP DATABASE `{name.replace('`', '``')}`", database=name
            )

    def run_init(self) -> None:
        """Run the node's ``init`` statements again. On a replica they are not written to the binlog."""
        if self.node.init:
            first = [self.server.dialect.without_binlog] if self.feeds else []
            self.server.sql(*first, *self.node.init)


class RunningServerNode(SqlNode):
    """A server that runs already. The topology reads its binlog, and changes nothing."""

    def __init__(self, ground: Ground, node: Node, feeds: Sequence[Feed]) -> None:
        super().__init__(ground, node, feeds)
        self._url = node.connect or ""
        self._address = parse_source_url(self._url)
        found = find_credentials(self._address)
        self._account = Account(found.user, found.password)
        self._server: SqlServer | None = None

    @property
    def server(self) -> SqlServer:
        """The server. Raises NodeIsDown before the start."""
        if self._server is None:
            raise NodeIsDown(f"{self.name}: the server has not been asked yet")
        return self._server

    @property
    def account(self) -> Account:
        return self._account

    @property
    def watched(self) -> WatchedSet:
        """The binlog files that the first master has received. The server's own files may be on another machine."""
        if self._watched is None:
            reader = next(
                (one.name for one in self._ground.topology.readers(self.name) if one.kind != "server"),
                None,
            )
            if reader is None:
                raise NotRunnable(f"{self.name}: no master of dumpfilter reads this server")
            self._watched = WatchedSet(self._ground.directory / reader / "store")
        return self._watched

    def address_for_master(self, port: int) -> str:
        query = self._url.partition("?")[2]
        return f"mysql://{quote(self._account.user, safe='')}@{HOST}:{port}/{query and f'?{query}'}"

    def _begin(self) -> None:
        try:
            self._server = RunningServer(self.name, self._address.host, self._address.port, self._account)
        except (ServerError, ConnectionLost) as error:
            raise StartFailed(str(error)) from None

    def _end(self, *, in_order: bool) -> None:
        raise NotRunnable(f"{self.name}: the server runs already, and the topology does not stop it")

    def close(self) -> None:
        self.state = "stopped"

    def _progress(self, problems: list[str]) -> tuple[Place, str, tuple[ChannelState, ...]]:
        return *self._end_of_binlog(problems), ()

    def _known_ports(self) -> dict[str, int]:
        return {} if self._server is None else {"sql": self.port}

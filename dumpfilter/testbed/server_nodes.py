"""Real servers as nodes: a server that is started for the topology, and a server that runs already."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlencode

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.receiver.login import find_credentials
from dumpfilter.receiver.url import parse_source_url
from dumpfilter.testbed.binlogs import WatchedSet, applied_place, end_of
from dumpfilter.testbed.errors import NodeIsDown, NotCaughtUp, NotRunnable, TestbedError
from dumpfilter.testbed.keeper import Program
from dumpfilter.testbed.node import PAUSED, Feed, Goal, Ground, TestbedNode
from dumpfilter.testbed.servers.server import Process, Server, find_program
from dumpfilter.testbed.servers.sql import (
    DIALECTS,
    Account,
    RunningServer,
    SourceAddress,
    SqlServer,
    channel_states,
    databases_of,
    identifier,
    wait_for_gtids,
)
from dumpfilter.testbed.values import NO_LAG, NOWHERE, ChannelState, Place
from dumpfilter.topology.model import Kind, Node

_THREADS_OF_THE_SERVER = ("system user", "event_scheduler", "unauthenticated user")
"""The users under which SHOW PROCESSLIST lists the server's own threads, and replicas that are just logging in."""

_LAST_LOOK = 5.0
"""The time limit for reading the positions of a server that is about to end, seconds."""


class SqlNode(TestbedNode):
    """A node of a topology that is a MySQL or MariaDB server, to which SQL statements can be sent."""

    writes_binlog = True

    def address_for(self, reader: Kind) -> tuple[str, int]:
        return self.server.host, self.server.port

    def arguments_for_master(self, feed: Feed, store: Path) -> list[str]:
        host, port = feed.address
        user = quote(self.account.user, safe="")
        return [f"mysql://{user}@{host}:{port}/{self._query()}", "--store", str(store)]

    def _query(self) -> str:
        """Return the query part of the server's URL, which a master of dumpfilter gets on its command line to read the
        server.

        An example is ``?password-file=…``. It also has options of TLS. It is empty without options.
        """
        raise NotImplementedError

    def goal(self) -> Goal:
        if not self.is_running:
            # Nobody writes, so that the end is in the files.
            return Goal(self, end_of(self.watched.note()))
        return Goal(self, self.server.binlog_end(), self.server.binlog_gtids())

    def _position(self, channels: Sequence[ChannelState], problems: list[str]) -> tuple[Place, str]:
        if self.is_running:
            try:
                goal = self.goal()
                # Transactions that a replica's filter drops are not in the replica's binlog.
                return goal.place, self.server.applied_gtids() if self.feeds else goal.gtids
            except TestbedError as error:
                problems.append(str(error))
        return NOWHERE, ""


class StartedServer(SqlNode):
    """A node that is a MySQL or MariaDB server started for the topology. With sources it is a real replica."""

    applies = True

    def __init__(self, ground: Ground, node: Node, feeds: Sequence[Feed]) -> None:
        super().__init__(ground, node, feeds)
        for feed in self.feeds:
            if feed.origin.node.workload and not node.init:
                raise NotRunnable(
                    f"{self.name}: a real replica cannot apply the generated workload of {feed.source.name}, whose "
                    "tables it does not have; let the topology begin with a server, or make the tables with init"
                )
        self._last = {
            feed.channel: ChannelState(feed.channel, feed.source.name, NOWHERE, NOWHERE, "", NO_LAG)
            for feed in self.feeds
        }
        """The state of the channels when it was last read, by name."""
        self._looking = threading.Lock()
        tls = [f"--ssl-cert={ground.certificate}", f"--ssl-key={ground.key}"] if node.tls else []
        origins = [one.name for one in ground.topology.nodes if one.server == "mariadb" and not one.reads]
        # MariaDB replicas with several sources keep them apart by the domains of their GTIDs.
        domain = [f"--gtid-domain-id={origins.index(self.name)}"] if self.name in origins[1:] else []
        # A replica does not write the statements to its binlog.
        self._init = (DIALECTS[node.family].without_binlog, *node.init) if feeds else node.init
        self._server = Server(
            find_program(node.family, node.program, node.root or ""),
            self.directory,
            name=self.name,
            server_id=ground.server_id(self.name),
            options=(*tls, *domain, *node.options),
            rules={feed.channel: feed.reading.rules for feed in self.feeds},
            init=self._init,
            log=self.log,
            spawn=lambda command, environment: ground.start(
                Program(self.name, command, self.log, environment, is_executed=True)
            ),
        )

    @property
    def server(self) -> Server:
        return self._server

    @property
    def process(self) -> Process | None:
        return self.server.process

    @property
    def account(self) -> Account:
        return self.server.replication

    def _query(self) -> str:
        options = {"password-file": str(self.server.replication_password_file)}
        if self.node.tls:
            options |= {"tls": "verify-identity", "ca": str(self._ground.certificate)}
        return f"?{urlencode(options)}"

    def _begin(self) -> None:
        self.server.start(self._ground.start_timeout, replicates=not self._is_paused)
        if self._watched is None:
            for feed in self.feeds:
                self._follow(feed)
            index = Path(self.server.value("@@GLOBAL.log_bin_index"))
            self._watched = WatchedSet(index if index.is_absolute() else self.server.data / index)
            self._ports = {"sql": self.port}

    def _follow(self, feed: Feed) -> None:
        node, account = feed.source.node, feed.source.account
        address = SourceAddress(
            *feed.address,
            account.user,
            account.password,
            tls=node.is_own and self.node.family == "mysql",
            ca=self._ground.certificate if node.tls else None,
        )
        place = None
        if not self.node.gtid:
            files = feed.origin.watched.files()
            place = Place(files[0][0].name if files else "", 4)
        self.server.set_source(address, feed.channel, place=place)
        self.server.control("START", [feed.channel])

    def _end(self, *, in_order: bool) -> None:
        (self.server.stop if in_order else self.server.kill)()

    def _end_if_running(self, *, in_order: bool) -> None:
        with self._lock:
            if self.is_running:
                self._note_channels()
            super()._end_if_running(in_order=in_order)

    def _note_channels(self) -> None:
        """Store the positions of the replication channels before the server ends, for statuses after its end. They
        cannot be read from the server's files afterwards.
        """

        def look() -> None:
            with contextlib.suppress(DumpfilterError, OSError):
                self.channels()

        # A server that does not answer has earlier places.
        looking = threading.Thread(target=look, name=f"last look at {self.name}", daemon=True)
        looking.start()
        looking.join(_LAST_LOOK)

    def channels(self) -> tuple[ChannelState, ...]:
        """Return the state of each replication channel of the server.

        If the server does not answer, the channels have their last known positions. Each lag is then the distance from
        such a position to the present end of the binlog in which the channel's events were first written.
        """
        # The result of an earlier call must not replace that of a later one as the last known positions.
        with self._looking:
            now = {name: replace(last, io="No", sql="No", errors=()) for name, last in self._last.items()}
            if self.feeds and self.is_running:
                with contextlib.suppress(TestbedError):
                    gtids = self.server.applied_gtids()
                    for told in channel_states(self.server):
                        if told.channel in now:
                            now[told.channel] = replace(told, source=now[told.channel].source, gtids=gtids)
            found = {}
            for feed in self.feeds:
                # An origin that has never been started has no binlog, and that of a running server may be elsewhere.
                with contextlib.suppress(NodeIsDown):
                    found[feed.channel] = self._with_lag(feed, now[feed.channel])
            self._last |= found
            return tuple(found.values())

    def _with_lag(self, feed: Feed, channel: ChannelState) -> ChannelState:
        """Return the state ``channel`` of a replication channel, completed by the lag and the applied position in the
        binlog of the origin (the node that wrote it).

        ``feed`` is the source that the channel reads. The position that the replica itself reports may lie before
        transactions that have been applied.
        """
        watched, last = feed.origin.watched, self._last[feed.channel]
        found = applied_place(watched.files(), channel.applied, channel.gtids, (last.gtids, last.applied))
        place = channel.applied if found is None else found
        lag = watched.lag_of(place)
        if found is None and lag != NO_LAG and self._has_all(feed, channel.gtids):
            lag = NO_LAG
        return replace(channel, applied=place, lag=lag)

    def _has_all(self, feed: Feed, gtids: str) -> bool:
        with contextlib.suppress(DumpfilterError):
            expected = feed.origin.goal().gtids
            return bool(expected) and parse_gtid_set(expected).issubset(parse_gtid_set(gtids))
        return False

    def _told_channels(self, problems: list[str]) -> tuple[ChannelState, ...]:
        server_id = self._ground.server_id(self.name)
        sources = {feed.channel: feed.source for feed in self.feeds}
        return tuple(replace(one, **sources[one.channel].counted_for(server_id)) for one in self.channels())

    def wait_for(self, goal: Goal, deadline: float) -> None:
        try:
            wait_for_gtids(
                self.server,
                goal.gtids or goal.origin.all_gtids(),
                max(deadline - time.monotonic(), 0.0),
                held=lambda: PAUSED if self._is_paused else "",
            )
        except NotCaughtUp as error:
            raise NotCaughtUp(f"{error}{''.join(feed.fault for feed in self.feeds)}") from None

    def hold_behind(self, seconds: float) -> None:
        """Make the replica apply each transaction ``seconds`` after its commit at the source, by the server's delayed
        replication (``SOURCE_DELAY``). 0 ends the delay.
        """
        self._check_running()
        for feed in self.feeds:
            applies = not self._is_paused
            self.server.sql(*self.server.dialect.delayed(feed.channel, round(seconds), applies=applies))
        self._held_behind = seconds

    def end_connections(self) -> None:
        """Close the connections of all clients of the server. Their locks and open transactions could block the SQL
        thread or a DROP DATABASE.

        The server's replication threads and the connections that read its binlog stay.
        """
        ours = (*_THREADS_OF_THE_SERVER, self.server.replication.user)
        for row in self.server.rows("SHOW PROCESSLIST"):
            if row["User"] not in ours and not str(row["Command"]).startswith("Binlog Dump"):
                # The client may have ended in the meantime, as the one that asked for this list.
                with contextlib.suppress(TestbedError):
                    self.server.sql(f"KILL {row['Id']}")

    def drop_databases(self) -> None:
        """Drop all databases but the system databases, such as ``mysql`` and ``sys``."""
        for name in databases_of(self.server):
            # A filter asks for the current database. So replicas that have the database drop it, too.
            self.server.sql("SET FOREIGN_KEY_CHECKS = 0", f"DROP DATABASE {identifier(name)}", database=name)

    def run_init(self) -> None:
        """Run again the SQL statements that the topology defines for a new server (``init``). On a replica they are not
        written to the binlog.
        """
        self.server.sql(*self._init)


class RunningServerNode(SqlNode):
    """A node that is a server which runs already, outside the topology. Its binlog is read, and nothing is changed in
    it.
    """

    def __init__(self, ground: Ground, node: Node, feeds: Sequence[Feed]) -> None:
        super().__init__(ground, node, feeds)
        self._url = node.connect or ""
        self._address = parse_source_url(self._url)
        found = find_credentials(self._address)
        self._account = Account(found.user, found.password)
        self._server: SqlServer | None = None
        for reader in ground.topology.readers(self.name):
            if self._watched is None and reader.kind != "server":
                # The server's own files may be on another machine. A master has received the same binlog.
                self._watched = WatchedSet(ground.directory / reader.name / "store")

    @property
    def server(self) -> SqlServer:
        """The client for SQL statements to the server. Raises NodeIsDown before the start of the topology."""
        if self._server is None:
            raise NodeIsDown(f"{self.name}: the server has not been asked yet")
        return self._server

    @property
    def account(self) -> Account:
        return self._account

    def _query(self) -> str:
        query = self._url.partition("?")[2]
        return query and f"?{query}"

    def _begin(self) -> None:
        self._server = RunningServer(self.name, self._address.host, self._address.port, self._account)
        self._ports = {"sql": self.port}

    def _end(self, *, in_order: bool) -> None:
        """Do nothing. The server does not belong to the topology, and continues to run."""

    def _end_if_running(self, *, in_order: bool) -> None:
        raise NotRunnable(f"{self.name}: the server runs already, and the topology does not stop it")

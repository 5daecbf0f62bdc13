"""The classes that start and stop the nodes of a running replication topology: masters and slaves (processes of
dumpfilter), real servers, and files.

A recording (replayed binlogs) or a workload (generated binlogs) consists of files. These files are written over time as
a server writes its binlog. Transactions appear whole, each at the time at which it is due. The format description event
says "in use" until the file is complete. The index file names a file once the file exists.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import numpy as np

from dumpfilter.analyse.traffic.facts import Ints
from dumpfilter.base.errors import DumpfilterError, OptionError
from dumpfilter.base.files import writing
from dumpfilter.binlog.events import OF_FILES
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.workload import START, GeneratedSet, Span, generate
from dumpfilter.console.auth import DEFAULT_USER
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.index.fileset import BinlogFile, BinlogSet
from dumpfilter.receiver.login import find_credentials
from dumpfilter.receiver.store import OpenFile
from dumpfilter.receiver.url import parse_source_url
from dumpfilter.slave.state import CHANNELS, CountersInfo, MasterInfo, RelayLogInfo
from dumpfilter.testbed.binlogs import WatchedSet, applied_place, end_of
from dumpfilter.testbed.errors import NodeIsDown, NotRunnable, TestbedError
from dumpfilter.testbed.keeper import Child
from dumpfilter.testbed.node import END_TIMEOUT, TURN, Feed, Goal, Ground, TestbedNode
from dumpfilter.testbed.servers import server as servers
from dumpfilter.testbed.servers import sql
from dumpfilter.testbed.values import NO_LAG, NOWHERE, ChannelState, Place
from dumpfilter.topology.model import DEFAULT_STYLE, Kind, Node, NodeError, Workload, semantics_of
from dumpfilter.topology.notations import link, toml_value

# -- masters and slaves

_POLL = 0.005
_LOG_SHOWN = 2000

_CONNECT_RETRY = "0.5"
"""The longest time between two attempts of a slave to connect, seconds, so that a link that heals is used soon."""


class OwnNode(TestbedNode):
    """A node of a topology that is a process of dumpfilter (a master or a slave). It has an SQL console."""

    grpc_option: str
    """The option that sets the port at which slaves read the node."""

    def __init__(self, ground: Ground, node: Node, feeds: Sequence[Feed]) -> None:
        super().__init__(ground, node, feeds)
        self.account = sql.Account(servers.REPLICATION, ground.replication_password)
        # A hidden master, from which a check's reference reads, is no node of the topology.
        readers = ground.topology.readers.get(node.name, [])
        self.accounts: list[dict[str, Any]] = [
            {
                "user": servers.REPLICATION,
                "server_ids": [ground.server_id(reader.name)],
                "rules": [f"--{rule}" for rule in one.rules],
            }
            for reader in readers
            for one in reader.reads
            if reader.kind == "server" and one.source == self.name
        ]
        """The user, server ids and filter rules of each real replica (MySQL or MariaDB server) that reads this node, as
        in this node's configuration file, but without the password.
        """
        self._serves_slaves = self.kind == "master" or any(reader.kind == "slave" for reader in readers)

    @property
    def server(self) -> sql.SqlServer:
        account = sql.Account(DEFAULT_USER, self._ground.console_password)
        return sql.SqlServer(self.name, "mysql", servers.ADDRESS, self._ports["sql"], account)

    def address_for(self, reader: Kind) -> tuple[str, int]:
        return servers.ADDRESS, self._ports["replica" if reader == "server" else "grpc"]

    def _arguments(self) -> list[str]:
        """Return the command line arguments that are specific to the node's command, ``dumpfilter master`` or
        ``dumpfilter slave``.
        """
        raise NotImplementedError

    def _begin(self) -> None:
        """Start the node's process, a ``dumpfilter master`` or ``dumpfilter slave``, and wait until all its ports
        answer. The first start chooses free ports. If another process takes one of them first, other ports are tried.

        Raises StartFailed, with the end of the log, for a process that ends or is not ready in time.
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
                self._ports = {purpose: servers.free_port() for purpose in options}
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
            return self._spawn(arguments)

        def lacks() -> str:
            return "" if all(file.exists() for file in files.values()) else "did not get ready"

        servers.start_process(
            f"{self.name}: the {self.kind}", launch, lacks, log=self.log, timeout=ground.start_timeout
        )

    def _config(self) -> list[str]:
        """Write the configuration file of this node with the user, password and filter rules of each real replica
        (MySQL or MariaDB server) that reads the node. Return the option ``--config``, which names the file, for the
        node's command line.

        The result is empty, and no file is written, if no real replica reads the node.
        """
        if not self.accounts:
            return []
        file = self.directory / "replicas.toml"
        password = {"password": self._ground.replication_password}
        servers.write_secret(file, f"replica = {toml_value([one | password for one in self.accounts])}\n")
        return ["--config", str(file)]

    def _end(self, *, in_order: bool) -> None:
        servers.end_process(self.process, in_order=in_order, timeout=END_TIMEOUT)

    def _position(self, channels: Sequence[ChannelState], problems: list[str]) -> tuple[Place, str]:
        return channels[0].applied, ", ".join(sorted({one.gtids for one in channels if one.gtids}))

    def applied_place(self, feed: Feed) -> Place:
        """Return the position up to which a slave has applied, or a master has received, the binlog of one source. The
        position is one in the files of the server that wrote this binlog.

        ``feed`` is the source, with the channel that reads it.
        """
        raise NotImplementedError

    def _lack(self, goal: Goal, timeout: float) -> str:
        end = time.monotonic() + timeout
        mine = [feed for feed in self.feeds if feed.origin is goal.origin]
        while late := [feed for feed in mine if self.applied_place(feed) < goal.place]:
            if time.monotonic() >= end or not self.is_running:
                return f"has applied {self.applied_place(late[0])} of {goal.origin.name}, and should have {goal.place}"
            time.sleep(_POLL)
        return ""


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
        """The binlog files that this master serves to its readers. A master of a server serves its own copy of the
        server's binlog. A master of a recording (replayed binlogs) or a workload (generated binlogs) serves the files
        of the recording or workload.
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
            ((sent, dropped),) = self.execute(
                "SELECT SUM(bytes_sent), SUM(bytes_dropped) FROM dumpfilter.slaves WHERE server_id = %s",
                (server_id,),
            )
            return {"bytes_received": int(sent or 0), "bytes_dropped": int(dropped or 0)}
        return {}

    def applied_place(self, feed: Feed) -> Place:
        return end_of(self.store.files())

    def _lack(self, goal: Goal, timeout: float) -> str:
        lack = super()._lack(goal, timeout)
        return lack and f"{lack}; its log ends with:\n{self.logs[-_LOG_SHOWN:]}"


class Slave(OwnNode):
    """A node that is a process ``dumpfilter slave``, which reads from masters or from other slaves. It keeps counts and
    digests of the changes of each table, and no rows.
    """

    grpc_option = "--serve-port"
    applies = True

    def __init__(self, ground: Ground, node: Node, feeds: Sequence[Feed]) -> None:
        super().__init__(ground, node, feeds)
        if len(self.feeds) > 1 and (self.accounts or self._serves_slaves):
            raise NotRunnable(
                f"{self.name}: has several sources, and a slave serves one channel at a port: let its readers read "
                "these sources themselves"
            )

    def _arguments(self) -> list[str]:
        masters = [(feed.channel, *feed.address) for feed in self.feeds]
        rules = {feed.channel: feed.reading.rules for feed in self.feeds}
        is_effective = semantics_of(itertools.chain(*rules.values())) is FilterSemantics.EFFECTIVE
        return [
            *(f"--master={name and f'{name}='}{host}:{port}" for name, host, port in masters),
            f"--server-id={self._ground.server_id(self.name)}",
            f"--relay-dir={self.directory / 'relay'}",
            f"--connect-retry={_CONNECT_RETRY}",
            "--summary=none",
            *(["--skip-replica-start"] if self._is_paused else []),
            *([f"--source-ssl-ca={self._ground.certificate}"] if self.feeds[0].source.node.tls else []),
            *sql.DIALECTS["mysql"].rule_options(rules),
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
                for one in sql.channel_states(self.server):
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


# -- real servers

_THREADS_OF_THE_SERVER = ("system user", "event_scheduler", "unauthenticated user")
"""The users under which SHOW PROCESSLIST lists the server's own threads, and replicas that are just logging in."""

_LAST_LOOK = 5.0
"""The time limit for reading the positions of a replica's channels before its server ends, seconds. They cannot be read
from the server's files afterwards.
"""


class SqlNode(TestbedNode):
    """A node of a topology that is a MySQL or MariaDB server, to which SQL statements can be sent."""

    writes_binlog = True
    _query: str
    """The query part of the server's URL, which a master of dumpfilter gets on its command line to read the server.

    An example is ``?password-file=…``. It also has options of TLS. It is empty without options.
    """

    def address_for(self, reader: Kind) -> tuple[str, int]:
        return self.server.host, self.server.port

    def arguments_for_master(self, feed: Feed, store: Path) -> list[str]:
        host, port = feed.address
        user = quote(self.account.user, safe="")
        return [f"mysql://{user}@{host}:{port}/{self._query}", "--store", str(store)]

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
    """A node that is a MySQL or MariaDB server which the topology starts. If it reads other nodes (``feeds``), it is a
    real replica with one replication channel for each of them.

    The constructor raises ServerMissing if this machine has no such server. It raises NotRunnable for a replica of a
    generated workload without ``init`` statements, since the replica would lack the workload's tables.
    """

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
        """The last known state of each replication channel of this server, by the channel's name."""
        self._looking = threading.Lock()
        tls = [f"--ssl-cert={ground.certificate}", f"--ssl-key={ground.key}"] if node.tls else []
        origins = [one.name for one in ground.topology.nodes if one.server == "mariadb" and not one.reads]
        # MariaDB replicas with several sources keep them apart by the domains of their GTIDs.
        domain = [f"--gtid-domain-id={origins.index(self.name)}"] if self.name in origins[1:] else []
        # A replica does not write the statements to its binlog.
        self._init = (sql.DIALECTS[node.family].without_binlog, *node.init) if feeds else node.init
        self._server = servers.Server(
            servers.find_program(node.family, node.program, node.root or ""),
            self.directory,
            name=self.name,
            server_id=ground.server_id(self.name),
            options=(*tls, *domain, *node.options),
            rules={feed.channel: feed.reading.rules for feed in self.feeds},
            init=self._init,
            log=self.log,
            spawn=partial(self._spawn, is_executed=True),
        )
        options = {"password-file": str(self._server.replication_password_file)}
        if node.tls:
            options |= {"tls": "verify-identity", "ca": str(ground.certificate)}
        self._query = f"?{urlencode(options)}"

    @property
    def server(self) -> servers.Server:
        return self._server

    def _begin(self) -> None:
        self.server.start(self._ground.start_timeout, replicates=not self._is_paused)
        self.account = self.server.replication
        if self._watched is None:
            for feed in self.feeds:
                self._follow(feed)
            if self.node.family == "mysql" and any(feed.channel for feed in self.feeds):
                # MySQL applies the rules on its command line to the channels that exist when it starts.
                self.server.stop()
                self.server.start(self._ground.start_timeout)
            elif self.feeds:
                self._control("START", "")
            self._watched = WatchedSet(self.server.data / self.server.value("@@GLOBAL.log_bin_index"))
            self._ports = {"sql": self.port}

    def _follow(self, feed: Feed) -> None:
        node, account = feed.source.node, feed.source.account
        address = sql.SourceAddress(
            *feed.address,
            account.user,
            account.password,
            tls=node.is_own and self.node.family == "mysql",
            ca=self._ground.certificate if node.tls else None,
        )
        self.server.set_source(address, feed.channel)

    def _end(self, *, in_order: bool) -> None:
        (self.server.stop if in_order else self.server.kill)()

    def _end_if_running(self, *, in_order: bool) -> None:
        with self._lock:
            # A server that does not answer has earlier places.
            looking = threading.Thread(target=self.channels, name=f"last look at {self.name}", daemon=True)
            looking.start()
            looking.join(_LAST_LOOK)
            super()._end_if_running(in_order=in_order)

    def channels(self) -> tuple[ChannelState, ...]:
        """Return the state of each replication channel of the server. A channel is left out while its origin (the
        server that wrote the binlog) has no binlog files on this machine.

        If the server does not run or does not answer, the channels have their last known positions, and their threads
        are ``No``. A lag is the distance from the applied position to the present end of the origin's binlog.
        """
        # The result of an earlier call must not replace that of a later one as the last known positions.
        with self._looking:
            now = {name: replace(last, io="No", sql="No", errors=()) for name, last in self._last.items()}
            if self.feeds and self.is_running:
                with contextlib.suppress(TestbedError):
                    gtids = self.server.applied_gtids()
                    for told in sql.channel_states(self.server):
                        if told.channel in now:
                            now[told.channel] = replace(told, source=now[told.channel].source, gtids=gtids)
            found = {}
            for feed in self.feeds:
                # An origin that has never been started has no binlog, and that of a running server may be elsewhere.
                with contextlib.suppress(NodeIsDown):
                    watched, told, last = feed.origin.watched, now[feed.channel], self._last[feed.channel]
                    # The position that the replica reports may lie before transactions that it has applied.
                    known = last.gtids, last.applied
                    place = applied_place(watched.files(), told.applied, told.gtids, known) or told.applied
                    found[feed.channel] = replace(told, applied=place, lag=watched.lag_of(place))
            self._last |= found
            return tuple(found.values())

    def _told_channels(self, problems: list[str]) -> tuple[ChannelState, ...]:
        server_id = self._ground.server_id(self.name)
        sources = {feed.channel: feed.source for feed in self.feeds}
        return tuple(replace(one, **sources[one.channel].counted_for(server_id)) for one in self.channels())

    def _lack(self, goal: Goal, timeout: float) -> str:
        gtids = goal.gtids or goal.origin.all_gtids()
        try:
            wait = self.server.dialect.wait(gtids, timeout)
            # A server that hangs must not make the wait longer than its time limit.
            limits = dict.fromkeys(("connect_timeout", "read_timeout"), timeout + TURN)
            if not gtids or self.server.sql(wait, **limits) == [(0,)]:
                return ""
            return f"has applied {self.server.applied_gtids() or 'no GTID'}, and should have {gtids}"
        except TestbedError as error:
            return f"{str(error).removeprefix(f'{self.name}: ')}; it should have {gtids}"

    def _hold(self, seconds: float) -> None:
        """Make the replica apply each transaction ``seconds`` after its commit at the source, by the server's delayed
        replication (``SOURCE_DELAY``). ``seconds`` is rounded up, because the option takes whole seconds only. 0 ends
        the delay.

        Raises NodeIsDown for a server that does not run, and OptionError for a time that no link can have.
        """
        self._check_running()
        # A server that refuses the time would stay without replication.
        seconds = link(delay=seconds).delay
        applies, delayed = not self._is_paused, self.server.dialect.delayed
        for feed in self.feeds:
            self.server.sql(*delayed(feed.channel, math.ceil(seconds), applies=applies))

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
        for name in sql.databases_of(self.server):
            # A filter asks for the current database. So replicas that have the database drop it, too.
            self.server.sql(
                "SET FOREIGN_KEY_CHECKS = 0", f"DROP DATABASE {sql.identifier(name)}", database=name
            )

    def run_init(self) -> None:
        """Run again the SQL statements that the topology defines for a new server (``init``). On a replica they are not
        written to the binlog.
        """
        self.server.sql(*self._init)


class RunningServerNode(SqlNode):
    """A node that is a server outside the topology, which runs already. Its binlog is read, and nothing is changed in
    it. Stopping or killing the node raises NotRunnable.
    """

    def __init__(self, ground: Ground, node: Node, feeds: Sequence[Feed]) -> None:
        super().__init__(ground, node, feeds)
        url = node.connect or ""
        try:
            self._address = parse_source_url(url)
            found = find_credentials(self._address)
        except OptionError as error:
            raise NodeError(self.name, "connect", str(error)) from None
        self._query = "".join(url.partition("?")[1:])
        self.account = sql.Account(found.user, found.password)
        for reader in ground.topology.readers[self.name]:
            if self._watched is None and reader.kind != "server":
                # The server's own files may be on another machine. A master has received the same binlog.
                self._watched = WatchedSet(ground.directory_of(reader.name) / "store")

    @cached_property
    def server(self) -> sql.SqlServer:
        return sql.RunningServer(self.name, self._address.host, self._address.port, self.account)

    def _begin(self) -> None:
        self._ports = {"sql": self.port}

    def _end(self, *, in_order: bool) -> None:
        """Do nothing. The server does not belong to the topology, and continues to run."""

    def _end_if_running(self, *, in_order: bool) -> None:
        raise NotRunnable(f"{self.name}: the server runs already, and the topology does not stop it")


# -- files

MICROSECONDS = 1_000_000
_BITS = 8
_READ = 1 << 20


class Timetable(NamedTuple):
    """The transactions of one binlog file: the byte offset at which each ends, and the time at which it is due."""

    file: Path
    head: int
    """The byte offset of the first transaction. The bytes before it are written when the file is created."""
    end: Ints
    """The byte offset at which each transaction ends. The last one includes the events at the end of the file."""
    due: Ints
    """The time from the start of the replay until the transaction is due, microseconds."""


def timetables(source: BinlogSet, *, speed: float) -> list[Timetable]:
    """Return the timetable of each file of the binlog set ``source`` for a replay: the time at which each transaction
    is due.

    The set is replayed at ``speed`` times its original pace (``inf``: all at once). The pace is given by the commit
    times in MySQL's GTID events. Other binlogs have only the seconds in the events' headers. The transactions of one
    second are then spread evenly over the second.
    """
    # The kernels of the traffic are loaded for sets that grow alone.
    from dumpfilter.spark_jobs.engines import ThreadRunner
    from dumpfilter.spark_jobs.simulation import read_traffic

    paths = [source.path(name) for name in source.names]
    traffic = read_traffic(paths, (), ThreadRunner())
    due = ((traffic.time - traffic.time[:1]) / speed).astype(np.int64)
    found = []
    for number, path in enumerate(paths):
        here = np.flatnonzero(traffic.file == number)
        size, end = source.size(path.name), traffic.end[here]
        end[-1:] = size
        with path.open("rb") as file:
            events = iter_events(file, file=path.name, verify=False)
            head = next((event.offset for event in events if event.type not in OF_FILES), size)
        found.append(Timetable(path, head, end, due[here]))
    return found


class Replay:
    """A thread that copies a binlog set into a directory as a server would write it: each transaction when it is due.

    Parameters:
        tables: a timetable for each file of the set, in order. A timetable has the file's path and, for each
            transaction, the time after :meth:`start` at which it is due. Without timetables nothing is written.
        directory: the directory for the copies, which keep the files' names. It is created if it is missing.
        index: the name of the index file in ``directory``.

    :meth:`pause` stops the clock by which transactions are due, and :meth:`resume` restarts it. An error of the thread,
    such as a full disk, ends the replay. :meth:`start` and :meth:`wait_done` raise this error.
    """

    def __init__(self, tables: Sequence[Timetable], directory: Path, index: str) -> None:
        self.index = directory / index
        self.error: Exception | None = None
        self.is_done = not tables
        """Whether all transactions have been written."""
        self._tables = tables
        self._directory = directory
        self._changed = threading.Condition()
        """The condition variable that is notified when the replay is resumed or closed."""
        self._is_closed = False
        self._paused_at: float | None = None
        self._began = 0.0
        self._thread = threading.Thread(target=self._run, name=f"replay {directory.name}", daemon=True)

    def start(self, *, is_paused: bool = False) -> None:
        """Start the thread, which copies the binlog set: it writes each transaction when it is due. The first file and
        the index exist when the method returns.

        With ``is_paused`` the clock stands, and the first transaction is written only after :meth:`resume`. Raises
        OutputError if the first file cannot be written.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        self._began = time.monotonic()
        self._paused_at = self._began if is_paused else None
        self._steps = self._write()
        self._first = next(self._steps, 0)
        self._thread.start()

    def wait_done(self, timeout: float) -> bool:
        """Wait until all transactions of the binlog set are written, and return True. Return False if that takes longer
        than ``timeout`` seconds, or if :meth:`close` ended the replay before.

        Raises the error that has ended the thread, such as an OutputError for a full disk.
        """
        if not self.is_done:
            self._thread.join(timeout)
        if self.error is not None:
            raise self.error
        return self.is_done

    def pause(self) -> None:
        """Stop the clock by which transactions are due, so that no further transaction is written until :meth:`resume`.
        The call does not wait for a transaction that is being written.
        """
        with self._changed:
            if self._paused_at is None:
                self._paused_at = time.monotonic()

    def resume(self) -> None:
        """End a :meth:`pause`: the clock by which transactions are due runs again. All later transactions are late by
        the length of the pause. Without a pause nothing changes.
        """
        with self._changed:
            if self._paused_at is not None:
                self._began += time.monotonic() - self._paused_at
                self._paused_at = None
                self._changed.notify()

    def close(self) -> None:
        """End the thread that writes the binlog set, and wait for its end. Transactions that it has not written yet are
        never written.
        """
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            with contextlib.closing(self._steps) as steps:
                self.is_done = all(map(self._wait_until, itertools.chain([self._first], steps)))
        except Exception as error:
            # A thread that ended without an error would count as done.
            self.error = error

    def _write(self) -> Generator[int, None, None]:
        """Write the binlog set, and yield before each transaction the time at which the transaction is due,
        microseconds since the start of the replay.

        The caller waits until this time, and then asks for the next item, which writes all transactions that are due by
        then. Before the first item, the first file, without transactions, and the index are written.
        """
        for table in self._tables:
            if table.due.size and table is not self._tables[0]:
                # A server makes its next file when it has something to write, at the latest.
                yield int(table.due[0])
            with BinlogFile(table.file) as source:
                head = source.read(0, source.first_event)
                made = OpenFile.begin(self._directory / source.name, head[4:], source.format_description)
                with contextlib.closing(made):
                    _copy(source, made, len(head), table.head)
                    with writing(self.index), open(self.index, "a") as index:
                        index.write(f"./{source.name}\n")
                    at, number = table.head, 0
                    while number < table.end.size:
                        yield int(table.due[number])
                        ready = max(int(np.searchsorted(table.due, self._clock(), side="right")), number + 1)
                        end = int(table.end[ready - 1])
                        _copy(source, made, at, end)
                        at, number = end, ready
                    made.clear_in_use()

    def _clock(self) -> int:
        """Return the time since the start of the replay, without pauses, microseconds."""
        with self._changed:
            now = time.monotonic() if self._paused_at is None else self._paused_at
            return int((now - self._began) * MICROSECONDS)

    def _wait_until(self, due: int) -> bool:
        """Wait until the replay is not paused and its clock has reached ``due``. The clock counts the microseconds
        since :meth:`start`, without pauses. Return False if the replay was closed meanwhile, otherwise True.
        """
        with self._changed:
            while not self._is_closed:
                left = math.inf if self._paused_at is not None else (due - self._clock()) / MICROSECONDS
                if left <= 0:
                    return True
                self._changed.wait(None if left == math.inf else left)
            return False


def _copy(source: BinlogFile, made: OpenFile, start: int, end: int) -> None:
    while start < end:
        data = source.read(start, min(end - start, _READ))
        made.append(memoryview(data))
        start += len(data)


class Files(TestbedNode):
    """A node of a topology that is a set of binlog files without a server: a recording, whose binlogs are replayed, or
    a generated workload.

    The files are written over time, as by a server, or are complete at once.
    """

    writes_binlog = True

    def __init__(self, ground: Ground, node: Node, feeds: Sequence[Feed]) -> None:
        super().__init__(ground, node, feeds)
        self.replay = Replay([], self.directory, "")
        """The replay, whose thread writes the binlog files over time. Files that are complete at once need no thread.
        """

    def _begin(self) -> None:
        if self._watched is not None:
            self.replay.resume()
            return
        node, load, holds = self.node, self.node.workload, self._ground.holds_files
        # A workload with a rate has this rate in its commit times.
        speed = node.speed if load is None or load.rate else None
        is_whole = speed is None and not holds
        if load:
            binlogs = generated_set(load, self.directory / ("binlog" if is_whole else "generated")).index
        else:
            assert node.binlogs is not None
            binlogs = node.binlogs.absolute()
        # A missing file shall be an error of this node.
        source = BinlogSet.open(binlogs)
        if not is_whole:
            tables = timetables(source, speed=speed or math.inf)
            index = source.index.name if source.index is not None else "binlog.index"
            self.replay = Replay(tables, self.directory / "binlog", index)
            self.replay.start(is_paused=holds)
            binlogs = self.replay.index
        self._watched = WatchedSet(binlogs)

    def _end(self, *, in_order: bool) -> None:
        self.replay.pause()

    def close(self) -> None:
        self.replay.close()
        self._state = "stopped"

    @property
    def is_done(self) -> bool:
        """Whether all transactions of the replayed or generated binlog set are in the node's binlog files."""
        return self.replay.is_done

    def arguments_for_master(self, feed: Feed, store: Path) -> list[str]:
        return [str(self.watched.source)]

    def goal(self) -> Goal:
        return Goal(self, end_of(self.watched.note()))

    def _position(self, channels: Sequence[ChannelState], problems: list[str]) -> tuple[Place, str]:
        if self.replay.error is not None:
            problems.append(f"{self.name}: the replay has ended: {self.replay.error}")
        return end_of(self.watched.note()) if self._watched is not None else NOWHERE, ""


def generated_set(model: Workload, directory: Path) -> GeneratedSet:
    """Write a generated binlog set (a workload) into ``directory``, and return its description, which has the paths of
    the files and of the index.

    ``model`` has the size, the server family, the seed and the rate. With a rate, the commit times are those at which
    the set grows by this rate.
    """
    span = None if model.rate is None else Span(START, model.size * _BITS / model.rate)
    return generate(directory, model.size, style=model.style or DEFAULT_STYLE, seed=model.seed, span=span)

"""The edge: the ports at which a slave serves its relay logs to other slaves and to real replicas (MySQL and MariaDB
servers), in one asyncio loop.

Enters: a slave and the options of its ports. Leaves: dumps for slaves and real replicas. It imports slave, master and
all below.

The edge joins the classes of a master that serve a binlog (:mod:`dumpfilter.master`) with the replication channels of a
slave (:mod:`dumpfilter.slave`). Each channel with a port gets a binlog store (the cache of scanned events) over its
relay log. Each also gets a shared reader (one for all dumps) and a register of connected slaves. Everything that a
slave or replica gets is read from the relay log.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from dumpfilter.base.errors import BinlogUnreadable, OptionError
from dumpfilter.base.logs import logger
from dumpfilter.base.security.listening import Endpoint
from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.console.port import ConnectionDirectory
from dumpfilter.console.serving_loop import ServingLoop
from dumpfilter.console.sql.commands import Executor
from dumpfilter.index.fileset import BinlogSet, PublishedEnd, RelayWentBack
from dumpfilter.master.config import MasterConfig, load_config
from dumpfilter.master.limits import MAX_DUMPS, Places
from dumpfilter.master.replicas.connection import ReplicaServer
from dumpfilter.master.server import GrpcPort, ListenAddress, end_of_tasks
from dumpfilter.master.service import DumpFilterService
from dumpfilter.master.sharing import SharedReader
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.who import ReplicaRow
from dumpfilter.slave.channels import Slave
from dumpfilter.slave.options import EdgeOptions, parse_ports
from dumpfilter.slave.relay_position import BASENAME, RelayPosition, file_number, place_order

log = logger("dumpfilter.slave")

_GRACE_SECONDS = 1.0
"""The time limit for gRPC calls of slaves to end after the port begins to close, seconds."""

_STOP_SECONDS = 12.0
"""The time limit for closing one port or the loop of the ports, seconds."""


_CLOSE_AFTER = 10.0
"""The delay before the reader threads of a discarded relay log are closed, seconds. All dumps of this relay log have
ended long before.
"""


class ServedChannel(DumpFilterService):
    """The service that sends the relay log of one of a slave's channels to the slaves and replicas that connect to the
    slave's ports. :meth:`note` may be called from any thread.

    The channel's relay log only grows, until the slave changes its filter, resets the channel, or discards a damaged
    part. Then all dumps end, and slaves and replicas connect again. The dumps that begin afterwards read the new relay
    log. GTIDs, or positions of the writer (the server that wrote the events), decide which events each still needs.

    Parameters:
        name: the name of the channel.
        loop: the asyncio event loop in which the slave's ports run.
        load_config: a function that reads the configuration file with users and the filters that are imposed on them.
            The function's argument says how the server that wrote the binlog compares names. None: there is no file.
    """

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        *,
        load_config: Callable[[NameRules], MasterConfig] | None = None,
    ) -> None:
        super().__init__(None, config=None if load_config is None else load_config(DEFAULT_NAMES))
        self.name = name
        self.load = load_config
        self._loop = loop
        self._lock = threading.RLock()
        self._end: PublishedEnd | None = None
        self._grown: Callable[[], None] = lambda: None
        self.opened: SharedReader | None = None
        """The reader of the present relay log. None if no slave or replica has read since that relay log began."""
        self._slave: Slave | None = None

    def serve(self, slave: Slave) -> None:
        """Serve the relay log of the channel :attr:`name` of ``slave`` from now on. The connecting slaves see the UUID
        of ``slave`` as their master's server UUID.
        """
        self._slave, self.master_uuid = slave, slave.uuid

    def note(self, position: RelayPosition | None) -> None:
        """Record the position up to which the relay log is complete, and wake the dumps that wait for more events.

        A position before the last one means that the slave discards a part of the relay log, and ends all dumps. The
        method returns when no dump relies on the discarded part any more. None means that no relay log exists.
        """
        with self._lock:
            if self._end is not None and place_order(position) < place_order(self._end.position):
                self._close_relay_log()
            if position is None or self.stopping:
                return
            if self._end is None:
                self._end = PublishedEnd(position)
            self._end.position = position
            grown = self._grown
        grown()

    @property
    def needed_file(self) -> str | None:
        """The name of the oldest relay log file that a connected slave or replica still reads. None if nobody reads."""
        files = [slave.file for slave in self.register.all() if slave.dump and slave.file]
        return min(files, key=file_number, default=None)

    @property
    def reader(self) -> SharedReader:
        """The reader of the current relay log, which is opened on first use.

        Raises BinlogError for a relay log that cannot be read. While the slave shuts down or has received nothing yet,
        the error is marked as momentary, which means that a later attempt may succeed.
        """
        with self._lock:
            if self.stopping:
                raise BinlogUnreadable("the slave is shutting down; connect again", momentary=True)
            if self.opened is None:
                self.opened = self._open_relay_log()
            return self.opened

    async def opened_reader(self) -> SharedReader:
        """Return :attr:`reader`, which reads the current relay log for all dumps. Another thread opens the relay log,
        because the disk may be slow. Raises BinlogError for a relay log that cannot be read.
        """
        return await asyncio.to_thread(lambda: self.reader)

    def _open_relay_log(self) -> SharedReader:
        # A client may have added the channel on the console.
        channels = () if self._slave is None else self._slave.channels
        channel = next((one for one in channels if one.name == self.name), None)
        if self._end is None or channel is None:
            raise BinlogUnreadable(
                "the slave has received nothing from its master yet; try again later", momentary=True
            )
        binlogs = BinlogSet.from_index(channel.directory / f"{BASENAME}.index", self._end)
        store = BinlogStore(binlogs, subjects=self.subjects)
        try:
            # How names are compared is known only now. The file may have changed since the start.
            if self.load is not None:
                self.reload(store.names)
        except OptionError:
            store.close()
            raise BinlogUnreadable(
                "the slave's configuration file cannot be used, as its log says; try again later",
                momentary=True,
            ) from None
        self._grown = store.watcher.follow_writer()
        return SharedReader(store, self._loop)

    def close(self) -> None:
        """Close the relay log, and let :attr:`reader` raise an error from now on. All dumps must have ended."""
        with self._lock:
            self.stopping = True
            reader = self._forget()
        if reader is not None:
            _close(reader)

    def _forget(self) -> SharedReader | None:
        """Detach the present relay log, so that no new dump (stream to a slave or replica) reads it. Return the relay
        log's reader; None if it was not opened.
        """
        found = self.opened
        if self._end is not None:
            self._end.is_closed = True
        self._end = self.opened = None
        self._grown = lambda: None
        return found

    def _close_relay_log(self) -> None:
        reader = self._forget()
        if reader is None:
            return
        reader.store.give_up(RelayWentBack())
        gone = self.register.remove_all(lambda slave: RelayWentBack())
        log.info("the relay log goes back", channel=self.name, registrations=len(gone))
        closing = threading.Timer(_CLOSE_AFTER, _close, [reader])
        closing.daemon = True
        closing.start()


def _close(reader: SharedReader) -> None:
    reader.close()
    reader.store.close()


class Edge:
    """The ports at which one slave serves its relay logs to other slaves and to MySQL or MariaDB replicas.

    ``protection`` has the settings that all ports share: ``tls``, ``ca`` and ``insecure``. Without ``tls`` slaves
    connect without TLS, and the port for replicas shows a self-signed certificate, which is made at the start. ``ca``
    is then the file of the CAs that must have signed a replica's own certificate, if the replica shows one. With
    ``insecure`` replicas on other machines may connect without TLS. ``lower_case_table_names`` is the slave's setting
    for comparing names.

    Raises OptionError for a configuration that cannot be used, and Exposed when other machines could connect to a port
    without TLS or a login.
    """

    def __init__(self, options: EdgeOptions, protection: Endpoint, lower_case_table_names: int = 0) -> None:
        self._options = options
        self._protection = protection
        self._lower_case_table_names = lower_case_table_names
        self._for_slaves = parse_ports(options.serve_port, "--serve-port")
        self._for_replicas = parse_ports(options.replica_port, "--replica-port")
        self._check(self._load(DEFAULT_NAMES))
        self._loop = ServingLoop("edge-loop")
        self._places = Places(MAX_DUMPS)
        self.channels: dict[str, ServedChannel] = {
            name: ServedChannel(name, self._loop.loop, load_config=self._load if options.config else None)
            for name in {**self._for_replicas, **self._for_slaves}
        }
        """The served channels by name. Each channel reads one of the slave's relay logs."""
        self.chosen_ports: dict[str, int] = {}
        """The TCP port for replicas by channel name, while the ports are open."""
        self.slave_ports: dict[str, int] = {}
        """The TCP port for slaves by channel name, while the ports are open."""

    def _check(self, config: MasterConfig) -> None:
        options = self._options
        if self._for_replicas and not config.replicas:
            raise OptionError(
                "--replica-port: no replica could log in: name at least one [[replica]] in "
                f"{options.config or 'the file of --config'}"
            )
        for table, values, option, ports in (
            ("user", config.users, "--serve-port", self._for_slaves),
            ("replica", config.replicas, "--replica-port", self._for_replicas),
        ):
            if values and not ports:
                raise OptionError(f"{options.config}: {table}: has no effect without {option}")
        for port in self._for_slaves.values():
            self._listen(port).check_exposure(config.users)

    def _load(self, names: NameRules) -> MasterConfig:
        path = self._options.config
        if path is None:
            return MasterConfig()
        config = load_config(path, names=names._replace(lower_case_table_names=self._lower_case_table_names))
        if config.console_users:
            raise OptionError(
                f"{path}: console_user: belongs to a master's configuration; a slave reads [[replica]], [[user]] and "
                "[[imposed]] only"
            )
        return config

    def _listen(self, port: int) -> ListenAddress:
        return ListenAddress(
            self._options.serve_host,
            port,
            tls=self._protection.tls,
            insecure=self._protection.insecure,
            owner="the slave",
            host_option="--serve-host",
            port_option="--serve-port",
        )

    def replicas(self) -> Sequence[ReplicaRow]:
        """Return one row of SHOW REPLICAS for each slave and replica that is registered at one of the ports at which
        this slave serves its relay logs.
        """
        return [
            slave.peer.row(reader.store.format_description.header.server_id)
            for served in self.channels.values()
            if (reader := served.opened) is not None
            for slave in served.register.listed()
        ]

    @contextmanager
    def serving(self, slave: Slave, executor: Executor, directory: ConnectionDirectory) -> Iterator[None]:
        """Serve the relay logs of ``slave`` to other slaves and replicas while the ``with`` block runs.

        ``executor`` carries out the statements of replicas that the port does not answer itself. ``directory`` lists
        the connections of the slave's other ports, too. Raises OptionError if a port cannot be listened on. Raises
        OutputError if a file to which the number of an open port is written cannot be written.
        """
        options = self._options
        with contextlib.ExitStack() as stack:
            self._loop.start()
            stack.callback(self._end)
            for served in self.channels.values():
                served.serve(slave)
            for name, port in self._for_replicas.items():
                replicas = ReplicaServer(
                    replace(self._protection, host=options.replica_host, port=port),
                    self.channels[name],
                    self._places,
                    executor,
                    directory=directory,
                    max_connections=MAX_DUMPS,
                )
                self.chosen_ports[name] = stack.enter_context(replicas.running(self._loop, channel=name))
            _write_first(options.replica_port_file, self.chosen_ports)
            for name, port in self._for_slaves.items():
                opened, self.slave_ports[name] = self._loop.wait(self._open(name, port), _STOP_SECONDS)
                stack.callback(self._finish, opened.stop, _GRACE_SECONDS)
            _write_first(options.serve_port_file, self.slave_ports)
            for served in self.channels.values():
                stack.callback(served.end_dumps)
            yield

    async def _open(self, name: str, port: int) -> tuple[GrpcPort, int]:
        """Open the gRPC port at which other slaves read the relay log of this slave's channel ``name``. Return the port
        and its TCP port number.
        """
        opened = GrpcPort(self.channels[name], MAX_DUMPS)
        chosen = opened.open(self._listen(port))
        await opened.start()
        log.info("slaves.listening", channel=name, host=self._options.serve_host, port=chosen)
        return opened, chosen

    def _finish(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: float) -> None:
        with contextlib.suppress(TimeoutError):
            self._loop.wait(work(*arguments), _STOP_SECONDS)

    def _end(self) -> None:
        """Finish the remaining tasks of the slave's closed ports, close the relay logs that they served, and stop the
        asyncio loop.
        """
        self._finish(end_of_tasks)
        for served in self.channels.values():
            served.close()
        self._loop.end(_STOP_SECONDS)


def _write_first(path: Path | None, ports: Mapping[str, int]) -> None:
    """Write the TCP port number of the first channel in ``ports`` to the file ``path``, for scripts that wait for the
    port. ``ports`` has the port numbers by channel. Without ports or without a path nothing is written. Raises
    OutputError if the file cannot be written.
    """
    if ports:
        Endpoint(port_file=path).write_port(next(iter(ports.values())))

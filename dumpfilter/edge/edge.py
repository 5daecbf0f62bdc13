"""The ports at which a slave serves its relay logs, in one asyncio loop.

Each channel may have a port for real replicas, and a port for other slaves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import structlog

from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.console.directory import ConnectionDirectory
from dumpfilter.console.executor import Executor
from dumpfilter.console.port import listening_socket
from dumpfilter.edge.options import EdgeOptions
from dumpfilter.edge.served_channel import RelayService, ServedChannel
from dumpfilter.errors import OptionError
from dumpfilter.master.config import MasterConfig, load_config
from dumpfilter.master.grpc_port import GrpcPort, end_of_tasks
from dumpfilter.master.limits import Places, ServerLimits
from dumpfilter.master.listen import ListenAddress
from dumpfilter.master.replicas.filters import ReplicaFilters
from dumpfilter.master.replicas.server import ReplicaServer
from dumpfilter.master.service import DumpFilterService
from dumpfilter.master.serving_loop import ServingLoop
from dumpfilter.options.port_file import write_port
from dumpfilter.security.tls import TlsSource, temporary_tls
from dumpfilter.slave.channel import Watching
from dumpfilter.slave.slave import Slave
from dumpfilter.slave.state.relay_log import RelayPosition, file_number

log = structlog.get_logger("dumpfilter.slave")

_GRACE_SECONDS = 1.0
"""The time that the calls of slaves have to end by themselves, seconds."""

_STOP_SECONDS = 12.0
"""The longest time that the end of the ports may take, seconds."""

ReplicaRow = tuple[int, str, int, int, str]
"""A row of SHOW REPLICAS: the replica's server id, host and port, the source's server id, and the replica's UUID."""


class Edge:
    """The ports at which one slave serves its relay logs.

    The slave calls :meth:`note` with the end of each relay log, through :meth:`watching`. ``tls`` is the ports'
    certificate and key. Without ``tls`` slaves connect without TLS, and replicas get a certificate that the slave
    makes. With ``insecure`` replicas on other machines may connect without TLS. Raises OptionError for a configuration
    that cannot be used, and Exposed when other machines could connect to it without TLS or a login.
    """

    def __init__(
        self,
        options: EdgeOptions,
        *,
        tls: TlsSource | None = None,
        ca: Path | None = None,
        insecure: bool = False,
        lower_case_table_names: int = 0,
        limits: ServerLimits | None = None,
    ) -> None:
        self._options = options
        self._tls = tls
        self._ca = ca
        self._insecure = insecure
        self._lower_case_table_names = lower_case_table_names
        self._limits = limits or ServerLimits()
        self._for_slaves, self._for_replicas = options.slave_ports, options.replica_ports
        self._config = self._load(DEFAULT_NAMES)
        self._check(self._config)
        self._loop = ServingLoop("edge-loop")
        self._places = Places(self._limits)
        self._channels: dict[str, ServedChannel] = {
            name: ServedChannel(name, self._loop.loop, limits=self._limits, load_config=self._load)
            for name in {**self._for_replicas, **self._for_slaves}
        }
        self.chosen_ports: dict[str, int] = {}
        """The TCP port of each channel for replicas, while the ports are open."""
        self.slave_ports: dict[str, int] = {}
        """The TCP port of each channel for slaves, while the ports are open."""

    def _check(self, config: MasterConfig) -> None:
        options = self._options
        if self._for_replicas and not config.replicas:
            raise OptionError(
                "--replica-port: no replica could log in: "
                + (
                    f"name at least one [[replica]] in {options.config}"
                    if options.config is not None
                    else "give --config FILE with at least one [[replica]]"
                )
            )
        for table, values, option, ports in (
            ("user", config.users, "--serve-port", self._for_slaves),
            ("replica", config.replicas, "--replica-port", self._for_replicas),
        ):
            if values and not ports:
                raise OptionError(f"{options.config}: {table}: has no effect without {option}")
        for port in self._for_slaves.values():
            warning = self._listen(port).check_exposure(config.users)
            if warning is not None:
                log.warning("insecure", reason=warning)

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
            self._tls,
            insecure=self._insecure,
            owner="the slave",
            host_option="--serve-host",
            port_option="--serve-port",
        )

    def watching(self, watching: Watching) -> Watching:
        """Return the functions that the slave calls, with those of the ports."""
        return replace(watching, on_relay_end=self.note, needed_relay_log=self.needed_relay_log)

    def note(self, channel: str, position: RelayPosition | None) -> None:
        """Note the position up to which a channel's relay log is complete. Any thread may call this method."""
        served = self._channels.get(channel)
        if served is not None:
            served.note(position)

    def needed_relay_log(self, channel: str) -> str | None:
        """Return the oldest relay log file of a channel that a connected slave or replica still reads, or None."""
        served = self._channels.get(channel)
        service = served.running if served is not None else None
        if service is None:
            return None
        files = [slave.file for slave in service.register.all() if slave.dump and slave.file]
        return min(files, key=file_number, default=None)

    def replicas(self) -> Sequence[ReplicaRow]:
        """Return the rows of SHOW REPLICAS."""
        return [
            (
                slave.server_id,
                slave.host,
                slave.port,
                service.store.format_description.header.server_id,
                slave.uuid,
            )
            for served in self._channels.values()
            if (service := served.running) is not None
            for slave in service.register.all()
        ]

    @contextmanager
    def serving(self, slave: Slave, executor: Executor, directory: ConnectionDirectory) -> Iterator[None]:
        """Serve slaves and replicas while the ``with`` block runs.

        ``executor`` carries out the statements that replicas seldom send. ``directory`` lists the connections of the
        slave's other ports, too. Raises OptionError if a port cannot be listened on, and OutputError if a port file
        cannot be written.
        """
        options = self._options
        self._loop.start()
        servers: list[ReplicaServer] = []
        ports: list[GrpcPort] = []
        try:
            if self._for_replicas:
                tls = self._tls or temporary_tls(options.replica_host, self._ca)
                for name, port in self._for_replicas.items():
                    servers.append(self._open(slave, name, port, tls, executor, directory))
                _write_first(options.replica_port_file, self.chosen_ports)
            for name, port in self._for_slaves.items():
                ports.append(self._open_for_slaves(slave, name, port))
            _write_first(options.serve_port_file, self.slave_ports)
            yield
        finally:
            self._close(servers, ports)

    def _open_for_slaves(self, slave: Slave, name: str, port: int) -> GrpcPort:
        served = self._channels[name]

        async def open_port() -> GrpcPort:
            opened = GrpcPort(RelayService(lambda: served.service(slave)), self._limits)
            self.slave_ports[name] = opened.open(self._listen(port))
            await opened.start()
            return opened

        opened = self._loop.wait(open_port(), _STOP_SECONDS)
        log.info("slaves.listening", channel=name, host=self._options.serve_host, port=self.slave_ports[name])
        return opened

    def _open(
        self,
        slave: Slave,
        name: str,
        port: int,
        tls: TlsSource,
        executor: Executor,
        directory: ConnectionDirectory,
    ) -> ReplicaServer:
        host, served = self._options.replica_host, self._channels[name]
        filters = ReplicaFilters(self._config.replicas)
        seen: list[DumpFilterService] = []

        def service() -> DumpFilterService:
            found = served.service(slave)
            if not seen or seen[-1] is not found:
                seen[:] = [found]
                # How names are compared is known only now.
                filters.replace(self._load(found.store.names).replicas)
            return found

        server = ReplicaServer(
            service,
            self._places,
            filters,
            executor,
            tls=tls,
            directory=directory,
            demand_tls=not self._insecure,
            max_connections=self._limits.max_dumps,
        )
        listener = listening_socket("the replication port", host, port)
        self.chosen_ports[name] = int(listener.getsockname()[1])
        self._loop.wait(server.open(listener), _STOP_SECONDS)
        log.info("replicas.listening", channel=name, host=host, port=self.chosen_ports[name])
        return server

    def _close(self, servers: Sequence[ReplicaServer], ports: Sequence[GrpcPort]) -> None:
        for served in self._channels.values():
            served.stop()
        with contextlib.suppress(TimeoutError):
            for server in servers:
                self._loop.wait(server.close(), _STOP_SECONDS)
            for port in ports:
                self._loop.wait(port.stop(_GRACE_SECONDS), _STOP_SECONDS)
            if ports:
                self._loop.wait(end_of_tasks(), _STOP_SECONDS)
        for served in self._channels.values():
            served.close()
        self._loop.end(_STOP_SECONDS)
        self.chosen_ports.clear()
        self.slave_ports.clear()


def _write_first(path: Path | None, ports: Mapping[str, int]) -> None:
    """Write the port of the first channel to a file, if there are both."""
    if path is not None and ports:
        write_port(path, next(iter(ports.values())))

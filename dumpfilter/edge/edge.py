"""The ports at which a slave serves its relay logs, in one asyncio loop.

Each channel may have a port for real replicas, and a port for other slaves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.endpoint import Endpoint
from dumpfilter.base.security.tls import TlsSource, temporary_tls
from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.console.executor import Executor
from dumpfilter.console.port import ConnectionDirectory
from dumpfilter.console.serving_loop import ServingLoop
from dumpfilter.edge.options import EdgeOptions
from dumpfilter.edge.served_channel import ServedChannel
from dumpfilter.master.config import MasterConfig, load_config
from dumpfilter.master.grpc_port import GrpcPort, ListenAddress, end_of_tasks
from dumpfilter.master.limits import MAX_DUMPS, Places
from dumpfilter.master.replicas.filters import ReplicaFilters
from dumpfilter.master.replicas.server import ReplicaServer
from dumpfilter.master.who import ReplicaRow
from dumpfilter.slave.slave import Slave

log = structlog.get_logger("dumpfilter.slave")

_GRACE_SECONDS = 1.0
"""The time limit for gRPC calls of slaves to end after the port begins to close, seconds."""

_STOP_SECONDS = 12.0
"""The time limit for closing one port or the loop of the ports, seconds."""


class Edge:
    """The ports at which one slave serves its relay logs to other slaves and to MySQL or MariaDB replicas.

    ``tls`` is the ports' certificate and key. Without ``tls`` slaves connect without TLS, and replicas get a
    certificate that the slave makes. With ``insecure`` replicas on other machines may connect without TLS.

    Raises OptionError for a configuration that cannot be used, and Exposed when other machines could connect to a port
    without TLS or a login.
    """

    def __init__(
        self,
        options: EdgeOptions,
        *,
        tls: TlsSource | None = None,
        ca: Path | None = None,
        insecure: bool = False,
        lower_case_table_names: int = 0,
    ) -> None:
        self._options = options
        self._tls = tls
        self._ca = ca
        self._insecure = insecure
        self._lower_case_table_names = lower_case_table_names
        self._for_slaves, self._for_replicas = options.slave_ports, options.replica_ports
        self._config = self._load(DEFAULT_NAMES)
        self._check(self._config)
        self._loop = ServingLoop("edge-loop")
        self._places = Places(MAX_DUMPS)
        self.channels: dict[str, ServedChannel] = {
            name: ServedChannel(name, self._loop.loop, load_config=self._load)
            for name in {**self._for_replicas, **self._for_slaves}
        }
        """The served channels by name. They are the readers of the slave's relay logs."""
        self.chosen_ports: dict[str, int] = {}
        """The TCP port for replicas by channel name, while the ports are open."""
        self.slave_ports: dict[str, int] = {}
        """The TCP port for slaves by channel name, while the ports are open."""

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
            tls=self._tls,
            insecure=self._insecure,
            owner="the slave",
            host_option="--serve-host",
            port_option="--serve-port",
        )

    def replicas(self) -> Sequence[ReplicaRow]:
        """Return one row of SHOW REPLICAS for each slave and replica that is registered at a port of the edge."""
        return [
            slave.peer.row(reader.store.format_description.header.server_id)
            for served in self.channels.values()
            if (reader := served.opened) is not None
            for slave in served.register.listed()
        ]

    @contextmanager
    def serving(self, slave: Slave, executor: Executor, directory: ConnectionDirectory) -> Iterator[None]:
        """Serve slaves and replicas while the ``with`` block runs.

        ``executor`` carries out the statements that replicas seldom send. ``directory`` lists the connections of the
        slave's other ports, too. Raises OptionError if a port cannot be listened on, and OutputError if a port file
        cannot be written.
        """
        options = self._options
        with contextlib.ExitStack() as stack:
            self._loop.start()
            stack.callback(self._end)
            for served in self.channels.values():
                served.serve(slave)
            if self._for_replicas:
                tls = self._tls or temporary_tls(options.replica_host, self._ca)
                for name, port in self._for_replicas.items():
                    served = self.channels[name]
                    filters = ReplicaFilters(self._config.replicas, served.register)
                    served.on_open = partial(_use_entries, filters)
                    replicas = ReplicaServer(
                        Endpoint(options.replica_host, port, tls=tls, insecure=self._insecure),
                        served,
                        self._places,
                        filters,
                        executor,
                        directory,
                        max_connections=MAX_DUMPS,
                    )
                    self.chosen_ports[name] = stack.enter_context(replicas.serving(self._loop, channel=name))
                _write_first(options.replica_port_file, self.chosen_ports)
            for name, port in self._for_slaves.items():
                opened, self.slave_ports[name] = self._loop.wait(self._open(name, port), _STOP_SECONDS)
                stack.callback(self._finish, opened.stop, _GRACE_SECONDS)
            _write_first(options.serve_port_file, self.slave_ports)
            for served in self.channels.values():
                stack.callback(served.end_dumps)
            yield

    async def _open(self, name: str, port: int) -> tuple[GrpcPort, int]:
        """Open the gRPC port of channel ``name`` for slaves. Return the port and its TCP port number."""
        opened = GrpcPort(self.channels[name], MAX_DUMPS)
        chosen = opened.open(self._listen(port))
        await opened.start()
        log.info("slaves.listening", channel=name, host=self._options.serve_host, port=chosen)
        return opened, chosen

    def _finish(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: float) -> None:
        with contextlib.suppress(TimeoutError):
            self._loop.wait(work(*arguments), _STOP_SECONDS)

    def _end(self) -> None:
        """Finish the remaining tasks of the closed ports, close the channels' relay logs, and stop the asyncio loop."""
        self._finish(end_of_tasks)
        for served in self.channels.values():
            served.close()
        self._loop.end(_STOP_SECONDS)
        self.chosen_ports.clear()
        self.slave_ports.clear()


def _use_entries(filters: ReplicaFilters, config: MasterConfig) -> None:
    filters.take_over(config.replicas)


def _write_first(path: Path | None, ports: Mapping[str, int]) -> None:
    """Write the first channel's TCP port number to the file ``path``. Without ports or without a path nothing is
    written.
    """
    if ports:
        Endpoint(port_file=path).write_port(next(iter(ports.values())))

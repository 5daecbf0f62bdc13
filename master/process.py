"""The master process, which serves one binlog set to slaves, and optionally an SQL console, until a signal ends it."""

from __future__ import annotations

import gc
import resource
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import structlog
from rich.console import Console

from dumpfilter import __version__, logs
from dumpfilter.compiler.memory import CompilerMemory
from dumpfilter.errors import OptionError
from dumpfilter.filter import ReplicationFilter, Rule, WriteSemantics
from dumpfilter.filter.factory import make_write_filter
from dumpfilter.index.scanner import MAX_OPENED
from dumpfilter.master.config import MasterConfig, load_config
from dumpfilter.master.counters import CounterBook
from dumpfilter.master.expiry import Expiry, StoreExpiry
from dumpfilter.master.keeper import Keeper
from dumpfilter.master.known_slaves import KEEP_SECONDS
from dumpfilter.master.limits import MAX_DUMPS, ServerLimits
from dumpfilter.master.listen import ListenAddress
from dumpfilter.master.metrics import MasterCollector
from dumpfilter.master.preparation import load_compiled_code
from dumpfilter.master.reload import Reload, warn_of_plain_passwords
from dumpfilter.master.server import MasterServer
from dumpfilter.master.state_directory import StateDirectory
from dumpfilter.master.store import BinlogStore
from dumpfilter.metrics.endpoint import MetricsEndpoint, serving_metrics
from dumpfilter.metrics.process import CommonCollector
from dumpfilter.options.port_file import write_port
from dumpfilter.printable import printable
from dumpfilter.security.audit import audit, open_audit_log
from dumpfilter.service_manager import READY, STOPPING, ServiceManager

log = structlog.get_logger("dumpfilter.master")

# At run time these imports would load large packages: those for SQL and TLS, which only a master with a console
# needs.
if TYPE_CHECKING:
    from dumpfilter.console.directory import ConnectionDirectory
    from dumpfilter.console.endpoint import ConsoleEndpoint
    from dumpfilter.console.roles import Role
    from dumpfilter.master.console import MasterConsole
    from dumpfilter.master.replicas.control import ReplicaControl
    from dumpfilter.master.source import FollowedSource, SourceThread
    from dumpfilter.security.endpoint import Endpoint
    from dumpfilter.security.passwords import ConsolePassword
    from dumpfilter.security.tls import TlsSource

DRAIN_SECONDS = 10.0
"""The default of ``--drain-seconds``, well below the 30 seconds after which Kubernetes kills a process."""

_COLLECTION_THRESHOLDS = 20_000, 20, 50
"""The thresholds of Python's garbage collector in a master (gc.set_threshold)."""

_LONGEST_LINE = 2000
"""The length at which lines about filter rules are cut on the terminal, characters. A filter may have 10,000 rules."""


@dataclass(frozen=True)
class MasterOptions:
    """The options with which a master process starts."""

    source: Path | Sequence[str | Path]
    """The binlog set to serve: its index file, its directory, or a list of binlog files."""
    listen: ListenAddress | None = field(default_factory=ListenAddress)
    """The address that slaves of dumpfilter connect to, with the master's certificate. None: only real replicas do."""
    port_file: Path | None = None
    """The file to which the master writes its port number once it accepts connections."""
    config_file: Path | None = None
    audit_file: Path | None = None
    """The file of the audit log. Without it the audit log is part of the ordinary log."""
    console: ConsoleEndpoint | None = None
    replicas: Endpoint | None = None
    """The port for real MySQL and MariaDB replicas. None: the master has no such port."""
    verify: bool = True
    cache_bytes: int = 32 << 20
    max_opened: int = MAX_OPENED
    """The uncompressed size up to which compressed transactions are filtered, bytes. Larger ones are sent whole."""
    write_rules: Sequence[Rule] = ()
    """Rules like ``--binlog-do-db``. The master serves the binlog as if a server with these rules had written it."""
    write_semantics: WriteSemantics = WriteSemantics.SERVER
    lower_case_table_names: int = 0
    max_dumps: int = MAX_DUMPS
    """The largest number of slaves that can receive events at once."""
    metrics: MetricsEndpoint | None = None
    """The HTTP endpoint for Prometheus. None: the master serves no metrics."""
    state_dir: Path | None = None
    """The directory in which the master keeps counts and drains for its next start. Without it they end with it."""
    keep_seconds: float = KEEP_SECONDS
    """The time for which the master waits for a slave that is gone, seconds."""
    drain_seconds: float = DRAIN_SECONDS
    """The longest time that the master waits at SIGTERM until the running dumps have ended between two transactions."""
    expiry: Expiry = field(default_factory=Expiry)
    """The bounds of the store of a master that follows a server."""
    follow: FollowedSource | None = None
    """The running server whose binlog the master receives into the directory ``source``. None: another program writes
    the binlog set.
    """


def run_master(options: MasterOptions, terminal: Console) -> None:
    """Serve a binlog set to slaves until SIGINT or SIGTERM, and print the set and the addresses on the terminal.

    Raises DumpfilterError when the set or the configuration cannot be used, when a port is taken, or when the gRPC
    server ends by itself.
    """
    if options.follow is None:
        _run_master(options, terminal, None)
        return
    from dumpfilter.master.source import following

    with following(options.follow) as source:
        _run_master(options, terminal, source)


def _run_master(options: MasterOptions, terminal: Console, source: SourceThread | None) -> None:
    open_audit_log(options.audit_file)
    _allow_open_files()
    manager = ServiceManager()
    signals = _Signals()
    store = BinlogStore(
        options.source, verify=options.verify, cache_bytes=options.cache_bytes, max_opened=options.max_opened
    )
    write_filter = make_write_filter(
        options.write_semantics,
        options.write_rules,
        names=store.names._replace(lower_case_table_names=options.lower_case_table_names),
    )
    config = _load_config(options, store)
    warn_of_plain_passwords(config)
    users = options.console.users(config.console_users) if options.console else {}
    roles = options.console.roles(config.console_roles) if options.console else {}
    # The console's certificate is made before slaves can connect, so that a bad --tls-ca stops the start.
    tls = _console_tls(options)
    if options.listen is not None:
        options.listen.check_usable(config.users)
    # Slaves that connect while this process compiles would wait until their deadline.
    load_compiled_code(store, replicas=options.replicas is not None)
    server = MasterServer(
        store,
        listen=options.listen,
        write_filter=write_filter,
        config=config,
        limits=ServerLimits(max_dumps=options.max_dumps),
        source=source,
    )
    server.service.known_slaves.keep_seconds = options.keep_seconds
    keeper = _keeper(options, server)
    _collect_seldom()
    server.start()
    try:
        reload = Reload(
            server.service, (lambda: _load_config(options, store)) if options.config_file else None
        )
        replica_control = _replica_control(options, server, config, keeper)
        sql = _SqlPorts(options, server, reload, replica_control)
        with (
            _console(options, sql, users, roles, tls, reload, source) as console_port,
            _replicas(options, sql, reload) as replica_port,
            serving_metrics(
                options.metrics, lambda: [CommonCollector(__version__), MasterCollector(server)]
            ) as metrics_url,
        ):
            names = store.binlogs.names
            version = store.format_description.server_version
            announce = _Announcer(terminal)
            at = {} if options.listen is None else {"host": options.listen.host, "port": server.port}
            announce(
                f"serving {names[0]} to {names[-1]} ({len(names)} files, {version})"
                + (" on {host}:{port}".format(**at) if at else ""),
                "serving",
                first=names[0],
                last=names[-1],
                files=len(names),
                server_version=version,
                **at,
            )
            for line in _descriptions(write_filter, config):
                announce(line, "serving with", what=printable(line, _LONGEST_LINE))
            if console_port is not None and options.console is not None:
                host = options.console.host
                announce(f"console on {host}:{console_port}", "console", host=host, port=console_port)
            if replica_port is not None and options.replicas is not None:
                host = options.replicas.host
                announce(f"replicas on {host}:{replica_port}", "replicas", host=host, port=replica_port)
            if metrics_url is not None:
                announce(f"metrics on {metrics_url}", "metrics", url=metrics_url)
            if options.port_file is not None:
                write_port(options.port_file, server.port)
            manager.tell(READY)
            expiry = StoreExpiry(server.service, options.expiry)
            compiler = CompilerMemory()
            while not signals.stop:
                if signals.take_hangup():
                    manager.reloading()
                    _reload(reload)
                    manager.tell(READY)
                signals.wait(1.0)
                server.check()
                manager.alive(server.answers)
                expiry.run()
                compiler.release()
                # A certificate that changed and cannot be used shall be in the log before a slave connects.
                if options.listen is not None and options.listen.tls is not None:
                    options.listen.tls.current()
            announce("stopping", "stopping")
            manager.tell(STOPPING)
            _drain(server, options.drain_seconds, signals)
    finally:
        server.stop()
        if keeper is not None:
            keeper.close()


def _collect_seldom() -> None:
    """Make Python's garbage collections rare, and spare them the objects that last as long as the process.

    The objects of a thousand streams make each collection long, and hardly any of them is ever garbage in a cycle.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTION_THRESHOLDS)


def _keeper(options: MasterOptions, server: MasterServer) -> Keeper | None:
    """Load the state of the master's last run, and begin to save the state. Without a state directory do nothing."""
    if options.state_dir is None:
        return None
    service = server.service
    binlogs = service.store.binlogs
    if options.state_dir.resolve() in {binlogs.path(name).resolve().parent for name in binlogs.names}:
        raise OptionError(
            f"--state-dir={options.state_dir}: the directory holds the binlogs and belongs to their server; name "
            "another one"
        )
    directory = StateDirectory(options.state_dir)
    service.register.counters = CounterBook(directory.counters.load())
    service.drains.restore(directory.drains.load())
    return Keeper(directory, service.register.counters, service.drains)


class _Announcer:
    """Says what the process does: as plain lines on a terminal, or as lines of a log that programs read.

    Both have the level info.
    """

    def __init__(self, terminal: Console) -> None:
        self._terminal = terminal

    def __call__(self, line: str, event: str, **fields: object) -> None:
        if logs.is_json():
            log.info(event, **fields)
        elif logs.shows(logs.Level.INFO):
            self._terminal.print(printable(line, _LONGEST_LINE), markup=False, soft_wrap=True)


def _drain(server: MasterServer, seconds: float, signals: _Signals) -> None:
    """Send the slaves away, each between two transactions, unless another signal asks for an end at once."""
    if signals.stop_at_once:
        return
    left = server.drain(seconds, lambda: signals.stop_at_once)
    if left:
        log.warning("the drain is over before its end", dumps=left, drain_seconds=seconds)


def _reload(reload: Reload) -> None:
    """Read the configuration again because of SIGHUP, if there is a file, and write the result to the audit log."""
    if reload.load is None:
        return
    result = "ok"
    try:
        reload.run()
    except OptionError as error:
        result = str(error)
    audit("SIGHUP", account="", peer="localhost", result=result)


class _Signals:
    """The signals that the process has received: SIGINT and SIGTERM end it, SIGHUP has its files read again.

    SIGTERM gives the slaves time to finish their transactions first. SIGINT, or a second signal, does not.
    """

    def __init__(self) -> None:
        self._ends: list[int] = []
        """The received signals that end the process, in their order."""
        self._hangup = False
        self._received = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._receive)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._hangup = True
        else:
            self._ends.append(number)
        self._received.set()

    @property
    def stop(self) -> bool:
        """Whether the process must end."""
        return bool(self._ends)

    @property
    def stop_at_once(self) -> bool:
        """Whether the process must end without a drain: after SIGINT, or after a second signal."""
        return bool(self._ends) and self._ends != [signal.SIGTERM]

    def take_hangup(self) -> bool:
        """Tell whether SIGHUP has come since the last call."""
        hangup, self._hangup = self._hangup, False
        return hangup

    def wait(self, seconds: float) -> None:
        """Wait for the next signal, but no longer than ``seconds``."""
        self._received.wait(seconds)
        self._received.clear()


def _allow_open_files() -> None:
    """Raise the process's limit of open files to the maximum, because the master keeps each binlog file open."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _load_config(options: MasterOptions, store: BinlogStore) -> MasterConfig:
    if options.config_file is None:
        return MasterConfig()
    return load_config(
        options.config_file,
        names=store.names._replace(lower_case_table_names=options.lower_case_table_names),
    )


def _console_tls(options: MasterOptions) -> TlsSource | None:
    endpoint = options.console
    if endpoint is None:
        return None
    from dumpfilter.security.tls import temporary_tls

    return endpoint.tls or temporary_tls(endpoint.host, endpoint.ca)


class _SqlPorts:
    """The parts that the console and the replication port share: the list of connections, and the statements."""

    def __init__(
        self, options: MasterOptions, server: MasterServer, reload: Reload, replicas: ReplicaControl | None
    ) -> None:
        self._options = options
        self.server = server
        self.replicas = replicas
        self._reload = reload

    @cached_property
    def directory(self) -> ConnectionDirectory:
        from dumpfilter.console.directory import ConnectionDirectory

        return ConnectionDirectory()

    def executor(self, *, port: int, reload: bool, source: SourceThread | None = None) -> MasterConsole:
        """Return the object that carries out the statements of one port's clients."""
        from dumpfilter.master.console import MasterConsole

        return MasterConsole(
            self.server.service,
            port=port,
            lower_case_table_names=self._options.lower_case_table_names,
            reload=self._reload.run if reload else None,
            replicas=self.replicas,
            source=source,
        )


@contextmanager
def _console(
    options: MasterOptions,
    sql: _SqlPorts,
    users: Mapping[str, ConsolePassword],
    roles: Mapping[str, Role],
    tls: TlsSource | None,
    reload: Reload,
    source: SourceThread | None,
) -> Iterator[int | None]:
    """Serve the SQL console while the ``with`` block runs, and yield its port, or None when no console is wanted."""
    endpoint = options.console
    if endpoint is None or tls is None:
        yield None
        return
    from dumpfilter.console.endpoint import serving

    replica_port = 0 if options.replicas is None else options.replicas.port
    executor = sql.executor(port=sql.server.port or replica_port, reload=True, source=source)

    def take_over(config: MasterConfig) -> None:
        console.change_users(endpoint.users(config.console_users), endpoint.roles(config.console_roles))

    with serving(endpoint, executor, users, tls, roles, sql.directory) as console:
        reload.on_change.append(take_over)
        yield console.port


def _replica_control(
    options: MasterOptions, server: MasterServer, config: MasterConfig, keeper: Keeper | None
) -> ReplicaControl | None:
    """Return the filters of real replicas with the means to change them, or None for a master without real replicas."""
    if options.replicas is None:
        return None
    from dumpfilter.master.replicas.control import ReplicaControl
    from dumpfilter.master.replicas.filters import ReplicaFilters

    filters = ReplicaFilters(config.replicas)
    server.service.known_slaves.entries = lambda: filters.entries
    if keeper is not None:
        keeper.keep_filters(filters)
    return ReplicaControl(filters, server.service.register)


@contextmanager
def _replicas(options: MasterOptions, sql: _SqlPorts, reload: Reload) -> Iterator[int | None]:
    """Serve real replicas while the ``with`` block runs, and yield their port, or None when none is wanted."""
    endpoint, control = options.replicas, sql.replicas
    if endpoint is None or control is None:
        yield None
        return
    from dumpfilter.master.replicas.server import serving_replicas

    if not control.filters.entries:
        raise OptionError(
            "--replica-port: no replica could log in: name at least one [[replica]] in the file of --config"
        )
    server, most = sql.server, sql.server.max_connections
    executor = sql.executor(port=endpoint.port, reload=False)
    with serving_replicas(
        endpoint,
        server.service,
        server.loop,
        server.gate.places,
        control.filters,
        executor,
        sql.directory,
        max_connections=most,
    ) as (replicas, port):
        server.count_replicas = lambda: (len(replicas.port.connections), most)

        def take_over(config: MasterConfig) -> None:
            control.take_over(config.replicas)
            replicas.take_over_accounts()

        reload.on_change.append(take_over)
        yield port


def _descriptions(write_filter: ReplicationFilter, config: MasterConfig) -> Iterator[str]:
    """Yield lines for the terminal about the rules and imposed filters that the master uses."""
    if write_filter.is_on:
        yield "as though written with " + " ".join(map(str, write_filter.rules))
    for imposed in config.imposed:
        yield f"imposed: {imposed.name}: " + " ".join(map(str, imposed.filter.rules))

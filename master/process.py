"""The master process, which serves one binlog set to slaves, and optionally an SQL console, until a signal ends it.

Its state directory keeps the slaves' counts, the drains (orders to send slaves away) and the filters that operators
changed, for the next start of the master. The directory belongs to the master alone, and must not hold the binlogs.
:mod:`dumpfilter.base.state_file` describes the files. If a file is unusable, the master starts without the state in it.
"""

from __future__ import annotations

import contextlib
import gc
import resource
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

from pydantic import Field
from rich.console import Console

from dumpfilter import __version__
from dumpfilter.analyse.report.text import human_files
from dumpfilter.base import logs
from dumpfilter.base.endings import ENDINGS, HANG_UP, TERMINATE, handling
from dumpfilter.base.errors import OptionError, OutputError
from dumpfilter.base.files import DirectoryLock
from dumpfilter.base.logs import logger
from dumpfilter.base.printable import printable, replace_invalid_utf8
from dumpfilter.base.security.audit import audit, open_audit_log
from dumpfilter.base.security.listening import host_and_port
from dumpfilter.base.service_manager import READY, STOPPING, ServiceManager
from dumpfilter.base.state_file import Format, State, StateFile
from dumpfilter.binlog.format import NameRules
from dumpfilter.console.metrics import CommonCollector, MetricsEndpoint, serving_metrics
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.filter import make_write_filter
from dumpfilter.filter.rules import Rule, WriteSemantics
from dumpfilter.master.config import MasterConfig, load_config
from dumpfilter.master.metrics import MasterCollector
from dumpfilter.master.options import MasterOptions
from dumpfilter.master.purge import StoreExpiry
from dumpfilter.master.register import CounterBook, SlaveCounts
from dumpfilter.master.replica_filters import ChangedFilter, ReplicaFilters
from dumpfilter.master.server import ListenAddress, MasterServer
from dumpfilter.master.service import DumpFilterService
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.who import Drain, Drains

if TYPE_CHECKING:
    from dumpfilter.base.security.listening import Endpoint
    from dumpfilter.console.port import ConsoleEndpoint

log = logger("dumpfilter.master")

SAVE_SECONDS = 5.0
"""The interval at which changed counts are saved, seconds. A crash loses at most the counts of this time."""

COUNTERS, DRAINS, REPLICA_FILTERS = "slave-counters.json", "drains.json", "replica-filters.json"
LOCK = "master.lock"
"""The name of the lock file in a state directory."""

FORMAT = Format(2, "state directory", "to start afresh, remove the file")
"""The format of the state files that this release writes and reads."""


T = TypeVar("T")


class Saved(State, Generic[T]):
    """The content of one state file (of slaves' counts, of drains, which are orders to send slaves away, or of changed
    filters), as pydantic checks it: a list of entries.
    """

    entries: list[T] = Field(default_factory=list)


class Kept(Generic[T]):
    """One state file of a master. The file holds a list, which is loaded at the master's start and replaced when the
    list has changed. ``model`` is the class that checks the file's content.
    """

    def __init__(self, path: Path, model: type[Saved[T]]) -> None:
        self._file = StateFile(path, model, FORMAT)
        self._model = model

    def load(self) -> list[T]:
        """Return the list of entries that the state file holds. Return an empty list if the file is missing or
        unusable. An unusable file is renamed, and a warning is logged.
        """
        return (self._file.load_or_set_aside() or self._model()).entries

    def save(self, entries: Iterable[T]) -> bool:
        """Write ``entries``, for example all drains (orders to send slaves away), to the state file, in place of all
        entries that the file holds. Return whether that succeeded. The first of several failures is logged.
        """
        return self._file.try_save(self._model(entries=list(entries)))


class StateDirectory:
    """The state directory of a running master, which locks it until :meth:`close`.

    From :meth:`keep` on, a thread saves the counts of the slaves every few seconds, if they have changed, and at the
    end. Drains (the operator's orders to send slaves away) and filters are saved at once. A change that the console has
    confirmed therefore survives a crash.

    Raises OptionError when the directory cannot be made or used, and DirectoryBusy when another master uses it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counters = Kept(path / COUNTERS, Saved[SlaveCounts])
        self.drains = Kept(path / DRAINS, Saved[Drain])
        self.filters = Kept(path / REPLICA_FILTERS, Saved[ChangedFilter])
        """The filters of real replicas that operators changed on the console."""
        self._stop = threading.Event()
        self._end: Callable[[], object] = lambda: None
        try:
            path.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._lock = DirectoryLock(
                path / LOCK,
                f"--state-dir={path}: another master keeps its state here; stop that process, or give this master a "
                "state directory of its own",
            )
        except (OSError, OutputError) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            raise OptionError(
                f"--state-dir={path}: cannot be used: {getattr(cause, 'strerror', error)}; name a directory that this "
                "user may write to"
            ) from None

    def keep(self, counters: CounterBook, drains: Drains, *, seconds: float = SAVE_SECONDS) -> None:
        """Begin to save the state of the master: the statistics of all slaves (``counters``) and the drains, which are
        the operator's orders to send slaves away. A thread saves the statistics every ``seconds`` if they have changed,
        and a last time at :meth:`close`.

        After each change of the drains, all of them are saved at once, except one that belongs to the master's
        shutdown. A save that fails is logged, and raises nothing.
        """

        def run() -> None:
            saved, is_last = counters.generation, False
            while not is_last:
                is_last = self._stop.wait(seconds)
                generation = counters.generation
                if generation != saved and self.counters.save(map(_storable, counters.records())):
                    saved = generation

        drains.on_change.append(
            lambda: self.drains.save(one for one in drains.all() if not one.ends_with_master)
        )
        thread = threading.Thread(target=run, name="master-state", daemon=True)
        thread.start()
        self._end = thread.join

    def keep_filters(self, filters: ReplicaFilters) -> None:
        """Load the saved filters of real replicas into ``filters``, and save the changed filters after each later
        change.
        """
        filters.restore(self.filters.load())
        filters.on_change.append(lambda: self.filters.save(filters.changes))

    def close(self) -> None:
        """Save the state that has changed since the last save, stop the saving thread, and release the lock on the
        directory.
        """
        self._stop.set()
        self._end()
        self._lock.release()


def _storable(record: SlaveCounts) -> SlaveCounts:
    """Return a copy of a slave's counts that a state file (JSON) can hold. Bytes that are not UTF-8 are replaced in the
    name of the binlog file.
    """
    return replace(record, file=replace_invalid_utf8(record.file))


# At run time these imports would load large packages: those for SQL and TLS, which only a master with a console
# needs.

_COLLECTION_THRESHOLDS = 20_000, 20, 50
"""The thresholds of Python's garbage collector in a master (gc.set_threshold)."""

_LONGEST_LINE = 2000
"""The length at which lines about filter rules are cut on the terminal, characters. A filter may have 10,000 rules."""


@dataclass(frozen=True)
class RunOptions:
    """The ports and the audit log of a master process, and the write rules (like ``--binlog-do-db``) that the master
    applies to the served binlog.
    """

    listen: ListenAddress | None = field(default_factory=ListenAddress)
    """The address that dumpfilter slaves connect to, with the master's certificate. None: only real replicas can
    connect.
    """
    audit_file: Path | None = None
    """The file of the audit log. Without it the audit log is part of the ordinary log."""
    console: ConsoleEndpoint | None = None
    replicas: Endpoint | None = None
    """The port for real MySQL and MariaDB replicas. None: the master has no such port."""
    metrics: MetricsEndpoint | None = None
    """The HTTP endpoint for Prometheus. None: the master serves no metrics."""
    write_rules: Sequence[Rule] = ()
    """Rules like ``--binlog-do-db``. The master serves the binlog as if a server with these rules had written it."""
    write_semantics: WriteSemantics = WriteSemantics.SERVER
    lower_case_table_names: int = 0


def run_master(options: MasterOptions, run: RunOptions, terminal: Console) -> None:
    """Serve a binlog set to slaves until SIGINT or SIGTERM. Print the set and the addresses on the terminal. At SIGHUP,
    read the configuration file again.

    The process's limit on open files is raised to the largest value that the system allows. Raises DumpfilterError when
    the set or the configuration cannot be used, when a port is taken, or when the gRPC server ends by itself.
    """
    bounds, keep_seconds, follow = options.expiry(), options.keep_slaves, options.follow()
    with ExitStack() as stack:
        source = None
        if follow is not None:
            from dumpfilter.master.source import following

            source = stack.enter_context(following(follow))
        open_audit_log(run.audit_file)
        # The master keeps each binlog file open.
        _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
        manager = ServiceManager()
        received: SimpleQueue[int] = SimpleQueue()
        stack.enter_context(handling(lambda number, _: received.put(number), *ENDINGS))
        store = BinlogStore(
            options.source,
            verify=options.verify_checksum,
            cache_bytes=options.cache_size,
            max_opened=options.max_transaction,
        )
        names = store.names._replace(lower_case_table_names=run.lower_case_table_names)
        write_filter = make_write_filter(run.write_semantics, run.write_rules, names=names)
        load = partial(_load, options.config, run)
        config = load(store.names)
        server = MasterServer(
            store,
            listen=run.listen,
            write_filter=write_filter,
            config=config,
            max_dumps=options.max_dumps,
            source=source,
        )
        service = server.service
        service.known_slaves.keep_seconds = keep_seconds
        service.load = None if options.config is None else load
        state = _state(options, server)
        if state is not None:
            stack.callback(state.close)
        collect_seldom()
        stack.callback(server.stop)
        # These ports open before slaves can connect, so that a bad --tls-ca stops the start.
        sql_ports = _open_sql_ports(stack, run, server)
        server.start()
        metrics_url = stack.enter_context(
            serving_metrics(run.metrics, lambda: [CommonCollector(__version__), MasterCollector(server)])
        )
        announce = partial(_announce, terminal)
        binlogs, version = store.binlogs.names, store.format_description.server_version
        line = f"serving {binlogs[0]} to {binlogs[-1]} ({human_files(len(binlogs))}, {version})"
        at = {} if run.listen is None else {"host": run.listen.host, "port": server.port}
        if run.listen is not None:
            line += f" on {host_and_port(run.listen.host, server.port)}"
        announce(
            line,
            "serving",
            first=binlogs[0],
            last=binlogs[-1],
            files=len(binlogs),
            server_version=version,
            **at,
        )
        for line in _descriptions(write_filter, config):
            announce(line, "serving with", what=printable(line, _LONGEST_LINE))
        for name, (host, port) in sql_ports.items():
            announce(f"{name} on {host_and_port(host, port)}", name, host=host, port=port)
        if metrics_url is not None:
            announce(f"metrics on {metrics_url}", "metrics", url=metrics_url)
        if run.listen is not None:
            run.listen.write_port(server.port)
        manager.tell(READY)
        expiry = StoreExpiry(service, **bounds)
        ending = None
        while ending is None:
            number = _next_signal(received, 1.0)
            if number == HANG_UP:
                manager.reloading()
                _reload(service)
                manager.tell(READY)
            else:
                ending = number
            server.check()
            manager.alive(server.answers)
            expiry.run()
            # A certificate that changed and cannot be used shall be in the log before a slave connects.
            if run.listen is not None and run.listen.tls is not None:
                run.listen.tls.current()
        announce("stopping", "stopping")
        manager.tell(STOPPING)
        if ending == TERMINATE:
            # Another signal ends the wait for the transactions' ends.
            left = server.drain(
                options.drain_seconds, lambda: _next_signal(received, 0) not in (None, HANG_UP)
            )
            if left:
                log.warning(
                    "the drain is over before its end", dumps=left, drain_seconds=options.drain_seconds
                )


def _load(path: Path | None, run: RunOptions, names: NameRules) -> MasterConfig:
    names = names._replace(lower_case_table_names=run.lower_case_table_names)
    config = MasterConfig() if path is None else load_config(path, names=names)
    if run.console is not None:
        run.console.accounts(config.console_users)
    # Without a port for real replicas nobody waits for them.
    return config if run.replicas is not None else config.model_copy(update={"replicas": ()})


def collect_seldom() -> None:
    """Make Python's garbage collections rare, and exclude all present objects from them.

    The objects of a thousand streams make each collection long, and hardly any of them is ever garbage in a cycle.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTION_THRESHOLDS)


def _state(options: MasterOptions, server: MasterServer) -> StateDirectory | None:
    """Load the state that the master's last run saved, and begin to save the state. Return the state directory, or None
    without ``--state-dir``.

    Raises OptionError for a directory that cannot be used or that holds the binlogs, and DirectoryBusy when another
    master uses it.
    """
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
    directory.keep(service.register.counters, service.drains)
    if service.filters.entries:
        directory.keep_filters(service.filters)
    return directory


def _announce(terminal: Console, line: str, event: str, **fields: object) -> None:
    """Report what the process does, if messages of the level info are shown. Print ``line`` as plain text on the
    terminal. If the log is in JSON, write ``event`` with ``fields`` as a log line instead.
    """
    if logs.is_json():
        log.info(event, **fields)
    elif logs.shows(logs.Level.INFO):
        terminal.print(printable(line, _LONGEST_LINE), markup=False, soft_wrap=True)


def _reload(service: DumpFilterService) -> None:
    """Read the configuration file again because of SIGHUP, and write the result to the audit log. Without a
    configuration file do nothing.
    """
    if service.load is None:
        return
    result = "ok"
    try:
        service.reload(service.store.names)
    except OptionError as error:
        result = str(error)
    audit("SIGHUP", account="", peer="localhost", result=result)


def _next_signal(received: SimpleQueue[int], seconds: float) -> int | None:
    """Wait for a signal that ends the process or makes it read its configuration again, and return the signal's number.
    Return None if none comes within ``seconds``. The signal handlers put the signals into ``received``.
    """
    with contextlib.suppress(Empty):
        return received.get(timeout=seconds)
    return None


def _open_sql_ports(stack: ExitStack, run: RunOptions, server: MasterServer) -> dict[str, tuple[str, int]]:
    """Open the SQL console and the replication port, which share the list of connections, and let ``stack`` close them.
    Return the host and the port number of each, by its name (``console``, ``replicas``).

    Raises OptionError for a console whose users, roles or certificate cannot be used, and for a port that no replica
    could log in to.
    """
    service, config, console, replicas = server.service, server.service.config, run.console, run.replicas
    if console is None and replicas is None:
        return {}
    from dumpfilter.console.port import ConnectionDirectory
    from dumpfilter.master.console import MasterConsole

    directory = ConnectionDirectory()
    if replicas is not None and not config.replicas:
        raise OptionError(
            "--replica-port: no replica could log in: name at least one [[replica]] in the file of --config"
        )
    executor = partial(MasterConsole, service, lower_case_table_names=run.lower_case_table_names)
    ports = {}
    if console is not None:
        from dumpfilter.console.connection import ConsoleServer

        port = server.port or (0 if replicas is None else replicas.port)
        statements = executor(port=port, source=server.source)
        users, roles = console.accounts(config.console_users, config.console_roles)
        made = ConsoleServer(statements, console, users, roles=roles, directory=directory)
        opened = stack.enter_context(made.running())
        service.on_change.append(
            lambda config: opened.change_users(*console.accounts(config.console_users, config.console_roles))
        )
        ports["console"] = console.host, opened.port
    if replicas is not None:
        from dumpfilter.master.replicas.connection import ReplicaServer

        most, places = server.max_connections, server.places
        statements = executor(port=replicas.port)
        served = ReplicaServer(
            replicas, service, places, statements, directory=directory, max_connections=most
        )
        ports["replicas"] = replicas.host, stack.enter_context(served.running(server.loop))
        server.count_replicas = lambda: (len(served.clients), most)
    return ports


def _descriptions(write_filter: ReplicationFilter, config: MasterConfig) -> Iterator[str]:
    """Yield one line for the terminal about the write rules (like ``--binlog-do-db``), and one about each filter that
    the operator imposes on slaves.
    """
    if write_filter.is_on:
        yield "as though written with " + " ".join(map(str, write_filter.rules))
    for imposed in config.imposed:
        yield f"imposed: {imposed.name}: " + " ".join(map(str, imposed.filter.rules))

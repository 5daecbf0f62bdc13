"""A real MariaDB or MySQL server as a child process, and the start and end of any process that listens on ports."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pymysql

from dumpfilter.base.waiting import until
from dumpfilter.testbed.errors import NodeIsDown, StartFailed, TestbedError
from dumpfilter.testbed.keeping import Child
from dumpfilter.testbed.servers.dialect import Rules, SourceAddress, quoted
from dumpfilter.testbed.servers.programs import Program, as_root, make_data
from dumpfilter.testbed.servers.sql import Account, Channel, SqlServer

_POLL = 0.005
_MOST_STARTS = 5


Process = subprocess.Popen[bytes] | Child
"""A process that a :data:`Spawn` function has started."""

Spawn = Callable[[Sequence[str], Mapping[str, str]], Process]
"""A function that starts a process with a command line and an environment. Its output is not returned."""


def spawn_here(command: Sequence[str], environment: Mapping[str, str]) -> Process:
    """Start a process as a child of this one. Ctrl-C in a terminal does not reach the process."""
    null = subprocess.DEVNULL
    return subprocess.Popen(
        command, env=environment, stdin=null, stdout=null, stderr=null, start_new_session=True
    )


def start_process(
    launch: Callable[[int], Process],
    is_ready: Callable[[], bool],
    failure: Callable[[str, int | None], Exception],
    *,
    log: Path,
    taken: str,
    again: bool,
    deadline: float,
) -> None:
    """Start a process, and wait until it is ready. Start it again if another process took its port first.

    Parameters:
        launch: starts the process. Its argument is the number of earlier attempts.
        is_ready: whether the process is ready.
        failure: returns the error for a process that has ended or does not get ready. Its arguments are what the
            process wrote into its log since its start, and its exit code (None: it still runs).
        log: the file of the process's log.
        taken: the words in the log that tell of a taken port, in lower case.
        again: whether a process whose port was taken is started again.
        deadline: the time of ``time.monotonic`` at which a process that is not ready has failed.
    """
    process: Process
    begin = 0

    def told() -> str:
        return log.read_bytes()[begin:].decode(errors="replace") if log.exists() else ""

    def is_ready_or_over() -> bool:
        return is_ready() or process.poll() is not None

    for attempt in range(_MOST_STARTS):
        begin = log.stat().st_size if log.exists() else 0
        process = launch(attempt)
        until(is_ready_or_over, deadline, lambda: failure(told(), None), poll=_POLL)
        # An answer may have come from another process, to which this process has lost its port.
        code = process.poll()
        if code is None:
            return
        if not again or taken not in told().lower():
            break
    raise failure(told(), code)


def end_process(process: Process | None, *, in_order: bool, timeout: float) -> None:
    """End a process by a regular shutdown (``in_order``) or with SIGKILL, and wait for its end.

    A process that does not shut down in ``timeout`` seconds is killed. None and an ended process are left alone.
    """
    if process is None or process.poll() is not None:
        return
    if in_order:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout)
            return
    process.kill()
    process.wait(timeout)


ADDRESS = "127.0.0.1"
"""The address on which servers listen."""

START_TIMEOUT = 120.0
STOP_TIMEOUT = 60.0
_ANSWER_TIMEOUT = 3
"""The time limit of one answer, seconds. Another process may listen on the port, and never answer."""

_LOG_SHOWN = 2000
_PORT_TAKEN = "already in use"

ADMIN = "root"
REPLICATION = "repl"

_LOWEST_PORT = 10_000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


class Server(SqlServer):
    """A server with its own data directory, which can be stopped, killed and started again.

    The server listens on a port of 127.0.0.1. It has two accounts with random passwords: ``account`` has all
    privileges, and ``replication`` may read the binlog. The creation of the accounts is not in the binlog. The server
    also listens on ``data/socket``, where root needs no password.
    """

    def __init__(
        self,
        program: Program,
        directory: Path,
        *,
        name: str,
        server_id: int,
        options: Sequence[str] = (),
        rules: Rules | None = None,
        init: Sequence[str] = (),
        is_replica: bool = False,
        domain: int = 0,
        port: int = 0,
        spawn: Spawn = spawn_here,
    ) -> None:
        """Describe a server, which does not run yet.

        Parameters:
            program: the server's program.
            directory: the directory for the server's files. A directory that has the data of an earlier run is used
                again, with its accounts.
            name: the server's name in errors.
            server_id: its server id.
            options: further options of the command line. They take precedence over all other options.
            rules: the server's own filter rules, by channel.
            init: statements that run once, when the server is new. They are written to the binlog of a source, and not
                to the binlog of a replica.
            is_replica: whether the server reads from another node.
            domain: the domain of MariaDB's GTIDs. Sources of one replica need different domains.
            port: the port, or 0 for a free one.
            spawn: the function that starts the server's process.
        """
        super().__init__(name, program.family, ADDRESS, port, Account(ADMIN, ""))
        self.program = program
        self.directory = directory
        self.server_id = server_id
        self.data = directory / "data"
        self.log = directory / "error.log"
        self.socket = self.data / "socket"
        """The path of the socket file."""
        self.replication = Account(REPLICATION, "")
        self.replication_password_file = directory / "replication.password"
        """The file with only the password of ``replication``, for ``mysql://…?password-file=FILE``."""
        self._admin_password_file = directory / "admin.password"
        self._first_statements = directory / "first.sql"
        """The file with the statements of a new server. It is removed when they and ``init`` have run."""
        self.process: Process | None = None
        self._spawn = spawn
        self._init = [self.dialect.without_binlog, *init] if is_replica else init
        self._options = [option if option.startswith("-") else f"--{option}" for option in options]
        self._rules = rules or {}
        self._domain = [f"--gtid-domain-id={domain}"] if domain else []

    @property
    def replication_address(self) -> SourceAddress:
        """The address, user and password with which a replica connects to this server."""
        return SourceAddress(self.host, self.port, self.replication.user, self.replication.password)

    def prepare(self) -> None:
        """Create the data directory and the passwords, if the server has no data directory. Raises StartFailed."""
        is_new = not self.data.exists()
        if is_new:
            (self.directory / "tmp").mkdir(parents=True, exist_ok=True)
            for path in (self._admin_password_file, self.replication_password_file):
                write_secret(path, secrets.token_urlsafe(12))
        self.account = Account(ADMIN, self._admin_password_file.read_text())
        self.replication = Account(REPLICATION, self.replication_password_file.read_text())
        if is_new:
            write_secret(self._first_statements, "".join(f"{each};\n" for each in self._accounts()))
            # A copy that somebody interrupts is no data directory.
            making = self.directory / "data.new"
            shutil.rmtree(making, ignore_errors=True)
            self._make_data(making)
            making.rename(self.data)

    def _make_data(self, directory: Path) -> None:
        make_data(self.program, directory, self._options)

    def _accounts(self) -> list[str]:
        admin, replication = f"'{ADMIN}'@'{ADDRESS}'", f"'{REPLICATION}'@'{ADDRESS}'"
        return [
            self.dialect.without_binlog,
            f"CREATE USER IF NOT EXISTS {admin} IDENTIFIED BY {quoted(self.account.password)}",
            f"GRANT ALL ON *.* TO {admin} WITH GRANT OPTION",
            f"CREATE USER IF NOT EXISTS {replication} IDENTIFIED BY {quoted(self.replication.password)}",
            f"GRANT {self.dialect.privileges} ON *.* TO {replication}",
        ]

    def start(self, timeout: float = START_TIMEOUT, *, replicates: bool = True) -> None:
        """Start the server and wait until it answers. On a new server the ``init`` statements then run.

        Without ``replicates`` the replication threads stay stopped until they are started. Raises StartFailed, with
        the end of the error log, for a server that ends or does not answer in ``timeout`` seconds.
        """
        if self.is_running:
            return
        try:
            self.prepare()
        except OSError as error:
            raise StartFailed(f"{self.name}: its files cannot be made: {error}") from None
        options = [] if replicates else [self.dialect.without_replication]
        is_new = self._first_statements.exists()
        if is_new:
            options.append(f"--init-file={self._first_statements.resolve()}")
        answer: Exception | None = None

        def launch(attempt: int) -> Process:
            if self.port == 0 or (attempt and is_new):
                self.port = free_port()
            environment = {**os.environ, "TMPDIR": str((self.directory / "tmp").resolve())}
            try:
                self.process = self._spawn([*self._command(), *options], environment)
            except OSError as error:
                raise StartFailed(f"{self.name}: {self.program.path} cannot be run: {error}") from None
            return self.process

        def is_ready() -> bool:
            nonlocal answer
            try:
                SqlServer.connect(self, connect_timeout=_ANSWER_TIMEOUT, read_timeout=_ANSWER_TIMEOUT).close()
            except NodeIsDown as error:
                answer = error
                return False
            return True

        def failure(told: str, code: int | None) -> StartFailed:
            self.kill()
            how = f"does not answer ({answer})" if code is None else f"did not start (exit code {code})"
            return StartFailed(f"{self.name}: {self.program.title} {how}:\n{told[-_LOG_SHOWN:]}")

        start_process(
            launch,
            is_ready,
            failure,
            log=self.log,
            taken=_PORT_TAKEN,
            again=True,
            deadline=time.monotonic() + timeout,
        )
        if is_new:
            try:
                self.sql(*self._init)
            except TestbedError as error:
                self.kill()
                raise StartFailed(f"{error}: correct the statement in init") from None
            self._first_statements.unlink()

    def _command(self) -> list[str]:
        directory = self.directory.resolve()
        return [
            *self.program.command,
            f"--datadir={directory / 'data'}",
            f"--tmpdir={directory / 'tmp'}",
            # The server binds a path relative to its data directory, since a long path cannot be bound.
            "--socket=socket",
            f"--pid-file={directory / 'pid'}",
            f"--log-error={self.log.resolve()}",
            f"--server-id={self.server_id}",
            f"--bind-address={ADDRESS}",
            f"--port={self.port}",
            *as_root(),
            *self.dialect.small,
            *self.dialect.options,
            *self._domain,
            *self.dialect.rule_options(self._rules),
            *self._options,
        ]

    @property
    def is_running(self) -> bool:
        """Whether the server's process runs."""
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int | None:
        """The id of the server's process; None if the server does not run."""
        return self.process.pid if self.process is not None and self.is_running else None

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """Stop the server by a regular shutdown, and wait for its end. A server that does not end in time is killed."""
        if self._first_statements.exists():
            # A server that is still starting can lose the signal of a request to end, and it has nothing to lose.
            self.kill()
            return
        if self.is_running and self.family == "mysql":
            # MySQL's dump threads would delay the server's end by about ten seconds.
            with contextlib.suppress(TestbedError):
                # Without the limit a replica would be back before the server ends. It does not hold the administrator.
                self.sql("SET GLOBAL max_connections = 1")
                for number, command in self.sql("SELECT id, command FROM information_schema.processlist"):
                    if str(command).startswith("Binlog Dump"):
                        self.sql(f"KILL {number}")
        end_process(self.process, in_order=True, timeout=timeout)

    def kill(self) -> None:
        """Kill the server, as a crash does, and wait for its end."""
        end_process(self.process, in_order=False, timeout=STOP_TIMEOUT)

    def restart(self) -> None:
        """Stop the server and start it again with the same data. Raises StartFailed."""
        self.stop()
        self.start()

    def log_text(self) -> str:
        """Return the text of the server's error log."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def channel(self, name: str = "") -> Channel:
        """Return a channel of the server as a replica. The name of the default channel is empty."""
        return Channel(self, name, self._rules.get(name, ()))

    def connect(self, **more: Any) -> pymysql.Connection[Any]:
        if not self.is_running:
            raise NodeIsDown(f"{self.name}: the server does not run: start it")
        return super().connect(**more)


def free_port() -> int:
    """Return a port of 127.0.0.1 on which no process listens now.

    The port is below the range that the system uses for outgoing connections. So none of them takes it while a server
    is stopped. If that range begins too low, the port is any that the system chooses.
    """
    highest = 32_768
    with contextlib.suppress(OSError, ValueError, IndexError):
        highest = int(_EPHEMERAL.read_text().split()[0])
    chance = random.SystemRandom()
    while True:
        port = chance.randrange(_LOWEST_PORT, highest) if highest > _LOWEST_PORT else 0
        with socket.socket() as probe:
            try:
                probe.bind((ADDRESS, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return int(probe.getsockname()[1])


def free_ports(number: int) -> list[int]:
    """Return ``number`` different ports of 127.0.0.1 on which no process listens now (see :func:`free_port`)."""
    found: set[int] = set()
    while len(found) < number:
        found.add(free_port())
    return list(found)


def write_secret(path: Path, text: str) -> None:
    """Write ``text`` to the file ``path``, which only its owner can read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)

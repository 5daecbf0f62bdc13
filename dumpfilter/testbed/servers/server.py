"""MariaDB and MySQL servers: their programs, the data directories of new servers, and their start and end.

A data directory is copied from a template that is made once for each program, in the user's cache directory.
Concurrent processes that need the same template wait for one another. The functions for the start and the end of a
process serve any process that listens on ports.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import os
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import NamedTuple

from dumpfilter.analyse.report.output import written_together
from dumpfilter.base.errors import OutputError
from dumpfilter.base.security.listening import PORT_TAKEN
from dumpfilter.binlog.format import Family
from dumpfilter.testbed.errors import NodeIsDown, ServerMissing, StartFailed, TestbedError
from dumpfilter.testbed.keeper import Child
from dumpfilter.testbed.servers import sql

# -- programs

SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
"""The directories of Debian's daemons, which the PATH of a plain user does not name."""

_INSTALL = "mariadb-install-db"
_BESIDE = (".", "../bin", "../scripts")
"""The directories, relative to that of ``mariadbd``, in which ``mariadb-install-db`` is searched for first."""

_VERSION_TIMEOUT = 60.0


class Program(NamedTuple):
    """An installed program of MySQL or MariaDB (``mysqld`` or ``mariadbd``): its path, family and version."""

    family: Family
    path: str
    version: str
    """The version of the server program, such as ``10.11.6``."""
    install: str = ""
    """The program that makes a data directory. Empty if the server itself makes its data directory."""
    root: str = ""
    """The root directory of another Linux system below which the program is, and whose libraries and files the program
    uses. Empty: those of this machine.
    """

    @property
    def command(self) -> list[str]:
        """The first arguments of the server's command line: the program and ``--no-defaults``. A program with a
        ``root`` (a system in a directory of this machine) also has that system's loader before it, and ``--basedir``.
        """
        base = [f"--basedir={self.root}/usr"] if self.root else []
        return [*command_in(self.root, self.path), "--no-defaults", *base]

    @property
    def title(self) -> str:
        """The name and version of the server for messages, such as ``MariaDB 10.11.6``."""
        return f"{sql.DIALECTS[self.family].title} {self.version}"


def command_in(root: str, program: str) -> list[str]:
    """Return the command line that runs ``program`` with the loader and the libraries of the Linux system whose root
    directory is ``root``.

    With an empty ``root``, a program of this machine, the command line is the program alone. Raises ServerMissing if
    ``root`` has no loader.
    """
    if not root:
        return [program]
    loader = next(Path(root).glob("lib*/ld-linux*.so*"), None)
    if loader is None:
        raise ServerMissing(f"{root}: has no lib*/ld-linux*.so, the loader of a Linux system: name its root")
    libraries = [*Path(root).glob("usr/lib/*-linux-gnu"), Path(root, "usr/lib/mysql/private")]
    return [str(loader), "--library-path", ":".join(map(str, libraries)), program]


def find_program(family: Family, named: str | None = None, root: str = "") -> Program:
    """Return the installed server program of a family, MySQL or MariaDB.

    The program is ``named``, or else the value of the family's environment variable, or else a program on the PATH.
    With ``root``, the root directory of another Linux system (such as one that debootstrap has made), the program is
    ``usr/sbin/mysqld`` or ``usr/sbin/mariadbd`` there. Raises ServerMissing if there is no such program, or if it is
    too old or of the other family.
    """
    words = sql.DIALECTS[family]
    named = str(Path(root, "usr/sbin", words.program)) if root else named or os.environ.get(words.variable)
    path = shutil.which(named) if named else _which(words.program)
    if root:
        cure = f"name the root of a system that has {words.title}"
    elif named:
        cure = f"name the program of a {words.title} server"
    else:
        cure = f"{_how_to_install(family)}, or name its program with the variable {words.variable}"
        if family == "mysql":
            cure += ", or install it into another system and name the system with root = DIR"
    if path is None:
        what = f"{named}: no such program" if named else f"this machine has no {words.program}"
        raise ServerMissing(f"{what}: {cure}")
    version = _version(family, *command_in(root, path))
    if version is None:
        raise ServerMissing(f"{path} is no {words.title} server: {cure}")
    beside = (str((Path(path).resolve().parent / each).resolve()) for each in _BESIDE)
    install = _which(_INSTALL, *beside) if family == "mariadb" else ""
    if install is None:
        raise ServerMissing(f"this machine has no {_INSTALL} beside {path} or on the PATH: {cure}")
    program = Program(family, path, version, install, root)
    if [*map(int, version.split("."))] < words.oldest:
        oldest = ".".join(map(str, words.oldest))
        raise ServerMissing(f"{path} is {program.title}, and dumpfilter needs {oldest} or later: {cure}")
    return program


def _how_to_install(family: Family) -> str:
    """Return advice for the user on how to install a server of a family, as the end of an error's text.

    The packages of the two families exclude each other. If the other family is installed, the advice is therefore to
    unpack a tar archive instead of a package.
    """
    ours, other = sql.DIALECTS[family], sql.DIALECTS["mariadb" if family == "mysql" else "mysql"]
    # A program mysqld beside mariadbd is MariaDB's.
    if _which(other.program) is not None and (family == "mysql" or _which(ours.program) is None):
        return (
            f"unpack {ours.title}'s tar archive for Linux ({ours.archive}), since its packages would remove "
            f"{other.title}, which this machine has"
        )
    return f"install {ours.title} (apt-get install {ours.package})"


def _which(program: str, *before: str) -> str | None:
    """Return the path of a program that is searched in the directories ``before``, then on the PATH and in
    :data:`SBIN`; None if none of them has the program.
    """
    return shutil.which(program, path=os.pathsep.join([*before, os.environ.get("PATH", os.defpath), SBIN]))


@functools.cache
def _version(family: Family, *command: str) -> str | None:
    """Return the version text that a server program reports. None if the program is not a server of this family. Raises
    ServerMissing if the program cannot be run.

    ``command`` has the first arguments of the program's command line.
    """
    try:
        told = subprocess.run(
            [*command, "--no-defaults", "--version"],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_VERSION_TIMEOUT,
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerMissing(f"{command[-1]}: cannot be run: {error}") from None
    found = re.search(r"Ver (\d+\.\d+\.\d+)(-MariaDB)?", told)
    if found is None or (found[2] is not None) != (family == "mariadb"):
        return None
    return found[1]


# -- data directories

CACHE_VARIABLE = "DUMPFILTER_CACHE"
"""The environment variable that names the directory for files that dumpfilter can regenerate."""

_FORM = 2
"""The version of templates (data directories that are copied for new servers). It must change when the content of
templates changes.
"""

_TIMEOUT = 300.0
_LOG_SHOWN = 2000
_FIXED_AT_FIRST = ("lower-case-table-names", "innodb-page-size")
"""Options that are fixed when a data directory is created."""


def make_data(program: Program, directory: Path, options: Sequence[str] = ()) -> None:
    """Create the data directory ``directory`` of a new server.

    ``options`` are the server's own options. Only those that cannot change after the creation of a data directory, such
    as ``innodb-page-size``, are used. Raises StartFailed if the program cannot create a data directory.
    """
    own = (
        option
        for option in options
        if option.lstrip("-").partition("=")[0].replace("_", "-") in _FIXED_AT_FIRST
    )
    fixed = [*sql.DIALECTS[program.family].small, *own]
    try:
        shutil.copytree(_template(program, fixed), directory, symlinks=True)
    except (OSError, OutputError) as error:
        if directory.exists():
            raise StartFailed(f"{directory}: the data directory cannot be made: {error}") from None
        # A user without a usable cache directory waits a little longer.
        _make(program, directory, fixed)


def _template(program: Program, fixed: Sequence[str]) -> Path:
    """Return the template for the data directory of a new server of ``program``: a data directory to copy. A missing
    template is created, and other processes that need it wait meanwhile.

    ``fixed`` are the server's options that are fixed at the creation of a data directory.
    """
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get(CACHE_VARIABLE) or Path(base, "dumpfilter")) / "servers"
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    home = cache / _key(program, fixed)
    with open(f"{home}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            with written_together(home) as making:
                _make(program, making / "data", fixed)
    return home / "data"


def _key(program: Program, fixed: Sequence[str]) -> str:
    """Return the directory name of a template, a data directory that is copied for new servers. Templates of different
    programs have different names, and so have templates with different ``fixed`` options.

    ``fixed`` are the server's options that cannot change after the creation of a data directory.
    """
    status = os.stat(program.path)
    of_file = os.path.realpath(program.path), status.st_size, status.st_mtime_ns
    digest = hashlib.sha256(repr((_FORM, program, of_file, os.geteuid(), fixed)).encode()).hexdigest()
    return f"{program.family}-{program.version}-{digest[:16]}"


def _make(program: Program, data: Path, fixed: Sequence[str]) -> None:
    """Let the server's program create the data directory ``data`` of a new server, in which root's account has no
    password.

    ``fixed`` are the server's options that are fixed at the creation of a data directory.
    """
    temporary = data.with_name(f"{data.name}.tmp")
    temporary.mkdir(parents=True)
    common = [f"--datadir={data}", f"--tmpdir={temporary}", *as_root(), *fixed]
    try:
        if program.family == "mariadb":
            initialize = [program.install, "--no-defaults", *common, "--skip-test-db", "--skip-name-resolve"]
            _run([*initialize, "--auth-root-authentication-method=normal"])
        else:
            _run([*program.command, *common, "--initialize-insecure"])
            # The file has the server's UUID. A server without the file makes a UUID of its own.
            (data / "auto.cnf").unlink(missing_ok=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _run(command: list[str]) -> None:
    """Run a command line to its end. If the call is interrupted, all processes of the command are killed.

    Raises StartFailed if the command fails, cannot be run, or does not end within ``_TIMEOUT`` seconds.
    """
    null, pipe, both = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT
    try:
        with subprocess.Popen(
            command, stdin=null, stdout=pipe, stderr=both, start_new_session=True
        ) as process:
            try:
                told, _ = process.communicate(timeout=_TIMEOUT)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                # The output ends when the last of the child processes has ended.
                process.communicate()
                raise
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StartFailed(f"{command[0]}: cannot be run: {error}") from None
    if process.returncode:
        raise StartFailed(f"{command[0]} failed:\n{told.decode(errors='replace')[-_LOG_SHOWN:]}")


def as_root() -> list[str]:
    """Return the option that permits root to start a server, in a list. The list is empty if the user of this process
    is not root.
    """
    return ["--user=root"] if os.geteuid() == 0 else []


# -- processes

_POLL = 0.005
_MOST_STARTS = 5
_PORT_TAKEN = (PORT_TAKEN, "already in use")
"""The words in the logs of dumpfilter and of servers that tell of a taken port, in lower case."""

Process = subprocess.Popen[bytes] | Child
"""A process that a :data:`Spawn` function has started."""

Spawn = Callable[[Sequence[str]], Process]
"""A function that starts a process with a command line. The process's output is not returned."""


def start_process(
    title: str, launch: Callable[[int], Process], lacks: Callable[[], str], *, log: Path, timeout: float
) -> None:
    """Start a process, and wait until it is ready. If it ends because another process took its port first, start it
    again, up to ``_MOST_STARTS`` times in all.

    Parameters:
        title: the name of the process in errors.
        launch: starts the process. Its argument is the number of earlier attempts.
        lacks: returns why the process is not ready yet, such as "does not answer"; empty when it is ready.
        log: the file of the process's log.
        timeout: the time limit, seconds.

    Raises StartFailed, with the end of the log, for a process that ends or is not ready in time. It is killed then.
    """
    deadline = time.monotonic() + timeout
    for attempt in range(_MOST_STARTS):
        begin = log.stat().st_size if log.exists() else 0
        process = launch(attempt)
        while (lack := lacks()) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(_POLL)
        # An answer may have come from another process, to which this process has lost its port.
        code = process.poll()
        if code is None and not lack:
            return
        told = log.read_bytes()[begin:].decode(errors="replace") if log.exists() else ""
        if code is None or not any(words in told.lower() for words in _PORT_TAKEN):
            break
    end_process(process, in_order=False, timeout=STOP_TIMEOUT)
    late = f"{lack} after {timeout:g} s, its time limit; allow more time, or see the end of its log"
    how = late if code is None else f"ended with exit code {code}"
    raise StartFailed(f"{title} {how}:\n{told[-_LOG_SHOWN:]}")


def end_process(process: Process | None, *, in_order: bool, timeout: float) -> None:
    """End a process by a regular shutdown (``in_order``) or with SIGKILL, and wait for its end.

    A process that does not shut down in ``timeout`` seconds is killed. None and an ended process are left alone. Raises
    TestbedError if the process has not ended ``timeout`` seconds after SIGKILL.
    """
    if process is None or process.poll() is not None:
        return
    for end in (process.terminate, process.kill)[not in_order :]:
        end()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout)
            return
    raise TestbedError(
        f"process {process.pid} has not ended {timeout:g} s after SIGKILL: it waits for the system, such as for a disk "
        f"(ps -o stat,wchan {process.pid})"
    )


ADDRESS = "127.0.0.1"
"""The address on which started servers listen, so that other machines cannot reach them."""

START_TIMEOUT = 120.0
STOP_TIMEOUT = 60.0
_ANSWER_TIMEOUT = 3
"""The time limit for one answer of a starting server, seconds. Another process may listen on the port, and never
answer.
"""

ADMIN = "root"
REPLICATION = "repl"
"""The user with which replicas log in, also at the replication ports of dumpfilter."""

_LOWEST_PORT, _EPHEMERAL_PORT = 10_000, 32_768


@dataclass(eq=False)
class Server(sql.SqlServer):
    """A server with its own data directory, which can be stopped, killed and started again.

    The server listens on a port of 127.0.0.1. It has two accounts with random passwords: ``account`` has all
    privileges, and ``replication`` may read the binlog. The creation of the accounts is not in the binlog. The server
    also listens on ``data/socket``, where root needs no password.
    """

    program: Program
    """The server's program."""
    directory: Path
    """The directory for the server's files. A directory that has the data of an earlier run is used again, with its
    accounts.
    """
    _: KW_ONLY
    name: str
    """The server's name in errors."""
    server_id: int
    options: Sequence[str] = ()
    """Further options of the command line. They take precedence over all other options."""
    rules: sql.Rules = field(default_factory=dict)
    """The server's own filter rules, by channel."""
    init: Sequence[str] = ()
    """Statements that run once, when the server is new."""
    port: int = 0
    """The port. 0 before the first start of a server that uses any free port."""
    log: Path = Path("error.log")
    """The file of the error log, relative to ``directory``."""
    spawn: Spawn
    """The function that starts the server's process."""
    process: Process | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__init__(self.name, self.program.family, ADDRESS, self.port, sql.Account(ADMIN, ""))
        self.options = [option if option.startswith("-") else f"--{option}" for option in self.options]
        self.log = self.directory / self.log
        self.data = self.directory / "data"
        self.socket = self.data / "socket"
        """The path of the socket file."""
        self.replication = sql.Account(REPLICATION, "")
        self.replication_password_file = self.directory / "replication.password"
        """The file with only the password of ``replication``, for ``mysql://…?password-file=FILE``."""
        self._admin_password_file = self.directory / "admin.password"
        self._first_statements = self.directory / "first.sql"
        """The file with the statements of a new server. It is removed when they and ``init`` have run."""

    @property
    def replication_address(self) -> sql.SourceAddress:
        """The address, user and password with which a replica connects to this server."""
        return sql.SourceAddress(self.host, self.port, *self.replication)

    def prepare(self) -> None:
        """Create the data directory and the passwords of a new server, or read the passwords of an existing one. Raises
        StartFailed if the data directory cannot be created, and OSError if another file cannot be created.
        """
        is_new = not self.data.exists()
        if is_new:
            (self.directory / "tmp").mkdir(parents=True, exist_ok=True)
            for path in (self._admin_password_file, self.replication_password_file):
                write_secret(path, secrets.token_urlsafe(12))
        self.account = sql.Account(ADMIN, self._admin_password_file.read_text())
        self.replication = sql.Account(REPLICATION, self.replication_password_file.read_text())
        if is_new:
            write_secret(self._first_statements, "".join(f"{each};\n" for each in self._accounts()))
            # A copy that somebody interrupts is no data directory.
            making = self.directory / "data.new"
            shutil.rmtree(making, ignore_errors=True)
            self._make_data(making)
            making.rename(self.data)

    def _make_data(self, directory: Path) -> None:
        make_data(self.program, directory, self.options)

    def _accounts(self) -> list[str]:
        admin, replication = f"'{ADMIN}'@'{ADDRESS}'", f"'{REPLICATION}'@'{ADDRESS}'"
        return [
            self.dialect.without_binlog,
            *self.dialect.without_root,
            f"CREATE USER IF NOT EXISTS {admin} IDENTIFIED BY {sql.quoted(self.account.password)}",
            f"GRANT ALL ON *.* TO {admin} WITH GRANT OPTION",
            f"CREATE USER IF NOT EXISTS {replication} IDENTIFIED BY {sql.quoted(self.replication.password)}",
            f"GRANT {self.dialect.privileges} ON *.* TO {replication}",
        ]

    def start(self, timeout: float = START_TIMEOUT, *, replicates: bool = True) -> None:
        """Start the server and wait until it answers. On a new server the ``init`` statements then run. A server that
        runs is left alone.

        Without ``replicates`` the replication threads stay stopped until they are started. Raises StartFailed, with the
        end of the error log, for a server that ends or does not answer in ``timeout`` seconds. Raises StartFailed for a
        statement of ``init`` that fails, too.
        """
        if self.is_running:
            return
        self.prepare()
        options = [] if replicates else [self.dialect.without_replication]
        is_new = self._first_statements.exists()
        if is_new:
            options.append(f"--init-file={self._first_statements.resolve()}")

        def launch(attempt: int) -> Process:
            if self.port == 0 or (attempt and is_new):
                self.port = free_port()
            self.process = self.spawn([*self._command(), *options])
            return self.process

        def lacks() -> str:
            try:
                sql.SqlServer.connect(
                    self, connect_timeout=_ANSWER_TIMEOUT, read_timeout=_ANSWER_TIMEOUT
                ).close()
            except NodeIsDown as error:
                return f"does not answer ({error})"
            return ""

        start_process(f"{self.name}: {self.program.title}", launch, lacks, log=self.log, timeout=timeout)
        if is_new:
            try:
                self.sql(*self.init)
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
            *self.dialect.rule_options(self.rules),
            *self.options,
        ]

    @property
    def is_running(self) -> bool:
        """Whether the server's process runs."""
        return self.process is not None and self.process.poll() is None

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """Stop the server by a regular shutdown, and wait for its end. A server that does not end in ``timeout``
        seconds is killed.
        """
        # Without the statement MySQL waits about nine seconds for the threads that send the binlog to replicas.
        for statement in self.dialect.before_stop if self.is_running else ():
            with contextlib.suppress(TestbedError):
                self.sql(statement)
        end_process(self.process, in_order=True, timeout=timeout)

    def kill(self) -> None:
        """Kill the server, as a crash does, and wait for its end."""
        end_process(self.process, in_order=False, timeout=STOP_TIMEOUT)

    def set_source(self, source: sql.SourceAddress, channel: str = "") -> None:
        """Set the source from which a replication channel reads by GTID, after the transactions that the server has
        applied. The caller starts the channel's threads afterwards. A channel that exists already is stopped first.

        ``channel`` is the channel's name, empty for the default channel. On MySQL the rules of a named channel count
        from the next start of the server on. Raises TestbedError if the server does not run or refuses a statement.
        """
        if any(state.channel == channel for state in sql.channel_states(self)):
            self.control("STOP", [channel])
        self.sql(self.dialect.follow(channel, source))


def free_port() -> int:
    """Return a port of 127.0.0.1 on which no process listens now.

    The port is below the range that Linux uses for outgoing connections by default. Otherwise an outgoing connection
    could take the port while the server that uses it is stopped.
    """
    while True:
        # Processes with equal seeds must not choose equal ports.
        port = random.SystemRandom().randrange(_LOWEST_PORT, _EPHEMERAL_PORT)
        with socket.socket() as probe:
            try:
                probe.bind((ADDRESS, port))
                return port
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise


def write_secret(path: Path, text: str) -> None:
    """Write ``text`` to the file ``path``, which only its owner can read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)

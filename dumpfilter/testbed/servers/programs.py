"""The programs of MariaDB and MySQL servers, and the data directories of new servers.

A data directory is copied from a template that is made once for each program, in the user's cache directory.
Concurrent processes that need the same template wait for one another.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dumpfilter.base.endings import uninterrupted
from dumpfilter.binlog.format import Family
from dumpfilter.testbed.errors import ServerMissing, StartFailed
from dumpfilter.testbed.servers.dialect import DIALECTS

SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
"""The directories of Debian's daemons, which the PATH of a plain user does not name."""

_INSTALL = "mariadb-install-db"
_BESIDE = (".", "../bin", "../scripts")
"""The directories, relative to that of ``mariadbd``, in which ``mariadb-install-db`` is searched for first."""

_VERSION_TIMEOUT = 60.0


@dataclass(frozen=True)
class Program:
    """An installed program of MySQL or MariaDB (``mysqld`` or ``mariadbd``): its path, family and version."""

    family: Family
    path: str
    version: str
    """The version, such as ``10.11.6``."""
    install: str = ""
    """The program that makes a data directory. Empty if the server itself makes its data directory."""
    root: str = ""
    """The root directory of another system, whose libraries and files the program uses. Empty: those of this
    machine.
    """

    @property
    def command(self) -> list[str]:
        """The first arguments of the server's command line: the program, ``--no-defaults`` and, for a program of
        another system, ``--basedir``.
        """
        base = [f"--basedir={self.root}/usr"] if self.root else []
        return [*command_in(self.root, self.path), "--no-defaults", *base]

    @property
    def title(self) -> str:
        """The program's family and version as text for people."""
        return f"{DIALECTS[self.family].title} {self.version}"

    @property
    def number(self) -> tuple[int, int]:
        """The major and the minor number of the program's version, for comparisons."""
        first, second, *_ = self.version.split(".")
        return int(first), int(second)


def command_in(root: str, program: str) -> list[str]:
    """Return the command line that runs a program of another system with that system's loader and libraries.

    ``root`` is the root directory of the other system; empty for a program of this machine. Raises ServerMissing.
    """
    if not root:
        return [program]
    loader = next(Path(root).glob("lib*/ld-linux*.so*"), None)
    if loader is None:
        raise ServerMissing(f"{root}: has no lib*/ld-linux*.so, the loader of a Linux system: name its root")
    libraries = [*Path(root).glob("usr/lib/*-linux-gnu"), Path(root, "usr/lib/mysql/private")]
    return [str(loader), "--library-path", ":".join(map(str, libraries)), program]


def find_program(family: Family, named: str | None = None, root: str = "") -> Program:
    """Return the server program of a family.

    The program is ``named``, or the value of the family's environment variable, or a program on the PATH. With ``root``
    the program is ``usr/sbin/mysqld`` (or ``mariadbd``) of another system, such as one that debootstrap has made.
    Raises ServerMissing.
    """
    words = DIALECTS[family]
    named = str(Path(root, "usr/sbin", words.program)) if root else named or os.environ.get(words.variable)
    path = shutil.which(named) if named else _which(words.program)
    if path is None and named:
        raise ServerMissing(f"{named}: no such program: name the program of a {words.title} server")
    cure = f"{_how_to_install(family)}, or name its program with the variable {words.variable}"
    if family == "mysql":
        cure += ", or install it into another system and name the system with root = DIR"
    if path is None:
        raise ServerMissing(f"this machine has no {words.program}: {cure}")
    version = _version(family, *command_in(root, path))
    if version is None:
        raise ServerMissing(f"{path} is no {words.title} server: {cure}")
    beside = (str((Path(path).resolve().parent / each).resolve()) for each in _BESIDE)
    install = _which(_INSTALL, *beside) if family == "mariadb" else ""
    if install is None:
        raise ServerMissing(f"this machine has no {_INSTALL} beside {path} or on the PATH: {cure}")
    program = Program(family, path, version, install, root)
    if program.number < words.oldest:
        oldest = ".".join(map(str, words.oldest))
        raise ServerMissing(f"{path} is {program.title}, and dumpfilter needs {oldest} or later: {cure}")
    return program


def _how_to_install(family: Family) -> str:
    """Return advice for the user on how to install a server of a family, as the end of an error's text.

    The packages of the two families exclude each other. If the other family is installed, the advice is an archive.
    """
    ours, other = DIALECTS[family], DIALECTS["mariadb" if family == "mysql" else "mysql"]
    if _which(other.program) is not None:
        return (
            f"unpack {ours.title}'s tar archive for Linux ({ours.archive}), since its packages would remove "
            f"{other.title}, which this machine has"
        )
    return f"install {ours.title} (apt-get install {ours.package})"


def _which(program: str, *before: str) -> str | None:
    """Return the path of a program in a directory of ``before``, of the PATH or of :data:`SBIN`; None without one."""
    return shutil.which(program, path=os.pathsep.join([*before, os.environ.get("PATH", os.defpath), SBIN]))


@functools.cache
def _version(family: Family, *command: str) -> str | None:
    """Return the version that a program reports, or None if the program is not a server of this family."""
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

_FORM = 1
"""The version of templates. It must change when the content of templates changes."""

_TIMEOUT = 300.0
_LOG_SHOWN = 2000
_FIXED_AT_FIRST = (
    "lower-case-table-names",
    "innodb-page-size",
    "innodb-undo-tablespaces",
    "innodb-data-file-path",
)
"""Options that are fixed when a data directory is created."""


def make_data(program: Program, directory: Path, options: Sequence[str] = ()) -> None:
    """Create the data directory ``directory`` of a new server.

    ``options`` are the server's own options. Only those that are fixed at the creation of a data directory are used.
    Raises StartFailed if the program cannot create a data directory.
    """
    own = (option for option in options if _name(option) in _FIXED_AT_FIRST)
    fixed = [*DIALECTS[program.family].small, *own]
    try:
        shutil.copytree(_template(program, fixed), directory, symlinks=True)
    except OSError as error:
        if directory.exists():
            raise StartFailed(f"{directory}: the data directory cannot be made: {error}") from None
        # A user without a usable cache directory waits a little longer.
        _make(program, directory, fixed)


def _name(option: str) -> str:
    return option.lstrip("-").partition("=")[0].replace("_", "-")


def _template(program: Program, fixed: Sequence[str]) -> Path:
    """Return a data directory to copy for a new server, made if missing. Processes that need it meanwhile wait."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get(CACHE_VARIABLE) or Path(base, "dumpfilter")) / "servers"
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    home = cache / _key(program, fixed)
    with open(f"{home}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            making = home.with_name(f"{home.name}.new")
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir(mode=0o700)
            try:
                _make(program, making / "data", fixed)
                making.rename(home)
            finally:
                shutil.rmtree(making, ignore_errors=True)
    return home / "data"


def _key(program: Program, fixed: Sequence[str]) -> str:
    """Return the name of a template (a data directory to copy), which changes with the program and its options."""
    status = os.stat(program.path)
    of_file = os.path.realpath(program.path), status.st_size, status.st_mtime_ns
    digest = hashlib.sha256(repr((_FORM, program, of_file, os.geteuid(), fixed)).encode()).hexdigest()
    return f"{program.family}-{program.version}-{digest[:16]}"


def _make(program: Program, data: Path, fixed: Sequence[str]) -> None:
    """Let the program create a data directory. Its only account is root without a password, over the socket."""
    temporary = data.with_name(f"{data.name}.tmp")
    temporary.mkdir(parents=True)
    common = [f"--datadir={data}", f"--tmpdir={temporary}", *as_root(), *fixed]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    try:
        if program.family == "mariadb":
            initialize = [program.install, "--no-defaults", *common, "--skip-test-db", "--skip-name-resolve"]
            _run([*initialize, "--auth-root-authentication-method=normal"], environment)
            _run([*program.command, *common, "--bootstrap"], environment, _WITHOUT_ROOT_OVER_TCP)
        else:
            _run([*program.command, *common, "--initialize-insecure"], environment)
            # The file has the server's UUID. A server without the file makes a UUID of its own.
            (data / "auto.cnf").unlink(missing_ok=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


_WITHOUT_ROOT_OVER_TCP = b"DELETE FROM mysql.global_priv WHERE User = 'root' AND Host <> 'localhost';\n"
"""The statement for ``mariadbd --bootstrap``, since ``mariadb-install-db`` creates accounts without a password."""


def _run(command: list[str], environment: dict[str, str], statements: bytes = b"") -> None:
    """Run a program, with ``statements`` as its input. An exception ends its child processes. Raises StartFailed."""
    process = None
    try:
        with uninterrupted():
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        told, _ = process.communicate(statements, timeout=_TIMEOUT)
    except BaseException as error:
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            # The output ends when the last of the child processes has ended.
            process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise StartFailed(f"{command[0]} did not end within {_TIMEOUT:.0f} s") from None
        if isinstance(error, OSError):
            raise StartFailed(f"{command[0]}: cannot be run: {error}") from None
        raise
    if process.returncode:
        raise StartFailed(f"{command[0]} failed:\n{told.decode(errors='replace')[-_LOG_SHOWN:]}")


def as_root() -> list[str]:
    """Return the option that a server needs when root starts it, in a list. The list is empty for other users."""
    return ["--user=root"] if os.geteuid() == 0 else []

"""Data directories of new servers, copied from a template that is made once for each program.

The template is in the user's cache directory. Concurrent processes that need the same template wait for one another.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from dumpfilter.base.endings import uninterrupted
from dumpfilter.base.errors import ServerFailed
from dumpfilter.testbed.servers.dialect import DIALECTS
from dumpfilter.testbed.servers.programs import Program

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
    Raises ServerFailed if the program cannot create a data directory.
    """
    own = (option for option in options if _name(option) in _FIXED_AT_FIRST)
    fixed = [*DIALECTS[program.family].small, *own]
    try:
        shutil.copytree(_template(program, fixed), directory, symlinks=True)
    except OSError as error:
        if directory.exists():
            raise ServerFailed(f"{directory}: the data directory cannot be made: {error}") from None
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
            except BaseException:
                shutil.rmtree(making, ignore_errors=True)
                raise
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
    """Run a program, with ``statements`` as its input. An exception ends its child processes. Raises ServerFailed."""
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
            raise ServerFailed(f"{command[0]} did not end within {_TIMEOUT:.0f} s") from None
        if isinstance(error, OSError):
            raise ServerFailed(f"{command[0]}: cannot be run: {error}") from None
        raise
    if process.returncode:
        raise ServerFailed(f"{command[0]} failed:\n{told.decode(errors='replace')[-_LOG_SHOWN:]}")


def as_root() -> list[str]:
    """Return the option without which a server refuses to run as root; empty for other users."""
    return ["--user=root"] if os.geteuid() == 0 else []

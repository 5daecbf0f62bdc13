"""Real servers of both families: sources that serve generated files, replicas, and the servers' own programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench._common import MYSQL_ROOT, OUT, REPOSITORY
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.workload import GeneratedSet
from dumpfilter.testbed.errors import ServerMissing
from dumpfilter.testbed.servers.server import Program, Server, command_in, find_program
from tests.mariadb import spawn_bound

REPLICA_OPTIONS = ("--sync-relay-log=0", "--sync-master-info=0", "--max-relay-log-size=1073741824")
"""Options of a replica that does not wait for the disk."""


def program_of(family: Family) -> Program:
    """Return the program of a family. MySQL's is below ``MYSQL_ROOT``. Raises ServerMissing."""
    return find_program(family, root=str(MYSQL_ROOT.absolute()) if family == "mysql" else "")


def missing(family: Family) -> str | None:
    """Return why a family's server cannot run here and what to do, or None when it can."""
    if not shutil.which("ss"):
        return "ss, which counts the bytes of a connection, is not on PATH. Install Debian's iproute2."
    try:
        program_of(family)
    except ServerMissing as error:
        return f"{error}; MYSQL_ROOT names the root of a system with MySQL"
    return None


@contextmanager
def running(
    family: Family, server_id: int, *options: str, made: GeneratedSet | None = None
) -> Iterator[Server]:
    """Run a server in a new directory, and remove the directory at the end. ``made`` becomes the server's binlogs."""
    OUT.mkdir(exist_ok=True)
    strict = ("--gtid-strict-mode=ON",) if family == "mariadb" else ()
    options = ("--innodb-buffer-pool-size=64M", *strict, *options)
    with tempfile.TemporaryDirectory(prefix="server-", dir=OUT.absolute()) as directory:
        place, program = Path(directory, "server"), program_of(family)
        server = Server(program, place, name=family, server_id=server_id, options=options, spawn=spawn_bound)
        if made is not None:
            server.prepare()
            _replace_binlogs(server.data, made)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _replace_binlogs(data: Path, made: GeneratedSet) -> None:
    """Replace the binlogs in a server's data directory by generated files."""
    for old in data.glob("bin.*"):
        old.unlink()
    # The server adds its own files to its index.
    shutil.copyfile(made.index, data / "bin.index")
    for path in made.files:
        try:
            os.link(path, data / path.name)
        except OSError:
            shutil.copyfile(path, data / path.name)


class Peer(NamedTuple):
    """A server's own program that copies the server's binlogs."""

    name: str
    command: list[str]
    server: Server


def binlog_program(family: Family) -> tuple[str, list[str]]:
    """Return the name of a server's program that reads binlogs, and its command line without options."""
    if family == "mysql":
        root = MYSQL_ROOT.absolute()
        return "mysqlbinlog", [*command_in(str(root), str(root / "usr/bin/mysqlbinlog")), "--no-defaults"]
    return "mariadb-binlog", ["mariadb-binlog", "--no-defaults"]


@contextmanager
def copied(made: GeneratedSet, family: Family) -> Iterator[Peer]:
    """Run a server on a generated set of its style, and yield the server's program that copies the binlogs."""
    own = {"mysql": ["--ssl-mode=DISABLED", "--get-server-public-key"], "mariadb": ["--skip-ssl"]}
    name, command = binlog_program(family)
    with running(family, 1, made=made) as server, tempfile.TemporaryDirectory(dir=OUT) as output:
        remote = ["--read-from-remote-server", f"--host={server.host}", f"--port={server.port}", "--raw"]
        account = [f"--user={server.account.user}", f"--password={server.account.password}"]
        command += [*own[family], *remote, *account, f"--result-file={output}/"]
        yield Peer(f"{name} --raw", [*command, *(path.name for path in made.files)], server)


def run_silently(command: Sequence[str]) -> None:
    """Run a program of a server or of this checkout to its end, without its output. Raises SystemExit if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    done = subprocess.run(command, env=environment, stdout=null, stderr=pipe, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")

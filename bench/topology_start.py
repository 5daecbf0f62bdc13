"""The time until a topology runs, beside the bare start of the same processes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bench._common import REPOSITORY, Options, Report
from dumpfilter.testbed import up
from dumpfilter.testbed.servers.server import Server, find_program
from tests.mariadb import spawn_here

SLAVES = "m[size=100K] >> a; m >> b; m >> c"
SERVERS = "db[server=mariadb] >> filter >> web[server=mariadb]"

_MODULES = ("dumpfilter.master.server", *["dumpfilter.slave.channels"] * 3)
"""The modules that a master and three slaves import. Imports are most of the start of such a process."""


_PROGRAM = """
import sys
from dumpfilter.testbed import up
with up(sys.argv[1]):
    print("up", flush=True)
    sys.stdin.readline()
"""


def _first(topology: str) -> float:
    """Return the time from the start of a Python process until its first topology is up: all nodes run."""
    start = time.perf_counter()
    command = [sys.executable, "-c", _PROGRAM, topology]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n", topology
        found = time.perf_counter() - start
        process.communicate(b"\n")
    return found


def _next(topology: str) -> float:
    """Return the time until a further topology of this process is up."""
    start = time.perf_counter()
    with up(topology):
        return time.perf_counter() - start


def _import_modules() -> None:
    """Start a Python process for each node of :data:`SLAVES`. The process imports the node's modules and ends."""
    commands = [[sys.executable, "-c", f"import {module}"] for module in _MODULES]
    for process in [subprocess.Popen(command, cwd=REPOSITORY) for command in commands]:
        process.wait()


def _bare_servers() -> float:
    """Return the time of two MariaDB servers with new data, from their start to their first answers."""
    program = find_program("mariadb")
    with tempfile.TemporaryDirectory() as directory:
        servers = [
            Server(
                program, Path(directory, str(number)), name=str(number), server_id=number, spawn=spawn_here
            )
            for number in (1, 2)
        ]
        try:
            start = time.perf_counter()
            with ThreadPoolExecutor(len(servers)) as pool:
                list(pool.map(Server.start, servers))
            return time.perf_counter() - start
        finally:
            for one in servers:
                one.kill()


def run(report: Report, options: Options) -> None:
    cases: dict[str, Callable[[], object]] = {
        "a source and three slaves, the first topology of a process": partial(_first, SLAVES),
        "… a further topology": partial(_next, SLAVES),
        "four bare Python processes with the imports of a master and three slaves": _import_modules,
        "a MariaDB source, a master, a MariaDB replica, the first topology": partial(_first, SERVERS),
        "… a further topology ": partial(_next, SERVERS),
        "two bare MariaDB servers": _bare_servers,
    }
    slaves, _, imports, servers, _, bare = report.measure(cases).values()
    report.limit("a source and three slaves, seconds", slaves, 3)
    report.limit("a MariaDB source and a replica, seconds", servers, 8)
    report.row("slaves / bare processes", slaves / imports)
    report.row("servers / bare servers", servers / bare)

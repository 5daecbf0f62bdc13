"""The time until a topology runs, beside the bare start of the same processes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench._common import REPOSITORY, Options, Report, child, interleaved, timed
from dumpfilter.testbed import up
from dumpfilter.testbed.servers import Server, find_program

SLAVES = "m[size=100K] >> a; m >> b; m >> c"
SERVERS = "db[server=mariadb] >> filter >> web[server=mariadb]"

SLAVES_LIMIT, SERVERS_LIMIT = 3.0, 8.0
"""The targets, seconds."""

_MODULES = ("dumpfilter.master.server", *["dumpfilter.slave.slave"] * 3)
"""The modules that a master and three slaves import. Imports are most of the start of such a process."""


_PROGRAM = """
import sys, time
from dumpfilter.testbed import up
with up(sys.argv[1]):
    print("up", flush=True)
    sys.stdin.readline()
"""


def _first(topology: str) -> float:
    """Return the time from the start of a Python process until its first topology is up: all nodes run."""
    start = time.perf_counter()
    with child(["-c", _PROGRAM, topology]) as process:
        assert process.line() == "up", topology
        found = time.perf_counter() - start
        process.tell("")
        process.process.wait()
        return found


def _next(topology: str) -> float:
    """Return the time until a further topology of this process is up."""
    start = time.perf_counter()
    with up(topology):
        return time.perf_counter() - start


def _import_modules() -> None:
    """Start a Python process for each node of :data:`SLAVES`. The process imports the node's modules and ends."""
    processes = [
        subprocess.Popen([sys.executable, "-c", f"import {module}"], cwd=REPOSITORY) for module in _MODULES
    ]
    for process in processes:
        process.wait()


@contextmanager
def _two_servers(directory: Path) -> Iterator[list[Server]]:
    program = find_program("mariadb")
    servers = [
        Server(program, directory / str(number), name=str(number), server_id=number) for number in (1, 2)
    ]
    try:
        yield servers
    finally:
        for server in servers:
            server.ask_to_stop()
        for server in servers:
            server.stop()


def _bare_servers() -> float:
    """Return the time of two MariaDB servers with new data, from their start to their first answers."""
    with tempfile.TemporaryDirectory() as directory, _two_servers(Path(directory)) as servers:

        def start() -> None:
            for server in servers:
                server.launch()
            for server in servers:
                server.wait_until_ready()

        return timed(start)


def run(options: Options) -> bool:
    report = Report("topology_start", "a topology is up within seconds")
    cases = {
        "a source and three slaves, the first topology of a process": lambda: _first(SLAVES),
        "… a further topology": lambda: _next(SLAVES),
        "four bare Python processes with the imports of a master and three slaves": lambda: timed(
            _import_modules
        ),
        "a MariaDB source, a master, a MariaDB replica, the first topology": lambda: _first(SERVERS),
        "… a further topology ": lambda: _next(SERVERS),
        "two bare MariaDB servers": _bare_servers,
    }
    slaves, _, imports, servers, _, bare = report.times(interleaved(cases, options.runs)).values()
    report.target("a source and three slaves, seconds", slaves, SLAVES_LIMIT, at_most=True)
    report.target("a MariaDB source and a replica, seconds", servers, SERVERS_LIMIT, at_most=True)
    report.row("slaves / bare processes", slaves / imports, f"{slaves / imports:9.2f}")
    report.row("servers / bare servers", servers / bare, f"{servers / bare:9.2f}")
    return report.print()

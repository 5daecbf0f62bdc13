"""Recorded cases as text that a client runs into an empty server, without ``--force``.

The text must run to its end, whatever the filter has torn apart. The server must then have the tables of the recorded
replica, which went on after errors.

``python -m tests.analyse.printing.running mariadb`` runs every case with the MariaDB that is installed, and ``mysql``
with the MySQL below ``$DUMPFILTER_MYSQL_ROOT`` (CONTRIBUTING.md). A further word takes only the cases with the word
in their names.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from dumpfilter.analyse.printing.options import MayFail, SelectionOptions, TextOptions
from dumpfilter.analyse.printing.print_set import print_binlog
from dumpfilter.filter.filter import FilterOptions
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.testbed.servers.server import command_in
from tests.mariadb import MariaDb
from tests.oracle.recordings import Recording, all_cases, filter_of
from tests.oracle.replaying import MariaDbServer, Server, State, comparable, replayable

STOPS = {
    # Two databases become one, and two statements insert the same key.
    "mariadb-statements-rewrite+do-shop",
    "mysql-statements-rewrite+do-shop",
    # CREATE TABLE IF NOT EXISTS of a dropped table makes a table with fewer columns than the source's.
    "mysql-forms-do-db-ignore-b",
    "mysql-forms-rewrite-do",
    "mysql-forms-rewrite-ignore",
    "mysql-forms-rewrite-wild",
}
"""The cases in which a statement fails by the rows or columns of a table, which the text cannot know."""

DIFFERS = {
    # The recorded replica had no database d2. The text makes it, and moves a table there.
    "mariadb-statement-kinds-rewrite",
    "mysql-statement-kinds-rewrite",
}
"""The cases in which the tables differ from those of the recorded replica."""

OLDEST_MYSQL = (8, 0)
"""The oldest version whose rows MySQL 9.7 takes in a BINLOG statement."""


@dataclass(frozen=True)
class Ran:
    """The result of one run: the client's error, and the tables that the server then has."""

    error: str
    tables: State


def text_of(
    recording: Recording, case: str, loads: Path, may_fail: MayFail = MayFail.SAFE
) -> tuple[bytes, str]:
    """Return the text of a case, and the warnings. The files of LOAD DATA go to ``loads``."""
    rules = filter_of(recording, case)
    lower = rules.names.lower_case_table_names
    out, said = io.BytesIO(), io.StringIO()
    filters = FilterOptions(rules=rules.rules, lower_case_table_names=lower)
    options = TextOptions(local_load=loads, may_fail=may_fail)
    files = BinlogSet.open(recording.path / "bin.index")
    print_binlog(files, filters, SelectionOptions(), options, out, Console(file=said, width=1000))
    return out.getvalue(), said.getvalue()


def run_case(server: Server, recording: Recording, case: str) -> Ran:
    """Run the text of a case into an emptied server."""
    server.empty([], recording.collation)
    with tempfile.TemporaryDirectory() as directory:
        text, _ = text_of(recording, case, Path(directory) / "loads")
        command = [*server.client, "--binary-mode", "--local-infile=1", "--max-allowed-packet=1G"]
        done = subprocess.run(command, input=text, capture_output=True, check=False)
    error = done.stderr.decode(errors="replace").strip()
    assert bool(error) == bool(done.returncode), error
    return Ran(error, server.state())


def tables(state: State, known: State) -> State:
    """Return the databases with tables. Databases that the recorded replica did not have are left out."""
    return {name: found for name, found in comparable(state).items() if found and name in known}


def verdict(name: str, recording: Recording, case: str, ran: Ran) -> str:
    """Return the fault of a run, or an empty text."""
    found = recording.oracle["cases"][case]
    if name in STOPS:
        return "" if ran.error else "the text ran to its end: remove the case from STOPS"
    if ran.error:
        return ran.error
    reached = found.get("reached_the_end", found["gtid"] == recording.oracle["gtid"])
    if name in DIFFERS or found["stopped"] or not reached:
        return ""
    expected, got = tables(found["state"], found["state"]), tables(ran.tables, found["state"])
    return "" if expected == got else f"expected {expected}, found {got}"


def runnable(family: str) -> list[tuple[str, Recording, str]]:
    """Return the cases of a family that the server can run, with their names."""
    return [
        (f"{recording.name}-{case}", recording, case)
        for recording, case in all_cases()
        if recording.family == family
        and (replayable(recording.name) if family == "mariadb" else recording.version >= OLDEST_MYSQL)
    ]


def lower_case_of(recording: Recording, case: str) -> int:
    """Return the ``lower_case_table_names`` of a case's replica."""
    return recording.replica(case).lower_case_table_names


@contextmanager
def mariadb(directory: Path, lower: int) -> Iterator[Server]:
    """Run a MariaDB for the texts in a new directory."""
    directory.mkdir()
    server = MariaDb(
        directory,
        "--skip-log-bin",
        "--local-infile=1",
        f"--lower-case-table-names={lower}",
        "--max-allowed-packet=1G",
    )
    try:
        yield MariaDbServer(server)
    finally:
        server.close()


@contextmanager
def mysql(directory: Path, lower: int) -> Iterator[Server]:
    """Run the MySQL below ``$DUMPFILTER_MYSQL_ROOT`` for the texts in a new directory."""
    from tests.real.server import MYSQL_ROOT, Servers

    assert MYSQL_ROOT is not None, "DUMPFILTER_MYSQL_ROOT is not set"
    name = f"--lower-case-table-names={lower}"
    with Servers("mysql", directory) as servers:
        server = servers.new(
            "server", 99, "--skip-log-bin", "--gtid-mode=OFF", name, "--max-allowed-packet=1G"
        )
        server.start()
        client = [
            *command_in(server.program.root, str(MYSQL_ROOT / "usr/bin/mysql")),
            "--no-defaults",
            "-uroot",
        ]
        charsets = MYSQL_ROOT / "usr/share/mysql/charsets"
        yield Server([*client, f"--socket={server.socket}", f"--character-sets-dir={charsets}"], [])


def main(family: str, part: str = "") -> int:
    """Run the cases of a family and print those with a fault. Return the number of faults."""
    faults = count = 0
    with tempfile.TemporaryDirectory() as root, ExitStack() as stack:
        servers: dict[int, Server] = {}
        for name, recording, case in runnable(family):
            if part not in name:
                continue
            lower = lower_case_of(recording, case)
            if lower not in servers:
                start = mariadb if family == "mariadb" else mysql
                servers[lower] = stack.enter_context(start(Path(root) / f"lower{lower}", lower))
            fault = verdict(name, recording, case, run_case(servers[lower], recording, case))
            count += 1
            if fault:
                faults += 1
                print(f"{name}: {' '.join(fault.split())[:600]}", flush=True)
    print(f"{count} cases, {faults} faults")
    return faults


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))

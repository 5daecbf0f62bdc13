"""``python -m tests.real.reconnect``: cut the connections of MariaDB replicas inside transactions, again and again.

A source has large transactions over several tables. Replicas with different filters follow it through dumpfilter, by
file and position, or by GTID. A link cuts their connections after random numbers of bytes, and the I/O threads stop
and start. At the end each replica must have the rows of the source that its filter lets through.
``DUMPFILTER_MARIADB_ROOT`` names a file system with another MariaDB than the installed one. Each version is then the
source of replicas of each version (CONTRIBUTING.md).
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from dumpfilter.testbed.values import Place
from dumpfilter.topology.links.client import LinkProcess, OpenLink
from dumpfilter.topology.links.shape import LinkShape
from tests.real.behind import PASSWORD, Dumpfilter, users
from tests.real.live import CUT_SECONDS
from tests.real.server import (
    REPLICATION_PASSWORD,
    REPLICATION_USER,
    RealServer,
    Servers,
    ports_from,
    wait_for,
)
from tests.slave.processes import Launcher

MARIADB_ROOT = os.environ.get("DUMPFILTER_MARIADB_ROOT")

FILTERS: Mapping[str, Sequence[str]] = {
    "all": [],
    "kept": ["--replicate-wild-do-table=kept.%"],
    "one": ["--replicate-do-table=kept.a", "--replicate-do-table=other.c"],
    "without": ["--replicate-ignore-table=kept.b"],
}
TABLES = ("kept.a", "kept.b", "other.c", "other.d")
DIRECT = "direct"
"""The name of a replica that follows the source without dumpfilter."""
MOST_BY_FILE, MOST_BY_GTID = 40, 8
"""The largest numbers of cuts."""
_SLOW = LinkShape(16_000_000)
"""The shape of the connections: two million bytes a second."""


def fill(source: RealServer, transactions: int, rows: int, seed: int) -> None:
    """Write transactions with ``rows`` rows over all tables, and some without rows of the database ``kept``."""
    chosen = random.Random(seed)
    source.sql("CREATE DATABASE kept", "CREATE DATABASE other")
    for table in TABLES:
        source.sql(
            f"CREATE TABLE {table} (n INT AUTO_INCREMENT PRIMARY KEY, t INT, text VARCHAR(4000)) ENGINE=InnoDB"
        )
    for number in range(transactions):
        tables = TABLES if number % 3 else TABLES[2:]
        source.sql("BEGIN")
        for _ in range(rows):
            table = chosen.choice(tables)
            values = ", ".join(
                f"({number}, REPEAT('{chosen.choice('abcdef')}', {chosen.randrange(3000)}))"
                for _ in range(chosen.randrange(1, 4))
            )
            source.sql(f"INSERT INTO {table} (t, text) VALUES {values}")
            if chosen.random() < 0.2:
                source.sql(f"UPDATE {table} SET text = CONCAT('u', LEFT(text, 100)) ORDER BY n DESC LIMIT 2")
        source.sql("COMMIT")


def torment(
    replica: RealServer,
    link: OpenLink,
    end: Place,
    *,
    seed: int,
    largest: int,
    most: int,
    seconds: float = 120.0,
) -> int:
    """Cut the replica's connection up to ``most`` times while it goes to the source's end. Return the number of cuts.

    By GTID a replica begins again at the start of a transaction, and would get nowhere if the cuts did not end.
    """
    chosen = random.Random(seed)
    cuts = 0
    deadline = time.monotonic() + seconds
    while True:
        status = replica.status()
        assert status is not None
        if status.executed == end:
            return cuts
        stopped = status.io_error if status.io_running == "No" and status.io_error[0] else status.sql_error
        assert not (stopped[0] and (status.io_running == "No" or not status.sql_running)), stopped
        assert time.monotonic() < deadline, status
        if status.read == end or cuts == most:
            time.sleep(0.02)
            continue
        cuts += 1
        if chosen.random() < 0.3:
            time.sleep(chosen.random() * 0.05)
            replica.control("STOP", thread="IO_THREAD")
            replica.control("START", thread="IO_THREAD")
        else:
            # The replica's login takes some packets, and each connection must go on a little.
            count, before = 6000 + chosen.randrange(largest), link.counters.down
            # A new plan would forget the end of a cut.
            link.heal()
            link.cut_after(count, CUT_SECONDS)
            until = time.monotonic() + 3
            while link.counters.down < before + count and time.monotonic() < until:
                time.sleep(0.005)
            if link.counters.down == before:
                link.drop_connections()
            # A replica whose connection was cut waits for a second before it connects again.
            replica.control("STOP", thread="IO_THREAD")
            replica.control("START", thread="IO_THREAD") if chosen.random() < 0.7 else None
            if replica.status().io_running == "No":  # type: ignore[union-attr]
                replica.control("START", thread="IO_THREAD")


def rows(server: RealServer, table: str) -> list[tuple[object, ...]]:
    """Return a digest of the table's rows, or nothing if there is no such table."""
    database, name = table.split(".")
    if not server.sql(
        f"SELECT 1 FROM information_schema.tables WHERE table_schema='{database}' AND table_name='{name}'"
    ):
        return []
    return server.sql(f"SELECT COUNT(*), SUM(n), SUM(t), SUM(CRC32(text)) FROM {table}")


def passes(user: str, table: str) -> bool:
    """Tell whether a filter lets a table through."""
    return {
        "all": True,
        DIRECT: True,
        "kept": table.startswith("kept."),
        "one": table in ("kept.a", "other.c"),
        "without": table != "kept.b",
    }[user]


def differences(source: RealServer, replica: RealServer, user: str) -> list[str]:
    """Return the differences between the replica and the part of the source that its filter lets through."""
    found = []
    for table in TABLES:
        want = rows(source, table) if passes(user, table) else None
        got = rows(replica, table)
        if want is not None and want != got:
            found.append(f"{table}: {got}, not {want}")
        if want is None and got and got[0][0]:
            found.append(f"{table}: {got}, but the filter drops it")
    positions = replica.value("@@GLOBAL.gtid_slave_pos"), source.binlog_gtids()
    if positions[0] != positions[1]:
        found.append(f"gtid_slave_pos {positions[0]}, not {positions[1]}")
    return found


def follow(
    source: RealServer, replica: RealServer, link: OpenLink, port: int, user: str, *, by_file: bool, seed: int
) -> tuple[int, list[str]]:
    """Let a replica follow a source to its end. Return the number of cuts and the differences."""
    end = source.binlog_end()
    replica.empty()
    start = Place("bin.000001", 4) if by_file else None
    account = (REPLICATION_USER, REPLICATION_PASSWORD) if user == DIRECT else (user, PASSWORD)
    replica.follow(port, *account, start=start)
    replica.control("START")
    try:
        most = MOST_BY_FILE if by_file else MOST_BY_GTID
        cuts = torment(replica, link, end, seed=seed, largest=end.position // 12, most=most)
        # A replica shows the position before its GTID.
        wait_for(lambda: not differences(source, replica, user), lambda: "", 5)
        return cuts, []
    except AssertionError as error:
        return 0, [str(error), *differences(source, replica, user)]
    finally:
        replica.control("STOP")


def run(
    sources: Mapping[str, Servers],
    launcher: Launcher,
    directory: Path,
    ports: Callable[[], int],
    *,
    transactions: int,
    size: int,
    seed: int,
    report: Callable[[str], None] = print,
) -> list[str]:
    """Let replicas of each version follow sources of each version. Return the differences."""
    found: list[str] = []
    replicas = {version: servers.new("replica", 22) for version, servers in sources.items()}
    for replica in replicas.values():
        replica.start()
    for version, servers in sources.items():
        source = servers.new("source", 11, "--max-binlog-size=1G", "--binlog-row-event-max-size=4096")
        source.start()
        fill(source, transactions, size, seed)
        behind = Dumpfilter(launcher, directory / f"behind-{version}", port=ports())
        behind.configure(users(FILTERS))
        behind.start(source.data / "bin.index")
        for (other, replica), user, by_file in itertools.product(
            replicas.items(), [*FILTERS, DIRECT], (True, False)
        ):
            what = f"source {version}, replica {other}, {'file' if by_file else 'GTID'}, filter {user}"
            with LinkProcess() as links:
                target = source.port if user == DIRECT else behind.port
                port = links.open(what, target, _SLOW)
                cuts, different = follow(source, replica, links[what], port, user, by_file=by_file, seed=seed)
            found += [f"{what}: {line}" for line in different]
            report(f"{what}: {cuts} cuts, {different or 'equal'}")
        behind.kill()
        source.kill()
    return found


def main() -> None:
    """Run all pairs of versions. The exit status is 1 when a replica ended differently."""
    parser = argparse.ArgumentParser(prog="python -m tests.real.reconnect", description=__doc__)
    parser.add_argument("--transactions", type=int, default=6)
    parser.add_argument("--rows", type=int, default=200, help="statements of a transaction")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first-port", type=int, default=0)
    options = parser.parse_args()
    ports = ports_from(options.first_port)
    with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="dumpfilter-reconnect-") as name:
        temporary = Path(name)
        launcher = Launcher(temporary)
        stack.callback(launcher.close)
        servers = {"installed": stack.enter_context(Servers("mariadb", temporary / "servers", ports))}
        if MARIADB_ROOT:
            root = Path(MARIADB_ROOT)
            other = root / "rec" / temporary.name
            other.mkdir(parents=True)
            stack.callback(shutil.rmtree, other, ignore_errors=True)
            servers["other"] = stack.enter_context(Servers("mariadb", other, ports, mariadb_root=root))
        found = run(
            servers,
            launcher,
            temporary,
            ports,
            transactions=options.transactions,
            size=options.rows,
            seed=options.seed,
            report=lambda line: print(line, flush=True),
        )
    sys.exit(bool(found))


if __name__ == "__main__":
    main()

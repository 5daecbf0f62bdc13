"""The last part of the demonstration: a real MariaDB source, and two real replicas with the same filter.

One replica reads from the source. The other one reads from dumpfilter, which receives the source's binlog and filters
for the replica. Both must end with the same tables and GTID position. The servers' files are in a temporary directory,
which goes away at the end.
"""

from __future__ import annotations

import json
import random
import secrets
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dumpfilter.demo.mariadb import Programs, Server, end_servers, make_data
from dumpfilter.demo.processes import end, start_master
from dumpfilter.errors import DumpfilterError

_USER = "shop_replica"
_ACCOUNT_OF_DUMPFILTER = "dumpfilter"
_RULES = ("--replicate-do-db=shop",)
_REPLICA = (
    "--relay-log=relay-bin",
    "--relay-log-purge=OFF",
    "--skip-slave-start",
    # A replica without a binlog of its own asks for no Annotate_rows events.
    "--log-bin=own-bin",
    "--log-slave-updates",
)
_TRANSACTIONS = 600
_CLICKS = 12
_MOST_SECONDS = 120.0
_LONGEST_PATH = 60

_SCHEMA = (
    # The filter of a statement's database asks for the current one.
    "CREATE DATABASE shop",
    "USE shop",
    "CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, item VARCHAR(40), price DECIMAL(8,2))",
    "CREATE DATABASE logs",
    "USE logs",
    "CREATE TABLE clicks (id BIGINT AUTO_INCREMENT PRIMARY KEY, page VARCHAR(200), at DATETIME(6))",
    "CREATE DATABASE hr",
    "USE hr",
    "CREATE TABLE emp (id INT PRIMARY KEY, name VARCHAR(40), salary INT)",
)
_ITEMS = ("anvil", "rope", "lantern", "kettle", "compass", "tent", "map", "boots")


@dataclass(frozen=True)
class _Replica:
    server: Server
    reads_from: str
    port: int
    password: str

    def change_master(self, *, password: str) -> str:
        """Return the statement that points the replica at its source."""
        return (
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={self.port}, MASTER_USER='{_USER}', "
            f"MASTER_PASSWORD='{password}', MASTER_SSL=0, MASTER_USE_GTID=slave_pos"
        )

    def attach(self) -> None:
        """Point the replica at its source, and start its threads."""
        self.server.sql(self.change_master(password=self.password), "START SLAVE")

    def wait_for(self, position: str) -> None:
        """Wait until the replica has applied everything up to a GTID position. Raises DumpfilterError."""
        deadline = time.monotonic() + _MOST_SECONDS
        while self.server.sql(f"SELECT MASTER_GTID_WAIT('{position}', 1)") != [(0,)]:
            status = self._status()
            has_stopped = "No" in (status["Slave_IO_Running"], status["Slave_SQL_Running"])
            if has_stopped or time.monotonic() > deadline:
                error = status["Last_IO_Error"] or status["Last_SQL_Error"] or "it is slow"
                raise DumpfilterError(f"the replica of the {self.reads_from} does not follow: {error}")

    def _status(self) -> dict[str, Any]:
        with self.server.connect() as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SHOW SLAVE STATUS")
            return dict(cursor.fetchone() or {})

    @property
    def received(self) -> int:
        """The bytes of all its relay logs."""
        return sum(path.stat().st_size for path in self.server.data.glob("relay-bin.[0-9]*"))

    @property
    def position(self) -> str:
        """The GTID position after the last applied transaction."""
        return str(self.server.sql("SELECT @@gtid_slave_pos")[0][0])

    def checksums(self) -> dict[str, int]:
        """Return the checksum of each table that people have made."""
        tables = [
            f"`{schema}`.`{table}`"
            for schema, table in self.server.sql(
                "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND "
                "table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')"
            )
        ]
        return dict(self.server.sql("CHECKSUM TABLE " + ", ".join(tables))) if tables else {}


def demonstrate(console: Console, programs: Programs, output: Path) -> bool:
    """Run the servers and dumpfilter, print what the replicas received, and tell whether the law holds.

    ``output`` gets the logs of the servers and of dumpfilter. Raises DumpfilterError.
    """
    logs = output / "servers"
    logs.mkdir()
    with tempfile.TemporaryDirectory(prefix="dumpfilter-demo-", dir=_short_directory()) as folder:
        directory = Path(folder)
        make_data(programs, directory / "template")
        servers: list[Server] = []
        try:
            for name, number, options in (
                ("source", 1, ["--log-bin=bin", "--binlog-format=ROW"]),
                ("at-source", 2, _replica_options()),
                ("at-dumpfilter", 3, _replica_options()),
            ):
                (directory / name).mkdir()
                # The list has the server before it starts, so that Ctrl-C ends each server that has started.
                servers.append(
                    Server(
                        programs,
                        directory / "template",
                        directory / name,
                        logs / f"{name}.log",
                        server_id=number,
                        networked=name == "source",
                        options=options,
                    )
                )
                servers[-1].start()
            for server in servers:
                server.wait()
            return _replicate(console, servers, logs)
        finally:
            end_servers(servers)


def _short_directory() -> str | None:
    """Return a directory with a short path. The path of a socket file below it has at most 107 characters."""
    return "/tmp" if len(tempfile.gettempdir()) > _LONGEST_PATH else None


def _replica_options() -> list[str]:
    return [*_REPLICA, *_RULES]


def _replicate(console: Console, servers: Sequence[Server], logs: Path) -> bool:
    source, at_source, at_dumpfilter = servers
    password = secrets.token_urlsafe(12)
    for account in (_USER, _ACCOUNT_OF_DUMPFILTER):
        source.sql(
            f"CREATE USER {account}@'127.0.0.1' IDENTIFIED BY '{password}'",
            f"GRANT REPLICATION SLAVE ON *.* TO {account}@'127.0.0.1'",
        )
    source.sql(*_SCHEMA)
    _write(source, seed=1)
    entry = f"[[replica]]\nuser = {json.dumps(_USER)}\nrules = {json.dumps(_RULES)}\n"
    config = logs / "master.toml"
    config.touch(mode=0o600)
    config.write_text(f"{entry}password = {json.dumps(password)}\n", "utf-8")
    address = f"mysql://{_ACCOUNT_OF_DUMPFILTER}@127.0.0.1:{source.port}/"
    options = (f"--store={source.data.parent / 'store'}", f"--config={config}")
    master, (_, port, console_port) = start_master(
        address,
        logs / "master.log",
        *options,
        ports=("--port", "--replica-port", "--console-port"),
        DUMPFILTER_SOURCE_PASSWORD=password,
    )
    try:
        replicas = [
            _Replica(at_source, "source", source.port, password),
            _Replica(at_dumpfilter, "dumpfilter", port, password),
        ]
        for line in (
            f"$ dumpfilter master {address} --store DIR --config FILE --replica-port {port}",
            "FILE: " + ", ".join(entry.splitlines()) + ", password = …",
            f"MariaDB> {replicas[1].change_master(password='…')}; START SLAVE",
        ):
            console.print(f"   {line}", soft_wrap=True, markup=False)
        for replica in replicas:
            replica.attach()
        _write(source, seed=2)
        ((end_position,),) = source.sql("SELECT @@gtid_binlog_pos")
        for replica in replicas:
            replica.wait_for(end_position)
        held = _print_replicas(console, replicas, source)
        _print_counts(console, console_port)
        _print_rows(console, at_dumpfilter)
        for replica in replicas:
            replica.server.sql("STOP SLAVE")
        return held
    finally:
        end(master)
        config.unlink()


def _write(source: Server, *, seed: int) -> None:
    """Write rows on the source, most of them into tables that the replicas' filter drops."""
    chance = random.Random(seed)
    with source.connect() as connection, connection.cursor() as cursor:
        for number in range(_TRANSACTIONS):
            cursor.execute("BEGIN")
            if number % 5 == 0:
                cursor.executemany(
                    "INSERT INTO shop.orders (item, price) VALUES (%s, %s)", list(_orders(chance))
                )
            elif number % 5 == 1:
                cursor.execute("REPLACE INTO hr.emp VALUES (%s, %s, %s)", (number % 97, "Ann", 1000 + number))
            else:
                clicks = [
                    (f"/shop/{chance.choice(_ITEMS)}?visit={chance.getrandbits(64):x}",)
                    for _ in range(_CLICKS)
                ]
                cursor.executemany("INSERT INTO logs.clicks (page, at) VALUES (%s, NOW(6))", clicks)
            cursor.execute("COMMIT")


def _orders(chance: random.Random) -> Iterator[tuple[str, str]]:
    for _ in range(chance.randrange(1, 5)):
        yield chance.choice(_ITEMS), f"{chance.randrange(100, 20_000) / 100:.2f}"


def _print_replicas(console: Console, replicas: Sequence[_Replica], source: Server) -> bool:
    tables = [replica.checksums() for replica in replicas]
    positions = [replica.position for replica in replicas]
    received = [replica.received for replica in replicas]
    kept = source.sql("CHECKSUM TABLE shop.orders")
    held = tables[0] == tables[1] == dict(kept) and positions[0] == positions[1]
    title = f"What two real replicas with {' '.join(_RULES)} received"
    shown = Table(title=title, title_justify="left", title_style="bold")
    shown.add_column("replica of", overflow="fold")
    for name in ("its relay logs", "saved"):
        shown.add_column(name, justify="right", overflow="fold")
    shown.add_column("gtid_slave_pos", overflow="fold")
    shown.add_column("CHECKSUM TABLE", overflow="fold")
    for replica, size, found, position in zip(replicas, received, tables, positions, strict=True):
        shown.add_row(
            replica.reads_from,
            f"{size:,}",
            f"{100 * (1 - size / received[0]):.1f} %",
            position,
            "\n".join(f"{escape(name)}\n{checksum}" for name, checksum in found.items()),
        )
    console.print(shown)
    console.print(
        "law: tables, checksums and GTID position are " + ("equal" if held else "[red]NOT equal[/]")
    )
    return held


def _print_counts(console: Console, port: int) -> None:
    """Print what dumpfilter has counted for its replica, from its console."""
    with (
        pymysql.connect(host="127.0.0.1", port=port, user="root") as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT bytes_read, bytes_sent, bytes_gtid FROM dumpfilter.slaves")
        for read, sent, gtid in cursor.fetchall():
            console.print(
                f"dumpfilter: {read:,} bytes read, {sent:,} sent, {gtid:,} for the GTIDs of dropped transactions, "
                f"{100 * (1 - (sent + gtid) / read):.1f} % saved",
                soft_wrap=True,
            )


def _print_rows(console: Console, replica: Server) -> None:
    rows = replica.sql("SELECT id, item, price FROM shop.orders ORDER BY id DESC LIMIT 3")
    ((databases,),) = replica.sql(
        "SELECT GROUP_CONCAT(schema_name) FROM information_schema.schemata WHERE schema_name IN ('shop', 'logs', 'hr')"
    )
    console.print(f"on the replica of dumpfilter: of shop, logs and hr only {databases}; the newest orders:")
    for number, item, price in rows:
        console.print(f"  {number:>6}  {item:<8} {price:>8}")

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pymysql
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dumpfilter.demo.processes import end, start_master, uninterrupted
from dumpfilter.servers import Program, Server, SourceAddress, end_servers, wait_for_gtids
from dumpfilter.servers.data import read_data

_USER = "shop_replica"
_RULES = ("--replicate-do-db=shop",)
_REPLICA = ("--relay-log-purge=OFF",)
_TRANSACTIONS = 600
_CLICKS = 12
_MOST_SECONDS = 120.0

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
    source: SourceAddress

    def wait_for(self, position: str) -> None:
        """Wait until the replica has applied everything up to a GTID position. Raises DumpfilterError."""
        wait_for_gtids(self.server, position, _MOST_SECONDS)

    @property
    def received(self) -> int:
        """The bytes of all its relay logs."""
        return sum(path.stat().st_size for path in self.server.data.glob("relay-bin.[0-9]*"))

    @property
    def position(self) -> str:
        """The GTID position after the last applied transaction."""
        return self.server.applied_gtids()

    def checksums(self) -> dict[str, str]:
        """Return the checksum of each table that people have made."""
        return dict(read_data(self.server).tables)


def demonstrate(console: Console, program: Program, output: Path) -> bool:
    """Run the servers and dumpfilter, print what the replicas received, and tell whether the law holds.

    ``output`` gets the logs of the servers and of dumpfilter. Raises DumpfilterError.
    """
    logs = output / "servers"
    logs.mkdir()
    with tempfile.TemporaryDirectory(prefix="dumpfilter-demo-") as folder:
        servers = [
            Server(
                program,
                Path(folder) / name,
                name=name,
                server_id=number,
                options=_REPLICA if rules else ("--binlog-format=ROW",),
                rules={"": rules},
                is_replica=bool(rules),
                log=logs / f"{name}.log",
            )
            for number, (name, rules) in enumerate(
                (("source", ()), ("at-source", _RULES), ("at-dumpfilter", _RULES)), 1
            )
        ]
        try:
            for server in servers:
                server.launch()
            for server in servers:
                server.wait_until_ready()
            return _replicate(console, servers, logs)
        finally:
            with uninterrupted():
                end_servers(servers)


def _replicate(console: Console, servers: Sequence[Server], logs: Path) -> bool:
    source, at_source, at_dumpfilter = servers
    password = secrets.token_urlsafe(12)
    source.sql(*_SCHEMA)
    _write(source, seed=1)
    entry = f"[[replica]]\nuser = {json.dumps(_USER)}\nrules = {json.dumps(_RULES)}\n"
    config = logs / "master.toml"
    config.touch(mode=0o600)
    config.write_text(f"{entry}password = {json.dumps(password)}\n", "utf-8")
    address = f"mysql://{source.replication.user}@127.0.0.1:{source.port}/"
    options = (f"--store={source.data.parent / 'store'}", f"--config={config}")
    master, (_, port, console_port) = start_master(
        address,
        logs / "master.log",
        *options,
        ports=("--port", "--replica-port", "--console-port"),
        DUMPFILTER_SOURCE_PASSWORD=source.replication.password,
    )
    try:
        replicas = [
            _Replica(at_source, "source", source.replication_address),
            _Replica(at_dumpfilter, "dumpfilter", SourceAddress("127.0.0.1", port, _USER, password)),
        ]
        for line in (
            f"$ dumpfilter master {address} --store DIR --config FILE --replica-port {port}",
            "FILE: " + ", ".join(entry.splitlines()) + ", password = …",
            f"MariaDB> CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='{_USER}', "
            "MASTER_PASSWORD='…', MASTER_USE_GTID=slave_pos; START SLAVE",
        ):
            console.print(f"   {line}", soft_wrap=True, markup=False)
        for replica in replicas:
            replica.server.channel().follow(replica.source)
        _write(source, seed=2)
        end_position = source.binlog_gtids()
        for replica in replicas:
            replica.wait_for(end_position)
        held = _print_replicas(console, replicas, source)
        _print_counts(console, console_port)
        _print_rows(console, at_dumpfilter)
        for replica in replicas:
            replica.server.channel().stop()
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
    ((_, kept),) = source.sql("CHECKSUM TABLE shop.orders")
    held = tables[0] == tables[1] == {"shop.orders": str(kept)} and positions[0] == positions[1]
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

"""The last part of the demonstration: a real MariaDB source, and two real replicas with the same filter.

One replica reads from the source. The other one reads from dumpfilter, which receives the source's binlog and filters
for the replica. Both must end with the same tables and GTID position.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from dumpfilter.analyse.report.terminal import table
from dumpfilter.base.errors import DumpfilterError
from dumpfilter.testbed.bed import Testbed
from dumpfilter.testbed.server_nodes import StartedServer
from dumpfilter.testbed.servers import Program
from dumpfilter.testbed.servers.data import TABLE, read_data
from dumpfilter.testbed.starting import up
from dumpfilter.topology import make_topology, master, server

_RULES = ("replicate-do-db=shop",)
_REPLICA = ("relay-log-purge=OFF",)
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


def demonstrate(console: Console, program: Program, output: Path) -> None:
    """Run the servers and dumpfilter, and print how many bytes each replica received.

    ``output`` gets the logs of the servers and of dumpfilter. Raises DumpfilterError, also if the two replicas differ.
    """
    topology = make_topology(
        server("source", program=program.path, init=_SCHEMA, options=("binlog-format=ROW",)),
        server("at-source", reads="source", program=program.path, rules=_RULES, options=_REPLICA),
        master("dumpfilter", "source"),
        server("at-dumpfilter", reads="dumpfilter", program=program.path, rules=_RULES, options=_REPLICA),
        name="demo",
    )
    with up(topology, output / "servers") as bed:
        source, *replicas = (_server(bed, name) for name in ("source", "at-source", "at-dumpfilter"))
        _write(source)
        bed.wait_caught_up(_MOST_SECONDS)
        data = [read_data(replica.server) for replica in replicas]
        gtids = [replica.server.applied_gtids() for replica in replicas]
        _print_replicas(console, replicas, data, gtids)
        _print_rows(console, replicas[1])
        ((_, kept),) = source.execute("CHECKSUM TABLE shop.orders")
        check(data, gtids, str(kept))
    console.print("law: tables, checksums and GTID position are equal")


def _server(bed: Testbed, name: str) -> StartedServer:
    node = bed[name]
    assert isinstance(node, StartedServer)
    return node


def _write(source: StartedServer) -> None:
    """Write rows on the source, most of them into tables that the replicas' filter drops."""
    chance = random.Random(1)
    with source.connect() as connection, connection.cursor() as cursor:
        for number in range(2 * _TRANSACTIONS):
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


def _checksums(data: Mapping[str, str]) -> dict[str, str]:
    """Return the checksum of each table in the data of a server."""
    return {name.removeprefix(TABLE): value for name, value in data.items() if name.startswith(TABLE)}


def check(data: Sequence[Mapping[str, str]], gtids: Sequence[str], kept: str) -> None:
    """Check that both replicas have the same data and GTID position, and that ``shop.orders`` is their only table.

    ``data`` and ``gtids`` are those of the replica that reads the source, and of the one that reads dumpfilter.
    ``kept`` is the checksum of ``shop.orders`` at the source. Raises DumpfilterError.
    """
    if _checksums(data[0]) != {"shop.orders": kept} or data[0] != data[1] or gtids[0] != gtids[1]:
        raise DumpfilterError(
            f"the law does not hold: shop.orders has the checksum {kept} at the source; the replica of the source has "
            f"{data[0]} at {gtids[0]}, and the replica of dumpfilter has {data[1]} at {gtids[1]}"
        )


def _print_replicas(
    console: Console,
    replicas: Sequence[StartedServer],
    data: Sequence[Mapping[str, str]],
    gtids: Sequence[str],
) -> None:
    """Print how many bytes each replica received, and the checksums of its tables."""
    received = [
        sum(path.stat().st_size for path in replica.server.data.glob("relay-bin.[0-9]*"))
        for replica in replicas
    ]
    rows = [
        (
            replica.feeds[0].source.name,
            f"{size:,}",
            f"{100 * (1 - size / received[0]):.1f} %",
            place,
            "\n".join(f"{name}\n{checksum}" for name, checksum in _checksums(tables).items()),
        )
        for replica, size, place, tables in zip(replicas, received, gtids, data, strict=True)
    ]
    heads = ("replica of", "its relay logs", "saved", "gtid_slave_pos", "CHECKSUM TABLE")
    title = f"What two real replicas with --{' --'.join(_RULES)} received"
    console.print(table(heads, rows, title=title, numbers=heads[1:3]))


def _print_rows(console: Console, replica: StartedServer) -> None:
    rows = replica.execute("SELECT id, item, price FROM shop.orders ORDER BY id DESC LIMIT 3")
    ((databases,),) = replica.execute(
        "SELECT GROUP_CONCAT(schema_name) FROM information_schema.schemata WHERE schema_name IN ('shop', 'logs', 'hr')"
    )
    console.print(f"on the replica of dumpfilter: of shop, logs and hr only {databases}; the newest orders:")
    for number, item, price in rows:
        console.print(f"  {number:>6}  {item:<8} {price:>8}")

"""The last part of the demonstration: a real MariaDB source, and two real replicas with the same filter.

One replica reads from the source. The other one reads from dumpfilter, which receives the source's binlog and filters
for the replica. Both must end with the same tables and GTID position.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from dumpfilter.analyse.report.terminal import table
from dumpfilter.base.errors import DumpfilterError
from dumpfilter.testbed.bed import Testbed
from dumpfilter.testbed.own_nodes import Master
from dumpfilter.testbed.server_nodes import StartedServer
from dumpfilter.testbed.servers import Program
from dumpfilter.testbed.servers.data import read_data
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


class ReplicaResult(NamedTuple):
    """The final state of one replica of the demonstration."""

    reads_from: str
    received: int
    """The bytes of all relay logs."""
    gtids: str
    """The GTID position after the last applied transaction."""
    checksums: dict[str, str]
    """The checksum of each table outside the system databases."""


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
        _print_commands(console, bed)
        _write(_server(bed, "source"))
        bed.wait_caught_up(_MOST_SECONDS)
        found = [_result(bed, "source"), _result(bed, "dumpfilter")]
        print_replicas(console, found)
        _print_counts(console, bed)
        _print_rows(console, _server(bed, "at-dumpfilter"))
        ((_, kept),) = _server(bed, "source").execute("CHECKSUM TABLE shop.orders")
    check(found, {"shop.orders": str(kept)})
    console.print("law: tables, checksums and GTID position are equal")


def _server(bed: Testbed, name: str) -> StartedServer:
    node = bed[name]
    assert isinstance(node, StartedServer)
    return node


def _result(bed: Testbed, reads_from: str) -> ReplicaResult:
    replica = _server(bed, f"at-{reads_from}").server
    return ReplicaResult(
        reads_from,
        sum(path.stat().st_size for path in replica.data.glob("relay-bin.[0-9]*")),
        replica.applied_gtids(),
        dict(read_data(replica).tables),
    )


def _print_commands(console: Console, bed: Testbed) -> None:
    """Print the commands and configuration by which a user would set up this topology."""
    source, own = _server(bed, "source"), bed["dumpfilter"]
    assert isinstance(own, Master)
    port = own.replica_port
    user = source.server.replication.user
    rules = json.dumps([f"--{rule}" for rule in _RULES])
    address = f"mysql://{user}@127.0.0.1:{source.port}/"
    for line in (
        f"$ dumpfilter master {address} --store DIR --config FILE --replica-port {port}",
        f'FILE: [[replica]], user = "{user}", rules = {rules}, password = …',
        f"MariaDB> CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='{user}', "
        "MASTER_PASSWORD='…', MASTER_USE_GTID=slave_pos; START SLAVE",
    ):
        console.print(f"   {line}", soft_wrap=True, markup=False)


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


def check(found: list[ReplicaResult], expected: dict[str, str]) -> None:
    """Check that the replicas have the expected tables and checksums, and the same GTID position. Raises
    DumpfilterError.
    """
    broken = [
        f"the replica of {one.reads_from} has {one.checksums or 'no table'} at {one.gtids}, and should have {expected} "
        f"at {found[0].gtids}"
        for one in found
        if (one.checksums, one.gtids) != (expected, found[0].gtids)
    ]
    if broken:
        raise DumpfilterError("the law does not hold: " + "\n".join(broken))


def print_replicas(console: Console, found: list[ReplicaResult]) -> None:
    """Print how many bytes each replica received, and the checksums of its tables."""
    title = f"What two real replicas with --{' --'.join(_RULES)} received"
    rows = [
        (
            one.reads_from,
            f"{one.received:,}",
            f"{100 * (1 - one.received / found[0].received):.1f} %",
            one.gtids,
            "\n".join(f"{name}\n{checksum}" for name, checksum in one.checksums.items()),
        )
        for one in found
    ]
    heads = ("replica of", "its relay logs", "saved", "gtid_slave_pos", "CHECKSUM TABLE")
    console.print(table(heads, rows, title=title, numbers=heads[1:3]))


def _print_counts(console: Console, bed: Testbed) -> None:
    """Print the byte counters that dumpfilter keeps for its replica, from its console."""
    for read, sent, gtid in bed["dumpfilter"].execute(
        "SELECT bytes_read, bytes_sent, bytes_gtid FROM dumpfilter.slaves"
    ):
        console.print(
            f"dumpfilter: {read:,} bytes read, {sent:,} sent, {gtid:,} for the GTIDs of dropped transactions, "
            f"{100 * (1 - (sent + gtid) / read):.1f} % saved",
            soft_wrap=True,
        )


def _print_rows(console: Console, replica: StartedServer) -> None:
    rows = replica.execute("SELECT id, item, price FROM shop.orders ORDER BY id DESC LIMIT 3")
    ((databases,),) = replica.execute(
        "SELECT GROUP_CONCAT(schema_name) FROM information_schema.schemata WHERE schema_name IN ('shop', 'logs', 'hr')"
    )
    console.print(f"on the replica of dumpfilter: of shop, logs and hr only {databases}; the newest orders:")
    for number, item, price in rows:
        console.print(f"  {number:>6}  {item:<8} {price:>8}")

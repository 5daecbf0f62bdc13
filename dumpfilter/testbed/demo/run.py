"""The demonstration of ``dumpfilter demo``: a master and four slaves on recorded binlogs, then real MariaDB servers.

Each part checks the law of dumpfilter at its end. A slave of a filtered stream must have the same data, position and
GTID set as a slave that received everything and filtered itself.

In the last part a real replica reads from dumpfilter, which receives the binlog of a real source and filters for this
replica. The replica must end with the tables and the GTID position of one that reads the source and filters for itself.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from dumpfilter.base.errors import DumpfilterError, OutputError
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.spark_jobs.spark import SparkMissing, check_java
from dumpfilter.testbed.errors import ServerMissing
from dumpfilter.testbed.node import TestbedNode
from dumpfilter.testbed.servers.server import Program, find_program
from dumpfilter.testbed.starting import up
from dumpfilter.testbed.views import status_view
from dumpfilter.topology import make_topology, master, recording, server, slave

SLAVES: Mapping[str, tuple[str, ...]] = {
    "shop": ("replicate-do-db=shop",),
    "quiet": ("replicate-ignore-table=hr.emp", "replicate-wild-ignore-table=logs.%"),
    "store": ("replicate-rewrite-db=shop->store", "replicate-wild-do-table=store.%"),
    "everything": (),
}
"""The filter rules of each slave of the demonstration, by the slave's name. The master sends everything to the last
one.
"""

_RECORDING = Path(__file__).with_name("recording")


_RULES = ("replicate-do-db=shop",)
_ORDERS = 240
_CLICKS = 36
_MOST_SECONDS = 120.0
"""The time limit for the check of the real replica, seconds."""

_SCHEMA = (
    # The filter of a statement's database asks for the current one.
    "CREATE DATABASE shop",
    "USE shop",
    "CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, item VARCHAR(40))",
    "CREATE DATABASE logs",
    "USE logs",
    "CREATE TABLE clicks (id BIGINT AUTO_INCREMENT PRIMARY KEY, page VARCHAR(200), at DATETIME(6))",
)


def run_demo(binlogs: Path | None, output: Path, *, split: bool, servers: bool) -> None:
    """Run the demonstration on a binlog set, and print the bytes that the master's filters saved.

    Without ``binlogs`` the demonstration uses its own recording. ``output`` is the directory for the results, which
    replace those of an earlier demonstration. With ``split`` two jobs follow: the split of the binlog by schema, and
    the bandwidth report. They run on Spark if it is installed. With ``servers`` the demonstration ends with real
    MariaDB servers, if MariaDB is installed.

    Raises OutputError if ``binlogs`` does not exist. Raises DumpfilterError when a process fails, for example because
    other files are in its output directory. Raises LawBroken when a slave ends in another state than a slave that reads
    everything and filters for itself.
    """
    console = Console(highlight=False)
    source = binlogs or _RECORDING
    if not source.exists():
        raise OutputError(f"{source}: no such recording; name a binlog set: dumpfilter demo BINLOG_INDEX")
    output.mkdir(parents=True, exist_ok=True)
    sent = _replicate(console, source)
    if split:
        engine = _engine()
        console.print(f"[bold]3.[/] the binlog is split by schema, with {engine}")
        run("split", str(source), "--output", str(output / "split"), "--overwrite", engine)
        console.print("[bold]4.[/] what the slaves are sent, worked out from the binlog alone")
        _work_out(source, output, sent, engine)
        console.print("worked out: to the byte what the master sent to each slave above")
    if servers:
        step = f"[bold]{5 if split else 3}.[/]"
        try:
            program = find_program("mariadb")
        except ServerMissing as missing:
            console.print(f"{step} real servers: left out, {missing}", soft_wrap=True)
            return
        console.print(f"{step} {program.title}: a source, and a replica with a filter")
        demonstrate(console, program, output)


def _replicate(console: Console, source: Path) -> dict[str, int]:
    """Run a master on the binlog set ``source``, with slaves, until all have applied everything. Print what the slaves
    were sent.

    Return a dictionary from each slave's name to the bytes of events that the master sent to it. Raises LawBroken for a
    slave with other data than one that reads everything and filters for itself.
    """
    files = BinlogSet.open(source)
    size = sum(files.path(name).stat().st_size for name in files.names)
    console.print(f"[bold]1.[/] a master on {len(files.names)} binlog files, {size:,} bytes ({source.name})")
    topology = make_topology(
        recording("binlogs", source, speed=None),
        master("master", "binlogs"),
        *(slave(name, "master", rules=rules) for name, rules in SLAVES.items()),
        name="demo",
    )
    with up(topology) as bed:
        address = f"127.0.0.1:{bed['master'].status().ports['grpc']}"
        console.print(
            f"[bold]2.[/] {len(SLAVES)} slaves register over gRPC at {address} and read their binlog"
        )
        bed.wait_caught_up()
        status = bed.status()
        # The filters stand above the tables, so that these have room on a terminal of 80 columns.
        for name, rules in SLAVES.items():
            shown = " ".join(f"--{rule}" for rule in rules)
            console.print(f"  {name}: {shown or '(none: receives everything)'}", soft_wrap=True)
        console.print(status_view(status.as_dict()))
        bed.check()
    console.print(
        "law: the rows by table, the digests of their images, the statements by database, the position and the GTID "
        "set equal those of a slave that reads everything and filters for itself."
    )
    return {name: status.nodes[name].channels[0].bytes_received or 0 for name in SLAVES}


def _engine() -> str:
    """Return the command line option that selects what runs the tasks of ``dumpfilter split`` and ``dumpfilter
    bandwidth``: Spark or, on a machine without PySpark and its Java, threads.
    """
    with contextlib.suppress(SparkMissing):
        check_java()
        if importlib.util.find_spec("pyspark") is not None:
            return "--engine=spark"
    return "--engine=local"


def _work_out(source: Path, output: Path, sent: Mapping[str, int], engine: str) -> None:
    """Run the bandwidth job, which computes from the binlog set ``source`` alone how many bytes a master sends to each
    slave, and check its result.

    ``sent`` maps a slave's name to the bytes that a master has just sent to it. ``engine`` is the option ``--engine``,
    and ``output`` is the directory for the job's report. Raises DumpfilterError when the computed bytes differ from
    ``sent``.
    """
    report = output / "bandwidth"
    slaves = [f"--slave={name}:{' '.join(f'--{rule}' for rule in rules)}" for name, rules in SLAVES.items()]
    run("bandwidth", str(source), *slaves, "--output", str(report), "--overwrite", engine)
    figures = json.loads((report / "results.json").read_text("utf-8"))
    computed = {one["name"]: one["master_side"]["bytes"] for one in figures["slaves"]}
    for name, nbytes in sent.items():
        if computed[name] != nbytes:
            raise DumpfilterError(
                f"slave {name}: the bandwidth job says {computed[name]} bytes, the master sent {nbytes}"
            )


def run(*arguments: str) -> None:
    """Run a ``dumpfilter`` command in a new process, with the command line arguments ``arguments``, and wait for its
    end. Raises DumpfilterError when the command fails.
    """
    done = subprocess.run([sys.executable, "-m", "dumpfilter", *arguments], check=False)
    if done.returncode:
        raise DumpfilterError(f"dumpfilter {' '.join(arguments)}: exit code {done.returncode}")


def demonstrate(console: Console, program: Program, output: Path) -> None:
    """Run a MariaDB source, and a replica that reads the source through dumpfilter. Print how many bytes the replica
    received, and which databases and rows the replica has.

    ``program`` is the server's program. ``output`` gets the logs of the servers and of dumpfilter. Raises
    DumpfilterError if a process fails, and also if the replica's data differ from those of a replica that reads the
    source.
    """
    topology = make_topology(
        server("source", program=program.path, init=_SCHEMA, options=("binlog-format=ROW",)),
        master("dumpfilter", "source"),
        server("replica", reads="dumpfilter", program=program.path, rules=_RULES),
        name="demo",
    )
    with up(topology, output / "servers") as bed:
        _write(bed["source"])
        bed.check(_MOST_SECONDS)
        console.print(status_view(bed.status().as_dict()))
        databases = bed["replica"].execute("SHOW DATABASES WHERE `Database` IN ('shop', 'logs')")
        ((orders,),) = bed["replica"].execute("SELECT COUNT(*) FROM shop.orders")
        had = ", ".join(name for (name,) in databases)
        console.print(f"on the replica of dumpfilter: of shop and logs only {had}, with {orders} orders")
    console.print(
        "law: tables, checksums and GTID position equal those of a replica that reads the source and filters itself."
    )


def _write(source: TestbedNode) -> None:
    """Write rows on the source, most of them into tables that the replica's filter drops."""
    with source.connect() as connection, connection.cursor() as cursor:
        for number in range(_ORDERS):
            cursor.execute("INSERT INTO shop.orders (item) VALUES (%s)", (f"item {number}",))
            clicks = [(f"/shop/{number}?visit={number:016x}",)] * _CLICKS
            cursor.executemany("INSERT INTO logs.clicks (page, at) VALUES (%s, NOW(6))", clicks)

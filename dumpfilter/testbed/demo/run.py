"""The demonstration of ``dumpfilter demo``: a master and four slaves on recorded binlogs, then real MariaDB servers.

Each part checks the law of dumpfilter at its end. A slave of a filtered stream must have the same data, position and
GTID set as a slave that received everything and filtered itself.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from dumpfilter.analyse.report.terminal import table
from dumpfilter.base.endings import ending_at_signals
from dumpfilter.base.errors import DumpfilterError, OutputError, ServerMissing
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.spark_jobs.spark.context import SparkMissing, check_java
from dumpfilter.testbed.demo.real_servers import demonstrate
from dumpfilter.testbed.servers import find_program
from dumpfilter.testbed.starting import up
from dumpfilter.testbed.values import ChannelState
from dumpfilter.topology import make_topology, master, recording, slave

SLAVES: Mapping[str, tuple[str, ...]] = {
    "shop": ("replicate-do-db=shop",),
    "quiet": ("replicate-ignore-table=hr.emp", "replicate-wild-ignore-table=logs.%"),
    "store": ("replicate-rewrite-db=shop->store", "replicate-wild-do-table=store.%"),
    "everything": (),
}
"""The rules of each slave. The master sends everything to the last one."""

_RECORDING = Path(__file__).with_name("recording")
_MARKER = "dumpfilter-demo"


def run_demo(binlogs: Path | None, output: Path, *, split: bool, servers: bool) -> None:
    """Run the demonstration on a binlog set, and print the bytes that the master's filters saved.

    Without ``binlogs`` the demonstration uses its own recording. With ``split`` Spark jobs follow. With ``servers`` the
    demonstration ends with real MariaDB servers, if MariaDB is installed. Raises DumpfilterError when a process fails,
    or when a filtered slave ends in another state than a slave that reads everything and filters for itself.
    """
    with ending_at_signals():
        console = Console(highlight=False)
        source = binlogs or _RECORDING
        if not source.exists():
            raise OutputError(f"{source}: no such recording; name a binlog set: dumpfilter demo BINLOG_INDEX")
        _make_room(output)
        sent = _replicate(console, source)
        if split:
            engine, where = _engine()
            console.print(f"[bold]3.[/] the binlog is split by schema, on {where}", soft_wrap=True)
            run("split", str(source), "--output", str(output / "split"), "--engine", engine)
            console.print(
                f"[bold]4.[/] what the slaves are sent, worked out from the binlog alone, on {where}",
                soft_wrap=True,
            )
            _work_out(source, output, sent, engine)
            console.print("worked out: to the byte what the master sent to each slave above")
        if servers:
            _with_servers(console, output, step=5 if split else 3)


def _replicate(console: Console, source: Path) -> dict[str, int]:
    """Run a master on a binlog set, with slaves, until all have applied everything, and print what they were sent.

    Returns the bytes of events that the master sent to each slave. Raises LawBroken for a slave with other data.
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
        nodes = bed.status().nodes
        channels = {name: nodes[name].channels[0] for name in SLAVES}
        print_channels(console, channels)
        bed.check()
    console.print(
        "law: the rows by table, the digests of their images, the statements by database, the position and the GTID "
        "set equal those of a slave that reads everything and filters for itself."
    )
    return {name: channel.bytes_received or 0 for name, channel in channels.items()}


def print_channels(console: Console, channels: Mapping[str, ChannelState]) -> None:
    """Print how many bytes the master's filter saved each slave of the demonstration."""
    # The filters stand above the table, so that the table has room on a terminal of 80 columns.
    for name, rules in SLAVES.items():
        shown = " ".join(f"--{rule}" for rule in rules)
        console.print(f"  {name}: {shown or '(none: receives everything)'}", soft_wrap=True)
    heads, rows = ("slave", "read", "sent", "saved", "position"), []
    for name, channel in channels.items():
        sent, dropped = channel.bytes_received or 0, channel.bytes_dropped or 0
        read = sent + dropped
        share = f"{100 * dropped / max(read, 1):.1f} %"
        rows.append((name, f"{read:,}", f"{sent:,}", share, str(channel.applied)))
    console.print(table(heads, rows, title="What the master's filter saved", numbers=heads[1:4]))
    gtids = {channel.gtids for channel in channels.values()}
    console.print(f"GTID set of every slave: {' / '.join(sorted(gtids)) or 'none'}", soft_wrap=True)


def _with_servers(console: Console, output: Path, *, step: int) -> None:
    """Run the part with real servers. Without MariaDB, print what to install."""
    try:
        program = find_program("mariadb")
    except ServerMissing as missing:
        console.print(f"[bold]{step}.[/] real servers: left out, {missing}", soft_wrap=True)
        return
    console.print(f"[bold]{step}.[/] {program.title}: a source, and two replicas with the same filter")
    demonstrate(console, program, output)


def _engine() -> tuple[str, str]:
    """Return the engine of the split and of the bandwidth report, and a description of it."""
    try:
        check_java()
    except SparkMissing:
        return "local", "threads of this machine, since there is no Java for Spark"
    if importlib.util.find_spec("pyspark") is None:
        return "local", "threads of this machine, since PySpark is not installed"
    return "spark", "Spark"


def _make_room(output: Path) -> None:
    """Make the output directory empty. Raises OutputError for files that no earlier demonstration wrote."""
    if output.exists() and any(output.iterdir()):
        if not (output / _MARKER).exists():
            raise OutputError(f"{output}: not empty, and not made by an earlier demo; name another --output")
        shutil.rmtree(output)
    output.mkdir(parents=True, exist_ok=True)
    (output / _MARKER).touch()


def _work_out(source: Path, output: Path, sent: Mapping[str, int], engine: str) -> None:
    """Run the bandwidth job, which computes from the binlog alone how many bytes a master sends to each slave.

    Raises DumpfilterError when the computed bytes differ from the bytes that the master has just sent.
    """
    report = output / "bandwidth"
    slaves = [f"--slave={name}:{' '.join(f'--{rule}' for rule in rules)}" for name, rules in SLAVES.items()]
    run("bandwidth", str(source), *slaves, "--output", str(report), "--engine", engine)
    figures = json.loads((report / "results.json").read_text("utf-8"))
    computed = {one["name"]: one["master_side"]["bytes"] for one in figures["slaves"]}
    for name, nbytes in sent.items():
        if computed[name] != nbytes:
            raise DumpfilterError(
                f"slave {name}: the bandwidth job says {computed[name]} bytes, the master sent {nbytes}"
            )


def run(*arguments: str) -> None:
    """Run a ``dumpfilter`` command to its end. Raises DumpfilterError when it fails."""
    done = subprocess.run([sys.executable, "-m", "dumpfilter", *arguments], check=False)
    if done.returncode:
        raise DumpfilterError(f"dumpfilter {' '.join(arguments)}: exit code {done.returncode}")

"""The demonstration of ``dumpfilter demo``: a master and four slaves on recorded binlogs, then real MariaDB servers.

At the end the demonstration checks the law of dumpfilter. A slave of a filtered stream must have the same data,
position and GTID set as a slave that received everything and filtered itself.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from dumpfilter.base.endings import ending_at_signals
from dumpfilter.base.errors import DumpfilterError, OutputError, ServerMissing
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.spark_jobs.spark.context import SparkMissing, check_java
from dumpfilter.testbed.demo.real_servers import demonstrate
from dumpfilter.testbed.demo.recorded import SLAVES, SlaveResult, print_results, replicated, results
from dumpfilter.testbed.servers import find_program

_RECORDING = Path(__file__).with_name("recording")
_MARKER = "dumpfilter-demo"


def run_demo(binlogs: Path | None, output: Path, *, split: bool, servers: bool) -> None:
    """Run the demonstration on a binlog set, and print the bytes that the master's filters saved.

    Without ``binlogs`` the demonstration uses its own recording. With ``split`` Spark jobs follow. With ``servers`` the
    demonstration ends with real MariaDB servers, if MariaDB is installed. Raises DumpfilterError when a process fails,
    or when a filtered slave ends in another state than a slave that reads everything and filters for itself.
    """
    with ending_at_signals():
        _run_demo(binlogs, output, split=split, servers=servers)


def _run_demo(binlogs: Path | None, output: Path, *, split: bool, servers: bool) -> None:
    console = Console(highlight=False)
    source = binlogs or _RECORDING
    if not source.exists():
        raise OutputError(f"{source}: no such recording; name a binlog set: dumpfilter demo BINLOG_INDEX")
    _make_room(output)
    files = BinlogSet.open(source)
    console.print(
        f"[bold]1.[/] a master on {len(files.names)} binlog files, {_size(files):,} bytes ({source.name})"
    )
    with replicated(source) as bed:
        address = f"127.0.0.1:{bed['master'].slave_port}"
        console.print(
            f"[bold]2.[/] {len(SLAVES)} slaves register over gRPC at {address} and read their binlog"
        )
        found = results(bed)
    print_results(console, found)
    if split:
        engine, where = _engine()
        console.print(f"[bold]3.[/] the binlog is split by schema, on {where}", soft_wrap=True)
        run("split", str(source), "--output", str(output / "split"), "--engine", engine)
        console.print(
            f"[bold]4.[/] what the slaves are sent, worked out from the binlog alone, on {where}",
            soft_wrap=True,
        )
        _work_out(console, source, output, found, engine)
    if servers:
        _with_servers(console, output, step=5 if split else 3)


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


def _size(files: BinlogSet) -> int:
    return sum(files.path(name).stat().st_size for name in files.names)


def _work_out(console: Console, source: Path, output: Path, sent: list[SlaveResult], engine: str) -> None:
    """Run the bandwidth job, which computes from the binlog alone how many bytes a master sends to each slave.

    Raises DumpfilterError when the computed bytes differ from the bytes that the master has just sent.
    """
    slaves = output / "slaves.toml"
    slaves.write_text(
        "".join(
            f"[[slave]]\nname = {json.dumps(name)}\nrules = {json.dumps(rules)}\n\n"
            for name, rules in SLAVES.items()
        ),
        "utf-8",
    )
    run(
        "bandwidth",
        str(source),
        "--slaves",
        str(slaves),
        "--output",
        str(output / "bandwidth"),
        "--engine",
        engine,
    )
    figures = json.loads((output / "bandwidth" / "results.json").read_text("utf-8"))
    computed = {one["name"]: one["master_side"]["bytes"] for one in figures["slaves"]}
    for one in sent:
        if computed[one.name] != one.sent:
            raise DumpfilterError(
                f"slave {one.name}: the bandwidth job says {computed[one.name]} bytes, the master sent {one.sent}"
            )
    console.print("worked out: to the byte what the master sent to each slave above")


def run(*arguments: str) -> None:
    """Run a ``dumpfilter`` command to its end. Raises DumpfilterError when it fails."""
    done = subprocess.run([sys.executable, "-m", "dumpfilter", *arguments], check=False)
    if done.returncode:
        raise DumpfilterError(f"dumpfilter {' '.join(arguments)}: exit code {done.returncode}")

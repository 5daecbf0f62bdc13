"""The demonstration of ``dumpfilter demo``: a master and four slaves on recorded binlogs, then real MariaDB servers.

At the end the demonstration checks the law of dumpfilter. A slave of a filtered stream must have the same data,
position and GTID set as a slave that received everything and filtered for itself.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from dumpfilter.binlog.format import FormatDescription
from dumpfilter.demo.processes import START_TIMEOUT, command, end, ending_at_signals, run, start_master
from dumpfilter.demo.real_servers import demonstrate
from dumpfilter.errors import DumpfilterError, OutputError, ServerMissing
from dumpfilter.filter import Filter
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.servers import find_program
from dumpfilter.spark_jobs.spark.context import SparkMissing, check_java
from dumpfilter.warm_up import warm_up

_RECORDING = Path(__file__).with_name("recording")
_MARKER = "dumpfilter-demo"


@dataclass(frozen=True)
class DemoSlave:
    """One slave of the demonstration, with its filter options.

    ``receives_everything``: the master sends all events to this slave, which the others are compared with.
    """

    name: str
    server_id: int
    options: tuple[str, ...]
    receives_everything: bool = False


SLAVES = (
    DemoSlave("shop", 101, ("--replicate-do-db=shop",)),
    DemoSlave("quiet", 102, ("--replicate-ignore-table=hr.emp", "--replicate-wild-ignore-table=logs.%")),
    DemoSlave("store", 103, ("--replicate-rewrite-db=shop->store", "--replicate-wild-do-table=store.%")),
    DemoSlave("everything", 104, (), receives_everything=True),
)


def run_demo(binlogs: Path | None, output: Path, *, split: bool, servers: bool) -> None:
    """Run the demonstration on a binlog set, and print the bytes that the master's filters saved.

    Without ``binlogs`` the demonstration uses its own recording. With ``split`` Spark jobs follow. With ``servers`` the
    demonstration ends with real MariaDB servers, if MariaDB is installed. Raises DumpfilterError when a process fails,
    or when a filtered slave ends in another state than an unfiltered one.
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
    _compile(output)
    master, (port,) = start_master(str(source), output / "master.log", ports=("--port",))
    address = f"127.0.0.1:{port}"
    try:
        console.print(
            f"[bold]2.[/] {len(SLAVES)} slaves register over gRPC at {address} and read their binlog"
        )
        reports = _run_slaves(address, output)
    finally:
        end(master)
    held = _print_slaves(console, reports, output, files)
    if split:
        engine, where = _engine()
        console.print(f"[bold]3.[/] the binlog is split by schema, on {where}", soft_wrap=True)
        run("split", str(source), "--output", str(output / "split"), "--engine", engine)
        console.print(
            f"[bold]4.[/] what the slaves are sent, worked out from the binlog alone, on {where}",
            soft_wrap=True,
        )
        _work_out(console, source, output, reports, engine)
    if servers:
        held &= _with_servers(console, output, step=5 if split else 3)
    if not held:
        raise DumpfilterError("the law does not hold: see the table above")


def _compile(output: Path) -> None:
    """Compile the kernels in this process, which tells it. The output of the processes that follow is hidden."""
    with tempfile.TemporaryDirectory(dir=output) as directory:
        warm_up(Path(directory))


def _with_servers(console: Console, output: Path, *, step: int) -> bool:
    """Run the part with real servers, and tell whether the law holds. Without MariaDB a sentence says what to do."""
    try:
        program = find_program("mariadb")
    except ServerMissing as missing:
        console.print(f"[bold]{step}.[/] real servers: left out, {missing}", soft_wrap=True)
        return True
    console.print(f"[bold]{step}.[/] {program.title}: a source, and two replicas with the same filter")
    return demonstrate(console, program, output)


def _engine() -> tuple[str, str]:
    """Return the engine of the split and of the bandwidth report, and its name in words."""
    try:
        check_java()
    except SparkMissing:
        return "local", "threads of this machine, since there is no Java for Spark"
    if importlib.util.find_spec("pyspark") is None:
        return "local", "threads of this machine, since PySpark is not installed"
    return "spark", "Spark"


def _make_room(output: Path) -> None:
    """Make an empty output directory. Raises OutputError for files that no earlier demonstration wrote."""
    if output.exists() and any(output.iterdir()):
        if not (output / _MARKER).exists():
            raise OutputError(f"{output}: not empty, and not made by an earlier demo; name another --output")
        shutil.rmtree(output)
    output.mkdir(parents=True, exist_ok=True)
    (output / _MARKER).touch()


def _size(files: BinlogSet) -> int:
    return sum(files.path(name).stat().st_size for name in files.names)


def _run_slaves(address: str, output: Path) -> dict[str, dict[str, Any]]:
    running = []
    try:
        for slave in SLAVES:
            directory = output / slave.name
            arguments = [
                "slave",
                f"--master={address}",
                f"--relay-dir={directory}",
                f"--server-id={slave.server_id}",
                "--once",
                "--summary=json",
                f"--summary-file={output / slave.name}.json",
                *slave.options,
            ]
            if slave.receives_everything:
                arguments.append("--filter-on=slave")
            running.append((slave, subprocess.Popen(command(*arguments), stderr=subprocess.PIPE)))
        for slave, process in running:
            _, errors = process.communicate(timeout=START_TIMEOUT)
            if process.returncode:
                raise DumpfilterError(f"slave {slave.name}: {errors.decode(errors='replace').strip()}")
    finally:
        for _, process in running:
            end(process)
    return {slave.name: json.loads((output / f"{slave.name}.json").read_text()) for slave in SLAVES}


def _work_out(
    console: Console, source: Path, output: Path, reports: dict[str, dict[str, Any]], engine: str
) -> None:
    """Run the bandwidth job, which computes from the binlog alone how many bytes a master sends to each slave.

    Raises DumpfilterError when the job's figures differ from the bytes that the master has just sent.
    """
    slaves = output / "slaves.toml"
    slaves.write_text(
        "".join(
            f"[[slave]]\nname = {json.dumps(slave.name)}\nserver_id = {slave.server_id}\n"
            f"rules = {json.dumps(slave.options)}\n\n"
            for slave in SLAVES
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
    results = json.loads((output / "bandwidth" / "results.json").read_text("utf-8"))
    for found in results["slaves"]:
        sent = reports[found["name"]]["counts"]["bytes_sent"]
        if found["master_side"]["bytes"] != sent:
            raise DumpfilterError(
                f"slave {found['name']}: the bandwidth job says {found['master_side']['bytes']} bytes, "
                f"the master sent {sent}"
            )
    console.print("worked out: to the byte what the master sent to each slave above")


def _print_slaves(
    console: Console, reports: dict[str, dict[str, Any]], output: Path, files: BinlogSet
) -> bool:
    # The filters stand above the table, so that the table has room on a terminal of 80 columns.
    for slave in SLAVES:
        console.print(
            f"  {slave.name}: {' '.join(slave.options) or '(none: receives everything)'}", soft_wrap=True
        )
    table = Table(title="What the master's filter saved", title_justify="left", title_style="bold")
    table.add_column("slave", no_wrap=True)
    for name in ("read", "sent", "saved"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("position", no_wrap=True)
    table.add_column("law", no_wrap=True)
    everything = reports["everything"]
    relay_logs = sorted((output / "everything").glob("relay-bin.[0-9]*"))
    description = _format_description(files)
    held = True
    for slave in SLAVES:
        report = reports[slave.name]
        counts = report["counts"]
        saved = 1 - counts["bytes_sent"] / max(counts["bytes_read"], 1)
        holds = (
            report["summary"] == _summary_with(slave, relay_logs, description)
            and report["position"] == everything["position"]
            and report["gtid_set"] == everything["gtid_set"]
        )
        held &= holds
        table.add_row(
            slave.name,
            f"{counts['bytes_read']:,}",
            f"{counts['bytes_sent']:,}",
            f"{100 * saved:.1f} %",
            f"{report['position']['file']}:{report['position']['position']}",
            "[green]holds[/]" if holds else "[red]broken[/]",
        )
    console.print(table)
    console.print(f"GTID set of every slave: {everything['gtid_set'] or 'none'}", soft_wrap=True)
    console.print(
        "law: the summary (rows by table, digests of their images, statements by database), position and GTID set "
        "equal those of the slave that received everything, with this slave's filter over its relay log."
    )
    return held


def _format_description(files: BinlogSet) -> FormatDescription:
    with files.file(files.names[-1]) as newest:
        return newest.format_description


def _summary_with(slave: DemoSlave, relay_logs: list[Path], description: FormatDescription) -> dict[str, Any]:
    """Return the summary that a slave has after it filters the unfiltered relay log by itself.

    The summary counts and digests the applied rows and statements, so that slaves can be compared.
    """
    from dumpfilter.slave.targets import SummaryTarget
    from dumpfilter.slave.threads.applier import apply_files

    target = SummaryTarget()
    own = Filter.from_options(list(slave.options), names=description.names)
    apply_files(relay_logs, own, target)
    return target.state()

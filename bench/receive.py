"""Receiving a real server's binlog: ``dumpfilter fetch`` beside ``mysqlbinlog --raw`` of the server's own package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

from bench._common import OUT, REPOSITORY, Options, Report, binlogs, has_mysql
from bench._servers import Peer, copied
from dumpfilter.binlog.events import FLAGS_OFFSET, LOG_EVENT_BINLOG_IN_USE_F
from dumpfilter.binlog.workload.generate import GeneratedSet, Style

_FETCHED = OUT / "fetched"


def _run(command: Sequence[str], used: list[float]) -> float:
    """Run a program to its end. Note its processor time, and return its wall time, seconds."""
    shutil.rmtree(_FETCHED, ignore_errors=True)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    start = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise SystemExit(f"{command[0]}: {said.decode()}")
    used.append(usage.ru_utime + usage.ru_stime)
    return seconds


def _fetch(peer: Peer, made: GeneratedSet, options: str, *more: str) -> list[str]:
    """Return the command that fetches the generated files into a new directory."""
    server = peer.server
    where = f"{server.replication.user}@{server.host}:{server.port}"
    secret = server.replication_password_file
    address = f"mysql://{where}/?password-file={secret}&to={made.files[-1].name}{options}"
    return [sys.executable, "-m", "dumpfilter", "fetch", address, "--output", str(_FETCHED), *more]


def _check(made: GeneratedSet, directory: Path) -> None:
    for path in made.files:
        # The last generated file ends like that of a crashed server, and a crashed MariaDB leaves the flag in its file.
        ours, theirs = (bytearray(each.read_bytes()) for each in (directory / path.name, path))
        ours[FLAGS_OFFSET] &= ~LOG_EVENT_BINLOG_IN_USE_F
        if ours != theirs:
            raise SystemExit(f"{directory / path.name} differs from {path}")


def _measure(report: Report, options: Options, style: Style) -> None:
    made = binlogs(options.size, style=style)
    report.nbytes = made.bytes
    with copied(made, style) as peer:
        plain = "&tls=disabled&get-source-public-key=yes"
        peers, ours = f"{style}: {peer.name}", f"{style}: fetch --sync none"
        commands = {
            peers: [*peer.command, *peer.files],
            ours: _fetch(peer, made, plain, "--sync", "none"),
            f"{style}: fetch": _fetch(peer, made, plain),
        }
        if style == "mysql":
            commands[f"{style}: fetch with TLS"] = _fetch(peer, made, "&tls=required", "--sync", "none")
        used: dict[str, list[float]] = {name: [] for name in commands}
        cases = {name: partial(_run, command, used[name]) for name, command in commands.items()}
        report.measure(cases, options.runs)
        _check(made, _FETCHED)
    for name, seconds in used.items():
        report.row(f"{name}, CPU", median(seconds[1:]), f"{median(seconds[1:]) * 1e3:9.1f} ms of CPU time")
    report.ratio(f"{ours} / {peer.name}, wall time", ours, peers, 1.0, at_most=True)
    report.ratio(f"{ours} / {peer.name}, CPU", f"{ours}, CPU", f"{peers}, CPU", 1.0, at_most=True)


def run(report: Report, options: Options) -> None:
    report.nbytes = options.size
    families: list[Style] = ["mysql", "mariadb"] if has_mysql() else ["mariadb"]
    for style in families:
        if options.family in (None, style):
            _measure(report, options, style)
    shutil.rmtree(_FETCHED, ignore_errors=True)
    report.note("the times are those of whole processes, with the start of the program")

"""Receiving a real server's binlog: ``dumpfilter fetch`` beside ``mysqlbinlog --raw`` of the server's own package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from bench._common import OUT, REPOSITORY, Options, Report, binlogs, has_mysql, interleaved, timed, warm
from bench._servers import Peer, copied
from dumpfilter.binlog.events import LOG_EVENT_BINLOG_IN_USE_F
from dumpfilter.binlog.workload.generate import GeneratedSet, Style
from dumpfilter.index.fileset import FLAGS_OFFSET

_FETCHED = OUT / "fetched"


def _run(command: Sequence[str]) -> tuple[float, float]:
    """Run a program to its end, and return its wall time and its CPU time, seconds."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    spent = [0.0]

    def work() -> None:
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if status:
            raise SystemExit(f"{command[0]}: {said.decode()}")
        spent[0] = usage.ru_utime + usage.ru_stime

    return timed(work), spent[0]


def _fetch(peer: Peer, made: GeneratedSet, options: str = "", *more: str) -> tuple[float, float]:
    """Fetch the generated files into a new directory, and return the wall time and the CPU time, seconds."""
    shutil.rmtree(_FETCHED, ignore_errors=True)
    server = peer.server
    secret = server.directory / "password"
    secret.touch(0o600)
    secret.write_text(server.account.password)
    where = f"{server.account.user}@{server.host}:{server.port}"
    address = f"mysql://{where}/?password-file={secret}&to={made.files[-1].name}{options}"
    return _run([sys.executable, "-m", "dumpfilter", "fetch", address, "--output", str(_FETCHED), *more])


def _check(made: GeneratedSet, directory: Path) -> None:
    for path in made.files:
        # The last generated file ends like that of a crashed server, and a crashed MariaDB leaves the flag in its file.
        ours, theirs = (bytearray(each.read_bytes()) for each in (directory / path.name, path))
        ours[FLAGS_OFFSET] &= ~LOG_EVENT_BINLOG_IN_USE_F
        if ours != theirs:
            raise SystemExit(f"{directory / path.name} differs from {path}")


def _measure(report: Report, options: Options, style: Style) -> None:
    made = binlogs(options.size, style=style)
    warm(made)
    with copied(made, style) as peer:
        cpu: dict[str, list[float]] = {}

        def case(name: str, work: Callable[[], tuple[float, float]]) -> Callable[[], float]:
            def one() -> float:
                seconds, spent = work()
                cpu.setdefault(name, []).append(spent)
                return seconds

            return one

        plain = "&tls=disabled&get-source-public-key=yes"
        cases = {
            f"{style}: {peer.name}": lambda: _run([*peer.command, *peer.files]),
            f"{style}: fetch --sync none": lambda: _fetch(peer, made, plain, "--sync", "none"),
            f"{style}: fetch": lambda: _fetch(peer, made, plain),
        }
        if style == "mysql":
            cases[f"{style}: fetch with TLS"] = lambda: _fetch(peer, made, "&tls=required", "--sync", "none")
        found = interleaved({name: case(name, work) for name, work in cases.items()}, options.runs)
        _check(made, _FETCHED)
    wall = report.times(found, nbytes=made.bytes)
    used = {name: median(values[1:]) for name, values in cpu.items()}
    for name, seconds in used.items():
        report.row(f"{name}, CPU", seconds, f"{seconds * 1e3:9.1f} ms of CPU time")
    peers, ours = f"{style}: {peer.name}", f"{style}: fetch --sync none"
    report.target(f"{ours} / {peer.name}, wall time", wall[ours] / wall[peers], 1.0, at_most=True)
    report.target(f"{ours} / {peer.name}, CPU", used[ours] / used[peers], 1.0, at_most=True)


def run(options: Options) -> bool:
    report = Report("receive", "a server's binlog is received as fast as its own program does", options.size)
    families: list[Style] = ["mysql", "mariadb"] if has_mysql() else ["mariadb"]
    for style in families:
        if options.family in (None, style):
            _measure(report, options, style)
    shutil.rmtree(_FETCHED, ignore_errors=True)
    report.note("the times are those of whole processes, with the start of the program")
    return report.print()

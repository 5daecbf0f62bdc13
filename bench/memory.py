"""Memory of master and slave while they dump 64 MB to 2 GB of binlog."""

from __future__ import annotations

import shutil

from bench._child import Child, master
from bench._common import OUT, Options, Report, binlogs
from bench._process import peak_rss
from bench._relay_slave import receiving

SIZES = (64 << 20, 512 << 20, 2 << 30)
_CACHE = 8
"""The size of the master's index cache, MiB. It is so small that the smallest binlog fills it."""

_DEFAULT_CACHE = 32
"""The default of --cache-size, MiB."""


def run(report: Report, options: Options) -> None:
    directory = OUT / "relay"
    report.nbytes = SIZES[-1]
    peaks: dict[str, list[int]] = {}
    for size in SIZES:
        made = binlogs(size)
        for case, cache in (("", _CACHE), (f", cache of {_DEFAULT_CACHE} MiB", _DEFAULT_CACHE)):
            with master(made.index, "--cache-size", str(cache)) as server, Child(receiving) as slave:
                *_, of_slave = slave.ask(server.address, str(directory))
                for part, rss in (("master", peak_rss(server.pid)), ("slave", of_slave)):
                    peaks.setdefault(part + case, []).append(rss)
                    report.row(f"{part}, {size >> 20} MiB{case}", rss / 2**20, "{:8.1f} MiB")
            shutil.rmtree(directory, ignore_errors=True)
    for part in ("master", "slave"):
        report.limit(f"{part}: most / 64 MiB's", max(peaks[part]) / peaks[part][0], 1.2)
    report.note(
        f"peaks (VmHWM) of processes that dump everything once. For the target, --cache-size is {_CACHE} MiB, not "
        f"{_DEFAULT_CACHE}, so that the smallest binlog fills the index cache, too."
    )

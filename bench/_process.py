"""The resources that a process uses, from /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class Usage(NamedTuple):
    """The resources of a process at one time."""

    cpu: float
    """The processor time since the process began, seconds."""
    rss: int
    """The resident memory, bytes."""
    threads: int
    sockets: int
    """The number of open sockets."""
    files: int
    """The number of other open descriptors."""


def usage(pid: int) -> Usage:
    """Return the resources that a process uses now."""
    root = Path(f"/proc/{pid}")
    fields = (root / "stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    status = dict(line.split(":", 1) for line in (root / "status").read_text().splitlines() if ":" in line)
    targets = [_target(link) for link in (root / "fd").iterdir()]
    sockets = sum(target.startswith("socket:") for target in targets)
    return Usage(
        cpu=ticks / os.sysconf("SC_CLK_TCK"),
        rss=int(status["VmRSS"].split()[0]) << 10,
        threads=int(status["Threads"]),
        sockets=sockets,
        files=len(targets) - sockets,
    )


def processor_time(pid: int) -> float:
    """Return the processor time of a process and of all its descendants since they began, seconds.

    Descendants that have ended count if their parents have waited for them.
    """
    children: dict[int, list[int]] = {}
    times: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        one = int(path.parent.name)
        children.setdefault(int(fields[1]), []).append(one)
        # The fields are utime, stime, cutime and cstime.
        times[one] = sum(map(int, fields[11:15]))
    waiting, total = [pid], 0
    while waiting:
        one = waiting.pop()
        total += times.get(one, 0)
        waiting += children.get(one, [])
    return total / os.sysconf("SC_CLK_TCK")


def _target(link: Path) -> str:
    """Return what a descriptor is open on, or an empty text when the process has closed it meanwhile."""
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""

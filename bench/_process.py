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


def processor_times(pid: int) -> dict[tuple[int, str], float]:
    """Return the processor time of a process and of each running descendant, seconds, by process id and start time."""
    children: dict[int, list[int]] = {}
    times: dict[int, tuple[str, float]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        one = int(path.parent.name)
        children.setdefault(int(fields[1]), []).append(one)
        ticks = int(fields[11]) + int(fields[12])
        times[one] = fields[19], ticks / os.sysconf("SC_CLK_TCK")
    waiting, found = [pid], {}
    while waiting:
        one = waiting.pop()
        if one in times:
            began, seconds = times[one]
            found[one, began] = seconds
        waiting += children.get(one, [])
    return found


def _target(link: Path) -> str:
    """Return what a descriptor is open on, or an empty text when the process has closed it meanwhile."""
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""

"""The resources that processes, threads and TCP connections use, as the kernel counts them."""

from __future__ import annotations

import re
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

_CPU_OF_PROCESS = 2
"""CPUCLOCK_SCHED of Linux: the low bits of the number of a process's clock."""


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
    process = psutil.Process(pid)
    sockets = len(process.net_connections("all"))
    files = process.num_fds() - sockets
    return Usage(processor_seconds(pid), process.memory_info().rss, process.num_threads(), sockets, files)


def processor_times() -> dict[tuple[int, float], float]:
    """Return the processor time of this process and of each running descendant, seconds, by id and start time."""
    root, found = psutil.Process(), {}
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            found[process.pid, process.create_time()] = times.user + times.system
    return found


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process since its start, with its ended threads."""
    return time.clock_gettime((~pid << 3) | _CPU_OF_PROCESS)


def thread_seconds(pid: int) -> dict[int, float]:
    """Return the processor time of each thread of a process, seconds, by the thread's id."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # The thread has ended meanwhile.
            found[int(task.name)] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return found


def bytes_received_from(port: int) -> int:
    """Return the bytes that the one client of a loopback port has received, in the payload of TCP segments.

    The bytes of the handshake, of packet headers and of TLS are among them. Bytes that were sent again count once.
    """
    command = ["ss", "-tinHO", "state", "established", f"dport = :{port}"]
    clients = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    if len(clients) != 1:
        raise SystemExit(f"port {port} has {len(clients)} clients, and the benchmark needs one alone")
    found = re.search(r"\bbytes_received:(\d+)", clients[0])
    return int(found[1]) if found else 0

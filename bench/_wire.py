"""The bytes of a TCP connection, and the processor time of a process or thread, as the kernel counts them."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

_RECEIVED = re.compile(r"\bbytes_received:(\d+)")
_CPU_OF_PROCESS = 2
"""CPUCLOCK_SCHED of Linux: the low bits of the number of a process's clock."""


def bytes_received_from(port: int) -> int:
    """Return the bytes that the one client of a loopback port has received, in the payload of TCP segments.

    The bytes of the handshake, of packet headers and of TLS are among them. Bytes that were sent again count once.
    """
    command = ["ss", "-tinHO", "state", "established", f"dport = :{port}"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    if len(lines) != 1:
        raise SystemExit(f"port {port} has {len(lines)} clients, and the benchmark needs one alone")
    found = _RECEIVED.search(lines[0])
    return int(found[1]) if found else 0


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process since its start, with its ended threads."""
    return time.clock_gettime((~pid << 3) | _CPU_OF_PROCESS)


def threads(pid: int) -> set[int]:
    """Return the ids of a process's threads."""
    return {int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()}


def busiest_thread(pid: int, *, but: set[int]) -> float:
    """Return the processor time of the busiest thread of a process that is not one of ``but``, seconds."""
    times = [thread_seconds(pid, thread) for thread in threads(pid) - but]
    return max(times, default=0.0)


def thread_seconds(pid: int, thread: int) -> float:
    """Return the processor time of a thread, seconds; 0 when the thread has ended."""
    try:
        return int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0]) / 1e9
    except FileNotFoundError:  # The thread has ended meanwhile.
        return 0.0

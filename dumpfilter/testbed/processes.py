"""Processes: the programs of children, whether a process is the same one as before, and a guard for children."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_START_TIME = 19
"""The index of ``starttime`` in ``/proc/PID/stat``, counted from the field after the name."""
_STATE = 0
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_LONGEST_NAME = 15

_libc = ctypes.CDLL(None, use_errno=True)


class Program(NamedTuple):
    """A program that the keeper (the parent of a topology's processes) starts as a child process."""

    name: str
    """The child's name in ``ps`` and in errors."""
    arguments: list[str]
    """The arguments of ``dumpfilter``, or the whole command line of a program that is executed."""
    log: Path
    """The file for its output and its errors."""
    environment: Mapping[str, str]
    """The changes of the environment."""
    is_executed: bool
    """Whether a program is executed, such as a real server. Otherwise the fork runs ``dumpfilter``."""


def start_time(pid: int) -> int | None:
    """Return the time at which a process started, in clock ticks since boot. None for a process that is no more.

    A number can stand for another process later. Number and start time together name a process for good.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[_STATE] in "ZX" else int(fields[_START_TIME])


def is_alive(pid: int, started: int) -> bool:
    """Tell whether the process with this number and start time still runs."""
    return start_time(pid) == started


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends. End now if the parent, by its number, has ended."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def set_name(name: str) -> None:
    """Set the name under which ``ps`` and ``top`` show this process."""
    _libc.prctl(_PR_SET_NAME, name.encode()[:_LONGEST_NAME], 0, 0, 0)

"""The start and the end of a process that listens on ports: a real server, or a process of dumpfilter."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from dumpfilter.base.waiting import until

_POLL = 0.005
_MOST_STARTS = 5


class Process(Protocol):
    """A process that a :data:`Spawn` function has started. ``subprocess.Popen`` is one."""

    pid: int

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code. Raises subprocess.TimeoutExpired after ``timeout`` seconds."""

    def terminate(self) -> None:
        """Ask the process to end (SIGTERM)."""

    def kill(self) -> None:
        """Kill the process (SIGKILL)."""


Spawn = Callable[[Sequence[str], Mapping[str, str]], Process]
"""A function that starts a process with a command line and an environment. Its output is not returned."""


def spawn_here(command: Sequence[str], environment: Mapping[str, str]) -> Process:
    """Start a process as a child of this one. Ctrl-C in a terminal does not reach the process."""
    null = subprocess.DEVNULL
    return subprocess.Popen(
        command, env=environment, stdin=null, stdout=null, stderr=null, start_new_session=True
    )


def start_process(
    launch: Callable[[int], Process],
    is_ready: Callable[[], bool],
    failure: Callable[[str, int | None], Exception],
    *,
    log: Path,
    taken: str,
    again: bool,
    deadline: float,
) -> None:
    """Start a process, and wait until it is ready. Start it again if another process took its port first.

    Parameters:
        launch: starts the process. Its argument is the number of earlier attempts.
        is_ready: whether the process is ready.
        failure: returns the error for a process that has ended or does not get ready. Its arguments are what the
            process wrote into its log since its start, and its exit code (None: it still runs).
        log: the file of the process's log.
        taken: the words in the log that tell of a taken port, in lower case.
        again: whether a process whose port was taken is started again.
        deadline: the time of ``time.monotonic`` at which a process that is not ready has failed.
    """
    process: Process
    begin = 0

    def told() -> str:
        return log.read_bytes()[begin:].decode(errors="replace") if log.exists() else ""

    def is_ready_or_over() -> bool:
        return is_ready() or process.poll() is not None

    for attempt in range(_MOST_STARTS):
        begin = log.stat().st_size if log.exists() else 0
        process = launch(attempt)
        until(is_ready_or_over, deadline, lambda: failure(told(), None), poll=_POLL)
        # An answer may have come from another process, to which this process has lost its port.
        code = process.poll()
        if code is None:
            return
        if not again or taken not in told().lower():
            break
    raise failure(told(), code)


def end_process(process: Process | None, *, in_order: bool, timeout: float) -> None:
    """End a process by a regular shutdown (``in_order``) or with SIGKILL, and wait for its end.

    A process that does not shut down in ``timeout`` seconds is killed. None and an ended process are left alone.
    """
    if process is None or process.poll() is not None:
        return
    if in_order:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout)
            return
    process.kill()
    process.wait(timeout)

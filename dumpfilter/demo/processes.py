"""The processes of dumpfilter that the demonstration starts, and their end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from dumpfilter.errors import DumpfilterError

START_TIMEOUT = 60.0
"""The longest wait for a process to start or to do its work, seconds."""

_END_TIMEOUT = 10.0
_POLL = 0.02


def command(*arguments: str) -> list[str]:
    """Return the command line of ``dumpfilter`` with these arguments."""
    return [sys.executable, "-m", "dumpfilter", *arguments]


def run(*arguments: str) -> None:
    """Run ``dumpfilter`` to its end. Raises DumpfilterError when it fails."""
    done = subprocess.run(command(*arguments), check=False)
    if done.returncode:
        raise DumpfilterError(f"dumpfilter {' '.join(arguments)}: exit code {done.returncode}")


def start_master(
    source: str, log: Path, *options: str, ports: Sequence[str], **environment: str
) -> tuple[subprocess.Popen[bytes], list[int]]:
    """Start ``dumpfilter master`` on a binlog set, and return it with the numbers of its ports.

    ``ports`` names the options of the ports, such as ``--port``. The master chooses free ports. ``environment`` has
    further variables. Raises DumpfilterError with the master's log when the master does not start.
    """
    files = [log.with_suffix(f".{name.strip('-')}") for name in ports]
    chosen = [
        part
        for name, file in zip(ports, files, strict=True)
        for part in (name, "0", f"{name}-file", str(file))
    ]
    with open(log, "wb") as errors:
        master = subprocess.Popen(
            command("master", source, *chosen, *options), stderr=errors, env={**os.environ, **environment}
        )
    deadline = time.monotonic() + START_TIMEOUT
    while not all(file.exists() for file in files):
        if master.poll() is not None or time.monotonic() > deadline:
            end(master)
            raise DumpfilterError("the master did not start:\n" + log.read_text(errors="replace"))
        time.sleep(_POLL)
    numbers = [int(file.read_text()) for file in files]
    for file in files:
        file.unlink()
    return master, numbers


def end(*processes: subprocess.Popen[bytes], timeout: float = _END_TIMEOUT) -> None:
    """Ask processes to end, all at once, and kill what has not ended after ``timeout`` seconds."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + timeout
    for process in processes:
        try:
            process.wait(max(deadline - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def ending_at_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into SystemExit inside the context, so that the demonstration ends its processes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _exit) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back the signals that end a process until the end of the context. Only the main thread may use this.

    A blocked signal would be delivered to another thread, and Python would still interrupt the main thread.
    """
    held: list[int] = []
    before = {
        number: signal.signal(number, lambda got, _: held.append(got))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for got in held[:1]:
            signal.raise_signal(got)


def _exit(number: int, _: object) -> None:
    raise SystemExit(128 + number)

"""Child processes, masters, and the resources that processes, threads and TCP connections use."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, Self

import psutil

from bench._common import REPOSITORY
from dumpfilter.base.waiting import until

_SPAWN = multiprocessing.get_context("spawn")
_START_TIMEOUT = 600.0
"""The longest start of a master, seconds. The first one of a checkout compiles the kernels."""
_END_TIMEOUT = 10.0
_LOG_SHOWN = 2000
_CPU_OF_PROCESS = 2
"""CPUCLOCK_SCHED of Linux: the low bits of the number of a process's clock."""

PASSWORD = "replica"
"""The password of all users of a master."""


class Child:
    """A new Python process that runs ``function``, or a coroutine, with one end of a pipe and the arguments.

    The process must end when the pipe closes, so that it ends with this process in any case.
    """

    def __init__(self, function: Callable[..., Coroutine[Any, Any, None] | None], *arguments: object) -> None:
        self._pipe, other = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_run, args=(function, other, *arguments), daemon=True)
        self._process.start()
        other.close()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def tell(self, *request: object) -> None:
        """Send a request."""
        self._pipe.send(request)

    def answer(self) -> Any:
        """Return the next answer. Raises SystemExit for a process that has ended."""
        try:
            return self._pipe.recv()
        except EOFError:
            self._process.join()
            raise SystemExit(f"{self._process.name}: ended with {self._process.exitcode}") from None

    def ask(self, *request: object) -> Any:
        """Send a request, and return the answer."""
        self.tell(*request)
        return self.answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.join(_END_TIMEOUT)
        self._process.kill()
        self._process.join()


def _run(function: Callable[..., Coroutine[Any, Any, None] | None], *arguments: object) -> None:
    coroutine = function(*arguments)
    if coroutine is not None:
        asyncio.run(coroutine)


async def requests(pipe: Connection) -> AsyncIterator[Any]:
    """Yield the requests that come through a child's pipe, until the pipe closes."""
    with suppress(EOFError):
        while True:
            yield await asyncio.to_thread(pipe.recv)


class Master(NamedTuple):
    """A running master."""

    pid: int
    address: str
    """The address for slaves of dumpfilter."""
    replica_port: int = 0
    """The replication port of a master with users, or 0."""


@contextmanager
def master(
    source: Path | str, *options: str, users: Mapping[str, Sequence[str]] | None = None
) -> Iterator[Master]:
    """Run ``dumpfilter master`` on a set or an address.

    With ``users``, which are the rules of each user's replicas, the master has a replication port.
    """
    # Children import this module, and most of them need no client of servers.
    from dumpfilter.testbed.servers.server import end_process, write_secret
    from tests.mariadb import ENDS_WITH_CALLER

    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        command = [*ENDS_WITH_CALLER, sys.executable, "-m", "dumpfilter", "master", str(source), *options]
        files = [place / "port"]
        if users is not None:
            head = f'[[replica]]\npassword = "{PASSWORD}"\n'
            replicas = (f'{head}user = "{user}"\nrules = {json.dumps(users[user])}\n' for user in users)
            write_secret(place / "master.toml", "".join(replicas))
            command += ["--config", str(place / "master.toml")]
            files.append(place / "replica-port")
        for file in files:
            command += [f"--{file.name}", "0", f"--{file.name}-file", str(file)]
        log, environment = place / "log", {**os.environ, "PYTHONPATH": str(REPOSITORY)}

        def failed(how: str) -> SystemExit:
            return SystemExit(f"dumpfilter master on {source} {how}:\n{log.read_text()[-_LOG_SHOWN:]}")

        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL, stderr=output
            )
        try:
            until(
                lambda: process.poll() is not None or all(file.exists() for file in files),
                time.monotonic() + _START_TIMEOUT,
                lambda: failed("does not start"),
            )
            if (code := process.poll()) is not None:
                raise failed(f"ended with {code}")
            port, *replica_ports = (int(file.read_text()) for file in files)
            yield Master(process.pid, f"127.0.0.1:{port}", *replica_ports)
        finally:
            end_process(process, in_order=True, timeout=_END_TIMEOUT)


class Usage(NamedTuple):
    """The resources of a process at one time."""

    at: float
    """The time on the monotonic clock, seconds."""
    cpu: float
    """The processor time since the process began, seconds."""
    rss: int
    """The resident memory, bytes."""
    threads: int
    sockets: int
    """The number of open sockets."""
    files: int
    """The number of other open descriptors."""

    def cores_since(self, earlier: Usage) -> float:
        """Return the average number of processor cores in use since an earlier time."""
        return (self.cpu - earlier.cpu) / (self.at - earlier.at)


def usage(pid: int) -> Usage:
    """Return the resources that a process uses now."""
    process = psutil.Process(pid)
    sockets = len(process.net_connections("all"))
    files = process.num_fds() - sockets
    used = time.monotonic(), processor_seconds(pid), process.memory_info().rss, process.num_threads()
    return Usage(*used, sockets, files)


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

"""Child processes: those that run a function of this checkout, and masters of this or another checkout."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from bench._common import REPOSITORY
from dumpfilter.base.waiting import until

_SPAWN = multiprocessing.get_context("spawn")
_START_TIMEOUT = 600.0
"""The longest start of a master, seconds. The first one of a checkout compiles the kernels."""
_END_TIMEOUT = 10.0


class Child:
    """A new Python process that runs ``function`` with one end of a pipe and the arguments.

    The process must end when the pipe closes, so that it ends with this process in any case.
    """

    def __init__(self, function: Callable[..., None], *arguments: object) -> None:
        self._pipe, other = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=function, args=(other, *arguments), daemon=True)
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

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.join(_END_TIMEOUT)
        self._process.kill()
        self._process.join()


def serve(pipe: Connection, answer: Callable[..., object]) -> None:
    """Answer the requests that come through a child's pipe, until the pipe closes."""
    with suppress(EOFError):
        while True:
            pipe.send(answer(*pipe.recv()))


async def requests(pipe: Connection) -> AsyncIterator[Any]:
    """Yield the requests that come through a child's pipe, until the pipe closes."""
    ready = asyncio.Event()
    asyncio.get_running_loop().add_reader(pipe.fileno(), ready.set)
    while True:
        await ready.wait()
        ready.clear()
        try:
            while pipe.poll():
                yield pipe.recv()
        except (EOFError, OSError):
            return


@contextmanager
def master(index: Path, *options: str, tree: Path = REPOSITORY) -> Iterator[tuple[str, int]]:
    """Run ``dumpfilter master`` of a checkout on a binlog set, and yield its address and process id."""
    with running_master(index, *options, tree=tree) as (ports, pid):
        yield f"127.0.0.1:{ports['port']}", pid


@contextmanager
def running_master(
    source: Path | str, *options: str, ports: Sequence[str] = ("port",), tree: Path = REPOSITORY
) -> Iterator[tuple[dict[str, int], int]]:
    """Run ``dumpfilter master`` of a checkout on a set or an address. Yield its ports and its process id.

    ``ports`` are the options of the ports, without dashes.
    """
    with tempfile.TemporaryDirectory() as directory:
        files = {port: Path(directory, port) for port in ports}
        command = [sys.executable, "-m", "dumpfilter", "master", str(source), *options]
        for port, file in files.items():
            command += [f"--{port}", "0", f"--{port}-file", str(file)]
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        process = subprocess.Popen(
            command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            until(
                lambda: process.poll() is not None or all(file.exists() for file in files.values()),
                time.monotonic() + _START_TIMEOUT,
                lambda: SystemExit(f"dumpfilter master on {source} does not start"),
            )
            if (code := process.poll()) is not None:
                raise SystemExit(f"dumpfilter master on {source} ended with {code}")
            yield {port: int(file.read_text()) for port, file in files.items()}, process.pid
        finally:
            process.terminate()
            try:
                process.wait(_END_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

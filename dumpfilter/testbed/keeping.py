"""The client of the keeper, the process that starts a topology's processes and ends them when this process ends."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import NamedTuple

from dumpfilter.base.compiler.notice import told_once
from dumpfilter.testbed.errors import StartFailed, TestbedError

COMPILES = END = 0
"""The number of the keeper's message that it compiles, and of the request to end. Children have greater numbers."""

_END_TIMEOUT = 10.0
_ANSWER_TIMEOUT = 1200.0
"""The time limit of an answer, seconds. After an installation the keeper compiles all kernels, once."""


class Program(NamedTuple):
    """A command line, with its log file and environment, that the keeper runs as a child process. The keeper is the
    process that starts all processes of a topology.
    """

    name: str
    """The child's name in ``ps`` and in errors."""
    arguments: Sequence[str]
    """The arguments of ``dumpfilter``, or the whole command line of a program that is executed."""
    log: Path
    """The file for its standard output and standard error."""
    environment: Mapping[str, str] = {}
    """The environment variables that are added or changed."""
    is_executed: bool = False
    """Whether another program is executed, such as a real server. Otherwise the fork runs ``dumpfilter``."""


class Child:
    """A process that the keeper (the parent of all processes of a topology) has started. It has the methods of
    :class:`subprocess.Popen` that the testbed needs.
    """

    def __init__(self, keeper: Keeper, name: str, number: int) -> None:
        self.name = name
        self.number = number
        """The number by which requests and answers name the child."""
        self.pid = 0
        self.started: Future[int | str] = Future()
        """The process id, or why the program could not be started."""
        self.ended: Future[int] = Future()
        """The exit code. A signal's code is the negative signal number."""
        self._keeper = keeper

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        return self.ended.result() if self.ended.done() else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code. Raises subprocess.TimeoutExpired after ``timeout`` seconds; None:
        no limit.
        """
        try:
            return self.ended.result(timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(self.name, timeout or 0.0) from None

    def terminate(self) -> None:
        """Send the signal SIGTERM to the process."""
        self._keeper.signal(self, signal.SIGTERM)

    def kill(self) -> None:
        """Send the signal SIGKILL to the process and all processes of its group."""
        self._keeper.signal(self, signal.SIGKILL)


class Keeper:
    """A keeper process, which starts child processes for this process.

    When this process ends, even by kill -9, the keeper ends all children. All methods may be called from any thread.
    """

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dumpfilter.testbed.keeper", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                # numpy's linear algebra starts threads, and a process with threads must not fork.
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._children: dict[int, Child] = {}
        """The children that have not ended, by their numbers."""
        self._has_answered = False
        self._owner = os.getpid()
        self._thread = threading.Thread(target=self._receive, name="keeper", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """The process id of the keeper."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the keeper runs, and this process is the one that started it (and not a fork)."""
        return self._owner == os.getpid() and self._process.poll() is None

    def start(self, program: Program) -> Child:
        """Start a program as a child process of the keeper process. Raises StartFailed if it cannot be executed."""
        child = Child(self, program.name, next(self._numbers))
        self._children[child.number] = child
        self._send(child.number, program)
        try:
            answer = child.started.result(_ANSWER_TIMEOUT)
        except TimeoutError:
            self._process.kill()
            raise TestbedError(f"the keeper (process {self.pid}) does not answer") from None
        except BaseException:
            # Nobody else ends a process whose start was interrupted.
            self.signal(child, signal.SIGKILL)
            raise
        if isinstance(answer, str):
            raise StartFailed(f"{program.name}: {program.arguments[0]} cannot be started: {answer}")
        child.pid = answer
        return child

    def signal(self, child: Child, number: int) -> None:
        """Send the signal ``number`` to a child process. SIGKILL reaches all processes of the child's process group."""
        if child.poll() is None:
            self._send(child.number, int(number))

    def end_if_importing(self) -> None:
        """Kill a keeper that is still starting, so that calls that wait for its first answer end."""
        if not self._has_answered:
            self._process.kill()

    def close(self) -> None:
        """End the keeper, which kills the children that still run. In a fork of the keeper's owner, do nothing."""
        if self._owner != os.getpid():
            return
        with contextlib.suppress(TestbedError):
            self._send(END, None)
        try:
            self._process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()
        self._connection.close()

    def _send(self, number: int, request: Program | int | None) -> None:
        try:
            with self._sending:
                self._connection.send((number, request))
        except OSError:
            raise self._is_gone() from None

    def _is_gone(self) -> TestbedError:
        return TestbedError(
            f"the keeper (process {self.pid}) has ended, and all processes of the topology with it; start it again"
        )

    def _receive(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                number, answer = self._connection.recv()
                if number == COMPILES:
                    told_once()
                elif not self._children[number].started.done():
                    self._has_answered = True
                    self._children[number].started.set_result(answer)
                else:
                    self._children.pop(number).ended.set_result(answer)
        for child in tuple(self._children.values()):
            if not child.started.done():
                child.started.set_exception(self._is_gone())
            child.ended.set_result(-signal.SIGKILL)


_shared: Keeper | None = None
_sharing = threading.Lock()


def shared_keeper() -> Keeper:
    """Return the keeper that all topologies of this process share: the process that starts their processes. The first
    call starts the keeper.

    The keeper ends with this process. Only the first topology of a process waits for the keeper's imports.
    """
    global _shared
    with _sharing:
        if _shared is None or not _shared.is_alive:
            _shared = Keeper()
            atexit.register(_shared.close)
        return _shared

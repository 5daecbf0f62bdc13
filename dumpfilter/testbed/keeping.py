"""The client of the keeper, the process that starts a topology's processes and ends them when this process ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import NamedTuple

from dumpfilter.base.compiler.notice import told_once
from dumpfilter.testbed.errors import StartFailed, TestbedError

_END_TIMEOUT = 10.0
_ANSWER_TIMEOUT = 1200.0
"""The time limit of an answer, seconds. After an installation the keeper compiles all kernels, once."""


class Program(NamedTuple):
    """A program that the keeper (the process that starts a topology's processes) starts as a child process."""

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
    """A process that the keeper started, with the methods of :class:`subprocess.Popen` that the testbed needs."""

    def __init__(self, keeper: Keeper, name: str, pid: int) -> None:
        self.name = name
        self.pid = pid
        self.returncode: int | None = None
        self._keeper = keeper
        self._ended = threading.Event()

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs. A signal's code is the negative signal number."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code. Raises subprocess.TimeoutExpired after ``timeout`` seconds; None:
        no limit.
        """
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(self.name, timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal. SIGKILL reaches all processes of the child's process group."""
        if self.returncode is None:
            self._keeper.signal(self.pid, number)

    def terminate(self) -> None:
        """Ask the process to end (SIGTERM)."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process (SIGKILL)."""
        self.send_signal(signal.SIGKILL)

    def ended(self, code: int) -> None:
        """Record the exit code ``code`` of the ended process. Called by the thread that reads the keeper's messages."""
        self.returncode = code
        self._ended.set()


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
        self._starting = threading.Lock()
        self._started: queue.SimpleQueue[tuple[Child, str] | None] = queue.SimpleQueue()
        """Each started child, with the reason why its program could not be executed (empty if it could). None: the
        keeper has ended.
        """
        self._children: dict[int, Child] = {}
        self._gone = False
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
        return self._owner == os.getpid() and not self._gone

    def start(self, program: Program) -> Child:
        """Start a program as a child of the keeper. Raises StartFailed if it cannot be executed."""
        with self._starting:
            # The keeper starts one program after another, so that the next answer is the one to this request.
            self._send("start", program)
            try:
                answer = self._started.get(timeout=_ANSWER_TIMEOUT)
            except queue.Empty:
                self._process.kill()
                raise TestbedError(f"the keeper (process {self.pid}) does not answer") from None
            if answer is None:
                self._started.put(None)
                raise self._is_gone()
        child, failure = answer
        if failure:
            raise StartFailed(f"{program.name}: {program.arguments[0]} cannot be started: {failure}")
        return child

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a child."""
        self._send("signal", pid, int(number))

    def end_if_importing(self) -> None:
        """Kill a keeper that is still starting, so that calls that wait for its first answer end."""
        if not self._has_answered:
            self._process.kill()

    def close(self) -> None:
        """End the keeper, which kills the children that still run."""
        with contextlib.suppress(TestbedError):
            self._send("end")
        try:
            self._process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()
        self._connection.close()

    def _send(self, *request: object) -> None:
        try:
            with self._sending:
                self._connection.send(request)
        except OSError:
            raise self._is_gone() from None

    def _is_gone(self) -> TestbedError:
        return TestbedError(
            f"the keeper (process {self.pid}) has ended, and all processes of the topology with it; start it again"
        )

    def _receive(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                what, *values = self._connection.recv()
                if what == "compiles":
                    told_once()
                elif what == "exited":
                    pid, code = values
                    self._children.pop(pid).ended(code)
                else:
                    name, pid, failure = values
                    child = self._children[pid] = Child(self, name, pid)
                    self._has_answered = True
                    self._started.put((child, failure))
        self._gone = True
        for child in self._children.values():
            child.ended(-signal.SIGKILL)
        self._started.put(None)


_shared: Keeper | None = None
_sharing = threading.Lock()


def shared_keeper() -> Keeper:
    """Return the process that starts topologies' processes for this process. It starts at the first call.

    The keeper ends with this process. Only the first topology of a process waits for the keeper's imports.
    """
    global _shared
    with _sharing:
        if _shared is None or not _shared.is_alive:
            _shared = Keeper()
            atexit.register(_close_shared, _shared, os.getpid())
        return _shared


def _close_shared(keeper: Keeper, owner: int) -> None:
    # A forked child of this process must leave its parent's keeper alone.
    if os.getpid() == owner:
        keeper.close()

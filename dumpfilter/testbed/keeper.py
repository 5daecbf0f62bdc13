"""The keeper: the process that starts a topology's processes, and that ends them when its caller has ended.

The keeper has imported dumpfilter once. It forks itself for each ``dumpfilter master`` or ``dumpfilter slave``, which
costs a few milliseconds where a new interpreter costs a second. Real servers are forked and executed.

Requests and answers are pairs on a socket, whose number is the keeper's argument. The first item is the caller's number
of a child. The second item of a request is the :class:`Program` to start, or the number of a signal. The answers have
the id of the started process (or why the start failed), and later its exit code.

When the socket's other end closes, the caller has ended or was killed. Then the keeper kills all children. If somebody
kills the keeper itself, the kernel kills the children.

The keeper has one thread, since a process with several threads must not fork.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import itertools
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from dumpfilter.base.compiler.notice import on_compilation, told_once
from dumpfilter.base.endings import ENDINGS
from dumpfilter.testbed.errors import StartFailed, TestbedError

# -- the client

COMPILES = END = 0
"""COMPILES is the number of the keeper's message that the keeper compiles. END is the number of the request to the
keeper to end. The numbers of children are greater.
"""

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
        """Wait until the process has ended, and return its exit code. Raises subprocess.TimeoutExpired after
        ``timeout`` seconds; None: no limit.
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
                # By ``-m`` the module would be there twice, with two classes of programs.
                [
                    sys.executable,
                    "-c",
                    "from dumpfilter.testbed.keeper import main; main()",
                    str(theirs.fileno()),
                ],
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


# -- the keeper itself

_EXEC_FAILED = 127
_COMMAND = "dumpfilter"
"""The module of the command line. The package's layers do not allow an import statement for it here."""

_PR_SET_PDEATHSIG = 1


class _Started(NamedTuple):
    """A running process that the keeper has started. It leads its own process group."""

    number: int
    """The caller's number of the child."""
    pid: int
    handle: int
    """A pidfd, which is readable when the process has ended."""

    def fileno(self) -> int:
        return self.handle

    def signal(self, number: int) -> None:
        """Send a signal. SIGKILL is sent to the whole process group."""
        with contextlib.suppress(ProcessLookupError):
            send = os.killpg if number == signal.SIGKILL else os.kill
            send(self.pid, number)

    def reap(self) -> int:
        """Wait for the end of the process, and return the exit code. Kill the rest of the process group."""
        # A worker process that its dead master or slave has left behind is in the same group.
        self.signal(signal.SIGKILL)
        os.close(self.handle)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class _KeeperProcess:
    """The keeper process. It serves requests to start and signal a topology's processes, and reports their end."""

    def __init__(self, caller: Connection) -> None:
        self._caller = caller
        self._pid = os.getpid()
        self._children: dict[int, _Started] = {}
        for number in ENDINGS:
            # Ctrl-C in a terminal is for the caller, which ends the topology in order.
            signal.signal(number, signal.SIG_IGN)

    def run(self) -> None:
        """Serve requests until the caller (the process that started the keeper) has ended."""
        while True:
            waited: list[Any] = [self._caller, *self._children.values()]
            for ready in wait(waited):
                if isinstance(ready, _Started):
                    del self._children[ready.number]
                    self.tell(ready.number, ready.reap())
                    continue
                try:
                    number, request = self._caller.recv()
                except (EOFError, OSError):
                    return
                if number == END:
                    return
                if isinstance(request, Program):
                    self._start(number, request)
                elif number in self._children:
                    self._children[number].signal(request)

    def close(self) -> None:
        """Kill all children."""
        for child in self._children.values():
            child.signal(signal.SIGKILL)
        for child in self._children.values():
            child.reap()

    def _start(self, number: int, program: Program) -> None:
        """Start a program, and tell the caller the process id or the reason of a failure."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            self._become(program, writer)
        os.close(writer)
        with open(reader, errors="replace") as failure:
            # The pipe closes when the child has executed its program, or begins to run dumpfilter.
            reason = failure.read()
        self._children[number] = _Started(number, pid, os.pidfd_open(pid))
        self.tell(number, reason or pid)

    def _become(self, program: Program, failure: int) -> NoReturn:
        """Replace this child process by a program. A failure's reason is written to the pipe ``failure``."""
        try:
            _end_with_parent(self._pid)
            for number in ENDINGS:
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._caller.close()
            os.setsid()
            with open(os.devnull, "rb") as null, open(program.log, "ab") as log:
                for file, standard in ((null, 0), (log, 1), (log, 2)):
                    os.dup2(file.fileno(), standard)
            os.environ.update(program.environment)
            if program.is_executed:
                os.execvp(program.arguments[0], list(program.arguments))
            os.close(failure)
        except OSError as error:
            named = error.filename if error.filename != program.arguments[0] else ""
            where = f"{named}: " if named else ""
            os.write(failure, f"{where}{error.strerror or error}".encode())
            os._exit(_EXEC_FAILED)
        _set_name(f"df {program.name}")
        sys.argv = [_COMMAND, *program.arguments]
        runpy.run_module(_COMMAND, run_name="__main__", alter_sys=True)
        sys.exit(0)

    def tell(self, number: int, answer: object) -> None:
        """Send an answer to the caller, if the caller still exists."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._caller.send((number, answer))


def _end_with_parent(parent: int) -> None:
    """Make the kernel kill this process when its parent ends. Exit now if the process ``parent`` has already ended."""
    # The keeper has loaded ctypes anyway, and its caller need not.
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def _set_name(name: str) -> None:
    """Set the name under which ``ps`` and ``top`` show this process."""
    Path("/proc/self/comm").write_text(name)


def _import_dumpfilter() -> None:
    """Import the modules of masters and slaves, with their compiled functions."""
    import dumpfilter.edge
    import dumpfilter.master.process
    import dumpfilter.slave.process  # noqa: F401

    importlib.import_module(f"{_COMMAND}.cli")


def main() -> None:
    """Run the keeper until its caller has ended. The command line has the descriptor of the socket to the caller."""
    with Connection(int(sys.argv[1])) as caller:
        keeper = _KeeperProcess(caller)
        _set_name("df keeper")
        # Imports make many objects and hardly any garbage.
        gc.disable()
        # Compiling can take a minute.
        on_compilation(lambda: keeper.tell(COMPILES, None))
        _import_dumpfilter()
        on_compilation(None)
        # Objects that no collection visits stay in pages that all children share.
        gc.freeze()
        gc.enable()
        # A forked child never returns from here.
        keeper.run()
        keeper.close()
    # The end of an interpreter with so many modules takes a while, for which a caller would wait.
    os._exit(0)

"""The keeper: the process that starts a topology's processes, and that ends them when its caller has ended.

The keeper has imported dumpfilter once. It forks itself for each ``dumpfilter master`` or ``dumpfilter slave``, which
costs a few milliseconds where a new interpreter costs a second. Real servers are forked and executed.

When the socket to the caller closes, the caller has ended or was killed. Then the keeper kills all children. If
somebody kills the keeper itself, the kernel kills the children.

The keeper has one thread, since a process with several threads must not fork.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import runpy
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

from dumpfilter.base.compiler import notice
from dumpfilter.base.endings import ENDINGS
from dumpfilter.base.helper import Helper, serve
from dumpfilter.testbed.errors import TestbedError

# -- the client


class Child:
    """A process that the keeper (the parent of all processes of a topology) has started. It has the methods of
    :class:`subprocess.Popen` that the testbed needs.
    """

    def __init__(self, keeper: Keeper, name: str, pid: int) -> None:
        self.name = name
        self.pid = pid
        self._keeper = keeper
        # The keeper's child has no other process's id, since the keeper has not waited for it.
        self._handle = os.pidfd_open(pid)
        weakref.finalize(self, os.close, self._handle)
        self._lock = threading.Lock()
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the child process's exit code, or None while it runs. For a process that a signal ended, the code is
        the negative signal number.

        The first call after the end of the process kills the rest of its process group.
        """
        with self._lock:
            if self._code is None and wait([self._handle], 0):
                try:
                    self._code = self._keeper.ask("end", self.pid)
                except TestbedError:
                    # The kernel kills the children of a keeper that has ended.
                    self._code = -signal.SIGKILL
        return self._code

    def wait(self, timeout: float) -> int:
        """Wait until the process has ended, and return its exit code. Raises subprocess.TimeoutExpired after
        ``timeout`` seconds.
        """
        wait([self._handle], timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(self.name, timeout)
        return code

    def terminate(self) -> None:
        """Send the signal SIGTERM to the child process, which asks it to end. A process that has ended is ignored."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send the signal SIGKILL to the child process. A process that has ended is ignored. The other processes of its
        group are killed when :meth:`poll` or :meth:`wait` reads the exit code.
        """
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)


class Keeper(Helper):
    """A keeper process, which starts child processes for this process.

    When this process ends, even by kill -9, the keeper ends all children. All methods may be called from any thread.
    """

    title = "the keeper"
    error = TestbedError
    timeout = 1200.0
    """The time limit of an answer, seconds. The first keeper after an installation compiles all kernels (compiled
    functions).
    """

    def __init__(self) -> None:
        # numpy's linear algebra starts threads, and a process with threads must not fork.
        super().__init__(__name__, environment={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"})
        self._has_answered = False
        self._owner = os.getpid()

    @property
    def is_alive(self) -> bool:
        """Whether the keeper (the process that starts a topology's processes) runs, and this process is the one that
        started the keeper. False in a fork of this process.
        """
        return self._owner == os.getpid() and self.process.poll() is None

    def start(self, name: str, arguments: Sequence[str], log: Path, *, is_executed: bool = False) -> Child:
        """Start a child process of the keeper process, and return a handle of it. A child that cannot be executed ends
        with an exit code above 0, and the reason is in its log. Raises TestbedError if the keeper has ended.

        ``arguments`` are those of a ``dumpfilter`` command. With ``is_executed`` they are the whole command line of
        another program, such as a real server. ``name`` is the child's name in ``ps`` and in errors. ``log`` is the
        file for its standard output and standard error.
        """
        pid = self.ask("start", name, arguments, log, is_executed)
        self._has_answered = True
        return Child(self, name, pid)

    def ended(self) -> TestbedError:
        return TestbedError(
            f"the keeper (process {self.process.pid}) has ended, and all processes of the topology with it; start it "
            "again"
        )

    def end_if_importing(self) -> None:
        """Kill the keeper (the process that starts a topology's processes) if it is still importing dumpfilter. Also
        kill the processes that it has started to compile code. A call of another thread that waits for the keeper's
        first answer then fails.
        """
        if not self._has_answered:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the keeper, the process that starts a topology's processes. The keeper then kills its children that still
        run. In a fork of the process that started the keeper, do nothing.
        """
        if self._owner == os.getpid():
            self.end_if_importing()
            super().close()


_shared: Keeper | None = None
_sharing = threading.Lock()


def shared_keeper() -> Keeper:
    """Return the keeper that all topologies of this process share: the process that starts their processes. The first
    call starts the keeper.

    The keeper ends with this process. Only the first topology waits until the keeper has imported dumpfilter.
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
"""The package whose command line and modules the keeper runs and imports by name. The project's layer rules forbid an
import statement for ``dumpfilter.cli`` here.
"""

_STARTED = (
    *("edge", "master.process", "master.source", "master.console", "master.replicas.connection"),
    *("slave.process", "slave.console"),
)
"""The modules that masters and slaves import when they start, without those of their command lines."""

_PR_SET_PDEATHSIG = 1


class _KeeperProcess:
    """The keeper (the parent of all processes of a topology), as it runs in its own process. It serves the requests of
    the process that started it to start a topology's processes, and to end them.
    """

    def __init__(self, caller: Connection) -> None:
        self._caller = caller
        self._pid = os.getpid()
        self._children: set[int] = set()
        """The process ids of the children for which the keeper has not waited. Each leads its own process group."""
        for number in ENDINGS:
            # Ctrl-C in a terminal is for the caller, which ends the topology in order.
            signal.signal(number, signal.SIG_IGN)

    def run(self) -> None:
        """Serve requests to start and end a topology's processes until the caller, the process that started this one,
        has ended.
        """
        serve(self._caller, lambda method, *arguments: getattr(self, method)(*arguments))

    def close(self) -> None:
        """Kill all child processes of the keeper, which are the processes of topologies."""
        for pid in self._children:
            os.killpg(pid, signal.SIGKILL)
        for pid in tuple(self._children):
            self.end(pid)

    def end(self, pid: int) -> int:
        """Kill a child process, if it still runs, and all processes of its group. Return the child's exit code."""
        # A worker process that its dead master or slave has left behind is in the same group.
        os.killpg(pid, signal.SIGKILL)
        self._children.remove(pid)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def start(self, *program: Any) -> int | TestbedError:
        """Start a child process, at the request of the process that uses the keeper. Return the child's process id, or
        the error if the system cannot make a process.

        ``program`` has the child's name, its arguments and its log. The last item says whether the arguments are
        another program's command line (see :meth:`_become`).
        """
        try:
            pid = os.fork()
        except OSError as error:
            return TestbedError(f"{program[0]}: no process can be made: {error}; end other processes first")
        if pid == 0:
            self._become(*program)
        # The child does the same. Whoever comes first makes the group that `end` kills.
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        self._children.add(pid)
        return pid

    def _become(self, name: str, arguments: Sequence[str], log: Path, is_executed: bool) -> NoReturn:
        """Replace this process, a new fork of the keeper (the process that starts a topology's processes), by a
        program. With ``is_executed`` the program is executed, and ``arguments`` are its whole command line. Otherwise
        this process runs ``dumpfilter`` with these arguments.

        If the program cannot be executed, write the reason to the log. If there can be no log, write the reason to the
        standard error of the caller of the keeper.
        """
        os.setpgid(0, 0)
        try:
            _end_with_parent(self._pid)
            for number in ENDINGS:
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._caller.close()
            with open(os.devnull, "rb") as null, open(log, "ab") as output:
                for file, standard in ((null, 0), (output, 1), (output, 2)):
                    os.dup2(file.fileno(), standard)
            if is_executed:
                os.execvp(arguments[0], list(arguments))
        except OSError as error:
            os.write(2, f"{name}: {arguments[0]} cannot be started: {error}\n".encode())
            os._exit(_EXEC_FAILED)
        _set_name(f"df {name}")
        sys.argv = [_COMMAND, *arguments]
        runpy.run_module(_COMMAND, run_name="__main__", alter_sys=True)
        sys.exit(0)


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


def main() -> None:
    """Run the keeper process, which starts a topology's processes, until its caller has ended. The command line has the
    descriptor of the socket to the caller.
    """
    with Connection(int(sys.argv[1])) as caller:
        keeper = _KeeperProcess(caller)
        _set_name("df keeper")
        # Imports make many objects and hardly any garbage.
        gc.disable()
        # The caller imports kernels, too, and tells that they are compiled.
        notice.tell = lambda: None
        # A forked child need not import the modules of masters and slaves.
        for name in _STARTED:
            importlib.import_module(f"{_COMMAND}.{name}")
        importlib.import_module(f"{_COMMAND}.cli").preload("master", "slave")
        # Objects that no collection visits stay in pages that all children share.
        gc.freeze()
        gc.enable()
        # A forked child never returns from here.
        keeper.run()
        keeper.close()
    # The end of an interpreter with so many modules takes a while, for which a caller would wait.
    os._exit(0)

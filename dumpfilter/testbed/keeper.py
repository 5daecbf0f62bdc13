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

import contextlib
import ctypes
import gc
import importlib
import os
import runpy
import signal
import sys
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from dumpfilter.base.compiler.notice import on_compilation
from dumpfilter.base.endings import ENDINGS
from dumpfilter.testbed.keeping import COMPILES, END, Program

_EXEC_FAILED = 127
_COMMAND = "dumpfilter"
"""The module of the command line. The package's layers do not allow an import statement for it here."""

_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


class _Child(NamedTuple):
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


class _Keeper:
    """The keeper process. It serves requests to start and signal a topology's processes, and reports their end."""

    def __init__(self, caller: Connection) -> None:
        self._caller = caller
        self._pid = os.getpid()
        self._children: dict[int, _Child] = {}
        for number in ENDINGS:
            # Ctrl-C in a terminal is for the caller, which ends the topology in order.
            signal.signal(number, signal.SIG_IGN)

    def run(self) -> None:
        """Serve requests until the caller (the process that started the keeper) has ended."""
        while True:
            waited: list[Any] = [self._caller, *self._children.values()]
            for ready in wait(waited):
                if isinstance(ready, _Child):
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
        self._children[number] = _Child(number, pid, os.pidfd_open(pid))
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
        _run_dumpfilter(program)

    def tell(self, number: int, answer: object) -> None:
        """Send an answer to the caller, if the caller still exists."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._caller.send((number, answer))


def _end_with_parent(parent: int) -> None:
    """Make the kernel kill this process when its parent ends. Exit now if the process ``parent`` has already ended."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def _set_name(name: str) -> None:
    """Set the name under which ``ps`` and ``top`` show this process."""
    Path("/proc/self/comm").write_text(name)


def _run_dumpfilter(program: Program) -> NoReturn:
    _set_name(f"df {program.name}")
    sys.argv = ["dumpfilter", *program.arguments]
    runpy.run_module(_COMMAND, run_name="__main__", alter_sys=True)
    sys.exit(0)


def _import_dumpfilter() -> None:
    """Import the modules of masters and slaves, with their compiled functions."""
    import dumpfilter.edge.edge
    import dumpfilter.master.process
    import dumpfilter.slave.process
    import dumpfilter.slave.report  # noqa: F401

    importlib.import_module(f"{_COMMAND}.cli")


def main() -> None:
    """Run the keeper until its caller has ended. The command line has the descriptor of the socket to the caller."""
    with Connection(int(sys.argv[1])) as caller:
        keeper = _Keeper(caller)
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


if __name__ == "__main__":
    main()

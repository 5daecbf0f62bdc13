"""The keeper: the process that starts a topology's processes, and that ends them when its caller has ended.

The keeper has imported dumpfilter once. It forks itself for each ``dumpfilter master`` or ``dumpfilter slave``, which
costs a few milliseconds where a new interpreter costs a second. Real servers are forked and executed.

Requests and answers are pickled tuples on a socket, whose number is the keeper's argument. A request names a method of
the keeper, and has the method's arguments. When the socket's other end closes, the caller has ended or was killed. Then
the keeper kills all children. If somebody kills the keeper itself, the kernel kills the children.

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
import socket
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import NoReturn

from dumpfilter.base.compiler.notice import on_compilation
from dumpfilter.testbed.keeping import Program

_RECEIVED = 1 << 16
_EXEC_FAILED = 127
_COMMAND = "dumpfilter"
"""The module of the command line. The package's layers do not allow an import statement for it here."""

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_LONGEST_NAME = 15

_libc = ctypes.CDLL(None, use_errno=True)


class _Keeper:
    """The keeper process. It serves requests to start and signal a topology's processes, and reports their end."""

    def __init__(self, caller: Connection) -> None:
        self._caller = caller
        self._pid = os.getpid()
        self._children: set[int] = set()
        """The ids of the running children. Each leads its own process group."""
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Ctrl-C in a terminal is for the caller, which ends the topology in order.
            signal.signal(number, signal.SIG_IGN)

    def run(self) -> Callable[[], NoReturn] | None:
        """Serve requests until the caller (the process that started the keeper) has ended, then return None.

        In a forked child that is to run dumpfilter, return the function that the child must call.
        """
        while True:
            for ready in wait((self._caller, self._woken)):
                if ready is self._woken:
                    with contextlib.suppress(BlockingIOError):
                        self._woken.recv(_RECEIVED)
                    self._reap()
                    continue
                try:
                    verb, *arguments = self._caller.recv()
                except (EOFError, OSError):
                    return None
                if verb == "end":
                    return None
                program: Callable[[], NoReturn] | None = getattr(self, verb)(*arguments)
                if program is not None:
                    return program

    def close(self) -> None:
        """Kill all children."""
        for child in self._children:
            self.signal(child, signal.SIGKILL)
        for child in self._children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a child. SIGKILL is sent to the child's whole process group."""
        if pid not in self._children:
            return
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(pid, number)
            os.kill(pid, number)

    def start(self, program: Program) -> Callable[[], NoReturn] | None:
        """Fork. Return None in the keeper, and in the child the function that replaces the child by ``program``.

        The keeper reports the start to the caller, with the reason if it failed.
        """
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            return lambda: self._become(program, writer)
        os.close(writer)
        with open(reader, "rb") as failure:
            # The pipe closes when the child has executed its program, or begins to run dumpfilter.
            reason = failure.read().decode(errors="replace")
        self._children.add(child)
        self.tell("started", program.name, child, reason)
        return None

    def _become(self, program: Program, failure: int) -> NoReturn:
        """Replace this child process by a program. A failure's reason is written to the pipe ``failure``."""
        try:
            _end_with_parent(self._pid)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for used in (self._caller, self._woken, self._waker):
                used.close()
            os.setsid()
            log = os.open(program.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            null = os.open(os.devnull, os.O_RDONLY)
            for handle, standard in ((null, 0), (log, 1), (log, 2)):
                os.dup2(handle, standard)
            os.close(log)
            os.close(null)
            os.environ.update(program.environment)
            if program.is_executed:
                os.set_inheritable(failure, False)
                os.execvpe(program.arguments[0], list(program.arguments), os.environ)
            os.close(failure)
        except OSError as error:
            named = error.filename if error.filename != program.arguments[0] else ""
            where = f"{named}: " if named else ""
            os.write(failure, f"{where}{error.strerror or error}".encode())
            os._exit(_EXEC_FAILED)
        _run_dumpfilter(program)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self._children.discard(pid)
            # A worker process that its dead master or slave has left behind is in the same group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            self.tell("exited", pid, os.waitstatus_to_exitcode(status))

    def tell(self, *answer: object) -> None:
        """Send an answer to the caller, if the caller still exists."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._caller.send(answer)


def _end_with_parent(parent: int) -> None:
    """Make the kernel kill this process when its parent ends. Exit now if the process ``parent`` has already ended."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def _set_name(name: str) -> None:
    """Set the name under which ``ps`` and ``top`` show this process."""
    _libc.prctl(_PR_SET_NAME, name.encode()[:_LONGEST_NAME], 0, 0, 0)


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
        on_compilation(lambda: keeper.tell("compiles"))
        _import_dumpfilter()
        on_compilation(None)
        # Objects that no collection visits stay in pages that all children share.
        gc.freeze()
        gc.enable()
        program = keeper.run()
        if program is not None:
            program()
        keeper.close()
    # The end of an interpreter with so many modules takes a while, for which a caller would wait.
    os._exit(0)


if __name__ == "__main__":
    main()

"""The keeper: the process that starts a topology's processes, and that ends them when its caller is gone.

The keeper has imported dumpfilter once. It forks itself for each ``dumpfilter master`` or ``dumpfilter slave``, which
costs a few milliseconds where a new interpreter costs a second. Real servers are forked and executed.

Requests and answers are lines of JSON on a socket, whose number is the keeper's argument. When the socket's other end
closes, the caller has ended or was killed. Then the keeper kills all children, and removes the directories that the
caller named. If somebody kills the keeper itself, the kernel kills the children.

The keeper has one thread, since a process with several threads must not fork.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from dumpfilter.compiler.notice import on_compilation
from dumpfilter.testbed.processes import end_with_parent, set_name, start_time

_RECEIVED = 1 << 16
_EXEC_FAILED = 127
_COMMAND = "dumpfilter"
"""The module that is the command. The layers of the package do not allow an import statement for it here."""


class _Keeper:
    """The keeper's loop: it reads requests, starts and signals children, and tells when one has ended."""

    def __init__(self, requests: socket.socket) -> None:
        self._socket = requests
        self._pid = os.getpid()
        self._received = b""
        self._children: dict[int, str] = {}
        """The processes that run, with their names. Each one leads a process group of its own."""
        self._directories: list[str] = []
        self._woken, waker = socket.socketpair()
        self._woken.setblocking(False)
        waker.setblocking(False)
        self._waker = waker
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Ctrl-C in a terminal is for the caller, which ends the topology in order.
            signal.signal(number, signal.SIG_IGN)

    def run(self) -> Callable[[], NoReturn] | None:
        """Serve until the caller is gone. In a child that shall run dumpfilter, return what the child must call."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._woken:
                        with contextlib.suppress(BlockingIOError):
                            self._woken.recv(_RECEIVED)
                        self._reap()
                        continue
                    data = self._socket.recv(_RECEIVED)
                    if not data:
                        return None
                    *lines, self._received = (self._received + data).split(b"\n")
                    for line in lines:
                        program = self._serve(json.loads(line))
                        if program is not None:
                            return program

    def close(self) -> None:
        """Kill all children, and remove the directories that the caller named."""
        for child in self._children:
            self._signal(child, signal.SIGKILL)
        for child in self._children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)
        for directory in self._directories:
            shutil.rmtree(directory, ignore_errors=True)

    def _serve(self, request: dict[str, Any]) -> Callable[[], NoReturn] | None:
        match request["do"]:
            case "start":
                return self._start(request)
            case "signal":
                if request["pid"] in self._children:
                    self._signal(request["pid"], request["signal"])
            case "remove at end":
                self._directories.append(request["directory"])
            case "keep":
                self._directories.remove(request["directory"])
            case "ping":
                self._tell({"id": request["id"]})
        return None

    def _start(self, request: dict[str, Any]) -> Callable[[], NoReturn] | None:
        """Fork. Return None in the keeper, and the child's program in the child."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            return lambda: self._become(request, writer)
        os.close(writer)
        with open(reader, "rb") as failure:
            # The pipe closes when the child has executed its program, or begins to run dumpfilter.
            reason = failure.read().decode(errors="replace")
        self._children[child] = request["name"]
        self._tell({"id": request["id"], "pid": child, "started": start_time(child), "failure": reason})
        return None

    def _become(self, request: dict[str, Any], failure: int) -> NoReturn:
        """Turn this child into the program of a request."""
        try:
            end_with_parent(self._pid)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for used in (self._socket, self._woken, self._waker):
                used.close()
            os.setsid()
            log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            null = os.open(os.devnull, os.O_RDONLY)
            for handle, standard in ((null, 0), (log, 1), (log, 2)):
                os.dup2(handle, standard)
            os.close(log)
            os.close(null)
            if request.get("directory"):
                os.chdir(request["directory"])
            os.environ.update(request.get("environment", {}))
            arguments: list[str] = request["arguments"]
            if request["program"]:
                os.set_inheritable(failure, False)
                os.execvpe(arguments[0], arguments, os.environ)
            os.close(failure)
        except OSError as error:
            named = error.filename if error.filename != request["arguments"][0] else ""
            where = f"{named}: " if named else ""
            os.write(failure, f"{where}{error.strerror or error}".encode())
            os._exit(_EXEC_FAILED)
        _run_dumpfilter(request["name"], arguments)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self._children.pop(pid, None)
            # A worker process that its dead master or slave has left behind is in the same group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            self._tell({"exited": pid, "code": os.waitstatus_to_exitcode(status)})

    @staticmethod
    def _signal(pid: int, number: int) -> None:
        """Send a signal to a child. SIGKILL is for the child's whole group."""
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(pid, number)
            os.kill(pid, number)

    def tell_of_compilation(self) -> None:
        """Tell the caller that the keeper compiles, which can take a minute."""
        self._tell({"compiles": True})

    def _tell(self, answer: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(json.dumps(answer).encode() + b"\n")


def _run_dumpfilter(name: str, arguments: list[str]) -> NoReturn:
    set_name(f"df {name}")
    sys.argv = ["dumpfilter", *arguments]
    runpy.run_module(_COMMAND, run_name="__main__", alter_sys=True)
    sys.exit(0)


def _import_dumpfilter(directory: Path) -> None:
    """Import what masters and slaves need, and load the compiled functions from their cache.

    ``directory`` gets a small binlog, and is removed again.
    """
    import dumpfilter.edge.edge
    import dumpfilter.master.process
    import dumpfilter.slave.process
    import dumpfilter.slave.report  # noqa: F401
    from dumpfilter.warm_up import warm_up

    importlib.import_module(f"{_COMMAND}.cli")

    try:
        warm_up(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def main() -> None:
    """Run the keeper: ``keeper SOCKET DIRECTORY``, with the number of a socket and the name of a scratch directory."""
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        keeper = _Keeper(requests)
        set_name("df keeper")
        # Imports make many objects and hardly any garbage.
        gc.disable()
        on_compilation(keeper.tell_of_compilation)
        _import_dumpfilter(Path(sys.argv[2]))
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

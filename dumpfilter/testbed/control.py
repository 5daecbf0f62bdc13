"""The control socket of a running topology, through which other commands reach it.

A request is a verb with its arguments as JSON, such as ``["wait", {"node": "web", "timeout": 30}]``. The answer is
``{"value": …}``, or ``{"error": "…", "exit_code": 4}``. The socket is in the topology's directory, and only its owner
may use it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.testbed.errors import NotUp, TestbedError
from dumpfilter.testbed.leftovers import owner_of

if TYPE_CHECKING:
    from dumpfilter.testbed.bed import Testbed

SOCKET = "control.sock"
"""The name of the socket in the topology's directory."""

_MOST_REQUEST = 1 << 20
_BACKLOG = 16
_RETRY = 0.1
"""The time after which the server accepts again when the system had no resources for a connection, seconds."""
_LONGEST_END = 10
"""The time limit for the end of a topology that is still starting, seconds."""


class ControlFailed(TestbedError):
    """An error that a running topology returned over its control socket, with the original text and exit code."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class ControlServer:
    """The server of a topology's control socket, which carries out requests such as ``status`` in own threads."""

    def __init__(self, bed: Testbed) -> None:
        self._bed = bed
        self._gone = threading.Event()
        self._path = bed.directory / SOCKET
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            with _short(self._path) as path:
                self._listener.bind(path)
        finally:
            os.umask(before)
        self._listener.listen(_BACKLOG)
        threading.Thread(target=self._accept, name="control", daemon=True).start()

    def __enter__(self) -> ControlServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the socket. Call this after the topology's end."""
        self._gone.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                # Without a free file descriptor the next command has to wait. Nobody accepts it after a return.
                if self._gone.wait(_RETRY):
                    return
                continue
            caller = Connection(connection.detach())
            threading.Thread(target=self._serve, args=(caller,), name="control", daemon=True).start()

    def _serve(self, caller: Connection) -> None:
        with caller, contextlib.suppress(OSError, EOFError):
            request = caller.recv_bytes(_MOST_REQUEST)
            caller.send_bytes(json.dumps(self._answer(request)).encode())

    def _answer(self, request: bytes) -> dict[str, Any]:
        try:
            verb, arguments = json.loads(request)
            return {"value": _VERBS[verb](self._bed, **arguments)}
        except DumpfilterError as error:
            return {"error": str(error), "exit_code": error.exit_code}
        except Exception as error:
            # Without an answer the other command would take the topology for ended.
            return {"error": f"{request[:200].decode(errors='replace')}: {error!r}", "exit_code": 1}


class Control:
    """A client of the control socket in a topology's directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def down(self) -> None:
        """End the topology, and return when its process has ended. Raises NotUp."""
        owner = owner_of(self.directory)
        if owner is None or not owner.is_command:
            raise self._without_socket()
        is_starting = not (self.directory / SOCKET).exists()
        try:
            process = os.pidfd_open(owner.pid)
        except ProcessLookupError:
            # The process has ended by itself meanwhile.
            raise self._without_socket() from None
        try:
            _signal(process, signal.SIGTERM)
            ended = select.poll()
            ended.register(process, select.POLLIN)
            if not ended.poll(_LONGEST_END * 1000 if is_starting else None):
                # A process that waits for the compiler does not look at signals.
                _signal(process, signal.SIGKILL)
                ended.poll()
                raise NotUp(f"{self.directory}: the topology has been killed while it was starting")
        finally:
            os.close(process)

    def _without_socket(self) -> NotUp:
        """Return the error for a directory without a control socket."""
        owner = owner_of(self.directory)
        if owner is None:
            return NotUp(
                f"{self.directory}: no topology is up in this directory; start one with dumpfilter topology up, or "
                "name its directory with --directory"
            )
        if owner.is_command:
            return NotUp(
                f"{self.directory}: the topology is starting (process {owner.pid}); wait, or end it with dumpfilter "
                "topology down"
            )
        return NotUp(
            f"{self.directory}: process {owner.pid} runs the topology in this directory; end the process"
        )

    def ask(self, verb: str, **arguments: Any) -> Any:
        """Send a request, and return the value of the response.

        Raises NotUp if no topology runs in the directory, and ControlFailed for an error of the topology.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connecting:
            try:
                with _short(self.directory / SOCKET) as path:
                    connecting.connect(path)
            except OSError:
                raise self._without_socket() from None
            connection = Connection(connecting.detach())
        with connection:
            try:
                connection.send_bytes(json.dumps([verb, arguments]).encode())
                answer = json.loads(connection.recv_bytes())
            except (OSError, EOFError):
                raise NotUp(f"{self.directory}: the topology has ended") from None
        if "error" in answer:
            raise ControlFailed(answer["error"], answer["exit_code"])
        return answer["value"]


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """Yield a short alias of a socket's path, because the address of a Unix socket holds only 107 bytes."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def _signal(process: int, number: signal.Signals) -> None:
    """Send a signal to the process of a pidfd, unless the process has ended."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(process, number)


def _wait(bed: Testbed, *, node: str, timeout: float, running_only: bool) -> None:
    if node:
        bed[node].wait_caught_up(timeout)
    else:
        bed.wait_caught_up(timeout, running_only=running_only)


def _act(bed: Testbed, *, node: str, action: Literal["kill", "stop", "start", "restart"]) -> Any:
    getattr(bed[node], action)()
    return bed[node].status().as_dict()


def _link(
    bed: Testbed, *, link: str, shape: dict[str, Any], fault: str | None, arguments: list[float | None]
) -> Any:
    found = bed.link(link)
    if shape:
        found.set(**shape)
    if fault is not None:
        getattr(found, fault)(*arguments)
    return found.status().as_dict()


_VERBS: dict[str, Callable[..., Any]] = {
    "pid": lambda _: os.getpid(),
    "status": lambda bed: bed.status().as_dict(),
    "wait": _wait,
    "wait done": lambda bed, timeout: bed.wait_done(timeout),
    "check": lambda bed, **limits: bed.check(**limits),
    "report": lambda bed: bed.report(),
    "logs": lambda bed, node, begin: bed[node].logs[begin:],
    "act": _act,
    "hold behind": lambda bed, node, seconds: bed[node].hold_behind(seconds),
    "link": _link,
}

"""The control socket of a running topology, through which other commands call the methods of its topology.

A request is one line of JSON, such as ``{"verb": "kill", "node": "web", "link": null, "arguments": {}}``. It names a
method of a node, of a link, or without both of the topology, and has the method's arguments. The answer is
``{"value": …}``, or ``{"error": "…", "exit_code": 4}``. The socket is in the topology's directory, and only its owner
may use it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.testbed.errors import NotUp, TestbedError
from dumpfilter.testbed.leftovers import owner_of

if TYPE_CHECKING:
    from dumpfilter.testbed.bed import Testbed

SOCKET = "control.sock"
"""The name of the socket in the topology's directory."""

_MOST_REQUEST = 1 << 20
_POLL = 0.1
"""The interval at which the server checks whether it was closed, seconds. After an error it accepts again so late."""
_LONGEST_END = 10
"""The time limit for the end of a topology that is still starting, seconds."""


class ControlFailed(TestbedError):
    """An error that a running topology returned over its control socket, with the original text and exit code."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class ControlServer(socketserver.ThreadingUnixStreamServer):
    """The server of a topology's control socket, which carries out requests such as ``status`` in own threads."""

    daemon_threads = True
    request_queue_size = 16

    def __init__(self, bed: Testbed) -> None:
        self.bed = bed
        self._path = bed.directory / SOCKET
        self._path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            with _short(self._path) as path:
                super().__init__(path, _Request)
        finally:
            os.umask(before)
        threading.Thread(target=self.serve_forever, args=(_POLL,), name="control", daemon=True).start()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection. After an error, such as a lack of file descriptors, wait before the next attempt."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(_POLL)
            raise

    def server_close(self) -> None:
        """Remove the socket. Call this after the topology's end."""
        self.shutdown()
        super().server_close()
        self._path.unlink(missing_ok=True)


class _Request(socketserver.StreamRequestHandler):
    """The connection of one request."""

    server: ControlServer

    def handle(self) -> None:
        """Read the request, and send the answer."""
        with contextlib.suppress(OSError):
            answer = self._answer(self.rfile.readline(_MOST_REQUEST))
            self.wfile.write(json.dumps(answer, default=str).encode())

    def _answer(self, request: bytes) -> dict[str, Any]:
        bed = self.server.bed
        try:
            asked = json.loads(request)
            node, link = asked["node"], asked["link"]
            owner = bed if node is link is None else bed.link(link) if node is None else bed[node]
            value = getattr(owner, asked["verb"])
            if callable(value):
                value = value(**asked["arguments"])
            return {"value": value.as_dict() if hasattr(value, "as_dict") else value}
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
            if not wait([process], _LONGEST_END if is_starting else None):
                # A process that waits for the compiler does not look at signals.
                _signal(process, signal.SIGKILL)
                wait([process])
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

    def ask(self, verb: str, *, node: str | None = None, link: str | None = None, **arguments: Any) -> Any:
        """Call a method of the topology, or of the node or link that is named, and return the method's result.

        ``verb`` is the name of the method, or of a property. A status is returned as a dictionary. Raises NotUp if no
        topology runs in the directory, and ControlFailed for an error of the topology.
        """
        request = {"verb": verb, "node": node, "link": link, "arguments": arguments}
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            try:
                with _short(self.directory / SOCKET) as path:
                    connection.connect(path)
            except OSError:
                raise self._without_socket() from None
            try:
                connection.sendall(json.dumps(request).encode() + b"\n")
                answer = json.load(connection.makefile())
            except (OSError, ValueError):
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

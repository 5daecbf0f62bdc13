"""Helper processes: processes that serve requests of this process over a socket, and end with this process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, Self

from dumpfilter.base.endings import uninterrupted
from dumpfilter.base.errors import DumpfilterError

END = None
"""The request at which a helper ends. A helper also ends when the other end of its socket closes."""

END_TIMEOUT = 10.0
"""The time that a helper has to end by itself before it is killed, seconds."""

_LOG_SHOWN = 500


class Helper:
    """A process that answers the requests of this process, one after another. The helper ends with this process,
    however this process ends.

    The process runs the function ``main`` of a module. The last argument of its command line is the descriptor of a
    socket. On the socket the process receives requests, which are tuples, and sends back the answers. An answer that is
    an exception is raised. All methods may be called from any thread.
    """

    title: str
    """The name of the process in errors, such as ``the process of the links``."""
    error: type[DumpfilterError]
    """The type of the errors about a process that has ended or does not answer."""
    timeout: float
    """The time limit of an answer, seconds."""

    def __init__(self, module: str, log: Path | None = None, environment: Mapping[str, str] = {}) -> None:
        """Start the process. ``module`` is the module whose function ``main`` the process runs.

        The process's standard error is appended to the file ``log``; None: to the standard error of this process.
        ``environment`` has environment variables that are set in addition to those of this process.
        """
        self._log = log
        self._lock = threading.Lock()
        self._connection, theirs = Pipe()
        # By ``-m`` the module would be there twice, with two classes of each name.
        command = [sys.executable, "-c", f"from {module} import main; main()", str(theirs.fileno())]
        with theirs, open(os.devnull if log is None else log, "ab") as errors:
            self.process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None if log is None else errors,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    def ask(self, *request: Any) -> Any:
        """Send a request to the helper process, and return its answer. Raise the answer if it is an error, and
        :attr:`error` if the process has ended or does not answer in time. A process that does not answer in time is
        killed.

        Signals such as SIGINT are deferred until the answer has come. Without this, the next call could take this
        answer for the answer to its own request.
        """
        with uninterrupted(), self._lock:
            if self._connection.closed:
                raise self.error(f"{self.title} was closed")
            has_ended = True
            with suppress(OSError, EOFError):
                self._connection.send(request)
                if not self._connection.poll(self.timeout):
                    self.process.kill()
                    raise self.error(f"{self.title} gave no answer in {self.timeout:.0f} s")
                answer = self._receive()
                has_ended = False
            if has_ended:
                # The error of the socket is not the context of this one. It would keep the request's buffer, whose
                # collection as garbage Python 3.13 reports as an ignored exception.
                raise self.ended()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _receive(self) -> Any:
        """Receive the helper process's answer to the last request, and return it. An answer is any picklable object, or
        an exception for :meth:`ask` to raise. :meth:`ask` calls the method once bytes of the answer have arrived.
        """
        return self._connection.recv()

    def ended(self) -> DumpfilterError:
        """Return the error about a helper process that has ended, with its exit status and the end of its log.

        The method waits at most :data:`END_TIMEOUT` seconds for the exit status.
        """
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_TIMEOUT)
        told = "" if self._log is None else self._log.read_text(errors="replace")[-_LOG_SHOWN:].strip()
        status = self.process.returncode
        return self.error(f"{self.title} ended (status {status})" + (f": {told}" if told else ""))

    def close(self) -> None:
        """End the helper process, and wait for its end. A process that does not end within :data:`END_TIMEOUT` seconds
        is killed. Calling the method again does nothing.
        """
        with self._lock:
            if not self._connection.closed:
                # A fork of this process may keep the socket open.
                with suppress(OSError):
                    self._connection.send(END)
                self._connection.close()
            try:
                self.process.wait(END_TIMEOUT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(caller: Connection, answer: Callable[..., object]) -> None:
    """Answer the requests that a helper process receives from the process that started it. End when that process sends
    :data:`END` or closes its end of the socket.

    ``caller`` is the helper's end of the socket. ``answer`` is called with the parts of a request (a tuple), and its
    result is sent back.
    """
    while True:
        request = END
        with suppress(EOFError, OSError):
            request = caller.recv()
        if request is END:
            return
        told = answer(*request)
        with suppress(ConnectionError):
            caller.send(told)

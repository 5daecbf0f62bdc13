"""An asyncio event loop in a thread, which serves the ports of a master, a slave or a console."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import uvloop

from dumpfilter.base.logs import Seldom, logger
from dumpfilter.base.printable import printable

log = logger("dumpfilter.master")

T = TypeVar("T")
_END_SECONDS = 12.0
"""The longest time that the end of a coroutine, or of a loop, may take, seconds."""
_ACCEPT_AGAIN_SECONDS = 1.0
_SWITCH_SECONDS = 5e-4
"""The time after which Python makes a computing thread release the interpreter lock, seconds
(``sys.setswitchinterval``).

A thread that passes a commit on takes the lock several times. With Python's 5 ms, commits that come every 5 ms would
queue up as long as a statement or a registration computes in another thread.
"""


class ServingLoop:
    """An asyncio event loop in a thread of its own, which runs from :meth:`start` to :meth:`end`. Other threads call
    the methods.
    """

    def __init__(self, name: str) -> None:
        self.loop = uvloop.new_event_loop()
        self.loop.set_exception_handler(self._log_unforeseen)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def start(self) -> None:
        """Start the thread that runs the event loop. The process switches threads often from now on, so that computing
        threads delay no loop.
        """
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._thread.start()

    def __enter__(self) -> ServingLoop:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end(_END_SECONDS)

    @property
    def is_running(self) -> bool:
        """Whether the event loop runs. An error, for example for lack of memory, may have ended it."""
        return self._thread.is_alive()

    def wait(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """Run a coroutine in the event loop's thread, wait for its result, and return it.

        Raises TimeoutError after ``seconds``; None waits without a limit.
        """
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(seconds)

    @contextmanager
    def running(self, work: Coroutine[Any, Any, None]) -> Iterator[None]:
        """Run a coroutine in the event loop's thread while the ``with`` block runs.

        At the end of the block cancel the coroutine, and wait at most :data:`_END_SECONDS` for its end.
        """

        async def begin() -> asyncio.Task[None]:
            return asyncio.create_task(work)

        async def end() -> None:
            task.cancel()
            await asyncio.wait([task])

        task = self.wait(begin())
        try:
            yield
        finally:
            with contextlib.suppress(TimeoutError):
                self.wait(end(), _END_SECONDS)

    def end(self, seconds: float | None = None) -> None:
        """Stop the event loop, and wait at most ``seconds`` for the end of its thread; None waits without a limit."""
        if self.is_running:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(seconds)

    def _log_unforeseen(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error that no coroutine of the event loop has handled. asyncio calls the method.

        ``context`` is asyncio's description of the error, with its ``message`` and often its ``exception``. A
        BlockingIOError is ignored, which gRPC causes without consequence when a process has several servers.
        """
        error, message = context.get("exception"), printable(str(context.get("message")))
        if not isinstance(error, BlockingIOError):
            log.error("unforeseen error", message=message, error=repr(error))


async def accepted(listener: socket.socket) -> AsyncIterator[tuple[socket.socket, Any]]:
    """Accept the clients of a listening socket without end. Yield the socket of each client, and the client's address.

    An error is logged, but not more than one in ten seconds, and accepting goes on after a pause. When the process has
    no file descriptor left, clients wait in the listen queue. uvloop's own server would close their connections without
    an error.
    """
    loop, complaints = asyncio.get_running_loop(), Seldom()
    listener.setblocking(False)
    # The clients' sockets inherit these options. Keep-alive packets reveal clients that vanished without closing the
    # connection. TCP_NODELAY sends short answers at once.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while True:
        try:
            client, address = await loop.sock_accept(listener)
        except Exception as error:
            if complaints.fields() is not None:
                hint = "the process may need more file descriptors (ulimit -n)"
                log.error("console.not_accepted", reason=repr(error), hint=hint)
            await asyncio.sleep(_ACCEPT_AGAIN_SECONDS)
        else:
            yield client, address

"""The threads that answer gRPC calls.

gRPC hands each call to the executor in its serving loop. An exception there ends the loop, and then the process lives
and serves nobody. ThreadPoolExecutor raises one when the system refuses another thread. The executor of this module
never raises. It gives the call to a thread that refuses calls instead, and that is started with the executor.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import structlog

from dumpfilter.master.limits import Seldom

log = structlog.get_logger("dumpfilter.master")

_IDLE_SECONDS = 30.0
"""The time after which a thread without work ends, seconds."""

_Task = Callable[[], None]

_current = threading.local()


def refusal() -> str:
    """Return why the calls of the current thread must be refused, or an empty string."""
    return getattr(_current, "refusal", "")


class Handlers(Executor):
    """An executor with at most ``most`` threads, for ``grpc.server``.

    A call that finds no thread runs in a thread in which :func:`refusal` is not empty. There the call must end at once.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._refused: queue.SimpleQueue[tuple[str, _Task] | None] = queue.SimpleQueue()
        self._idle = 0
        """The threads that wait for work, less the tasks that wait for a thread."""
        self._threads = 0
        self._closed = False
        self._lock = threading.Lock()
        self._seldom = Seldom()
        threading.Thread(target=self._refuse, name="grpc-refusals", daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a call in a thread, and return the call's future. The method never raises."""
        future: Future[Any] = Future()

        def task() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        reason = self._give(task)
        if reason:
            held = self._seldom.allows()
            if held is not None:
                log.error("calls refused", reason=reason, threads=self._threads, refused_before=held)
            self._refused.put((reason, task))
        return future

    def _give(self, task: _Task) -> str:
        """Give a task to a thread, and return an empty string, or why no thread can take the task."""
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._tasks.put(task)
                return ""
            if self._threads >= self._most:
                return f"the master answers {self._most} calls at once, and so many are under way; try again later"
            try:
                threading.Thread(target=self._work, args=(task,), name="grpc-call", daemon=True).start()
            except (RuntimeError, MemoryError):
                return "the system gives the master no more threads or memory; try again later"
            self._threads += 1
            return ""

    def _work(self, task: _Task | None) -> None:
        while task is not None:
            task()
            # The finished task holds its request and response, which must not stay in memory while the thread waits.
            task = None
            with self._lock:
                if self._closed:
                    break
                self._idle += 1
            try:
                task = self._tasks.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    try:
                        task = self._tasks.get_nowait()
                    except queue.Empty:
                        self._idle -= 1
                        break
        with self._lock:
            self._threads -= 1

    def _refuse(self) -> None:
        while (one := self._refused.get()) is not None:
            _current.refusal, task = one
            task()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads that wait for work. The method does not wait for calls that are under way."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for _ in range(self._idle):
                self._tasks.put(None)
            self._idle = 0
        self._refused.put(None)

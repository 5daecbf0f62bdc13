"""The worker processes that run SELECTs for the consoles of this process, and the limits of their number.

:mod:`dumpfilter.sql.worker` says why SELECTs have processes of their own, and limits the memory of each. This module
starts workers, hands statements to them, and kills a worker that does not obey.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import multiprocessing
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import structlog

from dumpfilter.sql.result import Result, Table
from dumpfilter.sql.select import Environment
from dumpfilter.sql.server_errors import (
    ER_CANT_CREATE_THREAD,
    ER_OUT_OF_RESOURCES,
    ER_QUERY_INTERRUPTED,
    ER_QUERY_TIMEOUT,
    ER_STACK_OVERRUN_NEED_MORE,
    SqlError,
)
from dumpfilter.sql.worker import STOP_FORMAT, Answer, Request, TableFound, TableWanted

log = structlog.get_logger("dumpfilter.console")

MOST_WORKERS = 4
"""The number of SELECTs that run at a time. Another SELECT waits, and its waiting counts as its running time."""
MOST_PER_ACCOUNT = 3
"""The number of SELECTs of one account that run at a time, so that no account alone keeps the others waiting."""
RESERVED_WORKERS = 1
"""The number of SELECTs of administrators that run in addition, when all other workers are busy."""
MOST_SECONDS = 600.0
"""The longest time limit of a SELECT that a session can set by ``max_execution_time``, seconds."""

OBEY_SECONDS = 0.5
"""The time in which a worker must end an interrupted statement by itself. After it the worker is killed."""

_START_SECONDS = 30.0
_IDLE_WORKERS = 1
"""The number of workers that are kept for the next statement."""
_LONGEST_ANSWER = 256 << 20
_POLL_SECONDS = 0.05
_PROGRAM = "import sys; from dumpfilter.sql.worker import main; main(int(sys.argv[1]))"


class _Gone(Exception):
    """The signal that a worker has ended before its answer."""


class _Worker:
    """A worker process, from the side of the console."""

    def __init__(self) -> None:
        self.connection, theirs = multiprocessing.Pipe()
        parent = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, [parent, os.environ.get("PYTHONPATH", "")]))
        try:
            # -P keeps the current directory out of the module search path. A session of its own keeps Ctrl-C away.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, str(theirs.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )
        except OSError as error:
            self.connection.close()
            raise ER_CANT_CREATE_THREAD(error.errno or 0) from error
        finally:
            theirs.close()

    def interrupt(self, number: int) -> None:
        """Ask the worker to end the statement with this number."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            os.write(self._process.stdin.fileno(), struct.pack(STOP_FORMAT, number))

    def end(self) -> int:
        """Kill the process, and return its exit status. The status is negative if a signal has ended the process."""
        assert self._process.stdin is not None
        self.connection.close()
        # A worker that has ended by itself keeps its own exit status.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0)
        self._process.kill()
        self._process.stdin.close()
        return self._process.wait()


class Workers:
    """A pool of worker processes. Any thread can use the pool."""

    def __init__(
        self, most: int = MOST_WORKERS, per_account: int = MOST_PER_ACCOUNT, reserved: int = RESERVED_WORKERS
    ) -> None:
        self._most = most
        self._per_account = per_account
        self._reserved = reserved
        self._free = threading.Condition()
        self._running: Counter[str] = Counter()
        self._idle: list[_Worker] = []
        self._numbers = itertools.count(1)

    def select(
        self,
        text: str,
        environment: Environment,
        *,
        stop: threading.Event,
        seconds: float,
        account: str = "",
        privileged: bool = False,
    ) -> Result:
        """Run a SELECT in a worker process, and return its result.

        The parameters and errors are those of :func:`dumpfilter.sql.select.select`. ``account`` is the user for whom
        the statement runs, and ``privileged`` says whether it may use a reserved worker. Raises SqlError 1041 if the
        statement needs more memory than a worker may have. Raises SqlError 1135 if no process can be started.
        """
        deadline = time.monotonic() + min(seconds, MOST_SECONDS)
        with self._place(account, privileged, stop, deadline):
            worker = self._take()
            keep = False
            try:
                answer = _Statement(worker, next(self._numbers), stop, deadline).run(text, environment)
                keep = not answer.last
            except (_Gone, OSError, EOFError, pickle.UnpicklingError) as gone:
                raise _reason(worker.end(), stop, deadline) from gone
            finally:
                self._give_back(worker, keep=keep)
        if answer.error is not None:
            error = SqlError(*answer.error)
            # At the end of the time the worker is asked to stop, and then takes the time limit for an interruption.
            timed_out = error.number == ER_QUERY_INTERRUPTED.number and not stop.is_set()
            raise ER_QUERY_TIMEOUT() if timed_out else error
        assert answer.result is not None
        return answer.result

    def close(self) -> None:
        """End the idle workers."""
        with self._free:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()

    @contextmanager
    def _place(
        self, account: str, privileged: bool, stop: threading.Event, deadline: float
    ) -> Iterator[None]:
        most = self._most + self._reserved if privileged else self._most
        with self._free:
            while self._running.total() >= most or self._running[account] >= self._per_account:
                self._free.wait(_POLL_SECONDS)
                if stop.is_set():
                    raise ER_QUERY_INTERRUPTED()
                if time.monotonic() > deadline:
                    raise ER_QUERY_TIMEOUT()
            self._running[account] += 1
        try:
            yield
        finally:
            with self._free:
                self._running[account] -= 1
                self._running += Counter()
                self._free.notify_all()

    def _take(self) -> _Worker:
        with self._free:
            if self._idle:
                return self._idle.pop()
        return _Worker()

    def _give_back(self, worker: _Worker, *, keep: bool) -> None:
        if keep:
            with self._free:
                if len(self._idle) < _IDLE_WORKERS:
                    self._idle.append(worker)
                    return
        worker.end()


class _Statement:
    """The conversation with a worker about one statement."""

    def __init__(self, worker: _Worker, number: int, stop: threading.Event, deadline: float) -> None:
        self._worker = worker
        self._connection: Connection = worker.connection
        self._number = number
        self._stop = stop
        self._deadline = deadline

    def run(self, text: str, environment: Environment) -> Answer:
        """Return the worker's answer. Raises _Gone if the worker has died, or does not obey."""
        request = Request(
            self._number,
            text,
            max(0.0, self._deadline - time.monotonic()),
            environment.database,
            tuple(environment.schemas),
            dict(environment.variables),
            dict(environment.user_variables),
            dict(environment.functions),
        )
        self._connection.send(request)
        while True:
            self._await_message()
            message = pickle.loads(self._connection.recv_bytes(_LONGEST_ANSWER))
            if isinstance(message, Answer):
                return message
            assert isinstance(message, TableWanted)
            self._send_table(message, environment.find_table)

    def _send_table(self, wanted: TableWanted, find: Callable[[str, str], Table | None]) -> None:
        try:
            found = TableFound(find(wanted.schema, wanted.name))
        except BaseException:
            # The worker gives the statement up, and its answer makes the connection ready for the next statement.
            self._connection.send(TableFound(None, failed=True))
            self._connection.recv_bytes(_LONGEST_ANSWER)
            raise
        self._connection.send(found)

    def _await_message(self) -> None:
        """Wait for a message. After an interruption or the time limit, ask the worker to stop, and wait a bit more."""
        limit = None
        while not self._connection.poll(_POLL_SECONDS):
            now = time.monotonic()
            if limit is None and (self._stop.is_set() or now > self._deadline):
                self._worker.interrupt(self._number)
                limit = now + OBEY_SECONDS
            if limit is not None and now > limit:
                raise _Gone


def _reason(status: int, stop: threading.Event, deadline: float) -> SqlError:
    """Return the error for a statement whose worker has ended with this exit status."""
    if stop.is_set():
        return ER_QUERY_INTERRUPTED()
    if time.monotonic() > deadline or status == -signal.SIGXCPU:
        return ER_QUERY_TIMEOUT()
    log.warning("console.worker_died", status=status)
    return ER_STACK_OVERRUN_NEED_MORE() if status == -signal.SIGSEGV else ER_OUT_OF_RESOURCES()


shared_workers = Workers()
"""The workers of all consoles of this process. The first SELECT starts the first of them."""
atexit.register(shared_workers.close)

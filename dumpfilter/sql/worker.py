"""The program of a worker process, which runs clients' SELECTs one after another.

A SELECT of a hostile client can keep one call of C code busy for minutes, or need gigabytes in one call. No limit
inside the process ends such a call. Therefore SELECTs run in a process of their own, whose memory and processor time
the operating system limits, and which the console can kill. :mod:`dumpfilter.sql.worker_pool` has the console's side.

A worker ends as soon as its standard input ends, which happens when the console's process ends in any way.
"""

from __future__ import annotations

import os
import resource
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from dumpfilter.sql.result import Result, Table
from dumpfilter.sql.select import Environment, select
from dumpfilter.sql.server_errors import ER_OUT_OF_RESOURCES, SqlError

MEMORY = 256 << 20
"""The memory that a worker may have for its statement, bytes, in addition to the memory of the loaded program."""

STOP_FORMAT = "<Q"
"""The form of a message on the worker's standard input: the number of the statement to interrupt."""

_RESPITE_CPU_SECONDS = 5
"""The processor time that a worker may use beyond the time limit of its statement, seconds."""
_KEPT_MEMORY = MEMORY // 4
"""A worker whose program has grown by more bytes than this ends after its statement, and gives the memory back."""


@dataclass(frozen=True)
class Request:
    """A SELECT for a worker, with everything that it can read except tables."""

    number: int
    text: str
    seconds: float
    database: str | None
    schemas: Sequence[str]
    variables: Mapping[str, object]
    user_variables: Mapping[str, object]
    functions: Mapping[str, object]


@dataclass(frozen=True)
class TableWanted:
    """A worker's question for a table. The answer is a :class:`TableFound`."""

    schema: str
    name: str


@dataclass(frozen=True)
class TableFound:
    """The answer to :class:`TableWanted`."""

    table: Table | None
    failed: bool = False
    """Whether the search failed. The worker then gives the statement up, and the console reports the reason."""


@dataclass(frozen=True)
class Answer:
    """The end of a statement: its result, or the error that the client receives."""

    result: Result | None = None
    error: tuple[int, str, str] | None = None
    """Number, SQLSTATE and message of the error."""
    last: bool = False
    """Whether the worker ends after this answer."""


class _Abandoned(Exception):
    """The signal that the console has failed to find a table, and that the statement need not go on."""


class _Stopping:
    """The stop signal of the running statement, which a thread sets when the console asks for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._asked = 0
        self._event = threading.Event()

    def begin(self, number: int) -> threading.Event:
        """Return a new stop signal for the statement with this number."""
        with self._lock:
            self._number, self._event = number, threading.Event()
            if self._asked == number:
                self._event.set()
            return self._event

    def watch(self) -> None:
        """Read the numbers of statements to interrupt from the standard input, and end the process at its end."""
        size = struct.calcsize(STOP_FORMAT)
        while True:
            data = os.read(sys.stdin.fileno(), size)
            if len(data) < size:
                os._exit(0)
            with self._lock:
                (self._asked,) = struct.unpack(STOP_FORMAT, data)
                if self._asked == self._number:
                    self._event.set()


def main(descriptor: int) -> None:
    """Run the SELECTs that arrive on the socket with this descriptor, until the console closes the socket."""
    console = Connection(descriptor)
    stopping = _Stopping()
    threading.Thread(target=stopping.watch, name="stop", daemon=True).start()
    program = _address_space()
    if program:
        _limit(resource.RLIMIT_AS, program + MEMORY)
    while True:
        try:
            request: Request = console.recv()
        except (EOFError, OSError):
            return
        _limit_processor_time(request.seconds)
        answer = _run(console, request, stopping.begin(request.number))
        last = _address_space() > program + _KEPT_MEMORY
        try:
            console.send(Answer(answer.result, answer.error, last))
        except MemoryError:
            console.send(Answer(error=_as_values(ER_OUT_OF_RESOURCES()), last=True))
        if last:
            return


def _run(console: Connection, request: Request, stop: threading.Event) -> Answer:
    def find(schema: str, name: str) -> Table | None:
        console.send(TableWanted(schema, name))
        found: TableFound = console.recv()
        if found.failed:
            raise _Abandoned
        return found.table

    environment = Environment(
        find,
        request.schemas,
        request.database,
        request.variables,
        request.user_variables,
        request.functions,
    )
    try:
        return Answer(select(request.text, environment, stop=stop, seconds=request.seconds))
    except SqlError as error:
        return Answer(error=_as_values(error))
    except _Abandoned:
        return Answer()
    except MemoryError:
        return Answer(error=_as_values(ER_OUT_OF_RESOURCES()))


def _as_values(error: SqlError) -> tuple[int, str, str]:
    return error.number, error.sqlstate, error.message


def _address_space() -> int:
    """Return the size of the process's address space, or 0 on a system that does not tell it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError):
        return 0
    return pages * resource.getpagesize()


def _limit_processor_time(seconds: float) -> None:
    """Let the system kill this process when a statement uses more processor time than it may take.

    This limit holds even if nobody is left who could kill the worker.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + seconds) + _RESPITE_CPU_SECONDS)


def _limit(kind: int, value: int) -> None:
    _, most = resource.getrlimit(kind)
    resource.setrlimit(kind, (value if most == resource.RLIM_INFINITY else min(value, most), most))

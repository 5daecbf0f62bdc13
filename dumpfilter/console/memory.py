"""The limits of the memory that clients make a console hold: for one client, and for all of them together."""

from __future__ import annotations

import datetime
import threading

from dumpfilter.console.sql.result import Result
from dumpfilter.console.sql.server_errors import ER_OUT_OF_CONSOLE_MEMORY, SqlError

MIB = 1 << 20

CLIENT_MEMORY = 4 * MIB
"""The limit of what one client keeps on a console between its statements: prepared statements and user
variables; bytes.
"""
CONSOLE_MEMORY = 64 * MIB
"""The limit of the same for all clients of a console together, bytes, with the statements that are being received."""
RESULT_MEMORY = 128 * MIB
"""The limit of all results that a console has and that its clients have not read yet, bytes."""

_ROW_SIZE = 64
_VALUE_SIZE = 40
_REST_OF_TEXT = 49


class Memory:
    """A limit on the sum of what several holders hold. Any thread can use it."""

    def __init__(self, most: int, what: str, *, advice: str = "try again later, or with less") -> None:
        self.most = most
        self._refusal = f"{what} may have {most >> 20} MiB; {advice}"
        self._held = 0
        self._lock = threading.Lock()

    @property
    def held(self) -> int:
        return self._held

    def take(self, size: int) -> None:
        """Count ``size`` bytes more as held. Raises SqlError 1041 if the sum would exceed the limit."""
        with self._lock:
            if self._held + size > self.most:
                raise ER_OUT_OF_CONSOLE_MEMORY(self._refusal)
            self._held += size

    def give_back(self, size: int) -> None:
        with self._lock:
            self._held -= size


class Share(Memory):
    """The part of a :class:`Memory` that one client holds, with a limit of its own."""

    def __init__(self, memory: Memory, most: int = CLIENT_MEMORY) -> None:
        what = "prepared statements and variables of a connection"
        super().__init__(most, what, advice="close statements, or reconnect")
        self._memory = memory

    def take(self, size: int) -> None:
        """Count ``size`` bytes more as held. Raises SqlError 1041 if this client or all clients hold too much."""
        super().take(size)
        try:
            self._memory.take(size)
        except SqlError:
            super().give_back(size)
            raise

    def give_back(self, size: int) -> None:
        super().give_back(size)
        self._memory.give_back(size)

    def close(self) -> None:
        """Give everything back, when the client leaves."""
        self.give_back(self.held)


def size_of(result: Result) -> int:
    """Return about how many bytes of memory a result has."""
    return sum(_ROW_SIZE + sum(map(_size_of_value, row)) for row in result.rows)


def _size_of_value(value: object) -> int:
    if isinstance(value, str):
        # Python keeps a text with 1, 2 or 4 bytes for each character.
        return _REST_OF_TEXT + len(value) * (1 if value.isascii() else 4)
    if isinstance(value, bytes):
        return _REST_OF_TEXT + len(value)
    return _VALUE_SIZE if not isinstance(value, datetime.datetime) else 2 * _VALUE_SIZE

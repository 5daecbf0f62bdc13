"""The limits of the memory that clients can make a console use: for one client, and for all of them together."""

from __future__ import annotations

import datetime
import threading

from dumpfilter.console.sql.result import Result
from dumpfilter.console.sql.server_errors import ER_OUT_OF_CONSOLE_MEMORY

MIB = 1 << 20

CLIENT_MEMORY = 4 * MIB
"""The limit of one client's memory between its statements (prepared statements and user variables), bytes."""
CONSOLE_MEMORY = 64 * MIB
"""The limit of the memory between statements of all clients together, bytes. Statements being received count, too."""
RESULT_MEMORY = 128 * MIB
"""The limit of the memory of all results that clients have not read completely yet, bytes."""
RESULT_SHARE = 0.75
"""The part of this limit that the results of one user may take, so that nobody keeps other users from results."""

_ROW_SIZE = 64
_VALUE_SIZE = 40
_REST_OF_TEXT = 49


class Memory:
    """A counter of reserved memory with a limit. It counts for one client, one user, or all of them together.

    ``most`` is the limit in bytes. ``what`` (the use of the memory) and ``advice`` are parts of the error's text.
    ``within`` is the counter for all clients, in which each reservation counts, too. Any thread may call the methods.
    """

    def __init__(
        self,
        most: int,
        what: str,
        *,
        advice: str = "try again later, or with less",
        within: Memory | None = None,
    ) -> None:
        self.most = most
        self._refusal = f"{what} may have {most >> 20} MiB; {advice}"
        self._within = within
        self._held = 0
        self._lock = threading.RLock()

    @property
    def held(self) -> int:
        return self._held

    def take(self, size: int) -> None:
        """Count ``size`` bytes as reserved. Raises SqlError 1041 if the limit of this counter or of all clients would
        be exceeded.

        After :meth:`close` every reservation raises this error.
        """
        with self._lock:
            if self._held + size > self.most:
                raise ER_OUT_OF_CONSOLE_MEMORY(self._refusal)
            if self._within is not None:
                self._within.take(size)
            self._held += size

    def give_back(self, size: int) -> None:
        with self._lock:
            size = min(size, self._held)
            self._held -= size
            if self._within is not None:
                self._within.give_back(size)

    def close(self) -> None:
        """Release all reserved bytes of a client that has left.

        A statement of this client may still run. Its reservations raise SqlError 1041 from now on.
        """
        with self._lock:
            self.most = 0
            self.give_back(self._held)


def size_of(result: Result) -> int:
    """Return the approximate memory that the rows of a result take, bytes."""
    return sum(_ROW_SIZE + sum(map(_size_of_value, row)) for row in result.rows)


def _size_of_value(value: object) -> int:
    if isinstance(value, str):
        # Python keeps a text with 1, 2 or 4 bytes for each character.
        return _REST_OF_TEXT + len(value) * (1 if value.isascii() else 4)
    if isinstance(value, bytes):
        return _REST_OF_TEXT + len(value)
    return _VALUE_SIZE if not isinstance(value, datetime.datetime) else 2 * _VALUE_SIZE

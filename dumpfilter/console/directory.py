"""The list of a process's client connections, over all ports that speak MySQL's client protocol.

A server has one list of connections, whose numbers SHOW PROCESSLIST shows and KILL takes. A master may have two ports
for such connections, and their numbers come from one sequence.
"""

from __future__ import annotations

import itertools
import threading
from typing import Protocol

ProcessRow = tuple[int, str, str, str | None, str, int, str, str | None]
"""A row of SHOW PROCESSLIST: Id, User, Host, db, Command, Time, State, Info."""


class Processes(Protocol):
    """Connections that a client may list and end: those of one port, or of all. Any thread may call the methods."""

    def processes(self) -> list[ProcessRow]:
        """Return the rows of SHOW PROCESSLIST, one for each connection."""
        ...

    def kill(self, number: int, *, query_only: bool) -> bool:
        """Close a connection, or only interrupt its statement. Return False if there is no such connection."""
        ...

    def user_of(self, number: int) -> str | None:
        """Return the user of a connection, or None if there is no such connection or nobody has logged in on it."""
        ...


class ConnectionDirectory:
    """The connections of a process's ports, with numbers that are unique over all ports. Thread-safe."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._ports: tuple[Processes, ...] = ()

    def add(self, port: Processes) -> None:
        """List the connections of another port from now on."""
        with self._lock:
            self._ports = (*self._ports, port)

    def remove(self, port: Processes) -> None:
        """Stop listing a port's connections."""
        with self._lock:
            self._ports = tuple(other for other in self._ports if other is not port)

    def next_number(self) -> int:
        """Return the number of a new connection."""
        return next(self._numbers)

    def processes(self) -> list[ProcessRow]:
        return sorted((row for port in self._ports for row in port.processes()), key=lambda row: row[0])

    def kill(self, number: int, *, query_only: bool) -> bool:
        return any(port.kill(number, query_only=query_only) for port in self._ports)

    def user_of(self, number: int) -> str | None:
        found = (port.user_of(number) for port in self._ports)
        return next((user for user in found if user is not None), None)

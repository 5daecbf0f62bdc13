"""The list of a process's client connections, over all ports that speak MySQL's client protocol.

A server has one list of connections, whose numbers SHOW PROCESSLIST shows and KILL takes. A master may have two ports
for such connections, and their numbers come from one sequence.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Protocol

ProcessRow = tuple[int, str, str, str | None, str, int, str, str | None]
"""A row of SHOW PROCESSLIST: Id, User, Host, db, Command, Time, State, Info."""


class ListedPort(Protocol):
    """A port whose connections are in a directory. Any thread may call the methods."""

    def rows(self) -> Sequence[ProcessRow]:
        """Return the rows of SHOW PROCESSLIST for the port's connections."""
        ...

    def end(self, number: int, *, query_only: bool) -> bool:
        """Close a connection, or only interrupt its statement. Return False if the port has no such connection."""
        ...

    def account_of(self, number: int) -> str | None:
        """Return the user of a connection, or None if nobody has logged in on a connection with this number."""
        ...


class ConnectionDirectory:
    """The connections of a process's ports, with numbers that are unique over all ports. Thread-safe."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._ports: tuple[ListedPort, ...] = ()

    def add(self, port: ListedPort) -> None:
        """List the connections of another port from now on."""
        with self._lock:
            self._ports = (*self._ports, port)

    def remove(self, port: ListedPort) -> None:
        """Stop listing a port's connections."""
        with self._lock:
            self._ports = tuple(other for other in self._ports if other is not port)

    def next_number(self) -> int:
        """Return the number of a new connection."""
        return next(self._numbers)

    def processes(self) -> list[ProcessRow]:
        """Return the rows of SHOW PROCESSLIST for all connections."""
        return sorted((row for port in self._ports for row in port.rows()), key=lambda row: row[0])

    def kill(self, number: int, *, query_only: bool) -> bool:
        """Close a connection, or only interrupt its statement. Return False if there is no such connection."""
        return any(port.end(number, query_only=query_only) for port in self._ports)

    def user_of(self, number: int) -> str | None:
        """Return the user of a connection, or None if there is no such connection or nobody has logged in on it."""
        found = (port.account_of(number) for port in self._ports)
        return next((user for user in found if user is not None), None)

"""The registries of client connections that SHOW PROCESSLIST lists and KILL ends.

A server has one list of connections with their numbers. A master may have two ports for MySQL clients, and their
numbers come from one sequence.
"""

from __future__ import annotations

import itertools
from typing import Any

ProcessRow = tuple[int, str, str, str | None, str, int, str, str | None]
"""A row of SHOW PROCESSLIST: Id, User, Host, db, Command, Time, State, Info."""


class Connections:
    """The registry of the open client connections of one port, or of all ports, by connection number. Any thread may
    call the methods.
    """

    def __init__(self) -> None:
        self.clients: dict[int, Any] = {}
        """The connections by number, each a :class:`~dumpfilter.console.connection.Connection`."""

    def processes(self) -> list[ProcessRow]:
        """Return the rows of SHOW PROCESSLIST in the order of the connections' numbers."""
        return [client.row() for _, client in sorted(self.clients.copy().items())]

    def kill(self, number: int, *, query_only: bool) -> bool:
        """Close the connection ``number``, or with ``query_only`` only interrupt its statement.

        Returns False if no connection has this number.
        """
        client = self.clients.get(number)
        if client is not None:
            client.end(query_only=query_only)
        return client is not None

    def user_of(self, number: int) -> str | None:
        """Return the user of the connection ``number``.

        The result is None if the connection does not exist, or if nobody has logged in on it.
        """
        client = self.clients.get(number)
        user: str | None = client.user if client else None
        return user


class ConnectionDirectory(Connections):
    """The registry of the client connections of all ports of a process, with numbers that are unique over all ports."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count(1)

    def next_number(self) -> int:
        """Return a new connection number (connection id), unique in the process."""
        return next(self._numbers)

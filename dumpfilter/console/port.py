"""A port for MySQL clients in an asyncio loop: it accepts clients, bounds their number, and lists their connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from dumpfilter.base.security.listening import listening_error, reason_not_to_listen
from dumpfilter.base.security.passwords import ConsolePassword
from dumpfilter.console import answers
from dumpfilter.console.auth import Accounts
from dumpfilter.console.connection import Connection
from dumpfilter.console.directory import ConnectionDirectory, ProcessRow
from dumpfilter.console.login import Doorkeeper, Greeting, PortSettings
from dumpfilter.console.login_turns import LoginTurns
from dumpfilter.console.masking import without_passwords
from dumpfilter.console.sql.server_errors import ER_CON_COUNT_ERROR, SqlError
from dumpfilter.console.wire import ClientGone, PacketStream

log = structlog.get_logger("dumpfilter.console")

RESERVED_CONNECTIONS = 2
"""The number of connections beyond the limit that administrators may open.

A server reserves one connection for administrators in the same way (``max_connections + 1``).
"""

MAX_UNAUTHENTICATED = 64
"""The limit of the number of clients that have connected and not logged in yet.

For a further client, the port closes the connection that has waited longest, among those of the address with the
most such connections. So silent connections lock nobody out.
"""

_BACKLOG = 128


@dataclass(frozen=True)
class _Client:
    connection: Connection
    task: asyncio.Task[None]
    since: float


class ClientPort:
    """A port for MySQL clients in an asyncio loop.

    ``greeting`` returns what the port says of itself to the next client, or raises SqlError with the error that the
    client gets instead. ``connect`` makes the connection of a client,
    from the client's packets and its login. ``is_admin`` tells whether a user may open a reserved connection. The port
    lists its connections in ``directory`` while it is open.

    Any thread may call :meth:`change_users` and the methods of :class:`~dumpfilter.console.directory.Processes`.
    """

    def __init__(
        self,
        settings: PortSettings,
        accounts: Accounts,
        directory: ConnectionDirectory,
        *,
        greeting: Callable[[], Greeting],
        connect: Callable[[PacketStream, Doorkeeper], Connection],
        is_admin: Callable[[str], bool] = lambda user: False,
    ) -> None:
        self._settings = settings
        self._accounts = accounts
        self._directory = directory
        self._greeting = greeting
        self._connect = connect
        self._is_admin = is_admin
        self._turns = LoginTurns(settings.denial_seconds)
        self._started = time.monotonic()
        self._clients: dict[int, _Client] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: asyncio.Server | None = None

    def status(self) -> dict[str, int]:
        """Return the status variables Threads_connected, Threads_running and Uptime (seconds) by name."""
        connections = self.connections
        return {
            "Threads_connected": len(connections),
            "Threads_running": sum(connection.running is not None for connection in connections),
            "Uptime": int(time.monotonic() - self._started),
        }

    async def open(self, listener: socket.socket) -> None:
        """Begin to accept clients from a listening socket, which belongs to the port from now on."""
        self._loop = asyncio.get_running_loop()
        self._server = await asyncio.start_server(self._accept, sock=listener)
        self._directory.add(self)

    async def close(self) -> None:
        """Stop listening, close every client's connection, and interrupt the running statements."""
        if self._server is None:
            return
        self._server.close()
        tasks = [client.task for client in self._clients.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._directory.remove(self)

    @property
    def connections(self) -> list[Connection]:
        """The connections of the port's clients, also of those who have not logged in yet."""
        return [client.connection for client in self._clients.copy().values()]

    def processes(self) -> list[ProcessRow]:
        """Return the rows of SHOW PROCESSLIST for the port's connections.

        The columns are Id, User, Host, db, Command, Time (seconds since the connection was made), State and Info.
        """
        now = time.monotonic()
        rows = []
        for number, client in self._clients.copy().items():
            connection = client.connection
            session, doing = connection.session, connection.doing
            rows.append(
                (
                    number,
                    session.user if session else "unauthenticated user",
                    connection.peer,
                    session.database if session else None,
                    doing.command,
                    int(now - client.since),
                    doing.state,
                    None if doing.info is None else without_passwords(doing.info, len(doing.info)),
                )
            )
        return rows

    def kill(self, number: int, *, query_only: bool) -> bool:
        """Close a client's connection, or only interrupt its running statement if ``query_only`` is true.

        Returns False if the port has no such connection.
        """
        client = self._clients.get(number)
        if client is None or self._loop is None:
            return False
        end = client.connection.kill_query if query_only else client.task.cancel
        self._loop.call_soon_threadsafe(end)
        return True

    def user_of(self, number: int) -> str | None:
        """Return the user of a connection, or None if there is no such connection or its client is not logged in."""
        client = self._clients.get(number)
        session = client.connection.session if client else None
        return session.user if session else None

    def change_users(self, users: Mapping[str, ConsolePassword]) -> None:
        """Replace the users who may log in.

        The connections of users who are gone, or who have another password now, are closed.
        """
        changed = self._accounts.change(users)
        for number in self._clients.copy():
            if self.user_of(number) in changed:
                self.kill(number, query_only=False)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self._directory.next_number()
        address = writer.get_extra_info("peername")
        _set_up(writer)
        stream = PacketStream(reader, writer)
        try:
            task = asyncio.current_task()
            assert task is not None
            door = Doorkeeper(
                stream,
                self._settings,
                self._accounts,
                self._greeting(),
                self._turns,
                connection_id=number,
                address=address[0] if address else "",
            )
            connection = self._connect(stream, door)
            self._make_room()
            self._clients[number] = _Client(connection, task, time.monotonic())
            await connection.serve()
        except SqlError as error:
            # The port cannot serve anybody at present. A replica logs the error and connects again.
            with contextlib.suppress(ClientGone, OSError):
                await stream.send(answers.early_error(error))
        except (ClientGone, asyncio.CancelledError):
            # KILL and the end of the server cancel this task, which is no error.
            pass
        finally:
            self._clients.pop(number, None)
            await stream.close()

    def _make_room(self) -> None:
        """Close the connection of a client that has not logged in, if there are too many of them."""
        waiting = [
            (number, client) for number, client in self._clients.items() if client.connection.session is None
        ]
        waiting = [(number, client) for number, client in waiting if not client.task.cancelling()]
        if len(waiting) < MAX_UNAUTHENTICATED:
            return
        peers = Counter(client.connection.peer for _, client in waiting)
        (crowd, _), *_ = peers.most_common(1)
        number, oldest = next((n, client) for n, client in waiting if client.connection.peer == crowd)
        log.warning("client.too_many_logins", port=self._settings.name, connection=number, peer=crowd)
        oldest.task.cancel()

    def admit(self, number: int, user: str) -> None:
        """Raise SqlError 1040 if the user who has just logged in would be one connection too many."""
        others = sum(
            client.connection.session is not None for n, client in self._clients.items() if n != number
        )
        reserved = RESERVED_CONNECTIONS if self._is_admin(user) else 0
        if others >= self._settings.max_connections + reserved:
            log.warning("client.too_many_connections", port=self._settings.name, user=user, others=others)
            raise ER_CON_COUNT_ERROR()


def listening_socket(what: str, host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address. ``what`` names the server in the error.

    Raises OptionError, such as PortTaken, if the address cannot be listened on.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = reason_not_to_listen(error)
        raise listening_error(
            f"{what} cannot listen on {host}:{port}: {reason}; choose another port or address", reason
        ) from error


def _set_up(writer: asyncio.StreamWriter) -> None:
    # Keep-alive packets reveal clients that vanished without closing the connection.
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # TCP_NODELAY sends short answers at once. asyncio sets the option only for sockets that name their protocol.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

"""A port for MySQL clients in an asyncio loop: it accepts clients, limits their number, and lists their connections."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping

import structlog

from dumpfilter.base.security.listening import CANNOT_LISTEN, listening_error, reason_not_to_listen
from dumpfilter.base.security.passwords import StoredPassword
from dumpfilter.console import answers
from dumpfilter.console.auth import Accounts
from dumpfilter.console.connection import Connection
from dumpfilter.console.directory import ConnectionDirectory, Connections
from dumpfilter.console.login import Doorkeeper, Greeting, PortSettings
from dumpfilter.console.login_turns import LoginTurns
from dumpfilter.console.sql.server_errors import ER_CON_COUNT_ERROR, SqlError
from dumpfilter.console.wire import ClientGone, ClientReader, PacketStream

log = structlog.get_logger("dumpfilter.console")

RESERVED_CONNECTIONS = 2
"""The number of connections beyond the limit of connections that administrators may open.

A server reserves one connection for administrators in the same way (``max_connections + 1``).
"""

MAX_UNAUTHENTICATED = 64
"""The limit of the number of clients that have connected and not logged in yet.

For a further client, the port closes the connection that has waited longest, among those of the address with the
most such connections. So silent connections lock nobody out.
"""

_BACKLOG = 128


class ClientPort(Connections):
    """A port for MySQL clients in an asyncio loop.

    Any thread may call :meth:`change_users` and the methods of :class:`~dumpfilter.console.directory.Connections`.

    Parameters:
        settings: name, TLS and limits of the port.
        accounts: the users who may log in.
        directory: the registry of all connections of the process, to which the port adds its connections.
        greeting: returns the greeting for the next client. May raise SqlError, which the client gets instead.
        connect: makes the connection of a client, from the client's packet stream and its login.
        is_admin: tells whether a user may open a reserved connection.
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
        super().__init__()
        self._settings = settings
        self._accounts = accounts
        self._directory = directory
        self._greeting = greeting
        self._connect = connect
        self._is_admin = is_admin
        self._turns = LoginTurns(settings.denial_seconds)
        self._started = time.monotonic()
        self._server: asyncio.Server | None = None

    def status(self) -> dict[str, int]:
        """Return the status variables Threads_connected, Threads_running and Uptime (seconds) by name."""
        clients = self.clients.copy().values()
        return {
            "Threads_connected": len(clients),
            "Threads_running": sum(client.running is not None for client in clients),
            "Uptime": int(time.monotonic() - self._started),
        }

    async def open(self, listener: socket.socket) -> None:
        """Accept clients from a listening socket from now on. The port owns the socket, and closes it."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: asyncio.StreamReaderProtocol(ClientReader(), self._accept), sock=listener
        )

    async def close(self) -> None:
        """Stop listening, close every client's connection, and interrupt the running statements."""
        if self._server is None:
            return
        self._server.close()
        tasks = [client.task for client in self.clients.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def change_users(self, users: Mapping[str, StoredPassword]) -> None:
        """Replace the users who may log in.

        The connections of users who are gone, or who have another password now, are closed.
        """
        changed = self._accounts.change(users)

        def end(client: Connection) -> None:
            if client.user in changed:
                client.task.cancel()

        # In the loop no login stands between the check of the old password and its session.
        for client in self.clients.copy().values():
            client.task.get_loop().call_soon_threadsafe(end, client)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(reader, ClientReader)
        number = self._directory.next_number()
        address = writer.get_extra_info("peername")
        _set_up(writer)
        stream = PacketStream(reader, writer)
        try:
            door = Doorkeeper(
                stream,
                self._settings,
                self._accounts,
                self._greeting(),
                self._turns,
                connection_id=number,
                address=address[0] if address else "",
                admit=functools.partial(self._admit, number),
            )
            connection = self._connect(stream, door)
            self._make_room()
            self.clients[number] = self._directory.clients[number] = connection
            await connection.serve()
        except SqlError as error:
            # The port cannot serve anybody at present. A replica logs the error and connects again.
            with contextlib.suppress(ClientGone, OSError):
                await stream.send(answers.early_error(error))
        except (ClientGone, asyncio.CancelledError):
            # KILL and the end of the server cancel this task, which is no error.
            pass
        finally:
            self.clients.pop(number, None)
            self._directory.clients.pop(number, None)
            await stream.close()

    def _make_room(self) -> None:
        """Close one connection without a login if there are too many of them (see :data:`MAX_UNAUTHENTICATED`)."""
        waiting = [
            client
            for client in self.clients.values()
            if client.session is None and not client.task.cancelling()
        ]
        if len(waiting) < MAX_UNAUTHENTICATED:
            return
        ((crowd, _),) = Counter(client.peer for client in waiting).most_common(1)
        oldest = next(client for client in waiting if client.peer == crowd)
        number = oldest.id
        log.warning("client.too_many_logins", port=self._settings.name, connection=number, peer=crowd)
        oldest.task.cancel()

    def _admit(self, number: int, user: str) -> None:
        """Raise SqlError 1040 if the port has reached its limit of connections for a user who has just logged in.

        ``number`` is the connection id of this user's connection.
        """
        others = sum(client.session is not None for n, client in self.clients.items() if n != number)
        reserved = RESERVED_CONNECTIONS if self._is_admin(user) else 0
        if others >= self._settings.max_connections + reserved:
            log.warning("client.too_many_connections", port=self._settings.name, user=user, others=others)
            raise ER_CON_COUNT_ERROR()


def listening_socket(what: str, host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address. ``what`` is the name of the listening program in errors.

    Raises OptionError, such as PortTaken, if the address cannot be listened on.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except CANNOT_LISTEN as error:
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

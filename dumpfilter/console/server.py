"""The server behind a console's port: it accepts MySQL clients and keeps the list of their connections."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import structlog

from dumpfilter.console.auth import Accounts, new_nonce
from dumpfilter.console.connection import Connection, Limits
from dumpfilter.console.executor import Executor
from dumpfilter.console.login import Doorkeeper
from dumpfilter.console.login_turns import LoginTurns
from dumpfilter.console.masking import without_passwords
from dumpfilter.console.roles import Role
from dumpfilter.console.session import Session
from dumpfilter.console.wire import ClientGone, PacketStream
from dumpfilter.errors import OptionError
from dumpfilter.security.exposure import is_loopback
from dumpfilter.security.passwords import ConsolePassword
from dumpfilter.security.tls import TlsSource, temporary_tls
from dumpfilter.sql.server_errors import ER_CON_COUNT_ERROR

log = structlog.get_logger("dumpfilter.console")

DEFAULT_MAX_CONNECTIONS = 151
"""The limit of the number of connected clients, which is the default of a server's ``max_connections``."""

DEFAULT_DENIAL_SECONDS = 1.0
"""The time that a client with a wrong password waits for its error, seconds."""

RESERVED_CONNECTIONS = 2
"""The number of connections beyond the limit that users with the role ``all`` may open.

A server reserves one connection for administrators in the same way (``max_connections + 1``).
"""

MAX_UNAUTHENTICATED = 64
"""The limit of the number of clients that have connected and not logged in yet.

For a further client, the console closes the connection that has waited longest, among those of the address with the
most such connections. So silent connections lock nobody out.
"""

_STOP_SECONDS = 10.0
_ACCEPT_COMPLAINT_SECONDS = 60.0


@dataclass(frozen=True)
class _Client:
    connection: Connection
    task: asyncio.Task[None]
    since: float


class ConsoleServer:
    """The server of a console: it speaks MySQL's client protocol on a TCP port, in a thread of its own.

    ``executor`` is the master or slave that carries out the clients' commands. ``users`` has a password for each user
    name (a text is a password in the clear), and without users nobody can log in. ``roles`` has the role of each user,
    and a user without an entry has the role ``read``. Without ``roles``, every user has the role ``all``. With ``port``
    0, the operating system chooses a free port. Without ``tls``, the server makes a temporary self-signed certificate.
    With ``demand_tls``, clients on other machines must use TLS. The method ``start`` or a ``with`` statement starts the
    server.
    """

    def __init__(
        self,
        executor: Executor,
        host: str = "127.0.0.1",
        port: int = 0,
        users: Mapping[str, str | ConsolePassword] | None = None,
        *,
        roles: Mapping[str, Role] | None = None,
        tls: TlsSource | None = None,
        demand_tls: bool = True,
        max_connections: int = DEFAULT_MAX_CONNECTIONS,
        denial_seconds: float = DEFAULT_DENIAL_SECONDS,
    ) -> None:
        self.host = host
        self.port = port
        """The TCP port. If 0 was given, the attribute has the chosen port after the start."""
        self._executor = executor
        self._accounts = Accounts(users or {})
        self._roles = None if roles is None else dict(roles)
        self._limits = Limits()
        self._complained = -_ACCEPT_COMPLAINT_SECONDS
        self._tls: TlsSource = tls or temporary_tls(host)
        self._demand_tls = demand_tls
        self._max_connections = max_connections
        self._denial_seconds = denial_seconds
        self._turns = LoginTurns(denial_seconds)
        self._clients: dict[int, _Client] = {}
        self._numbers = itertools.count(1)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._stopping: asyncio.Event | None = None
        self._started = time.monotonic()
        self._statements = itertools.count()

    def start(self) -> ConsoleServer:
        """Start the thread that accepts clients, and return the server itself.

        Clients can connect when the method returns. Raises OptionError if the address cannot be listened on.
        """
        try:
            family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
            listener = socket.create_server((self.host, self.port), family=family, backlog=128)
        except OSError as error:
            raise OptionError(
                f"the console cannot listen on {self.host}:{self.port}: {error.strerror or error}"
            ) from error
        self.port = listener.getsockname()[1]
        # The pool has two threads for each connection. An interrupted statement may hold its thread for a while,
        # and the client can already send the next statement.
        self._pool = ThreadPoolExecutor(2 * self._max_connections, "console-statement")
        ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(listener, ready)), name="console", daemon=True
        )
        self._thread.start()
        ready.wait()
        log.info("console.listening", host=self.host, port=self.port)
        for user in sorted(user for user, password in self._accounts.users.items() if password.is_empty):
            log.info(
                "console.no_password",
                user=user,
                hint="MariaDB's clients since 11.4 verify a self-signed certificate by the password",
            )
        return self

    def stop(self) -> None:
        """Stop listening, close every client's connection, and interrupt the running statements."""
        if self._loop and self._thread and self._stopping and self._pool:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(_STOP_SECONDS)
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._thread = None

    def __enter__(self) -> ConsoleServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def kill(self, connection_id: int, *, query_only: bool) -> bool:
        """Close a client's connection, or only interrupt its running statement if ``query_only`` is true.

        Returns False if there is no such connection. Any thread can call this method.
        """
        client = self._clients.get(connection_id)
        if client is None or self._loop is None:
            return False
        end = client.connection.kill_query if query_only else client.task.cancel
        self._loop.call_soon_threadsafe(end)
        return True

    def change_users(
        self, users: Mapping[str, ConsolePassword], roles: Mapping[str, Role] | None = None
    ) -> None:
        """Replace the users who may log in, and their roles. Any thread can call this method.

        The connections of users who are gone, or who have another password now, are closed. A changed role takes effect
        at the user's next statement.
        """
        self._roles = None if roles is None else dict(roles)
        changed = self._accounts.change(users)
        for number, client in self._clients.copy().items():
            session = client.connection.session
            if session is not None and session.user in changed:
                self.kill(number, query_only=False)

    def processes(self) -> list[tuple[int, str, str, str | None, str, int, str, str | None]]:
        """Return the rows of SHOW PROCESSLIST, one for each connection.

        The columns are Id, User, Host, db, Command, Time (seconds since the connection was made), State and Info.
        """
        now = time.monotonic()
        rows = []
        for number, client in sorted(self._clients.copy().items()):
            connection = client.connection
            session, running = connection.session, connection.running
            rows.append(
                (
                    number,
                    session.user if session else "unauthenticated user",
                    connection.peer,
                    session.database if session else None,
                    "Query" if running else "Sleep" if session else "Connect",
                    int(now - client.since),
                    "executing" if running else "",
                    None if running is None else without_passwords(running, len(running)),
                )
            )
        return rows

    def user_of(self, connection_id: int) -> str | None:
        """Return the user of a connection, or None if there is no such connection or its client is not logged in."""
        client = self._clients.get(connection_id)
        session = client.connection.session if client else None
        return session.user if session else None

    def role_of(self, user: str) -> Role:
        """Return the present role of a user."""
        return Role.ALL if self._roles is None else self._roles.get(user, Role.READ)

    def status(self) -> dict[str, int]:
        """Return the status variables Threads_connected, Threads_running and Uptime (seconds) by name."""
        clients = self._clients.copy().values()
        return {
            "Threads_connected": len(clients),
            "Threads_running": sum(client.connection.running is not None for client in clients),
            "Uptime": int(time.monotonic() - self._started),
        }

    async def _serve(self, listener: socket.socket, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._on_loop_error)
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(self._accept, sock=listener)
        ready.set()
        await self._stopping.wait()
        server.close()
        tasks = [client.task for client in self._clients.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = next(self._numbers)
        assert self._pool is not None
        address = writer.get_extra_info("peername")
        _set_up(writer)
        stream = PacketStream(reader, writer)
        door = Doorkeeper(
            stream,
            connection_id=number,
            peer=_account_host(address[0] if address else ""),
            accounts=self._accounts,
            server_version=str(self._executor.variables().get("version", "8.0.0-dumpfilter")),
            tls=self._tls.current(),
            demands_tls=self._demand_tls and not (address and is_loopback(address[0])),
            nonce=new_nonce(),
            turns=self._turns,
            denial_seconds=self._denial_seconds,
        )
        connection = Connection(
            stream,
            door,
            pool=self._pool,
            admit=functools.partial(self._admit, number),
            open_session=functools.partial(Session, self._executor, self),
            limits=self._limits,
        )
        try:
            task = asyncio.current_task()
            assert task is not None
            self._make_room()
            self._clients[number] = _Client(connection, task, time.monotonic())
            await connection.serve()
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
        log.warning("console.too_many_logins", connection=number, peer=crowd)
        oldest.task.cancel()

    def _admit(self, number: int, user: str) -> None:
        """Raise SqlError 1040 if the user who has just logged in would be one connection too many."""
        others = sum(
            client.connection.session is not None for n, client in self._clients.items() if n != number
        )
        reserved = RESERVED_CONNECTIONS if self.role_of(user).includes(Role.ALL) else 0
        if others >= self._max_connections + reserved:
            log.warning("console.too_many_connections", user=user, others=others)
            raise ER_CON_COUNT_ERROR()

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log that a client could not be accepted, for example without free file descriptors, once a minute."""
        now = time.monotonic()
        if now - self._complained < _ACCEPT_COMPLAINT_SECONDS:
            return
        self._complained = now
        reason = context.get("exception") or context.get("message")
        log.error(
            "console.not_accepted",
            reason=str(reason),
            hint="the process may need more file descriptors (ulimit -n)",
        )


def _account_host(address: str) -> str:
    return "localhost" if address in ("127.0.0.1", "::1", "") else address


def _set_up(writer: asyncio.StreamWriter) -> None:
    # Keep-alive packets reveal clients that vanished without closing the connection.
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # TCP_NODELAY sends short answers at once. asyncio sets the option only for sockets that name their protocol.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

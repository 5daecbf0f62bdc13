"""The handling of one client's connection: the login, then one command after another until the client leaves.

All connections of a console share one asyncio event loop. Each statement runs in a worker thread, so that a long
statement delays no other client and can be interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import struct
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from mysql_mimic.charset import CharacterSet, Collation
from mysql_mimic.types import Capabilities, Commands

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.console import answers
from dumpfilter.console.login import Doorkeeper, Refused
from dumpfilter.console.masking import without_passwords
from dumpfilter.console.memory import CLIENT_MEMORY, Memory, size_of
from dumpfilter.console.prepared import MAX_PREPARED_STATEMENTS, Prepared, read_execute
from dumpfilter.console.session import Session
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.interruption import Interrupt, acquire
from dumpfilter.console.sql.result import Column, Note, Result
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.console.statements import execute_statement
from dumpfilter.console.wire import (
    MAX_ALLOWED_PACKET,
    ClientGone,
    Fields,
    Login,
    MalformedPacket,
)

LOGIN_SECONDS = 10.0
"""The time limit of a login, seconds (the default of a server's ``connect_timeout``)."""


IDLE_SECONDS = 28_800.0
"""The time in which a client must send its next command, seconds (the default of a server's ``wait_timeout``)."""

LARGE_STATEMENT = 16 << 10
"""The length from which a statement counts as large, characters. Few large statements run at once."""

_SHOWN_BYTES = 6
"""The number of bytes that error 1300 quotes from a statement that is not valid in the client's character set."""
_LOGGED_CHARACTERS = 200
"""The number of characters that the log quotes of a statement that failed by a defect of the console."""


T = TypeVar("T")


ProcessRow = tuple[int, str, str, str | None, str, int, str, str | None]
"""A row of SHOW PROCESSLIST: Id, User, Host, db, Command, Time, State, Info."""


class Connection:
    """The connection of one client to a port for MySQL clients. It carries out the client's commands until the client
    leaves.

    ``door`` is the object that carries out the login.
    """

    def __init__(self, door: Doorkeeper) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        """The task that has made the connection and serves it. Its end closes the connection."""
        self.id = door.connection_id
        self._since = time.monotonic()
        self.peer = door.peer
        """The client's host, as it stands after the @ in an account: an IP address or ``localhost``."""
        self.session: Session | None = None
        self.running: str | None = None
        """The text of the statement that is running, for SHOW PROCESSLIST, or None between statements."""
        self._stream = door.stream
        self._door = door
        self._port = door.port
        self._log = door.log
        self._share = Memory(
            CLIENT_MEMORY,
            "prepared statements and variables of a connection",
            advice="close statements, or reconnect",
            within=self._port.kept,
        )
        self._capabilities = door.greeting.capabilities
        self._login: Login
        self._interrupt: Interrupt | None = None
        self._killed: asyncio.Future[None] | None = None
        """The future that a KILL of the running statement completes. None between statements."""
        self._prepared: dict[int, Prepared] = {}
        self._last_prepared = 0
        self._commands: dict[int, Callable[[bytes], Awaitable[None]]] = {
            Commands.COM_INIT_DB: self._init_db,
            Commands.COM_QUERY: self._query,
            Commands.COM_STATISTICS: self._statistics,
            Commands.COM_DEBUG: self._send_ok,
            Commands.COM_PING: self._send_ok,
            Commands.COM_STMT_PREPARE: self._stmt_prepare,
            Commands.COM_STMT_EXECUTE: self._stmt_execute,
            Commands.COM_STMT_CLOSE: self._stmt_close,
            Commands.COM_STMT_RESET: self._stmt_reset,
            Commands.COM_RESET_CONNECTION: self._reset_connection,
        }

    async def serve(self) -> None:
        """Log the client in, and answer its commands until it leaves.

        Errors are sent to the client or logged. Only the cancellation of the task (by KILL or at the console's end) is
        raised.
        """
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                await self._log_in(await self._door.greet())
            await self._serve_commands()
        except TimeoutError:
            self._log.info("client.login_timeout")
        except (ClientGone, Refused):
            pass
        finally:
            self.kill_query()
            self._share.close()
            if self.session:
                self._log.info("client.disconnected", user=self.session.user)

    @property
    def doing(self) -> tuple[str, str, str | None]:
        """The connection's columns Command, State and Info in SHOW PROCESSLIST."""
        running = self.running
        if running is not None:
            return "Query", "executing", running
        return "Sleep" if self.session else "Connect", "", None

    @property
    def user(self) -> str | None:
        """The user who has logged in, or None before the login."""
        return self.session.user if self.session else None

    def row(self) -> ProcessRow:
        """Return the connection's row of SHOW PROCESSLIST. Its column Time has the seconds since the client connected.
        Any thread may call the method.
        """
        session, (command, state, info) = self.session, self.doing
        return (
            self.id,
            session.user if session else "unauthenticated user",
            self.peer,
            session.database if session else None,
            command,
            int(time.monotonic() - self._since),
            state,
            None if info is None else without_passwords(info, len(info)),
        )

    def end(self, *, query_only: bool) -> None:
        """Close the connection, or with ``query_only`` only interrupt its running statement. Any thread may call the
        method.
        """
        end = self.kill_query if query_only else self.task.cancel
        self.task.get_loop().call_soon_threadsafe(end)

    @property
    def _client(self) -> Session:
        """The session of a client that has logged in."""
        assert self.session is not None
        return self.session

    def kill_query(self) -> None:
        """Interrupt the statement that the client is running. The client receives error 1317 for it."""
        if self._interrupt:
            self._interrupt.set()
        if self._killed and not self._killed.done():
            self._killed.set_result(None)

    async def _log_in(self, login: Login) -> None:
        self._login, self._capabilities = login, login.capabilities
        info = await self._door.verify(login)
        session = Session(self._port, self._share, self.id, login.user, self.peer)
        session.character_set = _character_set(login.collation)
        if self._stream.tls is not None:
            session.tls_version, session.tls_cipher = self._stream.tls.version, self._stream.tls.cipher
        if login.database is not None:
            try:
                session.use(login.database)
            except SqlError as unknown:
                await self._send_error(unknown)
                raise Refused from unknown
        self.session = session
        self._log.info("client.connected", user=login.user, tls=session.tls_version or None)
        await self._stream.send(answers.ok(self._capabilities, Result(), info))
        self._stream.start_compression(login)

    async def _serve_commands(self) -> None:
        while True:
            try:
                try:
                    async with asyncio.timeout(IDLE_SECONDS):
                        number, data = await self._stream.read_command(self._admit_command)
                except TimeoutError:
                    self._log.info("client.idle")
                    return
                if number == Commands.COM_QUIT:
                    return
                if number == Commands.COM_STMT_SEND_LONG_DATA:
                    # The protocol has no answer to this command. The client takes the error for the answer to its next
                    # command, so that the connection must end.
                    await self._send_error(server_errors.ER_UNKNOWN_COM_ERROR())
                    return
                handler = self._commands.get(number)
                if handler is None:
                    raise server_errors.ER_UNKNOWN_COM_ERROR()
                await handler(data)
            except MalformedPacket:
                await self._send_error(server_errors.ER_MALFORMED_PACKET())
            except SqlError as failed:
                await self._send_error(failed)
                if failed.number == server_errors.ER_NET_PACKET_TOO_LARGE.number:
                    # The rest of the too large packet is still in the stream, so the next command cannot be found.
                    await self._stream.discard()
                    return

    def longest_command(self, number: int) -> int:
        """Return the limit of a command's length, bytes. ``number`` is the command's number in MySQL's protocol, such
        as 3 for COM_QUERY.
        """
        return MAX_ALLOWED_PACKET

    async def _admit_command(self, number: int, length: int) -> None:
        """Wait until the client may send the rest of a command. Raises SqlError 1153 for a too long command.

        ``number`` and ``length`` are the command's number in the protocol and its length in bytes.
        """
        if self.session is not None:
            await self.session.limits.costs.admit(length)
        if length > self.longest_command(number):
            raise server_errors.ER_NET_PACKET_TOO_LARGE()

    def counted(self, function: Callable[[], T]) -> Callable[[], T]:
        """Return a function that calls ``function``, and counts the processor time of the call against the user's
        limit.

        A user who has taken too much processor time waits before the next command is received.
        """
        return self._client.limits.costs.counted(function)

    async def _run(self, text: str) -> Result:
        # An interrupted statement raises error 1317 at once. A command that cannot stop half-way runs on in its
        # thread, and its result is discarded. When the client leaves, the statement is interrupted, too.
        return await self._in_thread(text, functools.partial(execute_statement, self._client, text))

    async def _in_thread(self, text: str, call: Callable[[Interrupt], T]) -> T:
        loop = asyncio.get_running_loop()
        async with self._client.limits.threads:
            interrupt = self._interrupt = Interrupt()
            killed = self._killed = loop.create_future()
            self.running = text
            counted = self.counted(functools.partial(call, interrupt))
            work = loop.run_in_executor(self._port.pool, self._call_bounded, len(text), counted, interrupt)
            try:
                await asyncio.wait((work, killed, self._stream.left), return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    return work.result()
                raise server_errors.ER_QUERY_INTERRUPTED() if killed.done() else ClientGone("closed")
            except (SqlError, ClientGone):
                raise
            except DumpfilterError as failed:
                raise server_errors.ER_UNKNOWN_ERROR(failed) from failed
            except Exception as failed:
                # A defect of the console is logged, and the client's session goes on.
                statement = without_passwords(text, _LOGGED_CHARACTERS)
                self._log.exception("client.statement_failed", statement=statement)
                raise server_errors.ER_UNKNOWN_ERROR(
                    f"Unknown error: {type(failed).__name__}: {failed}"
                ) from failed
            finally:
                interrupt.set()
                if not work.done():
                    work.add_done_callback(_forget)
                self._interrupt = self._killed = self.running = None

    def _call_bounded(self, length: int, call: Callable[[], T], interrupt: Interrupt) -> T:
        # The tokens of a statement need up to 170 times its length. Therefore only few large statements run at a time.
        if length < LARGE_STATEMENT:
            return call()
        acquire(self._port.large, interrupt)
        try:
            return call()
        finally:
            self._port.large.release()

    async def _query(self, data: bytes) -> None:
        await self._send_result(await self._run_noted(self._text(data)), binary=False)

    async def _run_noted(self, statement: str) -> Result:
        try:
            return await self._run(statement)
        except SqlError as failed:
            self._client.diagnostics = [Note("Error", failed.number, failed.message)]
            raise

    async def _init_db(self, data: bytes) -> None:
        self._client.use(data.decode("utf-8", "replace"))
        await self._send_ok()

    async def _statistics(self, data: bytes) -> None:
        await self._stream.send(self._client.statistics().encode())

    async def _reset_connection(self, data: bytes) -> None:
        self._forget_statements()
        self._client.reset()
        await self._send_ok()

    async def _stmt_prepare(self, data: bytes) -> None:
        if len(self._prepared) >= MAX_PREPARED_STATEMENTS:
            raise server_errors.ER_MAX_PREPARED_STMT_COUNT_REACHED(MAX_PREPARED_STATEMENTS)
        text = self._text(data)
        statement = await self._in_thread(text, lambda _: Prepared.of(text))
        self._share.take(statement.size)
        self._last_prepared += 1
        self._prepared[self._last_prepared] = statement
        # The columns of the result are announced when the statement is executed, as a server does for SHOW.
        self._stream.put(struct.pack("<BIHHBH", 0, self._last_prepared, 0, statement.parameters, 0, 0))
        if statement.parameters:
            parameter = answers.column_definition(Column("?"), self._charset())
            for _ in range(statement.parameters):
                self._stream.put(parameter)
                await self._stream.relieve()
            if Capabilities.CLIENT_DEPRECATE_EOF not in self._capabilities:
                self._stream.put(answers.end_of_rows(self._capabilities, Result()))
        await self._stream.drain()

    async def _stmt_execute(self, data: bytes) -> None:
        fields = Fields(data)
        statement = self._statement(fields.uint(4))
        # The flags and the iteration count are skipped. A client that asks for a cursor by a flag need not get one.
        fields.take(1 + 4)
        values = read_execute(fields, statement, self._charset().codec)
        result = await self._run_noted(statement.with_values(values))
        await self._send_result(result, binary=True)

    async def _stmt_close(self, data: bytes) -> None:
        # The protocol has no answer to COM_STMT_CLOSE, not even an error.
        with contextlib.suppress(MalformedPacket):
            statement = self._prepared.pop(Fields(data).uint(4), None)
            if statement is not None:
                self._share.give_back(statement.size)

    async def _stmt_reset(self, data: bytes) -> None:
        self._statement(Fields(data).uint(4))
        await self._send_ok()

    def _forget_statements(self) -> None:
        for statement in self._prepared.values():
            self._share.give_back(statement.size)
        self._prepared.clear()

    def _statement(self, number: int) -> Prepared:
        try:
            return self._prepared[number]
        except KeyError:
            raise server_errors.ER_UNKNOWN_STMT_HANDLER(number) from None

    def _text(self, data: bytes) -> str:
        # A server replaces invalid bytes of a statement by question marks, also in the names of filter rules. The
        # console refuses such a statement with error 1300, so that no wrong rule is set.
        charset = self._charset()
        try:
            return data.decode(charset.codec)
        except UnicodeDecodeError as bad:
            rest = data[bad.start : bad.start + _SHOWN_BYTES].hex().upper()
            raise server_errors.ER_INVALID_CHARACTER_STRING(charset.name, rest) from bad

    def _charset(self) -> CharacterSet:
        return self.session.character_set if self.session else CharacterSet.utf8mb4

    async def _send_result(self, result: Result, *, binary: bool) -> None:
        if not result.columns:
            await self._stream.send(answers.ok(self._capabilities, result))
            return
        size = size_of(result)
        results = self._client.limits.results
        results.take(size)
        try:
            for packet in answers.result_set(self._capabilities, result, self._charset(), binary=binary):
                self._stream.put(packet)
                await self._stream.relieve()
            await self._stream.drain()
        finally:
            results.give_back(size)

    async def _send_ok(self, _: bytes = b"") -> None:
        await self._stream.send(answers.ok(self._capabilities, Result()))

    async def _send_error(self, failed: SqlError) -> None:
        await self._stream.send(answers.error(failed, self._charset()))


def _character_set(collation: int | None) -> CharacterSet:
    with contextlib.suppress(ValueError, KeyError, LookupError):
        if collation is not None:
            found = Collation(collation).charset
            "".encode(found.codec)
            return found
    return CharacterSet.utf8mb4


def _forget(work: asyncio.Future[Any]) -> None:
    # asyncio would log the error of an abandoned statement as "never retrieved".
    if not work.cancelled():
        work.exception()

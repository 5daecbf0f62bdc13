"""One client's connection to a port for MySQL clients: the login, then one command after another until the client
leaves. The module also has the server of the console, the port of a master or slave.

All connections of a console share one asyncio event loop. Each statement runs in a worker thread, so that a long
statement delays no other client and can be interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from mysql_mimic import packets
from mysql_mimic.charset import CharacterSet, Collation
from mysql_mimic.types import Commands, ServerStatus

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.logs import logger
from dumpfilter.base.security.audit import audit
from dumpfilter.base.security.listening import is_loopback
from dumpfilter.base.security.passwords import MOST_PASSWORD, Sha2Crypt, StoredPassword, password_of
from dumpfilter.base.security.tls import ServerTls
from dumpfilter.console import answers, auth
from dumpfilter.console.limits import unread
from dumpfilter.console.port import ClientPort, Greeting
from dumpfilter.console.prepared import Prepared
from dumpfilter.console.serving_loop import ServingLoop
from dumpfilter.console.session import CHARACTER_SET_VARIABLES, Session
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.commands import MAX_STATEMENT
from dumpfilter.console.sql.interruption import Interrupt, held, running
from dumpfilter.console.sql.result import Column, Note
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.console.statements import execute_statement, without_passwords
from dumpfilter.console.wire import (
    MAX_ALLOWED_PACKET,
    ClientGone,
    Fields,
    Login,
    MalformedPacket,
    PacketStream,
    asks_for_tls,
    greet,
    open_stream,
    parse_login,
)

log = logger("dumpfilter.console")

MAX_PREPARED_STATEMENTS = 1024
"""The limit of the number of prepared statements that one session holds at a time.

A server's max_prepared_stmt_count limits the sum over all sessions.
"""
_AFTER_LOGIN = 2
"""The sequence number of the console's first packet after the greeting and the client's first packet."""

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

_COMMANDS = {command.value: command.name.lower() for command in Commands}
"""The names of the protocol's commands by number, such as ``com_query``.

A connection carries out a command by the method of this name after an underscore.
"""

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Connection:
    """The connection of one client to a port for MySQL clients. The object logs the client in, and carries out the
    client's commands until the client leaves.

    Parameters:
        port: the port to which the client has connected.
        client: the connected socket, which the connection closes.
        address: the client's network address and port.
        number: the connection id.
    """

    def __init__(
        self, port: ClientPort, client: socket.socket, address: tuple[Any, ...], number: int
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        """The task that has made the connection and serves it. The end of the task closes the connection."""
        self.port = port
        self.id = number
        self.address = str(address[0]), int(address[1])
        """The client's network address and port."""
        self.peer = "localhost" if self.address[0] in ("127.0.0.1", "::1") else self.address[0]
        """The client's host, as it stands after the @ in an account: an IP address or ``localhost``."""
        self.session: Session | None = None
        self.user: str | None = None
        """The user who has logged in, or None before the login."""
        self.running: str | None = None
        """The text of the statement that is running, for SHOW PROCESSLIST, or None between statements."""
        self._since = time.monotonic()
        self._socket = client
        self._stream: PacketStream | None = None
        self.log = log.bind(port=port.name, connection=number, peer=self.peer)
        self._tls: ServerTls
        """The port's certificate and key, read once at the beginning of the login."""
        self._login: Login
        self._killed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """The future that KILL QUERY completes to interrupt a statement. Each wait for a result (:meth:`finished`) has
        a new future.
        """
        self._last_prepared = 0

    async def serve(self) -> None:
        """Log the client in, and answer its commands until it leaves.

        Errors are sent to the client or logged. Only the cancellation of the task (by KILL or at the console's end) is
        raised.
        """
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                await self._log_in()
            await self._serve_commands()
        except TimeoutError:
            event = "client.idle" if self.session else "client.login_timeout"
            self.log.info(event)
        except ClientGone:
            pass
        finally:
            if self.session:
                self.session.close()
                self.log.info("client.disconnected", user=self.session.user)

    async def close(self) -> None:
        """Close the connection. A client that does not accept the last packets in time loses them."""
        if self._stream is None:
            self._socket.close()
        else:
            await self._stream.close()

    @property
    def doing(self) -> tuple[str, str, str | None]:
        """The values of the columns Command, State and Info for this connection in SHOW PROCESSLIST.

        Info is the running statement, or None.
        """
        if (running := self.running) is not None:
            return "Query", "executing", running
        return "Sleep" if self.session else "Connect", "", None

    def row(self) -> Sequence[object]:
        """Return the connection's row of SHOW PROCESSLIST: Id, User, Host, db, Command, Time, State, Info. The column
        Time has the seconds since the client connected. Any thread may call the method.
        """
        session, (command, state, info) = self.session, self.doing
        return (
            self.id,
            self.user or "unauthenticated user",
            self.peer,
            session.database if session else None,
            command,
            int(time.monotonic() - self._since),
            state,
            None if info is None else without_passwords(info, MAX_STATEMENT),
        )

    def end(self, *, query_only: bool) -> None:
        """Close the connection or, if ``query_only`` is True, only interrupt its running statement. Any thread may call
        the method.
        """
        end = self.kill_query if query_only else self.task.cancel
        self.task.get_loop().call_soon_threadsafe(end)

    @property
    def _client(self) -> Session:
        """The session of the client. Only code that runs after the login may read this property."""
        assert self.session is not None
        return self.session

    @property
    def stream(self) -> PacketStream:
        """The stream of packets to and from the client. The login opens the stream after the client's first packet, or
        to send an error instead of the greeting.
        """
        assert self._stream is not None
        return self._stream

    def kill_query(self) -> None:
        """Interrupt the statement that the client is running, if there is one. The client receives error 1317 for that
        statement.
        """
        if not self._killed.done():
            self._killed.set_result(None)

    async def finished(self, work: asyncio.Future[T]) -> T:
        """Wait until ``work`` is done, and return its result.

        Raises SqlError 1317 if KILL QUERY comes before the result, and ClientGone if the client leaves before. In both
        cases ``work`` is cancelled.
        """
        killed = self._killed = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait((work, killed, self.stream.left), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            raise server_errors.ER_QUERY_INTERRUPTED() if killed.done() else ClientGone("closed")
        finally:
            work.cancel()

    async def _log_in(self) -> None:
        """Greet the client, start TLS if the client asks for it, check the password, and begin the session.

        Raises ClientGone after the client has left, or after an error has been sent to the client.
        """
        nonce = auth.new_nonce()
        try:
            greeting = await self.port.greeting()
        except SqlError as error:
            # The port cannot serve anybody at present. A replica logs the error and connects again.
            self._stream = await open_stream(self._socket)
            await self._refuse(error, is_greeted=False)
        login = self._login = await self._greet(greeting, nonce)
        info = await self._verify(login, greeting.plugin, nonce)
        try:
            session = Session(self.port, self.id, login.user, self.peer)
            session.system_variables = dict.fromkeys(
                CHARACTER_SET_VARIABLES, _character_set(login.collation).name
            )
            if (tls := self.stream.tls) is not None:
                session.tls_version, session.tls_cipher = tls.version() or "", (tls.cipher() or ("",))[0]
            self.port.admit(self.id, login.user)
            if login.database:
                session.database = session.schema(login.database)
        except SqlError as error:
            await self._refuse(error)
        self.session, self.user = session, login.user
        self.log.info("client.connected", user=login.user, tls=session.tls_version or None)
        await self.stream.send(answers.ok(info=info))
        if login.codec is not None:
            self.stream.start_compression(login.codec)

    async def _greet(self, greeting: Greeting, nonce: bytes) -> Login:
        packet = packets.make_handshake_v10(
            capabilities=greeting.capabilities,
            server_charset=CharacterSet.utf8mb4,
            server_version=greeting.server_version,
            connection_id=self.id,
            auth_data=nonce + b"\0",
            status_flags=ServerStatus.SERVER_STATUS_AUTOCOMMIT,
            auth_plugin_name=greeting.plugin,
        )
        answer = await greet(self._socket, packet)
        with_tls = asks_for_tls(answer)
        self._tls = self.port.tls.current()
        try:
            context = self._tls.context if with_tls else None
            self._stream = await open_stream(self._socket, _AFTER_LOGIN, context)
            answer = await self.stream.read_reply() if with_tls else answer
        except ClientGone as gone:
            no_login = "no login came: the client may not trust the certificate"
            self.log.warning("client.tls_failed", reason=no_login if self._stream else str(gone))
            raise
        if not (with_tls or self.port.endpoint.insecure or is_loopback(self.address[0])):
            self.log.warning("client.tls_demanded")
            await self._refuse(server_errors.ER_SECURE_TRANSPORT_REQUIRED())
        try:
            return parse_login(answer, greeting.capabilities)
        except MalformedPacket:
            self.log.info("client.bad_handshake")
            await self._refuse(server_errors.ER_HANDSHAKE_ERROR())

    async def _verify(self, login: Login, preferred: str, nonce: bytes) -> bytes:
        """Check the password of a login, and return a text that the OK packet for the client must contain.

        The text lets MariaDB's clients verify the console's certificate, and can be empty. ``preferred`` is the
        authentication plugin that the greeting named, and ``nonce`` has the greeting's random bytes. Raises ClientGone
        after telling the client of a wrong password (error 1045). If the configuration has the user's
        caching_sha2_password hash, and the digest does not prove the password, the console asks for the password
        itself, like a MySQL server. The client asyncmy sends wrong digests.
        """
        port, user = self.port, login.user
        # For an unknown user this is the password of another one.
        password = password_of(port.users, user)
        if password.crypt is not None and password.sha2 is None:
            password = replace(password, sha2=port.proved.get(password.crypt))
        plugins = auth.plugins_for(password, preferred=preferred)
        plugin, response = login.plugin or auth.plugin_of(login.response), login.response
        if plugin not in plugins or not response:
            # The client may prefer another authentication plugin than the one in the greeting. Then its first response
            # is empty, and the console asks again with the client's plugin.
            plugin = plugin if plugin in plugins else plugins[0]
            switch = packets.make_auth_switch_request(CharacterSet.utf8mb4, plugin, nonce + b"\0")
            await self.stream.send(bytes(switch))
            response = await self.stream.read_reply()
        # The password is checked before all other parts of the login. So a client with a wrong password does not learn,
        # for example, whether a database exists.
        guesser = (self.peer, user)
        is_sha2 = plugin == auth.CACHING_SHA2 and bool(response.strip(b"\0"))
        async with port.guesses.turn(guesser):
            by_digest = auth.proves_password(password, plugin, nonce, response)
            proved = by_digest or (
                is_sha2 and password.crypt is not None and await self._prove_in_full(password.crypt, nonce)
            )
            # The client chose how long the login took. The user may have another password by now.
            if not (proved and port.users.get(user) == password):
                port.guesses.failed(guesser)
                proved = False
        if not proved:
            await self._deny(user, with_password=bool(response.strip(b"\0")))
        if is_sha2 and by_digest:
            self.stream.put(bytes(packets.make_auth_more_data(auth.FAST_AUTH_SUCCESS)))
        if self.stream.tls is None:
            return b""
        return auth.certificate_proof(password, plugin, nonce, self._tls.fingerprint)

    async def _prove_in_full(self, crypt: Sha2Crypt, nonce: bytes) -> bool:
        """Ask the client for the password itself, and tell whether the stored hash ``crypt`` is of that password. If
        so, keep the password's digest in memory, by which later logins are checked.

        Without TLS the client encrypts the password with the port's RSA key. ``nonce`` has the random bytes of the
        greeting, which take part in that encryption.
        """
        given = await self._ask(auth.PERFORM_FULL_AUTHENTICATION)
        if self.stream.tls is None:
            rsa = self.port.rsa
            if given == auth.REQUEST_PUBLIC_KEY:
                given = await self._ask(await asyncio.to_thread(rsa.public_key))
            given = await asyncio.to_thread(rsa.decrypt, given, nonce)
        if not given.endswith(b"\0"):
            self.log.warning(
                "client.password_needs_tls",
                hint="the first login with a caching_sha2_password hash needs TLS, or the server's public key",
            )
            return False
        text = given[:-1].decode("utf-8", "surrogateescape")
        loop, is_possible = asyncio.get_running_loop(), len(given) <= MOST_PASSWORD + 1
        proved = is_possible and await loop.run_in_executor(self.port.hashers, crypt.matches, text)
        if proved:
            self.port.proved[crypt] = StoredPassword.plain(text).sha2
        return proved

    async def _ask(self, data: bytes) -> bytes:
        """Send a packet with ``data`` for the client's authentication plugin during the login, and return the client's
        answer.
        """
        await self.stream.send(bytes(packets.make_auth_more_data(data)))
        return await self.stream.read_reply()

    async def _refuse(self, error: SqlError, *, is_greeted: bool = True) -> NoReturn:
        """Send an error packet to the client, and raise ClientGone, which ends the login."""
        await self.stream.send(answers.error(error, is_greeted=is_greeted))
        raise ClientGone("refused")

    async def _deny(self, user: str, *, with_password: bool) -> NoReturn:
        self.log.warning("client.access_denied", user=user[:80])
        error = server_errors.ER_ACCESS_DENIED_ERROR(user, self.peer, "YES" if with_password else "NO")
        if (fields := self.port.refusals.fields()) is not None:
            audit("login", account=user, peer=self.peer, result=str(error), **fields)
        await asyncio.sleep(self.port.denial_seconds)
        await self._refuse(error)

    async def _serve_commands(self) -> None:
        while True:
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    number, data = await self.stream.read_command(self._admit_command)
                if number == Commands.COM_QUIT:
                    return
                handler = getattr(self, f"_{_COMMANDS.get(number)}", None)
                if handler is None:
                    raise server_errors.ER_UNKNOWN_COM_ERROR()
                await handler(data)
            except MalformedPacket:
                await self._send_error(server_errors.ER_MALFORMED_PACKET())
            except SqlError as failed:
                await self._send_error(failed)
                if failed.number == server_errors.ER_NET_PACKET_TOO_LARGE.number:
                    # The rest of the too large packet is still in the stream, so the next command cannot be found.
                    await self.stream.discard()
                    return

    def longest_command(self, number: int) -> int:
        """Return the limit of a command's length, bytes. ``number`` is the command's number in MySQL's protocol, such
        as 3 for COM_QUERY.
        """
        return MAX_ALLOWED_PACKET

    async def _admit_command(self, number: int, length: int) -> None:
        """Delay the receipt of the rest of a command while the user has taken more processor time than the user's
        limit.

        ``number`` and ``length`` are the command's number in MySQL's protocol and its length in bytes. Raises SqlError
        1153 for a command that is too long.
        """
        await self._client.limits.admit(length)
        if length > self.longest_command(number):
            raise server_errors.ER_NET_PACKET_TOO_LARGE()

    def counted(self, function: F) -> F:
        """Return a function that calls ``function``, and counts the processor time of the call against the user's
        limit.

        A user who has taken too much processor time waits before the next command is received.
        """
        return self._client.limits.counting()(function)

    async def _in_thread(self, text: str, call: Callable[[], T]) -> T:
        # An interrupted statement raises error 1317 at once. A command that cannot stop half-way runs on in its
        # thread, and its result is discarded. When the client leaves, the statement is interrupted, too.
        async with self._client.limits.threads:
            interrupt = Interrupt()
            self.running = text
            # The tokens of a statement need up to 170 times its length, so that few large statements run at a time.
            is_large = len(text) >= LARGE_STATEMENT

            def run() -> T:
                running.set(interrupt)
                with held(self.port.large, interrupt) if is_large else contextlib.nullcontext():
                    return self.counted(call)()

            try:
                return await self.finished(asyncio.get_running_loop().run_in_executor(self.port.pool, run))
            except (SqlError, ClientGone, MalformedPacket):
                raise
            except DumpfilterError as failed:
                raise server_errors.ER_UNKNOWN_ERROR(failed) from failed
            except Exception as failed:
                # A defect of the console is logged, and the client's session goes on.
                statement = without_passwords(text, _LOGGED_CHARACTERS)
                self.log.exception("client.statement_failed", statement=statement)
                raise server_errors.ER_UNKNOWN_ERROR(
                    f"Unknown error: {type(failed).__name__}: {failed}"
                ) from failed
            finally:
                interrupt.set()
                self.running = None

    async def _com_query(self, data: bytes) -> None:
        await self._answer(self._text(data))

    async def _answer(self, statement: str, *, binary: bool = False) -> None:
        """Run a client's statement, and send its result to the client. ``binary`` is True for a prepared statement,
        whose rows are sent in the protocol's binary form.
        """
        try:
            run = functools.partial(execute_statement, self._client, statement)
            result = await self._in_thread(statement, run)
        except SqlError as failed:
            self._client.diagnostics = [Note("Error", failed.number, failed.message)]
            raise
        if not result.columns:
            await self.stream.send(answers.ok(result))
            return
        with unread(self.port.unread, self._client.user, result):
            for packet in answers.result_set(result, self._client.character_set(), binary=binary):
                self.stream.put(packet)
                await self.stream.relieve()
            await self.stream.drain()

    async def _com_init_db(self, data: bytes) -> None:
        self._client.database = self._client.schema(data.decode("utf-8", "replace"))
        await self._send_ok()

    async def _com_statistics(self, data: bytes) -> None:
        # mysqladmin status shows this line.
        status, questions = self.counted(self.port.status)(), self._client.questions
        line = f"Uptime: {status['Uptime']}  Threads: {status['Threads_connected']}  Questions: {questions}"
        await self.stream.send(line.encode())

    async def _com_reset_connection(self, data: bytes) -> None:
        self._client.reset()
        await self._send_ok()

    async def _com_stmt_prepare(self, data: bytes) -> None:
        session = self._client
        if len(session.prepared) >= MAX_PREPARED_STATEMENTS:
            raise server_errors.ER_MAX_PREPARED_STMT_COUNT_REACHED(MAX_PREPARED_STATEMENTS)
        text = self._text(data)
        statement = await self._in_thread(text, lambda: Prepared.of(text))
        self._last_prepared += 1
        prepared = session.prepared | {self._last_prepared: statement}
        self.counted(session.keep)(session.user_variables, prepared)
        # The columns of the result are announced when the statement is executed, as a server does for SHOW.
        self.stream.put(struct.pack("<BIHHBH", 0, self._last_prepared, 0, statement.parameters, 0, 0))
        if statement.parameters:
            parameter = answers.column_definition(Column("?"), self._client.character_set())
            for _ in range(statement.parameters):
                self.stream.put(parameter)
                await self.stream.relieve()
            self.stream.put(answers.eof())
        await self.stream.drain()

    async def _com_stmt_execute(self, data: bytes) -> None:
        fields = Fields(data)
        statement = self._statement(fields.uint(4))
        # The flags and the iteration count are skipped. A client that asks for a cursor by a flag need not get one.
        fields.take(1 + 4)
        codec = answers.codec_of(self._client.character_set("character_set_client"))
        text = await self._in_thread(
            "?".join(statement.parts), lambda: statement.with_values(statement.read_values(fields, codec))
        )
        await self._answer(text, binary=True)

    async def _com_stmt_send_long_data(self, data: bytes) -> None:
        """Ignore COM_STMT_SEND_LONG_DATA, by which a client sends a parameter's value in pieces. The protocol has no
        answer to the command, not even an error. The later execution fails, because the value is missing.
        """

    async def _com_stmt_close(self, data: bytes) -> None:
        session = self._client
        # The protocol has no answer to COM_STMT_CLOSE, not even an error.
        with contextlib.suppress(MalformedPacket):
            number = Fields(data).uint(4)
            others = {other: statement for other, statement in session.prepared.items() if other != number}
            self.counted(session.keep)(session.user_variables, others)

    async def _com_stmt_reset(self, data: bytes) -> None:
        self._statement(Fields(data).uint(4))
        await self._send_ok()

    def _statement(self, number: int) -> Prepared:
        try:
            return self._client.prepared[number]
        except KeyError:
            raise server_errors.ER_UNKNOWN_STMT_HANDLER(number) from None

    def _text(self, data: bytes) -> str:
        # A server replaces invalid bytes of a statement by question marks, also in the names of filter rules. The
        # console refuses such a statement with error 1300, so that no wrong rule is set.
        charset = self._client.character_set("character_set_client")
        try:
            return data.decode(answers.codec_of(charset))
        except UnicodeDecodeError as bad:
            rest = data[bad.start : bad.start + _SHOWN_BYTES].hex().upper()
            raise server_errors.ER_INVALID_CHARACTER_STRING(charset.name, rest) from bad

    async def _send_ok(self, _: bytes = b"") -> None:
        await self.stream.send(answers.ok())

    _com_ping = _com_debug = _send_ok

    async def _send_error(self, failed: SqlError) -> None:
        await self.stream.send(answers.error(failed, self._client.character_set()))


def _character_set(collation: int) -> CharacterSet:
    with contextlib.suppress(ValueError, KeyError):
        return answers.CHARACTER_SETS[Collation(collation).charset.name]
    return CharacterSet.utf8mb4


class ConsoleServer(ClientPort):
    """The server of a console, the port on which MySQL clients query and control a master or slave."""

    connection = Connection

    @contextmanager
    def running(self) -> Iterator[ConsoleServer]:
        """Accept clients in a thread of the console while the ``with`` block runs, and yield the server.

        A line of the log names each user without a password. The call changes the objects that the garbage collector
        visits (``gc.freeze``). Raises OptionError if the address cannot be listened on, and OutputError if the file for
        the port's number cannot be written.
        """
        for user in sorted(user for user, password in self.users.items() if password.is_empty):
            hint = "the user has no password; with --console-password-file the user gets the role all"
            log.warning("console.read_only", user=user, role=self.role_of(user).value, hint=hint)
        # The objects of the started program stay. The garbage collector, which stops all threads, need not visit them
        # each time when a statement has made many objects.
        gc.freeze()
        with ServingLoop("console") as loop, self.serving(loop):
            log.info("console.listening", host=self.endpoint.host, port=self.port)
            yield self

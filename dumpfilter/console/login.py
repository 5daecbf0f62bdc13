"""The login of a client: the console's greeting, TLS if the client asks for it, and the check of the password."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import cached_property

import structlog
from mysql_mimic import packets
from mysql_mimic.charset import CharacterSet
from mysql_mimic.types import ServerStatus

from dumpfilter.base.security.audit import audit
from dumpfilter.base.security.listening import is_loopback
from dumpfilter.base.security.passwords import MOST_PASSWORD, StoredPassword
from dumpfilter.base.security.tls import ServerTls
from dumpfilter.console import answers, auth
from dumpfilter.console.port import ClientPort, Greeting
from dumpfilter.console.rsa_exchange import REQUEST_PUBLIC_KEY
from dumpfilter.console.sql.server_errors import (
    ER_ACCESS_DENIED_ERROR,
    ER_HANDSHAKE_ERROR,
    ER_SECURE_TRANSPORT_REQUIRED,
    SqlError,
)
from dumpfilter.console.tls_channel import TlsFailed
from dumpfilter.console.wire import (
    ClientGone,
    Login,
    MalformedPacket,
    PacketStream,
    asks_for_tls,
    parse_login,
)

log = structlog.get_logger("dumpfilter.console")

_LOGIN_PACKET = 1 << 16


class Refused(Exception):
    """The exception that closes the connection of a client whose login was refused. The client has already received the
    error.
    """


@dataclass(frozen=True)
class Doorkeeper:
    """The login of one client of a port for MySQL clients, from the greeting (the server's first packet) to the check
    of the password.
    """

    stream: PacketStream
    port: ClientPort
    connection_id: int
    address: str
    """The client's network address."""
    nonce: bytes = field(default_factory=auth.new_nonce, repr=False)
    """The random bytes of this login."""

    @cached_property
    def greeting(self) -> Greeting:
        """The contents of the first packet to the client: version, capabilities and authentication plugin. Raises
        SqlError if the port cannot serve anybody at present.
        """
        return self.port.greeting()

    @cached_property
    def log(self) -> structlog.stdlib.BoundLogger:
        """The logger of this login. Its lines have the port's name, the connection id and the client's host."""
        bound: structlog.stdlib.BoundLogger = log.bind(
            port=self.port.settings.name, connection=self.connection_id, peer=self.peer
        )
        return bound

    @cached_property
    def tls(self) -> ServerTls:
        """The port's certificate and key, read once at the beginning of the login."""
        return self.port.settings.tls.current()

    @property
    def peer(self) -> str:
        """The client's host, as it stands after the @ in an account: an IP address or ``localhost``."""
        return "localhost" if self.address in ("127.0.0.1", "::1", "") else self.address

    async def greet(self) -> Login:
        """Send the greeting, start TLS if the client asks for it, and return the login that the client sends.

        The password is not checked yet. Raises Refused after telling the client of an error, and ClientGone when the
        client leaves.
        """
        greeting = packets.make_handshake_v10(
            capabilities=self.greeting.capabilities,
            server_charset=CharacterSet.utf8mb4,
            server_version=self.greeting.server_version,
            connection_id=self.connection_id,
            auth_data=self.nonce + b"\0",
            status_flags=ServerStatus.SERVER_STATUS_AUTOCOMMIT,
            auth_plugin_name=self.greeting.plugin,
        )
        await self.stream.send(greeting)
        try:
            answer = await self.stream.read_reply(_LOGIN_PACKET)
            if asks_for_tls(answer):
                await self.stream.start_tls(self.tls.context)
                answer = await self.stream.read_reply(_LOGIN_PACKET)
            elif self.port.settings.demand_tls and not (self.address and is_loopback(self.address)):
                self.log.warning("client.tls_demanded")
                await self.refuse(ER_SECURE_TRANSPORT_REQUIRED())
                raise Refused
            return parse_login(answer, self.greeting.capabilities)
        except TlsFailed as failed:
            self.log.warning("client.tls_failed", reason=str(failed))
            raise Refused from failed
        except ClientGone:
            if self.stream.tls is not None:
                self.log.warning(
                    "client.tls_failed", reason="no login came: the client may not trust the certificate"
                )
            raise
        except (MalformedPacket, SqlError) as failed:
            self.log.info("client.bad_handshake")
            await self.refuse(ER_HANDSHAKE_ERROR())
            raise Refused from failed

    async def verify(self, login: Login) -> bytes:
        """Check the password of a login, and return the text for the OK packet that accepts the client.

        The text lets MariaDB's clients verify the console's certificate, and can be empty. Raises Refused after telling
        the client of a wrong password (error 1045) or of too many connections.
        """
        password = self.port.accounts.password_of(login.user)
        plugins = auth.plugins_for(password, preferred=self.greeting.plugin)
        plugin, response = login.plugin or auth.plugin_of(login.response), login.response
        if plugin not in plugins or not response:
            # The client may prefer another authentication plugin than the one in the greeting. Then its first response
            # is empty, and the console asks again with the client's plugin.
            plugin, response = await self._ask(plugin if plugin in plugins else plugins[0])
        # The password is checked before all other parts of the login. So a client with a wrong password does not learn,
        # for example, whether a database exists.
        guesser = (self.peer, login.user)
        async with self.port.turns.turn(guesser):
            proved = await self._prove(login.user, password, plugin, response)
            # The client chose how long the login took. The user may have another password by now.
            proved = proved and self.port.accounts.users.get(login.user) == password
            if not proved:
                self.port.turns.failed(guesser)
        if not proved:
            await self._deny(login.user, with_password=bool(response.strip(b"\0")))
        try:
            self.port.admit(self.connection_id, login.user)
        except SqlError as full:
            await self.refuse(full)
            raise Refused from full
        if self.stream.tls is None:
            return b""
        return auth.certificate_proof(password, plugin, self.nonce, self.tls.fingerprint)

    async def _prove(self, user: str, password: StoredPassword, plugin: str, response: bytes) -> bool:
        """Tell whether the client knows the user's password.

        ``response`` is the client's digest of the password. The client is asked for the password itself if the stored
        hash cannot verify the digest. For an unknown user, ``password`` is another user's, and the result is False.
        """
        known = user in self.port.accounts.users
        with_password = bool(response.strip(b"\0"))
        crypt = password.crypt if plugin == auth.CACHING_SHA2 and password.sha2 is None else None
        if auth.proves_password(password, plugin, self.nonce, response):
            if not known:
                return False
            if plugin == auth.CACHING_SHA2 and with_password:
                self.stream.put(bytes(packets.make_auth_more_data(auth.FAST_AUTH_SUCCESS)))
            return True
        if crypt is None or not with_password:
            return False
        await self.stream.send(bytes(packets.make_auth_more_data(auth.PERFORM_FULL_AUTHENTICATION)))
        given: bytes | None = await self._reply()
        if self.stream.tls is None:
            given = await self._decrypted(given or b"")
        if given is None:
            self.log.warning(
                "client.password_needs_tls",
                hint="the first login with a caching_sha2_password hash needs TLS",
            )
            return False
        if not given.endswith(b"\0") or len(given) > MOST_PASSWORD + 1:
            return False
        text = given[:-1].decode("utf-8", "surrogateescape")
        proved = await asyncio.to_thread(crypt.matches, text) and known
        if proved:
            self.port.accounts.remember(user, password, text)
        return proved

    async def _decrypted(self, given: bytes) -> bytes | None:
        """Return the password of a client without TLS, or None if the client did not encrypt it. ``given`` is the
        client's packet.
        """
        if self.port.settings.rsa is None:
            return None
        if given == REQUEST_PUBLIC_KEY:
            key = await asyncio.to_thread(self.port.settings.rsa.public_key)
            await self.stream.send(bytes(packets.make_auth_more_data(key)))
            given = await self._reply()
        return await asyncio.to_thread(self.port.settings.rsa.decrypt, given, self.nonce)

    async def refuse(self, error: SqlError) -> None:
        """Send an error packet to the client, which ends the login."""
        await self.stream.send(answers.error(error))

    async def _ask(self, plugin: str) -> tuple[str, bytes]:
        switch = packets.make_auth_switch_request(CharacterSet.utf8mb4, plugin, self.nonce + b"\0")
        await self.stream.send(bytes(switch))
        return plugin, await self._reply()

    async def _reply(self) -> bytes:
        try:
            return await self.stream.read_reply(_LOGIN_PACKET)
        except SqlError as failed:
            raise Refused from failed

    async def _deny(self, user: str, *, with_password: bool) -> None:
        self.log.warning("client.access_denied", user=user[:80])
        using = "YES" if with_password else "NO"
        error = ER_ACCESS_DENIED_ERROR(user, self.peer, using)
        audit("login", account=user, peer=self.peer, result=str(error))
        await asyncio.sleep(self.port.settings.denial_seconds)
        await self.refuse(error)
        raise Refused

"""The beginning of a connection: the greeting, TLS if the client asks for it, and the proof of the password."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from mysql_mimic import packets
from mysql_mimic.charset import CharacterSet
from mysql_mimic.types import Capabilities, ServerStatus

from dumpfilter.console import answers, auth
from dumpfilter.console.tls_channel import TlsFailed
from dumpfilter.console.wire import (
    ClientGone,
    Login,
    MalformedPacket,
    PacketStream,
    asks_for_tls,
    parse_login,
)
from dumpfilter.security.tls import ServerTls
from dumpfilter.sql.server_errors import ER_ACCESS_DENIED_ERROR, ER_HANDSHAKE_ERROR, SqlError

log = structlog.get_logger()

CAPABILITIES = (
    Capabilities.CLIENT_LONG_PASSWORD
    | Capabilities.CLIENT_FOUND_ROWS
    | Capabilities.CLIENT_LONG_FLAG
    | Capabilities.CLIENT_CONNECT_WITH_DB
    | Capabilities.CLIENT_ODBC
    | Capabilities.CLIENT_IGNORE_SPACE
    | Capabilities.CLIENT_PROTOCOL_41
    | Capabilities.CLIENT_INTERACTIVE
    | Capabilities.CLIENT_SSL
    | Capabilities.CLIENT_TRANSACTIONS
    | Capabilities.CLIENT_SECURE_CONNECTION
    | Capabilities.CLIENT_MULTI_STATEMENTS
    | Capabilities.CLIENT_MULTI_RESULTS
    | Capabilities.CLIENT_PS_MULTI_RESULTS
    | Capabilities.CLIENT_PLUGIN_AUTH
    | Capabilities.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
    | Capabilities.CLIENT_DEPRECATE_EOF
)
"""The capabilities that the console announces.

Compression is missing. So are connection and query attributes, which the console would only read and drop.
"""

_LOGIN_PACKET = 1 << 16


class Refused(Exception):
    """The refusal of a client, which has already been told."""


@dataclass(frozen=True)
class Doorkeeper:
    """The login of one client."""

    stream: PacketStream
    connection_id: int
    peer: str
    users: Mapping[str, str]
    """Passwords by user name."""
    server_version: str
    tls: ServerTls
    nonce: bytes

    async def greet(self) -> Login:
        """Greet the client, encrypt if it asks for that, and return its login. Raises Refused, SqlError, ClientGone."""
        greeting = packets.make_handshake_v10(
            capabilities=CAPABILITIES,
            server_charset=CharacterSet.utf8mb4,
            server_version=self.server_version,
            connection_id=self.connection_id,
            auth_data=self.nonce + b"\0",
            status_flags=ServerStatus.SERVER_STATUS_AUTOCOMMIT,
            # with another plugin here, MariaDB's clients refuse a self-signed certificate before the console can prove
            # it;
            # MySQL's clients ignore this plugin and begin with caching_sha2_password
            auth_plugin_name=auth.NATIVE,
        )
        await self.stream.send(greeting)
        try:
            answer = await self.stream.read_reply(_LOGIN_PACKET)
            if asks_for_tls(answer):
                await self.stream.start_tls(self.tls.context)
                answer = await self.stream.read_reply(_LOGIN_PACKET)
            return parse_login(answer, CAPABILITIES)
        except TlsFailed as failed:
            self._say_tls_failed(str(failed))
            raise Refused from failed
        except ClientGone:
            if self.stream.tls is not None:
                self._say_tls_failed("no login came: the client may not trust the certificate")
            raise
        except (MalformedPacket, SqlError) as failed:
            log.info("console.bad_handshake", connection=self.connection_id, peer=self.peer)
            await self.refuse(ER_HANDSHAKE_ERROR())
            raise Refused from failed

    async def verify(self, login: Login) -> bytes:
        """Verify the password, and return the text of the OK packet that lets the client in.

        Raises Refused after telling the client.
        """
        plugin, response = login.plugin or auth.NATIVE, login.response
        if not auth.is_known_plugin(plugin) or not response:
            # a client that prefers another plugin than the greeting's begins with an empty packet
            plugin, response = await self._ask(plugin if auth.is_known_plugin(plugin) else auth.NATIVE)
        # nothing else of the login is looked at before the password is proved
        if not auth.proves_password(self.users, login.user, plugin, self.nonce, response):
            await self._deny(login.user, with_password=bool(response.strip(b"\0")))
        if plugin == auth.CACHING_SHA2 and response.strip(b"\0"):
            self.stream.put(bytes(packets.make_auth_more_data(auth.FAST_AUTH_SUCCESS)))
        if self.stream.tls is None:
            return b""
        return auth.certificate_proof(self.users[login.user], plugin, self.nonce, self.tls.fingerprint)

    def _say_tls_failed(self, reason: str) -> None:
        log.warning("console.tls_failed", connection=self.connection_id, peer=self.peer, reason=reason)

    async def refuse(self, error: SqlError) -> None:
        """Tell the client why it is not served."""
        await self.stream.send(answers.error(error, CharacterSet.utf8mb4))

    async def _ask(self, plugin: str) -> tuple[str, bytes]:
        """Ask the client to prove the password with this plugin, and return the plugin and the proof."""
        switch = packets.make_auth_switch_request(CharacterSet.utf8mb4, plugin, self.nonce + b"\0")
        await self.stream.send(bytes(switch))
        try:
            return plugin, await self.stream.read_reply(_LOGIN_PACKET)
        except SqlError as failed:
            raise Refused from failed

    async def _deny(self, user: str, *, with_password: bool) -> None:
        log.warning("console.access_denied", connection=self.connection_id, user=user[:80], peer=self.peer)
        using = "YES" if with_password else "NO"
        await self.refuse(ER_ACCESS_DENIED_ERROR(user, self.peer, using))
        raise Refused

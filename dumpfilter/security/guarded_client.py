"""The client with which dumpfilter logs in to servers: it bounds what a server can take, the password above all.

Without TLS, a login never sends the password itself. Servers with the accounts of caching_sha2_password and
sha256_password then offer an RSA key for the password. The key proves nothing about the server, so that whoever answers
at the address would get the password. The client uses a server's key only if it is told to, or a key that it has.
"""

from __future__ import annotations

from typing import Any

import pymysql
from pymysql.connections import Connection

REQUIRES_SECURE_CONNECTION = 2061
"""The number of MySQL's client for a login that needs TLS or a key (``CR_AUTH_PLUGIN_ERR``)."""


class PasswordKept(pymysql.err.OperationalError):  # type: ignore[misc]  # PyMySQL has no types
    """An error about a server that wants the password itself. The password was not sent."""


class ClearPasswordRefused(PasswordKept):
    """An error about a server that asks for the password in the clear, which no option allows."""


class TooManyBytes(pymysql.err.InterfaceError):  # type: ignore[misc]
    """An error about a server that sends more than any answer has."""


class _NoClearPassword:
    """The handler of authentication plugins that send the password itself, or something as good as it."""

    def __init__(self, connection: Any) -> None:
        del connection

    def authenticate(self, packet: Any) -> Any:
        """Refuse the plugin."""
        del packet
        raise ClearPasswordRefused(
            REQUIRES_SECURE_CONNECTION,
            "the server asks for the password in the clear (mysql_clear_password, mysql_old_password or dialog), which "
            "dumpfilter never sends",
        )


class GuardedConnection(Connection):  # type: ignore[misc]
    """PyMySQL's connection with a bound on the bytes that are read, and with the rule for public keys.

    ``most_bytes`` is the limit of the bytes that the server may send. ``trusted_key`` is the server's public key as
    PEM, empty for none. With ``asks_for_key`` the client uses the key that the server sends.
    """

    def __init__(
        self, *, most_bytes: int, trusted_key: bytes = b"", asks_for_key: bool = False, **options: Any
    ) -> None:
        self._limit = self._left = most_bytes
        self._trusted_key = trusted_key
        self._asks_for_key = asks_for_key
        self._sent_key: bytes | None = None
        refused = dict.fromkeys(("mysql_clear_password", "mysql_old_password", "dialog"), _NoClearPassword)
        super().__init__(auth_plugin_map=refused, local_infile=False, program_name="dumpfilter", **options)

    @property
    def server_public_key(self) -> bytes | None:
        """The key for the password, which PyMySQL reads only on a connection without TLS. Raises PasswordKept.

        The result is None before the server was asked for its key.
        """
        if self._trusted_key:
            return self._trusted_key
        if self._asks_for_key:
            return self._sent_key
        raise PasswordKept(
            REQUIRES_SECURE_CONNECTION,
            f"Authentication plugin '{self._auth_plugin_name}' reported error: Authentication requires secure "
            "connection.",
        )

    @server_public_key.setter
    def server_public_key(self, key: bytes | None) -> None:
        self._sent_key = key

    def _read_bytes(self, num_bytes: int) -> bytes:
        self._left -= num_bytes
        if self._left < 0:
            self._force_close()
            raise TooManyBytes(f"the answer has more than {self._limit} bytes")
        data: bytes = super()._read_bytes(num_bytes)
        return data

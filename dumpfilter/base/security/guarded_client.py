"""The MySQL client with which dumpfilter logs in to servers. The client protects the password, and limits the bytes
that a server may send.

Without TLS, a login never sends the password as plain text. Servers with accounts of caching_sha2_password and
sha256_password then offer an RSA key to encrypt the password. The key proves nothing about the server, so that an
impostor at the address would get the password. The client uses a server's key only if the login allows it
(:attr:`Login.asks_for_key`), or if the login has the key (:attr:`Login.public_key`).
"""

from __future__ import annotations

import math
import struct
import time
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CR

from dumpfilter.base.security.client_tls import ClientTls, TlsMode
from dumpfilter.base.security.listening import host_and_port

CLIENT_ERRORS = range(2000, 3000)
"""The numbers of the errors that the client library itself reports (``errmsg.h`` of MySQL).

These errors mean that the server could not be reached or that the connection broke. A server never sends these numbers.
"""

REQUIRES_SECURE_CONNECTION = 2061
"""The client error of MySQL for a login that needs TLS or a public key (``CR_AUTH_PLUGIN_ERR``)."""

_LEAST_RATE = 64 << 10
"""The number of bytes of an answer that add one second to the timeout of the answer, so that a slow network does not
cut a long answer.
"""


@dataclass(frozen=True)
class Login:
    """The settings of a login at a MySQL or MariaDB server: address, user, password, and TLS.

    On a connection without TLS, a server may ask for the password itself. The client then encrypts the password with
    ``public_key``, or with the key that the server sends if ``asks_for_key`` is True. Otherwise the client does not
    send the password, and the login fails.
    """

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    tls: ClientTls = field(default_factory=ClientTls)
    socket: str = ""
    """The path of a Unix socket; empty for a TCP connection."""
    public_key: bytes = b""
    """The server's RSA key as PEM, which encrypts the password on a connection without TLS. Empty for none."""
    asks_for_key: bool = False
    """Whether the client, on a connection without TLS, may encrypt the password with a key that the server sends. An
    impostor at the server's address would then get the password.
    """

    @property
    def address(self) -> str:
        """The text ``host:port`` of the server, with brackets around an IPv6 address."""
        return host_and_port(self.host, self.port)

    def impostor_gets(self) -> str:
        """Return a phrase for warnings: the secret that a fake server at the address could learn. It is "the password"
        or, without TLS and without a key from the server, "a proof of the password" that helps to guess weak passwords.

        Return an empty text if the client verifies the server's certificate.
        """
        if self.tls.mode.verifies:
            return ""
        if self.tls.mode is TlsMode.DISABLED and not self.asks_for_key:
            return "a proof of the password, from which weak passwords can be guessed"
        return "the password"


class PasswordKept(pymysql.err.OperationalError):  # type: ignore[misc]  # PyMySQL has no types
    """The error when a server demands the password itself over an unprotected connection. The password was not sent."""


class ClearPasswordRefused(PasswordKept):
    """The error when a server asks for a plain-text password, which no option allows. The password was not sent."""


class TooManyBytes(pymysql.err.InterfaceError):  # type: ignore[misc]
    """The error when a server sends more bytes than the limit of the connection."""


def _refuse_plugin(connection: Any) -> NoReturn:
    """Refuse an authentication plugin that sends the password itself, or a weak form of it. PyMySQL calls the function
    to make the plugin's handler. Always raises ClearPasswordRefused.
    """
    raise ClearPasswordRefused(
        REQUIRES_SECURE_CONNECTION,
        "the server asks for the password in the clear (mysql_clear_password, mysql_old_password or dialog), which "
        "dumpfilter never sends",
    )


class GuardedConnection(Connection):  # type: ignore[misc]
    """PyMySQL's connection with a limit on the bytes that are read, and with protection of the password.

    Without TLS, the password is encrypted with a server's public key only if the login has the key, or allows keys that
    the server sends.

    The constructor does not connect. The constructor raises OptionError for a file that the login names and that cannot
    be used.

    Parameters:
        login: the server's address, the user and the password.
        most_bytes: the limit of the bytes that the server may send.
        seconds: the timeout of the connection, and of each pause in an answer. The whole login, and each whole answer,
            may take twice as long, and longer only for many bytes.
        options: further keyword arguments of PyMySQL, which replace those that this class sets. ``read_timeout`` is the
            timeout of a pause in an answer after the login. None: answers after the login have no time limit.
    """

    def __init__(self, login: Login, *, most_bytes: int, seconds: float, **options: Any) -> None:
        self._limit = self._left = most_bytes
        self._pause_of_answers = options.pop("read_timeout", seconds)
        self._due = 0.0
        """The time (``time.monotonic``) after which no further bytes of the present answer are awaited."""
        self._login = login
        self._sent_key: bytes | None = None
        refused = dict.fromkeys(("mysql_clear_password", "mysql_old_password", "dialog"), _refuse_plugin)
        self._context = context = login.tls.context()
        is_optional = login.tls.mode is TlsMode.PREFERRED or bool(login.socket)
        arguments = {
            "host": login.host,
            "port": login.port,
            "unix_socket": login.socket or None,
            "user": login.user,
            "password": login.password,
            "ssl": None if is_optional else context,
            "ssl_disabled": context is None or bool(login.socket),
            "autocommit": None,
            "connect_timeout": seconds,
            "read_timeout": seconds,
            "write_timeout": seconds,
            "defer_connect": True,
            "auth_plugin_map": refused,
            "program_name": "dumpfilter",
        }
        super().__init__(**arguments | options)

    @property
    def server_public_key(self) -> bytes | None:
        """The RSA key with which PyMySQL encrypts the password on a connection without TLS. The key is the login's own
        or, if the login allows that, the key that the server has sent; None before the server has sent its key.

        Raises PasswordKept if the login permits no key.
        """
        if self._login.public_key:
            return self._login.public_key
        if self._login.asks_for_key:
            return self._sent_key
        raise PasswordKept(
            REQUIRES_SECURE_CONNECTION,
            f"Authentication plugin '{self._auth_plugin_name}' reported error: Authentication requires secure "
            "connection.",
        )

    @server_public_key.setter
    def server_public_key(self, key: bytes | None) -> None:
        self._sent_key = key

    def _create_ssl_ctx(self, _: Any) -> Any:
        """Return the TLS context of the login, in place of the one that PyMySQL would make. If TLS is optional, PyMySQL
        would load all CA certificates of the machine, which takes 50 ms, and verify none.
        """
        return self._context

    def _get_server_information(self) -> None:
        self._begin_answer()
        super()._get_server_information()

    def _request_authentication(self) -> None:
        super()._request_authentication()
        self._read_timeout = self._pause_of_answers

    def _process_auth(self, plugin_name: bytes, *rest: Any) -> Any:
        # Errors name the account's plugin, no longer the one of the server's greeting.
        self._auth_plugin_name = plugin_name.decode(errors="replace")
        try:
            return super()._process_auth(plugin_name, *rest)
        except RuntimeError as error:  # PyMySQL has no NaCl.
            raise pymysql.err.OperationalError(CR.CR_AUTH_PLUGIN_CANNOT_LOAD, str(error)) from None

    def _execute_command(self, command: int, sql: str | bytes) -> None:
        self._begin_answer()
        super()._execute_command(command, sql)

    def _begin_answer(self) -> None:
        """Set the time limit of the server's next answer. Without a read timeout the connection has no such limit."""
        pause = math.inf if self._read_timeout is None else self._read_timeout
        self._due = time.monotonic() + 2 * pause

    def _read_bytes(self, num_bytes: int) -> bytes:
        self._left -= num_bytes
        data = bytearray()
        try:
            if self._left < 0:
                raise TooManyBytes(f"the answer has more than {self._limit} bytes")
            # PyMySQL would wait for each byte anew, so that a server that sends one now and then would hold the thread.
            while len(data) < num_bytes:
                if time.monotonic() > self._due:
                    raise TimeoutError("the answer does not end in time")
                more = self._rfile.read1(num_bytes - len(data))
                if not more:
                    raise pymysql.err.OperationalError(CR.CR_SERVER_LOST, _LOST)
                self._due += len(more) / _LEAST_RATE
                data += more
        except OSError as error:
            self._force_close()
            raise pymysql.err.OperationalError(CR.CR_SERVER_LOST, f"{_LOST} ({error})") from None
        except BaseException:
            self._force_close()
            raise
        return bytes(data)


_LOST = "Lost connection to MySQL server during query"
"""PyMySQL's error text for a connection that breaks while an answer is read."""

MALFORMED = (ValueError, LookupError, AssertionError, TypeError, AttributeError, struct.error, RuntimeError)
"""The errors that PyMySQL raises when a server's packets are malformed, or when a server asks for a local file."""

_WRONG_NUMBER = "Packet sequence number wrong"
"""The beginning of PyMySQL's error for a first packet that is not MySQL's. The first bytes of HTTP/2 cause it."""


def speaks_no_mysql(error: Exception) -> bool:
    """Tell whether an error of PyMySQL means that the server speaks another protocol than MySQL's."""
    return _WRONG_NUMBER in str(error)

"""The connection to a source (a running MySQL or MariaDB server) with PyMySQL: the login and its credentials, and the
statements and commands before a dump.

The user and the password come from the files and variables that MySQL's own clients use. A command-line argument never
holds a password.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import socket
import ssl
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import COMMAND, CR

from dumpfilter.base import errors as E
from dumpfilter.base.options.config_files import read_options_file, read_password, read_small_file
from dumpfilter.base.printable import printable, replace_invalid_utf8
from dumpfilter.base.security import guarded_client as G
from dumpfilter.base.security.client_tls import ClientTls, TlsMode, ssl_reason
from dumpfilter.binlog.format import Family
from dumpfilter.filter.rules import escaped
from dumpfilter.receiver.store import StoredSource
from dumpfilter.receiver.url import SourceUrl, home_expanded, parse_source_url

PASSWORD_VARIABLE = "DUMPFILTER_SOURCE_PASSWORD"
SECTIONS = ("client", "dumpfilter-source")
"""The sections of an option file that are read. A later section has precedence."""

_DEFAULT_FILE = "~/.my.cnf"
_ON = ("", "1", "on", "true")
"""The values with which an option file turns an option on. An empty value is an option without a value."""


def find_credentials(url: SourceUrl) -> G.Login:
    """Return the login for the server at ``url``. Parts of the URL have precedence over the option file.

    The option file is ``~/.my.cnf`` if the URL names none. The password is from the URL's password file, else from the
    variable DUMPFILTER_SOURCE_PASSWORD, else from the option file. Without a user in either, the user is the one that
    runs the process. Raises OptionError if that user has no name, for a file that cannot be read, and for a public key
    that is no RSA key.
    """
    options: dict[str, str] = {}
    defaults = url.defaults_file or home_expanded(Path(_DEFAULT_FILE))
    if url.defaults_file is not None or defaults.is_file():
        found = [option for option in read_options_file(defaults) if option.section in SECTIONS]
        found.sort(key=lambda option: SECTIONS.index(option.section))
        options = {option.name.replace("_", "-"): str(option.value or "") for option in found}
    if url.password_file is not None or PASSWORD_VARIABLE in os.environ:
        password = read_password(url.password_file, PASSWORD_VARIABLE)
    else:
        password = options.get("password", "")
        if password != replace_invalid_utf8(password):
            raise E.OptionError(f"{defaults}: the password is not UTF-8; write the file in UTF-8")

    def path(name: str) -> Path | None:
        return home_expanded(Path(options[name])) if options.get(name) else None

    ca = url.ca or path("ssl-ca")
    return G.Login(
        host=url.host,
        port=url.port,
        socket=url.socket,
        user=url.user or options.get("user", "") or _own_name(url),
        password=password,
        tls=ClientTls(
            url.tls or _mode(options.get("ssl-mode", ""), is_local=url.is_local, has_ca=ca is not None),
            ca,
            url.cert or path("ssl-cert"),
            url.key or path("ssl-key"),
        ),
        public_key=_public_key(url, url.public_key or path("server-public-key-path")),
        asks_for_key=url.asks_for_key or options.get("get-server-public-key", "0").lower() in _ON,
    )


def _own_name(url: SourceUrl) -> str:
    """Return the name of the user that runs this process. Raises OptionError, with the address ``url``, if the system
    knows no name for the user id, as in many containers.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise E.OptionError(
            f"{url}: the user is missing, and user id {os.getuid()} of this process has no name: name a user, as in "
            "mysql://repl@db1:3306/"
        ) from None


def _mode(text: str, *, is_local: bool, has_ca: bool) -> TlsMode:
    """Return the TLS mode with the name ``text``, the value of ``ssl-mode`` in an option file. For any other text
    return the default.

    ``is_local`` says that the server is on this machine, and ``has_ca`` that a CA is given. With a CA the default
    verifies the server's identity. Without a CA it requires TLS for other machines, and uses TLS on this machine if the
    server offers it.
    """
    try:
        return TlsMode(text)
    except ValueError:
        if has_ca:
            return TlsMode.VERIFY_IDENTITY
        return TlsMode.PREFERRED if is_local else TlsMode.REQUIRED


def _public_key(url: SourceUrl, path: Path | None) -> bytes:
    """Return the server's RSA public key in PEM from the file ``path``; empty for None. With this key the password is
    encrypted on a connection without TLS. ``url`` is the server's address, for error texts. Raises OptionError for a
    file without such a key.
    """
    if path is None:
        return b""
    # The imports take longer than a command that reads files has.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        pem = read_small_file(path)
        if not isinstance(load_pem_public_key(pem), RSAPublicKey):
            raise ValueError("the key is no RSA key")
    except OSError as error:
        raise E.OptionError(f"{url}: source-public-key={path}: cannot be read: {error.strerror}") from None
    except (ValueError, UnsupportedAlgorithm) as error:
        raise E.OptionError(
            f"{url}: source-public-key={path}: holds no RSA public key in PEM ({error}); copy public_key.pem from the "
            "server's data directory"
        ) from None
    return pem


_REGISTER_REPLICA = 0x15
"""The number of the command COM_REGISTER_SLAVE, which makes the receiver visible in SHOW REPLICAS."""

_NON_BLOCKING = 1
"""The flag of COM_BINLOG_DUMP with which the dump ends at the end of the newest file."""

_ANNOTATE_ROWS = 2
"""The flag of COM_BINLOG_DUMP without which MariaDB leaves out Annotate_rows events."""

_CAPABILITY = 4
"""The capability level with which MariaDB sends its GTID events unchanged (``MARIA_SLAVE_CAPABILITY_GTID``)."""

MOST_POSITION = 0xFFFFFFFF
"""The highest position at which a dump can begin, since COM_BINLOG_DUMP has 4 bytes for it."""

_SILENT_HEARTBEATS = 3
"""The number of missing heartbeats after which the connection counts as lost."""

_LEAST_SILENCE = 5.0
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

_SIZE = re.compile(r"[0-9]{1,20}")
"""The pattern of a file's size. Python's int() refuses other digits, and numbers of thousands of digits."""

CONNECT_SECONDS = 10.0
"""The longest wait for a connection, and for each answer before the dump, seconds."""

_MOST_ANSWERED = 8 << 20
"""The largest number of bytes that are read before the dump. The list of 100,000 binlog files has 4 MiB."""

_LONGEST_TEXT = 500
"""The length to which a text of the source is cut in errors, characters."""

MOMENTARY_ERRORS = frozenset({1040, 1053, 1077, *range(1158, 1162), 1203, 1226, 1317, 1927, 3024})
"""The numbers of the server errors that may disappear without a change by the user.

They are too many connections (1040, of one user 1203), a shutdown (1053, 1077), and an error or timeout of the
connection (1158 to 1161). Others are a limit of the user (1226), an interrupted or slow query (1317, 3024), and a
killed connection (1927).
"""

_ACCESS_ERRORS = frozenset({1044, 1045, 1142, 1227, 1698, 3118, 4031, 4151})
_ACCESS_DENIED = 1045
"""The error number for a wrong password. MariaDB also uses it for a missing privilege."""

_NO_SUCH_PRIVILEGE = 1227
_PRIVILEGE_ERRORS = frozenset({1044, 1142, _NO_SUCH_PRIVILEGE})


@dataclass(frozen=True)
class SourceFacts:
    """The properties of a source (a running server) that are queried after the login: family, version, UUID, and the
    list of its binlog files at that time.
    """

    family: Family
    version: str
    server_uuid: str
    logs: list[tuple[str, int]] | None
    """The names and sizes of the source's binlog files in bytes, oldest first. None if the user may not list them."""


class SourceConnection:
    """A connection to a source (a running server), for statements first and then for the dump. The constructor logs in.

    Constructor and methods raise ConnectionLost, TlsError, SourceRefused or SourceStreamDamaged. The constructor also
    raises OptionError for unusable files. Each error names the address.
    """

    def __init__(self, url: SourceUrl) -> None:
        self.url = url
        # The files are read at each connection, so that a changed password is used without a restart.
        login = find_credentials(url)
        self._user = login.user
        self._is_logged_in = False
        try:
            self._client = G.GuardedConnection(login, most_bytes=_MOST_ANSWERED, seconds=CONNECT_SECONDS)
        except E.OptionError as error:
            raise E.OptionError(f"{url}: {error}") from None
        with self._explaining():
            self._client.connect()
        self._is_logged_in = True

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        """Convert each exception of the ``with`` block into the DumpfilterError that explains it."""
        try:
            yield
        except Exception as error:
            raise self._explained(error) from None

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return isinstance(self._client._sock, ssl.SSLSocket)

    @property
    def is_mariadb(self) -> bool:
        """Whether the server has identified itself as MariaDB at the login."""
        return "mariadb" in str(self._client.server_version).lower()

    def ask(self, statement: str) -> Sequence[Sequence[Any]]:
        """Run a statement and return its rows as tuples. Every value is a string or None."""
        with self._explaining(), self._client.cursor() as cursor:
            cursor.execute(statement)
            return [tuple(None if v is None else str(v) for v in row) for row in cursor.fetchall()]

    def begin_stream(
        self, family: Family, replica: StoredSource, place: tuple[str, int], *, blocking: bool
    ) -> socket.socket:
        """Register the receiver as a replica of the server, and begin the dump. Return the socket from which the dump's
        packets are read.

        ``family`` is MySQL or MariaDB, and ``replica`` has the UUID and the server id with which the receiver
        registers. ``place`` is the file and position at which the dump begins. An empty file name stands for the
        source's oldest file. With ``blocking`` the dump waits for new events at the end of the newest file, and
        otherwise it ends there. The socket raises TimeoutError when even heartbeats fail to come.
        """
        url = self.url
        nanoseconds = int(url.heartbeat * 1e9)
        # CRC32 also for a source that writes no checksums now. With NONE, servers remove the checksums of older files.
        self.ask("SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32'")
        self.ask(f"SET @master_heartbeat_period = {nanoseconds}, @source_heartbeat_period = {nanoseconds}")
        server_id = url.server_id or replica.replica_id
        if family == "mariadb":
            self.ask(f"SET @mariadb_slave_capability = {_CAPABILITY}")
        else:
            self.ask(f"SET @slave_uuid = '{replica.replica_uuid}', @replica_uuid = '{replica.replica_uuid}'")
        nothing = b"\0\0\0"  # no report-host, no user, no password
        registration = struct.pack("<I", server_id) + nothing + struct.pack("<HII", 0, 0, 0)
        name, position = place
        flags = (0 if blocking else _NON_BLOCKING) | (_ANNOTATE_ROWS if family == "mariadb" else 0)
        request = struct.pack("<IHI", position, flags, server_id) + name.encode("utf-8", "surrogateescape")
        with self._explaining():
            self._client._execute_command(_REGISTER_REPLICA, registration)
            self._client._read_packet()
            self._client._execute_command(COMMAND.COM_BINLOG_DUMP, request)
            stream: socket.socket = self._client._sock
            stream.settimeout(max(_LEAST_SILENCE, _SILENT_HEARTBEATS * url.heartbeat))
        return stream

    def interrupt(self) -> None:
        """Shut the socket down, so that a thread that waits for data of the source returns with an error. Any thread
        may call this method.
        """
        stream = self._client._sock
        if stream is not None:
            # The source may have closed the connection already.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(stream, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._client._force_close()

    def refusal(self, number: int, text: str) -> E.DumpfilterError:
        """Return the error to raise for an error packet of the server. ``number`` and ``text`` are the number and the
        text in the packet.

        The result is ConnectionLost if the server's error may disappear without a change by the user, such as too many
        connections. Otherwise it is SourceRefused, with the number in its field ``number``. The error's text says what
        to do.
        """
        said = printable(text, _LONGEST_TEXT)
        where = str(self.url)
        if number in MOMENTARY_ERRORS:
            return E.ConnectionLost(f"{where}: {said} ({number})")
        cure = ""
        if number in _PRIVILEGE_ERRORS or (number == _ACCESS_DENIED and self._is_logged_in):
            privilege = "BINLOG MONITOR" if self.is_mariadb else "REPLICATION CLIENT"
            cure = f"; grant what is missing: GRANT REPLICATION SLAVE, {privilege} ON *.* TO {self._user}"
        elif number in _ACCESS_ERRORS:
            cure = (
                "; check the user in the address and the password in ?password-file=, "
                "DUMPFILTER_SOURCE_PASSWORD or ~/.my.cnf"
            )
            if number == _ACCESS_DENIED and not self._client._secure:
                cure += (
                    "; or the account requires TLS (REQUIRE SSL) and the connection has none, because the source "
                    "offers none or the address says tls=disabled"
                )
        error = E.SourceRefused(f"{where}: {said} ({number}){cure}")
        error.number = number
        return error

    def _explained(self, error: Exception) -> E.DumpfilterError:
        """Return the DumpfilterError for an error of PyMySQL or the operating system, or for an invalid answer of the
        server.
        """
        where = str(self.url)
        original = getattr(error, "original_exception", None) or error
        if isinstance(original, E.DumpfilterError):
            return original
        if isinstance(error, G.ClearPasswordRefused):
            return E.TlsError(
                f"{where}: {error.args[1]}; give the account another plugin, such as caching_sha2_password"
            )
        if isinstance(error, G.PasswordKept):
            return E.TlsError(
                f"{where}: {error.args[1]} Use TLS, which servers offer if they have a certificate, and verify it "
                "(?ca=FILE). Without TLS, give the server's public key (?source-public-key=FILE), or take the key that "
                "comes over the network (?get-source-public-key=yes): whoever answers in the server's place then gets "
                "the password"
            )
        if isinstance(error, G.TooManyBytes):
            return E.SourceStreamDamaged(
                f"{where}: the source answers a question with more than {_MOST_ANSWERED} bytes"
            )
        if isinstance(original, ssl.SSLError):
            return E.TlsError(f"{where}: TLS: {_tls_cure(original)}")
        if isinstance(original, OSError):
            reason = original.strerror or str(original) or type(original).__name__
            return E.ConnectionLost(
                f"{where}: cannot be reached: {reason}; is the server up, and is this its address?"
            )
        if G.speaks_no_mysql(error):
            return E.SourceStreamDamaged(
                f"{where}: no MySQL server answers here, but another protocol, as at a master's port for slaves: "
                "name a server, or the port of --replica-port"
            )
        if isinstance(error, pymysql.err.MySQLError):
            number, text = (*error.args, "", "")[:2] if error.args else (2013, str(error))
            if not isinstance(number, int):
                return E.SourceStreamDamaged(
                    f"{where}: the login failed: {printable(str(number), _LONGEST_TEXT)}"
                )
            if number == 2026:
                return E.TlsError(
                    f"{where}: the source offers no TLS; give it a certificate, or say ?tls=disabled if the network is "
                    "safe"
                )
            if number == CR.CR_AUTH_PLUGIN_CANNOT_LOAD:
                return E.SourceRefused(
                    f"{where}: dumpfilter cannot log in with the account's plugin "
                    f"{printable(self._client._auth_plugin_name)} ({printable(str(text), _LONGEST_TEXT)}); give the "
                    "account mysql_native_password or caching_sha2_password"
                )
            if number in G.CLIENT_ERRORS or not number:
                return E.ConnectionLost(f"{where}: {printable(str(text), _LONGEST_TEXT)}")
            return self.refusal(number, str(text))
        return E.SourceStreamDamaged(
            f"{where}: the answer is no MySQL protocol: {type(error).__name__}: {printable(str(error), _LONGEST_TEXT)}"
        )


def _tls_cure(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the source's certificate is not accepted: {error.verify_message.rstrip('.')}; give the CA that "
            "signed it (?ca=FILE), or say tls=verify-ca if the certificate does not name the host"
        )
    return ssl_reason(error)


def ask_facts(connection: SourceConnection) -> SourceFacts:
    """Query a server's family, version, UUID and binlog files after the login. Raises SourceRefused for a server that
    writes no binlog, or that refuses a statement for another reason than a missing privilege to list the files.

    The UUID is empty for MariaDB, which has none.
    """
    variables = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'server_uuid', 'log_bin')"
    found = {str(row[0]): str(row[1] or "") for row in connection.ask(variables) if len(row) > 1}
    version = found.get("version") or ""
    if found.get("log_bin") == "OFF":
        raise E.SourceRefused(
            f"{connection.url}: the server writes no binlog; start it with --log-bin (and a --server-id)"
        )
    is_mariadb = connection.is_mariadb or "mariadb" in version.lower()
    logs = None
    try:
        rows = connection.ask("SHOW BINARY LOGS")
        logs = [(str(row[0]), int(row[1])) for row in rows if len(row) > 1 and _SIZE.fullmatch(str(row[1]))]
    except E.SourceRefused as error:
        if error.number != _NO_SUCH_PRIVILEGE:
            raise
    server_uuid = found.get("server_uuid") or ""
    if is_mariadb or not _UUID.fullmatch(server_uuid):
        server_uuid = ""
    return SourceFacts("mariadb" if is_mariadb else "mysql", version, server_uuid, logs)


_NAMES = {
    "schemata": "schema_name, ''",
    "tables": "table_schema, table_name",
    "triggers": "trigger_schema, trigger_name",
    "routines": "routine_schema, routine_name",
    "events": "event_schema, event_name",
}
"""The columns of information_schema with the names of objects, by table."""


def objects_of(address: str) -> list[str]:
    """Return the names of the objects (databases, tables, triggers, routines and events) that a server shows to the
    account. Callers use them to decide which of the names in a binlog exist on the server.

    Each name is ``database.name``, and ``database.`` for a database itself. Special characters are escaped as in a LIKE
    pattern. ``address`` is a mysql:// URL. Raises OptionError for a wrong address, and the errors of SourceConnection.
    """
    connection = SourceConnection(parse_source_url(address))
    try:
        with connection._explaining():
            return [
                f"{escaped(database)}.{escaped(name)}"
                for table, columns in _NAMES.items()
                for database, name in connection.ask(f"SELECT {columns} FROM information_schema.{table}")
            ]
    finally:
        connection.close()

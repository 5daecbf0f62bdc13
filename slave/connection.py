"""The gRPC connection of a replication channel to its master, with or without TLS, and the reasons why there is none.

gRPC says little about a TLS handshake that failed, and always verifies the master's certificate. Therefore the slave
first makes a handshake by itself (the trial). The trial finds the reason of a failure. The trial also gets the
certificate that gRPC shall expect when the user wants less verification.

A MySQL server speaks first, and greets each connection with a packet of protocol version 10 (Protocol::HandshakeV10 of
MySQL's client/server protocol). A gRPC server never begins with such bytes.
"""

from __future__ import annotations

import hashlib
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import grpc
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509.oid import NameOID

from dumpfilter.base.errors import NotAMaster, OptionError, TlsError
from dumpfilter.base.logs import logger
from dumpfilter.base.printable import printable
from dumpfilter.base.security.client_tls import ClientTls, TlsFileError, TlsMode, read_tls_file, ssl_reason
from dumpfilter.base.security.listening import host_and_port, is_loopback
from dumpfilter.base.security.tls import GRPC_KEYS, suits_grpc
from dumpfilter.slave.options import MOST_PORT, SlaveOptions
from dumpfilter.slave.state import SourceInfo
from dumpfilter.v1 import dumpfilter_pb2 as pb

log = logger("dumpfilter.slave")

ROUND_TRIPS = 3
"""The multiple of the option ``net_timeout`` that a slave waits for the first answer on a new connection.

A connection takes two round trips, and ``net_timeout`` must be longer than one.
"""

_LARGEST_MESSAGE = 64 << 20
"""The size of a master's message above which gRPC refuses the message, bytes. A message has at most 8 MiB of events,
and the GTIDs of the sent and dropped transactions.
"""

_LARGEST_NUMBER = 2**31 - 1
"""The largest value of an option of gRPC that is a number."""

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", _LARGEST_MESSAGE),
    # gRPC must not reuse connections or wait between attempts by itself, because the slave's class Backoff decides how
    # long the slave waits before it connects again.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    # The I/O thread itself waits for the next message. Otherwise each message wakes two threads.
    ("SingleThreadedUnaryStream", 1),
)

PORT_FOR_SLAVES = "the port that `dumpfilter master --port` or `dumpfilter slave --serve-port` opens"

_NEVER_CONNECTED = ("Connection refused", "DNS", "imeout", "nreachable", "No route")
"""Parts of gRPC's error texts that say that the slave did not reach the master at all."""


@dataclass(frozen=True)
class Source:
    """A channel's master as the I/O thread sees it: the address and options for the connection, and the slave's
    identity and filter for the registration.
    """

    info: SourceInfo
    """The channel's configuration, such as the master's address and the user."""
    options: SlaveOptions
    uuid: str = ""
    """The slave's server UUID."""
    filter: pb.FilterDefinition = field(default_factory=pb.FilterDefinition)
    """The filter that the slave sends to the master when it registers."""

    @property
    def filter_digest(self) -> str:
        """A hash of :attr:`filter`, by which the slave notices after a restart that its filter has changed."""
        return hashlib.blake2b(self.filter.SerializeToString(deterministic=True), digest_size=8).hexdigest()


def open_channel(source: Source, stopped: Callable[[], bool]) -> grpc.Channel:
    """Return a gRPC channel to the master, with TLS if the configuration of the replication channel asks for TLS. The
    caller closes the gRPC channel.

    ``stopped`` tells whether the slave is stopping, which ends a waiting TLS handshake. Raises TlsError when slave and
    master cannot agree on TLS, NotAMaster when a MySQL server answers, and Unreachable when no master answers the
    handshake or there is no such port. Raises OptionError when a password would be sent unencrypted to another machine,
    unless the option ``plain_password`` allows that.
    """
    if source.info.port > MOST_PORT:
        # gRPC would connect to another port, the number's lowest 16 bits.
        raise Unreachable(f"there is no port {source.info.port}: SOURCE_PORT is at most {MOST_PORT}")
    # Without a scheme gRPC would take a host named dns or unix for the scheme.
    target = f"dns:///{quote(source.info.address, safe='[]:')}"
    patience = ROUND_TRIPS * source.options.net_timeout
    # gRPC calls the limit of an attempt to connect a backoff.
    limit = min(int(patience * 1000), _LARGEST_NUMBER)
    settings = (*CHANNEL_OPTIONS, ("grpc.min_reconnect_backoff_ms", limit))
    if source.info.tls is None:
        if source.info.password and not source.options.plain_password and not is_loopback(source.info.host):
            raise OptionError(
                f"master {source.info.address}: the password of user {source.info.user!r} would travel unencrypted "
                "to another machine: set SOURCE_SSL=1 and SOURCE_SSL_CA (--source-ssl-ca), or allow it with "
                "--source-plain-password"
            )
        return grpc.insecure_channel(target, options=settings)
    if source.info.tls.mode is TlsMode.REQUIRED:
        log.warning(
            "the connection is encrypted, but the master's certificate is not verified",
            hint="somebody in between can read and change everything; give SOURCE_SSL_CA (--source-ssl-ca)",
            master=source.info.address,
            channel=source.info.channel,
        )
    try:
        credentials, name = agree(source.info.tls, *source.info.endpoint, stopped, patience)
    except TlsError:
        _refuse_mysql(source)
        raise
    expected = () if name is None else (("grpc.ssl_target_name_override", name),)
    return grpc.secure_channel(target, credentials, options=(*settings, *expected))


def end_stream(call: Any) -> None:
    """Cancel ``call``, a running stream of the master (a dump) that the calling thread reads, so that its connection
    can close.

    The channel has options (CHANNEL_OPTIONS) with which gRPC makes no thread for a stream. The thread that reads the
    stream must then also take gRPC's last internal events of the call. Until they are taken, the connection stays open,
    even after the gRPC channel was closed. gRPC has no public function that takes them, so this function uses private
    ones.
    """
    call.cancel()
    # A later version of gRPC may not have these members.
    with suppress(AttributeError):
        # After an unreadable message `call.cancel` does nothing, although the master goes on to send.
        call._call.cancel(*grpc.StatusCode.CANCELLED.value)
        while call._state.due:
            call._consume_next_event()


def explain_failure(source: Source, error: grpc.RpcError, stopped: Callable[[], bool]) -> None:
    """Raise the reason why a gRPC call without TLS has failed, if each later call must fail for the same reason. Return
    if a later call may succeed.

    ``error`` is the error of the call. Raises NotAMaster if a MySQL server answers, and TlsError if the master only
    accepts TLS. ``stopped`` tells whether the slave is stopping, which ends the checks.
    """
    details = error.details() or ""
    if (
        source.info.tls is not None
        or error.code() is not grpc.StatusCode.UNAVAILABLE
        or any(reason in details for reason in _NEVER_CONNECTED)
    ):
        return
    _refuse_mysql(source)
    if speaks_tls(*source.info.endpoint, stopped):
        raise TlsError(
            f"master {source.info.address}: the master speaks TLS alone: set SOURCE_SSL=1 and SOURCE_SSL_CA "
            "(--source-ssl-ca)"
        ) from error


def _refuse_mysql(source: Source) -> None:
    """Raise NotAMaster if a MySQL or MariaDB server answers at the master's address."""
    version = mysql_version(*source.info.endpoint)
    if version is None:
        return
    family = "MariaDB" if "MariaDB" in version else "MySQL"
    raise NotAMaster(
        f"master {source.info.address}: this is a {family} server ({version}), or a console or replication port of "
        f"dumpfilter, and not a port for slaves: name {PORT_FOR_SLAVES}; for a server start a master first "
        f"(dumpfilter master mysql://USER@{source.info.address}/ --store DIRECTORY)"
    )


_GREETING_SECONDS = 2.0
"""The longest wait for a connection, and for the greeting, seconds. Servers send the greeting at once, in one piece."""

_LONGEST_GREETING = 128
"""The largest number of bytes of a greeting that are read. The version is at the beginning."""

_GREETING = re.compile(rb"...\0(?:\xff..|\x0a(?P<version>[^\0]*)\0)", re.DOTALL)
"""The pattern of the beginning of a MySQL server's first packet: the packet's length, the packet number 0, and an error
or the protocol's version 10 with the server's version.
"""


def mysql_version(host: str, port: int) -> str | None:
    """Connect to an address, and return the version in the greeting of a MySQL or MariaDB server. Return None if no
    such server answers.

    The version is "of unknown version" if the server greets with an error, for example because it blocks this host.
    """
    try:
        with socket.create_connection((host, port), timeout=_GREETING_SECONDS) as connection:
            # A peer that sends byte by byte must not hold up STOP REPLICA, so there is one read.
            return version_in(connection.recv(_LONGEST_GREETING))
    except (OSError, ValueError, OverflowError):
        return None


def version_in(greeting: bytes) -> str | None:
    """Return the server's version in ``greeting``, the first packet of MySQL's protocol. Return None for all other
    bytes.

    An error packet in place of a greeting has no version. For an error packet the result is "of unknown version".
    """
    found = _GREETING.match(greeting)
    if found is None:
        return None
    if found["version"] is None:
        return "of unknown version"
    # MariaDB puts 5.5.5- before its version, for old replicas of MySQL.
    return printable(found["version"].decode("utf-8", "replace").removeprefix("5.5.5-"))


_PLAIN_TRIAL_SECONDS = 2.0
"""The longest time for the test whether a master speaks TLS, seconds. The test follows a lost connection without
TLS.
"""

_POLL = 0.05
"""The interval at which the trial TLS handshake checks whether the slave is stopping, seconds."""

_PROTOCOL = "h2"
"""The name of HTTP/2 in the TLS handshake (ALPN). gRPC servers refuse clients that do not name it."""


class Unreachable(Exception):
    """The exception for a handshake that reached no server, or that the server did not answer. The text gives the
    reason.
    """


def agree(
    tls: ClientTls, host: str, port: int, stopped: Callable[[], bool], seconds: float = 180.0
) -> tuple[grpc.ChannelCredentials, str | None]:
    """Make a trial TLS handshake with the master. Return the credentials with which gRPC shall connect, and the name
    that gRPC shall expect in the master's certificate. None as the name stands for ``host`` itself.

    ``tls`` has the channel's TLS options. Raises TlsError when slave and master cannot agree on TLS, and Unreachable
    when no server answers within ``seconds``. ``stopped`` tells whether the slave is stopping, which ends the trial
    with Unreachable, too.
    """
    master, deadline = f"master {host_and_port(host, port)}", time.monotonic() + seconds
    files = ("SOURCE_SSL_CA", tls.ca), ("SOURCE_SSL_CERT", tls.certificate), ("SOURCE_SSL_KEY", tls.key)
    try:
        roots, certificate, key = (
            None if path is None else read_tls_file(option, path) for option, path in files
        )
        context = _context(tls)
    except TlsFileError as error:
        raise TlsError(str(error)) from None
    # OpenSSL has read the certificate, even if cryptography cannot.
    with suppress(ValueError, UnsupportedAlgorithm):
        if certificate is not None and not suits_grpc(x509.load_pem_x509_certificate(certificate)):
            raise TlsError(f"SOURCE_SSL_KEY={tls.key}: is of a kind that gRPC cannot use: {GRPC_KEYS}")
    try:
        # A master that is being stopped hangs up, too. The second trial then meets a closed port.
        presented = _handshake(context, host, port, stopped, deadline) or _handshake(
            context, host, port, stopped, deadline
        )
    except ssl.SSLError as error:
        raise TlsError(f"{master}: {_cure(tls, error)}") from None
    if presented is None:
        raise TlsError(f"{master}: {_refused(tls)}")
    trusted = roots or b"" if tls.mode.verifies else ssl.DER_cert_to_PEM_cert(presented).encode()
    name = None if tls.mode is TlsMode.VERIFY_IDENTITY else _name_in(presented, master)
    return grpc.ssl_channel_credentials(trusted, key, certificate), name


def speaks_tls(host: str, port: int, stopped: Callable[[], bool]) -> bool:
    """Tell whether a server that closed a connection without TLS answers a TLS handshake. If so, the user can be told
    to turn TLS on.

    ``stopped`` returns whether the slave is stopping, which ends the check with False.
    """
    context = _context(ClientTls(TlsMode.REQUIRED))
    try:
        _handshake(context, host, port, stopped, time.monotonic() + _PLAIN_TRIAL_SECONDS)
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except Unreachable:
        return False
    return True


def _context(tls: ClientTls) -> ssl.SSLContext:
    """Return the context of Python's ``ssl`` for the slave's TLS options. Raises TlsFileError for files that cannot be
    used.
    """
    context = tls.context()
    assert context is not None
    context.set_alpn_protocols([_PROTOCOL])
    # As in gRPC, a certificate in the CA's file is trusted even if another one has signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _handshake(
    context: ssl.SSLContext, host: str, port: int, stopped: Callable[[], bool], deadline: float
) -> bytes | None:
    """Connect and make a TLS handshake. Then wait for the master's first byte, and return the master's certificate as
    DER.

    Return None if the master completes the handshake and then closes the connection. In TLS 1.3 a server checks the
    client's certificate after the client's part of the handshake. A gRPC server that refuses the certificate, or gets
    none although it requires one, closes the connection without a reason. Raises SSLError when the handshake fails, and
    Unreachable when no server answers until ``deadline`` (``time.monotonic``), or the slave is stopping.
    """
    answer: Future[bytes | None] = Future()

    def shake() -> None:
        seconds = max(deadline - time.monotonic(), _POLL)
        try:
            with (
                socket.create_connection((host, port), seconds) as plain,
                context.wrap_socket(plain, server_hostname=host) as connection,
            ):
                presented = None
                with suppress(ssl.SSLEOFError, ConnectionResetError):
                    # The first byte of HTTP/2 tells that the master has accepted the slave.
                    presented = connection.getpeercert(binary_form=True) if connection.recv(1) else None
                answer.set_result(presented)
        except BaseException as error:
            answer.set_exception(error)

    # Nothing interrupts the resolver of names, and a slave that stops must not wait for it.
    threading.Thread(target=shake, name="slave-tls-trial", daemon=True).start()
    try:
        while not wait([answer], _POLL).done:
            if stopped():
                raise Unreachable("the slave stops")
            if time.monotonic() >= deadline:
                raise Unreachable("the master did not answer in time")
        return answer.result()
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        raise Unreachable("the master closed the connection in the handshake") from None
    except ssl.SSLError:
        raise
    except (OSError, ValueError, OverflowError) as error:
        # Impossible hosts and ports are ValueError and OverflowError.
        raise Unreachable(getattr(error, "strerror", None) or str(error)) from None


def _cure(tls: ClientTls, error: ssl.SSLError) -> str:
    """Return a text that says why a TLS handshake failed by ``error``, and what the user can do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        authority = f"is SOURCE_SSL_CA={tls.ca} the CA that signed the certificate?"
        cure = _CURES.get(error.verify_code, authority)
        return f"the master's certificate is refused ({error.verify_message.rstrip('.')}): {cure}"
    if "ALERT" in (error.reason or ""):
        return _refused(tls, f" ({ssl_reason(error)})")
    return (
        f"the master does not speak TLS, and SOURCE_SSL=1 demands TLS ({ssl_reason(error)}): start the master with "
        "--tls-cert and --tls-key, or set SOURCE_SSL=0 (--no-source-ssl)"
    )


def _refused(tls: ClientTls, reason: str = "") -> str:
    """Return a text about a master that refuses the slave's certificate, or the lack of a certificate. ``reason`` is
    OpenSSL's reason in parentheses; empty for none.
    """
    if not tls.certificate:
        return (
            f"the master refuses the TLS connection{reason}: it probably demands a certificate of the slave: give "
            "SOURCE_SSL_CERT and SOURCE_SSL_KEY (--source-ssl-cert, --source-ssl-key)"
        )
    return (
        f"the master refuses SOURCE_SSL_CERT={tls.certificate}{reason}: is the certificate valid, and signed by the CA "
        "that the master's --tls-ca names?"
    )


def _name_in(presented: bytes, master: str) -> str:
    """Return a host name from the master's certificate, for gRPC to expect in this certificate. gRPC always compares a
    name; with the certificate's own name the comparison succeeds, and the host's name is not verified.

    ``presented`` is the certificate as DER. ``master`` is the master's address, with which error texts begin. Raises
    TlsError for a certificate that is expired, nameless or unreadable.
    """
    try:
        certificate = x509.load_der_x509_certificate(presented)
        expires = certificate.not_valid_after_utc
        names = _names(certificate)
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise TlsError(
            f"{master}: the master's certificate cannot be read ({error}): give the master another one"
        ) from None
    if expires < datetime.now(UTC):
        raise TlsError(
            f"{master}: the master's certificate expired on {expires:%Y-%m-%d %H:%M} UTC: {_RENEW}"
        )
    if not names:
        raise TlsError(
            f"{master}: the master's certificate names no host: give the master a certificate with a name "
            "(subjectAltName)"
        )
    return names[0].replace("*", "any", 1)


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    return [
        *names.get_values_for_type(x509.DNSName),
        *(str(address) for address in names.get_values_for_type(x509.IPAddress)),
    ]


_RENEW = "renew the certificate on the master"
_HOST_CURE = (
    "name the host in the master's certificate (subjectAltName), or connect to a name that the certificate has, or set "
    "SOURCE_SSL_VERIFY_SERVER_CERT=0 to trust every certificate of the CA"
)
_CURES = {
    9: "compare the clocks of both machines",  # X509_V_ERR_CERT_NOT_YET_VALID
    10: _RENEW,  # X509_V_ERR_CERT_HAS_EXPIRED
    62: _HOST_CURE,  # X509_V_ERR_HOSTNAME_MISMATCH
    64: _HOST_CURE,  # X509_V_ERR_IP_ADDRESS_MISMATCH
}
"""The advice to the user when the slave refuses the master's certificate, by OpenSSL's number of the reason."""

"""The trial handshake: a TLS handshake that a slave makes with its master before gRPC connects.

gRPC says little about a handshake that failed, and always verifies the master's certificate. Therefore the slave first
makes a handshake by itself. The trial finds the reason of a failure. It also gets the certificate that gRPC shall
expect when the user wants less verification.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import UTC, datetime

import grpc
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509.oid import NameOID

from dumpfilter.base.errors import TlsError
from dumpfilter.base.security.client_tls import ClientTls, TlsFileError, TlsMode, read_tls_file, ssl_reason
from dumpfilter.base.security.exposure import host_and_port
from dumpfilter.base.security.tls import GRPC_KEYS, suits_grpc

_PLAIN_TRIAL_SECONDS = 2.0
"""The longest time for the test whether a master speaks TLS, seconds. The test follows a lost connection without
TLS.
"""

_POLL = 0.05
"""The interval at which a trial checks whether the slave is stopping, seconds."""

_PROTOCOL = "h2"
"""The name of HTTP/2 in the TLS handshake (ALPN). gRPC servers refuse clients that do not name it."""


class Unreachable(Exception):
    """The exception for a handshake that reached no server, or that the server did not answer. The text gives the
    reason.
    """


class _NoTls(TlsError):
    """The error when the master answers a TLS handshake with something else than TLS."""


def agree(
    tls: ClientTls, host: str, port: int, stopped: Callable[[], bool], seconds: float = 180.0
) -> tuple[grpc.ChannelCredentials, str | None]:
    """Make a trial handshake with the master, and return the credentials with which gRPC shall connect.

    The second result is the name that gRPC shall find in the master's certificate; None stands for ``host`` itself.
    Raises TlsError when slave and master cannot agree on TLS, and Unreachable when no server answers. The trial ends
    when ``stopped`` returns true, because the slave is stopping, or after ``seconds``.
    """
    trial = _Trial(tls, host, port, stopped, time.monotonic() + seconds)
    files = ("SOURCE_SSL_CA", tls.ca), ("SOURCE_SSL_CERT", tls.certificate), ("SOURCE_SSL_KEY", tls.key)
    try:
        roots, certificate, key = (
            None if path is None else read_tls_file(option, path) for option, path in files
        )
    except TlsFileError as error:
        raise TlsError(str(error)) from None
    if certificate is not None:
        _check_own(tls, certificate)
    context = trial.context()
    # A master that is being stopped hangs up, too. The second trial then meets a closed port.
    presented = trial.handshake(context) or trial.handshake(context)
    if presented is None:
        raise trial.refused()
    trusted = roots or b"" if tls.mode.verifies else ssl.DER_cert_to_PEM_cert(presented).encode()
    name = None if tls.mode is TlsMode.VERIFY_IDENTITY else trial.name_in(presented)
    return grpc.ssl_channel_credentials(trusted, key, certificate), name


def speaks_tls(host: str, port: int, stopped: Callable[[], bool]) -> bool:
    """Tell whether a server that closed a connection without TLS answers a TLS handshake.

    ``stopped`` returns whether the slave is stopping, which ends the check with False.
    """
    trial = _Trial(ClientTls(TlsMode.REQUIRED), host, port, stopped, time.monotonic() + _PLAIN_TRIAL_SECONDS)
    try:
        trial.handshake(trial.context())
    except (_NoTls, Unreachable):
        return False
    except TlsError:
        return True
    return True


@dataclass(frozen=True)
class _Trial:
    """A trial handshake with a master: its parameters, and the errors that name the master."""

    tls: ClientTls
    host: str
    port: int
    stopped: Callable[[], bool]
    """Tells whether the slave is stopping, which ends the trial."""
    deadline: float
    """The time at which the trial ends (``time.monotonic``)."""

    @property
    def master(self) -> str:
        return f"master {host_and_port(self.host, self.port)}"

    def context(self) -> ssl.SSLContext:
        """Return the context of Python's ``ssl`` for the slave's TLS options. Raises TlsError for files that cannot be
        used.
        """
        try:
            context = self.tls.context()
        except TlsFileError as error:
            if error.option == "SOURCE_SSL_CA":
                raise TlsError(str(error)) from None
            raise TlsError(
                f"SOURCE_SSL_CERT={self.tls.certificate}, SOURCE_SSL_KEY={self.tls.key}: they are no PEM certificate "
                f"with its unencrypted private key ({error.what})"
            ) from None
        assert context is not None
        context.set_alpn_protocols([_PROTOCOL])
        # As in gRPC, a certificate in the CA's file is trusted even if another one has signed it.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context

    def handshake(self, context: ssl.SSLContext) -> bytes | None:
        """Connect and make a TLS handshake. Return the master's certificate as DER after the master's first byte has
        come.

        Return None if the master completes the handshake and then closes the connection. In TLS 1.3 a server checks the
        client's certificate after the client's part of the handshake. A gRPC server that refuses the certificate, or
        misses one, closes the connection without a reason. Raises TlsError when the handshake fails, and Unreachable
        when no server answers.
        """
        answer: Future[bytes | None] = Future()
        opened: list[socket.socket] = []

        def shake() -> None:
            try:
                answer.set_result(self._shake(context, opened))
            except BaseException as error:
                answer.set_exception(error)

        # Nothing interrupts the resolver of names, and a slave that stops must not wait for it.
        threading.Thread(target=shake, name="slave-tls-trial", daemon=True).start()
        try:
            while not wait([answer], _POLL).done:
                if self.stopped():
                    raise Unreachable("the slave stops")
                if time.monotonic() >= self.deadline:
                    raise Unreachable("the master did not answer in time")
            return answer.result()
        except ssl.SSLCertVerificationError as error:
            raise self._not_trusted(error) from None
        except ssl.SSLError as error:
            raise self._failed(error) from None
        except (OSError, ValueError, OverflowError) as error:
            # Impossible hosts and ports are ValueError and OverflowError.
            raise Unreachable(getattr(error, "strerror", None) or str(error)) from None
        finally:
            for connection in opened:
                with contextlib.suppress(OSError):
                    # The method of an SSL socket would take the state from a thread that still reads.
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def _shake(self, context: ssl.SSLContext, opened: list[socket.socket]) -> bytes | None:
        seconds = max(self.deadline - time.monotonic(), _POLL)
        with (
            socket.create_connection((self.host, self.port), seconds) as plain,
            context.wrap_socket(
                plain, server_hostname=self.host, do_handshake_on_connect=False
            ) as connection,
        ):
            opened.append(connection)
            connection.do_handshake()
            # The first byte of HTTP/2 tells that the master has accepted the slave.
            return connection.getpeercert(binary_form=True) if _first_byte(connection) else None

    def _not_trusted(self, error: ssl.SSLCertVerificationError) -> TlsError:
        reason = error.verify_message.rstrip(".")
        cures = {
            _EXPIRED: "renew the certificate on the master",
            _NOT_YET_VALID: "compare the clocks of both machines",
            _OTHER_HOST: _HOST_CURE,
            _OTHER_ADDRESS: _HOST_CURE,
        }
        cure = cures.get(
            error.verify_code, f"is SOURCE_SSL_CA={self.tls.ca} the CA that signed the certificate?"
        )
        return TlsError(f"{self.master}: the master's certificate is refused ({reason}): {cure}")

    def _failed(self, error: ssl.SSLError) -> TlsError:
        if "ALERT" in (error.reason or ""):
            return self.refused(f" ({ssl_reason(error)})")
        if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            raise Unreachable("the master closed the connection in the handshake")
        return _NoTls(
            f"{self.master}: the master does not speak TLS, and SOURCE_SSL=1 demands TLS ({ssl_reason(error)}): start "
            "the master with --tls-cert and --tls-key, or set SOURCE_SSL=0 (--no-source-ssl)"
        )

    def refused(self, reason: str = "") -> TlsError:
        """Return the error for a master that refuses the slave's certificate, or the lack of a certificate."""
        if not self.tls.certificate:
            return TlsError(
                f"{self.master}: the master refuses the TLS connection{reason}: it probably demands a certificate of "
                "the slave: give SOURCE_SSL_CERT and SOURCE_SSL_KEY (--source-ssl-cert, --source-ssl-key)"
            )
        return TlsError(
            f"{self.master}: the master refuses SOURCE_SSL_CERT={self.tls.certificate}{reason}: is the certificate "
            "valid, and signed by the CA that the master's --tls-ca names?"
        )

    def name_in(self, presented: bytes) -> str:
        """Return a name from the master's certificate (DER) that gRPC can check against. Raises TlsError for a
        certificate that is expired, nameless or unreadable.
        """
        try:
            certificate = x509.load_der_x509_certificate(presented)
            expires = certificate.not_valid_after_utc
            names = _names(certificate)
        except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
            raise TlsError(
                f"{self.master}: the master's certificate cannot be read ({error}): give the master another one"
            ) from None
        if expires < datetime.now(UTC):
            raise TlsError(
                f"{self.master}: the master's certificate expired on {expires:%Y-%m-%d %H:%M} UTC: renew the "
                "certificate on the master"
            )
        if not names:
            raise TlsError(
                f"{self.master}: the master's certificate names no host: give the master a certificate with a name "
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


def _check_own(tls: ClientTls, certificate: bytes) -> None:
    """Raise TlsError if gRPC cannot use the slave's own certificate."""
    try:
        usable = suits_grpc(x509.load_pem_x509_certificate(certificate))
    except (ValueError, UnsupportedAlgorithm):
        return  # The trial reads the same file, and reports it with OpenSSL's reason.
    if not usable:
        raise TlsError(f"SOURCE_SSL_KEY={tls.key}: is of a kind that gRPC cannot use: {GRPC_KEYS}")


# Numbers of OpenSSL (X509_V_ERR_…) for the reasons why a certificate is refused.
_NOT_YET_VALID = 9
_EXPIRED = 10
_OTHER_HOST = 62
_OTHER_ADDRESS = 64

_HOST_CURE = (
    "name the host in the master's certificate (subjectAltName), or connect to a name that the certificate has, or set "
    "SOURCE_SSL_VERIFY_SERVER_CERT=0 to trust every certificate of the CA"
)


def _first_byte(connection: ssl.SSLSocket) -> bytes:
    try:
        return connection.recv(1)
    except (ssl.SSLEOFError, ConnectionResetError):
        return b""

"""TLS between a slave and its master, as ``SOURCE_SSL`` and its fellow options describe it.

gRPC says little about a handshake that failed, and always verifies the master's certificate. Therefore the slave
first makes a handshake of its own, a trial. The trial tells the reason of a failure, and fetches the certificate that
gRPC shall expect when the user wants less verification.
"""

from __future__ import annotations

import enum
import os
import select
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from dumpfilter.errors import OptionError, TlsError
from dumpfilter.security.tls import ssl_reason

TRIAL_SECONDS = 10.0
"""The longest time that a trial handshake takes, seconds."""

_PLAIN_TRIAL_SECONDS = 2.0
"""The longest time for the question whether a master speaks TLS, seconds. It follows a connection that broke off."""

_POLL_MILLISECONDS = 50
"""The interval at which a trial looks whether the slave stops, milliseconds."""

_PROTOCOL = "h2"
"""The name of HTTP/2 in TLS. gRPC speaks HTTP/2, and a gRPC server refuses clients that do not name the protocol."""


class Verification(enum.Enum):
    """How far a slave verifies the master's certificate, named as the values of MySQL's ``--ssl-mode``."""

    REQUIRED = "not verified"
    """The connection is encrypted, and the certificate is not verified."""
    VERIFY_CA = "verified, except for the host"
    """The CA must have signed the certificate, for whatever host."""
    VERIFY_IDENTITY = "verified"
    """The CA must have signed the certificate, and the certificate must name the master's host."""


class Unreachable(Exception):
    """The signal that a trial reached no server, or that the server did not answer. The text gives the reason."""


class _NoTls(TlsError):
    """The error of a slave whose master answers a TLS handshake with something else."""


class _HungUp(Unreachable):
    """The signal that a master completed the handshake and closed the connection.

    In TLS 1.3 a server looks at the client's certificate after the client's part of the handshake. A gRPC server that
    refuses the certificate, or misses one, closes the connection without a reason.
    """


@dataclass(frozen=True)
class SourceTls:
    """The files and the verification of TLS connections to a master. The slave reads the files at each connection."""

    ca: str = ""
    """``SOURCE_SSL_CA``: the CA that must have signed the master's certificate."""
    certificate: str = ""
    """``SOURCE_SSL_CERT``: the slave's own certificate, for a master that demands one."""
    key: str = ""
    """``SOURCE_SSL_KEY``: the private key of the slave's certificate."""
    verify_host: bool | None = None
    """``SOURCE_SSL_VERIFY_SERVER_CERT``. None: the host is verified if there is a CA."""

    @property
    def verification(self) -> Verification:
        """The verification that the options ask for."""
        if not self.ca:
            return Verification.REQUIRED
        return Verification.VERIFY_CA if self.verify_host is False else Verification.VERIFY_IDENTITY

    def check(self) -> None:
        """Raise OptionError for options that contradict each other."""
        if bool(self.certificate) != bool(self.key):
            given, missing = ("CERT", "KEY") if self.certificate else ("KEY", "CERT")
            raise OptionError(f"SOURCE_SSL_{given} needs SOURCE_SSL_{missing}: give both, or none")
        if self.verify_host and not self.ca:
            raise OptionError(
                "SOURCE_SSL_VERIFY_SERVER_CERT=1 needs SOURCE_SSL_CA, the file with the CA of the master's certificate"
            )


@dataclass(frozen=True)
class Expected:
    """The PEM texts with which gRPC connects, and the name that gRPC shall find in the master's certificate."""

    roots: bytes
    certificate: bytes | None
    key: bytes | None = field(repr=False)
    name: str | None
    """The name to expect instead of the master's host. None: the host itself."""


def agree(tls: SourceTls, host: str, port: int, stopped: Callable[[], bool]) -> Expected:
    """Make a trial handshake with the master, and return what gRPC shall use and expect.

    Raises TlsError when slave and master cannot agree on TLS, and Unreachable when no server answers. ``stopped`` tells
    whether the slave stops, which ends the trial.
    """
    trial = _Trial(tls, host, port)
    roots, certificate, key = (_read(option, path) for option, path in _files(tls))
    context = trial.context()
    deadline = time.monotonic() + TRIAL_SECONDS
    try:
        presented = trial.handshake(context, deadline, stopped)
    except _HungUp:
        # A master that is being stopped hangs up, too. The second trial then meets a closed port.
        try:
            presented = trial.handshake(context, deadline, stopped)
        except _HungUp:
            raise trial.refused() from None
    if tls.verification is Verification.VERIFY_IDENTITY:
        return Expected(roots or b"", certificate, key, None)
    name = trial.name_in(presented)
    if tls.verification is Verification.VERIFY_CA:
        return Expected(roots or b"", certificate, key, name)
    return Expected(presented.public_bytes(Encoding.PEM), certificate, key, name)


def speaks_tls(host: str, port: int, stopped: Callable[[], bool]) -> bool:
    """Tell whether a server that broke off a connection without TLS answers a TLS handshake."""
    context = _client_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    trial = _Trial(SourceTls(), host, port)
    try:
        trial.handshake(context, time.monotonic() + _PLAIN_TRIAL_SECONDS, stopped)
    except (_NoTls, Unreachable) as error:
        return isinstance(error, _HungUp)
    except TlsError:
        return True
    return True


@dataclass(frozen=True)
class _Trial:
    """A trial handshake with a master, and the texts of the errors about the master."""

    tls: SourceTls
    host: str
    port: int

    @property
    def master(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"master {host}:{self.port}"

    def context(self) -> ssl.SSLContext:
        """Return the context of Python's ``ssl`` for the options. Raises TlsError for files that cannot be used."""
        tls = self.tls
        context = _client_context()
        context.check_hostname = tls.verification is Verification.VERIFY_IDENTITY
        if tls.verification is Verification.REQUIRED:
            context.verify_mode = ssl.CERT_NONE
        try:
            if tls.ca:
                context.load_verify_locations(tls.ca)
        except (ssl.SSLError, OSError):
            raise TlsError(
                f"SOURCE_SSL_CA={tls.ca}: holds no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----"
            ) from None
        try:
            if tls.certificate:
                # The function stands for the password of the key. Without it OpenSSL asks on the terminal.
                context.load_cert_chain(tls.certificate, tls.key, lambda: b"")
        except (ssl.SSLError, OSError) as error:
            reason = ssl_reason(error) if isinstance(error, ssl.SSLError) else str(error)
            raise TlsError(
                f"SOURCE_SSL_CERT={tls.certificate}, SOURCE_SSL_KEY={tls.key}: they are no PEM certificate with its "
                f"unencrypted private key ({reason})"
            ) from None
        return context

    def handshake(
        self, context: ssl.SSLContext, deadline: float, stopped: Callable[[], bool]
    ) -> x509.Certificate:
        """Connect, make a handshake, wait for the master's first byte, and return the master's certificate."""

        def wait(what: socket.socket, *, to_write: bool = False) -> None:
            poll = select.poll()
            poll.register(what, select.POLLOUT if to_write else select.POLLIN)
            while time.monotonic() < deadline and not stopped():
                if poll.poll(_POLL_MILLISECONDS):
                    return
            raise Unreachable("the slave stops" if stopped() else "the master did not answer in time")

        def until_done(step: Callable[[], object], connection: ssl.SSLSocket) -> object:
            while True:
                try:
                    return step()
                except ssl.SSLWantReadError:
                    wait(connection)
                except ssl.SSLWantWriteError:
                    wait(connection, to_write=True)

        try:
            with self._connect(wait) as plain:
                connection = context.wrap_socket(
                    plain, server_hostname=self.host, do_handshake_on_connect=False
                )
                with connection:
                    until_done(connection.do_handshake, connection)
                    # The first byte of HTTP/2 tells that the master has accepted the slave.
                    if not until_done(lambda: _first_byte(connection), connection):
                        raise _HungUp("the master closed the connection after the TLS handshake")
                    presented = connection.getpeercert(binary_form=True)
        except ssl.SSLCertVerificationError as error:
            raise self._not_trusted(error) from None
        except ssl.SSLError as error:
            raise self._failed(error) from None
        except OSError as error:
            raise Unreachable(error.strerror or str(error)) from None
        return x509.load_der_x509_certificate(presented or b"")

    def _connect(self, wait: Callable[..., None]) -> socket.socket:
        last: OSError = OSError("the name has no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(
            self.host, self.port, type=socket.SOCK_STREAM
        ):
            connection = socket.socket(family, kind, protocol)
            try:
                connection.setblocking(False)
                if connection.connect_ex(address):
                    wait(connection, to_write=True)
                number = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if not number:
                    return connection
                last = OSError(number, os.strerror(number))
            except OSError as error:
                last = error
            except BaseException:
                connection.close()
                raise
            connection.close()
        raise last

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

    def name_in(self, presented: x509.Certificate) -> str:
        """Return a name that gRPC can find in the master's certificate. Raises TlsError for an unusable one."""
        if presented.not_valid_after_utc < datetime.now(UTC):
            raise TlsError(
                f"{self.master}: the master's certificate expired on {presented.not_valid_after_utc:%Y-%m-%d %H:%M} "
                "UTC: renew the certificate on the master"
            )
        try:
            names = presented.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            found = [*names.get_values_for_type(x509.DNSName)]
            found += [str(address) for address in names.get_values_for_type(x509.IPAddress)]
        except x509.ExtensionNotFound:
            found = [
                str(each.value) for each in presented.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            ]
        if not found:
            raise TlsError(
                f"{self.master}: the master's certificate names no host: give the master a certificate with a name "
                "(subjectAltName)"
            )
        return found[0].replace("*", "any", 1)


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


def _client_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([_PROTOCOL])
    # As in gRPC, a certificate in the CA's file is trusted even if another one has signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _files(tls: SourceTls) -> tuple[tuple[str, str], ...]:
    return ("SOURCE_SSL_CA", tls.ca), ("SOURCE_SSL_CERT", tls.certificate), ("SOURCE_SSL_KEY", tls.key)


def _read(option: str, path: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TlsError(f"{option}={path}: cannot be read: {reason}") from None

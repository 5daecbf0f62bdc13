"""TLS certificates and keys of a server. A server reads them from files, and reads changed files again, so that a
renewed certificate needs no restart. Without files a certificate is generated when the server starts.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, PublicKeyAlgorithmOID

from dumpfilter.base.errors import OptionError
from dumpfilter.base.logs import logger
from dumpfilter.base.security import client_tls

log = logger("dumpfilter.tls")

CERTIFICATE_OPTION = "--tls-cert"
KEY_OPTION = "--tls-key"

GRPC_KEYS = "give an RSA key, or an EC key on the curve P-256 or P-384"
"""The advice in the error about a TLS key that gRPC cannot use."""

_NO_KEY = "holds no private key in PEM, which begins with -----BEGIN PRIVATE KEY-----"
_OTHER_KEY = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""The reasons in OpenSSL's errors which mean that a private key does not belong to its certificate."""
_TIME = "%Y-%m-%d %H:%M UTC"
_VALID = timedelta(days=3650)
_CLOCK_SKEW = timedelta(days=1)
"""The time by which a certificate that dumpfilter makes is valid before its creation.

Clients whose clocks are slow accept the certificate, too.
"""


class TlsFiles(NamedTuple):
    """The paths of a server's PEM files, from the options ``--tls-cert``, ``--tls-key`` and ``--tls-ca``.

    ``certificate`` has the server's certificate, followed by its issuers' certificates. ``ca`` has the CA that signs
    clients' certificates.
    """

    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None


@dataclass(frozen=True)
class ServerTls:
    """A server's certificate and key, loaded and checked.

    ``context`` is for Python's ``ssl``. The PEM texts are for libraries with their own TLS.
    """

    context: ssl.SSLContext
    certificates: bytes
    """The server's certificate and its issuers' certificates, as PEM."""
    key: bytes = field(repr=False)
    """The private key of the server's certificate, as PEM."""
    ca: bytes | None
    """The certificates of the CAs that must have signed clients' certificates, as PEM. None: no CA is given."""
    fingerprint: bytes
    """The SHA-256 digest of the server's certificate, 32 bytes."""
    valid_until: datetime
    """The time at which the server's certificate expires, in UTC."""

    def current(self) -> ServerTls:
        """Return this object, because settings that are loaded once never change.

        ``ReloadingTls`` has a method of the same name, which reads changed files.
        """
        return self


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, both as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def load_tls(files: TlsFiles, *, for_grpc: bool = False) -> ServerTls:
    """Read and check the files of a server's certificate, its key and, if given, the CA of its clients. Return the
    settings.

    With ``for_grpc`` the key must be of a type that gRPC can use. Raises OptionError for a file that is missing or
    unusable, a certificate that is not valid now, and a key of another certificate. The error names the option, the
    file and the remedy.
    """
    if files.certificate is None or files.key is None:
        given, missing = (KEY_OPTION, CERTIFICATE_OPTION) if files.key else (CERTIFICATE_OPTION, KEY_OPTION)
        raise OptionError(f"{given} needs {missing}: give both, or none and a certificate is made")
    of_certificate = partial(client_tls.TlsFileError, CERTIFICATE_OPTION, files.certificate)
    of_key = partial(client_tls.TlsFileError, KEY_OPTION, files.key)
    certificates = client_tls.read_tls_file(CERTIFICATE_OPTION, files.certificate)
    try:
        leaf = x509.load_pem_x509_certificate(certificates)
        is_for_grpc = suits_grpc(leaf)
    except (ValueError, UnsupportedAlgorithm):
        raise of_certificate(client_tls.NO_CERTIFICATE) from None
    now, begin, end = _now(), leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if end < now:
        cure = f"get a new one, or leave out {CERTIFICATE_OPTION} and {KEY_OPTION}, and one is made"
        raise of_certificate(f"expired on {end:{_TIME}}", cure)
    if begin > now:
        raise of_certificate(f"is not valid before {begin:{_TIME}}", "is this machine's clock right?")
    key = client_tls.read_tls_file(KEY_OPTION, files.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        # The function stands for the password of the key. Without it OpenSSL asks on the terminal.
        context.load_cert_chain(files.certificate, files.key, lambda: b"")
    except ssl.SSLError as error:
        if b"ENCRYPTED" in key:
            cure = f"write it without: openssl pkey -in {files.key} -out FILE"
            raise of_key("is encrypted, and nobody is there to type its password", cure) from None
        if error.reason in _OTHER_KEY:
            raise of_key(f"is not the key of {files.certificate}, whose first certificate counts") from None
        raise of_key(
            _NO_KEY if error.reason is None else f"OpenSSL: {client_tls.ssl_reason(error)}"
        ) from None
    except OSError as error:
        # A renewal may remove a file between the two times that it is read.
        raise of_key(f"cannot be read: {error.strerror}") from None
    if for_grpc and not is_for_grpc:
        raise of_key("is of a kind that gRPC cannot use", GRPC_KEYS)
    ca = None
    if files.ca is not None:
        ca = client_tls.trust(context, files.ca, client_tls.CA_OPTION)
        # Like MySQL and MariaDB, the server accepts clients without a certificate.
        context.verify_mode = ssl.CERT_OPTIONAL
    return ServerTls(context, certificates, key, ca, leaf.fingerprint(hashes.SHA256()), end)


def _now() -> datetime:
    return datetime.now(UTC)


def suits_grpc(certificate: x509.Certificate) -> bool:
    """Tell whether gRPC can use the certificate's key.

    gRPC's TLS library, BoringSSL, supports fewer types of keys than OpenSSL.
    """
    if certificate.public_key_algorithm_oid == PublicKeyAlgorithmOID.RSAES_PKCS1_v1_5:
        return True
    curve = getattr(certificate.public_key(), "curve", None)
    return isinstance(curve, ec.SECP256R1 | ec.SECP384R1)


def temporary_tls(host: str, ca: Path | None = None) -> ServerTls:
    """Make a self-signed certificate for a server on ``host``, and return TLS settings with it, for use until the
    process ends.

    The certificate stays in memory. ``ca`` is the CA file for clients' certificates; None for none. Raises OptionError
    for an unusable CA file.
    """
    made = make_key_pair(host)
    with contextlib.ExitStack() as stack:

        def in_memory(data: bytes) -> Path:
            # Python's ssl module reads keys from files only. A file on a disk would stay if the process were killed.
            file = stack.enter_context(open(os.memfd_create("dumpfilter-tls"), "wb", buffering=0))
            file.write(data)
            return Path(f"/proc/self/fd/{file.fileno()}")

        return load_tls(TlsFiles(in_memory(made.certificate), in_memory(made.key), ca))


def make_key_pair(host: str) -> KeyPair:
    """Make a key and a self-signed certificate for a server that listens on ``host``.

    The certificate names this machine, loopback and ``host``. The certificate has no key usage extension. With the
    extension OpenSSL 1.1 would treat it as self-signed only if it might sign certificates.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    now = _now()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dumpfilter")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName(dict.fromkeys(_names(host))), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, unencrypted = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, unencrypted)
    return KeyPair(certificate.public_bytes(pem), private)


def _names(host: str) -> Iterator[x509.GeneralName]:
    for name in ("localhost", "127.0.0.1", "::1", host, socket.gethostname()):
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            if name and name.isascii():
                yield x509.DNSName(name)
        else:
            if not address.is_unspecified:
                yield x509.IPAddress(address)


class ReloadingTls:
    """The TLS settings of a server, read from files. A server calls :meth:`current` before each handshake, so that a
    renewed certificate is used without a restart.

    Existing connections keep the certificate of their handshake. With ``for_grpc`` the key must be of a type that gRPC
    can use. The constructor raises OptionError for files that cannot be used. Any thread may call the methods.
    """

    def __init__(self, files: TlsFiles, *, for_grpc: bool = False) -> None:
        self._files = files
        self._for_grpc = for_grpc
        self._lock = threading.Lock()
        self._stamp = self._changed()
        self._tls = load_tls(files, for_grpc=for_grpc)

    def current(self) -> ServerTls:
        """Return the TLS settings from the files' current content.

        If the files have changed and cannot be used, log the reason once and return the last usable settings.
        """
        with self._lock:
            # The stamp is older than the content. A file that changes while it is read has another stamp next time.
            stamp, self._stamp = self._stamp, self._changed()
            if stamp == self._stamp:
                return self._tls
            try:
                self._tls = load_tls(self._files, for_grpc=self._for_grpc)
            except OptionError as error:
                log.error(
                    "tls.not_reloaded", reason=str(error), hint="the certificate from before stays in use"
                )
            else:
                log.info(
                    "tls.reloaded",
                    certificate=str(self._files.certificate),
                    sha256=self._tls.fingerprint.hex(),
                    valid_until=f"{self._tls.valid_until:{_TIME}}",
                )
            return self._tls

    def _changed(self) -> list[tuple[object, ...]]:
        """Return name, inode, size and change time of each TLS file that exists, such as the certificate. The list
        differs after a file is changed, replaced or removed.
        """
        found: list[tuple[object, ...]] = []
        for path in filter(None, self._files):
            with contextlib.suppress(OSError):
                file = os.stat(path)
                found.append((path, file.st_ino, file.st_size, file.st_ctime_ns))
        return found


TlsSource: TypeAlias = ServerTls | ReloadingTls
"""A server's TLS settings, which may change. The server calls ``current`` before each handshake."""

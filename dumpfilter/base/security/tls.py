"""TLS certificates and keys of a server. They come from files, which are read again when they change, so that a renewed
certificate needs no restart. Or they are generated when the server starts.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import structlog
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, PublicKeyAlgorithmOID

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.client_tls import (
    CA_OPTION,
    NO_CERTIFICATE,
    TlsFileError,
    load_chain,
    read_tls_file,
    trust,
)

log = structlog.get_logger("dumpfilter.tls")

CERTIFICATE_OPTION = "--tls-cert"
KEY_OPTION = "--tls-key"

GRPC_KEYS = "give an RSA key, or an EC key on the curve P-256 or P-384"
"""The advice in the error about a TLS key that gRPC cannot use."""

_VALID = datetime.timedelta(days=3650)
_CLOCK_SKEW = datetime.timedelta(days=1)
"""The time by which a certificate that dumpfilter makes is valid before its creation.

Clients whose clocks are slow accept the certificate, too.
"""


@dataclass(frozen=True)
class TlsFiles:
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
    valid_until: datetime.datetime
    """The time at which the server's certificate expires, in UTC."""

    def current(self) -> ServerTls:
        """Return this object, because settings that are loaded once never change.

        ``ReloadingTls`` has a method of the same name, which reads changed files.
        """
        return self


class TlsSource(Protocol):
    """An interface for a server's TLS settings, which may change. The server calls :meth:`current` before each
    handshake.
    """

    def current(self) -> ServerTls:
        """Return the certificate and key for a connection that begins now. They may have changed since the last
        call.
        """


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, both as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def load_tls(files: TlsFiles, *, for_grpc: bool = False) -> ServerTls:
    """Read and check the files of a server's certificate, its key and, if given, the CA of its clients. Return the
    settings.

    With ``for_grpc`` the key must be of a type that gRPC can use. Raises OptionError with the option, the file and the
    remedy.
    """
    if files.certificate is None or files.key is None:
        given, missing = (KEY_OPTION, CERTIFICATE_OPTION) if files.key else (CERTIFICATE_OPTION, KEY_OPTION)
        raise OptionError(f"{given} needs {missing}: give both, or none and a certificate is made")
    certificates = read_tls_file(CERTIFICATE_OPTION, files.certificate)
    leaf = _certificates(files.certificate, certificates)[0]
    _check_period(files.certificate, leaf)
    key = read_tls_file(KEY_OPTION, files.key)
    if _public(_private_key(files.key, key)) != _public(leaf):
        raise TlsFileError(
            KEY_OPTION, files.key, f"is not the key of {files.certificate}, whose first certificate counts"
        )
    if for_grpc and not suits_grpc(leaf):
        raise TlsFileError(KEY_OPTION, files.key, "is of a kind that gRPC cannot use", GRPC_KEYS)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    # A renewal may remove a file between the two times that it is read.
    load_chain(context, CERTIFICATE_OPTION, files.certificate, files.key)
    ca = None
    if files.ca is not None:
        ca = trust(context, files.ca, CA_OPTION)
        # Like MySQL and MariaDB, the server accepts clients without a certificate.
        context.verify_mode = ssl.CERT_OPTIONAL
    return ServerTls(
        context, certificates, key, ca, leaf.fingerprint(hashes.SHA256()), leaf.not_valid_after_utc
    )


def suits_grpc(certificate: x509.Certificate) -> bool:
    """Tell whether gRPC can use the certificate's key.

    gRPC's TLS library, BoringSSL, supports fewer types of keys than OpenSSL.
    """
    algorithm = certificate.public_key_algorithm_oid
    if algorithm == PublicKeyAlgorithmOID.EC_PUBLIC_KEY:
        key = certificate.public_key()
        return isinstance(key, ec.EllipticCurvePublicKey) and isinstance(
            key.curve, ec.SECP256R1 | ec.SECP384R1
        )
    return algorithm == PublicKeyAlgorithmOID.RSAES_PKCS1_v1_5


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
    now = datetime.datetime.now(datetime.UTC)
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
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


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


def _certificates(path: Path, data: bytes) -> list[x509.Certificate]:
    try:
        found = x509.load_pem_x509_certificates(data)
        # The key of a certificate is parsed here, so that an unknown kind of key is an error about this file.
        found[0].public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise TlsFileError(CERTIFICATE_OPTION, path, NO_CERTIFICATE) from None
    return found


def _check_period(path: Path, certificate: x509.Certificate) -> None:
    now = datetime.datetime.now(datetime.UTC)
    if certificate.not_valid_after_utc < now:
        raise TlsFileError(
            CERTIFICATE_OPTION,
            path,
            f"expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC",
            f"get a new one, or leave out {CERTIFICATE_OPTION} and {KEY_OPTION}, and one is made",
        )
    if certificate.not_valid_before_utc > now:
        raise TlsFileError(
            CERTIFICATE_OPTION,
            path,
            f"is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC",
            "is this machine's clock right?",
        )


def _private_key(path: Path, data: bytes) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(data, None)
    except TypeError:
        raise TlsFileError(
            KEY_OPTION,
            path,
            "is encrypted, and nobody is there to type its password",
            f"write it without: openssl pkey -in {path} -out FILE",
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise TlsFileError(
            KEY_OPTION, path, "holds no private key in PEM, which begins with -----BEGIN PRIVATE KEY-----"
        ) from None


def _public(of: PrivateKeyTypes | x509.Certificate) -> bytes:
    return of.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


class ReloadingTls:
    """The TLS settings of a server, read from files. A server calls :meth:`current` before each handshake.

    Existing connections keep the certificate of their handshake. With ``for_grpc`` the key must be of a type that gRPC
    can use. The constructor raises OptionError for files that cannot be used. Any thread may call the methods.
    """

    def __init__(self, files: TlsFiles, *, for_grpc: bool = False) -> None:
        self._files = files
        self._for_grpc = for_grpc
        self._lock = threading.Lock()
        self._stamp = _stamp(files)
        self._tls = load_tls(files, for_grpc=for_grpc)

    def current(self) -> ServerTls:
        """Return the TLS settings from the files' current content.

        If the files have changed and cannot be used, log the reason once and return the last usable settings.
        """
        with self._lock:
            # The stamp is older than the content. A file that changes while it is read has another stamp next time.
            stamp = _stamp(self._files)
            if stamp != self._stamp:
                self._stamp = stamp
                self._reload()
            return self._tls

    def _reload(self) -> None:
        try:
            self._tls = load_tls(self._files, for_grpc=self._for_grpc)
        except OptionError as error:
            log.error("tls.not_reloaded", reason=str(error), hint="the certificate from before stays in use")
        else:
            log.info(
                "tls.reloaded",
                certificate=str(self._files.certificate),
                sha256=self._tls.fingerprint.hex(),
                valid_until=f"{self._tls.valid_until:%Y-%m-%d %H:%M} UTC",
            )


def _stamp(files: TlsFiles) -> list[tuple[int, ...] | None]:
    """Return inode, size and times of each file, or None for a missing one. The list changes when a file is changed or
    replaced.
    """
    stamps: list[tuple[int, ...] | None] = []
    for path in (files.certificate, files.key, files.ca):
        try:
            found = None if path is None else os.stat(path)
        except OSError:
            found = None
        stamps.append(found and (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))
    return stamps

"""TLS settings of clients: the modes of MySQL's ``--ssl-mode``, and the ``ssl`` context that verifies according to a
mode.

The module imports no cryptography package, because commands that only read files must start quickly.
"""

from __future__ import annotations

import enum
import ssl
from dataclasses import dataclass
from pathlib import Path

from dumpfilter.base.errors import OptionError

CA_OPTION = "--tls-ca"

NO_CERTIFICATE = "holds no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----"


class TlsMode(enum.StrEnum):
    """The ways in which a client may use TLS for a connection to a server. The names are those of MySQL's
    ``--ssl-mode``, in any case.

    >>> TlsMode("VERIFY_CA")
    <TlsMode.VERIFY_CA: 'verify-ca'>
    """

    DISABLED = "disabled"
    PREFERRED = "preferred"
    """TLS if the server offers it. The certificate is not verified."""
    REQUIRED = "required"
    """TLS, or no connection. The certificate is not verified."""
    VERIFY_CA = "verify-ca"
    """The CA must have signed the certificate, for whatever host."""
    VERIFY_IDENTITY = "verify-identity"
    """The CA must have signed the certificate, and the certificate must name the server's host."""

    @classmethod
    def _missing_(cls, value: object) -> TlsMode | None:
        spelled = str(value).lower().replace("_", "-")
        return next((mode for mode in cls if mode == spelled), None)

    @property
    def verifies(self) -> bool:
        """Whether a CA must have signed the server's certificate."""
        return self in (TlsMode.VERIFY_CA, TlsMode.VERIFY_IDENTITY)


class TlsFileError(OptionError):
    """An error about a certificate or key file that cannot be used. The text names the option and the file."""

    def __init__(self, option: str, path: Path, what: str, cure: str = "") -> None:
        self.option = option
        self.path = path
        self.what = what
        super().__init__(f"{option}={path}: {what}" + (f": {cure}" if cure else ""))


@dataclass(frozen=True)
class ClientTls:
    """The TLS settings of a client. The files are read at each connection, so that a renewed file is used at once."""

    mode: TlsMode = TlsMode.VERIFY_IDENTITY
    ca: Path | None = None
    """The CAs that must have signed the server's certificate, as PEM. None: the system's CAs."""
    certificate: Path | None = None
    """The client's own certificate, for a server that demands one."""
    key: Path | None = None
    """The private key of the client's certificate."""
    ca_option: str = "ca"
    """The name of the option that names ``ca``, for errors."""
    certificate_option: str = "cert"
    """The name of the option that names ``certificate``, for errors."""

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context of a new connection, or None with the mode DISABLED. Raises TlsFileError for an
        unusable file.
        """
        if self.mode is TlsMode.DISABLED:
            return None
        # The certificates that MySQL makes for itself lack extensions that create_default_context wants (Python 3.13).
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.mode is TlsMode.VERIFY_IDENTITY
        if not self.mode.verifies:
            context.verify_mode = ssl.CERT_NONE
        elif self.ca is not None:
            trust(context, self.ca, self.ca_option)
        else:
            context.load_default_certs()
        if self.certificate is not None:
            load_chain(context, self.certificate_option, self.certificate, self.key)
        return context


def trust(context: ssl.SSLContext, ca: Path, option: str) -> bytes:
    """Let the TLS context ``context`` accept certificates that the CAs in the file ``ca`` have signed. Return the
    file's bytes.

    Raises TlsFileError, whose text names ``option``, the command line option that gave the file.
    """
    # Only OpenSSL parses the CA file, because bundles of CAs hold certificates that stricter parsers warn about.
    data = read_tls_file(option, ca)
    if b"-----BEGIN CERTIFICATE-----" not in data:
        raise TlsFileError(option, ca, NO_CERTIFICATE)
    try:
        context.load_verify_locations(cadata=data.decode("ascii", "backslashreplace"))
    except ssl.SSLError as error:
        raise TlsFileError(option, ca, f"OpenSSL: {ssl_reason(error)}") from None
    return data


def load_chain(context: ssl.SSLContext, option: str, certificate: Path, key: Path | None) -> None:
    """Let the TLS context ``context`` show the certificate in the file ``certificate``, and use its private key.
    Without ``key`` the key is in the file of the certificate.

    Raises TlsFileError, whose text names ``option``, the command line option that gave the file.
    """
    try:
        # The function stands for the password of the key. Without it OpenSSL asks on the terminal.
        context.load_cert_chain(certificate, key, lambda: b"")
    except ssl.SSLError as error:
        found = f"is no PEM certificate with its unencrypted private key in {key or 'the same file'}"
        raise TlsFileError(option, certificate, f"{found} (OpenSSL: {ssl_reason(error)})") from None
    except OSError as error:
        raise TlsFileError(option, certificate, f"cannot be read: {error.strerror}") from None


def read_tls_file(option: str, path: Path) -> bytes:
    """Return the bytes of a certificate or key file. Raises TlsFileError, whose text names ``option``, the command line
    option that gave the file.
    """
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TlsFileError(option, path, f"cannot be read: {reason}") from None


def ssl_reason(error: ssl.SSLError) -> str:
    """Return the reason in an error of OpenSSL as text in small letters, such as ``wrong version number``."""
    return (error.reason or str(error)).replace("_", " ").lower()

"""TLS to a source: the modes of MySQL's ``--ssl-mode``, and the contexts that verify as each mode says."""

from __future__ import annotations

import enum
import ssl
from dataclasses import dataclass, replace
from pathlib import Path

from dumpfilter.errors import OptionError
from dumpfilter.options.small_file import read_small_file


class TlsMode(enum.StrEnum):
    """The use of TLS to a source, with the names of MySQL's ``--ssl-mode``."""

    DISABLED = "disabled"
    PREFERRED = "preferred"
    """TLS if the source offers it. The certificate is not verified."""
    REQUIRED = "required"
    """TLS, or no connection. The certificate is not verified."""
    VERIFY_CA = "verify-ca"
    """The CA must have signed the certificate, for whatever host."""
    VERIFY_IDENTITY = "verify-identity"
    """The CA must have signed the certificate, and the certificate must name the source's host."""


@dataclass(frozen=True)
class TlsOptions:
    """The TLS options of a source's address."""

    mode: TlsMode | None = None
    """None: verify the identity with a CA, and else require TLS from other machines and prefer it on this machine."""
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    public_key: Path | None = None
    """The file with the server's public key, for a password without TLS."""
    asks_for_key: bool = False
    """Whether the password may go to whoever sends a public key, on a connection without TLS."""

    def check(self, shown: str) -> None:
        """Raise OptionError for options that contradict each other. ``shown`` is the address, for errors."""
        if bool(self.cert) != bool(self.key):
            raise OptionError(f"{shown}: cert and key need each other: give both, or none")
        if self.mode is TlsMode.DISABLED and (self.ca or self.cert):
            raise OptionError(
                f"{shown}: tls=disabled contradicts ca, cert and key: leave out one or the others"
            )
        if self.ca and self.mode in (TlsMode.PREFERRED, TlsMode.REQUIRED):
            raise OptionError(
                f"{shown}: tls={self.mode} does not verify the certificate, so ca has no use; say tls=verify-ca or "
                "tls=verify-identity"
            )

    def or_else(self, other: TlsOptions) -> TlsOptions:
        """Return these options, with those of an option file where an option is not given."""
        return replace(
            self,
            mode=self.mode or other.mode,
            ca=self.ca or other.ca,
            cert=self.cert or other.cert,
            key=self.key or other.key,
            public_key=self.public_key or other.public_key,
            asks_for_key=self.asks_for_key or other.asks_for_key,
        )

    def read_public_key(self, shown: str) -> bytes:
        """Return the server's public key, empty without a file. Raises OptionError for a file that has none."""
        if self.public_key is None:
            return b""
        # The imports take longer than a command that reads files has.
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        try:
            pem = read_small_file(self.public_key)
            if not isinstance(load_pem_public_key(pem), RSAPublicKey):
                raise ValueError("the key is no RSA key")
        except OSError as error:
            raise OptionError(
                f"{shown}: source-public-key={self.public_key}: cannot be read: {error.strerror}"
            ) from None
        except (ValueError, UnsupportedAlgorithm) as error:
            raise OptionError(
                f"{shown}: source-public-key={self.public_key}: holds no RSA public key in PEM ({error}); copy "
                "public_key.pem from the server's data directory"
            ) from None
        return pem

    def resolved(self, *, is_local: bool) -> TlsMode:
        """Return the mode that holds for a source on this machine, or on another one."""
        if self.mode is not None:
            return self.mode
        if self.ca is not None:
            return TlsMode.VERIFY_IDENTITY
        return TlsMode.PREFERRED if is_local else TlsMode.REQUIRED


def context_of(options: TlsOptions, mode: TlsMode, shown: str) -> ssl.SSLContext | None:
    """Return the TLS context for a mode; None with DISABLED. Raises OptionError for a file that cannot be used."""
    # The import takes longer than a command that reads files has.
    from dumpfilter.security.tls import TlsFileError, client_context, ssl_reason

    if mode is TlsMode.DISABLED:
        return None
    try:
        if mode in (TlsMode.PREFERRED, TlsMode.REQUIRED):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif options.ca is not None:
            context = client_context(options.ca)
        else:
            context = ssl.create_default_context()
        context.check_hostname = mode is TlsMode.VERIFY_IDENTITY
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if options.cert is not None:
            context.load_cert_chain(options.cert, options.key)
    except TlsFileError as error:
        raise OptionError(f"{shown}: ca={error.path}: {error.what}") from None
    except ssl.SSLError as error:
        raise OptionError(f"{shown}: cert={options.cert}: OpenSSL: {ssl_reason(error)}") from None
    except OSError as error:
        raise OptionError(f"{shown}: cert={options.cert}: cannot be read: {error.strerror}") from None
    return context


def impostor_gets(options: TlsOptions, mode: TlsMode) -> str:
    """Return what an impostor in the source's place would get, or an empty text if the certificate is verified."""
    if mode in (TlsMode.VERIFY_CA, TlsMode.VERIFY_IDENTITY):
        return ""
    if mode is TlsMode.DISABLED and not options.asks_for_key:
        return "a proof of the password, from which weak passwords can be guessed"
    return "the password"

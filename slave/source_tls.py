"""The options of TLS between a slave and its master: ``SOURCE_SSL`` and its fellow options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dumpfilter.errors import OptionError
from dumpfilter.security.client_tls import ClientTls, TlsMode


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
    def mode(self) -> TlsMode:
        """The mode that the options ask for."""
        if not self.ca:
            return TlsMode.REQUIRED
        return TlsMode.VERIFY_CA if self.verify_host is False else TlsMode.VERIFY_IDENTITY

    @property
    def client(self) -> ClientTls:
        """The settings of the slave's connections."""
        ca, certificate, key = (
            Path(name) if name else None for name in (self.ca, self.certificate, self.key)
        )
        return ClientTls(self.mode, ca, certificate, key, "SOURCE_SSL_CA", "SOURCE_SSL_CERT")

    def check(self) -> None:
        """Raise OptionError for options that contradict each other."""
        if bool(self.certificate) != bool(self.key):
            given, missing = ("CERT", "KEY") if self.certificate else ("KEY", "CERT")
            raise OptionError(f"SOURCE_SSL_{given} needs SOURCE_SSL_{missing}: give both, or none")
        if self.verify_host and not self.ca:
            raise OptionError(
                "SOURCE_SSL_VERIFY_SERVER_CERT=1 needs SOURCE_SSL_CA, the file with the CA of the master's certificate"
            )

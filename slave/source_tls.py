"""The options of TLS between a slave and its master: ``SOURCE_SSL`` and its fellow options."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dumpfilter.errors import OptionError


class Verification(enum.Enum):
    """How far a slave verifies the master's certificate, named as the values of MySQL's ``--ssl-mode``."""

    REQUIRED = "not verified"
    """The connection is encrypted, and the certificate is not verified."""
    VERIFY_CA = "verified, except for the host"
    """The CA must have signed the certificate, for whatever host."""
    VERIFY_IDENTITY = "verified"
    """The CA must have signed the certificate, and the certificate must name the master's host."""


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

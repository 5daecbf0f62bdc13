"""The options that protect a process's ports: its TLS certificate, and the permission to do without protection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.options.settings import Settings, setting

if TYPE_CHECKING:
    from dumpfilter.security.reloading import ReloadingTls

PANEL = "TLS"


class ProtectionOptions(Settings, panel=PANEL):
    """The options of a process's TLS certificate, which all of its ports use."""

    tls_cert: Path | None = setting(None, metavar="FILE")
    """The certificate of this process, PEM, and after it those of its issuers. With it a master serves slaves over
    TLS alone. Without it a console makes a certificate. A changed file is read again."""
    tls_key: Path | None = setting(None, metavar="FILE")
    """The certificate's private key, PEM."""
    tls_ca: Path | None = setting(None, metavar="FILE")
    """The CA of clients' certificates, PEM. A client of the console that shows a certificate must have one signed by
    this CA."""
    insecure: bool = False
    """Serve other machines even without TLS or without users. Anybody on the network can then read and change what
    this process serves."""

    def tls(self, *, for_grpc: bool = False) -> ReloadingTls | None:
        """Return the TLS settings of the files, or None without ``--tls-cert`` and ``--tls-key``.

        With ``for_grpc`` the key must be of a kind that gRPC can use. Raises OptionError for files that cannot be used.
        """
        if self.tls_cert is None and self.tls_key is None:
            return None
        from dumpfilter.security.reloading import ReloadingTls
        from dumpfilter.security.tls import TlsFiles

        return ReloadingTls(TlsFiles(self.tls_cert, self.tls_key, self.tls_ca), for_grpc=for_grpc)

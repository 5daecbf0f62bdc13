"""The options that protect a process's ports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dumpfilter.base.options.settings import Settings, setting

if TYPE_CHECKING:
    from dumpfilter.base.security.reloading import ReloadingTls
    from dumpfilter.base.security.tls import TlsSource

T = TypeVar("T")

TLS_PANEL = "TLS"


class ProtectionOptions(Settings, panel=TLS_PANEL):
    """The options for the TLS certificate that all listening ports of a process share."""

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

        With ``for_grpc`` the key must be of a type that gRPC can use. Raises OptionError for files that cannot be used.
        """
        if self.tls_cert is None and self.tls_key is None:
            return None
        from dumpfilter.base.security.reloading import ReloadingTls
        from dumpfilter.base.security.tls import TlsFiles

        return ReloadingTls(TlsFiles(self.tls_cert, self.tls_key, self.tls_ca), for_grpc=for_grpc)

    def endpoint(
        self,
        made: Callable[..., T],
        host: str,
        port: int | None,
        port_file: Path | None,
        tls: TlsSource | None,
        **more: Any,
    ) -> T | None:
        """Return the settings of a listening port (address, TLS, login of clients), or None if ``port`` is None.

        ``made`` is the class of the settings: :class:`~dumpfilter.base.security.endpoint.Endpoint` or a subclass.
        ``port_file`` is the file to which the port is written. ``tls`` is the certificate from the files of these
        options, or None. ``more`` are further arguments of the class.
        """
        if port is None:
            return None
        return made(
            host=host, port=port, port_file=port_file, tls=tls, ca=self.tls_ca, insecure=self.insecure, **more
        )

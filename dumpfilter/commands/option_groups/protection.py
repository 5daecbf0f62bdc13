"""The options that protect a process's ports, and the check that no two options name the same port."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import Settings, setting

if TYPE_CHECKING:
    from dumpfilter.base.security.reloading import ReloadingTls
    from dumpfilter.base.security.tls import TlsSource

T = TypeVar("T")

TLS_PANEL = "TLS"

_ALL_ADDRESSES = ("0.0.0.0", "::", "[::]", "")
"""The hosts that stand for all addresses of this machine."""


class ProtectionOptions(Settings, panel=TLS_PANEL):
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
        """Return the settings of a listening port with this protection, or None if ``port`` is None.

        ``made`` is the class of the settings: :class:`~dumpfilter.base.security.endpoint.Endpoint` or a subclass.
        ``tls`` is the certificate from the files of these options, or None. ``more`` are further arguments of the
        class.
        """
        if port is None:
            return None
        return made(
            host=host, port=port, port_file=port_file, tls=tls, ca=self.tls_ca, insecure=self.insecure, **more
        )


class Listener(NamedTuple):
    """An address on which a command listens, and the option that sets it."""

    option: str
    host: str
    port: int | None
    """The TCP port; None if the option is not given, and 0 for any free port."""


def check_distinct(listeners: Iterable[Listener]) -> None:
    """Raise OptionError, which names both options, when two listeners have the same address and port.

    >>> check_distinct([Listener("--port", "::1", 3307), Listener("--console-port", "::1", 3308)])
    >>> check_distinct([Listener("--port", "::1", 3307), Listener("--console-port", "::1", 3307)])
    Traceback (most recent call last):
    dumpfilter.base.errors.OptionError: --port and --console-port are both 3307: give each of them a port of its own
    """
    earlier: list[Listener] = []
    for listener in listeners:
        if not listener.port:
            continue
        for other in earlier:
            hosts = (listener.host, other.host)
            alike = hosts[0] == hosts[1] or any(host in _ALL_ADDRESSES for host in hosts)
            if listener.port == other.port and alike:
                raise OptionError(
                    f"{other.option} and {listener.option} are both {listener.port}: "
                    "give each of them a port of its own"
                )
        earlier.append(listener)

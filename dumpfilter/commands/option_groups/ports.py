"""The options of a process that serves others: its ports and their protection, its console, metrics and log."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dumpfilter.base.errors import OptionError
from dumpfilter.base.logs import Format, Level, configure
from dumpfilter.base.options.config_files import read_password
from dumpfilter.base.options.settings import Settings, setting

if TYPE_CHECKING:
    from dumpfilter.base.security.tls import ReloadingTls, TlsSource
    from dumpfilter.console.metrics import MetricsEndpoint
    from dumpfilter.console.server import ConsoleEndpoint

T = TypeVar("T")

TLS_PANEL = "TLS"
_CONSOLE_PANEL = "Console"

CONSOLE_VARIABLE = "DUMPFILTER_CONSOLE_PASSWORD"
_RANDOM_BYTES = 18


def make_password(path: Path) -> bool:
    """Create a file with a random password, unless the file exists. Return whether the file was created.

    Only the owner can read the new file. Raises OptionError for a file that cannot be created.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    except OSError as error:
        raise OptionError(
            f"{path}: the password file cannot be made: {error.strerror}; name a file in a directory that you may "
            "write to"
        ) from None
    with open(descriptor, "w", encoding="utf-8") as new:
        new.write(secrets.token_urlsafe(_RANDOM_BYTES) + "\n")
    return True


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
        from dumpfilter.base.security.tls import ReloadingTls, TlsFiles

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

        ``made`` is the class of the settings: :class:`~dumpfilter.base.security.listening.Endpoint` or a subclass.
        ``port_file`` is the file to which the port is written. ``tls`` is the certificate from the files of these
        options, or None. ``more`` are further arguments of the class.
        """
        if port is None:
            return None
        return made(
            host=host, port=port, port_file=port_file, tls=tls, ca=self.tls_ca, insecure=self.insecure, **more
        )


class SlaveConsoleOptions(Settings, panel=_CONSOLE_PANEL):
    """The address of a slave's console and its user."""

    console_host: str = "127.0.0.1"
    """Address the console listens on."""
    console_user: str = "root"
    """The console's user. From this machine alone the user needs no password."""


class MasterConsoleUser(Settings, panel=_CONSOLE_PANEL):
    """The user of a master's console."""

    console_user: str | None = None
    """A user of the console, besides those of --config (root where there is none). From this machine alone the user
    needs no password."""


class ConsoleOptions(Settings, panel=_CONSOLE_PANEL):
    """The options of an SQL console (a port for MySQL clients): its port, its user's password, and the audit log."""

    console_port: int | None = setting(None, min=0, max=65535)
    """Port for MySQL clients; 0 takes a free one. Without this option there is no console."""
    console_port_file: Path | None = None
    """Write the console's port to this file once the console answers."""
    console_password_file: Path | None = None
    """A file whose first line is the console user's password. If the file does not exist, it is made, with a random
    password. Without this option the password is that of DUMPFILTER_CONSOLE_PASSWORD. A user without a password
    may only read."""

    audit_log: Path | None = setting(None, metavar="FILE")
    """Append a line of JSON to this file for each change that a console or a slave asks for. Without this option the
    lines are in the ordinary log. A renamed file is replaced by a new one."""

    def endpoint(
        self, host: str, user: str | None, protection: ProtectionOptions, tls: TlsSource | None
    ) -> ConsoleEndpoint | None:
        """Return address, login and TLS settings of the console, or None without ``--console-port``.

        ``host`` is the address to listen on, and ``user`` the user who may log in. ``tls`` is the certificate from the
        files of ``protection``, or None without such files. Raises OptionError for a password file that cannot be read
        or made.
        """
        if self.console_port is None:
            return None
        from dumpfilter.console.server import ConsoleEndpoint

        path = self.console_password_file
        made = path is not None and make_password(path)
        return protection.endpoint(
            ConsoleEndpoint,
            host,
            self.console_port,
            self.console_port_file,
            tls,
            user=user,
            password=read_password(path, CONSOLE_VARIABLE),
            new_password_file=path if made else None,
        )


class LogOptions(Settings, panel="Log"):
    """The format of a process's log on standard error, and the lowest level of its lines."""

    log_format: Format | None = setting(None, show_default=Format.TEXT.value)
    """The format of log lines: text for people, or json with one object a line for programs."""
    log_level: Level | None = setting(None, show_default=Level.INFO.value)
    """The least level of the log's lines. Lines of the audit log have no level, and always appear."""

    def begin(self, *, colors: bool) -> None:
        """Configure the log of this process. ``colors`` says whether text lines may have colors."""
        configure(self.log_format, self.log_level, colors=colors)


class MetricsOptions(Settings, panel="Metrics"):
    """The address of the metrics' HTTP endpoint, and the file to which its port is written."""

    metrics_port: int | None = setting(None, min=0, max=65535)
    """Port at which Prometheus reads metrics; 0 takes a free one. Without this option there are none."""
    metrics_address: str = "127.0.0.1"
    """Address of --metrics-port. For an address that other machines can reach, Prometheus needs a certificate signed
    by the CA of --tls-ca."""
    metrics_port_file: Path | None = None
    """Write the port to this file once Prometheus can connect."""
    metrics_insecure: bool = False
    """Show the metrics to other machines over plain HTTP. Everybody on the network can then read the names of
    slaves, channels and users."""

    def metrics(self, tls: TlsSource | None) -> MetricsEndpoint | None:
        """Return the settings of the HTTP endpoint for Prometheus, or None without ``--metrics-port``. ``tls`` is the
        process's certificate, or None.
        """
        from dumpfilter.console.metrics import MetricsEndpoint

        if self.metrics_port is None:
            return None
        return MetricsEndpoint(
            self.metrics_address,
            self.metrics_port,
            port_file=self.metrics_port_file,
            tls=tls,
            insecure=self.metrics_insecure,
        )


class MonitoringOptions(MetricsOptions, LogOptions):
    """The endpoint of a process's metrics, and the format of its log."""

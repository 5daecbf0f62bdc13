"""The options of the SQL console that a master or slave opens for MySQL clients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.commands.option_groups.logins import CONSOLE_VARIABLE, make_password, read_password

if TYPE_CHECKING:
    from dumpfilter.base.security.tls import TlsSource
    from dumpfilter.commands.option_groups.protection import ProtectionOptions
    from dumpfilter.console.endpoint import ConsoleEndpoint

PANEL = "Console"


class SlaveConsoleOptions(Settings, panel=PANEL):
    """The address of a slave's console and its user."""

    console_host: str = "127.0.0.1"
    """Address the console listens on."""
    console_user: str = "root"
    """The console's user. From this machine alone the user needs no password."""


class MasterConsoleUser(Settings, panel=PANEL):
    """The user of a master's console."""

    console_user: str | None = None
    """A user of the console, besides those of --config (root where there is none). From this machine alone the user
    needs no password."""


class ConsoleOptions(Settings, panel=PANEL):
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
        from dumpfilter.console.endpoint import ConsoleEndpoint

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

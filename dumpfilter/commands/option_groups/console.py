"""The options of the SQL console that a master or slave opens for MySQL clients."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dumpfilter.commands.option_groups.group import OptionGroup
from dumpfilter.commands.option_groups.passwords import CONSOLE_VARIABLE, read_password

if TYPE_CHECKING:
    from dumpfilter.commands.option_groups.protection import ProtectionOptions
    from dumpfilter.console.endpoint import ConsoleEndpoint
    from dumpfilter.security.tls import TlsSource

PANEL = "Console"


@dataclass(frozen=True)
class ConsoleOptions(OptionGroup):
    """The options of an SQL console: its port and its user's password."""

    console_port: Annotated[
        int | None,
        typer.Option(
            help="Port for MySQL clients; 0 takes a free one. Without this option there is no console.",
            min=0,
            max=65535,
            rich_help_panel=PANEL,
        ),
    ] = None
    console_port_file: Annotated[
        Path | None,
        typer.Option(
            help="Write the console's port to this file once the console answers.", rich_help_panel=PANEL
        ),
    ] = None
    console_password_file: Annotated[
        Path | None,
        typer.Option(
            help="A file whose first line is the console user's password. Without it the password is that of the "
            f"environment variable {CONSOLE_VARIABLE}.",
            rich_help_panel=PANEL,
        ),
    ] = None

    def endpoint(
        self, host: str, user: str | None, protection: ProtectionOptions, tls: TlsSource | None
    ) -> ConsoleEndpoint | None:
        """Return address, login and TLS settings of the console, or None without ``--console-port``.

        ``tls`` are the settings of ``protection``'s files. Raises OptionError for a password file that cannot be read.
        """
        from dumpfilter.console.endpoint import ConsoleEndpoint

        if self.console_port is None:
            return None
        return ConsoleEndpoint(
            host=host,
            port=self.console_port,
            port_file=self.console_port_file,
            user=user,
            password=read_password(self.console_password_file, CONSOLE_VARIABLE),
            tls=tls,
            ca=protection.tls_ca,
            insecure=protection.insecure,
        )

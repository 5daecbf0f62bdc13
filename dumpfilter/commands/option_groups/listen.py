"""The options for the address at which a master waits for slaves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dumpfilter.commands.option_groups.group import OptionGroup
from dumpfilter.commands.option_groups.protection import PANEL, ProtectionOptions

if TYPE_CHECKING:
    from dumpfilter.master.listen import ListenAddress
    from dumpfilter.security.tls import TlsSource


@dataclass(frozen=True)
class ListenOptions(OptionGroup):
    """The address at which a master waits for slaves, and the file that tells its port."""

    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on. An address that other machines can reach needs TLS and users, or --insecure."
        ),
    ] = "127.0.0.1"
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)] = 3307
    port_file: Annotated[
        Path | None, typer.Option(help="Write the port to this file once the master serves.")
    ] = None
    tls_require_slave_cert: Annotated[
        bool,
        typer.Option(
            "--tls-require-slave-cert",
            help="Serve only slaves that show a certificate signed by the CA of --tls-ca (mutual TLS).",
            rich_help_panel=PANEL,
        ),
    ] = False

    def address(self, protection: ProtectionOptions, tls: TlsSource | None) -> ListenAddress:
        """Return the address with its protection. Raises OptionError for options that contradict each other."""
        from dumpfilter.master.listen import ListenAddress

        return ListenAddress(
            self.host,
            self.port,
            tls=tls,
            require_slave_certificate=self.tls_require_slave_cert,
            insecure=protection.insecure,
        )

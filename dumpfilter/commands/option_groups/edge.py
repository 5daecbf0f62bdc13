"""The options of the ports that a slave opens for real MySQL and MariaDB replicas beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dumpfilter.commands.option_groups.group import OptionGroup
from dumpfilter.commands.option_groups.replicas import PANEL
from dumpfilter.errors import OptionError

if TYPE_CHECKING:
    from dumpfilter.commands.option_groups.protection import ProtectionOptions
    from dumpfilter.edge.edge import Edge
    from dumpfilter.security.tls import TlsSource

_MOST_PORT = 65535


@dataclass(frozen=True)
class EdgeOptions(OptionGroup):
    """The ports at which a slave serves its relay logs to real MySQL and MariaDB replicas, and their accounts."""

    replica_port: Annotated[
        list[str] | None,
        typer.Option(
            help="Port for MySQL and MariaDB replicas, which get what the slave has received; with a name before it, "
            "what that channel has received. 0 takes a free port. Repeatable.",
            metavar="[CHANNEL=]PORT",
            rich_help_panel=PANEL,
        ),
    ] = None
    replica_host: Annotated[
        str, typer.Option(help="Address to listen on for replicas.", rich_help_panel=PANEL)
    ] = "127.0.0.1"
    replica_port_file: Annotated[
        Path | None,
        typer.Option(
            help="Write the first port for replicas to this file once they can connect.",
            rich_help_panel=PANEL,
        ),
    ] = None
    config: Annotated[
        Path | None,
        typer.Option(
            help="A TOML file whose replica tables name the users and filters of replicas (docs/edge.md).",
            rich_help_panel=PANEL,
        ),
    ] = None

    def edge(
        self, protection: ProtectionOptions, tls: TlsSource | None, lower_case_table_names: int
    ) -> Edge | None:
        """Return the ports for replicas, or None without ``--replica-port``.

        ``tls`` are the settings of ``protection``'s files. Raises OptionError.
        """
        if not self.replica_port:
            return None
        if self.config is None:
            raise OptionError(
                "--replica-port: no replica could log in: give --config FILE with at least one [[replica]]"
            )
        from dumpfilter.edge.edge import Edge
        from dumpfilter.edge.edge import EdgeOptions as Settings

        return Edge(
            Settings(
                ports=parse_ports(self.replica_port),
                config=self.config,
                host=self.replica_host,
                port_file=self.replica_port_file,
                tls=tls,
                ca=protection.tls_ca,
                insecure=protection.insecure,
                lower_case_table_names=lower_case_table_names,
            )
        )


def parse_ports(texts: list[str]) -> dict[str, int]:
    """Return the port of each channel, from texts such as ``m1=3310``. Raises OptionError.

    >>> parse_ports(["3309", "m1=3310"])
    {'': 3309, 'm1': 3310}
    """
    ports: dict[str, int] = {}
    for text in texts:
        channel, _, port = text.rpartition("=")
        if not port.isascii() or not port.isdigit() or int(port) > _MOST_PORT:
            raise OptionError(f"--replica-port={text}: give a port from 0 to {_MOST_PORT}, or CHANNEL=PORT")
        if channel in ports:
            raise OptionError(f"--replica-port={text}: channel {channel!r} has two ports: keep one")
        ports[channel] = int(port)
    return ports

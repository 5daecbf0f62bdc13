"""The options of the ports at which a slave serves its relay logs to other slaves and to real replicas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.commands.option_groups.channel_ports import parse_ports
from dumpfilter.commands.option_groups.distinct_ports import Listener
from dumpfilter.commands.option_groups.replicas import PANEL
from dumpfilter.options.settings import Settings, setting

if TYPE_CHECKING:
    from dumpfilter.commands.option_groups.protection import ProtectionOptions
    from dumpfilter.edge.edge import Edge
    from dumpfilter.security.tls import TlsSource

SERVE_PANEL = "Slaves of this slave"


class EdgeOptions(Settings, panel=PANEL):
    """The ports at which a slave serves its relay logs to other slaves and to real replicas, and their accounts."""

    serve_port: list[str] | None = setting(None, metavar="[CHANNEL=]PORT", rich_help_panel=SERVE_PANEL)
    """Port for other slaves of dumpfilter, which get what this slave has received; with a name before it, what that
    channel has received. 0 takes a free port. Repeatable."""
    serve_host: str = setting("127.0.0.1", rich_help_panel=SERVE_PANEL)
    """Address to listen on for slaves."""
    serve_port_file: Path | None = setting(None, rich_help_panel=SERVE_PANEL)
    """Write the first port for slaves to this file once they can connect."""

    replica_port: list[str] | None = setting(None, metavar="[CHANNEL=]PORT")
    """Port for MySQL and MariaDB replicas, which get what the slave has received; with a name before it, what that
    channel has received. 0 takes a free port. Repeatable."""
    replica_host: str = "127.0.0.1"
    """Address to listen on for replicas."""
    replica_port_file: Path | None = None
    """Write the first port for replicas to this file once they can connect."""
    config: Path | None = None
    """A TOML file. Its replica tables name the users and filters of replicas, its user tables the users of slaves
    (docs/edge.md)."""

    def listeners(self) -> list[Listener]:
        """Return the addresses of all ports. Raises OptionError."""
        return [
            Listener(option, host, port)
            for option, host, texts in (
                ("--serve-port", self.serve_host, self.serve_port),
                ("--replica-port", self.replica_host, self.replica_port),
            )
            for port in parse_ports(texts or [], option).values()
        ]

    def edge(
        self, protection: ProtectionOptions, tls: TlsSource | None, lower_case_table_names: int
    ) -> Edge | None:
        """Return the ports of the relay logs, or None without ``--serve-port`` and ``--replica-port``.

        ``tls`` are the settings of ``protection``'s files. Raises OptionError.
        """
        if not self.serve_port and not self.replica_port:
            return None
        from dumpfilter.edge.edge import Edge, SlavePorts
        from dumpfilter.edge.edge import EdgeOptions as Settings

        return Edge(
            Settings(
                ports=parse_ports(self.replica_port or [], "--replica-port"),
                config=self.config,
                host=self.replica_host,
                port_file=self.replica_port_file,
                slaves=SlavePorts(
                    parse_ports(self.serve_port or [], "--serve-port"),
                    self.serve_host,
                    self.serve_port_file,
                    tls,
                ),
                tls=tls,
                ca=protection.tls_ca,
                insecure=protection.insecure,
                lower_case_table_names=lower_case_table_names,
            )
        )

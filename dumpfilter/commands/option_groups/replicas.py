"""The options of the port that a master opens for real MySQL and MariaDB replicas."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dumpfilter.commands.option_groups.group import OptionGroup

if TYPE_CHECKING:
    from dumpfilter.commands.option_groups.protection import ProtectionOptions
    from dumpfilter.master.replicas.server import ReplicaEndpoint
    from dumpfilter.security.tls import TlsSource

PANEL = "Real replicas"


@dataclass(frozen=True)
class ReplicaOptions(OptionGroup):
    """The address at which a master waits for real MySQL and MariaDB replicas."""

    replica_port: Annotated[
        int | None,
        typer.Option(
            help="Port for MySQL and MariaDB replicas, mysqlbinlog and mariadb-binlog; 0 takes a free one. The "
            r"\[\[replica]] tables of --config name their users and filters. Without this option there is no such "
            "port.",
            min=0,
            max=65535,
            rich_help_panel=PANEL,
        ),
    ] = None
    replica_host: Annotated[
        str | None,
        typer.Option(
            help="Address to listen on for replicas. Without this option it is that of --host.",
            rich_help_panel=PANEL,
        ),
    ] = None
    replica_port_file: Annotated[
        Path | None,
        typer.Option(
            help="Write the port for replicas to this file once they can connect.", rich_help_panel=PANEL
        ),
    ] = None

    def endpoint(
        self, host: str, protection: ProtectionOptions, tls: TlsSource | None
    ) -> ReplicaEndpoint | None:
        """Return the address and TLS settings of the replication port, or None without ``--replica-port``.

        ``host`` is the address of the master's other ports. ``tls`` are the settings of ``protection``'s files.
        """
        if self.replica_port is None:
            return None
        from dumpfilter.master.replicas.server import ReplicaEndpoint

        return ReplicaEndpoint(
            host=host if self.replica_host is None else self.replica_host,
            port=self.replica_port,
            port_file=self.replica_port_file,
            tls=tls,
            ca=protection.tls_ca,
            insecure=protection.insecure,
        )

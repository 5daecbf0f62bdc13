"""The options of the port that a master opens for real MySQL and MariaDB replicas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.edge.options import REPLICAS_PANEL
from dumpfilter.options.settings import Settings, setting

if TYPE_CHECKING:
    from dumpfilter.commands.option_groups.protection import ProtectionOptions
    from dumpfilter.security.endpoint import Endpoint
    from dumpfilter.security.tls import TlsSource


class ReplicaOptions(Settings, panel=REPLICAS_PANEL):
    """The address at which a master waits for real MySQL and MariaDB replicas."""

    replica_port: int | None = setting(None, min=0, max=65535)
    r"""Port for MySQL and MariaDB replicas, mysqlbinlog and mariadb-binlog; 0 takes a free one. The \[\[replica]]
    tables of --config name their users and filters. Without this option there is no such port."""
    replica_host: str | None = None
    """Address to listen on for replicas. Without this option it is that of --host."""
    replica_port_file: Path | None = None
    """Write the port for replicas to this file once they can connect."""

    def endpoint(self, host: str, protection: ProtectionOptions, tls: TlsSource | None) -> Endpoint | None:
        """Return the address and TLS settings of the replication port, or None without ``--replica-port``.

        ``host`` is the address of the master's other ports. ``tls`` are the settings of ``protection``'s files.
        """
        if self.replica_port is None:
            return None
        from dumpfilter.security.endpoint import Endpoint

        return Endpoint(
            host=host if self.replica_host is None else self.replica_host,
            port=self.replica_port,
            port_file=self.replica_port_file,
            tls=tls,
            ca=protection.tls_ca,
            insecure=protection.insecure,
        )

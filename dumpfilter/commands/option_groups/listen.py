"""The options for the ports at which a master waits for slaves and for real replicas."""

from __future__ import annotations

from pathlib import Path

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.commands.option_groups.protection import PANEL
from dumpfilter.edge.options import REPLICAS_PANEL

_PORT = 3307
"""The port for slaves of dumpfilter, unless ``--port`` names another one."""


class ListenOptions(Settings):
    """The address at which a master waits for slaves, and the file that tells its port."""

    host: str = "127.0.0.1"
    """Address to listen on. An address that other machines can reach needs TLS and users, or --insecure."""
    port: int | None = setting(None, min=0, max=65535)
    """Port for slaves of dumpfilter; 0 takes a free one. Without this option it is 3307, and with --replica-port
    there is no such port."""
    port_file: Path | None = None
    """Write the port to this file once the master serves."""
    tls_require_slave_cert: bool = setting(False, rich_help_panel=PANEL)
    """Serve only slaves that show a certificate signed by the CA of --tls-ca (mutual TLS)."""

    def port_beside(self, replica_port: int | None) -> int | None:
        """Return the port for slaves, or None for a master that serves real replicas alone.

        Raises OptionError for options of a port that there is not.
        """
        if self.port is not None or replica_port is None:
            return _PORT if self.port is None else self.port
        if self.port_file is not None or self.tls_require_slave_cert:
            option = "--tls-require-slave-cert" if self.port_file is None else f"--port-file={self.port_file}"
            raise OptionError(
                f"{option}: with --replica-port and without --port there is no port for slaves of dumpfilter: give "
                "--port, too"
            )
        return None


class ReplicaOptions(Settings, panel=REPLICAS_PANEL):
    """The address at which a master waits for real MySQL and MariaDB replicas."""

    replica_port: int | None = setting(None, min=0, max=65535)
    r"""Port for MySQL and MariaDB replicas, mysqlbinlog and mariadb-binlog; 0 takes a free one. The \[\[replica]]
    tables of --config name their users and filters. Without this option there is no such port."""
    replica_host: str | None = None
    """Address to listen on for replicas. Without this option it is that of --host."""
    replica_port_file: Path | None = None
    """Write the port for replicas to this file once they can connect."""

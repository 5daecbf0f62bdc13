"""The command ``dumpfilter master``, which serves a binlog set to slaves and filters it for each slave."""

from __future__ import annotations

from pathlib import Path

from dumpfilter.base.endings import HANG_UP, handling
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.commands import option_groups as shared
from dumpfilter.commands.option_files import OptionFiles
from dumpfilter.commands.sub_command import at_end
from dumpfilter.master.options import MasterOptions
from dumpfilter.slave.options import REPLICAS_PANEL

_PORT = 3307
"""The port for slaves of dumpfilter, unless ``--port`` names another one."""


class ListenOptions(Settings):
    """The options for the address at which a master waits for slaves, and for the file to which it writes its port."""

    host: str = "127.0.0.1"
    """Address to listen on. An address that other machines can reach needs TLS and users, or --insecure."""
    port: int | None = setting(None, min=0, max=65535)
    """Port for slaves of dumpfilter; 0 takes a free one. Without this option it is 3307, and with --replica-port
    there is no such port."""
    port_file: Path | None = None
    """Write the port to this file once the master serves."""
    tls_require_slave_cert: bool = setting(False, rich_help_panel=shared.TLS_PANEL)
    """Serve only slaves that show a certificate signed by the CA of --tls-ca (mutual TLS)."""

    def port_beside(self, replica_port: int | None) -> int | None:
        """Return the port on which the master serves slaves of dumpfilter, or None if the master serves only real MySQL
        and MariaDB replicas.

        ``replica_port`` is the port for real replicas, or None. With a port for replicas and without ``--port`` the
        result is None. OptionError is raised if the result is None although ``--port-file`` or
        ``--tls-require-slave-cert`` is given.
        """
        if self.port is not None or replica_port is None:
            return _PORT if self.port is None else self.port
        why = "is for slaves of dumpfilter, which have no port with --replica-port alone: give --port, too"
        self.refuse(["port_file", "tls_require_slave_cert"], why)
        return None


class ReplicaOptions(Settings, panel=REPLICAS_PANEL):
    """The options for the address at which a master waits for real MySQL and MariaDB replicas."""

    replica_port: int | None = setting(None, min=0, max=65535)
    r"""Port for MySQL and MariaDB replicas, mysqlbinlog and mariadb-binlog; 0 takes a free one. The \[\[replica]]
    tables of --config name their users and filters. Without this option there is no such port."""
    replica_host: str | None = None
    """Address to listen on for replicas. Without this option it is that of --host."""
    replica_port_file: Path | None = None
    """Write the port for replicas to this file once they can connect."""


def master_command(
    options: MasterOptions,
    listen: ListenOptions,
    console: shared.ConsoleOptions,
    replicas: ReplicaOptions,
    protection: shared.ProtectionOptions,
    rules: shared.MasterRuleOptions,
    monitoring: shared.MonitoringOptions,
    option_files: OptionFiles,
) -> None:
    r"""Serve a binlog set to slaves over gRPC, filtered for each.

    The last file may still be growing: the master follows a server that writes to it, also into the next file. With the
    address of a running server, the master receives that server's binlog into --store, and serves the received files.

    Examples:

        dumpfilter master /var/lib/mysql/binlog.index --port 3307

        dumpfilter master mysql://repl@db1:3306/ --store /var/lib/dumpfilter/db1

        dumpfilter master /var/lib/mysql/binlog.index --binlog-ignore-db=scratch

        dumpfilter master /var/lib/mysql/binlog.index \
            --config master.toml --console-port 3308

        dumpfilter master /var/lib/mysql/binlog.index \
            --config master.toml --replica-port 3309

        dumpfilter master /var/lib/mysql/binlog.index --host 10.0.0.1 \
            --config master.toml \
            --tls-cert cert.pem --tls-key key.pem
    """
    from rich.console import Console

    # The configuration is not read yet, so that SIGHUP has nothing to do. It must not end the start.
    at_end.enter_context(handling(lambda number, frame: None, HANG_UP))
    from dumpfilter.base.security.listening import Endpoint
    from dumpfilter.filter.rules import make_rules
    from dumpfilter.master.process import RunOptions, run_master
    from dumpfilter.master.server import ListenAddress

    replica_host = listen.host if replicas.replica_host is None else replicas.replica_host
    port = listen.port_beside(replicas.replica_port)
    tls = protection.tls(for_grpc=port is not None)
    run = RunOptions(
        listen=protection.endpoint(
            ListenAddress,
            port,
            tls,
            host=listen.host,
            port_file=listen.port_file,
            require_slave_certificate=listen.tls_require_slave_cert,
        ),
        console=console.endpoint(protection, tls, host=listen.host),
        audit_file=console.audit_log,
        replicas=protection.endpoint(
            Endpoint, replicas.replica_port, tls, host=replica_host, port_file=replicas.replica_port_file
        ),
        metrics=monitoring.metrics(protection, tls),
        write_rules=make_rules(rules.write_rules),
        write_semantics=rules.binlog_filter_semantics,
        lower_case_table_names=rules.lower_case_table_names,
    )
    terminal = Console(stderr=True, highlight=False, emoji=False)
    run_master(options, run, terminal)

"""The command ``dumpfilter slave``, which runs a slave: it reads filtered binlogs from masters and applies them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from dumpfilter.base.endings import HANG_UP, handling
from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.config_files import read_password
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.commands import option_groups as shared
from dumpfilter.commands.option_files import OptionFiles
from dumpfilter.commands.sub_command import at_end
from dumpfilter.slave import options
from dumpfilter.slave.state import SourceInfo


class MasterOptions(Settings, panel=options.MASTER_PANEL):
    """The options for the addresses of a slave's masters, one for each channel, and for the password at the masters."""

    master: list[str] | None = setting(None, metavar="[CHANNEL=]HOST:PORT")
    """Address of the master; with a name before it, of that channel's. Repeatable. Without it the channels are those
    that were configured before, or by statements."""
    source_password_file: Path | None = None
    """A file whose first line is the user's password. Without it the password is that of the environment variable
    DUMPFILTER_SOURCE_PASSWORD."""

    def infos(
        self, source: options.SourceOptions, tls: options.TlsOptions, net_timeout: float
    ) -> list[SourceInfo]:
        """Return the connection settings of one replication channel for each ``--master``. Raises OptionError for an
        invalid address, password file or heartbeat period.

        ``net_timeout`` is ``--replica-net-timeout``, seconds. The heartbeat period must be shorter, or idle connections
        would count as lost. Its default is half of ``net_timeout``.
        """
        period = net_timeout / 2 if source.heartbeat_period is None else source.heartbeat_period
        if period >= net_timeout:
            raise OptionError(
                f"--heartbeat-period={period:g}: an idle connection would count as lost; choose a period below "
                f"--replica-net-timeout={net_timeout:g}"
            )
        password = read_password(self.source_password_file, options.SOURCE_VARIABLE) if source.user else ""
        members = source.members() | tls.members() | {"password": password, "heartbeat_period": period}
        infos = []
        for channel, address in options.values_of_channels(self.master, "--master").items():
            option = f"--master={channel}" if channel else "--master"
            host, port = shared.parse_address(option, address, "[CHANNEL=]HOST:PORT")
            infos.append(SourceInfo(channel=channel, host=host, port=port, **members))
        return infos


class SummaryOptions(Settings):
    """The options for the summary that a slave prints when it ends: the form of the summary, and the file for it. For
    each channel the summary has the changes of each table that were applied, the position, the GTID set and the
    counters.
    """

    summary: Literal["table", "json", "none"] = "table"
    """The form of the summary that is written when the slave ends; none: no summary."""
    summary_file: Path | None = None
    """Write the summary to this file instead of standard output."""


def slave_command(
    masters: MasterOptions,
    rules: shared.SlaveFilterOptions,
    source: options.SourceOptions,
    source_tls: options.TlsOptions,
    slave: options.SlaveOptions,
    summary: SummaryOptions,
    console: shared.ConsoleOptions,
    protection: shared.ProtectionOptions,
    monitoring: shared.MonitoringOptions,
    option_files: OptionFiles,
    replicas: options.EdgeOptions,
) -> None:
    r"""Read filtered binlogs from masters, keep relay logs, and apply them to a summary.

    The summary has the number and a hash of the row changes of each table, but no data.

    A slave that is started again with the same relay directory resumes at its position.

    A rule that begins with a channel's name and a colon is for that channel.

    A rule without a name is for all channels that have no rule of the same kind.

    Examples:

        dumpfilter slave --master 127.0.0.1:3307 --server-id 101 \
            --relay-dir s1 --replicate-do-db=shop --once

        dumpfilter slave --master 127.0.0.1:3307 --server-id 102 \
            --relay-dir s2 --filter-semantics effective \
            --ignore='abc.%' --do='%.EFG' --once

        dumpfilter slave --master m1=127.0.0.1:3307 --master m2=127.0.0.1:3317 \
            --server-id 103 --relay-dir s3 \
            --replicate-ignore-db=m1:local --console-port 3308

        dumpfilter slave --master 10.0.0.1:3307 --server-id 104 --auto-position \
            --relay-dir s4 --replicate-do-db=shop \
            --replica-port 3309 --config edge.toml

        dumpfilter slave --master 10.0.0.1:3307 --server-id 105 --auto-position \
            --relay-dir s5 --replicate-do-db=shop --serve-port 3310
    """
    # Programs that rotate logs send SIGHUP, which must not end the slave, also while it starts.
    at_end.enter_context(handling(lambda number, frame: None, HANG_UP))
    from dumpfilter.slave.process import run_slave, write_reports

    infos = masters.infos(source, source_tls, slave.net_timeout)
    tls = protection.tls(for_grpc=bool(replicas.serve_port))
    endpoint = console.endpoint(protection, tls)
    edge = None
    replicas.check()
    if replicas.serve_port or replicas.replica_port:
        from dumpfilter.base.security.listening import Endpoint
        from dumpfilter.edge import Edge

        protected = Endpoint(tls=tls, ca=protection.tls_ca, insecure=protection.insecure)
        edge = Edge(replicas, protected, rules.lower_case_table_names)
    filters, metrics = rules.channel_filters(), monitoring.metrics(protection, tls)
    changed = {"lower_case_table_names": rules.lower_case_table_names, "alone": endpoint is not None}
    channels = run_slave(
        slave.model_copy(update=changed),
        filters,
        infos,
        console=endpoint,
        ports=edge,
        metrics=metrics,
        audit_file=console.audit_log,
    )
    if summary.summary != "none":
        write_reports(channels, summary.summary, summary.summary_file)

"""The command ``dumpfilter slave``, which runs a slave: it reads filtered binlogs from masters and applies them."""

from __future__ import annotations

from dumpfilter.commands.option_groups.console import ConsoleOptions, SlaveConsoleOptions
from dumpfilter.commands.option_groups.distinct_ports import Listener, check_distinct
from dumpfilter.commands.option_groups.edge import EdgeOptions
from dumpfilter.commands.option_groups.monitoring import MonitoringOptions
from dumpfilter.commands.option_groups.option_files import OptionFiles
from dumpfilter.commands.option_groups.protection import ProtectionOptions
from dumpfilter.commands.option_groups.rules import SlaveFilterOptions
from dumpfilter.commands.option_groups.slave import OriginOptions, RelayOptions
from dumpfilter.commands.option_groups.source import SourceOptions
from dumpfilter.commands.option_groups.source_tls import SourceTlsOptions
from dumpfilter.commands.option_groups.target import TargetOptions


def slave_command(
    relay: RelayOptions,
    source: SourceOptions,
    source_tls: SourceTlsOptions,
    rules: SlaveFilterOptions,
    origin: OriginOptions,
    console: ConsoleOptions,
    protection: ProtectionOptions,
    monitoring: MonitoringOptions,
    option_files: OptionFiles,
    target: TargetOptions,
    console_address: SlaveConsoleOptions,
    replicas: EdgeOptions,
) -> None:
    r"""Read filtered binlogs from masters, keep relay logs, and apply them to a summary.

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
    from rich.console import Console

    from dumpfilter import logs
    from dumpfilter.commands.terminal import CatchUpBar
    from dumpfilter.slave.options import SlaveOptions, Watching
    from dumpfilter.slave.process import RunOptions, run_slave
    from dumpfilter.slave.report import write_reports

    source.check()
    check_distinct(
        (
            Listener("--console-port", console_address.console_host, console.console_port),
            *replicas.listeners(),
            Listener("--metrics-port", monitoring.metrics_address, monitoring.metrics_port),
        )
    )
    tls = protection.tls(for_grpc=bool(replicas.serve_port))
    endpoint = console.endpoint(console_address.console_host, console_address.console_user, protection, tls)
    options = SlaveOptions(
        relay_dir=relay.relay_dir,
        server_id=relay.server_id,
        lower_case_table_names=rules.lower_case_table_names,
        replicate_same_server_id=origin.replicate_same_server_id,
        report_host=relay.report_host,
        report_port=relay.report_port,
        net_timeout=source.replica_net_timeout,
        chunk_size=relay.chunk_size,
        plain_password=source_tls.source_plain_password,
        once=relay.once,
        apply=not relay.io_thread_only,
        alone=endpoint is not None,
        target=target.target,
        sync_relay_log=relay.sync_relay_log,
        sync_master_info=relay.sync_master_info,
        relay_log_expire_seconds=relay.relay_log_expire_seconds,
    )
    run = RunOptions(
        filters=rules.channel_filters(),
        sources=source.infos(origin, source_tls),
        console=endpoint,
        replicas=replicas.edge(protection, tls, rules.lower_case_table_names),
        metrics=monitoring.metrics(tls),
        audit_file=console.audit_log,
        start=not relay.skip_replica_start,
    )
    terminal = Console(stderr=True)
    monitoring.begin(colors=terminal.is_terminal)
    with CatchUpBar(terminal, shown=not logs.is_json()) as bar:
        channels = run_slave(options, run, Watching(bar.on_chunk, bar.on_connect))
    if target.summary != "none":
        write_reports(channels, target.summary, target.summary_file)

"""``dumpfilter slave``: one slave as a process."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.commands import filter_options as options
from dumpfilter.commands.console_options import (
    PANEL,
    ConsolePasswordFile,
    ConsolePort,
    ConsolePortFile,
    TlsCa,
    TlsCert,
    TlsKey,
)
from dumpfilter.commands.filter_options import Semantics
from dumpfilter.commands.option_files import DefaultsExtraFile, DefaultsFile
from dumpfilter.commands.passwords import CONSOLE_VARIABLE, SOURCE_VARIABLE, read_password


class Summary(enum.StrEnum):
    """How the target's summary is printed at the end."""

    TABLE = "table"
    JSON = "json"
    NONE = "none"


class FilterOn(enum.StrEnum):
    """Where the filter is run."""

    BOTH = "both"
    MASTER = "master"
    SLAVE = "slave"


def _ids(name: str, help: str) -> object:
    return typer.Option(f"--{name}", help=help + " Repeatable.", metavar="ID", rich_help_panel="Filter")


def slave_command(
    relay_dir: Annotated[
        Path, typer.Option(help="Where relay logs and state are kept; one directory for each slave.")
    ],
    server_id: Annotated[int, typer.Option(help="The slave's server_id, 1 to 4294967295.")],
    master: Annotated[
        list[str] | None,
        typer.Option(
            help="Address of the master; with a name before it, of that channel's. Repeatable. Without it the "
            "channels are those that were configured before, or by statements.",
            metavar="[CHANNEL=]HOST:PORT",
        ),
    ] = None,
    channel: Annotated[
        str, typer.Option(help="The channel of a --master without a name; empty is the default one.")
    ] = "",
    do_db: options.DoDb = None,
    ignore_db: options.IgnoreDb = None,
    do_table: options.DoTable = None,
    ignore_table: options.IgnoreTable = None,
    wild_do_table: options.WildDoTable = None,
    wild_ignore_table: options.WildIgnoreTable = None,
    rewrite_db: options.RewriteDb = None,
    filter_semantics: options.FilterSemantics = Semantics.CLASSIC,
    do: options.Do = None,
    ignore: options.Ignore = None,
    rewrite: options.Rewrite = None,
    lower_case_table_names: options.LowerCaseTableNames = 0,
    filter_on: Annotated[
        FilterOn,
        typer.Option(
            help="both: the master filters, the slave again. master: the slave trusts it with rows. slave: the "
            "master sends everything, the slave filters.",
            rich_help_panel="Filter",
        ),
    ] = FilterOn.BOTH,
    ignore_server_ids: Annotated[
        list[int] | None, _ids("ignore-server-ids", "Pass over what comes from this server.")
    ] = None,
    do_domain_ids: Annotated[
        list[int] | None, _ids("do-domain-ids", "MariaDB: pass over all domains but this one.")
    ] = None,
    ignore_domain_ids: Annotated[
        list[int] | None, _ids("ignore-domain-ids", "MariaDB: pass over this domain.")
    ] = None,
    replicate_same_server_id: Annotated[
        bool,
        typer.Option(
            "--replicate-same-server-id",
            help="Apply what this slave's own server id has written, which came round in a circle of servers.",
            rich_help_panel="Filter",
        ),
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Stop at the end of the newest binlog.")] = False,
    auto_position: Annotated[
        bool, typer.Option("--auto-position", help="Go on by GTID set at the start and at another master.")
    ] = False,
    start_file: Annotated[
        str, typer.Option(help="Binlog to begin with the first time; the oldest when not given.")
    ] = "",
    start_position: Annotated[
        int, typer.Option(help="Where in it, bytes; later the slave knows.", min=4)
    ] = 4,
    skip_replica_start: Annotated[
        bool, typer.Option("--skip-replica-start", help="Wait for START REPLICA on the console.")
    ] = False,
    io_thread_only: Annotated[
        bool, typer.Option("--io-thread-only", help="Fetch relay logs and apply nothing.")
    ] = False,
    chunk_size: Annotated[
        int, typer.Option(help="Bytes of events in a message; 0 leaves it to the master.", min=0)
    ] = 0,
    sync_relay_log: Annotated[
        int, typer.Option(help="Synchronize the relay log to the disk after so many events; 0: never.", min=0)
    ] = 10_000,
    sync_master_info: Annotated[
        int, typer.Option(help="Synchronize master.info to the disk after so many events; 0: never.", min=0)
    ] = 10_000,
    connect_retry: Annotated[
        float, typer.Option(help="Longest wait between two attempts to connect, seconds.", min=0.05)
    ] = 60.0,
    retry_count: Annotated[
        int, typer.Option(help="Give up after so many failed attempts in a row; 0: never.", min=0)
    ] = 86_400,
    replica_net_timeout: Annotated[
        float, typer.Option(help="Seconds of silence after which the connection counts as lost.", min=0.1)
    ] = 60.0,
    report_host: Annotated[str, typer.Option(help="Where the slave says it can be reached.")] = "",
    report_port: Annotated[int, typer.Option(help="Its port there.", min=0, max=65535)] = 0,
    source_user: Annotated[
        str,
        typer.Option(help="The user to register as, where the master has a list of users."),
    ] = "",
    source_password_file: Annotated[
        Path | None,
        typer.Option(
            help="A file whose first line is its password; else DUMPFILTER_SOURCE_PASSWORD of the environment."
        ),
    ] = None,
    console_port: ConsolePort = None,
    console_port_file: ConsolePortFile = None,
    console_host: Annotated[
        str, typer.Option(help="Address the console listens on.", rich_help_panel=PANEL)
    ] = "127.0.0.1",
    console_user: Annotated[
        str,
        typer.Option(
            help="The console's user; on this machine alone it needs no password.",
            rich_help_panel=PANEL,
        ),
    ] = "root",
    console_password_file: ConsolePasswordFile = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
    summary: Annotated[Summary, typer.Option(help="What to print at the end.")] = Summary.TABLE,
    summary_file: Annotated[
        Path | None, typer.Option(help="Write it to this file instead of standard output.")
    ] = None,
    defaults_file: DefaultsFile = None,  # these two are for OptionFileCommand
    defaults_extra_file: DefaultsExtraFile = None,
) -> None:
    """Read filtered binlogs from masters, keep relay logs, and apply them to a summary.

    The slave remembers how far it is: start it again with the same relay directory and it goes on. A rule may begin
    with a channel's name and a colon; without one it is for all channels that have none of its kind.

    Example:

        dumpfilter slave --master 127.0.0.1:3307 --server-id 101 \\
            --relay-dir s1 --replicate-do-db=shop --once

        dumpfilter slave --master 127.0.0.1:3307 --server-id 102 \\
            --relay-dir s2 --filter-semantics effective --ignore='abc.%' --do='%.EFG' --once

        dumpfilter slave --master m1=127.0.0.1:3307 --master m2=127.0.0.1:3317 --server-id 103 \\
            --relay-dir s3 --replicate-ignore-db=m1:local --console-port 3308
    """
    # imported here so that `dumpfilter --help` and the other commands do not wait for it
    from dumpfilter.errors import OptionError
    from dumpfilter.filter import EffectiveRuleKind, FilterSemantics, RuleKind
    from dumpfilter.filter.channels import ChannelFilters, split_channel
    from dumpfilter.filter.rules import make_rule
    from dumpfilter.security.tls import TlsFiles
    from dumpfilter.slave.command import ConsoleOptions, masters_of, run_slave
    from dumpfilter.slave.slave import SlaveOptions
    from dumpfilter.slave.state.source_info import SourceInfo

    given = {
        RuleKind.DO_DB: do_db,
        RuleKind.IGNORE_DB: ignore_db,
        RuleKind.DO_TABLE: do_table,
        RuleKind.IGNORE_TABLE: ignore_table,
        RuleKind.WILD_DO_TABLE: wild_do_table,
        RuleKind.WILD_IGNORE_TABLE: wild_ignore_table,
        RuleKind.REWRITE_DB: rewrite_db,
        EffectiveRuleKind.DO: do,
        EffectiveRuleKind.IGNORE: ignore,
        EffectiveRuleKind.REWRITE: rewrite,
    }
    if start_position != 4 and not start_file:
        raise OptionError("--start-position needs --start-file")
    semantics = FilterSemantics(filter_semantics.value)
    filters = ChannelFilters()
    for kind, values in given.items():
        if values:
            semantics.check(kind)
        for value in values or ():
            name, rule = split_channel(value)
            filters.startup(name, [make_rule(kind, rule)])
    sources = [
        SourceInfo(
            channel=name,
            host=host,
            port=port,
            user=source_user,
            password=read_password(source_password_file, SOURCE_VARIABLE) if source_user else "",
            auto_position=auto_position,
            log_file=start_file,
            log_pos=start_position,
            connect_retry=connect_retry,
            retry_count=retry_count,
            heartbeat_period=1.0,
            ignore_server_ids=ignore_server_ids or [],
            do_domain_ids=do_domain_ids or [],
            ignore_domain_ids=ignore_domain_ids or [],
            filter_on=filter_on.name,  # type: ignore[arg-type]
        )
        for name, host, port in masters_of(master or [], channel)
    ]
    console = None
    if console_port is not None:
        password = read_password(console_password_file, CONSOLE_VARIABLE)
        console = ConsoleOptions(
            console_host,
            console_port,
            console_port_file,
            {console_user: password},
            TlsFiles(tls_cert, tls_key, tls_ca),
        )
    run_slave(
        SlaveOptions(
            relay_dir=relay_dir,
            server_id=server_id,
            lower_case_table_names=lower_case_table_names,
            replicate_same_server_id=replicate_same_server_id,
            report_host=report_host,
            report_port=report_port,
            net_timeout=replica_net_timeout,
            chunk_size=chunk_size,
            once=once,
            apply=not io_thread_only,
            alone=console is not None,
            sync_relay_log=sync_relay_log,
            sync_master_info=sync_master_info,
        ),
        filters,
        sources,
        console=console,
        start=not skip_replica_start,
        summary=summary.value,
        summary_file=summary_file,
    )

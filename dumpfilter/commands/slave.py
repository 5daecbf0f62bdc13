"""``dumpfilter slave``: one slave as a process."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.commands import filter_options as options
from dumpfilter.commands.filter_options import Semantics


class Summary(enum.StrEnum):
    """How the target's summary is printed at the end."""

    TABLE = "table"
    JSON = "json"
    NONE = "none"


class FilterOn(enum.StrEnum):
    """Who runs the slave's filter."""

    BOTH = "both"
    SLAVE = "slave"


def slave_command(
    master: Annotated[str, typer.Option(help="Address of the master.", metavar="HOST:PORT")],
    relay_dir: Annotated[
        Path, typer.Option(help="Where relay logs and state are kept; one directory for each slave.")
    ],
    server_id: Annotated[int, typer.Option(help="The slave's server_id, 1 to 4294967295.")],
    channel: Annotated[str, typer.Option(help="The replication channel; empty is the default one.")] = "",
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
            help="both: the master filters, the slave again. slave: the master sends everything, the slave "
            "filters."
        ),
    ] = FilterOn.BOTH,
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
    summary: Annotated[Summary, typer.Option(help="What to print at the end.")] = Summary.TABLE,
    summary_file: Annotated[
        Path | None, typer.Option(help="Write it to this file instead of standard output.")
    ] = None,
) -> None:
    """Read a filtered binlog from a master, keep relay logs, and apply them to a summary.

    The slave remembers how far it is: start it again with the same relay directory and it goes on.

    Example:

        dumpfilter slave --master 127.0.0.1:3307 --server-id 101 \\
            --relay-dir s1 --replicate-do-db=shop --once

        dumpfilter slave --master 127.0.0.1:3307 --server-id 102 \\
            --relay-dir s2 --filter-semantics effective --ignore='abc.%' --do='%.EFG' --once
    """
    # imported here so that `dumpfilter --help` and the other commands do not wait for it
    from dumpfilter.filter import EffectiveRuleKind, FilterSemantics, RuleKind
    from dumpfilter.filter.rules import make_rules
    from slave.command import run_slave
    from slave.io_thread import SourceOptions
    from slave.slave import SlaveOptions

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
    semantics = FilterSemantics(filter_semantics.value)
    for kind, values in given.items():
        if values:
            semantics.check(kind)
    options = SlaveOptions(
        source=SourceOptions(
            address=master,
            server_id=server_id,
            uuid="",
            channel=channel,
            report_host=report_host,
            report_port=report_port,
            once=once,
            auto_position=auto_position,
            start_file=start_file,
            start_position=start_position,
            chunk_size=chunk_size,
            net_timeout=replica_net_timeout,
            connect_retry=connect_retry,
            retry_count=retry_count,
        ),
        relay_dir=relay_dir,
        rules=tuple(make_rules(given)),
        semantics=semantics,
        lower_case_table_names=lower_case_table_names,
        filter_on_master=filter_on is FilterOn.BOTH,
        apply=not io_thread_only,
        sync_relay_log=sync_relay_log,
        sync_master_info=sync_master_info,
    )
    run_slave(options, summary=summary.value, summary_file=summary_file)

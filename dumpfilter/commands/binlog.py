"""``dumpfilter binlog``: print a binlog set, or write it anew, filtered."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.commands import filter_options as options


def _worklog(name: str) -> object:
    return options.rule_option(name, f"The same as --replicate-{name}.")


def _select(help: str, metavar: str) -> object:
    return typer.Option(help=help, metavar=metavar, rich_help_panel="Selection")


def binlog_command(
    binlogs: Annotated[
        list[Path],
        typer.Argument(
            metavar="BINLOGS...",
            help="The binlog set: its index file, its directory, or the files one by one.",
        ),
    ],
    replicate_do_db: options.DoDb = None,
    replicate_ignore_db: options.IgnoreDb = None,
    replicate_do_table: options.DoTable = None,
    replicate_ignore_table: options.IgnoreTable = None,
    replicate_wild_do_table: options.WildDoTable = None,
    replicate_wild_ignore_table: options.WildIgnoreTable = None,
    replicate_rewrite_db: Annotated[
        list[str] | None,
        options.rule_option(
            "replicate-rewrite-db",
            "FROM->TO: the rules are asked about TO, and TO is printed; --raw keeps the name. Repeatable.",
        ),
    ] = None,
    do_db: Annotated[list[str] | None, _worklog("do-db")] = None,
    ignore_db: Annotated[list[str] | None, _worklog("ignore-db")] = None,
    do_table: Annotated[list[str] | None, _worklog("do-table")] = None,
    ignore_table: Annotated[list[str] | None, _worklog("ignore-table")] = None,
    wild_do_table: Annotated[list[str] | None, _worklog("wild-do-table")] = None,
    wild_ignore_table: Annotated[list[str] | None, _worklog("wild-ignore-table")] = None,
    lower_case_table_names: options.LowerCaseTableNames = 0,
    clever: Annotated[
        bool,
        typer.Option(
            "--clever",
            help="Follow tables: renamed ones under their new names, and ignore those whose CREATE TABLE … LIKE or "
            "SELECT is left out as it needs an ignored one.",
            rich_help_panel="Filter",
        ),
    ] = False,
    statement_kind: Annotated[
        list[str] | None,
        typer.Option(
            help="Only statements of this kind (INSERT, create-table …); ROWS stands for row events. Repeatable.",
            metavar="KIND",
            rich_help_panel="Filter",
        ),
    ] = None,
    ignore_statement_kind: Annotated[
        list[str] | None,
        typer.Option(
            help="No statements of this kind. Repeatable.", metavar="KIND", rich_help_panel="Filter"
        ),
    ] = None,
    binlog_do_db: Annotated[
        list[str] | None,
        typer.Option(
            help="Leave out what a master with this rule would not have written. Repeatable.",
            metavar="DB",
            rich_help_panel="Filter",
        ),
    ] = None,
    binlog_ignore_db: Annotated[
        list[str] | None,
        typer.Option(
            help="The same for a database that is not written. Repeatable.",
            metavar="DB",
            rich_help_panel="Filter",
        ),
    ] = None,
    start_position: Annotated[
        str,
        _select(
            "Begin in the first file at this place, where a transaction begins; of MariaDB also after these GTIDs.",
            "BYTES|GTIDS",
        ),
    ] = "",
    stop_position: Annotated[
        str,
        _select(
            "Stop in the last file before the transaction at this place; of MariaDB also: up to these GTIDs.",
            "BYTES|GTIDS",
        ),
    ] = "",
    start_datetime: Annotated[
        str, _select("Begin with the first transaction at or after this local time.", "DATETIME")
    ] = "",
    stop_datetime: Annotated[
        str, _select("Stop before the first transaction at or after this local time.", "DATETIME")
    ] = "",
    include_gtids: Annotated[str, _select("Only transactions with these GTIDs.", "GTIDS")] = "",
    exclude_gtids: Annotated[str, _select("No transactions with these GTIDs.", "GTIDS")] = "",
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="Write a binlog set with its index instead of text.", rich_help_panel="Output"
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            help="With --raw: directory for the set; made when it does not exist.",
            metavar="DIR",
            rich_help_panel="Output",
        ),
    ] = None,
    base_name: Annotated[
        str,
        typer.Option(
            help="With --raw: the new files' name without number; that of the files read when not given.",
            rich_help_panel="Output",
        ),
    ] = "",
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="With --raw: replace a set of that name.", rich_help_panel="Output"),
    ] = False,
    binlog_with_tables_info: Annotated[
        bool,
        typer.Option(
            "--binlog-with-tables-info",
            help="With --raw: name the tables in every Query event (WL#40). Servers do not read such files.",
            rich_help_panel="Output",
        ),
    ] = False,
    skip_gtids: Annotated[
        bool,
        typer.Option(
            "--skip-gtids/--no-skip-gtids",
            help="GTIDs are comments, or settings, so that the target has the transactions under the same ones.",
            rich_help_panel="Output",
        ),
    ] = True,
    local_load: Annotated[
        Path | None,
        typer.Option(
            help="Where the files of LOAD DATA go; a new temporary directory when not given.",
            metavar="DIR",
            rich_help_panel="Output",
        ),
    ] = None,
    verify_checksum: Annotated[bool, typer.Option(help="Verify the events' checksums.")] = True,
) -> None:
    """Print what passes a filter as text to run again, as mysqlbinlog does, or write it as a binlog set.

    Examples:

        dumpfilter binlog /var/lib/mysql/binlog.index --do-db=shop | mysql --binary-mode

        dumpfilter binlog binlog.000007 binlog.000008 --start-position=4711 \\
            --stop-datetime='2026-11-21 13:00:00' --ignore-statement-kind=drop-table

        dumpfilter binlog /var/lib/mysql --clever --do-table=shop.orders --raw --output orders
    """
    import sys

    from rich.console import Console

    from dumpfilter.errors import OptionError
    from dumpfilter.filter import RuleKind
    from dumpfilter.filter.factory import FilterOptions
    from dumpfilter.filter.rules import WriteRuleKind, make_rules
    from dumpfilter.index.fileset import BinlogSet
    from dumpfilter.printing.print_set import BinlogOptions, print_binlog, rules_of, write_binlog

    if raw and output is None:
        raise OptionError("--raw: name a directory for the set with --output=DIR")
    for option, given in (
        ("--output", output is not None),
        ("--base-name", bool(base_name)),
        ("--overwrite", overwrite),
        ("--binlog-with-tables-info", binlog_with_tables_info),
    ):
        if given and not raw:
            raise OptionError(f"{option} goes with --raw; text goes to standard output")
    for option, given in (("--no-skip-gtids", not skip_gtids), ("--local-load", local_load is not None)):
        if given and raw:
            raise OptionError(f"{option} is about text and does not go with --raw")
    write_rules = {WriteRuleKind.DO_DB: binlog_do_db, WriteRuleKind.IGNORE_DB: binlog_ignore_db}
    filter_options = FilterOptions(
        rules=tuple(
            rules_of(
                {
                    RuleKind.DO_DB: replicate_do_db,
                    RuleKind.IGNORE_DB: replicate_ignore_db,
                    RuleKind.DO_TABLE: replicate_do_table,
                    RuleKind.IGNORE_TABLE: replicate_ignore_table,
                    RuleKind.WILD_DO_TABLE: replicate_wild_do_table,
                    RuleKind.WILD_IGNORE_TABLE: replicate_wild_ignore_table,
                    RuleKind.REWRITE_DB: replicate_rewrite_db,
                },
                {
                    RuleKind.DO_DB: do_db,
                    RuleKind.IGNORE_DB: ignore_db,
                    RuleKind.DO_TABLE: do_table,
                    RuleKind.IGNORE_TABLE: ignore_table,
                    RuleKind.WILD_DO_TABLE: wild_do_table,
                    RuleKind.WILD_IGNORE_TABLE: wild_ignore_table,
                },
            )
        ),
        write_rules=tuple(make_rules(write_rules)),
        lower_case_table_names=lower_case_table_names,
        clever=clever,
        only_kinds=tuple(statement_kind or ()),
        ignored_kinds=tuple(ignore_statement_kind or ()),
    )
    options = BinlogOptions(
        filter=filter_options,
        start_position=start_position,
        stop_position=stop_position,
        start_datetime=start_datetime,
        stop_datetime=stop_datetime,
        include_gtids=include_gtids,
        exclude_gtids=exclude_gtids,
        skip_gtids=skip_gtids,
        local_load=local_load,
        verify=verify_checksum,
    )
    files = BinlogSet.open(binlogs[0] if len(binlogs) == 1 else list(binlogs))
    log = Console(stderr=True)
    if output is None:
        try:
            print_binlog(files, options, sys.stdout.buffer, log)
        except BrokenPipeError:
            # the reader went away (| head): no error, and what a shell tells of a program that SIGPIPE ended
            raise typer.Exit(141) from None
        return
    write_binlog(
        files,
        options,
        output,
        log,
        base=base_name,
        overwrite=overwrite,
        tables_info=binlog_with_tables_info,
    )

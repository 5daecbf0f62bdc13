"""``dumpfilter explain``: what a filter does with a binlog set or a statement, and why."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.commands import filter_options as options
from dumpfilter.commands.filter_options import Semantics
from dumpfilter.commands.master import Semantics as WriteSide


class FamilyOption(enum.StrEnum):
    """Whose behaviour, where MySQL and MariaDB differ."""

    MYSQL = "mysql"
    MARIADB = "mariadb"


def _write_option(name: str) -> object:
    return typer.Option(
        f"--{name}", help="A rule of the master. Repeatable.", metavar="DB", rich_help_panel="Write side"
    )


def explain_command(
    binlogs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[BINLOGS...]",
            help="The binlog set: its index file, its directory, or the files one by one. Or --statement.",
        ),
    ] = None,
    statement: Annotated[
        str, typer.Option(help="Explain this statement instead of a binlog set.", metavar="SQL")
    ] = "",
    use: Annotated[
        str, typer.Option(help="The statement's current database; none when not given.", metavar="DB")
    ] = "",
    events: Annotated[
        bool, typer.Option("--events", help="One line an event instead of one a table or statement.")
    ] = False,
    top: Annotated[int, typer.Option(help="How many to list, the largest first.", min=1)] = 50,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON; with --events one object a line.")
    ] = False,
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
    family: Annotated[
        FamilyOption | None,
        typer.Option(help="Whose behaviour for --statement (mysql when not given); a binlog says itself."),
    ] = None,
    server_version: Annotated[
        str,
        typer.Option(
            help="Which version of MariaDB for --statement: from 11.5 on accents in table names count.",
            metavar="VERSION",
        ),
    ] = "",
    binlog_do_db: Annotated[list[str] | None, _write_option("binlog-do-db")] = None,
    binlog_ignore_db: Annotated[list[str] | None, _write_option("binlog-ignore-db")] = None,
    binlog_filter_semantics: Annotated[
        WriteSide,
        typer.Option(help="Statements without a current database.", rich_help_panel="Write side"),
    ] = WriteSide.SERVER,
    verify_checksum: Annotated[bool, typer.Option(help="Verify the events' checksums.")] = True,
) -> None:
    """Say what a filter does with a binlog set, or with one statement, and which rule decides.

    Examples:

        dumpfilter explain /var/lib/mysql/binlog.index --replicate-do-db=shop

        dumpfilter explain /var/lib/mysql/binlog.index --replicate-wild-ignore-table='shop.tmp%' --events

        dumpfilter explain --replicate-do-table=shop.orders \\
            --statement "UPDATE orders SET total = 1" --use shop
    """
    # imported here so that `dumpfilter --help` and the other commands do not wait for it
    import json as json_module

    from rich.console import Console

    from dumpfilter.binlog.format import Family, NameRules, name_collation_of
    from dumpfilter.errors import OptionError
    from dumpfilter.explain import output
    from dumpfilter.explain.explanation import Filters, explain_events, explain_set, explain_statement
    from dumpfilter.filter import (
        EffectiveRuleKind,
        FilterSemantics,
        RuleKind,
        WriteRuleKind,
        WriteSemantics,
    )
    from dumpfilter.filter.factory import FilterOptions
    from dumpfilter.filter.rules import make_rules
    from dumpfilter.index.fileset import BinlogSet

    if bool(binlogs) == bool(statement.strip()):
        raise OptionError("name a binlog set or a statement (--statement), one of the two")
    if statement and events:
        raise OptionError("--events goes with a binlog set")
    if not statement and use:
        raise OptionError("--use goes with --statement; a binlog has the current databases itself")
    if binlog_filter_semantics is WriteSide.EFFECTIVE:
        raise OptionError(
            "effective semantics: the binlog's rules are --binlog-do and --binlog-ignore of dumpfilter master"
        )
    for option, told in (("--family", family), ("--server-version", server_version)):
        if told and not statement:
            raise OptionError(f"{option} goes with --statement; a binlog says itself who wrote it")

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
        WriteRuleKind.DO_DB: binlog_do_db,
        WriteRuleKind.IGNORE_DB: binlog_ignore_db,
    }
    rules = make_rules(given)

    options = FilterOptions(
        rules=tuple(rule for rule in rules if not isinstance(rule.kind, WriteRuleKind)),
        semantics=FilterSemantics(filter_semantics.value),
        write_rules=tuple(rule for rule in rules if isinstance(rule.kind, WriteRuleKind)),
        write_semantics=WriteSemantics(binlog_filter_semantics.value),
        lower_case_table_names=lower_case_table_names,
    )

    console = Console(highlight=False)
    if statement:
        whose: Family = "mariadb" if family is FamilyOption.MARIADB else "mysql"
        ours = Filters.of(options, NameRules(whose, name_collation_of(whose, server_version)))
        explained = explain_statement(statement, ours, current_database=use or None)
        if json:
            typer.echo(json_module.dumps(output.statement_as_dict(explained, ours), indent=1))
        else:
            output.print_statement(explained, ours, console)
        return
    assert binlogs is not None
    source = BinlogSet.open(binlogs[0] if len(binlogs) == 1 else list(binlogs))
    with source.file(source.names[-1]) as newest:
        ours = Filters.of(options, newest.format_description.names)
    if events:
        found = explain_events(source, ours, verify=verify_checksum)
        if json:
            for event in found:
                typer.echo(json_module.dumps(output.event_as_dict(event, ours)))
        else:
            output.print_events(found, ours, console)
        return
    whole = explain_set(source, ours, verify=verify_checksum)
    if json:
        typer.echo(json_module.dumps(output.set_as_dict(whole, ours), indent=1))
    else:
        output.print_set(whole, ours, console, top=top)

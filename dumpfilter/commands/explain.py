"""The command ``dumpfilter explain``, which shows what a filter does with events or a statement, and by which rule."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from dumpfilter.commands.option_groups.inputs import OptionalBinlogArguments, VerifyChecksum
from dumpfilter.commands.option_groups.rules import SlaveFilterOptions
from dumpfilter.commands.option_groups.write_rules import WriteRuleOptions
from dumpfilter.errors import OptionError


def explain_command(
    binlogs: OptionalBinlogArguments,
    rules: SlaveFilterOptions,
    write_rules: WriteRuleOptions,
    statement: Annotated[
        str, typer.Option(help="Explain this statement instead of a binlog set.", metavar="SQL")
    ] = "",
    use: Annotated[
        str, typer.Option(help="The statement's current database. Without it none.", metavar="DB")
    ] = "",
    events: Annotated[
        bool, typer.Option("--events", help="Print one line for each event, not for each table or statement.")
    ] = False,
    top: Annotated[int, typer.Option(help="How many to list, the largest first.", min=1)] = 50,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON; with --events one object a line.")
    ] = False,
    family: Annotated[
        Literal["mysql", "mariadb"] | None,
        typer.Option(help="The server of --statement (without it mysql). A binlog names its server itself."),
    ] = None,
    server_version: Annotated[
        str,
        typer.Option(
            help="The version of MariaDB for --statement: from 11.5 on accents in table names count.",
            metavar="VERSION",
        ),
    ] = "",
    verify_checksum: VerifyChecksum = True,
) -> None:
    r"""Say what a filter does with a binlog set, or with one statement, and which rule decides.

    Examples:

        dumpfilter explain /var/lib/mysql/binlog.index --replicate-do-db=shop

        dumpfilter explain /var/lib/mysql/binlog.index \
            --replicate-wild-ignore-table='shop.tmp%' --events

        dumpfilter explain --replicate-do-table=shop.orders \
            --statement "UPDATE orders SET total = 1" --use shop
    """
    from rich.console import Console

    from dumpfilter.binlog.format import NameRules, name_collation_of
    from dumpfilter.explain import output
    from dumpfilter.explain.explanation import Filters, explain_events, explain_set, explain_statement
    from dumpfilter.filter.factory import FilterOptions
    from dumpfilter.filter.rules import make_rules
    from dumpfilter.index.fileset import BinlogSet
    from dumpfilter.lint.output import print_briefly
    from dumpfilter.report.terminal import print_json

    if bool(binlogs.binlogs) == bool(statement.strip()):
        raise OptionError("name a binlog set or a statement (--statement), one of the two")
    if statement and events:
        raise OptionError("--events goes with a binlog set")
    if not statement and use:
        raise OptionError("--use goes with --statement; a binlog has the current databases itself")
    for name, value in (("--family", family), ("--server-version", server_version)):
        if value and not statement:
            raise OptionError(f"{name} goes with --statement; a binlog says itself who wrote it")

    options = FilterOptions(
        rules=tuple(make_rules(rules.values)),
        semantics=rules.semantics,
        write_rules=tuple(make_rules(write_rules.values)),
        write_semantics=write_rules.semantics,
        lower_case_table_names=rules.lower_case_table_names,
    )
    console = Console(highlight=False)
    if statement:
        server = family or "mysql"
        filters = Filters.of(options, NameRules(server, name_collation_of(server, server_version)))
        explained = explain_statement(statement, filters, current_database=use or None)
        if json:
            print_json(output.statement_as_dict(explained, filters))
        else:
            output.print_statement(explained, filters, console)
        return
    source = BinlogSet.open(binlogs.source())
    with source.file(source.names[-1]) as newest:
        written_by = newest.format_description
    filters = Filters.of(options, written_by.names)
    if not events:
        whole = explain_set(source, filters, verify=verify_checksum)
        if json:
            print_json(output.set_as_dict(whole, filters))
        else:
            output.print_set(whole, filters, console, top=top)
            print_briefly(whole.warnings, Console(stderr=True))
        return
    found = explain_events(source, filters, verify=verify_checksum)
    if json:
        for event in found:
            print_json(output.event_as_dict(event, filters), indent=None)
    else:
        output.print_events(found, filters, console)

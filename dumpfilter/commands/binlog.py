"""The command ``dumpfilter binlog``, which prints a binlog set as text or writes a filtered copy of it."""

from __future__ import annotations

import sys

from dumpfilter.commands.option_groups.binlog_filter import BinlogFilterOptions
from dumpfilter.commands.option_groups.binlog_output import BinlogOutputOptions
from dumpfilter.commands.option_groups.binlog_rows import BinlogRowOptions
from dumpfilter.commands.option_groups.inputs import BinlogArguments, VerifyChecksum
from dumpfilter.commands.option_groups.selection import SelectionOptions


def binlog_command(
    binlogs: BinlogArguments,
    rules: BinlogFilterOptions,
    selection: SelectionOptions,
    output: BinlogOutputOptions,
    rows: BinlogRowOptions,
    verify_checksum: VerifyChecksum = True,
) -> None:
    r"""Print what passes a filter as text to run again, as mysqlbinlog does, or write it as a binlog set.

    Examples:

        dumpfilter binlog /var/lib/mysql/binlog.index --do-db=shop \
            | mysql --binary-mode

        dumpfilter binlog binlog.000007 binlog.000008 --start-position=4711 \
            --stop-datetime='2026-11-21 13:00:00' --ignore-statement-kind=drop-table

        dumpfilter binlog binlog.000007 -vv --base64-output=decode-rows \
            --do-table=shop.orders | less

        dumpfilter binlog /var/lib/mysql --clever --do-table=shop.orders \
            --raw --output orders
    """
    from rich.console import Console

    from dumpfilter.filter.factory import FilterOptions
    from dumpfilter.filter.rules import make_rules
    from dumpfilter.index.fileset import BinlogSet
    from dumpfilter.printing.print_set import BinlogOptions, print_binlog, rules_of, write_binlog

    output.check()
    rows.check(raw=output.raw)
    options = BinlogOptions(
        filter=FilterOptions(
            rules=tuple(rules_of(rules.values, rules.worklog_values)),
            write_rules=tuple(make_rules(rules.write_values)),
            only_kinds=tuple(rules.statement_kinds),
            ignored_kinds=tuple(rules.ignored_statement_kinds),
            clever=rules.clever,
            lower_case_table_names=rules.lower_case_table_names,
        ),
        start_position=selection.start_position,
        stop_position=selection.stop_position,
        start_datetime=selection.start_datetime,
        stop_datetime=selection.stop_datetime,
        include_gtids=selection.include_gtids,
        exclude_gtids=selection.exclude_gtids,
        skip_gtids=output.skip_gtids,
        may_fail=output.may_fail,
        verbosity=rows.verbose,
        row_events=rows.row_events,
        local_load=output.local_load,
        verify=verify_checksum,
    )
    files = BinlogSet.open(binlogs.source())
    log = Console(stderr=True)
    if output.output is not None:
        write_binlog(
            files,
            options,
            output.output,
            log,
            base=output.base_name,
            overwrite=output.overwrite,
            tables_info=output.binlog_with_tables_info,
        )
        return
    print_binlog(files, options, sys.stdout.buffer, log)

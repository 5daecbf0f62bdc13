"""The command ``dumpfilter binlog``, which prints a binlog set as text or writes a filtered copy of it."""

from __future__ import annotations

import sys

from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.commands.option_groups.binlog_filter import BinlogFilterOptions
from dumpfilter.commands.option_groups.binlog_output import BinlogOutputOptions, BinlogRowOptions
from dumpfilter.commands.option_groups.inputs import BinlogArguments, VerifyOptions


class SelectionOptions(Settings, panel="Selection"):
    """The positions, times and GTIDs between which a command reads a binlog set. An empty text sets no limit.

    The values are not parsed here, because their syntax depends on whether MySQL or MariaDB wrote the binlog.
    """

    start_position: str = setting("", metavar="BYTES|GTIDS")
    """Begin in the first file at this place, where a transaction begins; of MariaDB also after these GTIDs."""
    stop_position: str = setting("", metavar="BYTES|GTIDS")
    """Stop in the last file before the transaction at this place; of MariaDB also: up to these GTIDs."""
    start_datetime: str = setting("", metavar="DATETIME")
    """Begin with the first transaction at or after this local time."""
    stop_datetime: str = setting("", metavar="DATETIME")
    """Stop before the first transaction at or after this local time."""
    include_gtids: str = setting("", metavar="GTIDS")
    """Only transactions with these GTIDs."""
    exclude_gtids: str = setting("", metavar="GTIDS")
    """No transactions with these GTIDs."""


def binlog_command(
    binlogs: BinlogArguments,
    rules: BinlogFilterOptions,
    selection: SelectionOptions,
    output: BinlogOutputOptions,
    rows: BinlogRowOptions,
    read: VerifyOptions,
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

    from dumpfilter.analyse.printing.print_set import BinlogOptions, print_binlog, write_binlog
    from dumpfilter.index.fileset import BinlogSet

    output.check()
    rows.check(raw=output.raw)
    options = BinlogOptions(
        filter=rules.filter_options(),
        **selection.model_dump(),
        skip_gtids=output.skip_gtids,
        may_fail=output.may_fail,
        target_has=output.target_objects(),
        verbosity=rows.verbose,
        row_events=rows.row_events,
        local_load=output.local_load,
        verify=read.verify_checksum,
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

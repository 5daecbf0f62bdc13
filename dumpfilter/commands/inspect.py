"""The command ``dumpfilter inspect``, which shows what a binlog set consists of."""

from __future__ import annotations

from dumpfilter.analyse.report.measures import Division
from dumpfilter.base.options.settings import setting
from dumpfilter.commands import option_groups as shared


class InspectSettings(shared.JsonOption):
    """The options that only ``dumpfilter inspect`` has, such as the number of listed tables, figures over time, and
    JSON output.
    """

    top: int = setting(10, min=1)
    """How many tables, transactions and statements to list, the largest first."""
    over_time: Division | None = setting(None, show_default=False)
    """Also show the bytes of each schema or table in periods of time."""
    period: int | None = setting(None, min=1, show_default=False)
    """Seconds of a period of --over-time. Without it there are at most 32 periods."""


def inspect_command(
    binlogs: shared.BinlogArguments, given: InspectSettings, read: shared.VerifyOptions
) -> None:
    """Show what is in a binlog set: tables, compression, largest transactions, rates.

    Compressed transactions are opened: each table has the bytes without compression, and its share of the compressed
    bytes. Large transactions and statements have file, position and GTID.

    Examples:

        dumpfilter inspect /var/lib/mysql/binlog.index --top 5

        dumpfilter inspect binlog.index --over-time table --period 3600

        dumpfilter inspect 'mysql://repl@db1:3306/?from=newest'
    """
    from rich.console import Console

    from dumpfilter.analyse.by_heading import OverTimeOptions
    from dumpfilter.analyse.inspection import inspect_set, render_inspection
    from dumpfilter.analyse.report.terminal import output_console

    if given.over_time is None:
        given.refuse(["period"], "needs --over-time: write --over-time schema, or --over-time table")
    found = inspect_set(
        binlogs.open(),
        verify=read.verify_checksum,
        progress=Console(stderr=True),
        top=given.top,
        over_time=None if given.over_time is None else OverTimeOptions(given.over_time, given.period),
    )
    given.show(found.as_dict(), lambda: render_inspection(found, output_console(), top=given.top))

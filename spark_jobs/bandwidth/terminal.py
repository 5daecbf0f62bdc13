"""The results of a bandwidth job as tables for the terminal, at most 80 columns wide for names of usual length."""

from __future__ import annotations

from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dumpfilter.printable import visible
from dumpfilter.report.text import human_bytes, human_gigabytes, human_percent, share
from dumpfilter.spark_jobs.bandwidth.results import Month, Results, Ways
from dumpfilter.spark_jobs.bandwidth.totals import MONTH_HOURS, ways_of
from dumpfilter.spark_jobs.ranges.indexing import skipped_part

_NAME_WIDTH = 7

_MOST_WARNINGS = 4
"""The most warnings that the terminal shows. The page and the JSON file have all."""


def print_results(results: Results, console: Console) -> None:
    """Print a row for each slave and one for all, the same for a month, and the remarks."""
    source = results.source
    traffic = _table(
        f"{len(source.files):,} files, {source.bytes:,} bytes, {source.transactions:,} transactions",
        ("no filter", "filter", "saved", "~ zstd", "~ both", "split", "replica"),
    )
    for slave in results.slaves:
        replica = "no GTIDs" if slave.real_replica is None else human_bytes(slave.real_replica.bytes)
        traffic.add_row(visible(slave.name), *_cells(ways_of(slave), slave.split), replica)
    totals = results.totals
    if totals.slaves > 1:
        traffic.add_section()
        replica = "no GTIDs" if totals.real_replica is None else human_bytes(totals.real_replica)
        traffic.add_row(f"all {totals.slaves:,}", *_cells(totals.bytes, totals.split), replica)
    console.print(traffic)
    if totals.month is not None:
        console.print(_month_table(results, totals.month))
    for remark in results.remarks:
        console.print(remark, markup=False, highlight=False)


def print_warnings(results: Results, console: Console) -> None:
    """Print the files that were skipped and the first warnings, one after the other, in lines of the terminal's width.

    The text is not wrapped for a pipe.
    """
    skipped = [f"{one.file}: skipped {skipped_part(one.position)}: {one.reason}" for one in results.skipped]
    shown = list(dict.fromkeys(results.warnings))
    for warning in (*skipped, *shown[:_MOST_WARNINGS]):
        text = Text.assemble(("warning:", "yellow"), " ", visible(warning))
        console.print(text, soft_wrap=not console.is_terminal, highlight=False)
    if len(shown) > _MOST_WARNINGS:
        more = Text(
            f"… and {len(shown) - _MOST_WARNINGS:,} more in the results (dumpfilter lint shows warnings about filters "
            "with their events)"
        )
        console.print(more, soft_wrap=not console.is_terminal, highlight=False)


def _cells(ways: Ways, split: int) -> Iterable[str]:
    saved = human_percent(share(ways.no_filter - ways.filter, ways.no_filter))
    return (
        human_bytes(ways.no_filter),
        human_bytes(ways.filter),
        saved,
        human_bytes(ways.compression),
        human_bytes(ways.both),
        human_bytes(split),
    )


def _month_table(results: Results, total: Month) -> Table:
    price = results.price_per_gb
    title = f"GB a month of {MONTH_HOURS} hours" + (
        "" if price is None else f", and the price at {price:g} a GB"
    )
    table = _table(title, ("no filter", "filter", "~ zstd", "~ both"))
    for slave in results.slaves:
        if slave.month is not None:
            table.add_row(visible(slave.name), *_month_cells(slave.month))
    if results.totals.slaves > 1:
        table.add_section()
        table.add_row(f"all {results.totals.slaves:,}", *_month_cells(total))
    return table


def _month_cells(month: Month) -> Iterable[str]:
    for name in Ways.model_fields:
        amount = human_gigabytes(getattr(month.bytes, name))
        yield amount if month.price is None else f"{amount} = {getattr(month.price, name):,.2f}"


def _table(title: str, columns: Iterable[str]) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("slave", overflow="fold", min_width=_NAME_WIDTH)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table

"""The results of a bandwidth job as tables for the terminal. They fit into 80 columns if names have usual lengths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from dumpfilter.analyse.report.measures import Audience
from dumpfilter.analyse.report.terminal import warn
from dumpfilter.analyse.report.text import (
    MONTH_HOURS,
    human_bytes,
    human_files,
    human_gigabytes,
    human_percent,
    human_price,
    share,
)
from dumpfilter.base.printable import visible
from dumpfilter.spark_jobs.bandwidth.report.figures import Group, by_saving, groups_of
from dumpfilter.spark_jobs.bandwidth.results import Month, Results, Totals, Ways, compression_name

_NAME_WIDTH = 7
"""The minimum width of the names' column, characters."""
TOP = 20
"""The default of ``--top``: the number of rows of slaves to print."""

_GAP = 2
"""The number of spaces between columns."""

_MOST_WARNINGS = 4
"""The maximum number of warnings that the terminal shows. The page and the JSON file have all of them."""


def print_results(results: Results, console: Console, top: int = TOP) -> None:
    """Print a table of bytes with a row for each slave or group of equal slaves, and a row of sums. Then print a table
    for a month, and the remarks.

    Rows are in descending order of savings. ``top`` is the maximum number of rows of slaves.
    """
    source, totals, audience = results.source, results.totals, results.audience
    files = human_files(len(source.files))
    groups = by_saving(groups_of(results), audience)
    rows = [(_name(group), tuple(_cells(group.ways(audience)))) for group in groups[:top]]
    if totals.slaves > 1:
        rows.append((_all(totals), tuple(_cells(totals.bytes))))
    readers = "real replicas" if audience is Audience.REPLICAS else "slaves of dumpfilter"
    bound = ", at most" if audience is Audience.REPLICAS and totals.is_upper_bound else ""
    _print_table(
        f"{files}, {source.bytes:,} bytes, {source.transactions:,} transactions; bytes for {readers}{bound}",
        ("no filter", "filter", "saved", "~ zstd", "~ both"),
        rows,
        console,
    )
    if any(slave.month is not None for slave in results.slaves):
        _print_month(results, groups[:top], console)
    if len(groups) > top:
        more = f"{len(groups) - top:,} more row{'s' if len(groups) > top + 1 else ''}"
        console.print(f"… and {more} (--top {len(groups)} shows all)", highlight=False)
    remarks = [*results.remarks, f"~ is an estimate with zstd {compression_name(results)}."]
    for remark in remarks:
        console.print(remark, markup=False, highlight=False)


def print_warnings(results: Results, console: Console) -> None:
    """Print the skipped damaged files and the first four warnings. A terminal shows long warnings on several lines, and
    in a pipe each warning is one line.
    """
    shown = list(dict.fromkeys(results.warnings))
    for warning in (*map(str, results.skipped), *shown[:_MOST_WARNINGS]):
        warn(console, warning)
    if len(shown) > _MOST_WARNINGS:
        more = Text(
            f"… and {len(shown) - _MOST_WARNINGS:,} more in the results (dumpfilter lint shows warnings about filters "
            "with their events)"
        )
        console.print(more, soft_wrap=not console.is_terminal, highlight=False)


def _all(totals: Totals) -> str:
    """Return the name of the row of sums. The sums leave out slaves whose filters pass nothing."""
    if not totals.slaves_left_out:
        return f"all {totals.slaves:,}"
    return f"{totals.slaves:,} of {totals.slaves + totals.slaves_left_out:,}"


def _cells(ways: Ways) -> Iterable[str]:
    saved = human_percent(share(ways.no_filter - ways.filter, ways.no_filter))
    return (
        human_bytes(ways.no_filter),
        human_bytes(ways.filter),
        saved,
        human_bytes(ways.compression),
        human_bytes(ways.both),
    )


def _name(group: Group) -> str:
    return visible(group.name) + (f" ×{group.count:,}" if group.count > 1 else "")


def _print_month(results: Results, groups: Sequence[Group], console: Console) -> None:
    price = results.price_per_gb
    title = f"GB a month of {MONTH_HOURS} hours" + (
        "" if price is None else f" (and the price at {price:g} a GB)"
    )
    rows = [
        (_name(group), tuple(_month_cells(group.figures.month)))
        for group in groups
        if group.figures.month is not None
    ]
    total = results.totals.month
    if results.totals.slaves > 1 and total is not None:
        rows.append((_all(results.totals), tuple(_month_cells(total))))
    _print_table(title, ("no filter", "filter", "~ zstd", "~ both"), rows, console)


def _month_cells(month: Month) -> Iterable[str]:
    for name in Ways.model_fields:
        amount = human_gigabytes(getattr(month.bytes, name))
        yield amount if month.price is None else f"{amount} ({human_price(getattr(month.price, name))})"


def _print_table(
    title: str, heads: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]], console: Console
) -> None:
    """Print a table of numbers, with columns as wide as their texts.

    A name that does not fit beside the numbers is printed on its own line above them, so that nothing is cut.
    """
    widths = [max(map(cell_len, column)) for column in zip(heads, *(cells for _, cells in rows), strict=True)]
    room = max(_NAME_WIDTH, console.width - sum(widths) - _GAP * len(widths))
    names = [cell_len(name) for name, _ in rows if cell_len(name) <= room]
    first = max(_NAME_WIDTH, *names) if names else _NAME_WIDTH

    def line(name: str, cells: Sequence[str]) -> str:
        figures = (
            " " * (_GAP + width - cell_len(cell)) + cell for cell, width in zip(cells, widths, strict=True)
        )
        return name + " " * (first - cell_len(name)) + "".join(figures)

    def show(text: str, style: str = "") -> None:
        console.print(Text(text, style=style), soft_wrap=True)

    show(title, "bold")
    show(line("slave", heads), "bold")
    show("─" * cell_len(line("", heads)))
    for name, cells in rows:
        if cell_len(name) > first:
            for part in Text(name).wrap(console, console.width, overflow="fold"):
                show(part.plain.rstrip())
        show(line(name if cell_len(name) <= first else "", cells))
    show("")

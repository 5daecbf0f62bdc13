"""The rows of bars of the bandwidth report: savings by slave, and the largest tables."""

from __future__ import annotations

from itertools import accumulate

from dumpfilter.report.figures import (
    Bar,
    Bars,
    Row,
    Tick,
    byte_axis,
    exact_bytes,
    head_and_rest,
    label,
)
from dumpfilter.report.text import human_bytes, human_percent, share
from dumpfilter.spark_jobs.bandwidth.report.groups import Group, by_saving, groups_of
from dumpfilter.spark_jobs.bandwidth.results import Results, Ways

MOST_TABLES = 20
"""The largest number of database tables with a row of their own. One row shows the sum of all others."""

_WHOLE = 1.0


def savings_bars(results: Results, most: int) -> Bars | None:
    """Return the rows that compare each slave's bytes without a filter, with a filter, and with filter and compression.

    The slave with the largest saving comes first, and ``most`` is the most rows. Return None without traffic.
    """
    groups = by_saving(groups_of(results), results.audience)[:most]
    top = max((max(dict(group.ways(results.audience)).values()) for group in groups), default=0)
    if not top:
        return None
    return Bars(
        tuple(_savings_row(group, group.ways(results.audience), top) for group in groups), byte_axis(top)
    )


def _savings_row(group: Group, ways: Ways, top: int) -> Row:
    figures = group.figures
    saved = "nothing passes" if figures.nothing_passes else _less(ways.no_filter, ways.filter)
    warning = "\n".join(figures.warnings)
    tip = [
        label(group.name) + (f" (×{group.count})" if group.count > 1 else ""),
        f"no filter: {exact_bytes(ways.no_filter)}",
        f"filter on the master: {exact_bytes(ways.filter)}",
        f"… compressed: about {exact_bytes(ways.both)}",
        f"compression alone: about {exact_bytes(ways.compression)}",
        *([f"Warning: {warning}"] if warning else []),
    ]
    bars = (
        Bar(0, ways.no_filter / top, "whole", 72),
        Bar(0, ways.filter / top, "master", 44),
        Bar(0, ways.both / top, "compressed", 14),
    )
    return Row(group.name, saved, "\n".join(tip), bars, (), group.count, warning)


def tables_bars(results: Results) -> Bars | None:
    """Return the rows of the largest database tables with their cumulative part of all bytes (a Pareto chart).

    Return None if the binlogs hold no traffic.
    """
    whole = sum(table.bytes for table in results.tables)
    if not whole:
        return None
    shown, others = head_and_rest(results.tables, MOST_TABLES)
    sizes = [(table.name, table.bytes, "master") for table in shown]
    if others:
        sizes.append((f"{len(others)} others", sum(table.bytes for table in others), "whole-line"))
    rows = []
    for (name, size, colour), total in zip(sizes, accumulate(size for _, size, _ in sizes), strict=True):
        percent = human_percent(size / whole)
        tip = f"{label(name)}\n{exact_bytes(size)}, {percent}\nwith all above: {human_percent(total / whole)}"
        bars = (Bar(0, total / whole, "ghost", 66), Bar(0, size / whole, colour, 66))
        rows.append(Row(name, f"{human_bytes(size)} · {percent}", tip, bars))
    return Bars(tuple(rows), (Tick(0, "0"), Tick(0.5, "50 %"), Tick(_WHOLE, "100 %")))


def _less(before: float, after: float) -> str:
    saved = share(before - after, before)
    if saved is None:
        return ""
    if not saved:
        return "the same"
    return f"{human_percent(saved)} less" if saved > 0 else f"{human_percent(-saved)} more"

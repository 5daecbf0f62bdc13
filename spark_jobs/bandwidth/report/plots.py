"""The rows of bars of the bandwidth report: savings by slave, the largest tables, the master's cost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from dumpfilter.report.figures import (
    Bar,
    Bars,
    Mark,
    Row,
    Tick,
    byte_axis,
    exact_bytes,
    head_and_rest,
    label,
)
from dumpfilter.report.text import human_bytes, human_percent, human_seconds, share
from dumpfilter.spark_jobs.bandwidth.report.groups import by_saving, groups_of
from dumpfilter.spark_jobs.bandwidth.results import Results, SlaveFigures

MOST_GROUPS = 24
"""The largest number of slaves, or of groups of equal slaves, with a row of their own. One row shows the mean of all
others."""
MOST_TABLES = 20
"""The largest number of database tables with a row of their own. One row shows the sum of all others."""

_WHOLE = 1.0


def savings_bars(results: Results) -> Bars | None:
    """Return the rows that compare each slave's bytes without a filter, with a filter, compressed, as split binlogs,
    and for a real replica.

    The slave with the largest saving comes first. Return None if the binlogs hold no traffic.
    """
    groups = by_saving(groups_of(results))
    shown, others = head_and_rest(groups, MOST_GROUPS)
    named: list[tuple[str, int, Sequence[SlaveFigures]]] = [
        (group.name, group.count, [group.figures]) for group in shown
    ]
    if others:
        slaves = [member for group in others for member in group.members]
        named.append((f"mean of {len(slaves)} others", 1, slaves))
    ways = [_WaysOf(slaves) for _, _, slaves in named]
    top = max((way.top for way in ways), default=0)
    if not top:
        return None
    rows = tuple(
        _savings_row(name, count, way, top, slaves[0] if len(slaves) == 1 else None)
        for (name, count, slaves), way in zip(named, ways, strict=True)
    )
    return Bars(rows, byte_axis(top))


class _WaysOf:
    """The mean bytes of some slaves for each way of sending."""

    def __init__(self, slaves: Sequence[SlaveFigures]) -> None:
        def mean(sizes: Sequence[int]) -> float:
            return sum(sizes) / len(sizes)

        self.no_filter = mean([one.no_filter.bytes for one in slaves])
        self.filter = mean([one.master_side.bytes for one in slaves])
        self.compression = mean([one.compressed_no_filter for one in slaves])
        self.both = mean([one.compressed for one in slaves])
        self.split = mean([one.split for one in slaves])
        self.applied = mean([one.applied.bytes for one in slaves])
        replicas = [one.real_replica.bytes for one in slaves if one.real_replica is not None]
        self.replica = mean(replicas) if replicas else None
        """None if these binlogs cannot be filtered for real replicas."""

    @property
    def top(self) -> float:
        return max(self.no_filter, self.filter, self.split, self.replica or 0)


def _savings_row(name: str, count: int, way: _WaysOf, top: float, slave: SlaveFigures | None) -> Row:
    """Return the row of a slave, of equal slaves, or of the mean of different slaves, for which ``slave`` is None."""
    warning = "" if slave is None else "\n".join(slave.warnings)
    saved = _less(way.no_filter, way.filter)
    if slave is not None and slave.nothing_passes:
        saved = "nothing passes"
    tip = [
        label(name) + (f" (×{count})" if count > 1 else ""),
        f"no filter: {exact_bytes(way.no_filter)}",
        f"… compressed: about {exact_bytes(way.compression)}",
        f"filter on the master: {exact_bytes(way.filter)}",
        f"… compressed: about {exact_bytes(way.both)}",
        f"split binlogs: {exact_bytes(way.split)}",
        f"real replica: {'needs GTIDs' if way.replica is None else exact_bytes(way.replica)}",
        f"applied: {exact_bytes(way.applied)}",
    ]
    marks = [
        Mark(way.applied / top, "tick"),
        Mark(way.compression / top, "square"),
        Mark(way.split / top, "diamond"),
    ]
    if way.replica is not None:
        marks.append(Mark(way.replica / top, "ring"))
    bars = (
        Bar(0, way.no_filter / top, "whole", 72),
        Bar(0, way.filter / top, "master", 44),
        Bar(0, way.both / top, "compressed", 14),
    )
    if warning:
        tip.append(f"Warning: {warning}")
    return Row(name, saved, "\n".join(tip), bars, tuple(marks), count, warning)


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


def cost_bars(results: Results) -> Bars | None:
    """Return the rows of the CPU seconds that the master needs, with the slaves' filters and without filters.

    Return None if nothing was measured.
    """
    cost = results.cost
    filtered = cost.scan_seconds + cost.decide_seconds
    top = max(filtered, cost.unfiltered_seconds)
    if not top:
        return None
    scanned = cost.scan_seconds / top
    with_filters = (Bar(0, scanned, "scan", 60), Bar(scanned, filtered / top, "decide", 60))
    without = (Bar(0, cost.unfiltered_seconds / top, "copy", 60),)
    return Bars(
        (
            Row("with filters", human_seconds(filtered), "", with_filters),
            Row("without", human_seconds(cost.unfiltered_seconds), "", without),
        )
    )


def _less(before: float, after: float) -> str:
    saved = share(before - after, before)
    if saved is None:
        return ""
    if not saved:
        return "the same"
    return f"{human_percent(saved)} less" if saved > 0 else f"{human_percent(-saved)} more"

"""The plots of the bandwidth report: rows of bars, the heat map, and the chart of traffic over time.

Slaves with equal results, such as four replicas of one service, are shown together (:class:`Group`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile

import numpy as np
import numpy.typing as npt

from dumpfilter.analyse.report.html import (
    Bar,
    Bars,
    Chart,
    Json,
    Row,
    Tick,
    byte_axis,
    exact_bytes,
    head_and_rest,
    label,
)
from dumpfilter.analyse.report.measures import Audience
from dumpfilter.analyse.report.text import human_bytes, human_percent, share
from dumpfilter.base.printable import visible
from dumpfilter.spark_jobs.bandwidth.results import (
    Results,
    SlaveFigures,
    TableFigures,
    Ways,
    counted,
    ways_of,
)

_DIGITS = "0123456789"
_SAME = {"name": "", "server_id": None}
"""Replacement values for the fields in which slaves of one group may differ."""


@dataclass(frozen=True)
class Group:
    """Slaves with equal rules and equal traffic, which the report shows as one row."""

    members: tuple[SlaveFigures, ...]

    @property
    def figures(self) -> SlaveFigures:
        """The results of the first member. They are equal for all members except for name and server id."""
        return self.members[0]

    @property
    def name(self) -> str:
        """The members' names in short form. Names that differ only in numbers at their ends become, for example,
        "web-1…4".
        """
        names = [member.name for member in self.members]
        if len(names) == 1:
            return names[0]
        pairs = zip(min(names), max(names), strict=False)
        start = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)).rstrip(_DIGITS)
        ends = [name.removeprefix(start) for name in names]
        if all(set(end) <= set(_DIGITS) and end for end in ends):
            return f"{names[0]}…{ends[-1]}"
        return f"{names[0]}{', ' if len(names) == 2 else ' … '}{names[-1]}"

    @property
    def count(self) -> int:
        """The number of slaves in the group."""
        return len(self.members)

    def ways(self, audience: Audience) -> Ways:
        """Return the bytes that one slave of the group receives in four cases: without filter and compression, with one
        of them, and with both.

        ``audience`` says for whom bytes are counted: real replicas with MySQL's protocol, or dumpfilter slaves with
        gRPC.
        """
        return ways_of(self.figures, audience)

    def saved(self, audience: Audience) -> int:
        """Return the bytes of the whole binlog set that a filter on the master saves for one slave of the group,
        compared with no filter.

        A group has the slaves with equal rules and traffic. ``audience`` says whether the bytes are those of real
        replicas, which get empty transactions in place of dropped ones, or of dumpfilter slaves.
        """
        ways = self.ways(audience)
        return ways.no_filter - ways.filter


def groups_of(results: Results) -> list[Group]:
    """Return the slaves in groups with equal rules and equal traffic. The groups are in the order of their first
    slaves.
    """
    found: dict[object, list[SlaveFigures]] = {}
    for slave in results.slaves:
        key = (slave.model_copy(update=_SAME), results.series.slaves[slave.name])
        found.setdefault(key, []).append(slave)
    return [Group(tuple(members)) for members in found.values()]


def by_saving(groups: Sequence[Group], audience: Audience) -> list[Group]:
    """Sort groups of equal slaves by the bytes that one slave's filter saves, descending. Groups whose filter passes
    nothing come last, because their rules are probably misspelled.
    """
    return sorted(
        groups, key=lambda group: (group.figures.nothing_passes, -group.saved(audience), group.name)
    )


def by_traffic(groups: Sequence[Group]) -> list[Group]:
    """Sort groups of equal slaves by the bytes that one slave receives with the filter on the master, descending."""
    return sorted(groups, key=lambda group: (-group.figures.master_side.bytes, group.name))


MOST_COLUMNS = 24
"""The maximum number of slaves, or groups of equal slaves, with a column in the heat map."""
MOST_ROWS = 30
"""The maximum number of tables with their own row in the heat map."""
COLOURS = 5
"""The number of cell colours in the heat map."""
_MOST_FACTOR = 4
"""The maximum factor between the bytes of two adjacent colours. Without this limit, a few cells with hardly any
bytes would leave only the darkest colour for all others.
"""


@dataclass(frozen=True)
class Cell:
    """One cell of the heat map: the bytes of a table's events that a slave receives, as a colour and as a text for the
    tool tip.
    """

    bytes: int
    colour: int | None
    """The colour number, from 0 for few bytes. None for no bytes."""
    tip: str


@dataclass(frozen=True)
class HeatMap:
    """The heat map of the report: how many bytes of each table (row) each slave or group of equal slaves (column)
    receives through its filter.
    """

    columns: tuple[Group, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    limits: tuple[float, ...]
    """The upper limit of the bytes for each colour."""


def heat_map(results: Results) -> HeatMap | None:
    """Return the heat map that shows how many bytes of each table each slave receives with its filter on the master.

    Colours are on a logarithmic scale, because tables differ by orders of magnitude. Return None if no slave receives
    any event of a table.
    """
    groups = by_traffic(groups_of(results))[:MOST_COLUMNS]
    tables, other_tables = head_and_rest(results.tables, MOST_ROWS)
    rows: list[tuple[str, Sequence[TableFigures]]] = [(table.name, [table]) for table in tables]
    if other_tables:
        rows.append((f"{len(other_tables)} others", other_tables))
    received = [{part.table: part.bytes for part in group.figures.tables} for group in groups]
    sizes = [[sum(one.get(table.name, 0) for table in some) for one in received] for _, some in rows]
    positive = [size for line in sizes for size in line if size]
    if not positive:
        return None
    low, high = math.log(min(positive)), math.log(max(positive))
    step = min((high - low) / COLOURS or 1.0, math.log(_MOST_FACTOR))
    low = high - step * COLOURS

    def cell(row: str, column: Group, size: int) -> Cell:
        if not size:
            return Cell(0, None, f"{label(row)}\nnot sent to {label(column.name)}")
        colour = min(max(int((math.log(size) - low) / step), 0), COLOURS - 1)
        return Cell(size, colour, f"{label(row)}\nto {label(column.name)}\n{exact_bytes(size)}")

    return HeatMap(
        tuple(groups),
        tuple(
            (name, tuple(cell(name, column, size) for column, size in zip(groups, line, strict=True)))
            for (name, _), line in zip(rows, sizes, strict=True)
        ),
        tuple(math.exp(low + step * (n + 1)) for n in range(COLOURS)),
    )


MOST_TABLES = 20
"""The maximum number of tables with their own bar. One more row shows the sum of all others."""

_WHOLE = 1.0


def savings_bars(results: Results, most: int) -> Bars | None:
    """Return bars that compare each slave's bytes without a filter, with its filter, and with filter and compression.

    Groups of equal slaves have one row. The largest saving comes first. ``most`` is the maximum number of rows. Return
    None without traffic.
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
    return Row(group.name, saved, "\n".join(tip), bars, group.count, warning)


def tables_bars(results: Results) -> Bars | None:
    """Return bars for the largest tables, with their cumulative share of all bytes (a Pareto chart).

    Return None if the binlogs contain no traffic.
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


MOST_CHOICES = 200
"""The maximum number of slaves, or groups of equal slaves, in the menu of the chart over time."""
ALL = "all slaves together"
"""The name of the menu entry that is shown first."""
ALL_COUNTED = "all slaves to which something passes"
"""The name of the first menu entry if slaves whose filters pass nothing are left out."""

_NUMBERS = 160_000
"""The maximum number of values in all curves together. Each makes the page a few bytes larger."""
_LEAST_STEPS = 400
_HEIGHT = 340
_EMPTY_PART = 0.2
"""The fraction of the drawn time above which a time without traffic is cut out of the axis."""
_MOST_BREAKS = 8
_LEAST_EMPTY = 10
"""The minimum number of empty steps that are cut out of the axis."""

Ints = npt.NDArray[np.int64]


def time_chart(results: Results) -> Chart | None:
    """Return the chart of bytes per second over time. The page's reader can choose a slave, or all slaves together.

    Each step (point of the curve) shows the mean and the maximum of its time buckets, so that no peak is lost. Long
    times without traffic are cut out. Return None if there is no slave, or if no event has a timestamp.
    """
    starts = np.array(results.bucket_starts, np.int64)
    if not len(starts) or not results.slaves:
        return None
    groups = by_traffic(groups_of(results))[:MOST_CHOICES]
    groups = sorted(groups, key=lambda group: group.name) if len(groups) > 1 else []
    steps = _Steps(starts, results.bucket_seconds, max(_LEAST_STEPS, _NUMBERS // (4 + 2 * len(groups))))
    curves: list[list[float]] = []

    def line(values: Ints) -> Json:
        mean, most = steps.curve(values)
        curves.append(mean)
        made: Json = {"y": len(curves) - 1}
        if most != mean:
            curves.append(most)
            made["most"] = len(curves) - 1
        return made

    def choice(unfiltered: Json, filtered: Json, values: Sequence[Ints]) -> Json:
        is_same = np.array_equal(values[0], values[1])
        marks = [
            mark
            for column, colour in zip(
                values[: 1 if is_same else None], ("whole-line", "master"), strict=False
            )
            for mark in steps.peak(column, colour)
        ]
        return {
            "lines": [unfiltered] if is_same else [unfiltered, filtered],
            "marks": marks,
            "segments": steps.segments,
            "width": steps.width,
        }

    whole = np.array(results.series.no_filter, np.int64)
    summed = counted(results.slaves)
    together = sum(
        (np.array(results.series.slaves[slave.name], np.int64) for slave in summed),
        np.zeros(len(starts), np.int64),
    )
    everyone = whole * len(summed)
    choices = [choice(line(everyone), line(together), (everyone, together))]
    one = line(whole) if groups else {}
    for group in groups:
        own = np.array(results.series.slaves[group.figures.name], np.int64)
        choices.append(choice(one, line(own), (whole, own)))
    data = {
        "height": _HEIGHT,
        "x": {"kind": "time"},
        "y": {"kind": "rate", "unit": "bytes"},
        "lines": [
            {"name": "no filter", "colour": "whole-line", "area": "whole-area", "step": True},
            {"name": "filter on the master", "colour": "master", "area": "master-area", "step": True},
        ],
        "curves": curves,
        "choices": choices,
    }
    everybody = ALL if len(summed) == len(results.slaves) else ALL_COUNTED
    return Chart(data, _HEIGHT, (everybody, *map(_title, groups)) if groups else ())


def _title(group: Group) -> str:
    return visible(group.name) + (f" (×{group.count}, each)" if group.count > 1 else "")


class _Steps:
    """The steps (points) of the curves. Each is an interval of one or more time buckets. Long empty times are cut
    out.
    """

    def __init__(self, starts: Ints, bucket: int, most: int) -> None:
        self._starts = starts
        self._bucket = bucket
        joined = 1
        while True:
            width = bucket * joined
            places = np.unique(starts // width)
            segments = _segments(places)
            n = int((segments[:, 1] - segments[:, 0]).sum())
            if n <= most:
                break
            joined = max(joined + 1, -(-n * joined // most))
        self.width = width
        """The length of a step, seconds."""
        self.segments: list[list[int]] = (segments * width).tolist()
        """The parts of the time axis that are drawn, as pairs of start and end, Unix seconds."""
        lengths = segments[:, 1] - segments[:, 0]
        before = np.cumsum(lengths) - lengths
        step = starts // width
        of = np.searchsorted(segments[:, 0], step, side="right") - 1
        self._place: Ints = before[of] + step - segments[of, 0]
        self._n = n

    def curve(self, values: Ints) -> tuple[list[float], list[float]]:
        """Return two lists with the mean and the maximum of the time buckets in each step, bytes per second.
        ``values`` has the bytes of each bucket.
        """
        sums = np.zeros(self._n, np.int64)
        np.add.at(sums, self._place, values)
        most = np.zeros(self._n, np.int64)
        np.maximum.at(most, self._place, values)
        return _short(sums / self.width), _short(most / self._bucket)

    def peak(self, values: Ints, colour: str) -> list[Json]:
        """Return a list with the mark of the time bucket with the most bytes, as JSON. Without bytes the list is
        empty.
        """
        at = int(np.argmax(values))
        if not values[at]:
            return []
        middle = int(self._starts[at]) + self._bucket / 2
        return [{"x": middle, "y": int(values[at]) / self._bucket, "colour": colour}]


def _segments(places: Ints) -> Ints:
    """Return the parts of the time axis that the chart shows, after long times without traffic are cut out.

    The result has shape (n, 2): the numbers of each part's first step, and of the step after its last. ``places`` has
    the numbers of the steps (points of the curve) with traffic, ascending.
    """
    empty = np.diff(places) - 1
    drawn = int(places[-1] - places[0]) + 1
    breaks = []
    for at in np.argsort(-empty)[:_MOST_BREAKS].tolist():
        if empty[at] <= max(_LEAST_EMPTY, _EMPTY_PART * drawn):
            break
        drawn -= int(empty[at])
        breaks.append(at)
    after = np.array(sorted(breaks), np.int64)
    begins = places[np.concatenate([[0], after + 1]).astype(np.int64)]
    ends = places[np.concatenate([after, [len(places) - 1]]).astype(np.int64)] + 1
    return np.stack([begins, ends], axis=1)


def _short(values: npt.NDArray[np.float64]) -> list[float]:
    # Whole numbers need fewer bytes in the page.
    return [
        int(value) if value == int(value) or value >= 1000 else round(value, 1) for value in values.tolist()
    ]

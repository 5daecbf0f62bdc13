"""The bandwidth report: one self-contained HTML page with plots and tables, which needs no network.

The plots are rows of bars, the heat map of bytes by table and slave, and the chart of traffic over time. Slaves with
equal results, such as four replicas of one service, are shown together (:class:`Group`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

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
    render,
)
from dumpfilter.analyse.report.measures import Audience
from dumpfilter.analyse.report.text import GIGABYTE, human_bytes, human_percent, human_price, share
from dumpfilter.analyse.traffic.facts import Ints
from dumpfilter.base.printable import visible
from dumpfilter.spark_jobs.bandwidth.results import (
    Results,
    SlaveFigures,
    TableFigures,
    Totals,
    Ways,
    about_nothing,
    compression_name,
    counted,
    ways_of,
)

_SAME = {"name": "", "server_id": None}
"""Replacement values for the fields in which slaves of one group may differ, so that only their other fields are
compared.
"""


@dataclass(frozen=True)
class Group:
    """Slaves with equal rules and equal traffic, which the report shows as one row."""

    members: tuple[SlaveFigures, ...]
    ways: Ways
    """The bytes that one slave of the group receives, counted as for the report's kind of readers: real replicas or
    dumpfilter slaves (:attr:`Results.audience`).
    """

    @property
    def figures(self) -> SlaveFigures:
        """The results of the group's first slave. The results of the other slaves differ only in name and server id."""
        return self.members[0]

    @property
    def name(self) -> str:
        """The names of the group's slaves as one text: all names of one or two slaves, and the first and the last name
        of more.
        """
        names = [member.name for member in self.members]
        return ", ".join(names) if len(names) < 3 else f"{names[0]} … {names[-1]}"

    @property
    def count(self) -> int:
        """The number of slaves in the group."""
        return len(self.members)

    @property
    def saved(self) -> int:
        """The bytes of the whole binlog set that a filter on the master saves for one slave of the group."""
        return self.ways.no_filter - self.ways.filter


def groups_of(results: Results) -> list[Group]:
    """Return the slaves in groups with equal rules and equal traffic. The groups are in the order of their first
    slaves.
    """
    found: dict[object, list[SlaveFigures]] = {}
    for slave in results.slaves:
        key = (slave.model_copy(update=_SAME), results.series.slaves[slave.name])
        found.setdefault(key, []).append(slave)
    return [Group(tuple(members), ways_of(members[0], results.audience)) for members in found.values()]


def by_saving(results: Results) -> list[Group]:
    """Return the groups of equal slaves, sorted by the bytes that one slave's filter saves, descending. Groups whose
    filter passes nothing come last, because their rules are probably misspelled.
    """
    return sorted(
        groups_of(results), key=lambda group: (group.figures.nothing_passes, -group.saved, group.name)
    )


def by_traffic(results: Results) -> list[Group]:
    """Return the groups of equal slaves, sorted by the bytes that one slave receives with the filter on the master,
    descending.
    """
    return sorted(groups_of(results), key=lambda group: (-group.figures.master_side.bytes, group.name))


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


def heat_map(results: Results) -> Json | None:
    """Return the heat map that shows how many bytes of each table each slave receives with its filter on the master, as
    JSON for the page.

    In the result, ``columns`` are groups of equal slaves, and ``rows`` are pairs of a table's name and its cells. A
    cell has the bytes, the colour (from 0 for few bytes; None for no bytes), and the text for the tool tip. ``limits``
    has the upper limit of the bytes for each colour. Colours are on a logarithmic scale, because tables differ by
    orders of magnitude. Return None if no slave receives any event of a table.
    """
    groups = by_traffic(results)[:MOST_COLUMNS]
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

    def cell(row: str, column: Group, size: int) -> Json:
        if not size:
            return {"bytes": 0, "colour": None, "tip": f"{label(row)}\nnot sent to {label(column.name)}"}
        colour = min(max(int((math.log(size) - low) / step), 0), COLOURS - 1)
        tip = f"{label(row)}\nto {label(column.name)}\n{exact_bytes(size)}"
        return {"bytes": size, "colour": colour, "tip": tip}

    return {
        "columns": groups,
        "rows": [
            (name, [cell(name, column, size) for column, size in zip(groups, line, strict=True)])
            for (name, _), line in zip(rows, sizes, strict=True)
        ],
        "limits": [math.exp(low + step * (n + 1)) for n in range(COLOURS)],
    }


MOST_TABLES = 20
"""The maximum number of tables with their own bar. One more row shows the sum of all others."""


def savings_bars(results: Results, most: int) -> Bars | None:
    """Return bars that compare each slave's bytes without a filter, with its filter, and with filter and compression.

    Groups of equal slaves have one row. The largest saving comes first. ``most`` is the maximum number of rows. Return
    None without traffic.
    """
    groups = by_saving(results)[:most]
    top = max((max(dict(group.ways).values()) for group in groups), default=0)
    if not top:
        return None
    return Bars(tuple(_savings_row(group, top) for group in groups), byte_axis(top))


def _savings_row(group: Group, top: int) -> Row:
    figures, ways = group.figures, group.ways
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
    return Bars(tuple(rows), (Tick(0, "0"), Tick(0.5, "50 %"), Tick(1, "100 %")))


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
"""The name of the first entry, about all slaves, in the menu of the chart of traffic over time."""
ALL_COUNTED = "all slaves to which something passes"
"""The name of the first entry in the menu of the chart of traffic over time, if slaves whose filters pass nothing are
left out.
"""

_NUMBERS = 160_000
"""The maximum number of values in all curves of the chart over time together. Each makes the page a few bytes larger.
"""
_LEAST_STEPS = 400
_HEIGHT = 340
_EMPTY_PART = 0.25
"""The limit for a pause without traffic, as a fraction of all time with traffic. Longer pauses are cut out of the
chart's time axis.
"""
_MOST_BREAKS = 8
_LEAST_EMPTY = 10
"""The limit for a pause without traffic, in steps (points of the chart's curves). Only longer pauses are cut out of the
time axis.
"""


def time_chart(results: Results) -> Chart | None:
    """Return the chart of bytes per second over time. The page's reader can choose a slave, or all slaves together.

    Each step (point of the curve) shows the mean and the maximum of its time buckets, so that no peak is lost. Long
    times without traffic are cut out. Return None if there is no slave, or if no event has a timestamp.
    """
    starts = np.array(results.bucket_starts, np.int64)
    if not len(starts) or not results.slaves:
        return None
    groups = by_traffic(results)[:MOST_CHOICES]
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

    summed = counted(results.slaves)
    everyone, together = _of_all(results, summed)
    choices = [choice(line(everyone), line(together), (everyone, together))]
    unfiltered: dict[tuple[int, ...], Json] = {}
    for group in groups:
        key = results.series.unfiltered(group.figures.name)
        whole = np.array(key, np.int64)
        own = np.array(results.series.slaves[group.figures.name], np.int64)
        if key not in unfiltered:
            unfiltered[key] = line(whole)
        choices.append(choice(unfiltered[key], line(own), (whole, own)))
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
    """The time axis of the chart, divided into steps (the points of the curves). A step has one or more time buckets.
    Long times without traffic are cut out.

    ``starts`` are the beginnings of the buckets with traffic, Unix seconds, and ``bucket`` is the length of a bucket,
    seconds. ``most`` is the maximum number of steps.
    """

    def __init__(self, starts: Ints, bucket: int, most: int) -> None:
        self._starts = starts
        self._bucket = bucket
        joined, n = 0, most + 1
        while n > most:
            joined = max(joined + 1, -(-n * joined // most))
            width = bucket * joined
            segments = _segments(np.unique(starts // width))
            n = int((segments[:, 1] - segments[:, 0]).sum())
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
        """Return two lists with the mean and the maximum of the time buckets in each step of the chart, in bytes per
        second.

        ``values`` has the bytes of each time bucket.
        """
        sums = np.zeros(self._n, np.int64)
        np.add.at(sums, self._place, values)
        most = np.zeros(self._n, np.int64)
        np.maximum.at(most, self._place, values)
        return _short(sums / self.width), _short(most / self._bucket)

    def peak(self, values: Ints, colour: str) -> list[Json]:
        """Return a list with the mark for the busiest time bucket as JSON, which the chart draws in the given
        ``colour``. Without bytes the list is empty.

        ``values`` has the bytes of each time bucket.
        """
        at = int(np.argmax(values))
        if not values[at]:
            return []
        middle = int(self._starts[at]) + self._bucket / 2
        return [{"x": middle, "y": int(values[at]) / self._bucket, "colour": colour}]


def _segments(places: Ints) -> Ints:
    """Return the parts of the time axis that the chart shows, after long times without traffic are cut out.

    The axis is divided into numbered steps, the points of the curves. ``places`` has the numbers of the steps with
    traffic, ascending. The result has shape (n, 2): the numbers of each part's first step, and of the step after its
    last.
    """
    empty = np.diff(places) - 1
    largest = np.sort(np.argsort(-empty)[:_MOST_BREAKS])
    after = largest[empty[largest] > max(_LEAST_EMPTY, _EMPTY_PART * len(places))]
    begins = places[np.concatenate([[0], after + 1]).astype(np.int64)]
    ends = places[np.concatenate([after, [len(places) - 1]]).astype(np.int64)] + 1
    return np.stack([begins, ends], axis=1)


def _short(values: npt.NDArray[np.float64]) -> list[float]:
    # Whole numbers need fewer bytes in the page.
    return [
        int(value) if value == int(value) or value >= 1000 else round(value, 1) for value in values.tolist()
    ]


MOST_LINES = 2000
"""The maximum number of rows of a table on the page. The job's JSON and Parquet files have all rows."""

_MOST_NAMES = 6
"""The maximum number of schemas or tables with a column in the tables of bytes over time."""

_USUAL_PRICE = 0.09
"""The price of a gigabyte that the page initially shows if the user gave none."""


def render_report(results: Results) -> str:
    """Return the bandwidth report as the text of an HTML page, which the caller must write as UTF-8.

    A browser can open the page from ``file://`` without a network. The page supports light and dark colour schemes,
    paper, and screens from 400 pixels wide.
    """
    groups = by_saving(results)
    rules, zero = _rules(results)
    nothing_passes = about_nothing(results.slaves)
    return render(
        __package__,
        "report.html.j2",
        {"gigabytes": _gigabytes, "price": human_price},
        {"time": time_chart(results)},
        results=results,
        nothing_passes=nothing_passes,
        remarks=[remark for remark in results.remarks if remark not in nothing_passes],
        ways=_ways(results),
        other_ways=_other_ways(results),
        ways_of=partial(ways_of, audience=results.audience),
        compression=compression_name(results),
        usual_price=_USUAL_PRICE,
        peaks=_peaks(results),
        slaves=[member for group in groups for member in group.members],
        who=_who(results.totals),
        groups=len(groups),
        tables=_tables(results),
        rules=rules,
        zero=zero,
        savings=savings_bars(results, MOST_LINES),
        table_bars=tables_bars(results),
        most_names=_MOST_NAMES,
        heat=heat_map(results),
        most_lines=MOST_LINES,
        most_choices=MOST_CHOICES,
        most_columns=MOST_COLUMNS,
        most_rows=MOST_ROWS,
    )


def _who(totals: Totals) -> str:
    """Return words for the slaves that the page's sums include, such as "all 5 slaves together". The page inserts them
    after the word "of".
    """
    if totals.slaves_left_out:
        several = totals.slaves != 1
        return f"the {totals.slaves:,} slave{'s' if several else ''} to which something passes"
    return "the slave" if totals.slaves == 1 else f"all {totals.slaves:,} slaves together"


def _way(
    name: str, note: str, nbytes: int, whole: int, colour: str, mark: str = "", month: float | None = None
) -> Json:
    """Return one row of a comparison of ways to send the binlog, as JSON for the page.

    Parameters:
        name, note: the name of the way, and an explanation below it.
        nbytes: the bytes that are sent in this way.
        whole: the bytes without filter and compression, for the same readers.
        colour: the name of the colour of the row's bar.
        mark: the sign before the bytes: ≈ for an estimate, ≤ for an upper bound.
        month: the gigabytes that are sent in this way in a month. None: the row shows none.
    """
    row = {"name": name, "note": note, "bytes": nbytes, "whole": whole, "colour": colour, "mark": mark}
    return row | {"gigabytes_a_month": month}


def _ways(results: Results) -> list[Json]:
    """Return four rows of the page's comparison of ways to send the binlog: whole, with a filter on the master, with
    compression, and with both. A row is JSON with the name of the way, its bytes, and its gigabytes a month
    (:func:`_way`).
    """
    totals, zstd = results.totals, f"zstd {compression_name(results)}"
    is_bound = results.audience is Audience.REPLICAS and totals.is_upper_bound
    ways = {
        "no_filter": ("Neither", "the master sends the whole binlog", "whole-line", ""),
        "filter": (
            "Filter on the master",
            "only the events that the filter passes",
            "master",
            "≤ " if is_bound else "",
        ),
        "compression": ("Compression alone", f"the whole binlog, {zstd}", "whole-line", "≈ "),
        "both": ("Filter and compression", f"the filtered stream, {zstd}", "compressed", "≈ "),
    }
    sizes = dict(totals.bytes)
    months = {} if totals.month is None else {key: n / GIGABYTE for key, n in totals.month.bytes}
    return [
        _way(name, note, sizes[key], sizes["no_filter"], colour, mark, months.get(key))
        for key, (name, note, colour, mark) in ways.items()
    ]


def _gigabytes(number: float) -> str:
    return f"{number:,.4g}" if number < 1000 else f"{number:,.0f}"


def _other_ways(results: Results) -> list[Json]:
    """Return further rows of the page's comparison of ways to send the binlog. A row is JSON with the name of the way
    and its bytes (:func:`_way`).

    The first is a filter on the master for the other kind of readers: real replicas, or slaves of dumpfilter. The other
    rows have no filter on the master: filters on the slaves, and a split by schema.
    """
    totals, slaves = results.totals, counted(results.slaves)
    whole = totals.of_slaves.no_filter
    applied = human_bytes(sum(one.master_side.bytes for one in slaves))
    ways = []
    if results.audience is Audience.REPLICAS:
        name, note = "Filter on the master, dumpfilter's slaves", "over gRPC, without stand-ins"
        ways.append(_way(name, note, totals.of_slaves.filter, whole, "master"))
    elif (replicas := totals.of_replicas) is not None:
        most, mark = ("at most ", "≤ ") if totals.is_upper_bound else ("", "")
        note = f"in MySQL's protocol, {most}{human_bytes(totals.stand_in_bytes)} of stand-ins for GTIDs"
        name = "Filter on the master, real replicas"
        ways.append(_way(name, note, replicas.filter, replicas.no_filter, "replica", mark))
    note = f"the whole binlog; the slaves apply {applied}"
    ways.append(_way("Filter on the slave", note, whole, whole, "whole-line"))
    note = "whole binlogs of the schemas that the slave needs"
    ways.append(_way("Split binlogs", note, totals.split, whole, "split"))
    return ways


def _peaks(results: Results) -> tuple[float, float] | None:
    """Return two rates in bytes per second, for all slaves together: in the busiest time bucket without filters, and in
    the busiest one with filters.

    Slaves whose filters pass nothing are left out. Return None if no slave is left, or if no event has a timestamp.
    """
    slaves = counted(results.slaves)
    if not results.bucket_starts or not slaves:
        return None
    unfiltered, filtered = _of_all(results, slaves).max(axis=1).tolist()
    return unfiltered / results.bucket_seconds, filtered / results.bucket_seconds


def _of_all(results: Results, slaves: Sequence[SlaveFigures]) -> Ints:
    """Return the bytes that the ``slaves`` together receive in each time bucket: a row without their filters, and a row
    with them.
    """
    found = np.zeros((2, len(results.bucket_starts)), np.int64)
    for slave in slaves:
        found += (results.series.unfiltered(slave.name), results.series.slaves[slave.name])
    return found


def _tables(results: Results) -> list[Json]:
    """Return a row of the page's list of tables for each table in the binlogs, as JSON. A row has the table's figures,
    the number of slaves that receive any event of the table, and the sum of the bytes of these events over all slaves.
    """
    sent: dict[str, list[int]] = {}
    for slave in results.slaves:
        for part in slave.tables:
            sent.setdefault(part.table, []).append(part.bytes)
    received = [(table, sent.get(table.name, [])) for table in results.tables]
    return [{"figures": table, "slaves": len(sizes), "sent": sum(sizes)} for table, sizes in received]


def _rules(results: Results) -> tuple[list[Json], float]:
    """Return two values: the rows of the page's list of rules, in descending order of savings, and the position of 0 in
    their bars. Rules of filters that pass nothing come last.

    Positions are fractions of a bar's width, also those of the start and the end of a rule's bar. A rule that admits
    events has a negative saving, whose bar is left of 0.
    """
    found = [(group, rule) for group in groups_of(results) for rule in group.figures.rule_savings]
    # The savings of a misspelled rule that drops everything are no gain, and come last.
    found.sort(key=lambda pair: (pair[0].figures.nothing_passes, -pair[1].saving, pair[0].name, pair[1].rule))
    savings = [0, *(rule.saving for _, rule in found)]
    low, width = min(savings), max(savings) - min(savings) or 1
    rules = []
    for group, rule in found:
        start, end = ((limit - low) / width for limit in sorted((0, rule.saving)))
        rules.append({"group": group, "saving": rule, "start": start, "end": end})
    return rules, -low / width


__all__ = ["render_report"]

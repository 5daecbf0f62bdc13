"""The plots of the bandwidth report, as JSON figures that the library plotly.js draws in the browser."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dumpfilter.report.figures import (
    DATES,
    NARROW,
    WIDE,
    Json,
    Plot,
    bars_of_rows,
    bytes_axis,
    exact_bytes,
    head_and_rest,
    hover_texts,
    label,
    layout_of_plot,
    name_axis,
    plain_axis,
    rows_plot,
    seconds_axis,
    side_of_mark,
)
from dumpfilter.report.text import human_bytes, human_percent, human_rate, human_seconds, share
from dumpfilter.spark_jobs.bandwidth.results import Peak, Results, SlaveFigures, TableFigures

MOST_SLAVES = 20
"""The largest number of slaves with a separate bar in a plot. One bar shows the sum of all other slaves."""
MOST_TABLES = 20
"""The largest number of database tables with a separate bar in a plot. One bar shows the sum of all other tables."""
MOST_COLUMNS = 24
"""The largest number of slaves with a separate column in the heat map of slaves and database tables."""
MOST_ROWS = 30
"""The largest number of database tables with a separate row in the heat map of slaves and tables."""
MOST_CHOICES = 200
"""The largest number of slaves whose traffic curve a reader can choose. Each curve makes the page larger."""
MOST_POINTS = 400
"""The largest number of points of a curve. With more time buckets, several buckets make one point."""

_WIDTHS = [
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10800,
    21600,
    43200,
    86400,
    604800,
    30 * 86400,
    365 * 86400,
]


@dataclass(frozen=True)
class TimePlot:
    """The plot of traffic over time. A reader chooses a slave from a list, and the plot shows this slave's curves."""

    plot: Plot
    choices: list[Json]
    """The changes to the plot's ``data`` and ``layout`` for each entry of the list. The first entry is the sum of all
    slaves, and the slaves of :attr:`names` follow."""
    names: list[str]
    """The names of the slaves that a reader can choose, at most MOST_CHOICES with the most traffic. Empty with only one
    slave."""
    width: int
    """The length of time that one step of the curve shows, seconds."""


def savings_plot(results: Results) -> Plot | None:
    """Return the plot that compares each slave's bytes without a filter, with a filter, compressed, as split binlogs,
    and for a real replica.

    The slave with the largest saving comes first. Return None if the binlogs hold no traffic.
    """
    slaves = sorted(results.slaves, key=lambda s: (s.master_side.bytes - s.no_filter.bytes, s.name))
    if not sum(slave.no_filter.bytes for slave in slaves):
        return None
    shown, others = head_and_rest(slaves, MOST_SLAVES)
    ways: list[Callable[[SlaveFigures], int]] = [
        lambda s: s.no_filter.bytes,
        lambda s: s.master_side.bytes,
        lambda s: s.compressed,
        lambda s: s.split,
        lambda s: s.applied.bytes,
    ]
    names = [slave.name for slave in shown]
    columns = [[float(way(slave)) for slave in shown] for way in ways]
    if others:
        names.append(f"mean of {len(others)} others")
        for column, way in zip(columns, ways, strict=True):
            column.append(sum(map(way, others)) / len(others))
    whole, master, compressed, split, applied = columns
    replica = [_for_replica([slave]) for slave in shown] + ([_for_replica(others)] if others else [])
    hover = [
        f"<b>{label(name, 60)}</b><br>no filter: {exact_bytes(whole[i])}<br>split binlogs: {exact_bytes(split[i])}"
        f"<br>filter on the master: {exact_bytes(master[i])}<br>… compressed: about {exact_bytes(compressed[i])}"
        f"<br>real replica: {'needs GTIDs' if (size := replica[i]) is None else exact_bytes(size)}"
        f"<br>applied: {exact_bytes(applied[i])}"
        for i, name in enumerate(names)
    ]
    rows = list(range(len(names)))
    saved = [_less(a, b) for a, b in zip(whole, master, strict=True)]

    def bars(values: list[float], thickness: float, colour: str, **more: Any) -> Json:
        return bars_of_rows(rows, values, thickness, colour, hover, **more)

    def marks(values: Sequence[float | None], symbol: str, size: int, colour: str, **more: Any) -> Json:
        line = {"width": 2, "color": colour}
        marker = {"symbol": symbol, "size": size, "color": "var(--card)", "line": line}
        return {
            "type": "scatter",
            "mode": "markers",
            "x": values,
            "y": rows,
            "marker": marker,
            **hover_texts(hover),
            **more,
        }

    data = [
        bars(whole, 0.72, "var(--whole)"),
        bars(master, 0.44, "var(--master)"),
        bars(compressed, 0.14, "var(--compressed)"),
        marks(applied, "line-ns", 20, "var(--applied)", yaxis="y2"),
        marks(split, "diamond", 9, "var(--split)"),
        marks(replica, "circle", 8, "var(--replica)"),
    ]
    top = max(*map(max, columns), *(size for size in replica if size is not None))
    return rows_plot(data, (names, saved, saved), (bytes_axis(top), bytes_axis(top, most=3)), room=36)


def _for_replica(slaves: Sequence[SlaveFigures]) -> float | None:
    """Return the mean bytes that real replicas receive, or None if these binlogs cannot be filtered for them."""
    sizes = [slave.real_replica.bytes for slave in slaves if slave.real_replica is not None]
    return sum(sizes) / len(sizes) if sizes else None


def time_plot(results: Results) -> TimePlot | None:
    """Return the plot of bytes a second over time, with and without the slaves' filters on the master.

    Return None if there is no slave, or if no event has a time.
    """
    starts = np.array(results.bucket_starts, np.int64)
    if not len(starts) or not results.slaves:
        return None
    width = step_width(int(starts[-1] - starts[0]) + results.bucket_seconds, results.bucket_seconds)
    first = int(starts[0]) // width
    place = starts // width - first

    def curve(values: npt.NDArray[np.int64]) -> list[float]:
        sums = np.zeros(int(place[-1]) + 1, np.int64)
        np.add.at(sums, place, values)
        rates = np.round(sums / width, 1).tolist()
        # A step curve ends at its last point. The last rate is given twice, so that the last step has a width.
        return [*rates, rates[-1]]

    def peak_of(values: npt.NDArray[np.int64]) -> Peak | None:
        at = int(np.argmax(values))
        size = int(values[at])
        return (
            Peak(start=int(starts[at]), bytes=size, bytes_per_second=size / results.bucket_seconds)
            if size
            else None
        )

    whole = np.array(results.series.no_filter, np.int64)
    each = {slave.name: np.array(results.series.slaves[slave.name], np.int64) for slave in results.slaves}
    together = sum(each.values(), np.zeros(len(starts), np.int64))
    begin, end = first * width, (first + int(place[-1]) + 1) * width

    def choice(
        unfiltered: npt.NDArray[np.int64], filtered: npt.NDArray[np.int64], peaks: Sequence[Peak | None]
    ) -> Json:
        curves = [curve(unfiltered), curve(filtered)]
        marked = [
            (peak, colour) for peak, colour in zip(peaks, ("whole-line", "master"), strict=True) if peak
        ]
        top = max([*curves[0], *curves[1], *(peak.bytes_per_second for peak, _ in marked)])
        times = [peak.start + results.bucket_seconds // 2 for peak, _ in marked]
        points = {
            "x": [time * 1000 for time in times],
            "y": [peak.bytes_per_second for peak, _ in marked],
            "text": [f"peak {human_rate(peak.bytes_per_second)}" for peak, _ in marked],
            "textposition": [side_of_mark((time - begin) / (end - begin)) for time in times],
            "marker": {"color": [f"var(--{colour})" for _, colour in marked]},
        }
        return {
            "data": [{"y": curves[0]}, {"y": curves[1]}, points],
            "layout": {"yaxis": {**bytes_axis(top * 1.12, suffix="/s"), "automargin": True}},
        }

    heaviest = sorted(results.slaves, key=lambda s: (-s.master_side.bytes, s.name))[:MOST_CHOICES]
    slaves = sorted(heaviest, key=lambda s: s.name) if len(heaviest) > 1 else []
    totals = (whole * len(results.slaves), together)
    choices = [choice(*totals, [peak_of(values) for values in totals])]
    choices += [choice(whole, each[s.name], [s.peak_no_filter, s.peak]) for s in slaves]

    def area(name: str, line: str, fill: str) -> Json:
        shape = {"shape": "hv", "width": 1.5, "color": f"var(--{line})"}
        axis = {"x0": begin * 1000, "dx": width * 1000}
        hover = f"{name}: %{{text}}<extra></extra>"
        look = {"line": shape, "fill": "tozeroy", "fillcolor": f"var(--{fill})", "hovertemplate": hover}
        return {"type": "scatter", "mode": "lines", **axis, **look}

    peaks = {
        "type": "scatter",
        "mode": "markers+text",
        "marker": {"size": 9, "line": {"width": 2, "color": "var(--card)"}},
        "textfont": {
            "color": "var(--text)",
            "size": 12,
            "shadow": "0 0 3px var(--card), 0 0 3px var(--card)",
        },
        "cliponaxis": False,
        "hoverinfo": "skip",
    }
    layout = layout_of_plot()
    layout["margin"] = {"l": 8, "r": 16, "t": 24, "b": 8}
    layout["hovermode"] = "x unified"
    dates = {
        "type": "date",
        "tickformatstops": DATES,
        "hoverformat": "%Y-%m-%d %H:%M:%S UTC",
        "showgrid": False,
    }
    layout["xaxis"] = {**plain_axis(), **dates, "range": [begin * 1000, end * 1000], "nticks": 8}
    narrow = {"xaxis": {"nticks": 4}}
    data = [
        area("no filter", "whole-line", "whole-area"),
        area("filter on the master", "master", "master-area"),
        peaks,
    ]
    figure = {"data": data, "layout": layout, "narrow": narrow, "rates": True}
    return TimePlot(Plot(figure, height=340), choices, [slave.name for slave in slaves], width)


def tables_plot(results: Results) -> Plot | None:
    """Return the plot of the largest database tables with their cumulative part of all bytes (a Pareto chart).

    Return None if the binlogs hold no traffic.
    """
    whole = sum(table.bytes for table in results.tables)
    if not whole:
        return None
    shown, others = head_and_rest(results.tables, MOST_TABLES)
    names = [table.name for table in shown]
    sizes = [table.bytes for table in shown]
    if others:
        names.append(f"{len(others)} others")
        sizes.append(sum(table.bytes for table in others))
    so_far = np.cumsum(sizes).tolist()
    hover = [
        f"<b>{label(name, 60)}</b><br>{exact_bytes(size)}, {human_percent(size / whole)}"
        f"<br>with all above: {human_percent(total / whole)}"
        for name, size, total in zip(names, sizes, so_far, strict=True)
    ]
    rows = list(range(len(names)))
    colours = ["var(--master)"] * len(shown) + ["var(--whole-line)"] * bool(others)
    data = [
        bars_of_rows(rows, [total / whole for total in so_far], 0.66, "var(--ghost)", hover),
        {**bars_of_rows(rows, [size / whole for size in sizes], 0.66, colours, hover), "yaxis": "y2"},
    ]
    axis = {**plain_axis(), "range": [0, 1.005], "tickvals": [0, 0.5, 1], "ticktext": ["0", "50 %", "100 %"]}
    percents = [human_percent(size / whole) for size in sizes]
    texts = [f"{human_bytes(size)} · {text}" for size, text in zip(sizes, percents, strict=True)]
    return rows_plot(data, (names, texts, percents), (axis, axis), room=27)


def heat_map(results: Results) -> Plot | None:
    """Return the heat map of the bytes that each slave receives of each database table, with filters on the master.

    The scale of colours is logarithmic. Return None if no slave receives any event of a table.
    """
    slaves, other_slaves = head_and_rest(
        sorted(results.slaves, key=lambda s: (-s.master_side.bytes, s.name)), MOST_COLUMNS
    )
    tables, other_tables = head_and_rest(results.tables, MOST_ROWS)
    of_slave = {slave.name: {part.table: part.bytes for part in slave.tables} for slave in results.slaves}

    def cell(some_slaves: Iterable[SlaveFigures], some_tables: Sequence[TableFigures]) -> float:
        sums = [sum(of_slave[slave.name].get(t.name, 0) for t in some_tables) for slave in some_slaves]
        return sum(sums) / len(sums)

    columns = [[slave] for slave in slaves] + [other_slaves] * bool(other_slaves)
    rows = [[table] for table in tables] + [other_tables] * bool(other_tables)
    column_names = [s.name for s in slaves] + [f"mean of {len(other_slaves)} others"] * bool(other_slaves)
    row_names = [t.name for t in tables] + [f"{len(other_tables)} others"] * bool(other_tables)
    cells = [[cell(column, row) for column in columns] for row in rows]
    sizes = [size for line in cells for size in line if size]
    if not sizes:
        return None
    hover = [
        [
            f"<b>{label(r, 60)}</b><br>to {label(c, 60)}<br>{exact_bytes(size)}"
            for c, size in zip(column_names, line, strict=True)
        ]
        for r, line in zip(row_names, cells, strict=True)
    ]
    low, high = math.log(min(sizes)), math.log(max(sizes))
    data = {
        "type": "heatmap",
        "z": [[math.log(size) if size else None for size in line] for line in cells],
        "zmin": low,
        "zmax": high if high > low else low + 1,
        "text": hover,
        "hoverinfo": "text",
        "hoverongaps": False,
        "showscale": False,
        "colorscale": [[step / 4, f"var(--heat-{step})"] for step in range(5)],
        "xgap": 2,
        "ygap": 2,
    }
    layout = layout_of_plot()
    upright = {"side": "top", "tickangle": -60 if len(columns) > 1 else 0, "showgrid": False}
    columns_axis = {**name_axis(column_names, 18), **upright, "range": [-0.5, len(columns) - 0.5]}
    rows_axis = {**name_axis(row_names, WIDE), "showgrid": False}
    layout |= {"xaxis": columns_axis, "yaxis": rows_axis, "plot_bgcolor": "var(--none)"}
    small = {"tickfont": {"size": 11}}
    narrow: Json = {
        "yaxis": {"ticktext": [label(name, NARROW) for name in row_names], **small},
        "xaxis": small,
    }
    if len(columns) > 1:
        narrow["xaxis"] = {"tickangle": -90, **small}
    figure = {"data": [data], "layout": layout, "narrow": narrow}
    height = 24 * len(rows) + (120 if len(columns) > 1 else 40)
    return Plot(
        figure, height, min_width=110 + 16 * len(columns), max_width=max(420, 320 + 70 * len(columns))
    )


def heat_limits(plot: Plot) -> tuple[float, float, float]:
    """Return the numbers of bytes that the first, middle and last colour of the heat map stand for."""
    data = plot.figure["data"][0]
    return math.exp(data["zmin"]), math.exp((data["zmin"] + data["zmax"]) / 2), math.exp(data["zmax"])


def cost_plot(results: Results) -> Plot:
    """Return the plot of the CPU seconds that the master needs, with the slaves' filters and without filters."""
    cost = results.cost
    parts = [
        ("scan", "reading and indexing, once", [cost.scan_seconds, 0.0]),
        ("decide", "deciding and copying, for all slaves", [cost.decide_seconds, 0.0]),
        ("copy", "copying, for all slaves", [0.0, cost.unfiltered_seconds]),
    ]
    data = [
        {
            **bars_of_rows(
                [0, 1], values, 0.6, f"var(--{colour})", [f"{text}: {human_seconds(v)}" for v in values]
            ),
            "yaxis": "y2" if colour == "copy" else "y",
        }
        for colour, text, values in parts
    ]
    data[1]["base"] = [cost.scan_seconds, 0.0]
    sums = [cost.scan_seconds + cost.decide_seconds, cost.unfiltered_seconds]
    texts = [human_seconds(value) for value in sums]
    axes = (seconds_axis(max(sums), 5), seconds_axis(max(sums), 2))
    return rows_plot(data, (["with filters", "without"], texts, texts), axes, room=40)


def step_width(seconds: int, bucket: int) -> int:
    """Return the seconds that one step of a curve shows, so that ``seconds`` make at most MOST_POINTS steps.

    The result is a multiple of ``bucket``, the length of a time bucket. If possible it is a round number.

    >>> step_width(30 * 3600, 60), step_width(1, 1), step_width(30 * 86400, 3600), step_width(86400, 7)
    (300, 1, 7200, 217)
    """
    least = bucket * max(1, math.ceil(seconds / bucket / MOST_POINTS))
    round_ones = (width for width in _WIDTHS if width % bucket == 0 and least <= width <= 3 * least)
    return least if least == bucket else next(round_ones, least)


def _less(before: float, after: float) -> str:
    saved = share(before - after, before)
    if not saved:
        return "±0" if saved == 0 else ""
    return f"−{human_percent(saved)}" if saved > 0 else f"+{human_percent(-saved)}"

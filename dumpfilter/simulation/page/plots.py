"""The plots of the results page: lag over time, traffic over time, and lag against the link's rate."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dumpfilter.analyse.report.html import Chart, Json
from dumpfilter.analyse.report.text import human_rate_of_bits
from dumpfilter.base.printable import visible
from dumpfilter.simulation.page.view import Look, look_of, nodes_by_name, worst_nodes
from dumpfilter.simulation.results import LagFigures, LinkFigures, Results, Run, Variant
from dumpfilter.simulation.terminal import microseconds

MOST_CHOICES = 24
"""The maximum number of nodes or links in a chart's menu."""
LEAST_LAG = 0.001
"""The lower end of the logarithmic lag axis, seconds. Smaller lags are drawn there."""
_SECOND = 1_000_000
"""The number of microseconds in a second."""
_BITS = 8
"""The number of bits in a byte."""
_LAG_AXIS = {"kind": "duration", "unit": "seconds", "log": True}


@dataclass(frozen=True)
class ChoicePlot:
    """A chart with a menu, in which the user chooses the node or link to show. ``looks`` has the colours and dashes of
    the lines for the legend.
    """

    chart: Chart
    looks: list[Look]


def lag_plot(results: Results) -> ChoicePlot | None:
    """Return the plot of each node's lag over time, or None if no node was ever behind.

    There is one line for each variant, which is a way to bring the binlog to the slaves, such as filtered on the
    master.
    """
    runs = _with_own_links(results)
    looks = _looks(runs)
    choices: dict[str, Json] = {}
    for node in worst_nodes(runs, MOST_CHOICES):
        for load in sorted({run.setting.load for run in runs}):
            found = {look_of(run): run for run in runs if run.setting.load == load}
            if any(any(run.series.lag.get(node, ())) for run in found.values()):
                lines = [_lag_line(found.get(look), node) for look in looks]
                name = node if load == 1 else f"{node}, load × {load:g}"
                choices[name] = {"lines": lines, "segments": _span(lines), "level": _limit(results)}
    lines = [_line(look) for look in _drawn(looks)]
    return _plot(_drawn(looks), lines, choices, height=360, x={"kind": "duration"}, y=_LAG_AXIS)


def rate_plot(results: Results) -> ChoicePlot | None:
    """Return the plot of each link's traffic over time, with the link's bit rate as a horizontal line.

    None: no link carried anything.
    """
    found = {
        look_of(run): run
        for run in _with_own_links(results)
        if run.setting.load == 1 and run.setting.variant in (Variant.NONE, Variant.MASTER)
    }
    links: dict[str, LinkFigures] = {}
    for run in found.values():
        for link in run.links:
            if link.name in run.series.carried:
                links.setdefault(link.name, link)
    choices: dict[str, Json] = {}
    for name, link in sorted(links.items(), key=lambda each: -each[1].bytes)[:MOST_CHOICES]:
        lines = [
            _rate_line(run.series.width, values.get(name, ()))
            for run in found.values()
            for values in (run.series.offered, run.series.carried)
        ]
        if any(any(line["y"]) for line in lines):
            choices[name] = {"lines": lines, "segments": _span(lines)}
            if link.rate is not None:
                text = f"the link's rate, {human_rate_of_bits(link.rate)}"
                choices[name]["level"] = {"value": link.rate / _BITS, "text": text}
    looks = _drawn(list(found))
    shown: list[Json] = []
    for look in looks:
        offered = {"name": f"{look.name}, committed", "area": look.area, "width": 0}
        carried = {"name": f"{look.name}, on the link"}
        shown += [{**_line(look), "step": True, **offered}, {**_line(look), "step": True, **carried}]
    y = {"kind": "rate", "unit": "bits"}
    return _plot(looks, shown, choices, height=340, x={"kind": "duration"}, y=y)


def frontier_plot(results: Results) -> ChoicePlot | None:
    """Return the plot of each node's lag against the bit rate of the links, from runs with different rates.

    None: the runs have fewer than two rates.
    """
    runs = [(run.setting.rate, run) for run in results.runs if run.setting.rate is not None]
    runs.sort(key=lambda each: each[0])
    rates = list(dict.fromkeys(rate for rate, _ in runs))
    if len(rates) < 2:
        return None
    loads = sorted({run.setting.load for _, run in runs})
    delays = sorted({run.setting.delay for _, run in runs}, key=lambda delay: -1 if delay is None else delay)
    looks = _looks([run for run in results.runs if run.setting.rate is not None])
    figures = [(rate, run, nodes_by_name(run)) for rate, run in runs]
    choices: dict[str, Json] = {}
    for node in worst_nodes([run for _, run in runs], MOST_CHOICES):
        for load, delay in itertools.product(loads, delays):
            points = [
                (look_of(run), rate, nodes[node].lag)
                for rate, run, nodes in figures
                if node in nodes and (run.setting.load, run.setting.delay) == (load, delay)
            ]
            parts = [node]
            parts += [f"load × {load:g}"] * (len(loads) > 1)
            parts += [f"delay {microseconds(delay)}"] * (len(delays) > 1)
            choices[", ".join(parts)] = {
                "lines": [
                    _frontier_line([(rate, lag) for of, rate, lag in points if of == look]) for look in looks
                ],
                "level": _limit(results),
            }
    shown = [{**_line(look), "points": True} for look in _drawn(looks)]
    return _plot(
        looks, shown, choices, height=360, x={"kind": "bits", "log": True, "ticks": rates}, y=_LAG_AXIS
    )


def _with_own_links(results: Results) -> list[Run]:
    """Return the first run of each variant and load with the topology's own rates and delays."""
    return [
        run
        for run in results.runs
        if run.setting.rate is None and run.setting.delay is None and run.repetition == 1
    ]


def _looks(runs: Sequence[Run]) -> list[Look]:
    return list(dict.fromkeys(map(look_of, runs)))


def _lag_line(run: Run | None, node: str) -> Json:
    lags = run.series.lag.get(node, ()) if run is not None else ()
    if run is None or not lags:
        return {"x0": 0, "dx": 1, "y": []}
    dx = run.series.width / _SECOND
    return {"x0": dx / 2, "dx": dx, "y": [max(round(lag / _SECOND, 4), LEAST_LAG) for lag in lags]}


def _rate_line(width: int, values: Sequence[int]) -> Json:
    dx = width / _SECOND
    rates = [round(value / dx) for value in values]
    while rates and not rates[-1]:
        rates.pop()
    return {"x0": 0, "dx": dx, "y": rates}


def _span(lines: Sequence[Json]) -> list[list[float]]:
    """Return the range of the x axis, from 0 to the longest line's end in seconds, as one pair in a list."""
    return [[0, max((line["dx"] * len(line["y"]) for line in lines), default=0) or 1]]


def _frontier_line(points: Sequence[tuple[int, LagFigures]]) -> Json:
    return {
        "x": [rate for rate, _ in points],
        "y": [round(max(lag.worst / _SECOND, LEAST_LAG), 4) for _, lag in points],
        "notes": [
            f"p50 {microseconds(lag.p50)}, p99 {microseconds(lag.p99)}, worst {microseconds(lag.worst)}"
            for _, lag in points
        ],
    }


def _drawn(looks: Sequence[Look]) -> list[Look]:
    """Return the line styles for drawing. If some styles are for measured runs, those for simulated runs become
    dotted.
    """
    if not any(look.is_measured for look in looks):
        return list(looks)
    return [look if look.is_measured else replace(look, dash="dot") for look in looks]


def _line(look: Look) -> Json:
    return {"name": look.name, "colour": look.colour, "dash": look.dash}


def _limit(results: Results) -> Json:
    """Return the horizontal line at the lag limit, as JSON for the chart."""
    return {"value": max(results.limit / _SECOND, LEAST_LAG), "text": f"limit {microseconds(results.limit)}"}


def _plot(
    looks: list[Look], lines: list[Json], choices: Mapping[str, Json], *, height: int, x: Json, y: Json
) -> ChoicePlot | None:
    """Return a plot with ``choices``, a chart's lines and axes by the name of the menu entry. None: there are no
    choices.
    """
    if not choices:
        return None
    data = {"height": height, "x": x, "y": y, "lines": lines, "choices": list(choices.values())}
    return ChoicePlot(Chart(data, height, tuple(map(visible, choices))), looks)

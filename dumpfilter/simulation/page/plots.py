"""The plots of the results page: lag over time, traffic over time, and lag against the link's rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dumpfilter.analyse.report.figures import Chart, Json
from dumpfilter.analyse.report.text import human_rate_of_bits
from dumpfilter.base.printable import visible
from dumpfilter.simulation.page.view import Look, look_of, nodes_by_name, worst_nodes
from dumpfilter.simulation.results import LinkFigures, NodeFigures, Results, Run, Variant
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
    """A chart with a menu of nodes or links, and the line styles (colour, dash) for its legend."""

    chart: Chart
    looks: list[Look]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes or links in the menu."""
        return self.chart.names

    @property
    def choices(self) -> list[Json]:
        """The lines and axes of the chart for each entry of the menu, as JSON."""
        found: list[Json] = self.chart.data["choices"]
        return found


def lag_plot(results: Results) -> ChoicePlot | None:
    """Return the plot of each node's lag over time, with one line for each variant. None: no run has a series."""
    runs = list(_runs_with_series(results))
    looks = _looks(runs)
    choices: dict[str, Json] = {}
    level = _limit(results)
    for node in _most_behind(runs):
        for load in sorted({run.setting.load for run in runs}):
            found = {look_of(run): run for run in runs if run.setting.load == load}
            if not any(any(run.series.lag.get(node, ())) for run in found.values() if run.series):
                continue
            lines = [_lag_line(found.get(look), node) for look in looks]
            name = node if load == 1 else f"{node}, load × {load:g}"
            choices[name] = {"lines": lines, "segments": _span(lines), "level": level}
    lines = [_line(look) for look in _drawn(looks)]
    return _plot(_drawn(looks), lines, choices, height=360, x={"kind": "duration"}, y=_LAG_AXIS)


def rate_plot(results: Results) -> ChoicePlot | None:
    """Return the plot of each link's traffic over time, with the link's rate as a level. None: no run has a series."""
    runs = [
        run
        for run in _runs_with_series(results)
        if run.setting.load == 1 and run.setting.variant in (Variant.NONE, Variant.MASTER)
    ]
    looks = _looks(runs)
    found = {look_of(run): run for run in runs}
    choices: dict[str, Json] = {}
    for link in _busiest(runs):
        lines = [
            _rate_line(found[look], values) for look in looks for values in _of_link(found[look], link.name)
        ]
        if not any(any(line["y"]) for line in lines):
            continue
        choice: Json = {"lines": lines, "segments": _span(lines)}
        if link.rate is not None:
            text = f"the link's rate, {human_rate_of_bits(link.rate)}"
            choice["level"] = {"value": link.rate / _BITS, "text": text}
        choices[link.name] = choice
    shown: list[Json] = []
    for look in _drawn(looks):
        offered = {"name": f"{look.name}, committed", "area": look.area, "width": 0}
        carried = {"name": f"{look.name}, on the link"}
        shown += [{**_line(look), "step": True, **offered}, {**_line(look), "step": True, **carried}]
    y = {"kind": "rate", "unit": "bits"}
    return _plot(_drawn(looks), shown, choices, height=340, x={"kind": "duration"}, y=y)


def frontier_plot(results: Results) -> ChoicePlot | None:
    """Return the plot of each node's lag against the rate of its link. None: the runs have fewer than two rates."""
    runs = [run for run in results.runs if run.setting.rate is not None]
    rates = sorted({run.setting.rate for run in runs if run.setting.rate is not None})
    if len(rates) < 2:
        return None
    loads = sorted({run.setting.load for run in runs})
    delays = sorted({run.setting.delay for run in runs}, key=lambda delay: -1 if delay is None else delay)
    looks = _looks(runs)
    figures = {id(run): nodes_by_name(run) for run in runs}
    level = _limit(results)
    choices: dict[str, Json] = {}
    for node in worst_nodes(runs, MOST_CHOICES):
        for load in loads:
            for delay in delays:
                of_case = [run for run in runs if (run.setting.load, run.setting.delay) == (load, delay)]
                lines = [_frontier_line(of_case, look, node, figures) for look in looks]
                parts = [node]
                parts += [f"load × {load:g}"] * (len(loads) > 1)
                parts += [f"delay {microseconds(delay)}"] * (len(delays) > 1)
                choices[", ".join(parts)] = {"lines": lines, "level": level}
    shown = [{**_line(look), "points": True} for look in _drawn(looks)]
    return _plot(
        looks, shown, choices, height=360, x={"kind": "bits", "log": True, "ticks": rates}, y=_LAG_AXIS
    )


def _runs_with_series(results: Results) -> Iterable[Run]:
    for run in results.runs:
        setting = run.setting
        if run.series is not None and setting.rate is None and setting.delay is None and run.repetition == 1:
            yield run


def _looks(runs: Sequence[Run]) -> list[Look]:
    return list(dict.fromkeys(look_of(run) for run in runs))


def _most_behind(runs: Sequence[Run]) -> list[str]:
    return [
        name
        for name in worst_nodes(runs, MOST_CHOICES)
        if any(run.series and name in run.series.lag for run in runs)
    ]


def _busiest(runs: Sequence[Run]) -> list[LinkFigures]:
    found: dict[str, LinkFigures] = {}
    for run in runs:
        for link in run.links:
            if run.series and link.name in run.series.carried:
                found.setdefault(link.name, link)
    return sorted(found.values(), key=lambda link: -link.bytes)[:MOST_CHOICES]


def _lag_line(run: Run | None, node: str) -> Json:
    series = run.series if run is not None else None
    lags = series.lag.get(node, ()) if series is not None else ()
    if series is None or not lags:
        return {"x0": 0, "dx": 1, "y": []}
    dx = series.width / _SECOND
    values = [max(round(lag / _SECOND, 4), LEAST_LAG) for lag in lags]
    return {"x0": dx / 2, "dx": dx, "y": values}


def _of_link(run: Run, name: str) -> tuple[Sequence[int], Sequence[int]]:
    assert run.series is not None
    return run.series.offered.get(name, ()), run.series.carried.get(name, ())


def _rate_line(run: Run, values: Sequence[int]) -> Json:
    assert run.series is not None
    dx = run.series.width / _SECOND
    rates = [round(value / dx) for value in values]
    while rates and not rates[-1]:
        rates.pop()
    return {"x0": 0, "dx": dx, "y": rates}


def _span(lines: Sequence[Json]) -> list[list[float]]:
    """Return the range of the x axis, from 0 to the longest line's end in seconds, as one pair in a list."""
    return [[0, max((line["dx"] * len(line["y"]) for line in lines), default=0) or 1]]


def _frontier_line(
    runs: Sequence[Run], look: Look, node: str, figures: Mapping[int, Mapping[str, NodeFigures]]
) -> Json:
    points = []
    for run in runs:
        found = figures[id(run)].get(node)
        if look_of(run) == look and found is not None and run.setting.rate is not None:
            lag = found.lag
            text = (
                f"p50 {microseconds(lag.p50)}, p99 {microseconds(lag.p99)}, worst {microseconds(lag.worst)}"
            )
            points.append((run.setting.rate, max(lag.worst / _SECOND, LEAST_LAG), text))
    points.sort()
    return {
        "x": [point[0] for point in points],
        "y": [round(point[1], 4) for point in points],
        "notes": [point[2] for point in points],
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

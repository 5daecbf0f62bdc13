"""The HTML page of a simulation of replication or of an experiment (a run of real processes): its plots, and the rows
of its tables.

The plots show lag over time, traffic over time, and lag against the link's rate. There is one line style for each
variant, which is a way to bring the binlog to the slaves, such as filtered on the master.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from dumpfilter.analyse.report.html import Chart, Json, render
from dumpfilter.analyse.report.text import (
    GIGABYTE,
    MONTH_HOURS,
    bytes_of_month,
    human_rate_of_bits,
    remark_on_month,
)
from dumpfilter.base.printable import visible
from dumpfilter.simulation.results import (
    LinkFigures,
    Method,
    NodeFigures,
    Results,
    Run,
    Variant,
    microseconds,
    title_of,
    value_of,
)

_SECOND = 1_000_000
"""The number of microseconds in a second."""


class Look(NamedTuple):
    """The line style of a variant (a way to bring the binlog to the slaves) in all plots. ``colour`` and ``area`` are
    the names, without dashes before them, of the CSS properties that have the colours.
    """

    name: str
    colour: str
    area: str
    dash: str
    is_measured: bool = False


_LOOKS = {
    Variant.NONE: Look("no filter", "whole-line", "whole-area", "solid"),
    Variant.SLAVE: Look("filter on the slave", "applied", "whole-area", "dot"),
    Variant.MASTER: Look("filter on the master", "master", "master-area", "solid"),
    Variant.REPLICA: Look("real replicas, filter on the master", "replica", "master-area", "dot"),
    Variant.PLAIN: Look("real replicas, no dumpfilter", "replica", "whole-area", "dash"),
}


def look_of(run: Run) -> Look:
    """Return the line style of a run in all plots.

    The style depends on the run's variant (the way to bring the binlog to the slaves), and on whether the run was
    measured or simulated. A measured run has a solid line and its own colour.
    """
    name, colour, area, *_ = look = _LOOKS[run.setting.variant]
    if run.method is Method.MEASURED:
        return Look(f"{name}, measured", f"{colour}-measured", area, "solid", True)
    return look


_Figures = TypeVar("_Figures", NodeFigures, LinkFigures)


def by_name(figures: Iterable[_Figures]) -> dict[str, _Figures]:
    """Return a run's figures about each node or link (such as its bytes) by its name. Figures that hold for several
    equal nodes or links stand under the name of each.
    """
    return {name: one for one in figures for name in (one.members or (one.name,))}


def worst_nodes(runs: Sequence[Run]) -> list[str]:
    """Return the names of the nodes with the greatest lag in any of the runs, in descending order of lag. There are at
    most :data:`MOST_CHOICES` names.
    """
    worst: dict[str, int] = {}
    for node in itertools.chain.from_iterable(run.whole_nodes for run in runs):
        worst[node.name] = max(worst.get(node.name, 0), node.lag.worst)
    return sorted(worst, key=lambda name: (-worst[name], name))[:MOST_CHOICES]


class Way(NamedTuple):
    """One row of the page's summary, about one variant: the bytes of all links and the lag of all nodes.

    A variant is a way to bring the binlog to the slaves, such as filtered on the master. The lag is in microseconds.
    """

    look: Look
    bytes: int
    gigabytes_a_month: float | None
    """The projected traffic of a month, GB. None: the binlog is too short for a projection."""
    worst: int
    p99: int
    above: int
    """The longest time that the lag of any node was above the limit, microseconds."""


def ways(results: Results) -> list[Way]:
    """Return a row of the page's summary for each variant (way to bring the binlog to the slaves, such as filtered on
    the master). A variant that was both measured and simulated has a row for each.

    Only the first run with the topology's own links and the binlog's own pace of commits counts. Runs of a sweep over
    other rates, delays or loads are left out.
    """
    found: dict[Look, Way] = {}
    for run in _with_own_links(results):
        if run.setting.load == 1 and run.whole_nodes:
            total = sum(link.bytes * link.count for link in run.links)
            month = bytes_of_month(total, results.active_seconds)
            found[look_of(run)] = Way(
                look_of(run),
                total,
                None if month is None else month / GIGABYTE,
                *(
                    max(getattr(node.lag, name) for node in run.whole_nodes)
                    for name in ("worst", "p99", "above")
                ),
            )
    return list(found.values())


MOST_CHOICES = 24
"""The maximum number of nodes or links in a chart's menu."""
LEAST_LAG = 0.001
"""The lower end of the logarithmic lag axis, seconds. Smaller lags are drawn there."""
_BITS = 8
"""The number of bits in a byte."""
_LAG_AXIS = {"kind": "duration", "unit": "seconds", "log": True}


class ChoicePlot(NamedTuple):
    """A chart with a menu, in which the user chooses the node or link to show. ``looks`` has the colours and dashes of
    the lines, for the legend.
    """

    chart: Chart
    looks: list[Look]


def lag_plot(results: Results) -> ChoicePlot | None:
    """Return the plot of lag over time, with a menu of nodes, or None if no node was ever behind. Only the
    :data:`MOST_CHOICES` nodes with the greatest lag are in the menu, once for each load (factor of the pace of
    commits).

    A node has one line for each variant, which is a way to bring the binlog to the slaves, such as filtered on the
    master. Runs with changed rates or delays of links are left out.
    """
    runs = _with_own_links(results)
    looks = _looks(runs)
    # A series has the name of a group's first node, and a node may be the first one in some variants only.
    lags = {
        (name, run.setting.load, look_of(run)): (run.series.width, run.series.lag.get(node.name, ()))
        for run in runs
        for name, node in by_name(run.whole_nodes).items()
    }
    choices: dict[str, Json] = {}
    for node, load in itertools.product(worst_nodes(runs), sorted({run.setting.load for run in runs})):
        found = [lags.get((node, load, look), (_SECOND, ())) for look in looks]
        if any(any(values) for _, values in found):
            lines = list(itertools.starmap(_lag_line, found))
            name = node if load == 1 else f"{node}, load × {load:g}"
            choices[name] = {"lines": lines, "segments": _span(lines), "level": _limit(results)}
    drawn = _drawn(looks)
    return _plot(drawn, list(map(_line, drawn)), choices, height=360, x={"kind": "duration"}, y=_LAG_AXIS)


def rate_plot(results: Results) -> ChoicePlot | None:
    """Return the plot of traffic over time, with a menu of links and the chosen link's bit rate as a horizontal line.
    Only the :data:`MOST_CHOICES` links with the most bytes are in the menu.

    A link has two lines without a filter and two with the filter on the master: the bytes that are committed, and the
    bytes that leave over the link. None: no link had any traffic.
    """
    found = {
        look_of(run): run
        for run in _with_own_links(results)
        if run.setting.load == 1 and run.setting.variant in (Variant.NONE, Variant.MASTER)
    }
    named_links = [(run, by_name(run.links)) for run in found.values()]
    links: dict[str, LinkFigures] = {}
    for run in found.values():
        for link in run.links:
            if link.name in run.series.carried:
                links.setdefault(link.name, link)
    choices: dict[str, Json] = {}
    for name, link in sorted(links.items(), key=lambda each: -each[1].bytes)[:MOST_CHOICES]:
        lines = [
            _rate_line(run.series.width, values.get(named[name].name, ()))
            for run, named in named_links
            for values in (run.series.offered, run.series.carried)
        ]
        if any(any(line["y"]) for line in lines):
            choices[name] = {"lines": lines, "segments": _span(lines)}
            if link.rate is not None:
                text = f"the link's rate, {human_rate_of_bits(link.rate)}"
                choices[name]["level"] = {"value": link.rate / _BITS, "text": text}
    looks = _drawn(found)
    shown: list[Json] = []
    for look in looks:
        offered = {"name": f"{look.name}, committed", "area": look.area, "width": 0}
        shown += [
            _line(look) | {"step": True} | changed
            for changed in (offered, {"name": f"{look.name}, on the link"})
        ]
    y = {"kind": "rate", "unit": "bits"}
    return _plot(looks, shown, choices, height=340, x={"kind": "duration"}, y=y)


def frontier_plot(results: Results) -> ChoicePlot | None:
    """Return the plot of a node's greatest lag against the bit rate of the links, from runs with different rates, with
    a menu of nodes. Only the :data:`MOST_CHOICES` nodes with the greatest lag are in the menu, once for each load
    (factor of the pace of commits) and delay.

    None: the runs have fewer than two rates.
    """
    runs = [run for run in results.runs if run.setting.rate is not None]
    looks = _looks(runs)
    runs.sort(key=lambda run: run.setting.rate or 0)
    rates = list(dict.fromkeys(run.setting.rate for run in runs))
    if len(rates) < 2:
        return None
    loads = sorted({run.setting.load for run in runs})
    delays = sorted({run.setting.delay for run in runs}, key=lambda delay: -1 if delay is None else delay)
    figures = [(run, by_name(run.whole_nodes)) for run in runs]
    choices: dict[str, Json] = {}
    for node, load, delay in itertools.product(worst_nodes(runs), loads, delays):
        points: dict[Look, list[tuple[int | None, NodeFigures]]] = {look: [] for look in looks}
        for run, nodes in figures:
            if node in nodes and (run.setting.load, run.setting.delay) == (load, delay):
                points[look_of(run)].append((run.setting.rate, nodes[node]))
        parts = [node]
        parts += [f"load × {load:g}"] * (len(loads) > 1)
        parts += [f"delay {microseconds(delay)}"] * (len(delays) > 1)
        choices[", ".join(parts)] = {
            "lines": list(map(_frontier_line, points.values())),
            "level": _limit(results),
        }
    shown = [{**_line(look), "points": True} for look in _drawn(looks)]
    x = {"kind": "bits", "log": True, "ticks": rates}
    return _plot(looks, shown, choices, height=360, x=x, y=_LAG_AXIS)


def _with_own_links(results: Results) -> list[Run]:
    """Return the runs with the topology's own rates and delays of links, without repetitions. There is one for each
    method (measured or simulated), variant (way to bring the binlog to the slaves) and load (factor of the pace of
    commits).
    """
    return [
        run
        for run in results.runs
        if run.setting.rate is None and run.setting.delay is None and run.repetition == 1
    ]


def _looks(runs: Sequence[Run]) -> list[Look]:
    return list(dict.fromkeys(map(look_of, runs)))


def _lag_line(width: int, lags: Sequence[int]) -> Json:
    dx = width / _SECOND
    return {"x0": dx / 2, "dx": dx, "y": [max(round(lag / _SECOND, 4), LEAST_LAG) for lag in lags]}


def _rate_line(width: int, values: Sequence[int]) -> Json:
    dx = width / _SECOND
    rates = [round(value / dx) for value in values]
    while rates and not rates[-1]:
        rates.pop()
    return {"x0": 0, "dx": dx, "y": rates}


def _span(lines: Sequence[Json]) -> list[list[float]]:
    """Return the extent of a plot's x axis, in the form that the chart needs: a list with one pair. The pair is 0 and
    the end of the longest of ``lines``, seconds.
    """
    return [[0, max((line["dx"] * len(line["y"]) for line in lines), default=0) or 1]]


def _frontier_line(points: Sequence[tuple[int | None, NodeFigures]]) -> Json:
    lags = [node.lag for _, node in points]
    return {
        "x": [rate for rate, _ in points],
        "y": [round(max(lag.worst / _SECOND, LEAST_LAG), 4) for lag in lags],
        "notes": [
            f"p50 {microseconds(lag.p50)}, p99 {microseconds(lag.p99)}, worst {microseconds(lag.worst)}"
            for lag in lags
        ],
    }


def _drawn(looks: Iterable[Look]) -> list[Look]:
    """Return the line styles with which the lines of a plot are drawn. If some styles are for measured runs, the styles
    for simulated runs become dotted, so that measured and simulated lines differ.
    """
    given = list(looks)
    has_measured = any(look.is_measured for look in given)
    return [look._replace(dash="dot") if has_measured and not look.is_measured else look for look in given]


def _line(look: Look) -> Json:
    return {"name": look.name, "colour": look.colour, "dash": look.dash}


def _limit(results: Results) -> Json:
    """Return the horizontal line that marks the lag limit in a plot of lags, as JSON for the chart."""
    return {"value": max(results.limit / _SECOND, LEAST_LAG), "text": f"limit {microseconds(results.limit)}"}


def _plot(
    looks: list[Look], lines: list[Json], choices: Mapping[str, Json], *, height: int, x: Json, y: Json
) -> ChoicePlot | None:
    """Return a chart with a menu, or None if the menu would be empty.

    ``choices`` maps the name of each menu entry to the data of its lines. ``lines`` has the look (such as colour and
    dashes) of each line, in the same order as the lines in each entry. ``looks`` has the line styles for the legend.
    ``x`` and ``y`` describe the axes, and ``height`` is in pixels.
    """
    if not choices:
        return None
    data = {"height": height, "x": x, "y": y, "lines": lines, "choices": list(choices.values())}
    return ChoicePlot(Chart(data, height, tuple(map(visible, choices))), looks)


MOST_LINES = 2000
"""The maximum number of rows of a table on the page. results.json has all rows."""


def render_page(results: Results) -> str:
    """Return the HTML page that shows the lag and traffic of a replication topology, as a simulation or an experiment
    (a run of real processes) found them. The caller must write the text as UTF-8.
    """
    lag, rate, frontier = lag_plot(results), rate_plot(results), frontier_plot(results)
    chosen = {"lag": lag, "rate": rate, "frontier": frontier}
    compared = ways(results)
    return render(
        __package__,
        "simulation.html.j2",
        {"time_of": microseconds, "bits": human_rate_of_bits},
        {name: None if one is None else one.chart for name, one in chosen.items()},
        results=results,
        ways=compared,
        whole=max((way.bytes for way in compared), default=0),
        seconds=max((source.duration for source in results.sources), default=0) / _SECOND,
        month_hours=MONTH_HOURS,
        month_remark=remark_on_month(results.active_seconds),
        is_measured=any(run.method is Method.MEASURED for run in results.runs),
        chosen=chosen,
        node_rows=[(run, node) for run in results.runs for node in run.whole_nodes],
        channel_rows=[(run, node) for run in results.runs for node in run.nodes if node.channel is not None],
        link_rows=[(run, link) for run in results.runs for link in run.links],
        outage_rows=[
            (run, link, outage) for run in results.runs for link in run.links for outage in link.outages
        ],
        title_of=lambda run: title_of(run.setting, run.method),
        value_of=value_of,
        most_lines=MOST_LINES,
    )

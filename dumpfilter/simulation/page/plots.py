"""The plots of the page: lag over time, rate over time, the frontier of rate against lag, and the bytes of links."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dumpfilter.report.figures import (
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
    plain_axis,
    rows_plot,
)
from dumpfilter.report.text import human_bytes, human_rate_of_bits, human_seconds
from dumpfilter.simulation.page.view import Look, look_of, nodes_by_name, worst_nodes
from dumpfilter.simulation.results import LinkFigures, Method, NodeFigures, Results, Run, Variant
from dumpfilter.simulation.terminal import microseconds

MOST_CHOICES = 24
"""The largest number of nodes or links that a reader can choose."""
MOST_LINKS = 20
"""The largest number of links with a bar of their own."""
LEAST_LAG = 0.001
"""The least lag of a logarithmic axis, seconds. Smaller ones are drawn there."""
_LAG_TICKS = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36_000, 86_400, 864_000)
_TIME_STEPS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800)
_MOST_TICKS = 5
_SECOND = 1_000_000
"""The microseconds of a second."""


@dataclass(frozen=True)
class ChoicePlot:
    """A plot with a list from which a reader chooses what it shows."""

    plot: Plot
    names: list[str]
    choices: list[Json]
    """The changes to the plot's ``data`` and ``layout`` for each name."""
    looks: list[Look]
    """The looks of the lines, for the legend."""


def lag_plot(results: Results) -> ChoicePlot | None:
    """Return the plot of each node's lag over time, one line for each variant. None: no run has a series."""
    runs = list(_runs_with_series(results))
    looks = _looks(runs)
    if not runs:
        return None
    names: list[str] = []
    choices: list[Json] = []
    for node in _most_behind(runs):
        for load in sorted({run.setting.load for run in runs}):
            found = {look_of(run): run for run in runs if run.setting.load == load}
            lines = [_lag_line(found.get(look), node) for look in looks]
            if not any(any(run.series.lag.get(node, ())) for run in found.values() if run.series):
                continue
            axes = {
                "xaxis": _time_axis(max(line["end"] for line in lines)),
                "yaxis": _lag_axis(lines, results.limit),
            }
            choices.append({"data": [_without(line, "end") for line in lines], "layout": axes})
            names.append(node if load == 1 else f"{node}, load × {load:g}")
    if not choices:
        return None
    layout = layout_of_plot()
    layout |= {"margin": {"l": 8, "r": 16, "t": 16, "b": 8}, "hovermode": "x unified"}
    limit = results.limit / _SECOND
    layout["shapes"] = [_level(max(limit, LEAST_LAG))]
    layout["annotations"] = [_note(max(limit, LEAST_LAG), f"limit {human_seconds(limit)}", is_log=True)]
    lines = [
        {**_line(look), "hovertemplate": f"{look.name}: %{{y:.3~f}} s<extra></extra>"}
        for look in _drawn(looks)
    ]
    figure = {"data": lines, "layout": layout, "narrow": {"xaxis": {"nticks": 4}}}
    return ChoicePlot(Plot(figure, height=360), names, choices, _drawn(looks))


def rate_plot(results: Results) -> ChoicePlot | None:
    """Return the plot of each link's traffic over time against its rate. None: no run has a series."""
    runs = [
        run
        for run in _runs_with_series(results)
        if run.setting.load == 1 and run.setting.variant in (Variant.NONE, Variant.MASTER)
    ]
    looks = _looks(runs)
    names: list[str] = []
    choices: list[Json] = []
    for link in _busiest(runs):
        found = {look_of(run): run for run in runs}
        data: list[Json] = []
        top = end = 0.0
        for look in looks:
            run = found[look]
            for values in _of_link(run, link.name):
                line = _rate_line(run, values)
                top, end = max(top, max(line["y"], default=0)), max(end, line["end"])
                data.append(_without(line, "end"))
        if top <= 0:
            continue
        layout: Json = {"xaxis": _time_axis(end), "shapes": [], "annotations": []}
        if link.rate is not None:
            top = max(top, float(link.rate))
            layout["shapes"] = [_level(link.rate)]
            layout["annotations"] = [_note(link.rate, f"the link's rate, {human_rate_of_bits(link.rate)}")]
        layout["yaxis"] = _bits_axis(top)
        choices.append({"data": data, "layout": layout})
        names.append(link.name)
    if not choices:
        return None
    layout = layout_of_plot()
    layout |= {"margin": {"l": 8, "r": 16, "t": 16, "b": 8}, "hovermode": "x unified"}
    lines = []
    for look in _drawn(looks):
        offered = f"{look.name}, committed: %{{y:.3~s}}bit/s<extra></extra>"
        carried = f"{look.name}, on the link: %{{y:.3~s}}bit/s<extra></extra>"
        shape = {"shape": "hv", "width": 0}
        lines.append(
            {
                **_line(look),
                "line": shape,
                "fill": "tozeroy",
                "fillcolor": f"var(--{look.area})",
                "hovertemplate": offered,
            }
        )
        lines.append({**_line(look), "hovertemplate": carried})
        lines[-1]["line"] = {**lines[-1]["line"], "shape": "hv"}
    figure = {"data": lines, "layout": layout, "narrow": {}}
    return ChoicePlot(Plot(figure, height=340), names, choices, _drawn(looks))


def frontier_plot(results: Results) -> ChoicePlot | None:
    """Return the plot of each node's lag against the rate of its link, from a sweep. None: there was no sweep."""
    runs = [run for run in results.runs if run.setting.rate is not None]
    rates = sorted({run.setting.rate for run in runs if run.setting.rate is not None})
    if len(rates) < 2:
        return None
    loads = sorted({run.setting.load for run in runs})
    delays = sorted({run.setting.delay for run in runs}, key=lambda delay: -1 if delay is None else delay)
    looks = _looks(runs)
    figures = {id(run): nodes_by_name(run) for run in runs}
    names: list[str] = []
    choices: list[Json] = []
    for node in worst_nodes(runs, MOST_CHOICES):
        for load in loads:
            for delay in delays:
                of_case = [run for run in runs if (run.setting.load, run.setting.delay) == (load, delay)]
                lines = [_frontier_line(of_case, look, node, figures) for look in looks]
                axis = _lag_axis(lines, results.limit)
                choices.append({"data": lines, "layout": {"yaxis": axis}})
                parts = [node]
                parts += [f"load × {load:g}"] * (len(loads) > 1)
                parts += [f"delay {microseconds(delay)}"] * (len(delays) > 1)
                names.append(", ".join(parts))
    layout = layout_of_plot()
    ticks = rates if len(rates) <= _MOST_TICKS else rates[:: -(-len(rates) // _MOST_TICKS)]
    layout |= {"margin": {"l": 8, "r": 16, "t": 16, "b": 8}}
    layout["xaxis"] = {
        **plain_axis(),
        "type": "log",
        "tickvals": ticks,
        "ticktext": [human_rate_of_bits(rate) for rate in ticks],
        "showgrid": False,
    }
    limit = max(results.limit / _SECOND, LEAST_LAG)
    layout["shapes"] = [_level(limit)]
    layout["annotations"] = [_note(limit, f"limit {microseconds(results.limit)}", is_log=True)]
    traces = [
        {**_line(look), "mode": "lines+markers", "marker": {"size": 8}, "hoverinfo": "text"}
        for look in _drawn(looks)
    ]
    for trace, look in zip(traces, looks, strict=True):
        trace["marker"] = {"size": 8, "color": f"var(--{look.colour})"}
    narrow = {
        "xaxis": {"tickvals": ticks[::2], "ticktext": [human_rate_of_bits(rate) for rate in ticks[::2]]}
    }
    return ChoicePlot(
        Plot({"data": traces, "layout": layout, "narrow": narrow}, height=360), names, choices, looks
    )


def links_plot(results: Results) -> Plot | None:
    """Return the plot that compares the bytes of each link without a filter and with the filter on the master."""
    runs = {look_of(run): run for run in reversed(results.runs) if run.setting.is_plain}
    whole, master = (
        _links(runs.get(Look.of(Method.SIMULATED, variant)) or runs.get(Look.of(Method.MEASURED, variant)))
        for variant in (Variant.NONE, Variant.MASTER)
    )
    measured = _links(runs.get(Look.of(Method.MEASURED, Variant.MASTER)))
    names = sorted({**whole, **master}, key=lambda name: -max(whole.get(name, 0), master.get(name, 0)))
    if not names or not max([*whole.values(), *master.values()], default=0):
        return None
    shown, others = head_and_rest(names, MOST_LINKS)
    titles = [*shown, *([f"mean of {len(others)} others"] if others else [])]

    def column(sizes: dict[str, int]) -> list[float]:
        found = [float(sizes.get(name, 0)) for name in shown]
        return found + ([sum(sizes.get(name, 0) for name in others) / len(others)] if others else [])

    columns = [column(whole), column(master)]
    hover = [
        f"<b>{label(title, 60)}</b><br>no filter: {exact_bytes(a)}<br>filter on the master: {exact_bytes(b)}"
        for title, a, b in zip(titles, *columns, strict=True)
    ]
    rows = list(range(len(titles)))
    data = [
        bars_of_rows(rows, columns[0], 0.72, "var(--whole)", hover),
        {**bars_of_rows(rows, columns[1], 0.44, "var(--master)", hover), "yaxis": "y2"},
    ]
    if measured:
        marker = {
            "symbol": "diamond",
            "size": 9,
            "color": "var(--card)",
            "line": {"width": 2, "color": "var(--split)"},
        }
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": column(measured),
                "y": rows,
                "marker": marker,
                **hover_texts([f"measured: {exact_bytes(size)}" for size in column(measured)]),
            }
        )
    texts = [human_bytes(b) for b in columns[1]]
    top = max(map(max, columns))
    return rows_plot(data, (titles, texts, texts), (bytes_axis(top), bytes_axis(top, most=3)), room=34)


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
        return {"x0": 0, "dx": 1, "y": [], "end": 0.0}
    dx = series.width / _SECOND
    values = [max(round(lag / _SECOND, 4), LEAST_LAG) for lag in lags]
    return {"x0": dx / 2, "dx": dx, "y": values, "end": dx * len(values)}


def _of_link(run: Run, name: str) -> tuple[Sequence[int], Sequence[int]]:
    assert run.series is not None
    return run.series.offered.get(name, ()), run.series.carried.get(name, ())


def _rate_line(run: Run, values: Sequence[int]) -> Json:
    assert run.series is not None
    dx = run.series.width / _SECOND
    rates = [round(8 * value / dx) for value in values]
    while rates and not rates[-1]:
        rates.pop()
    # A step curve ends at its last point. The last rate is given twice, so that the last step has a width.
    return {"x0": 0, "dx": dx, "y": [*rates, *rates[-1:]], "end": dx * len(rates)}


def _frontier_line(
    runs: Sequence[Run], look: Look, node: str, figures: Mapping[int, Mapping[str, NodeFigures]]
) -> Json:
    points = []
    for run in runs:
        found = figures[id(run)].get(node)
        if look_of(run) == look and found is not None and run.setting.rate is not None:
            text = (
                f"<b>{label(look.name, WIDE)}</b>, {human_rate_of_bits(run.setting.rate)}"
                f"<br>p50 {microseconds(found.lag.p50)}, p99 {microseconds(found.lag.p99)}"
                f"<br>worst {microseconds(found.lag.worst)}"
            )
            points.append((run.setting.rate, max(found.lag.worst / _SECOND, LEAST_LAG), text))
    points.sort()
    return {
        "x": [point[0] for point in points],
        "y": [round(point[1], 4) for point in points],
        "hovertext": [point[2] for point in points],
    }


def _drawn(looks: Sequence[Look]) -> list[Look]:
    """Return the looks as they are drawn: simulated lines are dotted where they stand beside measured ones."""
    if not any(look.is_measured for look in looks):
        return list(looks)
    return [look if look.is_measured else replace(look, dash="dot") for look in looks]


def _line(look: Look) -> Json:
    line = {"width": 2, "color": f"var(--{look.colour})", "dash": look.dash}
    return {"type": "scatter", "mode": "lines", "line": line}


def _links(run: Run | None) -> dict[str, int]:
    return {link.name: link.bytes for link in run.links} if run is not None else {}


def _time_axis(end: float) -> Json:
    step = next((each for each in _TIME_STEPS if end / each <= _MOST_TICKS), _TIME_STEPS[-1])
    if end < 1:
        step_seconds = next(
            each for each in (0.001, 0.01, 0.05, 0.1, 0.2) if end / each <= _MOST_TICKS or each == 0.2
        )
    else:
        step_seconds = float(step)
    ticks = [step_seconds * n for n in range(int(end / step_seconds) + 1)]
    return {
        **plain_axis(),
        "range": [0, end or 1],
        "tickvals": ticks,
        "ticktext": [human_seconds(tick) for tick in ticks],
        "showgrid": False,
        "tickangle": 0,
        "hoverformat": ".3~f",
    }


def _lag_axis(lines: Sequence[Json], limit: int) -> Json:
    values = [value for line in lines for value in line["y"]]
    top = max([*values, limit / _SECOND, 10 * LEAST_LAG])
    low = 10.0 ** math.floor(math.log10(max(min([*values, limit / _SECOND]), LEAST_LAG)) + 1e-9)
    ticks = [tick for tick in _LAG_TICKS if low * 0.99 <= tick <= top * 1.5]
    return {
        **plain_axis(),
        "type": "log",
        "range": [math.log10(low) - 0.05, math.log10(top) + 0.15],
        "tickvals": ticks,
        "ticktext": [human_seconds(tick) for tick in ticks],
    }


def _bits_axis(top: float) -> Json:
    scale = 10.0 ** max(len(str(int(top))) - 1, 0)
    step = next(scale * part for part in (0.1, 0.2, 0.5, 1, 2, 5) if top / (scale * part) < 6)
    ticks = [step * n for n in range(int(top / step) + 1)]
    texts = [human_rate_of_bits(tick) if tick else "0" for tick in ticks]
    return {**plain_axis(), "range": [0, top * 1.08], "tickvals": ticks, "ticktext": texts}


def _level(value: float) -> Json:
    """Return a dashed line across the plot."""
    line = {"color": "var(--bad)", "width": 1.5, "dash": "dash"}
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "yref": "y",
        "y0": value,
        "y1": value,
        "line": line,
    }


def _note(value: float, text: str, *, is_log: bool = False) -> Json:
    return {
        "xref": "paper",
        "x": 1,
        "xanchor": "right",
        "yref": "y",
        "y": math.log10(value) if is_log else value,
        "yanchor": "bottom",
        "text": text,
        "showarrow": False,
        "font": {"color": "var(--bad)", "size": 12},
    }


def _without(line: Json, key: str) -> Json:
    return {name: value for name, value in line.items() if name != key}

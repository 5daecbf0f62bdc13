from __future__ import annotations

import html
import json
import re

import pytest

from dumpfilter.base.printable import visible
from dumpfilter.simulation.page import (
    by_name,
    frontier_plot,
    lag_plot,
    look_of,
    rate_plot,
    render_page,
    ways,
)
from dumpfilter.simulation.results import Method, Results, Variant, microseconds
from tests.simulation.made_results import CASES, HOSTILE, hostile, many, measured, regrouped, usual


@pytest.mark.parametrize("name", CASES)
def test_the_page_is_one_file_with_all_nodes(name: str) -> None:
    results = CASES[name]()
    page = render_page(results)
    assert "http://" not in page.split("<script>")[0]
    assert html.escape(visible(results.name), quote=False) in html.unescape(page).replace(
        "<", "&lt;"
    ).replace(">", "&gt;").replace("&", "&") or visible(results.name) in html.unescape(page)
    for run in results.runs:
        for node in run.nodes:
            assert visible(node.name) in html.unescape(page)
    data = json.loads(re.search(r'id="report-data">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    for name, chart in data["charts"].items():
        assert f'id="plot-{name}"' in page
        for choice in chart["choices"]:
            assert len(choice["lines"]) == len(chart["lines"])


def test_the_lag_plot_has_the_worst_lag_of_each_variant() -> None:
    results = usual()
    plot = lag_plot(results)
    assert plot is not None
    choice = plot.chart.data["choices"][plot.chart.names.index("all")]
    for look, line in zip(plot.looks, choice["lines"], strict=True):
        run = next(run for run in results.runs if run.setting.load == 1 and look == look_of(run))
        worst = next(node.lag.worst for node in run.nodes if node.name == "all")
        assert max(line["y"]) == pytest.approx(max(worst / 1e6, 0.001), abs=1e-4)


def test_a_node_that_only_some_variants_group_has_a_line_for_each() -> None:
    results = regrouped()
    assert [len(run.whole_nodes) for run in results.runs] == [1, 2]
    plot = lag_plot(results)
    assert plot is not None
    assert list(plot.chart.names) == ["a", "b"]
    for name, choice in zip(plot.chart.names, plot.chart.data["choices"], strict=True):
        for run, line in zip(results.runs, choice["lines"], strict=True):
            worst = by_name(run.whole_nodes)[name].lag.worst
            assert max(line["y"]) == pytest.approx(worst / 1e6, abs=1e-4)


def test_a_link_that_only_some_variants_group_has_lines_for_each() -> None:
    plot = rate_plot(regrouped())
    assert plot is not None
    assert set(plot.chart.names) == {"m:a", "m:b"}
    assert all(any(line["y"]) for choice in plot.chart.data["choices"] for line in choice["lines"])


def test_no_link_carries_more_than_its_rate() -> None:
    plot = rate_plot(usual())
    assert plot is not None
    for choice in plot.chart.data["choices"]:
        rate = choice["level"]["value"]
        for line in choice["lines"][1::2]:
            assert max(line["y"]) <= rate * 1.001


def test_the_frontier_falls_with_the_rate() -> None:
    plot = frontier_plot(usual())
    assert plot is not None
    for choice in plot.chart.data["choices"]:
        for line in choice["lines"]:
            assert line["x"] == sorted(line["x"])
            assert line["y"] == sorted(line["y"], reverse=True)


def test_a_month_is_extrapolated_from_an_hour_and_more() -> None:
    results = usual()
    assert results.sources[0].active_seconds == 119
    assert {way.gigabytes_a_month for way in ways(results)} == {None}
    page = render_page(results)
    assert "The binlogs span 1 min 59 s. The traffic of a month needs at least 1 h." in page
    assert "data-gigabytes" not in page.split("<script>")[0]

    hour = _active_for(results, 3600)
    found = {way.look.name: way for way in ways(hour)}
    assert len(found) == len(Variant)
    none = found["no filter"]
    assert none.gigabytes_a_month == pytest.approx(none.bytes * 730 / 1e9)
    assert "It is a rough figure" in render_page(hour)
    assert "It is a rough figure" not in render_page(_active_for(results, 86_400))


def _active_for(results: Results, seconds: int) -> Results:
    sources = tuple(source.model_copy(update={"active_seconds": seconds}) for source in results.sources)
    return results.model_copy(update={"sources": sources})


def test_a_burst_has_no_average() -> None:
    """A set whose commits all fall within some milliseconds has no rate on average, which would be 812 Gbit/s."""
    results = usual()
    (source,) = results.sources
    assert source.first_time is not None
    assert "on average" in render_page(results)
    burst = source.model_copy(update={"last_time": source.first_time + 10_000})
    assert "on average" not in render_page(results.model_copy(update={"sources": (burst,)}))


def test_measured_figures_stand_beside_simulated_ones() -> None:
    page = render_page(measured())
    for text in ("filter-on-master, measured", "<small>run 2</small>", "filter-on-master</td>"):
        assert text in page
    plot = lag_plot(measured())
    assert plot is not None
    assert {look.name for look in plot.looks} >= {"filter on the master", "filter on the master, measured"}


def test_the_page_has_the_topology_line_by_line() -> None:
    page = html.unescape(render_page(usual()))
    assert usual().topology in page
    assert 'rules = ["replicate-do-db=a"]' in page


def test_hostile_names_are_no_html() -> None:
    page = render_page(hostile())
    assert "<img" not in page.split("<script>")[0]
    assert visible(HOSTILE) in html.unescape(page)


def test_many_slaves_are_grouped() -> None:
    results: Results = many()
    assert all(len(run.nodes) == 50 for run in results.runs)
    plot = lag_plot(results)
    assert plot is not None
    assert len(plot.chart.names) == 24


def test_the_page_tells_where_its_figures_are_from() -> None:
    assert any(run.method is Method.MEASURED for run in measured().runs)
    assert "dumpfilter topology run" in render_page(measured())
    assert microseconds(usual().limit) in render_page(usual())


def test_a_page_of_other_loads_only_does_not_say_that_nothing_was_carried() -> None:
    given = usual()
    runs = tuple(run for run in given.runs if run.setting.load != 1)
    page = render_page(given.model_copy(update={"runs": runs}))
    assert "a run without other rates, delays or loads. There is none." in page
    assert "carried anything" not in page

"""The plots of the bandwidth report against the results."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.report.figures import byte_ticks
from dumpfilter.report.text import human_bytes
from dumpfilter.spark_jobs.bandwidth.report import plots
from dumpfilter.spark_jobs.bandwidth.results import Results
from tests.spark_jobs.bandwidth.made_results import CASES, made_results


def drawn(plot: plots.Plot | None) -> dict[str, Any]:
    """Return the plot's figure. plotly's schema raises an error on unknown properties."""
    assert plot
    coloured = json.loads(re.sub(r"var\(--[a-z0-9-]+\)", "#123456", json.dumps(plot.figure)))
    for layout in (coloured["layout"], coloured["narrow"]):
        go.Figure(coloured["data"], layout)
    return plot.figure


@given(st.integers(0, 2**63))
def test_human_bytes_are_right_to_half_a_percent(size: int) -> None:
    number, unit = human_bytes(size).split()
    power = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].index(unit)
    assert math.isclose(float(number) * 1024**power, size, rel_tol=0.006)
    assert len(number.replace(".", "")) <= 4


@given(st.integers(0, 2**50), st.integers(1, 8))
def test_ticks_are_few_and_within(top: int, most: int) -> None:
    ticks = byte_ticks(top, most)
    assert ticks[0] == 0
    assert ticks[-1] <= top
    assert len(ticks) <= most + 1
    assert top < most or len(ticks) > most // 2


@given(st.integers(1, 10**10), st.integers(1, 10**6))
def test_steps_are_buckets_and_few_enough(seconds: int, bucket: int) -> None:
    width = plots.step_width(seconds, bucket)
    assert width % bucket == 0
    assert seconds <= width * plots.MOST_POINTS or width == bucket


@pytest.mark.parametrize("results", CASES.values(), ids=CASES)
def test_savings_are_the_slaves(results: Results) -> None:
    plot = plots.savings_plot(results)
    if not sum(s.no_filter.bytes for s in results.slaves):
        assert plot is None
        return
    figure = drawn(plot)
    slaves = sorted(results.slaves, key=lambda s: (s.master_side.bytes - s.no_filter.bytes, s.name))
    shown = len(slaves) if len(slaves) <= plots.MOST_SLAVES + 1 else plots.MOST_SLAVES
    bars = [trace["x"] for trace in figure["data"]]
    assert [x[:shown] for x in bars] == [
        [s.no_filter.bytes for s in slaves[:shown]],
        [s.master_side.bytes for s in slaves[:shown]],
        [s.compressed for s in slaves[:shown]],
        [s.applied.bytes for s in slaves[:shown]],
        [s.split for s in slaves[:shown]],
        [s.real_replica and s.real_replica.bytes for s in slaves[:shown]],
    ]
    others = slaves[shown:]
    rest = [] if not others else [sum(s.master_side.bytes for s in others) / len(others)]
    assert bars[1][shown:] == rest


@pytest.mark.parametrize("results", CASES.values(), ids=CASES)
def test_curves_hold_all_bytes(results: Results) -> None:
    time = plots.time_plot(results)
    if not results.bucket_starts:
        assert time is None
        return
    assert time
    figure = drawn(time.plot)
    slaves = sorted(results.slaves, key=lambda s: s.name)
    whole = sum(results.series.no_filter)
    each = [sum(results.series.slaves[s.name]) for s in slaves]
    expected = [(whole * len(slaves), sum(each))] + [(whole, size) for size in each if len(slaves) > 1]
    assert len(time.choices) == len(expected) == 1 + len(time.names)
    for choice, sums in zip(time.choices, expected, strict=True):
        for trace, size in zip(choice["data"], sums, strict=False):
            *rates, end = trace["y"]
            assert end == rates[-1]
            assert len(rates) <= plots.MOST_POINTS + 1
            assert sum(rates) * time.width == pytest.approx(size, abs=0.05 * time.width * len(rates))
    for choice, slave in zip(time.choices[1:], slaves, strict=False):
        assert slave.peak
        assert slave.peak_no_filter
        peaks = [slave.peak_no_filter, slave.peak]
        assert choice["data"][2]["y"] == [peak.bytes_per_second for peak in peaks]
        middle = results.bucket_seconds // 2
        assert choice["data"][2]["x"] == [(peak.start + middle) * 1000 for peak in peaks]
    assert figure["data"][0]["x0"] // 1000 <= results.bucket_starts[0]


def test_of_very_many_slaves_those_that_are_sent_most_can_be_chosen() -> None:
    results = made_results(slaves=plots.MOST_CHOICES + 5, tables=10, hours=0.1)
    time = plots.time_plot(results)
    assert time
    slaves = sorted(results.slaves, key=lambda s: (-s.master_side.bytes, s.name))
    assert time.names == sorted(s.name for s in slaves[: plots.MOST_CHOICES])
    assert len(time.choices) == 1 + len(time.names)
    whole = sum(results.series.no_filter) * len(slaves)
    assert sum(time.choices[0]["data"][0]["y"][:-1]) * time.width == pytest.approx(whole, rel=1e-3)


def test_gaps_between_buckets_are_drawn_as_nothing() -> None:
    results = made_results(slaves=2, tables=5, hours=1)
    plain = json.loads(results.model_dump_json())
    keep = [0, 1, 30, 59]
    plain["bucket_starts"] = [plain["bucket_starts"][i] for i in keep]
    plain["series"]["no_filter"] = [6000, 12000, 600, 60]
    plain["series"]["slaves"] = {name: [60, 0, 0, 0] for name in plain["series"]["slaves"]}
    time = plots.time_plot(Results.model_validate(plain))
    assert time
    nothing = [0.0] * 28
    assert time.choices[1]["data"][0]["y"] == [100.0, 200.0, *nothing, 10.0, *nothing, 1.0, 1.0]
    assert time.choices[0]["data"][1]["y"][:2] == [2.0, 0.0]


@pytest.mark.parametrize("results", CASES.values(), ids=CASES)
def test_tables_add_up_to_all(results: Results) -> None:
    plot = plots.tables_plot(results)
    if not results.tables:
        assert plot is None
        return
    so_far, shares = (trace["x"] for trace in drawn(plot)["data"])
    whole = sum(t.bytes for t in results.tables)
    assert shares[0] == results.tables[0].bytes / whole
    assert sum(shares) == pytest.approx(1)
    assert so_far == pytest.approx([sum(shares[: i + 1]) for i in range(len(shares))])


@pytest.mark.parametrize("results", CASES.values(), ids=CASES)
def test_heat_map_cells(results: Results) -> None:
    plot = plots.heat_map(results)
    if not any(s.tables for s in results.slaves):
        assert plot is None
        return
    cells = drawn(plot)["data"][0]["z"]
    slaves = sorted(results.slaves, key=lambda s: (-s.master_side.bytes, s.name))
    for table, line in zip(results.tables[: plots.MOST_ROWS], cells, strict=False):
        for slave, cell in zip(slaves[: plots.MOST_COLUMNS], line, strict=False):
            size = {part.table: part.bytes for part in slave.tables}.get(table.name)
            assert (size is None and cell is None) or math.exp(cell) == pytest.approx(size)
    if len(slaves) > plots.MOST_COLUMNS + 1:
        rest = slaves[plots.MOST_COLUMNS :]
        mean = sum(p.bytes for s in rest for p in s.tables if p.table == results.tables[0].name) / len(rest)
        assert math.exp(cells[0][-1]) == pytest.approx(mean)


@pytest.mark.parametrize("results", CASES.values(), ids=CASES)
def test_cost_is_stacked(results: Results) -> None:
    scan, decide, copy = drawn(plots.cost_plot(results))["data"]
    assert (scan["x"][0], decide["x"][0]) == (results.cost.scan_seconds, results.cost.decide_seconds)
    assert decide["base"][0] == scan["x"][0]
    assert copy["x"][1] == results.cost.unfiltered_seconds

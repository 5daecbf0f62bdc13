"""The figures of the bandwidth report against the results."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.analyse.report.html import byte_axis
from dumpfilter.analyse.report.measures import Audience
from dumpfilter.analyse.report.text import human_bytes
from dumpfilter.spark_jobs.bandwidth import report as figures
from dumpfilter.spark_jobs.bandwidth.report import Group, by_saving, by_traffic, groups_of
from dumpfilter.spark_jobs.bandwidth.results import Results, ways_of
from tests.spark_jobs.bandwidth.made_results import CASES, made_results, with_equal_slaves

WITH_GROUPS = {**CASES, "groups": with_equal_slaves(made_results(slaves=5), 3)}


@given(st.integers(0, 2**63))
def test_human_bytes_are_right_to_half_a_percent(size: int) -> None:
    number, unit = human_bytes(size).split()
    power = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].index(unit)
    assert math.isclose(float(number) * 1024**power, size, rel_tol=0.006)
    assert len(number.replace(".", "")) <= 4


@given(st.integers(0, 2**50))
def test_ticks_are_few_and_within(top: int) -> None:
    places = [tick.place for tick in byte_axis(top)]
    assert places[0] == 0
    assert places[-1] <= 1
    assert len(places) <= 5
    assert top < 4 or len(places) > 2


@pytest.mark.parametrize("results", WITH_GROUPS.values(), ids=WITH_GROUPS)
def test_groups_hold_each_slave_once(results: Results) -> None:
    groups = groups_of(results)
    members = [member.name for group in groups for member in group.members]
    assert sorted(members) == sorted(slave.name for slave in results.slaves)
    for group in groups:
        assert {one.rules for one in group.members} == {group.figures.rules}
        assert {one.master_side for one in group.members} == {group.figures.master_side}


def test_equal_slaves_are_one_group() -> None:
    groups = groups_of(WITH_GROUPS["groups"])
    assert [group.count for group in groups] == [3] * 5
    assert groups[0].name == "fra-report-01-1 … fra-report-01-3"
    bars = figures.savings_bars(WITH_GROUPS["groups"], 99)
    assert bars
    assert {row.count for row in bars.rows} == {3}


def test_slaves_with_traffic_at_other_times_are_no_group() -> None:
    results = WITH_GROUPS["groups"]
    (first, *_) = groups_of(results)
    name = first.members[-1].name
    series = results.series.slaves | {name: results.series.slaves[name][::-1]}
    assert series != results.series.slaves
    moved = results.model_copy(
        update={"series": results.series.model_copy(update={"slaves": series})},
    )
    assert sorted(group.count for group in groups_of(moved)) == [1, 2] + [3] * 4


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["web"], "web"),
        (["web-1", "web-2", "web-12"], "web-1 … web-12"),
        (["web", "hr"], "web, hr"),
        (["web", "web-2"], "web, web-2"),
        (["a1b", "a2b", "c"], "a1b … c"),
    ],
)
def test_a_group_is_named_after_its_members(names: list[str], wanted: str) -> None:
    (slave,) = CASES["one"].slaves
    members = tuple(slave.model_copy(update={"name": name}) for name in names)
    assert Group(members, ways_of(slave, Audience.SLAVES)).name == wanted


@pytest.mark.parametrize("results", WITH_GROUPS.values(), ids=WITH_GROUPS)
def test_savings_are_the_slaves(results: Results) -> None:
    bars = figures.savings_bars(results, 70)
    if not results.totals.bytes.no_filter:
        assert bars is None
        return
    assert bars
    groups = by_saving(results)
    top = groups[0].ways.no_filter / bars.rows[0].bars[0].end
    for group, row in zip(groups, bars.rows, strict=False):
        ways = group.ways
        assert [bar.end * top for bar in row.bars] == pytest.approx([ways.no_filter, ways.filter, ways.both])
    assert len(bars.rows) == min(len(groups), 70)
    shown = [group.saved for group in groups if not group.figures.nothing_passes]
    assert shown == sorted(shown, reverse=True)


@pytest.mark.parametrize("results", WITH_GROUPS.values(), ids=WITH_GROUPS)
def test_curves_hold_all_bytes_and_all_peaks(results: Results) -> None:
    chart = figures.time_chart(results)
    if not results.bucket_starts:
        assert chart is None
        return
    assert chart
    curves, choices = chart.data["curves"], chart.data["choices"]
    groups = sorted(groups_of(results), key=lambda group: group.name)
    whole = np.array(results.series.no_filter)
    each = [np.array(results.series.slaves[group.figures.name]) for group in groups]
    together = sum(np.array(series) for series in results.series.slaves.values())
    expected = [(whole * len(results.slaves), together)]
    expected += [(whole, own) for own in each if len(groups) > 1]
    assert len(choices) == len(expected) == max(len(chart.names), 1)
    for choice, columns in zip(choices, expected, strict=True):
        n = round(sum(end - begin for begin, end in choice["segments"]) / choice["width"])
        # Equal curves are one.
        columns = columns[:1] if np.array_equal(*columns) else columns
        for line, column in zip(choice["lines"], columns, strict=True):
            rates = curves[line["y"]]
            assert len(rates) == n
            assert sum(rates) * choice["width"] == pytest.approx(int(column.sum()), abs=choice["width"] * n)
            most = curves[line.get("most", line["y"])]
            assert max(most) == pytest.approx(int(column.max()) / results.bucket_seconds, abs=1)
            assert all(a <= b for a, b in zip(rates, most, strict=True))
        for mark, column in zip(choice["marks"], columns, strict=True):
            assert mark["y"] * results.bucket_seconds == pytest.approx(int(column.max()))
            start = results.bucket_starts[int(column.argmax())]
            assert mark["x"] == start + results.bucket_seconds / 2


def test_of_very_many_slaves_those_that_are_sent_most_can_be_chosen() -> None:
    results = made_results(slaves=figures.MOST_CHOICES + 5, tables=10, hours=0.1)
    chart = figures.time_chart(results)
    assert chart
    groups = by_traffic(results)[: figures.MOST_CHOICES]
    assert chart.names == (figures.ALL, *sorted(group.name for group in groups))


def _with_buckets(starts: list[int], sizes: list[int]) -> Results:
    plain = json.loads(made_results(slaves=2, tables=5, hours=1).model_dump_json())
    plain["bucket_starts"] = starts
    plain["series"]["no_filter"] = sizes
    plain["series"]["slaves"] = dict.fromkeys(plain["series"]["slaves"], sizes)
    return Results.model_validate(plain)


def test_short_gaps_are_drawn_and_long_ones_are_cut_out() -> None:
    minutes = [0, 1, 5, 60, 61, 10_000_000]
    results = _with_buckets([60 * minute for minute in minutes], [600, 1200, 60, 60, 0, 60])
    chart = figures.time_chart(results)
    assert chart
    (choice, *_) = chart.data["choices"]
    assert choice["segments"] == [[0, 360], [3600, 3720], [600_000_000, 600_000_060]]
    rates = chart.data["curves"][choice["lines"][0]["y"]]
    assert rates == [20, 40, 0, 0, 0, 2, 2, 0, 2]


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=50, unique=True), st.sampled_from([1, 60, 3600]))
def test_every_bucket_is_drawn_once(buckets: list[int], bucket: int) -> None:
    starts = np.array(sorted(buckets), np.int64) * bucket
    steps = figures._Steps(starts, bucket, 400)
    mean, most = steps.curve(np.full(len(starts), 7 * bucket))
    assert len(mean) <= 400
    assert sum(mean) * steps.width == pytest.approx(
        7 * bucket * len(starts), abs=0.06 * steps.width * len(mean)
    )
    assert max(most) == 7
    assert all(a[1] < b[0] for a, b in pairwise(steps.segments))
    assert all(any(begin <= start < end for begin, end in steps.segments) for start in starts.tolist())


@pytest.mark.parametrize("results", CASES.values(), ids=CASES)
def test_tables_add_up_to_all(results: Results) -> None:
    bars = figures.tables_bars(results)
    if not results.tables:
        assert bars is None
        return
    assert bars
    so_far, shares = ([row.bars[k].end for row in bars.rows] for k in (0, 1))
    whole = sum(t.bytes for t in results.tables)
    assert shares[0] == results.tables[0].bytes / whole
    assert sum(shares) == pytest.approx(1)
    assert so_far == pytest.approx([sum(shares[: i + 1]) for i in range(len(shares))])


def with_a_tiny_cell(results: Results) -> Results:
    """Return the results with a table of which the first slave is sent a single byte."""
    first, *others = results.slaves
    largest, *tables = first.tables
    changed = first.model_copy(update={"tables": (largest.model_copy(update={"bytes": 1}), *tables)})
    return results.model_copy(update={"slaves": (changed, *others)})


OF_HEAT = WITH_GROUPS | {"tiny": with_a_tiny_cell(CASES["usual"])}


@pytest.mark.parametrize("results", OF_HEAT.values(), ids=OF_HEAT)
def test_heat_map_cells(results: Results) -> None:
    found = figures.heat_map(results)
    if not any(s.tables for s in results.slaves):
        assert found is None
        return
    assert found
    groups = by_traffic(results)
    for table, (_, line) in zip(results.tables[: figures.MOST_ROWS], found["rows"], strict=False):
        for group, cell in zip(groups[: figures.MOST_COLUMNS], line, strict=False):
            size = {part.table: part.bytes for part in group.figures.tables}.get(table.name, 0)
            colour = cell["colour"]
            assert cell["bytes"] == size
            assert (colour is None) == (size == 0)
            if colour is not None:
                limits = [0, *found["limits"]]
                assert limits[colour] * 0.999 <= size
                assert size <= limits[colour + 1] * 1.001
    assert found["columns"] == groups[: figures.MOST_COLUMNS]

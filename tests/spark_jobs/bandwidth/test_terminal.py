"""The tables of a bandwidth job in the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from dumpfilter.analyse.report.text import human_bytes, human_gigabytes
from dumpfilter.spark_jobs.bandwidth.output import print_results, print_warnings
from dumpfilter.spark_jobs.bandwidth.results import Results, with_totals
from tests.spark_jobs.bandwidth.made_results import CASES, made_results, with_equal_slaves

WIDTH = 80


def printed(results: Results) -> list[str]:
    out = io.StringIO()
    print_results(results, Console(file=out, width=WIDTH))
    return out.getvalue().splitlines()


def test_all_ways_and_totals_at_80_columns() -> None:
    results = made_results(slaves=3, hours=30, price=0.09)
    lines = printed(results)
    heads = [line.split() for line in lines if line.startswith("slave")]
    assert heads == [
        ["slave", "no", "filter", "filter", "saved", "~", "zstd", "~", "both"],
        ["slave", "no", "filter", "filter", "~", "zstd", "~", "both"],
    ]
    assert sum(line.startswith("all 3 ") for line in lines) == 2
    assert all("…" not in line for line in lines)
    assert any("GB a month of 730 hours (and the price at 0.09 a GB)" in line for line in lines)
    text = " ".join(" ".join(lines).split())
    assert all(remark in text for remark in results.remarks)


def test_equal_slaves_share_a_row() -> None:
    results = with_equal_slaves(made_results(slaves=2, hours=30, troubles=False), 4)
    assert sum("×4" in line for line in printed(results)) == 4


def test_long_names_are_whole_and_small_prices_are_not_0() -> None:
    results = made_results(slaves=1, hours=30, price=0.0001, troubles=False)
    (slave,) = results.slaves
    name = "region-with-a-long-name-0"
    series = results.series.model_copy(update={"slaves": {name: results.series.slaves[slave.name]}})
    named = slave.model_copy(update={"name": name})
    lines = printed(results.model_copy(update={"slaves": (named,), "series": series}))
    assert sum(line.startswith(name[:15]) for line in lines) == 2
    assert any("(0.0" in line for line in lines)
    assert not any("(0.00)" in line for line in lines)


def test_figures_of_mariadb_are_upper_bounds() -> None:
    results = made_results(slaves=1, hours=2, rules=True, troubles=False)
    (slave,) = results.slaves
    assert slave.real_replica is not None
    assert not any("at most" in line for line in printed(results))
    assert any("bytes for real replicas" in line for line in printed(results))
    bound = slave.model_copy(
        update={"real_replica": slave.real_replica.model_copy(update={"is_upper_bound": True})}
    )
    made = with_totals(results.model_copy(update={"slaves": (bound,)}))
    assert made.totals.is_upper_bound
    assert any("bytes for real replicas, at most" in line for line in printed(made))
    assert "saves at least" in " ".join(printed(made))


def test_many_slaves_are_sorted_and_cut() -> None:
    """The largest savings come first, one line a slave, and a line tells how many are left out."""
    results = CASES["many"]
    lines = printed(results)
    at = next(k for k, line in enumerate(lines) if line.startswith("slave "))
    rows = [line.split() for line in lines[at + 1 : at + 21]]
    savings = [float(row[-6]) for row in rows]
    assert all(row[-5] == "%" for row in rows)
    assert savings == sorted(savings, reverse=True)
    assert lines[at + 21].startswith("all 100 ")
    assert "… and 80 more rows (--top 100 shows all)" in lines
    out = io.StringIO()
    print_results(results, Console(file=out, width=WIDTH), top=100)
    assert all(any(slave.name in line for line in out.getvalue().splitlines()) for slave in results.slaves)


def test_one_slave_has_no_row_of_totals() -> None:
    assert not any(line.startswith("all ") for line in printed(made_results(slaves=1, hours=30)))


def test_the_row_of_sums_leaves_out_a_slave_to_which_nothing_passes() -> None:
    results = made_results(slaves=5, hours=30)
    first, *others = results.slaves
    broken = first.model_copy(update={"nothing_passes": True})
    made = with_totals(results.model_copy(update={"slaves": (broken, *others)}))
    (row, of_month) = [line for line in printed(made) if line.startswith("4 of 5 ")]
    assert human_bytes(made.totals.bytes.no_filter) in row
    assert made.totals.bytes.no_filter == sum(
        one.real_replica.bytes_from_source for one in others if one.real_replica
    )
    assert made.totals.month is not None
    assert human_gigabytes(made.totals.month.bytes.filter) in of_month


def test_every_case_can_be_printed() -> None:
    for results in CASES.values():
        assert all(len(line) <= WIDTH for line in printed(results))


@pytest.mark.parametrize(("terminal", "widest"), [(True, WIDTH), (False, 250)])
def test_a_few_warnings_wrapped_for_a_terminal(terminal: bool, widest: int) -> None:
    told = [f"slave web: code {n}: [yellow]{'word ' * 40}" for n in range(7)]
    results = made_results(slaves=1, troubles=False).model_copy(update={"warnings": (*told, told[0])})
    out = io.StringIO()
    print_warnings(results, Console(file=out, width=WIDTH, force_terminal=terminal, no_color=True))
    lines = Text.from_ansi(out.getvalue()).plain.splitlines()
    assert max(map(len, lines)) <= widest
    assert (len(lines) == 5) is not terminal
    text = " ".join(" ".join(lines).split())
    assert text.count("warning:") == 4
    assert "[yellow]" in text
    assert "… and 3 more" in text

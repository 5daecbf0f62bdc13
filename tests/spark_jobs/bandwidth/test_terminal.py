"""The tables of a bandwidth job in the terminal."""

from __future__ import annotations

import io

from rich.console import Console

from dumpfilter.spark_jobs.bandwidth.results import Results
from dumpfilter.spark_jobs.bandwidth.terminal import print_results
from tests.spark_jobs.bandwidth.made_results import CASES, made_results

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
        ["slave", "no", "filter", "filter", "saved", "~", "zstd", "~", "both", "split", "replica"],
        ["slave", "no", "filter", "filter", "~", "zstd", "~", "both"],
    ]
    assert sum(line.startswith("all 3 ") for line in lines) == 2
    assert all("…" not in line for line in lines)
    assert any("GB a month of 730 hours, and the price at 0.09 a GB" in line for line in lines)
    text = " ".join(" ".join(lines).split())
    assert all(remark in text for remark in results.remarks)


def test_one_slave_has_no_row_of_totals() -> None:
    assert not any(line.startswith("all ") for line in printed(made_results(slaves=1, hours=30)))


def test_every_case_can_be_printed() -> None:
    for results in CASES.values():
        assert all(len(line) <= WIDTH for line in printed(results))

"""The Parquet tables of the bandwidth job against the results."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.compute as pc
import pytest

from dumpfilter.spark_jobs.bandwidth.output import FORMS, tables
from dumpfilter.spark_jobs.bandwidth.results import Results
from tests.spark_jobs.bandwidth.made_results import CASES, START, made_results


# The job replaces invalid UTF-8 in names, which the hostile case has.
@pytest.mark.parametrize("results", [CASES[name] for name in sorted(CASES) if name != "hostile"])
def test_types_do_not_depend_on_the_rows(results: Results) -> None:
    for name, table in tables(results).items():
        assert table.schema.equals(FORMS[name].schema)


def _leaves(members: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in members.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}_")
        else:
            yield prefix + name


def test_every_figure_of_a_slave_is_a_column() -> None:
    results = made_results(slaves=1, price=0.09)
    (slave,) = results.slaves
    plain = slave.model_dump(exclude={"tables", "rule_savings"})
    assert {column.name for column in FORMS["slaves"].columns} == set(_leaves(plain))
    (row,) = tables(results)["slaves"].to_pylist()
    assert row["month_price_both"] == plain["month"]["price"]["both"]
    assert row["name"] == slave.name
    assert row["master_side_bytes"] == slave.master_side.bytes
    assert slave.peak is not None
    assert row["peak_start"].timestamp() == slave.peak.start


def test_the_bytes_of_one_kind_add_up() -> None:
    results = CASES["usual"]
    traffic = tables(results)["traffic"]
    for kind, wanted in (
        ("slave", sum(map(sum, results.series.slaves.values()))),
        ("no filter", sum(results.series.no_filter)),
    ):
        rows = traffic.filter(pc.equal(traffic["kind"], kind))
        assert pc.sum(rows["bytes"]).as_py() == wanted
        assert rows["slave"].null_count == (len(rows) if kind == "no filter" else 0)
    assert pc.min(traffic["start"]).as_py() == datetime.datetime.fromtimestamp(START, datetime.UTC)
    assert set(traffic["seconds"].to_pylist()) == {results.bucket_seconds}

"""Totals over slaves, the traffic of a month and its price, and the words about them."""

from __future__ import annotations

import pytest

from dumpfilter.spark_jobs.bandwidth.results import Results, Ways
from dumpfilter.spark_jobs.bandwidth.totals import month_of, totals_of, with_totals
from tests.spark_jobs.bandwidth.made_results import empty_results, made_results

DAY = 86_400


def test_totals_are_the_sums_of_the_slaves() -> None:
    results = made_results(slaves=5, hours=2)
    totals = results.totals
    assert totals.slaves == 5
    assert totals.bytes.no_filter == sum(one.no_filter.bytes for one in results.slaves)
    assert totals.bytes.filter == sum(one.master_side.bytes for one in results.slaves)
    assert totals.bytes.compression == sum(one.compressed_no_filter for one in results.slaves)
    assert totals.bytes.both == sum(one.compressed for one in results.slaves)
    assert totals.saved.filter == totals.bytes.no_filter - totals.bytes.filter
    assert totals.saved.both == totals.bytes.no_filter - totals.bytes.both


def test_the_total_for_real_replicas_is_unknown_if_one_is() -> None:
    slaves = made_results(slaves=2, hours=1).slaves
    assert totals_of(slaves, DAY).real_replica is not None
    assert (
        totals_of([slaves[0], slaves[1].model_copy(update={"real_replica": None})], DAY).real_replica is None
    )


def test_a_month_has_730_hours_and_a_gigabyte_10_to_the_9_bytes() -> None:
    hour = Ways(no_filter=10**9, filter=10**8, compression=0, both=0)
    month = month_of(hour, 3600, 0.09)
    assert month is not None
    assert month.bytes.no_filter == 730 * 10**9
    assert month.price is not None
    assert month.price.no_filter == pytest.approx(730 * 0.09)
    assert month.price.filter == pytest.approx(73 * 0.09)


def test_a_short_time_has_no_month_and_says_so() -> None:
    results = made_results(hours=0.5, price=0.09)
    assert results.totals.month is None
    assert all(one.month is None for one in results.slaves)
    assert any("The traffic of a month needs at least" in remark for remark in results.remarks)
    assert with_totals(empty_results()).totals.month is None


def test_less_than_a_day_is_called_rough() -> None:
    def is_rough(results: Results) -> bool:
        return any("rough figure" in remark for remark in results.remarks)

    assert is_rough(made_results(slaves=1, hours=5))
    assert not is_rough(made_results(slaves=1, hours=30))


def test_the_price_is_that_of_the_month() -> None:
    results = made_results(slaves=3, hours=30, price=2.0)
    for one in results.slaves:
        assert one.month is not None
        assert one.month.price is not None
        assert one.month.price.both == pytest.approx(one.month.bytes.both / 1e9 * 2)
    assert results.price_per_gb == 2.0
    assert made_results(slaves=1, hours=30).slaves[0].month.price is None  # type: ignore[union-attr]


def test_compression_that_saves_more_than_the_filters_is_said() -> None:
    results = made_results(slaves=2, hours=30)

    def with_compressed(*sizes: float) -> tuple[str, ...]:
        slaves = [
            one.model_copy(update={"compressed_no_filter": int(one.master_side.bytes * size)})
            for one, size in zip(results.slaves, sizes, strict=True)
        ]
        return with_totals(results.model_copy(update={"slaves": tuple(slaves)})).remarks

    (remark,) = with_compressed(0.5, 0.5)
    assert remark.startswith("Compression alone saves more than the filters: ")
    assert with_compressed(1.0, 1.0) == ()
    assert with_compressed(0.99, 9.0) == ("For 1 of 2 slaves, compression alone saves more than the filter.",)

"""Totals over slaves, the traffic of a month and its price, and the words about them."""

from __future__ import annotations

import pytest

from dumpfilter.analyse.report.measures import Audience
from dumpfilter.analyse.report.text import human_percent
from dumpfilter.spark_jobs.bandwidth.results import Results, Ways, month_of, totals_of, with_totals
from tests.spark_jobs.bandwidth.made_results import empty_results, made_results

DAY = 86_400


def test_totals_are_the_sums_for_whom_the_report_is() -> None:
    results = made_results(slaves=5, hours=2)
    totals = results.totals
    assert totals.slaves == 5
    replicas = [one.real_replica for one in results.slaves]
    assert totals.bytes.no_filter == sum(one.bytes_from_source for one in replicas if one)
    assert totals.bytes.filter == sum(one.bytes for one in replicas if one)
    assert totals.bytes.compression == sum(one.compressed_from_source for one in replicas if one)
    assert totals.bytes.both == sum(one.compressed for one in replicas if one)
    assert totals.saved.filter == totals.bytes.no_filter - totals.bytes.filter
    assert totals.saved.both == totals.bytes.no_filter - totals.bytes.both
    slaves = made_results(slaves=5, hours=2, audience=Audience.SLAVES).totals
    assert slaves.bytes.no_filter == sum(one.no_filter.bytes for one in results.slaves)
    assert slaves.bytes.filter == sum(one.master_side.bytes for one in results.slaves)
    assert slaves.bytes.compression == sum(one.compressed_no_filter for one in results.slaves)
    assert slaves.bytes.both == sum(one.compressed for one in results.slaves)
    assert (totals.of_slaves, totals.of_replicas) == (slaves.bytes, totals.bytes)
    assert (slaves.of_slaves, slaves.of_replicas) == (slaves.bytes, totals.bytes)


def test_the_total_for_real_replicas_is_unknown_if_one_is() -> None:
    slaves = made_results(slaves=2, hours=1).slaves
    without = [slaves[0], slaves[1].model_copy(update={"real_replica": None})]
    assert totals_of(slaves, DAY, Audience.SLAVES).of_replicas is not None
    assert totals_of(without, DAY, Audience.SLAVES).of_replicas is None


@pytest.mark.parametrize("audience", list(Audience))
def test_both_readers_savings_are_told_in_words(audience: Audience) -> None:
    results = made_results(slaves=3, hours=30, audience=audience)
    totals = results.totals
    assert totals.of_replicas is not None
    told = results.remarks[0]
    own, other = ("real replicas", "dumpfilter's own slaves")
    if audience is Audience.SLAVES:
        own, other = other, own
    assert told.startswith(f"For {own} the filters save ")
    assert f"For {other} the filters would save " in told
    for ways in (totals.of_replicas, totals.of_slaves):
        assert human_percent((ways.no_filter - ways.filter) / ways.no_filter) in told
    assert f"{totals.stand_ins:,} stand-ins" in told


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


def test_compression_that_saves_more_than_the_filters_is_named() -> None:
    results = made_results(slaves=2, hours=30, audience=Audience.SLAVES)

    def with_compressed(*sizes: float) -> tuple[str, ...]:
        slaves = [
            one.model_copy(update={"compressed_no_filter": int(one.master_side.bytes * size)})
            for one, size in zip(results.slaves, sizes, strict=True)
        ]
        return with_totals(results.model_copy(update={"slaves": tuple(slaves)})).remarks[1:]

    (remark,) = with_compressed(0.5, 0.5)
    assert remark.startswith("Compression alone saves more than the filters: ")
    assert "with zstd in blocks of 256 KiB" in remark
    assert with_compressed(1.0, 1.0) == ()
    of_replicas = made_results(slaves=12, hours=30)
    saved = of_replicas.totals.saved
    assert saved.compression > saved.filter
    (remark,) = of_replicas.remarks[1:]
    assert "zstd on each transaction alone, as binlog_transaction_compression does" in remark
    assert human_percent(saved.compression / of_replicas.totals.bytes.no_filter) in remark
    assert "In blocks of 256 KiB, zstd alone would save 69 %." in remark

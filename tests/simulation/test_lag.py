from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.analyse.traffic.facts import Ints
from dumpfilter.simulation import lag
from dumpfilter.simulation.results import LagFigures


@st.composite
def journeys(draw: st.DrawFn) -> tuple[Ints, Ints]:
    gaps = draw(st.lists(st.integers(0, 9), min_size=1, max_size=12))
    committed = np.cumsum(gaps, dtype=np.int64)
    waits = draw(st.lists(st.integers(0, 25), min_size=len(gaps), max_size=len(gaps)))
    received = committed + np.array(waits, np.int64)
    if draw(st.booleans()):
        return committed, np.maximum.accumulate(received)
    # The transactions of several origins are received in another order than they were committed.
    order = np.argsort(received, kind="stable")
    return committed[order], received[order]


def _lag_at(committed: Ints, received: Ints, moment: float) -> float:
    ages = [moment - a for a, r in zip(committed, received, strict=True) if a <= moment < r]
    return max(ages, default=0)


@given(journeys(), st.integers(0, 30))
def test_the_time_above_a_limit_is_the_time_in_which_the_oldest_missing_transaction_is_older(
    journey: tuple[Ints, Ints], limit: int
) -> None:
    moments = np.arange(0, int(journey[1][-1]) + 1) + 0.5
    above = sum(_lag_at(*journey, moment) > limit for moment in moments)
    committed, received = journey
    assert lag.measure(committed, received - committed, (0,), limit)[0].above == above


@given(journeys(), st.integers(1, 9))
def test_a_series_has_the_greatest_lag_of_each_span(journey: tuple[Ints, Ints], width: int) -> None:
    count = int(journey[1][-1]) // width + 1
    found = lag.series(*journey, lag.Window(width, count))
    # Lags grow between whole moments, so the greatest one is a moment before a whole moment.
    just_before = [_lag_at(*journey, moment - 0.001) for moment in range(1, count * width + 1)]
    assert found.tolist() == [math.ceil(max(just_before[k * width : (k + 1) * width])) for k in range(count)]


@given(journeys())
def test_percentiles_are_the_least_lag_that_so_many_do_not_exceed(journey: tuple[Ints, Ints]) -> None:
    committed, received = journey
    lags = sorted((received - committed).tolist())
    (found,) = lag.measure(committed, received - committed, (0,), 0)
    for share, value in ((50, found.p50), (95, found.p95), (99, found.p99), (100, found.worst)):
        assert value == next(
            one for one in lags if sum(each <= one for each in lags) * 100 >= share * len(lags)
        )


def test_percentiles_of_many_lags_differ() -> None:
    lags = np.arange(1000)
    (found,) = lag.measure(lags, lags, (0,), 1000)
    assert found == LagFigures(p50=499, p95=949, p99=989, worst=999, above=0)


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 15), st.integers(1, 1000)), min_size=1, max_size=10
    ),
    st.integers(1, 7),
)
def test_every_byte_that_left_is_in_one_span(sent: list[tuple[int, int, int]], width: int) -> None:
    departed, needed, sizes = (np.array(column, np.int64) for column in zip(*sent, strict=True))
    count = int(departed.max()) // width + 1
    found = lag.carried(departed, sizes, needed, lag.Window(width, count))
    assert found.sum() == sizes.sum()
    assert (found >= 0).all()
    there = lag.offered(departed, sizes, lag.Window(width, count))
    assert there.sum() == sizes.sum()


def test_bytes_are_spread_over_the_time_that_they_took() -> None:
    found = lag.carried(np.array([30]), np.array([300]), np.array([30]), lag.Window(10, 4))
    assert found.tolist() == [100, 100, 100, 0]


def test_what_is_ready_after_the_last_receipt_is_in_the_last_span() -> None:
    found = lag.offered(np.array([0, 15, 35]), np.array([1, 20, 300]), lag.Window(10, 2))
    assert found.tolist() == [1, 320]


def test_a_node_has_caught_up_when_its_lag_is_as_before_the_outage() -> None:
    second = 1_000_000
    committed = np.arange(100) * second
    received = committed + second // 5
    # From 20 s to 40 s nothing arrives. Then two transactions arrive every second.
    late = committed >= 20 * second
    received[late] = np.maximum(received[late], 40 * second + np.arange(late.sum()) * second // 2)
    caught_up = lag.catch_up(committed, received, 20 * second, 40 * second)
    assert abs(caught_up - 20 * second) <= second
    # A node that has everything has caught up, even if its last transaction was late.
    assert lag.catch_up(committed[:30], received[:30], 20 * second, 40 * second) == 4.5 * second
    assert lag.catch_up(committed[:20], received[:20], 20 * second, 40 * second) == 0


def test_no_transactions_have_no_lag() -> None:
    empty = np.zeros(0, np.int64)
    assert lag.measure(empty, empty, (0,), 5) == [LagFigures(p50=0, p95=0, p99=0, worst=0, above=0)]


def test_a_transaction_of_gigabytes_leaves_a_slow_link_evenly() -> None:
    # 2 GB need 16,000 s at 1 Mbit/s.
    hour = 3_600_000_000
    needed = np.array([16_000_000_000])
    found = lag.carried(needed, np.array([2 * 10**9]), needed, lag.Window(hour, 5))
    assert found.tolist() == [450_000_000] * 4 + [200_000_000]


_SHARES = (0, 50, 95, 99, 100)


def _nearest_ranks(lags: list[int]) -> list[int]:
    ordered = sorted(lags)
    return [ordered[max(-(-len(lags) * share // 100) - 1, 0)] for share in _SHARES]


@given(st.lists(st.one_of(st.integers(-9, 9), st.integers(-(1 << 40), 1 << 60)), min_size=1, max_size=300))
def test_percentiles_of_any_numbers(lags: list[int]) -> None:
    assert lag.percentiles_of(np.array([lags], np.int64), _SHARES) == [_nearest_ranks(lags)]


@given(
    st.lists(st.one_of(st.integers(0, 9), st.integers(0, 2**31 - 1)), min_size=1, max_size=50),
    st.integers(1, 40),
)
def test_percentiles_of_short_lags(lags: list[int], times: int) -> None:
    rows = [[lag for lag in lags for _ in range(times)], sorted(lags) * times]
    assert lag.percentiles_of(np.array(rows, np.int32), _SHARES) == [_nearest_ranks(row) for row in rows]

"""Tests of the bytes and transactions over time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.analyse.inspection.rates import MOST_BUCKETS, Bucket, Rates, main_span


@given(
    parts=st.lists(
        st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**31)), min_size=1, max_size=40),
        max_size=8,
    )
)
def test_sums(parts: list[list[tuple[int, int]]]) -> None:
    """Nothing is lost, and each transaction counts in the bucket of its time, whatever the pieces are."""
    rates = Rates()
    for part in parts:
        rates.add(np.array([time for time, _ in part]), np.array([size for _, size in part]))
    expected: dict[int, tuple[int, int]] = {}
    last = 0
    for time, size in (pair for part in parts for pair in part):
        last = time or last
        before = expected.get(last // rates.seconds, (0, 0))
        expected[last // rates.seconds] = (before[0] + size, before[1] + 1)
    assert [tuple(one) for one in rates.buckets()] == [
        (number * rates.seconds, *expected[number]) for number in sorted(expected)
    ]


def test_buckets_become_wider() -> None:
    """The number of buckets is bounded, and their width is a power of two."""
    rates = Rates()
    times = np.arange(0, 10 * MOST_BUCKETS, 3) + 1
    rates.add(times, np.ones(len(times), np.int64))
    assert len(rates.buckets()) <= MOST_BUCKETS
    assert rates.seconds == 16
    assert sum(one.transactions for one in rates.buckets()) == len(times)


def test_timestamps_that_go_back() -> None:
    """A step back is counted, also between two segments. A missing timestamp is no step."""
    rates = Rates()
    rates.add(np.array([100, 90, 0, 95]), np.ones(4, np.int64))
    rates.add(np.array([20, 21]), np.ones(2, np.int64))
    assert (rates.backward, rates.largest_step_back) == (2, 75)


def test_main_span_leaves_stray_timestamps_out() -> None:
    busy = [Bucket(1_700_000_000 + k, 10, 5) for k in range(50)]
    assert main_span([Bucket(1, 1, 1), *busy, Bucket(4_000_000_000, 1, 1)]) == (1, 51)
    assert main_span(busy) == (0, 50)
    assert main_span([]) == (0, 0)

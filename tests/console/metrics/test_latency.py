"""Recorders of durations."""

from __future__ import annotations

import time

from dumpfilter.console.facts import Latency

NAP = (0.1, 1.0, 10.0)


def values(latency: Latency) -> dict[str, float]:
    buckets, total = latency.buckets()
    return dict(buckets) | {"sum": total}


def test_durations_go_into_buckets() -> None:
    nap = Latency(NAP)
    for seconds in (0.05, 0.5, 0.5, 100.0):
        nap.observe(seconds)
    assert values(nap) == {
        "0.1": 1,
        "1.0": 3,
        "10.0": 3,
        "+Inf": 4,
        "sum": 101.05,
    }


def test_a_moment_in_the_future_counts_as_now() -> None:
    nap = Latency(NAP)
    nap.observe_since(time.time() + 1000)
    assert values(nap)["sum"] == 0


def test_an_unknown_moment_is_not_recorded() -> None:
    nap = Latency(NAP)
    nap.observe_since(None)
    assert values(nap)["+Inf"] == 0


def test_a_block_is_measured_even_if_it_fails() -> None:
    nap = Latency(NAP)
    try:
        with nap.measured():
            raise KeyError
    except KeyError:
        pass
    assert values(nap)["+Inf"] == 1

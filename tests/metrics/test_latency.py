"""Recorders of durations."""

from __future__ import annotations

import time

from dumpfilter.metrics.definition import histogram
from dumpfilter.metrics.latency import Latency, family_of

NAP = histogram("nap_seconds", "Naps.", (0.1, 1.0, 10.0), ("cat",))


def values(latency: Latency) -> dict[str, float]:
    return {
        one.name.removeprefix("nap_seconds_") + one.labels.get("le", ""): one.value
        for one in latency.samples()
    }


def test_durations_go_into_buckets() -> None:
    nap = Latency(NAP)
    for seconds in (0.05, 0.5, 0.5, 100.0):
        nap.observe(seconds)
    assert values(nap) == {
        "bucket0.1": 1,
        "bucket1.0": 3,
        "bucket10.0": 3,
        "bucket+Inf": 4,
        "count": 4,
        "sum": 101.05,
    }


def test_a_moment_in_the_future_counts_as_now() -> None:
    nap = Latency(NAP)
    nap.observe_since(time.time() + 1000)
    assert values(nap)["sum"] == 0


def test_an_unknown_moment_is_not_recorded() -> None:
    nap = Latency(NAP)
    nap.observe_since(None)
    assert values(nap)["count"] == 0


def test_a_block_is_measured_even_if_it_fails() -> None:
    nap = Latency(NAP)
    try:
        with nap.measured():
            raise KeyError
    except KeyError:
        pass
    assert values(nap)["count"] == 1


def test_recorders_share_a_metric() -> None:
    tom, kit = Latency(NAP), Latency(NAP)
    tom.observe(5)
    metric = family_of(NAP, [({"cat": "tom"}, tom), ({"cat": "kit"}, kit)])
    counts = {one.labels["cat"]: one.value for one in metric.samples if one.name == "nap_seconds_count"}
    assert counts == {"tom": 1, "kit": 0}
    assert not [one for one in metric.samples if one.name.endswith("_created")]

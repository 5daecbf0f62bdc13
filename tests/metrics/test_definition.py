"""Definitions of metrics, and the samples that a scrape gets from them."""

from __future__ import annotations

import threading

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from dumpfilter.metrics.definition import Reading, counter, gauge, histogram


class Fixed(Collector):
    def __init__(self, *metrics: Metric) -> None:
        self.metrics = metrics

    def collect(self) -> tuple[Metric, ...]:
        return self.metrics


def text_of(*metrics: Metric) -> str:
    collectors = CollectorRegistry(auto_describe=False)
    collectors.register(Fixed(*metrics))
    return generate_latest(collectors).decode()


def test_a_value_of_none_has_no_sample() -> None:
    depth = gauge("pond_depth_metres", "Depth.", ("pond",))
    reading = Reading(depth, lambda pond: None if pond == "dry" else 2.5)
    metric = reading.family([({"pond": "dry"}, "dry"), ({"pond": "wet"}, "wet")])
    assert text_of(metric).splitlines() == [
        "# HELP pond_depth_metres Depth.",
        "# TYPE pond_depth_metres gauge",
        'pond_depth_metres{pond="wet"} 2.5',
    ]


def test_a_counter_has_one_total_in_its_name() -> None:
    frogs = counter("frogs_total", "Frogs.")
    assert text_of(frogs.family([({}, 3)])).splitlines()[1:] == [
        "# TYPE frogs_total counter",
        "frogs_total 3.0",
    ]
    assert frogs.series == ("frogs_total",)


def test_a_histogram_has_three_series() -> None:
    assert histogram("jump_seconds", "Jumps.", (1.0,)).series == (
        "jump_seconds_bucket",
        "jump_seconds_count",
        "jump_seconds_sum",
    )


def test_label_values_are_escaped() -> None:
    metric = gauge("pond", "Ponds.", ("name",)).family([({"name": 'a "deep"\nand \\ wide'}, 1)])
    assert r'pond{name="a \"deep\"\nand \\ wide"} 1.0' in text_of(metric)


def test_a_long_scrape_lets_other_threads_run() -> None:
    metric = gauge("pond", "Ponds.", ("name",)).family([({"name": str(n)}, n) for n in range(100_000)])
    turns = 0
    done = threading.Event()

    def other() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1

    thread = threading.Thread(target=other)
    thread.start()
    seen = 0
    turns_seen = set()
    for _ in metric.samples:
        seen += 1
        turns_seen.add(turns)
    done.set()
    thread.join()
    assert seen == 100_000
    assert len(turns_seen) > 10

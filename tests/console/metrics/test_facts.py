"""Facts, and the tables, documents and samples that are made from them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from dumpfilter.console import facts
from dumpfilter.console.facts import Facts, Latency, column, metric
from dumpfilter.console.sql.result import ColumnType


class Fixed(Collector):
    def __init__(self, *metrics: Metric) -> None:
        self.metrics = metrics

    def collect(self) -> tuple[Metric, ...]:
        return self.metrics


def text_of(*metrics: Metric) -> str:
    collectors = CollectorRegistry(auto_describe=False)
    collectors.register(Fixed(*metrics))
    return generate_latest(collectors).decode()


class Pond(NamedTuple):
    """A thing with facts."""

    name: str
    depth: float | None = None
    frogs: int = 0
    frozen_at: float | None = None
    is_frozen: bool = False
    jumps: Latency = Latency((1.0,))


class Ponds(Facts[Pond], prefix="pond_", labels={"pond": lambda pond: pond.name}):
    """The facts of ponds."""

    name = column(type=ColumnType.TEXT)
    depth = column(type=ColumnType.DOUBLE, metric="depth_metres")
    """Depth."""
    frogs = column(metric="frogs_total")
    """Frogs."""
    iced = column("is_frozen")
    since = column(lambda pond: pond.frozen_at, ColumnType.TIMESTAMP, metric="frozen_timestamp")
    """Frozen."""
    jumps = metric(type=Latency)
    """Jumps,
    high and far."""


def test_the_attributes_of_a_class_declare_facts_with_their_help() -> None:
    assert [(one.name, one.metric, one.kind, one.help) for one in Ponds.metrics] == [
        ("depth", "pond_depth_metres", "gauge", "Depth."),
        ("frogs", "pond_frogs_total", "counter", "Frogs."),
        ("since", "pond_frozen_timestamp", "gauge", "Frozen."),
        ("jumps", "pond_jumps", "histogram", "Jumps, high and far."),
    ]
    pond = Pond("a", 2.5, 3, 0.5, is_frozen=True)
    assert Ponds.metrics[-1].reader(pond) is pond.jumps


def test_a_table_has_the_named_facts() -> None:
    table = Ponds.table([Pond("a", 2.5, 3, 0.5, is_frozen=True), Pond("b")])
    assert [column.name for column in table.columns] == ["name", "depth", "frogs", "iced", "since"]
    assert table.columns[4].type is ColumnType.TIMESTAMP
    moment = datetime.fromtimestamp(0.5, UTC)
    assert table.rows == [["a", 2.5, 3, 1, moment], ["b", None, 0, 0, None]]
    assert type(table.rows[0][3]) is int


def test_a_document_has_values_for_json() -> None:
    document = Ponds.document(Pond("a", 2.5, 3, 0.5, is_frozen=True))
    assert document == {"name": "a", "depth": 2.5, "frogs": 3, "iced": True, "since": 0.5}
    assert json.loads(json.dumps(document)) == document


def test_each_metric_has_a_sample_for_each_thing_that_has_a_value() -> None:
    lines = text_of(*Ponds.families([Pond("dry"), Pond("wet", 2.5, 3)])).splitlines()
    assert lines[:6] == [
        "# HELP pond_depth_metres Depth.",
        "# TYPE pond_depth_metres gauge",
        'pond_depth_metres{pond="wet"} 2.5',
        "# HELP pond_frogs_total Frogs.",
        "# TYPE pond_frogs_total counter",
        'pond_frogs_total{pond="dry"} 0.0',
    ]
    assert "# TYPE pond_jumps histogram" in lines
    assert sum(line.startswith('pond_jumps_count{pond="') for line in lines) == 2
    assert not any("_created" in line for line in lines)


def test_label_values_are_escaped() -> None:
    text = text_of(*Ponds.families([Pond('a "deep"\nand \\ wide')]))
    assert r'pond_frogs_total{pond="a \"deep\"\nand \\ wide"} 0.0' in text


SAMPLES = 4000
"""The samples of a long scrape. The scrape lets other threads run after every 64 samples."""


def test_a_long_scrape_lets_other_threads_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sleep of 0 seconds hands the interpreter's lock over. Which thread gets it, only the machine knows."""
    pauses: list[float] = []
    # Threads that earlier tests have left, such as gRPC's, may sleep meanwhile.
    monkeypatch.setattr(facts, "time", SimpleNamespace(sleep=pauses.append))
    (_, metric, *_) = Ponds.families(Pond(str(number)) for number in range(SAMPLES))
    assert len([*metric.samples]) == SAMPLES
    assert pauses == [0] * (SAMPLES // 64)

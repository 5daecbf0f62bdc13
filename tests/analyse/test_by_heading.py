"""Tests of the bytes over time that ``dumpfilter inspect --over-time`` shows."""

from __future__ import annotations

import json
from collections import Counter
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from dumpfilter.analyse import by_heading
from dumpfilter.analyse.by_heading import (
    MOST_PERIODS,
    STATEMENTS,
    ByHeading,
    Heading,
    Headings,
    HeadingSums,
    OverTimeOptions,
    Volume,
)
from dumpfilter.analyse.inspection import Inspection, Inspector, inspect_set, render_inspection
from dumpfilter.analyse.report.measures import Division, OverTime
from dumpfilter.analyse.traffic.facts import Conditions, Facts
from dumpfilter.binlog.workload import START, Span, generate
from dumpfilter.dump.packets.stand_ins import Stretches
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.subjects import TableSubject
from tests.commands.in_process import run
from tests.support import DATA, RECORDED_SETS, recording_id

ROWS = DATA / "oracle" / "mysql-row"


def _totals(found: OverTime) -> Counter[str]:
    return sum((Counter(one.bytes) for one in found.periods), Counter())


@pytest.mark.parametrize("path", RECORDED_SETS, ids=recording_id)
@pytest.mark.every_recording
def test_the_periods_add_up_to_the_totals(path: Path) -> None:
    binlogs = BinlogSet.open(path)
    found = inspect_set(binlogs, over_time=OverTimeOptions(Division.SCHEMA))
    assert found.over_time is not None
    assert 0 < len(found.over_time.periods) <= MOST_PERIODS
    schemas = {name: volume.bytes for name, volume in found.schemas().items()}
    for name, nbytes in _totals(found.over_time).items():
        # Gap events and transactions that are not opened have no schema and no period.
        assert nbytes == schemas[name] if not name.startswith("(no") else nbytes <= schemas[name]
    times = [one.start for one in found.over_time.periods if one.start]
    assert found.first_time is not None
    assert found.last_time is not None
    assert min(times) + found.over_time.period_seconds > found.first_time
    assert max(times) <= found.last_time


def test_tables_have_the_bytes_of_their_schema() -> None:
    of_tables, of_schemas = (
        inspect_set(BinlogSet.open(ROWS), over_time=OverTimeOptions(by, 60)).over_time
        for by in (Division.TABLE, Division.SCHEMA)
    )
    assert of_tables is not None
    assert of_schemas is not None
    assert of_tables.period_seconds == of_schemas.period_seconds == 60
    assert "shop.orders" in of_tables.names
    by_schema = {one.start: one.bytes for one in of_schemas.periods}
    for found in of_tables.periods:
        shop = sum(n for name, n in found.bytes.items() if name.startswith(("shop.", "shop (")))
        assert shop == by_schema[found.start].get("shop", 0)


def test_memory_is_bounded_by_longer_periods(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    index = generate(tmp_path, 1 << 20, schemas=2, tables=2, span=Span(START, 60)).index
    whole = inspect_set(BinlogSet.open(index), over_time=OverTimeOptions(Division.TABLE, 1)).over_time
    monkeypatch.setattr(by_heading, "MOST_SUMS", 8)
    monkeypatch.setattr(by_heading, "_SEGMENTS", 1)
    monkeypatch.setattr(by_heading, "_MOST_CONDITIONS", 0)
    coarse = inspect_set(BinlogSet.open(index), over_time=OverTimeOptions(Division.TABLE, 1)).over_time
    assert whole is not None
    assert coarse is not None
    assert coarse.period_seconds > whole.period_seconds
    assert _totals(coarse) == _totals(whole)


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_fits_the_terminal(width: int) -> None:
    found = inspect_set(BinlogSet.open(ROWS), over_time=OverTimeOptions(Division.TABLE))
    out = StringIO()
    render_inspection(found, Console(file=out, width=width))
    lines = out.getvalue().split("over time, ")[1].split("\n")
    at = next(k for k, line in enumerate(lines) if line.startswith("Largest"))
    shown = [line for line in lines[:at] if line.startswith("20")]
    assert found.over_time is not None
    assert len(shown) == len(found.over_time.periods)
    assert max(map(len, lines[:at])) <= width
    assert "more" in lines[1]


def test_command() -> None:
    made = json.loads(run("inspect", str(ROWS), "--over-time", "schema", "--period", "3600", "--json").stdout)
    assert made["over_time"]["by"] == "schema"
    assert made["over_time"]["period_seconds"] == 3600
    shop = sum(one["bytes"].get("shop", 0) for one in made["over_time"]["periods"])
    assert shop == made["schemas"]["shop"]["bytes"]
    assert "over_time" not in json.loads(run("inspect", str(ROWS), "--json").stdout)
    refused = run("inspect", str(ROWS), "--period", "60")
    assert "--over-time" in refused.stderr


def test_tables_with_one_displayed_name_are_added_up() -> None:
    zeros, numbers = np.zeros(2, np.int64), np.arange(2)
    facts = Facts(
        (TableSubject("a.b", "c"), TableSubject("a", "b.c")),
        Conditions(np.full(2, -1, np.int32), np.arange(3), numbers.astype(np.int32)),
        (None,),
        1,
        False,
        Stretches(),
        numbers,
        zeros,
        zeros,
        np.array([30, 4]),
        *[zeros] * 5,
    )
    assert Headings(facts).by_name(facts.bytes, np.ones(2, np.bool_)) == {"a.b.c": 34}


def test_a_table_may_have_the_name_that_stands_for_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    headings = [
        Heading("shop", STATEMENTS, f"shop.{STATEMENTS}"),
        Heading("shop", None, f"shop {STATEMENTS}"),
    ]
    volumes = np.array([[1, 30, 30, 1], [2, 4, 4, 1]])
    sums = HeadingSums(1, headings, np.arange(2), np.zeros(2, np.int64), volumes)
    monkeypatch.setattr(ByHeading, "sums", lambda self: sums)
    found = Inspection("8.4.0", "mysql")
    Inspector(found).finish()
    assert found.tables["shop", STATEMENTS] == Volume(3, 34, 34)

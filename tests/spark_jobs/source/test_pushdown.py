"""Filters that Spark pushes down keep the rows that SQL's three-valued logic keeps, row by row."""

from __future__ import annotations

import datetime
import functools
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import datasource as D

from dumpfilter.spark_jobs.binlog_source import cheap_first, predicate_of
from dumpfilter.spark_jobs.ranges import Range
from dumpfilter.spark_jobs.source.columns import TYPES
from dumpfilter.spark_jobs.source.options import SourceOptions
from dumpfilter.spark_jobs.source.reading import may_hold, plan_ranges, read_batches
from tests.spark_jobs.plain_events import events_of
from tests.support import RECORDED

PATHS = [path for path in RECORDED if path.parent.name in ("mysql-mixed", "mariadb-row")]


@functools.cache
def rows_of(path: Path) -> list[dict[str, Any]]:
    return events_of(path.read_bytes(), path.name)


def plain(filter: D.Filter, value: Any) -> bool | None:
    """Evaluate a filter on one value with SQL's logic."""
    other = getattr(filter, "value", None)
    match filter:
        case D.Not(child):
            found = plain(child, value)
            return None if found is None else not found
        case D.IsNull():
            return value is None
        case D.IsNotNull():
            return value is not None
        case D.EqualNullSafe():
            return bool(value == other)
        case D.In():
            if value is None or (None in other and value not in other):
                return None
            return value in other
    if value is None or other is None:
        return None
    match filter:
        case D.EqualTo():
            return bool(value == other)
        case D.LessThan():
            return bool(value < other)
        case D.LessThanOrEqual():
            return bool(value <= other)
        case D.GreaterThan():
            return bool(value > other)
        case D.GreaterThanOrEqual():
            return bool(value >= other)
        case D.StringStartsWith():
            return bool(value.startswith(other))
        case D.StringEndsWith():
            return bool(value.endswith(other))
        case D.StringContains():
            return other in value
    raise AssertionError(filter)


def column_of(filter: Any) -> str:
    (name,) = (filter.child if isinstance(filter, D.Not) else filter).attribute
    return str(name)


COMPARISONS = (
    D.EqualTo,
    D.EqualNullSafe,
    D.LessThan,
    D.LessThanOrEqual,
    D.GreaterThan,
    D.GreaterThanOrEqual,
)


@st.composite
def filters(draw: st.DrawFn) -> D.Filter:
    """One that compares with what is there, or with something close to it."""
    name = draw(st.sampled_from(list(TYPES)))
    there = sorted({row[name] for path in PATHS for row in rows_of(path)} - {None})
    values = st.sampled_from(there)
    if TYPES[name] == pa.string():
        values |= values.map(lambda text: text[:-1]) | values.map(lambda text: text[2:])
    elif name in ("position", "size", "rows"):
        values |= st.integers(-5, 1 << 40)
    elif name == "timestamp":
        values |= values.map(lambda time: time + datetime.timedelta(microseconds=1))
    made: st.SearchStrategy[D.Filter] = st.one_of(
        *(st.builds(kind, st.just((name,)), values) for kind in COMPARISONS),
        st.builds(D.In, st.just((name,)), st.lists(values | st.none(), max_size=4).map(tuple)),
        st.sampled_from([D.IsNull((name,)), D.IsNotNull((name,)), D.EqualNullSafe((name,), None)]),
        st.just(D.EqualTo((name,), None)),
    )
    if TYPES[name] == pa.string():
        texts = (D.StringStartsWith, D.StringEndsWith, D.StringContains)
        made |= st.one_of(*(st.builds(kind, st.just((name,)), values) for kind in texts))
    return draw(made | st.builds(D.Not, made))


@settings(deadline=None)
@given(path=st.sampled_from(PATHS), asked=st.lists(filters(), min_size=1, max_size=3))
def test_filters_keep_what_sql_keeps(path: Path, asked: list[D.Filter]) -> None:
    predicates = cheap_first(predicate for one in asked if (predicate := predicate_of(one)) is not None)
    assert len(predicates) == len(asked)
    whole = Range(str(path), 4, path.stat().st_size)
    found = [
        row
        for batch in read_batches(
            whole, SourceOptions(""), ["position", "inner"], predicates, block_size=4096
        )
        for row in batch.to_pylist()
    ]
    wanted = [
        {"position": row["position"], "inner": row["inner"]}
        for row in rows_of(path)
        if all(plain(one, row[column_of(one)]) for one in asked)
    ]
    assert found == wanted


@settings(deadline=None)
@given(asked=filters(), cuts=st.sets(st.integers(5, 6000), max_size=6))
def test_no_range_is_passed_over_that_holds_what_is_asked_for(asked: D.Filter, cuts: set[int]) -> None:
    predicate = predicate_of(asked)
    assert predicate is not None
    bounds = [4, *sorted(cuts), 1 << 40]
    for path in PATHS:
        for start, end in pairwise(bounds):
            within = [row for row in rows_of(path) if start <= row["position"] < end]
            if any(plain(asked, row[predicate.column]) for row in within):
                assert may_hold([predicate], path.name, start, end)


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        (D.EqualTo(("position",), 150), [100]),
        (D.In(("position",), (20, 320)), [4, 300]),
        (D.LessThan(("position",), 100), [4]),
        (D.LessThanOrEqual(("position",), 100), [4, 100]),
        (D.GreaterThan(("position",), 299), [300]),
        (D.GreaterThanOrEqual(("position",), 299), [100, 300]),
        (D.EqualTo(("position",), None), []),
        (D.Not(D.EqualTo(("position",), 150)), [4, 100, 300]),
        (D.EqualTo(("file",), "bin.000001"), [4, 100, 300]),
        (D.EqualTo(("file",), "bin.000002"), []),
        (D.StringEndsWith(("file",), "2"), []),
    ],
)
def test_ranges_are_passed_over(asked: D.Filter, kept: list[int]) -> None:
    predicate = predicate_of(asked)
    assert predicate is not None
    found = [
        start
        for start, end in pairwise((4, 100, 300, 400))
        if may_hold([predicate], "bin.000001", start, end)
    ]
    assert found == kept


def test_a_file_that_is_not_asked_for_is_not_opened(tmp_path: Path) -> None:
    good, bad = tmp_path / "bin.000001", tmp_path / "bin.000002"
    good.write_bytes(PATHS[0].read_bytes())
    bad.write_bytes(b"no binlog")
    predicate = predicate_of(D.StringEndsWith(("file",), "01"))
    assert predicate is not None
    found = plan_ranges(SourceOptions([str(good), str(bad)]), [predicate])
    assert {one.path for one in found} == {str(good.resolve())}


def test_a_file_whose_name_is_not_utf8_is_asked_for_as_its_column_has_it() -> None:
    wanted = predicate_of(D.EqualTo(("file",), "caf\ufffd.000001"))
    other = predicate_of(D.EqualTo(("file",), "cafe.000001"))
    assert wanted is not None
    assert other is not None
    assert may_hold([wanted], "/set/caf\udce9.000001", 4, 100)
    assert not may_hold([other], "/set/caf\udce9.000001", 4, 100)


@pytest.mark.parametrize(
    "asked",
    [
        D.EqualTo(("nowhere",), 1),
        D.EqualTo(("size", "inner"), 1),
        D.EqualTo(("size",), 1.5),
        D.EqualTo(("size",), True),
        D.EqualTo(("timestamp",), datetime.datetime(2026, 1, 1)),
        D.In(("type",), ("Query", 3)),
        D.StringContains(("size",), "1"),
        D.Not(D.EqualTo(("size",), "1")),
    ],
)
def test_what_is_not_understood_is_left_to_spark(asked: D.Filter) -> None:
    assert predicate_of(asked) is None


def test_costly_columns_are_asked_last() -> None:
    found = [predicate_of(D.IsNotNull((name,))) for name in ("rows", "size", "gtid", "type")]
    predicates = cheap_first(one for one in found if one is not None)
    assert [predicate.column for predicate in predicates] == ["size", "type", "rows", "gtid"]


@pytest.mark.parametrize("column", ["before", "after", "row"])
def test_spark_evaluates_conditions_on_row_images(column: str) -> None:
    exploded = SourceOptions.parse({"path": "x", "rows": "exploded"})
    assert column in exploded.types
    for condition in (D.IsNull((column,)), D.IsNotNull((column,)), D.Not(D.IsNull((column,)))):
        assert predicate_of(condition, exploded.types) is None
    assert predicate_of(D.EqualTo(("row",), 0), exploded.types) is None

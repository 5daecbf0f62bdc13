"""The columns with row images, and the exploded form with a row for each changed row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.rows import MAP_TYPE, ChangedRows
from dumpfilter.spark_jobs.source.columns import TYPES, exploded, image_lists, joined
from dumpfilter.spark_jobs.source.options import SourceOptions
from dumpfilter.spark_jobs.source.reading import plan_ranges, read_batches
from tests.support import RECORDED_SETS


def read(directory: Path, **given: str) -> list[dict[str, Any]]:
    options = SourceOptions.parse({"path": str(directory), "rangeSize": "3000", **given})
    return [
        row
        for one in plan_ranges(options)
        for batch in read_batches(one, options, block_size=900)
        for row in batch.to_pylist()
    ]


PLACE = "file,position,inner,statement_kind,rows"


@pytest.mark.parametrize("name", ["mysql-row", "mysql-payloads", "mariadb-row"])
def test_each_changed_row_has_its_images(name: str) -> None:
    directory = next(path for path in RECORDED_SETS if path.name == name)
    events = read(directory, columns=f"{PLACE},before,after")
    lines: list[tuple[Any, ...]] = []
    for event in events:
        place = tuple(event[column] for column in PLACE.split(","))
        before, after = event["before"], event["after"]
        count = event["rows"]
        assert (before is None, after is None) == (
            (True, True)
            if not count
            else (event["statement_kind"] == "INSERT", event["statement_kind"] == "DELETE")
        )
        for row in range(count) if count else [None]:
            images = (None if row is None or side is None else side[row] for side in (before, after))
            lines.append((*place, row, *images))
    assert max(event["rows"] or 0 for event in events) > 1
    found = read(directory, columns=f"{PLACE},row,before,after", rows="exploded")
    assert [tuple(row.values()) for row in found] == lines


def test_conditions_and_filters_come_before_the_images() -> None:
    directory = next(path for path in RECORDED_SETS if path.name == "mysql-row")
    everything = read(
        directory, columns="table,sent_web,after", **{"slave.web": "--replicate-do-table=shop.orders"}
    )
    passed = read(directory, columns="table,after", filter="--replicate-do-table=shop.orders")
    assert passed == [{"table": row["table"], "after": row["after"]} for row in everything if row["sent_web"]]
    assert {row["table"] for row in passed if row["after"]} == {"orders"}


def test_the_exploded_form_has_other_columns() -> None:
    assert "before" not in SourceOptions("").columns
    assert SourceOptions("", exploded=True).columns == (*TYPES, "row", "before", "after")
    with pytest.raises(OptionError, match="the column row needs the option rows=exploded"):
        SourceOptions.parse({"path": "/there", "columns": "row"})


@given(counts=st.lists(st.integers(0, 4), min_size=1, max_size=8), cut=st.integers(0, 8))
def test_images_keep_their_events(counts: list[int], cut: int) -> None:
    event = np.repeat(np.arange(len(counts)), counts)
    after = pa.array([[("n", str(n))] for n in range(event.size)], MAP_TYPE)
    before = pa.nulls(event.size, MAP_TYPE)
    early = event < cut
    parts = [
        ChangedRows(event[mask], before.filter(pa.array(mask)), after.filter(pa.array(mask)))
        for mask in (~early, early)
    ]
    whole = joined(parts)
    assert whole.event.tolist() == event.tolist()
    assert whole.after.equals(after)
    rows = exploded(whole, len(counts))
    assert rows["event"].to_pylist() == np.repeat(np.arange(len(counts)), np.maximum(counts, 1)).tolist()
    assert rows["after"].drop_null().equals(after)
    assert rows["row"].null_count == counts.count(0)
    lists = image_lists(whole.after, whole.event, len(counts))
    assert [len(one or ()) for one in lists.to_pylist()] == counts
    assert image_lists(whole.before, whole.event, len(counts)).null_count == len(counts)

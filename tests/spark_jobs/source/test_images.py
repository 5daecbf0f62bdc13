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
from dumpfilter.binlog.rows.arrow import MAP_TYPE, ChangedRows
from dumpfilter.spark_jobs.source.columns import TYPES, exploded
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
    events = read(directory, columns=PLACE)
    rows = read(directory, columns=f"{PLACE},row,before,after", rows="exploded")
    assert max(event["rows"] or 0 for event in events) > 1
    lines = iter(rows)
    for event in events:
        for number in range(event["rows"]) if event["rows"] else [None]:
            row = next(lines)
            assert {**event, "row": number} == {name: row[name] for name in (*event, "row")}
            kind = event["statement_kind"] if event["rows"] else None
            assert (row["before"] is None, row["after"] is None) == (
                kind not in ("UPDATE", "DELETE"),
                kind not in ("UPDATE", "INSERT"),
            )
    assert not list(lines)


def test_rows_in_compressed_transactions_are_found_without_their_images() -> None:
    directory = next(path for path in RECORDED_SETS if path.name == "mysql-payloads")
    rows = read(directory, columns="position,rows,row,after", rows="exploded")
    assert read(directory, columns="position,rows,row", rows="exploded") == [
        {name: row[name] for name in ("position", "rows", "row")} for row in rows
    ]


def test_conditions_and_filters_come_before_the_images() -> None:
    directory = next(path for path in RECORDED_SETS if path.name == "mysql-row")
    rules = "--replicate-do-table=shop.orders"
    everything = read(directory, rows="exploded", columns="table,sent_web,after", **{"slave.web": rules})
    passed = read(directory, rows="exploded", columns="table,after", filter=rules)
    assert passed == [{"table": row["table"], "after": row["after"]} for row in everything if row["sent_web"]]
    assert {row["table"] for row in passed if row["after"]} == {"orders"}


def test_the_exploded_form_has_other_columns() -> None:
    assert "before" not in SourceOptions("").columns
    assert SourceOptions("", exploded=True).columns == (*TYPES, "row", "before", "after")
    with pytest.raises(OptionError, match="; the option rows=exploded makes row, after"):
        SourceOptions.parse({"path": "/there", "columns": "type,row,after"})


@given(counts=st.lists(st.integers(0, 4), min_size=1, max_size=8))
def test_images_keep_their_events(counts: list[int]) -> None:
    event = np.repeat(np.arange(len(counts)), counts)
    after = pa.array([[("n", str(n))] for n in range(event.size)], MAP_TYPE)
    images = ChangedRows(event, pa.nulls(event.size, MAP_TYPE), after)
    rows = exploded(images, np.ones(len(counts), np.bool_), others=True)
    assert rows["event"].to_pylist() == np.repeat(np.arange(len(counts)), np.maximum(counts, 1)).tolist()
    assert rows["after"].drop_null().equals(after)
    assert rows["row"].null_count == counts.count(0)
    assert rows["rows"].to_pylist() == np.repeat(counts, np.maximum(counts, 1)).tolist()
    assert exploded(images, np.ones(len(counts), np.bool_), others=False).equals(
        rows.filter(rows["row"].is_valid())
    )

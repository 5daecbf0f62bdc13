"""The Parquet tables of reports: types, statistics, and their documentation."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow.parquet as pq

from dumpfilter.analyse.report.parquet import INT, TEXT, TIME, Column, ParquetTable, write_tables
from dumpfilter.spark_jobs.bandwidth import output as bandwidth
from tests.docs.tutorial import ROOT

MADE = ParquetTable(
    "each hour",
    (Column("name", TEXT, "a name"), Column("start", TIME, "an hour"), Column("bytes", INT, "its bytes")),
)


def test_rows_have_statistics(tmp_path: Path) -> None:
    hours = [datetime.datetime(2026, 3, 1, hour, tzinfo=datetime.UTC) for hour in (5, 3, 9)]
    rows = [{"name": name, "start": hour} for name in ("b", None, "a") for hour in hours]
    write_tables({"made": MADE.of_rows(rows)}, tmp_path)
    file = pq.ParquetFile(tmp_path / "made.parquet")
    table = file.read()
    assert table["name"].to_pylist() == ["b"] * 3 + [None] * 3 + ["a"] * 3
    assert table["start"].to_pylist()[:3] == hours
    assert table["bytes"].null_count == 9
    group = file.metadata.row_group(0)
    assert (group.column(0).statistics.min, group.column(0).statistics.max) == ("a", "b")
    assert table.schema.field("bytes").metadata == {b"meaning": b"its bytes"}


def test_the_documentation_has_every_column() -> None:
    forms = bandwidth.FORMS
    text = (ROOT / "docs" / "bandwidth.md").read_text("utf-8")
    for name, form in forms.items():
        table = text.partition(f"`{name}.parquet` has a row for {form.row}")[2].partition(".parquet` has")[0]
        for column in form.columns:
            rows = [one for one in table.splitlines() if one.startswith("- ")]
            row = next((one for one in rows if f"`{column.name}`" in one.split(": ")[0]), "")
            assert row.endswith(f": {column.meaning}"), f"run tools/doc_tables.py: {name}.{column.name}"

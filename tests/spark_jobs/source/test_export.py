"""The export of events as Parquet: the rows of the data source, with statistics by file."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dumpfilter.errors import BinlogError, OutputError
from dumpfilter.spark_jobs.engines.runner import run_here
from dumpfilter.spark_jobs.source.export import VERSION_KEY, export_events
from dumpfilter.spark_jobs.source.options import SourceOptions
from dumpfilter.spark_jobs.source.planning import plan_ranges
from dumpfilter.spark_jobs.source.reading import read_batches
from tests.commands.in_process import run
from tests.spark_jobs.plain_events import events_of
from tests.support import DATA

MIXED = DATA / "oracle" / "mysql-mixed"


def test_each_binlog_is_a_file_with_the_rows_of_the_source(tmp_path: Path) -> None:
    given = {"path": str(MIXED), "slave.web": "--replicate-do-db=shop"}
    found = export_events(given, tmp_path / "events", run_here)
    assert [each.path.name for each in found] == [
        f"bin.{number:06}.parquet" for number in range(1, len(found) + 1)
    ]
    options = SourceOptions.parse(given)
    rows = [
        row
        for one in plan_ranges(options)
        for batch in read_batches(one, options)
        for row in batch.to_pylist()
    ]
    assert [row for each in found for row in pq.read_table(each.path).to_pylist()] == rows
    assert {row["sent_web"] for row in rows} == {True, False}
    first = pq.ParquetFile(found[0].path)
    statistics = first.metadata.row_group(0).column(first.schema_arrow.names.index("position")).statistics
    assert (statistics.min, statistics.max) == (
        4,
        max(r["position"] for r in rows if r["file"] == "bin.000001"),
    )
    assert VERSION_KEY.encode() in first.schema_arrow.metadata


def test_a_failed_export_leaves_no_half_file(tmp_path: Path) -> None:
    bad = tmp_path / "bin.000001"
    data = bytearray((DATA / "oracle" / "mysql-row" / "bin.000001").read_bytes())
    data[[row["position"] for row in events_of(bytes(data), "bin.000001")][-30] + 25] ^= 1
    bad.write_bytes(data)
    with pytest.raises(BinlogError):
        export_events({"path": str(bad), "rangeSize": "2k"}, tmp_path / "events", run_here)
    assert not list((tmp_path / "events").iterdir())
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputError):
        export_events({"path": str(MIXED)}, tmp_path / "taken", run_here)


def test_a_row_group_ends_at_its_rows_or_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images of wide rows would fill the memory before the rows of a group are together."""
    given = {"path": str(MIXED), "columns": "position,before,after", "rangeSize": "1k"}

    def groups(name: str) -> list[int]:
        (first, *_) = export_events(given, tmp_path / name, run_here)
        metadata = pq.ParquetFile(first.path).metadata
        return [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]

    (whole,) = groups("whole")
    monkeypatch.setattr("dumpfilter.spark_jobs.source.export.ROW_GROUP_BYTES", 2000)
    small = groups("small")
    assert len(small) > 1
    assert sum(small) == whole


def test_two_slaves_of_one_name_are_an_error(tmp_path: Path) -> None:
    for name in ("web", "WEB", " web "):
        two = ["--slave", "web:--replicate-do-db=shop", "--slave", f"{name}:--replicate-do-db=hr"]
        done = run("export", str(MIXED), "--output", str(tmp_path / "events"), *two)
        assert done.returncode == 2
        assert "two slaves have this name" in done.stderr
        assert not (tmp_path / "events").exists()


def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    arguments = ["--output", str(tmp_path / "rows"), "--exploded", "--slave", "web:--replicate-do-db=shop"]
    done = run("export", str(MIXED), *arguments)
    assert done.returncode == 0, done.stderr
    assert "rows in 3 files" in done.stdout
    names = pq.read_schema(tmp_path / "rows" / "bin.000001.parquet").names
    assert names[-4:] == ["row", "before", "after", "sent_web"]

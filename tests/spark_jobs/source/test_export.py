"""The export of events as Parquet: the rows of the data source, with statistics by file."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dumpfilter.base.errors import BinlogError, OutputError
from dumpfilter.spark_jobs.engines import step
from dumpfilter.spark_jobs.source.export import export_events
from dumpfilter.spark_jobs.source.options import SourceOptions
from dumpfilter.spark_jobs.source.reading import plan_ranges, read_batches
from tests.commands.in_process import run
from tests.spark_jobs.here import run_here
from tests.spark_jobs.plain_events import events_of
from tests.support import DATA

MIXED = DATA / "oracle" / "mysql-mixed"


@pytest.mark.parametrize("form", ["events", "exploded"])
def test_each_binlog_is_a_file_with_the_rows_of_the_source(tmp_path: Path, form: str) -> None:
    given = {"path": str(MIXED), "slave.web": "--replicate-do-db=shop", "rows": form}
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


def test_a_failed_export_leaves_no_half_file(tmp_path: Path) -> None:
    bad = tmp_path / "bin.000001"
    data = bytearray((DATA / "oracle" / "mysql-row" / "bin.000001").read_bytes())
    data[[row["position"] for row in events_of(bytes(data), "bin.000001")][-30] + 25] ^= 1
    bad.write_bytes(data)
    with pytest.raises(BinlogError):
        export_events({"path": str(bad), "rangeSize": "2k"}, tmp_path / "events", run_here)
    assert not (tmp_path / "events").exists()
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputError):
        export_events({"path": str(MIXED)}, tmp_path / "taken", run_here)


def test_an_interrupted_export_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "bin.000001.parquet").write_text("of an earlier export")

    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):

        def interrupt(*_: object, number: int = number) -> Iterator[object]:
            os.kill(os.getpid(), number)
            # The main thread stops the task between two steps.
            while True:
                step(1)
                yield from ()

        monkeypatch.setattr("dumpfilter.spark_jobs.source.export._row_groups", interrupt)
        # One file is one task, which sends one signal.
        done = run("export", MIXED / "bin.000001", "--output", tmp_path / "events")
        assert done.returncode == code
        assert [path.name for path in (tmp_path / "events").iterdir()] == ["bin.000001.parquet"]
        assert (tmp_path / "events" / "bin.000001.parquet").read_text() == "of an earlier export"


def test_files_of_a_killed_export_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".unfinished").mkdir()
    (tmp_path / ".unfinished" / "bin.000001.parquet").write_text("half")
    (tmp_path / "mine.parquet").write_text("of somebody else")
    export_events({"path": str(MIXED / "bin.000001")}, tmp_path, run_here)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "bin.000001.parquet", tmp_path / "mine.parquet"]


def test_one_export_writes_to_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export that begins meanwhile must not remove the files of this one."""
    refused: list[str] = []

    def rows(*_: object) -> Iterator[object]:
        with pytest.raises(OutputError) as caught:
            export_events({"path": str(MIXED)}, tmp_path, run_here)
        refused.append(str(caught.value))
        yield from ()

    monkeypatch.setattr("dumpfilter.spark_jobs.source.export._row_groups", rows)
    files = len(list(MIXED.glob("bin.0*")))
    assert [each.rows for each in export_events({"path": str(MIXED)}, tmp_path, run_here)] == [0] * files
    assert refused == [f"{tmp_path}: another export is writing to it"] * files


def test_a_damaged_file_is_skipped_on_request(tmp_path: Path) -> None:
    copied = tmp_path / "set"
    shutil.copytree(DATA / "oracle" / "mysql-row", copied)
    data = bytearray((copied / "bin.000001").read_bytes())
    events = [row["position"] for row in events_of(bytes(data), "bin.000001")]
    data[events[-30] + 25] ^= 1
    (copied / "bin.000001").write_bytes(data)
    (copied / "bin.000002").write_bytes(b"not a binlog")
    stopped = run("export", copied, "--output", tmp_path / "events")
    assert stopped.returncode == 1
    assert not (tmp_path / "events").exists()
    done = run("export", copied, "--output", tmp_path / "events", "--on-corrupt=skip")
    assert done.returncode == 0, done.stderr
    said = re.search(
        r"warning: bin.000001: skipped from (\d+) on, since the transaction that begins there is damaged at (\d+): "
        r".*checksum",
        done.stderr,
    )
    assert said is not None
    assert int(said[2]) == events[-30]
    assert "warning: bin.000002: skipped all of it: " in done.stderr
    written = sorted(path.name for path in (tmp_path / "events").iterdir())
    assert written == ["bin.000001.parquet", "bin.000003.parquet"]
    positions = pq.read_table(tmp_path / "events" / "bin.000001.parquet")["position"].to_pylist()
    assert positions == [one for one in events if one < max(positions) + 1]
    # No event is missing before the place that the warning names.
    assert events[len(positions)] == int(said[1]) < events[-30]


def test_a_row_group_ends_at_its_rows_or_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images of wide rows would fill the memory before the rows of a group are together."""
    given = {"path": str(MIXED), "columns": "position,before,after", "rows": "exploded", "rangeSize": "1k"}

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
    for name, said in (("web", "this name"), ("WEB", "the same column sent_WEB"), (" web ", "this name")):
        two = ["--slave", "web:--replicate-do-db=shop", "--slave", f"{name}:--replicate-do-db=hr"]
        done = run("export", str(MIXED), "--output", str(tmp_path / "events"), *two)
        assert done.returncode == 2
        assert said in done.stderr
        assert not (tmp_path / "events").exists()


def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    arguments = ["--output", str(tmp_path / "rows"), "--exploded", "--slave", "web:--replicate-do-db=shop"]
    done = run("export", str(MIXED), *arguments)
    assert done.returncode == 0, done.stderr
    assert "rows in 3 files" in done.stdout
    names = pq.read_schema(tmp_path / "rows" / "bin.000001.parquet").names
    assert names[-4:] == ["row", "before", "after", "sent_web"]


def test_slaves_are_named_as_for_other_commands(tmp_path: Path) -> None:
    """Several files, and a slave without rules, which is sent everything."""
    for name, rule in (("web", "do-db=shop"), ("hr", "do-db=hr")):
        (tmp_path / f"{name}.cnf").write_text(f"[mysqld]\nreplicate-{rule}\n")
    files = ["--slaves", tmp_path / "web.cnf", "--slaves", tmp_path / "hr.cnf"]
    output = ["--output", tmp_path / "events", "--columns", "sent_web,sent_hr,sent_all"]
    done = run("export", MIXED / "bin.000001", *output, *files, "--slave", "all")
    assert done.returncode == 0, done.stderr
    found = pq.read_table(tmp_path / "events" / "bin.000001.parquet").to_pylist()
    assert {row["sent_all"] for row in found} == {True}
    assert {(row["sent_web"], row["sent_hr"]) for row in found} >= {(True, False), (False, True)}
    for wrong in ("--replicate-do-db=shop", "web --replicate-do-db=shop"):
        refused = run("export", MIXED, "--output", tmp_path / "events", "--slave", wrong)
        assert refused.returncode == 2
        assert "write NAME:OPTIONS" in refused.stderr

"""The split on Spark: recordings, real readers, a real replay, and what happens when it fails."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.errors import BinlogCorrupt, OutputError
from spark_jobs.split import SparkFailed, SparkRunner, SplitOptions, SplitResult, split
from spark_jobs.stages import SharePieces, WriteParts
from tests.binlog_tools import complaints
from tests.mariadb import MariaDb
from tests.spark_jobs.here import split_here
from tests.spark_jobs.walking import ORACLE, RECORDINGS, check_parts

SMALL = SplitOptions(range_size=8000, block_size=8192)
"""Many ranges, so that several tasks write what belongs together."""


@pytest.fixture
def runner(spark: Any) -> SparkRunner:
    return SparkRunner(lambda: spark)


def nothing_finished(folder: Path) -> bool:
    return not list(folder.glob("*")) and not list(folder.glob(".*"))


@pytest.mark.parametrize("name", [name for name in RECORDINGS if name.startswith("oracle/")])
def test_recordings(name: str, runner: SparkRunner, tmp_path: Path) -> None:
    options = SMALL if name.endswith("-row") else SplitOptions()
    result = split(RECORDINGS[name], tmp_path / "out", runner, options)
    check_parts(RECORDINGS[name], result)
    # the same bytes whoever runs the stages, however the ranges are cut
    here = split_here(RECORDINGS[name], tmp_path / "here")
    assert [found.name for found in here.sets] == [found.name for found in result.sets]
    for ours, others in zip(result.sets, here.sets, strict=True):
        assert [p.read_bytes() for p in ours.files] == [p.read_bytes() for p in others.files]


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_servers_own_readers_have_no_complaint(name: str, tmp_path: Path) -> None:
    result = split_here(RECORDINGS[name], tmp_path)
    family = "mariadb" if "mariadb" in name else "mysql"
    for found in result.sets:
        for path in found.files:
            assert complaints([path], family) == "", path.name


NOT_SELF_CONTAINED = {
    # statements keep the current database they ran in (USE shop; CREATE INDEX … ON hr.emp), so the other
    # databases have to exist, and for one also what is in them:
    # CREATE VIEW scratch.v1 AS SELECT … FROM shop.customers
    "scratch": "shop",
}


def test_a_real_server_gets_from_the_parts_what_the_whole_gave(mariadb: MariaDb, tmp_path: Path) -> None:
    recording = ORACLE / "mariadb-row"
    state = json.loads((recording / "oracle.json").read_text())["source"]["state"]
    sets = {found.name: found for found in split_here(recording / "bin.index", tmp_path, SMALL).sets}
    names = {"db,3": "db@002c3"}
    for schema, tables in state.items():
        mariadb.empty()
        for other in set(state) - {schema, NOT_SELF_CONTAINED.get(schema)}:
            mariadb.sql(f"CREATE DATABASE `{other}`")
        if schema in NOT_SELF_CONTAINED:
            mariadb.replay(sets[NOT_SELF_CONTAINED[schema]].files)
        mariadb.replay(sets[names.get(schema, schema)].files)
        had = {
            row[0] for row in mariadb.sql(f"SHOW FULL TABLES IN `{schema}` WHERE Table_type = 'BASE TABLE'")
        }
        assert had == set(tables)
        for table, expected in tables.items():
            ((rows,),) = mariadb.sql(f"SELECT COUNT(*) FROM `{schema}`.`{table}`")
            ((_, checksum),) = mariadb.sql(f"CHECKSUM TABLE `{schema}`.`{table}`")
            assert (int(rows), checksum) == (expected["rows"], expected["checksum"]), f"{schema}.{table}"
    # a schema that was dropped again: its part ends with DROP DATABASE
    mariadb.replay(sets["tmpdb"].files)
    assert ["tmpdb"] not in mariadb.sql("SHOW DATABASES")


def damaged(tmp_path: Path, at: int) -> Path:
    folder = tmp_path / "damaged"
    shutil.copytree(ORACLE / "mysql-row", folder)
    file = folder / "bin.000001"
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)
    return folder / "bin.index"


def test_a_flipped_bit_in_a_body_is_found_by_a_task_and_named(runner: SparkRunner, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(BinlogCorrupt, match="checksum mismatch") as caught:
        split(damaged(tmp_path, 100_000), out, runner, SMALL)
    assert caught.value.file == "bin.000001"
    assert caught.value.position is not None
    assert caught.value.position <= 100_000
    assert nothing_finished(out)


def test_a_cut_file_is_found_before_spark_starts(tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    shutil.copytree(ORACLE / "mysql-row", folder)
    os.truncate(folder / "bin.000001", 100_000)
    with pytest.raises(BinlogCorrupt.__mro__[1], match=r"bin\.000001: at \d+: the file ends"):
        split_here(folder / "bin.index", tmp_path / "out")
    assert nothing_finished(tmp_path / "out")


class Killed(WriteParts):
    """The second stage dies after it has written."""

    def __call__(self, batches: Any) -> Any:
        list(super().__call__(batches))
        os._exit(1)


def test_a_worker_that_is_killed_leaves_nothing(runner: SparkRunner, tmp_path: Path) -> None:
    def run(share: SharePieces, write: WriteParts, options: SplitOptions) -> Any:
        return runner(share, Killed(write.sources, write.staging), options)

    with pytest.raises(SparkFailed):
        split(ORACLE / "mysql-row", tmp_path / "out", run)
    assert nothing_finished(tmp_path / "out")
    # and the next one is not disturbed
    check_parts(ORACLE / "mysql-row" / "bin.index", split(ORACLE / "mysql-row", tmp_path / "out", runner))


def test_what_a_killed_job_left_is_removed_by_the_next(tmp_path: Path) -> None:
    left = tmp_path / ".split-0123"
    left.mkdir()
    (left / "shop.000000.aa").write_bytes(b"half")
    split_here(ORACLE / "mariadb-row", tmp_path)
    assert not left.exists()


def test_what_is_there_is_replaced_only_when_asked(tmp_path: Path) -> None:
    first = split_here(ORACLE / "mariadb-row", tmp_path)
    with pytest.raises(OutputError, match="--overwrite"):
        split_here(ORACLE / "mariadb-row", tmp_path)
    again = split_here(ORACLE / "mariadb-row" / "bin.000001", tmp_path, SplitOptions(overwrite=True))
    assert [len(found.files) for found in again.sets if found.name == "shop"] == [1]
    assert not (tmp_path / "shop-bin.000002").exists()
    assert len(first.sets) == 8


def test_the_sources_directory_is_no_output(tmp_path: Path) -> None:
    shutil.copytree(ORACLE / "mariadb-row", tmp_path / "set")
    with pytest.raises(OutputError, match="another output directory"):
        split_here(tmp_path / "set", tmp_path / "set", SplitOptions(overwrite=True))
    assert (tmp_path / "set" / "bin.000001").exists()


def test_a_disk_that_refuses(tmp_path: Path) -> None:
    class NoRoom(WriteParts):
        def __call__(self, batches: Any) -> Any:
            shutil.rmtree(self.staging)
            return super().__call__(batches)

    def run(share: SharePieces, write: WriteParts, options: SplitOptions) -> Any:
        from tests.spark_jobs.here import run_here

        return run_here(share, NoRoom(write.sources, write.staging), options)

    with pytest.raises(OutputError, match="No such file"):
        split(ORACLE / "mariadb-row", tmp_path / "out", run)
    assert nothing_finished(tmp_path / "out")


def test_statements_over_several_schemas_are_counted(tmp_path: Path) -> None:
    result: SplitResult = split_here(ORACLE / "mysql-statement", tmp_path)
    assert any("several schemas" in warning for warning in result.warnings)

"""The local engine and one process without threads give the same bytes, however the work is divided."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt, BinlogUnreadable
from dumpfilter.binlog.workload import generate, schema_names
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.spark_jobs.bandwidth.results import Results
from dumpfilter.spark_jobs.engines import Runner, ThreadRunner
from dumpfilter.spark_jobs.options import BandwidthOptions
from dumpfilter.spark_jobs.split.job import SplitOptions, split
from dumpfilter.topology.slaves_file import SlaveDefinition
from tests.spark_jobs.here import bandwidth, run_here
from tests.spark_jobs.split.dying import contents, different
from tests.support import RECORDED_SETS, binlogs_in, recording_id

NAMES = schema_names(5)
RULES = (
    (),
    (f"--replicate-do-db={NAMES[0]}",),
    (f"--replicate-ignore-db={NAMES[1]}", f"--replicate-wild-ignore-table={NAMES[0]}.t%"),
)
SLAVES = [
    SlaveDefinition(f"slave-{k}", rules, FilterSemantics.CLASSIC, 0, 1000 + k)
    for k, rules in enumerate(RULES)
]
RECORDINGS = RECORDED_SETS[5::40]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index file of a set of two files, 600 kB."""
    made = generate(tmp_path_factory.mktemp("set"), 600_000, file_size=300_000, schemas=5, tables=3, seed=5)
    return made.index


def measured(source: Path | list[Path], run: Runner, range_size: int, **options: Any) -> Results:
    """Return the results of a bandwidth job without its CPU times, which differ from run to run."""
    results = bandwidth(source, SLAVES, run, BandwidthOptions(range_size=range_size, **options))
    return without_times(results)


def without_times(results: Results) -> Results:
    return results.model_copy(update={"measured_at": 0})


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 5), st.sampled_from([30_000, 77_777, 1 << 20]), st.sampled_from([4096, 1 << 16]))
def test_any_number_of_threads_gives_the_same_bytes(
    source: Path, tmp_path_factory: pytest.TempPathFactory, threads: int, range_size: int, block_size: int
) -> None:
    """The files of a split do not depend on the threads, nor do the figures. The tables beside them tell the ranges."""
    run = ThreadRunner(threads)
    options = SplitOptions(range_size=range_size, block_size=block_size, max_binlog_size=50_000)
    folder = tmp_path_factory.mktemp("split")
    split(source, folder / "here", run_here, options)
    split(source, folder / "threads", run, options)
    assert different(contents(folder / "threads"), contents(folder / "here")) == []
    assert measured(source, run, range_size) == measured(source, run_here, range_size)


@pytest.mark.parametrize("recording", RECORDINGS, ids=recording_id)
def test_recordings(recording: Path, tmp_path: Path) -> None:
    files = binlogs_in(recording)
    options = SplitOptions(range_size=4 << 10)
    split(files, tmp_path / "here", run_here, options)
    split(files, tmp_path / "threads", ThreadRunner(3), options)
    assert different(contents(tmp_path / "threads"), contents(tmp_path / "here")) == []
    assert measured(files, ThreadRunner(3), 4 << 10) == measured(files, run_here, 4 << 10)


def test_damage_is_told_and_skipped_alike(source: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "bin.000001"
    data = bytearray(source.with_name("bin.000001").read_bytes())
    data[150_000] ^= 1
    damaged.write_bytes(data)
    for run in (run_here, ThreadRunner(3)):
        with pytest.raises(BinlogCorrupt) as caught:
            measured([damaged], run, 20_000)
        assert caught.value.file == "bin.000001"
        assert 140_000 < (caught.value.position or 0) <= 150_000
    skipped = measured([damaged], ThreadRunner(3), 20_000, on_corrupt="skip")
    assert len(skipped.skipped) == 1
    assert skipped == measured([damaged], run_here, 20_000, on_corrupt="skip")


def killed(
    source: Path, output: Path, options: SplitOptions, *, written: int = 0, is_scanned: bool = False
) -> Path:
    """Return the working directory of a split that was killed after it had written some ranges.

    With ``is_scanned`` a read failed in the first pass, so that the ranges are those that a scan found.
    """
    left = output.parent / "left"
    failures = [BinlogUnreadable("cannot be read: Stale file handle")] * is_scanned

    def run(function: Callable[[Any], Any], tasks: Sequence[Any], label: str, **given: Any) -> Any:
        if failures:
            raise failures.pop()
        if label == "writing":
            for placed in list(chain(*tasks))[:written]:
                function([placed])
            # A killed process would leave this directory.
            (work,) = output.parent.glob(".out.split-*")
            shutil.copytree(work, left / work.name)
            raise InterruptedError
        return ThreadRunner(2)(function, tasks, label, **given)

    with pytest.raises(InterruptedError):
        split(source, output, run, options)
    (work,) = left.iterdir()
    return work.rename(output.parent / work.name)


def test_a_split_killed_before_the_machine_crashed_begins_anew(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of the working directory were not synchronized, and may have lost bytes."""
    options = SplitOptions(range_size=60_000, max_binlog_size=50_000)
    split(source, tmp_path / "whole" / "out", run_here, options)
    work = killed(source, tmp_path / "out", options)
    for plan in (work / "plan").iterdir():
        os.truncate(plan, plan.stat().st_size // 2)
    monkeypatch.setattr("dumpfilter.spark_jobs.split.job._boot_id", lambda: "another boot")
    split(source, tmp_path / "out", run_here, options)
    assert different(contents(tmp_path / "out"), contents(tmp_path / "whole" / "out")) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["left", "out", "whole"]


def test_a_killed_split_goes_on_with_other_ranges(source: Path, tmp_path: Path) -> None:
    """A scanned range may have other bytes than the guessed range of the same number."""
    options = SplitOptions(range_size=41_500, max_binlog_size=50_000)
    split(source, tmp_path / "whole" / "out", run_here, options)
    killed(source, tmp_path / "out", options, written=9, is_scanned=True)
    split(source, tmp_path / "out", run_here, options)
    assert different(contents(tmp_path / "out"), contents(tmp_path / "whole" / "out")) == []


def test_a_killed_split_goes_on_with_another_engine(source: Path, tmp_path: Path) -> None:
    """The second engine takes over the working directory that the first left, and makes none of its plans again."""
    options = SplitOptions(range_size=60_000, max_binlog_size=50_000)
    split(source, tmp_path / "whole" / "out", run_here, options)
    killed(source, tmp_path / "out", options)
    plans = {path: path.stat().st_mtime_ns for path in tmp_path.glob(".out.split-*/plan/*")}
    assert len(plans) > 5

    def second(function: Callable[[Any], Any], tasks: Sequence[Any], label: str, **given: Any) -> Any:
        if label == "writing":
            assert {path: path.stat().st_mtime_ns for path in plans} == plans
        return run_here(function, tasks, label, **given)

    split(source, tmp_path / "out", second, options)
    assert different(contents(tmp_path / "out"), contents(tmp_path / "whole" / "out")) == []


_WITHOUT_EXTRAS = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {"pyspark", "py4j", "pandas", "packaging"}:
            raise ModuleNotFoundError(name=name)

sys.meta_path.insert(0, Missing())
from dumpfilter.cli import main
main()
"""


def test_the_local_engine_needs_neither_spark_nor_java(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    command = ["split", str(source), "--engine", "local", "--output", str(output)]
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_EXTRAS, *command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": "/nothing", "JAVA_HOME": "", "COLUMNS": "200"},
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "split into" in done.stdout
    assert (output / "manifest.json").exists()

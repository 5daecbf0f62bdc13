"""Splits that are killed or interrupted, and tasks that fail: never a wrong or a duplicated output."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext

from dumpfilter.errors import OutputError
from dumpfilter.spark_jobs.spark.jobs import SparkFailed, SparkRunner, run_here
from dumpfilter.spark_jobs.split.job import split
from tests.spark_jobs.dying import (
    check_alone,
    check_left,
    contents,
    count_calls,
    different,
    make_source,
    options,
    start,
)

DEADLINE = 120.0
"""Seconds until a process that does not get where it should is given up."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty directory, where synchronizing hundreds of files costs nothing."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_source(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def whole(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What an undisturbed split writes."""
    output = tmp_path_factory.mktemp("whole") / "out"
    split(source, output, run_here, options())
    return contents(output)


def test_killed_before_any_of_its_steps(source: Path, whole: dict[str, bytes], folder: Path) -> None:
    calls = count_calls(source, folder / "counted" / "out", options())
    moments = random.Random(1).sample(range(1, calls + 1), 9)
    # the end is where the output appears
    for moment in sorted({*moments, *range(calls - 6, calls + 1)}):
        output = folder / f"{moment}" / "out"
        process = start(source, output, options(), moment)
        process.join()
        assert process.exitcode == -signal.SIGKILL, moment
        check_left(output, whole)
        split(source, output, run_here, options())
        check_alone(output, whole)


def test_killed_while_it_replaces_another(source: Path, whole: dict[str, bytes], folder: Path) -> None:
    one = [source.parent / source.read_text().split()[0]]
    split(one, folder / "out", run_here, options())
    other = contents(folder / "out")
    counted = folder / "counted" / "out"
    split(one, counted, run_here, options())
    calls = count_calls(source, counted, options(overwrite=True))
    for moment in range(calls - 6, calls + 1):
        output = folder / f"{moment}" / "out"
        split(one, output, run_here, options())
        process = start(source, output, options(overwrite=True), moment)
        process.join()
        assert process.exitcode == -signal.SIGKILL, moment
        check_left(output, whole, other)
        split(source, output, run_here, options(overwrite=True))
        check_alone(output, whole)


def test_only_one_writes_at_a_time(source: Path, whole: dict[str, bytes], folder: Path) -> None:
    output = folder / "out"

    def run(
        function: Callable[[Any], Any], tasks: Sequence[Any], label: str, *, slices: int | None = None
    ) -> Any:
        if label == "writing":
            with pytest.raises(OutputError, match="another split is writing to it"):
                split(source, output, run_here, options())
            with pytest.raises(OutputError, match="another split is writing to it"):
                split(source, output, run_here, dataclasses.replace(options(), max_binlog_size=1 << 20))
        return run_here(function, tasks, label)

    split(source, output, run, options())
    check_alone(output, whole)


@dataclass(frozen=True)
class Failing:
    """A task that dies in its first attempts, in one of many ways."""

    function: Callable[[Any], Any]

    def __call__(self, task: Any) -> Any:
        context = TaskContext.get()
        assert context is not None
        attempt = context.attemptNumber()
        dice = random.Random(f"{task} {attempt} {context.stageId() % 3}")
        if attempt < 2 and dice.random() < 0.25:
            writes = dice.randrange(6)
            how = dice.choice([_raise, _exit])
            if writes == 0:
                how()
            if writes < 5:
                _die_in_write(writes, how)
            result = self.function(task)
            how()
            return result
        return self.function(task)


def _raise() -> None:
    raise RuntimeError("a task that fails")


def _exit() -> None:
    os._exit(1)


def _die_in_write(number: int, how: Callable[[], None]) -> None:
    """Let the so many-th file that this process opens for writing be its last."""
    seen = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_WRONLY:
            seen += 1
            if seen == number + 1:
                how()

    sys.addaudithook(hook)


def test_failing_tasks(spark: Any, source: Path, whole: dict[str, bytes], folder: Path) -> None:
    runner = SparkRunner(lambda: spark.sparkContext)

    def run(
        function: Callable[[Any], Any], tasks: Sequence[Any], label: str, *, slices: int | None = None
    ) -> Any:
        return runner(Failing(function), tasks, label, slices=len(tasks))

    split(source, folder / "out", run, options())
    check_alone(folder / "out", whole)


def test_tasks_that_run_twice_at_once(
    spark: Any, source: Path, whole: dict[str, bytes], folder: Path
) -> None:
    """As speculation has it: what ends first counts, the other goes on."""
    runner = SparkRunner(lambda: spark.sparkContext)

    def run(
        function: Callable[[Any], Any], tasks: Sequence[Any], label: str, *, slices: int | None = None
    ) -> Any:
        doubled = [task for task in tasks for _ in range(2)]
        return runner(function, doubled, label, slices=len(doubled))[::2]

    split(source, folder / "out", run, options())
    check_alone(folder / "out", whole)


def test_tasks_that_always_fail(spark: Any, source: Path, folder: Path) -> None:
    runner = SparkRunner(lambda: spark.sparkContext)

    def run(
        function: Callable[[Any], Any], tasks: Sequence[Any], label: str, *, slices: int | None = None
    ) -> Any:
        if label == "writing":
            return runner(_never, tasks[:1], label)
        return runner(function, tasks, label, slices=slices)

    with pytest.raises(SparkFailed, match="the Spark job failed: RuntimeError: a task that fails"):
        split(source, folder / "out", run, options())
    assert list(folder.iterdir()) == []


def _never(task: Any) -> None:
    _raise()


def _command(source: Path, output: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dumpfilter", "split", str(source), "--output", str(output)]
    command += ["--master", "local[2]", "--range-size", "1", "--max-binlog-size", "50000"]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _until(process: subprocess.Popen[bytes], folder: Path, pattern: str) -> None:
    """Until something like this is beside the output."""
    deadline = time.monotonic() + DEADLINE
    while not any(folder.glob(pattern)):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.parametrize("state", [".out.split-*/out/*-bin.0*"])
def test_the_command_is_killed(state: str, source: Path, folder: Path) -> None:
    output = folder / "out"
    process = _command(source, output)
    with process:
        _until(process, folder, state)
        os.killpg(process.pid, signal.SIGKILL)
    wanted = dataclasses.replace(options(), range_size=1 << 20)
    split(source, folder / "whole" / "out", run_here, wanted)
    whole = contents(folder / "whole" / "out")
    check_left(output, whole)
    split(source, output, run_here, wanted)
    assert different(contents(output), whole) == []
    assert {path.name for path in folder.iterdir()} == {"out", "whole"}


def test_ctrl_c(source: Path, folder: Path) -> None:
    with _command(source, folder / "out") as process:
        _until(process, folder, ".out.split-*/plan/*.npz")
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate()[1]
    assert (process.returncode, b"Traceback" in said) == (130, False), said
    assert list(folder.iterdir()) == []

"""Spark tasks of the split that fail, run twice, or always fail: the output is never wrong."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext

from dumpfilter.spark_jobs.spark import SparkFailed, SparkRunner
from dumpfilter.spark_jobs.split.job import split
from tests.spark_jobs.here import run_here
from tests.spark_jobs.split.dying import (
    check_alone,
    contents,
    make_source,
    options,
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_source(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def whole(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files of an undisturbed split."""
    output = tmp_path_factory.mktemp("whole") / "out"
    split(source, output, run_here, options())
    return contents(output)


@dataclass(frozen=True)
class Failing:
    """A task that fails in its first attempts, at a random step, by an exception or by the end of its process."""

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
    """Fail when this process opens its file number ``number`` for writing."""
    seen = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_WRONLY:
            seen += 1
            if seen == number + 1:
                how()

    sys.addaudithook(hook)


def test_failing_tasks(spark: Any, source: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    runner = SparkRunner(lambda: spark.sparkContext)

    def run(function: Callable[[Any], Any], tasks: Sequence[Any], label: str, **given: Any) -> Any:
        return runner(Failing(function), tasks, label)

    split(source, tmp_path / "out", run, options())
    check_alone(tmp_path / "out", whole)


def test_tasks_that_run_twice_at_once(
    spark: Any, source: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    """With speculation Spark runs a task twice and uses the first result."""
    runner = SparkRunner(lambda: spark.sparkContext)

    def run(function: Callable[[Any], Any], tasks: Sequence[Any], label: str, **given: Any) -> Any:
        doubled = [task for task in tasks for _ in range(2)]
        return runner(function, doubled, label)[::2]

    split(source, tmp_path / "out", run, options())
    check_alone(tmp_path / "out", whole)


def test_tasks_that_always_fail(spark: Any, source: Path, tmp_path: Path) -> None:
    runner = SparkRunner(lambda: spark.sparkContext)

    def run(function: Callable[[Any], Any], tasks: Sequence[Any], label: str, **given: Any) -> Any:
        if label == "writing":
            return runner(_never, tasks[:1], label)
        return runner(function, tasks, label, **given)

    with pytest.raises(SparkFailed, match="the Spark job failed: RuntimeError: a task that fails"):
        split(source, tmp_path / "out", run, options())
    assert list(tmp_path.iterdir()) == []


def _never(task: Any) -> None:
    _raise()

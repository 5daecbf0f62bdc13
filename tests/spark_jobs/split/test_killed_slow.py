"""Splits that are killed or interrupted at any step: the output is never wrong, and the next run completes it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.base.errors import OutputError
from dumpfilter.spark_jobs.split.job import split
from tests.dump.test_xa import Made
from tests.spark_jobs.cluster import QUICK
from tests.spark_jobs.here import run_here
from tests.spark_jobs.split.dying import (
    check_alone,
    check_left,
    contents,
    count_calls,
    different,
    make_source,
    options,
    start,
    stop_processes,
)
from tests.support import binlogs_in

DEADLINE = 120.0
"""Seconds to wait until a process reaches the wanted state."""


@pytest.fixture(scope="module", autouse=True)
def _processes() -> Iterator[None]:
    """Stop the processes of multiprocessing after the tests, and remove their directory."""
    yield
    stop_processes()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_source(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def whole(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files of an undisturbed split."""
    output = tmp_path_factory.mktemp("whole") / "out"
    split(source, output, run_here, options())
    return contents(output)


def _with_xa(source: Path, folder: Path) -> Path:
    """Write an XA transaction that ends in another file than it was prepared in, and after it the files of ``source``.
    Return the index file of all.
    """
    made = Made()
    made.prepare("a", "shop", "logs")
    made.next_file()
    made.finish("a")
    index = made.write(folder)
    for number, path in enumerate(binlogs_in(source.parent), 3):
        shutil.copy(path, folder / f"bin.{number:06}")
        with index.open("a") as file:
            file.write(f"./bin.{number:06}\n")
    return index


@pytest.mark.parametrize("has_xa", [False, True], ids=["guessed", "not guessed"])
def test_killed_before_any_of_its_steps(
    source: Path, whole: dict[str, bytes], tmp_path: Path, has_xa: bool
) -> None:
    if has_xa:
        source = _with_xa(source, tmp_path / "source")
        split(source, tmp_path / "whole" / "out", run_here, options())
        whole = contents(tmp_path / "whole" / "out")
    calls = count_calls(source, tmp_path / "counted" / "out", options())
    moments = random.Random(1).sample(range(1, calls + 1), 5)
    # Always test the last steps, in which the output directory appears.
    for moment in sorted({*moments, *range(calls - 6, calls + 1)}):
        output = tmp_path / f"{moment}" / "out"
        process = start(source, output, options(), moment)
        process.join()
        assert process.exitcode == -signal.SIGKILL, moment
        check_left(output, whole)
        split(source, output, run_here, options())
        check_alone(output, whole)


def test_killed_while_it_replaces_another(source: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    one = [source.parent / source.read_text().split()[0]]
    split(one, tmp_path / "out", run_here, options())
    other = contents(tmp_path / "out")
    counted = tmp_path / "counted" / "out"
    split(one, counted, run_here, options())
    calls = count_calls(source, counted, options(overwrite=True))
    for moment in range(calls - 6, calls + 1):
        output = tmp_path / f"{moment}" / "out"
        split(one, output, run_here, options())
        process = start(source, output, options(overwrite=True), moment)
        process.join()
        assert process.exitcode == -signal.SIGKILL, moment
        check_left(output, whole, other)
        split(source, output, run_here, options(overwrite=True))
        check_alone(output, whole)


def test_only_one_writes_at_a_time(source: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    output = tmp_path / "out"

    def run(function: Callable[[Any], Any], tasks: Sequence[Any], label: str, **given: Any) -> Any:
        if label == "writing":
            with pytest.raises(OutputError, match="another split is writing to it"):
                split(source, output, run_here, options())
            with pytest.raises(OutputError, match="another split is writing to it"):
                split(source, output, run_here, options().model_copy(update={"max_binlog_size": 1 << 20}))
        return run_here(function, tasks, label)

    split(source, output, run, options())
    check_alone(output, whole)


@pytest.fixture
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return environment variables with another temporary directory, since killed processes leave files in it."""
    return {**os.environ, "TMPDIR": str(tmp_path_factory.mktemp("killed"))}


def _command(
    source: Path, output: Path, surroundings: dict[str, str], *engine: str
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dumpfilter", "split", str(source), "--output", str(output)]
    command += [*engine, "--range-size", "1", "--max-binlog-size", "50000"]
    return subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=surroundings
    )


def _begun(
    source: Path, output: Path, surroundings: dict[str, str], made: str, *engine: str
) -> subprocess.Popen[bytes]:
    """Return the process of a split that has made a path with the pattern ``made`` beside its output.

    On a busy machine a whole split may pass unseen. Then another one begins.
    """
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        process = _command(source, output, surroundings, *engine)
        while process.poll() is None:
            if any(output.parent.glob(made)):
                return process
            time.sleep(0.002)
        said = process.communicate()
        assert process.returncode == 0, said
        shutil.rmtree(output)
    raise AssertionError(f"no split was seen to make {made}")


def test_the_command_is_killed(source: Path, tmp_path: Path, surroundings: dict[str, str]) -> None:
    output = tmp_path / "out"
    with _begun(source, output, surroundings, ".out.split-*/out/*-bin.0*", "--engine", "local") as process:
        os.killpg(process.pid, signal.SIGKILL)
    wanted = options().model_copy(update={"range_size": 1 << 20})
    split(source, tmp_path / "whole" / "out", run_here, wanted)
    whole = contents(tmp_path / "whole" / "out")
    check_left(output, whole)
    split(source, output, run_here, wanted)
    assert different(contents(output), whole) == []
    assert {path.name for path in tmp_path.iterdir()} == {"out", "whole"}


def test_ctrl_c(source: Path, tmp_path: Path, surroundings: dict[str, str]) -> None:
    planned = ".out.split-*/plan/*"
    quick = f"spark.driver.extraJavaOptions={QUICK}"
    engine = ("--spark-master", "local[2]", "--conf", quick)
    with _begun(source, tmp_path / "out", surroundings, planned, *engine) as process:
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate()[1]
    assert (process.returncode, b"Traceback" in said) == (130, False), said
    assert list(tmp_path.iterdir()) == []

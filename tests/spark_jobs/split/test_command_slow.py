"""``dumpfilter split`` with its options, errors and output. The command runs in this process."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.cli import main
from dumpfilter.spark_jobs import spark as jobs
from dumpfilter.spark_jobs.spark import SparkMissing, check_java
from dumpfilter.spark_jobs.split.job import SplitOptions
from dumpfilter.spark_jobs.split.ownership import load_specification
from tests.spark_jobs.here import split_here
from tests.spark_jobs.walking import ORACLE


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run ``dumpfilter split`` on one core, in this process."""
    command = ["dumpfilter", "split", *map(str, arguments), "--spark-master", "local[1]"]
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", command)
        patch.setenv("COLUMNS", "200")
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())


def said(done: subprocess.CompletedProcess[str]) -> str:
    return " ".join(done.stderr.split())


@pytest.mark.parametrize(
    "environment", [{"PATH": "/nothing", "JAVA_HOME": ""}, {"JAVA_HOME": "/nothing"}], ids=["none", "wrong"]
)
def test_without_java_it_says_what_to_install(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    done = run(ORACLE / "mysql-row", "--output", tmp_path / "out")
    assert done.returncode == 2
    assert "which needs Java 17 or newer" in said(done)
    assert "apt-get install default-jre-headless" in said(done)
    assert "or use --engine local" in said(done)
    assert list(tmp_path.iterdir()) == []


def test_an_old_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'java version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkMissing, match="is Java 8, Spark needs 17"):
        check_java()


def test_an_option_of_spark_needs_spark(tmp_path: Path) -> None:
    done = run(ORACLE / "mysql-row", "--output", tmp_path / "out", "--engine", "local")
    assert done.returncode == 2
    assert "--spark-master is an option of Spark, and the work runs here: add --engine spark" in said(done)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Make a set of three files with a flipped bit in the first."""
    shutil.copytree(ORACLE / "mysql-row", tmp_path / "set")
    file = tmp_path / "set" / "bin.000001"
    data = bytearray(file.read_bytes())
    data[100_000] ^= 1
    file.write_bytes(data)
    return tmp_path / "set"


@pytest.fixture
def shared_spark(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command use the tests' Spark context, since starting another takes ten seconds."""
    monkeypatch.setattr(jobs, "spark_context", lambda *_, **__: nullcontext(spark.sparkContext))


@pytest.mark.usefixtures("shared_spark")
def test_named_binlogs_of_what_is_whole(damaged: Path, tmp_path: Path) -> None:
    """The command prints a table and warnings, and writes the files that a split without Spark writes."""
    specification = Path(__file__).parent / "data" / "areas.toml"
    wanted = ["--specification", str(specification), "--on-corrupt", "skip"]
    done = run(damaged, "--output", tmp_path / "out", *wanted)
    assert done.returncode == 0, done.stderr
    for word in ("binlog set", "sales-bin.index", "people-bin.index", "others-bin.index"):
        assert word in done.stdout
    assert "warning: bin.000001: skipped from" in said(done)
    assert "checksum mismatch" in said(done)
    same = SplitOptions(specification=load_specification(specification), on_corrupt="skip")
    for one in split_here(damaged, tmp_path / "here", same).sets:
        for path in one.files:
            assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--max-binlog-size", "many"], "--max-binlog-size: 'many' is not a size"),
        (["--max-binlog-size", "1K"], "too small: at least 4096"),
        (["--specification", "/nothing.toml"], "/nothing.toml: cannot be read: No such file"),
    ],
)
def test_options_that_cannot_be(options: list[str], reason: str, tmp_path: Path) -> None:
    done = run(ORACLE / "mysql-row", "--output", tmp_path / "out", *options)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert reason in said(done)

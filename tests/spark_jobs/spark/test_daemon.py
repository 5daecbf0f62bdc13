"""The daemon that forks workers refuses tasks of a driver with other code."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dumpfilter.spark_jobs.spark.daemon import (
    DRIVERS_CODE,
    PACKAGE,
    check_code,
    code_digest,
    freezing,
    package_folder,
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy the sources of the package to another place."""
    shutil.copytree(package_folder(), tmp_path / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def digest_of(copy: Path) -> str:
    code = "import dumpfilter.spark_jobs.spark.daemon as d; print(d.__file__); print(d.code_digest())"
    told = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(copy)},
        cwd=copy,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert told[0].startswith(str(copy))
    return told[1]


def test_the_same_code_in_another_place(copy: Path) -> None:
    mine = digest_of(copy)
    assert mine == code_digest()
    (copy / "dumpfilter" / "__pycache__").mkdir(exist_ok=True)
    (copy / "dumpfilter" / "__pycache__" / "compiled.so").touch()
    os.utime(copy / "dumpfilter" / "base" / "errors.py", (1, 1))
    assert digest_of(copy) == mine
    with (copy / "dumpfilter" / "spark_jobs" / "spark" / "jobs.py").open("a") as source:
        source.write("#\n")
    assert digest_of(copy) != mine


def test_another_state_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DRIVERS_CODE, raising=False)
    check_code()
    monkeypatch.setenv(DRIVERS_CODE, code_digest())
    check_code()
    monkeypatch.setenv(DRIVERS_CODE, "another")
    with pytest.raises(SystemExit, match="package the environment again"):
        check_code()


@pytest.fixture
def _thawed() -> Iterator[None]:
    """Let the collector see all objects of this process again."""
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("_thawed")
def test_what_a_task_imports_is_frozen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = []

    def serve(imports: str) -> int:
        if imports:
            monkeypatch.setitem(sys.modules, imports, os)
        return 7

    worker = freezing(serve)
    for imports in ("", "a_module_of_a_task", "", ""):
        assert worker(imports) == 7
        frozen.append(gc.get_freeze_count())
    before, after, *later = frozen
    assert before < after
    assert max(later) <= after

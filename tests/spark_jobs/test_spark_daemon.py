"""The daemon that forks workers refuses tasks of a driver of another version."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator

import pytest

from dumpfilter.spark_jobs.spark import JOB_SETTINGS
from dumpfilter.spark_jobs.spark_daemon import DRIVERS_VERSION, check_version, freezing


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DRIVERS_VERSION, raising=False)
    check_version()
    monkeypatch.setenv(DRIVERS_VERSION, JOB_SETTINGS[f"spark.executorEnv.{DRIVERS_VERSION}"])
    check_version()
    monkeypatch.setenv(DRIVERS_VERSION, "another")
    with pytest.raises(SystemExit, match="the driver another: package the environment again"):
        check_version()


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

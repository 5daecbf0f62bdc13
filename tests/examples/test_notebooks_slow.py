"""The notebooks run, and print what their stored outputs show."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
import pytest

from tests.spark_jobs.spark.cluster import QUICK
from tools.notebooks import NOTEBOOKS, outputs, run


@pytest.mark.parametrize("name", sorted(path.name for path in NOTEBOOKS.glob("*.ipynb")))
def test_a_notebook_prints_its_stored_outputs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "TMPDIR"):
        monkeypatch.setenv(variable, str(tmp_path))
    # Spark would start its Python processes with the first python3 of the PATH.
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", QUICK)
    stored = nbformat.read(NOTEBOOKS / name, as_version=4)
    assert outputs(run(NOTEBOOKS / name)) == outputs(stored)
    assert not list(tmp_path.glob("dumpfilter-notebook-*"))

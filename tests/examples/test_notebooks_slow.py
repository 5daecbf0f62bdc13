"""The notebooks without Spark run, and print what their stored outputs show."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path

import pytest

from tools.notebooks import NOTEBOOKS, outputs, run


@pytest.mark.parametrize("name", ["duckdb.ipynb", "pandas.ipynb"])
def test_a_notebook_prints_its_stored_outputs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cells = json.loads((NOTEBOOKS / name).read_bytes())["cells"]
    stored = copy.deepcopy(cells)
    run(cells)
    assert outputs(cells) == outputs(stored)
    assert not list(tmp_path.iterdir())

"""The program of docs/harness.md that needs no pytest runs, and tells what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "harness.md"


def test_the_program_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    found = re.search(
        r"^## Without pytest\n.*?```python\n(.*?)```", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    # A machine with much to do needs longer than the page's reader.
    program = found[1].replace("hold=True)", "hold=True, wait_timeout=200)")
    exec(compile(program, str(PAGE), "exec"), {})
    error, end = capsys.readouterr().out.strip().splitlines()
    assert error.startswith("hr: has applied ")
    assert "the link m:hr is cut" in error
    assert end.startswith("Lag(seconds=0.0, bytes=0) ")

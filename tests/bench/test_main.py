"""The command line of the benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.__main__ import main


def test_before_must_name_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "live", "--before", str(tmp_path)])
    with pytest.raises(SystemExit):
        main()

    assert f"--before {tmp_path}: is no checkout of dumpfilter; name a directory" in capsys.readouterr().err

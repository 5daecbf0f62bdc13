"""Atomic writes of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.base import files
from dumpfilter.base.errors import OutputError


def test_a_path_without_a_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The path of an option that a script gives an unset variable, as --port-file="$FILE".
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputError, match=r"^\.: cannot be written: "):
        files.replace(Path(""), b"1")
    assert list(tmp_path.iterdir()) == []

"""The files of LOAD DATA."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.analyse.printing.text import LoadFiles
from dumpfilter.base.errors import BinlogCorrupt, OutputError
from dumpfilter.binlog.context_events import (
    LoadBlock,
)


def test_load_files_are_put_together_and_never_replace_one(tmp_path: Path) -> None:
    (tmp_path / "SQL_LOAD-7-0").write_text("somebody else's")
    files = LoadFiles(tmp_path)
    files.begin(LoadBlock(7, b"a,"))
    files.begin(LoadBlock(8, b"other"))
    files.append(LoadBlock(7, b"b"))
    path = files.take(7)
    assert path.read_bytes() == b"a,b"
    assert (tmp_path / "SQL_LOAD-7-0").read_text() == "somebody else's"
    with pytest.raises(BinlogCorrupt, match="never begun"):
        files.append(LoadBlock(7, b"c"))


def test_load_files_without_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    files = LoadFiles()
    assert list(tmp_path.iterdir()) == []
    path = files.begin(LoadBlock(1, b"data"))
    assert path.parent.parent == tmp_path
    assert path.parent == files.directory
    assert (files.take(1).read_bytes(), files.written) == (b"data", 1)


def test_load_files_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file"):
        LoadFiles(tmp_path / "file").begin(LoadBlock(1, b""))
    with pytest.raises(OutputError, match="give another --local-load"):
        LoadFiles(tmp_path / "back\\slash").begin(LoadBlock(1, b""))

"""The files of a set that this process writes: the order of index, file and disk, whatever fails."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dumpfilter import files
from dumpfilter.errors import OutputError
from dumpfilter.index.index_file import INDEX_CHANGES
from dumpfilter.index.log_writer import GrowingFile, LogWriter


def begin(log: LogWriter[GrowingFile], directory: Path, number: int) -> GrowingFile:
    return log.begin(directory / "bin.index", GrowingFile.create(directory / f"bin.{number:06d}", b"head"))


@pytest.mark.parametrize("synced", [True, False])
def test_the_index_names_a_file_whose_first_bytes_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: bool
) -> None:
    calls = []
    sync, rename = files.sync, files.rename
    monkeypatch.setattr(files, "sync", lambda path, fd: (calls.append(path.name), sync(path, fd)))
    monkeypatch.setattr(files, "rename", lambda old, new: (calls.append(new.name), rename(old, new)))
    log: LogWriter[GrowingFile] = LogWriter(None, synced=synced)
    assert log.names == []
    begin(log, tmp_path, 1)
    begin(log, tmp_path, 2)
    assert log.names == ["bin.000001", "bin.000002"]
    written = [name for name in calls if name != "bin.index.new"]
    assert written == (
        ["bin.000001", "bin.index", "bin.000002", "bin.index"] if synced else ["bin.index"] * 2
    )
    log.close_file()
    assert log.file is None


def test_a_file_that_the_index_cannot_name_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: LogWriter[GrowingFile] = LogWriter(None, synced=True)
    begin(log, tmp_path, 1)
    log.close_file()

    def full(*_: object, **__: object) -> None:
        raise OutputError("bin.index.new: cannot be written: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files, "replace", full)
        with pytest.raises(OutputError, match="No space left"):
            begin(log, tmp_path, 2)
    assert log.file is None
    assert log.names == ["bin.000001"]
    begin(log, tmp_path, 2)
    assert log.names == ["bin.000001", "bin.000002"]
    log.close_file()


def test_a_file_is_named_after_a_purge_that_is_under_way(tmp_path: Path) -> None:
    log: LogWriter[GrowingFile] = LogWriter(None, synced=False)
    begin(log, tmp_path, 1)
    begin(log, tmp_path, 2)
    with INDEX_CHANGES:
        writer = threading.Thread(target=begin, args=(log, tmp_path, 3))
        writer.start()
        (tmp_path / "bin.index").write_text("./bin.000002\n")
    writer.join()
    assert log.names == ["bin.000002", "bin.000003"]
    log.close_file()

"""The files of a set that this process writes: the order of index, file and disk, whatever fails."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from dumpfilter.base import files
from dumpfilter.base.errors import OutputError
from dumpfilter.index.index_file import INDEX_CHANGES, GrowingFile, LogWriter


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


def test_a_slow_disk_holds_up_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are appended while a thread waits for the disk. The log counts as synced when all of them are there."""
    go_on, synced = threading.Event(), []
    log: LogWriter[GrowingFile] = LogWriter(None, synced=False)
    file = begin(log, tmp_path, 1)

    def wait_for_disk(fd: int) -> None:
        size = os.fstat(fd).st_size
        go_on.wait(60)
        synced.append(size)

    monkeypatch.setattr(os, "fdatasync", wait_for_disk)
    log.sync_later()
    assert log.is_syncing
    file.append(b"event")
    log.sync_later()
    assert not log.is_synced
    go_on.set()
    log.sync()
    assert log.is_synced
    assert synced[-1] == file.end
    log.close_file()


@pytest.mark.parametrize("how", ["sync", "sync_later", "close_file"])
def test_a_failed_write_to_the_disk_is_an_error_of_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    log: LogWriter[GrowingFile] = LogWriter(None, synced=False)
    begin(log, tmp_path, 1)

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        log.sync_later()
        with pytest.raises(OutputError, match="Input/output error"):
            getattr(log, how)()
    assert log.file is None or not log.is_synced
    # The error is told once, and a mended disk has everything after the next call.
    log.sync()
    assert log.is_synced
    log.close_file()

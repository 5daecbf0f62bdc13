"""The directory of a receiver: whose it is, and what a crash leaves."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dumpfilter.base.errors import (
    BinlogMissing,
    DirectoryBusy,
    OutputError,
    SourceReplaced,
    SourceStreamDamaged,
    StateCorrupt,
)
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.master.store import uuid_of
from dumpfilter.receiver.store import SOURCE_FILE, BinlogDirectory, check_binlog_name
from tests.receiver.fake_source import UUID, description_event, event_at

HEAD = description_event()
DESCRIPTION = FormatDescription.parse(HEAD)


def test_only_one_process_writes_a_store(tmp_path: Path) -> None:
    first = BinlogDirectory(tmp_path / "s")
    with pytest.raises(DirectoryBusy, match="another process fetches"):
        BinlogDirectory(tmp_path / "s")
    first.close()
    BinlogDirectory(tmp_path / "s").close()


@pytest.mark.parametrize("name", ["bin.000001", "bin.index"])
def test_a_directory_with_other_binlogs_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(OutputError, match="did not fetch"):
        BinlogDirectory(tmp_path)
    assert (tmp_path / name).read_text() == "mine"


def test_a_store_knows_its_source(tmp_path: Path) -> None:
    store = BinlogDirectory(tmp_path)
    known = store.recognize("mysql", UUID, "mysql://db1:3306/")
    assert known.replica_id >= 0xF0000000
    store.close()
    store = BinlogDirectory(tmp_path)
    assert store.recognize("mysql", UUID, "mysql://db1.new:3306/").replica_uuid == known.replica_uuid
    assert json.loads((tmp_path / SOURCE_FILE).read_text())["address"] == "mysql://db1.new:3306/"
    for family, uuid in (("mysql", "other"), ("mariadb", "")):
        with pytest.raises(SourceReplaced, match="fetch into another directory"):
            store.recognize(family, uuid, "mysql://db1/")  # type: ignore[arg-type]
    store.close()


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"format": 2}', '{"format": 1, "x": 1}', "null", "[" * 60_000, '{"a":' * 9_000]
)
def test_a_damaged_note_of_the_source_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / SOURCE_FILE).write_text(text)
    with pytest.raises(StateCorrupt, match="another directory"):
        BinlogDirectory(tmp_path)


def test_a_note_of_a_newer_release_says_so(tmp_path: Path) -> None:
    (tmp_path / SOURCE_FILE).write_text(
        f'{{"kind": "{SOURCE_FILE}", "format": 2, "family": "mysql", "more": []}}'
    )
    with pytest.raises(StateCorrupt, match="a newer one wrote the file"):
        BinlogDirectory(tmp_path)


def test_a_pipe_in_the_place_of_the_note_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / SOURCE_FILE)
    with pytest.raises(BinlogMissing, match="pipe"):
        BinlogDirectory(tmp_path)


def test_a_file_is_in_the_index_after_its_first_event_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = BinlogDirectory(tmp_path)
    store.recognize("mysql", UUID, "mysql://db1:3306/")
    store.begin_file("bin.000001", HEAD, DESCRIPTION)

    def crash(path: Path, data: bytes, **_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dumpfilter.base.files.replace", crash)
    with pytest.raises(KeyboardInterrupt):
        store.begin_file("bin.000002", HEAD, DESCRIPTION)
    monkeypatch.undo()
    store.close()
    store = BinlogDirectory(tmp_path)
    assert store.names == ["bin.000001"]
    store.resume()
    store.begin_file("bin.000002", HEAD, DESCRIPTION)
    assert store.names == ["bin.000001", "bin.000002"]
    store.close()


def test_files_that_another_thread_purged_stay_out_of_the_index(tmp_path: Path) -> None:
    store = BinlogDirectory(tmp_path)
    for number in (1, 2):
        store.begin_file(f"bin.{number:06}", HEAD, DESCRIPTION)
    (tmp_path / "bin.index").write_text("./bin.000002\n")
    store.begin_file("bin.000003", HEAD, DESCRIPTION)
    assert (tmp_path / "bin.index").read_text() == "./bin.000002\n./bin.000003\n"
    store.close()


@pytest.mark.parametrize("name", ["bin.000002", "bin.000001"])
def test_files_go_forward(tmp_path: Path, name: str) -> None:
    store = BinlogDirectory(tmp_path)
    store.begin_file("bin.000002", HEAD, DESCRIPTION)
    with pytest.raises(SourceStreamDamaged, match="goes back"):
        store.begin_file(name, HEAD, DESCRIPTION)
    store.close()


def test_a_symbolic_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    store = BinlogDirectory(tmp_path / "s")
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "s/bin.000001").symlink_to(target)
    store.begin_file("bin.000001", HEAD, DESCRIPTION)
    store.close()
    assert target.read_text() == "mine"


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        ".000001",
        "a/b.000001",
        "/a.000001",
        "a\0.000001",
        "a.00000x",
        "a",
        "a\n.000001",
        "b" * 256 + ".1",
        "-rf.000001",
        "bin.000000",
        "bin\x1b[31m.000001",
    ],
)
def test_names_that_no_server_sends_are_errors(name: str) -> None:
    with pytest.raises(SourceStreamDamaged, match="no server does") as caught:
        check_binlog_name(name)
    assert str(caught.value).isprintable()


def test_a_full_disk_leaves_whole_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = BinlogDirectory(tmp_path)
    file = store.begin_file("bin.000001", HEAD, DESCRIPTION)
    before = (tmp_path / "bin.000001").read_bytes()
    real = __import__("os").write

    def half(handle: int, data: bytes) -> int:
        if len(data) < 10:
            raise OSError(28, "No space left on device")
        return int(real(handle, data[: len(data) // 2]))

    monkeypatch.setattr("dumpfilter.receiver.store.os.write", half)
    with pytest.raises(OutputError, match="No space left"):
        file.append(memoryview(bytes(100)))
    monkeypatch.undo()
    store.close()
    assert (tmp_path / "bin.000001").read_bytes() == before


@pytest.mark.parametrize(("family", "uuid"), [("mysql", UUID), ("mariadb", "")])
def test_the_set_has_one_uuid_for_ever(tmp_path: Path, family: str, uuid: str) -> None:
    """The UUID of a set without a file for it depends on the first file, which may be purged or still be short."""
    store = BinlogDirectory(tmp_path)
    store.recognize(family, uuid, "mysql://db1:3306/")  # type: ignore[arg-type]
    file = store.begin_file("bin.000001", HEAD, DESCRIPTION)
    first = uuid_of(BinlogSet.open(tmp_path))
    assert first == (uuid or first)
    file.append(memoryview(event_at(file.position, EventType.XID, bytes(8))))
    store.begin_file("bin.000002", HEAD, DESCRIPTION)
    assert uuid_of(BinlogSet.open(tmp_path)) == first
    store.close()

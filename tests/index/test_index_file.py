"""Index files that no server writes: a typed error with the line and the cure, in bounded time and memory."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from dumpfilter.base.errors import BinlogCorrupt, BinlogError, BinlogMissing, BinlogUnreadable, OutputError
from dumpfilter.binlog import reader
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.index_file import MAX_INDEX, GrowingFile, take_out
from tests.support import DATA

RECORDED = DATA / "oracle" / "mysql-row"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    shutil.copy(RECORDED / "bin.000001", tmp_path)
    return tmp_path / "bin.index"


def refused(index: Path, kind: type[BinlogError]) -> str:
    with pytest.raises(kind) as caught:
        BinlogSet.open(index)
    return str(caught.value).removeprefix(str(index))


def test_a_nul_byte(index: Path) -> None:
    index.write_bytes(b"./bin.000001\n./bin\0.000002\n")
    assert refused(index, BinlogCorrupt) == (
        ": line 2 of the index has a NUL byte; copy the index again from the server, or correct the line"
    )


def test_a_long_line(index: Path) -> None:
    index.write_bytes(b"./bin.000001\n" + b"x" * (10 << 20) + b"\n")
    assert refused(index, BinlogCorrupt).startswith(
        ": line 2 of the index has 10485760 bytes, more than any path"
    )


def test_many_lines(index: Path) -> None:
    index.write_bytes(b"./bin.000001\n")
    os.truncate(index, 130_000_000)
    assert refused(index, BinlogCorrupt).startswith(
        f": the index has more than the limit of {MAX_INDEX} bytes"
    )


def test_two_files_of_one_name(index: Path) -> None:
    (index.parent / "more").mkdir()
    shutil.copy(RECORDED / "bin.000001", index.parent / "more")
    index.write_text("./bin.000001\n./more/bin.000001\n")
    assert "the index names two files bin.000001" in refused(index, BinlogCorrupt)
    index.write_text("./bin.000001\n./bin.000001\n")
    assert BinlogSet.open(index).names == ["bin.000001"]


def test_what_is_no_file(index: Path) -> None:
    os.mkfifo(index)
    assert (
        refused(index, BinlogMissing) == ": cannot read the index: is a pipe, not a file; name a binlog file"
    )
    index.unlink()
    index.symlink_to("/dev/zero")
    assert "is a device, not a file" in refused(index, BinlogMissing)


def test_an_unreadable_index(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index.write_text("./bin.000001\n")
    binlogs = BinlogSet.open(index)

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(reader.os, "pread", fail)
    with pytest.raises(BinlogUnreadable, match=r"bin.index: at 0: cannot be read: Input/output error"):
        binlogs.refresh()
    assert binlogs.names == ["bin.000001"]


def test_a_name_that_the_system_cannot_look_up(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index.write_text("./bin.000001\n")
    binlogs = BinlogSet.open(index)
    index.write_text(f"./{'b' * 300}\n")
    with pytest.raises(BinlogUnreadable, match=r"b: cannot be read: File name too long; check"):
        binlogs.refresh()

    def fail(path: Path) -> os.stat_result:
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(Path, "stat", fail)
    with pytest.raises(BinlogUnreadable, match=r"Stale file handle; try again") as raised:
        binlogs.refresh()
    assert raised.value.momentary
    assert binlogs.names == ["bin.000001"]


def test_names_that_lead_elsewhere_may_be_read(index: Path, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    inner = tmp_path / "set" / "bin.index"
    for line in ("../bin.000001", str(tmp_path / "bin.000001")):
        inner.write_text(line + "\n")
        with BinlogSet.open(inner).file("bin.000001") as file:
            assert file.read(0, 4) == b"\xfebin"
    (tmp_path / "set" / "link.000001").symlink_to("../bin.000001")
    inner.write_text("./link.000001\n")
    assert BinlogSet.open(inner).file("link.000001").size


@pytest.mark.parametrize("name", ["directory", "pipe"])
def test_no_file_under_a_name(index: Path, name: str) -> None:
    os.mkfifo(index.parent / "pipe")
    (index.parent / "directory").mkdir()
    index.write_text(f"./bin.000001\n./{name}\n")
    binlogs = BinlogSet.open(index)
    with pytest.raises(BinlogMissing, match=f"is a {name}, not a file; name a binlog file"):
        binlogs.file(name)


def test_a_missing_file_has_no_size(index: Path) -> None:
    index.write_text("./bin.000001\n./bin.000002\n")
    binlogs = BinlogSet.open(index)
    assert binlogs.size("bin.000001") == (RECORDED / "bin.000001").stat().st_size
    for ask in (binlogs.size, binlogs.file):
        with pytest.raises(
            BinlogMissing, match=r"bin.000002: the index names this file, but it is not there"
        ):
            ask("bin.000002")


def test_the_next_file_by_number(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("bin.1000000", "bin.1000001")]
    assert BinlogSet(paths).after("bin.999999") == "bin.1000000"
    assert BinlogSet(paths).after("bin.1000001") is None


def test_files_are_taken_out_of_an_index(tmp_path: Path) -> None:
    index = tmp_path / "bin.index"
    index.write_bytes(b"./bin.000001\n/var/lib/bin.000002\nbin.000003")
    index.chmod(0o640)
    take_out(index, {"bin.000001", "bin.000002"})
    assert (index.read_bytes(), index.stat().st_mode & 0o777) == (b"bin.000003", 0o640)


def test_what_cannot_be_read_is_named_so(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"bin\.index: cannot be read: No such file"):
        take_out(tmp_path / "bin.index", {"bin.000001"})
    (tmp_path / "bin.000001").touch()
    file = GrowingFile(tmp_path / "bin.000001", os.open(tmp_path / "bin.000001", os.O_WRONLY), 0)
    with pytest.raises(OutputError, match=r"bin\.000001: cannot be read: Bad file descriptor"):
        file.read(0, 4)
    file.close()


def test_an_index_that_a_server_writes_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "bin.index"
    index.write_bytes(b"./bin.000001\n./bin.000002\n")
    change_mode = os.fchmod

    def meanwhile(handle: int, mode: int) -> None:
        change_mode(handle, mode)
        with index.open("ab") as file:
            file.write(b"./bin.000003\n")

    monkeypatch.setattr("os.fchmod", meanwhile)
    with pytest.raises(OutputError, match="its index has just changed"):
        take_out(index, {"bin.000001"})
    assert index.read_bytes() == b"./bin.000001\n./bin.000002\n./bin.000003\n"
    assert [path.name for path in tmp_path.iterdir()] == ["bin.index"]

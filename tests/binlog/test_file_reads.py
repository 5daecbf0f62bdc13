"""Opening and reading of binlog files: short reads, errors of the system, and paths that lead to no file."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from dumpfilter.base.errors import BinlogMissing, BinlogTruncated, BinlogUnreadable
from dumpfilter.binlog import file_reads
from dumpfilter.binlog.file_reads import open_regular, read_into, read_up_to
from dumpfilter.binlog.reader import iter_events
from dumpfilter.index.fileset import BinlogFile
from tests.support import DATA

RECORDED = DATA / "oracle" / "mysql-row" / "bin.000002"


def fail(*_: object) -> bytes:
    raise OSError(errno.EIO, "Input/output error")


@pytest.fixture
def short_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every read return at most 7 bytes."""
    pread, preadv = os.pread, os.preadv
    monkeypatch.setattr(file_reads.os, "pread", lambda fd, length, at: pread(fd, min(length, 7), at))
    monkeypatch.setattr(file_reads.os, "preadv", lambda fd, views, at: preadv(fd, [views[0][:7]], at))


@pytest.mark.usefixtures("short_reads")
def test_a_short_read_is_continued() -> None:
    data = RECORDED.read_bytes()
    with BinlogFile(RECORDED) as file:
        assert file.read(4, 1000) == data[4:1004]
        buffer = np.zeros(1000, np.uint8)
        file.read_whole(buffer, 4)
        assert buffer.tobytes() == data[4:1004]
        assert file.read_up_to(len(data) - 20, 100) == data[-20:]


def test_a_source_without_a_buffer_is_read_on() -> None:
    class Short:
        def __init__(self) -> None:
            self.file = RECORDED.open("rb")

        def read(self, length: int) -> bytes:
            return self.file.read(min(length, 5))

        def seek(self, offset: int) -> int:
            return self.file.seek(offset)

    with RECORDED.open("rb") as whole:
        expected = [event.raw for event in iter_events(whole, file="f")]
    source = Short()
    assert [event.raw for event in iter_events(source, file="f")] == expected  # type: ignore[arg-type]
    source.file.close()


def test_an_error_of_the_system_names_file_position_and_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    with BinlogFile(RECORDED) as file:
        monkeypatch.setattr(file_reads.os, "pread", fail)
        monkeypatch.setattr(file_reads.os, "preadv", fail)
        text = (
            "bin.000002: at 127: cannot be read: Input/output error; check the disk, or copy the file again from the "
            "server"
        )
        with pytest.raises(BinlogUnreadable) as caught:
            file.read(127, 19)
        assert str(caught.value) == text
        with pytest.raises(BinlogUnreadable) as caught:
            file.read_into(np.zeros(10, np.uint8), 127)
        assert str(caught.value) == text
        assert not caught.value.momentary


def test_an_error_while_events_are_read_one_by_one() -> None:
    class Failing:
        def read(self, length: int) -> bytes:
            return fail()

        def seek(self, offset: int) -> int:
            return offset

    with pytest.raises(BinlogUnreadable, match=r"relay.000001: at 0: cannot be read"):
        next(iter_events(Failing(), file="relay.000001"))  # type: ignore[arg-type]


def test_fewer_bytes_than_there_were(tmp_path: Path) -> None:
    path = tmp_path / "bin.000001"
    path.write_bytes(RECORDED.read_bytes())
    with BinlogFile(path) as file:
        os.truncate(path, 500)
        with pytest.raises(
            BinlogTruncated, match=r"bin.000001: at 490: the file was truncated: it has 10 of the 19 bytes"
        ):
            file.read(490, 19)
        with pytest.raises(BinlogTruncated):
            file.read_whole(np.zeros(19, np.uint8), 490)
        with pytest.raises(BinlogTruncated, match=r"at 600: .* it has 0 of the 19 bytes"):
            file.read(600, 19)
        assert file.read_up_to(490, 19) == path.read_bytes()[490:]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE])
def test_an_error_that_may_pass(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(file_reads.os, "open", refuse)
    with pytest.raises(BinlogUnreadable, match=r"cannot be opened: .*; try again") as caught:
        open_regular(RECORDED)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.momentary, again.file, str(again)) == (True, str(RECORDED), str(caught.value))
    assert caught.value.located("other", 4).momentary


def test_paths_that_lead_to_no_file(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_bytes(b"")
    for path, what in (
        (tmp_path / "directory", "is a directory, not a file"),
        (tmp_path / "pipe", "is a pipe, not a file"),
        (Path("/dev/zero"), "is a device, not a file"),
        (tmp_path / "loop", "no such file: Too many levels of symbolic links"),
        (tmp_path / "file" / "x", "no such file: Not a directory"),
        (tmp_path / ("x" * 300), "no such file: File name too long"),
        (tmp_path / "absent", "no such file"),
        (tmp_path / "a\0b", "a NUL byte is in the file's name"),
    ):
        with pytest.raises(BinlogMissing, match=what):
            open_regular(path)


def test_a_file_that_may_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(file_reads.os, "open", refuse)
    with pytest.raises(BinlogMissing, match="cannot be opened: Permission denied; give this user"):
        open_regular(RECORDED)


def test_nothing_stays_open(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(BinlogMissing):
        open_regular(tmp_path)
    assert set(os.listdir("/proc/self/fd")) == before


def test_the_functions_take_any_descriptor(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    with open(tmp_path / "f", "rb") as file:
        assert read_up_to(file.fileno(), 3, 4, file="f") == b"3456"
        room = bytearray(4)
        assert read_into(file.fileno(), memoryview(room), 8, file="f") == 2
        assert bytes(room) == b"89\0\0"

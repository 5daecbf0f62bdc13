"""Tests of the reading of binlog files: short reads, errors of the system, wrong paths, and the events of a file."""

from __future__ import annotations

import errno
import os
import pickle
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.base.errors import (
    BinlogCorrupt,
    BinlogError,
    BinlogMissing,
    BinlogTruncated,
    BinlogUnreadable,
)
from dumpfilter.binlog import reader
from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.binlog.reader import iter_events, open_regular, read_format_description, read_into, read_up_to
from dumpfilter.binlog.writer import make_event
from dumpfilter.index.fileset import BinlogFile
from tests.strategies import CHECKSUMMED, DIALECTS, MadeBinlog, binlogs, query_body
from tests.support import DATA, RECORDED, recording_id


def _read(data: bytes, **options: object) -> list:
    return list(iter_events(BytesIO(data), file="f", **options))


@pytest.mark.parametrize("path", RECORDED, ids=recording_id)
def test_recordings(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[21] &= 0xFE
    with open(path, "rb") as source:
        events = list(iter_events(source, file=path.name))
    assert b"\xfebin" + b"".join(event.raw for event in events) == data
    for event in events:
        assert event.header == EventHeader.unpack(data, event.offset)
        if event.header.end_log_pos or not path.parent.name.startswith("mariadb118"):
            assert event.header.end_log_pos == event.offset + len(event.raw)
        assert event.name.split("(")[0] != "Unknown"
        description = event.type == EventType.FORMAT_DESCRIPTION
        trailer = 4 if event.fd.checksum or (description and event.fd.ends_in_checksum) else 0
        assert bytes(event.body) == event.raw[19 : len(event.raw) - trailer]


@settings(deadline=None)
@given(binlogs())
def test_round_trip(made: MadeBinlog) -> None:
    events = _read(made.data)
    assert b"\xfebin" + b"".join(event.raw for event in events) == made.data
    last = [made.dialect.checksum] if made.fd.ends_in_checksum else made.dialect.lengths[-1:]
    assert bytes(events[0].body).endswith(bytes(last))
    for event in events:
        assert _read(made.data, start=event.offset) == events[events.index(event) :]
        assert _read(made.data, end=event.offset) == events[: events.index(event)] or event.offset == 4


@settings(deadline=None, max_examples=40)
@given(made=binlogs(), data=st.data())
def test_cut(made: MadeBinlog, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(made.data) - 1))
    whole = _read(made.data)
    ends = [event.offset + len(event.raw) for event in whole]
    if cut in ends:
        assert _read(made.data[:cut]) == whole[: ends.index(cut) + 1]
        return
    with pytest.raises(BinlogTruncated) as raised:
        _read(made.data[:cut])
    assert raised.value.file == "f"
    assert raised.value.position == (0 if cut < 4 else max([4, *(end for end in ends if end < cut)]))


@settings(deadline=None, max_examples=80)
@given(made=binlogs(CHECKSUMMED), data=st.data())
def test_flipped_bit(made: MadeBinlog, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(made.data) - 1))
    bit = data.draw(st.integers(0, 7))
    damaged = bytearray(made.data)
    damaged[position] ^= 1 << bit
    if (position, bit) == (21, 0):
        assert _read(bytes(damaged)) == _read(made.data)
        return
    with pytest.raises(BinlogError) as raised:
        _read(bytes(damaged))
    assert raised.value.file == "f"
    assert raised.value.position is not None
    assert raised.value.position <= position


def test_without_verifying() -> None:
    dialect = DIALECTS[0]
    head = b"\xfebin" + dialect.format_description()
    data = bytearray(head + make_event(EventType.QUERY, query_body(b"DO 1")))
    data[-1] ^= 1
    with pytest.raises(BinlogCorrupt, match="checksum mismatch in a Query event"):
        _read(bytes(data))
    assert len(_read(bytes(data), verify=False)) == 2


def test_impossible_lengths() -> None:
    head = b"\xfebin" + DIALECTS[0].format_description()
    for size in (0, 18, 22, 1 << 31, (1 << 32) - 1):
        event = EventHeader(0, EventType.XID, 1, size, 0, 0).pack() + bytes(12)
        with pytest.raises(BinlogCorrupt, match="length is") as raised:
            _read(head + event)
        assert raised.value.position == len(head)
    with pytest.raises(BinlogTruncated, match="after the magic"):
        read_format_description(BytesIO(b"\xfebin"), file="f")


RECORDED = DATA / "oracle" / "mysql-row" / "bin.000002"


def fail(*_: object) -> bytes:
    raise OSError(errno.EIO, "Input/output error")


@pytest.fixture
def short_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every read return at most 7 bytes."""
    pread, preadv = os.pread, os.preadv
    monkeypatch.setattr(reader.os, "pread", lambda fd, length, at: pread(fd, min(length, 7), at))
    monkeypatch.setattr(reader.os, "preadv", lambda fd, views, at: preadv(fd, [views[0][:7]], at))


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
        monkeypatch.setattr(reader.os, "pread", fail)
        monkeypatch.setattr(reader.os, "preadv", fail)
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

    monkeypatch.setattr(reader.os, "open", refuse)
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

    monkeypatch.setattr(reader.os, "open", refuse)
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

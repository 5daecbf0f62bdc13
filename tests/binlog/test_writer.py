"""Tests of the writing of events and of whole binlog sets."""

from __future__ import annotations

import errno
import os
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.base import files
from dumpfilter.base.errors import BinlogCorrupt, OutputError
from dumpfilter.base.files import committed
from dumpfilter.binlog.context_events import decode_rotate
from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.writer import BinlogSetWriter, make_event, rebase, rebase_array
from dumpfilter.index.fileset import BinlogSet
from tests.strategies import DIALECTS, MadeBinlog, binlogs
from tests.support import RECORDED, recording_id

bodies = st.lists(
    st.tuples(st.integers(0, 255), st.binary(max_size=200) | st.sampled_from([bytes(65_512), b"x" * 65_600])),
    max_size=6,
)


@settings(deadline=None)
@given(events=bodies, position=st.integers(4, 1 << 31), checksum=st.booleans())
def test_rebase(events: list[tuple[int, bytes]], position: int, checksum: bool) -> None:
    run = b"".join(make_event(kind, body, checksum=checksum, timestamp=5, flags=3) for kind, body in events)
    at = position
    wanted = b""
    for kind, body in events:
        at += 19 + len(body) + 4 * checksum
        wanted += make_event(kind, body, checksum=checksum, timestamp=5, flags=3, end_log_pos=at)
    assert rebase(run, position, checksum=checksum) == wanted
    moved = np.frombuffer(bytearray(rebase(run, 4, checksum=checksum)), np.uint8)
    rebase_array(moved, position, checksum=checksum)
    assert moved.tobytes() == wanted
    ends = {0, *_ends(run)}
    # All cuts of small events, and of large ones those near their ends and some between.
    cuts = {*range(0, len(run), 1009), *(end + near for end in ends for near in range(-115, 115))}
    for cut in cuts - ends:
        if 0 < cut < len(run):
            assert "incomplete or too short" in _refusal(run[:cut], position, checksum)


def _refusal(run: bytes, position: int, checksum: bool) -> str:
    """Return the error of a rebase. pytest.raises would take longer than the rebase."""
    try:
        rebase(run, position, checksum=checksum)
    except BinlogCorrupt as error:
        return str(error)
    return ""


@pytest.mark.parametrize("size", [100, 65_600, 300_000])
def test_a_wrong_checksum_stays_wrong_in_a_moved_event(size: int) -> None:
    right = bytearray(make_event(EventType.XID, bytes(size), checksum=True, end_log_pos=9))
    wrong = right.copy()
    wrong[30] ^= 1
    for event in (right, wrong):
        rebase_array(np.frombuffer(event, np.uint8), 1 << 20, checksum=True)
    wrong[30] ^= 1
    assert wrong == right == rebase(bytes(right), 1 << 20, checksum=True)


def test_a_place_that_is_not_told_stays_so(tmp_path: Path) -> None:
    """MariaDB 11.8 writes an end_log_pos of 0 for the inner events of a transaction. The writer keeps the 0."""
    dialect = DIALECTS[0]
    with BinlogSetWriter(tmp_path, "copy") as writer:
        writer.begin(MadeBinlog(dialect, b"\xfebin" + dialect.format_description(), [], []).fd)
        writer.append(
            make_event(EventType.XID, bytes(8)) + make_event(EventType.XID, bytes(8), end_log_pos=9)
        )
    with open(tmp_path / "copy.000001", "rb") as source:
        _, first, second = iter_events(source, file="copy.000001")
    assert first.header.end_log_pos == 0
    assert second.header.end_log_pos == second.offset + len(second.raw)


def _ends(run: bytes) -> list[int]:
    ends, at = [], 0
    while at < len(run):
        at += EventHeader.unpack(run, at).size
        ends.append(at)
    return ends


@pytest.mark.parametrize("path", RECORDED, ids=recording_id)
def test_recordings_come_out_as_they_are(path: Path, tmp_path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[21] &= 0xFE
    with open(path, "rb") as source:
        events = list(iter_events(source, file=path.name))
    with BinlogSetWriter(tmp_path, "copy") as writer:
        writer.begin(events[0].fd)
        assert writer.position == 4 + len(events[0].raw)
        writer.append(b"".join(event.raw for event in events[1:]))
        assert writer.position == len(data)
    written = (tmp_path / "copy.000001").read_bytes()
    assert written == data


@settings(deadline=None, max_examples=30)
@given(made=binlogs())
def test_round_trip(made: MadeBinlog, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("set")
    events = list(iter_events(BytesIO(made.data), file="made"))
    with BinlogSetWriter(directory, "b") as writer:
        writer.begin(events[0].fd)
        for event in events[1:]:
            writer.append(event.raw)
        writer.rotate(timestamp=77)
        writer.begin(events[0].fd)
    assert sorted(p.name for p in directory.iterdir()) == ["b.000001", "b.000002", "b.index"]
    assert (directory / "b.index").read_text() == "./b.000001\n./b.000002\n"
    first = (directory / "b.000001").read_bytes()
    assert first.startswith(made.data)
    *_, last = iter_events(BytesIO(first), file="b.000001")
    assert decode_rotate(last.body) == ("b.000002", 4)
    assert (last.header.timestamp, last.header.server_id) == (77, 11)
    assert (directory / "b.000002").read_bytes() == made.data[: made.first_event]
    assert BinlogSet.open(directory).names == ["b.000001", "b.000002"]


def _begin(writer: BinlogSetWriter) -> None:
    fd = MadeBinlog(DIALECTS[0], b"\xfebin" + DIALECTS[0].format_description(), [], []).fd
    writer.begin(fd)


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"

    def fail() -> None:
        with BinlogSetWriter(directory, "x") as writer:
            _begin(writer)
            writer.rotate()
            _begin(writer)
            writer.append(make_event(EventType.STOP, b""))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(directory.iterdir()) == []


def test_until_the_end_there_is_no_index(tmp_path: Path) -> None:
    with BinlogSetWriter(tmp_path, "x") as writer:
        _begin(writer)
        assert [p.name for p in tmp_path.iterdir()] == ["x.000001.new"]
        writer.rotate()
        assert [p.name for p in tmp_path.iterdir()] == ["x.000001"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.000001", "x.index"]


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 6])
def test_a_disk_that_says_no(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    calls = 0

    def refuse(function: object) -> object:
        def call(*arguments: object) -> object:
            nonlocal calls
            calls += 1
            if calls == step:
                raise OSError(28, "No space left on device")
            return function(*arguments)  # type: ignore[operator]

        return call

    monkeypatch.setattr(files.os, "fsync", refuse(os.fsync))
    monkeypatch.setattr(files.os, "fdatasync", refuse(os.fdatasync))
    monkeypatch.setattr(files.os, "replace", refuse(os.replace))
    with pytest.raises(OutputError, match="No space left"), BinlogSetWriter(tmp_path, "x") as writer:
        _begin(writer)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_already(tmp_path: Path) -> None:
    def names() -> list[str]:
        return sorted(p.name for p in tmp_path.iterdir())

    with BinlogSetWriter(tmp_path, "x") as writer:
        _begin(writer)
    with pytest.raises(OutputError, match="there already"):
        BinlogSetWriter(tmp_path, "x")
    with BinlogSetWriter(tmp_path, "y"), pytest.raises(OutputError, match="there already"):
        BinlogSetWriter(tmp_path, "x")
    with BinlogSetWriter(tmp_path, "x", overwrite=True) as writer:
        assert "x.index" in names(), "nothing is lost before something is written"
        _begin(writer)
        writer.rotate()
        assert "x.index" not in names(), "the old index does not name new files"
        _begin(writer)
    assert (tmp_path / "x.index").read_text() == "./x.000001\n./x.000002\n"


def test_misuse(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written"):
        BinlogSetWriter(tmp_path / "file", "x")
    with BinlogSetWriter(tmp_path / "set", "x") as writer:
        _begin(writer)
        with pytest.raises(BinlogCorrupt):
            writer.append(b"torn")
        writer.append(make_event(EventType.STOP, b""))


def test_a_committed_file_is_complete_or_as_before(tmp_path: Path) -> None:
    path = tmp_path / "bin.index"
    outside = tmp_path / "outside"
    outside.write_bytes(b"theirs")
    (tmp_path / "bin.index.new").symlink_to(outside)
    with committed(path, mode=0o600) as file:
        file.write(b"one")
        assert not path.exists()
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"one", 0o600)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for error, raised in ((KeyboardInterrupt(), KeyboardInterrupt), (full, OutputError)):

        def fail(error: BaseException = error) -> None:
            with committed(path) as file:
                file.write(b"two")
                raise error

        with pytest.raises(raised):
            fail()
    assert path.read_bytes() == b"one"
    assert outside.read_bytes() == b"theirs"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bin.index", "outside"]

"""Tests of the writing of events and of files."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt, OutputError
from dumpfilter.base.files import committed
from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.binlog.writer import make_event, rebase, rebase_array

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


def _ends(run: bytes) -> list[int]:
    ends, at = [], 0
    while at < len(run):
        at += EventHeader.unpack(run, at).size
        ends.append(at)
    return ends


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

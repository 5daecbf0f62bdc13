"""One file of a store: the end that a crash leaves, and the comparison with what the source sends again."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import SourceReplaced
from dumpfilter.binlog.context_events import Rotate, encode_rotate
from dumpfilter.binlog.events import FLAGS_OFFSET, LOG_EVENT_BINLOG_IN_USE_F, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.receiver import store
from dumpfilter.receiver.store import OpenFile, find_end
from tests.receiver.fake_source import description_event, event_at, events_of

FIRST = 4 + len(description_event())


def file_of(sizes: list[int], *, checksum: bool = True) -> bytes:
    """Return a file with events whose bodies have these sizes."""
    data = b"\xfebin" + description_event(checksum=checksum)
    for size in sizes:
        data += event_at(len(data), EventType.XID, bytes(size), checksum=checksum)
    return data


@pytest.mark.parametrize("checksum", [True, False])
def test_every_torn_end_is_found(tmp_path: Path, checksum: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 100 bytes, so that some events are larger than a block."""
    monkeypatch.setattr(store, "_BLOCK", 100)
    whole = file_of([8, 300, 0, 90, 8], checksum=checksum)
    description = FormatDescription.parse(description_event(checksum=checksum))
    path = tmp_path / "bin.000001"
    ends = [4]
    for event in events_of(whole):
        ends.append(ends[-1] + len(event))
    for size in range(FIRST, len(whole) + 1):
        path.write_bytes(whole[:size])
        number = max(at for at, end in enumerate(ends) if end <= size)
        found = find_end(path, description)
        assert found == (ends[number - 1], ends[number])


@given(st.integers(FIRST, 4 + 123 + 3 * 31 + 400 - 1), st.integers(0, 7))
def test_a_flipped_bit_ends_the_file_before_its_event(at: int, bit: int) -> None:
    whole = bytearray(file_of([8, 8, 377, 8]))
    begins, position = [], 4
    for event in events_of(bytes(whole)):
        begins.append(position)
        position += len(event)
    at = min(at, len(whole) - 1)
    whole[at] ^= 1 << bit
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "bin.000001")
        path.write_bytes(whole)
        found = find_end(path, FormatDescription.parse(description_event()))
    assert found[1] == max(begin for begin in begins if begin <= at)


@pytest.mark.parametrize(
    ("event", "closed", "following"),
    [
        (event_at(FIRST, EventType.ROTATE, encode_rotate(Rotate("bin.000007", 4))), True, "bin.000007"),
        (event_at(FIRST, EventType.STOP, b""), True, ""),
        (event_at(FIRST, EventType.XID, bytes(8)), False, ""),
    ],
)
def test_a_closed_file_loses_its_flag_also_after_a_crash(
    tmp_path: Path, event: bytes, closed: bool, following: str
) -> None:
    path = tmp_path / "bin.000001"
    made = OpenFile.begin(path, description_event(), FormatDescription.parse(description_event()))
    made.append(memoryview(event))
    made.close()
    assert path.read_bytes()[FLAGS_OFFSET] == LOG_EVENT_BINLOG_IN_USE_F
    again, cut = OpenFile.resume(path)
    assert (again.is_closed, again.next_name, cut) == (closed, following, 0)
    assert path.read_bytes()[FLAGS_OFFSET] == (0 if closed else LOG_EVENT_BINLOG_IN_USE_F)
    again.close()


def test_events_that_come_again_are_compared_and_not_written(tmp_path: Path) -> None:
    path = tmp_path / "bin.000001"
    whole = file_of([8, 8])
    path.write_bytes(whole)
    file, _ = OpenFile.resume(path)
    more = event_at(len(whole), EventType.XID, b"12345678")
    assert file.is_ahead
    file.append(memoryview(whole[-31:] + more))
    assert not file.is_ahead
    assert path.read_bytes() == whole + more
    file.close()
    file, _ = OpenFile.resume(path)
    with pytest.raises(SourceReplaced, match="has other events"):
        file.append(memoryview(event_at(len(whole), EventType.XID, b"87654321")))
    assert path.read_bytes() == whole + more
    file.close()

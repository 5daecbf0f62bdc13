"""The replay of binlog sets: its files are those of the recording, and never look damaged meanwhile."""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest

from dumpfilter.base.errors import OutputError
from dumpfilter.binlog.events import FLAGS_OFFSET, EventType
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.gtid_events import commit_time
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.workload import generate
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.testbed.nodes import (
    MICROSECONDS,
    Replay,
    Timetable,
    generated_set,
    timetables,
)
from dumpfilter.topology.model import Workload
from tests.support import DATA, RECORDED_SETS, recording_id

WAIT = 240.0
AT_ONCE = 1e9


def replayed(tables: list[Timetable], directory: Path) -> BinlogSet:
    replay = Replay(tables, directory, "bin.index")
    replay.start()
    assert replay.wait_done(WAIT)
    replay.close()
    return BinlogSet.open(replay.index)


def content(path: Path) -> bytes:
    """Return a file without the flag "in use", which a recording may have and a closed file does not."""
    data = bytearray(path.read_bytes())
    data[FLAGS_OFFSET] &= 0xFE
    return bytes(data)


@pytest.mark.parametrize("recording", RECORDED_SETS, ids=recording_id)
@pytest.mark.every_recording
def test_a_replay_ends_as_the_recording(recording: Path, tmp_path: Path) -> None:
    source = BinlogSet.open(recording)
    made = replayed(timetables(source, speed=AT_ONCE), tmp_path / "made")
    assert made.names == source.names
    for name in source.names:
        assert content(made.path(name)) == content(source.path(name))


def test_transactions_are_due_at_the_pace_of_the_set(tmp_path: Path) -> None:
    source = BinlogSet.open(generate(tmp_path / "set", 1 << 17).index)
    (slow,), (fast,) = timetables(source, speed=1.0), timetables(source, speed=4.0)
    assert slow.due[0] == 0
    assert np.all(np.diff(slow.due) >= 0)
    assert np.all(np.diff(slow.end) > 0)
    assert np.allclose(slow.due / 4, fast.due, atol=1)
    assert slow.end[-1] == source.size(source.names[0])


@pytest.mark.parametrize("style", ["mysql", "mariadb"])
def test_a_workload_grows_by_its_rate(tmp_path: Path, style: Family) -> None:
    """A simulation of the saved files reads the same commit times, and must not see one burst."""
    rate = 64_000
    model = Workload(size=1 << 19, rate=rate, style=style)
    (table,) = timetables(BinlogSet.open(generated_set(model, tmp_path / "set").index), speed=1.0)
    steady = table.end * 8 * MICROSECONDS // rate
    assert np.abs(steady - table.due).max() < 0.15 * steady[-1]


def test_gtids_with_tags_tell_the_time_as_well() -> None:
    source = BinlogSet.from_index(DATA / "recordings" / "mysql97-new-formats-row" / "bin.index")
    times: list[int] = []
    kinds: set[EventType] = set()
    for name in source.names:
        with source.path(name).open("rb") as file:
            for event in iter_events(file, file=name):
                if event.header.type in (EventType.GTID, EventType.GTID_TAGGED):
                    kinds.add(EventType(event.header.type))
                    told = commit_time(event.raw, checksum=True)
                    assert told is not None
                    times.append(round(told * MICROSECONDS))
    assert EventType.GTID_TAGGED in kinds
    due = [int(moment) for table in timetables(source, speed=1.0) for moment in table.due]
    latest = np.maximum.accumulate(times)
    assert due == pytest.approx(list(latest - latest[0]), abs=1)


def test_seconds_are_spread_over_the_transactions_of_mariadb(tmp_path: Path) -> None:
    source = BinlogSet.open(generate(tmp_path / "set", 1 << 18, style="mariadb").index)
    (table,) = timetables(source, speed=1.0)
    assert len(np.unique(table.due)) == len(table.due)


def test_every_moment_of_a_replay_is_a_valid_set(tmp_path: Path) -> None:
    source = BinlogSet.open(generate(tmp_path / "set", 1 << 17, file_size=1 << 15).index)
    replay = Replay(timetables(source, speed=0.025), tmp_path / "made", "bin.index")
    replay.start()
    seen = set()
    while not replay.is_done:
        found = BinlogSet.open(replay.index)
        for name in found.names:
            data = found.path(name).read_bytes()
            # The file is a prefix of the recording.
            assert content(source.path(name)).startswith(data[:4]), name
            prefix = bytearray(data)
            prefix[FLAGS_OFFSET] &= 0xFE
            assert content(source.path(name))[: len(data)] == bytes(prefix)
            seen.add((name, len(data)))
    replay.close()
    assert BinlogSet.open(replay.index).names == source.names
    assert len(seen) > 4


def test_a_paused_replay_writes_nothing_and_goes_on(tmp_path: Path) -> None:
    source = BinlogSet.open(generate(tmp_path / "set", 1 << 16).index)
    replay = Replay(timetables(source, speed=0.0125), tmp_path / "made", "bin.index")
    replay.start()
    replay.pause()
    size = _settled(BinlogSet.open(replay.index), source.names[0])
    replay.resume()
    assert replay.wait_done(WAIT)
    assert source.size(source.names[0]) == BinlogSet.open(replay.index).size(source.names[0]) > size
    replay.close()


def _settled(made: BinlogSet, name: str) -> int:
    """Return the size of a file once a transaction that was being written is complete."""
    while True:
        size = made.size(name)
        time.sleep(0.05)
        if made.size(name) == size:
            return size


def test_a_held_replay_writes_no_transaction_that_is_due_at_once(tmp_path: Path) -> None:
    source = BinlogSet.open(generate(tmp_path / "set", 1 << 17).index)
    (table,) = timetables(source, speed=math.inf)
    assert not table.due.any()
    replay = Replay([table], tmp_path / "made", "bin.index")
    replay.start(is_paused=True)
    while not (replay._changed._waiters or replay.is_done):  # type: ignore[attr-defined]
        time.sleep(0)
    made = BinlogSet.open(replay.index)
    assert made.size(made.names[0]) == table.head
    replay.resume()
    assert replay.wait_done(WAIT)
    replay.close()
    assert content(made.path(made.names[0])) == content(source.path(source.names[0]))


def test_a_closed_replay_leaves_the_rest_unwritten(tmp_path: Path) -> None:
    source = BinlogSet.open(generate(tmp_path / "set", 1 << 16).index)
    replay = Replay(timetables(source, speed=1e-6), tmp_path / "made", "bin.index")
    replay.start()
    replay.close()
    assert not replay.is_done
    assert BinlogSet.open(replay.index).size(source.names[0]) < source.size(source.names[0])


def test_an_error_of_any_kind_ends_a_replay_with_this_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Replay) -> Generator[int, None, None]:
        yield 0
        raise ValueError("of any kind")

    monkeypatch.setattr(Replay, "_write", fails)
    table = Timetable(tmp_path / "bin.000001", 4, np.zeros(0, np.int64), np.zeros(0, np.int64))
    replay = Replay([table], tmp_path, "bin.index")
    replay.start()
    with pytest.raises(ValueError, match="of any kind"):
        replay.wait_done(WAIT)
    assert not replay.is_done


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    source = BinlogSet.open(generate(tmp_path / "set", 1 << 16).index)
    (tmp_path / "made" / "bin.index").mkdir(parents=True)
    replay = Replay(timetables(source, speed=AT_ONCE), tmp_path / "made", "bin.index")
    with pytest.raises(OutputError, match=r"made/bin\.index: cannot be written: Is a directory"):
        replay.start()

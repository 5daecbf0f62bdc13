"""The growth of log files over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.waiting import watching
from dumpfilter.testbed.experiment.run import Recorder, Watched, reached


@given(st.lists(st.integers(0, 20), min_size=1, max_size=12), st.integers(0, 25))
def test_a_size_counts_from_the_time_after_which_the_file_was_never_shorter(
    sizes: list[int], end: int
) -> None:
    growth = [(at * 10, size) for at, size in enumerate(sizes)]
    expected = next((at * 10 for at in range(len(sizes)) if min(sizes[at:]) >= end), -1)
    assert reached(growth, np.array([end])).tolist() == [expected]


def test_the_files_of_a_log_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("bin.999999", "bin.1000000", "bin.index", "other.000001", "bin.000001.gz"):
        (tmp_path / name).touch()
    assert [path.name for path in Watched(tmp_path, "bin").files()] == ["bin.999999", "bin.1000000"]
    assert Watched(tmp_path / "none").files() == []


def test_a_recorder_follows_a_log_that_begins_later_and_goes_on_in_further_files(tmp_path: Path) -> None:
    recorder = Recorder({"log": Watched(tmp_path / "later", "bin")})
    grown = recorder.grown["log"]
    recorder.look()
    (tmp_path / "later").mkdir()
    first, second = tmp_path / "later" / "bin.000001", tmp_path / "later" / "bin.000002"
    first.write_bytes(b"12345")
    with watching(recorder.run, "recorder"):
        while not grown:
            pass
        first.write_bytes(b"1234567")
        second.write_bytes(b"123")
        while second not in grown:
            pass
    assert list(grown) == [first, second]
    (last, whole), ((begun, size),) = grown[first][-1], grown[second]
    assert (whole, size) == (7, 3)
    assert last <= begun

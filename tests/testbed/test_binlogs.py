"""The ends of binlog sets, and the lag of places behind them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.testbed import binlogs
from dumpfilter.testbed.binlogs import WatchedSet, bytes_after, end_of
from dumpfilter.testbed.values import NO_LAG, NOWHERE, Lag, Place

FILES = [(Path("b.000001"), 100), (Path("b.000002"), 50)]


def test_bytes_after_a_place() -> None:
    assert bytes_after(FILES, Place("b.000001", 90)) == 60
    assert bytes_after(FILES, Place("b.000002", 50)) == 0
    assert bytes_after(FILES, NOWHERE) == 150
    assert end_of(FILES) == Place("b.000002", 50)
    assert end_of([]) == NOWHERE


def test_lag_is_the_age_of_the_oldest_missing_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = WatchedSet(tmp_path / "bin.index")
    watched.note_end(Place("b.000001", 100), 10.0)
    watched.note_end(Place("b.000002", 50), 12.0)
    monkeypatch.setattr(watched, "files", lambda: FILES)
    monkeypatch.setattr(time, "monotonic", lambda: 15.0)
    assert watched.lag_of(Place("b.000001", 40)) == Lag(5.0, 110)
    assert watched.lag_of(Place("b.000001", 100)) == Lag(3.0, 50)
    assert watched.lag_of(Place("b.000002", 50)) == NO_LAG


@given(st.lists(st.integers(0, 20), min_size=1, max_size=12), st.integers(0, 25))
def test_an_end_counts_from_the_time_after_which_the_log_was_never_shorter(
    sizes: list[int], end: int
) -> None:
    watched = WatchedSet(Path("b.index"))
    for at, size in enumerate(sizes):
        watched.note_end(Place("b.1", size), float(at))
    expected = next((float(at) for at in range(len(sizes)) if min(sizes[at:]) >= end), None)
    assert watched.reached(Place("b.1", end)) == expected


def test_a_log_is_followed_that_begins_later_and_goes_on_in_further_files(tmp_path: Path) -> None:
    watched = WatchedSet(tmp_path / "later" / "bin.index")
    watched.note()
    (tmp_path / "later").mkdir()
    first, second, index = (tmp_path / "later" / name for name in ("bin.999999", "bin.1000000", "bin.index"))
    first.write_bytes(b"12345")
    index.write_text("./bin.999999\n")
    watched.note()
    begun = watched.reached(Place("bin.999999", 5))
    assert begun is not None
    first.write_bytes(b"1234567")
    second.write_bytes(b"123")
    index.write_text("./bin.999999\n./bin.1000000\n")
    assert watched.note() == [(first, 7), (second, 3)]
    further = watched.reached(Place("bin.999999", 7))
    assert further is not None
    assert begun < further == watched.reached(Place("bin.1000000", 3))
    assert watched.reached(Place("bin.1000000", 4)) is None


def test_a_history_is_bounded_and_never_tells_too_small_an_age(monkeypatch) -> None:
    monkeypatch.setattr(binlogs, "_MOST_ENDS", 64)
    history = WatchedSet(Path("b.index"))
    for number in range(1000):
        history.note_end(Place("b.1", 10 * number + 10), float(number))
        # An end that was noted before is not a new one.
        history.note_end(Place("b.1", 10 * number + 10), float(number) + 0.5)
    assert len(history._keys) <= 64
    assert history.reached(Place("b.1", 9_991)) == 999.0
    first = history.reached(Place("b.1", 1))
    assert first is not None
    assert first >= 0.0


def test_a_set_that_does_not_exist_yet_has_no_files(tmp_path: Path) -> None:
    watched = WatchedSet(tmp_path / "bin.index")
    assert watched.files() == []
    assert watched.opened() is None

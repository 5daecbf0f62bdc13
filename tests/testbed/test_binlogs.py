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


@given(st.lists(st.integers(5, 10_000), min_size=1, unique=True).map(sorted), st.integers(0, 10_000))
def test_an_age_is_that_of_the_first_end_beyond_the_place(ends: list[int], position: int) -> None:
    history = WatchedSet(Path("b.index"))
    for at, end in enumerate(ends):
        history.note_end(Place("b.1", end), float(at))
    beyond = [at for at, end in enumerate(ends) if end > position]
    expected = 100_000.0 - beyond[0] if beyond else 0.0
    assert history.age_after(Place("b.1", position), 100_000.0) == expected


def test_a_history_is_bounded_and_never_tells_too_small_an_age(monkeypatch) -> None:
    monkeypatch.setattr(binlogs, "_MOST_ENDS", 64)
    history = WatchedSet(Path("b.index"))
    for number in range(1000):
        history.note_end(Place("b.1", 10 * number + 10), float(number))
        # An end that was noted before is not a new one.
        history.note_end(Place("b.1", 10 * number + 10), float(number) + 0.5)
    assert len(history._keys) <= 64
    assert history.age_after(Place("b.1", 9_990), 2000.0) == 1001.0
    assert history.age_after(Place("b.1", 0), 2000.0) <= 2000.0


def test_a_set_that_does_not_exist_yet_has_no_files(tmp_path: Path) -> None:
    watched = WatchedSet(tmp_path / "bin.index")
    assert watched.files() == []
    assert watched.opened() is None

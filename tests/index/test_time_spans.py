"""The spans of time of events whose timestamps do not rise."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.index.time_spans import LONGEST_PAUSE, active_seconds, joined, spans_of

TIMES = st.lists(
    st.integers(0, 2**32 - 1) | st.integers(1, 10 * LONGEST_PAUSE) | st.just(0) | st.just(1), max_size=30
)


@given(TIMES)
def test_each_time_is_in_a_span_and_pauses_are_long(times: list[int]) -> None:
    spans = spans_of(np.array(times, np.uint32))
    known = sorted(set(times) - {0})
    pauses = [after - before for before, after in pairwise(known)]
    assert len(spans) == (1 + sum(pause > LONGEST_PAUSE for pause in pauses) if known else 0)
    assert {time for span in spans for time in span} <= set(known)
    assert all(any(first <= time <= last for first, last in spans) for time in known)
    assert active_seconds(spans) == sum(pause for pause in pauses if pause <= LONGEST_PAUSE)


@given(st.lists(TIMES, max_size=5))
def test_parts_join_to_the_spans_of_the_whole(parts: list[list[int]]) -> None:
    whole = np.array([time for part in parts for time in part], np.uint32)
    assert joined(spans_of(np.array(part, np.uint32)) for part in parts) == spans_of(whole)


def test_a_statement_with_a_wrong_clock_adds_no_time() -> None:
    times = np.array([1, 1_772_409_600, 1_772_409_000, 0, 1_772_409_900], np.uint32)
    assert spans_of(times) == ((1, 1), (1_772_409_000, 1_772_409_900))
    assert active_seconds(spans_of(times)) == 900

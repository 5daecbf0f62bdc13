"""A link's history in bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.topology.links import proxy
from dumpfilter.topology.links.proxy import Journal


@given(st.lists(st.tuples(st.floats(0, 60), st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_joined_spans_lose_no_byte(counted: list[tuple[float, int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proxy, "MOST_SPANS", 8)
        one = Journal()
        for time, down, up in counted:
            one.count(time, down, up)
        history = one.history()
    assert len(history.spans) <= 8
    assert sum(span.down for span in history.spans) == sum(down for _, down, _ in counted)
    assert sum(span.up for span in history.spans) == sum(up for _, _, up in counted)
    assert all(
        before.start + before.seconds <= after.start + 0.001
        for before, after in zip(history.spans, history.spans[1:], strict=False)
    )


def test_the_oldest_happenings_give_way() -> None:
    one = Journal()
    for number in range(proxy.MOST_HAPPENINGS + 5):
        one.note(float(number), "connected")
    happenings = one.history().happenings
    assert len(happenings) == proxy.MOST_HAPPENINGS
    assert happenings[0].time == 5.0

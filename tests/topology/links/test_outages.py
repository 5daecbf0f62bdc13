"""Scheduled outages of a link."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.topology.links.shape import LinkShape, Outage

times = st.integers(0, 100)
outages = st.builds(
    lambda start, length: Outage(start, None if length is None else start + length),
    times,
    st.none() | st.integers(1, 50),
)


@given(st.lists(outages, max_size=5), times)
def test_nothing_changes_between_two_changes(given_outages: list[Outage], time: int) -> None:
    shape = LinkShape(outages=tuple(given_outages))
    after = shape.next_change(time)
    last = 300 if after is None else int(after)
    assert {shape.is_down(at) for at in range(time + 1, last)} <= {shape.is_down(time)}


def test_an_outage_begins_at_its_start_and_is_over_at_its_end() -> None:
    shape = LinkShape(outages=(Outage(60, 120), Outage(200, None)))
    assert [shape.is_down(at) for at in (0, 59, 60, 119, 120, 199, 200, 10_000)] == [
        False,
        False,
        True,
        True,
        False,
        False,
        True,
        True,
    ]
    assert [shape.next_change(at) for at in (0, 60, 120, 200)] == [60, 120, 200, None]

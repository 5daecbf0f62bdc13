"""One direction of a link, with a clock of the test's."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.topology.links.line import MOST_HELD, PIECE, WINDOW, Line, Mark
from dumpfilter.topology.links.shape import LinkShape

EPSILON = 1e-9

messages = st.lists(st.tuples(st.floats(0, 0.5), st.integers(1, 5000)), min_size=1, max_size=10)
"""The time since the message before, and the number of bytes."""

shapes = st.builds(
    LinkShape,
    rate=st.none() | st.integers(8_000, 1_000_000_000),
    delay=st.floats(0, 2),
    jitter=st.floats(0, 0.5),
)


def line(shape: LinkShape) -> Line[str]:
    return Line(shape, Random(1))


def arrivals(gaps: list[tuple[float, int]]) -> list[tuple[float, bytes]]:
    """Return the times and the bytes of messages. The bytes of each message differ."""
    time, found = 0.0, []
    for number, (gap, count) in enumerate(gaps):
        time += gap
        found.append((time, bytes([number]) * count))
    return found


def drained(one: Line[str], messages: list[tuple[float, bytes]]) -> list[tuple[float, bytes]]:
    """Return the deliveries of a line with their times. Each delivery is taken as soon as the line has one."""
    found: list[tuple[float, bytes]] = []

    def pop_until(end: float) -> None:
        while (at := one.next_time()) is not None and at <= end:
            found.extend((at, data) for _, _, data in one.pop(at))

    for time, data in messages:
        pop_until(time)
        one.push(time, "reader", data)
        found.extend((time, data) for _, _, data in one.pop(time))
    pop_until(1e9)
    return found


@given(messages, shapes)
def test_all_bytes_come_out_in_order_and_never_too_early(
    gaps: list[tuple[float, int]], shape: LinkShape
) -> None:
    sent = arrivals(gaps)
    found = drained(line(shape), sent)
    assert b"".join(data for _, data in found) == b"".join(data for _, data in sent)
    assert all(before <= after + EPSILON for (before, _), (after, _) in pairwise(found))
    came = {}
    for time, data in found:
        for number in set(data):
            came.setdefault(number, time)
    for number, (time, _) in enumerate(sent):
        assert came[number] >= time + max(0.0, shape.delay - shape.jitter) - EPSILON


@given(messages, st.integers(8_000, 10_000_000), st.floats(0, 2))
def test_messages_come_out_by_lindleys_recursion(
    gaps: list[tuple[float, int]], rate: int, delay: float
) -> None:
    sent = arrivals(gaps)
    one = line(LinkShape(rate, delay))
    for time, data in sent:
        one.push(time, "reader", data)
    free = 0.0
    for number, (time, data) in enumerate(sent):
        free = max(free, time) + 8 * len(data) / rate
        early = b"".join(data for _, _, data in one.pop(free + delay - 4 / rate))
        late = b"".join(data for _, _, data in one.pop(free + delay + EPSILON))
        assert (early + late).endswith(bytes([number]))
        assert late


@given(messages, st.integers(8_000, 10_000_000))
def test_no_span_of_time_has_more_bytes_than_the_rate(gaps: list[tuple[float, int]], rate: int) -> None:
    found = drained(line(LinkShape(rate)), arrivals(gaps))
    # A delivery may be late by the time between two deliveries, and by a part of a byte.
    most = rate * (PIECE + EPSILON) + 8
    total, lead, least = 0, 0.0, float("inf")
    for time, data in found:
        total += len(data)
        lead = total * 8 - time * rate
        assert lead - least <= most
        least = min(least, lead)


@given(messages, shapes, st.integers(0, 20_000))
def test_a_limit_stops_after_exactly_its_bytes(
    gaps: list[tuple[float, int]], shape: LinkShape, limit: int
) -> None:
    sent = arrivals(gaps)
    one = line(shape)
    for time, data in sent:
        one.push(time, "reader", data)
    whole = b"".join(data for _, data in sent)
    assert b"".join(data for _, _, data in one.pop(1e9, limit)) == whole[:limit]
    assert one.held == max(0, len(whole) - limit)
    assert one.clear(1e9) == max(0, len(whole) - limit)
    assert one.next_time() is None


def test_a_mark_waits_for_the_bytes_before_it() -> None:
    one = line(LinkShape(8_000, 1.0))
    one.push(0.0, "reader", b"x" * 1000)
    one.push(0.0, "reader", b"", Mark.END)
    assert sum(len(data) for _, _, data in one.pop(1.5)) == 500
    assert one.pop(2.0) == [
        ("reader", Mark.BYTES, b"x" * 500),
        ("reader", Mark.END, b""),
    ]


def test_a_slow_line_accepts_what_it_sends_within_the_window() -> None:
    one = line(LinkShape(80_000))
    assert one.room(0.0) == int(80_000 / 8 * WINDOW)
    assert not one.is_full(0.0, before=False)
    one.push(0.0, "reader", b"x" * one.room(0.0))
    assert one.is_full(0.0, before=False)
    assert one.is_full(one.room_time() - EPSILON, before=True)
    assert not one.is_full(one.room_time(), before=True)


def test_a_fast_line_with_a_long_delay_holds_a_bounded_number_of_bytes() -> None:
    one = line(LinkShape(None, 3600.0))
    pushed = 0
    while not one.is_full(0.0, before=False):
        one.push(0.0, "reader", b"x" * (1 << 20))
        pushed += 1 << 20
    assert pushed <= MOST_HELD
    assert sum(len(data) for _, _, data in one.pop(3600.0)) == pushed
    assert not one.is_full(3600.0, before=True)


def test_bytes_that_have_waited_outside_make_up_for_a_late_process() -> None:
    one = line(LinkShape(8_000))
    one.push(0.0, "reader", b"x" * 100)
    one.pop(0.2)
    one.push(0.3, "reader", b"y" * 200, since=0.05)
    assert [data for _, _, data in one.pop(0.3 + EPSILON)] == [b"y" * 200]


def test_a_shorter_delay_applies_to_bytes_under_way() -> None:
    one = line(LinkShape(None, 3.0))
    one.push(0.0, "reader", b"old")
    one.change(1.0, LinkShape(None, 0.5))
    one.push(1.0, "reader", b"new")
    assert [data for _, _, data in one.pop(1.0)] == [b"old"]
    assert one.next_time() == pytest.approx(1.5)


def test_a_longer_delay_lets_bytes_under_way_go_on() -> None:
    one = line(LinkShape(None, 1.0))
    one.push(0.0, "reader", b"old")
    one.change(0.5, LinkShape(None, 3.0))
    one.push(0.5, "reader", b"new")
    assert [data for _, _, data in one.pop(1.0)] == [b"old"]
    assert [data for _, _, data in one.pop(3.5)] == [b"new"]


def test_after_a_silence_everything_comes_out_later() -> None:
    one = line(LinkShape(8_000, 1.0))
    one.push(0.0, "reader", b"x" * 1000)
    one.shift(5.0)
    assert one.pop(6.0) == []
    assert sum(len(data) for _, _, data in one.pop(7.0)) == 1000

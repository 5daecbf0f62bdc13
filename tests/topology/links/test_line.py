"""One direction of a link, with a clock of the test's."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.topology.links.line import MOST_HELD, PIECE, WINDOW, Line
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


def line(shape: LinkShape) -> Line:
    return Line(shape, Random(1))


def arrivals(gaps: list[tuple[float, int]]) -> list[tuple[float, bytes]]:
    """Return the times and the bytes of messages. The bytes of each message differ."""
    time, found = 0.0, []
    for number, (gap, count) in enumerate(gaps):
        time += gap
        found.append((time, bytes([number]) * count))
    return found


def pushed(one: Line, sent: list[tuple[float, bytes]]) -> list[tuple[float, bytes]]:
    """Return the pieces in which a line delivers messages, with their times."""
    return [piece for time, data in sent for piece in one.push(time, data)]


def out_by(one: Line, pieces: list[tuple[float, bytes]], end: float) -> bytes:
    return b"".join(data for due, data in pieces if due - one.sooner <= end)


@given(messages, shapes)
def test_all_bytes_come_out_in_order_and_never_too_early(
    gaps: list[tuple[float, int]], shape: LinkShape
) -> None:
    sent = arrivals(gaps)
    found = pushed(line(shape), sent)
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
    free, one = 0.0, line(LinkShape(rate, delay))
    for time, data in arrivals(gaps):
        pieces = one.push(time, data)
        free = max(free, time) + 8 * len(data) / rate
        assert pieces[-1][0] == pytest.approx(free + delay)


@given(messages, st.integers(8_000, 10_000_000))
def test_no_span_of_time_has_more_bytes_than_the_rate(gaps: list[tuple[float, int]], rate: int) -> None:
    found = pushed(line(LinkShape(rate)), arrivals(gaps))
    # A delivery may be late by the time between two deliveries, and by a part of a byte.
    most = rate * (PIECE + EPSILON) + 8
    total, lead, least = 0, 0.0, float("inf")
    for time, data in found:
        total += len(data)
        lead = total * 8 - time * rate
        assert lead - least <= most
        least = min(least, lead)


def test_the_end_of_a_stream_waits_for_the_bytes_before_it() -> None:
    one = line(LinkShape(8_000, 1.0))
    pieces = [*one.push(0.0, b"x" * 1000), *one.push(0.0, b"")]
    assert len(out_by(one, pieces, 1.5)) == 500
    assert pieces[-1] == (2.0, b"")


def test_a_slow_line_accepts_what_it_sends_within_the_window() -> None:
    one = line(LinkShape(80_000))
    assert one.room(0.0) == int(80_000 / 8 * WINDOW)
    assert one.reads_at == 0.0
    one.push(0.0, b"x" * one.room(0.0))
    assert one.reads_at == pytest.approx(WINDOW / 2)
    assert one.room(0.0) == 1
    assert one.room(one.reads_at) == pytest.approx(80_000 / 8 * WINDOW / 2, abs=1)


def test_a_fast_line_with_a_long_delay_holds_a_bounded_number_of_bytes() -> None:
    one = line(LinkShape(None, 3600.0))
    pieces = []
    while one.reads_at == 0.0:
        pieces += one.push(0.0, b"x" * min(1 << 20, one.room(0.0)))
    assert len(out_by(one, pieces, 3600.0)) == one.held == MOST_HELD
    assert one.room(one.reads_at) == 1
    one.held = 0
    assert one.room(one.reads_at) == MOST_HELD


def test_bytes_that_have_waited_outside_make_up_for_a_late_process() -> None:
    one = line(LinkShape(8_000))
    one.push(0.0, b"x" * 100)
    assert one.reads_at == pytest.approx(0.05)
    one.resumed_at = 0.3
    assert one.push(0.3, b"y" * 200)[-1][0] == pytest.approx(0.3)
    assert one.push(0.4, b"z" * 100)[-1][0] == pytest.approx(0.5)


def test_a_shorter_delay_applies_to_bytes_under_way() -> None:
    one = line(LinkShape(None, 3.0))
    pieces = one.push(0.0, b"old")
    one.change(LinkShape(None, 0.5))
    pieces += one.push(1.0, b"new")
    assert out_by(one, pieces, 1.0) == b"old"
    assert out_by(one, pieces, 1.5) == b"oldnew"


def test_a_longer_delay_lets_bytes_under_way_go_on() -> None:
    one = line(LinkShape(None, 1.0))
    pieces = one.push(0.0, b"old")
    one.change(LinkShape(None, 3.0))
    pieces += one.push(0.5, b"new")
    assert out_by(one, pieces, 1.0) == b"old"
    assert pieces[-1] == (3.5, b"new")


def test_after_a_reset_the_wire_is_free() -> None:
    one = line(LinkShape(8_000, 1.0))
    one.push(0.0, b"x" * 1000)
    one.clear()
    assert one.push(0.5, b"y" * 2) == [(pytest.approx(1.502), b"yy")]


def test_a_reset_of_a_full_line_gives_no_bytes_for_free() -> None:
    one = line(LinkShape(80_000))
    one.push(10.0, b"x" * one.room(10.0))
    one.clear()
    one.resumed_at = 10.05
    assert one.push(10.051, b"y" * 500)[-1][0] == pytest.approx(10.101)

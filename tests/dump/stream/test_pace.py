from __future__ import annotations

from collections import deque

import pytest

from dumpfilter.dump.stream.pace import BUFFERS, BURST, LEAST, Pace, message_size

MOST = 256 << 10
HEAD = 110


class Line:
    """A line with a rate, behind buffers, without a clock of its own. A write waits while the buffers are full."""

    def __init__(self, rate: float, buffers: int) -> None:
        self.rate = rate
        self.buffers = buffers
        self.now = 0.0
        self._free = 0.0
        self._under_way: deque[tuple[float, int]] = deque()
        self._held = 0

    def write(self, size: int) -> tuple[float, float]:
        """Return the times at which a write begins and ends. Without a wait it takes a tenth of a millisecond."""
        begun = self.now
        self._free = max(self._free, begun) + size / self.rate
        self._under_way.append((self._free, size))
        self._held += size
        ended = begun + 1e-4
        while self._held > self.buffers:
            left, gone = self._under_way.popleft()
            self._held -= gone
            ended = max(ended, left)
        while self._under_way and self._under_way[0][0] <= ended:
            self._held -= self._under_way.popleft()[1]
        self.now = ended
        return begun, ended


def written(line: Line, pace: Pace, total: int) -> list[int]:
    """Write messages to a line, and return their sizes."""
    sizes = []
    while total > 0:
        sizes.append(pace.size)
        pace.wrote(pace.size, *line.write(pace.size))
        total -= sizes[-1]
    return sizes


@pytest.mark.parametrize("rate", [1_200, 8_000, 25_000, 125_000])
@pytest.mark.parametrize("buffers", [64 << 10, 128 << 10, BUFFERS])
def test_no_message_takes_more_than_a_second_of_a_slow_line(rate: int, buffers: int) -> None:
    pace = Pace(MOST, rate / 4)
    sizes = written(Line(rate, buffers), pace, buffers + (1 << 20))
    assert max(sizes) <= max(rate, LEAST)
    assert sizes[-1] == message_size(rate, MOST)


@pytest.mark.parametrize("rate", [2e6, 1e8])
def test_a_fast_line_soon_has_large_messages(rate: float) -> None:
    sizes = written(Line(rate, BUFFERS), Pace(MOST, 1_000), 6 * BUFFERS)
    small = [size for size in sizes if size < MOST]
    assert sum(small) <= 4 * BUFFERS
    assert sizes[-1] == MOST


def test_a_line_that_became_slow_gets_small_messages() -> None:
    line, pace = Line(1e8, 64 << 10), Pace(MOST, 1e6)
    assert written(line, pace, 4 << 20)[-1] == MOST
    line.rate = 16_000
    assert written(line, pace, 2 << 20)[-1] == message_size(16_000, MOST)


@pytest.mark.parametrize(("size", "rate"), [(BURST - 1, 1e6), (BURST, BURST / 2)])
def test_a_rate_is_measured_after_a_burst(size: int, rate: float) -> None:
    pace = Pace(MOST, 1e6)
    pace.wrote(1, 0.0, 1.0)
    pace.wrote(size, 1.0, 3.0)
    assert pace.rate == rate


def test_a_pause_is_not_a_slow_line() -> None:
    line, pace = Line(1e8, 64 << 10), Pace(MOST, 2e6)
    for _ in range(20):
        written(line, pace, 1 << 20)
        line.now += 60
    assert pace.size == MOST


def test_a_rate_that_the_slave_tells_counts_once() -> None:
    pace = Pace(MOST, 1_000)
    pace.hear(2_000_000)
    assert pace.size == MOST
    line = Line(16_000, 64 << 10)
    written(line, pace, 4 << 20)
    pace.hear(2_000_000)
    assert pace.size == message_size(16_000, MOST)


def test_a_slave_that_asks_for_small_messages_gets_them() -> None:
    assert Pace(1, 1e9).size == 1
    assert Pace(4096).size == 4096

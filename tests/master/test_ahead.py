from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from dumpfilter.master.ahead import Ahead


def test_items_come_in_order_and_the_end_ends() -> None:
    assert list(Ahead(iter(range(1000)), 3)) == list(range(1000))
    assert list(Ahead(iter(()), 3)) == []


def test_what_the_source_raises_is_raised_after_what_it_gave() -> None:
    def source() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("here")

    items = iter(Ahead(source(), 3))
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(ValueError, match="here"):
        next(items)


def test_a_slow_consumer_holds_the_producer_back_and_close_ends_it() -> None:
    made: list[int] = []
    closed = threading.Event()

    def source() -> Iterator[int]:
        try:
            for n in range(1000):
                made.append(n)
                yield n
        finally:
            closed.set()

    ahead = Ahead(source(), 3)
    assert next(iter(ahead)) == 0
    time.sleep(0.2)
    assert len(made) <= 6
    ahead.close()
    assert closed.wait(5)
    assert len(made) <= 7

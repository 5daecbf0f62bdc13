"""Tests of the signal between I/O thread and applier."""

from __future__ import annotations

import threading
import time

from dumpfilter.slave.relay_position import RelayPosition
from dumpfilter.slave.threads import Progress, RelayEnd

HERE = RelayPosition("relay-bin.000001", 100)
FURTHER = RelayPosition("relay-bin.000001", 200)


def test_a_wait_ends_when_the_relay_log_ends_elsewhere() -> None:
    end = RelayEnd()
    assert not end.until(lambda: end.position is not None, 0)
    end.publish(HERE)
    assert end.until(lambda: end.position is not None, 60)
    end.publish(FURTHER)
    assert end.until(lambda: end.position != HERE, 60)


def test_a_wait_is_ended_from_another_thread() -> None:
    end = RelayEnd()
    for change in (lambda: end.publish(HERE), end.close):
        before = end.position, end.is_last
        thread = threading.Thread(target=change)
        thread.start()
        assert end.until(lambda before=before: (end.position, end.is_last) != before, 60)
        thread.join()


def test_a_listener_hears_each_position() -> None:
    heard: list[RelayPosition | None] = []
    end = RelayEnd(heard.append)
    for position in (HERE, FURTHER, HERE, None):
        end.publish(position)
    assert heard == [HERE, FURTHER, HERE, None]


def test_an_applier_does_not_wait_for_the_conditions_of_statements() -> None:
    progress, asked, answered = Progress(), threading.Event(), threading.Event()

    def ask() -> bool:
        asked.set()
        return answered.wait(60)

    waiting = threading.Thread(target=progress.until, args=(ask, 60))
    waiting.start()
    assert asked.wait(60)
    told = threading.Thread(target=progress.told)
    told.start()
    told.join(10)
    is_held = told.is_alive()
    answered.set()
    waiting.join()
    told.join()
    assert not is_held
    assert progress.waiting == 0


def test_a_wait_ends_in_time_however_often_something_changes() -> None:
    progress, begin = Progress(), time.monotonic()
    assert not progress.until(lambda: bool(progress.told()), 0.2)
    assert 0.2 <= time.monotonic() - begin < 30

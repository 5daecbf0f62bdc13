"""Tests of the signal between I/O thread and applier."""

from __future__ import annotations

import threading

from dumpfilter.slave.relay_position import RelayPosition
from dumpfilter.slave.threads import RelayEnd

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

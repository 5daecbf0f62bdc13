"""Tests of the signal between I/O thread and applier."""

from __future__ import annotations

import threading

from dumpfilter.slave.state.relay_log import RelayPosition
from dumpfilter.slave.threads.relay_end import RelayEnd

HERE = RelayPosition("relay-bin.000001", 100)
FURTHER = RelayPosition("relay-bin.000001", 200)


def test_a_wait_ends_when_the_relay_log_ends_elsewhere() -> None:
    end = RelayEnd()
    assert end.wait(None, 0) == (None, False)
    end.publish(HERE)
    assert end.wait(None, 60) == (HERE, False)
    end.publish(FURTHER)
    assert end.wait(HERE, 60) == (FURTHER, False)


def test_a_wait_ends_at_once_when_the_io_thread_has_ended() -> None:
    end = RelayEnd()
    end.close()
    assert end.wait(None, 60) == (None, True)
    end.open()
    assert end.wait(None, 0) == (None, False)


def test_a_wake_is_not_lost_when_nobody_waits() -> None:
    end = RelayEnd()
    end.wake()
    assert end.wait(None, 60) == (None, False)


def test_a_wait_is_ended_from_another_thread() -> None:
    end = RelayEnd()
    thread = threading.Thread(target=end.publish, args=(HERE,))
    thread.start()
    assert end.wait(None, 60) == (HERE, False)
    thread.join()


def test_a_listener_hears_each_position() -> None:
    heard: list[RelayPosition | None] = []
    end = RelayEnd(heard.append)
    for position in (HERE, FURTHER, HERE, None):
        end.publish(position)
    assert heard == [HERE, FURTHER, HERE, None]

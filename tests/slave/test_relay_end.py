"""The queue of recorded states between the I/O thread and the applier."""

from __future__ import annotations

import threading

from dumpfilter.filter.rules import RuleKind
from dumpfilter.slave.state.master_info import MasterInfo
from dumpfilter.slave.threads.relay_end import _MOST_STATES, RelayEnd

FOREVER = 60.0
"""A timeout, seconds, that no test waits for."""


def state(file: int, offset: int) -> MasterInfo:
    return MasterInfo(relay_file=f"relay-bin.{file:06d}", relay_offset=offset)


def test_states_come_in_order_and_stay_until_they_are_reached() -> None:
    end = RelayEnd()
    for offset in (1, 2):
        end.publish(state(1, offset))
    for offset in (1, 2):
        for _ in range(2):
            oldest, closed = end.wait(FOREVER)
            assert oldest is not None
            assert (oldest.info, closed) == (state(1, offset), False)
        end.reached(oldest)
        assert end.newest_reached == state(1, offset)
    end.close()
    assert end.wait(FOREVER) == (None, True)


def test_an_applier_that_starts_gets_the_newest_state_again() -> None:
    end = RelayEnd()
    end.rewind(state(1, 7))
    end.begin()
    oldest, _ = end.wait(FOREVER)
    assert oldest is not None
    assert oldest.info == state(1, 7)


def test_wake_ends_a_running_wait_and_the_next_one() -> None:
    end = RelayEnd()
    end.wake()
    assert end.wait(FOREVER) == (None, False)
    waiting = threading.Thread(target=end.wait, args=(FOREVER,))
    waiting.start()
    end.wake()
    waiting.join(FOREVER / 2)
    assert not waiting.is_alive()


def test_a_long_queue_keeps_all_hits_and_the_last_state_of_each_file() -> None:
    end = RelayEnd()
    published = [state(file, offset) for file in (1, 2, 3) for offset in range(_MOST_STATES // 2 - 1)]
    for info in published:
        end.publish(info, {RuleKind.DO_DB: 1})
    end.close()
    kept = []
    while (oldest := end.wait(FOREVER)[0]) is not None:
        kept.append(oldest)
        end.reached(oldest)
    assert len(kept) <= _MOST_STATES
    assert [one.info for one in kept] == [info for info in published if info in [k.info for k in kept]]
    assert {state(file, _MOST_STATES // 2 - 2) for file in (1, 2, 3)} <= {one.info for one in kept}
    assert sum(one.hits[RuleKind.DO_DB] for one in kept) == len(published)

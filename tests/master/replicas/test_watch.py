"""The watch over the own filters of real replicas."""

from __future__ import annotations

from dumpfilter.master.replicas.watch import FilterWatch
from tests.master.replicas.entries import Own, checked
from tests.master.replicas.test_control import Served


def test_a_filter_is_read_again_when_its_time_has_come() -> None:
    own = Own("do-db=a")
    served = Served([checked("do-db=a")], own)
    slave = served.dump()
    watch = FilterWatch(served.control)
    seconds = served.control.seconds_between_looks(slave)
    begun = own.reads
    watch.look(1000.0)
    watch.look(1000.0 + seconds / 2)
    assert own.reads == begun
    watch.look(1000.0 + seconds)
    assert own.reads == begun + 1


def test_a_thread_watches() -> None:
    watch = FilterWatch(Served([]).control)
    watch.start()
    watch.close()

"""The measured times are those of warm code, as on a master that runs."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest

from dumpfilter.dump.thread import DumpThread
from dumpfilter.filter import Filter
from dumpfilter.spark_jobs.bandwidth.measure import MeasureRanges
from dumpfilter.spark_jobs.ranges.range_index import index_file, ranges_of
from tests.support import DATA

_COMPILATION = 1000.0
"""The CPU seconds of each thread's first call, on the clock of the test."""


def test_a_threads_first_calls_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    path = DATA / "oracle" / "mysql-row" / "bin.000001"
    index = index_file(0, str(path), last=True, range_size=4000)
    ranges = ranges_of([index])
    assert len(ranges) > 1
    compiled: Counter[int] = Counter()
    plan = DumpThread.plan

    def slow_at_first(self: DumpThread, segment: Any) -> Any:
        compiled[threading.get_ident()] = 1
        return plan(self, segment)

    monkeypatch.setattr(DumpThread, "plan", slow_at_first)
    monkeypatch.setattr(time, "thread_time", lambda: _COMPILATION * compiled[threading.get_ident()])
    measure = MeasureRanges("job", (index,), ((Filter.from_options(["--replicate-do-db=shop"]), None),), 1, 1)
    found: list[Any] = []
    # Another thread has not run before, unlike that of the tests.
    thread = threading.Thread(target=lambda: found.append(measure(ranges)[0].timing))
    thread.start()
    thread.join()
    (timing,) = found
    assert timing.plain_events > 0
    assert timing.decide_events > 0
    assert (timing.plain_seconds, timing.decide_seconds, timing.render_seconds) == (0, 0, 0)

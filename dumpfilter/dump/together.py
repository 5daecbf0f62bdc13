"""Placeholder."""

from __future__ import annotations

from collections.abc import Sequence

from dumpfilter.dump.chunk import ChunkPlan
from dumpfilter.dump.thread import DumpThread
from dumpfilter.errors import DumpfilterError
from dumpfilter.index.segment import Segment


def plan_together(threads: Sequence[DumpThread], segment: Segment) -> list[list[ChunkPlan] | DumpfilterError]:
    plans: list[list[ChunkPlan] | DumpfilterError] = []
    for thread in threads:
        try:
            plans.append(thread.plan(segment))
        except DumpfilterError as error:
            plans.append(error)
    return plans

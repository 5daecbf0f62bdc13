"""Plans of chunks in the form in which compiled code writes them: one array of integers for a slave's share of a
segment. A plan is unpacked when somebody reads it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dumpfilter.dump import _many_kernels as K
from dumpfilter.dump.chunk import ChunkPlan, Counts
from dumpfilter.dump.decide import RANGE_COLUMNS
from dumpfilter.dump.gaps import NO_GAPS, Gaps

Integers = npt.NDArray[np.int64]

_RUN_COLUMNS = 3
_HIT_COLUMNS = 2
_NUMBERS = frozenset({"end", "resume", "resume_bytes", "counts", "replaced"})
_ARRAYS = frozenset({"ranges", "completed", "gaps"})


class PackedPlan(ChunkPlan):
    """A chunk plan whose fields are unpacked at the first access to them.

    A master often merges or discards a plan, or sends it much later, so the work is left until then.

    Parameters:
        file: the name of the binlog file.
        packed: the array of the slave's share of a segment. All plans of the share hold it.
        at: the index in ``packed`` at which the plan begins.
    """

    __slots__ = ("_at", "_packed")

    def __init__(self, file: str, packed: Integers, at: int) -> None:
        self.file = file
        self._packed = packed
        self._at = at

    def __getattr__(self, name: str) -> Any:
        # Python calls this method for a field that has no value yet.
        if name in _NUMBERS:
            self._unpack_numbers()
        elif name in _ARRAYS:
            self._unpack_arrays()
        else:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return object.__getattribute__(self, name)

    def _unpack_numbers(self) -> None:
        at = self._at
        self.end, self.resume, self.resume_bytes, *counts = self._packed[at : at + K.H_RANGES].tolist()
        self.counts = Counts(*counts)
        self.replaced = {}

    def _unpack_arrays(self) -> None:
        packed, at = self._packed, self._at
        head = at + K.HEAD
        n_ranges, n_completed, n, n_runs, n_hits = packed[at + K.H_RANGES : head].tolist()
        completed = head + RANGE_COLUMNS * n_ranges
        offset = completed + _RUN_COLUMNS * n_completed
        self.ranges = packed[head:completed].reshape(n_ranges, RANGE_COLUMNS)
        self.completed = packed[completed:offset].reshape(n_completed, _RUN_COLUMNS)
        if not n:
            self.gaps = NO_GAPS
            return
        end = offset + n
        runs_until = end + n
        hits_until = runs_until + n
        runs = hits_until + n
        hits = runs + _RUN_COLUMNS * n_runs
        self.gaps = Gaps(
            packed[offset:end],
            packed[end:runs_until],
            packed[runs_until:hits_until],
            packed[runs:hits].reshape(n_runs, _RUN_COLUMNS),
            packed[hits_until:runs],
            packed[hits : hits + _HIT_COLUMNS * n_hits].reshape(n_hits, _HIT_COLUMNS)
            if n_hits
            else NO_GAPS.hits,
        )

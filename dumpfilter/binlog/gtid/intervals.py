"""Sorted intervals of transaction numbers: the content of a GTID set for one UUID and tag, or for one domain."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

U64: TypeAlias = npt.NDArray[np.uint64]

ONE = np.uint64(1)
_UINT64_MAX = np.uint64(2**64 - 1)


class Intervals:
    """A set of transaction numbers (1 to 2**64-1) as closed intervals, which are sorted, disjoint and never adjacent.

    Two arrays hold 8 bytes for each interval. Appending a number is O(1), finding a number is a bisection, and numpy
    combines whole sets over the same memory.
    """

    __slots__ = ("ends", "starts")

    def __init__(self, starts: array[int] | None = None, ends: array[int] | None = None) -> None:
        self.starts = array("Q") if starts is None else starts
        self.ends = array("Q") if ends is None else ends

    @classmethod
    def of(cls, starts: U64, ends: U64) -> Intervals:
        made = cls()
        made.starts.frombytes(starts.tobytes())
        made.ends.frombytes(ends.tobytes())
        return made

    def arrays(self) -> tuple[U64, U64]:
        # An array of Python cannot grow while a numpy view of its memory exists, so no caller keeps a view beyond a
        # computation.
        return np.frombuffer(self.starts, np.uint64), np.frombuffer(self.ends, np.uint64)

    def copy(self) -> Intervals:
        return Intervals(self.starts[:], self.ends[:])

    def __len__(self) -> int:
        return len(self.starts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Intervals):
            return NotImplemented
        return self.starts == other.starts and self.ends == other.ends

    __hash__ = None  # type: ignore[assignment]  # mutable

    def count(self) -> int:
        starts, ends = self.arrays()
        return int((ends - starts).sum(dtype=np.uint64)) + len(starts)

    def covers(self, first: int, last: int) -> bool:
        i = bisect_right(self.starts, first) - 1
        return i >= 0 and self.ends[i] >= last

    def covers_all(self, other: Intervals) -> bool:
        if len(other) <= 4:
            return all(self.covers(*pair) for pair in zip(other.starts, other.ends, strict=True))
        starts, ends = self.arrays()
        wanted_starts, wanted_ends = other.arrays()
        at = np.searchsorted(starts, wanted_starts, "right") - 1
        return bool((at >= 0).all() and (ends[at] >= wanted_ends).all())

    def add_range(self, first: int, last: int) -> None:
        starts, ends = self.starts, self.ends
        if not ends or first > ends[-1] + 1:
            starts.append(first)
            ends.append(last)
            return
        low = bisect_left(ends, first - 1)
        high = bisect_right(starts, last + 1)
        if low == high:
            starts.insert(low, first)
            ends.insert(low, last)
            return
        starts[low] = min(starts[low], first)
        ends[low] = max(ends[high - 1], last)
        if high - low > 1:
            del starts[low + 1 : high]
            del ends[low + 1 : high]

    def union(self, other: Intervals) -> Intervals:
        return Intervals.of(*_union(*self.arrays(), *other.arrays()))

    def intersection(self, other: Intervals) -> Intervals:
        return Intervals.of(*_intersection(*self.arrays(), *other.arrays()))

    def difference(self, other: Intervals) -> Intervals:
        if not len(other):
            return self.copy()
        return Intervals.of(*_intersection(*self.arrays(), *_complement(*other.arrays())))


def _union(a_starts: U64, a_ends: U64, b_starts: U64, b_ends: U64) -> tuple[U64, U64]:
    starts = np.concatenate((a_starts, b_starts))
    if not len(starts):
        return starts, starts
    order = np.argsort(starts, kind="stable")  # A stable sort merges two sorted arrays in linear time.
    starts = starts[order]
    reach = np.maximum.accumulate(np.concatenate((a_ends, b_ends))[order])
    # The comparison subtracts 1 from the starts, which are at least 1. Adding 1 to an end of 2**64-1 would wrap
    # around to 0.
    begins = np.concatenate(([True], starts[1:] - ONE > reach[:-1]))
    return starts[begins], reach[np.concatenate((begins[1:], [True]))]


def _intersection(a_starts: U64, a_ends: U64, b_starts: U64, b_ends: U64) -> tuple[U64, U64]:
    low = np.searchsorted(b_ends, a_starts, "left")
    counts = np.searchsorted(b_starts, a_ends, "right") - low
    a_index = np.repeat(np.arange(len(a_starts)), counts)
    b_index = np.repeat(low - (np.cumsum(counts) - counts), counts) + np.arange(len(a_index))
    return (
        np.maximum(a_starts[a_index], b_starts[b_index]),
        np.minimum(a_ends[a_index], b_ends[b_index]),
    )


def _complement(starts: U64, ends: U64) -> tuple[U64, U64]:
    gap_starts = np.concatenate((np.ones(1, np.uint64), ends[ends != _UINT64_MAX] + ONE))
    gap_ends = np.append(starts - ONE, _UINT64_MAX)[: len(gap_starts)]
    keep = gap_starts <= gap_ends
    return gap_starts[keep], gap_ends[keep]

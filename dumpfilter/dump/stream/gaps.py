"""The conversion of gaps to their gRPC message and back. A gap is a position where the master dropped transactions,
with their GTIDs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import StreamDamaged
from dumpfilter.binlog.gap_events import source_bytes
from dumpfilter.binlog.gap_kernels import GapColumns
from dumpfilter.binlog.gtid import TAG, SourceKey
from dumpfilter.dump.stream._kernels import read_lists, write_lists
from dumpfilter.filter.convert import kind_from_number, kind_number
from dumpfilter.filter.hits import KINDS, Hits
from dumpfilter.v1 import dumpfilter_pb2 as pb

if TYPE_CHECKING:
    from dumpfilter.dump.gaps import Gaps

Integers = npt.NDArray[np.int64]

_LONGEST_VARINT = 10
"""The largest size of a varint of protocol buffers, bytes."""

_FIRST_LIST = pb.Gaps.OFFSET_FIELD_NUMBER
"""The field number of the first packed list in the Gaps message. The other lists have the field numbers after it."""

_LISTS = pb.Gaps.HIT_COUNT_FIELD_NUMBER - _FIRST_LIST + 1
"""The number of packed lists in the Gaps message."""

_SIGNED = pb.Gaps.RUN_FIRST_FIELD_NUMBER - _FIRST_LIST
"""The index of the packed list whose numbers have a sign."""

_SOURCE = re.compile(rf".{{8}}|.{{16}}(?:{TAG})?".encode(), re.DOTALL)
"""The bytes that may stand for a GTID source: MariaDB's domain and server id, or MySQL's UUID with a tag or none."""

_MOST_HITS, _MOST_KIND = 0xFFFF, 0xFF
"""The largest number of kinds of rules with hits that a Gap event holds, and the largest number of a kind."""

_KIND_NUMBERS = np.array([kind_number(kind) for kind in KINDS], np.int64)


def gaps_to_proto(gaps: Gaps, key_of: Callable[[int], SourceKey]) -> bytes:
    """Return the serialized gRPC message with the gaps (runs of dropped transactions) of one chunk of the stream.
    ``key_of`` returns the GTID source (server UUID, or MariaDB's domain and server id) for a source's number.

    This function encodes the numbers itself, because the generated code takes many times as long for thousands of them.
    """
    source, first, last = gaps.runs.T
    sources = sorted(set(source.tolist()))
    first_steps = _steps(first, last)
    # An end of 0 is not known, and the next step begins at the last known end.
    lists = (
        _steps(gaps.offset),
        np.where(gaps.end > 0, _steps(np.maximum.accumulate(gaps.end)), 0),
        _steps(gaps.runs_until),
        np.searchsorted(sources, source),
        first_steps << 1 ^ first_steps >> 63,
        last - first + 1,
        _steps(gaps.hits_until),
        _KIND_NUMBERS[gaps.hits[:, 0]],
        gaps.hits[:, 1],
    )
    numbers = np.concatenate(lists)
    out = np.empty(_LONGEST_VARINT * (len(numbers) + len(lists)), np.uint8)
    size = write_lists(numbers.view(np.uint64), np.array([*accumulate(map(len, lists))]), _FIRST_LIST, out)
    names = pb.Gaps(source=[source_bytes(key_of(number)) for number in sources])
    return names.SerializeToString() + out[:size].tobytes()


def _steps(numbers: Integers, before: Integers | None = None) -> Integers:
    """Return the difference of each number from the number before it, and of the first number from 0.

    With ``before``, the previous element of ``before`` is subtracted from each number instead.
    """
    steps = numbers.copy()
    steps[1:] -= (numbers if before is None else before)[:-1]
    return steps


def gaps_from_proto(message: pb.Gaps) -> GapColumns:
    """Return the gaps (runs of dropped transactions) of a chunk from the gRPC message, as arrays. ``run_source`` of the
    result has indexes into the message's list of GTID sources.

    Fields that this release does not know are removed from ``message``. Raises StreamDamaged for a message whose lists
    contradict each other.
    """
    # The compiled loop trusts the form of the fields, so that it must not meet those that a peer has made up.
    message.DiscardUnknownFields()
    data = np.frombuffer(message.SerializeToString(), np.uint8)
    numbers, until = np.empty(len(data), np.int64), np.zeros(_LISTS, np.int64)
    read_lists(data, _FIRST_LIST, until, numbers)
    offset, end, runs, source, first, length, hits, kind, count = np.split(numbers, until)[:_LISTS]
    # Numbers with a sign end in it. All 64 bits count.
    first = (first.view(np.uint64) >> 1).view(np.int64) ^ -(first & 1)
    others = (numbers[: until[_SIGNED - 1]], numbers[until[_SIGNED] : until[-1]])
    is_sound = (
        len(offset) == len(end) == len(runs) == len(hits)
        and len(source) == len(first) == len(length) == int(runs.sum())
        and len(kind) == len(count) == int(hits.sum())
        and all(int(each.min(initial=0)) >= 0 for each in others)
        and int(source.max(initial=-1)) < len(message.source)
        and int(length.min(initial=1)) > 0
        and int(hits.max(initial=0)) <= _MOST_HITS
        and int(kind.max(initial=0)) <= _MOST_KIND
        and all(map(_SOURCE.fullmatch, message.source))
    )
    if is_sound:
        # A run is told by its distance from the end of the run before.
        first = np.cumsum(first + np.concatenate([[0], length - 1])[:-1])
        last = first + length - 1
        sums = [np.cumsum(each) for each in (offset, end, runs, hits)]
        # A sum of more than 63 bits is negative where it first exceeds them. The compiled loop that writes Gap events
        # would follow such a sum out of its arrays.
        if int(first.min(initial=1)) > 0 and all(int(each.min(initial=0)) >= 0 for each in (last, *sums)):
            offset, ends, runs_until, hits_until = sums
            ends = np.where(end > 0, ends, 0)
            return GapColumns(offset, ends, runs_until, source, first, last, hits_until, kind, count)
    raise StreamDamaged("the gaps of a chunk contradict each other")


def hits_from_numbers(counts: dict[int, int]) -> Hits:
    """Return the numbers of hits (uses of filter rules) by kind of rule. ``counts`` has them by the number that the
    protocol gives to a kind.

    Kinds that only a newer master knows are left out.
    """
    found: Hits = Hits()
    for number, count in counts.items():
        kind = kind_from_number(number)
        if kind is not None:
            found[kind] += count
    return found

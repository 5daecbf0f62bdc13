"""The events of a segment as one list, in which the events inside compressed transactions replace those
transactions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compressed_sizes import uncompressed_sizes
from dumpfilter.index.segment import Segment

Ints = npt.NDArray[np.int64]
_T = TypeVar("_T", bound=np.generic)


@dataclass(frozen=True)
class FlatEvents:
    """The events of a segment as columns. The events inside an opened Transaction_payload event (a payload)
    replace it.
    """

    event: Ints
    """The index, within the segment, of the event in the file. Events of one payload have the payload's index."""
    type: npt.NDArray[np.uint8]
    role: npt.NDArray[np.uint8]
    """The role (how the event travels in a filtered stream), without the bit :data:`~dumpfilter.binlog.roles.ENDS`."""
    subject: npt.NDArray[np.int32]
    size: Ints
    """The size that the event would have without compression, bytes."""
    stored: Ints
    """The bytes that the event takes in the file. An event of a payload has its share of the payload's bytes.

    The shares of one payload add up to its size in the file.
    """
    inside: Ints
    """The byte offset of an event inside the uncompressed payload; -1 for events that are not in one."""
    first_of_transaction: Ints
    """For each transaction of the segment, the index of its first event in these columns."""


def flat_events(segment: Segment, data: npt.NDArray[np.uint8], data_offset: int) -> FlatEvents:
    """Return the events of a segment, with the events of compressed transactions in place of these.

    ``data`` holds the segment's bytes, and begins at file offset ``data_offset``. A compressed transaction without
    events stays one event, and so does one that the scan did not open.
    """
    sizes = uncompressed_sizes(
        data, segment.offset - data_offset, segment.size, segment.type, segment.format_description
    )
    n = len(sizes)
    payloads = {event: inner for event, inner in sorted(segment.payloads.items()) if len(inner.size)}
    repeats = np.ones(n, np.int64)
    repeats[list(payloads)] = [len(inner.size) for inner in payloads.values()]
    event = np.repeat(np.arange(n), repeats)
    places = np.flatnonzero(np.isin(event, list(payloads)))

    def merged(outer: npt.NDArray[_T], inside: Iterable[npt.NDArray[_T]]) -> npt.NDArray[_T]:
        if not payloads:
            return outer
        column = outer[event]
        column[places] = np.concatenate(list(inside))
        return column

    first = np.cumsum(repeats) - repeats
    return FlatEvents(
        event,
        merged(segment.type, (inner.type for inner in payloads.values())),
        merged(segment.role, (inner.role for inner in payloads.values())) & np.uint8(R.ROLE_MASK),
        merged(segment.subject, (inner.subject for inner in payloads.values())),
        merged(sizes, (inner.size for inner in payloads.values())),
        merged(segment.size, (_shares(int(segment.size[at]), one.size) for at, one in payloads.items())),
        merged(np.full(n, -1), (inner.offset for inner in payloads.values())),
        first[segment.txn_event[:-1]],
    )


def _shares(whole: int, sizes: Ints) -> Ints:
    """Divide ``whole`` bytes in proportion to ``sizes``. The parts sum up to ``whole`` exactly."""
    ends = np.cumsum(sizes)
    total = int(ends[-1])
    # A float holds every product exactly as long as it is below 2**53; beyond that the parts still add up.
    until = np.floor(ends.astype(np.float64) * whole / total).astype(np.int64)
    until[-1] = whole
    parts: Ints = np.diff(until, prepend=0)
    return parts

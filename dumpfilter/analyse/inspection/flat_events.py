"""The flat list of a segment's events, with each compressed transaction replaced by the events inside it."""

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
    """The events of a segment (consecutive events of one file) as columns, one row per event.

    A compressed transaction (Transaction_payload event) is replaced by the events inside it if it could be opened.
    """

    event: Ints
    """For each row, the index within the segment of its event in the file. All events of one payload have the
    payload's index.
    """
    type: npt.NDArray[np.uint8]
    role: npt.NDArray[np.uint8]
    """The role of each event: a number for how it travels in a filtered stream. The bit
    :data:`~dumpfilter.binlog.roles.ENDS` is cleared.
    """
    subject: npt.NDArray[np.int32]
    size: Ints
    """The size of each event without compression, bytes."""
    stored: Ints
    """The bytes that each event takes in the file. An event of a payload has a share of the payload's bytes.

    The shares of a payload's events add up to the payload's size in the file.
    """
    inside: Ints
    """The byte offset of an event in the uncompressed payload; -1 for an event outside any payload."""
    first_of_transaction: Ints
    """For each transaction of the segment, the row of its first event."""


def flat_events(segment: Segment, data: npt.NDArray[np.uint8], data_offset: int) -> FlatEvents:
    """Return the events of ``segment`` (consecutive events of one file) as rows, with each compressed transaction
    replaced by the events inside it.

    ``data`` holds the segment's bytes, beginning at file offset ``data_offset``. A Transaction_payload event
    (compressed transaction) stays one row if it is empty, damaged or too large to decompress.
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
    """Divide ``whole`` bytes in proportion to ``sizes``. Return integers that add up to exactly ``whole``."""
    ends = np.cumsum(sizes)
    total = int(ends[-1])
    # A float holds every product exactly as long as it is below 2**53; beyond that the parts still add up.
    until = np.floor(ends.astype(np.float64) * whole / total).astype(np.int64)
    until[-1] = whole
    parts: Ints = np.diff(until, prepend=0)
    return parts

"""The decision of segments by one filter. This module calls the compiled code of :mod:`dumpfilter.dump.decide` and
holds the arrays that the compiled code fills."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.dump import decide as K
from dumpfilter.filter.boundary import OnUndecided
from dumpfilter.filter.flags import FILTER_UNDECIDED_F, TableFlags
from dumpfilter.index.segment import Segment

_UNDECIDED_BIT = np.uint32(FILTER_UNDECIDED_F)
_NO_RANGES: npt.NDArray[np.int64] = np.empty((0, K.RANGE_COLUMNS), np.int64)


class Decided(NamedTuple):
    """A filter's decision which events of a segment are sent.

    The next decision in the same thread of the operating system overwrites ``ranges`` and ``chunks``.
    """

    transactions: K.Transactions
    """The segment's transactions. ``subject`` has the marks of :func:`collapse` for transactions sent or dropped
    whole."""
    first: int
    """The number of the first decided transaction. The slave already has the earlier transactions of the segment."""
    ranges: npt.NDArray[np.int64]
    """The byte ranges of the file to send in all chunks. The columns are offset, size, and how to change the bytes."""
    chunks: npt.NDArray[np.void]
    """One record for each chunk, of dtype :data:`~dumpfilter.dump.decide.CHUNK`: its ranges, end and counts."""
    is_kept: npt.NDArray[np.bool_]
    """For each transaction, whether the master sends any of its events."""


def collapse(
    segment: Segment, txn_subject: npt.NDArray[np.int32], flags: TableFlags
) -> npt.NDArray[np.int32]:
    """Mark the transactions of several tables that a filter sends whole or drops whole, in a copy of ``txn_subject``.

    ``txn_subject`` has the number of the only table or statement of each transaction, or ``MIXED`` for several. In the
    copy, ``KEPT`` (sent whole) or ``NOTHING`` (dropped whole) replaces ``MIXED``. This saves a decision event by event.
    """
    if not flags.is_on:
        return txn_subject
    out = np.empty_like(txn_subject)
    K.collapse_uniform(txn_subject, segment.txn_set, segment.set_subject, flags.array(), _UNDECIDED_BIT, out)
    return out


class _Scratch(threading.local):
    """The arrays that the compiled decision fills, one set for each thread of the operating system.

    Thus the dump threads of thousands of slaves need no arrays of their own, and two of them can decide at the same
    time. The arrays only grow. A segment (at most 4 MiB of events) bounds their size.
    """

    def __init__(self) -> None:
        self.ranges: npt.NDArray[np.int64] = np.zeros((1024, K.RANGE_COLUMNS), np.int64)
        self.chunks: npt.NDArray[np.void] = np.zeros(64, K.CHUNK)
        self.walk = K.new_walk()

    def begin(self, open_walk: K.Walk | None) -> K.Walk:
        """Return the walk for one call of :func:`~dumpfilter.dump.decide.decide`.

        The walk goes on inside the transaction of ``open_walk``, or begins between two transactions.
        """
        if open_walk is None:
            self.walk.state[:] = 0
            return self.walk
        while len(self.walk.head) < max(len(open_walk.head), len(open_walk.context)):
            self.walk = K.enlarged(self.walk)
        K.copy_into(self.walk, open_walk)
        return self.walk

    def grow(self, n_ranges: int, n_chunks: int) -> None:
        """Enlarge the array that was too small, after a decision that filled ``n_ranges`` and ``n_chunks`` entries."""
        if n_ranges * 2 > len(self.ranges):
            self.ranges = np.zeros((len(self.ranges) * 4, K.RANGE_COLUMNS), np.int64)
        elif n_chunks >= len(self.chunks):
            self.chunks = np.zeros(len(self.chunks) * 4, K.CHUNK)
        else:
            self.ranges = np.zeros((len(self.ranges) * 2, K.RANGE_COLUMNS), np.int64)
            self.walk = K.enlarged(self.walk)


_scratch = _Scratch()


class SegmentWalker:
    """Decides which events are sent, segment by segment in the binlog's order.

    The walker remembers a transaction that continues in the next segment, with its buffered events.
    """

    def __init__(self, chunk_size: int) -> None:
        self.chunk_size = chunk_size
        self._open: K.Walk | None = None
        """The decision inside the transaction that continues in the next segment; None between two transactions. The
        arrays never change, so forks share them."""

    def fork(self) -> SegmentWalker:
        """Return an independent walker at the same place."""
        fork = SegmentWalker(self.chunk_size)
        fork._open = self._open
        return fork

    @property
    def in_transaction(self) -> bool:
        """Whether the last segment ended inside a transaction."""
        return self._open is not None

    def decide(
        self,
        segment: Segment,
        txn_subject: npt.NDArray[np.int32],
        flags: TableFlags,
        *,
        first: int = 0,
        role: npt.NDArray[np.uint8] | None = None,
        size: npt.NDArray[np.int64] | None = None,
    ) -> Decided:
        """Decide which events of a segment are sent, from transaction number ``first`` on.

        ``txn_subject`` is a result of :func:`collapse`. ``role`` and ``size`` replace the segment's columns if the
        master has changed compressed transactions of the segment.
        """
        events = K.Events(
            segment.offset,
            segment.size if size is None else size,
            segment.role if role is None else role,
            segment.subject,
        )
        transactions = K.Transactions(
            segment.txn_event, txn_subject, segment.open, segment.end, segment.has_inner_gaps
        )
        sends_unmapped = flags.on_undecided is OnUndecided.SEND
        verdicts = K.Verdicts(flags.array(), _UNDECIDED_BIT, not flags.is_on, sends_unmapped)
        is_kept = np.zeros(len(txn_subject), np.bool_)
        while True:
            walk = _scratch.begin(self._open)
            out = K.Output(_scratch.ranges, _scratch.chunks, is_kept)
            code, n_ranges, n_chunks = K.decide(
                events, transactions, verdicts, walk, out, first, self.chunk_size
            )
            if code == K.DONE:
                self._open = K.trimmed(walk) if walk.state["is_open"][0] else None
                return Decided(transactions, first, out.ranges[:n_ranges], out.chunks[:n_chunks], is_kept)
            # An output array was too small. The arrays are enlarged and the segment is decided again, which costs
            # little.
            _scratch.grow(n_ranges, n_chunks)

    def forget(self, offset: int) -> None:
        """Drop a buffered context event, such as a Rows_query event, because later events have shown it forbidden."""
        if self._open is None:
            return
        is_other = self._open.context[:, K.BUFFERED_OFFSET] != offset
        state = self._open.state.copy()
        state["contexts"] = np.count_nonzero(is_other)
        self._open = K.Walk(state, self._open.head, self._open.context[is_other])

    def buffered(self) -> npt.NDArray[np.int64]:
        """Return the events that later events must still decide, as byte ranges in the order of the file.

        These are the buffered events after the last segment, which the master has neither sent nor dropped.
        """
        if self._open is None:
            return _NO_RANGES
        state = self._open.state[0]
        parts = [self._open.head]
        if state["has_rows"]:
            parts.append(np.array([[state["rows_offset"], state["rows_size"]]], np.int64))
        found = np.concatenate([*parts, self._open.context])
        return np.column_stack([found, np.full(len(found), K.AS_IT_IS, np.int64)])

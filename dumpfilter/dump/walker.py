"""The decision of segments by one filter. This module calls the compiled code of :mod:`dumpfilter.dump.decide` and
holds the arrays that the compiled code fills."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.dump import decide as K
from dumpfilter.filter.boundary import OnUndecided
from dumpfilter.filter.flags import FILTER_UNDECIDED_F, TableFlags
from dumpfilter.index.segment import Segment

_UNDECIDED_BIT = np.uint32(FILTER_UNDECIDED_F)


class Decided(NamedTuple):
    """A filter's decision which events of a segment are sent. The walker's next decision overwrites the arrays."""

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


class SegmentWalker:
    """Decides which events are sent, segment by segment in the binlog's order.

    The walker remembers a transaction that continues in the next segment, with its buffered events.
    """

    def __init__(self, chunk_size: int) -> None:
        self._chunk_size = chunk_size
        self._walk = K.new_walk()
        self._ranges = np.zeros((1024, K.RANGE_COLUMNS), np.int64)
        self._chunks = np.zeros(64, K.CHUNK)

    @property
    def in_transaction(self) -> bool:
        """Whether the last segment ended inside a transaction."""
        return bool(self._walk.state["is_open"][0])

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
        was_open = self.in_transaction
        while True:
            walk = K.copy_of(self._walk) if was_open else self._walk
            out = K.Output(self._ranges, self._chunks, is_kept)
            code, n_ranges, n_chunks = K.decide(
                events, transactions, verdicts, walk, out, first, self._chunk_size
            )
            if code == K.DONE:
                self._walk = walk
                return Decided(transactions, first, self._ranges[:n_ranges], self._chunks[:n_chunks], is_kept)
            # An output array was too small. The arrays are enlarged and the segment is decided again, which costs
            # little.
            if not was_open:
                self._walk.state[:] = 0
            if n_ranges * 2 > len(self._ranges):
                self._ranges = np.zeros((len(self._ranges) * 4, K.RANGE_COLUMNS), np.int64)
            elif n_chunks >= len(self._chunks):
                self._chunks = np.zeros(len(self._chunks) * 4, K.CHUNK)
            else:
                self._ranges = np.zeros((len(self._ranges) * 2, K.RANGE_COLUMNS), np.int64)
                self._walk = K.enlarged(self._walk)

    def forget(self, offset: int) -> None:
        """Drop a buffered context event, such as a Rows_query event, because later events have shown it forbidden."""
        state, context = self._walk.state[0], self._walk.context
        for k in range(int(state["contexts"])):
            if context[k, K.BUFFERED_OFFSET] == offset:
                context[k : state["contexts"] - 1] = context[k + 1 : state["contexts"]].copy()
                state["contexts"] -= 1
                return

    def buffered(self) -> npt.NDArray[np.int64]:
        """Return the events that later events must still decide, as byte ranges in the order of the file.

        These are the buffered events after the last segment, which the master has neither sent nor dropped.
        """
        walk = self._walk
        state = walk.state[0]
        parts = [walk.head[: state["heads"]]]
        if state["has_rows"]:
            parts.append(np.array([[state["rows_offset"], state["rows_size"]]], np.int64))
        found = np.concatenate([*parts, walk.context[: state["contexts"]]])
        return np.column_stack([found, np.full(len(found), K.AS_IT_IS, np.int64)])

"""The XA rule: XA COMMIT and XA ROLLBACK go where a part of the prepared transaction went.

An XA transaction is two transactions in the binlog. The first ends with an XA_prepare event and holds the changes. The
second is XA COMMIT or XA ROLLBACK, often in a later file. It has a GTID of its own and names the xid only. A slave
that has the prepared transaction needs the end, or the transaction stays prepared forever. A slave without the prepared
transaction must not get the end, because XA COMMIT of an unknown xid stops the SQL thread with an error.

Three places keep the rule:

- :class:`~dumpfilter.index.xa.XaTransactions` in the index remembers the subjects of each prepared transaction. The end
  gets a subject that a filter sends if and only if the filter sends a part of the prepared transaction.
- :class:`XaEnds` in a dump thread remembers what the thread has sent. The filter may change between a prepared
  transaction and its end. The end then follows what was sent, under the filter of that time.
- :class:`SentParts` is the memory of both :class:`XaEnds` and the clever filter's pass.

docs/xa.md describes the rule for users.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.index.segment import Segment
from dumpfilter.index.xa import canonical


class SentParts:
    """The prepared XA transactions of a stream, and whether a part of each was sent."""

    def __init__(self) -> None:
        self._is_sent: dict[Xid, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._is_sent)

    def __contains__(self, xid: Xid) -> bool:
        return canonical(xid) in self._is_sent

    def prepare(self, xid: Xid, *, is_sent: bool) -> None:
        """Note a transaction that was prepared."""
        self._is_sent[canonical(xid)] = is_sent

    def is_sent(self, xid: Xid) -> bool | None:
        """Tell whether a part of a prepared transaction was sent; None if the transaction is not known."""
        return self._is_sent.get(canonical(xid))

    def end(self, xid: Xid) -> bool | None:
        """Forget a transaction, which has ended. Return what :meth:`is_sent` has told of it."""
        return self._is_sent.pop(canonical(xid), None)


class XaEnds:
    """Decides the ends of XA transactions by what one dump has sent.

    Parameters:
        other_filters_before: whether the slave may hold transactions that were chosen with other filters. The dump then
            sends each end whose prepared transaction it does not know. An end too many is an error that the operator
            sees; an end too few is a transaction that holds its locks forever.
    """

    def __init__(self, *, other_filters_before: bool) -> None:
        self.other_filters_before = other_filters_before
        self._parts = SentParts()

    def decide(
        self,
        segment: Segment,
        txn_subject: npt.NDArray[np.int32],
        first: int,
        is_sent: Callable[[int], bool],
    ) -> npt.NDArray[np.int32]:
        """Return ``txn_subject`` with the ends of XA transactions decided, from transaction ``first`` on.

        ``is_sent`` tells whether the filter in force sends a subject, by its number.
        """
        if not (self._parts and segment.earlier_ends) and not (self.other_filters_before and segment.xa_ends):
            return txn_subject
        txn_subject = txn_subject.copy()
        ends: dict[int, Xid | None] = dict(segment.earlier_ends)
        if self.other_filters_before and first:
            # the dump starts inside this segment, so a part may have been prepared in it before the start
            ends = dict.fromkeys(segment.xa_ends) | ends
        for event, xid in ends.items():
            txn = segment.transaction_of(event)
            if txn_subject[txn] == R.SKIP:
                continue
            was_sent = None if xid is None else self._parts.is_sent(xid)
            if was_sent is None and self.other_filters_before:
                was_sent = True
            if was_sent is False:
                txn_subject[txn] = R.SKIP
            elif was_sent and not is_sent(int(txn_subject[txn])):
                txn_subject[txn] = R.KEPT
        return txn_subject

    def note(self, segment: Segment, first: int, is_sent: Callable[[int], bool]) -> None:
        """Remember what has been sent of the XA transactions that are prepared where a segment ends.

        The segment was decided from transaction ``first`` on. ``is_sent`` is as in :meth:`decide`.
        """
        for xid in segment.earlier_ends.values():
            self._parts.end(xid)
        # a part may have been prepared before the dump's start
        is_unsure = self.other_filters_before and first > 0
        for xid, holds in segment.prepared.items():
            if xid not in self._parts:
                self._parts.prepare(xid, is_sent=is_unsure or is_sent(holds))

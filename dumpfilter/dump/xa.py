"""The XA rule: the master sends XA COMMIT or XA ROLLBACK if it sent a part of the prepared transaction.

An XA transaction is two transactions in the binlog. The first ends with an XA_prepare event and holds the changes. The
second, its end, is XA COMMIT or XA ROLLBACK, often in a later file. The end has another GTID and names only the xid. A
slave that has the prepared transaction needs the end, or the transaction stays prepared forever. A slave without the
prepared transaction must not get the end, because XA COMMIT of an unknown xid stops the SQL thread with an error.

Three places keep the rule:

- :class:`~dumpfilter.index._resolve.Resolver` in the index remembers the tables of each prepared transaction. A filter
  sends the end if and only if the filter sends a part of the prepared transaction.
- :class:`XaEnds` in a dump thread remembers which prepared transactions the thread has sent, and decides by the
  filters of earlier dumps (:class:`Earlier`) about those that the slave had before. The filter may change between
  XA PREPARE and XA COMMIT, in a dump or between two. The old filter's decision about the prepared transaction counts.
- :class:`SentParts` stores these decisions. It also follows the XA transactions of segments by their events, for
  decisions that the index cannot know: those of the clever filter, and of imposed filters that drop events of unknown
  types.

docs/xa.md describes the rule for users.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.dump.atoms import Columns
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, TableFlags
from dumpfilter.index.segment import Segment
from dumpfilter.index.xa import canonical


class SentParts:
    """A record of the prepared XA transactions of a stream, by xid. It holds for each whether the slave was sent any
    part of it.
    """

    def __init__(self) -> None:
        self._is_sent: dict[Xid, bool] = {}
        self._is_open_sent = False
        """Whether a part of the transaction that continues in the next segment has been sent."""

    def fork(self) -> SentParts:
        """Return an independent copy."""
        fork = SentParts()
        fork._is_sent, fork._is_open_sent = self._is_sent.copy(), self._is_open_sent
        return fork

    @property
    def key(self) -> Hashable:
        """A hashable value that is equal for objects that hold the same xids and decisions."""
        return frozenset(self._is_sent.items()) if self._is_sent else None

    def __bool__(self) -> bool:
        return bool(self._is_sent)

    def __contains__(self, xid: Xid) -> bool:
        return canonical(xid) in self._is_sent

    def prepare(self, xid: Xid, *, is_sent: bool) -> None:
        """Remember that an XA transaction was prepared, and whether the slave was sent any part of it."""
        self._is_sent[canonical(xid)] = is_sent

    def is_sent(self, xid: Xid) -> bool | None:
        """Tell whether a part of the prepared transaction was sent. None if this object has no prepared transaction
        with this xid.
        """
        return self._is_sent.get(canonical(xid))

    def end(self, xid: Xid) -> bool | None:
        """Forget a prepared transaction, because XA COMMIT or XA ROLLBACK has ended it.

        Return whether a part of the transaction was sent. None if this object has no prepared transaction with this
        xid.
        """
        return self._is_sent.pop(canonical(xid), None)

    def follow(
        self,
        segment: Segment,
        sent: npt.NDArray[np.bool_],
        wanted: npt.NDArray[np.bool_] | None = None,
    ) -> dict[int, bool | None]:
        """Record the XA transactions that the next segment prepares, and forget those that it commits or rolls back.

        Return for each XA COMMIT and XA ROLLBACK, by the number of its event, whether a part of the prepared
        transaction was sent. The value is None if the prepared transaction is not known.

        Parameters:
            sent: for each event, whether the filter sends the event itself. Events that are only sent because they
                belong to another sent event, such as BEGIN, do not count.
            wanted: for each transaction, whether to look at its XA events. None: look at all.
        """
        carried, self._is_open_sent = self._is_open_sent and segment.continues, False
        if segment.open:
            begin = int(segment.txn_event[-2])
            self._is_open_sent = bool(sent[begin:].any()) or (carried and len(segment.txn_subject) == 1)
        found: dict[int, bool | None] = {}
        for event, xid in sorted({**segment.xa_prepares, **segment.xa_ends}.items()):
            txn = segment.transaction_of(event)
            if wanted is not None and not wanted[txn]:
                continue
            if event in segment.xa_ends:
                found[event] = self.end(xid)
            else:
                is_sent = bool(sent[segment.txn_event[txn] : event + 1].any())
                self.prepare(xid, is_sent=is_sent or (carried and txn == 0))
        return found


Ints = npt.NDArray[np.int32]

_ALWAYS_SENT = (R.KEEP, R.XA, R.PAYLOAD, R.REPLACED)
_BY_SUBJECT = (R.ROWS, R.ROWS_END, R.STATEMENT)


def without_unsent_ends(
    parts: SentParts,
    flags: TableFlags,
    segment: Segment,
    columns: Columns,
    first: int,
) -> Columns:
    """Return a segment's columns in which XA COMMIT and XA ROLLBACK are dropped if no part of the prepared transaction
    was sent.

    ``parts`` records which prepared transactions were sent, and is updated. The index cannot know this, because an
    imposed filter may drop events of unknown types. ``columns`` are the columns after imposed filters have withheld
    events. Transactions before number ``first`` are not considered.
    """
    kinds, subject = columns.role & R.ROLE_MASK, columns.subject
    passes = (subject >= 0) & (flags.array()[np.maximum(subject, 0)] & FILTER_BINLOG_SEND_F != 0)
    sent = np.isin(kinds, _ALWAYS_SENT) | (np.isin(kinds, _BY_SUBJECT) & passes)
    wanted = columns.txn_subject != R.SKIP
    wanted[:first] = False
    ends = parts.follow(segment, sent[columns.carried :], wanted)
    skipped = [segment.transaction_of(event) for event, was_sent in ends.items() if was_sent is False]
    return columns.with_subjects(skipped, R.SKIP)


class Earlier(NamedTuple):
    """The filters that selected the transactions which a slave has from earlier dumps."""

    filters: tuple[TableFlags, ...]
    """The filters of which one selected each transaction before :attr:`file` and :attr:`position`."""
    older: tuple[TableFlags, ...]
    """The filters of which one selected each transaction before the first segment of the dump."""
    file: str = ""
    """The binlog file up to which one of :attr:`filters` selected the transactions. Empty: all that the slave has."""
    position: int = 0
    before: frozenset[str] = frozenset()
    """The names of the binlog files before :attr:`file`."""

    def has(self, file: str, position: int) -> bool:
        """Tell whether one of :attr:`filters` selected the transaction that begins at the byte offset ``position`` of
        the binlog file ``file``. The slave must have the transaction.
        """
        return not self.file or file in self.before or (file == self.file and position < self.position)


class XaEnds:
    """The decisions of one dump about XA COMMIT and XA ROLLBACK, which must reach each slave that was sent the
    prepared transaction.

    ``earlier`` has the filters of earlier dumps; None if they had the dump's first filter. If several of them may have
    selected a prepared transaction, one that passes a part of it is enough. An unneeded XA COMMIT is an error that the
    operator sees. A missing one is a transaction that holds its locks forever.
    """

    def __init__(self, earlier: Earlier | None = None) -> None:
        self._earlier = earlier
        self._older = () if earlier is None else earlier.older
        self._parts = SentParts()

    def fork(self) -> XaEnds:
        """Return an independent copy."""
        fork = XaEnds(self._earlier)
        fork._older, fork._parts = self._older, self._parts.fork()
        return fork

    @property
    def key(self) -> Hashable:
        """A hashable value that is equal for objects that decide alike about all later segments."""
        return self._earlier, self._older, self._parts.key

    def leave(self, flags: TableFlags) -> None:
        """Record that the dump changes to another filter. ``flags`` are the decisions of the filter that was in force
        until now.

        The first such filter decides about the XA COMMIT of transactions that were prepared before the dump, if the
        filters of earlier dumps are not known.
        """
        self._older = self._older or (flags,)

    def concerns(self, segment: Segment) -> bool:
        """Tell whether :meth:`decide` could change anything in a segment."""
        if segment.earlier_ends and (self._parts or self._older):
            return True
        return self._earlier is not None and bool(segment.xa_ends)

    def decide(self, segment: Segment, columns: Columns, first: int, flags: TableFlags) -> Columns:
        """Return a segment's columns in which each XA COMMIT and XA ROLLBACK is marked as sent or dropped. It is sent
        if a part of the prepared transaction was sent, as far as this is known.

        Only transactions from number ``first`` on are decided. The slave already has earlier ones, and those that
        ``columns`` mark as SKIP. ``flags`` are the decisions of the filter in force about tables and statements.
        """
        if not self.concerns(segment):
            return columns
        txn_subject = columns.txn_subject.copy()
        prepares = {event: canonical(xid) for event, xid in segment.xa_prepares.items()}
        for event, xid in {**segment.xa_ends, **segment.earlier_ends}.items():
            txn = segment.transaction_of(event)
            holds = int(txn_subject[txn])
            if holds == R.SKIP:
                continue
            if event in segment.earlier_ends:
                was_sent = self._parts.is_sent(xid)
                if was_sent is None and self._older:
                    was_sent = any(each.sends(holds) for each in self._older)
            else:
                begun = max(one for one, prepared in prepares.items() if prepared == xid and one < event)
                was_sent = self._was_sent(segment, columns.txn_subject, first, begun, holds, flags)
            if was_sent is False:
                txn_subject[txn] = R.SKIP
            elif was_sent and not flags.sends(holds):
                txn_subject[txn] = R.KEPT
        return columns._replace(txn_subject=txn_subject)

    def _was_sent(
        self, segment: Segment, txn_subject: Ints, first: int, event: int, holds: int, flags: TableFlags
    ) -> bool:
        """Tell whether the slave was sent a part of the XA transaction that event number ``event`` prepares. ``holds``
        is the number of the transaction's tables and statements.
        """
        txn = segment.transaction_of(event)
        had, earlier = txn < first or txn_subject[txn] == R.SKIP, self._earlier
        begin = int(segment.offset[segment.txn_event[txn]])
        if had and earlier is not None and earlier.has(segment.file, begin):
            return any(each.sends(holds) for each in earlier.filters)
        return flags.sends(holds)

    def note(self, segment: Segment, txn_subject: Ints, first: int, flags: TableFlags) -> None:
        """Record the XA transactions that a segment leaves prepared, and forget those that the segment ends. A record
        says whether the slave was sent a part of the transaction, so that no later filter decides that again.

        ``txn_subject`` has SKIP for each transaction that the slave already has, and the slave also has the
        transactions before number ``first``. ``flags`` are the decisions of the filter in force.
        """
        for xid in segment.earlier_ends.values():
            self._parts.end(xid)
        for event, xid in segment.xa_prepares.items():
            holds = segment.prepared.get(canonical(xid))
            if holds is not None:
                is_sent = self._was_sent(segment, txn_subject, first, event, holds, flags)
                self._parts.prepare(xid, is_sent=is_sent)

"""The XA rule: the master sends XA COMMIT or XA ROLLBACK if it sent a part of the prepared transaction.

An XA transaction is two transactions in the binlog. The first ends with an XA_prepare event and holds the changes. The
second, its end, is XA COMMIT or XA ROLLBACK, often in a later file. The end has another GTID and names only the xid. A
slave that has the prepared transaction needs the end, or the transaction stays prepared forever. A slave without the
prepared transaction must not get the end, because XA COMMIT of an unknown xid stops the SQL thread with an error.

Three places keep the rule:

- :class:`~dumpfilter.index.scanner.FileScanner` in the index remembers the tables of each prepared transaction. A
  filter sends the end if and only if the filter sends a part of the prepared transaction.
- :class:`XaEnds` in a dump thread remembers which prepared transactions the thread has sent, and decides by the
  filters of earlier dumps (:class:`Earlier`) about those that the slave had before. The filter may change between
  XA PREPARE and XA COMMIT, in a dump or between two. The old filter's decision about the prepared transaction counts.
- :class:`~dumpfilter.dump.set_pass.SetPass` in ``dumpfilter binlog`` passes the end if the clever filter passed a part
  of the prepared transaction. The clever filter follows renamed tables through the binlog, so the index cannot know its
  decisions.

docs/xa.md describes the rule for users.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.dump.atoms import Columns
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.segment import Segment

Ints = npt.NDArray[np.int32]


class Earlier(NamedTuple):
    """The filters that selected the transactions which a slave has from earlier dumps. These filters decide whether the
    slave needs XA COMMIT or XA ROLLBACK for a transaction that was prepared in these dumps.
    """

    filters: tuple[TableFlags, ...]
    """The filters of earlier dumps before the slave's filter last changed. One of them selected each transaction before
    the binlog position :attr:`file` and :attr:`position`.
    """
    older: tuple[TableFlags, ...]
    """All filters of earlier dumps, one of which selected each transaction before the start of this dump. These filters
    are :attr:`filters`, and the present filter if earlier dumps have used it.
    """
    file: str = ""
    """The binlog file that the slave's dumps had reached when its filter last changed. Empty: one of :attr:`filters`
    selected every transaction that the slave has.
    """
    position: int = 0
    """The byte offset in :attr:`file` that the slave's dumps had reached when its filter last changed."""
    before: frozenset[str] = frozenset()
    """The names of the binlog files before :attr:`file`, the file that the slave's dumps had reached when its filter
    last changed.
    """

    def has(self, file: str, position: int) -> bool:
        """Tell whether a transaction that the slave has lies before the position at which the slave's filter last
        changed. One of the filters in :attr:`filters` has sent such a transaction, and the present filter has sent the
        others.

        The transaction begins at the byte offset ``position`` of the binlog file ``file``.
        """
        return not self.file or file in self.before or (file == self.file and position < self.position)


class XaEnds(NamedTuple):
    """The decisions of one dump about XA COMMIT and XA ROLLBACK, which must reach each slave that was sent the prepared
    transaction. Immutable.

    ``earlier`` has the filters of the slave's earlier dumps. None: the earlier dumps had the filter with which this
    dump began. It may be unknown which of several earlier filters decided about a prepared transaction. The master then
    sends XA COMMIT if any of these filters passes a part of the transaction. An XA COMMIT without need is an error that
    the operator sees. A missing XA COMMIT leaves a transaction that holds its locks forever.
    """

    earlier: Earlier | None
    began_with: TableFlags | None = None
    """The filter with which this dump began. None: the filter has not changed since then."""
    is_sent: Mapping[Xid, bool] = MappingProxyType({})
    """For each XA transaction that this dump has passed and that is still prepared, by canonical xid, whether the slave
    was sent any part of the transaction.
    """

    @property
    def key(self) -> Hashable:
        """A hashable value that is equal for two objects that decide alike about each XA COMMIT and XA ROLLBACK in the
        rest of the binlog. Two dumps can share messages only if their values are equal.
        """
        return self.earlier, self.began_with, frozenset(self.is_sent.items())

    @property
    def older(self) -> tuple[TableFlags, ...]:
        """The filters of earlier dumps. Each XA transaction that was prepared before this dump was selected by one of
        these filters. Empty: the filter in force selected all transactions.
        """
        if self.earlier is not None:
            return self.earlier.older
        return () if self.began_with is None else (self.began_with,)

    def left(self, flags: TableFlags) -> XaEnds:
        """Return a copy for the dump after a change to another filter. ``flags`` are the verdicts of the filter before
        the change about tables and statements. The copy records with which filter the dump began, which may decide
        about XA transactions that were prepared before the dump.
        """
        return self._replace(began_with=self.began_with or flags)

    def concerns(self, segment: Segment) -> bool:
        """Tell whether :meth:`decide` could change anything in a segment (a part of the binlog): whether the segment
        has an XA COMMIT or XA ROLLBACK of a transaction that was prepared earlier in this dump, or maybe under an
        earlier filter of the slave.
        """
        ends = segment.all_ends.values()
        return bool(ends) and (bool(self.older) or any(xid in self.is_sent for xid in ends))

    def decide(self, segment: Segment, columns: Columns, first: int, flags: TableFlags) -> Columns:
        """Return the columns of a segment (a part of a binlog file) in which each end of an XA transaction, XA COMMIT
        or XA ROLLBACK, is decided. The end is marked as dropped (SKIP) if the slave was not sent a part of the prepared
        transaction. If the slave was sent a part, but the filter in force would drop the end, the end is marked as sent
        (KEPT). If it is not known what the slave was sent, the filter in force decides.

        ``first`` is the number of the first transaction to decide. The slave already has earlier transactions, and
        those that ``columns`` mark as SKIP. An end with this mark stays dropped. ``flags`` are the decisions of the
        filter in force about tables and statements.
        """
        if not self.concerns(segment):
            return columns
        txn_subject = columns.txn_subject.copy()
        for event, xid in segment.all_ends.items():
            was_sent: bool | None
            txn = segment.transaction_of(event)
            holds = int(txn_subject[txn])
            if holds == R.SKIP:
                continue
            begun = [one for one, made in segment.xa_prepares.items() if made == xid and one < event]
            if begun:
                was_sent = self._was_sent(segment, columns.txn_subject, first, max(begun), holds, flags)
            else:
                was_sent = self.is_sent.get(xid)
                if was_sent is None and self.older:
                    was_sent = any(each.sends(holds) for each in self.older)
            if was_sent is False:
                txn_subject[txn] = R.SKIP
            elif was_sent and not flags.sends(holds):
                txn_subject[txn] = R.KEPT
        return columns._replace(txn_subject=txn_subject)

    def _was_sent(
        self, segment: Segment, txn_subject: Ints, first: int, event: int, holds: int, flags: TableFlags
    ) -> bool:
        """Tell whether the slave was sent a part of the XA transaction that event number ``event`` of ``segment`` (a
        part of a binlog file) prepares.

        Transactions from number ``first`` on are decided in this segment, by the filter in force. Those with the value
        SKIP in ``txn_subject`` are excepted. The slave already has all others. If this dump has passed such a
        transaction earlier, :attr:`is_sent` has the result. Otherwise the slave has the transaction from an earlier
        dump. Then the filters of the earlier dumps decide, or the filter with which this dump began.

        ``holds`` is the number that stands for all tables and statements of the XA transaction, and ``flags`` are the
        decisions of the filter in force about such numbers.
        """
        txn, earlier = segment.transaction_of(event), self.earlier
        if txn >= first and txn_subject[txn] != R.SKIP:
            return flags.sends(holds)
        xid = segment.xa_prepares[event]
        if txn < first and xid in self.is_sent:
            return self.is_sent[xid]
        if earlier is not None and earlier.has(segment.file, int(segment.offset[segment.txn_event[txn]])):
            return any(each.sends(holds) for each in earlier.filters)
        return (self.began_with or flags).sends(holds)

    def after(self, segment: Segment, txn_subject: Ints, first: int, flags: TableFlags) -> XaEnds:
        """Return the decisions about XA COMMIT and XA ROLLBACK for the events after a segment (a part of the binlog).
        The result says for each XA transaction that the segment leaves prepared whether the slave was sent a part of
        it. The result leaves out transactions that the segment ends.

        ``txn_subject`` has SKIP for each transaction that the slave already has, and the slave also has the
        transactions before number ``first``. ``flags`` are the decisions of the filter in force about tables and
        statements.
        """
        ended = set(segment.all_ends.values())
        now = {xid: is_sent for xid, is_sent in self.is_sent.items() if xid not in ended}
        for event, xid in segment.xa_prepares.items():
            holds = segment.prepared.get(xid)
            if holds is not None:
                now[xid] = self._was_sent(segment, txn_subject, first, event, holds, flags)
        return self._replace(is_sent=now)

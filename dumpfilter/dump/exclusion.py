"""The exclusion of transactions that a slave does not need, independent of its filter rules.

Transactions are excluded if the slave already has them (GTID auto-position), or if they come from servers or
domains that the slave ignores (``IGNORE_SERVER_IDS``, ``DO_DOMAIN_IDS``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.atoms import Columns
from dumpfilter.dump.decision import columns_of
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.segment import TOLD_COLUMNS, Segment


def _digest(gtids: GtidSet) -> bytes:
    # Keys are compared and hashed often. A GTID set can have many intervals.
    return hashlib.sha256(f"{gtids.family} {gtids}".encode()).digest()


def contained(segment: Segment, sources: SourceNumbers, gtids: GtidSet) -> npt.NDArray[np.bool_]:
    """Return for each transaction of a segment (a part of a binlog file) whether its GTID is in the GTID set ``gtids``,
    bool. False for a transaction without a GTID.

    ``sources`` numbers the binlog set's GTID sources (server UUIDs, or MariaDB's domain and server ids).
    """
    source = segment.txn_source
    found = np.zeros(len(source), np.bool_)
    for number in np.unique(source[source >= 0]).tolist():
        of_source = np.flatnonzero(source == number)
        found[of_source] = gtids.contains(sources.key(number, gtids.family), segment.txn_number[of_source])
    return found


@dataclass(eq=False)
class Reach:
    """The GTID ranges and the server ids of a segment (a part of a binlog file), computed once and used for many
    slaves. A GTID range has the lowest and highest transaction number of one GTID source (server UUID, or MariaDB's
    domain and server id).

    With a Reach the master tells quickly that a slave has none of the segment's transactions, and ignores none of their
    servers. Such a segment needs no check for each transaction.
    """

    server_ids: set[int] = field(default_factory=set)
    """The server ids in the headers of the transactions' first events, and of the events between transactions."""
    gtids: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The lowest and the highest transaction number of each GTID source, by the source's number."""

    @classmethod
    def of(cls, segment: Segment, position: int = 0) -> Reach:
        """Return the GTID ranges and server ids of the transactions of a segment (a part of a binlog file) that begin
        at or after the file offset ``position``.
        """
        first = int(np.searchsorted(segment.txn_start, position)) if position > segment.start else 0
        # np.unique takes some 30 µs for the single transaction of a live commit.
        found = cls(set(segment.txn_server[first:].tolist()))
        source, number = segment.txn_source[first:], segment.txn_number[first:]
        for each in set(source.tolist()):
            if each >= 0:
                of_source = number[source == each]
                found.add_run(each, int(of_source.min()), int(of_source.max()))
        for _, each, low, high, _, _ in segment.dropped.tolist():
            found.add_run(each, low, high)
        return found

    def add_run(self, source: int, low: int, high: int) -> None:
        """Widen the range of a GTID source (server UUID, or MariaDB's domain and server id) so that it includes the
        transaction numbers from ``low`` to ``high``. ``source`` is the source's number.
        """
        known = self.gtids.get(source, (low, high))
        self.gtids[source] = min(low, known[0]), max(high, known[1])


class Exclusion:
    """The transactions that one slave does not need because it has them already, so that the dump thread skips them.

    Parameters:
        sources: the numbers of the binlog set's GTID sources (server UUIDs, or MariaDB's domain and server ids).
        executed: the GTIDs that the slave already has; None if the slave names none.
    """

    def __init__(self, sources: SourceNumbers, executed: GtidSet | None) -> None:
        self._sources = sources
        self._executed = None if executed is None else executed.copy()
        self._highest: dict[int, int] = {}
        """The highest transaction number that the slave has of each GTID source, by the source's number. Filled on
        demand.
        """
        self.key: Hashable = None if executed is None else _digest(executed)
        """A hashable value that is equal for exclusions of the same GTID set. None if the slave names no GTID set."""

    def apply(self, segment: Segment, origin: OriginFilter | None) -> Columns:
        """Return a segment (a part of a binlog file) as columns in which the transactions that this slave does not need
        are marked as ``SKIP`` (dropped).

        ``origin`` says from which server ids and domains the slave wants transactions; None: from all. In the result,
        ``txn_source`` (the number of the GTID source) is -1 for each transaction whose GTID the master does not report
        to the slave.
        """
        columns = columns_of(segment)
        if self._executed is not None:
            has = contained(segment, self._sources, self._executed)
            columns = columns.with_subjects(has, R.SKIP)._replace(
                txn_source=np.where(has, np.int32(-1), segment.txn_source),
                dropped=self._missing(segment.dropped, self._executed),
                has=has,
            )
        if origin is not None and origin.is_on:
            columns = self._without_unwanted(segment, origin, columns)
        return columns

    def overlaps(self, reach: Reach) -> bool:
        """Tell whether the slave already has any transaction in the GTID ranges of ``reach``, the ranges of one segment
        of a binlog file. False if the slave names no GTIDs.
        """
        executed = self._executed
        if executed is None:
            return False
        for source, (low, high) in reach.gtids.items():
            highest = self._highest.get(source)
            if highest is None:
                highest = self._highest[source] = executed.highest(self._sources.key(source, executed.family))
            if low <= highest and executed.overlaps(self._sources.key(source, executed.family), low, high):
                return True
        return False

    def concerns(self, segment: Segment, reach: Callable[[], Reach], origin: OriginFilter | None) -> bool:
        """Tell whether the slave may have or ignore any transaction of a segment (a part of a binlog file), so that
        :meth:`apply` may change something.

        ``reach`` returns the GTID ranges and server ids of the segment's transactions, and is called only if needed.
        ``origin`` says from which servers and domains the slave wants transactions; None: from all.
        """
        wanted = origin if origin is not None and origin.is_on else None
        if wanted is None:
            return self._executed is not None and self.overlaps(reach())
        fd = segment.format_description
        if not wanted.unwanted_server_ids(fd.header.server_id).isdisjoint(reach().server_ids):
            return True
        return self.overlaps(reach()) or (
            fd.family == "mariadb"
            and not all(wanted.wants_domain(self._domain(source)) for source in reach().gtids)
        )

    def _domain(self, source: int) -> int:
        """Return the domain id of a GTID source of MariaDB, by the source's number."""
        domain, _ = self._sources.key(source, "mariadb")
        assert isinstance(domain, int)
        return domain

    def _missing(self, dropped: npt.NDArray[np.int64], executed: GtidSet) -> npt.NDArray[np.int64]:
        rows = [
            (transaction, source, low, high, sequence + low - first, time)
            for transaction, source, first, last, sequence, time in dropped.tolist()
            for low, high in executed.missing(self._sources.key(source, executed.family), first, last)
        ]
        return np.array(rows, np.int64).reshape(-1, TOLD_COLUMNS)

    def _without_unwanted(self, segment: Segment, origin: OriginFilter, columns: Columns) -> Columns:
        """Return columns in which the transactions of servers and domains that the slave ignores are marked as
        ``SKIP`` (dropped).

        MariaDB's I/O thread counts a transaction that it ignores as done (``gtid_slave_pos``, ``Gtid_IO_Pos``). MySQL's
        I/O thread does not: the transaction is in neither Retrieved_Gtid_Set nor Executed_Gtid_Set. Both threads move
        the position. This was tried with MySQL 9.7 and MariaDB 10.11.
        """
        fd = segment.format_description
        is_unwanted = np.isin(segment.txn_server, list(origin.unwanted_server_ids(fd.header.server_id)))
        if fd.family == "mariadb":
            for number in np.unique(segment.txn_source[segment.txn_source >= 0]).tolist():
                if not origin.wants_domain(self._domain(number)):
                    is_unwanted |= segment.txn_source == number
        # Rotate and similar events belong to the binlog file and to no transaction.
        is_unwanted &= segment.txn_source != R.KEPT
        columns = columns.with_subjects(is_unwanted, R.SKIP)
        if fd.family != "mariadb":
            columns = columns._replace(txn_source=np.where(is_unwanted, np.int32(-1), columns.txn_source))
        return columns

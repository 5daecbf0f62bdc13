"""Transactions that a slave does not get, whatever its rules say: those it has, and those of unwanted origins."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.binlog.gtid_sources import Membership, SourceNumbers
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.segment import Segment

Columns = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]
"""The columns ``txn_subject`` and ``txn_source`` of a segment, as one slave's dump takes them."""


class Exclusion:
    """Marks the transactions that one slave does not get with the subject ``SKIP``.

    Parameters:
        sources: the set's GTID sources.
        executed: the GTIDs that the slave has.
    """

    def __init__(self, sources: SourceNumbers, executed: GtidSet | None) -> None:
        self._sources = sources
        self._executed = None if executed is None else Membership(executed)

    def apply(self, segment: Segment, origin: OriginFilter | None) -> Columns:
        """Return the transactions' subjects and GTID sources, marked. ``origin`` says which origins the slave wants."""
        columns = segment.txn_subject, segment.txn_source
        if self._executed is not None:
            columns = self._without_executed(segment, self._executed)
        if origin is not None and origin.is_on:
            columns = self._without_unwanted(segment, origin, *columns)
        return columns

    def _without_executed(self, segment: Segment, executed: Membership) -> Columns:
        subject, source = segment.txn_subject.copy(), segment.txn_source.copy()
        for number in np.unique(source[source >= 0]).tolist():
            of_source = np.flatnonzero(source == number)
            key = self._sources.key(number, executed.family)
            is_executed = executed.contains(key, segment.txn_number[of_source])
            subject[of_source[is_executed]] = R.SKIP
            source[of_source[is_executed]] = -1
        return subject, source

    def _without_unwanted(
        self,
        segment: Segment,
        origin: OriginFilter,
        subject: npt.NDArray[np.int32],
        source: npt.NDArray[np.int32],
    ) -> Columns:
        """Mark the transactions of unwanted origins.

        MariaDB's I/O thread counts a transaction that it ignores as done (``gtid_slave_pos``, ``Gtid_IO_Pos``). MySQL's
        I/O thread does not: the transaction is in neither Retrieved_Gtid_Set nor Executed_Gtid_Set. Both threads move
        the position. This was tried with MySQL 9.7 and MariaDB 10.11.
        """
        fd = segment.format_description
        is_unwanted = np.isin(segment.txn_server, list(origin.unwanted_server_ids(fd.header.server_id)))
        if fd.family == "mariadb":
            for number in np.unique(segment.txn_source[segment.txn_source >= 0]).tolist():
                domain, _ = self._sources.key(number, "mariadb")
                assert isinstance(domain, int)
                if not origin.wants_domain(domain):
                    is_unwanted |= segment.txn_source == number
        is_unwanted &= segment.txn_source != R.KEPT  # events of the file have no origin
        if not is_unwanted.any():
            return subject, source
        subject = np.where(is_unwanted, np.int32(R.SKIP), subject)
        if fd.family != "mariadb":
            source = np.where(is_unwanted, np.int32(-1), source)
        return subject, source

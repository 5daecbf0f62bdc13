"""The exclusion of transactions that a slave does not need, whatever its filter rules say.

The slave already has some transactions. Others come from servers or domains that the slave ignores
(``IGNORE_SERVER_IDS``, ``DO_DOMAIN_IDS``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.binlog.gtid_sources import Membership, SourceKey, SourceNumbers
from dumpfilter.dump.atoms import Columns
from dumpfilter.dump.decision import columns_of
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.segment import DroppedRuns, Segment


def _digest(gtids: GtidSet) -> bytes:
    # Keys are compared and hashed often. A GTID set can have many intervals.
    return hashlib.sha256(f"{gtids.family} {gtids}".encode()).digest()


def contained(segment: Segment, sources: SourceNumbers, gtids: Membership) -> npt.NDArray[np.bool_]:
    """Tell for each transaction of a segment whether a GTID set has it."""
    source = segment.txn_source
    found = np.zeros(len(source), np.bool_)
    for number in np.unique(source[source >= 0]).tolist():
        of_source = np.flatnonzero(source == number)
        found[of_source] = gtids.contains(sources.key(number, gtids.family), segment.txn_number[of_source])
    return found


class SegmentOrigins:
    """The servers and the GTIDs of one segment's transactions, found once for many slaves."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self.writer = segment.format_description.header.server_id
        """The id of the server that wrote the binlog."""
        self.family = segment.format_description.family
        self._gtids: list[tuple[SourceKey, int, int]] | None = None

    @cached_property
    def servers(self) -> frozenset[int]:
        """The server ids of all transactions and of the events between them."""
        return frozenset(self._segment.txn_server.tolist())

    def gtids(self, sources: SourceNumbers) -> list[tuple[SourceKey, int, int]]:
        """Return each GTID source of the segment with its lowest and its highest transaction number, and the runs of
        Gap events."""
        if self._gtids is None:
            segment = self._segment
            of_source = segment.txn_source
            self._gtids = []
            for source in set(of_source[of_source >= 0].tolist()):
                numbers = segment.txn_number[of_source == source]
                key = sources.key(source, self.family)
                self._gtids.append((key, int(numbers.min()), int(numbers.max())))
            for source, first, last in segment.dropped.runs.tolist():
                self._gtids.append((sources.key(source, self.family), first, last))
        return self._gtids


class Exclusion:
    """Marks transactions that one slave does not need, so that the dump thread passes over them.

    Parameters:
        sources: the numbers of the binlog set's GTID sources (server UUIDs, or MariaDB's domain and server ids).
        executed: the GTIDs that the slave already has; None if the slave names none.
    """

    def __init__(self, sources: SourceNumbers, executed: GtidSet | None) -> None:
        self._sources = sources
        self._executed = None if executed is None else Membership(executed)
        self.key: Hashable = None if executed is None else _digest(executed)
        """A value that is equal for exclusions of the same GTIDs."""

    def apply(self, segment: Segment, origin: OriginFilter | None) -> Columns:
        """Return a segment's columns without the transactions that this slave does not need.

        ``txn_source`` is -1 for each transaction that the master does not report to the slave. ``origin`` says from
        which server ids and domains the slave wants transactions; None: from all.
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

    def has_any(self, source: int, first: int, last: int) -> bool:
        """Tell whether the slave has any transaction of a GTID source, by its number, from ``first`` to ``last``."""
        executed = self._executed
        return executed is not None and executed.overlaps(
            self._sources.key(source, executed.family), first, last
        )

    def highest(self, source: int) -> int:
        """Return the highest transaction number that the slave has of a GTID source, by its number; 0 for none."""
        executed = self._executed
        return 0 if executed is None else executed.highest(self._sources.key(source, executed.family))

    def concerns(self, origins: SegmentOrigins, origin: OriginFilter | None) -> bool:
        """Tell whether :meth:`apply` may change anything in a segment. ``origins`` tells whose transactions it has."""
        if self._executed is not None:
            for key, first, last in origins.gtids(self._sources):
                if self._executed.overlaps(key, first, last):
                    return True
        if origin is None or not origin.is_on:
            return False
        if not origin.unwanted_server_ids(origins.writer).isdisjoint(origins.servers):
            return True
        return origins.family == "mariadb" and any(
            not origin.wants_domain(key[0])
            for key, _, _ in origins.gtids(self._sources)
            if isinstance(key[0], int)
        )

    def _missing(self, dropped: DroppedRuns, executed: Membership) -> DroppedRuns:
        rows: list[tuple[int, int, int, int]] = []
        until = [0]
        for (source, first, last), ordinal in zip(
            dropped.runs.tolist(), dropped.ordinal.tolist(), strict=True
        ):
            key = self._sources.key(source, executed.family)
            rows += [(source, *run, ordinal + run[0] - first) for run in executed.missing(key, first, last)]
            until.append(len(rows))
        runs = np.array(rows, np.int64).reshape(-1, 4)
        return DroppedRuns(
            dropped.transaction, np.array(until)[dropped.until], runs[:, :3].copy(), runs[:, 3].copy()
        )

    def _without_unwanted(self, segment: Segment, origin: OriginFilter, columns: Columns) -> Columns:
        """Mark the transactions of servers and domains that the slave ignores.

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
        # Rotate and similar events belong to the binlog file and to no transaction.
        is_unwanted &= segment.txn_source != R.KEPT
        columns = columns.with_subjects(is_unwanted, R.SKIP)
        if fd.family != "mariadb":
            columns = columns._replace(txn_source=np.where(is_unwanted, np.int32(-1), columns.txn_source))
        return columns

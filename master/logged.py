"""The GTIDs that a server has logged, according to its binlog files or to the server itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dumpfilter.binlog.gtid import GtidSet, MariadbGtid, MysqlGtidSet
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.index.segment import Segment


@dataclass(frozen=True)
class Logged:
    """The GTIDs that a MySQL or MariaDB server has logged in its binlog, as far as the master knows them."""

    gtids: GtidSet = field(default_factory=MysqlGtidSet)
    """The GTIDs of all logged transactions. For a MariaDB server use :attr:`last` instead."""
    last: dict[tuple[int, int], int] = field(default_factory=dict)
    """The last sequence number of each domain and server (``gtid_binlog_state`` of MariaDB). The newest entry of a
    domain comes last.
    """
    slave_position: frozenset[MariadbGtid] = frozenset()
    """The GTIDs that a MariaDB server has applied as a replica (``gtid_slave_pos``), and that its own binlog may
    lack.
    """
    end: tuple[str, int] | None = None
    """The newest binlog file and its size, or None if the server did not tell them."""

    def newest(self, domain: int) -> int | None:
        """Return the sequence number that the server logged last in a MariaDB domain. Return None for a domain without
        transactions.
        """
        return next((number for key, number in reversed(self.last.items()) if key[0] == domain), None)

    def has(self, gtid: MariadbGtid) -> bool:
        """Tell whether a MariaDB server accepts ``gtid`` as a replica's position.

        The server must have logged this or a higher sequence number of the GTID's domain and server id, or have
        ``gtid`` in its ``gtid_slave_pos``. A GTID with server id 0 (unknown) may belong to any server.
        """
        if gtid in self.slave_position:
            return True
        return any(
            number >= gtid.seq_no and domain == gtid.domain_id and gtid.server_id in (0, server)
            for (domain, server), number in self.last.items()
        )

    def copy(self) -> Logged:
        """Return a copy, which later calls of :meth:`add` do not change."""
        return replace(self, gtids=self.gtids.copy(), last=dict(self.last))

    def list(self, gtids: Sequence[MariadbGtid]) -> None:
        """Add the GTIDs of a MariaDB Gtid_list event: the last sequence number of each domain and server id. ``gtids``
        are in the order of their logging.
        """
        for gtid in gtids:
            self.last[gtid.domain_id, gtid.server_id] = gtid.seq_no

    def add(self, segment: Segment, sources: SourceNumbers) -> None:
        """Add the GTIDs of all transactions in a segment (scanned events). In a relay log, the transactions that the
        slave's master dropped are added, too.
        """
        add_transactions(self.gtids, segment, sources)
        for _, number, _, last, _, _ in segment.dropped.tolist():
            self._log(sources.key(number, self.gtids.family), last)
        source = segment.txn_source
        newest = [
            (int(np.flatnonzero(source == number)[-1]), number) for number in np.unique(source[source >= 0])
        ]
        for at, number in sorted(newest):
            self._log(sources.key(int(number), self.gtids.family), int(segment.txn_number[at]))

    def _log(self, key: tuple[bytes, str] | tuple[int, int], number: int) -> None:
        if self.gtids.family == "mariadb":
            self.last.pop(key, None)  # type: ignore[arg-type]  # a source of MariaDB is a pair of numbers
            self.last[key] = number  # type: ignore[index]


def add_transactions(gtids: GtidSet, segment: Segment, sources: SourceNumbers) -> None:
    """Add the GTIDs of all transactions in a scanned segment of a binlog file to the set ``gtids``.

    In a relay log, the transactions that the slave's master dropped are added, too.
    """
    for number in np.unique(segment.txn_source[segment.txn_source >= 0]).tolist():
        key = sources.key(number, gtids.family)
        gtids.add_many(key, segment.txn_number[segment.txn_source == number])
    for _, number, first, last, _, _ in segment.dropped.tolist():
        gtids.add_range(sources.key(number, gtids.family), first, last)

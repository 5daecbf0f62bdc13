"""The sizes of stand-ins: empty transactions that give the GTIDs of dropped transactions to a real replica.

A tally (a count of bytes by table) counts stand-ins beside the events. MySQL's stand-in is the transaction's own
Gtid event, a BEGIN and an Xid event. The master sends it exactly when it drops the transaction. MariaDB's stand-in is
an empty Gtid event and an Xid event. A run of dropped transactions between two sent ones needs one stand-in for each
domain. A tally does not know which transactions are neighbours, so it tells only how many stand-ins MariaDB needs at
most (:func:`at_most`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.index.scanner import SEGMENT_SIZE
from dumpfilter.index.segment import Segment

XID_LENGTH = HEADER_LENGTH + 8
"""The length of an Xid event without its checksum, bytes."""

BEGIN_LENGTH = HEADER_LENGTH + 13 + len(b"\0BEGIN")
"""The length of a Query event BEGIN without database, status variables and checksum, bytes."""

MARIADB_GTID_LENGTH = HEADER_LENGTH + 19
"""The length of a Gtid event of MariaDB without a commit id, an xid and a checksum, bytes."""

EVENTS: dict[Family, int] = {"mysql": 3, "mariadb": 2}
"""The number of events of a stand-in, by the family of the server."""

PIECE = SEGMENT_SIZE
"""The distance in a MariaDB binlog, in bytes, after which a run of dropped transactions counts as ended and needs new
stand-ins (empty transactions).

A master ends a chunk (a message) after so many bytes when the filter drops most of them. A chunk that ends earlier,
because the binlog ends there for now, also has its own stand-ins.
"""

Sizes = npt.NDArray[np.int64]


class StandIns(NamedTuple):
    """The number and size of stand-ins, empty transactions that give the GTIDs of dropped transactions to a real
    replica.
    """

    number: int
    nbytes: int
    """The bytes of the stand-ins' events, without the headers of packets."""


class Stretches(NamedTuple):
    """Counts of replication domains in the stretches of a MariaDB binlog, from which :func:`at_most` computes an upper
    limit for stand-ins (empty transactions for dropped ones).

    A stretch is a part of the binlog that no run of dropped transactions crosses, whatever the filter. A stretch ends
    after :data:`PIECE` bytes, and at events between transactions, which the master sends to every slave.
    """

    domains: int = 0
    """The sum, over all stretches, of the number of domains in the stretch. It is 0 for MySQL."""
    most_domains: int = 0
    """The largest number of domains in one stretch."""

    def plus(self, other: Stretches) -> Stretches:
        """Return the counts for the stretches of ``self`` and ``other`` together."""
        return Stretches(self.domains + other.domains, max(self.most_domains, other.most_domains))


def at_most(dropped: StandIns, sent: int, stretches: Stretches) -> StandIns:
    """Return the largest possible number and size of the stand-ins (empty transactions) that a MariaDB replica gets in
    place of the dropped transactions.

    Each sent transaction ends a run of dropped ones. A run needs at most one stand-in for each replication domain of
    its stretch, a part of the binlog that no run crosses.

    Parameters:
        dropped: the number and size of the stand-ins if each dropped transaction had one.
        sent: the number of sent transactions.
        stretches: the counts of domains in the stretches.
    """
    number = min(dropped.number, stretches.domains + sent * stretches.most_domains)
    # Stand-ins differ only by their checksums. The most bytes are those with as many checksums as possible.
    shortest = MARIADB_GTID_LENGTH + XID_LENGTH
    checksums = EVENTS["mariadb"] * CHECKSUM_LENGTH
    with_checksums = (dropped.nbytes - dropped.number * shortest) // checksums
    return StandIns(number, number * shortest + min(number, with_checksums) * checksums)


class StandInSizes:
    """The computation of the bytes of the stand-in (empty transaction) that a real replica would get for each
    transaction if the transaction were dropped.

    The segments (parts of binlog files) must be given in the order of the binlog, because a transaction can begin in an
    earlier segment. ``sources`` numbers the set's GTID sources (server UUIDs, or MariaDB's domain and server ids).
    """

    def __init__(self, sources: SourceNumbers) -> None:
        self._sources = sources
        self._domains = np.empty(0, np.int64)
        self._of_open = 0
        self._stretches = Stretches()

    def of(self, segment: Segment) -> Sizes:
        """Return the size of the stand-in (empty transaction) for each transaction of the next segment, bytes, int64.
        0 means that the transaction has no GTID and needs none.
        """
        if segment.format_description.family == "mariadb":
            self._stretches = self._stretches.plus(self._stretches_of(segment))
            size = _with_checksum(segment, MARIADB_GTID_LENGTH) + _with_checksum(segment, XID_LENGTH)
            return np.where(segment.txn_source >= 0, np.int64(size), 0)
        return self._mysql(segment)

    def take_stretches(self) -> Stretches:
        """Return the counts of replication domains for the segments since the last call of this method, and begin to
        count anew. The counts limit the number of stand-ins (empty transactions) of a MariaDB replica.
        """
        found, self._stretches = self._stretches, Stretches()
        return found

    def _mysql(self, segment: Segment) -> Sizes:
        n = len(segment.txn_source)
        first = segment.txn_event[:n]
        has_gtid = (segment.txn_source >= 0) & (segment.role[first] & R.ROLE_MASK == R.GTID)
        others = _with_checksum(segment, BEGIN_LENGTH) + _with_checksum(segment, XID_LENGTH)
        sizes = np.where(has_gtid, segment.size[first] + others, 0)
        if segment.continues and n:
            sizes[0] = self._of_open
        self._of_open = int(sizes[-1]) if segment.open and n else 0
        return sizes

    def _stretches_of(self, segment: Segment) -> Stretches:
        source = segment.txn_source[: len(segment.txn_source) - segment.open]
        which = np.flatnonzero(source >= 0)
        if not len(which):
            return Stretches()
        end = np.append(segment.offset[segment.txn_event[1:-1]], segment.end)[which]
        is_sent_to_all = source == R.KEPT
        is_gap = segment.role & R.ROLE_MASK == R.GAP
        if is_gap.any():
            # The master sends no Gap events of a relay log.
            is_sent_to_all &= np.logical_or.reduceat(~is_gap, segment.txn_event[:-1])[: len(source)]
        # Both summands only rise, so each pair of a piece and a number of events between transactions has its own sum.
        stretch = (end - 1 - segment.start) // PIECE + np.cumsum(is_sent_to_all)[which]
        # A domain id has 32 bits.
        keys = np.unique(stretch << 32 | self._domain_of(source[which]))
        _, domains = np.unique(keys >> 32, return_counts=True)
        return Stretches(len(keys), int(domains.max()))

    def _domain_of(self, sources: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        known = len(self._domains)
        if known < self._sources.count:
            more = [self._sources.key(number, "mariadb")[0] for number in range(known, self._sources.count)]
            self._domains = np.concatenate([self._domains, np.array(more, np.int64)])
        return self._domains[sources]


def _with_checksum(segment: Segment, length: int) -> int:
    return length + (CHECKSUM_LENGTH if segment.format_description.checksum else 0)

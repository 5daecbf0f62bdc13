"""The sizes of stand-ins: small transactions that leave a real replica with the GTIDs of dropped transactions.

A tally counts them beside the events, because a stand-in is sent exactly when its transaction is dropped. MySQL's
stand-in is the transaction's own Gtid event, a BEGIN and an Xid event. MariaDB needs a stand-in only for the last
transaction of a domain in each chunk, an empty Gtid event and an Xid event.
"""

from __future__ import annotations

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
"""The number of events of a stand-in."""

PIECE = SEGMENT_SIZE
"""The part of a binlog in which MariaDB's stand-ins are counted once for each domain, bytes.

A master makes a chunk of so many bytes when the filter drops most of them. A chunk that fills earlier, or that ends
because the binlog ends there for now, has stand-ins of its own.
"""

Sizes = npt.NDArray[np.int64]


class StandInSizes:
    """Tells for each transaction the bytes of the stand-in that a real replica gets if the transaction is dropped.

    The segments must be given in the order of the binlog, because a transaction can begin in an earlier segment.
    """

    def __init__(self, sources: SourceNumbers) -> None:
        self._sources = sources
        self._domains = np.empty(0, np.int64)
        self._of_open = 0

    def of(self, segment: Segment) -> Sizes:
        """Return the bytes of the stand-in of each transaction of the next segment. 0 means that it needs none."""
        if segment.format_description.family == "mariadb":
            return self._mariadb(segment)
        return self._mysql(segment)

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

    def _mariadb(self, segment: Segment) -> Sizes:
        sizes = np.zeros(len(segment.txn_source), np.int64)
        complete = len(sizes) - segment.open
        which = np.flatnonzero(segment.txn_source[:complete] >= 0)
        if len(which):
            end = np.append(segment.offset[segment.txn_event[1:-1]], segment.end)[which]
            piece = (end - 1 - segment.start) // PIECE
            # A domain id has 32 bits.
            keys = piece << 32 | self._domain_of(segment.txn_source[which])
            # Mostly one domain follows itself, so that few transactions remain to be sorted.
            ends_run = np.append(keys[1:] != keys[:-1], True)
            which, keys = which[ends_run], keys[ends_run]
            # The first entry of each key in the reversed order is the last transaction of a domain in a piece.
            _, last = np.unique(keys[::-1], return_index=True)
            gtid = _with_checksum(segment, MARIADB_GTID_LENGTH)
            sizes[which[::-1][last]] = gtid + _with_checksum(segment, XID_LENGTH)
        return sizes

    def _domain_of(self, sources: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        known = len(self._domains)
        if known < self._sources.count:
            more = [self._sources.key(number, "mariadb")[0] for number in range(known, self._sources.count)]
            self._domains = np.concatenate([self._domains, np.array(more, np.int64)])
        return self._domains[sources]


def _with_checksum(segment: Segment, length: int) -> int:
    return length + (CHECKSUM_LENGTH if segment.format_description.checksum else 0)

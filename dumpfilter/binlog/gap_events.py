"""The Gap event: an event in a slave's relay log that records which transactions the master dropped at this position.

A relay log has no event of a transaction that the master dropped. In its place stands a Gap event. A Gap event has the
GTIDs of the dropped transactions, and the position after them in the master's binlog file. The event also has the hits
(uses of filter rules) of the dropped events. So the relay log alone tells a reader its position and GTID set after each
transaction.

A Gap event has the type 28 (Ignorable_log_event) and the flag ``LOG_EVENT_IGNORABLE_F``. Servers, ``mysqlbinlog`` and
``mariadb-binlog`` skip the event. The layout of its body, in little-endian numbers:

    | bytes | meaning |
    |-------|---------|
    | 8     | the signature ``DUMPFLTR`` |
    | 1     | the version of the layout, 1 |
    | 1     | the kind: 1 for a gap, 2 for the head of a relay log file |
    | 8     | the position after the dropped transactions; 0: only hits, of the transaction here |
    | 2     | the number of kinds of rules with hits |
    | 4     | the number of runs of GTIDs |
    | 9 * n | for each kind of rule: its number in the protocol, 1 byte, and the number of hits, 8 bytes |
    | …     | for each run: the length of the GTID source, 1 byte, the source, the first and last number, 8 bytes each |

A GTID source is a MySQL server's uuid of 16 bytes with its tag, or MariaDB's domain id and server id of 4 bytes each.
The event's ``end_log_pos`` has the low 32 bits of the position. The head of a relay log file names the master and the
GTIDs that the slave had received before. The body of a head is JSON after the kind.
"""

from __future__ import annotations

import contextlib
import json
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.cursor import Cursor
from dumpfilter.binlog.events import CHECKSUM_LENGTH, LOG_EVENT_IGNORABLE_F, EventType
from dumpfilter.binlog.gap_columns import GapColumns
from dumpfilter.binlog.gtid import TAG, GtidSet, SourceKey
from dumpfilter.binlog.writer import make_event

SIGNATURE = b"DUMPFLTR"
GAP_VERSION = 1
"""The version of the layout of Gap events, a relay log's notes about transactions that the master dropped."""
KIND_GAP = 1
"""The kind byte of a Gap event, which records dropped transactions or hits (uses of filter rules) in a relay log."""
KIND_HEAD = 2
"""The kind byte of the event at the head of a relay log file, which names the master."""
_PREFIX = struct.Struct("<8sBB")
_GAP = _PREFIX.pack(SIGNATURE, GAP_VERSION, KIND_GAP)
"""The bytes with which the body of each Gap event (a relay log's note about dropped transactions) begins."""
_FIXED = struct.Struct("<QHI")
_HIT = struct.Struct("<BQ")
_RUN = struct.Struct("<QQ")
SOURCE = re.compile(rf".{{8}}|.{{16}}(?:{TAG})?".encode(), re.DOTALL)
"""The bytes that may stand for a GTID source: MariaDB's domain and server id, or MySQL's UUID with a tag or none."""

# The layout of the body, in bytes, for compiled code.
GAP_VERSION_AT = len(SIGNATURE)
GAP_KIND_AT = GAP_VERSION_AT + 1
GAP_END_AT = _PREFIX.size
GAP_LENGTH = _PREFIX.size + _FIXED.size
"""The length of the body of a Gap event (a relay log's note about dropped transactions) without its hits (rule uses)
and its runs (intervals) of GTIDs, bytes.
"""


@dataclass(frozen=True)
class Gap:
    """The content of a Gap event: the transactions that the master dropped at this position, and the hits (uses of
    filter rules) of their events.

    A slave of dumpfilter writes Gap events to its relay log. So the relay log tells position and GTIDs also after
    dropped transactions.
    """

    end: int = 0
    """The byte offset after the dropped transactions in the master's binlog file.

    The value is 0 in an event that only has hits (rule uses), which belong to the transaction that follows or continues
    here.
    """
    hits: dict[int, int] = field(default_factory=dict)
    """The number of hits (uses of filter rules) of dropped events, by the number of the rule's kind in the protocol."""
    runs: tuple[tuple[bytes, int, int], ...] = ()
    """The GTIDs of the dropped transactions, as runs of consecutive numbers: the GTID source in the binary form of
    :func:`source_bytes`, and the first and the last number, both included.
    """

    def add_to(self, gtids: GtidSet) -> None:
        """Add the GTIDs of the dropped transactions that this Gap event records to the set ``gtids``.

        Raises GtidError if the set is of the other server family (MySQL, MariaDB).
        """
        for source, first, last in self.runs:
            gtids.add_range(source_key(source), first, last)


class Head(NamedTuple):
    """The content of a head event, with which each relay log file of dumpfilter begins. The event tells from which
    master the file's events came.

    ``members`` are the members of the event's JSON object: ``master_uuid``, ``names`` (the collation by which the
    master compares names), and ``retrieved`` (the GTIDs that the slave had received before).
    """

    members: dict[str, Any]


def source_bytes(key: SourceKey) -> bytes:
    """Return the binary form of a GTID source as a Gap event (a note about dropped transactions in a relay log) stores
    it.

    A GTID source is a server UUID with a tag, or MariaDB's domain id and server id. The result has the 16 bytes of the
    UUID and the bytes of the tag, or 4 bytes for each id.
    """
    if isinstance(key[0], bytes):
        return key[0] + str(key[1]).encode()
    return struct.pack("<II", *key)


def source_key(source: bytes) -> SourceKey:
    """Return the GTID source whose binary form stands in a Gap event (a note about dropped transactions in a relay
    log). This is the inverse of :func:`source_bytes`.

    A GTID source is a server UUID with a tag, or MariaDB's domain id and server id.
    """
    if len(source) == 8:
        domain, server = struct.unpack("<II", source)
        return domain, server
    return source[:16], source[16:].decode()


def is_gap_event(kind: int, body: bytes | memoryview) -> bool:
    """Tell whether an event is one of the two kinds that dumpfilter adds to relay logs.

    A Gap event lists transactions that the master dropped, and a head event names the master. Both are Ignorable events
    whose body begins with a signature. ``kind`` is the event's type, and ``body`` the event without header and
    checksum.
    """
    return kind == EventType.IGNORABLE and bytes(body[: len(SIGNATURE)]) == SIGNATURE


def make_head(members: dict[str, Any], *, server_id: int, checksum: bool) -> bytes:
    """Return the bytes of a relay log file's head event, which records from which master the file's events came.

    ``members``, such as ``master_uuid``, becomes a JSON object in the event. ``server_id`` goes into the event's
    header, and ``checksum`` tells whether the event ends in a CRC32.
    """
    body = _PREFIX.pack(SIGNATURE, GAP_VERSION, KIND_HEAD) + json.dumps(members, sort_keys=True).encode()
    return _event(body, server_id=server_id, end=0, checksum=checksum)


def make_gap(gap: Gap, *, server_id: int, checksum: bool) -> bytes:
    """Return the bytes of one Gap event, which records dropped transactions in a relay log.

    ``gap`` is the event's content. ``server_id`` goes into the event's header, and ``checksum`` tells whether the event
    ends in a CRC32. :func:`with_gaps` makes many events at once.
    """
    parts = [
        _GAP,
        _FIXED.pack(gap.end, len(gap.hits), len(gap.runs)),
        *(_HIT.pack(kind, count) for kind, count in gap.hits.items()),
        *(bytes([len(source)]) + source + _RUN.pack(first, last) for source, first, last in gap.runs),
    ]
    return _event(b"".join(parts), server_id=server_id, end=gap.end, checksum=checksum)


def _event(body: bytes, *, server_id: int, end: int, checksum: bool) -> bytes:
    return make_event(
        EventType.IGNORABLE,
        body,
        server_id=server_id,
        end_log_pos=end & 0xFFFFFFFF,
        flags=LOG_EVENT_IGNORABLE_F,
        checksum=checksum,
    )


def decode_ignorable(body: bytes | memoryview) -> Gap | Head | None:
    """Return the content of an Ignorable event that dumpfilter wrote to a relay log, or None for one that a server
    wrote.

    The result is a Gap (dropped transactions) or a Head (the master from which the file's events came). Raises
    BinlogCorrupt, without file and position, for a malformed event.
    """
    return parse_gap_event(body) if is_gap_event(EventType.IGNORABLE, body) else None


def parse_gap_event(body: bytes | memoryview) -> Gap | Head:
    """Return the content of one of the two kinds of events that dumpfilter adds to relay logs.

    The result is a Gap (transactions that the master dropped) or a Head (the master from which the file's events came).
    ``body`` is the event without header and checksum. Raises BinlogCorrupt, without file and position, when the body is
    malformed or of a later version.
    """
    reader = Cursor(body, "Gap")
    signature, version, kind = reader.unpack(_PREFIX, "its signature")
    if signature != SIGNATURE or version != GAP_VERSION or kind not in (KIND_GAP, KIND_HEAD):
        raise BinlogCorrupt(
            f"a Gap event has version {version} and kind {kind}, which this release does not know"
        )
    if kind == KIND_HEAD:
        return Head(_members(reader.rest()))
    end, n_hits, n_runs = reader.unpack(_FIXED, "its numbers")
    hits: dict[int, int] = {}
    for _ in range(n_hits):
        number, count = reader.unpack(_HIT, "its hits")
        # A gap that the master joined from several ones names a kind of rule once for each.
        hits[number] = hits.get(number, 0) + count
    runs = []
    for _ in range(n_runs):
        source = reader.take(reader.integer(1, "a run"), "a GTID source")
        first, last = reader.unpack(_RUN, "the numbers of a run")
        if not SOURCE.fullmatch(source) or not 0 < first <= last < 1 << 63:
            raise BinlogCorrupt("a Gap event is malformed")
        runs.append((source, first, last))
    reader.finish()
    if end >= 1 << 63:
        raise BinlogCorrupt(f"a Gap event ends at {end}, beyond any file")
    return Gap(end, hits, tuple(runs))


def _members(data: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError, RecursionError):
        members = json.loads(data)
        if isinstance(members, dict):
            return members
    raise BinlogCorrupt("the head event of a relay log is malformed")


def with_gaps(
    events: bytes | memoryview,
    sources: Sequence[bytes],
    gaps: GapColumns,
    *,
    server_id: int,
    checksum: bool,
) -> bytes | memoryview:
    """Return the events of one message from the master, with a Gap event inserted at each position where transactions
    were dropped.

    The slave writes the result to its relay log, in which a Gap event records the dropped transactions.

    ``gaps`` has one entry for each Gap event. ``sources`` lists the GTID sources (:func:`source_bytes`) to which
    ``gaps.run_source`` refers by index. ``server_id`` goes into the headers of the Gap events, and ``checksum`` tells
    whether events end in a CRC32. Without gaps the result is ``events`` itself.
    """
    if not len(gaps.offset):
        return events
    # The import loads compiled code, or compiles it, and most readers of a relay log insert nothing.
    from dumpfilter.binlog.event_kernels import insert_gaps

    begin = _event(_GAP, server_id=server_id, end=0, checksum=False)
    named = [bytes([len(source)]) + source for source in sources]
    longest = max(map(len, named), default=0) + _RUN.size
    room = len(gaps.offset) * (len(begin) + _FIXED.size + CHECKSUM_LENGTH)
    room += len(gaps.hit_kind) * _HIT.size + len(gaps.run_first) * longest
    out = np.empty(len(events) + room, np.uint8)
    size = insert_gaps(
        np.frombuffer(events, np.uint8),
        gaps,
        np.frombuffer(begin, np.uint8),
        np.frombuffer(b"".join(named), np.uint8),
        np.cumsum(list(map(len, named)), dtype=np.int64),
        checksum,
        out,
    )
    return out.data[:size]

"""The commits that this process has just received: their events, and filter decisions that are cached by shape.

The shape of a transaction has everything that a scan and a filter ask about the transaction: the types and flags of the
transaction's events, and the tables that its rows events name. Row data, lengths and GTIDs are no part of a shape. For
each filter, the dump thread decides which events of the first transaction of each shape are sent. This decision holds
for all later transactions of equal shape.

Only transactions of plain row changes have a shape here. All others are decided by the dump thread one by one: DDL and
other statements, XA transactions, and compressed transactions.
"""

from __future__ import annotations

import struct
from collections import Counter, deque
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from dumpfilter.binlog.events import COMMON_HEADER, HEADER_LENGTH, ROWS, STMT_END_F, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import SourceKey
from dumpfilter.binlog.gtid_events import (
    FL_COMPLETED_XA,
    FL_PREPARED_XA,
    FL_STANDALONE,
    MICROSECONDS,
    told_time,
)
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.chunk import DEFAULT_CHUNK_SIZE, Counts, no_file, with_statement_end
from dumpfilter.dump.cut import ADD_STATEMENT_END, OF_NEXT
from dumpfilter.dump.packets.stand_ins import stand_in_of
from dumpfilter.dump.stream.message import Gap, few_gaps_to_proto, runs_of, with_events
from dumpfilter.dump.thread import DumpThread, Reach
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.scanner import FileScanner
from dumpfilter.index.segment import NONE_PREPARED
from dumpfilter.index.subjects import Subjects
from dumpfilter.master.advance import DumpPlace, GrpcEncoding, counts_to_proto, runs_to_proto
from dumpfilter.v1 import dumpfilter_pb2 as pb

_GTID = int(EventType.GTID)
_MARIADB_GTID = int(EventType.MARIADB_GTID)
_QUERY = int(EventType.QUERY)
_TABLE_MAP = int(EventType.TABLE_MAP)
_XID = int(EventType.XID)
_CONTEXT = frozenset({int(EventType.ROWS_QUERY), int(EventType.ANNOTATE_ROWS)})
_ROWS = frozenset(map(int, ROWS))

_QUERY_HEADER = 13
_TABLE_MAP_HEADER = 8
"""The length of the fixed part of a Table_map event: table id and flags."""
_NAMES_AT = HEADER_LENGTH + _TABLE_MAP_HEADER
_TYPE = slice(4, 5)
_FLAGS = slice(17, HEADER_LENGTH)
_TABLE_ID = slice(HEADER_LENGTH, HEADER_LENGTH + 6)
_ROWS_FLAGS = slice(HEADER_LENGTH + 6, HEADER_LENGTH + 8)
_NO_TABLE = (b"\xff" * 6, b"\xff\xff\xff\0\0\0")
"""The table ids, as bytes, of rows events that change no table and only end a statement (STMT_END_F)."""
_SHORTEST_GTID = HEADER_LENGTH + 25
_NOT_PLAIN = FL_STANDALONE | FL_PREPARED_XA | FL_COMPLETED_XA

LARGEST = DEFAULT_CHUNK_SIZE // 2
"""The largest total size of received transactions that are filtered in memory together, bytes. Larger ones are read
from the binlog file.
"""

_MOST_DECISIONS = 10_000
"""The largest number of filter decisions that are cached. A server can write any number of shapes (the types, flags and
tables of a transaction's events), for each of which a decision is cached.
"""


class OtherEvents(Exception):
    """The exception for received events that are no plain row changes, such as DDL or XA. Each dump decides about such
    events itself when it reads the file, because this module caches decisions for plain row changes only.
    """


class Decision(NamedTuple):
    """The decision of one filter about all transactions of one shape (the types, flags and tables of a transaction's
    events): the events to send, those that get STMT_END_F, and the counts and rule hits.
    """

    sent: Sequence[int]
    """The indexes, within the transaction, of the events that the master sends."""
    ends: frozenset[int]
    """The indexes of the rows events that get STMT_END_F, because a later rows event of the statement is dropped."""
    is_dropped: bool
    """Whether the master drops the whole transaction. A replica by GTID then gets an empty transaction with the GTID of
    the dropped one.
    """
    counts: Counts
    """The numbers of read, sent and dropped events of one such transaction. The numbers of bytes are 0 here, because
    they differ between transactions.
    """
    hits: Mapping[int, int]
    """The number of uses (hits) of filter rules of each kind for the transaction's dropped events. The key is the
    kind's index in ``SLAVE_RULE_KINDS``.
    """


@dataclass(eq=False, slots=True)
class Commit:
    """One received transaction of plain row changes, with its events, its GTID and its shape. The shape has the events'
    types, flags and tables. Transactions of equal shape get equal filter decisions.
    """

    offset: int
    end: int
    """The byte offset in the binlog file after the transaction."""
    data: bytes
    """The bytes of the transaction's events."""
    events: list[bytes]
    shape: bytes
    server_id: int
    time: float | None
    """The Unix time of the commit, seconds; None if it is not known."""
    gtid: tuple[SourceKey, int]
    """The GTID of the transaction as a pair: its source, and its transaction number.

    The source is (server UUID, tag) for MySQL, and (domain id, server id) for MariaDB.
    """
    description: FormatDescription
    _stand_in: bytes = b""

    @property
    def stand_in(self) -> bytes:
        """The events of an empty transaction with the GTID of this received transaction. If the master drops the
        transaction, a replica gets these events instead, so that the replica has the GTID.
        """
        if not self._stand_in:
            self._stand_in = stand_in_of(self.events[0], self.end, checksum=self.description.checksum)
        return self._stand_in


class Tail:
    """A buffer for the newest events of a binlog file, which the master receives from a running server. :meth:`add`
    splits the events into complete transactions.
    """

    def __init__(self) -> None:
        self._file = ""
        self._end = 0
        self._open = b""
        """The events received so far of a transaction that is not complete yet."""
        self._recent: deque[Commit] = deque()
        """The last complete transactions, which follow one another, of at most ``LARGEST`` bytes together."""

    def add(self, file: str, offset: int, data: bytes, description: FormatDescription) -> list[Commit] | None:
        """Add received events, and return the transactions that are now complete. ``data`` are whole events of the
        binlog file ``file`` from the byte offset ``offset`` on.

        Return an empty list if no transaction is complete yet. Return None for events that this module cannot filter,
        which dumps then read from the file. Examples are DDL, and a transaction whose beginning is unknown.
        """
        follows = (file, offset) == (self._file, self._end)
        if self._open and follows:
            offset, data = offset - len(self._open), self._open + data
        self._open = b""
        if not follows:
            self._recent.clear()
        try:
            commits = cut_commits(data, offset, description) if len(data) <= LARGEST else None
        except OtherEvents:
            commits = None
        if commits is None:
            self._recent.clear()
            return None
        self._file, self._end = file, offset + len(data)
        self._open = data[commits[-1].end - offset :] if commits else data
        self._recent += commits
        while commits and commits[-1].end - self._recent[0].offset > LARGEST:
            self._recent.popleft()
        return commits

    def since(self, file: str, position: int) -> list[Commit]:
        """Return the complete transactions from ``position`` of the binlog file ``file`` on.

        Return an empty list if this buffer of the newest events has no transaction that begins at ``position``, for
        example because the transaction is too old.
        """
        if file != self._file:
            return []
        found: list[Commit] = []
        for commit in reversed(self._recent):
            if commit.end <= position:
                break
            found.append(commit)
        found.reverse()
        return found if found and found[0].offset == position else []


def cut_commits(data: bytes, offset: int, description: FormatDescription) -> list[Commit]:
    """Split ``data`` into transactions, and return the complete ones. ``data`` are whole events from a transaction
    boundary on, as the master has received them from a running server.

    ``offset`` is the byte offset of ``data`` in the binlog file. ``description`` is the file's format description
    event. An incomplete last transaction is left out. Raises OtherEvents for an event that does not occur in
    transactions of plain row changes, such as DDL.
    """
    commits: list[Commit] = []
    at = 0
    while at < len(data):
        commit = _cut_commit(data, at, offset, description)
        if commit is None:
            break
        commits.append(commit)
        at += len(commit.data)
    return commits


def _cut_commit(data: bytes, begin: int, offset: int, description: FormatDescription) -> Commit | None:
    """Return the transaction that begins at the index ``begin`` of ``data``. Return None if the transaction's end is
    missing. Raises OtherEvents for a transaction that is no plain row change.

    ``offset`` is the byte offset of ``data`` in the binlog file. ``description`` is the file's format description
    event.
    """
    checksum = description.checksum_length
    time, kind, server_id, size, _, _ = COMMON_HEADER.unpack_from(data, begin)
    at = begin + size
    events = [data[begin:at]]
    gtid, flags = _opening(events[0], kind, server_id, checksum)
    if kind == _GTID and (told := told_time(kind, memoryview(events[0])[HEADER_LENGTH : size - checksum])):
        time = told / MICROSECONDS
    shape = [events[0][_TYPE], events[0][_FLAGS], flags]
    needs_begin = kind == _GTID
    tables: dict[bytes, bytes] = {}
    while at < len(data):
        _, kind, _, size, _, _ = COMMON_HEADER.unpack_from(data, at)
        event = data[at : at + size]
        at += size
        shape += event[_TYPE], event[_FLAGS]
        if needs_begin:
            if kind != _QUERY or not _is_begin(event, description):
                raise OtherEvents
            needs_begin = False
        elif kind == _TABLE_MAP:
            tables[event[_TABLE_ID]] = len(events).to_bytes(4)
            shape.append(_names(event, size - checksum))
        elif kind in _ROWS:
            table = event[_TABLE_ID]
            if table not in tables or table in _NO_TABLE or size - checksum < _ROWS_FLAGS.stop:
                raise OtherEvents
            shape += tables[table], b"E" if event[_ROWS_FLAGS.start] & STMT_END_F else b"-"
        elif kind != _XID and kind not in _CONTEXT:
            raise OtherEvents
        events.append(event)
        if kind == _XID:
            whole = data[begin:at]
            return Commit(
                offset + begin,
                offset + at,
                whole,
                events,
                b"".join(shape),
                server_id,
                time or None,
                gtid,
                description,
            )
    return None


def _opening(event: bytes, kind: int, server_id: int, checksum: int) -> tuple[tuple[SourceKey, int], bytes]:
    """Check the first event of a transaction. Return the transaction's GTID, and the event's part of the transaction's
    shape (the key under which filter decisions are cached).

    The part is the byte of flags of MariaDB's Gtid event, and empty for MySQL's. Raises OtherEvents if the event is no
    Gtid event, if its flags announce DDL or XA, or if its seq_no is 2**63 or more. ``kind`` and ``server_id`` are those
    of the event's header, and ``checksum`` is the length of its checksum, bytes.
    """
    if len(event) - checksum < _SHORTEST_GTID and kind == _GTID:
        raise OtherEvents
    if kind == _GTID:
        uuid, number = struct.unpack_from("<16sq", event, HEADER_LENGTH + 1)
        return ((uuid, ""), number), b""
    if kind != _MARIADB_GTID or len(event) - checksum < HEADER_LENGTH + 13:
        raise OtherEvents
    number, domain, flags = struct.unpack_from("<QIB", event, HEADER_LENGTH)
    if flags & _NOT_PLAIN or number >= 1 << 63:
        # The scan decides about DDL and XA transactions, and refuses a seq_no of 2**63 or more.
        raise OtherEvents
    return ((domain, server_id), number), bytes([flags])


def _names(event: bytes, end: int) -> bytes:
    """Return the part of a Table_map event that has the database and table name, with their lengths. The part belongs
    to the transaction's shape, the key under which filter decisions are cached. Raises OtherEvents for a malformed
    event.

    ``end`` is the event's length without checksum.
    """
    if end < _NAMES_AT + 4:
        raise OtherEvents
    table_at = _NAMES_AT + event[_NAMES_AT] + 2
    names_end = table_at + event[table_at] + 2 if table_at < end else end + 1
    if names_end > end:
        raise OtherEvents
    return event[_NAMES_AT:names_end]


def _is_begin(event: bytes, description: FormatDescription) -> bool:
    """Tell whether the text of a Query event is BEGIN."""
    end = len(event) - description.checksum_length
    if (
        end < HEADER_LENGTH + _QUERY_HEADER
        or description.post_header_length(EventType.QUERY) != _QUERY_HEADER
    ):
        return False
    variables = int.from_bytes(event[HEADER_LENGTH + 11 : HEADER_LENGTH + 13], "little")
    return event[HEADER_LENGTH + _QUERY_HEADER + variables + event[HEADER_LENGTH + 8] + 1 : end] == b"BEGIN"


class Part(NamedTuple):
    """One received transaction, a filter's decision about this transaction, and the events that the master sends to
    slaves with this filter.
    """

    commit: Commit
    decision: Decision
    events: bytes
    """The events that are sent; empty for a dropped transaction."""


@dataclass(eq=False, slots=True)
class CommitStep:
    """The message that one dump sends for transactions which the master has just received. The message comes with its
    counts, and with the dump's position after these transactions.
    """

    message: bytes
    """The events for a real replica, or one chunk (serialized message) for a slave of dumpfilter."""
    counts: Counts
    after: DumpPlace
    reach: Reach
    """The GTID ranges and server ids of the received transactions. They tell whether a slave may have some of them
    already.
    """
    committed_at: float | None
    """The Unix time of the first commit of which an event is sent. None: not known, or only empty transactions are sent
    in place of dropped ones.
    """


class Decider:
    """A cache of filter decisions about received commits, for all filters of a binlog set. A decision is cached by the
    filter and by the shape of the transaction (the types, flags and tables of its events).
    """

    def __init__(self, subjects: Subjects, sources: SourceNumbers) -> None:
        self._subjects = subjects
        self._sources = sources
        self._known: dict[tuple[TableFlags, bytes], Decision | None] = {}
        self._description: FormatDescription | None = None

    def reach(self, commits: Sequence[Commit]) -> Reach:
        """Return the ranges of GTIDs and the server ids of the received transactions ``commits``. A dump uses them to
        tell quickly whether its slave has some of these transactions already.
        """
        reach = Reach()
        for commit in commits:
            reach.server_ids.add(commit.server_id)
            source, number = self._numbered(commit)
            reach.add_run(source, number, number)
        return reach

    def _numbered(self, commit: Commit) -> tuple[int, int]:
        """Return the GTID of a transaction as two numbers: the number under which the index stores its GTID source, and
        its transaction number. A GTID source is a server UUID, or MariaDB's domain and server id.
        """
        key, number = commit.gtid
        return self._sources.number(key), number

    def step(self, place: DumpPlace, commits: Sequence[Commit], reach: Reach) -> CommitStep | None:
        """Decide in memory which events of the received transactions ``commits`` a dump sends. Return the message with
        these events, and the dump's position after them. Transactions that do not fit into the message are left out.

        ``place`` is the dump's present position, and ``reach`` has the GTID ranges and server ids of ``commits``.
        Return None if the dump must read the transactions from the file instead, for example because the master's
        operator imposes a filter on the slave. Also return None if the first transaction is too large.
        """
        encoding, thread = place.encoding, place.thread
        if not thread.decides_by_flags:
            return None
        parts: list[Part] = []
        counts = Counts()
        committed_at = None
        for commit in commits:
            decision = self._decision(thread.flags, commit)
            if decision is None:
                return None
            events = b"" if decision.is_dropped else _sent_of(commit, decision)
            size, sent = len(commit.data), len(events)
            if counts.bytes_sent >= thread.chunk_size or counts.bytes_sent + sent > 2 * thread.chunk_size:
                break
            counts.add(decision.counts)
            parts.append(Part(commit, decision, events))
            if sent:
                committed_at = committed_at or commit.time
            counts.bytes_read += size
            counts.bytes_sent += sent
            counts.bytes_dropped += size - sent
        if not parts:
            return None
        end = parts[-1].commit.end
        after = DumpPlace(place.source, thread.fork(position=end, resume=end), end, end, encoding)
        if isinstance(encoding, GrpcEncoding):
            message = self._chunk(place, parts, counts)
        elif encoding.by_gtid:
            message = _with_stand_ins(parts, counts)
        else:
            message = b"".join(part.events for part in parts)
        return CommitStep(message, counts, after, reach, committed_at)

    def drops(self, place: DumpPlace, commits: Iterable[Commit]) -> bool:
        """Tell whether a dump at ``place`` (position, filter and state) surely drops all of the received transactions
        ``commits``. Return False, too, if the dump must read the transactions from the file to decide.
        """
        thread = place.thread
        if not thread.decides_by_flags:
            return False
        for commit in commits:
            decision = self._decision(thread.flags, commit)
            if decision is None or not decision.is_dropped:
                return False
        return True

    def _chunk(self, place: DumpPlace, parts: Sequence[Part], counts: Counts) -> bytes:
        """Return the chunk (serialized message) for a slave of dumpfilter at ``place`` with just received transactions.

        The message equals the one that :class:`~dumpfilter.master.advance.GrpcPlan` makes when a dump reads the
        transactions from the file.
        """
        completed = [self._numbered(part.commit) for part in parts]
        gaps: list[Gap] = []
        size = begin = 0
        for is_dropped, group in groupby(parts, lambda part: part.decision.is_dropped):
            of_group = list(group)
            if is_dropped:
                hits = sum((Counter(part.decision.hits) for part in of_group), Counter[int]())
                runs = runs_of(completed[begin : begin + len(of_group)])
                gaps.append(Gap(size, of_group[-1].commit.end, runs, hits))
            else:
                for part in of_group:
                    if part.decision.hits:
                        gaps.append(Gap(size, OF_NEXT, [], part.decision.hits))
                    size += len(part.events)
            begin += len(of_group)
        (file, before), end = place.told, parts[-1].commit.end
        key_of, sent = place.source.gtid_source, b"".join(part.events for part in parts)
        chunk = pb.Chunk(
            file=file,
            begin_position=before,
            end_position=end,
            resume_position=end,
            resume_bytes=len(sent),
            counts=counts_to_proto(counts),
            completed=runs_to_proto(runs_of(completed), key_of),
        )
        return with_events(chunk, sent, few_gaps_to_proto(gaps, key_of) if gaps else b"")

    def keep(self, flags: Container[TableFlags | None]) -> None:
        """Remove the cached decisions of all filters but those whose verdicts about tables are among ``flags``."""
        self._known = {key: decision for key, decision in self._known.items() if key[0] in flags}

    def _decision(self, flags: TableFlags, commit: Commit) -> Decision | None:
        if commit.description is not self._description:
            # The servers before and after an upgrade may write the same shape in another layout.
            self._known.clear()
            self._description = commit.description
        key = flags, commit.shape
        try:
            return self._known[key]
        except KeyError:
            if len(self._known) >= _MOST_DECISIONS:
                self._known.clear()
            decision = self._known[key] = self._decide(flags, commit)
            return decision

    def _decide(self, flags: TableFlags, commit: Commit) -> Decision | None:
        """Decide which events of the received transaction ``commit`` the master sends. A scan and a new DumpThread
        decide, as for events that a dump reads from the file. Return the decision, which the caller caches for all
        transactions of equal shape (types, flags and tables of the events). Return None if the decision might not hold
        for all transactions of this shape.

        ``flags`` are the decisions of the slave's filter about tables and statements.
        """
        fd = commit.description
        scanner = FileScanner("", fd, self._subjects, self._sources, verify=False, prepared=NONE_PREPARED)
        segment = scanner.scan(np.frombuffer(commit.data, np.uint8), commit.offset)
        if segment is None or segment.end != commit.end or segment.payloads or segment.prepared:
            return None
        thread = DumpThread(flags, self._sources)
        thread.start_file(commit.offset, no_file)
        plans = thread.plan(segment)
        if len(plans) != 1 or plans[0].replaced or thread.in_transaction:
            return None
        (plan,) = plans
        counts = replace(plan.counts, bytes_read=0, bytes_sent=0, bytes_dropped=0)
        ranges = plan.ranges.tolist()
        sent, ends = [], []
        at = commit.offset
        for number, event in enumerate(commit.events):
            patches = [patch for low, size, patch in ranges if low <= at < low + size]
            if patches:
                sent.append(number)
            if patches == [ADD_STATEMENT_END]:
                ends.append(number)
            elif patches not in ([], [0]):
                return None
            at += len(event)
        hits = dict(plan.gaps.hits.tolist())
        return Decision(sent, frozenset(ends), bool(len(plan.gaps.runs)), counts, hits)


def _sent_of(commit: Commit, decision: Decision) -> bytes:
    if len(decision.sent) == len(commit.events) and not decision.ends:
        return commit.data
    return b"".join(
        with_statement_end(commit.events[number], commit.description)
        if number in decision.ends
        else commit.events[number]
        for number in decision.sent
    )


def _with_stand_ins(parts: Sequence[Part], counts: Counts) -> bytes:
    """Return the events of the received transactions ``parts`` for a replica that replicates by GTID. A stand-in, an
    empty transaction with the same GTID, replaces each dropped transaction. Add the bytes of the stand-ins to
    ``counts``.

    MariaDB's GTID position names only the last GTID of a domain. Therefore only the last of several dropped
    transactions in a row of one domain gets a stand-in there.
    """
    transactions: list[bytes] = []
    following: object = None
    for commit, decision, sent in reversed(parts):
        domain = commit.gtid[0][0] if decision.is_dropped and commit.description.family == "mariadb" else None
        if not decision.is_dropped:
            transactions.append(sent)
        elif domain is None or domain != following:
            transactions.append(commit.stand_in)
            counts.bytes_gtid += len(commit.stand_in)
        following = domain
    return b"".join(reversed(transactions))

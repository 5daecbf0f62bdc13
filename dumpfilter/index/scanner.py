"""The scan of a binlog file into segments.

:class:`FileScanner` takes the bytes of one file, from the format description event on. The scanner returns
:class:`Segment` objects: numpy arrays with an entry for each event and for each transaction. The memory depends on the
size of a segment, or of the largest single event, and not on the size of the file. A master's slaves all share one
scan.

The compiled scan leaves statements, XA transactions and compressed transactions to Python code, and marks such events
as :data:`~dumpfilter.binlog.roles.PENDING`. :class:`FileScanner` gives each of them a role (the condition on which the
master sends the event) and a subject (the table or statement that a filter decides about). Such events are processed in
the order of the stream, since the end of an XA transaction depends on the prepared transactions before it.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import BinlogCorrupt, BinlogError, BinlogUnsupported
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import decode_transaction_payload
from dumpfilter.binlog.context_events import decode_xa_prepare
from dumpfilter.binlog.crc32 import all_sound
from dumpfilter.binlog.events import (
    HEADER_LENGTH,
    LOG_EVENT_ARTIFICIAL_F,
    EventHeader,
    EventType,
    event_name,
    numbers_at,
)
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gap_events import Gap, parse_gap_event, source_key
from dumpfilter.binlog.gtid_events import (
    CLOCK_TYPE_AT,
    LOGICAL_TIMESTAMP_TYPECODE,
    SEQUENCE_AT,
    decode_gtid_tagged,
)
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.query import decode_statement_event
from dumpfilter.binlog.rows_events import FLAGS_LENGTH, TABLE_ID_LENGTH
from dumpfilter.index import _scan as K
from dumpfilter.index._scan import EventColumns, Stop
from dumpfilter.index.segment import (
    ALWAYS,
    BY_EVENT,
    NONE_PREPARED,
    NONE_TOLD,
    TOLD_COLUMNS,
    TOLD_SEQUENCE,
    TOLD_TIME,
    TOLD_TRANSACTION,
    Columns,
    Prepared,
    Segment,
    WriterPoint,
    canonical,
    ended_xid,
)
from dumpfilter.index.subjects import Subjects, read_statement


def _held_by(columns: EventColumns, first: int, end: int) -> set[int]:
    """Return the numbers of the subjects (tables and statements) that a part of a transaction changes. The set also has
    ALWAYS if the part has an event that the master sends to every slave.

    The part consists of the events of ``columns`` with the indexes from ``first`` to ``end`` - 1.
    """
    role = columns.role[first:end] & R.ROLE_MASK
    found = np.unique(columns.subject[first:end][(role >= R.ROWS) & (role <= R.STATEMENT)])
    has_more = bool((found < 0).any() or ((role >= R.KEEP) & (role != R.GAP)).any())
    return {*found[found >= 0].tolist(), *((ALWAYS,) if has_more else ())}


SEGMENT_SIZE = 8 << 20
"""The size of the part of a binlog file that is read and scanned at once, bytes.

A part of this size mostly stays in the CPU's cache while it is read, scanned and sent. The size is also large enough
that the Python calls between two scans cost little (measured in bench/scan.py). In an object store, each read is a
request with its latency.
"""

MAX_OPENED = 512 << 20
"""The default of ``max_opened`` of :class:`FileScanner`: the uncompressed size up to which the scan reads, and filters
decide, the events inside a compressed transaction, bytes.

A larger transaction is sent to every slave, and counted as undecided. A server's max_allowed_packet (64 MiB, at most 1
GiB) bounds the compressed size only.
"""

_TABLE_IDS = 4096
"""The initial size of the hash table that finds a table's number by its table id, entries.

The scan forgets old table ids when a quarter of the entries is used. A small hash table would make the scan look up
the same tables by name again and again.
"""

_COLUMNS_KEPT = 1 << 16
"""The largest number of events of a compressed transaction after which the scan keeps its arrays for the next
compressed transaction. After a larger one the arrays are freed.
"""


def _running(
    known: npt.NDArray[np.bool_],
    values: npt.NDArray[np.int64],
    steps: npt.NDArray[np.int64],
    initial: int,
) -> npt.NDArray[np.int64]:
    """Return running sums that begin at ``initial``. Element i adds ``steps[i]`` to the sum before, or restarts at
    ``values[i]`` where ``known[i]`` is true.

    The scan computes the positions and sequence numbers of a relay log's events in this way. Some events record the
    number (``values`` where ``known``). Each other event adds its size or count (``steps``) to the number of the event
    before.
    """
    sums = np.cumsum(steps)
    newest = np.maximum.accumulate(np.where(known, np.arange(known.size), -1))
    found: npt.NDArray[np.int64] = sums + np.where(newest < 0, initial, (values - sums)[newest])
    return found


def _table_key(data: npt.NDArray[np.uint8], at: int) -> bytes:
    """Return the key by which the register that numbers tables finds the table of the Table_map event at offset ``at``
    of ``data``. The key has the bytes of the names in the event: length and database, NUL, length and table, NUL. The
    compiled scan has checked the lengths.
    """
    key = at + HEADER_LENGTH + TABLE_ID_LENGTH + FLAGS_LENGTH
    table = key + int(data[key]) + 2
    return data[key : table + int(data[table]) + 2].tobytes()


def _no_table_ids(room: int) -> K.TableIds:
    """Return an empty hash table with ``room`` slots, a power of two. The hash table maps the table ids in rows events
    to the numbers that the binlog set's register gives to all tables.
    """
    return K.TableIds(np.zeros(room, np.uint64), np.zeros(room, np.int32))


class FileScanner:
    """The scan of one binlog file, from its beginning to its end, one segment (up to 8 MiB of events) after the other.

    From one segment to the next, the scan remembers the open transaction, the Table_map events in force, and the
    prepared XA transactions.

    Parameters:
        name, format_description: the file's name, and its format description event.
        subjects: the register that numbers the subjects (tables and statements that filters decide about) of the whole
            binlog set. The scan adds new ones.
        sources: the register that numbers the GTID sources (server UUIDs, or MariaDB's domain and server ids) of the
            whole set. The scan adds new ones.
        verify: whether the scan checks the checksums of events.
        statements: whether the scan reads the text of statements. If so, no event keeps the subject PENDING or
            PENDING_XA, which the compiled scan gives to statements. Callers that only need the boundaries of
            transactions pass False, which saves time. The two constants then remain, and the scan follows no XA
            transactions and opens no compressed transactions.
        prepared: the XA transactions that are prepared where the scan begins.
        max_opened: the uncompressed size up to which compressed transactions are opened, bytes. No filter decides about
            larger ones, and the master sends them whole (role KEEP).
        writer: for a relay log, the position in the binlog of the server that wrote the events, where the scan begins.
            None for a server's binlog.
    """

    def __init__(
        self,
        name: str,
        format_description: FormatDescription,
        subjects: Subjects,
        sources: SourceNumbers,
        *,
        verify: bool = True,
        statements: bool = True,
        prepared: Prepared = NONE_PREPARED,
        max_opened: int = MAX_OPENED,
        writer: WriterPoint | None = None,
    ) -> None:
        self.name = name
        self.writer = writer
        """The position in the binlog of the server that wrote the events, at the end of the last segment (events that
        :meth:`scan` returned) of a relay log. None for a server's own binlog.
        """
        self._tagged: dict[int, int] = {}
        """The sequence_number of each GTID_TAGGED event, by the event's index in the segment (the events that are
        scanned at once).
        """
        self._max_opened = max_opened
        self._statements = statements
        self.prepared = prepared
        """The XA transactions that are prepared, and not yet committed or rolled back, after the last segment (the
        events that :meth:`scan` returned last).
        """
        self._held: set[int] = set()
        """The tables and statements found so far in the XA transaction that continues in the next segment (part of the
        file), as :func:`_held_by` returns them.
        """
        self._inside: FileScanner | None = None
        """The scanner of the events inside compressed transactions; None before the first compressed transaction."""
        self._is_inside = False
        """Whether this scanner reads the events of a compressed transaction. Such transactions are not nested."""
        self._subjects = subjects
        self._sources = sources
        self._state = np.zeros(1, K.STATE)
        self._verify = verify
        self._table_ids = _no_table_ids(_TABLE_IDS)
        self._columns = Columns(8192)
        self._open_head: tuple[int, ...] = (R.NOTHING, 0, 0)
        """The GTID (source and number) and the server id of the transaction that continues after the last segment (the
        events that :meth:`scan` returned last).
        """
        self._use(format_description)

    @property
    def in_transaction(self) -> bool:
        """Whether the last segment (the events that :meth:`scan` returned last) ended inside a transaction."""
        return bool(self._state["place"][0])

    def release(self) -> None:
        """Free the arrays that scans write into, to save memory while the caller waits for new events. The next scan
        allocates larger arrays as needed.
        """
        self._columns = Columns(64)

    def reset(self, prepared: Prepared, fd: FormatDescription, writer: WriterPoint | None = None) -> None:
        """Forget the open transaction, so that the next scan may begin at any transaction boundary of the file.

        ``prepared`` are the XA transactions that are prepared at that boundary. ``fd`` is the format description event
        that gives the layout of the events there. ``writer`` is for a relay log: the position at that boundary in the
        binlog of the server that wrote the events.
        """
        if fd is not self.format_description:
            self._use(fd)
        self._state["place"] = 0
        self.writer = writer
        self.prepared, self._held = prepared, set()

    def _use(self, fd: FormatDescription) -> None:
        self.format_description = fd
        self._inside = None
        self._state["checksum"] = fd.checksum
        self._state["query_header_length"] = fd.post_header_length(EventType.QUERY)

    def scan(self, data: npt.NDArray[np.uint8], offset: int, *, at_end: bool = False) -> Segment | None:
        """Scan the next bytes of the file and return them as a segment: arrays with an entry for each event and
        transaction.

        ``data`` (uint8, C-contiguous) begins at the byte offset ``offset`` in the file. The segment ends at the last
        transaction boundary in ``data`` or, without a boundary, at the last whole event. A second format description
        event of the file is a segment of its own.

        The result is None when ``data`` has no whole event. With ``at_end`` the file ends with ``data``, and the result
        is also None when ``data`` has no transaction boundary.

        If ``data`` has a transaction boundary before a bad event, the segment ends at the last such boundary. The next
        call then meets the bad event again. Otherwise raises BinlogCorrupt or BinlogUnsupported, with file and
        position.
        """
        with self._subjects.lock:
            continues = self.in_transaction
            found = self._scan(data, offset, at_end)
            return found and self._segment(data, offset, *found, continues)

    def _scan(self, data: npt.NDArray[np.uint8], offset: int, at_end: bool) -> tuple[int, int] | None:
        """Scan the next bytes of the file. Return the offset in ``data`` at which the scanned events end, and the
        number of these events.

        ``data`` begins at the byte offset ``offset`` in the file. The result is None if ``data`` has no whole event or,
        with ``at_end``, no transaction boundary. A second format description event of a file is scanned alone. Raises
        BinlogCorrupt or BinlogUnsupported for a bad event without a transaction boundary before it.
        """
        place_before = int(self._state["place"][0])
        columns = self._columns
        at = count = boundary = boundary_count = 0
        buffer = K.Buffer(data, offset)
        if self._verify and self._state["checksum"][0]:
            # This quick pass checks the checksums of all events together. Only when it fails does the scan check each
            # event, to find the bad one.
            self._state["verify"] = not all_sound(data, 0, data.size)
        while True:
            stop, at, count, b_at, b_count = K.scan(
                buffer,
                at,
                self._state,
                K.GRAMMAR,
                self._subjects.names,
                self._table_ids,
                columns.events,
                count,
            )
            if b_count:
                boundary, boundary_count = b_at, b_count
            if stop == Stop.DONE:
                break
            if stop == Stop.NEW_TABLE:
                self._subjects.table(_table_key(data, at))
            elif stop == Stop.GROW_TABLE_IDS:
                smaller, self._table_ids = self._table_ids, _no_table_ids(2 * self._table_ids.ids.size)
                K.copy_table_ids(smaller, self._table_ids)
            elif stop == Stop.OUTPUT_FULL:
                columns = self._columns = columns.grown(count)
            elif stop == Stop.FORMAT_DESCRIPTION:
                # A second format description event in a file, as in a server's relay log, gives the layout of the
                # events after it.
                length = EventHeader.unpack(data[at : at + HEADER_LENGTH].tobytes()).size
                if at + length > data.size:
                    break
                if boundary_count:
                    # The segment ends before this second format description event, which begins the next segment.
                    break
                event = data[at : at + length].tobytes()
                self._use(FormatDescription.parse(event, file=self.name, position=offset + at))
                values = (offset + at, length, 0, event[4], R.FILE | R.ENDS, R.NOTHING)
                for name, value in zip(K.EventColumns._fields, values, strict=True):
                    getattr(columns.events, name)[0] = value
                return at + length, 1
            elif boundary_count:
                # This call returns the whole transactions before the bad event. The next call meets the bad event
                # again and raises the error.
                break
            else:
                self._raise(Stop(stop), data, at, offset)
        if boundary_count:
            at, count = boundary, boundary_count
            self._state["place"] = 0
        elif count == 0 or at_end:
            self._state["place"] = place_before
            return None
        return at, count

    def _segment(
        self, data: npt.NDArray[np.uint8], offset: int, end: int, count: int, continues: bool
    ) -> Segment:
        columns = self._columns
        events = K.EventColumns._make(column[:count] for column in columns.events)
        resolved = self._resolve(events, data, offset) if self._statements else {}
        n, n_set = self._group(events, data, offset, continues)
        transactions = columns.transactions
        if continues:
            transactions.source[0], transactions.number[0], transactions.server[0] = self._open_head
        if self.in_transaction and n:
            last = transactions.source[n - 1], transactions.number[n - 1], transactions.server[n - 1]
            self._open_head = tuple(map(int, last))
        # The columns with one entry more.
        counts = {"event": n + 1, "set": n + 1}
        found = {
            name: column[: counts.get(name, n)].copy() for name, column in transactions._asdict().items()
        }
        position, dropped = self._follow_writer(events, data, offset, found["event"])
        return Segment(
            file=self.name,
            start=offset,
            end=offset + end,
            **{name: column.copy() for name, column in events._asdict().items()},
            **{f"txn_{name}": column for name, column in found.items()},
            set_subject=columns.set_subject[:n_set].copy(),
            continues=continues,
            open=self.in_transaction,
            format_description=self.format_description,
            **resolved,
            prepared=self.prepared,
            dropped=dropped,
            has_inner_gaps=bool((events.role == R.GAP).any()),
            position=position,
        )

    def _follow_writer(
        self,
        events: K.EventColumns,
        data: npt.NDArray[np.uint8],
        offset: int,
        txn_event: npt.NDArray[np.int64],
    ) -> tuple[npt.NDArray[np.int64] | None, npt.NDArray[np.int64]]:
        """Return two columns of a segment (consecutive events) of a relay log: each event's position in the writer's
        binlog, and the GTIDs of transactions that the master dropped.

        The writer is the server that wrote the events. Gap events tell the dropped transactions.
        :class:`~dumpfilter.index.segment.Segment` describes the columns ``position`` and ``dropped``. In a server's own
        binlog the first is None, and the second has no rows. The method advances :attr:`writer` to the segment's end.
        ``data`` has the file's bytes from the offset ``offset`` on, and ``txn_event`` the index of each transaction's
        first event. Raises BinlogCorrupt for a malformed Gap event.
        """
        tagged, self._tagged = self._tagged, {}
        gaps = np.flatnonzero(events.role == (R.GAP | R.ENDS))
        if self.writer is None and not len(gaps):
            return None, NONE_TOLD
        before, fd, count = self.writer or WriterPoint(0), self.format_description, len(events.offset)
        start, kind = events.offset - offset, events.type
        body, end = start + HEADER_LENGTH, start + events.size - fd.checksum_length
        # The position after an event, if the event tells it; else -1.
        told_position: npt.NDArray[np.int64] = np.full(count, -1, np.int64)
        numbers: npt.NDArray[np.int64] = np.zeros(count, np.int64)
        dropped_by: npt.NDArray[np.int64] = np.zeros(count, np.int64)
        told = []
        for event in gaps.tolist():
            gap = self._read_gap(data[body[event] : end[event]].tobytes(), offset + int(start[event]))
            told_position[event] = gap.end or -1
            for source, first, last in gap.runs:
                number = self._sources.number(source_key(source))
                told.append((event, number, first, last, dropped_by[event] + 1, 0))
                dropped_by[event] += last - first + 1
        is_rotate = (kind == EventType.ROTATE) & (body + 8 <= end)
        rotates = np.flatnonzero(is_rotate & (numbers_at(data, start + 17, 2) & LOG_EVENT_ARTIFICIAL_F != 0))
        told_position[rotates] = numbers_at(data, body[rotates], 8)
        is_logged = (events.role & R.ROLE_MASK != R.GAP) & (told_position < 0)
        gtids = np.flatnonzero((kind == EventType.GTID) & (body + SEQUENCE_AT + 8 <= end))
        gtids = gtids[data[body[gtids] + CLOCK_TYPE_AT] == LOGICAL_TIMESTAMP_TYPECODE]
        numbers[gtids] = numbers_at(data, body[gtids] + SEQUENCE_AT, 8)
        numbers[[*tagged]] = [*tagged.values()]
        sequence = _running(numbers > 0, numbers, dropped_by, before.sequence)
        time = np.where(is_logged, events.time, 0).astype(np.int64)
        time = _running(time > 0, time, np.zeros_like(time), before.time)
        # An event tells the low 32 bits of the position after it. MariaDB 11.8 writes 0 for events inside a
        # transaction. A replica then adds the length.
        low = np.where(is_logged, numbers_at(data, start + 13, 4), 0)
        after = np.where(low > 0, low, told_position)
        after = _running(after >= 0, after, np.where(is_logged, events.size, 0), before.position)
        rises = np.diff(after, prepend=before.position) & 0xFFFFFFFF
        after = _running(told_position >= 0, told_position, rises, before.position)
        dropped = np.array(told, np.int64).reshape(-1, TOLD_COLUMNS)
        of_gap = dropped[:, TOLD_TRANSACTION]
        dropped[:, TOLD_SEQUENCE] += (sequence - dropped_by)[of_gap]
        dropped[:, TOLD_TIME] = time[of_gap]
        dropped[:, TOLD_TRANSACTION] = np.searchsorted(txn_event, of_gap)
        if self.writer is None:
            return None, dropped
        self.writer = WriterPoint(int(after[-1]), int(sequence[-1]), int(time[-1]))
        return np.concatenate(([before.position], after)), dropped

    def _read_gap(self, body: bytes | memoryview, position: int) -> Gap:
        """Return the content of a Gap event, a relay log's note about transactions that the master dropped. The result
        is an empty Gap for an event that is about no dropped transactions. Raises BinlogCorrupt for a malformed event.

        ``body`` is the event without header and checksum, and ``position`` its byte offset in the file, for errors.
        """
        try:
            found = parse_gap_event(body)
        except BinlogCorrupt as error:
            raise error.located(self.name, position) from None
        if not isinstance(found, Gap) or not found.end:
            return Gap()
        if any(
            (len(source) == 8) != (self.format_description.family == "mariadb") for source, _, _ in found.runs
        ):
            raise BinlogCorrupt(
                "a Gap event has GTIDs of the other family of servers", file=self.name, position=position
            )
        return found

    def _resolve(self, columns: K.EventColumns, data: npt.NDArray[np.uint8], offset: int) -> dict[str, Any]:
        """Decide about the events that the compiled scan left PENDING: statements, XA transactions and compressed
        transactions. Return the XA transactions and the compressed transactions that were found, as the fields
        ``BY_EVENT`` of the segment.

        The method writes two values of each such event to ``columns``. The role is the condition on which the master
        sends the event. The subject is the table or statement that a filter decides about. ``data`` has the bytes of
        all events in ``columns``, from the byte offset ``offset`` in the file on.

        Raises BinlogError for an unreadable event in a file without checksums, because the file may be damaged. With a
        right checksum, the server itself wrote the event in this form, and the master sends it to all slaves.
        """
        fd = self.format_description
        made: dict[str, dict[int, Any]] = {name: {} for name in BY_EVENT}
        prepared = dict(self.prepared)
        ends = np.flatnonzero(columns.role & R.ENDS)
        for i in np.flatnonzero(columns.subject <= R.PENDING).tolist():
            start = int(columns.offset[i]) - offset
            event = data[start : start + int(columns.size[i])].tobytes()
            role, subject = R.KEEP, R.NOTHING
            try:
                if columns.type[i] == EventType.XA_PREPARE:
                    before = int(np.searchsorted(ends, i))
                    first = int(ends[before - 1]) + 1 if before else 0
                    held, self._held = self._held if first == 0 else set(), set()
                    found = decode_xa_prepare(fd.body(event))
                    role = R.FRAME
                    if not found.one_phase:
                        own = made["xa_prepares"][i] = canonical(found.xid)
                        held |= _held_by(columns, first, i)
                        holds = ALWAYS if ALWAYS in held else self._subjects.any_of(held)
                        prepared[own] = holds
                elif columns.type[i] == EventType.TRANSACTION_PAYLOAD:
                    if (segment := self._opened(event, dict(prepared))) is not None:
                        role = R.PAYLOAD
                        made["payloads"][i] = segment
                        prepared = dict(segment.prepared)
                        made["xa_prepares"].update((i, xid) for xid in segment.xa_prepares.values())
                elif columns.subject[i] == R.PENDING_XA:
                    role = R.XA
                else:
                    statement, frame = read_statement(event, fd)
                    # MariaDB compressed the text of an event with a frame, so that a keyword such as COMMIT shows only
                    # after the text is uncompressed.
                    role = R.STATEMENT if frame is None else frame
                    subject = self._subjects.statement(statement) if frame is None else R.NOTHING
                if role == R.XA:
                    text = bytes(decode_statement_event(EventType(event[4]), fd.body(event), fd).raw)
                    role = R.FRAME if text[:6].upper() == b"XA END" else R.KEEP
                    xid = ended_xid(text) if role == R.KEEP and columns.role[i] & R.ENDS else None
                    if xid is not None:
                        is_known = xid in prepared
                        holds = prepared.pop(xid, ALWAYS)
                        (made["xa_ends"] if is_known else made["unknown_ends"])[i] = xid
                        if holds != ALWAYS:
                            role, subject = R.STATEMENT, holds
            except BinlogError as error:
                if not fd.checksum and not self._is_inside:
                    raise type(error)(error.what, file=self.name, position=offset + start) from None
                role, subject = R.KEEP, R.NOTHING
            columns.role[i] = role | (columns.role[i] & R.ENDS)
            columns.subject[i] = subject
        open_xa = bool(self._state["place"][0] == K.Place.XA_TRANSACTION)
        if len(ends) or not open_xa:
            self._held = set()
        if open_xa:
            self._held |= _held_by(columns, int(ends[-1]) + 1 if len(ends) else 0, len(columns.role))
        if prepared != self.prepared:
            self.prepared = MappingProxyType(prepared) if prepared else NONE_PREPARED
        return made

    def _opened(self, event: bytes, prepared: Prepared) -> Segment | None:
        """Return the segment (the scanned events) inside a compressed transaction. ``event`` is its Transaction_payload
        event, and ``prepared`` the XA transactions that are prepared before it.

        None if the transaction is too large, or not exactly one transaction. The master then sends it whole, and counts
        it as an event about which no filter can decide.
        """
        if self._is_inside:
            return None
        try:
            payload = decode_transaction_payload(self.format_description.body(event))
            if payload.uncompressed_size > self._max_opened:
                return None
            return self._scan_inside(payload.open(check_events=True), prepared)
        except BinlogError as error:
            raise type(error)(f"in a compressed transaction: {error.what}") from None

    def _group(
        self, events: K.EventColumns, data: npt.NDArray[np.uint8], offset: int, continues: bool
    ) -> tuple[int, int]:
        """Group the scanned events into transactions, and fill the scanner's columns of transactions. Return the number
        of transactions, and the number of entries in the column ``set_subject``. This column has the tables and
        statements of each transaction that changes several.

        ``data`` has the file's bytes from ``offset`` on. ``continues`` tells whether the first transaction began before
        these events.
        """
        buffer = K.Buffer(data, offset)
        transactions = self._columns.transactions
        keys = self._columns.source_keys
        n, n_set, n_keys = K.group_transactions(
            buffer, events, continues, self.in_transaction, transactions, keys, self._columns.set_subject
        )
        is_mariadb = self.format_description.family == "mariadb"
        numbers = [
            self._sources.number(tuple(key.tolist()) if is_mariadb else (key.tobytes(), ""))
            for key in keys[:n_keys]
        ]
        source = transactions.source[:n]
        if numbers != [*range(n_keys)]:
            source[source >= 0] = np.array(numbers, np.int32)[source[source >= 0]]
        for txn in np.flatnonzero(transactions.source[:n] == K.UNREAD_GTID):
            self._read_tagged_gtid(data, offset, int(txn))
        return n, n_set

    def _scan_inside(self, events: bytes, prepared: Prepared) -> Segment | None:
        """Scan the uncompressed events of a compressed transaction. Return them as a segment (arrays with an entry for
        each event), or None if they are not exactly one transaction.

        ``prepared`` are the XA transactions that are prepared before this transaction. Raises BinlogError for a
        malformed event.
        """
        inside, self._inside = self._inside, None
        if inside is None:
            fd = replace(self.format_description, checksum=False)
            inside = FileScanner(self.name, fd, self._subjects, self._sources)
            inside._is_inside = True
        inside.reset(prepared, inside.format_description)
        inside._table_ids.ids[:] = 0
        inside._state["table_ids"] = 0
        segment = inside.scan(np.frombuffer(events, np.uint8), 0, at_end=True)
        if (
            segment is None
            or segment.end != len(events)
            or len(segment.txn_subject) != 1
            or segment.type[0] == EventType.FORMAT_DESCRIPTION
        ):
            return None
        # The scanner ended outside a transaction, so it is kept to scan the next compressed transaction.
        if len(segment.offset) > _COLUMNS_KEPT:
            inside.release()
        self._inside = inside
        return segment

    def _read_tagged_gtid(self, data: npt.NDArray[np.uint8], offset: int, txn: int) -> None:
        events, transactions = self._columns.events, self._columns.transactions
        transactions.source[txn] = K.NO_GTID
        event = int(transactions.event[txn])
        start = int(events.offset[event]) - offset
        end = start + int(events.size[event]) - self.format_description.checksum_length
        try:
            decoded = decode_gtid_tagged(data[start + HEADER_LENGTH : end].tobytes())
        except BinlogCorrupt as error:
            raise error.located(self.name, offset + start) from None
        self._tagged[event] = decoded.sequence_number or 0
        gtid = decoded.gtid
        if gtid is None:
            return
        transactions.source[txn] = self._sources.number(gtid.source)
        transactions.number[txn] = gtid.gno

    def _raise(self, stop: Stop, data: npt.NDArray[np.uint8], at: int, offset: int) -> None:
        header = EventHeader.unpack(data[at : at + HEADER_LENGTH].tobytes())
        name = event_name(header.type)
        what = {
            Stop.BAD_LENGTH: f"an event's length is {header.size}, less than its header",
            Stop.BAD_CHECKSUM: f"checksum mismatch in a {name} event of {header.size} bytes",
            Stop.BAD_EVENT: f"{name} event of {header.size} bytes is malformed, or stands inside a transaction",
            Stop.ENCRYPTED: "the events from here on are encrypted; decrypt the binlog first "
            "(mariadb-binlog --read-from-remote-server --raw)",
            Stop.FRAGMENT: "a rows event is cut into pieces, which are not read; have the server write it whole "
            "(binlog_row_event_fragment_threshold)",
            Stop.LARGE_SEQ_NO: "the GTID's seq_no is 2**63 or more, which is not read; let a new domain "
            "(gtid_domain_id) begin with small numbers",
        }
        is_sound = stop in (Stop.ENCRYPTED, Stop.FRAGMENT, Stop.LARGE_SEQ_NO)
        kind = BinlogUnsupported if is_sound else BinlogCorrupt
        raise kind(what[stop], file=self.name, position=offset + at)

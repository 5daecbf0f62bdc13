"""The reference index: the result of the compiled scan (:mod:`dumpfilter.index._scan`), computed in plain Python.

The reference is slow, and easy to check by eye. Tests compare the compiled scan with the reference. The reference has
its own sets of event types, and reads a whole file without segments. All its columns are as in
:class:`~dumpfilter.index.segment.Segment`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from dumpfilter.base.errors import BinlogCorrupt, BinlogError, BinlogUnsupported
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import decode_transaction_payload
from dumpfilter.binlog.context_events import decode_xa_prepare
from dumpfilter.binlog.events import (
    HEADER_LENGTH,
    LOG_EVENT_IGNORABLE_F,
    STMT_END_F,
    EventHeader,
    EventType,
    event_name,
)
from dumpfilter.binlog.gap_events import Gap, decode_ignorable, is_gap_event, source_key
from dumpfilter.binlog.gtid import GNO_MAX, SourceKey
from dumpfilter.binlog.gtid_events import Xid, decode_gtid_tagged
from dumpfilter.binlog.query import EXTENDED_QUERY_HEADER_LENGTH, decode_statement_event
from dumpfilter.binlog.reader import Event
from dumpfilter.index.segment import canonical, ended_xid
from dumpfilter.index.subjects import Subject, TableSubject, read_statement

_CONTEXT = frozenset(
    {
        EventType.INTVAR,
        EventType.RAND,
        EventType.USER_VAR,
        EventType.ROWS_QUERY,
        EventType.ANNOTATE_ROWS,
        EventType.BEGIN_LOAD_QUERY,
        EventType.APPEND_BLOCK,
    }
)
_FILE = frozenset(
    {
        EventType.PREVIOUS_GTIDS,
        EventType.GTID_LIST,
        EventType.BINLOG_CHECKPOINT,
        EventType.ROTATE,
        EventType.STOP,
    }
)
_ROWS = frozenset({*range(20, 26), *range(30, 33), 39, *range(166, 172)})
_BETWEEN, _IN_GROUP, _AFTER_BEGIN = range(3)
"""The places of an event: between transactions, in a transaction before BEGIN, in a transaction after BEGIN."""


AnySubject = Subject | frozenset[Subject] | int
"""A subject, a set of subjects, or one of the negative numbers of :mod:`dumpfilter.binlog.roles`.

The sets are the subjects of prepared transactions that have no subject or several.
"""


@dataclass
class Transaction:
    """One transaction, or one event between transactions."""

    first_event: int
    subject: AnySubject = R.NOTHING
    """The only subject of the transaction, or R.NOTHING, R.MIXED, R.KEPT."""
    source: SourceKey | int = R.NOTHING
    """The GTID source; R.NOTHING (-1) without a GTID, -3 for an event between transactions."""
    number: int = 0
    """The GTID's number within the GTID source."""
    dropped: tuple[tuple[SourceKey, int, int], ...] = ()
    """The GTIDs that a Gap event tells: GTID source, first and last number of each run."""


@dataclass
class ReferenceIndex:
    """The columns of a whole binlog file, with subjects and GTID sources themselves instead of their numbers."""

    offset: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    time: list[int] = field(default_factory=list)
    type: list[int] = field(default_factory=list)
    role: list[int] = field(default_factory=list)
    subject: list[AnySubject] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    open: bool = False
    """Whether the file ends inside a transaction."""
    payloads: dict[int, ReferenceIndex] = field(default_factory=dict)
    """The index of each compressed transaction's payload, by the number of the event that carries the payload."""
    prepared: dict[Xid, AnySubject] = field(default_factory=dict)
    """The subjects of each transaction that is prepared at the end of the file.

    R.KEPT stands for a prepared transaction of which the master always sends a part.
    """
    is_inside: bool = False
    """Whether the columns are those of a compressed transaction's payload."""


def index_events(
    events: Iterable[Event], prepared: dict[Xid, AnySubject] | None = None, *, is_inside: bool = False
) -> ReferenceIndex:
    """Return the index of a file's events. The format description event at the start of the file is left out.

    ``prepared`` has the subjects of the transactions that are prepared before the first event. ``is_inside`` says that
    the events are those of a payload. Raises BinlogCorrupt or BinlogUnsupported with the position of a bad event, but
    without the file's name.
    """
    made = ReferenceIndex(prepared=dict(prepared or {}), is_inside=is_inside)
    tables: dict[int, Subject] = {}
    group = _BETWEEN
    for event in events:
        if event.type == EventType.FORMAT_DESCRIPTION and event.offset == 4:
            continue
        before = group
        try:
            role, subject, group = _read(event, before, tables)
            if before == _BETWEEN:
                made.transactions.append(Transaction(len(made.offset)))
            if subject == R.PENDING:
                role, subject = _resolve(made, event, role, group)
            if role == R.GAP and before == _BETWEEN:
                made.transactions[-1] = _dropped(made.transactions[-1], event)
            else:
                _count_in(made.transactions[-1], event, role, subject)
        except BinlogError as error:
            raise type(error)(error.what, position=event.offset) from None
        made.offset.append(event.offset)
        made.size.append(event.header.size)
        # The compiled scan does not read the time of a second format description event.
        made.time.append(0 if event.type == EventType.FORMAT_DESCRIPTION else event.header.timestamp)
        made.type.append(event.type)
        made.role.append(role | (R.ENDS if group == _BETWEEN else 0))
        made.subject.append(subject)
    made.open = group != _BETWEEN
    return made


def _read(event: Event, group: int, tables: dict[int, Subject]) -> tuple[int, AnySubject, int]:
    """Return an event's role and subject, and the place after the event.

    ``group`` is the place before the event. ``tables`` has the subject of each table id, and gets those of table maps.
    A subject that :func:`_resolve` has to find is R.PENDING.
    """
    kind, body, fd = event.type, event.body, event.fd
    ends = _BETWEEN if group < _AFTER_BEGIN else group
    if kind == EventType.FORMAT_DESCRIPTION:
        _need(event, group == _BETWEEN)
        return R.FILE, R.NOTHING, _BETWEEN
    if kind == EventType.TABLE_MAP:
        _need(event, len(body) >= 12)
        names = body[8:]
        table_at = names[0] + 2
        _need(event, len(names) > table_at)
        end = table_at + 1 + names[table_at]
        _need(event, len(names) > end)
        table = TableSubject(_name(names[1 : table_at - 1]), _name(names[table_at + 1 : end]))
        tables[int.from_bytes(body[:6], "little")] = table
        return R.TABLE_MAP, table, max(group, _IN_GROUP)
    if kind in _ROWS:
        _need(event, len(body) >= 8)
        number = int.from_bytes(body[:6], "little")
        last = bool(int.from_bytes(body[6:8], "little") & STMT_END_F)
        group = ends if last else max(group, _IN_GROUP)
        if number == (1 << 48) - 1 or (number == 0xFFFFFF and last and len(body) <= 12):
            return R.DUMMY_ROWS, R.NOTHING, group
        return R.ROWS_END if last else R.ROWS, tables.get(number, R.UNMAPPED), group
    if kind in (EventType.QUERY, EventType.QUERY_COMPRESSED):
        post = fd.post_header_length(EventType.QUERY)
        _need(event, post >= 13 and len(body) >= post)
        text_at = post + int.from_bytes(body[11:13], "little") + body[8]
        text_end = len(body)
        if post == EXTENDED_QUERY_HEADER_LENGTH:
            text_end -= int.from_bytes(body[15:17], "little")
            _need(event, int.from_bytes(body[13:15], "little") == min(text_end - text_at, 0xFFFF))
        else:
            text_at += 1
        _need(event, text_at <= text_end)
        if kind == EventType.QUERY:
            role, after = _frame(bytes(body[text_at:text_end]).upper(), group)
            if role is not None:
                return role, R.PENDING if role == R.XA else R.NOTHING, after
        return R.STATEMENT, R.PENDING, ends
    if kind == EventType.EXECUTE_LOAD_QUERY:
        _need(event, len(body) > 26)
        return R.STATEMENT, R.PENDING, ends
    if kind in (EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED):
        _need(event, group == _BETWEEN and (kind == EventType.GTID_TAGGED or len(body) >= 25))
        _need(event, kind != EventType.GTID or 1 <= int.from_bytes(body[17:25], "little") <= GNO_MAX)
        return R.GTID, R.NOTHING, _IN_GROUP
    if kind == EventType.MARIADB_GTID:
        _need(event, group == _BETWEEN and len(body) >= 13)
        if body[7] & 0x80:
            raise BinlogUnsupported("a GTID event has a seq_no of 2**63 or more")
        _need(event, any(body[:8]))
        return R.GTID, R.NOTHING, _IN_GROUP if body[12] & 0x01 else _AFTER_BEGIN
    if kind == EventType.XID:
        return R.FRAME, R.NOTHING, _BETWEEN
    if kind == EventType.XA_PREPARE:
        return R.FRAME, R.PENDING, _BETWEEN
    if kind in _CONTEXT:
        return R.CONTEXT, R.NOTHING, max(group, _IN_GROUP)
    if kind in _FILE:
        return R.FILE if group == _BETWEEN else R.KEEP, R.NOTHING, group
    if kind == EventType.START_ENCRYPTION:
        if event.header.flags & LOG_EVENT_IGNORABLE_F:
            return R.FILE if group == _BETWEEN else R.KEEP, R.NOTHING, group
        raise BinlogUnsupported("the events from here on are encrypted")
    if kind == EventType.PARTIAL_ROW_DATA:
        raise BinlogUnsupported("a rows event is cut into pieces")
    if kind == EventType.TRANSACTION_PAYLOAD:
        return R.PAYLOAD, R.PENDING, _BETWEEN
    if is_gap_event(kind, body):
        gap = decode_ignorable(body)
        _need(event, group == _BETWEEN or not isinstance(gap, Gap) or not gap.end)
        return R.GAP, R.NOTHING, group
    if kind == EventType.INCIDENT and group == _IN_GROUP:
        group = _BETWEEN
    return R.KEEP, R.NOTHING, group


def _frame(text: bytes, group: int) -> tuple[int | None, int]:
    """Return the role of a statement that begins or ends a part of a transaction, and the place after the statement.

    ``text`` is the statement in capitals. The role is None for all other statements.
    """
    ends = _BETWEEN if group < _AFTER_BEGIN else group
    if text == b"BEGIN":
        return R.FRAME, _AFTER_BEGIN
    if text in (b"COMMIT", b"ROLLBACK"):
        return R.FRAME, _BETWEEN
    if text.startswith((b"SAVEPOINT ", b"ROLLBACK", b"RELEASE SAVEPOINT ")):
        return R.FRAME, ends
    if text.startswith((b"XA START", b"XA BEGIN")):
        return R.FRAME, _AFTER_BEGIN
    if text.startswith(b"XA END"):
        return R.FRAME, ends
    if text.startswith(b"XA ") and len(text) >= 5:
        return R.XA, ends
    return None, group


def _resolve(made: ReferenceIndex, event: Event, role: int, group: int) -> tuple[int, AnySubject]:
    """Return role and subject of a statement, of the end of an XA transaction, or of a compressed transaction."""
    try:
        if event.type == EventType.XA_PREPARE:
            found = decode_xa_prepare(event.body)
            if not found.one_phase:
                made.prepared[canonical(found.xid)] = _held(made)
            return R.FRAME, R.NOTHING
        if event.type == EventType.TRANSACTION_PAYLOAD:
            return _open(made, event), R.NOTHING
        if role != R.XA:
            statement, frame = read_statement(event.raw, event.fd)
            if frame is None:
                return R.STATEMENT, statement
            if frame != R.XA:
                return frame, R.NOTHING
        text = bytes(decode_statement_event(EventType(event.type), event.body, event.fd).raw)
    except BinlogError:
        if event.fd.checksum or made.is_inside:
            return R.KEEP, R.NOTHING
        raise
    if text.upper().startswith(b"XA END"):
        return R.FRAME, R.NOTHING
    xid = ended_xid(text)
    held = R.KEPT if xid is None or group != _BETWEEN else made.prepared.pop(xid, R.KEPT)
    return (R.KEEP, R.NOTHING) if held == R.KEPT else (R.STATEMENT, held)


def _held(made: ReferenceIndex) -> AnySubject:
    """Return the subjects of the last transaction so far. R.KEPT stands for a part that the master always sends."""
    subjects: set[Subject] = set()
    for n in range(made.transactions[-1].first_event, len(made.offset)):
        role, subject = made.role[n], made.subject[n]
        if (role >= R.KEEP and role != R.GAP) or (role in (R.ROWS, R.ROWS_END) and subject == R.UNMAPPED):
            return R.KEPT
        if role in (R.ROWS, R.ROWS_END, R.STATEMENT):
            assert isinstance(subject, Subject)
            subjects.add(subject)
    return subjects.pop() if len(subjects) == 1 else frozenset(subjects)


def _open(made: ReferenceIndex, event: Event) -> int:
    """Index the payload of a compressed transaction, and return the role of the transaction's event."""
    if made.is_inside:
        return R.KEEP
    raw = decode_transaction_payload(event.body).open()
    inside = []
    at = 0
    fd = replace(event.fd, checksum=False)
    while at < len(raw):
        size = EventHeader.unpack(raw, at).size if at + HEADER_LENGTH <= len(raw) else len(raw)
        if at + HEADER_LENGTH <= len(raw) and size < HEADER_LENGTH:
            raise BinlogCorrupt(f"an event's length is {size}")
        if at + max(size, HEADER_LENGTH) > len(raw):
            return R.KEEP
        event_raw = raw[at : at + size]
        inside.append(Event(at, EventHeader.unpack(event_raw), event_raw, fd))
        at += size
    found = index_events(inside, made.prepared, is_inside=True)
    if found.open or len(found.transactions) != 1 or inside[0].type == EventType.FORMAT_DESCRIPTION:
        return R.KEEP
    made.payloads[len(made.offset)] = found
    made.prepared = found.prepared
    return R.PAYLOAD


def _dropped(transaction: Transaction, event: Event) -> Transaction:
    """Return the transaction that a Gap event between two transactions stands for."""
    gap = decode_ignorable(event.body)
    runs = gap.runs if isinstance(gap, Gap) and gap.end else ()
    found = tuple((source_key(source), first, last) for source, first, last in runs)
    return replace(transaction, subject=R.SKIP, source=-3, dropped=found)


def _count_in(transaction: Transaction, event: Event, role: int, subject: AnySubject) -> None:
    """Update a transaction's subject and GTID for one more event."""
    if role == R.FILE:
        transaction.source, transaction.subject = -3, R.KEPT
    elif role >= R.DUMMY_ROWS or subject == R.UNMAPPED:
        transaction.subject = R.MIXED
    elif not isinstance(subject, int) and transaction.subject != subject:
        transaction.subject = subject if transaction.subject == R.NOTHING else R.MIXED
    body = event.body
    if event.type == EventType.GTID:
        transaction.source = bytes(body[1:17]), ""
        transaction.number = struct.unpack_from("<q", body, 17)[0]
    elif event.type == EventType.MARIADB_GTID:
        transaction.number, domain = struct.unpack_from("<qI", body)
        transaction.source = domain, event.header.server_id
    elif event.type == EventType.GTID_TAGGED:
        gtid = decode_gtid_tagged(body).gtid
        if gtid is not None:
            transaction.source, transaction.number = (gtid.uuid, gtid.tag), gtid.gno


def _name(raw: memoryview) -> str:
    return bytes(raw).decode("utf-8", "surrogateescape")


def _need(event: Event, holds: bool) -> None:
    if not holds or event.header.size < HEADER_LENGTH:
        raise BinlogCorrupt(
            f"{event_name(event.type)} event of {event.header.size} bytes is malformed, "
            "or stands inside a transaction"
        )


__all__ = ["ReferenceIndex", "Transaction", "index_events"]

"""The reference implementation: the effects of a stream on a slave that filters for itself, and a stream's validity.

The reference follows the servers' semantics and shares no code with the dump thread. It reads events one by one and
takes its decisions from :mod:`tests.filter.plain`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from io import BytesIO
from typing import Any

from dumpfilter.base.errors import BinlogError
from dumpfilter.binlog.compression import decode_transaction_payload
from dumpfilter.binlog.context_events import decode_xa_prepare
from dumpfilter.binlog.events import HEADER_LENGTH, ROWS, STMT_END_F, EventHeader, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid_events import decode_gtid_tagged
from dumpfilter.binlog.query import decode_query
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.binlog.rows_events import decode_rows_header, decode_table_map
from dumpfilter.binlog.statement.statement import Statement
from dumpfilter.index.subjects import read_statement
from tests.filter.plain import PlainFilter

T = EventType
_CONTEXT = {T.INTVAR, T.RAND, T.USER_VAR, T.BEGIN_LOAD_QUERY, T.APPEND_BLOCK}
_ROWS_CONTEXT = {T.ROWS_QUERY, T.ANNOTATE_ROWS}
_GTIDS = {T.GTID, T.ANONYMOUS_GTID, T.GTID_TAGGED, T.MARIADB_GTID}
_FILE = {T.PREVIOUS_GTIDS, T.GTID_LIST, T.BINLOG_CHECKPOINT, T.ROTATE, T.STOP, T.FORMAT_DESCRIPTION}
_KNOWN = {*_CONTEXT, *_ROWS_CONTEXT, *_GTIDS, *_FILE, *ROWS, T.QUERY, T.QUERY_COMPRESSED, T.XID, T.XA_PREPARE}
_KNOWN |= {T.EXECUTE_LOAD_QUERY, T.TABLE_MAP}
_STATEMENTS = {T.QUERY, T.QUERY_COMPRESSED, T.EXECUTE_LOAD_QUERY}


@dataclass
class Effects:
    """One transaction as a slave executes it: the items that pass the slave's filter, in order."""

    gtid: Any
    items: list[Any] = field(default_factory=list)
    sure: int = 0
    """The number of items that surely pass the filter."""
    undecided: int = 0
    """The number of events that the filter cannot decide. The master must send them."""
    ignored: int = 0
    """The number of items that the filter surely ignores."""
    frame: list[Any] = field(default_factory=list)
    """BEGIN, SAVEPOINT, COMMIT, XA START and the like, each with its index among the items."""
    payload: bytes | None = None
    """The Transaction_payload event of a compressed transaction that can be decompressed, or None."""


def _frame_text(event: Event) -> bytes:
    if event.type not in (T.QUERY, T.QUERY_COMPRESSED):
        return b""
    try:
        return decode_query(event.body, compressed=event.type == T.QUERY_COMPRESSED).raw.upper()
    except BinlogError:
        return b"(unreadable)"


# Tests read the same events for several filters.
@lru_cache(maxsize=1 << 14)
def kind_of(event: Event) -> str:
    """Return the part that an event plays in a transaction."""
    kind = event.type
    if kind in _GTIDS:
        return "gtid"
    if kind == T.XID:
        return "end"
    if kind == T.XA_PREPARE:
        return "xa prepare"
    if kind in _FILE:
        return "file"
    if kind in _CONTEXT:
        return "context"
    if kind in _ROWS_CONTEXT:
        return "rows context"
    if kind == T.TABLE_MAP:
        return "map"
    if kind in ROWS:
        header = decode_rows_header(kind, event.body)
        return "dummy" if header.is_dummy else "rows"
    if kind not in _KNOWN:
        return "unknown"
    text = _frame_text(event)
    if text == b"BEGIN":
        return "begin"
    if text in (b"COMMIT", b"ROLLBACK"):
        return "end"
    if text.startswith((b"SAVEPOINT ", b"ROLLBACK", b"RELEASE SAVEPOINT ")):
        return "savepoint"
    if text.startswith((b"XA START", b"XA BEGIN")):
        return "xa start"
    if text.startswith(b"XA END"):
        return "xa end"
    if text.startswith(b"XA ") and len(text) > 4:
        return "xa finish"
    return "statement"


@lru_cache(maxsize=1 << 14)
def statement_of(event: Event) -> Statement | None:
    """Return the statement of an event, or None for an event that cannot be read."""
    try:
        return read_statement(event.raw, event.fd)[0]
    except BinlogError:
        return None


def opened(event: Event) -> list[Event] | None:
    """Return the events inside a compressed transaction.

    Return None for other events, and for a payload that does not contain exactly one transaction.
    """
    if event.type != T.TRANSACTION_PAYLOAD or event.fd.raw == b"inside":
        return None
    fd = replace(event.fd, checksum=False, raw=b"inside")
    found = []
    try:
        raw = decode_transaction_payload(event.body).open()
        at = 0
        while at < len(raw):
            header = EventHeader.unpack(raw, at)
            assert HEADER_LENGTH <= header.size <= len(raw) - at
            found.append(Event(at, header, raw[at : at + header.size], fd))
            at += header.size
        groups = list(transactions_of(found))
    except (BinlogError, AssertionError, struct.error):
        return None
    return found if len(groups) == 1 else None


def gtid_of(event: Event) -> Any:
    """Return the source key and the number of a GTID event, or None for an anonymous event."""
    body = event.body
    if event.type == T.GTID:
        return (bytes(body[1:17]), ""), int.from_bytes(body[17:25], "little")
    if event.type == T.MARIADB_GTID:
        domain = int.from_bytes(body[8:12], "little")
        return (domain, event.header.server_id), int.from_bytes(body[:8], "little")
    if event.type == T.GTID_TAGGED:
        gtid = decode_gtid_tagged(body).gtid
        assert gtid is not None
        return (gtid.uuid, gtid.tag), gtid.gno
    return None


@lru_cache(maxsize=4)
def events_of(fd: FormatDescription, stream: bytes) -> tuple[Event, ...]:
    """Return the events of a stream without a format description event. Verify the checksums."""
    data = b"\xfebin" + fd.raw + stream
    return tuple(iter_events(BytesIO(data), file="stream"))[1:]


def transactions_of(events: Iterable[Event]) -> Iterable[list[Event]]:
    """Yield the events of each transaction. A transaction ends where a slave commits."""
    group: list[Event] = []
    framed = False
    for event in events:
        kind = kind_of(event)
        group.append(event)
        if kind == "gtid":
            standalone = event.type == T.MARIADB_GTID and event.body[12] & 1
            framed = event.type == T.MARIADB_GTID and not standalone
            continue
        if kind in ("begin", "xa start"):
            framed = True
            continue
        alone = len(group) == 1
        whole = (
            kind in ("end", "xa prepare")
            or event.type == T.TRANSACTION_PAYLOAD
            or (kind in ("statement", "savepoint", "xa end", "xa finish") and not framed)
            or (kind in ("file", "unknown") and alone)
            or (event.type == T.INCIDENT and not framed)
            or (kind in ("rows", "dummy") and not framed and _ends(event))
        )
        if whole:
            yield group
            group, framed = [], False
    assert not group, f"the stream ends inside a transaction: {[e.name for e in group]}"


def _ends(event: Event) -> bool:
    return bool(event.body[6] & STMT_END_F)


def _rows_item(event: Event, table: tuple[str, str] | None) -> Any:
    """Return a rows event without its table id and without STMT_END_F."""
    body = bytearray(event.body[6:])
    body[0] &= ~STMT_END_F
    return "rows", table, event.type, bytes(body), event.header.end_log_pos, event.header.timestamp


def execute(fd: FormatDescription, stream: bytes, rules: PlainFilter) -> list[Effects]:
    """Return the effects of a stream on a slave with a filter, transaction by transaction."""
    made = []
    prepared: dict[str, str] = {}
    for group in transactions_of(events_of(fd, stream)):
        effects = Effects(None)
        if kind_of(group[0]) == "file":
            effects.items.append((group[0].type, bytes(group[0].body)))
            made.append(effects)
            continue
        maps: dict[int, tuple[str, str]] = {}
        context: list[Any] = []
        always = False
        for event in _plain_events(group, effects):
            kind = kind_of(event)
            raw = (event.type, bytes(event.body), event.header.end_log_pos)
            statement = statement_of(event) if kind in ("statement", "xa finish") else None
            if kind in ("statement", "xa finish") and statement is None:
                kind = "unknown"
            if kind == "gtid":
                effects.gtid = gtid_of(event)
            elif kind in ("context", "rows context"):
                context.append(raw)
            elif kind == "map":
                table = decode_table_map(event.body)
                maps[table.table_id] = (table.database, table.table)
            elif kind == "rows":
                header = decode_rows_header(event.type, event.body)
                table_name = maps.get(header.table_id)
                if table_name is not None and not rules.rows(*table_name):
                    effects.ignored += 1
                else:
                    effects.undecided += table_name is None
                    always |= table_name is None
                    effects.sure += table_name is not None
                    effects.items.append(_rows_item(event, table_name))
            elif kind == "statement":
                passes = rules.statement(statement)
                if passes is False:
                    effects.ignored += 1
                else:
                    effects.items.append(("statement", tuple(context), raw))
                    effects.sure += passes is True
                    effects.undecided += passes is None
                context = []
            elif kind == "unknown":
                effects.items.append((kind, tuple(context), *raw))
                effects.undecided += 1
                always = True
                context = []
            elif kind == "xa finish":
                # XA COMMIT and XA ROLLBACK pass exactly if part of the prepared transaction passed.
                held = prepared.pop(_frame_text(event).split(b" ", 2)[2].decode(), "undecided")
                if held == "nothing":
                    effects.ignored += 1
                else:
                    effects.items.append((kind, *raw))
                    effects.undecided += held == "undecided"
                    effects.sure += held == "sure"
            elif kind in ("begin", "savepoint", "end", "xa start", "xa end", "xa prepare"):
                effects.frame.append((len(effects.items), *raw))
                if kind == "xa prepare":
                    found = decode_xa_prepare(event.body)
                    if not found.one_phase:
                        sure = effects.sure and not always
                        prepared[str(found.xid).upper()] = (
                            "sure" if sure else "undecided" if effects.items else "nothing"
                        )
            if kind in ("rows", "dummy") and _ends(event):
                context, maps = [], {}
        made.append(effects)
    return made


def _plain_events(group: list[Event], effects: Effects) -> Iterable[Event]:
    for event in group:
        inside = opened(event)
        if inside is None:
            yield event
        else:
            effects.payload = event.raw
            yield from inside


def validate(fd: FormatDescription, stream: bytes, source: bytes) -> None:
    """Assert that ``stream`` is valid and made from ``source``. Both begin after the format description event."""
    originals = iter(events_of(fd, source))
    unused = _maps_without_rows(fd, events_of(fd, source))
    for group in transactions_of(events_of(fd, stream)):
        for event in group:
            original = next((one for one in originals if _is_from(one, event)), None)
            assert original is not None, f"{event.name} is not in the source, or in another place"
            if event.raw != original.raw and event.type == T.TRANSACTION_PAYLOAD:
                _part_of(original, event)
        _validate_transaction(fd, group, unused)


def _is_from(original: Event, event: Event) -> bool:
    """Tell whether an event is as the source wrote it, except for a moved STMT_END_F.

    Checksums are not compared, because the reader has verified them. A compressed transaction may contain fewer events
    than the source's.
    """
    if event.type == T.TRANSACTION_PAYLOAD:
        return event.header._replace(size=0) == original.header._replace(size=0)
    if event.header != original.header:
        return False
    return bytes(event.body) == bytes(original.body) or (
        kind_of(event) == "rows" and _is_ended(original, event)
    )


def _part_of(original: Event, event: Event) -> None:
    """Check that a compressed transaction contains some of the original's events in order."""
    had, has = opened(original), opened(event)
    assert had
    assert has
    rest = iter(had)
    for inner in has:
        for candidate in rest:
            if candidate.header == inner.header and (
                bytes(candidate.body) == bytes(inner.body)
                or (kind_of(inner) == kind_of(candidate) == "rows" and _is_ended(candidate, inner))
            ):
                break
        else:
            raise AssertionError(f"{inner.name} is not in the original, or in another place")
    _validate_transaction(has[0].fd, has, _maps_without_rows(has[0].fd, had))


def _validate_transaction(fd: FormatDescription, group: list[Event], unused: set[Any]) -> None:
    kinds = [kind_of(event) for event in group]
    assert kinds.count("gtid") <= 1
    assert "gtid" not in kinds[1:]
    assert kinds.count("begin") + kinds.count("xa start") <= 1
    assert kinds.count("end") + kinds.count("xa prepare") <= 1
    if "begin" in kinds:
        assert kinds.count("end") == 1
        assert kinds.index("begin") == int("gtid" in kinds)
    if "xa start" in kinds:
        assert kinds.count("xa end") == kinds.count("xa prepare")
        assert kinds.index("xa start") == int("gtid" in kinds)
    maps: set[int] = set()
    used: set[int] = set()
    rows_open = False
    for event, kind, following in zip(group, kinds, [*kinds[1:], None], strict=True):
        if kind == "context":
            assert following in ("context", "statement", "unknown"), f"context before {following}"
        if kind == "rows context":
            assert following in ("map", "rows", "unknown"), f"rows context before {following}"
        if kind == "map":
            table = decode_table_map(event.body)
            maps.add(table.table_id)
            if (event.header, bytes(event.body)) in unused:
                used.add(table.table_id)
            rows_open = True
        elif kind == "rows":
            header = decode_rows_header(event.type, event.body)
            assert header.table_id in maps or header.table_id == 99, "rows without a table map"
            used.add(header.table_id)
            rows_open = not header.statement_ends
        elif kind == "dummy":
            rows_open = False
        elif kind not in ("rows context", "unknown"):
            assert not rows_open, f"{kind} inside a statement of rows"
        if kind in ("rows", "dummy") and not rows_open:
            assert maps <= used, "a table map without rows"
            maps, used = set(), set()
    assert not rows_open, "a statement of rows without an end"
    assert not maps


def _maps_without_rows(fd: FormatDescription, source: Iterable[Event]) -> set[Any]:
    """Return the table maps (header and body) for which the source itself has no rows."""
    found: set[Any] = set()
    maps: dict[int, list[Any]] = {}
    for event in source:
        kind = kind_of(event)
        if kind == "map":
            number = decode_table_map(event.body).table_id
            maps.setdefault(number, []).append((event.header, bytes(event.body)))
        elif kind in ("rows", "dummy"):
            header = decode_rows_header(event.type, event.body)
            maps.pop(header.table_id, None)
            if header.statement_ends:
                found |= {one for repeated in maps.values() for one in repeated}
                maps = {}
    return found


def _is_ended(original: Event, event: Event) -> bool:
    """Tell whether a rows event is the original with STMT_END_F."""
    same = _rows_item(event, None) == _rows_item(original, None)
    return same and _ends(event) and not _ends(original)

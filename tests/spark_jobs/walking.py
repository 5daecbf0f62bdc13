"""An independent walk over binlog sets, to which the tests compare the outputs of a split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import decode_transaction_payload
from dumpfilter.binlog.events import HEADER_LENGTH, ROWS, EventHeader, EventType, event_name
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.reader import iter_events
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.subjects import Subjects, read_statement
from dumpfilter.spark_jobs.split.ownership import REST, encode_name
from tests.spark_jobs.here import Made, PartSet

DATA = Path(__file__).parents[1] / "oracle" / "data"
ORACLE = DATA / "oracle"
FOLDERS = sorted([*ORACLE.glob("*/bin.index"), *DATA.glob("recordings/*/bin.index")])
RECORDINGS = {f"{index.parent.parent.name}/{index.parent.name}": index for index in FOLDERS}

FILE_LEVEL = {
    EventType.FORMAT_DESCRIPTION,
    EventType.PREVIOUS_GTIDS,
    EventType.GTID_LIST,
    EventType.BINLOG_CHECKPOINT,
    EventType.ROTATE,
    EventType.STOP,
}

GTIDS = {EventType.GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID}
IN_TRANSACTIONS = {*ROWS, EventType.TABLE_MAP, EventType.QUERY, EventType.QUERY_COMPRESSED, EventType.XID}
DUMMY_IDS = {0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFF}


@dataclass
class Walked:
    """The content of a set: each schema's changes in order, and all events but file events."""

    changes: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)
    events: Counter[tuple[object, ...]] = field(default_factory=Counter)
    order: list[tuple[object, ...]] = field(default_factory=list)
    orphans: Counter[tuple[object, ...]] = field(default_factory=Counter)
    """Events that may be in no part: table maps without rows in their statement, and empty rows events."""


def plain_events(index: Path) -> Iterator[tuple[int, EventHeader, bytes, FormatDescription, bool]]:
    """Yield offset, header, body, format and inner for each event, including events in compressed transactions."""
    binlogs = BinlogSet.open(index)  # a single file is possible, too
    for name in binlogs.names:
        with open(binlogs.path(name), "rb") as file:
            for event in iter_events(file, file=name):
                if event.type != EventType.TRANSACTION_PAYLOAD:
                    yield event.offset, event.header, bytes(event.body), event.fd, False
                    continue
                data, at = decode_transaction_payload(event.body).open(), 0
                while at < len(data):
                    header = EventHeader.unpack(data, at)
                    body = bytes(data[at + HEADER_LENGTH : at + header.size])
                    yield event.offset, header, body, event.fd, True
                    at += header.size


def walk(index: Path) -> Walked:
    """Walk a set, without the split's code."""
    found = Walked()
    maps: dict[bytes, tuple[str, str]] = {}
    unused: dict[bytes, tuple[object, ...]] = {}
    gtid = b""
    flags = 0
    for _, header, body, fd, _ in plain_events(index):
        if header.type in FILE_LEVEL:
            continue
        kind, what = header.type, body
        if kind in ROWS:
            width = 4 if fd.post_header_length(kind) == 6 else 6
            flags = int.from_bytes(body[width : width + 2], "little")
            # STMT_END_F moves to the last kept rows event.
            what = body[:width] + (flags & ~1).to_bytes(2, "little") + body[width + 2 :]
            if int.from_bytes(body[:width], "little") not in DUMMY_IDS:
                schema, table = maps.get(body[:width], (REST, ""))
                # Use the table's name, since table ids differ between sets.
                found.changes.setdefault(schema, []).append(("rows", kind, table, what[width:]))
                unused.pop(body[:width], None)
            else:
                # This rows event has no table of its own and only ends the statement.
                found.orphans[header.timestamp, kind, header.server_id, what, gtid] += 1
        if (kind in ROWS and flags & 1) or kind in (EventType.QUERY, EventType.XID):
            found.orphans.update(unused.values())
            unused.clear()
        if kind in GTIDS:
            gtid = body
        elif kind == EventType.ANONYMOUS_GTID:
            gtid = b""
        tag = gtid if kind in IN_TRANSACTIONS else b""
        key = (header.timestamp, kind, header.server_id, what, tag)
        if kind == EventType.TABLE_MAP:
            width = 4 if fd.post_header_length(kind) == 6 else 6
            db_length = body[width + 2]
            db = body[width + 3 : width + 3 + db_length].decode("utf-8", "surrogateescape")
            at = width + 3 + db_length + 1
            table = body[at + 1 : at + 1 + body[at]].decode("utf-8", "surrogateescape")
            maps[body[:width]] = (encode_name(db) or REST, table)
            if body[:width] in unused:
                found.orphans[unused[body[:width]]] += 1
            unused[body[:width]] = key
        elif kind in (EventType.QUERY, EventType.QUERY_COMPRESSED, EventType.EXECUTE_LOAD_QUERY):
            raw = header.pack() + body + bytes(fd.checksum_length)
            statement, frame = read_statement(raw, fd)
            text = body.upper()
            ended = text[text.rfind(b"\0") + 1 :]
            framed = (b"BEGIN", b"COMMIT", b"ROLLBACK", b"SAVEPOINT", b"XA ", b"RELEASE")
            if frame is None and not ended.startswith(framed):
                for schema in {encode_name(s) for s in statement.schemas()} or {REST}:
                    found.changes.setdefault(schema, []).append(("statement", body))
            assert frame in (None, R.FRAME, R.XA)
        found.events[key] += 1
        found.order.append(key)
    return found


def check_parts(source: Path, result: Made) -> None:
    """Check that the parts are valid binlogs, hold every event, and give each schema the changes of the whole set."""
    whole = walk(source)
    events: Counter[tuple[object, ...]] = Counter()
    changes = {}
    for found in result.sets:
        check_set(found)
        part = walk(found.index)
        changes[found.name] = part.changes.get(found.name, [])
        # An event in two parts counts once. Without GTIDs equal events cannot be told apart.
        for key, count in part.events.items():
            events[key] = max(events[key], count) if key[-1] else events[key] + count
        # The changes have the order of the whole set.
        rest = iter(whole.order)
        assert all(any(key == other for other in rest) for key in part.order), found.name
    for schema, expected in whole.changes.items():
        assert changes[schema] == expected, schema
    missing = whole.events - events - whole.orphans
    assert not missing, [(event_name(int(str(key[1]))), key) for key in missing]


def check_set(found: PartSet) -> None:
    """Check that a set's files follow one another, with correct positions and checksums, by this project's scan."""
    assert [path.name for path in found.files] == [Path(n).name for n in found.index.read_text().split()]
    events = 0
    for path in found.files:
        at = 4
        with open(path, "rb") as file:
            for event in iter_events(file, file=path.name):
                assert event.offset == at
                at += len(event.raw)
                events += event.type not in FILE_LEVEL
                placed = not event.fd.server_version.startswith("11.8")
                assert event.header.end_log_pos == at or (event.header.end_log_pos == 0 and not placed)
        assert at == path.stat().st_size
    assert events == found.events
    for _ in BinlogSet.open(found.index).segments(Subjects(), SourceNumbers()):
        pass

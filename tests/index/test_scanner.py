"""Tests of the compiled scan against the reference index in plain Python."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt, BinlogUnsupported
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import (
    HEADER_LENGTH,
    LOG_EVENT_ARTIFICIAL_F,
    LOG_EVENT_IGNORABLE_F,
    EventType,
)
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gap_events import Gap, make_gap
from dumpfilter.binlog.gtid import empty_set
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.writer import make_event
from dumpfilter.index.scanner import FileScanner
from dumpfilter.index.segment import TOLD_TRANSACTION, Segment, WriterPoint
from dumpfilter.index.subjects import Subjects
from tests.gaps import with_gap_events
from tests.index.plain_index import ReferenceIndex, Transaction, index_events
from tests.strategies import (
    DIALECTS,
    Dialect,
    MadeBinlog,
    _Builder,
    binlogs,
    query_body,
    rows_body,
    table_map_body,
    unreadable_query_body,
)
from tests.support import RECORDED, MemoryFile, recording_id, segments

T = EventType


def _subject(number: int, subjects: Subjects) -> Any:
    if number < 0:
        return number
    members = subjects.members(number)
    return subjects[number] if members is None else frozenset(subjects[n] for n in members)


def _check_sets(segment: Segment) -> None:
    """Check the subjects listed for a transaction of several subjects.

    A transaction has this list only when the verdicts about its subjects decide all of its events.
    """
    assert len(segment.txn_set) == len(segment.txn_subject) + 1
    for t, subject in enumerate(segment.txn_subject.tolist()):
        entries = set(segment.set_subject[segment.txn_set[t] : segment.txn_set[t + 1]].tolist())
        if not entries:
            continue
        assert subject == R.MIXED
        events = slice(segment.txn_event[t], segment.txn_event[t + 1])
        roles = (segment.role[events] & 0x7F).tolist()
        assert not {R.DUMMY_ROWS, R.KEEP, R.XA} & set(roles)
        asked = {s for s, r in zip(segment.subject[events].tolist(), roles, strict=True) if r >= R.TABLE_MAP}
        assert entries == asked
        assert min(entries) >= 0


class _Compiled:
    """The segments of a file, joined and translated into the columns of the reference index."""

    def __init__(self, data: bytes, segment_size: int) -> None:
        self.subjects, self.sources = Subjects(), SourceNumbers()
        self.segments: list[Segment] = []
        found = segments(data, segment_size, subjects=self.subjects, sources=self.sources)
        for reader, segment in found:
            self.segments.append(segment)
            assert segment.start == reader.data_offset
            assert bytes(reader.data[: segment.end - segment.start]) == data[segment.start : segment.end]
        family = MemoryFile(data).format_description.family
        self.transactions: list[Transaction] = []
        self.payloads: dict[int, Segment] = {}
        self.prepared: dict[Xid, Any] = {}
        self.split: set[int] = set()
        before = 0
        for n, segment in enumerate(self.segments):
            events, txns = len(segment.offset), len(segment.txn_subject)
            assert segment.txn_event[-1] == events
            assert segment.continues == (n > 0 and self.segments[n - 1].open)
            assert n == 0 or segment.start == self.segments[n - 1].end
            assert segment.nbytes > 0
            _check_sets(segment)
            for t in range(txns):
                source = int(segment.txn_source[t])
                made = Transaction(
                    before + int(segment.txn_event[t]),
                    _subject(int(segment.txn_subject[t]), self.subjects),
                    self.sources.key(source) if source >= 0 else source,
                    int(segment.txn_number[t]),
                    self._dropped(segment, t, family),
                )
                if t == 0 and segment.continues:
                    # Every part of a transaction that several segments share names the GTID.
                    was = self.transactions[-1]
                    assert (made.source, made.number) == (was.source, was.number)
                    assert made.subject == R.MIXED
                    self.split.add(len(self.transactions) - 1)
                else:
                    self.transactions.append(made)
                if t == txns - 1 and segment.open:
                    assert made.subject == R.MIXED
                    self.split.add(len(self.transactions) - 1)
            self.payloads |= {before + event: payload for event, payload in segment.payloads.items()}
            self.prepared = {xid: _subject(holds, self.subjects) for xid, holds in segment.prepared.items()}
            before += events

    def _dropped(self, segment: Segment, txn: int, family: str) -> Any:
        rows = segment.dropped[segment.dropped[:, TOLD_TRANSACTION] == txn].tolist()
        return tuple((self.sources.key(source), first, last) for _, source, first, last, _, _ in rows)

    def column(self, name: str) -> list[Any]:
        joined = np.concatenate([getattr(s, name) for s in self.segments] or [np.zeros(0, np.int64)]).tolist()
        return [_subject(n, self.subjects) for n in joined] if name == "subject" else joined


def _check(data: bytes, *segment_sizes: int) -> None:
    twin = index_events(iter_events(BytesIO(data), file="made"))
    for segment_size in segment_sizes:
        _compare(_Compiled(data, segment_size), twin)


def _compare(compiled: _Compiled, twin: ReferenceIndex) -> None:
    for name in ("offset", "size", "time", "type", "role", "subject"):
        assert compiled.column(name) == getattr(twin, name), name
    for n, (found, wanted) in enumerate(zip(compiled.transactions, twin.transactions, strict=True)):
        assert found == (replace(wanted, subject=R.MIXED) if n in compiled.split else wanted)
    assert compiled.prepared == twin.prepared
    assert compiled.payloads.keys() == twin.payloads.keys()
    for event, payload in compiled.payloads.items():
        assert payload.start == 0
        for name in ("offset", "size", "time", "type", "role", "subject"):
            column = getattr(payload, name).tolist()
            if name == "subject":
                column = [_subject(number, compiled.subjects) for number in column]
            assert column == getattr(twin.payloads[event], name), name
        (inside,) = twin.payloads[event].transactions
        assert _subject(int(payload.txn_subject[0]), compiled.subjects) == inside.subject
    assert not twin.open
    ends = [b for s in compiled.segments for b in (s.start, s.end)]
    assert ends == sorted(ends)


@pytest.mark.parametrize("path", RECORDED, ids=recording_id)
@pytest.mark.every_recording
def test_recordings(path: Path) -> None:
    data = path.read_bytes()
    _check(data, 1, 700, 5000, 2 << 20)


@given(made=binlogs(unreadable=True), segment_size=st.integers(1, 900))
def test_generated(made: MadeBinlog, segment_size: int) -> None:
    _check(made.data, segment_size, 1, 1 << 16)


@given(made=binlogs(unreadable=True), segment_size=st.integers(1, 900), data=st.data())
def test_gap_events(made: MadeBinlog, segment_size: int, data: st.DataObject) -> None:
    """Gap events of a relay log are dropped transactions, and change nothing else."""
    relay = with_gap_events(made, data.draw)
    _check(relay, segment_size, 1, 1 << 16)


def test_a_gap_event_inside_a_transaction() -> None:
    """Only hits may stand inside a transaction. GTIDs there would be out of order."""
    body = make_gap(Gap(99, runs=((bytes(16), 1, 5),)), server_id=1, checksum=False)[HEADER_LENGTH:]
    error = _error((T.GTID, GTID_BODY), (T.IGNORABLE, body))
    assert "stands inside a transaction" in str(error)


@pytest.mark.parametrize("cut", [9, 12, 30, 50])
def test_a_malformed_gap_event(cut: int) -> None:
    body = make_gap(Gap(99, runs=((bytes(16), 1, 5),)), server_id=1, checksum=False)[HEADER_LENGTH:]
    error = _error((T.IGNORABLE, body[:cut]))
    assert "Gap event" in str(error)


@given(made=binlogs(unreadable=True), segment_size=st.integers(1, 900))
def test_boundaries(made: MadeBinlog, segment_size: int) -> None:
    """A scan finds the boundaries at which the binlog was written, and ``transaction_at`` finds each transaction."""
    found = [made.first_event]
    for _, segment in segments(made.data, segment_size):
        known = {
            position: segment.transaction_at(position) for position in range(segment.start, segment.end + 1)
        }
        starts = segment.offset[segment.txn_event[:-1]].tolist()[segment.continues :]
        assert {p for p, t in known.items() if t is not None} == {
            *starts,
            *([] if segment.open else [segment.end]),
        }
        ends = (segment.offset + segment.size)[(segment.role & R.ENDS) != 0].tolist()
        assert bool(ends and ends[-1] == segment.end) != segment.open
        found += ends
    assert found == made.boundaries


@given(made=binlogs(unreadable=True), segment_size=st.integers(1, 900), data=st.data())
def test_from_the_middle(made: MadeBinlog, segment_size: int, data: st.DataObject) -> None:
    """A scan from any boundary on finds the same events as a scan of the whole file."""
    from dumpfilter.index.fileset import SegmentReader

    start = data.draw(st.sampled_from(made.boundaries))
    file = MemoryFile(made.data)
    subjects, sources = Subjects(), SourceNumbers()
    before = SegmentReader(file, subjects, sources, segment_size=segment_size)
    before.limit = start
    while before.next() is not None:
        pass
    reader = SegmentReader(file, subjects, sources, segment_size=segment_size)
    while reader.next() is not None:
        pass
    reader.rewind(start, before.point)
    again = []
    while (segment := reader.next()) is not None:
        again += [
            (o, r, _subject(s, subjects))
            for o, r, s in zip(segment.offset.tolist(), segment.role, segment.subject.tolist(), strict=True)
        ]
    twin = index_events(iter_events(BytesIO(made.data), file="made"))
    whole = [row for row in zip(twin.offset, twin.role, twin.subject, strict=True) if row[0] >= start]
    assert again == whole


@given(
    made=binlogs(unreadable=True, max_transactions=8),
    sizes=st.tuples(st.integers(1, 3000), st.integers(1, 3000)),
)
def test_limit(made: MadeBinlog, sizes: tuple[int, int]) -> None:
    """A reader with a smaller or larger buffer finds the same segments again when it knows the end of each."""
    from dumpfilter.index.fileset import SegmentReader

    wanted = [segment for _, segment in segments(made.data, sizes[0])]
    reader = SegmentReader(MemoryFile(made.data), Subjects(), SourceNumbers(), segment_size=sizes[1])
    for segment in wanted:
        found = reader.next_until(segment.end)
        assert found is not None
        assert (found.start, found.end, found.open) == (segment.start, segment.end, segment.open)
        assert found.role.tolist() == segment.role.tolist()
        assert reader.next() is None


@given(made=binlogs(), segment_size=st.integers(1, 900), data=st.data())
def test_a_transaction_counts_where_it_ends(made: MadeBinlog, segment_size: int, data: st.DataObject) -> None:
    """The GTID of a transaction that is not written to its end yet does not count, however large the transaction is."""
    from dumpfilter.index.fileset import SegmentReader, add_transactions

    end = data.draw(st.integers(made.first_event, len(made.data)))
    whole = made.data[: max(boundary for boundary in made.boundaries if boundary <= end)]
    wanted, found = empty_set(made.fd.family), empty_set(made.fd.family)
    for one in index_events(iter_events(BytesIO(whole), file="made")).transactions:
        if not isinstance(one.source, int):
            wanted.add_range(one.source, one.number, one.number)
    sources = SourceNumbers()
    reader = SegmentReader(MemoryFile(made.data[:end]), Subjects(), sources, segment_size=segment_size)
    while (segment := reader.next()) is not None:
        add_transactions(found, segment, sources)
    assert found == wanted


@given(made=binlogs(unreadable=True), segment_size=st.integers(1, 900))
def test_a_segment_is_small_or_one_event(made: MadeBinlog, segment_size: int) -> None:
    """The buffer of an event that is larger than a segment does not make the next segments larger."""
    for _, segment in segments(made.data, segment_size):
        assert segment.end - segment.start <= max(segment_size, HEADER_LENGTH) or len(segment.offset) == 1


@given(made=binlogs(max_transactions=3), segment_size=st.integers(1, 900))
def test_a_limit_inside_an_event(made: MadeBinlog, segment_size: int) -> None:
    """A reader whose limit is inside an event stops before this event."""
    from dumpfilter.index.fileset import SegmentReader

    reader = SegmentReader(MemoryFile(made.data), Subjects(), SourceNumbers(), segment_size=segment_size)
    found = reader.next_until(made.boundaries[-1] - 1)
    assert found is None or found.end < made.boundaries[-1]


def _dialect(name: str, gtids: str) -> Dialect:
    return next(d for d in DIALECTS if d.name == name and d.gtids == gtids and not d.checksum)


def test_many_tables_and_ids() -> None:
    """The scan's hash tables of names and table ids grow within a transaction and over several."""
    dialect = _dialect("mysql 9.7", "mysql")
    builder = _Builder(dialect)
    for group in range(3):
        builder.add(T.GTID, b"\1" + bytes(16) + (group + 1).to_bytes(8, "little"))
        builder.add(T.QUERY, query_body(b"BEGIN"))
        for n in range(3000):
            number = 1 + n + 7 * group
            builder.add(T.TABLE_MAP, table_map_body(number, f"db{n % 7}", f"table_{n + 1000 * group}"))
            builder.add(T.WRITE_ROWS, rows_body(dialect, T.WRITE_ROWS, number, ends=True))
        builder.add(T.XID, bytes(8))
    _check(bytes(builder.data), 200, 50_000, 2 << 20)


def test_many_sources() -> None:
    """The table of GTID sources grows."""
    builder = _Builder(_dialect("mysql 9.7", "mysql"))
    for n in range(300):
        builder.add(T.GTID, b"\1" + (n % 150).to_bytes(16, "little") + (1 + n // 150).to_bytes(8, "little"))
        builder.add(T.QUERY, query_body(b"DROP TABLE t"))
    _check(bytes(builder.data), 2 << 20, 1000)


def test_keywords_in_any_case() -> None:
    builder = _Builder(_dialect("mysql 5.5", "none"))
    for text in (
        b"bEgIn",
        b"SavePoint x",
        b"rollBACK TO x",
        b"release SAVEPOINT x",
        b"commit",
        b"XA start 'a'",
    ):
        builder.add(T.QUERY, query_body(text))
    for text in (
        b"xa END 'a'",
        b"rollback",
        b"xa rollback 'a'",
        b"COMMIT AND",
        b"XA 1",
        b"SAVEPOINT",
        b"BEGI",
    ):
        builder.add(T.QUERY, query_body(text))
    _check(bytes(builder.data), 2 << 20)
    (_, segment), *_ = segments(bytes(builder.data), 2 << 20)
    frames = [int(r) & 0x7F for r in segment.role]
    # "xa rollback 'a'" is not in the form in which servers write an xid, so the master cannot decide it and sends it.
    assert frames == [R.FRAME] * 8 + [R.KEEP] + [R.STATEMENT] * 4


def _error(
    *events: tuple[int, bytes], bad: int = -1, dialect: Dialect = DIALECTS[0]
) -> BinlogCorrupt | BinlogUnsupported:
    builder = _Builder(dialect)
    positions = []
    for kind, body in events:
        positions.append(len(builder.data))
        builder.add(kind, body)
    data = bytes(builder.data)
    for segment_size in (1, 1 << 16):
        with pytest.raises((BinlogCorrupt, BinlogUnsupported)) as raised:
            list(segments(data, segment_size))
        assert raised.value.file == "made.000001"
        assert raised.value.position == positions[bad]
    with pytest.raises(type(raised.value)) as twins:
        index_events(iter_events(BytesIO(data), file="made"))
    assert twins.value.position == positions[bad]
    return raised.value


GTID_BODY = b"\1" + bytes(16) + b"\1" + bytes(7) + b"\2" + bytes(16)


@pytest.mark.parametrize(
    "events",
    [
        [(T.GTID, GTID_BODY), (T.GTID, GTID_BODY)],
        [(T.GTID, GTID_BODY[:20])],
        [(T.GTID, GTID_BODY[:17] + bytes(8))],
        [(T.GTID, GTID_BODY[:17] + (2**63 - 1).to_bytes(8, "little"))],
        [(T.GTID, GTID_BODY[:17] + b"\xff" * 8)],
        [(T.MARIADB_GTID, bytes(19))],
        [(T.TABLE_MAP, bytes(8))],
        [(T.TABLE_MAP, bytes(8) + b"\x30abc")],
        [(T.TABLE_MAP, bytes(8) + b"\1a\0\x05b\0")],
        [(T.WRITE_ROWS, bytes(7))],
        [(T.QUERY, bytes(13))],
        [(T.QUERY, bytes(11) + b"\xff\xff" + bytes(5))],
        [(T.EXECUTE_LOAD_QUERY, bytes(20))],
        [(T.START_ENCRYPTION, b"\1" + bytes(16))],
        [(T.PARTIAL_ROW_DATA, bytes(20))],
    ],
)
def test_bad_events(events: list[tuple[int, bytes]]) -> None:
    _error((T.QUERY, query_body(b"DROP TABLE t")), *events)
    _error(*events)


def test_a_seq_no_beyond_int64_is_refused() -> None:
    """The columns of a segment, and the protocol, have signed numbers of 64 bits."""
    dialect = next(dialect for dialect in DIALECTS if dialect.family == "mariadb")
    last, beyond = (
        (T.MARIADB_GTID, (number).to_bytes(8, "little") + bytes(11)) for number in (2**63 - 1, 2**63)
    )
    error = _error(last, (T.XID, bytes(8)), beyond, dialect=dialect)
    assert isinstance(error, BinlogUnsupported)
    assert "seq_no" in error.what


def test_what_a_server_has_decrypted_is_read() -> None:
    """A server that sends an encrypted binlog decrypts the events and marks Start_encryption as ignorable."""
    builder = _Builder(next(dialect for dialect in DIALECTS if dialect.family == "mariadb"))
    builder.add(T.START_ENCRYPTION, b"\1" + bytes(16), flags=LOG_EVENT_IGNORABLE_F)
    builder.add(T.QUERY, query_body(b"DROP TABLE t"))
    _check(bytes(builder.data), 1 << 16)
    (_, segment), *_ = segments(bytes(builder.data), 1 << 16)
    assert segment.role.tolist() == [R.FILE | R.ENDS, R.STATEMENT | R.ENDS]


UNREADABLE = [
    (T.QUERY_COMPRESSED, query_body(b"\x81\x09nonsense")),
    (T.QUERY, unreadable_query_body(b"DROP TABLE t", "shop")),
    (T.QUERY, unreadable_query_body(b"XA COMMIT X'61',X'',1", "shop")),
    (T.TRANSACTION_PAYLOAD, b"\2\1\7\1\1\0\0"),
]


@pytest.mark.parametrize("event", UNREADABLE)
def test_what_cannot_be_read(event: tuple[int, bytes]) -> None:
    """The master sends an unreadable event that has a right checksum. Without checksums such an event is an error."""
    plain = next(dialect for dialect in DIALECTS if not dialect.checksum)
    before = (T.QUERY, query_body(b"DROP TABLE t"))
    _error(before, event, dialect=plain)
    builder = _Builder(DIALECTS[0])
    builder.add(*before)
    builder.add(*event)
    _check(bytes(builder.data), 1 << 16)
    (_, segment), *_ = segments(bytes(builder.data), 1 << 16)
    assert segment.role.tolist() == [R.STATEMENT | R.ENDS, R.KEEP | R.ENDS]


def test_length_below_header() -> None:
    builder = _Builder(DIALECTS[0])
    at = len(builder.data)
    bad = bytearray(make_event(T.XID, bytes(8)))
    bad[9:13] = (22).to_bytes(4, "little")
    for segment_size in (1, 1 << 16):
        with pytest.raises(BinlogCorrupt, match="length") as raised:
            list(segments(bytes(builder.data + bad), segment_size))
        assert raised.value.position == at


def test_second_format_description() -> None:
    """A relay log has two format description events. The second, the master's, tells how later events are read."""
    with_crc, without = (d for d in DIALECTS if d.gtids == "anonymous")
    builder = _Builder(without)
    builder.add(T.ROTATE, bytes(8) + b"x")
    second = with_crc.format_description()
    data = bytes(builder.data) + second
    event = make_event(T.QUERY, query_body(b"DROP TABLE t"), timestamp=9)
    _check(data + event, 1, 1 << 16)


def test_a_rotate_event_without_a_position() -> None:
    """The scan of a relay log does not take the bytes after the event for a position."""
    event = make_event(T.ROTATE, b"", flags=LOG_EVENT_ARTIFICIAL_F, checksum=False)
    fd = FormatDescription.parse(next(one for one in DIALECTS if not one.checksum).format_description())
    scanner = FileScanner("relay", fd, Subjects(), SourceNumbers(), writer=WriterPoint(4))
    data = np.frombuffer(event + b"\x11" * 8, np.uint8)
    segment = scanner.scan(data[: len(event)], 100)
    assert segment is not None
    assert segment.position is not None
    assert segment.position.tolist() == [4, 4 + len(event)]


def test_format_description_inside_a_transaction() -> None:
    """A format description event inside a transaction is an error, so that no event of the transaction is lost."""
    body = DIALECTS[0].format_description()[19:-4]
    error = _error((T.GTID, GTID_BODY), (T.QUERY, query_body(b"BEGIN")), (T.FORMAT_DESCRIPTION, body))
    assert isinstance(error, BinlogCorrupt)


def test_bad_tagged_gtid() -> None:
    _error((T.GTID_TAGGED, b"\x04\x02"), (T.QUERY, query_body(b"DROP TABLE t")), bad=0)

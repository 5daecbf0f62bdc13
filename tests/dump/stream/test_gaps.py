"""Gaps: what the master dropped, from the dump thread through the gRPC message into the relay log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt, StreamDamaged
from dumpfilter.binlog.context_events import Rotate, encode_rotate
from dumpfilter.binlog.events import HEADER_LENGTH, LOG_EVENT_ARTIFICIAL_F, MAGIC, ROWS, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gap_columns import GapColumns
from dumpfilter.binlog.gap_events import Gap, is_gap_event, make_gap, make_head, parse_gap_event, with_gaps
from dumpfilter.binlog.gtid import MysqlGtidSet
from dumpfilter.binlog.gtid_events import decode_mariadb_gtid
from dumpfilter.binlog.query import decode_statement_event
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.rows_events import decode_rows_header
from dumpfilter.binlog.writer import make_event
from dumpfilter.dump.chunk import Gaps
from dumpfilter.dump.stream.message import gaps_from_proto, gaps_to_proto
from dumpfilter.filter.convert import kind_number
from dumpfilter.filter.rules import Rule
from dumpfilter.index.fileset import gtids_before
from dumpfilter.slave.applier import Groups, gtid_of, keyword
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.analyse.printing.printed import events_in, recording
from tests.dump.test_law import (
    Dumped,
    DumpThread,
    MemoryFile,
    SegmentReader,
    SourceNumbers,
    Subjects,
    TableFlags,
    dump,
    of_rules,
)
from tests.strategies import MadeBinlog, binlogs, rules


def relayed(dumped: Dumped, fd: FormatDescription) -> bytes:
    """Return the relay log file of a slave that received the chunks of a dump."""
    parts = [MAGIC, fd.raw]
    for plan, events in zip(dumped.plans, dumped.chunks, strict=True):
        message = pb.Gaps.FromString(gaps_to_proto(plan.gaps, dumped.key_of))
        columns = gaps_from_proto(message)
        made = with_gaps(events, message.source, columns, server_id=fd.header.server_id, checksum=fd.checksum)
        assert made == plainly_with_gaps(events, message.source, columns, fd)
        parts.append(made)
    return b"".join(parts)


def plainly_with_gaps(
    events: bytes, sources: Sequence[bytes], gaps: GapColumns, fd: FormatDescription
) -> bytes:
    """Return the same as :func:`with_gaps`, made event by event."""
    out, done, run, hit = [], 0, 0, 0
    for offset, end, runs_until, hits_until in zip(
        gaps.offset.tolist(),
        gaps.end.tolist(),
        gaps.runs_until.tolist(),
        gaps.hits_until.tolist(),
        strict=True,
    ):
        out.append(events[done:offset])
        done = offset
        gap = Gap(
            end,
            dict(
                zip(
                    gaps.hit_kind[hit:hits_until].tolist(),
                    gaps.hit_count[hit:hits_until].tolist(),
                    strict=True,
                )
            ),
            tuple(
                (sources[source], first, last)
                for source, first, last in zip(
                    gaps.run_source[run:runs_until].tolist(),
                    gaps.run_first[run:runs_until].tolist(),
                    gaps.run_last[run:runs_until].tolist(),
                    strict=True,
                )
            ),
        )
        out.append(make_gap(gap, server_id=fd.header.server_id, checksum=fd.checksum))
        run, hit = runs_until, hits_until
    return b"".join([*out, events[done:]])


def progress(
    data: bytes, fd: FormatDescription, *, is_source: bool = False
) -> Iterator[tuple[int, frozenset[str], Counter[int]]]:
    """Yield position in the source, GTIDs and hits of dropped events at each place between two transactions."""
    gtids: set[str] = set()
    hits: Counter[int] = Counter()
    pending: Counter[int] = Counter()
    groups, now = Groups(), None
    for event in iter_events(BytesIO(data), file="relay"):
        if is_gap_event(event.type, event.body):
            gap = parse_gap_event(event.body)
            assert isinstance(gap, Gap)
            if not gap.end:
                pending.update(gap.hits)
                continue
            assert not groups.inside
            hits.update(gap.hits)
            for source, first, last in gap.runs:
                gtids |= {named(source, number) for number in range(first, last + 1)}
            yield gap.end, frozenset(gtids), hits.copy()
            continue
        kind = event.type
        now = gtid_of(event) or now
        flags, word, ends = 0, None, False
        if kind == EventType.MARIADB_GTID:
            flags = decode_mariadb_gtid(event.body, event.header.server_id).flags
        elif kind in ROWS:
            ends = decode_rows_header(kind, event.body).statement_ends
        elif kind == EventType.QUERY:
            word = keyword(decode_statement_event(EventType.QUERY, event.body, fd).text)
        groups.enter(kind, mariadb_flags=flags, word=word, statement_end=ends)
        if not groups.inside:
            gtids |= set() if now is None else {str(now)}
            now = None
            hits.update(pending)
            pending.clear()
            position = event.offset + len(event.raw) if is_source else event.header.end_log_pos
            yield position, frozenset(gtids), hits.copy()


def named(source: bytes, number: int) -> str:
    if len(source) == 8:
        domain, server = int.from_bytes(source[:4], "little"), int.from_bytes(source[4:], "little")
        return f"{domain}-{server}-{number}"
    gtids = MysqlGtidSet()
    gtids.add_range((source[:16], source[16:].decode()), number, number)
    return str(gtids)


@given(
    made=binlogs(odd=False),
    given_rules=rules(),
    chunk_size=st.sampled_from([1, 100, 500, 1 << 18]),
    segment_size=st.integers(1, 1500),
)
def test_a_relay_log_knows_the_gtids_at_each_place(
    made: MadeBinlog, given_rules: list[Rule], chunk_size: int, segment_size: int
) -> None:
    dumped = dump(made.data, given_rules, chunk_size=chunk_size, segment_size=segment_size)
    counted: Counter[int] = Counter()
    for plan in dumped.plans:
        counted.update({kind_number(kind): count for kind, count in plan.hits.items()})
    relay = relayed(dumped, made.fd)
    done: dict[int, frozenset[str]] = {}
    for position, gtids, _ in progress(made.data, made.fd, is_source=True):
        done[position] = gtids
    last = 0
    for position, gtids, _ in progress(relay, made.fd):
        # MariaDB writes some events with an end_log_pos of 0.
        assert position >= last or not position
        last = position or last
        if position and position in done:
            assert gtids == done[position]
    assert gtids == done[max(done)]
    whole = dump(made.data, given_rules)
    of_whole = {position: hits for position, _, hits in progress(relayed(whole, made.fd), made.fd)}
    of_parts = {position: hits for position, _, hits in progress(relay, made.fd)}
    for position in of_whole.keys() & of_parts.keys() - {0}:
        assert of_whole[position] == of_parts[position]
    assert hits_at_end(relay, made.fd) == +counted


def hits_at_end(relay: bytes, fd: FormatDescription) -> Counter[int]:
    *_, (_, _, hits) = progress(relay, fd)
    return hits


NUMBERS = st.lists(st.integers(-3, 1 << 62), max_size=4)


@given(st.data())
def test_a_malformed_message_is_an_error_or_gaps(data: st.DataObject) -> None:
    message = pb.Gaps(source=data.draw(st.lists(st.binary(max_size=20), max_size=2)))
    for name in ("offset", "end", "runs", "run_source", "run_length", "hits", "hit_count"):
        getattr(message, name).extend(abs(n) for n in data.draw(NUMBERS))
    message.run_first.extend(data.draw(NUMBERS))
    message.hit_kind.extend(data.draw(st.lists(st.sampled_from([1, 9]), max_size=4)))
    try:
        columns = gaps_from_proto(message)
    except StreamDamaged:
        return
    assert len(columns.runs_until) == len(columns.offset)
    for column in (columns.offset, columns.runs_until, columns.hits_until):
        assert [0, *column.tolist()] == sorted([0, *column.tolist()])


@pytest.mark.parametrize("name", ["offset", "end", "runs", "hits"])
def test_sums_that_exceed_64_bits_are_an_error(name: str) -> None:
    """The compiled loop that writes Gap events would follow them out of its arrays."""
    message = pb.Gaps(**{other: [0] * 4 for other in ("offset", "end", "runs", "hits")})
    gaps_from_proto(message)
    getattr(message, name)[:] = [1 << 62] * 4
    with pytest.raises(StreamDamaged):
        gaps_from_proto(message)


@pytest.mark.parametrize(
    "source", [b"short", bytes(16) + b"a:1,\nb", bytes(16) + b"\xff", bytes(16) + b"a" * 33]
)
def test_malformed_sources_do_not_get_into_a_relay_log(source: bytes) -> None:
    message = pb.Gaps(source=[bytes(8), bytes(16), bytes(16) + b"tag_1"])
    gaps_from_proto(message)
    message.source.append(source)
    with pytest.raises(StreamDamaged):
        gaps_from_proto(message)


@pytest.mark.parametrize(
    "gap",
    [
        Gap(1 << 63),
        Gap(500, runs=((bytes(16) + b"\xff", 1, 2),)),
        Gap(500, runs=((bytes(16) + b"a:1,\nb", 1, 2),)),
        Gap(500, runs=((bytes(7), 1, 2),)),
        Gap(500, runs=((bytes(16), 2, 1),)),
    ],
)
def test_a_malformed_gap_event_is_an_error(gap: Gap) -> None:
    """A relay log without checksums may be damaged anywhere."""
    with pytest.raises(BinlogCorrupt):
        parse_gap_event(make_gap(gap, server_id=1, checksum=False)[HEADER_LENGTH:])


@pytest.mark.parametrize("members", [b"[]", b"{", b"[" * 100_000, b"\xff"])
def test_a_malformed_head_event_is_an_error(members: bytes) -> None:
    head = make_head({}, server_id=1, checksum=False)[HEADER_LENGTH:]
    with pytest.raises(BinlogCorrupt, match="head event"):
        parse_gap_event(head.removesuffix(b"{}") + members)


def test_a_head_event_with_malformed_gtids_is_an_error() -> None:
    fd = next(events_in(recording("mysql-row").files)).fd
    rotate = make_event(
        EventType.ROTATE,
        encode_rotate(Rotate("bin.000001", 4)),
        flags=LOG_EVENT_ARTIFICIAL_F,
        checksum=fd.checksum,
    )
    head = make_head({"retrieved": "0-1-5"}, server_id=1, checksum=fd.checksum)
    with pytest.raises(BinlogCorrupt, match="head event of a relay log is malformed: not a uuid: '0-1-5'"):
        gtids_before(MemoryFile(MAGIC + fd.raw + rotate + head))


@pytest.mark.parametrize(
    "wrong",
    [
        {"hits": [1 << 16], "hit_kind": [1] * (1 << 16), "hit_count": [1] * (1 << 16)},
        {"hits": [1], "hit_kind": [257], "hit_count": [1]},
    ],
)
def test_hits_that_a_gap_event_cannot_hold_are_an_error(wrong: dict[str, list[int]]) -> None:
    """The slave would write an event into its relay log that no reader of the relay log can read."""
    with pytest.raises(StreamDamaged):
        gaps_from_proto(pb.Gaps(**{"offset": [0], "end": [500], "runs": [0], **wrong}))


def test_a_run_beyond_the_last_gtid_is_an_error() -> None:
    message = pb.Gaps(source=[bytes(16)], offset=[0], end=[500], runs=[1], hits=[0])
    message.run_source.append(0)
    message.run_first.append(2)
    message.run_length.append((1 << 63) - 1)
    with pytest.raises(StreamDamaged):
        gaps_from_proto(message)


@pytest.mark.parametrize("number", [1, 1 << 61, 1 << 62, (1 << 63) - 2])
def test_gtids_have_any_number_that_servers_give(number: int) -> None:
    row = np.array([[0, 500, 0, 2, 0]])
    runs = np.array([[0, number, number], [1, 1, 3]])
    message = gaps_to_proto(Gaps(row, runs, np.empty((0, 2), np.int64)), lambda key: (bytes([key]) * 16, ""))
    columns = gaps_from_proto(pb.Gaps.FromString(message))
    assert [*zip(columns.run_first.tolist(), columns.run_last.tolist(), strict=True)] == [
        (number, number),
        (1, 3),
    ]


@pytest.mark.parametrize(
    "unknown",
    [
        b"\xf8\x01\x81\x80\x80\x80\x08",  # field 31, a number that a reader of lengths takes for 2 GiB
        b"\xfa\x01\x03\xff\xff\xff",  # field 31, bytes that look like the begin of a number
        b"\xf9\x01\x00\x12\x05" + b"\x01" * 5,  # field 31, a fixed number that looks like five more offsets
        b"\xf9\x01" + bytes(range(0x80, 0x88)),  # field 31, a fixed number of 8 bytes
    ],
)
def test_a_field_that_only_a_newer_master_knows_changes_nothing(unknown: bytes) -> None:
    message = pb.Gaps(source=[bytes(16)], offset=[0], end=[500], runs=[1], hits=[0])
    message.run_source.append(0)
    message.run_first.append(7)
    message.run_length.append(2)
    expected = gaps_from_proto(message)
    more = pb.Gaps.FromString(message.SerializeToString() + unknown)
    found = gaps_from_proto(more)
    assert more.source == message.source
    assert [column.tolist() for column in found] == [column.tolist() for column in expected]


def test_gaps_that_tell_more_gtids_than_64_bits_count() -> None:
    """A damaged relay log can tell so many. The first run is right, and no walk over the runs leaves them."""
    fd, most = next(events_in(recording("mysql-row").files)).fd, (1 << 63) - 1
    gaps = [
        make_gap(Gap(500 + n, runs=((bytes([n]) * 16, 1, most),)), server_id=1, checksum=fd.checksum)
        for n in range(1, 5)
    ]
    file = MemoryFile(MAGIC + fd.raw + b"".join(gaps))
    subjects, sources = Subjects(), SourceNumbers()
    thread = DumpThread(TableFlags(of_rules([], fd.family), subjects), sources, chunk_size=1 << 18)
    thread.start_file(file.first_event, file.read)
    segment = SegmentReader(file, subjects, sources).next()
    assert segment is not None
    (plan,) = thread.plan(segment)
    assert plan.completed.tolist() == plan.gaps.runs.tolist() == [[0, 1, most]]


def test_transactions_after_more_gtids_than_64_bits_count() -> None:
    """Their GTIDs are left out, and the count of GTIDs neither overflows nor goes back."""
    raw, most = recording("mysql-row").files[0].read_bytes(), (1 << 63) - 1
    subjects, sources = Subjects(), SourceNumbers()
    segment = SegmentReader(MemoryFile(raw), subjects, sources).next()
    assert segment is not None
    fd, first = segment.format_description, int(np.flatnonzero(segment.txn_source >= 0)[0])
    begin, end = segment.offset[segment.txn_event[first : first + 2]].tolist()
    gaps = [
        make_gap(Gap(500 + n, runs=((bytes([n]) * 16, 1, most),)), server_id=1, checksum=fd.checksum)
        for n in range(1, 4)
    ]
    file = MemoryFile(MAGIC + fd.raw + (2 * raw[begin:end]).join(gaps))
    subjects, sources = Subjects(), SourceNumbers()
    thread = DumpThread(TableFlags(of_rules([], fd.family), subjects), sources, chunk_size=1)
    thread.start_file(file.first_event, file.read)
    segment = SegmentReader(file, subjects, sources).next()
    assert segment is not None
    plans = thread.plan(segment)
    assert [run for plan in plans for run in plan.completed.tolist()] == [[1, 1, most]]
    assert [run for plan in plans for run in plan.gaps.runs.tolist()] == [[1, 1, most]]


@pytest.mark.parametrize("cut", range(8, 60))
def test_a_cut_gap_event_is_an_error(cut: int) -> None:
    gap = Gap(1234, {1: 2}, ((bytes(16), 1, 5),))
    body = make_gap(gap, server_id=1, checksum=False)[19:]
    assert parse_gap_event(body) == gap
    assert len(body) > 59
    with pytest.raises(BinlogCorrupt):
        parse_gap_event(body[:cut])

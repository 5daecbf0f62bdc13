"""Stand-ins of transactions that only a Gap event tells, compared with those of a master that has the transactions."""

from __future__ import annotations

import zlib
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.events import HEADER_LENGTH, MAGIC, EventHeader, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gap_events import Gap, make_gap
from dumpfilter.binlog.gtid import GNO_MAX, GtidSet, MysqlGtid, SourceKey, empty_set
from dumpfilter.binlog.gtid_events import MysqlGtidEvent, decode_gtid_tagged, decode_mysql_gtid
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.binlog.writer import make_event
from dumpfilter.dump.chunk import render
from dumpfilter.dump.packets.protocol import rotate
from dumpfilter.dump.packets.stand_ins import NOTHING_DROPPED, GtidSynthesis, find_dropped, with_stand_ins
from dumpfilter.dump.thread import DumpThread, Reach
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.rules import Rule
from dumpfilter.slave.applier import gtid_of
from tests.binlog.gtid_fields import last_fields, last_tagged_fields
from tests.dump.plans import scanned
from tests.dump.stream.test_gaps import relayed
from tests.dump.test_law import Dumped, dump, of_rules
from tests.strategies import DIALECTS, MadeBinlog, binlogs, rules

BINLOGS = binlogs(odd=False, max_transactions=12)
BEGIN = bytes(13) + b"\0BEGIN"
"""The body of a stand-in's Query event."""


def with_rotate(relay: bytes, fd: FormatDescription) -> bytes:
    """Return a relay log with the Rotate event that names the writer's file."""
    head = len(MAGIC) + len(fd.raw)
    return relay[:head] + rotate("bin.000001", head, server_id=1, checksum=fd.checksum) + relay[head:]


def through_relay(
    relay: bytes, given_rules: list[Rule], executed: GtidSet, *, chunk_size: int, segment_size: int
) -> tuple[bytes, int]:
    """Return the stream that a slave sends to a real replica from its relay log, and the writer's position after it."""
    file = scanned(relay, segment_size)
    fd = file.file.format_description
    flags = TableFlags(of_rules(given_rules, fd.family), file.subjects)
    thread: DumpThread = file.thread(
        flags, chunk_size=chunk_size, exclude=executed, position=file.file.first_event
    )
    out = []
    position = file.file.begin.position

    def key_of(number: int) -> SourceKey:
        return file.sources.key(number)

    for segment in file.segments:
        resume = thread.resume
        position = segment.position_of(segment.end)
        for plan in thread.plan(segment):
            dropped = find_dropped(plan, segment, resume, file.file.read, key_of)
            events = render(plan, b"", 0, file.file.read, fd)
            out.append(bytes(with_stand_ins(events, dropped, fd, key_of, file.file.read)))
    return b"".join(out), position


def events_of(stream: bytes, fd: FormatDescription) -> list[Event]:
    return [
        event
        for event in iter_events(BytesIO(MAGIC + fd.raw + stream), file="stream")
        if event.type != EventType.FORMAT_DESCRIPTION
    ]


def without_stand_ins(events: list[Event]) -> tuple[list[bytes], list[tuple[str, int]]]:
    """Return the events that a server wrote, and the GTID and end of each stand-in."""
    kept, dropped = [], []
    k = 0
    while k < len(events):
        gtid = gtid_of(events[k])
        begins = k + 1 < len(events) and events[k + 1].body == BEGIN
        xid = events[k + 1 + begins] if k + 1 + begins < len(events) else None
        if (
            gtid is not None
            and xid is not None
            and begins == (events[k].type != EventType.MARIADB_GTID)
            and xid.type == EventType.XID
            and xid.body == bytes(8)
        ):
            dropped.append((str(gtid), xid.header.end_log_pos))
            k += 2 + begins
        else:
            kept.append(events[k].raw)
            k += 1
    return kept, dropped


@given(
    made=BINLOGS,
    first=rules(),
    second=st.one_of(st.just([]), rules()),
    chunk_size=st.sampled_from([1, 300, 2000, 1 << 18]),
    segment_size=st.sampled_from([1, 400, 3000, 1 << 20]),
    data=st.data(),
)
def test_a_replica_of_a_slave_gets_what_a_replica_of_the_master_gets(
    made: MadeBinlog,
    first: list[Rule],
    second: list[Rule],
    chunk_size: int,
    segment_size: int,
    data: st.DataObject,
) -> None:
    """For any binlog, filters, sizes of chunks and segments, and any GTIDs that the replica has already."""
    family = made.fd.family
    executed = empty_set(family)
    for source, number in made.gtids:
        if data.draw(st.booleans()):
            executed.add_range(source, number, number)  # type: ignore[arg-type]
    above = dump(made.data, first, chunk_size=chunk_size)
    relay = with_rotate(relayed(above, made.fd), made.fd)
    stream, end = through_relay(relay, second, executed, chunk_size=chunk_size, segment_size=segment_size)
    events = events_of(stream, made.fd)
    kept, stood_in = without_stand_ins(events)
    plain = dump(relay, second, exclude=executed)
    expected_kept, _ = without_stand_ins(events_of(plain.stream, made.fd))
    assert kept == expected_kept
    wanted = _wanted(made, executed)
    if family == "mysql":
        assert [str(gtid_of(event)) for event in events if gtid_of(event) is not None] == wanted
    else:
        last: dict[str, str] = {}
        for gtid in wanted:
            last[gtid.split("-")[0]] = gtid
        reached = {
            str(gtid_of(event)).split("-")[0]: str(gtid_of(event)) for event in events if gtid_of(event)
        }
        assert reached == last
    ends = [end for _, end in stood_in]
    assert ends == sorted(ends)
    if made.gtids:
        assert end == _end_of(above, made)
    _check_sequences(events, made)


def _wanted(made: MadeBinlog, executed: GtidSet) -> list[str]:
    """Return the texts of the GTIDs that the replica lacks, in the order of the binlog."""
    out = []
    for (source, number), gtid in zip(made.gtids, _texts(made), strict=True):
        one = empty_set(made.fd.family)
        one.add_range(source, number, number)  # type: ignore[arg-type]
        if not executed.issuperset(one):
            out.append(gtid)
    return out


def _texts(made: MadeBinlog) -> list[str]:
    """Return the texts of all GTIDs, in the order of the binlog."""
    return [str(gtid_of(event)) for event in iter_events(BytesIO(made.data), file="made") if gtid_of(event)]


def _end_of(above: Dumped, made: MadeBinlog) -> int:
    """Return the newest position that the relay log tells."""
    return above.plans[-1].end


def _decoded(event: Event) -> MysqlGtidEvent | None:
    if event.type == EventType.GTID:
        return decode_mysql_gtid(event.body)
    if event.type == EventType.GTID_TAGGED:
        return decode_gtid_tagged(event.body)
    return None


def _check_sequences(events: list[Event], made: MadeBinlog) -> None:
    """Check that sequence_number rises, when it does so in the binlog."""
    originals = [
        one.sequence_number
        for event in iter_events(BytesIO(made.data), file="made")
        if (one := _decoded(event))
    ]
    if None in originals or originals != sorted(set(originals)):  # type: ignore[type-var]
        return
    numbers = [one.sequence_number for event in events if (one := _decoded(event))]
    assert numbers == sorted(set(numbers))  # type: ignore[type-var]


VERSIONS = {
    "5.6.51": None,
    "5.7.44-log": 42,
    "8.0.1-dmr": 42,
    "8.0.13": 50,
    "8.0.36": 54,
    "9.7.4": 54,
}
"""The length of a Gtid event's body by the version of the server; None for one without sequence_number."""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("checksum", [False, True])
def test_a_gtid_event_is_that_of_the_server(version: str, checksum: bool) -> None:
    """A replica gets the fields that the writer's version has, and no others."""
    fd = replace(_description(), server_version=version, checksum=checksum)
    events, length = GtidSynthesis(fd).gtids((b"u" * 16, ""), 7, 3, 21, 1_700_000_000, 4711)
    assert isinstance(length, int)
    assert len(events) == 3 * length
    assert GtidSynthesis(fd).size == length + 38 + 27 + 2 * 4 * checksum
    for number in range(3):
        raw = bytes(events[number * length : (number + 1) * length])
        header = EventHeader.unpack(raw)
        assert (header.type, header.size, header.end_log_pos) == (EventType.GTID, length, 4711)
        assert (header.timestamp, header.server_id) == (1_700_000_000, fd.header.server_id)
        if checksum:
            assert raw[-4:] == zlib.crc32(raw[:-4]).to_bytes(4, "little")
        body = fd.body(raw)
        gtid = decode_mysql_gtid(body)
        assert str(gtid.gtid) == f"75757575-7575-7575-7575-757575757575:{7 + number}"
        expected = VERSIONS[version]
        assert len(body) == (25 if expected is None else expected)
        assert gtid.sequence_number == (None if expected is None else 21 + number)
        assert gtid.last_committed == (None if expected is None else 0)
        if expected in (50, 54):
            assert gtid.immediate_commit_timestamp == last_fields(body).original_commit_timestamp
            assert gtid.immediate_commit_timestamp == 1_700_000_000_000_000
            assert last_fields(body).transaction_length == length + 38 + 27 + 2 * 4 * checksum
        assert last_fields(body).immediate_server_version == ({"8.0.36": 80036, "9.7.4": 90704}.get(version))


@pytest.mark.parametrize("tag", ["a", "a_tag", "t" * 32])
@pytest.mark.parametrize("number", [1, 1 << 40, GNO_MAX])
def test_a_tagged_gtid_event_is_that_of_the_server(tag: str, number: int) -> None:
    fd = replace(_description(), server_version="9.7.4")
    events, lengths = GtidSynthesis(fd).gtids(
        (bytes(range(240, 256)), tag), number, 1, 300, 1_700_000_000, 1 << 33
    )
    assert list(lengths) == [len(events)]  # type: ignore[arg-type]
    header = EventHeader.unpack(bytes(events))
    assert (header.type, header.size) == (EventType.GTID_TAGGED, len(events))
    gtid = decode_gtid_tagged(fd.body(bytes(events)))
    assert gtid.gtid == MysqlGtid(bytes(range(240, 256)), number, tag)
    assert (gtid.last_committed, gtid.sequence_number) == (0, 300)
    last = last_tagged_fields(fd.body(bytes(events)))
    assert gtid.immediate_commit_timestamp == last.original_commit_timestamp == 1_700_000_000_000_000
    assert last.immediate_server_version == last.original_server_version == 90704
    assert last.transaction_length == len(events) + 42 + 31


def test_tagged_gtid_events_are_numbered_one_by_one() -> None:
    fd = replace(_description(), server_version="9.7.4")
    events, lengths = GtidSynthesis(fd).gtids((b"u" * 16, "tag"), 7, 3, 21, 1_700_000_000, 4711)
    assert not isinstance(lengths, int)
    ends = np.cumsum(lengths)
    bounds = zip(ends - lengths, ends, strict=True)
    found = [decode_gtid_tagged(fd.body(bytes(events[start:end]))) for start, end in bounds]
    assert [(one.gtid, one.sequence_number) for one in found] == [
        (MysqlGtid(b"u" * 16, 7 + n, "tag"), 21 + n) for n in range(3)
    ]


def _description() -> FormatDescription:
    return scanned(_empty(), 1 << 16).file.format_description


def _empty() -> bytes:
    dialect = next(one for one in DIALECTS if one.name == "mysql 9.7")
    return MAGIC + dialect.format_description()


@given(st.lists(st.integers(1, 10_000_000), max_size=20), st.integers(1, 1_000_000))
def test_pages_have_all_gtids(counts: list[int], most: int) -> None:
    """A Gap event that tells millions of GTIDs does not make one message."""
    rows = [(k, k, 0, 1, count, 0, 9, 0, 5, 0, 0) for k, count in enumerate(counts)]
    dropped = NOTHING_DROPPED._make(np.array(rows, np.int64).reshape(-1, 11).T)
    if sum(counts) // most > 1000:
        most = sum(counts) // 1000 + 1
    seen: dict[int, int] = {}
    for page in dropped.pages(most):
        assert page is dropped or 0 < page.length.sum() <= most
        for place, first, last, sequence, end in zip(
            page.place, page.first, page.last, page.sequence, page.end, strict=True
        ):
            assert first == seen.get(place, 0) + 1
            assert sequence == 5 + first - 1
            assert end == (9 if last == counts[place] else 0)
            seen[place] = last
    assert seen == dict(enumerate(counts))


def test_a_gap_event_beyond_its_size_is_an_error() -> None:
    gap = bytearray(make_gap(Gap(500, runs=((b"u" * 16, 1, 2),)), server_id=1, checksum=True))
    gap[HEADER_LENGTH + 20] = 200
    gap[-4:] = zlib.crc32(gap[:-4]).to_bytes(4, "little")
    with pytest.raises(BinlogCorrupt) as error:
        scanned(_empty() + gap, 1 << 16)
    assert error.value.position == len(_empty())


def test_positions_of_4_gib_and_more_are_widened() -> None:
    """A Gap event has the whole position, and an event its low 32 bits."""
    event = make_event(EventType.XID, bytes(8), timestamp=9, end_log_pos=100, checksum=True)
    gap = make_gap(Gap((7 << 32) - 50), server_id=1, checksum=True)
    relay = with_rotate(_empty() + gap + event, _description())
    for size in (1, 1 << 16):
        segments = scanned(relay, size).segments
        positions = [position for one in segments for position in one.position.tolist()[1:]]  # type: ignore[union-attr]
        assert positions == [len(_empty()), (7 << 32) - 50, (7 << 32) + 100]


def test_positions_in_a_servers_binlog_are_offsets() -> None:
    (segment,) = scanned(_empty() + make_event(EventType.STOP, b"", checksum=True), 1 << 16).segments
    assert segment.position is None
    assert [segment.position_of(at) for at in (segment.start, segment.end)] == [segment.start, segment.end]


def test_stand_ins_keep_their_sequence_numbers_if_the_replica_has_gtids_between_them() -> None:
    source = b"u" * 16
    gap = make_gap(Gap(500, runs=((source, 11, 19),)), server_id=1, checksum=True)
    executed = empty_set("mysql")
    for first, last in ((11, 13), (15, 16)):
        executed.add_range((source, ""), first, last)
    fd = _description()
    stream, _ = through_relay(
        with_rotate(_empty() + gap, fd), [], executed, chunk_size=1, segment_size=1 << 16
    )
    gtids = [one for event in events_of(stream, fd) if (one := _decoded(event))]
    assert [(one.gtid, one.sequence_number) for one in gtids] == [
        (MysqlGtid(source, number, ""), number - 10) for number in (14, 17, 18, 19)
    ]


def test_the_gtids_of_gap_events_may_overlap_those_of_a_replica() -> None:
    gap = make_gap(Gap(500, runs=((b"u" * 16, 11, 19),)), server_id=1, checksum=True)
    file = scanned(_empty() + gap, 1 << 16)
    (segment,) = file.segments
    assert Reach.of(segment).gtids == {0: (11, 19)}


def test_stand_ins_after_a_gtid_event_of_mysql_57_go_on_with_its_sequence_number() -> None:
    """The sequence_number is the last field of that event."""
    fd, source = replace(_description(), server_version="5.7.44-log"), b"u" * 16
    gtid = GtidSynthesis(fd).gtids((source, ""), 10, 1, 41, 9, 500)[0]
    begin = make_event(EventType.QUERY, BEGIN, timestamp=9, end_log_pos=560, checksum=True)
    xid = make_event(EventType.XID, bytes(8), timestamp=9, end_log_pos=600, checksum=True)
    gap = make_gap(Gap(900, runs=((source, 11, 12),)), server_id=1, checksum=True)
    relay = with_rotate(_empty() + bytes(gtid) + begin + xid + gap, fd)
    stream, _ = through_relay(relay, [], empty_set("mysql"), chunk_size=1, segment_size=1 << 16)
    numbers = [one.sequence_number for event in events_of(stream, fd) if (one := _decoded(event))]
    assert numbers == [41, 42, 43]

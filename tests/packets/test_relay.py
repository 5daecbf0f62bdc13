"""Stand-ins of transactions that only a Gap event tells, compared with those of a master that has the transactions."""

from __future__ import annotations

import struct
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.binlog.events import MAGIC, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gap_events import Gap, make_gap, source_bytes
from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.binlog.gtid_events import MysqlGtidEvent, decode_gtid_tagged, decode_mysql_gtid
from dumpfilter.binlog.gtid_sources import add_run, empty_set
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.dump import DumpThread, render
from dumpfilter.errors import BinlogCorrupt
from dumpfilter.filter import Rule
from dumpfilter.filter.flags import TableFlags
from dumpfilter.packets.empties import find_empties, with_empties
from dumpfilter.packets.relay import (
    DroppedRun,
    GtidSynthesis,
    RelayPoint,
    dropped_runs,
    follow,
    last_of_domains,
    mariadb_stand_ins,
    mysql_stand_ins,
    origin_places,
    pages,
)
from dumpfilter.slave.threads.gtids import gtid_of
from tests.dump.plans import scanned
from tests.dump.test_law import Dumped, dump, of_rules
from tests.strategies import DIALECTS, MadeBinlog, binlogs, rules
from tests.stream.test_gaps import relayed

BINLOGS = binlogs(odd=False, max_transactions=12)


def direct(
    made: MadeBinlog, given_rules: list[Rule], executed: GtidSet, *, chunk_size: int, segment_size: int
) -> bytes:
    """Return the stream that a master sends to a real replica."""
    file = scanned(made.data, segment_size)
    flags = TableFlags(of_rules(given_rules, made.fd.family), file.subjects)
    thread = file.thread(flags, chunk_size=chunk_size, exclude=executed, position=made.first_event)
    out = []
    for segment in file.segments:
        position, resume = thread.position, thread.resume
        assert position is not None
        plans = thread.plan(segment)
        found = find_empties(
            plans, segment, position, resume, file.file.read, lambda number: file.sources.key(number, made.fd.family)
        )
        for plan, empties in zip(plans, found, strict=True):
            out.append(bytes(with_empties(render(plan, b"", 0, file.file.read, made.fd), empties, file.file.read, made.fd)))
    return b"".join(out)


def through_relay(
    relay: bytes, given_rules: list[Rule], executed: GtidSet, *, chunk_size: int, segment_size: int
) -> tuple[bytes, RelayPoint]:
    """Return the stream that a slave sends to a real replica from its relay log, and the point after it."""
    file = scanned(relay, segment_size)
    fd = file.file.format_description
    flags = TableFlags(of_rules(given_rules, fd.family), file.subjects)
    thread: DumpThread = file.thread(flags, chunk_size=chunk_size, exclude=executed, position=file.file.first_event)
    point = RelayPoint(file.file.first_event, end=file.file.first_event)
    out = []

    def key_of(number: int) -> object:
        return file.sources.key(number, fd.family)

    for segment in file.segments:
        begin, resume = thread.position, thread.resume
        assert begin is not None
        data = file.file.read(segment.start, segment.end - segment.start)
        places, after = origin_places(segment, data, point)
        assert after == follow(data, point, checksum=fd.checksum)
        point = after
        starts = segment.offset[segment.txn_event[:-1]].tolist()

        def gtid_event(transaction: int) -> bytes:
            at = resume if transaction == 0 and segment.continues else starts[transaction]
            size = int.from_bytes(file.file.read(at + 9, 4), "little")
            return file.file.read(at, size)

        for plan in thread.plan(segment):
            runs = dropped_runs(plan, segment, begin, key_of)  # type: ignore[arg-type]
            begin = plan.end
            if fd.family == "mariadb":
                until = sum(start < plan.resume for start in starts)
                made = mariadb_stand_ins(last_of_domains(runs, segment, until, key_of), places, fd)  # type: ignore[arg-type]
            else:
                made = mysql_stand_ins(runs, places, fd, gtid_event)
            chunk = render(plan, b"", 0, file.file.read, fd)
            out.append(bytes(with_empties(chunk, made.empties, made.read, fd)))
    return b"".join(out), point


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
        if gtid is not None and k + 1 < len(events) and events[k + 1].type == EventType.XID and events[k + 1].body == bytes(8):
            dropped.append((str(gtid), events[k + 1].header.end_log_pos))
            k += 2
        else:
            kept.append(events[k].raw)
            k += 1
    return kept, dropped


@settings(max_examples=150, deadline=None)
@given(
    made=BINLOGS,
    first=rules(),
    second=st.one_of(st.just([]), rules()),
    chunk_size=st.sampled_from([1, 300, 2000, 1 << 18]),
    segment_size=st.sampled_from([1, 400, 3000, 1 << 20]),
    data=st.data(),
)
def test_a_replica_of_a_slave_gets_what_a_replica_of_the_master_gets(
    made: MadeBinlog, first: list[Rule], second: list[Rule], chunk_size: int, segment_size: int, data: st.DataObject
) -> None:
    """For any binlog, filters, sizes of chunks and segments, and any GTIDs that the replica has already."""
    family = made.fd.family
    executed = empty_set(family)
    for source, number in made.gtids:
        if data.draw(st.booleans()):
            add_run(executed, source, number, number)  # type: ignore[arg-type]
    above = dump(made.data, first, chunk_size=chunk_size)
    relay = relayed(above, made.fd)
    stream, point = through_relay(relay, second, executed, chunk_size=chunk_size, segment_size=segment_size)
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
        reached = {str(gtid_of(event)).split("-")[0]: str(gtid_of(event)) for event in events if gtid_of(event)}
        assert reached == last
    ends = [end for _, end in stood_in]
    assert ends == sorted(ends)
    if made.gtids:
        assert point.end == _end_of(above, made)
    _check_sequences(events, made)


def _wanted(made: MadeBinlog, executed: GtidSet) -> list[str]:
    """Return the texts of the GTIDs that the replica lacks, in the order of the binlog."""
    out = []
    for (source, number), gtid in zip(made.gtids, _texts(made), strict=True):
        one = empty_set(made.fd.family)
        add_run(one, source, number, number)  # type: ignore[arg-type]
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
    originals = [one.sequence_number for event in iter_events(BytesIO(made.data), file="made") if (one := _decoded(event))]
    if None in originals or originals != sorted(set(originals)):  # type: ignore[type-var]
        return
    numbers = [one.sequence_number for event in events if (one := _decoded(event))]
    assert numbers == sorted(set(numbers))  # type: ignore[type-var]


def description(server_version: bytes, *, checksum: bool) -> FormatDescription:
    """Return a format description of MySQL with another version of the server."""
    raw = bytearray(_fd("mysql", checksum=checksum).raw)
    raw[21:71] = server_version.ljust(50, b"\0")
    return FormatDescription.parse(_with_crc(raw))


def _fd(family: str, *, checksum: bool = True) -> FormatDescription:
    dialect = next(one for one in DIALECTS if one.family == family and one.checksum == checksum)
    event = dialect.format_description()
    return FormatDescription.parse(event)


def _with_crc(raw: bytearray) -> bytes:
    import zlib

    return bytes(raw[:-4]) + struct.pack("<I", zlib.crc32(raw[:-4]))

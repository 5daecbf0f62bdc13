"""Stand-ins of dropped transactions, compared with a plain search through the file."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import GtidSet, SourceKey, empty_set
from dumpfilter.binlog.writer import make_event
from dumpfilter.dump.chunk import ChunkPlan
from dumpfilter.dump.packets.protocol import frame
from dumpfilter.dump.packets.stand_ins import (
    NOTHING_DROPPED,
    Dropped,
    stand_in_of,
    with_stand_ins,
)
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.rules import Rule
from tests.dump.packets.streamed import Streamed
from tests.dump.plans import scanned
from tests.dump.test_law import of_rules
from tests.strategies import DIALECTS, Dialect, MadeBinlog, binlogs, rules

BINLOGS = binlogs(odd=False, max_transactions=12)


class _Transaction:
    def __init__(self, start: int, end: int, key: SourceKey, number: int) -> None:
        self.start, self.end, self.key, self.number = start, end, key, number

    @property
    def domain(self) -> object:
        return self.key[0]


def _transactions(made: MadeBinlog) -> Iterator[_Transaction]:
    """Yield the transactions with a GTID, from one scan of the whole file."""
    whole = scanned(made.data, 1 << 24)
    for segment in whole.segments:
        starts = segment.offset[segment.txn_event[:-1]].tolist()
        for k, start in enumerate(starts):
            if segment.txn_source[k] >= 0 and not (segment.open and k == len(starts) - 1):
                key = whole.sources.key(int(segment.txn_source[k]))
                yield _Transaction(start, [*starts[1:], segment.end][k], key, int(segment.txn_number[k]))


def _expected(made: MadeBinlog, streamed: Streamed, executed: GtidSet) -> bytes:
    """Return the stream with stand-ins, sorted by the offsets in the file."""
    sent: list[tuple[int, bytes]] = []
    for plan, chunk in zip(streamed.plans, streamed.chunks, strict=True):
        at = 0
        for offset, size, _ in plan.ranges.tolist():
            sent.append((offset, chunk[at : at + size]))
            at += size
    transactions = list(_transactions(made))
    covered = [(offset, offset + len(piece)) for offset, piece in sent]
    dropped = []
    for one in transactions:
        had = empty_set(made.dialect.family)
        had.add_range(one.key, one.number, one.number)
        is_sent = any(begin < one.end and end > one.start for begin, end in covered)
        if not is_sent and not executed.issuperset(had):
            dropped.append(one)
    if made.dialect.family == "mariadb":
        dropped = list(_last_of_domains(streamed.plans, covered, dropped))
    pieces = sent + [(one.start, _stand_in(made, streamed.fd, one)) for one in dropped]
    return b"".join(piece for _, piece in sorted(pieces, key=lambda piece: piece[0]))


def _last_of_domains(
    plans: Sequence[ChunkPlan], covered: list[tuple[int, int]], dropped: list[_Transaction]
) -> Iterator[_Transaction]:
    """Yield the last of each domain in each run of dropped transactions. Sent events and chunks' ends end a run."""
    breaks = sorted({begin for begin, _ in covered} | {plan.resume for plan in plans})
    last = {(bisect_left(breaks, one.end), one.domain): one for one in dropped}
    yield from (one for one in dropped if one in last.values())


def _stand_in(made: MadeBinlog, fd: FormatDescription, one: _Transaction) -> bytes:
    header = EventHeader.unpack(made.data, one.start)
    xid = make_event(
        EventType.XID,
        bytes(8),
        timestamp=header.timestamp,
        server_id=header.server_id,
        end_log_pos=one.end,
        checksum=fd.checksum,
    )
    if made.dialect.family == "mysql":
        begin = make_event(
            EventType.QUERY,
            bytes(14) + b"BEGIN",
            timestamp=header.timestamp,
            server_id=header.server_id,
            end_log_pos=one.end - len(xid),
            checksum=fd.checksum,
        )
        return made.data[one.start : one.start + header.size] + begin + xid
    domain, server = one.key
    gtid = make_event(
        EventType.MARIADB_GTID,
        struct.pack("<QIB6x", one.number, domain, 4 | 8),
        timestamp=header.timestamp,
        server_id=int(server),
        end_log_pos=one.end - len(xid),
        checksum=fd.checksum,
    )
    return gtid + xid


@given(
    BINLOGS,
    rules(),
    st.sampled_from([1, 300, 2000, 1 << 18]),
    st.sampled_from([1, 400, 3000, 1 << 20]),
    st.booleans(),
    st.data(),
)
def test_stand_ins_are_those_of_a_plain_search(
    made: MadeBinlog,
    given_rules: list[Rule],
    chunk_size: int,
    segment_size: int,
    together: bool,
    data: st.DataObject,
) -> None:
    """For any binlog, filter, size of chunks and segments, and any GTIDs that the replica has already."""
    file = scanned(made.data, segment_size)
    executed = empty_set(made.dialect.family)
    known = list(_transactions(made))
    for one in known:
        if data.draw(st.booleans()):
            executed.add_range(one.key, one.number, one.number)
    flags = TableFlags(of_rules(given_rules, made.fd.family), file.subjects)
    start = data.draw(st.sampled_from([made.first_event, *made.boundaries]))
    start = made.first_event if start > len(made.data) else start
    thread = file.thread(flags, chunk_size=chunk_size, exclude=executed, position=start)
    streamed = Streamed(file, thread, together=together)
    stream = b"".join(streamed.streams)
    after = MadeBinlog(made.dialect, made.data, made.boundaries, made.gtids)
    assert stream == _expected_from(after, streamed, executed, start)
    for piece in streamed.streams:
        frame(piece, 0)


def _expected_from(made: MadeBinlog, streamed: Streamed, executed: GtidSet, start: int) -> bytes:
    """Return the expected stream of a dump that begins at position ``start``."""
    for one in _transactions(made):
        if one.start < start:
            executed.add_range(one.key, one.number, one.number)
    return _expected(made, streamed, executed)


@given(BINLOGS, st.sampled_from([1, 400, 1 << 20]))
def test_an_unfiltered_dump_has_no_stand_ins(made: MadeBinlog, segment_size: int) -> None:
    file = scanned(made.data, segment_size)
    streamed = Streamed(file, file.thread(TableFlags(of_rules([], made.fd.family), file.subjects)))
    assert all(dropped is NOTHING_DROPPED for dropped in streamed.dropped)
    assert b"".join(streamed.streams) == made.data[made.first_event :]


@given(
    st.sampled_from(DIALECTS),
    st.binary(min_size=42, max_size=60),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**40),
)
def test_one_stand_in_is_as_those_of_many(
    dialect: Dialect, body: bytes, time: int, server_id: int, end: int
) -> None:
    fd = FormatDescription.parse(dialect.format_description())
    kind = EventType.GTID if fd.family == "mysql" else EventType.MARIADB_GTID
    gtid = make_event(kind, body, timestamp=time, server_id=server_id, checksum=fd.checksum)
    number, domain = struct.unpack_from("<QI", body)
    many = _dropped(0, end, gtid, number=number, time=time)
    assert stand_in_of(gtid, end, checksum=fd.checksum) == with_stand_ins(
        b"", many, fd, lambda _: (domain, server_id), lambda offset, length: gtid[offset : offset + length]
    )


def _dropped(place: int, end: int, gtid: bytes, *, number: int = 1, time: int = 0) -> Dropped:
    """Return one dropped transaction whose Gtid event is at offset 0 of its file."""
    (last,) = np.array([number], np.uint64).view(np.int64).tolist()
    row = Dropped(place, 0, 0, last, last, end, end, time, 0, 0, len(gtid))  # type: ignore[arg-type]
    return Dropped(*(np.array([value], np.int64) for value in row))


@pytest.mark.parametrize(
    ("kind", "size", "place"),
    [(EventType.QUERY, 42, 0), (EventType.GTID, 41, 0), (EventType.GTID, 42, 1), (EventType.GTID, 42, -1)],
)
def test_a_changed_file_is_an_error(kind: EventType, size: int, place: int) -> None:
    """Nothing is written when the bytes are no Gtid event, or when the place lies outside of the chunk."""
    fd = FormatDescription.parse(DIALECTS[0].format_description())
    event = EventHeader(1, kind, 1, size, 0, 0).pack() + bytes(30)
    with pytest.raises(BinlogCorrupt):
        with_stand_ins(b"", _dropped(place, place, event[:42]), fd, lambda _: (0, 0), lambda *_: event[:42])

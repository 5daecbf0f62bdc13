"""The master sends a compressed transaction unchanged, sends it in part, or drops it."""

from __future__ import annotations

import random
import struct

import pytest

from dumpfilter.binlog.compression import NONE, ZSTD, decode_transaction_payload, encode_transaction_payload
from dumpfilter.binlog.events import EventHeader
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.writer import make_event
from dumpfilter.dump import payload
from dumpfilter.dump.payload import close_payload, filter_payload, open_payload
from dumpfilter.filter.base import BoundaryFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.rules import Rule
from dumpfilter.index.fileset import SegmentReader
from dumpfilter.index.subjects import Subjects
from tests.dump.reference import events_of, kind_of, opened
from tests.dump.test_law import _check_law, dump
from tests.strategies import (
    DIALECTS,
    Dialect,
    MadeBinlog,
    T,
    _Builder,
    query_body,
    rows_body,
    table_map_body,
    unreadable_query_body,
)
from tests.support import MemoryFile, segments

SEVERAL = [dialect for dialect in DIALECTS if dialect.name == "mysql 9.7"]
BOTH = pytest.mark.parametrize("compression", [ZSTD, NONE])
EVERY = pytest.mark.parametrize("dialect", SEVERAL, ids=lambda d: f"{d.gtids}-{d.checksum}")


def rules(*options: str) -> list[Rule]:
    return list(Filter.from_options([f"--replicate-{option}" for option in options]).rules)


def transaction(builder: _Builder, *databases: str) -> None:
    """Add BEGIN, a row format statement that changes a table in each database, and Xid."""
    random_ = random.Random(7)
    builder.add(T.QUERY, query_body(b"BEGIN"))
    for number, database in enumerate(databases, 1):
        builder.add(T.TABLE_MAP, table_map_body(number, database, "orders"))
    for number, _ in enumerate(databases, 1):
        ends = number == len(databases)
        rows = random_.randbytes(300)
        builder.add(T.WRITE_ROWS, rows_body(builder.dialect, T.WRITE_ROWS, number, ends=ends, rows=rows))
    builder.add(T.XID, bytes(8))


def made(dialect: Dialect, compression: int, *groups: tuple[str, ...]) -> MadeBinlog:
    builder = _Builder(dialect)
    for number, databases in enumerate(groups, 1):
        if dialect.gtids == "anonymous":
            builder.add(T.ANONYMOUS_GTID, b"\1" + bytes(24) + b"\2" + bytes(16))
        else:
            builder.add(T.GTID, b"\1" + bytes(16) + struct.pack("<q", number) + b"\2" + bytes(16))
            builder.gtids.append(((bytes(16), ""), number))
        builder.begin_payload()
        transaction(builder, *databases)
        builder.end_payload(compression)
        builder.boundary()
    return MadeBinlog(dialect, bytes(builder.data), builder.boundaries, builder.gtids)


@BOTH
@EVERY
def test_all_none_and_a_part(dialect: Dialect, compression: int) -> None:
    binlog = made(dialect, compression, ("shop", "shop"), ("logs", "hr"), ("shop", "logs"), ("hr", "shop"))
    _check_law(binlog, rules("do-db=shop"), segment_size=1 << 16)
    dumped = dump(binlog.data, rules("do-db=shop"))
    before = [e for e in events_of(binlog.fd, binlog.data[binlog.first_event :]) if e.type == 40]
    after = [e for e in events_of(binlog.fd, dumped.stream) if e.type == 40]
    assert after[0].raw == before[0].raw
    assert len(after) == 3
    for cut, source in zip(after[1:], before[2:], strict=True):
        assert cut.header._replace(size=0) == source.header._replace(size=0)
        assert cut.header.size < source.header.size - 250
        assert decode_transaction_payload(cut.body).compression == compression
        inside = opened(cut)
        assert inside is not None
        assert [kind_of(event) for event in inside] == ["begin", "map", "rows", "end"]
        assert inside[2].body[6] & 1, "the last rows end the statement"
    assert dumped.counts.events_undecided == 0
    assert dumped.counts.transactions_dropped == 1
    assert dumped.counts.bytes_sent == len(dumped.stream)


def test_the_index_of_what_is_inside_counts_as_memory() -> None:
    some, more = (made(DIALECTS[0], ZSTD, *[("shop",)] * n) for n in (1, 5))
    ((_, small),) = segments(some.data, 1 << 16)
    ((_, large),) = segments(more.data, 1 << 16)
    assert len(large.payloads) == 5
    assert large.nbytes - small.nbytes > 4 * small.payloads[1].nbytes > 0


@BOTH
def test_chunks_of_one_event(compression: int) -> None:
    """Positions are the source's, even after an event that has become smaller."""
    binlog = made(DIALECTS[0], compression, *[("shop", "logs")] * 5, ("logs",))
    for segment_size in (1, 1 << 16):
        cut = dump(binlog.data, rules("do-db=shop"), chunk_size=1, segment_size=segment_size)
        assert cut.stream == dump(binlog.data, rules("do-db=shop")).stream
        assert {plan.resume for plan in cut.plans} <= set(binlog.boundaries)
        assert cut.plans[-1].end == len(binlog.data)
        assert sum(plan.counts.bytes_read for plan in cut.plans) == len(binlog.data) - binlog.first_event


def test_what_is_undecided_inside_counts() -> None:
    builder = _Builder(DIALECTS[0])
    for number in (1, 2, 3):
        builder.add(T.GTID, b"\1" + bytes(16) + struct.pack("<q", number) + b"\2" + bytes(16))
        builder.gtids.append(((bytes(16), ""), number))
        builder.begin_payload()
        builder.add(T.QUERY, query_body(b"BEGIN"))
        builder.add(T.QUERY, query_body(b"INSERT INTO other VALUES (1)", "shop"))
        for _ in range(number - 1):
            builder.add(T.QUERY, query_body(b"FROBNICATE t", "shop"))
        if number == 3:
            builder.add(T.QUERY, unreadable_query_body(b"DROP TABLE t", "shop"))
            builder.add(200, b"??")
        builder.add(T.XID, bytes(8))
        builder.end_payload()
        builder.boundary()
    binlog = MadeBinlog(DIALECTS[0], bytes(builder.data), builder.boundaries, builder.gtids)
    for segment_size in (1, 1 << 16):
        _check_law(binlog, rules("do-table=shop.t"), segment_size=segment_size)
        counts = dump(binlog.data, rules("do-table=shop.t"), chunk_size=1, segment_size=segment_size).counts
        assert counts.events_undecided == 1 + 4
        assert counts.transactions_dropped == 1


@pytest.mark.parametrize("checksum", [True, False])
def test_the_new_event_may_be_longer(checksum: bool) -> None:
    fd = made(next(d for d in SEVERAL if d.checksum == checksum), ZSTD).fd
    events = random.Random(1).randbytes(500)

    def event(body: bytes) -> bytes:
        return make_event(T.TRANSACTION_PAYLOAD, body, end_log_pos=4711, flags=8, checksum=checksum)

    tight = event(encode_transaction_payload(events, 22))
    plain = event(encode_transaction_payload(events, compression=NONE))
    assert open_payload(tight, fd) == open_payload(plain, fd) == events
    assert len(close_payload(events, tight, fd)) >= len(tight)
    for source in (tight, plain):
        for kept in (events, events[:400]):
            part = close_payload(kept, source, fd)
            assert open_payload(part, fd) == kept
            header = EventHeader.unpack(part)
            assert (header.size, header.end_log_pos, header.flags) == (len(part), 4711, 8)


def test_compressed_events_of_mariadb() -> None:
    """A transaction of compressed rows events and statements stays valid when a part of it is dropped."""
    from tests.binlog.encoders import compress

    dialect = next(d for d in DIALECTS if d.family == "mariadb" and d.checksum)
    builder = _Builder(dialect)
    builder.add(T.MARIADB_GTID, struct.pack("<QIB", 1, 0, 0) + bytes(6))
    builder.gtids.append(((0, 11), 1))
    for database in ("shop", "logs"):
        text = compress(b"INSERT INTO orders VALUES (1)")
        builder.add(T.QUERY_COMPRESSED, query_body(text, database))
    for number, database in ((1, "shop"), (2, "logs")):
        builder.add(T.TABLE_MAP, table_map_body(number, database, "orders"))
    kind = T.WRITE_ROWS_COMPRESSED_V1
    for number, ends in ((1, False), (2, True)):
        builder.add(kind, rows_body(dialect, kind, number, ends=ends, rows=b"row" * 20))
    builder.add(T.XID, bytes(8))
    builder.boundary()
    binlog = MadeBinlog(dialect, bytes(builder.data), builder.boundaries, builder.gtids)
    for segment_size in (1, 1 << 16):
        _check_law(binlog, rules("do-table=shop.orders"), segment_size=segment_size)
    events = events_of(binlog.fd, dump(binlog.data, rules("do-table=shop.orders")).stream)
    assert [kind_of(e) for e in events] == ["gtid", "statement", "map", "rows", "end"]


def test_a_dropped_part_never_goes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slave with FILTER_ON = 'MASTER', and one behind a slave, would apply it. So the kept part may be longer."""
    builder = _Builder(DIALECTS[0])
    builder.add(T.GTID, b"\1" + bytes(16) + struct.pack("<q", 1) + b"\2" + bytes(16))
    builder.begin_payload()
    builder.add(T.QUERY, query_body(b"BEGIN"))
    for database, rows in (("shop", bytes(2000)), ("hr", b"SECRET")):
        builder.add(T.TABLE_MAP, table_map_body(1, database, "t"))
        builder.add(T.WRITE_ROWS, rows_body(DIALECTS[0], T.WRITE_ROWS, 1, ends=True, rows=rows))
    builder.add(T.XID, bytes(8))
    builder.end_payload()
    builder.boundary()
    file = MemoryFile(bytes(builder.data))
    subjects = Subjects()
    segment = SegmentReader(file, subjects, SourceNumbers()).next()
    assert segment is not None
    (number,) = segment.payloads
    no_hr = Filter(rules("ignore-db=hr"))
    own = TableFlags(no_hr, subjects)
    imposed = TableFlags(Filter(), subjects, imposed=[BoundaryFilter(no_hr)])
    monkeypatch.setattr(
        payload,
        "encode_transaction_payload",
        lambda events, compression: encode_transaction_payload(events, compression=NONE),
    )
    for flags in (own, imposed):
        part = filter_payload(flags, segment, number, file.read)
        assert part.replaced is not None
        assert part.size == len(part.replaced) > int(segment.size[number])
        opened = open_payload(part.replaced, file.format_description)
        assert b"SECRET" not in opened
        assert bytes(2000) in opened
        assert not part.undecided

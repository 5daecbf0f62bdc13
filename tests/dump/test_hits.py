"""Master and slave together count the hits that a slave counts that is sent everything."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence

import pytest

from dumpfilter.binlog.compression import ZSTD
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import empty_set
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.rows_events import decode_table_map
from dumpfilter.dump.chunk import render
from dumpfilter.dump.thread import DumpThread
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.rules import Hits, RuleKind
from dumpfilter.index.fileset import SegmentReader
from dumpfilter.index.subjects import Subject, Subjects, TableSubject
from tests.dump import reference
from tests.strategies import (
    DIALECTS,
    XIDS,
    T,
    _Builder,
    query_body,
    rows_body,
    table_map_body,
    xa_prepare_body,
)
from tests.support import MemoryFile


def counted(
    fd: FormatDescription, stream: bytes, own: ReplicationFilter, before: Sequence[ReplicationFilter] = ()
) -> Hits:
    """Return the hits of a slave's filter over a stream, event by event.

    Only events that pass the filters ``before`` count.
    """
    hits: Hits = Counter()
    for group in reference.transactions_of(reference.events_of(fd, stream)):
        for event in reference._plain_events(group, reference.Effects(None)):
            kind = reference.kind_of(event)
            subject: Subject
            if kind == "map":
                table = decode_table_map(event.body)
                subject = TableSubject(table.database, table.table)
            elif kind == "statement":
                statement = reference.statement_of(event)
                if statement is None:
                    continue
                subject = statement
            else:
                continue
            if all(one.verdict(subject).passes for one in before):
                hits.update(own.hits(subject))
    return hits


def check(
    data: bytes,
    own: ReplicationFilter,
    *,
    chunk_size: int = 1 << 18,
    segment_size: int = 1 << 16,
    write: ReplicationFilter | None = None,
    imposed: Sequence[ReplicationFilter] = (),
) -> Hits:
    """Compare the hits between each two resume points with those of a full stream. Return the master's hits."""
    file = MemoryFile(data)
    fd = file.format_description
    subjects, sources = Subjects(), SourceNumbers()
    flags = TableFlags(own, subjects, write_filter=write, imposed=imposed)
    thread = DumpThread(flags, sources, chunk_size=chunk_size)
    thread.start_file(file.first_event, file.read)
    reader = SegmentReader(file, subjects, sources, segment_size=segment_size)
    others = [*imposed, *([] if write is None else [write])]
    master: Hits = Counter()
    stream, resume = b"", file.first_event
    while (segment := reader.next()) is not None:
        for plan in thread.plan(segment):
            sent = render(plan, memoryview(reader.data), reader.data_offset, file.read, fd)
            if plan.resume > resume:
                # The slave does not know the filters ``others``. The master sends nothing that they drop.
                slave = counted(fd, stream + sent[: plan.resume_bytes], own)
                everything = counted(fd, data[resume : plan.resume], own, others)
                assert plan.hits + slave == everything, plan.resume
                stream, resume = sent[plan.resume_bytes :], plan.resume
            else:
                assert not plan.hits
                stream += sent
            master += plan.hits
    assert resume == len(data)
    return master


IGNORE = Filter.from_options(["--replicate-ignore-db=logs", "--replicate-wild-ignore-table=shop.x%"])
ROWS = functools.partial(rows_body, DIALECTS[0], T.WRITE_ROWS)


def _insert(builder: _Builder, number: int, database: str, table: str, *, ends: bool = True) -> None:
    builder.add(T.TABLE_MAP, table_map_body(number, database, table))
    builder.add(T.WRITE_ROWS, ROWS(number, ends=ends))


def _anonymous(builder: _Builder) -> None:
    builder.add(T.ANONYMOUS_GTID, b"\1" + bytes(24) + b"\2" + bytes(16))


@pytest.mark.parametrize("segment_size", [1, 1 << 16])
@pytest.mark.parametrize("payload", [False, True])
def test_each_way_to_drop(segment_size: int, payload: bool) -> None:
    """The expected numbers were counted by hand.

    The master drops one transaction with a single subject and one with several. Of two others it drops a part.
    """
    builder = _Builder(DIALECTS[0])
    groups: list[list[tuple[str, str]]] = [
        [("logs", "a")],
        [("logs", "a"), ("logs", "b"), ("shop", "x1")],
        [("shop", "a"), ("logs", "b"), ("shop", "x1"), ("shop", "b")],
        [("shop", "a")],
    ]
    for group in groups:
        _anonymous(builder)
        if payload:
            builder.begin_payload()
        builder.add(T.QUERY, query_body(b"BEGIN"))
        for database, table in group:
            _insert(builder, 1, database, table)
        builder.add(T.QUERY, query_body(b"INSERT INTO t VALUES (1)", "logs"))
        builder.add(T.XID, bytes(8))
        if payload:
            builder.end_payload(ZSTD)
        builder.boundary()
    hits = check(bytes(builder.data), IGNORE, segment_size=segment_size, chunk_size=1)
    # The master sends some small compressed transactions whole. The slave counts the hits in them.
    assert hits[RuleKind.IGNORE_DB] == (1 + 2 + 1 + 4 if not payload else hits[RuleKind.IGNORE_DB])
    assert hits[RuleKind.IGNORE_DB] >= 1 + 2 + 2
    assert hits[RuleKind.WILD_IGNORE_TABLE] >= 1
    assert payload or hits[RuleKind.WILD_IGNORE_TABLE] == 2


@pytest.mark.parametrize("segment_size", [1, 200, 1 << 16])
@pytest.mark.parametrize("chunk_size", [1, 1 << 18])
def test_a_table_map_that_is_put_aside_and_never_needed(segment_size: int, chunk_size: int) -> None:
    """The master drops a table map that passes the filter if no rows event uses it. The master counts its hit."""
    own = Filter.from_options(["--replicate-do-db=shop"])
    builder = _Builder(DIALECTS[0])
    _anonymous(builder)
    builder.add(T.QUERY, query_body(b"BEGIN"))
    builder.add(T.TABLE_MAP, table_map_body(1, "shop", "a"))
    builder.add(T.TABLE_MAP, table_map_body(2, "logs", "a"))
    builder.add(T.WRITE_ROWS, ROWS(2, ends=False))
    builder.add(T.WRITE_ROWS, ROWS(2, ends=True))
    builder.add(T.TABLE_MAP, table_map_body(3, "shop", "b"))
    builder.add(T.TABLE_MAP, table_map_body(4, "logs", "a"))
    builder.add(T.WRITE_ROWS, ROWS(4, ends=False))
    builder.add(T.WRITE_ROWS, ROWS(3, ends=True))
    builder.add(T.XID, bytes(8))
    builder.boundary()
    hits = check(bytes(builder.data), own, segment_size=segment_size, chunk_size=chunk_size)
    assert hits == {RuleKind.DO_DB: 1}


def test_the_end_of_an_xa_transaction_hits_nothing() -> None:
    xid = XIDS[0]
    builder = _Builder(DIALECTS[0])
    _anonymous(builder)
    builder.add(T.QUERY, query_body(f"XA START {xid}".encode(), "logs"))
    _insert(builder, 1, "logs", "a")
    builder.add(T.QUERY, query_body(f"XA END {xid}".encode(), "logs"))
    builder.add(T.XA_PREPARE, xa_prepare_body(xid))
    builder.boundary()
    _anonymous(builder)
    builder.add(T.QUERY, query_body(f"XA COMMIT {xid}".encode(), "logs"))
    builder.boundary()
    assert check(bytes(builder.data), IGNORE) == {RuleKind.IGNORE_DB: 1}


def test_what_the_slave_has_is_not_counted() -> None:
    builder = _Builder(DIALECTS[0])
    for number in (1, 2, 3):
        builder.add(T.GTID, b"\1" + bytes(16) + number.to_bytes(8, "little") + b"\2" + bytes(16))
        builder.add(T.QUERY, query_body(b"BEGIN"))
        _insert(builder, 1, "logs", "a")
        builder.add(T.XID, bytes(8))
        builder.boundary()
    exclude = empty_set("mysql")
    exclude.add_range((bytes(16), ""), 1, 2)
    file = MemoryFile(bytes(builder.data))
    subjects, sources = Subjects(), SourceNumbers()
    thread = DumpThread(TableFlags(IGNORE, subjects), sources, exclude=exclude)
    thread.start_file(file.first_event, file.read)
    segment = SegmentReader(file, subjects, sources).next()
    assert segment is not None
    assert [plan.hits for plan in thread.plan(segment)] == [{RuleKind.IGNORE_DB: 1}]

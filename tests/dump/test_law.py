"""The law: the master drops only events that the slave would not execute, and it sends a valid stream."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import PositionError
from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.binlog.gtid import GtidSet, SourceKey
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.chunk import ChunkPlan, Counts, render
from dumpfilter.dump.thread import DumpThread
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.rules import EffectiveRuleKind, Rule, make_rule
from dumpfilter.index.fileset import SegmentReader
from dumpfilter.index.subjects import Subjects
from tests.dump import reference
from tests.dump.reference import Effects
from tests.filter.plain import Names, PlainFilter
from tests.filter.plain_effective import PlainEffectiveFilter
from tests.strategies import (
    DATABASES,
    DIALECTS,
    TABLES,
    MadeBinlog,
    T,
    _Builder,
    binlogs,
    query_body,
    rows_body,
    rules,
    table_map_body,
)
from tests.support import MemoryFile

BINLOGS = binlogs(odd=False)
ODD_BINLOGS = binlogs(unreadable=True)


@dataclass
class Dumped:
    """The result of one run of a dump thread over a file."""

    plans: list[ChunkPlan] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)
    completed: list[tuple[object, int]] = field(default_factory=list)
    empty: list[tuple[object, int]] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    key_of: Callable[[int], SourceKey] = lambda number: (0, 0)

    @property
    def stream(self) -> bytes:
        return b"".join(self.chunks)


def dump(
    data: bytes,
    given_rules: list[Rule],
    *,
    chunk_size: int = 1 << 18,
    segment_size: int = 1 << 16,
    start: int | None = None,
    exclude: GtidSet | None = None,
) -> Dumped:
    """Drive a fresh dump thread over a file."""
    file = MemoryFile(data)
    fd = file.format_description
    subjects, sources = Subjects(), SourceNumbers()
    flags = TableFlags(of_rules(given_rules, fd.family), subjects)
    thread = DumpThread(flags, sources, chunk_size=chunk_size, exclude=exclude)
    thread.start_file(file.first_event if start is None else start, file.read)
    reader = SegmentReader(file, subjects, sources, segment_size=segment_size)
    out = Dumped(key_of=lambda number: sources.key(number))
    while (segment := reader.next()) is not None:
        if segment.end <= (thread.position or 0):
            continue
        for plan in thread.plan(segment):
            events = render(plan, memoryview(reader.data), reader.data_offset, file.read, fd)
            assert len(events) == plan.size
            assert plan.end == thread.position or plan.end < (thread.position or 0)
            out.plans.append(plan)
            out.chunks.append(events)
            out.counts.add(plan.counts)
            for runs, gtids in ((plan.completed, out.completed), (plan.gaps.runs, out.empty)):
                for source, first, last in runs:
                    gtids += [(sources.key(source), n) for n in range(first, last + 1)]
    reader.check_end(last=True)
    assert thread.position == len(data)
    assert not thread.in_transaction
    return out


def of_rules(given_rules: list[Rule], family: Family) -> ReplicationFilter:
    """Return the filter with some rules."""
    effective = any(isinstance(rule.kind, EffectiveRuleKind) for rule in given_rules)
    return (EffectiveFilter if effective else Filter)(given_rules, names=NameRules(family))


def plain(made: MadeBinlog, given_rules: list[Rule]) -> PlainFilter | PlainEffectiveFilter:
    """Return the reference filter with some rules."""
    effective = any(isinstance(rule.kind, EffectiveRuleKind) for rule in given_rules)
    return (PlainEffectiveFilter if effective else PlainFilter)(
        given_rules, Names(family=made.dialect.family)
    )


def meaning(effects: list[Effects]) -> list[tuple[object, ...]]:
    """Return the transactions that have effects. Of other transactions the slave gets only the GTIDs."""
    return [(e.gtid, e.items, e.frame) for e in effects if e.items]


_EXPRESSIONS = st.tuples(
    st.sampled_from([*DATABASES, "%", "a%", "s_op", "l%s"]),
    st.sampled_from([*TABLES, "%", "%", "t%", "t\\_1"]),
).map(".".join)
EFFECTIVE_RULES = st.lists(
    st.one_of(
        st.builds(make_rule, st.sampled_from([EffectiveRuleKind.DO, EffectiveRuleKind.IGNORE]), _EXPRESSIONS),
        st.sampled_from(["shop.%->logs.%", "a_b.t_1->shop.orders", "s%.%->x%.%"]).map(
            lambda value: make_rule(EffectiveRuleKind.REWRITE, value)
        ),
    ),
    min_size=1,
    max_size=5,
)


def _check_law(made: MadeBinlog, given_rules: list[Rule], *, segment_size: int) -> None:
    fd, own = made.fd, plain(made, given_rules)
    source = made.data[made.first_event :]
    dumped = dump(made.data, given_rules, segment_size=segment_size)
    reference.validate(fd, dumped.stream, source)
    full = reference.execute(fd, source, own)
    filtered = reference.execute(fd, dumped.stream, own)
    assert meaning(filtered) == meaning(full)
    # The master sends no event that the slave would surely ignore, and no transaction without effects.
    if of_rules(given_rules, fd.family).is_on:
        # The exception is a compressed transaction that would not become smaller.
        whole = {e.payload for e in full}
        assert sum(e.ignored for e in filtered if e.payload is None or e.payload not in whole) == 0
        assert all(e.items for e in filtered)
        undecided = sum(e.undecided for e in full)
        if any(e.ignored for e in filtered):
            # The events inside the compressed transaction that the slave must drop count, too.
            assert dumped.counts.events_undecided > undecided
        else:
            assert dumped.counts.events_undecided == undecided
    else:
        assert dumped.stream == source
    # The chunks name all GTIDs in order. ``empty`` has those of transactions that the master dropped.
    assert dumped.completed == made.gtids == [e.gtid for e in full if e.gtid is not None]
    in_stream = [e.gtid for e in filtered if e.gtid is not None]
    assert dumped.empty == [gtid for gtid in made.gtids if gtid not in in_stream]
    counts = dumped.counts
    assert counts.bytes_read == len(source) == counts.bytes_sent + counts.bytes_dropped
    assert counts.bytes_sent == len(dumped.stream)
    assert counts.events_read == len(reference.events_of(fd, source))
    assert counts.events_sent == len(reference.events_of(fd, dumped.stream))
    assert counts.events_read == counts.events_sent + counts.events_dropped
    transactions = [e for e in full if not _of_the_file(e)]
    assert counts.transactions_read == len(transactions)
    assert counts.transactions_dropped == len(transactions) - sum(not _of_the_file(e) for e in filtered)


def _of_the_file(effects: Effects) -> bool:
    """Tell whether these are the effects of an event of the file, which stands between transactions."""
    return len(effects.items) == 1 and effects.items[0][0] in reference._FILE and len(effects.items[0]) == 2


@given(made=ODD_BINLOGS, segment_size=st.integers(1, 900), data=st.data())
def test_other_positions_are_refused(made: MadeBinlog, segment_size: int, data: st.DataObject) -> None:
    position = data.draw(st.integers(made.first_event, max(len(made.data) - 1, made.first_event)))
    if position in made.boundaries:
        dump(made.data, [], start=position, segment_size=segment_size)
        return
    with pytest.raises(PositionError) as raised:
        dump(made.data, [], start=position, segment_size=segment_size)
    assert (raised.value.file, raised.value.position) == ("made.000001", position)


@given(made=BINLOGS, first=rules(), second=rules(), segment_size=st.integers(1, 1200))
def test_change_of_filter(made: MadeBinlog, first: list[Rule], second: list[Rule], segment_size: int) -> None:
    """The stream is the old filter's up to a transaction boundary, and the new filter's from there on."""
    file = MemoryFile(made.data)
    fd = file.format_description
    subjects, sources = Subjects(), SourceNumbers()
    make = functools.partial(Filter, names=NameRules(fd.family))
    thread = DumpThread(TableFlags(make(first), subjects), sources)
    changed = TableFlags(make(second), subjects)
    thread.start_file(file.first_event, file.read)
    reader = SegmentReader(file, subjects, sources, segment_size=segment_size)
    stream, switched, asked, prepared = b"", None, False, False
    while (segment := reader.next()) is not None:
        if asked and switched is None and not thread.in_transaction:
            switched = thread.position
            if prepared or {*segment.all_ends.values()} - {*segment.xa_prepares.values()}:
                return  # The end of an XA transaction follows the old filter. test_xa checks this.
            thread.change_filter(changed)
        for plan in thread.plan(segment):
            stream += render(plan, memoryview(reader.data), reader.data_offset, file.read, fd)
        assert (thread.flags is changed) == (switched is not None)
        asked = True
        prepared = bool(segment.prepared)
    if switched is None:
        assert stream == dump(made.data, first).stream
        return
    assert switched in made.boundaries
    tail = dump(made.data, second, start=switched).stream
    head = dump(made.data[:switched], first).stream
    assert stream == head + tail


def _one_transaction(*events: tuple[int, bytes]) -> MadeBinlog:
    builder = _Builder(DIALECTS[0])
    builder.add(T.GTID, b"\1" + bytes(16) + struct.pack("<q", 1) + b"\2" + bytes(16))
    builder.gtids.append(((bytes(16), ""), 1))
    builder.add(T.QUERY, query_body(b"BEGIN"))
    for kind, body in events:
        builder.add(kind, body)
    builder.add(T.XID, bytes(8))
    builder.boundary()
    return MadeBinlog(DIALECTS[0], bytes(builder.data), builder.boundaries, builder.gtids)


def _rules(*options: str) -> list[Rule]:
    return list(Filter.from_options([f"--replicate-{option}" for option in options]).rules)


@pytest.mark.parametrize("segment_size", [1, 1 << 16])
def test_a_table_map_without_rows_ends_with_its_statement(segment_size: int) -> None:
    """Events that were buffered for one statement are not sent with the next one."""
    rows = functools.partial(rows_body, DIALECTS[0], T.WRITE_ROWS)
    dummy = b"\xff" * 6 + b"\1\0\2\0"
    made = _one_transaction(
        (T.TABLE_MAP, table_map_body(1, "shop", "orders")),
        (T.WRITE_ROWS, rows(1, ends=False)),
        (T.TABLE_MAP, table_map_body(2, "shop", "audit")),
        (T.WRITE_ROWS, dummy),
        (T.QUERY, query_body(b"CREATE TABLE t (i INT)", "shop")),
        (T.TABLE_MAP, table_map_body(3, "logs", "audit")),
        (T.WRITE_ROWS, rows(3, ends=True)),
    )
    _check_law(made, _rules("do-db=shop"), segment_size=segment_size)
    stream = dump(made.data, _rules("do-db=shop"), segment_size=segment_size).stream
    maps = [e for e in reference.events_of(made.fd, stream) if e.type == T.TABLE_MAP]
    assert len(maps) == 1


@pytest.mark.parametrize("segment_size", [1, 1 << 16])
def test_every_undecided_statement_counts(segment_size: int) -> None:
    made = _one_transaction(*[(T.QUERY, query_body(b"FROBNICATE t", "shop"))] * 3)
    _check_law(made, _rules("do-table=shop.t"), segment_size=segment_size)
    counts = dump(made.data, _rules("do-table=shop.t"), segment_size=segment_size).counts
    assert counts.events_undecided == 3

"""The traffic of each transaction under each filter is the traffic that a dump with this filter has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.analyse.traffic.transactions import (
    Sent,
    TransactionTally,
    TransactionTraffic,
    join,
)
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.cut import RANGE_OFFSET, RANGE_PATCH, RANGE_SIZE, REPLACED
from dumpfilter.dump.thread import DumpThread
from dumpfilter.filter.base import OriginFilter, ReplicationFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.rules import Rule
from dumpfilter.index.fileset import BinlogFile, SegmentReader
from dumpfilter.index.opened import OpenedEvents
from dumpfilter.index.subjects import Subjects
from tests.analyse.traffic.test_tally import _begin, _end, _insert, _odd_payload
from tests.dump.test_law import of_rules
from tests.dump.test_origin import from_servers, origins
from tests.strategies import DIALECTS, MadeBinlog, T, _Builder, binlogs, query_body, rules
from tests.support import MemoryFile

SlaveFilter = tuple[ReplicationFilter, OriginFilter | None]
Row = tuple[int, int, int]
"""A transaction's number, and the bytes and events that are sent of it."""


def traffic_of(
    file: BinlogFile,
    filters: Sequence[SlaveFilter],
    *,
    segment_size: int = 1 << 16,
    take: int = 1 << 20,
) -> TransactionTraffic:
    """Return the traffic of a file, taken about every ``take`` segments."""
    subjects, sources = Subjects(), SourceNumbers()
    tally = TransactionTally(subjects, sources, filters=filters)
    reader = SegmentReader(file, subjects, sources, segment_size=segment_size)
    parts, number = [], 0
    while (segment := reader.next()) is not None:
        tally.add(OpenedEvents(segment, reader.data), file.read)
        number += 1
        if number >= take and not segment.open:
            parts.append(tally.take())
            number = 0
    return join([*parts, tally.take()])


def places_of(file: BinlogFile) -> tuple[list[int], list[int]]:
    """Return the offsets at which the transactions of a file begin, and at which they end."""
    reader = SegmentReader(file, Subjects(), SourceNumbers(), segment_size=1 << 24)
    begins, ends = [], []
    while (segment := reader.next()) is not None:
        bounds = [*segment.offset[segment.txn_event[:-1]].tolist(), segment.end]
        for t, source in enumerate(segment.txn_source.tolist()):
            if source != R.KEPT and segment.txn_subject[t] != R.SKIP:
                begins.append(bounds[t])
                ends.append(bounds[t + 1])
    return begins, ends


def dumped(file: BinlogFile, filters: Sequence[SlaveFilter]) -> list[list[Row]]:
    """Return what a dump thread sends with each filter, by transaction."""
    begins, ends = places_of(file)
    found = []
    for rules_of, origin in filters:
        subjects, sources = Subjects(), SourceNumbers()
        thread = DumpThread(TableFlags(rules_of, subjects), sources, chunk_size=1, origin=origin)
        thread.start_file(file.first_event, file.read)
        reader = SegmentReader(file, subjects, sources, segment_size=1 << 24)
        sent: dict[int, list[int]] = {}
        between: list[tuple[int, int]] = []
        while (segment := reader.next()) is not None:
            offsets = segment.offset
            for plan in thread.plan(segment):
                total = 0
                for row in plan.ranges.tolist():
                    at, size = row[RANGE_OFFSET], row[RANGE_SIZE]
                    inside = offsets[(offsets >= at) & (offsets < at + size)].tolist()
                    for event in inside:
                        length = int(segment.size[int(np.searchsorted(offsets, event))])
                        if row[RANGE_PATCH] == REPLACED:
                            length = len(plan.replaced[event])
                        total += length
                        t = int(np.searchsorted(ends, event, "right"))
                        if t < len(begins) and event >= begins[t]:
                            counts = sent.setdefault(t, [0, 0])
                            counts[0] += length
                            counts[1] += 1
                        else:
                            between.append((t - 1, length))
                assert total == plan.counts.bytes_sent
        found.append(_with_between(sent, between))
    return found


def _with_between(sent: dict[int, list[int]], between: list[tuple[int, int]]) -> list[Row]:
    """Count events between transactions with the sent transaction before them, with the first, or as their own row."""
    numbers = sorted(sent)
    if not numbers and between:
        return [(-1, sum(size for _, size in between), len(between))]
    for t, size in between:
        if numbers:
            place = max(int(np.searchsorted(numbers, t, "right")) - 1, 0)
            sent[numbers[place]][0] += size
            sent[numbers[place]][1] += 1
    return [(t, *sent[t]) for t in numbers]  # type: ignore[misc]


def rows_of(sums: Sent) -> list[Row]:
    rows = list(zip(sums.transaction.tolist(), sums.bytes.tolist(), sums.events.tolist(), strict=True))
    return [(-1, *sums.outside)] if any(sums.outside) else rows


def check(
    data: bytes, filters: Sequence[SlaveFilter], *, segment_size: int = 1 << 16, take: int = 1 << 20
) -> TransactionTraffic:
    """Check that the traffic is what dump threads send, and return it."""
    file = MemoryFile(data)
    found = traffic_of(file, filters, segment_size=segment_size, take=take)
    expected = dumped(file, filters)
    assert [rows_of(found.of_filter(one, number)) for number, one in enumerate(filters)] == expected
    (everything,) = dumped(file, [(Filter.from_options([]), None)])
    assert rows_of(found.of_rows(found.facts.sent(None))) == everything
    assert found.end.tolist() == places_of(file)[1]
    return found


@settings(max_examples=40, deadline=None)
@given(
    made=binlogs(unreadable=True),
    each_rules=st.lists(rules(), min_size=1, max_size=4),
    segment_size=st.integers(1, 1200) | st.just(1 << 16),
    take=st.sampled_from([1, 3, 1 << 20]),
)
def test_each_transaction_has_the_bytes_that_a_dump_sends(
    made: MadeBinlog, each_rules: list[list[Rule]], segment_size: int, take: int
) -> None:
    filters = [(of_rules(each, made.dialect.family), None) for each in each_rules]
    check(made.data, filters, segment_size=segment_size, take=take)


@settings(max_examples=25, deadline=None)
@given(
    made=from_servers(),
    each=st.lists(st.tuples(rules(), origins() | st.none()), min_size=1, max_size=4),
    segment_size=st.integers(1, 1200) | st.just(1 << 16),
)
def test_origins_that_a_slave_ignores_have_no_traffic(
    made: MadeBinlog, each: list[tuple[list[Rule], OriginFilter | None]], segment_size: int
) -> None:
    check(
        made.data,
        [(of_rules(given_rules, made.dialect.family), origin) for given_rules, origin in each],
        segment_size=segment_size,
    )


@pytest.mark.parametrize("segment_size", [1, 1 << 16])
@pytest.mark.parametrize("before", [(), ("context", "open hr", "map shop", "context")], ids=" ".join)
def test_a_compressed_transaction_that_is_cut(before: tuple[str, ...], segment_size: int) -> None:
    filters = [[], ["--replicate-do-db=shop"], ["--replicate-do-db=logs"], ["--replicate-do-db=hr"]]
    check(
        _odd_payload(1, *before),
        [(Filter.from_options(each), None) for each in filters],
        segment_size=segment_size,
    )


def test_more_filters_than_bits_of_a_word() -> None:
    builder = _Builder(DIALECTS[0])
    for number in range(150):
        _begin(builder)
        _insert(builder, 1, f"d{number}")
        _insert(builder, 2, f"d{number + 1}")
        _end(builder)
    filters = [(Filter.from_options([f"--replicate-do-db=d{n}"]), None) for n in range(150)]
    found = check(bytes(builder.data), filters)
    assert len(found.of_filter(filters[140], 140).bytes) == 2


def test_a_transaction_has_an_entry_for_each_set_of_filters_not_for_each_table() -> None:
    builder = _Builder(DIALECTS[0])
    for _ in range(3):
        _begin(builder)
        for number in range(1, 21):
            _insert(builder, number, f"d{number}")
        _end(builder)
    filters = [(Filter.from_options([f"--replicate-do-db=d{n}"]), None) for n in (5, 7)]
    subjects, sources = Subjects(), SourceNumbers()
    tally = TransactionTally(subjects, sources, filters=filters)
    file = MemoryFile(bytes(builder.data))
    reader = SegmentReader(file, subjects, sources)
    while (segment := reader.next()) is not None:
        tally.add(OpenedEvents(segment, reader.data), file.read)
    # The events of d5, those of d7, those that no filter is sent, and the events around them.
    assert len(tally.take().facts.bytes) == 3 * 4


def _gtid(builder: _Builder, microseconds: int, original: int | None = None) -> None:
    times = (microseconds | (1 << 55 if original else 0)).to_bytes(7, "little")
    builder.add(
        T.GTID, b"\1" + bytes(16) + (1).to_bytes(8, "little") + b"\2" + bytes(16) + times + _seven(original)
    )


def _seven(original: int | None) -> bytes:
    return b"" if original is None else original.to_bytes(7, "little")


@pytest.mark.parametrize("segment_size", [1, 1 << 16])
def test_the_time_is_the_commit_time_of_the_gtid_event(segment_size: int) -> None:
    builder = _Builder(DIALECTS[0])
    for microseconds, original in (
        (1_700_000_000_123_456, None),
        (1_700_000_001_000_001, 1_600_000_000_000_000),
    ):
        _gtid(builder, microseconds, original)
        builder.add(T.QUERY, query_body(b"BEGIN"))
        _insert(builder, 1, "shop")
        _end(builder)
    _begin(builder)
    _insert(builder, 1, "shop")
    _end(builder)
    found = traffic_of(MemoryFile(bytes(builder.data)), [], segment_size=segment_size)
    assert found.time.tolist() == [1_700_000_000_123_456, 1_700_000_001_000_001, builder.time * 1_000_000]
    assert found.is_exact.tolist() == [True, True, False]


def test_nothing_has_no_traffic() -> None:
    empty = TransactionTally(Subjects(), SourceNumbers(), filters=[]).take()
    found = join([empty, empty])
    assert len(found) == 0
    assert not len(found.of_rows(np.zeros(0, np.bool_)).bytes)

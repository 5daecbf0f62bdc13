"""Forks of a dump thread plan alike and disturb nothing, and threads with equal keys plan alike."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import PositionError
from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.binlog.gtid import empty_set
from dumpfilter.dump.chunk import Counts
from dumpfilter.dump.thread import DumpThread, Exclusion, Reach
from dumpfilter.dump.xa import Earlier
from dumpfilter.filter.base import BoundaryFilter, OnUndecided, OriginFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.rules import Rule
from tests.dump.plans import ScannedFile, scanned, values
from tests.strategies import binlogs, rules
from tests.support import RECORDED

_RECORDINGS = {str(path): path.read_bytes() for path in RECORDED}
BINLOGS = st.one_of(
    st.sampled_from(sorted(_RECORDINGS)).map(_RECORDINGS.__getitem__),
    binlogs(odd=True).map(lambda made: made.data),
)


def _flags(file: ScannedFile, own: list[Rule], imposed: list[Rule]) -> TableFlags:
    names = NameRules(_family(file))
    boundary = [BoundaryFilter(Filter(imposed, names=names), OnUndecided.DROP, name="x")] if imposed else []
    return TableFlags(Filter(own, names=names), file.subjects, imposed=boundary)


def _family(file: ScannedFile) -> Family:
    return file.file.format_description.family


def _sizes(draw: st.DrawFn, data: bytes) -> int:
    return draw(st.sampled_from([1, 300, len(data) // 3 + 1, 1 << 20]))


@st.composite
def _files(draw: st.DrawFn) -> ScannedFile:
    data = draw(BINLOGS)
    return scanned(data, _sizes(draw, data))


_OWN = rules()
_IMPOSED = st.one_of(
    st.just([]), rules().map(lambda given: [rule for rule in given if not rule.kind.is_rewrite])
)
_CHUNK_SIZES = st.sampled_from([1, 500, 1 << 18])


@given(file=_files(), own=_OWN, imposed=_IMPOSED, chunk_size=_CHUNK_SIZES, excluded=st.integers(0, 5))
def test_forks(
    file: ScannedFile, own: list[Rule], imposed: list[Rule], chunk_size: int, excluded: int
) -> None:
    """A fork plans like a thread that was never forked, and leaves the original unchanged."""
    flags = _flags(file, own, imposed)
    exclude = empty_set(_family(file))
    for segment in file.segments[:1]:
        for source, number in zip(segment.txn_source.tolist(), segment.txn_number.tolist(), strict=True):
            if source >= 0 and number <= excluded:
                exclude.add_range(file.sources.key(source), number, number)
    alone = file.thread(flags, chunk_size=chunk_size, exclude=exclude)
    forked = alone.fork()
    for number, segment in enumerate(file.segments):
        assert forked.key == alone.key
        assert (alone.key is None) >= alone.in_transaction
        first, second = forked.fork(), forked.fork()
        assert first.key == second.key == forked.key
        expected = values(alone.plan(segment))
        assert values(first.plan(segment)) == expected
        if not first.in_transaction:
            first.change_filter(_flags(file, [], []))
        assert values(second.plan(segment)) == expected
        assert forked.position == (second.position if segment.start == segment.end else segment.start)
        assert values(forked.plan(segment)) == expected
        if number % 2:
            forked = second


@given(file=_files(), own=_OWN, imposed=_IMPOSED, data=st.data())
def test_equal_keys(file: ScannedFile, own: list[Rule], imposed: list[Rule], data: st.DataObject) -> None:
    """Threads that began at different places have equal keys where neither has an open or prepared transaction."""
    flags = _flags(file, own, imposed)
    boundaries = sorted({segment.start for segment in file.segments if not segment.continues})
    if not boundaries:
        return
    one = file.thread(flags)
    other = file.thread(flags, position=data.draw(st.sampled_from(boundaries), label="start"))
    prepared: object = None
    for segment in file.segments:
        if one.position == other.position and not one.in_transaction and not prepared:
            assert one.key == other.key is not None
            assert hash(one.key) == hash(other.key)
        expected = values(one.plan(segment))
        if segment.start == other.position:
            found = values(other.plan(segment))
            assert prepared or found == expected
        prepared = segment.prepared
    assert one.position == other.position


def test_different_keys() -> None:
    """Everything that changes later plans changes the key."""
    file = scanned(_RECORDINGS[sorted(_RECORDINGS)[0]], 1 << 20)
    flags = _flags(file, [], [])
    exclude = empty_set(_family(file))
    exclude.add_range(file.sources.key(0), 1, 7)
    threads = [
        file.thread(flags),
        file.thread(_flags(file, [], [])),
        file.thread(flags, chunk_size=7),
        file.thread(flags, exclude=exclude),
        file.thread(flags, origin=OriginFilter(frozenset({7}))),
        file.thread(flags, earlier=Earlier((flags,), (flags,))),
        file.thread(flags, position=len(file.file.data)),
    ]
    without = Exclusion(file.sources, None, OriginFilter(frozenset({8})))
    changed = file.thread(flags).fork(exclusion=without)
    assert len({thread.key for thread in [*threads, changed]}) == len(threads) + 1
    assert file.thread(flags, origin=OriginFilter(frozenset({8}))).key == changed.key


def test_forks_at_the_same_time() -> None:
    """Forks in different threads of the operating system plan as one after the other."""
    data = max(_RECORDINGS.values(), key=len)
    file = scanned(data, 1 << 14)
    flags = _flags(file, list(Filter.from_options(["--replicate-wild-do-table=%.%s"]).rules), [])
    thread = file.thread(flags, chunk_size=500)

    def plans(fork: DumpThread) -> list[list[dict[str, object]]]:
        return [values(fork.plan(segment)) for segment in file.segments]

    expected = plans(thread.fork())
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(plans, [thread.fork() for _ in range(12)]):
            assert found == expected


@given(
    file=_files(),
    chunk_size=_CHUNK_SIZES,
    had=st.lists(st.integers(1, 60), max_size=20) | st.just(list(range(1, 10_000))),
)
def test_transactions_that_the_slave_has_count_as_neither_read_nor_dropped(
    file: ScannedFile, chunk_size: int, had: frozenset[int]
) -> None:
    """A dump by GTID that begins in the file's first transaction again adds nothing to what was dropped."""
    exclude = empty_set(_family(file))
    for segment in file.segments:
        for source, number in zip(segment.txn_source.tolist(), segment.txn_number.tolist(), strict=True):
            if source >= 0 and number in had:
                exclude.add_range(file.sources.key(source), number, number)
    thread = file.thread(_flags(file, [], []), chunk_size=chunk_size, exclude=exclude)
    found = Counts()
    for segment in file.segments:
        for plan in thread.plan(segment):
            assert min(astuple(plan.counts)) >= 0
            found.add(plan.counts)
    assert (found.events_dropped, found.bytes_dropped, found.transactions_dropped) == (0, 0, 0)
    assert (found.events_read, found.bytes_read) == (found.events_sent, found.bytes_sent)


@given(file=_files(), own=_OWN, chunk_size=_CHUNK_SIZES, had=st.sets(st.integers(0, 20)))
def test_resume_bytes_lie_before_the_resume_point(
    file: ScannedFile, own: list[Rule], chunk_size: int, had: set[int]
) -> None:
    """A chunk says how many of its bytes lie before the resume point, also if the slave has the open transaction."""
    exclude = empty_set(_family(file))
    gtids = [
        (source, number)
        for segment in file.segments
        for source, number in zip(segment.txn_source.tolist(), segment.txn_number.tolist(), strict=True)
        if source >= 0
    ]
    for k, (source, number) in enumerate(gtids):
        if k in had:
            exclude.add_range(file.sources.key(source), number, number)
    thread = file.thread(_flags(file, own, []), chunk_size=chunk_size, exclude=exclude)
    resume = thread.resume
    for segment in file.segments:
        for plan in thread.plan(segment):
            offset, size, _ = plan.ranges.T
            before = np.clip(plan.resume - offset, 0, size).sum() if plan.resume > resume else 0
            if not plan.replaced:
                assert plan.resume_bytes == before
            resume = plan.resume


def test_a_filter_does_not_change_inside_a_transaction() -> None:
    file = scanned(max(_RECORDINGS.values(), key=len), 1)
    flags = _flags(file, [], [])
    thread = file.thread(flags)
    for segment in file.segments:
        thread.plan(segment)
        if thread.in_transaction:
            break
    with pytest.raises(AssertionError):
        thread.change_filter(flags)


@given(file=_files(), had=st.sets(st.integers(1, 60)))
def test_a_segment_overlaps_if_the_slave_has_a_number_between_its_lowest_and_highest(
    file: ScannedFile, had: set[int]
) -> None:
    executed = empty_set(_family(file))
    numbers: dict[int, set[int]] = {}
    for source in range(file.sources.count):
        numbers[source] = {number for number in had if (number + source) % 2}
        for number in numbers[source]:
            executed.add_range(file.sources.key(source), number, number)
    exclusion = Exclusion(file.sources, executed, None)
    for segment in file.segments:
        gtids: dict[int, list[int]] = {}
        for source, number in zip(segment.txn_source.tolist(), segment.txn_number.tolist(), strict=True):
            if source >= 0:
                gtids.setdefault(source, []).append(number)
        expected = any(
            min(given) <= number <= max(given)
            for source, given in gtids.items()
            for number in numbers[source]
        )
        assert exclusion.overlaps(Reach.of(segment)) == expected


def test_a_position_inside_a_transaction_is_an_error_that_names_the_nearest_places() -> None:
    file = scanned(max(_RECORDINGS.values(), key=len), 1 << 30)
    segment = max(file.segments, key=lambda one: len(one.offset))
    start, end = segment.boundaries[3:5].tolist()
    thread = file.thread(_flags(file, [], []), position=start + 1)
    with pytest.raises(PositionError, match=f"the nearest places are {start} and {end}"):
        thread.plan(segment)

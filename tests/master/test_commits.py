"""Commits that are decided by their shape: each replica gets what the dump thread would send."""

from __future__ import annotations

import random
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest

from dumpfilter.binlog.events import HEADER_LENGTH, ROWS, EventHeader, EventType
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.writer import with_body
from dumpfilter.dump.thread import DumpThread, Reach
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects
from dumpfilter.master.advance import (
    DumpPlace,
    GrpcEncoding,
    PlacedPlan,
    ReplicaEncoding,
    place_in,
    step_over,
)
from dumpfilter.master.commits import Commit, Decider, OtherEvents, Tail, cut_commits
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.store import BinlogStore
from tests.oracle.recordings import Recording, all_recordings, filter_of
from tests.support import DATA

ORACLE = DATA / "oracle"
RECORDINGS = all_recordings()
FILTERS = (
    (),
    ("--replicate-do-db=shop",),
    ("--replicate-ignore-db=shop",),
    ("--replicate-wild-do-table=%.%a%",),
    ("--replicate-wild-ignore-table=%.t%",),
    ("--replicate-do-table=shop.items", "--replicate-do-table=hr.people"),
)
_MOST = 300
"""The largest number of comparisons for a file."""
_LONGEST_RUN = 5
"""The largest number of transactions that are decided together."""


def _filters(recording: Recording) -> list[Filter]:
    """Return filters of a recording's replicas, and some others."""
    cases = sorted(recording.oracle["cases"])
    chosen = random.Random(recording.name).sample(cases, min(len(cases), 4))
    own = [filter_of(recording, case) for case in chosen]
    return [*own, *(Filter.from_options(list(options)) for options in FILTERS)]


def _planned(
    segment: Segment, first: int, last: int, place: DumpPlace
) -> tuple[bytes, object, object, DumpPlace]:
    """Return the message about transactions ``first`` to ``last`` with its counts, its reach and the place after it, as
    the dump thread decides them.
    """
    part = segment.before(last + 1) if last + 1 < len(segment.txn_source) else segment
    thread = place.thread.fork()
    step = step_over(part, Reach.of(part, place.position), place, thread, thread.plan(part), {})
    (piece,) = step.pieces
    assert isinstance(piece, PlacedPlan)
    (message,) = piece.messages(1 << 18)
    return message, piece.counts, vars(step.reach), step.after


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.name)
def test_the_decision_by_shape_is_that_of_the_dump_thread(recording: Recording) -> None:
    store = BinlogStore(recording.files)
    decider = Decider(store.subjects, store.sources)
    all_flags = [TableFlags(rule_filter, store.subjects) for rule_filter in _filters(recording)]
    encodings = cycle(
        [
            GrpcEncoding(),
            ReplicaEncoding(by_gtid=True, checksum=True),
            GrpcEncoding(),
            ReplicaEncoding(by_gtid=False, checksum=True),
        ]
    )
    for name in store.binlogs.names:
        source = store.open_file(name)
        fd = source.file.format_description
        compared = 0
        for segment in store.segments(name):
            ends = [*segment.txn_start.tolist()[1:], segment.end]
            run: list[Commit] = []
            """The last transactions that follow one another and have a shape."""
            for number, (begin, end) in enumerate(zip(segment.txn_start.tolist(), ends, strict=True)):
                try:
                    run += cut_commits(source.read(begin, end - begin), begin, fd)
                except OtherEvents:
                    run = []
                if not run or compared >= _MOST or (number == 0 and segment.continues):
                    continue
                del run[: -1 - number % _LONGEST_RUN]
                for flags in all_flags:
                    thread, encoding = DumpThread(flags, store.sources), next(encodings)
                    place = place_in(source, thread, run[0].offset, encoding=encoding)
                    step = decider.step(place, run, decider.reach(run))
                    if step is None:
                        continue
                    *planned, after = _planned(segment, number + 1 - len(run), number, place)
                    assert [step.message, step.counts, vars(step.reach)] == planned
                    assert (step.after, step.after.told) == (after, after.told)
                    compared += 1
    store.close()


def _first_commits(recording: Path) -> tuple[bytes, list[Commit], IndexedFile]:
    store = BinlogStore(recording / "bin.000001")
    source = store.open_file(store.binlogs.names[0])
    fd, found = source.file.format_description, []
    for segment in store.segments(source.name):
        for begin, end in zip(segment.txn_start, [*segment.txn_start[1:], segment.end], strict=True):
            try:
                found += cut_commits(source.read(int(begin), int(end - begin)), int(begin), fd)
            except OtherEvents:
                found.clear()
            if len(found) == 3:
                data = source.read(found[0].offset, found[-1].end - found[0].offset)
                return data, found, source
    raise AssertionError("the recording has no three commits one after another")


@pytest.mark.parametrize("name", ["mysql-row", "mariadb-row"])
def test_commits_are_cut_wherever_the_receiver_stopped(name: str) -> None:
    data, commits, source = _first_commits(ORACLE / name)
    events = [event for commit in commits for event in commit.events]
    fd, begin = source.file.format_description, commits[0].offset
    for cut in range(1, len(events)):
        size = sum(map(len, events[:cut]))
        tail = Tail()
        first = tail.add("bin.000001", begin, data[:size], fd)
        second = tail.add("bin.000001", begin + size, data[size:], fd)
        assert first is not None
        assert second is not None
        assert [each.data for each in (*first, *second)] == [each.data for each in commits]
        ends = [commit.end for commit in commits]
        for at, place in enumerate([begin, *ends]):
            assert tail.since("bin.000001", place) == [*first, *second][at:]
        assert tail.since("bin.000002", begin) == tail.since("bin.000001", begin - 1) == []


def test_the_rest_of_an_unknown_transaction_has_no_shape() -> None:
    data, commits, source = _first_commits(ORACLE / "mysql-row")
    size = len(commits[0].events[0])
    rest = commits[0].offset + size
    tail, fd = Tail(), source.file.format_description
    assert tail.add("bin.000001", rest, data[size:], fd) is None
    assert tail.add("bin.000001", commits[0].offset, data[:size], fd) == []
    assert tail.add("bin.000002", rest, data[size:], fd) is None
    whole = tail.add("bin.000001", commits[0].offset, data, fd)
    assert whole is not None
    assert len(whole) == len(commits)


def test_a_commit_with_a_seq_no_beyond_int64_has_no_shape() -> None:
    """The scan refuses the commit, with its position."""
    data, commits, source = _first_commits(ORACLE / "mariadb-row")
    large = data[:HEADER_LENGTH] + (1 << 63).to_bytes(8, "little") + data[HEADER_LENGTH + 8 :]
    with pytest.raises(OtherEvents):
        cut_commits(large, commits[0].offset, source.file.format_description)


@pytest.mark.parametrize("name", ["mysql-row", "mariadb-row"])
def test_a_malformed_commit_has_no_shape(name: str) -> None:
    _, (commit, *_), source = _first_commits(ORACLE / name)
    fd = source.file.format_description
    kinds = [event[4] for event in commit.events]
    rows = next(at for at, kind in enumerate(kinds) if kind in ROWS)
    table_map = kinds.index(EventType.TABLE_MAP)
    spoilt = [(at, b"") for at in {0, 1, table_map, rows} if kinds[at] != EventType.ANNOTATE_ROWS]
    spoilt.append((rows, fd.body(commit.events[rows])[:6]))
    body = fd.body(commit.events[table_map])
    spoilt += [(table_map, body[:end]) for end in range(8, len(b"\4shop\0") + 8)]
    for at, body in spoilt:
        event = with_body(EventHeader.unpack(commit.events[at]), body, checksum=fd.checksum)
        data = b"".join([*commit.events[:at], event, *commit.events[at + 1 :]])
        with pytest.raises(OtherEvents):
            cut_commits(data, commit.offset, fd)
    for at in {kinds.index(kind) for kind in (EventType.QUERY, EventType.TABLE_MAP) if kind in kinds}:
        with pytest.raises(OtherEvents):
            cut_commits(b"".join([*commit.events[:at], *commit.events[at + 1 :]]), commit.offset, fd)


def test_statements_and_xa_transactions_have_no_shape() -> None:
    """Only Gtid, BEGIN, Table_map, rows, context and Xid events stand in a transaction with a shape."""
    kinds = set()
    for recording in RECORDINGS[::6]:
        store = BinlogStore(recording.files)
        for name in store.binlogs.names:
            source = store.open_file(name)
            for segment in store.segments(name):
                ends = np.append(segment.txn_start[1:], segment.end)
                for begin, end in zip(segment.txn_start.tolist(), ends.tolist(), strict=True):
                    try:
                        (commit,) = cut_commits(
                            source.read(begin, end - begin), begin, source.file.format_description
                        )
                    except OtherEvents:
                        continue
                    kinds |= {event[4] for event in commit.events}
        store.close()
    assert kinds
    assert not kinds & {EventType.XA_PREPARE, EventType.TRANSACTION_PAYLOAD, EventType.USER_VAR}


def test_dropped_commits_do_not_fill_a_message() -> None:
    _, commits, source = _first_commits(ORACLE / "mysql-row")
    subjects, sources = Subjects(), SourceNumbers()
    decider = Decider(subjects, sources)
    for options, end in ((["--replicate-do-db=nothing"], commits[-1].end), ([], commits[0].end)):
        flags = TableFlags(Filter.from_options(options), subjects)
        thread = DumpThread(flags, sources, chunk_size=len(commits[0].data) + 1)
        place = place_in(source, thread, commits[0].offset, encoding=GrpcEncoding())
        step = decider.step(place, commits, decider.reach(commits))
        assert step is not None
        assert step.after.position == end


def test_a_message_ends_with_the_commit_that_fills_it_as_a_chunk_of_the_dump_thread() -> None:
    store = BinlogStore(ORACLE / "mysql-row" / "bin.000001")
    _, commits, _ = _first_commits(ORACLE / "mysql-row")
    source = store.open_file(store.binlogs.names[0])
    segment = store.segment_of(source, commits[0].offset)
    assert segment is not None
    flags = TableFlags(Filter.from_options([]), store.subjects)
    decider = Decider(store.subjects, store.sources)
    ends = set()
    for size in range(50, commits[-1].end - commits[0].offset, 50):
        thread = DumpThread(flags, store.sources, chunk_size=size)
        place = place_in(source, thread, commits[0].offset, encoding=GrpcEncoding())
        chunk = thread.fork().plan(segment)[0]
        step = decider.step(place, commits, decider.reach(commits))
        if chunk.size <= 2 * size:
            assert step is not None
            assert step.after.position == min(chunk.end, commits[-1].end)
            ends.add(step.after.position)
        else:
            # The dump thread divides a chunk with a large commit. Here it begins with this commit.
            last = next(commit for commit in commits if commit.end == chunk.end)
            assert (commits[0].offset if step is None else step.after.position) == last.offset
    assert len(ends) > 1
    store.close()

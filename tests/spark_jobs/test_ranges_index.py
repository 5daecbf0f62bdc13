"""The index pass: ranges end at transaction boundaries with any sizes, and know their XA transactions."""

from __future__ import annotations

import io
import itertools
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogUnsupported
from dumpfilter.base.options.values import FIRST_EVENT
from dumpfilter.binlog.events import LOG_EVENT_BINLOG_IN_USE_F, MAGIC
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gap_events import Gap, make_gap
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.binlog.reader import iter_events
from dumpfilter.index.subjects import TableSubject
from dumpfilter.index.time_spans import spans_of
from dumpfilter.spark_jobs import ranges as ranges_module
from dumpfilter.spark_jobs.options import ReadOptions
from dumpfilter.spark_jobs.ranges import (
    FilePart,
    Range,
    XaLook,
    follow_xa,
    index_file,
    look_for_xa,
    ranges_of,
)
from tests.dump.test_xa import Made
from tests.spark_jobs.walking import FILE_LEVEL, ORACLE
from tests.strategies import DIALECTS, MadeBinlog, binlogs
from tests.support import RECORDED_SETS, binlogs_in, recording_id


@given(made=binlogs(), range_size=st.integers(1, 3000), block_size=st.integers(19, 3000))
def test_ranges_are_whole_transactions(made: MadeBinlog, range_size: int, block_size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.000001"
        path.write_bytes(made.data)
        found = index_file(
            FilePart(3, str(path), last=False), ReadOptions(range_size=range_size, block_size=block_size)
        )
        assert found == index_file(
            FilePart(3, str(path), last=False),
            ReadOptions(on_corrupt="skip", verify=False, range_size=range_size),
        )
    bounds = found.bounds
    assert set(bounds) <= set(made.boundaries)
    assert (found.end, found.damage) == (len(made.data), None)
    assert [(one.file, one.start, one.end) for one in ranges_of(found)] == [
        (3, start, end) for start, end in pairwise([FIRST_EVENT, *(bounds[1:] or [found.end])])
    ]
    if len(made.data) > made.first_event:
        assert (bounds[0], bounds[-1]) == (made.first_event, len(made.data))
    for start, end in pairwise(bounds[:-1]):
        # A range has at least the asked size, and ends with the first transaction that reaches it.
        assert end - start >= range_size
        assert not any(start + range_size <= between < end for between in made.boundaries)


@settings(max_examples=30, deadline=None)
@given(
    made=binlogs(), clocks=st.lists(st.integers(0, 2**32 - 1), min_size=1), block_size=st.integers(19, 3000)
)
def test_times_need_not_rise(made: MadeBinlog, clocks: list[int], block_size: int) -> None:
    data, times = bytearray(made.data), []
    events = iter_events(io.BytesIO(made.data), file="made")
    for event, clock in zip(events, itertools.cycle(clocks), strict=False):
        if event.type not in FILE_LEVEL:
            data[event.offset : event.offset + 4] = clock.to_bytes(4, "little")
            times.append(clock)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.000001"
        path.write_bytes(data)
        found = index_file(FilePart(0, str(path), last=False), ReadOptions(block_size=block_size))
    assert found.times == spans_of(np.array(times, np.uint32))


@pytest.mark.parametrize("recording", RECORDED_SETS[3::12], ids=recording_id)
def test_the_quick_pass_finds_what_a_whole_scan_finds(recording: Path) -> None:
    for path in binlogs_in(recording):
        quick = index_file(FilePart(0, str(path), last=True), ReadOptions(range_size=2000, block_size=5000))
        assert quick.damage is None
        assert quick == index_file(
            FilePart(0, str(path), last=True), ReadOptions(on_corrupt="skip", verify=False, range_size=2000)
        )


@pytest.mark.parametrize("block_size", [100, 1 << 20])
def test_the_index_pass_reports_all_bytes_for_the_progress_bar(
    block_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    monkeypatch.setattr(ranges_module, "step", steps.append)
    found = index_file(
        FilePart(0, str(ORACLE / "mysql-row" / "bin.000001"), last=False), ReadOptions(block_size=block_size)
    )
    assert found.damage is None
    assert sum(steps) == found.end - found.bounds[0]


@pytest.mark.parametrize("block_size", [19, 1 << 20])
def test_a_file_without_a_whole_transaction_has_no_bounds(block_size: int, tmp_path: Path) -> None:
    made = Made()
    made.prepare("a", "logs")
    file = made.write(tmp_path).with_name("bin.000001")
    data = bytearray(file.read_bytes()[:-1])
    # The server still writes the file.
    data[FIRST_EVENT + 17] |= LOG_EVENT_BINLOG_IN_USE_F
    file.write_bytes(data)
    found = index_file(FilePart(0, str(file), last=True), ReadOptions(block_size=block_size))
    assert (found.bounds, found.transactions) == ((), 0)


MYSQL, MARIADB = (
    next(one.format_description() for one in DIALECTS if one.family == family)
    for family in ("mysql", "mariadb")
)


def test_a_relay_log_repeats_its_format_and_has_gaps_that_are_no_transactions(tmp_path: Path) -> None:
    file = tmp_path / "relay.000001"
    gap = make_gap(Gap(5000), server_id=1, checksum=FormatDescription.parse(MYSQL).checksum)
    file.write_bytes(MAGIC + MYSQL + gap + MYSQL)
    found = index_file(FilePart(0, str(file), last=False))
    assert (found.transactions, found.end) == (0, file.stat().st_size)


def test_the_format_of_events_must_not_change_inside_a_file(tmp_path: Path) -> None:
    file = tmp_path / "relay.000001"
    file.write_bytes(MAGIC + MYSQL + MARIADB)
    with pytest.raises(BinlogUnsupported, match="the format of events changes") as caught:
        index_file(FilePart(0, str(file), last=False))
    assert (caught.value.file, caught.value.position) == ("relay.000001", FIRST_EVENT + len(MYSQL))


ONE, OTHER = Xid(1, b"a", b""), Xid(1, b"b", b"")
HELD = (TableSubject("shop", "orders"),)


def test_following_xa_transactions() -> None:
    """A range lists the transactions that end in it. The caller gets the transactions that no range prepared."""
    ranges = [Range("made", number, number + 1, number) for number in range(5)]
    looks = [
        XaLook({ONE: HELD}),
        XaLook(),
        XaLook({OTHER: None}, frozenset({ONE})),
        XaLook({ONE: None}, frozenset({OTHER})),
        XaLook({}, frozenset({ONE, OTHER})),
    ]
    followed, unknown = follow_xa(ranges, looks)
    assert [one.prepared for one in followed] == [(), (), ((ONE, HELD),), ((OTHER, None),), ((ONE, None),)]
    assert unknown == {OTHER}


def test_looking_for_xa_transactions() -> None:
    """The ranges of a recording together give the XA transactions of the whole recording."""
    path = str(ORACLE / "mysql-row" / "bin.000002")
    whole = index_file(FilePart(0, path, last=False))
    assert whole.has_xa
    for range_size in (1, 3000, 1 << 30):
        ranges = ranges_of(index_file(FilePart(0, path, last=False), ReadOptions(range_size=range_size)))
        looks = [look_for_xa(one, block_size=2000) for one in ranges]
        followed, unknown = follow_xa(ranges, looks)
        assert unknown == frozenset()
        ends = [xid for one in followed for xid, _ in one.prepared]
        assert (len(ends) > 0) == (len(ranges) > 1)
        assert len(set(ends)) == len(ends)


def test_an_xa_transaction_with_an_event_for_every_slave_has_no_tables(tmp_path: Path) -> None:
    made = Made()
    made.prepare("a", "logs", "?")
    path = made.write(tmp_path).with_name("bin.000001")
    (whole,) = ranges_of(index_file(FilePart(0, str(path), last=False)))
    assert [*look_for_xa(whole).prepared.values()] == [None]

"""A selection takes the transactions that a plain loop takes, for any size of the segments."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import PositionError
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid import GtidSet, empty_set
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.set_pass import Range, Selection, on_boundaries
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.subjects import Subjects
from tests.support import DATA, segments

FILES = [DATA / "oracle" / name / "bin.000002" for name in ("mysql-row", "mariadb-mixed", "mysql-statement")]


class Transaction(NamedTuple):
    begin: int
    time: int
    of_file: bool
    source: int
    number: int


def transactions(data: bytes, sources: SourceNumbers) -> tuple[list[Transaction], str]:
    """Return the transactions and the events of the file, in order, and the file's server family."""
    ((_, segment),) = segments(data, 1 << 24, sources=sources)
    first = segment.txn_event[:-1]
    columns = (segment.offset[first], segment.time[first], segment.txn_source, segment.txn_number)
    listed = [
        Transaction(begin, time, source == R.KEPT, source, number)
        for begin, time, source, number in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return listed, segment.format_description.family


def selected(
    data: bytes, wanted: Range, size: int, *, whole_files: bool = False, name: str = "made.000001"
) -> set[int]:
    """Return the offsets of the transactions that a selection takes from a file in segments of ``size`` bytes."""
    sources = SourceNumbers()
    selection = Selection(wanted, sources, first=name, last=name, whole_files=whole_files)
    taken: set[int] = set()
    for _, segment in segments(data, size, subjects=Subjects(), sources=sources):
        applied = selection.apply(segment)
        begins = segment.offset[segment.txn_event[:-1]]
        for number in range(int(segment.continues), len(begins)):
            if applied.txn_subject[number] != R.SKIP:
                taken.add(int(begins[number]))
            else:
                assert applied.txn_source[number] in (-1, R.KEPT)
        if wanted.stop_position is not None and segment.end >= wanted.stop_position:
            assert selection.done
    return taken


@given(st.data())
def test_as_a_plain_list_has_it(data: st.DataObject) -> None:
    raw = data.draw(st.sampled_from(FILES)).read_bytes()
    sources = SourceNumbers()
    listed, family = transactions(raw, sources)
    place = st.none() | st.sampled_from([one.begin for one in listed])
    moment = st.none() | st.sampled_from(sorted({one.time + d for one in listed for d in (-1, 0, 1)}))

    some = st.none() | st.sets(st.sampled_from([one for one in listed if one.source >= 0]))
    include, exclude = data.draw(some), data.draw(some)

    def gtids(of: set[Transaction] | None) -> GtidSet | None:
        if of is None:
            return None
        made = empty_set(family)
        for one in of:
            made.add_range(sources.key(one.source), one.number, one.number)
        return made

    bounds = [data.draw(one) for one in (place, place, moment, moment)]
    wanted = Range(*bounds, gtids(include), gtids(exclude))
    expected: set[int] = set()
    started, stopped = wanted.start_time is None, False
    for one in listed:
        placed = (wanted.start_position or 0) <= one.begin < (wanted.stop_position or len(raw))
        if one.of_file:
            if placed:
                expected.add(one.begin)
            continue
        if placed:
            started = started or one.time >= (wanted.start_time or 0)
            stopped = stopped or (started and wanted.stop_time is not None and one.time >= wanted.stop_time)
        asked = (include is None or one in include) and one not in (exclude or ())
        if placed and started and not stopped and asked:
            expected.add(one.begin)
    size = data.draw(st.sampled_from([64, 700, 5000, 1 << 24]))
    assert selected(raw, wanted, size) == expected
    whole = selected(raw, wanted, size, whole_files=True)
    assert whole == expected | {one.begin for one in listed if one.of_file}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_positions_move_to_where_nothing_is_cut(path: Path) -> None:
    binlogs = BinlogSet.open(path)
    raw = path.read_bytes()
    listed, _ = transactions(raw, SourceNumbers())
    places = [one.begin for one in listed] + [len(raw)]
    for position in [*places, *(place + 1 for place in places[:-1]), len(raw) - 1]:
        before = max(place for place in places if place <= position)
        warnings: list[str] = []
        moved = on_boundaries(Range(stop_position=position), binlogs, warn=warnings.append)
        assert moved.stop_position == before
        assert len(warnings) == (position != before)
        if position == before:
            assert on_boundaries(Range(start_position=position), binlogs).start_position == position
        else:
            after = min(place for place in places if place > position)
            with pytest.raises(PositionError, match=f"at {position}: .* {before} and {after}"):
                on_boundaries(Range(start_position=position), binlogs)


def test_positions_beyond_the_end() -> None:
    binlogs = BinlogSet.open(FILES[0])
    end = FILES[0].stat().st_size
    warnings: list[str] = []
    on_boundaries(Range(stop_position=end + 1), binlogs, warn=warnings.append)
    assert f"ends at {end}" in warnings[0]
    with pytest.raises(PositionError, match=f"at {end + 1}: the file ends at {end}"):
        on_boundaries(Range(start_position=end + 1), binlogs)
    assert on_boundaries(Range(start_position=4), binlogs).start_position == 4

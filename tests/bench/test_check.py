"""The check of simulated slaves: the right result passes, and each wrong figure is an error."""

from __future__ import annotations

import hashlib

import pytest

from bench._growing import FILTERS, GrowingSet, Result, check, definition_of
from dumpfilter.binlog.events import EventType
from dumpfilter.dump.set_pass import kept_pieces
from dumpfilter.filter.convert import filter_from_proto
from dumpfilter.index.fileset import BinlogSet

OLD, NEW = 7, 12
"""The filters of a slave before and after its change of filter."""


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> GrowingSet:
    made = GrowingSet(tmp_path_factory.mktemp("set"), history=1 << 18)
    for number in range(60):
        made.commit(f"shop_{number % 20:02}", f"table_{number % 50:03}", others=number % 3)
        if number % 20 == 10:
            made.rotate()
    made.close()
    return made


def received(growing: GrowingSet, old: int, new: int, change: tuple[str, int]) -> Result:
    """Return the result of a slave that received the events one by one, with another filter from a place on."""
    binlogs, events = BinlogSet.open(growing.made.index), []
    for number, is_old in ((old, True), (new, False)):
        for run in kept_pieces(binlogs, filter_from_proto(definition_of(number))):
            for start, size, offset in zip(run.start, run.size, run.offset, strict=True):
                event = run.data[start : start + size].tobytes()
                if ((run.file, offset) < change) == is_old and event[4] != EventType.FORMAT_DESCRIPTION:
                    events.append(event)
    sent = sum(event[4] == EventType.GTID for event in events)
    last = growing.made.files[-1]
    reached: dict[str, object] = {
        "place": (last.name, last.stat().st_size),
        "transactions": growing.made.transactions,
        "dropped": growing.made.transactions - sent,
        "size": sum(map(len, events)),
        "digest": hashlib.sha256(b"".join(events)).hexdigest(),
    }
    return Result(0, "changing", new, pieces=((old, change),), reached=reached)


def place_of(growing: GrowingSet) -> tuple[str, int]:
    """Return the place of a transaction in the middle of the set."""
    mark = growing.marks[len(growing.marks) // 2]
    return mark.file, mark.position


@pytest.mark.parametrize("number", range(5))
def test_exactly_the_events_of_both_filters_pass(growing: GrowingSet, number: int) -> None:
    result = received(growing, number, (number + OLD) % FILTERS, place_of(growing))

    check([result], growing.made, marks=growing.marks)


@pytest.mark.parametrize("name", ["place", "transactions", "dropped", "size", "digest"])
def test_each_wrong_figure_is_an_error(growing: GrowingSet, name: str) -> None:
    result = received(growing, OLD, NEW, place_of(growing))
    result.reached[name] = "another"

    with pytest.raises(SystemExit, match=f"{name} is another, not "):
        check([result], growing.made, marks=growing.marks)


def test_a_mark_that_a_rule_keeps_out_is_an_error(growing: GrowingSet) -> None:
    moved = [mark._replace(schema="elsewhere") for mark in growing.marks]
    result = received(growing, 1, 6, place_of(growing))

    with pytest.raises(SystemExit, match="keeps the marks"):
        check([result], growing.made, marks=moved)

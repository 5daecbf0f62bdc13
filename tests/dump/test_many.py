"""One pass for many dump threads gives the plans that each thread gives alone."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pytest

from dumpfilter.base.errors import PositionError
from dumpfilter.binlog.gtid import empty_set
from dumpfilter.dump import cut, decision
from dumpfilter.dump.thread import plan_many
from dumpfilter.filter.base import OriginFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from tests.dump.plans import check_many, scanned, values
from tests.strategies import DIALECTS, T, _Builder, query_body, rows_body, table_map_body

DO_SHOP = Filter.from_options(["--replicate-do-db=shop"])
ROWS = functools.partial(rows_body, DIALECTS[0], T.WRITE_ROWS)


def _transactions(*parts: Sequence[tuple[str, str]]) -> bytes:
    """Return a binlog with one transaction for each part, which lists pairs of a database and a sort of event."""
    builder = _Builder(DIALECTS[0])
    for number, part in enumerate(parts, 1):
        builder.add(T.GTID, b"\1" + bytes(16) + number.to_bytes(8, "little") + b"\2" + bytes(16))
        builder.add(T.QUERY, query_body(b"BEGIN"))
        for database, sort in part:
            if sort != "statement":
                builder.add(T.TABLE_MAP, table_map_body(ord(database[0]), database, "t"))
            if sort in ("rows", "open"):
                builder.add(T.WRITE_ROWS, ROWS(ord(database[0]), ends=sort == "rows", rows=bytes(300)))
            if sort == "statement":
                builder.add(T.QUERY, query_body(b"INSERT INTO t VALUES (1)", database))
        builder.add(T.XID, bytes(8))
        builder.boundary()
    return bytes(builder.data)


_HAND_MADE = {
    "a table map without rows": [
        [("shop", "map"), ("logs", "rows"), ("shop", "rows")],
        [("logs", "map"), ("shop", "rows")],
    ],
    "only dropped transactions": [[("logs", "rows")], [("logs", "rows"), ("hr", "rows")]],
    "a statement's end in the dropped table": [[("shop", "open"), ("logs", "rows"), ("hr", "statement")]],
    "a chunk's end in a transaction": [
        [("logs", "rows")],
        [("shop", "rows"), ("logs", "rows")] * 4,
        [("logs", "statement"), ("shop", "rows")],
    ],
}


@pytest.mark.parametrize("name", sorted(_HAND_MADE))
@pytest.mark.parametrize("chunk_size", [1, 400, 1 << 18])
def test_partly_sent_transactions(name: str, chunk_size: int) -> None:
    file = scanned(_transactions(*_HAND_MADE[name], [("shop", "rows")]), 1 << 16)
    options = ("--replicate-do-db=shop", "--replicate-ignore-db=logs", "--replicate-wild-ignore-table=h%.%")
    check_many(
        [
            file.thread(TableFlags(Filter.from_options([option]), file.subjects), chunk_size=chunk_size)
            for option in options
        ],
        file.segments,
    )


def test_a_change_of_filter() -> None:
    """A thread that takes up another filter between two transactions plans like a thread that plans alone."""
    file = scanned(_transactions(*[[("shop", "rows")], [("logs", "rows")]] * 3), 1)
    shop, everything = TableFlags(DO_SHOP, file.subjects), TableFlags(Filter([]), file.subjects)
    threads = [file.thread(shop) for _ in range(2)]
    for number, segment in enumerate(file.segments):
        if number >= 2 and not threads[1].in_transaction:
            threads[1].change_filter(everything)
        check_many(threads, [segment])
    assert [thread.flags for thread in threads] == [shop, everything]


def test_an_error_of_one_thread() -> None:
    """A thread whose position is no boundary gets an error, and the others get their plans."""
    file = scanned(_transactions([("shop", "rows")]), 1 << 16)
    flags = TableFlags(DO_SHOP, file.subjects)
    lost, sound = file.thread(flags, position=file.file.first_event + 1), file.thread(flags)
    error, plans = plan_many([lost, sound], file.segments[0])
    assert isinstance(error, PositionError)
    assert isinstance(plans, list)


def test_more_chunks_than_expected() -> None:
    """The arrays of results are emptied or enlarged when they are full."""
    file = scanned(_transactions(*[[("shop", "rows"), ("logs", "rows")]] * 60), 1 << 20)
    flags = [TableFlags(DO_SHOP, file.subjects), TableFlags(Filter([]), file.subjects)]
    check_many([file.thread(flags[k % 2], chunk_size=1 + k % 3) for k in range(66)], file.segments)


def test_equal_threads_share_plans() -> None:
    """Threads with one filter get the same plans. Those whose slaves ignore servers or have GTIDs get equal plans."""
    file = scanned(_transactions(*[[("shop", "rows")], [("logs", "rows")]] * 3), 1000)
    flags = TableFlags(DO_SHOP, file.subjects)
    had = empty_set("mysql")
    had.add_range((b"\7" * 16, ""), 1, 9)
    threads = [
        file.thread(flags),
        file.thread(flags, origin=OriginFilter(own_server_id=7)),
        file.thread(flags, exclude=had),
        file.thread(flags),
    ]
    for segment in file.segments:
        assert threads[0].key != threads[1].key
        plans = plan_many(threads, segment)
        assert plans[0] is plans[3]
        assert values(plans[0]) == values(plans[1]) == values(plans[2])
    assert len({thread.position for thread in threads}) == 1


@pytest.mark.parametrize("segment_size", [1, 300, 1 << 16])
def test_threads_of_all_sorts_plan_together_as_alone(segment_size: int) -> None:
    """The threads have equal filters, no rules, GTIDs, an ignored server, and small chunks."""
    file = scanned(
        _transactions(
            [("shop", "rows")],
            [("logs", "rows"), ("shop", "rows")],
            [("hr", "statement")],
            [("logs", "rows")],
        ),
        segment_size,
    )
    shop = TableFlags(DO_SHOP, file.subjects)
    had = empty_set("mysql")
    had.add_range((b"\0" * 16, ""), 2, 2)
    threads = [
        file.thread(shop),
        file.thread(TableFlags(Filter([]), file.subjects)),
        file.thread(shop, exclude=had),
        file.thread(shop),
        file.thread(TableFlags(DO_SHOP, file.subjects), chunk_size=1),
        file.thread(shop, origin=OriginFilter(frozenset({11}))),
    ]
    check_many(threads, file.segments)


class _Tight(decision._Scratch):
    """Arrays with room for the results of one filter."""

    def make_room(self, events: int, subjects: int, room: int) -> None:
        super().make_room(events, subjects, room)
        done = self.done
        self.done = cut.Done(done.filters, done.chunk[: events + 4], *(one[: room + 1] for one in done[2:]))


@pytest.mark.parametrize("chunk_size", [1, 1 << 18])
def test_filters_whose_results_do_not_fit_into_one_call(
    chunk_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = scanned(_transactions([("shop", "rows")], [("logs", "rows"), ("shop", "rows")]), 1 << 16)
    flags = [
        TableFlags(Filter.from_options([f"--replicate-do-db={name}"]), file.subjects)
        for name in ("shop", "logs", "none") * 3
    ]
    monkeypatch.setattr(decision, "_scratch", _Tight())
    check_many([file.thread(each, chunk_size=chunk_size) for each in flags], file.segments)

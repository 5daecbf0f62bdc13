"""The master sends XA COMMIT and XA ROLLBACK exactly if it sent part of the prepared transaction."""

from __future__ import annotations

import errno
from itertools import permutations
from pathlib import Path
from random import Random
from typing import NoReturn

import pytest

from dumpfilter.base.errors import BinlogUnreadable
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.binlog.reader import unreadable
from dumpfilter.binlog.statement.statement import Statement, StatementKind
from dumpfilter.dump.chunk import Counts, render
from dumpfilter.dump.set_pass import SetPass
from dumpfilter.dump.thread import DumpThread
from dumpfilter.dump.xa import Earlier
from dumpfilter.filter.clever import CleverFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_UNDECIDED_F, TableFlags
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.segment import canonical, ended_xid
from dumpfilter.index.subjects import Subjects
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.store import BinlogStore
from tests.dump.reference import events_of
from tests.oracle.dumping import dump as oracle_dump
from tests.strategies import (
    DIALECTS,
    T,
    _Builder,
    query_body,
    rows_body,
    table_map_body,
    xa_prepare_body,
)
from tests.support import DATA, segments

DIALECT = DIALECTS[0]
SHOP = Filter.from_options(["--replicate-do-db=shop"])
XIDS = {name: Xid(1, name.encode(), b"") for name in "abcdef"}


class Made:
    """A binlog set under construction. Methods that add a transaction return the number in its GTID."""

    def __init__(self) -> None:
        self.files = [_Builder(DIALECT)]
        self.number = 0

    def next_file(self) -> None:
        self.files.append(_Builder(DIALECT))

    def _begin(self) -> None:
        self.number += 1
        number = self.number.to_bytes(8, "little")
        self.files[-1].add(T.GTID, b"\1" + bytes(16) + number + b"\2" + bytes(16))

    def prepare(self, xid: str, *databases: str, one_phase: bool = False, payload: bool = False) -> int:
        """Add an XA transaction with rows for a table in each database, and an unknown event for "?"."""
        file = self.files[-1]
        self._begin()
        if payload:
            file.begin_payload()
        file.add(T.QUERY, query_body(f"XA START {XIDS[xid]}".encode()))
        for number, database in enumerate(databases, 1):
            if database == "?":
                file.add(200, b"??")
                continue
            file.add(T.TABLE_MAP, table_map_body(number, database, "t"))
            file.add(T.WRITE_ROWS, rows_body(DIALECT, T.WRITE_ROWS, number, ends=True))
        file.add(T.QUERY, query_body(f"XA END {XIDS[xid]}".encode()))
        file.add(T.XA_PREPARE, xa_prepare_body(XIDS[xid], one_phase=one_phase))
        if payload:
            file.end_payload()
        return self.number

    def finish(self, xid: str, verb: str = "COMMIT") -> int:
        self._begin()
        self.files[-1].add(T.QUERY, query_body(f"XA {verb} {XIDS[xid]}".encode()))
        return self.number

    def write(self, directory: Path, *, first: int = 0) -> Path:
        directory.mkdir(exist_ok=True)
        names = [f"bin.{n:06}" for n in range(1, len(self.files) + 1)]
        for name, file in zip(names, self.files, strict=True):
            (directory / name).write_bytes(file.data)
        (directory / "bin.index").write_text("".join(f"./{name}\n" for name in names[first:]))
        return directory / "bin.index"


def sent(store: BinlogStore, first_file: str, then: Filter | None = None) -> tuple[list[int], Counts]:
    """Return the GTID numbers of the transactions that the master sends, and the counts.

    The dump begins at ``first_file`` with the filter SHOP. In the following files the filter is ``then``, if given.
    """
    thread = DumpThread(TableFlags(SHOP, store.subjects), store.sources)
    numbers: list[int] = []
    counts = Counts()
    name: str | None = first_file
    while name is not None:
        file = store.open_file(name).file
        thread.start_file(file.first_event, file.read)
        while (segment := store.segment_at(name, thread.position or 0)) is not None:
            for plan in thread.plan(segment):
                stream = render(plan, b"", 0, file.read, file.format_description)
                events = events_of(file.format_description, stream)
                numbers += [int.from_bytes(e.body[17:25], "little") for e in events if e.type == T.GTID]
                counts.add(plan.counts)
        name = store.file_following(store.open_file(name))
        if then is not None:
            thread.change_filter(TableFlags(then, store.subjects))
    return numbers, counts


@pytest.mark.parametrize(
    ("schema", "dropped"),
    [
        ("shop", "2-3:5-6:9:14-15:17:20-21"),
        ("logs", "1:3-4:6-7:10:16-21:23-24"),
        ("hr", "1-2:4-5:7:10-13:22-24"),
    ],
)
def test_what_a_real_server_wrote(schema: str, dropped: str) -> None:
    """The master drops compressed XA transactions of other schemas.

    When the recording was made, a real server replayed the events that are left.
    """
    files = sorted((DATA / "recordings" / "mysql-payloads").glob("bin.0*"))
    stream = oracle_dump(files, Filter.from_options([f"--replicate-wild-do-table={schema}.%"]))
    assert str(stream.empty).partition(":")[2] == dropped
    assert stream.counts.events_undecided == 0


@pytest.mark.parametrize("payload", [False, True])
@pytest.mark.parametrize("verb", ["COMMIT", "ROLLBACK"])
def test_the_end_goes_with_the_prepared_part(tmp_path: Path, verb: str, payload: bool) -> None:
    made = Made()
    kept = [
        made.prepare("a", "shop", payload=payload),
        made.finish("a", verb),
        made.prepare("b", "logs", "shop", "hr", payload=payload),
    ]
    made.prepare("c", "logs", payload=payload)
    made.prepare("d", "logs", "hr", payload=payload)
    made.prepare("e", payload=payload)
    made.prepare("f", "logs", one_phase=True, payload=payload)
    for xid in "cde":
        made.finish(xid, verb)
    kept.append(made.finish("b", verb))
    numbers, counts = sent(BinlogStore(made.write(tmp_path)), "bin.000001")
    assert numbers == kept
    assert counts.events_undecided == 0
    assert counts.transactions_read - counts.transactions_dropped == len(kept)


def three_files() -> tuple[Made, list[int]]:
    """Return three files with XA transactions that end in later files, and the numbers that SHOP sends.

    Several transactions have the xid ``a``, one after the other.
    """
    made = Made()
    kept = [made.prepare("a", "shop"), made.finish("a")]
    made.prepare("a", "logs")
    kept.append(made.prepare("b", "shop", "logs"))
    made.next_file()
    made.finish("a")
    kept.append(made.prepare("a", "shop"))
    made.prepare("c", "logs", "hr", payload=True)
    made.next_file()
    kept += [made.finish("a"), made.finish("b")]
    made.finish("c")
    return made, kept


def test_the_clever_filter_sends_the_end_with_the_prepared_part(tmp_path: Path) -> None:
    made, kept = three_files()
    numbers = []
    planned = SetPass(BinlogSet.open(made.write(tmp_path)), SHOP, {"clever": CleverFilter(SHOP)}).files()
    for file, parts in planned:
        for part in parts:
            stream = render(part.plan, b"", 0, file.read, file.format_description)
            events = events_of(file.format_description, stream)
            numbers += [
                int.from_bytes(event.body[17:25], "little") for event in events if event.type == T.GTID
            ]
    assert numbers == kept


def test_other_ends_stay_unknown() -> None:
    made = Made()
    for xid in "ab":
        made.finish(xid)
    ((_, segment),) = segments(bytes(made.files[0].data), 1 << 24)
    (a, known), (b, unknown) = segment.unknown_ends.items()
    decided = segment.with_known_ends({known: 0})
    assert (decided.xa_ends, decided.unknown_ends) == ({a: known}, {b: unknown})


@pytest.mark.parametrize("order", list(permutations(["bin.000001", "bin.000002", "bin.000003"])))
@pytest.mark.parametrize("cache_bytes", [1, 1 << 20])
def test_other_slaves_make_no_difference(tmp_path: Path, order: tuple[str, ...], cache_bytes: int) -> None:
    """The result does not depend on the order in which the store scans files and drops them from its cache."""
    made, kept = three_files()
    store = BinlogStore(made.write(tmp_path), cache_bytes=cache_bytes)
    before = {"bin.000001": 0, "bin.000002": 4, "bin.000003": 7}
    for first in order * 2:
        numbers, counts = sent(store, first)
        assert numbers == [number for number in kept if number > before[first]], first
        assert counts.events_undecided == 0


@pytest.mark.parametrize("second", ["--replicate-do-db=logs", "--replicate-ignore-db=none", None])
def test_a_change_of_filter_does_not_part_them(tmp_path: Path, second: str | None) -> None:
    """The end of a transaction that was prepared under the old filter ignores the new filter."""
    made = Made()
    kept = [made.prepare("a", "shop")]
    made.prepare("b", "logs", payload=True)
    kept.append(made.prepare("c", "?", payload=True))
    made.next_file()
    made.finish("b")
    kept += [made.finish("a"), made.prepare("a", "logs"), made.prepare("d", "logs")]
    made.next_file()
    kept += [made.finish("a"), made.finish("d"), made.finish("c")]
    store = BinlogStore(made.write(tmp_path))
    rules = Filter.from_options([] if second is None else [second])
    assert sent(store, "bin.000001", then=rules)[0] == kept


def test_a_transaction_prepared_in_a_purged_file_ends_undecided(tmp_path: Path) -> None:
    made, kept = three_files()
    store = BinlogStore(made.write(tmp_path, first=1))
    numbers, counts = sent(store, "bin.000002")
    assert numbers == sorted({*kept, 5} - set(range(5)))
    assert counts.events_undecided == 2  # the ends of "a" (in the second file) and "b"


def test_damage_in_an_earlier_file_is_not_the_later_ones(tmp_path: Path) -> None:
    made, _ = three_files()
    made.files[1].data[-3] ^= 1
    numbers, counts = sent(BinlogStore(made.write(tmp_path)), "bin.000003")
    assert numbers == [8, 9, 10]
    assert counts.events_undecided == 3


def test_an_earlier_file_that_cannot_be_read_for_a_moment_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: IndexedFile) -> NoReturn:
        raise unreadable(OSError(errno.ESTALE, "Stale file handle"), file=file.name)

    index = three_files()[0].write(tmp_path)
    store, wanted = BinlogStore(index), sent(BinlogStore(index), "bin.000003")
    earlier = store.open_file("bin.000002")
    with monkeypatch.context() as patch:
        patch.setattr(IndexedFile, "prepared_at_end", fail)
        with pytest.raises(
            BinlogUnreadable, match=r"bin\.000002: cannot be read: Stale file handle; try again"
        ):
            sent(store, "bin.000003")
    assert store.open_file("bin.000002") is not earlier
    assert sent(store, "bin.000003") == wanted


def test_what_is_always_sent_ends_always(tmp_path: Path) -> None:
    made = Made()
    kept = [made.prepare("a", "logs", "?"), made.finish("a")]
    made.finish("a", "ROLLBACK")  # no transaction is prepared with this xid
    numbers, counts = sent(BinlogStore(made.write(tmp_path)), "bin.000001")
    assert numbers == [*kept, 3]
    assert counts.events_undecided == 3


def test_the_flags_of_a_set() -> None:
    subjects = Subjects()
    make = [
        Statement(StatementKind.UPDATE, "shop", None, ("shop",), ()),
        Statement(StatementKind.UPDATE, "logs", None, ("logs",), ()),
        Statement(StatementKind.UNKNOWN, "hr", None, None, None),
    ]
    shop, logs, unknown = (subjects.statement(statement) for statement in make)
    assert subjects.any_of([shop]) == shop
    sets = {
        members: subjects.any_of(members)
        for members in [(), (shop, logs), (shop, unknown), (logs, unknown), (shop, logs, unknown)]
    }
    assert subjects.any_of([logs, shop, logs]) == sets[shop, logs]
    assert [subjects.members(number) for number in sets.values()] == list(sets)
    assert list(subjects.since(0)) == make
    with pytest.raises(KeyError):
        subjects[sets[()]]
    rules = Filter.from_options(["--replicate-ignore-db=logs", "--replicate-ignore-table=a.b"])
    flags = TableFlags(rules, subjects).array()
    bits = FILTER_BINLOG_SEND_F | FILTER_UNDECIDED_F
    assert [int(flags[number]) & bits for number in sets.values()] == [
        0,
        FILTER_BINLOG_SEND_F,
        FILTER_BINLOG_SEND_F,
        bits,
        FILTER_BINLOG_SEND_F,
    ]


def test_the_sign_of_a_format_id_does_not_matter() -> None:
    # The format id is a signed number in XA_prepare, and may be an unsigned number in the text of a statement.
    for text in (b"XA COMMIT X'',X'',-1", b"XA COMMIT X'',X'',4294967295"):
        assert ended_xid(text) == canonical(Xid(-1, b"", b""))


@pytest.mark.parametrize(
    ("text", "xid"),
    [
        (b"XA COMMIT X'6162',X'',1", Xid(1, b"ab", b"")),
        (b"xa rollback X'FF' , X'00aa' , 4294967295 ", Xid(4294967295, b"\xff", b"\0\xaa")),
        # MySQL 9.7 writes 1215752191 to the XA_prepare event of this transaction.
        (b"XA COMMIT X'67',X'62',99999999999", Xid(1215752191, b"g", b"b")),
        (b"XA COMMIT X'616',X'',1", None),
        (b"XA COMMIT 'ab'", None),
        (b"XA COMMIT X'',X''," + b"1" * 5000, None),
        (b"XA PREPARE X'61',X'',1", None),
        (b"XA COMMIT X'61',X'',1 ONE PHASE", None),
    ],
)
def test_ended_xid(text: bytes, xid: Xid | None) -> None:
    assert ended_xid(text) == xid


@pytest.mark.parametrize("next_file", [False, True])
@pytest.mark.parametrize(
    ("earlier", "changed", "ends"),
    [
        ((), False, "ac"),
        (("logs",), False, "bc"),
        (("hr", "logs"), False, "bc"),
        ((), True, "ac"),
        (("logs",), True, "bc"),
    ],
)
def test_ends_go_where_the_filter_of_the_prepared_part_sent_it(
    tmp_path: Path, earlier: tuple[str, ...], changed: bool, ends: str, next_file: bool
) -> None:
    """The filter may have changed before the dump, after whose start "c" and "d" are prepared, or change in the dump.

    The dump begins inside the first segment, after "a" and "b" were prepared.
    """
    made = Made()
    made.prepare("a", "shop")
    made.prepare("b", "logs")
    begun = len(made.files[0].data)
    made.prepare("c", "shop")
    made.prepare("d", "logs")
    if next_file:
        made.next_file()
    numbers = {xid: made.finish(xid) for xid in "abcd"}
    store = BinlogStore(made.write(tmp_path))

    def flags(database: str) -> TableFlags:
        return TableFlags(Filter.from_options([f"--replicate-do-db={database}"]), store.subjects)

    filters = tuple(map(flags, earlier))
    thread = DumpThread(flags("shop"), store.sources, earlier=Earlier(filters, filters) if filters else None)
    found: list[int] = []
    for name in store.binlogs.names:
        file = store.open_file(name).file
        thread.start_file(begun if name == "bin.000001" else file.first_event, file.read)
        while (segment := store.segment_at(name, thread.position or 0)) is not None:
            for plan in thread.plan(segment):
                stream = render(plan, b"", 0, file.read, file.format_description)
                events = events_of(file.format_description, stream)
                found += [int.from_bytes(e.body[17:25], "little") for e in events if e.type == T.GTID]
        if changed:
            thread.change_filter(flags("logs"))
    assert [xid for xid, number in numbers.items() if number in found] == list(ends)


def test_a_filter_that_changes_in_a_dump_does_not_decide_about_what_an_earlier_dump_sent(
    tmp_path: Path,
) -> None:
    made = Made()
    made.prepare("a", "shop")
    made.prepare("b", "logs")
    made.next_file()
    made.prepare("c", "shop", one_phase=True)
    made.next_file()
    kept = made.finish("a")
    made.finish("b")
    store = BinlogStore(made.write(tmp_path))
    logs = Filter.from_options(["--replicate-do-db=logs"])
    assert sent(store, "bin.000002", logs)[0] == [3, kept]


@pytest.mark.parametrize("seed", range(30))
def test_segments_that_are_merged_or_cut_change_no_decision(tmp_path: Path, seed: int) -> None:
    """A scan of a growing file merges small segments, and then repeats transactions that the dump has passed. A change
    of the chunk size cuts a segment, so that the filter may change inside it.

    After the last XA COMMIT, nothing of the XA transactions is left in the dump's state.
    """
    random = Random(seed)
    made, open_xids = Made(), set[str]()
    ends = [len(made.files[0].data)]
    history: list[tuple[str, str]] = []
    """The xid of each transaction, with the database that it changes; an empty one ends the XA transaction."""
    while len(history) < 60 or open_xids:
        xid, database = random.choice("abcd"), random.choice(["shop", "logs"])
        if xid in open_xids:
            made.finish(xid, random.choice(["COMMIT", "ROLLBACK"]))
            database = ""
        elif len(history) < 60:
            made.prepare(xid, *[database] * random.choice([1, 1, 9]), payload=random.random() < 0.2)
        else:
            continue
        open_xids ^= {xid}
        history.append((xid, database))
        ends.append(len(made.files[0].data))
    store = BinlogStore(made.write(tmp_path))
    filters = {
        database: TableFlags(Filter.from_options([f"--replicate-do-db={database}"]), store.subjects)
        for database in ("shop", "logs")
    }
    now, passed = "shop", random.choice([0, 1, 5])
    thread, fresh = (DumpThread(filters[now], store.sources) for _ in range(2))
    parts = {xid: database == now for xid, database in history[:passed]}
    wanted: list[int] = []
    found: list[int] = []
    written = passed
    while passed < len(history):
        (tmp_path / "bin.000001").write_bytes(made.files[0].data[: ends[written]])
        indexed = store.open_file("bin.000001")
        file = indexed.file
        if thread.position is None:
            store.segment_of(indexed, file.first_event)
            thread.start_file(ends[passed], file.read)
        while True:
            if random.random() < 0.3:
                now = random.choice(["shop", "logs"])
                thread.change_filter(filters[now])
                fresh.change_filter(filters[now])
            segment = store.segment_of(indexed, thread.position or 0)
            if segment is None:
                break
            first, last = segment.transaction_at(thread.position or 0) or 0, len(segment.txn_subject)
            if first + 1 < last and random.random() < 0.7:
                segment = segment.before(random.randrange(first + 1, last))
            for plan in thread.plan(segment):
                stream = render(plan, b"", 0, file.read, file.format_description)
                events = events_of(file.format_description, stream)
                found += [int.from_bytes(e.body[17:25], "little") for e in events if e.type == T.GTID]
            while ends[passed] < (thread.position or 0):
                xid, database = history[passed]
                parts[xid] = parts[xid] if not database else database == now
                passed += 1
                wanted += [passed] * parts[xid]
        written = min(written + random.randint(1, 6), len(history))
    assert found == wanted
    fresh.start_file(thread.position or 0, file.read)
    assert thread.key == fresh.key

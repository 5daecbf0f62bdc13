"""A MariaDB replica of a slave names a file and a position of the writer, and gets what comes behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
import threading
import uuid as uuids
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dumpfilter.base.errors import BinlogTruncated, BinlogUnreadable, ConnectionLost, PositionError
from dumpfilter.binlog.context_events import decode_rotate
from dumpfilter.binlog.events import LOG_EVENT_ARTIFICIAL_F, EventType
from dumpfilter.binlog.gap_events import Gap, is_gap_event, parse_gap_event
from dumpfilter.binlog.gtid import MariadbGtid, empty_set, parse_gtid_set
from dumpfilter.binlog.gtid_events import GtidList, encode_gtid_list
from dumpfilter.binlog.reader import iter_events
from dumpfilter.master import dump_start
from dumpfilter.master.dump_start import (
    Wanted,
    _ahead,
    _file_for,
    ahead_of,
    check_no_hole,
    check_place,
    find_position,
    is_later,
    logged_for,
    start_after,
)
from dumpfilter.master.measurements import MEASURED
from dumpfilter.master.replicas.answers import gtid_position, start_by_position
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore, Logged
from tests.master.replicas.serving import header, serving
from tests.master.test_relay_plans import receive
from tests.strategies import DIALECTS, _Builder
from tests.support import DATA

Step = tuple[str, int, int, bytes]
"""An event of a server, or b"" for a Gap event: the writer's file, its position after it, the offset after it."""


@pytest.fixture(scope="module")
def relay_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("relay")
    receive("mariadb-row", directory, ["--replicate-do-db=shop"])
    return directory


def steps(path: Path) -> Iterator[Step]:
    """Yield the events of a relay log file after its head."""
    file = ""
    with path.open("rb") as opened:
        for event in iter_events(opened, file=path.name):
            after = event.offset + len(event.raw)
            if event.type == EventType.ROTATE and event.header.flags & LOG_EVENT_ARTIFICIAL_F:
                file = decode_rotate(event.body).name
            elif is_gap_event(event.type, event.body):
                gap = parse_gap_event(event.body)
                if isinstance(gap, Gap) and gap.end:
                    yield file, gap.end, after, b""
            elif event.type != EventType.FORMAT_DESCRIPTION:
                yield file, event.header.end_log_pos, after, event.raw


def test_each_position_has_its_place(relay_dir: Path) -> None:
    """Behind the boundary stand the events that come behind the position, also inside a transaction."""
    store = BinlogStore(relay_dir / "relay-bin.index")
    for name in store.binlogs.names:
        known = list(steps(relay_dir / name))
        for number, (file, position, _, _) in enumerate(known):
            found = find_position(file, position, store)
            assert found.file == name
            assert found.begun <= position
            behind = [raw for _, _, after, raw in known if after > found.position and raw]
            wanted = [raw for _, _, _, raw in known[number + 1 :] if raw]
            assert behind[len(behind) - len(wanted) :] == wanted
            assert bool(found.end) or behind == wanted
    store.close()


def test_places_that_the_slave_does_not_have(relay_dir: Path) -> None:
    store = BinlogStore(relay_dir / "relay-bin.index")
    with pytest.raises(PositionError, match="Replicate by GTID"):
        find_position("other.000001", 4, store)
    for file, position in (("bin.000003", 100_000), ("bin.000099", 4)):
        with pytest.raises(BinlogUnreadable, match="not received") as error:
            find_position(file, position, store)
        assert error.value.momentary
    first, named = find_position("", 4, store), find_position("bin.000001", 4, store)
    assert (first.file, first.position) == (named.file, named.position)
    store.close()


def test_the_gtid_position_at_each_place_is_the_servers(relay_dir: Path) -> None:
    """A replica asks for it when it goes on by file and position, also inside a transaction."""
    store, origin = BinlogStore(relay_dir / "relay-bin.index"), BinlogStore(DATA / "oracle" / "mariadb-row")
    for name in store.binlogs.names:
        for file, position, _, _ in steps(relay_dir / name):
            assert gtid_position(store, file, position) == gtid_position(origin, file, position)
    store.close()
    origin.close()


def test_a_dump_goes_on_inside_a_transaction(relay_dir: Path) -> None:
    known = [step for step in steps(relay_dir / "relay-bin.000002") if step[3]]
    inside = next(k for k, step in enumerate(known) if step[3][4] == EventType.TABLE_MAP)
    file, position, _, _ = known[inside]
    with (
        serving(relay_dir / "relay-bin.index") as served,
        served.connect().greet(family="mariadb") as replica,
    ):
        replica.dump(file, position, flags=3)
        events = list(replica.events())
    ours = [event for event in events if not header(event).flags & LOG_EVENT_ARTIFICIAL_F]
    wanted = [step[3] for step in known[inside + 1 :]]
    in_file = {step[3] for step in known}
    # The others are stand-ins of dropped transactions, and those of later files.
    assert [event for event in ours if event in in_file] == wanted


@pytest.mark.parametrize("name", ["mysql-row", "mariadb-row"])
def test_gtids_from_before_the_newest_file_are_checked_without_a_scan(name: str) -> None:
    """The result is that of a scan, for each GTID that the source has and for some that it lacks."""
    files = [DATA / "oracle" / name / f"bin.00000{number}" for number in (1, 2)]
    scanned = BinlogStore(files)
    logged = scanned.logged()
    assert logged is not None
    if logged.gtids.family == "mysql":
        ((key, _, newest),) = logged.gtids
        own = str(uuids.UUID(bytes=key[0]))
        texts = ["", f"{uuids.UUID(int=5)}:1-9", *(f"{own}:1-{number}" for number in range(1, newest + 3))]
    else:
        own = ""
        places = [
            (server, number) for (_, server), last in logged.last.items() for number in range(1, last + 3)
        ]
        texts = ["", "7-1-9", *(f"0-{server}-{number}" for server, number in places)]
    without_scan = set()
    for text in texts:
        have = parse_gtid_set(text, scanned.family)
        store, before = BinlogStore(files), MEASURED.scanned_bytes
        found = logged_for(store, have)
        assert found is not None
        without_scan |= {text} if MEASURED.scanned_bytes == before else set()
        assert str(ahead_of(Wanted(have), found, own)) == str(ahead_of(Wanted(have), logged, own))
        store.close()
    scanned.close()
    assert without_scan == set(texts[:1] + texts[2 : len(without_scan) + 1])
    assert 1 < len(without_scan) < len(texts) - 3


@pytest.mark.parametrize("name", ["mysql-row", "mariadb-row"])
def test_a_file_that_does_not_tell_its_gtids_yet_is_no_start(name: str, tmp_path: Path) -> None:
    """The newest file names all earlier GTIDs, but is being written. A slave that has nothing would lose everything."""
    shutil.copytree(DATA / "oracle" / name, tmp_path / "set")
    store = BinlogStore(tmp_path / "set")
    names, family = store.binlogs.names, store.family
    newest = store.binlogs.path(names[-1])
    os.truncate(newest, store.open_file(names[-1]).file.begin.end + 5)
    store.close()
    store = BinlogStore(tmp_path / "set")
    assert _file_for(parse_gtid_set("", family=family), store) == names[0]
    store.close()


@pytest.mark.parametrize(
    ("file", "offset", "later"),
    [
        ("bin.999999", 5, True),
        ("bin.999999", 4, False),
        ("bin.0999999", 4, False),
        ("bin.1000000", 4, True),
        ("bin.99999", 5, False),
        ("bin." + "9" * 5000, 4, True),
        ("other.1000000", 4, False),
        ("bin.x", 5, False),
    ],
)
def test_places_are_compared_by_the_number_of_the_file(file: str, offset: int, later: bool) -> None:
    assert is_later((file, offset), ("bin.999999", 4)) == later


def test_slaves_that_wait_for_the_source_share_a_question(
    server: MasterServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The running question began before the slaves came, and may miss what they have. They share the next one."""
    asked: list[str] = []
    answers = threading.Event()

    def upstream() -> Logged:
        asked.append(threading.current_thread().name)
        answers.wait(20)
        raise ConnectionLost("the source cannot be reached")

    async def serve(function: Callable[[], object]) -> object:
        return function()

    monkeypatch.setattr(dump_start, "LONGEST_WAIT", 0.0)
    monkeypatch.setattr(server.reader.store, "upstream", upstream)
    # Each slave then comes to its question in its first turn of the loop.
    monkeypatch.setattr(server.reader, "serve", serve)
    own = server.service.master_uuid
    wanted = Wanted(parse_gtid_set(f"{own}:1-999999"))

    async def check() -> list[BaseException | None]:
        first = asyncio.create_task(check_place(wanted, server.reader, own))
        while not asked:
            await asyncio.sleep(0.001)
        others = [asyncio.create_task(check_place(wanted, server.reader, own)) for _ in range(50)]
        await asyncio.sleep(0)
        others.pop().cancel()
        # Logins use the same threads.
        await asyncio.to_thread(answers.set)
        return await asyncio.gather(first, *others, return_exceptions=True)

    refusals = server.loop.wait(check())
    assert len(refusals) == 50
    assert all(isinstance(refusal, BinlogUnreadable) and refusal.momentary for refusal in refusals)
    assert len(asked) == 2


def test_a_dropped_transaction_is_no_hole_of_a_relay_log(tmp_path: Path) -> None:
    """The slave that serves the relay log has Gap events in place of the transactions that its filter drops."""
    receive("mariadb-row", tmp_path, ["--replicate-do-db=shop"])
    store = BinlogStore(tmp_path / "relay-bin.index")
    for number in range(1, 75):
        have = parse_gtid_set(f"0-11-{number}", "mariadb")
        check_no_hole(have, start_after(have, store).file, store)
    store.close()


def test_another_process_adds_and_purges_files(tmp_path: Path) -> None:
    for name in ("bin.000001", "bin.000002"):
        shutil.copy(DATA / "oracle/mysql-row" / name, tmp_path)
    index = tmp_path / "bin.index"
    index.write_text("bin.000001\n")
    store = BinlogStore(index)
    assert start_by_position("", 4, store) == start_by_position("bin.000001", 4, store)
    wanted = Wanted(None, "bin.000002", 4)
    assert _ahead(wanted, store, "") is not None
    index.write_text("bin.000001\nbin.000002\n")
    assert _ahead(wanted, store, "") is None
    assert start_after(empty_set("mysql"), store).file == "bin.000001"
    index.write_text("bin.000002\n")
    with pytest.raises(PositionError):
        start_after(empty_set("mysql"), store)
    store.close()


def test_a_replica_may_have_the_gtid_before_the_first_of_the_binlog(tmp_path: Path) -> None:
    """The first binlog of a restored server begins in the middle of a domain."""
    builder = _Builder(next(dialect for dialect in DIALECTS if dialect.family == "mariadb"))
    builder.add(EventType.GTID_LIST, bytes(4))
    for number in (5, 6):
        builder.add(EventType.MARIADB_GTID, struct.pack("<QIB6x", number, 0, 0))
        builder.add(EventType.XID, bytes(8))
    (tmp_path / "bin.000001").write_bytes(builder.data)
    store = BinlogStore(tmp_path / "bin.000001")
    wanted = {number: Wanted(parse_gtid_set(f"0-99-{number}", "mariadb")) for number in (3, 4, 5)}
    assert [number for number, one in wanted.items() if _ahead(one, store, "") is None] == [4]
    store.close()


@pytest.mark.parametrize("lost", [False, True])
def test_a_domain_may_begin_with_any_number_before_a_crash(lost: bool, tmp_path: Path) -> None:
    """A session has set gtid_seq_no to 47000, and its server was killed, so that the file has no Rotate event."""
    made = [(5, 0), (47000, 6), *([] if lost else [(47001, 6)])]
    heads = (), (MariadbGtid(0, 11, 5), MariadbGtid(6, 11, 47001))
    for name, gtids, head in zip(("bin.000001", "bin.000002"), (made, ()), heads, strict=True):
        builder = _Builder(next(dialect for dialect in DIALECTS if dialect.family == "mariadb"))
        builder.add(EventType.GTID_LIST, encode_gtid_list(GtidList(head)))
        for number, domain in gtids:
            builder.add(EventType.MARIADB_GTID, struct.pack("<QIB6x", number, domain, 0))
            builder.add(EventType.XID, bytes(8))
        (tmp_path / name).write_bytes(builder.data)
    (tmp_path / "bin.index").write_text("bin.000001\nbin.000002\n")
    store = BinlogStore(tmp_path / "bin.index")
    first = store.open_file("bin.000001")
    first.prepared_at_end()
    if lost:
        with pytest.raises(BinlogTruncated, match="ends before 6-11-47001, which"):
            store.file_following(first)
    else:
        assert store.file_following(first) == "bin.000002"
    store.close()

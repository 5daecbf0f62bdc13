"""The binlog store: one index for all, files that grow, files that are damaged."""

from __future__ import annotations

import math
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

import pytest

from dumpfilter.base.errors import (
    BinlogCorrupt,
    BinlogMissing,
    BinlogReplaced,
    BinlogTruncated,
    PositionError,
)
from dumpfilter.base.files import committed
from dumpfilter.binlog.events import MAGIC, EventHeader, EventType
from dumpfilter.binlog.workload import generate
from dumpfilter.binlog.writer import make_event
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.scanner import SEGMENT_SIZE
from dumpfilter.master import indexed_file
from dumpfilter.master import store as store_module
from dumpfilter.master.measurements import MEASURED
from dumpfilter.master.store import BinlogStore, Watcher
from tests.strategies import DIALECTS, query_body

ORACLE = Path(__file__).parents[1] / "oracle" / "data" / "oracle"


def next_file(store: BinlogStore, name: str, position: int | None = None) -> str | None:
    """Return the file after a file that has been read up to a position, by default to where it has been scanned."""
    return store.file_following(store.open_file(name), position)


def walk(store: BinlogStore) -> list[int]:
    """Offsets of all events, file by file, through segment_at."""
    offsets: list[int] = []
    name: str | None = store.binlogs.names[0]
    while name is not None:
        for segment in store.segments(name):
            offsets += segment.offset.tolist()
        name = next_file(store, name)
    return offsets


def copy_set(recording: str, to: Path) -> Path:
    shutil.copytree(ORACLE / recording, to)
    return to / "bin.index"


@pytest.mark.parametrize("recording", ["mysql-row", "mariadb-mixed"])
def test_a_dropped_segment_is_scanned_again_to_the_same(recording: str) -> None:
    roomy = BinlogStore(ORACLE / recording)
    cramped = BinlogStore(ORACLE / recording, cache_bytes=1)
    first = walk(roomy)
    assert walk(cramped) == first
    assert walk(cramped) == first
    assert cramped.cache_state().entries == 1
    assert roomy.cache_state().entries == 3


def test_a_segment_after_a_second_format_description_is_scanned_again(tmp_path: Path) -> None:
    """The second format description event of a server's relay log tells how the events after it are read."""
    with_crc, without = (dialect for dialect in DIALECTS if dialect.gtids == "anonymous")
    event = make_event(EventType.QUERY, query_body(b"DROP TABLE t"), timestamp=9)
    path = tmp_path / "relay.000001"
    path.write_bytes(MAGIC + without.format_description() + with_crc.format_description() + event)
    store = BinlogStore(path, cache_bytes=1)
    walked = [[segment.subject.tolist() for segment in store.segments(path.name)] for _ in range(3)]
    assert len(walked[0]) == 2
    assert walked[1:] == walked[:1] * 2


def test_every_byte_is_scanned_once_for_all_slaves() -> None:
    store, before = BinlogStore(ORACLE / "mysql-row"), MEASURED.scanned_bytes
    for _ in range(3):
        walk(store)
    sizes = sum((ORACLE / "mysql-row" / name).stat().st_size for name in store.binlogs.names)
    heads = sum(store.first_position(name) for name in store.binlogs.names)
    assert MEASURED.scanned_bytes - before == sizes - heads


def scanned() -> tuple[int, int]:
    return MEASURED.scanned_bytes, MEASURED.scanned_events


def test_the_growth_of_a_small_segment_is_counted(tmp_path: Path) -> None:
    """The store scans a small last segment again together with the events that follow it."""
    whole = (ORACLE / "mysql-row" / "bin.000002").read_bytes()
    counts = [scanned()]
    walk(BinlogStore(ORACLE / "mysql-row" / "bin.000002"))
    counts.append(scanned())
    path = tmp_path / "bin.000002"
    path.write_bytes(whole[:5000])
    growing = BinlogStore(path)
    for size in (5000, 9000, 9001, 20_000, len(whole)):
        path.write_bytes(whole[:size])
        walk(growing)
    counts.append(scanned())
    fixed, grown = ((after[0] - before[0], after[1] - before[1]) for before, after in pairwise(counts))
    assert grown == fixed


def test_a_file_that_grows_a_byte_at_a_time_gives_whole_transactions(tmp_path: Path) -> None:
    whole = (ORACLE / "mysql-row" / "bin.000002").read_bytes()
    expected = walk(BinlogStore(ORACLE / "mysql-row" / "bin.000002"))
    path = tmp_path / "bin.000001"
    head = 4 + EventHeader.unpack(whole, 4).size
    in_use = bytearray(whole)
    in_use[21] |= 1
    path.write_bytes(in_use[:head])
    (tmp_path / "bin.index").write_text("./bin.000001\n")
    store = BinlogStore(tmp_path)
    seen: list[int] = []
    position = store.first_position("bin.000001")
    with open(path, "ab") as file:
        for at in range(head, len(whole), 7):
            file.write(in_use[at : at + 7])
            file.flush()
            segment = store.segment_at("bin.000001", position)
            if segment is not None:
                assert not segment.open
                assert segment.transaction_at(position) is not None
                seen += segment.offset[segment.offset >= position].tolist()
                position = segment.end
            store.open_file("bin.000001").check_end(last=True)
    assert seen == expected
    # A transaction at a time must not become a segment a transaction.
    assert len(store.open_file("bin.000001")._places) <= math.log2(len(whole))


def test_rotation_is_followed(tmp_path: Path) -> None:
    copy_set("mysql-row", tmp_path / "set")
    index = tmp_path / "set" / "bin.index"
    index.write_text("./bin.000001\n")
    store = BinlogStore(index)
    assert walk(store)
    assert next_file(store, "bin.000001") is None
    index.write_text("./bin.000001\n./bin.000002\n./bin.000003\n")
    assert next_file(store, "bin.000001") == "bin.000002"
    assert next_file(store, "bin.000002") is None  # not read to its end yet
    assert next_file(store, "bin.000002") == "bin.000003"


def test_who_is_behind_does_not_skip_what_another_has_scanned(tmp_path: Path) -> None:
    """The end of a file is where a reader has got to, not where anybody has."""
    store = BinlogStore(copy_set("mysql-row", tmp_path / "set"))
    first = position = store.first_position("bin.000001")
    while (segment := store.segment_at("bin.000001", position)) is not None:  # somebody else's reading
        position = segment.end
    assert next_file(store, "bin.000001", first) is None
    assert next_file(store, "bin.000001", position) == "bin.000002"


def test_an_index_that_is_gone_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    """MySQL replaces its index by deleting it and renaming the new one."""
    index = copy_set("mysql-row", tmp_path / "set")
    text = index.read_text()
    index.write_text("./bin.000001\n")
    store = BinlogStore(index)
    assert walk(store)
    index.unlink()
    assert next_file(store, "bin.000001") is None
    index.write_text("")
    assert next_file(store, "bin.000001") is None
    index.write_text(text)
    assert next_file(store, "bin.000001") == "bin.000002"


def test_a_set_that_begins_anew_after_a_look_at_its_index_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = BinlogStore(generate(tmp_path, 50_000).index)
    (name,) = store.binlogs.names
    indexed, data, size = store.open_file(name), (tmp_path / name).read_bytes(), BinlogSet.size

    def begun_anew(binlogs: BinlogSet, asked: str) -> int:
        (tmp_path / "other.000001").write_bytes(data)
        (tmp_path / "bin.index").write_text("./other.000001\n")
        (tmp_path / name).unlink(missing_ok=True)
        return size(binlogs, asked)

    monkeypatch.setattr(BinlogSet, "size", begun_anew)
    with pytest.raises(BinlogMissing, match=f"{name}: .*no longer has this file nor a later one"):
        store.file_following(indexed)
    store.close()


def test_a_flipped_byte_is_named_with_file_and_position(tmp_path: Path) -> None:
    index = copy_set("mysql-row", tmp_path / "set")
    path = tmp_path / "set" / "bin.000002"
    data = bytearray(path.read_bytes())
    data[5000] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(BinlogCorrupt) as caught:
        walk(BinlogStore(index))
    assert caught.value.file == "bin.000002"
    at = caught.value.position
    assert at <= 5000 < at + EventHeader.unpack(bytes(data), at).size


def test_what_is_whole_before_the_damage_is_given_first(tmp_path: Path) -> None:
    path = tmp_path / "bin.000001"
    data = bytearray((ORACLE / "mysql-row" / "bin.000002").read_bytes())
    data[5000] ^= 0x10
    path.write_bytes(data)
    store = BinlogStore(path)
    segment = store.segment_at("bin.000001", store.first_position("bin.000001"))
    assert segment is not None
    assert 3000 < segment.end <= 5000
    with pytest.raises(BinlogCorrupt):
        store.segment_at("bin.000001", segment.end)


def test_a_file_without_its_last_transactions_is_noticed_by_the_next_file(tmp_path: Path) -> None:
    """Cut exactly between two transactions: only the next file's Previous_gtids can tell."""
    index = copy_set("mysql-row", tmp_path / "set")
    path = tmp_path / "set" / "bin.000001"
    store = BinlogStore(index)
    segment = store.segment_at("bin.000001", store.first_position("bin.000001"))
    cut = int(segment.offset[segment.txn_event[-3]])
    store.close()
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(BinlogTruncated) as caught:
        walk(BinlogStore(index))
    assert caught.value.file == "bin.000001"
    assert "bin.000002" in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    index = copy_set("mysql-row", tmp_path / "set")
    (tmp_path / "set" / "bin.000002").unlink()
    with pytest.raises(BinlogMissing, match=r"bin\.000002"):
        walk(BinlogStore(index))


def test_a_position_past_the_end_is_refused() -> None:
    store = BinlogStore(ORACLE / "mysql-row")
    with pytest.raises(PositionError, match="past the end"):
        store.segment_at("bin.000001", 10_000_000)


def test_the_watcher_tells_growth_and_looks_only_once_somebody_waits(
    wait_for: Callable[[Callable[[], object]], None],
) -> None:
    value, looks = [0], [0]

    def look() -> int:
        looks[0] += 1
        return value[0]

    watcher = Watcher(look)
    told: list[int] = []
    watcher.listener = lambda: told.append(watcher.generation)
    try:
        assert not looks[0]
        watcher.start()
        wait_for(lambda: told == [1])  # its first look is news
        before = looks[0]
        wait_for(lambda: looks[0] > before + 2)
        assert told == [1]
        value[0] = 1
        wait_for(lambda: told == [1, 2])
        value[0] = 2
        wait_for(lambda: told == [1, 2, 3])
    finally:
        watcher.close()


def test_the_watcher_is_told_of_growth_by_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_for: Callable[[Callable[[], object]], None]
) -> None:
    """The interval between looks that nothing caused is so long here that the test would not end without inotify."""
    monkeypatch.setattr(store_module, "_UNTOLD_INTERVAL", 1e6)
    binlog, index = tmp_path / "bin.000001", tmp_path / "bin.index"
    binlog.write_bytes((ORACLE / "mysql-row" / "bin.000001").read_bytes())
    index.write_text("./bin.000001\n")
    store = BinlogStore(index)
    told: list[int] = []
    store.watcher.listener = lambda: told.append(store.watcher.generation)
    try:
        store.watcher.start()
        wait_for(lambda: told == [1])
        with binlog.open("ab") as file:
            file.write(b"x")
        wait_for(lambda: told == [1, 2])
        with committed(index) as file:
            file.write(b"./bin.000001\n\n")
        wait_for(lambda: told == [1, 2, 3])
        # The new file at the path of the index is watched, too.
        with index.open("ab") as file:
            file.write(b"\n")
        wait_for(lambda: told == [1, 2, 3, 4])
    finally:
        store.close()
        os.utime(binlog, (0, 0))


def test_without_inotify_the_watcher_looks_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_for: Callable[[Callable[[], object]], None]
) -> None:
    def without_inotify() -> None:
        raise OSError("too many instances")

    monkeypatch.setattr(store_module, "FileChanges", without_inotify)
    path = tmp_path / "bin.000001"
    path.write_bytes(b"")
    watcher = Watcher(lambda: path.stat().st_size, lambda: [path])
    try:
        watcher.start()
        wait_for(lambda: watcher.generation == 1)
        path.write_bytes(b"x")
        wait_for(lambda: watcher.generation == 2)
    finally:
        watcher.close()


def test_a_watcher_without_a_thread_begins_when_the_next_dump_waits(
    monkeypatch: pytest.MonkeyPatch, wait_for: Callable[[Callable[[], object]], None]
) -> None:
    def without_threads(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    watcher = Watcher(lambda: 0)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", without_threads)
        watcher.start()
    try:
        watcher.start()
        wait_for(lambda: watcher.generation == 1)
    finally:
        watcher.close()


def test_a_watcher_tells_of_files_that_cannot_be_looked_at(
    wait_for: Callable[[Callable[[], object]], None],
) -> None:
    def look() -> int:
        raise OSError("purged")

    watcher = Watcher(look)
    try:
        watcher.start()
        wait_for(lambda: watcher.generation == 1)
    finally:
        watcher.close()


@pytest.mark.parametrize("read", [lambda binlogs: binlogs.paths, BinlogSet.growing])
def test_the_paths_are_those_before_or_after_a_refresh_by_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[BinlogSet], Iterable[object]]
) -> None:
    """The watcher's thread asks for them. An error in this thread would leave all dumps waiting."""
    index = tmp_path / "bin.index"
    index.write_text("./bin.000001\n./bin.000002\n")
    for number in (1, 2, 3):
        (tmp_path / f"bin.00000{number}").write_bytes(b"")
    binlogs = BinlogSet.open(index)

    def refreshed(binlogs: BinlogSet, name: str) -> Path:
        index.write_text("./bin.000003\n")
        binlogs.refresh()
        return path_of(binlogs, name)

    path_of = BinlogSet.path
    monkeypatch.setattr(BinlogSet, "path", refreshed)
    assert read(binlogs)


def test_memory_does_not_grow_with_the_number_of_files(tmp_path: Path) -> None:
    """A file that was read to its end keeps no buffers."""
    data = (ORACLE / "mysql-row" / "bin.000001").read_bytes()
    names = [f"bin.{n:06}" for n in range(1, 21)]
    for name in names:
        (tmp_path / name).write_bytes(data)
    (tmp_path / "bin.index").write_text("".join(f"./{name}\n" for name in names))
    store = BinlogStore(tmp_path)
    first = walk(store)
    held = [store.open_file(name)._reader._buffer.size for name in names]
    assert not any(held[:-1])
    assert walk(store) == first


def test_a_file_that_is_overwritten_while_it_is_scanned_is_named_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(ORACLE / "mysql-row" / "bin.000001", tmp_path / "bin.000001")
    (tmp_path / "bin.index").write_text("./bin.000001\n")
    store = BinlogStore(tmp_path)
    indexed = store.open_file("bin.000001")
    while store.segment_of(indexed, indexed.scanned_to) is not None:
        pass

    def overwritten() -> None:
        """Fail as a scan fails that began in the old file and meets the other file's bytes."""
        with (tmp_path / "bin.000001").open("r+b") as file:
            file.write((ORACLE / "mysql-mixed" / "bin.000001").read_bytes()[:200])
        raise BinlogCorrupt("an event's length is 3275358208", file="bin.000001", position=4)

    with (tmp_path / "bin.000001").open("ab") as file:
        file.write(bytes(100))
    monkeypatch.setattr(indexed._reader, "next", overwritten)
    with pytest.raises(BinlogReplaced):
        store.segment_of(indexed, indexed.scanned_to)
    store.close()


def test_small_segments_of_a_file_that_this_process_writes_are_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each commit is scanned alone when it comes, and again together with its neighbours after a while."""
    monkeypatch.setattr(indexed_file, "_MERGED_TOGETHER", 4)
    name = "bin.000001"
    data = (ORACLE / "mysql-row" / name).read_bytes()
    whole = BinlogStore(ORACLE / "mysql-row")
    segment = whole.segment_at(name, whole.first_position(name))
    assert segment is not None
    ends = segment.offset[segment.txn_event[1:-1]].tolist()
    assert len(ends) > 30
    whole.close()
    path = tmp_path / name
    path.write_bytes(data[: ends[0]])
    (tmp_path / "bin.index").write_text(f"./{name}\n")
    store, before = BinlogStore(tmp_path), MEASURED.scanned_bytes
    store.watcher.follow_writer()
    assert store.segment_at(name, store.first_position(name)) is not None
    for begin, end in pairwise(ends):
        with path.open("ab") as file:
            file.write(data[begin:end])
        segment = store.segment_at(name, begin)
        assert segment is not None
        assert segment.end == end
    joined = store.cache_state().entries
    assert joined < len(ends) // 2
    found = list(store.segments(name))
    assert [one.end for one in found[:-1]] == [one.start for one in found[1:]]
    assert found[-1].end == ends[-1]
    assert MEASURED.scanned_bytes - before == ends[-1] - found[0].start
    store.close()


def test_a_segment_in_memory_is_found_while_another_thread_scans() -> None:
    name = "bin.000001"
    store = BinlogStore(ORACLE / "mysql-row")
    segment = store.segment_at(name, store.first_position(name))
    assert segment is not None
    indexed = store.open_file(name)
    with indexed._lock:
        assert indexed.segment_at(segment.start) is segment
    store.close()


def test_scanned_bytes_stay_in_memory_and_unchanged_while_a_dump_uses_them(tmp_path: Path) -> None:
    made = generate(tmp_path / "set", 10 * SEGMENT_SIZE, file_size=16 * SEGMENT_SIZE)
    content = made.files[0].read_bytes()
    for is_held in (False, True):
        store = BinlogStore(made.index)
        source, held, places = store.open_file(made.files[0].name), [], set()
        for segment in store.segments(source.name):
            window = source.recent(segment.start, segment.end)
            assert window is not None
            places.add(window.data.ctypes.data)
            if is_held:
                held.append(window)
        for data, offset in held:
            assert data.tobytes() == content[offset : offset + len(data)]
        # Memory that nobody uses serves again, so that the system need not clear new pages.
        assert (len(places) < 7) != is_held
        assert len(held) >= 10 * is_held

"""The master's state directory: what is saved is loaded, a damaged file costs its content only, and saving goes on."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dumpfilter.base import files, state_file
from dumpfilter.base.errors import DirectoryBusy, OptionError
from dumpfilter.base.state_file import checksum
from dumpfilter.dump.chunk import Counts
from dumpfilter.filter.rules import FilterClause, FilterSemantics, RuleKind, make_rule
from dumpfilter.master.config import ReplicaEntry
from dumpfilter.master.process import COUNTERS, DRAINS, FORMAT, StateDirectory
from dumpfilter.master.register import CounterBook, SlaveCounts
from dumpfilter.master.replica_filters import ChangedFilter, ReplicaFilters
from dumpfilter.master.who import MYSQL_PROTOCOL, SHUTTING_DOWN, Drain, Drains, Peer, Who
from tests.master.replicas.entries import filters_of
from tests.master.replicas.serving import entry

RECORDS = [
    SlaveCounts(
        Peer(
            "répl",
            'ch\n"1',
            101,
            "ipv4:10.0.0.7:5000",
            "5a8b8d0a-e543-11f1-9c8d-02fc00000007",
            "db7.example",
            3306,
            MYSQL_PROTOCOL,
            "libmysql 8.4",
        ),
        3,
        1_700_000_000.25,
        1_700_000_100.5,
        Counts(*range(1, 11)),
        "bin.000042",
        4711,
        is_done=True,
    ),
    SlaveCounts(Peer(uuid="b"), counts=Counts(bytes_read=2**62), first_seen_at=1.0, last_seen_at=2.0),
]
SAVED_FILTERS = [
    ChangedFilter(
        Who(frozenset(["r\u00e9pl"]), "c", frozenset([7, 8]), (ipaddress.ip_network("10.0.0.0/8"),)),
        FilterSemantics.CLASSIC,
        ("--replicate-do-db=a",),
        (),
        1_700_000_000.5,
    ),
    ChangedFilter(Who.of(user="r"), FilterSemantics.EFFECTIVE, (), ("--ignore=a.%",), 2.0),
]
SAVED_DRAINS = [
    Drain(Who.of("ch1", server_id=101), "until \x1b noon", 1_700_000_000.5),
    Drain(Who(), "all", 2.0),
]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    directory = StateDirectory(tmp_path / "state")
    directory.counters.save(RECORDS)
    directory.drains.save(SAVED_DRAINS)
    directory.filters.save(SAVED_FILTERS)
    directory.close()
    return tmp_path / "state"


def test_what_is_saved_is_loaded(saved: Path) -> None:
    directory = StateDirectory(saved)
    assert directory.counters.load() == RECORDS
    assert directory.drains.load() == SAVED_DRAINS
    assert directory.filters.load() == SAVED_FILTERS
    assert [oct(path.stat().st_mode & 0o777) for path in (saved, saved / COUNTERS)] == ["0o750", "0o640"]
    directory.close()


def test_of_too_many_entries_the_newest_are_kept(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    directory.counters.save([SlaveCounts(Peer(uuid=str(n)), last_seen_at=float(n)) for n in range(10_001)])
    assert min(one.last_seen_at for one in CounterBook(directory.counters.load()).records()) == 1
    directory.close()


def test_an_empty_directory_has_nothing(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path / "a" / "b")
    with capture_logs() as logs:
        assert not directory.counters.load()
        assert not directory.drains.load()
        assert not directory.filters.load()
    assert not logs
    directory.close()


def test_the_drain_of_a_master_that_ends_is_not_saved(tmp_path: Path) -> None:
    directory, drains = StateDirectory(tmp_path), Drains()
    directory.keep(CounterBook(), drains)
    drains.drain(Who.of(server_id=7))
    drains.drain(Who(), SHUTTING_DOWN)
    assert [drain.who for drain in directory.drains.load()] == [Who.of(server_id=7)]
    directory.close()


def edited(change: Callable[[dict[str, object]], object]) -> Callable[[bytes], bytes]:
    """Return a damage that edits a file and makes its checksum fit."""

    def damage(data: bytes) -> bytes:
        document = json.loads(data)
        change(document)
        members = {name: value for name, value in document.items() if name not in ("kind", "format", "crc32")}
        document["crc32"] = checksum(COUNTERS, FORMAT.version, members)
        return json.dumps(document).encode()

    return damage


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "no JSON"),
    "cut": (lambda data: data[: len(data) // 2], "no JSON"),
    "flipped": (lambda data: data.replace(b"101", b"102"), "crc32"),
    "no object": (lambda data: b"[1]", "is not a slave-counters.json file of dumpfilter"),
    "deep": (lambda data: b"[" * 200_000, "no JSON"),
    "bytes": (lambda data: bytes(range(256)), "no JSON"),
    "newer": (edited(lambda document: document.update(format=3)), "has format 3"),
    "negative": (edited(lambda document: document["entries"][0].update(dumps=-1)), "entries.0.dumps"),  # type: ignore[index]
    "wrong type": (edited(lambda document: document.update(entries={})), "entries"),
    "unknown member": (edited(lambda document: document.update(more=1)), "more"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_costs_its_content_only(saved: Path, name: str) -> None:
    damage, reason = DAMAGES[name]
    path = saved / COUNTERS
    bad = damage(path.read_bytes())
    path.write_bytes(bad)
    directory = StateDirectory(saved)
    with capture_logs() as logs:
        assert directory.counters.load() == []
    (line,) = logs
    assert (line["event"], line["log_level"], line["file"]) == (
        "state file cannot be used",
        "warning",
        str(path),
    )
    assert reason in line["reason"]
    assert (saved / f"{COUNTERS}.unusable").read_bytes() == bad
    assert directory.drains.load() == SAVED_DRAINS
    directory.counters.save(RECORDS)
    assert directory.counters.load() == RECORDS
    directory.close()


def test_a_file_that_is_a_directory_or_too_large(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_file, "_LARGEST", 100)
    (saved / DRAINS).unlink()
    (saved / DRAINS).mkdir()
    directory = StateDirectory(saved)
    with capture_logs() as logs:
        assert not directory.counters.load()
        assert not directory.drains.load()
    assert [line["reason"] for line in logs] == ["is larger than 0 MiB", "cannot be read: Is a directory"]
    directory.close()


def test_two_masters_never_share_a_directory(saved: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from dumpfilter.master.process import StateDirectory\n"
        "StateDirectory(Path(sys.argv[1])); print('locked', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(saved)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"locked\n"
    with pytest.raises(DirectoryBusy, match="another master keeps its state here"):
        StateDirectory(saved)
    other.communicate()
    StateDirectory(saved).close()


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match=r"--state-dir=.*file/x: cannot be used: Not a directory; name"):
        StateDirectory(tmp_path / "file" / "x")


def counted(book: CounterBook, name: str = "a") -> None:
    peer = Peer(uuid=name)
    record = book.begin_dump(book.record(peer), peer)
    book.add(record, "", 0, Counts(events_read=1, events_sent=1))


def test_a_keeper_saves_changes_and_at_the_end(
    tmp_path: Path, wait_for: Callable[[Callable[[], object]], None]
) -> None:
    directory, book, drains = StateDirectory(tmp_path), CounterBook(), Drains()
    directory.keep(book, drains, seconds=0.01)
    counted(book)
    wait_for((tmp_path / COUNTERS).exists)
    drains.drain(Who.of(server_id=7))
    assert [drain.who.by[1] for drain in directory.drains.load()] == ["7"]
    directory.close()
    directory = StateDirectory(tmp_path)
    counted(book)
    directory.keep(book, drains, seconds=3600)
    counted(book)
    directory.close()
    directory = StateDirectory(tmp_path)
    assert directory.counters.load()[0].counts.events_read == 3
    before = (tmp_path / COUNTERS).stat().st_mtime_ns
    directory.keep(book, drains)
    directory.close()
    assert (tmp_path / COUNTERS).stat().st_mtime_ns == before


def test_the_name_of_a_binlog_file_that_is_not_utf8_stops_no_save(tmp_path: Path) -> None:
    directory, book = StateDirectory(tmp_path), CounterBook()
    directory.keep(book, Drains(), seconds=3600)
    record = book.begin_dump(book.record(Peer()), Peer())
    book.add(record, "caf\udce9.000001", 4, Counts(events_read=1, events_sent=1))
    directory.close()
    (found,) = StateDirectory(tmp_path).counters.load()
    assert (found.file, found.position) == ("caf?.000001", 4)


def test_a_full_disk_is_told_once_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_for: Callable[[Callable[[], object]], None]
) -> None:
    directory, book = StateDirectory(tmp_path), CounterBook()
    tries: list[int] = []

    def full(descriptor: int) -> None:
        tries.append(descriptor)
        raise OSError(28, "No space left on device")

    with capture_logs() as logs:
        with monkeypatch.context() as patch:
            patch.setattr(files.os, "fdatasync", full)
            directory.keep(book, Drains(), seconds=0.01)
            counted(book)
            wait_for(lambda: len(tries) > 3)
        wait_for(lambda: any(line["event"] == "state saved again" for line in logs))
        directory.close()
    assert [line["event"] for line in logs] == ["state not saved", "state saved again"]
    assert "No space left on device" in logs[0]["reason"]
    assert sorted(os.listdir(tmp_path)) == ["master.lock", COUNTERS]


def test_a_filter_that_was_changed_on_the_console_outlives_the_master(tmp_path: Path) -> None:
    def run(entries: list[ReplicaEntry]) -> tuple[StateDirectory, ReplicaFilters]:
        keeper = StateDirectory(tmp_path)
        keeper.keep(CounterBook(), Drains())
        filters = filters_of(entries)
        keeper.keep_filters(filters)
        return keeper, filters

    mine = entry("r", ["--replicate-do-db=a"])
    keeper, filters = run([mine])
    filters.change("r", [FilterClause(RuleKind.DO_DB, (make_rule(RuleKind.DO_DB, "b"),))])
    (changed,) = filters.entries
    assert changed != mine
    # The master is killed.
    keeper._stop.set()
    keeper._lock.release()
    keeper, filters = run([mine])
    assert filters.entries == (changed,)
    keeper.close()
    other = entry("r", ["--replicate-do-db=c"])
    keeper, filters = run([other])
    assert filters.entries == (other,)
    keeper.close()

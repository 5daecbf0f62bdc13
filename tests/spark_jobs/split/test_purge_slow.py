"""Purge of one output of a split: the files that go, the files that stay, and the result of a kill at any step."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import grpc
import pytest

from dumpfilter.analyse.split_set import BinlogPart, Manifest, NamedBinlog
from dumpfilter.base.errors import OptionError, OutputError
from dumpfilter.base.files import locked
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.index.fileset import BinlogSet, SegmentReader
from dumpfilter.index.subjects import Subjects
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.spark_jobs.split.job import SplitOptions, split
from dumpfilter.spark_jobs.split.purge import Purged, _going, purge_split
from tests.commands.in_process import run
from tests.master.client import Client
from tests.spark_jobs.here import Made, shuffled, split_here
from tests.spark_jobs.walking import ORACLE

SOURCE = ORACLE / "mysql-row" / "bin.index"
OPTIONS = SplitOptions(max_binlog_size=1200)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Split a recording into several files for each output."""
    return split_here(SOURCE, tmp_path_factory.mktemp("split") / "parts", OPTIONS).directory


@pytest.fixture
def parts(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "parts"))


def shop(directory: Path) -> NamedBinlog:
    return Manifest.load(directory).binlog("shop")


def check(directory: Path, others: dict[str, bytes]) -> None:
    """Check the shop's files against the manifest, and that all other outputs are unchanged."""
    present = [part.name for part in shop(directory).present]
    assert BinlogSet.open(directory / "shop-bin.index").names == present
    assert sorted(path.name for path in directory.glob("shop-bin.0*")) == present
    assert contents(directory) == others
    assert not [path for path in directory.iterdir() if path.name.startswith(".") or "purge" in path.name]


def contents(directory: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in directory.glob("*-bin.*")
        if not path.name.startswith("shop-bin.")
    }


def test_there_is_something_to_purge(parts: Path) -> None:
    assert len(shop(parts).parts) >= 4
    assert [part.purged for part in shop(parts).parts] == [None] * len(shop(parts).parts)


def test_before_a_file(parts: Path) -> None:
    names, others = [part.name for part in shop(parts).parts], contents(parts)
    sizes = [part.size for part in shop(parts).parts]
    would = purge_split(parts, "shop", names[2], dry_run=True)
    check(parts, others)
    assert len(shop(parts).present) == len(names)
    found = purge_split(parts, "shop", names[2])
    assert (
        found
        == would
        == Purged(binlog="shop", files=tuple(names[:2]), bytes=sum(sizes[:2]), left=tuple(names[2:]))
    )
    check(parts, others)
    # A file that has been purged already is no error.
    for before in names[:3]:
        assert purge_split(parts, "shop", before).files == ()
    assert purge_split(parts, "shop", names[-1]).left == (names[-1],)
    check(parts, others)


@pytest.mark.parametrize("spelled", ["utc", "bare", "offset"])
def test_before_a_time(parts: Path, spelled: str) -> None:
    binlog, others = shop(parts), contents(parts)
    third = binlog.parts[2]
    assert third.last_time is not None
    at = datetime.fromtimestamp(third.last_time, UTC)
    texts = {
        "utc": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "bare": at.strftime("%Y-%m-%d %H:%M:%S"),
        "offset": at.astimezone(timezone(timedelta(hours=5, minutes=30))).isoformat(),
    }
    expected = []
    for part in binlog.parts:
        assert part.last_time is not None
        if part.last_time >= third.last_time:
            break
        expected.append(part.name)
    assert purge_split(parts, "shop", texts[spelled]).files == tuple(expected)
    check(parts, others)
    # The newest file stays.
    assert purge_split(parts, "shop", "2100-01-01").left == (binlog.parts[-1].name,)
    assert purge_split(parts, "shop", "2100-01-01").files == ()
    check(parts, others)


def test_before_a_place_in_the_source(parts: Path) -> None:
    binlog, others = shop(parts), contents(parts)
    end = binlog.parts[1].source_end
    assert purge_split(parts, "shop", f"{end.file}:{end.position - 1}").files == (binlog.parts[0].name,)
    assert purge_split(parts, "shop", f"{end.file}:{end.position}").files == (binlog.parts[1].name,)
    check(parts, others)


@pytest.mark.parametrize(
    ("directory", "binlog", "before", "kind", "said"),
    [
        ("", "shops", "2026-01-01", OutputError, "there is no binlog 'shops'; there are .*shop"),
        (
            "",
            "shop",
            "yesterday",
            OptionError,
            "'yesterday' is no file of shop .shop-bin.000001 to .*FILE:POS",
        ),
        ("", "shop", "2026-13-01", OptionError, "no date and time"),
        ("", "shop", "other.000001:4", OptionError, "no place"),
        pytest.param("", "shop", f"bin.000001:{'9' * 5000}", OptionError, "no place", id="many digits"),
        ("", "shop", "bin.000001", OptionError, "add a position, as in bin.000001:4"),
        ("..", "shop", "2026-01-01", OutputError, "no split was written here"),
        ("nowhere", "shop", "2026-01-01", OutputError, "nowhere: no split was written here"),
    ],
)
def test_errors(parts: Path, directory: str, binlog: str, before: str, kind: type, said: str) -> None:
    files = sorted(parts.iterdir())
    with pytest.raises(kind, match=said):
        purge_split(parts / directory, binlog, before)
    assert sorted(parts.iterdir()) == files


def test_a_purge_that_is_killed_at_any_step_leaves_a_valid_set(whole: Path, tmp_path: Path) -> None:
    """A child process ends before its first, second, third … call that changes a file."""
    steps = 0
    for step in range(1, 200):
        parts = Path(shutil.copytree(whole, tmp_path / str(step)))
        names, others = [part.name for part in shop(parts).parts], contents(parts)
        child = os.fork()
        if not child:
            left = [step]

            def dying(event: str, _: tuple[Any, ...], left: list[int] = left) -> None:
                if event in ("open", "os.rename", "os.remove"):
                    left[0] -= 1
                    if not left[0]:
                        os._exit(9)

            sys.addaudithook(dying)
            purge_split(parts, "shop", names[3])
            os._exit(0)
        _, status = os.waitpid(child, 0)
        # Every file that the index names exists and can be read.
        binlogs = BinlogSet.open(parts / "shop-bin.index")
        assert binlogs.names in (names, names[3:])
        for name in binlogs.names:
            with binlogs.file(name) as file:
                reader = SegmentReader(file, Subjects(), SourceNumbers())
                while reader.next() is not None:
                    pass
                reader.check_end(last=name == names[-1])
        assert contents(parts) == others
        if os.waitstatus_to_exitcode(status) == 0:
            check(parts, others)
            break
        assert os.waitstatus_to_exitcode(status) == 9
        steps += 1
        purge_split(parts, "shop", names[3])
        check(parts, others)
    assert steps >= 8


def test_the_same_split_again_finds_it_done(parts: Path) -> None:
    names = [part.name for part in shop(parts).parts]
    purge_split(parts, "shop", names[2])
    manifest, already = split(SOURCE, parts, shuffled, OPTIONS)
    assert already
    assert [part.name for part in manifest.binlog("shop").present] == names[2:]
    assert not (parts / names[0]).exists()


@pytest.mark.parametrize(
    "name", ["../victim", "victim", "/etc/passwd", "shop-bin.x", "../shop-bin.000001", "shop-bin.000001/.."]
)
def test_a_manifest_cannot_lead_out_of_its_directory(parts: Path, name: str) -> None:
    victim = parts.parent / "victim"
    victim.write_text("precious")
    manifest = json.loads((parts / "manifest.json").read_text())
    parts_of_shop = next(one for one in manifest["binlogs"] if one["name"] == "shop")["parts"]
    parts_of_shop[0]["name"] = name
    (parts / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(
        OutputError, match=r"is not a split's manifest: .* is no file name of the binlog 'shop'"
    ):
        purge_split(parts, "shop", "2100-01-01")
    assert victim.read_text() == "precious"


def test_a_planted_link_is_not_written_through(parts: Path) -> None:
    victim = parts.parent / "victim"
    victim.write_text("precious")
    for name in (".manifest.json.tmp", "shop-bin.index.purge"):
        (parts / name).symlink_to(victim)
    assert purge_split(parts, "shop", "2100-01-01").files
    assert victim.read_text() == "precious"


def test_two_at_once(parts: Path) -> None:
    import fcntl

    handle = os.open(parts, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(OutputError, match="a purge or a split is at work"):
        purge_split(parts, "shop", "2100-01-01")
    os.close(handle)
    assert len(purge_split(parts, "shop", "2100-01-01").files) > 1


def test_a_split_that_replaces_the_directory_waits_for_a_purge(
    parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The purge would otherwise delete files of the new split."""
    splits: list[Future[Made]] = []
    is_waiting = threading.Event()

    def locked_later(path: Path, busy: str, *, waits: bool = False) -> AbstractContextManager[int]:
        if waits:
            is_waiting.set()
        return locked(path, busy, waits=waits)

    def going_while_it_is_split_anew(*given: Any) -> list[BinlogPart]:
        found = _going(*given)
        splits.append(pool.submit(split_here, SOURCE, parts, SplitOptions(overwrite=True)))
        splits[0].add_done_callback(lambda _: is_waiting.set())
        is_waiting.wait()
        return found

    monkeypatch.setattr("dumpfilter.spark_jobs.split.job.locked", locked_later)
    monkeypatch.setattr("dumpfilter.spark_jobs.split.purge._going", going_while_it_is_split_anew)
    with ThreadPoolExecutor(1) as pool:
        purge_split(parts, "shop", shop(parts).parts[2].name)
    sizes = {part.name: part.size for one in splits[0].result().manifest.binlogs for part in one.parts}
    assert {path.name: path.stat().st_size for path in parts.glob("*-bin.0*")} == sizes


def test_a_disk_that_says_no(parts: Path) -> None:
    """A directory where the index file should be."""
    names = [part.name for part in shop(parts).parts]
    index = parts / "shop-bin.index"
    kept = index.read_bytes()
    index.unlink()
    index.mkdir()
    with pytest.raises(OutputError, match=r"shop-bin\.index: cannot be read: Is a directory"):
        purge_split(parts, "shop", names[2])
    assert (parts / names[0]).exists()
    index.rmdir()
    index.write_bytes(kept)
    found = purge_split(parts, "shop", names[2])
    assert found.files == ()
    assert not (parts / names[0]).exists()


def test_a_master_that_serves_it_goes_on(parts: Path) -> None:
    names = [part.name for part in shop(parts).parts]
    server = MasterServer(BinlogStore(parts / "shop-bin.index"))
    server.start()
    client = Client(server)
    try:
        before = b"".join(chunk.events for chunk in client.dump(client.register().slave_id))
        # A dump that is reading the first file reads it to its end.
        standing = client.dump(client.register(server_id=8).slave_id)
        begun = [next(standing)]
        purge_split(parts, "shop", names[2])
        rest = [*begun, *standing]
        assert b"".join(chunk.events for chunk in rest) == before
        # The next dump begins at the first file that is left.
        later = list(client.dump(client.register(server_id=9).slave_id))
        assert later[0].file == names[2]
        with pytest.raises(grpc.RpcError) as caught:
            list(
                client.dump(
                    client.register(server_id=10).slave_id, **{"from": {"file": names[0], "position": 4}}
                )
            )
        assert names[2] in caught.value.details()
    finally:
        client.channel.close()
        server.stop(0)


def test_the_commands(parts: Path) -> None:
    names = [part.name for part in shop(parts).parts]

    def said(*arguments: str) -> str:
        done = run(arguments[0], parts, "--binlog", "shop", *arguments[1:])
        assert done.returncode == 0, done.stderr
        return done.stdout

    dry = said("purge", "--before", names[2], "--dry-run")
    assert "would purge 2 files" in dry
    assert f"it would begin with {names[2]}\n" in dry
    assert json.loads(said("purge", "--before", names[2], "--json"))["files"] == names[:2]
    assert "nothing to purge" in said("purge", "--before", names[2])
    assert f"it begins with {names[3]} now" in said("purge", "--before", names[3])
    shown = json.loads(said("manifest", "--json"))
    assert [part["purged"] is None for part in shown["binlogs"][0]["parts"][:4]] == [
        False,
        False,
        False,
        True,
    ]
    table = said("manifest")
    assert f"{len(names) - 3} of {len(names)} files there" in table
    assert all(name in table for name in names)
    wrong = run("purge", parts, "--binlog", "shop", "--before", "yesterday")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "yesterday" in wrong.stderr

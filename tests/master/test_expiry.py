"""The expiry of a store: what goes by age and by size, and what stays for a slave."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from dumpfilter.base.errors import OptionError
from dumpfilter.filter.filter import Filter
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.master.purge import StoreExpiry, purge
from dumpfilter.master.register import CounterBook, SlaveCounts
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.who import Peer
from tests.commands.in_process import run
from tests.support import DATA

DAY = 86_400.0
NAMES = ["bin.000001", "bin.000002", "bin.000003"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MasterServer]:
    """A server whose files were last written 30, 20 and 10 days ago."""
    directory = Path(shutil.copytree(DATA / "oracle" / "mysql-row", tmp_path / "set"))
    for name, days in zip(NAMES, (30, 20, 10), strict=True):
        os.utime(directory / name, times=(0, time.time() - days * DAY))
    server = MasterServer(BinlogStore(directory))
    yield server
    server.stop(0)


def remember(server: MasterServer, file: str, *, days_ago: float, is_done: bool = False) -> None:
    """Make the server remember a slave that is gone."""
    peer = Peer("repl", server_id=7, uuid=str(uuid.UUID(int=7)))
    record = SlaveCounts(
        peer, last_seen_at=time.time() - days_ago * DAY, file=file, position=4, is_done=is_done
    )
    server.service.register.counters = CounterBook([record])


def left_after(server: MasterServer, **bounds: float) -> list[str]:
    """Expire the store, and return the names of the files that are left, in the index and on the disk."""
    StoreExpiry(server.service, **bounds).look()
    binlogs = server.service.store.binlogs
    assert [path.name for path in sorted(binlogs.path(NAMES[-1]).parent.glob("bin.0*"))] == binlogs.names
    return binlogs.names


@pytest.mark.parametrize(("days", "left"), [(31, NAMES), (25, NAMES[1:]), (15, NAMES[2:]), (1, NAMES[2:])])
def test_old_files_go_and_the_newest_never(server: MasterServer, days: float, left: list[str]) -> None:
    assert left_after(server, seconds=days * DAY) == left


def test_the_oldest_files_go_until_the_store_is_small_enough(server: MasterServer) -> None:
    binlogs = server.service.store.binlogs
    total = sum(binlogs.path(name).stat().st_size for name in NAMES)
    assert left_after(server, nbytes=total) == NAMES
    assert left_after(server, nbytes=total - 1) == NAMES[1:]
    assert left_after(server, nbytes=1) == NAMES[2:]


def test_an_operator_may_purge_the_same_files_at_the_same_time(
    server: MasterServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def after_the_operator(binlogs: BinlogSet, **bounds: Any) -> object:
        purge(binlogs, **bounds)
        return purge(binlogs, **bounds)

    monkeypatch.setattr("dumpfilter.master.purge.purge", after_the_operator)
    assert left_after(server, seconds=15 * DAY) == NAMES[2:]


def test_files_stay_for_a_slave_that_is_gone_and_the_log_says_so_once(server: MasterServer) -> None:
    remember(server, NAMES[1], days_ago=2)
    expiry = StoreExpiry(server.service, seconds=DAY)
    with capture_logs() as logs:
        assert expiry.look() == NAMES[:1]
        assert expiry.look() == []
    (warning,) = [line for line in logs if line["log_level"] == "warning"]
    assert warning["event"] == "store not expired because of a slave"
    assert (warning["server_id"], warning["file"], warning["held_files"]) == (7, NAMES[1], 1)
    assert "--keep-slaves" in warning["hint"]
    # The keeping time ends, and nobody is waited for any longer.
    server.service.known_slaves.keep_seconds = DAY
    assert expiry.look() == [NAMES[1]]


@pytest.mark.parametrize(("days_ago", "is_done"), [(8, False), (2, True)])
def test_files_do_not_stay_for_a_slave_that_nobody_waits_for(
    server: MasterServer, days_ago: float, is_done: bool
) -> None:
    remember(server, NAMES[0], days_ago=days_ago, is_done=is_done)
    assert left_after(server, seconds=DAY) == NAMES[2:]


def test_files_stay_for_a_connected_slave(server: MasterServer) -> None:
    register = server.service.register
    slave = register.add(Peer(server_id=7, uuid=str(uuid.UUID(int=7))), Filter())
    dump = register.begin_dump(slave)
    register.progress(slave, NAMES[1], 4, None)
    assert left_after(server, nbytes=1) == NAMES[1:]
    register.progress(slave, NAMES[2], 4, None)
    assert left_after(server, nbytes=1) == NAMES[2:]
    register.end_dump(slave, dump)


def test_a_store_that_cannot_be_expired_is_told_once(
    server: MasterServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    expiry = StoreExpiry(server.service, nbytes=1)
    with capture_logs() as logs, monkeypatch.context() as patch:
        patch.setattr("dumpfilter.base.files.os.replace", full)
        assert expiry.look() == expiry.look() == []
    # A server that another test has stopped may still write a line.
    (line,) = [line for line in logs if line["event"] == "store not expired"]
    assert line["log_level"] == "error"
    assert expiry.look() == NAMES[:2]


def test_without_bounds_nothing_goes(server: MasterServer) -> None:
    assert StoreExpiry(server.service).run() == []
    assert server.service.store.binlogs.names == NAMES


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--store-expire=7d"], "--store-expire goes with --store"),
        (["--store-max-size=1G"], "--store-max-size goes with --store"),
        (["--store=s", "--store-max-size=0"], "--store-max-size: '0' is too small"),
        (["--store=s", "--store-expire=soon"], "--store-expire: 'soon' is not a time"),
        (["--keep-slaves=7"], "--keep-slaves: '7' is not a time"),
    ],
)
def test_bounds_that_cannot_be_used(options: list[str], said: str) -> None:
    address = "mysql://u@127.0.0.1:1/" if "--store=s" in options else str(DATA / "oracle" / "mysql-row")
    done = run("master", address, *options)
    assert done.returncode == OptionError.exit_code
    assert said in done.stderr

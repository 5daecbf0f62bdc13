"""A master that serves its binlog as though it had been written with ``--binlog-do-db`` and its kin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dumpfilter.filter.filter import WriteFilter, make_write_filter
from dumpfilter.filter.rules import FilterSemantics, WriteSemantics, parse_option
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from tests.commands.in_process import run as run_in_process
from tests.master.client import Client
from tests.master.test_service import files_of
from tests.oracle.dumping import dump
from tests.oracle.recordings import DATA

RECORDING = DATA / "recordings" / "mysql-write-row"
WRITE = WriteFilter.from_options(["--binlog-do-db=d1"])


@pytest.fixture
def client() -> Iterator[Client]:
    server = MasterServer(BinlogStore(RECORDING), write_filter=WRITE)
    server.start()
    client = Client(server)
    yield client
    client.channel.close()
    server.stop(0)


def test_every_slave_gets_what_was_written(client: Client) -> None:
    """Also one whose filter is off, and one that changes its filter."""
    slave = client.register()
    files = files_of(client.dump(slave.slave_id))
    assert files == dump([RECORDING / "bin.000001"], WRITE).files
    assert len(files["bin.000001"]) < (RECORDING / "bin.000001").stat().st_size
    everything = client.register(["--replicate-ignore-db=nothing"])
    assert files_of(client.dump(everything.slave_id)) == files


def test_the_slaves_own_filter_comes_on_top(client: Client) -> None:
    slave = client.register(["--replicate-ignore-table=d1.t"])
    files = files_of(client.dump(slave.slave_id))
    assert len(files["bin.000001"]) < len(dump([RECORDING / "bin.000001"], WRITE).files["bin.000001"])
    nothing = client.register(["--replicate-do-db=d2"], server_id=8)
    rows = files_of(client.dump(nothing.slave_id))["bin.000001"]
    assert b"\x02d1\x00" not in rows
    assert b"\x02d2\x00" not in rows


def test_effective_rules_of_the_binlog() -> None:
    """WL#2516's CHANGE BINLOG … TO DO=…, IGNORE=…: by the tables that are changed."""
    binlog = make_write_filter(
        WriteSemantics.EFFECTIVE, [parse_option("--ignore=d2.%", FilterSemantics.EFFECTIVE)]
    )
    server = MasterServer(BinlogStore(RECORDING), write_filter=binlog)
    server.start()
    client = Client(server)
    try:
        files = files_of(client.dump(client.register().slave_id))
    finally:
        client.channel.close()
        server.stop(0)
    assert files == dump([RECORDING / "bin.000001"], binlog).files
    assert b"\x02d1\x00\x01t\x00" in files["bin.000001"]
    assert b"\x02d2\x00\x01t\x00" not in files["bin.000001"]


@pytest.mark.parametrize(
    "options",
    [
        ["--binlog-do-db=d1", "--binlog-filter-semantics=effective"],
        ["--binlog-ignore=d1.%"],
        ["--binlog-do=d1.%", "--binlog-filter-semantics=worklog"],
    ],
)
def test_the_other_semantics_options_are_unknown(options: list[str]) -> None:
    done = run_in_process("master", RECORDING, "--port", "0", *options)
    assert done.returncode == 2
    assert "unknown option" in done.stderr

"""A chain of masters over gRPC: the second master serves the first slave's relay log to other slaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.reader import iter_events
from dumpfilter.filter.rules import FilterOn
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.slave.channel import Channel
from tests.slave.driven import UUID, apply_before, driven, serving, wait_until
from tests.slave.growing import GrowingCopy, boundaries
from tests.slave.once import AddressOf, run_slave, start_slave
from tests.support import DATA

FIRST = ["--replicate-ignore-db=hr", "--replicate-wild-ignore-table=logs.%"]
SECOND = ["--replicate-wild-do-table=shop.%"]


def summary(slave: Channel) -> object:
    return slave.relay_log_info.target


@pytest.mark.parametrize("folder", ["mysql-row", "mysql-mixed", "mariadb-row"])
@pytest.mark.parametrize("auto_position", [False, True])
def test_a_chain_loses_no_gtid(
    address_of: AddressOf, tmp_path: Path, folder: str, auto_position: bool
) -> None:
    address = address_of(folder)
    whole = run_slave(address, tmp_path / "whole", [])
    first = run_slave(address, tmp_path / "first", FIRST)
    assert summary(first) != summary(whole)
    with serving(tmp_path / "first") as chained:
        below = f"127.0.0.1:{chained.port}"
        second = run_slave(below, tmp_path / "second", SECOND, auto_position=auto_position)
        expected = run_slave(below, tmp_path / "expected", SECOND, filter_on=FilterOn.SLAVE)
        all_of_it = run_slave(below, tmp_path / "all", [])
        assert summary(all_of_it) == summary(first)
        again = run_slave(below, tmp_path / "second", SECOND, auto_position=auto_position)
    for slave in (first, second, all_of_it, again):
        assert slave.relay_log_info.executed == whole.relay_log_info.executed
        assert slave.master_info.retrieved == whole.master_info.retrieved
    assert summary(second) == summary(expected) == summary(again)


@pytest.mark.parametrize("folder", ["mysql-row", "mysql-mixed", "mariadb-row"])
def test_a_slave_that_has_the_dropped_transactions_gets_none(
    address_of: AddressOf, tmp_path: Path, folder: str
) -> None:
    """A slave that already has all transactions asks the second master by its GTID set."""
    run_slave(address_of(folder), tmp_path / "first", FIRST)
    moved = run_slave(address_of(folder), tmp_path / "moved", FIRST, auto_position=True)
    before = moved.relay_log_info
    with serving(tmp_path / "first") as chained:
        moved = run_slave(f"127.0.0.1:{chained.port}", tmp_path / "moved", FIRST, auto_position=True)
    assert moved.relay_log_info.executed == before.executed
    assert moved.relay_log_info.target == before.target


@pytest.mark.parametrize("folder", ["mysql-row", "mysql-mixed", "mariadb-row"])
def test_a_chain_while_the_first_slave_receives(address_of: AddressOf, tmp_path: Path, folder: str) -> None:
    whole = run_slave(address_of(folder), tmp_path / "whole", [])
    copy = GrowingCopy(DATA / "oracle" / folder, tmp_path / "binlog", seed=3)
    live = {"once": False, "heartbeat_period": 0.05}
    with serving(tmp_path / "binlog") as master:
        first = start_slave(f"127.0.0.1:{master.port}", tmp_path / "first", FIRST, **live)
        wait_until(lambda: (tmp_path / "first" / "relay-bin.index").exists())
        with serving(tmp_path / "first") as chained:
            below = f"127.0.0.1:{chained.port}"
            second = start_slave(below, tmp_path / "second", SECOND, **live)
            for number in range(copy.transactions):
                copy.more(1)
                if number % 10 == 0:
                    received = first.received.chunks
                    wait_until(lambda before=received: first.received.chunks > before)
            done = whole.relay_log_info.executed
            for slave in (first, second):
                wait_until(
                    lambda slave=slave: slave.relay_log_info.executed == done,
                    lambda slave=slave: slave.relay_log_info.executed,
                )
            assert second.master_info.retrieved == first.master_info.retrieved == done
            expected = run_slave(below, tmp_path / "expected", SECOND, filter_on=FilterOn.SLAVE)
            assert summary(second) == summary(expected)
            second.stop()
            second.close()
        first.stop()
        first.close()


@pytest.mark.parametrize("number", [5, 20, 37, 53])
def test_a_filter_changes_in_a_chain(address_of: AddressOf, tmp_path: Path, number: int) -> None:
    """The second slave goes back to a position in the first slave's relay log."""
    run_slave(address_of("mysql-row"), tmp_path / "first", FIRST)
    with serving(tmp_path / "first") as chained, driven(tmp_path / "second", *SECOND) as slave:
        slave.follow(chained)
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(chained, executed=False)
        apply_before(slave, number)
        file, position = slave.place()
        assert file.startswith("relay-bin.")
        assert position in boundaries(BinlogSet.open(chained.binlogs), file)
        slave.sql("CHANGE REPLICATION FILTER REPLICATE_WILD_DO_TABLE = ('a_b.%'), REPLICATE_DO_DB = ()")
        slave.sql("START REPLICA SQL_THREAD")
        slave.expect_law(chained)
        assert slave.executed() == f"{UUID}:1-74"


def test_positions_are_those_of_the_relay_log(address_of: AddressOf, tmp_path: Path) -> None:
    run_slave(address_of("mysql-mixed"), tmp_path / "first", FIRST)
    with serving(tmp_path / "first") as chained:
        second = run_slave(f"127.0.0.1:{chained.port}", tmp_path / "second", SECOND)
        first = BinlogSet.open(chained.binlogs)
    assert second.relay_log_info.source_file == second.master_info.source_file == first.names[-1]
    assert second.relay_log_info.source_position == first.size(first.names[-1])
    for number, path in enumerate(sorted((tmp_path / "second").glob("relay-bin.0*"))):
        ends = set()
        with first.path(first.names[number]).open("rb") as file:
            for event in iter_events(file, file=path.name):
                ends.add(event.offset + len(event.raw))
        with path.open("rb") as file:
            _, _, *events = iter_events(file, file=path.name)
        assert {event.header.end_log_pos for event in events} <= ends | {0}
        assert not any(event.type == EventType.ROTATE and not event.header.timestamp for event in events)

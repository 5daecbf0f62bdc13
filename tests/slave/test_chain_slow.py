"""A chain of masters over gRPC: the second master serves the first slave's relay log to other slaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dumpfilter.filter.rules import FilterOn
from dumpfilter.index.fileset import BinlogSet
from tests.slave.driven import UUID, apply_before, driven, serving, wait_until
from tests.slave.growing import GrowingCopy, boundaries
from tests.slave.once import AddressOf, Once, run_slave, start_slave
from tests.slave.relayed import contents
from tests.support import DATA

FIRST = ["--replicate-ignore-db=hr", "--replicate-wild-ignore-table=logs.%"]
SECOND = ["--replicate-wild-do-table=shop.%"]


def summary(slave: Once) -> object:
    return slave.target.state()


@pytest.mark.parametrize(
    ("folder", "auto_position"), [("mysql-row", False), ("mysql-mixed", True), ("mariadb-row", True)]
)
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


@pytest.mark.parametrize("folder", ["mysql-row", "mariadb-row"])
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


@pytest.mark.parametrize("folder", ["mysql-mixed", "mariadb-row"])
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
                    received = first.counters.received["chunks"]
                    wait_until(lambda before=received: first.counters.received["chunks"] > before)
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


@pytest.mark.parametrize("number", [5, 37])
def test_a_filter_changes_in_a_chain(address_of: AddressOf, tmp_path: Path, number: int) -> None:
    """The second slave goes back to a position of the server that wrote the first slave's relay log."""
    run_slave(address_of("mysql-row"), tmp_path / "first", FIRST)
    with serving(tmp_path / "first") as chained, driven(tmp_path / "second", *SECOND) as slave:
        slave.follow(chained)
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(chained, executed=False)
        apply_before(slave, number)
        file, position = slave.place()
        assert position in boundaries(BinlogSet.open(DATA / "oracle" / "mysql-row"), file)
        slave.sql("CHANGE REPLICATION FILTER REPLICATE_WILD_DO_TABLE = ('a_b.%'), REPLICATE_DO_DB = ()")
        slave.sql("START REPLICA SQL_THREAD")
        slave.expect_law(chained)
        assert slave.executed() == f"{UUID}:1-74"


@pytest.mark.parametrize(
    ("folder", "at"), [("mysql-mixed", 0), ("mysql-row", 1), ("mariadb118-mixed", 2), ("mysql-mixed", 2)]
)
def test_a_chain_with_one_filter_is_one_slave(
    address_of: AddressOf, tmp_path: Path, folder: str, at: int
) -> None:
    """The relay logs of the last slave of a chain are those of a slave with the chain's filter at the first master."""
    direct = run_slave(address_of(folder), tmp_path / "direct", FIRST)
    slave = run_slave(address_of(folder), tmp_path / "0", FIRST if at == 0 else [])
    for number in (1, 2):
        with serving(tmp_path / str(number - 1)) as chained:
            address = f"127.0.0.1:{chained.port}"
            slave = run_slave(
                address, tmp_path / str(number), FIRST if at == number else [], auto_position=number == 2
            )
    for name in ("source_file", "source_position", "retrieved"):
        assert getattr(slave.master_info, name) == getattr(direct.master_info, name)
    for name in ("source_file", "source_position", "executed", "target"):
        assert getattr(slave.relay_log_info, name) == getattr(direct.relay_log_info, name)
    found, wanted = contents(tmp_path / "2"), contents(tmp_path / "direct")
    assert found.keys() == wanted.keys()
    # The hits are those of each slave's own filter.
    assert [events for events, _ in _files(found)] == [events for events, _ in _files(wanted)]


def _files(found: dict[str, Any]) -> list[Any]:
    return [found[name] for name in sorted(found) if name != "relay-bin.index"]


@pytest.mark.parametrize("folder", ["mysql-row", "mariadb-row"])
def test_a_slave_goes_on_at_another_master_of_the_chain(
    address_of: AddressOf, tmp_path: Path, folder: str
) -> None:
    """A slave without auto-positioning goes on by the server's file and position, up and down the chain."""
    copy = GrowingCopy(DATA / "oracle" / folder, tmp_path / "binlog", seed=5)
    with serving(tmp_path / "binlog") as origin:
        address = f"127.0.0.1:{origin.port}"
        for _ in range(copy.transactions // 32 + 1):
            copy.more(19)
            run_slave(address, tmp_path / "first", FIRST)
            with serving(tmp_path / "first") as chained:
                run_slave(f"127.0.0.1:{chained.port}", tmp_path / "moved", SECOND)
            copy.more(13)
            moved = run_slave(address, tmp_path / "moved", SECOND)
        whole = run_slave(address, tmp_path / "whole", SECOND)
    assert moved.relay_log_info.executed == whole.relay_log_info.executed
    assert moved.master_info.source_position == whole.master_info.source_position
    assert moved.master_info.retrieved == whole.master_info.retrieved

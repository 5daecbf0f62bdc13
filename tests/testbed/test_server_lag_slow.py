"""The lag of real replicas that are held behind, paused, stopped or killed, and waits for them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from dumpfilter.testbed import Testbed, up

WAIT = 200.0
LONG = 3600.0
"""A delay that no test waits for, seconds."""
TOPOLOGY = "db[server=mariadb] >> web[server=mariadb]; db >> f >> shop[server=mariadb, wild-do-table=shop.%]"


@pytest.fixture(scope="module")
def shared() -> Iterator[Testbed]:
    with up(TOPOLOGY, wait_timeout=WAIT) as found:
        yield found


@pytest.fixture
def bed(shared: Testbed) -> Iterator[Testbed]:
    """A topology with a filled table. The reset after each test drops the table."""
    db = shared["db"]
    db.execute("CREATE DATABASE shop")
    db.execute("CREATE TABLE shop.orders (id INT AUTO_INCREMENT PRIMARY KEY)")
    for _ in range(5):
        insert(shared)
    shared.wait_caught_up()
    yield shared
    shared.reset(WAIT)


def insert(bed: Testbed) -> int:
    """Insert a row, and return the bytes by which the source's binlog has grown."""
    before = bed["db"].status().place
    bed["db"].execute("INSERT INTO shop.orders VALUES ()")
    after = bed["db"].status().place
    assert before.file == after.file
    return after.position - before.position


def rows(bed: Testbed, node: str) -> int:
    ((count,),) = bed[node].execute("SELECT COUNT(*) FROM shop.orders")
    assert isinstance(count, int)
    return count


@pytest.mark.parametrize("node", ["web", "shop"])
def test_the_lag_of_a_replica_that_is_held_behind_is_that_of_the_new_transactions(
    bed: Testbed, node: str
) -> None:
    for _ in range(3):
        # The position that the replica tells goes back when its threads start, and the delay holds it there.
        bed[node].hold_behind(LONG)
        began = time.monotonic()
        size = insert(bed)
        assert bed[node].lag.bytes == size
        size += insert(bed)
        lag = bed[node].lag
        assert lag.bytes == size
        # The oldest transaction that the replica has not applied is the first one of this round.
        assert 0 < lag.seconds <= time.monotonic() - began
        bed[node].hold_behind(0)
        bed[node].wait_caught_up()
        assert bed[node].lag == (0.0, 0)

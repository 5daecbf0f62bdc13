"""The lag of real replicas that are held behind, paused, stopped or killed, and waits for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from dumpfilter.testbed import NodeIsDown, NotCaughtUp, Testbed, up

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


def test_a_replica_catches_up_with_a_source_that_was_stopped(bed: Testbed) -> None:
    """The GTIDs of a stopped source were not read, and the wait ended at once."""
    bed["web"].pause()
    insert(bed)
    bed["db"].stop()
    with pytest.raises(NotCaughtUp, match=r"web: is paused .*has applied 0-101-.* should have 0-101-"):
        bed["web"].wait_caught_up(0)
    bed["web"].resume()
    bed["web"].wait_caught_up()
    assert rows(bed, "web") == 6


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_replica_that_does_not_run_has_the_lag_of_its_last_place(bed: Testbed, end: str) -> None:
    getattr(bed["web"], end)()
    assert bed["web"].lag == (0.0, 0)
    began = time.monotonic()
    size = insert(bed)
    lag = bed["web"].lag
    assert lag.bytes == size
    assert 0 < lag.seconds <= time.monotonic() - began
    status = bed.status().nodes["web"]
    assert (status.lag.bytes, status.problems) == (size, ())
    for wait in (bed.wait_caught_up, bed.check):
        with pytest.raises(
            NodeIsDown, match=r"web: the node is stopped.* start\(\) it, or .*running_only=True"
        ):
            wait(WAIT)
        wait(WAIT, running_only=True)
    bed["web"].start()
    bed.check(WAIT)
    assert bed["web"].lag == (0.0, 0)


def test_a_source_that_was_killed_fails_the_wait_for_all(bed: Testbed) -> None:
    bed["db"].kill()
    with pytest.raises(NodeIsDown, match="db: the node is stopped"):
        bed.wait_caught_up(WAIT)
    bed["web"].wait_caught_up(WAIT)
    bed["db"].start()
    bed.wait_caught_up(WAIT)


def test_a_pause_survives_a_restart_and_a_new_delay(bed: Testbed) -> None:
    web = bed["web"]
    with web.paused():
        size = insert(bed)
        web.restart()
        web.hold_behind(1)
        assert web.lag.bytes == size
        (channel,) = web.status().channels
        assert channel.sql == "No"
        with pytest.raises(NotCaughtUp, match=r"web: is paused \(resume\(\) it\): has applied") as caught:
            web.wait_caught_up(3)
        assert "thread" not in str(caught.value)
        web.hold_behind(0)
        assert rows(bed, "web") == 5
    web.wait_caught_up(WAIT)
    assert rows(bed, "web") == 6


def test_a_wait_for_a_paused_replica_ends_when_it_is_resumed(bed: Testbed) -> None:
    web = bed["web"]
    web.pause()
    insert(bed)
    # The wait looks at the threads each second. It must not take the pause for a failure.
    resuming = threading.Timer(2.5, web.resume)
    resuming.start()
    web.wait_caught_up(WAIT)
    resuming.join()
    assert rows(bed, "web") == 6


def test_a_wait_for_a_replica_whose_threads_have_stopped_ends_at_once(bed: Testbed) -> None:
    web = bed["web"]
    web.server.control("STOP", thread="SQL_THREAD")
    insert(bed)
    with pytest.raises(NotCaughtUp, match=r"web: has applied 0-101-.*; I/O thread Yes, SQL thread No"):
        web.wait_caught_up(WAIT)
    web.server.control("START")
    web.wait_caught_up(WAIT)
    web.server.sql("SET SESSION sql_log_bin = 0", "INSERT INTO shop.orders VALUES (1000)")
    bed["db"].execute("INSERT INTO shop.orders VALUES (1000)")
    with pytest.raises(NotCaughtUp, match=r"SQL thread No; error 1062: .*1000"):
        web.wait_caught_up(WAIT)
    web.server.sql("SET SESSION sql_log_bin = 0", "DELETE FROM shop.orders WHERE id = 1000")
    web.server.control("START")
    web.wait_caught_up(WAIT)


def test_the_log_of_a_server_is_its_error_log(bed: Testbed) -> None:
    assert bed["web"].log.parent.name == "logs"
    assert "ready for connections" in bed["web"].log.read_text()
    assert bed["web"].logs == bed["web"].log.read_text()


@pytest.mark.parametrize(("seconds", "whole"), [(0.4, 1), (1.5, 2), (2, 2)])
def test_a_delay_is_at_least_as_long_as_asked(bed: Testbed, seconds: float, whole: int) -> None:
    """0.4 seconds became 0, which ended the delay."""
    bed["web"].hold_behind(seconds)
    (row,) = bed["web"].server.rows("SHOW REPLICA STATUS")
    assert row["SQL_Delay"] == whole

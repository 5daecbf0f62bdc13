"""SELECTs of a hostile client: their limits, and how long they delay the other threads of the process."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from statistics import quantiles

import pytest

from dumpfilter.sql.result import Column, ColumnType, Table
from dumpfilter.sql.select import Environment, select
from dumpfilter.sql.server_errors import SqlError

TABLE = Table([Column("n", ColumnType.INTEGER), Column("t")], [(1, "a"), (2, None)])
ENVIRONMENT = Environment(lambda schema, name: TABLE if name == "t" else None, ["s"], "s")
NUMBERS = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 3000000) "
ENDLESS = NUMBERS.replace("WHERE n < 3000000", "") + "SELECT COUNT(*) FROM x"
LONG_CALLS = "SELECT REPEAT('a', 60000) LIKE CONCAT('%', REPEAT('a', 120), 'b') FROM " + ", ".join(
    f"t AS t{number}" for number in range(12)
)
HOSTILE = [
    ENDLESS,
    LONG_CALLS,
    NUMBERS + "SELECT n, REPEAT('é', 60000) AS r FROM x ORDER BY LOWER(r) DESC",
    NUMBERS + "SELECT MAX(LOCATE(REPEAT('a', 30000), REPEAT('é', 60000))) FROM x",
    NUMBERS + "SELECT COUNT(DISTINCT REPLACE(REPEAT('ab', 30000), 'b', 'cc')) FROM x",
    "SELECT 1" + " + 1" * 490,
    "SELECT " + "(" * 490 + "1" + ")" * 490,
    "SELECT " + ", ".join("REPEAT('x', 60000)" for _ in range(140)),
]
INTERVAL_SECONDS = 0.005
MOST_DELAY_SECONDS = 0.02


def failure(text: str, *, stop: threading.Event | None = None, seconds: float = 60.0) -> int:
    with pytest.raises(SqlError) as caught:
        select(text, ENVIRONMENT, stop=stop, seconds=seconds)
    return caught.value.number


@pytest.mark.parametrize("text", [ENDLESS, "SELECT SLEEP(100)", LONG_CALLS])
def test_the_time_limit_and_an_interruption(text: str) -> None:
    begun = time.monotonic()
    assert failure(text, seconds=0.3) == 3024
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    assert failure(text, stop=stop) == 1317
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("SELECT 1" + "+1" * 5000, 3170),
        ("SELECT " + "(" * 490 + "1" + ")" * 490, 1436),
        ("SELECT " + "NOT " * 900 + "1", 1436),
        (NUMBERS + "SELECT REPEAT('x', 60000) FROM x", 1041),
        (NUMBERS + "SELECT n, REPEAT('x', 1000) AS r FROM x ORDER BY r DESC", 1041),
        (NUMBERS + "SELECT LENGTH(GROUP_CONCAT(n % 10 SEPARATOR '')) FROM x", 1041),
        (NUMBERS + "SELECT " + ", ".join(f"n + {number}" for number in range(60)) + " FROM x", 1041),
        ("SELECT REPEAT('a', 3000) GLOB CONCAT(REPEAT('*a', 30), 'b')", 1235),
        ("SELECT REPEAT('a', 60000) LIKE CONCAT('%', REPEAT('a', 20000), 'b')", 1235),
        ("SELECT " + "1" * 20_000, 3170),
    ],
    ids=lambda value: str(value)[:40],
)
def test_limits_of_size(text: str, number: int) -> None:
    assert failure(text) == number
    assert select("SELECT 1", ENVIRONMENT).rows == [(1,)]


@pytest.fixture
def frozen() -> Iterator[None]:
    """A console freezes the objects of the started program, too, so that the collector is quick."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:60])
def test_other_threads_are_not_delayed(frozen: None, text: str) -> None:
    """A thread that wakes every 5 ms waits for at most 20 ms of the statement's processor time.

    Time in which the machine runs other processes does not count.
    """
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            try:
                select(text, ENVIRONMENT, stop=stop, seconds=2)
            except SqlError:
                continue

    asker = threading.Thread(target=ask)
    asker.start()
    used = [time.process_time()]
    while len(used) < 300:
        time.sleep(INTERVAL_SECONDS)
        used.append(time.process_time())
    stop.set()
    asker.join()
    waited = [after - before - INTERVAL_SECONDS for before, after in pairwise(used)]
    # A step of the statement and one of the garbage collector may follow each other.
    assert quantiles(waited, n=50)[-1] < MOST_DELAY_SECONDS

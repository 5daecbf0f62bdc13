"""The limits of a hostile client's SELECTs. ``python -m bench hostile`` measures how long they delay other threads."""

from __future__ import annotations

import threading
import time

import pytest

from dumpfilter.console.sql.interruption import Interrupt
from dumpfilter.console.sql.result import Column, ColumnType, Result
from dumpfilter.console.sql.select import Environment, select
from dumpfilter.console.sql.server_errors import SqlError

TABLE = Result([Column("n", ColumnType.INTEGER), Column("t")], [(1, "a"), (2, None)])
ENVIRONMENT = Environment(lambda schema, name: TABLE, "s")
NUMBERS = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 3000000) "
ENDLESS = NUMBERS.replace("WHERE n < 3000000", "") + "SELECT COUNT(*) FROM x"
FEWER = NUMBERS.replace("3000000", "300000")
LONG_CALLS = "SELECT REPEAT('a', 60000) LIKE CONCAT('%', REPEAT('a', 120), 'b') FROM " + ", ".join(
    f"t AS t{number}" for number in range(12)
)


def failure(text: str, stop: Interrupt | None = None) -> int:
    with pytest.raises(SqlError) as caught:
        select(text, ENVIRONMENT, stop)
    return caught.value.number


@pytest.mark.parametrize("text", [ENDLESS, "SELECT SLEEP(100)", LONG_CALLS])
def test_the_time_limit_and_an_interruption(text: str) -> None:
    begun = time.monotonic()
    limited, stop = Interrupt(), Interrupt()
    limited.deadline = begun + 0.3
    assert failure(text, limited) == 3024
    threading.Timer(0.2, stop.set).start()
    assert failure(text, stop) == 1317
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("SELECT 1" + "+1" * 5000, 3170),
        ("SELECT " + "(" * 490 + "1" + ")" * 490, 1436),
        ("SELECT " + "NOT " * 900 + "1", 1436),
        (NUMBERS + "SELECT REPEAT('x', 60000) FROM x", 1041),
        (NUMBERS + "SELECT n, REPEAT('x', 1000) AS r FROM x ORDER BY r DESC", 1041),
        (FEWER + "SELECT GROUP_CONCAT('' SEPARATOR '') FROM x", 1041),
        (FEWER + "SELECT GROUP_CONCAT('a' ORDER BY REPEAT('x', 1000 + n % 2) SEPARATOR '') FROM x", 1041),
        (FEWER + "SELECT LENGTH(GROUP_CONCAT(n % 10 SEPARATOR '')) FROM x", 1041),
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

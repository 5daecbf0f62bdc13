"""SELECTs in worker processes: their results, their limits, and what happens to a worker that does not obey."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dumpfilter.sql.result import Column, ColumnType, Result, Table
from dumpfilter.sql.select import Environment
from dumpfilter.sql.server_errors import ER_NO_DB_ERROR, SqlError
from dumpfilter.sql.worker_pool import Workers

TABLE = Table([Column("n", ColumnType.INTEGER), Column("t")], [(1, "a"), (2, None)])
# One call of SQLite's LIKE, which takes seconds and neither checks a limit of time nor can be interrupted.
BUSY = 60.0
"""The longest wait for the end of a statement on a busy machine, seconds. Each statement would run for longer."""

ONE_LONG_CALL = "SELECT REPEAT('a', 1000000) LIKE CONCAT('%', REPEAT('a', 4000), 'b') FROM t, t AS u"
ENDLESS = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT COUNT(*) FROM x"


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    workers = Workers(most=2, per_account=1, reserved=1)
    yield workers
    workers.close()


def environment() -> Environment:
    return Environment(lambda schema, name: TABLE if name == "t" else None, ["s"], "s", {"x": 5}, {"y": "z"})


def select(
    workers: Workers,
    text: str,
    *,
    stop: threading.Event | None = None,
    seconds: float = 60.0,
    account: str = "",
    privileged: bool = False,
) -> Result:
    return workers.select(
        text,
        environment(),
        stop=stop or threading.Event(),
        seconds=seconds,
        account=account,
        privileged=privileged,
    )


def failure(workers: Workers, text: str, **options: object) -> int:
    with pytest.raises(SqlError) as caught:
        select(workers, text, **options)  # type: ignore[arg-type]
    return caught.value.number


def children() -> list[int]:
    """Return the process ids of this process's workers."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            command = (path.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if fields[1] == str(os.getpid()) and b"dumpfilter.sql.worker" in command:
            found.append(int(path.parent.name))
    return found


def test_results_and_errors_are_those_of_a_select(workers: Workers) -> None:
    result = select(workers, "SELECT n + @@x AS a, t, @y FROM t")
    assert [tuple(row) for row in result.rows] == [(6, "a", "z"), (7, None, "z")]
    assert [column.name for column in result.columns] == ["a", "t", "@y"]
    assert failure(workers, "SELECT * FROM u") == 1146
    assert failure(workers, "SELECT nothing FROM t") == 1054
    assert failure(workers, "SELECT") == 1064


def test_an_error_of_the_search_for_a_table(workers: Workers) -> None:
    def find(schema: str, name: str) -> Table | None:
        raise ER_NO_DB_ERROR()

    for _ in range(2):  # the worker can be used again
        with pytest.raises(SqlError, match="No database"):
            workers.select(
                "SELECT * FROM t", Environment(find, ["s"], "s"), stop=threading.Event(), seconds=9
            )
    assert select(workers, "SELECT 1").rows == [(1,)]


def test_a_worker_is_used_again(workers: Workers) -> None:
    select(workers, "SELECT 1")
    before = children()
    for _ in range(5):
        select(workers, "SELECT 1")
    assert failure(workers, "SELECT SLEEP(100)", seconds=0.1) == 3024
    assert children() == before


@pytest.mark.parametrize("text", [ENDLESS, "SELECT SLEEP(100)", ONE_LONG_CALL])
def test_the_time_limit(workers: Workers, text: str) -> None:
    select(workers, "SELECT 1")
    begun = time.monotonic()
    assert failure(workers, text, seconds=0.3) == 3024
    assert time.monotonic() - begun < BUSY
    assert select(workers, "SELECT 1").rows == [(1,)]


@pytest.mark.parametrize("text", [ENDLESS, "SELECT SLEEP(100)", ONE_LONG_CALL])
def test_an_interruption(workers: Workers, text: str) -> None:
    select(workers, "SELECT 1")
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    begun = time.monotonic()
    assert failure(workers, text, stop=stop) == 1317
    assert time.monotonic() - begun < BUSY


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("SELECT 1" + "+1" * 5000, 1436),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000, 1436),
        ("SELECT " + "NOT " * 30_000 + "1", 1436),
        (f"SELECT CONCAT_WS(REPEAT('\U0001f600', 1000000), {', '.join('1' * 80)})", 1041),
        (f"SELECT {', '.join(['REPEAT(t, 1000000)'] * 40)} FROM t", 1041),
        (
            "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 3000000) "
            "SELECT n, REPEAT('x', 1000) AS r FROM x ORDER BY r DESC",
            1041,
        ),
        (
            "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 16000000) "
            "SELECT LENGTH(GROUP_CONCAT(n % 10 SEPARATOR '')) FROM x",
            1041,
        ),
        ("SELECT REPEAT('a', 3000) GLOB CONCAT(REPEAT('*a', 30), 'b')", 1235),
        ("SELECT REPEAT('a', 1000000) LIKE CONCAT('%', REPEAT('a', 200000), 'b')", 1235),
        ("SELECT FIND_IN_SET('x', REPEAT('a,', 8000000))", 1235),
    ],
    ids=lambda value: str(value)[:40],
)
def test_limits_of_size(workers: Workers, text: str, number: int) -> None:
    assert failure(workers, text) == number
    assert select(workers, "SELECT 1").rows == [(1,)]


def test_a_worker_that_is_killed() -> None:
    own = Workers()
    others = set(children())
    select(own, "SELECT 1")
    (worker,) = set(children()) - others
    failures: list[int] = []
    thread = threading.Thread(target=lambda: failures.append(failure(own, "SELECT SLEEP(100)")))
    thread.start()
    while not own._running.total():
        time.sleep(0.01)
    os.kill(worker, signal.SIGKILL)
    thread.join()
    assert failures == [1041]
    assert select(own, "SELECT 1").rows == [(1,)]
    own.close()


def test_places(workers: Workers) -> None:
    """One account has one place, all accounts two, and an administrator one more."""
    stop = threading.Event()

    def sleep(account: str) -> None:
        assert failure(workers, "SELECT SLEEP(100)", stop=stop, account=account) == 1317

    threads = [threading.Thread(target=sleep, args=(account,)) for account in ("a", "b")]
    try:
        threads[0].start()
        while workers._running["a"] != 1:
            time.sleep(0.01)
        assert failure(workers, "SELECT 1", account="a", seconds=0.1) == 3024
        threads[1].start()
        while workers._running["b"] != 1:
            time.sleep(0.01)
        assert failure(workers, "SELECT 1", account="c", seconds=0.1) == 3024
        waiting = threading.Event()
        threading.Timer(0.1, waiting.set).start()
        assert failure(workers, "SELECT 1", account="c", stop=waiting) == 1317
        assert select(workers, "SELECT 1", account="root", privileged=True).rows == [(1,)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert select(workers, "SELECT 1", account="c").rows == [(1,)]


def test_close_leaves_no_process() -> None:
    own = Workers()
    before = set(children())
    select(own, "SELECT 1")
    assert set(children()) - before
    own.close()
    assert not set(children()) - before

"""The cost of hostile input: long statements, many rules, many tables, patterns of percent signs.

Every figure is a growth: the time for an input twice (or ten times) as large, divided by the time for the input. For an
input twice as large, 2 is linear and 4 is quadratic. The floors are a CRC32 of the same bytes, and tables decided by
one rule.

SELECTs run in the process of a console, beside a thread that wakes every 5 ms as a master does for a commit. Their
figure is the time that this thread waits beyond its 5 ms.
"""

from __future__ import annotations

import gc
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from statistics import quantiles

from bench._common import Cases, Options, Report
from dumpfilter.base.waiting import watching
from dumpfilter.binlog.statement.facts import read_text
from dumpfilter.console.sql.interruption import Interrupt
from dumpfilter.console.sql.result import Column, ColumnType, Result
from dumpfilter.console.sql.select import Environment, select
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.filter.filter import Filter

LENGTHS = (8 << 20, 16 << 20)
TABLES = 100_000
RULES = 10_000

STATEMENTS: dict[str, Callable[[int], str]] = {
    "one string": lambda n: "INSERT INTO a.t VALUES ('" + "x" * n + "')",
    "escaped quotes": lambda n: "INSERT INTO a.t VALUES ('" + "\\'" * (n // 2) + "')",
    "many rows": lambda n: "INSERT INTO a.t VALUES " + "(1,'x',NULL),\n" * (n // 14) + "(2,'',0)",
    "many columns": lambda n: "ALTER TABLE a.t " + "ADD i INT, " * (n // 11) + "ADD j INT",
    "many tables": lambda n: "UPDATE a" + ", b" * (n // 3) + " SET x = 1",
    "parentheses": lambda n: "CREATE TABLE a.t " + "(" * n,
    "comments": lambda n: "/*" + "*" * n + "*/ DROP TABLE a.t",
    "version comments": lambda n: "/*!" * (n // 3) + " DROP TABLE a.t",
    "a name": lambda n: "DROP TABLE `" + "a" * n + "`",
    "not closed": lambda n: "DROP TABLE `" + "``" * (n // 2),
}

PATTERNS = {
    "db7.%": lambda n: f"db{n}.%",
    "%.t7": lambda n: f"%.t{n}",
    "%x7%.%": lambda n: f"%x{n}%.%",
    "db.t7 (no wildcard)": lambda n: f"db{n % 100}.t{n}",
}

_NUMBERS = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 3000000) "
SELECTS = {
    "an endless recursion": _NUMBERS.replace("WHERE n < 3000000", "") + "SELECT COUNT(*) FROM x",
    "long patterns": "SELECT REPEAT('a', 60000) LIKE CONCAT('%', REPEAT('a', 120), 'b') FROM "
    + ", ".join(f"t AS t{number}" for number in range(12)),
    "a sort of long texts": _NUMBERS + "SELECT n, REPEAT('é', 60000) AS r FROM x ORDER BY LOWER(r) DESC",
    "a search in long texts": _NUMBERS + "SELECT MAX(LOCATE(REPEAT('a', 30000), REPEAT('é', 60000))) FROM x",
    "long texts replaced": _NUMBERS + "SELECT COUNT(DISTINCT REPLACE(REPEAT('ab', 30000), 'b', 'cc')) FROM x",
    "many signs": "SELECT 1" + " + 1" * 490,
    "many parentheses": "SELECT " + "(" * 490 + "1" + ")" * 490,
    "many long columns": "SELECT " + ", ".join("REPEAT('x', 60000)" for _ in range(140)),
}
_INTERVAL_SECONDS = 0.005
_LONGEST_DELAY_SECONDS = 0.02


def _delay(text: str) -> float:
    """Return how long a thread that wakes every 5 ms waits beside a SELECT, seconds: the 98th percentile."""
    table = Result([Column("n", ColumnType.INTEGER), Column("t")], [(1, "a"), (2, None)])
    environment = Environment(lambda schema, name: table, "s")

    def ask(stop: threading.Event) -> None:
        while not stop.is_set():
            interrupt = Interrupt()
            interrupt.deadline = time.monotonic() + 2
            with suppress(SqlError):
                select(text, environment, interrupt)

    with watching(ask, "select"):
        woken = [time.monotonic()]
        while len(woken) < 300:
            time.sleep(_INTERVAL_SECONDS)
            woken.append(time.monotonic())
    return quantiles([after - before - _INTERVAL_SECONDS for before, after in pairwise(woken)], n=50)[-1]


def _decide(rule_filter: Filter) -> None:
    for n in range(TABLES):
        rule_filter.rows_ok(f"db{n % 1000}", f"t{n}")


def _wild(make: Callable[[int], str], rules: int) -> Filter:
    return Filter.from_options([f"--replicate-wild-ignore-table={make(n)}" for n in range(rules)])


def _match(percents: int) -> None:
    pattern = Filter.from_options(["--replicate-wild-do-table=d." + "%a" * percents + "b"])
    for _ in range(1000):
        pattern.rows_ok("d", "a" * 64)


def _growths() -> Iterator[tuple[str, float, Cases]]:
    """Yield the text and the target of each growth, with the smaller case and the larger one."""
    for name, make in STATEMENTS.items():
        cases: Cases = {f"{name}, {size >> 20} MB": partial(read_text, make(size)) for size in LENGTHS}
        yield f"statement of {name}: 16 MB / 8 MB", 3, cases
    for name, pattern in PATTERNS.items():
        cases = {
            f"{TABLES} tables, {rules} of {name}": partial(_decide, _wild(pattern, rules))
            for rules in (RULES // 10, RULES)
        }
        yield f"100,000 tables: 10,000 rules like {name} / 1,000", 3, cases
    yield "60 % / 30 %", 4, {f"a pattern of {count} %": partial(_match, count) for count in (30, 60)}


def run(report: Report, options: Options) -> None:
    growths = list(_growths())
    one = Filter.from_options(["--replicate-wild-do-table=db1.%"])
    cases: dict[str, Callable[[], object]] = {
        "crc32 of 16 MB": partial(zlib.crc32, STATEMENTS["one string"](LENGTHS[-1]).encode()),
        f"{TABLES} tables, 1 rule": partial(_decide, one),
    }
    for *_, pair in growths:
        cases |= pair
    report.runs = min(report.runs, 3)
    m = report.measure(cases)
    for text, wanted, (few, many) in growths:
        report.limit(text, m[many] / m[few], wanted)
    for name in STATEMENTS:
        report.row(f"statement of {name} / crc32", m[f"{name}, 16 MB"] / m["crc32 of 16 MB"], "{:.1f}")
    # A console freezes the objects of the started program, too, so that the collector is quick.
    gc.freeze()
    for name, text in SELECTS.items():
        title = f"a thread's wait beside a SELECT of {name}, s"
        report.limit(title, _delay(text), _LONGEST_DELAY_SECONDS)

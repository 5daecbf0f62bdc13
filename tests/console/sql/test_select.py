"""SELECT with MySQL's meaning. The expected answers are those of a real MySQL 9.7."""

from __future__ import annotations

import datetime
import inspect
import sqlite3
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mysql_mimic.charset import CharacterSet

from dumpfilter.console.answers import result_set
from dumpfilter.console.sql.functions import FUNCTIONS, called
from dumpfilter.console.sql.interruption import Interrupt
from dumpfilter.console.sql.result import ZERO_TIMESTAMP, Column, ColumnType, Result
from dumpfilter.console.sql.select import Environment, select
from dumpfilter.console.sql.server_errors import ER_NO_SUCH_TABLE, SqlError

SCHEMA = "performance_schema"
FILTERS = Result(
    [
        Column("CHANNEL_NAME"),
        Column("FILTER_NAME"),
        Column("FILTER_RULE"),
        Column("ACTIVE_SINCE", ColumnType.TIMESTAMP),
        Column("COUNTER", ColumnType.INTEGER),
    ],
    [
        ("", "REPLICATE_DO_DB", "shop", datetime.datetime(2026, 11, 21, 10), 5),
        ("Ch1", "REPLICATE_DO_DB", "db1,db2", datetime.datetime(2026, 11, 21, 11, 0, 0, 250), 7),
        ("ch2", "REPLICATE_WILD_DO_TABLE", "a\\_%.é", datetime.datetime(2026, 11, 22), 0),
    ],
)
STATUS = Result([Column("CHANNEL_NAME"), Column("SERVICE_STATE")], [("", "ON"), ("ch1", "OFF")])
TABLES = {(SCHEMA, "filters"): FILTERS, (SCHEMA, "status"): STATUS}


def find_table(schema: str, name: str) -> Result:
    """Return a table. The session's own errors are tested with a console."""
    if (schema, name) not in TABLES:
        raise ER_NO_SUCH_TABLE(schema, name)
    return TABLES[schema, name]


ENVIRONMENT = Environment(
    find_table,
    database=SCHEMA,
    variables={"server_id": 7, "sql_mode": "", "sql_select_limit": 2**64 - 1},
    user_variables={"a": "x"},
    functions={"version": lambda: "8.0.0", "database": lambda: SCHEMA},
)


def run(text: str, *, seconds: float = 60.0) -> Result:
    interrupt = Interrupt()
    interrupt.deadline = time.monotonic() + seconds
    return select(text, ENVIRONMENT, interrupt)


def rows(text: str) -> list[Any]:
    """Return the rows. A row of one column is its value."""
    result = run(text)
    return [row[0] if len(row) == 1 else tuple(row) for row in result.rows]


def names(text: str) -> list[str]:
    return [column.name for column in run(text).columns]


def failure(text: str, *, seconds: float = 60.0) -> SqlError:
    with pytest.raises(SqlError) as caught:
        run(text, seconds=seconds)
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT counter FROM filters WHERE channel_name = 'CH1'", [7]),
        ("SELECT counter FROM filters WHERE CONCAT(channel_name, '') = 'cH1'", [7]),
        (
            "SELECT counter FROM filters WHERE channel_name IN ('CH1', 'CH2') ORDER BY channel_name DESC",
            [0, 7],
        ),
        ("SELECT counter FROM (SELECT CONCAT(channel_name) x, counter FROM filters) d WHERE x = 'CH1'", [7]),
        ("SELECT filter_rule FROM filters WHERE filter_rule LIKE 'DB_,%'", ["db1,db2"]),
        ("SELECT counter FROM filters WHERE filter_name LIKE 'Replicate\\_WILD%'", [0]),
        ("SELECT counter FROM filters WHERE filter_rule NOT LIKE 'A\\_%' AND counter", [5, 7]),
        ("SELECT counter FROM filters WHERE filter_rule LIKE '%|%%' ESCAPE '|'", [0]),
        ("SELECT counter FROM filters WHERE counter > '5'", [7]),
        ("SELECT counter FROM filters WHERE active_since = '2026-11-21 10:00:00.000000'", [5]),
        ("SELECT counter FROM filters WHERE '2026-11-21 10:30' < active_since AND counter", [7]),
        ("SELECT counter FROM filters WHERE active_since < NOW(6) OR active_since >= NOW(6)", [5, 7, 0]),
        ("SELECT counter FROM filters ORDER BY counter LIMIT 1, 1", [5]),
        ("SELECT counter FROM filters ORDER BY counter LIMIT 1, 18446744073709551615", [5, 7]),
        ("SELECT counter FROM filters LIMIT 1 OFFSET 18446744073709551615", []),
        (
            "SELECT DISTINCT filter_name FROM filters ORDER BY 1",
            ["REPLICATE_DO_DB", "REPLICATE_WILD_DO_TABLE"],
        ),
        (
            "SELECT filter_name, COUNT(*), SUM(counter) FROM filters GROUP BY filter_name HAVING SUM(counter) > 1",
            [("REPLICATE_DO_DB", 2, 12)],
        ),
        (
            "SELECT LOWER(channel_name) c, COUNT(*) FROM (SELECT channel_name FROM filters "
            "UNION ALL SELECT channel_name FROM status) u GROUP BY c ORDER BY c",
            [("", 2), ("ch1", 2), ("ch2", 1)],
        ),
        (
            "SELECT channel_name FROM filters UNION SELECT channel_name FROM status "
            "WHERE service_state = 'off' ORDER BY 1 DESC LIMIT 1",
            ["ch2"],
        ),
        ("(SELECT 1) UNION (SELECT 2) ORDER BY 1 DESC", [2, 1]),
        (
            "SELECT f.counter, s.service_state FROM filters f "
            "LEFT JOIN status s ON f.channel_name = s.channel_name ORDER BY 1",
            [(0, None), (5, "ON"), (7, "OFF")],
        ),
        (
            "SELECT counter FROM filters NATURAL JOIN performance_schema.status WHERE service_state = 'OFF'",
            [7],
        ),
        (
            "SELECT counter FROM filters f "
            "WHERE NOT EXISTS (SELECT 1 FROM status s WHERE s.channel_name = f.channel_name)",
            [0],
        ),
        ("WITH c AS (SELECT channel_name n FROM filters) SELECT COUNT(*) FROM c WHERE n = 'CH1'", [1]),
        (
            "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 5) SELECT SUM(n) FROM x",
            [15],
        ),
        ("SELECT GROUP_CONCAT(counter SEPARATOR ';') FROM filters", ["5;7;0"]),
        ("SELECT GROUP_CONCAT(counter ORDER BY counter DESC) FROM filters", ["7,5,0"]),
        (
            "SELECT GROUP_CONCAT(filter_name ORDER BY 1 DESC SEPARATOR '-') FROM filters",
            ["REPLICATE_WILD_DO_TABLE-REPLICATE_DO_DB-REPLICATE_DO_DB"],
        ),
        (
            "SELECT filter_name, GROUP_CONCAT(UPPER(filter_rule) ORDER BY filter_name, filter_rule) FROM filters "
            "GROUP BY filter_name",
            [("REPLICATE_DO_DB", "DB1,DB2,SHOP"), ("REPLICATE_WILD_DO_TABLE", "A\\_%.É")],
        ),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT LEFT(channel_name, 1) FROM filters) d", [2]),
        ("SELECT COUNT(*) FROM (SELECT CONCAT('a') UNION SELECT CONCAT('A')) d", [1]),
        ("SELECT COUNT(DISTINCT LEFT(channel_name, 1)), COUNT(DISTINCT counter > 5) FROM filters", [(2, 2)]),
        ("SELECT COUNT(DISTINCT x) FROM (SELECT LEFT(channel_name, 1) x FROM filters) d", [2]),
        (
            "SELECT MAX(LEFT(channel_name, 1)) > 'C', MIN(x) FROM filters, (SELECT 'a' x UNION SELECT 'B') d",
            [(0, "a")],
        ),
        (
            "SELECT x FROM (SELECT 'b' x, 'B' y UNION ALL SELECT 'A', 'a' UNION ALL SELECT 'C', 'c') d "
            "ORDER BY IFNULL(x, y), CASE WHEN 1 THEN x END",
            ["A", "b", "C"],
        ),
        ("SELECT MAX(x) FROM (SELECT 'b' x UNION ALL SELECT 'C') d GROUP BY x ORDER BY MAX(x)", ["b", "C"]),
        (
            "SELECT FIRST_VALUE(x) OVER (ORDER BY x) f, COALESCE(x, x) = COALESCE(y, y) FROM "
            "(SELECT 'b' x, 'B' y UNION ALL SELECT 'C', 'c') d",
            [("b", 1), ("b", 1)],
        ),
        ("SELECT MIN(CONCAT(x)) FROM (SELECT 'b' x UNION SELECT 'C') d", ["b"]),
        (
            "SELECT counter, COUNT(*) OVER (PARTITION BY LEFT(channel_name, 1)) FROM filters ORDER BY counter",
            [(0, 2), (5, 1), (7, 2)],
        ),
        ("SELECT CASE CONCAT('A') WHEN 'a' THEN 1 ELSE 2 END, CASE WHEN 'A' = 'a' THEN 1 END", [(1, 1)]),
        ("SELECT GROUP_CONCAT(counter) FROM filters WHERE 0", [None]),
        (
            "SELECT x FROM (SELECT 'b' x UNION SELECT '_' UNION SELECT '-' UNION SELECT '1' UNION SELECT 'A') d "
            "ORDER BY x",
            ["-", "1", "_", "A", "b"],
        ),
        ("SELECT 'a' = 'A', 'a' = 'a ', 'a' < 'B', NULL <=> NULL, 1 = 1.0", [(1, 0, 1, 1, 1)]),
        ("SELECT counter FROM filters WHERE active_since IN ('2026-11-21 10:00:00.000000', NULL)", [5]),
        (
            "SELECT counter FROM filters WHERE active_since BETWEEN '2026-11-21 11:00' AND '2026-11-23'",
            [7, 0],
        ),
        ("SELECT counter FROM filters ORDER BY active_since DESC", [0, 7, 5]),
        (
            "SELECT 7 DIV 2, 7 % 3, 5 / 0, -3 DIV 2, TRUE, NOT 2, !0, 5 & 4 | 1, 1 << 2",
            [(3, 1, None, -1, 1, 0, 1, 5, 4)],
        ),
        ("SELECT 7 % 2.5, -7.5 % 2, '7.5' % 2, 0 % 0.5, 1 % 0.0, NULL % 2", [(2, -1.5, 1.5, 0, None, None)]),
        (
            "SELECT @a, @A, @nope, @@server_id, @@global.server_id, VERSION(), DATABASE()",
            [("x", "x", None, 7, 7, "8.0.0", SCHEMA)],
        ),
        ("SELECT NOW(6) = NOW(6), NOW() = CURRENT_TIMESTAMP, CURDATE() = DATE(NOW())", [(1, 1, 1)]),
        (
            "SELECT 'it''s', \"it's\", 'a\\nb', '\\'', 'a' 'b'",
            [("it's", "it's", "a\nb", "'", "ab")],
        ),
        ("SELECT 1 FROM DUAL WHERE 1 = 1 FOR UPDATE", [1]),
        ("SELECT 1 /* + 1 */ -- + 1", [1]),
        ("TABLE status", [("", "ON"), ("ch1", "OFF")]),
        ("SELECT /*+ MAX_EXECUTION_TIME(1000) */ 1", [1]),
    ],
)
def test_meaning(text: str, expected: list[Any]) -> None:
    assert rows(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CONCAT('a', 1, 1.5)", "a11.5"),
        ("CONCAT('a', NULL)", None),
        ("CONCAT_WS(',', 'a', NULL, 'b')", "a,b"),
        ("IF(0, 'y', 'n')", "n"),
        ("IFNULL(NULL, 2)", 2),
        ("COALESCE(NULL, NULL, 3)", 3),
        ("NULLIF('a', 'A')", None),
        ("LEFT('abc', 2)", "ab"),
        ("RIGHT('abc', 2)", "bc"),
        ("SUBSTRING('Quadratically', 5, 6)", "ratica"),
        ("SUBSTRING('Sakila', -5, 3)", "aki"),
        ("SUBSTRING('abc', 0)", ""),
        ("REPLACE('www', 'w', 'Ww')", "WwWwWw"),
        ("LOCATE('BAR', 'foobarbar')", 4),
        ("LOCATE('bar', 'foobarbar', 5)", 7),
        ("LENGTH('é')", 2),
        ("CHAR_LENGTH('é')", 1),
        ("REPEAT('x', 1000000000)", None),
        ("ROUND(-1.58)", -2),
        ("LEAST(2, 1.5, 3)", 1.5),
        ("LEAST('b', 'A')", "A"),
        ("LEAST(1, NULL)", None),
        ("GREATEST(3, '12')", "3"),
        ("ROUND(1.298, 1)", 1.3),
        ("CEIL(1.2)", 2),
        ("CAST('12abc' AS SIGNED)", 12),
        ("CAST(1.5 AS UNSIGNED)", 2),
        ("CAST(12 AS CHAR)", "12"),
        ("CAST('18446744073709551615' AS UNSIGNED)", "18446744073709551615"),
        ("CAST('9223372036854775807' AS SIGNED)", 2**63 - 1),
        ("CEIL(1e19)", "10000000000000000000"),
        ("SLEEP('0.001x')", 0),
        ("@@sql_select_limit", "18446744073709551615"),
        ("DATE('nonsense')", None),
        ("TRIM('  bar   ')", "bar"),
        ("TRIM(5)", "5"),
    ],
)
def test_functions_as_the_manual_has_them(text: str, expected: Any) -> None:
    assert rows(f"SELECT {text}") == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT channel_name, Counter c, count( * ) FROM filters GROUP BY 1, 2",
            ["channel_name", "c", "count(*)"],
        ),
        (
            "SELECT 1+1,  'x y', NULL, if(1,'a',\"b\"), @@server_id",
            ["1 + 1", "x y", "NULL", "IF(1, 'a', 'b')", "@@server_id"],
        ),
        ("SELECT DISTINCT SQL_NO_CACHE upper( channel_name ) FROM filters", ["upper(channel_name)"]),
        ("SELECT * FROM status", ["CHANNEL_NAME", "SERVICE_STATE"]),
        ("SELECT s.*, 1 FROM status s", ["CHANNEL_NAME", "SERVICE_STATE", "1"]),
        ("SELECT channel_name FROM (SELECT channel_name FROM filters) d", ["channel_name"]),
        ("SELECT * FROM (SELECT Channel_Name FROM filters) d", ["Channel_Name"]),
        ("SELECT (SELECT MAX(counter) FROM filters), 2", ["(SELECT MAX(counter) FROM filters)", "2"]),
        ("(SELECT 1) UNION SELECT 2", ["1"]),
        ("WITH x AS (SELECT 1 a, 2 b) SELECT a,b , a+b FROM x", ["a", "b", "a + b"]),
    ],
)
def test_columns_are_named_by_their_expressions(text: str, expected: list[str]) -> None:
    assert names(text) == expected


def test_types() -> None:
    result = run("SELECT active_since, counter, counter / 2, channel_name, counter + 0 FROM filters")
    types = [ColumnType.TIMESTAMP, ColumnType.INTEGER, ColumnType.DOUBLE, ColumnType.TEXT, ColumnType.INTEGER]
    assert [column.type for column in result.columns] == types
    assert result.rows[1][0] == "2026-11-21 11:00:00.000250"
    empty = run("SELECT active_since, counter FROM filters WHERE 0")
    assert [column.type for column in empty.columns] == types[:2]


def test_zero_timestamp() -> None:
    table = Result([Column("T", ColumnType.TIMESTAMP)], [(ZERO_TIMESTAMP,), (None,)])
    result = select("SELECT * FROM a.t", Environment(lambda *_: table))
    assert result == Result([Column("T", ColumnType.TIMESTAMP)], [(ZERO_TIMESTAMP,), (None,)])


def test_a_zero_timestamp_beside_another_value_is_a_text() -> None:
    result = run(f"SELECT '{ZERO_TIMESTAMP}' AS x UNION ALL SELECT 1")
    assert result == Result([Column("x")], [(ZERO_TIMESTAMP,), (1,)])


@pytest.mark.parametrize(
    ("text", "number", "state", "message"),
    [
        ("SELECT nope FROM filters", 1054, "42S22", "Unknown column 'nope' in 'field list'"),
        ('SELECT "x", `nope` FROM filters', 1054, "42S22", "Unknown column 'nope' in 'field list'"),
        ("SELECT x.counter FROM filters", 1054, "42S22", "Unknown column 'x.counter' in 'field list'"),
        ("SELECT 1 FROM filters WHERE nope = 1", 1054, "42S22", "Unknown column 'nope' in 'field list'"),
        ("SELECT 1 FROM filters ORDER BY nope", 1054, "42S22", "Unknown column 'nope' in 'field list'"),
        (
            "SELECT COUNT(*) FROM filters GROUP BY nope",
            1054,
            "42S22",
            "Unknown column 'nope' in 'field list'",
        ),
        (
            "SELECT COUNT(*) FROM filters HAVING nope",
            1054,
            "42S22",
            "Unknown column 'nope' in 'field list'",
        ),
        (
            "SELECT 1 FROM filters a JOIN status b ON a.nope = 1",
            1054,
            "42S22",
            "Unknown column 'a.nope' in 'field list'",
        ),
        (
            "SELECT channel_name FROM filters JOIN status",
            1052,
            "23000",
            "Column 'channel_name' in field list is ambiguous",
        ),
        ("SELECT * FROM nope", 1146, "42S02", "Table 'performance_schema.nope' doesn't exist"),
        ("SELECT nope(1)", 1305, "42000", "FUNCTION performance_schema.nope does not exist"),
        ("SELECT @@nope", 1193, "HY000", "Unknown system variable 'nope'"),
        ("SELECT 1 FROM filters WHERE COUNT(*) > 1", 1111, "HY000", "Invalid use of group function"),
        ("SELECT * FROM status a, status a", 1066, "42000", "Not unique table/alias: 'a'"),
        (
            "SELECT LEFT('a')",
            1582,
            "42000",
            "Incorrect parameter count in the call to native function 'LEFT'",
        ),
    ],
)
def test_errors_have_the_servers_numbers(text: str, number: int, state: str, message: str) -> None:
    error = failure(text)
    assert (error.number, error.sqlstate, error.message) == (number, state, message)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT (SELECT 1, 2)",
        "SELECT 1 UNION SELECT 1, 2",
        "SELECT * FROM status ORDER BY 9",
        "SELECT 1 FROM status GROUP BY 9",
        "SELECT *",
        "SELECT * FROM DUAL",
        "SELECT IFNULL(1)",
    ],
)
def test_other_wrong_selects_have_one_number(text: str) -> None:
    assert failure(text).number == 1235


def test_no_database() -> None:
    with pytest.raises(SqlError, match="No database selected"):
        select("SELECT * FROM filters", Environment(find_table))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 +",
        "SELECT FROM status",
        "SELECT 'a",
        "SELECT 1; SELECT 2",
        "SELECT 1 )",
        "SELECT /* 1",
        "SELECT 1 WHERE",
        "SELECT 1 LIMIT -1",
        "SELECT 1 LIMIT 1, -1",
        "SELECT * FROM status LIMIT x",
    ],
)
def test_syntax_errors(text: str) -> None:
    assert (failure(text).number, failure(text).sqlstate) == (1064, "42000")


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO filters VALUES (1)",
        "CREATE TABLE x (a INT)",
        "ATTACH DATABASE 'x' AS y",
        "PRAGMA query_only = OFF",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM pragma_table_list",
        "SELECT * FROM pragma_function_list('x')",
        "SELECT load_extension('x')",
        "SELECT writefile('x', 'y')",
        "SELECT 1 INTO OUTFILE '/tmp/x'",
        "SELECT randomblob(1000000000)",
        "SELECT my_upper('x')",
    ],
)
def test_nothing_of_sqlite_can_be_reached(text: str) -> None:
    assert failure(text).number in (1046, 1064, 1146, 1235, 1305)


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("SELECT counter FROM filters WHERE BINARY channel_name = 'ch1'", "CAST AS BINARY"),
        ("SELECT channel_name COLLATE utf8mb4_bin FROM filters", "COLLATE"),
        ("SELECT counter FROM filters WHERE filter_rule REGEXP 'd'", "REGEXPLIKE"),
        ("SELECT counter XOR 1 FROM filters", "XOR"),
        ("SELECT NOW() - INTERVAL 1 DAY", "INTERVAL"),
        ("SELECT /*! 1 + */ 1", "/*! in a SELECT"),
        ("SELECT CAST(NOW() AS DATE)", "CAST AS DATE"),
        ("SELECT 1 INTO @a", "INTO"),
        ("SELECT GROUP_CONCAT(DISTINCT counter) FROM filters", "GROUP_CONCAT(DISTINCT …)"),
        ("SELECT mysql.upper('x')", "DOT"),
    ],
)
def test_what_sqlite_would_answer_otherwise_is_refused_by_name(text: str, feature: str) -> None:
    error = failure(text)
    expected = f"This version of MySQL doesn't yet support '{feature}'"
    assert (error.number, error.sqlstate, error.message) == (1235, "42000", expected)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2026-11-21 10:00:00.000000", ColumnType.TIMESTAMP),
        (ZERO_TIMESTAMP, ColumnType.TIMESTAMP),
        ("2026-99-99 10:00:00.000000", ColumnType.TEXT),
        ("0000-01-01 00:00:00.000000", ColumnType.TEXT),
    ],
)
def test_a_text_that_is_no_time_stays_a_text(text: str, kind: ColumnType) -> None:
    """A prepared statement's result has the parts of a time as numbers."""
    result = run(f"SELECT '{text}'")
    assert result.columns[0].type is kind
    assert len(list(result_set(result, CharacterSet.utf8mb4, binary=True))) == 5


# Bounds

ENDLESS = [
    "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT COUNT(*) FROM x",
    "SELECT COUNT(*) FROM " + ", ".join(f"filters f{n}" for n in range(30)),
    "SELECT SLEEP(3600)",
    "SELECT MAX(a.filter_rule LIKE '%a%b%c%') FROM "
    + ", ".join(f"filters {c}" for c in "abcdefghijklmnopqrstuvwxyz"),
]


@pytest.mark.parametrize("text", ENDLESS)
def test_limit_of_time(text: str) -> None:
    assert failure(text, seconds=0.05).number == 3024


@pytest.mark.parametrize("text", ENDLESS)
def test_stop(text: str) -> None:
    stop = Interrupt()
    begun = threading.Event()

    def find(schema: str, name: str) -> Result:
        begun.set()
        return find_table(schema, name)

    failures: list[int] = []

    def ask() -> None:
        try:
            select(text, Environment(find, SCHEMA), stop)
        except SqlError as error:
            failures.append(error.number)

    thread = threading.Thread(target=ask)
    thread.start()
    if "filters" in text:
        begun.wait()
    stop.set()
    thread.join()
    assert failures == [1317]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT n FROM x", 1041),
        (
            "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT REPEAT('x', 60000) FROM x",
            1041,
        ),
        (
            "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 1000) "
            "SELECT GROUP_CONCAT(REPEAT('x', 60000)) FROM x",
            1041,
        ),
        # Such a row would be a packet of 2.4 MB, for which the loop of a master's port would stop.
        ("SELECT " + ", ".join(["REPEAT('x', 60000)"] * 40), 1041),
        (f"SELECT '{'x' * 300_000}'", 3170),
        ("SELECT " + "(" * 490 + "1" + ")" * 490, 1436),
        # The steps of the parser double with each JOIN, and with each of the parentheses.
        ("SELECT * FROM filters" + " JOIN filters AS f" * 30, 3170),
        ("SELECT " + "BINARY (" * 30 + "1" + ")" * 30, 3170),
        ("SELECT " + "DATE(" * 30 + "1" + ")" * 30, 3170),
    ],
)
def test_limits_of_size(text: str, number: int) -> None:
    assert failure(text).number == number


# Properties


@given(st.text(max_size=40))
def test_any_text_is_a_result_or_an_error_of_the_server(text: str) -> None:
    for statement in (text, f"SELECT {text}", f"SELECT counter FROM filters WHERE {text}"):
        try:
            result = run(statement, seconds=1)
        except SqlError as error:
            sound = 1000 < error.number < 10000 and len(error.sqlstate) == 5
        else:
            sound = all(len(row) == len(result.columns) for row in result.rows)
        assert sound


VALUES = st.one_of(
    st.none(), st.text(max_size=8), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)
)


@given(st.sampled_from(sorted(FUNCTIONS.keys() - {"group_concat"})), st.lists(VALUES, max_size=4))
def test_functions_take_anything(name: str, arguments: list[Any]) -> None:
    parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
    least = sum(one.default is one.empty and one.kind is not one.VAR_POSITIONAL for one in parameters)
    most = 4 if any(one.kind is one.VAR_POSITIONAL for one in parameters) else len(parameters)
    count = max(least, min(len(arguments), most))
    value = called(name, *(arguments + [None] * 4)[:count])
    connection = sqlite3.connect(":memory:")
    try:
        if not isinstance(value, int) or -(2**63) <= value < 2**63:
            connection.execute("SELECT ?", (value,))
    finally:
        connection.close()


@given(st.lists(st.tuples(st.text(alphabet="aAbBcé", max_size=3), st.integers(-5, 5)), max_size=8))
def test_groups_are_those_of_the_collation(entries: list[tuple[str, int]]) -> None:
    table = Result([Column("N"), Column("V", ColumnType.INTEGER)], entries)
    environment = Environment(lambda *_: table, "s")
    found = select("SELECT n, SUM(v) FROM t GROUP BY n ORDER BY n", environment).rows
    expected: dict[bytes, int] = {}
    for name, value in entries:
        key = name.encode().lower()
        expected[key] = expected.get(key, 0) + value
    assert [(name.encode().lower(), total) for name, total in found] == sorted(expected.items())

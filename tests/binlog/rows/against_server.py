"""``python -m tests.binlog.rows.against_server mariadb`` or ``mysql``: compare typed row images with SELECT of a real
server.

The server runs the statements of ``tests/data/rows`` and many updates of JSON documents. The last image of each row, by
its key, must have the values of SELECT. Three sorts of values differ as expected: JSON documents that an update with
``binlog_row_image=MINIMAL`` changed in part, MariaDB's UUID and INET values (bytes), and keys that are not unique.
MySQL is that below ``$DUMPFILTER_MYSQL_ROOT`` (CONTRIBUTING.md).
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymysql

from dumpfilter.binlog.format import Family
from dumpfilter.spark_jobs.source.options import SourceOptions
from dumpfilter.spark_jobs.source.reading import plan_ranges, read_batches, with_types
from tests.binlog.rows.recorded import DIRECTORY
from tests.real.server import RealServer, Servers

ROWS = 40
UPDATES = 600
_PATHS = ("$.a", "$.b", "$.b[0]", "$.b[2]", "$.c.d", '$."x y"', "$.longer", "$.c")
_VALUES = ("1", "'text'", "CAST('[1, {\"k\": null}]' AS JSON)", "NULL", "1.5", "CAST('2026-01-02' AS DATE)")


def main(family: Family) -> int:
    """Print and return the number of values that differ."""
    with tempfile.TemporaryDirectory() as root, Servers(family, Path(root)) as servers:
        server = servers.new("server", 1, "--binlog-row-metadata=FULL", "--binlog-format=ROW")
        server.start()
        return run(server, family)


def run(server: RealServer, family: Family) -> int:
    """Fill the server and compare all its tables."""
    server.sql("CREATE DATABASE rowtypes")
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute("USE rowtypes")
        cursor.execute("SET NAMES utf8mb4, time_zone = '+00:00', sql_mode = ''")
        for name in ("common.sql", "geo.sql", f"{family}.sql"):
            for line in (DIRECTORY / name).read_text().splitlines():
                for statement in line.split("; "):
                    try:
                        cursor.execute(statement)
                    except pymysql.err.MySQLError:
                        continue  # the recordings went on after errors, too
        cursor.execute("SET SESSION binlog_row_image = FULL")
        if family == "mysql":
            update_documents(cursor)
        connection.commit()
        cursor.execute("SHOW TABLES")
        tables = [str(row[0]) for row in cursor.fetchall()]
        differ = sum(compare(cursor, table, server.data) for table in tables if has_rows(cursor, table))
    print(f"{differ} values differ")
    return differ


def update_documents(cursor: Any) -> None:
    """Update JSON documents with all functions that write partial updates."""
    chance = random.Random(1)
    cursor.execute("SET SESSION binlog_row_value_options = PARTIAL_JSON")
    cursor.execute("CREATE TABLE documents (id INT PRIMARY KEY, j JSON)")
    for number in range(ROWS):
        padding = "p" * 500
        cursor.execute(
            f"INSERT INTO documents VALUES ({number}, "
            f'\'{{"a": 1, "b": [1, 2, 3], "c": {{"d": 1}}, "p": "{padding}"}}\')'
        )
    for _ in range(UPDATES):
        function = chance.choice(("SET", "REPLACE", "REMOVE", "INSERT", "SET"))
        path, value = chance.choice(_PATHS), chance.choice(_VALUES)
        more = "" if function == "REMOVE" else f", {value}"
        cursor.execute(
            f"UPDATE documents SET j = JSON_{function}(j, '{path}'{more}) WHERE id = {chance.randrange(ROWS)}"
        )


def has_rows(cursor: Any, table: str) -> bool:
    """Tell whether a table has rows. A table that never had any is not in the binlog."""
    quoted = table.replace("`", "``")
    cursor.execute(f"SELECT 1 FROM `{quoted}` LIMIT 1")
    return cursor.fetchone() is not None


def compare(cursor: Any, table: str, data: Path) -> int:
    """Print the values of a table that differ from the last images of its rows, and return their number."""
    quoted = "`" + table.replace("`", "``") + "`"
    cursor.execute(f"SHOW COLUMNS FROM {quoted}")
    columns = {str(row[0]): str(row[1]) for row in cursor.fetchall()}
    key = next(iter(columns))
    options = with_types(
        SourceOptions.parse(
            {"path": str(data / "bin.index"), "table": f"rowtypes.{table}", "columns": "before,after"}
        )
    )
    last: dict[Any, dict[str, Any]] = {}
    for one in plan_ranges(options):
        for batch in read_batches(one, options):
            for row in batch.to_pylist():
                before, after = row["before"], row["after"]
                old = last.pop(before[key], {}) if before else {}
                if after and after.get(key) is not None:
                    last[after[key]] = after
                elif after and before:
                    last[before[key]] = {
                        **old,
                        **{name: value for name, value in after.items() if value is not None},
                    }
    names = ", ".join(map(selected, columns, columns.values()))
    cursor.execute(f"SELECT {names} FROM {quoted}")
    differ = values = 0
    for row in cursor.fetchall():
        image = next((one for one in last.values() if same(one[key], row[0], columns[key])), None)
        for (name, kind), value in zip(columns.items(), row, strict=True):
            values += 1
            ours = None if image is None else image[name]
            if not same(ours, value, kind):
                differ += 1
                print(f"{table}.{name} ({kind}) of {row[0]!r}: {ours!r} instead of {value!r}"[:300])
    print(f"{table}: {values} values, {differ} differ")
    return differ


def selected(name: str, kind: str) -> str:
    """Return the expression that selects a column. The client has no type for TIME and VECTOR, which are text."""
    column = "`" + name.replace("`", "``") + "`"
    if kind.startswith("vector"):
        return f"VECTOR_TO_STRING({column})"
    return f"CONCAT({column})" if kind.startswith("time") and not kind.startswith("timestamp") else column


def same(ours: Any, theirs: Any, kind: str) -> bool:
    """Tell whether a typed value is the value that the client has from SELECT."""
    if ours == theirs:
        return True
    if ours is None or theirs is None:
        return ours is None and str(theirs).startswith(("0000", "20", "None"))
    if kind.startswith("vector"):
        # The server's text has six digits.
        pairs = zip(json.loads(ours), json.loads(theirs), strict=True)
        return all(abs(one - other) <= 1e-5 * abs(one) for one, other in pairs)
    if isinstance(ours, float):
        return abs(ours - theirs) <= 1e-5 * abs(ours)
    if isinstance(theirs, bytes) and not isinstance(ours, bytes | str):
        return int.from_bytes(theirs, "big") == int(ours)
    if isinstance(theirs, Decimal):
        return Decimal(ours) == theirs
    if hasattr(ours, "tzinfo") and ours.tzinfo is not None:
        return bool(ours.replace(tzinfo=None) == theirs)
    return str(ours) == str(theirs)


if __name__ == "__main__":
    sys.exit(bool(main("mysql" if sys.argv[1] == "mysql" else "mariadb")))

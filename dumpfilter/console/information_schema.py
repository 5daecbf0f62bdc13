"""The console's ``information_schema``: the tables in which clients look up schemas, tables and columns.

SCHEMATA, TABLES, COLUMNS and ENGINES have rows. The other tables are empty.
"""

from __future__ import annotations

from collections.abc import Iterable

from mysql_mimic.constants import INFO_SCHEMA

from dumpfilter.console.executor import Executor
from dumpfilter.sql.result import Column, ColumnType, Table

SCHEMA = "information_schema"
COLLATION = "utf8mb4_0900_ai_ci"

ENGINE = {
    "ENGINE": "PERFORMANCE_SCHEMA",
    "SUPPORT": "DEFAULT",
    "COMMENT": "Performance Schema",
    "TRANSACTIONS": "NO",
    "XA": "NO",
    "SAVEPOINTS": "NO",
}
"""The row of ENGINES and SHOW ENGINES."""

_COLUMNS: dict[str, dict[str, str]] = {
    **INFO_SCHEMA[SCHEMA],
    "check_constraints": dict.fromkeys(
        ("CONSTRAINT_CATALOG", "CONSTRAINT_SCHEMA", "CONSTRAINT_NAME", "CHECK_CLAUSE"), "TEXT"
    ),
    "engines": dict.fromkeys(ENGINE, "TEXT"),
    "plugins": dict.fromkeys(
        (
            *("PLUGIN_NAME", "PLUGIN_VERSION", "PLUGIN_STATUS", "PLUGIN_TYPE", "PLUGIN_TYPE_VERSION"),
            *("PLUGIN_LIBRARY", "PLUGIN_LIBRARY_VERSION", "PLUGIN_AUTHOR", "PLUGIN_DESCRIPTION"),
            *("PLUGIN_LICENSE", "LOAD_OPTION"),
        ),
        "TEXT",
    ),
}
"""The columns of each table with their types ("INT" or "TEXT"): mysql_mimic's tables, and those that DBeaver reads."""

COLUMN_TYPES = {
    ColumnType.TEXT: "longtext",
    ColumnType.INTEGER: "bigint unsigned",
    ColumnType.DOUBLE: "double",
    ColumnType.TIMESTAMP: "timestamp(6)",
}
"""The SQL types of columns (COLUMN_TYPE). The first word of each is its DATA_TYPE."""


def table_names() -> list[str]:
    """Return the names of all tables of information_schema, in lower case and sorted."""
    return sorted(_COLUMNS)


def schemas_of(executor: Executor) -> list[str]:
    """Return the names of all schemas, sorted."""
    return sorted({SCHEMA, *(schema for schema, _ in executor.table_names())})


def information_schema_table(executor: Executor, name: str) -> Table | None:
    """Return a table of information_schema by its name in any case, or None when there is no such table."""
    name = name.lower()
    if name not in _COLUMNS:
        return None
    columns = [
        Column(column.upper(), ColumnType.INTEGER if kind == "INT" else ColumnType.TEXT)
        for column, kind in _COLUMNS[name].items()
    ]
    rows = {"schemata": _schemata, "tables": _tables, "columns": _table_columns, "engines": _engines}.get(
        name
    )
    return Table(columns, [] if rows is None else [_row(columns, row) for row in rows(executor)])


def _engines(executor: Executor) -> Iterable[dict[str, object]]:
    yield dict(ENGINE)


def _row(columns: list[Column], values: dict[str, object]) -> list[object]:
    return [values.get(column.name) for column in columns]


def _schemata(executor: Executor) -> Iterable[dict[str, object]]:
    for schema in schemas_of(executor):
        yield {
            "CATALOG_NAME": "def",
            "SCHEMA_NAME": schema,
            "DEFAULT_CHARACTER_SET_NAME": "utf8mb4",
            "DEFAULT_COLLATION_NAME": COLLATION,
        }


def _names(executor: Executor) -> list[tuple[str, str]]:
    return [*((SCHEMA, name) for name in table_names()), *sorted(executor.table_names())]


def _tables(executor: Executor) -> Iterable[dict[str, object]]:
    for schema, name in _names(executor):
        inner = schema == SCHEMA
        yield {
            "TABLE_CATALOG": "def",
            "TABLE_SCHEMA": schema,
            "TABLE_NAME": name.upper() if inner else name,
            "TABLE_TYPE": "SYSTEM VIEW" if inner else "BASE TABLE",
            "ENGINE": None if inner else schema.upper(),
            "VERSION": 10,
            "TABLE_COLLATION": None if inner else COLLATION,
            "TABLE_COMMENT": "",
        }


def _table_columns(executor: Executor) -> Iterable[dict[str, object]]:
    for schema, name in _names(executor):
        if schema == SCHEMA:
            columns: Iterable[Column] = [
                Column(column.upper(), ColumnType.INTEGER if kind == "INT" else ColumnType.TEXT)
                for column, kind in _COLUMNS[name].items()
            ]
        else:
            table = executor.table(schema, name)
            columns = table.columns if table else ()
        for position, column in enumerate(columns, 1):
            text = column.type is ColumnType.TEXT
            column_type = COLUMN_TYPES[column.type]
            yield {
                "TABLE_CATALOG": "def",
                "TABLE_SCHEMA": schema,
                "TABLE_NAME": name.upper() if schema == SCHEMA else name,
                "COLUMN_NAME": column.name,
                "ORDINAL_POSITION": position,
                "IS_NULLABLE": "YES",
                "DATA_TYPE": column_type.split("(")[0].split()[0],
                "CHARACTER_SET_NAME": "utf8mb4" if text else None,
                "COLLATION_NAME": COLLATION if text else None,
                "COLUMN_TYPE": column_type,
                "COLUMN_KEY": "",
                "EXTRA": "",
                "PRIVILEGES": "select",
                "COLUMN_COMMENT": "",
            }

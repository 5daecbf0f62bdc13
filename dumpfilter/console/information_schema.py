"""The tables of the console's ``information_schema``, in which clients look up schemas, tables and columns.

SCHEMATA, TABLES, COLUMNS and ENGINES have rows. The other tables exist without rows, so that client programs can read
them without an error.
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
"""The only row of the table ENGINES and of SHOW ENGINES. All tables of a console have this engine."""

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
"""The columns of each table, by the table's name in lower case, with their types ("INT" or "TEXT").

The tables come from the library mysql_mimic. Tables that the client DBeaver also reads are added.
"""

COLUMN_TYPES = {
    ColumnType.TEXT: "longtext",
    ColumnType.INTEGER: "bigint unsigned",
    ColumnType.DOUBLE: "double",
    ColumnType.TIMESTAMP: "timestamp(6)",
}
"""The SQL type that information_schema.COLUMNS shows in COLUMN_TYPE for each type of column.

The first word of the SQL type, without its length, is shown in DATA_TYPE.
"""


def table_names() -> list[str]:
    """Return the names of all tables of information_schema, in lower case and sorted."""
    return sorted(_COLUMNS)


def schemas_of(executor: Executor) -> list[str]:
    """Return the names of all schemas of a console, sorted: information_schema and the schemas of status tables."""
    return sorted({SCHEMA, *(schema for schema, _ in executor.table_names())})


def information_schema_table(executor: Executor, name: str) -> Table | None:
    """Return the columns and rows of a table of information_schema, or None if there is no such table.

    ``name`` can be in upper or lower case. The rows describe the status tables of ``executor``, the master or slave.
    """
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


def tables_of(executor: Executor, schema: str) -> list[dict[str, object]]:
    """Return the rows of information_schema.TABLES for the tables of a schema, by column names."""
    return [row for row in _tables(executor) if row["TABLE_SCHEMA"] == schema]


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

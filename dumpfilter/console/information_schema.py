"""The tables of the console's ``information_schema``, in which clients look up schemas, tables and columns.

SHOW statements are made from the same rows. A table without rows exists so that client programs can read the table
without an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from mysql_mimic.constants import INFO_SCHEMA

from dumpfilter.console.executor import Executor
from dumpfilter.console.sql.result import Column, ColumnType, Result

SCHEMA = "information_schema"
COLLATION = "utf8mb4_0900_ai_ci"

ENGINE = "PERFORMANCE_SCHEMA"
"""The storage engine that all tables of a console show."""

_COLLATION_ID = 255
"""The number that a MySQL server gives to the collation utf8mb4_0900_ai_ci."""


def _texts(names: str) -> list[Column]:
    return [Column(name) for name in names.split()]


_TYPES = {"INT": ColumnType.INTEGER, "TEXT": ColumnType.TEXT}
_COLUMNS: dict[str, list[Column]] = {
    table: [Column(name.upper(), _TYPES[kind]) for name, kind in columns.items()]
    for table, columns in INFO_SCHEMA[SCHEMA].items()
} | {
    "check_constraints": _texts("CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME CHECK_CLAUSE"),
    "engines": _texts("ENGINE SUPPORT COMMENT TRANSACTIONS XA SAVEPOINTS"),
    "plugins": _texts(
        "PLUGIN_NAME PLUGIN_VERSION PLUGIN_STATUS PLUGIN_TYPE PLUGIN_TYPE_VERSION PLUGIN_LIBRARY "
        "PLUGIN_LIBRARY_VERSION PLUGIN_AUTHOR PLUGIN_DESCRIPTION PLUGIN_LICENSE LOAD_OPTION"
    ),
}
"""The columns of each table, by the table's name in lower case.

The tables come from the library mysql_mimic. Tables and a column that the client DBeaver also reads are added.
"""
_COLUMNS["collations"].append(Column("PAD_ATTRIBUTE"))

_COLUMN_TYPES = {
    ColumnType.TEXT: "longtext",
    ColumnType.INTEGER: "bigint unsigned",
    ColumnType.DOUBLE: "double",
    ColumnType.TIMESTAMP: "timestamp(6)",
}
"""The SQL type that information_schema.COLUMNS shows in COLUMN_TYPE for each type of column.

The first word of the SQL type, without its length, is shown in DATA_TYPE.
"""

Row = Mapping[str, Any]
"""The values of a row by column name. A missing column is NULL."""


def schemas_of(executor: Executor) -> list[str]:
    """Return the names of the schemas that a console (a port for MySQL clients) shows, sorted.

    They are information_schema and the schemas of the status tables of ``executor``, the master or slave.
    """
    return sorted({SCHEMA, *(schema for schema, _ in executor.tables)})


def information_schema_table(executor: Executor, name: str) -> Result | None:
    """Return the columns and rows of a table in the console's information_schema, or None if there is no such table.

    ``name`` can be in upper or lower case. The rows describe the status tables of ``executor``, the master or slave.
    """
    name = name.lower()
    if name not in _COLUMNS:
        return None
    columns = _COLUMNS[name]
    rows = ROWS[name](executor) if name in ROWS else ()
    return Result(columns, [[row.get(column.name) for column in columns] for row in rows])


def _schemata(executor: Executor) -> Iterable[Row]:
    for schema in schemas_of(executor):
        yield {
            "CATALOG_NAME": "def",
            "SCHEMA_NAME": schema,
            "DEFAULT_CHARACTER_SET_NAME": "utf8mb4",
            "DEFAULT_COLLATION_NAME": COLLATION,
        }


def _names(executor: Executor) -> list[tuple[str, str]]:
    return [*((SCHEMA, name.upper()) for name in sorted(_COLUMNS)), *sorted(executor.tables)]


def _tables(executor: Executor) -> Iterable[Row]:
    for schema, name in _names(executor):
        inner = schema == SCHEMA
        yield {
            "TABLE_CATALOG": "def",
            "TABLE_SCHEMA": schema,
            "TABLE_NAME": name,
            "TABLE_TYPE": "SYSTEM VIEW" if inner else "BASE TABLE",
            "ENGINE": None if inner else schema.upper(),
            "VERSION": 10,
            "TABLE_COLLATION": None if inner else COLLATION,
            "TABLE_COMMENT": "",
        }


def _table_columns(executor: Executor) -> Iterable[Row]:
    for schema, name in _names(executor):
        columns = _COLUMNS[name.lower()] if schema == SCHEMA else executor.tables[schema, name]().columns
        yield from column_rows(schema, name, columns)


def column_rows(schema: str, table: str, columns: Iterable[Column]) -> Iterable[Row]:
    """Yield the rows of information_schema.COLUMNS for the columns of one table, each as a dictionary by the names in
    that view.
    """
    for position, column in enumerate(columns, 1):
        is_text = column.type is ColumnType.TEXT
        column_type = _COLUMN_TYPES[column.type]
        yield {
            "TABLE_CATALOG": "def",
            "TABLE_SCHEMA": schema,
            "TABLE_NAME": table,
            "COLUMN_NAME": column.name,
            "ORDINAL_POSITION": position,
            "IS_NULLABLE": "YES",
            "DATA_TYPE": column_type.split("(")[0].split()[0],
            "CHARACTER_SET_NAME": "utf8mb4" if is_text else None,
            "COLLATION_NAME": COLLATION if is_text else None,
            "COLUMN_TYPE": column_type,
            "COLUMN_KEY": "",
            "EXTRA": "",
            "PRIVILEGES": "select",
            "COLUMN_COMMENT": "",
        }


def _constant(table: str, *values: object) -> Callable[[Executor], list[Row]]:
    """Return a function that returns the only row of a table, whose values are in the order of the table's columns."""
    row = dict(zip((column.name for column in _COLUMNS[table]), values, strict=False))
    return lambda executor: [row]


ROWS: Mapping[str, Callable[[Executor], Iterable[Row]]] = MappingProxyType(
    {
        "character_sets": _constant("character_sets", "utf8mb4", COLLATION, "UTF-8 Unicode", 4),
        "collations": _constant("collations", COLLATION, "utf8mb4", _COLLATION_ID, "Yes", "Yes", 0, "NO PAD"),
        "columns": _table_columns,
        "engines": _constant("engines", ENGINE, "DEFAULT", "Performance Schema", "NO", "NO", "NO"),
        "schemata": _schemata,
        "tables": _tables,
    }
)
"""The functions that return the rows of a table, by the table's name. Tables without a function have no rows."""

"""The SHOW and DESCRIBE statements that are not about replication, such as SHOW TABLES.

Each statement is declared with its syntax. Most of them show tables of information_schema with other column names. A
condition (LIKE or WHERE) is applied by a SELECT on the result.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dumpfilter.console.grammar import GRAMMAR
from dumpfilter.console.information_schema import (
    COLLATION,
    ENGINE,
    ROWS,
    Row,
    column_rows,
    schemas_of,
)
from dumpfilter.console.roles import grants, may_see_user
from dumpfilter.console.session import SHOWN_SCHEMA, Session
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.result import Column, ColumnType, Result
from dumpfilter.console.sql.select import quoted

_INFO_LENGTH = 100
"""The number of characters of a statement that SHOW PROCESSLIST shows. SHOW FULL PROCESSLIST shows all."""

_EMPTY: Mapping[str, str] = {
    "TRIGGERS": "Trigger, Event, Table, Statement, Timing, Created, sql_mode, Definer",
    "EVENTS": "Db, Name, Definer, Time zone, Type, Execute at, Status",
    "PROCEDURE|FUNCTION": "Db, Name, Type, Definer, Modified, Created, Security_type, Comment",
    "PLUGINS": "Name, Status, Type, Library, License",
    "OPEN": "Database, Table, In_use, Name_locked",
    "INDEX|INDEXES|KEYS": "Table, Non_unique, Key_name, Seq_in_index, Column_name, Collation, Cardinality",
}
"""The column names of the SHOW statements that always return no rows, by the word after SHOW.

A console has no triggers, indexes or similar objects, but client programs ask for them.
"""

_VIEWS: Mapping[str, tuple[str, str]] = {
    "DATABASES|SCHEMAS": ("schemata", "Database=SCHEMA_NAME"),
    "[STORAGE] ENGINES": (
        "engines",
        "Engine=ENGINE, Support=SUPPORT, Comment=COMMENT, Transactions=TRANSACTIONS, XA=XA, Savepoints=SAVEPOINTS",
    ),
    "CHARSET": (
        "character_sets",
        "Charset=CHARACTER_SET_NAME, Description=DESCRIPTION, Default collation=DEFAULT_COLLATE_NAME, Maxlen=MAXLEN",
    ),
    "COLLATION": (
        "collations",
        "Collation=COLLATION_NAME, Charset=CHARACTER_SET_NAME, Id=ID, Default=IS_DEFAULT, Compiled=IS_COMPILED, "
        "Sortlen=SORTLEN, Pad_attribute=PAD_ATTRIBUTE",
    ),
}
"""The SHOW statements that show all rows of one table of information_schema, with the table and the columns."""

_SCOPE = "[GLOBAL|SESSION|LOCAL]"
_IN_SCHEMA = "[FROM|IN schema:identifier]"


Read = Callable[..., Result]


def _shown(*forms: str) -> Callable[[Read], Read]:
    """Return a decorator that declares a SHOW statement with the syntax ``forms``, the words after SHOW.

    The decorated function returns all rows. The statement's condition (LIKE or WHERE) then selects some of them.
    """

    def declare(read: Read) -> Read:
        for form in forms:
            GRAMMAR.call(f"SHOW {form} [*:condition]", _show, read)
        return read

    return declare


def _show(
    read: Read, session: Session, *, pattern: str = "", like: str = "", where: str = "", **values: Any
) -> Result:
    table = read(session, **values)
    first, *others = table.columns
    if like and first.name.startswith(("Database", "Tables_in_")):
        first = replace(first, name=f"{first.name} ({pattern})")
    shown = Result([first, *others], table.rows)
    condition = f"{quoted(first.name)} LIKE {like}" if like else where
    if not condition:
        return shown
    return session.select(f"SELECT * FROM `{SHOWN_SCHEMA}`.`shown` WHERE {condition}", {"shown": shown})


def _columns(names: str, rows: Sequence[Sequence[object]] = ()) -> list[Column]:
    """Return columns with the comma-separated ``names``. Columns with an integer in the first row are numeric."""
    first = rows[0] if rows else ()
    return [
        Column(name, ColumnType.INTEGER if isinstance(value, int) else ColumnType.TEXT)
        for name, value in itertools.zip_longest(names.split(", "), first)
    ]


def _renamed(rows: Iterable[Row], names: str) -> Result:
    """Return a table with some columns of information_schema under other names.

    ``names`` pairs the name in the result with the name in information_schema, such as ``Name=TABLE_NAME, …``.
    """
    pairs = [pair.split("=") for pair in names.split(", ")]
    shown = [[row.get(origin) for _, origin in pairs] for row in rows]
    return Result(_columns(", ".join(name for name, _ in pairs), shown), shown)


def _pairs(values: Mapping[str, object]) -> Result:
    rows = [(name, "" if value is None else str(value)) for name, value in sorted(values.items())]
    return Result(_columns("Variable_name, Value"), rows)


@_shown(f"{_SCOPE} VARIABLES")
def _variables(session: Session) -> Result:
    return _pairs(session.variables.all())


@_shown(f"{_SCOPE} STATUS")
def _status(session: Session) -> Result:
    return _pairs(
        {
            **session.port.status(),
            "Questions": session.questions,
            "Ssl_cipher": session.tls_cipher,
            "Ssl_version": session.tls_version,
        }
    )


def _tables_of(session: Session, schema: str | None) -> tuple[str, list[Row]]:
    schema = session.schema(schema)
    if schema not in schemas_of(session.executor):
        raise server_errors.ER_BAD_DB_ERROR(schema)
    return schema, [row for row in ROWS["tables"](session.executor) if row["TABLE_SCHEMA"] == schema]


@_shown(f"[EXTENDED] [full:FULL] TABLES {_IN_SCHEMA}")
def _tables(session: Session, schema: str | None = None, *, full: bool = False) -> Result:
    schema, rows = _tables_of(session, schema)
    columns = [Column(f"Tables_in_{schema}"), Column("Table_type")]
    width = 2 if full else 1
    return Result(columns[:width], [(row["TABLE_NAME"], row["TABLE_TYPE"])[:width] for row in rows])


@_shown(f"TABLE STATUS {_IN_SCHEMA}")
def _table_status(session: Session, schema: str | None = None) -> Result:
    return _renamed(
        _tables_of(session, schema)[1],
        "Name=TABLE_NAME, Engine=ENGINE, Version=VERSION, Row_format=ROW_FORMAT, Rows=TABLE_ROWS, "
        "Collation=TABLE_COLLATION, Comment=TABLE_COMMENT",
    )


def _columns_of(session: Session, schema: str | None, name: str) -> list[Row]:
    table = session.table(schema, name)
    return list(column_rows(session.schema(schema), name, table.columns))


@_shown("[EXTENDED] [full:FULL] COLUMNS|FIELDS FROM|IN *:table")
def _show_columns(session: Session, name: str, schema: str | None = None, *, full: bool = False) -> Result:
    collation, rest = (
        (" Collation=COLLATION_NAME,", ", Privileges=PRIVILEGES, Comment=COLUMN_COMMENT")
        if full
        else ("", "")
    )
    return _renamed(
        _columns_of(session, schema, name),
        f"Field=COLUMN_NAME, Type=COLUMN_TYPE,{collation} Null=IS_NULLABLE, Key=COLUMN_KEY, Default=COLUMN_DEFAULT, "
        f"Extra=EXTRA{rest}",
    )


@_shown("[full:FULL] PROCESSLIST")
def _processlist(session: Session, *, full: bool = False) -> Result:
    rows = [
        (*row[:-1], row[-1] if full or row[-1] is None else row[-1][:_INFO_LENGTH])
        for row in (client.row() for _, client in sorted(session.port.listed.copy().items()))
        if may_see_user(session.role, session.user, row[1])
    ]
    return Result(_columns("Id, User, Host, db, Command, Time, State, Info", rows), rows)


@_shown("GRANTS *:rest")
def _grants(session: Session) -> Result:
    # SHOW GRANTS FOR CURRENT_USER() is the same. Other users' grants are not shown.
    rows = [(grant,) for grant in grants(session.role, session.user, session.host)]
    return Result([Column(f"Grants for {session.user}@{session.host}")], rows)


@_shown("CREATE DATABASE|SCHEMA name:identifier")
def _create_database(session: Session, name: str) -> Result:
    if name not in schemas_of(session.executor):
        raise server_errors.ER_BAD_DB_ERROR(name)
    character_set = f"/*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE {COLLATION} */"
    statement = f"CREATE DATABASE {quoted(name)} {character_set}"
    return Result(_columns("Database, Create Database"), [(name, statement)])


@_shown("CREATE TABLE *:table")
def _create_table(session: Session, name: str, schema: str | None = None) -> Result:
    fields = ",\n".join(
        f"  {quoted(row['COLUMN_NAME'])} {row['COLUMN_TYPE']}"
        + ("" if "text" in row["COLUMN_TYPE"] else " DEFAULT NULL")
        for row in _columns_of(session, schema, name)
    )
    options = f"ENGINE={ENGINE} DEFAULT CHARSET=utf8mb4 COLLATE={COLLATION}"
    statement = f"CREATE TABLE {quoted(name)} (\n{fields}\n) {options}"
    return Result(_columns("Table, Create Table"), [(name, statement)])


@_shown("CREATE VIEW *:table")
def _create_view(session: Session, name: str, schema: str | None = None) -> Result:
    session.table(schema, name)
    raise server_errors.ER_WRONG_OBJECT(session.schema(schema), name, "VIEW")


def _empty(names: str, session: Session) -> Result:
    del session
    return Result(_columns(names))


def diagnostics(
    session: Session, *, errors: bool = False, offset: int = 0, count: int | None = None
) -> Result:
    """Return the errors, warnings and notes of the previous statement (SHOW WARNINGS), or with ``errors`` only the
    errors.

    ``offset`` and ``count`` are the numbers of the LIMIT clause; ``count`` None means all rows.
    """
    rows = [
        (note.level, note.number, note.message)
        for note in session.diagnostics
        if note.level == "Error" or not errors
    ]
    end = None if count is None else offset + count
    columns = [Column("Level"), Column("Code", ColumnType.INTEGER), Column("Message")]
    return Result(columns, rows[offset:end])


def count_diagnostics(session: Session, *, errors: bool = False) -> Result:
    """Return the result of SHOW COUNT(*) WARNINGS: the number of errors, warnings and notes of the previous statement.

    With ``errors`` only the errors are counted, as for SHOW COUNT(*) ERRORS.
    """
    name = f"@@session.{'error' if errors else 'warning'}_count"
    return Result([Column(name, ColumnType.INTEGER)], [(len(diagnostics(session, errors=errors).rows),)])


def _view(name: str, columns: str, session: Session) -> Result:
    return _renamed(ROWS[name](session.executor), columns)


for _words, _view_of in (*_VIEWS.items(), ("CHARACTER SET", _VIEWS["CHARSET"])):
    _shown(_words)(functools.partial(_view, *_view_of))
for _word, _names in _EMPTY.items():
    GRAMMAR.call(f"SHOW {_word} *:rest", _empty, _names)
for _word in ("WARNINGS", "errors:ERRORS"):
    GRAMMAR.call(f"SHOW {_word} [LIMIT *:limit]", diagnostics)
    GRAMMAR.call(f"SHOW COUNT ( * ) {_word}", count_diagnostics)
GRAMMAR.call("DESCRIBE|DESC|EXPLAIN *:table", _show_columns)

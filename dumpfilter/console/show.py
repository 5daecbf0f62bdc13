"""The execution of SHOW and DESCRIBE statements that are not about replication, such as SHOW TABLES.

For SHOW … LIKE and SHOW … WHERE, the rows become a temporary table, and a SELECT with this condition reads the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dumpfilter.console.executor import Interrupt
from dumpfilter.console.information_schema import (
    COLLATION,
    COLUMN_TYPES,
    ENGINE,
    SCHEMA,
    schemas_of,
    tables_of,
)
from dumpfilter.console.roles import grants, may_see_user
from dumpfilter.console.session import SHOWN_SCHEMA, Session
from dumpfilter.sql import server_errors
from dumpfilter.sql.result import Column, ColumnType, Note, Result, Table
from dumpfilter.sql.rewriting import no_such_table
from dumpfilter.sql.server_errors import SqlError
from dumpfilter.statement.tokens import Token, TokenKind

_NOTES = [Column("Level"), Column("Code", ColumnType.INTEGER), Column("Message")]

_EMPTY: dict[str, Sequence[str]] = {
    "TRIGGERS": ["Trigger", "Event", "Table", "Statement", "Timing", "Created", "sql_mode", "Definer"],
    "EVENTS": ["Db", "Name", "Definer", "Time zone", "Type", "Execute at", "Status"],
    "PROCEDURE": ["Db", "Name", "Type", "Definer", "Modified", "Created", "Security_type", "Comment"],
    "FUNCTION": ["Db", "Name", "Type", "Definer", "Modified", "Created", "Security_type", "Comment"],
    "PLUGINS": ["Name", "Status", "Type", "Library", "License"],
    "OPEN": ["Database", "Table", "In_use", "Name_locked"],
    **dict.fromkeys(
        ("INDEX", "INDEXES", "KEYS"),
        ("Table", "Non_unique", "Key_name", "Seq_in_index", "Column_name", "Collation", "Cardinality"),
    ),
}
"""The column names of the SHOW statements that always return no rows, by the word after SHOW.

A console has no triggers, indexes or similar objects, but client programs ask for them.
"""

_UNSUPPORTED = (
    "BINLOG",
    "ENGINE",
    "FUNCTION",
    "LIBRARY",
    "MUTEX",
    "PARSE_TREE",
    "PRIVILEGES",
    "PROFILE",
    "PROFILES",
)
"""The words after SHOW of statements that a server has and a console has not."""

_UNSUPPORTED_CREATE = (
    "EVENT",
    "FUNCTION",
    "LIBRARY",
    "PACKAGE",
    "PROCEDURE",
    "SEQUENCE",
    "SERVER",
    "TRIGGER",
    "USER",
)
"""The words after SHOW CREATE of statements that a server has and a console has not."""

_COLLATION_ID = 255
"""The number that a MySQL server gives to the collation utf8mb4_0900_ai_ci."""
_INFO_LENGTH = 100
"""The number of characters of a statement that SHOW PROCESSLIST shows. SHOW FULL PROCESSLIST shows all."""

_PROCESSLIST = [
    Column("Id", ColumnType.INTEGER),
    *map(Column, ("User", "Host", "db", "Command")),
    Column("Time", ColumnType.INTEGER),
    *map(Column, ("State", "Info")),
]


def is_about_diagnostics(words: Sequence[Token]) -> bool:
    """Tell whether a statement, given as tokens, is SHOW [COUNT(*)] WARNINGS or SHOW [COUNT(*)] ERRORS.

    These statements show the warnings of the statement before. Any other statement clears the warnings.
    """
    said = [word.word for word in words if word.word]
    return said[:1] == ["SHOW"] and (
        said[1:2] in (["WARNINGS"], ["ERRORS"]) or said[1:3] in (["COUNT", "WARNINGS"], ["COUNT", "ERRORS"])
    )


def diagnostics(words: Sequence[Token], notes: Sequence[Note]) -> Result:
    """Return the result of SHOW WARNINGS, SHOW ERRORS, or SHOW COUNT(*) WARNINGS or ERRORS.

    ``words`` are the tokens of the statement. ``notes`` are the errors, warnings and notes of the statement before.
    """
    said = [word.word for word in words if word.word]
    errors = "ERRORS" in said[:3]
    chosen = [note for note in notes if not errors or note.level == "Error"]
    if "COUNT" in said:
        name = f"@@session.{'error' if errors else 'warning'}_count"
        return Result([Column(name, ColumnType.INTEGER)], [(len(chosen),)])
    limits = [int(word.value) for word in words if word.kind is TokenKind.INTEGER]
    offset, count = (limits[0], limits[1]) if len(limits) > 1 else (0, limits[0] if limits else len(chosen))
    return Result(
        _NOTES, [(note.level, note.number, note.message) for note in chosen[offset : offset + count]]
    )


class _Words:
    """A cursor over the tokens of a SHOW statement, which consumes them from the left."""

    def __init__(self, text: str, words: Sequence[Token]) -> None:
        self.text = text
        self._words = list(words)

    def take(self, *wanted: str) -> str:
        """Consume the next word if it is in ``wanted``, and return it. Otherwise return an empty text."""
        if self._words and (self._words[0].word or self._words[0].value) in wanted:
            token = self._words.pop(0)
            return token.word or token.value
        return ""

    def name(self) -> str:
        if not self._words or self._words[0].kind not in (TokenKind.WORD, TokenKind.QUOTED, TokenKind.NAME):
            raise self.error()
        return self._words.pop(0).value

    def filter(self, column: str) -> str:
        """Return the condition at the end of a SHOW statement as a WHERE clause for a SELECT, or an empty text.

        SHOW … LIKE becomes a LIKE condition on ``column``. Raises SqlError 1064 for any other text.
        """
        if not self._words or self._words[0].value == ";":
            return ""
        at = self._words[0]
        rest = self.text[at.end :].rstrip("; \n")
        if at.word == "WHERE":
            return f" WHERE {rest}"
        if at.word == "LIKE":
            return f" WHERE `{column}` LIKE {rest}"
        raise self.error()

    def drop(self) -> None:
        """Consume all words."""
        self._words.clear()

    def like(self) -> str:
        """Return the pattern of SHOW TABLES LIKE in parentheses, or an empty text.

        A server appends this text to the name of the result's column.
        """
        like = len(self._words) > 1 and self._words[0].word == "LIKE"
        return f" ({self._words[1].value})" if like else ""

    def error(self) -> SqlError:
        return server_errors.syntax_error(self.text, self._words[0].start if self._words else len(self.text))


def show(session: Session, text: str, tokens: Sequence[Token], interrupt: Interrupt) -> Result:
    """Return the result of a SHOW statement that is not about replication, such as SHOW TABLES.

    ``text`` is the statement and ``tokens`` are its tokens. Setting ``interrupt`` ends the statement. Raises SqlError,
    with number 1064 for a statement that the console does not know.
    """
    words = _Words(text, tokens[1:])
    full = words.take("FULL")
    words.take("GLOBAL", "SESSION", "LOCAL", "EXTENDED", "STORAGE")
    kind = words.take(*_SHOWN, *_EMPTY)
    if kind in _EMPTY:
        return Result([Column(name) for name in _EMPTY[kind]])
    if not kind:
        other = words.take(*_UNSUPPORTED)
        raise server_errors.ER_NOT_SUPPORTED_YET(f"SHOW {other}") if other else words.error()
    table = _SHOWN[kind](session, words, bool(full))
    where = words.filter(table.columns[0].name)
    if not where:
        return Result(table.columns, table.rows)
    return session.select(f"SELECT * FROM `{SHOWN_SCHEMA}`.`shown`{where}", interrupt, {"shown": table})


def describe(session: Session, text: str, tokens: Sequence[Token], interrupt: Interrupt) -> Result:
    """Return the result of ``DESCRIBE table``: one row for each column of the table.

    ``text`` is the statement and ``tokens`` are its tokens. Raises SqlError, with number 1235 for EXPLAIN of a query.
    """
    words = _Words(text, tokens[1:])
    if words.take("SELECT", "WITH", "(", "FORMAT", "ANALYZE", "INSERT", "UPDATE", "DELETE", "TABLE", "FOR"):
        raise server_errors.ER_NOT_SUPPORTED_YET("EXPLAIN")
    schema, name = _table_name(session, words)
    rows = _describe(session, schema, name)
    return Result(_columns(False), rows)


def _variables(session: Session, words: _Words, full: bool) -> Table:
    rows = [
        (name, "" if value is None else str(value)) for name, value in sorted(session.variables.all().items())
    ]
    return _pairs(rows)


def _status(session: Session, words: _Words, full: bool) -> Table:
    status: Mapping[str, int | str] = {
        **session.processes.status(),
        "Questions": session.questions,
        "Ssl_cipher": session.tls_cipher,
        "Ssl_version": session.tls_version,
    }
    return _pairs([(name, str(value)) for name, value in sorted(status.items())])


def _pairs(rows: Sequence[tuple[str, str]]) -> Table:
    return Table([Column("Variable_name"), Column("Value")], rows)


def _databases(session: Session, words: _Words, full: bool) -> Table:
    name = f"Database{words.like()}"
    rows = [(schema,) for schema in schemas_of(session.executor)]
    return Table([Column(name)], rows)


def _tables(session: Session, words: _Words, full: bool) -> Table:
    schema = _schema(session, words)
    columns = [Column(f"Tables_in_{schema}{words.like()}"), Column("Table_type")]
    rows = [(row["TABLE_NAME"], row["TABLE_TYPE"]) for row in tables_of(session.executor, schema)]
    width = 2 if full else 1
    return Table(columns[:width], [row[:width] for row in rows])


def _table_status(session: Session, words: _Words, full: bool) -> Table:
    words.take("STATUS")
    names = ("Name", "Engine", "Version", "Row_format", "Rows", "Collation", "Comment")
    origins = (
        *("TABLE_NAME", "ENGINE", "VERSION", "ROW_FORMAT"),
        *("TABLE_ROWS", "TABLE_COLLATION", "TABLE_COMMENT"),
    )
    numbers = ("Version", "Rows")
    columns = [Column(name, ColumnType.INTEGER if name in numbers else ColumnType.TEXT) for name in names]
    rows = tables_of(session.executor, _schema(session, words))
    return Table(columns, [[row.get(origin) for origin in origins] for row in rows])


def _schema(session: Session, words: _Words) -> str:
    schema = words.name() if words.take("FROM", "IN") else session.database
    if schema is None:
        raise server_errors.ER_NO_DB_ERROR()
    if schema.lower() == SCHEMA:
        schema = SCHEMA
    if schema not in schemas_of(session.executor):
        raise server_errors.ER_BAD_DB_ERROR(schema)
    return schema


def _show_columns(session: Session, words: _Words, full: bool) -> Table:
    if not words.take("FROM", "IN"):
        raise words.error()
    schema, name = _table_name(session, words)
    rows: Sequence[Sequence[str | None]] = _describe(session, schema, name)
    if full:
        rows = [
            (field, kind, COLLATION if "text" in kind else None, *rest, "select", "")
            for field, kind, *rest in _describe(session, schema, name)
        ]
    return Table(_columns(full), rows)


def _columns(full: bool) -> list[Column]:
    names = ["Field", "Type", "Null", "Key", "Default", "Extra"]
    return [
        Column(name)
        for name in ([*names[:2], "Collation", *names[2:], "Privileges", "Comment"] if full else names)
    ]


def _table_name(session: Session, words: _Words) -> tuple[str, str]:
    schema: str | None = session.database
    name = words.name()
    if words.take("."):
        schema, name = name, words.name()
    elif words.take("FROM", "IN"):
        schema = words.name()
    if schema is None:
        raise server_errors.ER_NO_DB_ERROR()
    return (SCHEMA if schema.lower() == SCHEMA else schema), name


def _describe(session: Session, schema: str, name: str) -> list[tuple[str, str, str, str, str | None, str]]:
    table = session.find_table(schema, name)
    if table is None:
        raise no_such_table(schema, name, schemas_of(session.executor))
    return [(column.name, COLUMN_TYPES[column.type], "YES", "", None, "") for column in table.columns]


def _create(session: Session, words: _Words, full: bool) -> Table:
    kind = words.take("TABLE", "VIEW", "DATABASE", "SCHEMA", *_UNSUPPORTED_CREATE)
    if kind in ("DATABASE", "SCHEMA"):
        name = words.name()
        if name not in schemas_of(session.executor):
            raise server_errors.ER_BAD_DB_ERROR(name)
        statement = (
            f"CREATE DATABASE {_quoted(name)} /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE {COLLATION} */"
        )
        return Table([Column("Database"), Column("Create Database")], [(name, statement)])
    if kind == "TABLE":
        schema, name = _table_name(session, words)
        fields = [
            f"  {_quoted(field)} {kind}" + ("" if "text" in kind else " DEFAULT NULL")
            for field, kind, *_ in _describe(session, schema, name)
        ]
        statement = (
            f"CREATE TABLE {_quoted(name)} (\n"
            + ",\n".join(fields)
            + f"\n) ENGINE={ENGINE['ENGINE']} DEFAULT CHARSET=utf8mb4 COLLATE={COLLATION}"
        )
        return Table([Column("Table"), Column("Create Table")], [(name, statement)])
    if kind == "VIEW":
        schema, name = _table_name(session, words)
        _describe(session, schema, name)
        raise server_errors.ER_WRONG_OBJECT(schema, name, "VIEW")
    if kind:
        raise server_errors.ER_NOT_SUPPORTED_YET(f"SHOW CREATE {kind}")
    raise words.error()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _processlist(session: Session, words: _Words, full: bool) -> Table:
    rows = [
        (*row[:-1], row[-1] if full or row[-1] is None else str(row[-1])[:_INFO_LENGTH])
        for row in session.processes.processes()
        if may_see_user(session.role, session.user, str(row[1]))
    ]
    return Table(_PROCESSLIST, rows)


def _engines(session: Session, words: _Words, full: bool) -> Table:
    names = ("Engine", "Support", "Comment", "Transactions", "XA", "Savepoints")
    return Table([Column(name) for name in names], [tuple(ENGINE.values())])


def _grants(session: Session, words: _Words, full: bool) -> Table:
    # SHOW GRANTS FOR CURRENT_USER() is the same. Other users' grants are not shown.
    words.drop()
    rows = [(grant,) for grant in grants(session.role, session.user, session.host)]
    return Table([Column(f"Grants for {session.user}@{session.host}")], rows)


def _character_sets(session: Session, words: _Words, full: bool) -> Table:
    words.take("SET")
    columns = [
        *map(Column, ("Charset", "Description", "Default collation")),
        Column("Maxlen", ColumnType.INTEGER),
    ]
    rows = [("utf8mb4", "UTF-8 Unicode", COLLATION, 4)]
    return Table(columns, rows)


def _collations(session: Session, words: _Words, full: bool) -> Table:
    names = ("Collation", "Charset", "Id", "Default", "Compiled", "Sortlen", "Pad_attribute")
    columns = [Column(n, ColumnType.INTEGER if n in ("Id", "Sortlen") else ColumnType.TEXT) for n in names]
    rows = [(COLLATION, "utf8mb4", _COLLATION_ID, "Yes", "Yes", 0, "NO PAD")]
    return Table(columns, rows)


_SHOWN = {
    "VARIABLES": _variables,
    "STATUS": _status,
    "DATABASES": _databases,
    "SCHEMAS": _databases,
    "TABLES": _tables,
    "TABLE": _table_status,
    "COLUMNS": _show_columns,
    "FIELDS": _show_columns,
    "PROCESSLIST": _processlist,
    "ENGINES": _engines,
    "GRANTS": _grants,
    "CHARACTER": _character_sets,
    "CHARSET": _character_sets,
    "COLLATION": _collations,
    "CREATE": _create,
}

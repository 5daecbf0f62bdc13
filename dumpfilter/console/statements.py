"""The statements of a client, and their execution.

Replication commands go to the master or slave. The console itself answers SELECT, SET, SHOW TABLES and the like, and
refuses all other statements with a server's errors. A statement that the console answers is declared, with its syntax,
at the function that carries it out. The function gets the session and the parsed values, and returns the result.

The account's role decides what a client may run: ``read`` < ``replicate-admin`` < ``all``. ``python
tools/doc_tables.py`` writes the table of docs/console.md from this module.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

from mysql_mimic.charset import CharacterSet

from dumpfilter.base.security.audit import audit
from dumpfilter.binlog.statement.tokens import Lexer, Token, TokenKind, tokens
from dumpfilter.console.session import (
    COLLATION,
    ENGINE,
    ROWS,
    SHOWN_SCHEMA,
    Row,
    Session,
    Value,
    column_rows,
)
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.commands import GRAMMAR, Command, parse_statement
from dumpfilter.console.sql.grammar import Cursor, Need, Role
from dumpfilter.console.sql.interruption import Interrupt, interruptible
from dumpfilter.console.sql.result import OK, Column, ColumnType, Result
from dumpfilter.console.sql.select import quoted
from dumpfilter.console.sql.server_errors import SqlError

COMMANDS: Mapping[type[Command], Need] = GRAMMAR.needs
"""The required role of each replication command, and whether the command changes anything."""

STATEMENTS: Mapping[str, Need] = {
    **{word: Need(word, Role.READ) for word in ("SELECT", "WITH", "VALUES", "TABLE")},
    "(": Need("(SELECT …)", Role.READ),
    "SHOW": Need("SHOW …", Role.READ),
    **{word: Need(word, Role.READ) for word in ("DESCRIBE", "DESC", "EXPLAIN", "USE", "DO", "SET")},
    "BEGIN": Need("BEGIN", Role.READ),
    "START": Need("START TRANSACTION", Role.READ),
    **{word: Need(word, Role.READ) for word in ("COMMIT", "ROLLBACK")},
    "UNLOCK": Need("UNLOCK TABLES", Role.READ),
    "KILL": Need("KILL", Role.READ, changes=True),
}
"""The required role of each other statement that the console carries out, by the statement's first word.

KILL needs the role ``all`` for the connections of other users, which :func:`_may_see_user` decides.
"""

SECRET = "<secret>"
"""The text that stands in place of a password, as in MySQL's logs."""
_SHOWN_AND_SECRET = 2
"""The factor by which more tokens are read than characters are shown. Later tokens cannot appear in the cut text."""
_BEFORE_PASSWORD = ("PASSWORD", "IDENTIFIED")
_AFTER_PASSWORD = frozenset({"CHANNEL", "DEFAULT_AUTH", "PLUGIN_DIR", "UNTIL"})

LONGEST_IN_AUDIT_LOG = 1000
"""The length at which the audit log cuts a statement, characters."""

_GLOBAL_SCOPES = ("GLOBAL", "PERSIST", "PERSIST_ONLY")
_SCOPES = (*_GLOBAL_SCOPES, "SESSION", "LOCAL")
_CHARACTER_SET_VARIABLES = ("character_set_client", "character_set_connection", "character_set_results")
_WORD = re.compile(r"[A-Za-z_$][0-9A-Za-z_$]*")
_LITERAL_WORDS: dict[str, Value] = {"DEFAULT": None, "NULL": None, "ON": 1, "TRUE": 1, "OFF": 0, "FALSE": 0}
"""The values of the words that can be the whole value in a SET. None sets the variable to its default."""

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

_REFUSED = """
    FLUSH, RESET BINARY, RESET MASTER, RESET PERSIST, RESET QUERY, STOP GROUP_REPLICATION, SHOW ENGINE, SHOW LIBRARY,
    SHOW MUTEX, SHOW PARSE_TREE, SHOW PRIVILEGES, SHOW PROFILE, SHOW PROFILES, SHOW CREATE EVENT, SHOW CREATE FUNCTION,
    SHOW CREATE LIBRARY, SHOW CREATE PACKAGE, SHOW CREATE PROCEDURE, SHOW CREATE SEQUENCE, SHOW CREATE SERVER,
    SHOW CREATE TRIGGER, SHOW CREATE USER
"""
"""The beginnings of further statements that a server has and a console refuses with error 1235."""

# A console cannot explain queries, which begin with these words.
_QUERIES = "SELECT|WITH|(|FORMAT|ANALYZE|INSERT|UPDATE|DELETE|TABLE|FOR"


def _may_see_user(session: Session, user: str | None) -> bool:
    """Tell whether a client may list and end connections of ``user``; None for a connection without a login.

    Every account may list and end its own connections.
    """
    return user == session.user or session.role.includes(Role.ALL)


def grants(role: Role, user: str, host: str) -> list[str]:
    r"""Return the rows of SHOW GRANTS for an account. A role of dumpfilter is shown as the privileges of a server that
    come closest to it.

    The last row names the role itself.

    >>> print(*grants(Role.READ, "monitor", "localhost"), sep="\n")
    GRANT SELECT, REPLICATION CLIENT ON *.* TO `monitor`@`localhost`
    GRANT `read`@`%` TO `monitor`@`localhost`
    """
    account = f"`{user}`@`{host}`"
    static = "SELECT, REPLICATION CLIENT"
    dynamic = []
    if role.includes(Role.REPLICATE_ADMIN):
        static = "SELECT, REPLICATION SLAVE, REPLICATION CLIENT"
        dynamic = [f"GRANT REPLICATION_SLAVE_ADMIN ON *.* TO {account}"]
    if role.includes(Role.ALL):
        static = "SELECT, PROCESS, SUPER, REPLICATION SLAVE, REPLICATION CLIENT"
        dynamic = [f"GRANT BINLOG_ADMIN,CONNECTION_ADMIN,REPLICATION_SLAVE_ADMIN ON *.* TO {account}"]
    return [f"GRANT {static} ON *.* TO {account}", *dynamic, f"GRANT `{role}`@`%` TO {account}"]


def for_audit_log(text: str, longest: int) -> str:
    """Return a statement as the audit log shows it: without passwords, and cut after ``longest`` characters.

    A statement that is longer loses its comments first, so that a long comment cannot hide the rest.

    >>> for_audit_log("PURGE /* " + "x" * 99 + " */ BINARY LOGS TO 'b.3'", 99)
    "PURGE BINARY LOGS TO 'b.3'"
    """
    if len(text) > longest:
        parts = (text[token.start : token.end] for token in tokens(text))
        # Passwords become shorter. A word takes two characters or more with its space.
        text = " ".join(itertools.islice(parts, _SHOWN_AND_SECRET * longest))
    # The audit log cuts the text again, and marks the cut, if the text is one character too long.
    return without_passwords(text, longest + 1)


def without_passwords(text: str, longest: int) -> str:
    """Return a statement with :data:`SECRET` in place of each password, cut to ``longest`` characters.

    Everything after a word that contains PASSWORD counts as the password, up to the next comma or clause. If the
    statement has such a word, its comments are left out, because a comment may repeat the password.

    >>> without_passwords("START REPLICA USER = 'u' PASSWORD = 'it''s' FOR CHANNEL 'c'", 100)
    "START REPLICA USER = 'u' PASSWORD <secret> FOR CHANNEL 'c'"
    >>> without_passwords("CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD='not closed", 100)
    'CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD <secret>'
    """
    lower = text.lower()
    if not any(word.lower() in lower for word in _BEFORE_PASSWORD):
        return text[:longest]
    parts: list[str] = []
    length = 0
    in_password = False
    for token in tokens(text):
        comma = token.kind is TokenKind.SYMBOL and token.value == ","
        if in_password and (comma or token.word in _AFTER_PASSWORD):
            in_password = False
            if token.word == "CHANNEL":
                parts.append("FOR")
        if in_password:
            continue
        part = text[token.start : token.end]
        if token.kind is TokenKind.BAD and any(word.lower() in part.lower() for word in _BEFORE_PASSWORD):
            part = SECRET
        parts.append(part)
        if any(word in token.value.upper() for word in _BEFORE_PASSWORD):
            in_password = True
            parts.append(SECRET)
        length += len(part) + 1
        if length > longest:
            break
    return " ".join(parts)[:longest]


def execute_statement(session: Session, text: str, interrupt: Interrupt) -> Result:
    """Carry out one SQL statement of a client in the client's session, and return its result.

    Another thread ends the statement early by setting ``interrupt``. Raises SqlError for a statement that fails. A
    replication command is carried out by the master or slave, whose errors are raised, too.
    """
    session.questions += 1
    parsed = parse_statement(text)
    function = None if isinstance(parsed, Command) else parsed.func
    if function is None:
        need = COMMANDS[type(parsed)]
    else:
        need = STATEMENTS["KILL" if function is _kill else "SELECT"]
    with interruptible(interrupt):
        if function not in (diagnostics, count_diagnostics) and not interrupt.is_set():
            session.diagnostics = ()
        with _audited(session, text, need):
            if not session.role.includes(need.role):
                raise server_errors.ER_SPECIFIC_ACCESS_DENIED_ERROR(need.role.value)
            result: Result = session.executor.execute(parsed) if function is None else parsed(session)
    if result.notes and not interrupt.is_set():
        # The client of an interrupted statement has received error 1317. The late result must not replace the
        # warnings that SHOW WARNINGS returns.
        session.diagnostics = result.notes
    return result


def _refuse(statement: str, session: Session) -> NoReturn:
    del session
    raise server_errors.ER_NOT_SUPPORTED_YET(statement)


@contextlib.contextmanager
def _audited(session: Session, text: str, need: Need) -> Iterator[None]:
    """Record a statement in the audit log, with its result, if it changes anything or the user may not use it."""
    result = "ok"
    try:
        yield
    except SqlError as failed:
        result = str(failed)
        raise
    except BaseException as failed:
        result = f"{type(failed).__name__}: {failed}"
        raise
    finally:
        if need.changes or not session.role.includes(need.role):
            audit(
                for_audit_log(text, LONGEST_IN_AUDIT_LOG),
                account=session.user,
                peer=session.host,
                result=result,
            )


class Assignment(NamedTuple):
    """One assignment ``name = value`` of a SET statement."""

    is_user_variable: bool
    name: str
    value: str
    """The text of the expression on the right side of the assignment."""
    globally: bool
    """Whether the assignment has the scope GLOBAL, PERSIST or PERSIST_ONLY. The console refuses such assignments."""


def read_settings(cursor: Cursor) -> tuple[Assignment, ...]:
    """Consume the assignments of a SET statement at the cursor, and return them. The result for SET TRANSACTION is
    empty. Raises SqlError 1064 (a syntax error).
    """
    settings = cursor.separated(lambda: _read_setting(cursor))
    return tuple(assignment for assignments in settings for assignment in assignments)


def _read_setting(cursor: Cursor) -> list[Assignment]:
    if word := cursor.accept("NAMES", "CHARACTER", "CHARSET"):
        if word == "CHARACTER":
            cursor.expect("SET")
        begin, end = cursor.token.start, cursor.token.end
        _read_name(cursor)
        if cursor.accept("COLLATE"):
            # A collation has no effect.
            _read_name(cursor)
        return [Assignment(False, name, cursor.text[begin:end], False) for name in _CHARACTER_SET_VARIABLES]
    signs = 0
    while cursor.accept("@"):
        signs += 1
    scope = cursor.accept(*_SCOPES) if signs != 1 else ""
    while scope and cursor.accept(".", "@"):
        """Accept ``@@session.name`` and ``SESSION name``."""
    if cursor.accept("TRANSACTION"):
        _read_value(cursor)
        return []
    name = _read_name(cursor)
    cursor.accept(":")
    cursor.expect("=")
    return [Assignment(signs == 1, name, _read_value(cursor), scope in _GLOBAL_SCOPES)]


def _read_name(cursor: Cursor) -> str:
    return cursor.advance().value if cursor.token.is_name else cursor.fail()


def _read_value(cursor: Cursor) -> str:
    """Consume the tokens up to the next comma outside parentheses, and return their text, which is not empty."""
    begin = end = cursor.token.start
    depth = 0
    while not (cursor.at_end or cursor.sees(";") or (cursor.sees(",") and not depth)):
        depth += cursor.sees("(") - cursor.sees(")")
        end = cursor.advance().end
    return cursor.text[begin:end] or cursor.fail()


def apply_settings(session: Session, settings: Sequence[Assignment]) -> Result:
    """Carry out a SET statement in the client's session.

    The values of all assignments are computed before the first variable is set. Raises SqlError 1115 for an unknown
    character set, 1193 for an unknown variable, 1227 for a GLOBAL scope, and 1229 or 1238 for a variable that cannot be
    set.
    """
    for assignment, value in [(one, _computed(session, one.value)) for one in settings]:
        if assignment.is_user_variable:
            session.set_user_variable(assignment.name, value)
        else:
            _set_variable(session, assignment, value)
    return OK


def _computed(session: Session, source: str) -> Value:
    if _WORD.fullmatch(source):
        return _LITERAL_WORDS.get(source.upper(), source)
    token = Lexer(source).next()
    if token.kind is TokenKind.STRING and token.end == len(source):
        # A replica's text of GTIDs may be longer than a SELECT.
        return token.value
    value: Value = session.select(f"SELECT {source}").rows[0][0]
    return value


def _set_variable(session: Session, assignment: Assignment, value: Value) -> None:
    name, character_set = assignment.name.lower(), CharacterSet.utf8mb4
    if name in _CHARACTER_SET_VARIABLES and value is not None:
        character_set = _known_character_set(str(value))
    session.set_variable(assignment.name, value, globally=assignment.globally)
    if name == "character_set_results":
        session.character_set = character_set


def _known_character_set(name: str) -> CharacterSet:
    lower = name.lower()
    with contextlib.suppress(LookupError):
        found = CharacterSet["utf8" if lower == "utf8mb3" else lower]
        "".encode(found.codec)
        return found
    raise server_errors.ER_UNKNOWN_CHARACTER_SET(name)


def _skip_rest(cursor: Cursor) -> dict[str, str]:
    """Consume all remaining tokens, which have no effect."""
    while not cursor.at_end:
        cursor.advance()
    return {}


def _rest_of(cursor: Cursor) -> str:
    """Consume all remaining tokens, and return their text. Raises SqlError 1064 if no token is left."""
    begin = cursor.token.start
    if cursor.at_end:
        cursor.fail()
    _skip_rest(cursor)
    return cursor.text[begin:]


def _condition(cursor: Cursor) -> dict[str, str]:
    if cursor.accept("WHERE"):
        return {"where": _rest_of(cursor)}
    cursor.expect("LIKE")
    return {"pattern": cursor.token.value, "like": _rest_of(cursor)}


def _table_name(cursor: Cursor) -> dict[str, str]:
    name = cursor.identifier()
    if cursor.accept("."):
        return {"schema": name, "name": cursor.identifier()}
    return {"name": name} | ({"schema": cursor.identifier()} if cursor.accept("FROM", "IN") else {})


def _number(cursor: Cursor) -> int:
    """Consume and return a connection id. Numbers above 2**64 - 1 become 2**64 - 1, which no connection has."""
    return cursor.unsigned() if cursor.token.kind is TokenKind.INTEGER else cursor.fail()


def _whole(cursor: Cursor) -> dict[str, str]:
    """Consume the rest of the statement without reading its tokens, and return the whole text."""
    end = len(cursor.text)
    cursor.token = Token(TokenKind.END, "", end, end)
    return {"text": cursor.text}


GRAMMAR.readers.update(
    condition=_condition,
    identifier=Cursor.identifier,
    number=_number,
    rest=_skip_rest,
    settings=read_settings,
    table=_table_name,
    text=_rest_of,
    whole=_whole,
)
GRAMMAR.optional["condition"] = ("LIKE", "WHERE")


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
    return _pairs(session.variables())


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
    if schema not in session.schemas:
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
        if _may_see_user(session, row[1])
    ]
    return Result(_columns("Id, User, Host, db, Command, Time, State, Info", rows), rows)


@_shown("GRANTS *:rest")
def _grants(session: Session) -> Result:
    # SHOW GRANTS FOR CURRENT_USER() is the same. Other users' grants are not shown.
    rows = [(grant,) for grant in grants(session.role, session.user, session.host)]
    return Result([Column(f"Grants for {session.user}@{session.host}")], rows)


@_shown("CREATE DATABASE|SCHEMA name:identifier")
def _create_database(session: Session, name: str) -> Result:
    if name not in session.schemas:
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


def _use(session: Session, database: str) -> Result:
    session.use(database)
    return OK


def _kill(session: Session, number: int, *, query_only: bool = False) -> Result:
    client = session.port.listed.get(number)
    # Only an administrator learns whether somebody is just logging in under this number.
    if client is None or (client.user is None and not _may_see_user(session, None)):
        raise server_errors.ER_NO_SUCH_THREAD(number)
    if not _may_see_user(session, client.user):
        raise server_errors.ER_KILL_DENIED_ERROR(number)
    client.end(query_only=query_only)
    return OK


def _do(session: Session, expressions: str) -> Result:
    return Result(notes=session.select(f"SELECT {expressions}").notes)


def _accept(session: Session) -> Result:
    # A console has nothing to roll back, but client libraries send BEGIN, COMMIT and ROLLBACK.
    return OK


GRAMMAR.call("USE database:identifier", _use)
GRAMMAR.call("KILL [CONNECTION] number:number", _kill)
GRAMMAR.call("KILL query_only:QUERY number:number", _kill)
GRAMMAR.call("DO expressions:text", _do)
GRAMMAR.call("SET settings:settings", apply_settings)
GRAMMAR.call("BEGIN|COMMIT|ROLLBACK *:rest", _accept)
GRAMMAR.call("START TRANSACTION *:rest", _accept)
GRAMMAR.call("UNLOCK TABLES", _accept)
GRAMMAR.call("SELECT|WITH|VALUES|TABLE|( *:whole", Session.select)
for _beginning in _REFUSED.split(","):
    GRAMMAR.call(f"{_beginning} *:rest", _refuse, " ".join(_beginning.split()))
GRAMMAR.call(f"DESCRIBE|DESC|EXPLAIN {_QUERIES} *:rest", _refuse, "EXPLAIN")

"""The statements that a client sends to the console (a port for MySQL clients), and their execution.

Replication commands go to the master or slave. The console itself answers SELECT, SET, SHOW TABLES and the like, and
refuses all other statements with a server's errors. :func:`_answer` declares the syntax of a statement that the console
answers, and the function that carries it out. The function gets the session and the parsed values, and returns the
result.

The account's role decides what a client may run: ``read`` < ``replicate-admin`` < ``all``. ``python
tools/doc_tables.py`` writes the table of docs/console.md from this module.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from importlib import resources
from typing import NoReturn

from sqlglot import exp

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.security.audit import audit
from dumpfilter.binlog.statement.tokens import TokenKind, tokens
from dumpfilter.console.session import CHARACTER_SET_VARIABLES, Session, Value
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.commands import MAX_STATEMENT, Command, parse_statement
from dumpfilter.console.sql.grammar import FORMS, NEEDS, READERS, Cursor, Need, Role, form
from dumpfilter.console.sql.interruption import running_interrupt
from dumpfilter.console.sql.result import OK, Column, ColumnType, Result
from dumpfilter.console.sql.select import mysql_text, parse
from dumpfilter.console.sql.server_errors import SqlError

_READS = Need(
    "SELECT, WITH, TABLE, (SELECT …), SHOW …, DESCRIBE, DESC, EXPLAIN, USE, DO, SET, BEGIN, "
    "START TRANSACTION, COMMIT, ROLLBACK, UNLOCK TABLES",
    Role.READ,
)
_KILLS = Need("KILL", Role.READ, changes=True)
"""The role that KILL needs: ``read``, or ``all`` for the connections of other users, which :meth:`Session.may_see`
checks.
"""
NEEDS[:0] = _READS, _KILLS

SECRET = "<secret>"
"""The text that stands in place of a password, as in MySQL's logs."""
_SHOWN_AND_SECRET = 2
"""The number of tokens that :func:`without_passwords` reads at most for each character of its result. Later tokens
cannot appear in the result, which is cut.
"""
_BEFORE_PASSWORD = ("PASSWORD", "IDENTIFIED")
_AFTER_PASSWORD = frozenset({"CHANNEL", "DEFAULT_AUTH", "PLUGIN_DIR", "UNTIL"})

LONGEST_IN_AUDIT_LOG = 1000
"""The length at which the audit log cuts a statement, characters."""

_GLOBAL_SCOPES = ("GLOBAL", "PERSIST", "PERSIST_ONLY")
_CHARACTER_SETS = ("NAMES", "CHARACTER SET")
"""The kinds of assignments in SET that set the character set. A collation has no effect."""
_LITERAL_WORDS: dict[str, Value] = {"DEFAULT": None, "NULL": None, "ON": 1, "TRUE": 1, "OFF": 0, "FALSE": 0}
"""The values of the words that can be the whole value in a SET. None sets the variable to its default."""

_VIEWS = resources.files("dumpfilter.console.sql").joinpath("show.sql").read_text("utf-8")
"""The text of the file ``show.sql``: the syntax of each SHOW statement that the console runs as a SELECT, and the
SELECT.
"""

_REFUSED = """
    FLUSH, RESET BINARY, RESET MASTER, RESET PERSIST, STOP GROUP_REPLICATION, SHOW ENGINE, SHOW PRIVILEGES,
    SHOW PROFILE, SHOW PROFILES, SHOW CREATE EVENT, SHOW CREATE FUNCTION, SHOW CREATE PROCEDURE, SHOW CREATE TRIGGER,
    SHOW CREATE USER, SHOW CREATE VIEW
"""
"""The beginnings of further statements that a server has and a console refuses with error 1235."""

# A console cannot explain queries, which begin with these words.
_QUERIES = "SELECT|WITH|(|FORMAT|ANALYZE|INSERT|UPDATE|DELETE|TABLE|FOR"


def without_passwords(text: str, longest: int) -> str:
    """Return a statement with :data:`SECRET` in place of each password, cut to ``longest`` characters.

    Everything after a word that contains PASSWORD or IDENTIFIED counts as the password, up to the next comma or clause.
    If the statement has such a word, or is too long, its comments are left out. A comment may repeat the password, and
    a long comment must not hide the rest of a statement in the audit log.

    >>> without_passwords("START REPLICA USER = 'u' PASSWORD = 'it''s' FOR CHANNEL 'c'", 100)
    "START REPLICA USER = 'u' PASSWORD <secret> CHANNEL 'c'"
    >>> without_passwords("CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD='not closed", 100)
    'CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD <secret>'
    >>> without_passwords("PURGE /* " + "x" * 99 + " */ BINARY LOGS TO 'b.3'", 99)
    "PURGE BINARY LOGS TO 'b.3'"
    """
    if len(text) <= longest and not _names_password(text):
        return text
    parts: list[str] = []
    in_password = False
    length = 0
    # A password becomes shorter. Each other token takes two characters or more with its space.
    for token in itertools.islice(tokens(text), _SHOWN_AND_SECRET * longest):
        comma = token.kind is TokenKind.SYMBOL and token.value == ","
        if in_password and (comma or token.word in _AFTER_PASSWORD):
            in_password = False
        if in_password:
            continue
        part = text[token.start : token.end]
        parts.append(SECRET if token.kind is TokenKind.BAD and _names_password(part) else part)
        if _names_password(token.value):
            in_password = True
            parts.append(SECRET)
        length += len(part) + 1
        if length > longest:
            break
    return " ".join(parts)[:longest]


def _names_password(text: str) -> bool:
    upper = text.upper()
    return any(word in upper for word in _BEFORE_PASSWORD)


def execute_statement(session: Session, text: str) -> Result:
    """Carry out one SQL statement of a client in the client's session, and return its result.

    Another thread ends the statement early by setting the signal of :func:`running_interrupt`. The audit log records a
    statement that changes anything or that the user may not use. Raises SqlError for a statement that fails. A
    replication command is carried out by the master or slave, whose errors are raised, too.
    """
    session.questions += 1
    need, method, values = command = parse_statement(text)
    outcome, is_allowed = "ok", session.role.includes(need.role)
    interrupt = running_interrupt()
    if method is not diagnostics and not interrupt.is_set():
        session.diagnostics = ()
    try:
        if not is_allowed:
            raise server_errors.ER_SPECIFIC_ACCESS_DENIED_ERROR(need.role.value)
        is_own = callable(method)
        result: Result = method(session, **values) if is_own else session.executor.execute(command)
    except DumpfilterError as failed:
        # The client gets every other error of dumpfilter as error 1105.
        outcome = str(failed if isinstance(failed, SqlError) else server_errors.ER_UNKNOWN_ERROR(failed))
        raise
    except BaseException as failed:
        outcome = f"{type(failed).__name__}: {failed}"
        raise
    finally:
        if need.changes or not is_allowed:
            # The audit log cuts the text again, and marks the cut, if the text is one character too long.
            what = without_passwords(text, LONGEST_IN_AUDIT_LOG + 1)
            audit(what, account=session.user, peer=session.host, result=outcome)
    if result.notes and not interrupt.is_set():
        # The client of an interrupted statement has received error 1317. The late result must not replace the
        # warnings that SHOW WARNINGS returns.
        session.diagnostics = result.notes
    return result


def _refuse(session: Session, statement: str) -> NoReturn:
    raise server_errors.ER_NOT_SUPPORTED_YET(statement)


def _assignments(cursor: Cursor) -> str:
    """Consume the assignments of a SET statement, and return their text. Raises SqlError 1064 (a syntax error) if there
    is no text, or if the text ends with a comma.
    """
    begin = end = cursor.token.start
    while not (cursor.sees(";") or cursor.token.kind in (TokenKind.END, TokenKind.BAD)):
        end = cursor.advance().end
    text = cursor.text[begin:end]
    # sqlglot would take no offence at a comma at the end.
    return cursor.fail() if not text or text.endswith(",") else text


def _set(session: Session, assignments: str) -> Result:
    """Carry out a SET statement in the client's session.

    The values of all assignments are computed and checked before the first variable is set. Raises SqlError for a
    variable that cannot be set, for a value that the variable cannot have, and for a syntax error. Then no variable is
    set, as on a server.
    """
    tree = parse(f"SET {assignments}", MAX_STATEMENT)
    own: dict[str, Value] = {}
    system: list[tuple[str, Value, bool]] = []
    for item in tree.expressions or [tree]:
        kind, target = item.text("kind").upper(), item.this
        if kind in _CHARACTER_SETS and target is not None:
            system += [(name, _computed(session, target), False) for name in CHARACTER_SET_VARIABLES]
        elif isinstance(target, exp.EQ):
            value = _computed(session, target.expression)
            if isinstance(target.this, exp.Parameter):
                own[target.this.name.lower()] = value
            else:
                scope = target.this.text("kind").upper() or kind
                system.append((target.this.name, value, scope in _GLOBAL_SCOPES))
        elif kind != "TRANSACTION":
            raise server_errors.syntax_error(assignments, 0)
    checked = dict(session.checked(*one) for one in system)
    session.keep(session.user_variables | own, session.prepared)
    session.system_variables |= checked
    return OK


def _computed(session: Session, value: exp.Expr) -> Value:
    if isinstance(value, exp.Var | exp.Column | exp.Boolean | exp.Null):
        word = value.sql()
        return _LITERAL_WORDS.get(word.upper(), value.name)
    if isinstance(value, exp.Literal) and value.is_string:
        # A replica's text of GTIDs may be longer than a SELECT.
        return value.name
    computed: Value = session.select(f"SELECT {mysql_text(value)}").rows[0][0]
    return computed


Condition = tuple[str, str, str]
"""A condition of SHOW: the pattern of LIKE, the text after LIKE, and the text after WHERE."""


def _condition(cursor: Cursor) -> Condition:
    if cursor.accept("WHERE"):
        return "", "", cursor.rest() or cursor.fail()
    cursor.expect("LIKE")
    return cursor.token.value, cursor.rest() or cursor.fail(), ""


def _table_name(cursor: Cursor) -> dict[str, str]:
    name = cursor.identifier()
    if cursor.accept("."):
        return {"schema": name, "name": cursor.identifier()}
    return {"name": name} | ({"schema": cursor.identifier()} if cursor.accept("FROM", "IN") else {})


def _number(cursor: Cursor) -> int:
    """Consume and return a connection id. Numbers above 2**64 - 1 become 2**64 - 1, which no connection has."""
    return cursor.unsigned() if cursor.token.kind is TokenKind.INTEGER else cursor.fail()


READERS.update(assignments=_assignments, condition=_condition, number=_number, table=_table_name)


def _show(
    session: Session,
    view: str,
    schema: str | None = None,
    name: str = "",
    condition: Condition = ("", "", ""),
) -> Result:
    """Run a SHOW statement that is defined as a SELECT in ``show.sql``, and return its result.

    ``view`` is the SELECT's text. In the text, ``{schema}``, ``{name}`` and ``{like}`` stand for the schema, the table
    and the pattern of the statement. ``schema`` None means the current database, and an empty ``name`` means that the
    statement names no table. ``condition`` is the statement's LIKE or WHERE clause: the pattern of LIKE, the text after
    LIKE, and the text after WHERE. The parts that the statement does not have are empty.
    """
    pattern, like, where = condition
    if name:
        session.find_table(session.schema(schema), name)
    if "{schema}" in view:
        schema = session.schema(schema)
    suffix = f" ({pattern})".replace("`", "``") if like else ""
    first = view.partition(",")[0].partition(" FROM ")[0].rpartition(" ")[2]
    text, first = (part.format(schema=schema, name=name, like=suffix) for part in (view, first))
    if like:
        where = f"{first} LIKE {like}"
    return session.select(
        f"SELECT * FROM ({text}) AS shown WHERE {where}" if where else text, is_own=not where
    )


def _grants(session: Session) -> Result:
    # SHOW GRANTS FOR CURRENT_USER() is the same. Other users' grants are not shown.
    account = f"`{session.user}`@`{session.host}`"
    columns = [Column(f"Grants for {session.user}@{session.host}")]
    return Result(columns, [(f"GRANT `{session.role}`@`%` TO {account}",)])


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


def _use(session: Session, database: str) -> Result:
    session.database = session.schema(database)
    return OK


def _kill(session: Session, number: int, *, query_only: bool = False) -> Result:
    client = session.port.listed.get(number)
    # Only an administrator learns whether somebody is just logging in under this number.
    if client is None or (client.user is None and not session.may_see(None)):
        raise server_errors.ER_NO_SUCH_THREAD(number)
    if not session.may_see(client.user):
        raise server_errors.ER_KILL_DENIED_ERROR(number)
    client.end(query_only=query_only)
    return OK


def _do(session: Session, expressions: str) -> Result:
    session.select(f"SELECT {expressions}")
    return OK


def _accept(session: Session) -> Result:
    # A console has nothing to roll back, but client libraries send BEGIN, COMMIT and ROLLBACK.
    return OK


def _answer(syntax: str, carry_out: Callable[..., Result], need: Need = _READS, **constants: object) -> None:
    """Add a statement with this ``syntax`` to the grammar, which the console itself carries out by calling
    ``carry_out``.

    This function gets the session, the values in the statement and ``constants`` as keyword arguments, and returns the
    statement's result. ``need`` has the role that the statement requires.
    """
    form(syntax, lambda **values: Command(need, carry_out, constants | values))


for _paragraph in _VIEWS.split("\n\n")[1:]:
    _lines = _paragraph.splitlines()
    _view = " ".join(line for line in _lines if not line.startswith("-- "))
    for _line in _lines:
        if _line.startswith("-- "):
            _answer(_line.removeprefix("-- "), _show, view=_view)
for _word in ("WARNINGS", "errors:ERRORS"):
    _answer(f"SHOW {_word} [LIMIT *:limit]", diagnostics)
_answer("SHOW GRANTS :rest", _grants)
_answer("USE database:identifier", _use)
_answer("KILL [CONNECTION] number:number", _kill, _KILLS)
_answer("KILL query_only:QUERY number:number", _kill, _KILLS)
_answer("DO expressions:rest", _do)
_answer("SET assignments:assignments", _set)
_answer("BEGIN|COMMIT|ROLLBACK :rest", _accept)
_answer("START TRANSACTION :rest", _accept)
_answer("UNLOCK TABLES", _accept)
# A text of comments alone has no word. Scripts have such statements.
FORMS[""] = [((), lambda: Command(_READS, _accept, {}))]
_answer("SELECT|WITH|TABLE|( text:whole", Session.select)
for _beginning in _REFUSED.split(","):
    _answer(f"{_beginning} :rest", _refuse, statement=" ".join(_beginning.split()))
_answer(f"DESCRIBE|DESC|EXPLAIN {_QUERIES} :rest", _refuse, statement="EXPLAIN")

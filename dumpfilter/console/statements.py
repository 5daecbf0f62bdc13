"""The execution of a client's statements.

Replication commands go to the master or slave. The console itself answers SELECT, SET, SHOW TABLES and the like, and
refuses all other statements with a server's errors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from dumpfilter.console import show
from dumpfilter.console.executor import Interrupt
from dumpfilter.console.information_schema import SCHEMA, schemas_of
from dumpfilter.console.masking import for_audit_log
from dumpfilter.console.roles import COMMANDS, STATEMENTS, Need, Role, check_role, may_see_user
from dumpfilter.console.session import Session
from dumpfilter.console.settings import apply_set
from dumpfilter.security.audit import audit
from dumpfilter.sql import server_errors
from dumpfilter.sql.commands import Query
from dumpfilter.sql.interruption import interruptible
from dumpfilter.sql.parser import parse_statement
from dumpfilter.sql.result import OK, Result
from dumpfilter.sql.rewriting import no_such_table, parse
from dumpfilter.sql.server_errors import SqlError
from dumpfilter.statement.tokens import Token, TokenKind, tokens

LONGEST_IN_AUDIT_LOG = 1000
"""The length at which the audit log cuts a statement, characters."""

MAX_STATEMENT = 64 << 10
"""The length limit of a statement that is neither a SELECT nor about replication, characters."""

_MOST_ID_DIGITS = 20
"""The number of digits that KILL reads of a connection's number, enough for 2**64 - 1. More digits are ignored."""


def execute_statement(session: Session, text: str, interrupt: Interrupt) -> Result:
    """Carry out one statement of a client, and return its result. Setting ``interrupt`` ends it early.

    Raises SqlError, and the errors of the master or slave that carries out replication commands.
    """
    session.questions += 1
    command = parse_statement(text)
    if isinstance(command, Query):
        result = _execute_query(session, command.text, interrupt)
        if result.notes and not interrupt.is_set():
            session.diagnostics = result.notes
        return result
    need = COMMANDS.get(type(command), Need(type(command).__name__, Role.ALL, changes=True))
    with _audited(session, text, need), interruptible(interrupt):
        check_role(session.role, need)
        result = session.executor.execute(command)
    if not interrupt.is_set():
        # The client of an interrupted statement has received error 1317. The late result must not replace the
        # warnings that SHOW WARNINGS returns.
        session.diagnostics = result.notes
    return result


def _execute_query(session: Session, text: str, interrupt: Interrupt) -> Result:
    opening = next(tokens(text), None)
    first = opening.word or opening.value if opening else ""
    if first in _QUERIES:
        session.diagnostics = ()
        check_role(session.role, STATEMENTS[first])
        return session.select(text, interrupt)
    if len(text) > MAX_STATEMENT:
        raise server_errors.ER_CAPACITY_EXCEEDED(
            MAX_STATEMENT, "parser_max_mem_size", "Parser bailed out for this query."
        )
    words = list(tokens(text))
    if show.is_about_diagnostics(words):
        return show.diagnostics(words, session.diagnostics)
    session.diagnostics = ()
    if first not in _HANDLERS:
        raise _refusal(session, text, first)
    need = STATEMENTS[first]
    with _audited(session, text, need):
        check_role(session.role, need)
        return _HANDLERS[first](session, text, words, interrupt)


@contextlib.contextmanager
def _audited(session: Session, text: str, need: Need) -> Iterator[None]:
    """Record a statement that changes anything, or that the user may not use, in the audit log with its result."""
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


def _use(session: Session, text: str, words: Sequence[Token], interrupt: Interrupt) -> Result:
    if len(words) < 2 or words[1].kind is TokenKind.BAD:
        raise server_errors.syntax_error(text, len(text))
    session.use(words[1].value)
    return OK


def _kill(session: Session, text: str, words: Sequence[Token], interrupt: Interrupt) -> Result:
    kinds = [word.word for word in words[1:-1]]
    number = words[-1]
    if number.kind is not TokenKind.INTEGER or kinds not in ([], ["QUERY"], ["CONNECTION"]):
        raise server_errors.syntax_error(text, number.start if len(words) > 1 else len(text))
    connection_id = int(number.value[:_MOST_ID_DIGITS])
    user = session.processes.user_of(connection_id)
    if user is None and not session.role.includes(Role.ALL):
        # Only an administrator learns whether somebody is just logging in under this number.
        raise server_errors.ER_NO_SUCH_THREAD(connection_id)
    if not may_see_user(session.role, session.user, user):
        raise server_errors.ER_KILL_DENIED_ERROR(connection_id)
    if not session.processes.kill(connection_id, query_only=kinds == ["QUERY"]):
        raise server_errors.ER_NO_SUCH_THREAD(connection_id)
    return OK


def _do(session: Session, text: str, words: Sequence[Token], interrupt: Interrupt) -> Result:
    return Result(notes=session.select("SELECT " + text[words[0].end :], interrupt).notes)


def _set(session: Session, text: str, words: Sequence[Token], interrupt: Interrupt) -> Result:
    apply_set(session, text, words, interrupt)
    return OK


def _accept(session: Session, text: str, words: Sequence[Token], interrupt: Interrupt) -> Result:
    # A console has nothing to roll back, but client libraries send BEGIN, COMMIT and ROLLBACK.
    return OK


_HANDLERS: dict[str, Callable[[Session, str, Sequence[Token], Interrupt], Result]] = {
    "USE": _use,
    "KILL": _kill,
    "DO": _do,
    "SET": _set,
    "SHOW": show.show,
    "DESCRIBE": show.describe,
    "DESC": show.describe,
    "EXPLAIN": show.describe,
    **dict.fromkeys(("BEGIN", "START", "COMMIT", "ROLLBACK", "UNLOCK"), _accept),
}
_QUERIES = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "("})
_WRITES: dict[type, str] = {
    exp.Insert: "INSERT",
    exp.Update: "UPDATE",
    exp.Delete: "DELETE",
    exp.TruncateTable: "DROP",
    exp.Drop: "DROP",
    exp.Create: "CREATE",
    exp.Alter: "ALTER",
}
"""The privilege that a server names in its "command denied" error, for each kind of writing statement."""
_KNOWN = frozenset(
    """
    ALTER ANALYZE BINLOG CACHE CALL CHECK CHECKSUM CLONE CREATE DEALLOCATE DELETE DROP EXECUTE FLUSH GET GRANT
    HANDLER HELP IMPORT INSERT INSTALL LOAD LOCK OPTIMIZE PREPARE RELEASE RENAME REPAIR REPLACE RESET RESIGNAL
    RESTART REVOKE SAVEPOINT SHUTDOWN SIGNAL STOP TRUNCATE UNINSTALL UPDATE XA
    """.split()  # noqa: SIM905 — a table of words
)
"""The first words of the statements that a server knows and a console refuses with error 1235 ("not supported").

A statement with an unknown first word is a syntax error.
"""


def _refusal(session: Session, text: str, verb: str) -> SqlError:
    # A console's tables cannot be written. A writing statement gets the error of a server's performance_schema.
    if verb not in _KNOWN:
        return server_errors.syntax_error(text, 0)
    try:
        tree = parse(text)
    except SqlError as failed:
        return failed
    table = tree.find(exp.Table)
    if type(tree) not in _WRITES or table is None:
        return server_errors.ER_NOT_SUPPORTED_YET(verb)
    if tree.args.get("kind") in ("DATABASE", "SCHEMA"):
        return server_errors.ER_DBACCESS_DENIED_ERROR(session.user, session.host, table.name)
    schema = table.db or session.database
    if not schema:
        return server_errors.ER_NO_DB_ERROR()
    if schema == SCHEMA or isinstance(tree, exp.Create | exp.Alter):
        return server_errors.ER_DBACCESS_DENIED_ERROR(session.user, session.host, schema)
    if session.find_table(schema, table.name) is None:
        return no_such_table(schema, table.name, schemas_of(session.executor))
    privilege = _WRITES[type(tree)]
    return server_errors.ER_TABLEACCESS_DENIED_ERROR(privilege, session.user, session.host, table.name)

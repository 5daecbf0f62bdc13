"""The execution of a client's statements.

Replication commands go to the master or slave. The console itself answers SELECT, SET, SHOW TABLES and the like, and
refuses all other statements with a server's errors.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

from dumpfilter.base.security.audit import audit
from dumpfilter.binlog.statement.tokens import tokens
from dumpfilter.console import show
from dumpfilter.console.grammar import GRAMMAR
from dumpfilter.console.masking import for_audit_log
from dumpfilter.console.roles import COMMANDS, QUERIES, STATEMENTS, Need, Role, check_role, may_see_user
from dumpfilter.console.session import Session
from dumpfilter.console.settings import apply_settings
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.commands import Command, Query
from dumpfilter.console.sql.filters import MAX_STATEMENT
from dumpfilter.console.sql.interruption import Interrupt, interruptible
from dumpfilter.console.sql.parser import parse_statement
from dumpfilter.console.sql.result import OK, Result
from dumpfilter.console.sql.server_errors import SqlError

LONGEST_IN_AUDIT_LOG = 1000
"""The length at which the audit log cuts a statement, characters."""


def execute_statement(session: Session, text: str, interrupt: Interrupt) -> Result:
    """Carry out one statement of a client, and return its result. Setting ``interrupt`` ends it early.

    Raises SqlError, and the errors of the master or slave that carries out replication commands.
    """
    session.questions += 1
    command = parse_statement(text)
    with interruptible(interrupt):
        if isinstance(command, Query):
            run, need = _read_query(command.text)
        else:
            run = functools.partial(_execute, command)
            need = COMMANDS.get(type(command), Need(type(command).__name__, Role.ALL, changes=True))
        is_about_diagnostics = run.func in (show.diagnostics, show.count_diagnostics)
        if not is_about_diagnostics and not interrupt.is_set():
            session.diagnostics = ()
        with _audited(session, text, need):
            check_role(session.role, need)
            result: Result = run(session)
    if result.notes and not interrupt.is_set():
        # The client of an interrupted statement has received error 1317. The late result must not replace the
        # warnings that SHOW WARNINGS returns.
        session.diagnostics = result.notes
    return result


def _execute(command: Command, session: Session) -> Result:
    return session.executor.execute(command)


def _select(text: str, session: Session) -> Result:
    return session.select(text)


def _read_query(text: str) -> tuple[functools.partial[Result], Need]:
    """Return the function that carries out a statement that is not a replication command, and the role that it
    needs.
    """
    opening = next(tokens(text), None)
    first = opening.word or opening.value if opening else ""
    if first in QUERIES:
        return functools.partial(_select, text), QUERIES[first]
    if len(text) > MAX_STATEMENT:
        raise server_errors.too_long(MAX_STATEMENT)
    if first in _KNOWN:
        raise server_errors.ER_NOT_SUPPORTED_YET(first)
    if first not in GRAMMAR.beginnings:
        raise server_errors.syntax_error(text, 0)
    return GRAMMAR.parse(text), STATEMENTS[first]


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


def _use(session: Session, database: str) -> Result:
    session.use(database)
    return OK


def _kill(session: Session, number: int, *, query_only: bool = False) -> Result:
    user = session.port.processes.user_of(number)
    if user is None and not session.role.includes(Role.ALL):
        # Only an administrator learns whether somebody is just logging in under this number.
        raise server_errors.ER_NO_SUCH_THREAD(number)
    if not may_see_user(session.role, session.user, user):
        raise server_errors.ER_KILL_DENIED_ERROR(number)
    if not session.port.processes.kill(number, query_only=query_only):
        raise server_errors.ER_NO_SUCH_THREAD(number)
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

_KNOWN = frozenset(
    """
    ALTER ANALYZE BINLOG CACHE CALL CHECK CHECKSUM CLONE CREATE DEALLOCATE DELETE DRAIN DROP EXECUTE FLUSH GET GRANT
    HANDLER HELP IMPORT INSERT INSTALL LOAD LOCK OPTIMIZE PREPARE RELEASE RENAME REPAIR REPLACE RESET RESIGNAL
    RESTART REVOKE SAVEPOINT SHUTDOWN SIGNAL STOP TRUNCATE UNDRAIN UNINSTALL UNREGISTER UPDATE XA
    """.split()  # noqa: SIM905 — a table of words
)
"""The first words of the statements that a server or a master knows and this console refuses with error 1235.

A statement with an unknown first word is a syntax error.
"""

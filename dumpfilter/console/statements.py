"""The execution of a client's statements.

Replication commands go to the master or slave. The console itself answers SELECT, SET, SHOW TABLES and the like, and
refuses all other statements with a server's errors.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import NoReturn

from dumpfilter.base.security.audit import audit
from dumpfilter.console import show
from dumpfilter.console.grammar import GRAMMAR
from dumpfilter.console.masking import for_audit_log
from dumpfilter.console.roles import COMMANDS, STATEMENTS, Need, Role, check_role, may_see_user
from dumpfilter.console.session import Session
from dumpfilter.console.settings import apply_settings
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.commands import Command
from dumpfilter.console.sql.interruption import Interrupt, interruptible
from dumpfilter.console.sql.parser import parse_statement
from dumpfilter.console.sql.result import OK, Result
from dumpfilter.console.sql.server_errors import SqlError

LONGEST_IN_AUDIT_LOG = 1000
"""The length at which the audit log cuts a statement, characters."""


def execute_statement(session: Session, text: str, interrupt: Interrupt) -> Result:
    """Carry out one SQL statement of a client in the client's session, and return its result.

    Another thread ends the statement early by setting ``interrupt``. Raises SqlError for a statement that fails. A
    replication command is carried out by the master or slave, whose errors are raised, too.
    """
    session.questions += 1
    parsed = parse_statement(text)
    run: functools.partial[Result]
    if isinstance(parsed, Command):
        run, need = functools.partial(_execute, parsed), COMMANDS[type(parsed)]
    else:
        run, need = parsed, STATEMENTS["KILL" if parsed.func is _kill else "SELECT"]
    with interruptible(interrupt):
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


def _select(session: Session, text: str) -> Result:
    return session.select(text)


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


def _use(session: Session, database: str) -> Result:
    session.use(database)
    return OK


def _kill(session: Session, number: int, *, query_only: bool = False) -> Result:
    client = session.port.listed.get(number)
    # Only an administrator learns whether somebody is just logging in under this number.
    if client is None or (client.user is None and not session.role.includes(Role.ALL)):
        raise server_errors.ER_NO_SUCH_THREAD(number)
    if not may_see_user(session.role, session.user, client.user):
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
GRAMMAR.call("SELECT|WITH|VALUES|TABLE|( *:whole", _select)
_REFUSED = """
    FLUSH, RESET BINARY, RESET MASTER, RESET PERSIST, RESET QUERY, STOP GROUP_REPLICATION, SHOW ENGINE, SHOW LIBRARY,
    SHOW MUTEX, SHOW PARSE_TREE, SHOW PRIVILEGES, SHOW PROFILE, SHOW PROFILES, SHOW CREATE EVENT, SHOW CREATE FUNCTION,
    SHOW CREATE LIBRARY, SHOW CREATE PACKAGE, SHOW CREATE PROCEDURE, SHOW CREATE SEQUENCE, SHOW CREATE SERVER,
    SHOW CREATE TRIGGER, SHOW CREATE USER
"""
"""The beginnings of further statements that a server has and a console refuses with error 1235."""
for _beginning in _REFUSED.split(","):
    GRAMMAR.call(f"{_beginning} *:rest", _refuse, " ".join(_beginning.split()))
# A console cannot explain queries, which begin with these words.
_QUERIES = "SELECT|WITH|(|FORMAT|ANALYZE|INSERT|UPDATE|DELETE|TABLE|FOR"
GRAMMAR.call(f"DESCRIBE|DESC|EXPLAIN {_QUERIES} *:rest", _refuse, "EXPLAIN")

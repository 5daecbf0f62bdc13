"""One client's session: executes its statements, and keeps what outlives one.

Commands go to the executor; everything else a client may ask (SELECT, SHOW VARIABLES, SET, USE …) is answered
here. Blocking and without I/O of its own: the connection calls it from a worker thread, one statement at a time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from mysql_mimic.charset import CharacterSet

from dumpfilter.console import show
from dumpfilter.console.executor import Executor
from dumpfilter.console.information_schema import SCHEMA, information_schema_table, schemas_of
from dumpfilter.console.interrupt import Interrupt
from dumpfilter.console.variables import Value, Variables
from dumpfilter.sql import server_errors as catalogue
from dumpfilter.sql.commands import Query
from dumpfilter.sql.errors import SqlError
from dumpfilter.sql.lexer import Token, TokenKind
from dumpfilter.sql.parser import parse_statement
from dumpfilter.sql.result import OK, Column, Note, Result, Table
from dumpfilter.sql.select import DEFAULT_SECONDS, Environment, no_such_table, select, tokens


class Processes(Protocol):
    """The other connections, as a session may ask for them."""

    def kill(self, connection_id: int, *, query_only: bool) -> bool:
        """End a connection or its statement; False when there is none."""
        ...

    def processes(self) -> Sequence[Sequence[object]]:
        """The rows of SHOW PROCESSLIST."""
        ...

    def status(self) -> Mapping[str, int]:
        """What SHOW STATUS tells."""
        ...


class Session:
    """The state of one client, and its statements."""

    def __init__(
        self, executor: Executor, processes: Processes, connection_id: int, user: str, host: str
    ) -> None:
        self.user = user
        self.host = host
        self.connection_id = connection_id
        self.tls_version = ""
        self.tls_cipher = ""
        self.executor = executor
        self.processes = processes
        self.database: str | None = None
        self.character_set = CharacterSet.utf8mb4
        self.diagnostics: Sequence[Note] = ()
        """What SHOW WARNINGS says."""
        self.variables = Variables(executor.variables)
        self.user_variables: dict[str, Value] = {}
        self.questions = 0

    def reset(self) -> None:
        """COM_RESET_CONNECTION: as after logging in, but for the database."""
        self.diagnostics = ()
        self.variables.reset()
        self.user_variables.clear()

    def use(self, database: str) -> None:
        """Make this the current database. Raises SqlError 1049."""
        if database.lower() == SCHEMA:
            database = SCHEMA
        if database not in schemas_of(self.executor):
            raise catalogue.ER_BAD_DB_ERROR(database)
        self.database = database

    def execute(self, text: str, interrupt: Interrupt) -> Result:
        """One statement. Raises SqlError and what the executor raises."""
        self.questions += 1
        command = parse_statement(text)
        if not isinstance(command, Query):
            result = self.executor.execute(command)
            if not interrupt.is_set():
                # of one that was given up nobody must hear
                self.diagnostics = result.notes
            return result
        words = list(tokens(command.text))
        first = words[0].word or words[0].value if words else ""
        if show.is_about_diagnostics(words):
            return show.diagnostics(words, self.diagnostics)
        self.diagnostics = ()
        if first in _HANDLERS:
            return _HANDLERS[first](self, command.text, words, interrupt)
        if first in ("SELECT", "WITH", "VALUES", "TABLE", "("):
            return self.select(command.text, interrupt)
        raise self._refusal(words)

    def select(self, text: str, interrupt: Interrupt, extra: Mapping[str, Table] | None = None) -> Result:
        """A SELECT; ``extra`` are tables of the schema ``@`` beyond the session's."""

        def find(schema: str, name: str) -> Table | None:
            return extra.get(name) if extra and schema == "@" else self.find_table(schema, name)

        limit = self.variables.all()["max_execution_time"]
        seconds = int(limit) / 1000 if isinstance(limit, int) and limit > 0 else DEFAULT_SECONDS
        return select(text, self._environment(find), stop=interrupt, seconds=seconds)

    def _environment(self, find: Callable[[str, str], Table | None]) -> Environment:
        variables = self.variables.all()
        account = f"{self.user}@{self.host}"
        return Environment(
            find_table=find,
            schemas=schemas_of(self.executor),
            database=self.database,
            variables={
                **variables,
                "warning_count": len(self.diagnostics),
                "pseudo_thread_id": self.connection_id,
            },
            user_variables=self.user_variables,
            functions={
                **dict.fromkeys(("user", "current_user", "session_user", "system_user"), account),
                **dict.fromkeys(("database", "schema"), self.database),
                "version": variables.get("version"),
                "connection_id": self.connection_id,
                "row_count": -1,
                "found_rows": 0,
                "last_insert_id": 0,
            },
        )

    def find_table(self, schema: str, name: str) -> Table | None:
        """A table that can be selected from; names compare as on a server, exactly."""
        if schema == SCHEMA:
            return information_schema_table(self.executor, name)
        return self.executor.table(schema, name) if (schema, name) in self.executor.table_names() else None

    def columns_of(self, table: str) -> Sequence[Column]:
        """The columns of a table of the current database (COM_FIELD_LIST). Raises SqlError 1046, 1146."""
        if self.database is None:
            raise catalogue.ER_NO_DB_ERROR()
        found = self.find_table(self.database, table)
        if found is None:
            raise no_such_table(self.database, table, schemas_of(self.executor))
        return found.columns

    def statistics(self) -> str:
        """What COM_STATISTICS answers."""
        status = self.processes.status()
        return (
            f"Uptime: {status['Uptime']}  Threads: {status['Threads_connected']}  Questions: {self.questions}"
        )

    # Statements

    def _use(self, text: str, words: Sequence[Token], interrupt: Interrupt) -> Result:
        if len(words) < 2 or words[1].kind is TokenKind.BAD:
            raise catalogue.syntax_error(text, len(text))
        self.use(words[1].value)
        return OK

    def _kill(self, text: str, words: Sequence[Token], interrupt: Interrupt) -> Result:
        kinds = [word.word for word in words[1:-1]]
        number = words[-1]
        if number.kind is not TokenKind.INTEGER or kinds not in ([], ["QUERY"], ["CONNECTION"]):
            raise catalogue.syntax_error(text, number.start if len(words) > 1 else len(text))
        if not self.processes.kill(int(number.value[:20]), query_only=kinds == ["QUERY"]):
            raise SqlError(1094, "HY000", f"Unknown thread id: {number.value[:20]}")
        return OK

    def _do(self, text: str, words: Sequence[Token], interrupt: Interrupt) -> Result:
        self.select("SELECT " + text[words[0].end :], interrupt)
        return OK

    def _set(self, text: str, words: Sequence[Token], interrupt: Interrupt) -> Result:
        from dumpfilter.console.settings import apply_set

        apply_set(self, text, words, interrupt)
        return OK

    def _nothing(self, text: str, words: Sequence[Token], interrupt: Interrupt) -> Result:
        """Transactions: there is nothing that could be rolled back."""
        return OK

    def _show(self, text: str, words: Sequence[Token], interrupt: Interrupt) -> Result:
        return show.show(self, text, words, interrupt)

    def _describe(self, text: str, words: Sequence[Token], interrupt: Interrupt) -> Result:
        return show.describe(self, text, words, interrupt)

    def _refusal(self, words: Sequence[Token]) -> SqlError:
        """What a server says when its performance_schema is written to, and about anything else."""
        verb = words[0].word if words else ""
        names = _table_named(words)
        if verb in _WRITES and names:
            schema, name = names
            if words[1].word in ("DATABASE", "SCHEMA"):
                return catalogue.ER_DBACCESS_DENIED_ERROR(self.user, self.host, name)
            schema = schema or self.database or ""
            if not schema:
                return catalogue.ER_NO_DB_ERROR()
            if schema == SCHEMA or verb in ("CREATE", "ALTER"):
                return catalogue.ER_DBACCESS_DENIED_ERROR(self.user, self.host, schema)
            if self.find_table(schema, name) is None:
                return no_such_table(schema, name, schemas_of(self.executor))
            return catalogue.ER_TABLEACCESS_DENIED_ERROR(_WRITES[verb], self.user, self.host, name)
        if verb in _KNOWN:
            return catalogue.ER_NOT_SUPPORTED_YET(verb)
        return catalogue.syntax_error(" ".join(word.value for word in words), 0)


_HANDLERS: dict[str, Callable[[Session, str, Sequence[Token], Interrupt], Result]] = {
    "USE": Session._use,
    "KILL": Session._kill,
    "DO": Session._do,
    "SET": Session._set,
    "SHOW": Session._show,
    "DESCRIBE": Session._describe,
    "DESC": Session._describe,
    "EXPLAIN": Session._describe,
    **dict.fromkeys(("BEGIN", "START", "COMMIT", "ROLLBACK", "UNLOCK"), Session._nothing),
}
_WRITES = {
    "INSERT": "INSERT",
    "REPLACE": "INSERT, DELETE",
    "UPDATE": "UPDATE",
    "DELETE": "DELETE",
    "TRUNCATE": "DROP",
    "DROP": "DROP",
    "CREATE": "CREATE",
    "ALTER": "ALTER",
    "LOCK": "SELECT, LOCK TABLES",
}
"""The privilege each would need."""
_KNOWN = {
    *_WRITES,
    *("ANALYZE", "BINLOG", "CACHE", "CALL", "CHANGE", "CHECK", "CHECKSUM", "CLONE", "DEALLOCATE", "EXECUTE"),
    *(
        "FLUSH",
        "GET",
        "GRANT",
        "HANDLER",
        "HELP",
        "IMPORT",
        "INSTALL",
        "LOAD",
        "OPTIMIZE",
        "PREPARE",
        "PURGE",
    ),
    *("RELEASE", "RENAME", "REPAIR", "RESET", "RESIGNAL", "RESTART", "REVOKE", "SAVEPOINT", "SHUTDOWN"),
    *("SIGNAL", "STOP", "UNINSTALL", "XA"),
}
_FILLING = {
    *("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE", "INTO", "FROM", "TABLE", "TABLES", "IF"),
    *("NOT", "EXISTS", "TEMPORARY", "DATABASE", "SCHEMA", "VIEW", "OR", "REPLACE"),
}


def _table_named(words: Sequence[Token]) -> tuple[str, str] | None:
    """The schema (or nothing) and the table that a writing statement names first."""
    rest = list(words[1:])
    while rest and rest[0].word in _FILLING:
        rest.pop(0)
    with contextlib.suppress(IndexError):
        if rest[0].kind in (TokenKind.WORD, TokenKind.QUOTED):
            if rest[1:] and rest[1].value == ".":
                return rest[0].value, rest[2].value
            return "", rest[0].value
    return None

"""The parser of the console's statements. It turns the text of a statement into a command or a call."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dumpfilter.console.sql.commands import GRAMMAR
from dumpfilter.console.sql.cursor import Cursor
from dumpfilter.console.sql.server_errors import ER_EMPTY_QUERY, ER_NOT_SUPPORTED_YET, syntax_error, too_long

_SPACE = " \t\n\v\f\r"

MAX_STATEMENT = 64 << 10
"""The length limit, in characters, of all statements but START REPLICA, whose UNTIL may name a large GTID set.

Parsing a longer statement would hold the interpreter's lock for longer than the master may delay a commit.
"""

_KNOWN = frozenset(
    """
    ALTER ANALYZE BINLOG CACHE CALL CHECK CHECKSUM CLONE CREATE DEALLOCATE DELETE DRAIN DROP EXECUTE GET GRANT
    HANDLER HELP IMPORT INSERT INSTALL LOAD LOCK OPTIMIZE PREPARE RELEASE RENAME REPAIR REPLACE RESIGNAL
    RESTART REVOKE SAVEPOINT SHUTDOWN SIGNAL TRUNCATE UNDRAIN UNINSTALL UNREGISTER UPDATE XA
    """.split()  # noqa: SIM905 — a table of words
)
"""The first words of the statements that a server or a master knows and this console refuses with error 1235.

A statement with an unknown first word is a syntax error.
"""


def parse_statement(text: str, now: datetime | None = None) -> Any:
    """Parse one statement, with or without a semicolon at its end.

    A statement about replication is returned as a command, an object of a class of
    :mod:`dumpfilter.console.sql.commands`. Any other statement is returned as a function that carries the statement out
    in a given session. The text of a SELECT is not parsed yet.

    ``now`` is the value of NOW(), a local time without a time zone. Its default is the current time. Raises SqlError:
    ER_PARSE_ERROR for text that the grammar does not allow, ER_EMPTY_QUERY, and other errors that the server's parser
    raises.

    >>> parse_statement("stop replica sql_thread for channel 'Ch1'")
    StopReplica(threads=<Threads.SQL: 2>, channel='ch1', every=False)
    >>> parse_statement("RESET REPLICA NONE")
    Traceback (most recent call last):
    dumpfilter.console.sql.server_errors.SqlError: ERROR 1064 (42000): You have an error in your SQL syntax; check \
the manual that corresponds to your MySQL server version for the right syntax to use near 'NONE' at line 1
    """
    # The server strips white space before it parses. Line 1 in its error messages is therefore the line of the first
    # other character.
    text = text.lstrip(_SPACE).rstrip(_SPACE + ";")
    if not text:
        raise ER_EMPTY_QUERY()
    opening = Cursor(text).token
    first = opening.word or opening.value
    if len(text) > MAX_STATEMENT and first != "START":
        raise too_long(MAX_STATEMENT)
    if first not in GRAMMAR.beginnings:
        raise ER_NOT_SUPPORTED_YET(first) if first in _KNOWN else syntax_error(text, 0)
    return GRAMMAR.parse(text, now)

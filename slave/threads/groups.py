"""The boundaries between groups of events. A group is a transaction, or a statement outside any transaction.

The applier needs the boundaries, because it may stop and save its position only between two groups. A GTID event opens
a group. In a binlog without GTIDs, BEGIN or the first event of a statement opens a group. Xid, COMMIT, ROLLBACK,
XA PREPARE or a compressed transaction (Transaction_payload event) closes a group. A group without BEGIN, such as a DDL
statement, ends with its only statement. :mod:`dumpfilter.index.scanner` has the same rules for the master.
"""

from __future__ import annotations

import enum

from dumpfilter.binlog.events import MYSQL_GTIDS, ROWS, STATEMENTS, EventType, Symbol, types_of
from dumpfilter.binlog.gtid_events import FL_STANDALONE

_OPENING = types_of(Symbol.CONTEXT, Symbol.TABLE_MAP)
_ENDING = types_of(Symbol.XID, Symbol.XA_PREPARE, Symbol.PAYLOAD)
_LONE = STATEMENTS | {EventType.INCIDENT}
"""The types of events that form a group by themselves outside of BEGIN and COMMIT."""


class Keyword(enum.Enum):
    """The kinds of statements that control a transaction, such as BEGIN and COMMIT. ``NONE`` stands for all other
    statements.

    Filters do not decide about statements that control a transaction. The server's function for this test is
    ``Query_log_event::is_trans_keyword``.
    """

    NONE = enum.auto()
    """A statement that does not control a transaction. The slave's filter decides about it."""
    BEGIN = enum.auto()
    """A statement that opens a transaction: BEGIN, XA START or XA BEGIN."""
    END = enum.auto()
    """A statement that ends a transaction: COMMIT or ROLLBACK."""
    INSIDE = enum.auto()
    """A statement inside a transaction: SAVEPOINT, RELEASE SAVEPOINT, ROLLBACK TO, XA END, XA COMMIT and the like."""


def keyword(text: str) -> Keyword:
    """Return the kind of transaction control of a statement, or ``Keyword.NONE`` for any other statement.

    >>> keyword("begin"), keyword("ROLLBACK TO `a`"), keyword("BEGIN NOT ATOMIC")
    (<Keyword.BEGIN: 2>, <Keyword.INSIDE: 4>, <Keyword.NONE: 1>)
    """
    head = text[:20].upper()
    if head == "BEGIN" or head.startswith(("XA START", "XA BEGIN")):
        return Keyword.BEGIN
    if head in ("COMMIT", "ROLLBACK"):
        return Keyword.END
    if head.startswith(("ROLLBACK", "SAVEPOINT ", "RELEASE SAVEPOINT ", "XA ")):
        return Keyword.INSIDE
    return Keyword.NONE


class _State(enum.Enum):
    OUTSIDE = enum.auto()
    STATEMENT = enum.auto()
    """The state inside a group of events without BEGIN, such as a DDL statement. The next statement ends the group."""
    TRANSACTION = enum.auto()
    """The state inside a transaction, which only COMMIT, ROLLBACK, Xid or XA PREPARE ends."""


class Groups:
    """A tracker of transaction boundaries. It is given a binlog's events one after another, and tells after each event
    whether a transaction is open.
    """

    def __init__(self) -> None:
        self._state = _State.OUTSIDE

    @property
    def inside(self) -> bool:
        """Whether the newest event lies inside a transaction or statement that is not complete yet."""
        return self._state is not _State.OUTSIDE

    def enter(
        self,
        kind: int,
        *,
        mariadb_flags: int = 0,
        word: Keyword = Keyword.NONE,
        statement_end: bool = False,
    ) -> bool:
        """Process the type and flags of the next event of the binlog. Return whether the event completes a transaction,
        or a statement outside of transactions.

        ``kind`` is the event's type. ``mariadb_flags`` are the flags of a MariaDB Gtid event. ``word`` is the kind of
        transaction control of a Query event. ``statement_end`` says that a rows event carries STMT_END_F.
        """
        if kind in MYSQL_GTIDS:
            self._state = _State.STATEMENT
        elif kind == EventType.MARIADB_GTID:
            alone = mariadb_flags & FL_STANDALONE
            self._state = _State.STATEMENT if alone else _State.TRANSACTION
        elif kind in _OPENING:
            if self._state is _State.OUTSIDE:
                self._state = _State.STATEMENT
        elif kind in _ENDING or word is Keyword.END:
            return self._end()
        elif word is Keyword.BEGIN:
            self._state = _State.TRANSACTION
        elif kind in ROWS:
            if self._state is not _State.TRANSACTION:
                self._state = _State.STATEMENT
                if statement_end:
                    return self._end()
        elif kind in _LONE and self._state is not _State.TRANSACTION:
            return self._end()
        return False

    def _end(self) -> bool:
        self._state = _State.OUTSIDE
        return True

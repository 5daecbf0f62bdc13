"""Groups of events: a group is a transaction, or a statement outside any transaction.

This module applies the rules of :mod:`dumpfilter.index.scanner` to one event at a time. A GTID event opens a
group. In a binlog without GTIDs, BEGIN or the first event of a statement opens a group. Xid, COMMIT,
ROLLBACK, XA PREPARE or a compressed payload closes a group. A group without BEGIN is closed by its only
statement.
"""

from __future__ import annotations

import enum

from dumpfilter.binlog.events import MYSQL_GTIDS, ROWS, STATEMENTS, EventType, Symbol, types_of

_OPENING = types_of(Symbol.CONTEXT, Symbol.TABLE_MAP)
_ENDING = types_of(Symbol.XID, Symbol.XA_PREPARE, Symbol.PAYLOAD)
_FL_STANDALONE = 0x01


class Keyword(enum.Enum):
    """The part that a Query's text plays in its transaction (``Query_log_event::is_trans_keyword``)."""

    NONE = enum.auto()
    """A statement on which a filter decides."""
    BEGIN = enum.auto()
    END = enum.auto()
    INSIDE = enum.auto()
    """SAVEPOINT, ROLLBACK TO, and XA statements other than XA START."""


def keyword(text: str) -> Keyword:
    """Return the transaction keyword that a statement's text is, or ``Keyword.NONE``.

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
    """The next statement ends the group."""
    TRANSACTION = enum.auto()
    """A transaction began with BEGIN, and only its end closes the group."""


class Groups:
    """The state of grouping in a stream of events."""

    def __init__(self) -> None:
        self._state = _State.OUTSIDE

    @property
    def inside(self) -> bool:
        """Whether the newest event left a group open."""
        return self._state is not _State.OUTSIDE

    def enter(
        self,
        kind: int,
        *,
        mariadb_flags: int = 0,
        word: Keyword = Keyword.NONE,
        statement_end: bool = False,
    ) -> bool:
        """Take the next event. Return True when the event completes a group.

        ``mariadb_flags`` are the flags of a MariaDB Gtid event. ``word`` is the keyword of a Query event.
        ``statement_end`` says that a rows event carries STMT_END_F.
        """
        if kind in MYSQL_GTIDS:
            self._state = _State.STATEMENT
        elif kind == EventType.MARIADB_GTID:
            alone = mariadb_flags & _FL_STANDALONE
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
        elif kind in STATEMENTS and self._state is not _State.TRANSACTION:
            return self._end()
        return False

    def _end(self) -> bool:
        self._state = _State.OUTSIDE
        return True

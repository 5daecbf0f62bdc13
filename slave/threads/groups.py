"""Groups: which events form a transaction, or a statement that stands for itself.

The same rules as the index's (:mod:`dumpfilter.index.scanner`), for one event at a time: a group is opened by
a GTID event (in binlogs without GTIDs by BEGIN, or by the first event of a statement) and closed by Xid,
COMMIT, ROLLBACK, XA PREPARE, a compressed payload, or, where nothing said BEGIN, by its only statement.
"""

from __future__ import annotations

import enum

from dumpfilter.binlog.events import MYSQL_GTIDS, ROWS, STATEMENTS, EventType, Symbol, types_of

_OPENING = types_of(Symbol.CONTEXT, Symbol.TABLE_MAP)
_ENDING = types_of(Symbol.XID, Symbol.XA_PREPARE, Symbol.PAYLOAD)
_FL_STANDALONE = 0x01


class Keyword(enum.Enum):
    """What a Query's text is to its transaction (``Query_log_event::is_trans_keyword``)."""

    NONE = enum.auto()
    """A statement: what a filter decides on."""
    BEGIN = enum.auto()
    END = enum.auto()
    INSIDE = enum.auto()
    """SAVEPOINT, ROLLBACK TO, and XA statements other than XA START."""


def keyword(text: str) -> Keyword:
    """Tell a transaction's keywords from statements.

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
    """After BEGIN: only a transaction's end does."""


class Groups:
    """Follows the groups of a stream of events."""

    def __init__(self) -> None:
        self._state = _State.OUTSIDE

    @property
    def inside(self) -> bool:
        """Whether the last event left a group open."""
        return self._state is not _State.OUTSIDE

    def enter(
        self,
        kind: int,
        *,
        mariadb_flags: int = 0,
        word: Keyword = Keyword.NONE,
        statement_end: bool = False,
    ) -> bool:
        """Follow one event; True when it completes a group.

        ``mariadb_flags`` are a MariaDB Gtid's flags, ``word`` belongs to a Query, ``statement_end`` says that
        rows carry STMT_END_F.
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

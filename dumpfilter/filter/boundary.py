"""Imposed filters (filters that the master's operator sets for a slave), which no data of a forbidden table passes.

A slave's own filter may send too much when in doubt, because the slave filters again. An imposed filter is set against
the slave's wish, so its decisions must be certain. :class:`BoundaryFilter` is stricter than the rules alone in two
points. It looks at the tables that a statement writes even where the server's rules look only at the default database.
And it says what happens to an event that no filter can decide about.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from itertools import chain

from dumpfilter.binlog.statement import Statement, StatementKind, TableName
from dumpfilter.filter.base import FilterAround, ReplicationFilter
from dumpfilter.filter.collation import as_parsed
from dumpfilter.filter.decision import Decision, Step, Verdict
from dumpfilter.index.subjects import Subject, TableSubject

K = StatementKind


class OnUndecided(enum.Enum):
    """The treatment of an event when a filter that the master's operator set for a slave cannot decide about
    the event.
    """

    STOP = "stop"
    """The dump stops before the event's transaction, with an error that names the event."""
    DROP = "drop"
    """The master drops the event, and counts it."""
    SEND = "send"
    """The master sends the event, and counts it. The slave decides, because the master tells it the rules."""


_NAMES_ONLY = frozenset(
    [
        *(K.DROP_TABLE, K.TRUNCATE_TABLE, K.RENAME_TABLE, K.MAINTENANCE, K.FLUSH, K.DROP_INDEX),
        *(K.DROP_TRIGGER, K.CREATE_DATABASE, K.ALTER_DATABASE, K.DROP_DATABASE),
    ]
)
"""The kinds of statements whose texts hold names and no data. The rules alone decide about them."""

_FORBIDS_DATABASE = frozenset(
    [Step.NO_DO_DB, Step.IGNORE_DB, Step.IGNORE_TABLE, Step.WILD_IGNORE_TABLE, Step.EFFECTIVE_IGNORE]
)
"""The reasons for dropping the name ``db.`` that mean that the filter drops the rows of every table of this database.

Rules such as do-table drop most tables of a database. They do not forbid the database's routines.
"""


class BoundaryFilter(FilterAround):
    """A filter that the master's operator sets for a slave, so that the slave never gets the rows of some tables.

    Parameters:
        rule_filter: the rules, without rewrite rules.
        on_undecided: the treatment of events that the filter cannot decide about.
        name: the filter's name in the master's configuration, for errors.

    A table is forbidden when the rules drop its rows. The rules decide about a statement first. If a statement passes
    the rules but writes forbidden tables only, the filter drops the statement. A statement that writes forbidden and
    allowed tables is undecided, and so is a statement whose tables are unknown.

    The text of some kinds of statements, such as DROP TABLE, has names of tables but no column values. It reveals no
    row, so the rules alone decide about such a statement.
    """

    def __init__(
        self,
        rule_filter: ReplicationFilter,
        on_undecided: OnUndecided = OnUndecided.STOP,
        *,
        name: str = "",
    ) -> None:
        super().__init__(rule_filter)
        self.on_undecided = on_undecided
        self.name = name

    def decide(self, subject: Subject) -> Decision:
        """Decide about a table as the rules do, and about a statement more strictly.

        A table is forbidden when the rules drop its rows. A statement that the rules pass is dropped if it writes only
        forbidden tables. If it also writes other tables, the verdict is UNDECIDED (the filter cannot decide), or IGNORE
        with OnUndecided.DROP. The rules alone decide about statements such as DROP TABLE, whose texts hold no column
        values.
        """
        if isinstance(subject, TableSubject):
            return super().decide(subject)
        decision = self._judge(subject)
        if self.on_undecided is OnUndecided.DROP and _is_open(decision, subject):
            return decision._replace(verdict=Verdict.IGNORE)
        return decision

    def is_undecided(self, subject: Subject) -> bool:
        """Tell whether the filter cannot decide about a statement, for example because its tables are unknown. The
        setting ``on_undecided`` does not matter. The result for a table is always False.
        """
        return not isinstance(subject, TableSubject) and _is_open(self._judge(subject), subject)

    def _judge(self, statement: Statement) -> Decision:
        decision = self.inner.decide(statement)
        tables = list(_written(statement))
        # ANALYZE TABLE … UPDATE HISTOGRAM … USING DATA quotes values of a column. It names a single table.
        names_only = statement.kind in _NAMES_ONLY and not (
            statement.kind is K.MAINTENANCE and len(tables) == 1
        )
        if not decision.verdict.passes or not self.is_on or names_only:
            return decision
        named = [self.named(name, statement.current_database) for name in tables]
        if tables:
            passes = {self.rows_ok(*table) for table in named}
        elif statement.updated is None or statement.kind in (K.ROUTINE, K.EVENT, K.SELECT):
            databases = statement.updated_databases
            if not databases and (databases is None or statement.kind is K.SELECT):
                # A stored function writes tables that the statement's text does not name.
                return Decision(Verdict.UNDECIDED, Step.UNKNOWN_TABLES)
            passes = {not self._forbids_database(name) for name in databases}
        else:
            return decision
        if passes == {False}:
            return Decision(Verdict.IGNORE, Step.WRITES_FORBIDDEN)
        used = set(statement.updated_databases or ())
        if (
            used.isdisjoint(database for database, _ in named)
            and used
            and all(map(self._forbids_database, used))
        ):
            # The event tells that the statement used forbidden databases only, and the tables of its text are in none
            # of them. Its text names a view of such a table.
            return Decision(Verdict.UNDECIDED, Step.UNKNOWN_TABLES)
        if False in passes:
            return Decision(Verdict.UNDECIDED, Step.WRITES_FORBIDDEN_TOO)
        return decision

    def _forbids_database(self, database: str) -> bool:
        rows = TableSubject(as_parsed(database, self.names.family), "")
        return self.decide(rows).step in _FORBIDS_DATABASE


def _is_open(decision: Decision, statement: Statement) -> bool:
    return decision.verdict is Verdict.UNDECIDED and statement.kind not in _NAMES_ONLY


def _written(statement: Statement) -> Iterator[TableName]:
    # An account statement writes grant tables, which stand in the last list. A list before it names the table to which
    # a privilege belongs.
    lists = statement.updated or ()
    return chain.from_iterable(lists[-1:] if statement.kind is K.ACCOUNT else lists)

"""The check for statements about which a filter decides differently than about row events of the same tables.

For a statement, database rules look at its default database; for row events, they look at the table's database. One
decision holds for all tables of a statement. A statement may therefore be dropped although row events of its tables
are sent, or vice versa.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from dumpfilter.analyse.lint.findings import Code
from dumpfilter.analyse.lint.items import Item
from dumpfilter.analyse.lint.knowledge import SetEvent
from dumpfilter.analyse.lint.reasons import cure_of, reason_of, rules_of
from dumpfilter.binlog.statement import Statement, StatementKind
from dumpfilter.binlog.statement.facts import CHANGING_ROWS
from dumpfilter.binlog.statement.statement import Thing
from dumpfilter.filter import Decision, Filter, ReplicationFilter, Step, Verdict
from dumpfilter.filter.world import World
from dumpfilter.index.subjects import TableSubject

C = TypeVar("C")

_NOT_JUDGED = frozenset({StatementKind.ACCOUNT, StatementKind.MAINTENANCE, StatementKind.FLUSH})
"""The statement kinds that this check ignores, because they change no rows. Accounts belong to no database."""

_BY_CURRENT_DATABASE = frozenset({Step.NO_DO_DB, Step.DO_DB, Step.IGNORE_DB, Step.NO_IGNORE_DB})
_CURE_OF_VIEWS = "Give a view the same rule as its tables, since rules look at the name of the view"


def changed_otherwise(rule_filter: ReplicationFilter, event: SetEvent, world: World[C]) -> Iterator[Item]:
    """Yield a fault for each table that a statement changes if the filter treats the table's row events differently.

    This is so if the filter drops the statement and sends row events of the table, or vice versa. ``world`` is the
    model of a replica's objects, which knows the tables behind views.
    """
    statement = event.subject
    assert isinstance(statement, Statement)
    if statement.kind in _NOT_JUDGED or statement.kind.is_database or event.facts.temporary:
        return
    decision = rule_filter.decide(statement)
    if decision.verdict is Verdict.UNDECIDED:
        return
    passes = decision.verdict is Verdict.EXECUTE
    default = world.default_database(statement.current_database)
    for name in (name for names in statement.updated or () for name in names):
        ref = world.ref(Thing.TABLE, name, default)
        # Statements of other kinds change the view itself.
        is_view = statement.kind in CHANGING_ROWS and world.is_view(ref.source)
        for _, database, table in [one.source for one in world.behind(ref)] if is_view else [ref.source]:
            if not database:
                continue
            alone = rule_filter.decide(TableSubject(database, table))
            if alone.verdict.passes != passes:
                item = _item(rule_filter, event, statement, decision, alone, f"{database}.{table}")
                by_tables = decision.step not in _BY_CURRENT_DATABASE
                yield replace(item, cure=_CURE_OF_VIEWS) if is_view and by_tables else item


def _item(
    rule_filter: ReplicationFilter,
    event: SetEvent,
    statement: Statement,
    decision: Decision,
    alone: Decision,
    name: str,
) -> Item:
    reason = reason_of(decision, statement)
    if decision.verdict is Verdict.EXECUTE:
        rules = tuple(dict.fromkeys((*rules_of(rule_filter, alone), *rules_of(rule_filter, decision))))
        return Item(
            Code.UNWANTED_STATEMENT,
            rules,
            f"a statement that changes {{names}} passes, and rows of the table are dropped. It passes because {reason}",
            cure_of(rule_filter, decision if isinstance(rule_filter, Filter) else alone),
            name,
            (event,),
        )
    return Item(
        Code.LOST_STATEMENT,
        rules_of(rule_filter, decision),
        f"a statement that changes {{names}} is dropped, and rows of the table pass. It is dropped because {reason}",
        cure_of(rule_filter, decision),
        name,
        (event,),
    )

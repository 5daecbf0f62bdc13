"""The simulation of a replica with a filter. The simulation finds events that pass the filter but fail on the replica.

A replica runs statements again. The triggers and stored functions of a statement run on the replica, and the
statement's subqueries read the replica's tables. Only objects that the binlog set itself creates are followed. No
faults are reported about other objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from dumpfilter.analyse.lint.findings import Code, Item, cure_of, database_cure, few, reason_of, rules_of
from dumpfilter.analyse.lint.knowledge import SetEvent, SetKnowledge
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.facts import CHANGING_DATA, CHANGING_ROWS
from dumpfilter.binlog.statement.statement import Mentions, Statement, StatementKind, Thing
from dumpfilter.filter.base import Decision, ReplicationFilter, Step, Verdict
from dumpfilter.filter.rules import RuleKind
from dumpfilter.filter.world import Code as Stored
from dumpfilter.filter.world import Fault, FaultKind, Use, World
from dumpfilter.index.subjects import TableSubject

K, F = StatementKind, FaultKind
_COPYING = CHANGING_ROWS | {K.CREATE_TABLE_SELECT}
"""The statement kinds that write rows computed from the tables that the statement reads."""

_CURE_OF_READS = "Let the tables that a statement reads pass, too, or use binlog_format=ROW on the source"
_CURE_OF_CODE = "Give both tables the same rule, or use binlog_format=ROW on the source"
_ROUTINES = (Thing.FUNCTION, Thing.PROCEDURE, Thing.PACKAGE, Thing.PACKAGE_BODY, Thing.LIBRARY)
_ERRORS: dict[Thing, tuple[int, ...]] = {
    Thing.DATABASE: (1049, 1008, 1025, 1146, 1, 7),
    Thing.TABLE: (1146, 1049, 1051, 1356, 1932, 4091, 4092, 1347, 1168),
    Thing.TRIGGER: (1360,),
    **dict.fromkeys(_ROUTINES, (1305, 1049)),
    Thing.EVENT: (1539, 1049),
    Thing.ACCOUNT: (1396, 1133, 1410, 1141, 1269, 3523, 1959, 3162, 1449),
    Thing.GRANT: (1141, 1147, 1403, 1269, 3530, 1959, 1962),
}
"""The server errors on a replica that lacks an object, by the object's type. The most common error comes first."""

_ERRORS_OF_LEFT: dict[Thing, tuple[int, ...]] = {
    Thing.DATABASE: (1007,),
    Thing.TABLE: (1050, 1025),
    Thing.TRIGGER: (1359,),
    **dict.fromkeys(_ROUTINES, (1304,)),
    Thing.EVENT: (1537,),
    Thing.ACCOUNT: (1396,),
}
"""The server errors on a replica that already has an object which a statement creates, by the object's type. The
most common error comes first.
"""

_ERRORS_OF_KEYS = {F.PARENT: (1824, 1005), F.CHILD: (3730, 1451), F.PARENT_ROWS: (1452,)}
_ERRORS_OF_KINDS = _ERRORS_OF_KEYS | {F.TWICE: (1066,), F.STALE: (1062, 1032, 1677, 13146, 1736, 1731)}
_WORDS = {K.VIEW: "VIEW", K.SEQUENCE: "SEQUENCE", K.ROUTINE: "", K.EVENT: "EVENT", K.ACCOUNT: "USER"}
"""The word after the verb (such as CREATE) for statement kinds that have several verbs.

The empty word of ROUTINE is replaced by PROCEDURE or FUNCTION.
"""


class Cause(NamedTuple):
    """A statement that may cause a failure on the replica, with the filter's decision about this statement."""

    event: SetEvent
    decision: Decision

    @property
    def statement(self) -> Statement:
        """The statement that may cause a failure on the replica, in parsed form."""
        assert isinstance(self.event.subject, Statement)
        return self.event.subject

    @property
    def passes(self) -> bool:
        """Whether the filter certainly sends the statement that may cause a failure on the replica."""
        return self.decision.verdict is Verdict.EXECUTE

    @property
    def verb(self) -> str:
        """The leading words of the statement that may cause a failure on the replica, such as CREATE VIEW."""
        facts, kind = self.event.facts, self.statement.kind
        if facts.verb is None or kind not in _WORDS:
            return kind.value
        return f"{facts.verb.value} {_WORDS[kind] or facts.thing.name}"


@dataclass
class ReplicaWalk:
    """A simulation of a replica with a filter, which follows the replica's objects (tables, views …) event by event.

    The walk finds the events of a binlog set that pass the filter but fail on the replica.
    """

    rule_filter: ReplicationFilter
    _shown: set[int] = field(default_factory=set)
    """The ``id`` of each event that reported faults show as evidence."""
    _missing: set[str] = field(default_factory=set)
    """The names of tables that the replica was reported to lack."""

    def walk(self, knowledge: SetKnowledge) -> Iterator[Item]:
        """Yield the faults that lint finds in a binlog set, in the order of the events. A fault is an event that passes
        the filter but fails on the replica, or that changes or reads other rows there than on the source.

        The last faults are about statements for which the filter decides otherwise than for row events of the same
        tables. Such a fault is left out if an earlier fault shows its event or names its table. ``knowledge`` has the
        set's events. If they are not in binlog order, only faults of this kind are found.
        """
        rule_filter = self.rule_filter
        if not rule_filter.rules:
            return
        self._world: World[Cause] = World(rule_filter)
        odd: list[Item] = []
        judged: set[Statement] = set()
        for event in knowledge.events:
            subject = event.subject
            if not knowledge.is_ordered:
                pass
            elif isinstance(subject, TableSubject):
                passes = rule_filter.decide(subject).verdict.passes
                for fault in self._world.rows(subject.database, subject.table, passes=passes):
                    yield self._item(fault, event)
            else:
                yield from self._statement(Cause(event, self._decide(event, subject)))
            if isinstance(subject, Statement) and subject not in judged and rule_filter.is_on:
                judged.add(subject)
                odd += changed_otherwise(rule_filter, event, self._world)
        for item in odd:
            is_missing = item.code is Code.UNWANTED_STATEMENT and item.name in self._missing
            if id(item.events[0]) not in self._shown and not is_missing:
                yield item

    def _decide(self, event: SetEvent, statement: Statement) -> Decision:
        """Return the filter's decision about a statement.

        DROP TRIGGER does not name a table, so a filter can be undecided about it. Only in this case, and if the
        binlog set created the trigger, the decision is about a statement that changes the trigger's table.
        """
        decision = self.rule_filter.decide(statement)
        trigger = event.facts.names
        if decision.verdict is not Verdict.UNDECIDED or statement.kind is not K.DROP_TRIGGER or not trigger:
            return decision
        default = self._world.default_database(statement.current_database)
        table = self._world.table_of(self._world.ref(Thing.TRIGGER, trigger[0], default).source)
        if table is None:
            return decision
        on = TableName(*table.source[1:])
        return self.rule_filter.decide(replace(statement, updated=((on,),)))

    def _statement(self, cause: Cause) -> Iterator[Item]:
        event, statement, world = cause.event, cause.statement, self._world
        facts = event.facts
        resolved = world.resolved(facts, statement.current_database, event.session)
        if cause.decision.verdict is Verdict.UNDECIDED:
            world.undecided(resolved, cause)
            # A replica passes over DROP TRIGGER of a trigger that it lacks.
            if statement.kind is not K.DROP_TRIGGER:
                yield Item(
                    Code.UNKNOWN,
                    (),
                    "the binlog does not tell whether a replica with this filter runs a statement. Nothing is claimed "
                    "about its objects from here on",
                    "Try the filter on a replica",
                    events=(event,),
                )
            return
        run: list[Item] = []
        if self.rule_filter.is_on and facts.kind in CHANGING_DATA | {K.CREATE_TABLE_SELECT}:
            names, default = facts.body, resolved.default
            if cause.passes and facts.kind in _COPYING:
                written = {name for name, _ in names.changed}
                read = Mentions(tables=tuple(name for name in names.tables if name not in written))
                for use in world.uses(world.body(read, default), event.session):
                    yield from self._reads(use, event)
            for use in world.uses(world.body(names, default), event.session):
                if use.change is not None and use.chain:
                    run += self._runs(use, cause)
            yield from run
        if not cause.passes and cause.decision.step not in (Step.NO_DO_DB, Step.IGNORE_DB):
            for fault in world.twice(resolved):
                yield self._item(replace(fault, is_sure=False), event)
        told = {one.name for one in run}
        for fault in world.statement(resolved, cause, passes=cause.passes):
            item = self._item(fault, event)
            if fault.through is None or item.name not in told:
                yield item

    # The faults of the world.

    def _item(self, fault: Fault[Cause], event: SetEvent) -> Item:
        cause, name = fault.cause, _named(fault)
        events = (event,) if cause is None else (cause.event, event)
        errors = _errors(fault)
        if fault.kind is F.PARENT_ROWS:
            child = _dotted(fault.through or fault.ref.replica)
            alone = self.rule_filter.decide(TableSubject(*fault.ref.source[1:]))
            what = (
                f"rows of {child} pass, and its foreign key refers to {{names}}, whose rows are dropped. The replica "
                "stops with error 1452 if it checks the key"
            )
            cure = "Let both tables pass, or drop both"
            return Item(
                Code.FOREIGN_KEY, rules_of(self.rule_filter, alone), what, cure, name, (event,), errors
            )
        code = _code_of(fault)
        if code is Code.MISSING_TABLE:
            self._missing.add(name)
        if cause is not None and not cause.passes:
            self._shown.update((id(cause.event), id(event)))
            rules = rules_of(self.rule_filter, cause.decision)
            reason = reason_of(cause.decision, cause.statement)
            what = f"{_what(fault, cause.verb, event)}. The statement is dropped because {reason}"
            cure = cure_of(self.rule_filter, cause.decision)
            if code is Code.MISSING_DATABASE:
                cure = database_cure(self.rule_filter, cause.decision, name)
            elif code is Code.MISSING_TABLE and cause.event.facts.renames:
                ignored = f"--{RuleKind.IGNORE_TABLE.option}={name}"
                cure = f"Add {ignored}, so that the moved table is dropped, too, or let both names of the table pass"
        elif cause is not None and fault.kind is F.STALE:
            rules = few(self.rule_filter.rules)
            what = (
                f"{cause.verb} passes and leaves the replica with a table {{names}} without the rows or the definition "
                "of the source's table. Later rows can stop the replica"
            )
            cure = "Give both names of the table the same rule"
        else:
            rules = few(rule for rule in self.rule_filter.rules if rule.kind.is_rewrite)
            changed = "give objects of several databases one name"
            if cause is not None:
                changed = f"change the current database of {cause.verb}, and never a database in its text"
            result = _MERGED.get(fault.kind, "The replica lacks {names}")
            what = f"rewrite rules {changed}. {result}. The replica stops with error {_shown(errors)}"
            by_hand = "Drop" if fault.kind is F.LEFT else "Make"
            cure = f"{by_hand} {{names}} on the replica by hand, or write names in statements without the database"
            if fault.kind in (F.TWICE, F.STALE):
                cure = "Give the databases different names on the replica"
        return Item(code, rules, what, cure, name, events, errors, fault.is_sure)

    # The statements that use tables with another fate.

    def _reads(self, use: Use[Cause], event: SetEvent) -> Iterator[Item]:
        _, database, table = use.ref.source
        alone = self.rule_filter.decide(TableSubject(database, table))
        if use.is_code or alone.verdict.passes or self._world.is_temporary(use.ref.replica, event.session):
            return
        yield Item(
            Code.READS_DROPPED,
            rules_of(self.rule_filter, alone),
            "a statement that passes reads {names}, whose changes are dropped. The replica reads other rows, or stops "
            "with error 1146",
            _CURE_OF_READS,
            f"{database}.{table}",
            (event,),
        )

    def _runs(self, use: Use[Cause], cause: Cause) -> Iterator[Item]:
        """Yield a fault if a trigger or stored function changes a table, and the filter treats this code and the table
        differently. The code runs on the replica although the filter drops the table's rows. Or the code does not run
        there although the filter sends the table's rows, so that the replica lacks the code's changes.

        ``use`` is the change of the table, with the code that makes it. ``cause`` is the statement that calls the code.
        """
        absent = next((one for one in use.chain if not one.cause.decision.verdict.passes), None)
        if absent is not None and absent.on is None and cause.passes:
            return  # The world tells that the replica lacks a routine.
        runs = cause.passes and absent is None
        alone = self.rule_filter.decide(TableSubject(*use.ref.source[1:]))
        if alone.verdict.passes == runs:
            return
        if runs:
            rules = rules_of(self.rule_filter, alone)
        elif absent is not None and cause.passes:
            rules = rules_of(self.rule_filter, absent.cause.decision)
        else:
            rules = few(rule for rule in self.rule_filter.rules if rule.kind is not RuleKind.REWRITE_DB)
        yield Item(
            Code.TRIGGER if use.chain[-1].on else Code.ROUTINE,
            rules,
            _runs_what(use.chain[-1], runs=runs, passes=cause.passes),
            _CURE_OF_CODE,
            ".".join(use.ref.source[1:]),
            (*(one.cause.event for one in use.chain), cause.event),
        )


def _named(fault: Fault[Cause]) -> str:
    thing, database, name = fault.ref.replica
    if thing is Thing.ACCOUNT:
        return f"{name}@{database}"
    if thing is Thing.GRANT:
        return f"{name}: {database.strip()}"
    return _dotted(fault.ref.replica)


def _code_of(fault: Fault[Cause]) -> Code:
    thing = fault.ref.replica[0]
    if fault.is_temporary:
        return Code.TEMPORARY_TABLE
    if fault.kind is F.STALE:
        return Code.MERGED if fault.cause is None else Code.SCHEMA_DRIFT
    if fault.kind is F.TWICE:
        return Code.MERGED
    if fault.kind in _ERRORS_OF_KEYS:
        return Code.FOREIGN_KEY
    if fault.kind is F.LEFT:
        return Code.LEFT_TABLE if thing is Thing.TABLE else Code.LEFT_OBJECT
    of_thing = {Thing.DATABASE: Code.MISSING_DATABASE, Thing.TABLE: Code.MISSING_TABLE}
    return of_thing.get(thing, Code.MISSING_OBJECT)


_MERGED = {
    F.LEFT: "The replica still has {names}",
    F.TWICE: "A statement names {names} twice",
    F.STALE: "Changes of two tables reach {names}",
}
_MOST_ERRORS = 3
"""The number of possible errors that a warning names."""
_LATER = {
    F.PARENT: "a statement with a foreign key to it passes",
    F.CHILD: "a statement that drops {through}, to which its foreign key refers, passes",
    F.STALE: "later events of the table pass",
    F.LEFT: "a later statement that makes it again passes",
}


def _what(fault: Fault[Cause], verb: str, event: SetEvent) -> str:
    """Return the text that describes ``fault``, a failure on the replica because the filter drops a statement. ``verb``
    has the leading words of the dropped statement, such as CREATE TABLE. ``event`` is the later event that passes the
    filter and fails on the replica.

    The text still has the placeholder ``{names}``, which is replaced when faults with equal texts are joined.
    """
    later = (
        "a statement that passes runs {through}, which needs it"
        if fault.through
        else "events that need it pass"
    )
    later = _LATER.get(fault.kind, later).replace("{through}", _dotted(fault.through or ()))
    is_definer = fault.ref.replica[0] is Thing.ACCOUNT and event.facts.thing not in (
        Thing.ACCOUNT,
        Thing.GRANT,
    )
    errors = (1449,) if is_definer else _errors(fault)
    what = "the temporary table {names}" if fault.is_temporary else "{names}"
    stops = "stops" if fault.is_sure else "has other rows or columns, or stops"
    return f"{verb} of {what} is dropped, and {later}. The replica {stops} with error {_shown(errors)}"


def _shown(errors: Sequence[int]) -> str:
    most, comma, last = ", ".join(map(str, errors[:_MOST_ERRORS])).rpartition(", ")
    return f"{most} or {last}" if comma else last


def _dotted(key: Sequence[object]) -> str:
    return ".".join(str(part) for part in key[1:] if part)


def _errors(fault: Fault[Cause]) -> tuple[int, ...]:
    by_thing = _ERRORS if fault.kind is F.MISSING else _ERRORS_OF_LEFT
    return _ERRORS_OF_KINDS.get(fault.kind) or by_thing.get(fault.ref.replica[0], (0,))


def _runs_what(code: Stored[Cause], *, runs: bool, passes: bool) -> str:
    """Return the text of a fault in which a trigger or stored function changes a table.

    With ``runs`` True the code runs on the replica, although the filter drops the table. With False the code does not
    run there, although the filter passes the table. ``passes`` tells whether the statement that calls the code is sent.
    """
    calls, word = (
        ("calls a stored function", "function") if code.on is None else ("fires a trigger", "trigger")
    )
    fate = f"The filter lets this table pass, and the replica lacks the {word}'s changes"
    if runs:
        fate = "The filter drops this table. The replica changes it all the same, or stops with error 1146"
    return f"a statement that {'passes' if passes else 'is dropped'} {calls}, which changes {{names}}. {fate}"


_NOT_JUDGED = frozenset({StatementKind.ACCOUNT, StatementKind.MAINTENANCE, StatementKind.FLUSH})
"""The statement kinds that :func:`changed_otherwise` ignores, because they change no rows. Accounts belong to no
database.
"""

_BY_CURRENT_DATABASE = frozenset({Step.NO_DO_DB, Step.DO_DB, Step.IGNORE_DB, Step.NO_IGNORE_DB})
_CURE_OF_VIEWS = "Give a view the same rule as its tables, since rules look at the name of the view"


def changed_otherwise(rule_filter: ReplicationFilter, event: SetEvent, world: World[Cause]) -> Iterator[Item]:
    """Yield a fault for each table that a statement changes if the filter treats the table's row events differently
    than the statement. Nothing is yielded if the filter is undecided about the statement.

    For a statement, database rules look at its default database; for row events, they look at the table's database.
    One decision holds for all tables of a statement. So a statement may be dropped although row events of its tables
    are sent, or vice versa. ``world`` is the model of a replica's objects, which knows the tables behind views.
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
            if alone.verdict.passes == passes:
                continue
            reason, rules = reason_of(decision, statement), rules_of(rule_filter, decision)
            if passes:
                code = Code.UNWANTED_STATEMENT
                rules = tuple(dict.fromkeys((*rules_of(rule_filter, alone), *rules)))
                fates = f"passes, and rows of the table are dropped. It passes because {reason}"
            else:
                code = Code.LOST_STATEMENT
                fates = f"is dropped, and rows of the table pass. It is dropped because {reason}"
            cure = cure_of(rule_filter, alone if passes else decision)
            if is_view and decision.step not in _BY_CURRENT_DATABASE:
                cure = _CURE_OF_VIEWS
            what = f"a statement that changes {{names}} {fates}"
            yield Item(code, rules, what, cure, f"{database}.{table}", (event,))

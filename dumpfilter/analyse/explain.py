"""The explanation why a filter sends an event, drops it, or leaves the decision to the slave.

:func:`explain_set` and :func:`explain_events` explain all events of a binlog set. :func:`explain_statement` explains
one statement from its text, with the steps through the MySQL manual's flow chart of how a replica evaluates its rules.
The output of ``dumpfilter explain`` is tables, one line for each event, or JSON.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.text import Text

from dumpfilter.analyse.lint.findings import FilterWarning, listed, warning_as_dict
from dumpfilter.analyse.lint.knowledge import Gatherer
from dumpfilter.analyse.lint.linting import lint
from dumpfilter.analyse.report.terminal import table
from dumpfilter.base.errors import OptionError
from dumpfilter.base.printable import visible
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import event_name
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.facts import read_text
from dumpfilter.binlog.statement.parse import make_statement
from dumpfilter.binlog.statement.statement import Statement, StatementKind
from dumpfilter.binlog.statement.tokens import BINLOG, TokenKind, tokens
from dumpfilter.dump.chunk import Counts
from dumpfilter.dump.thread import DumpThread, SentEvents
from dumpfilter.filter.base import Decision, ReplicationFilter, Step, Verdict
from dumpfilter.filter.filter import Filter, FilterOptions
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.rules import Rule
from dumpfilter.index.fileset import BinlogSet, SegmentReader
from dumpfilter.index.opened import OpenedEvents
from dumpfilter.index.segment import NONE_PREPARED, Segment
from dumpfilter.index.subjects import Subject, Subjects, TableSubject

Sums = npt.NDArray[np.int64]

_UNMAPPED, _XA_END, _SUBJECTS = range(R.ENDS, R.ENDS + 3)
"""Keys for groups of events: rows without a table map, ends of XA transactions, and subjects (tables or statements).
The keys follow the numbers of the roles, which say how an event travels in a filtered stream.

``_SUBJECTS`` plus a number is the key for the events of the table or statement with this number.
"""

XA_END = "The end of an XA transaction goes with what is kept of it"

_REASONS = {
    R.FILE: "It belongs to the file, not to a transaction: never filtered",
    R.GTID: "It goes with its transaction",
    R.FRAME: "It goes with its transaction",
    R.CONTEXT: "It goes with the statement that follows",
    R.DUMMY_ROWS: "It only ends a statement, and goes with it",
    R.KEEP: Step.NEVER_FILTERED.value,
    R.GAP: "It tells what the master dropped: a relay log has it for the slave itself, and no slave gets it",
    R.XA: "The frame of an XA transaction is never filtered",
    R.PAYLOAD: "A compressed transaction is decided by what is in it",
    _UNMAPPED: "Rows without a table map cannot be decided, so they are sent",
    _XA_END: XA_END,
}
"""The reasons shown for events that no filter rule decides, by the events' role or group.

An event's role says how it travels in a filtered stream, for example with its transaction or with the next statement.
"""


@dataclass(frozen=True)
class Filters:
    """The filters that an event must pass on its way to a slave.

    ``write`` holds the rules with which a server writes its binlog, such as ``--binlog-do-db``. ``slave`` holds the
    slave's replication rules.
    """

    slave: ReplicationFilter
    write: ReplicationFilter = field(default_factory=Filter)

    @classmethod
    def of(cls, options: FilterOptions, written_by: NameRules) -> Filters:
        """Return the filters that a command's ``options`` define.

        ``written_by`` has the settings with which the binlog's server compares database and table names.
        """
        return cls(options.slave_filter(written_by), options.write_filter(written_by))

    def decide(self, subject: Subject) -> Decision:
        """Return the decision about a subject (a table's rows, or a statement), with the rule behind the decision.

        Write rules such as ``--binlog-do-db`` are evaluated first. The slave's filter decides only about events that
        these rules pass.
        """
        written = self.write.decide(subject)
        return self.slave.decide(subject) if written.verdict.passes else written

    def flags(self, subjects: Subjects) -> TableFlags:
        """Return the verdicts of both filters together (``write``, then ``slave``) about all tables and statements in
        ``subjects``.

        A verdict is a uint32, whose bits say whether events are sent and whether the filter cannot decide. A
        :class:`DumpThread`, which selects the events to send, needs verdicts in this form.
        """
        return TableFlags(self.slave, subjects, write_filter=self.write)


def _as_filters(filters: Filters | ReplicationFilter) -> Filters:
    return filters if isinstance(filters, Filters) else Filters(filters)


@dataclass(frozen=True)
class ExplainedSubject:
    """A table or statement (``subject``) of a binlog set, with the filters' decision about it.

    ``events`` is the number of events in the set that belong to this table or statement. ``size`` is the total size
    of these events in bytes.
    """

    subject: Subject
    events: int
    size: int
    decision: Decision


@dataclass
class ExplainedSet:
    """The explanation of a whole binlog set.

    ``subjects`` lists the tables and statements with the decisions about them, in descending order of bytes.
    ``others`` has the number and bytes of the events that no rule decides, such as Rotate or BEGIN, by the reason.
    """

    subjects: list[ExplainedSubject] = field(default_factory=list)
    others: dict[str, tuple[int, int]] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    """The numbers of events and bytes that a dump of the whole set reads, sends and drops."""
    warnings: list[FilterWarning] = field(default_factory=list)
    """Warnings about rules of the slave's filter that probably do not have the intended effect."""


@dataclass(frozen=True)
class ExplainedEvent:
    """One event with its position, and the reason why it is sent or dropped.

    ``decision`` is None for an event that no rule decides, such as Rotate or BEGIN. ``subject`` is the table or
    statement that the decision is about, or None.
    """

    file: str
    position: int
    inside: int | None
    """For an event inside a compressed transaction, its byte offset in the uncompressed payload; None for other
    events.

    For an event inside a compressed transaction, ``position`` is the offset of the Transaction_payload event.
    """
    size: int
    type: str
    subject: Subject | None
    decision: Decision | None
    why: str
    sent: bool


def explain_set(
    binlogs: BinlogSet, filters: Filters | ReplicationFilter, *, verify: bool = True
) -> ExplainedSet:
    """Return the filters' decision for each table and each distinct statement in a binlog set, with counts of the
    events that a dump of the set would send and drop. Nothing is sent.

    ``verify`` tells whether event checksums are verified. Raises BinlogError if the set is damaged.

    >>> from importlib import resources
    >>> from dumpfilter.filter import Filter
    >>> recording = resources.files("dumpfilter.testbed.demo") / "recording"
    >>> binlogs = BinlogSet.open(recording)
    >>> explained = explain_set(binlogs, Filter.from_options(["--replicate-do-db=shop"]))
    >>> explained.counts.events_sent < explained.counts.events_read
    True
    """
    filters = _as_filters(filters)
    subjects, sources = Subjects(), SourceNumbers()
    thread = DumpThread(filters.flags(subjects), sources)
    found, gatherer = ExplainedSet(), Gatherer(subjects)
    sums: Sums = np.zeros((2, 0), np.int64)
    file = ""
    for reader, segment in binlogs.segments(subjects, sources, verify=verify):
        if segment.file != file:
            file = segment.file
            thread.start_file(reader.file.first_event, reader.file.read)
        for plan in thread.plan(segment):
            found.counts.add(plan.counts)
        opened = OpenedEvents(segment, reader.data)
        group, size = opened.column(_groups), opened.column(lambda one: one.size)
        more = np.stack([np.bincount(group), np.bincount(group, weights=size)]).astype(np.int64)
        if more.shape[1] > sums.shape[1]:
            sums, more = more, sums
        sums[:, : more.shape[1]] += more
        gatherer.add(opened)
    for number in np.flatnonzero(sums[0]).tolist():
        events, size = sums[:, number].tolist()
        if number < _SUBJECTS:
            before = found.others.get(_REASONS[number], (0, 0))
            found.others[_REASONS[number]] = (before[0] + events, before[1] + size)
        else:
            subject = subjects[number - _SUBJECTS]
            found.subjects.append(ExplainedSubject(subject, events, size, filters.decide(subject)))
    found.subjects.sort(key=lambda each: -each.size)
    found.warnings = lint(filters.slave, gatherer.knowledge)
    return found


def _groups(segment: Segment) -> npt.NDArray[np.int64]:
    """Return a group for each event of a segment (consecutive events of one file), as int64. All events of a group have
    the same explanation.

    A group is a key of :data:`_REASONS`, or ``_SUBJECTS`` plus the number of the event's table or statement.
    """
    group = np.where(segment.subject >= 0, segment.subject + _SUBJECTS, segment.role & R.ROLE_MASK)
    group[segment.subject == R.UNMAPPED] = _UNMAPPED
    # Only an XA COMMIT or XA ROLLBACK event belongs to several tables, those of its prepared transaction.
    group[list(segment.xa_ends)] = _XA_END
    return group


def explain_events(binlogs: BinlogSet, filters: Filters, *, verify: bool = True) -> Iterator[ExplainedEvent]:
    """Yield every event of a binlog set in order, with the reason why a master sends or drops it.

    The events inside a compressed transaction follow its Transaction_payload event. ``verify`` tells whether event
    checksums are verified. If a file is damaged, the events of the earlier files are yielded, and then BinlogError is
    raised.
    """
    subjects, sources = Subjects(), SourceNumbers()
    thread = DumpThread(filters.flags(subjects), sources)
    decide = functools.cache(lambda number: filters.decide(subjects[number]))

    prepared = NONE_PREPARED
    names = binlogs.names
    for name in names:
        with binlogs.file(name) as file:
            # The dump thread may buffer events until it has seen later ones, so it first decides the whole file.
            first = SegmentReader(file, subjects, sources, verify=verify, prepared=prepared)
            thread.start_file(file.first_event, file.read)
            sent = SentEvents([thread])
            while (segment := first.next()) is not None:
                sent.add(segment)
            first.check_end(last=name == names[-1])
            again = SegmentReader(file, subjects, sources, verify=False, prepared=prepared)
            prepared = first.prepared
            # A server may have written more events since.
            again.limit = first.position
            while (segment := again.next()) is not None:
                events = OpenedEvents(segment, again.data)
                rows = zip(
                    segment.offset[events.outer].tolist(),
                    events.inner.tolist(),
                    events.column(lambda one: one.offset).tolist(),
                    events.column(lambda one: one.size).tolist(),
                    events.column(lambda one: one.type).tolist(),
                    events.column(_groups).tolist(),
                    sent.of(0, events).tolist(),
                    strict=True,
                )
                for position, inner, offset, size, kind, group, is_sent in rows:
                    subject = decision = None
                    why = _REASONS.get(group, "")
                    if group >= _SUBJECTS:
                        subject, decision = subjects[group - _SUBJECTS], decide(group - _SUBJECTS)
                        why = decision.step.value
                    inside = None if inner < 0 else offset
                    yield ExplainedEvent(
                        name, position, inside, size, event_name(kind), subject, decision, why, is_sent
                    )


class PathStep(NamedTuple):
    """One step in the evaluation of a replica's rules for a statement, as in the flow chart of the MySQL manual. The
    tuple has the step's result, the name that was compared, the rule, and the consequence.
    """

    text: str
    """The result of this step in the manual's words, for example that a table rule matches."""
    name: str | None
    """The database or table name that was compared with the rules, after ``--replicate-rewrite-db``."""
    rule: Rule | None
    then: str
    """The consequence of this step: ``go on`` with the next step, or the final verdict such as ``ignore``."""


@dataclass(frozen=True)
class ExplainedStatement:
    """A parsed statement with the filters' decision about it. ``path`` has the steps that led to the decision."""

    statement: Statement
    decision: Decision
    path: tuple[PathStep, ...]


_WITH_BODY = frozenset({StatementKind.ROUTINE, StatementKind.CREATE_TRIGGER, StatementKind.EVENT})
"""The kinds of statements whose text may contain semicolons, since a body of statements is part of the text."""

_FRAME = re.compile(
    r"\s*(BEGIN|START\s+TRANSACTION|COMMIT|ROLLBACK|SAVEPOINT|RELEASE\s+SAVEPOINT|XA)\b", re.IGNORECASE
)


def explain_statement(
    text: str, filters: Filters | ReplicationFilter, *, current_database: str | None = None
) -> ExplainedStatement:
    """Explain the filters' decision about a statement that the server logs as text (not as rows).

    The text of an UPDATE of several tables does not always tell which of these tables change. Then the decision can be
    "undecided", although the statement's event in a binlog tells the changed tables. BEGIN, COMMIT and similar
    statements are never filtered.

    ``current_database`` is the session's default database, chosen with USE. Servers log CREATE, ALTER and DROP
    DATABASE with the named database as default database, and this function does so, too. Raises OptionError if ``text``
    has several statements.

    >>> from dumpfilter.filter import Filter
    >>> rules = Filter.from_options(["--replicate-do-table=shop.orders"])
    >>> found = explain_statement("UPDATE orders SET total = 1", rules, current_database="shop")
    >>> found.decision.verdict.value, str(found.decision.rule)
    ('execute', '--replicate-do-table=shop.orders')
    """
    filters = _as_filters(filters)
    family = filters.slave.names.family
    parsed = read_text(text, family=family)
    if parsed.kind not in _WITH_BODY:
        is_end = [token[:2] == (TokenKind.SYMBOL, ";") for token in tokens(text, dialect=BINLOG[family])]
        if not all(itertools.dropwhile(operator.not_, is_end)):
            raise OptionError("--statement has several statements: explain each alone, with --use for USE")
    if _FRAME.match(text):
        statement = make_statement(parsed, current_database=current_database)
        decision = Decision(Verdict.EXECUTE, Step.NEVER_FILTERED)
        return ExplainedStatement(statement, decision, (_stop(decision),))
    if parsed.kind.is_database and parsed.database is not None:
        current_database = parsed.database
    statement = make_statement(parsed, current_database=current_database)
    decision = filters.decide(statement)
    return ExplainedStatement(statement, decision, tuple(path_of(statement, filters)))


def path_of(statement: Statement, filters: Filters) -> Iterator[PathStep]:
    """Yield the steps of a statement through the MySQL manual's flow chart of how a replica evaluates its rules.

    Each step compares the statement with one type of rules, and names the table that decides. The last step has the
    final verdict.
    """
    if filters.write.is_on:
        written = filters.write.decide(statement)
        yield _stop(written, go_on=written.verdict.passes)
        if not written.verdict.passes:
            return
    *before, final = filters.slave.asked(statement)
    for decision in before:
        yield _stop(decision, go_on=True)
    yield _stop(final)


_ONLY_IF_FOUND = "; but the slave asks about these tables only when it has the table that is granted on"
_NO_DATABASE_RULES = "There are no replicate-do-db and no replicate-ignore-db rules"


def _stop(decision: Decision, *, go_on: bool = False) -> PathStep:
    step, rule = decision.step, decision.rule
    text = _NO_DATABASE_RULES if go_on and step is Step.NO_RULES else step.value
    if decision.verdict is Verdict.UNDECIDED and step is not Step.UNKNOWN_TABLES:
        text += _ONLY_IF_FOUND
    return PathStep(text, decision.name, rule, "go on" if go_on else decision.verdict.value)


_NOT_WRITTEN = "not written"


def verdict_word(decision: Decision) -> str:
    """Return the verdict of a decision as one word: ``execute``, ``ignore``, ``undecided`` or ``not written``.

    ``not written`` means that a rule such as ``--binlog-do-db`` keeps the event out of the binlog.
    """
    is_written = decision.verdict.passes or not decision.step.name.startswith("BINLOG_")
    return decision.verdict.value if is_written else _NOT_WRITTEN


def describe(subject: Subject) -> str:
    """Return a short description of a table or statement, for a cell of the output.

    >>> describe(TableSubject("shop", "orders"))
    'rows of shop.orders'
    """
    if isinstance(subject, TableSubject):
        return f"rows of {subject.database}.{subject.table}"
    named = subject.database if subject.kind.is_database else _tables(subject.updated)
    return f"{subject.kind.value} {named}".rstrip() if named else subject.kind.value


def _text(text: str) -> Text:
    """Return a text for the terminal. Unprintable characters, which names in a binlog may contain, are escaped."""
    return Text(visible(text))


def _tables(lists: Iterable[Iterable[TableName]] | None) -> str:
    if lists is None:
        return "(tables not known)"
    return listed(_name(table) for tables in list(lists)[:1] for table in tables)


def _name(table: TableName) -> str:
    return table.table if table.database is None else f"{table.database}.{table.table}"


def _current(subject: Subject | None) -> str:
    return (subject.current_database or "(none)") if isinstance(subject, Statement) else ""


def decision_as_dict(decision: Decision | None, why: str = "") -> dict[str, Any]:
    """Return a decision as a dictionary for JSON, with its verdict, reason and rule.

    ``decision`` is None for an event that no rule decides, such as Rotate. For None, ``why`` is the reason in the
    result. The verdict ``undecided`` means that the master sends the event and the slave decides.
    """
    if decision is None:
        return {"verdict": None, "step": None, "why": why, "rule": None, "name": None}
    return {
        "verdict": verdict_word(decision),
        "step": decision.step.name,
        "why": decision.step.value,
        "rule": _rule(decision.rule),
        "name": decision.name,
    }


def _rule(rule: Rule | None) -> str | None:
    return None if rule is None else str(rule)


def subject_as_dict(subject: Subject) -> dict[str, Any]:
    """Return a table or a statement as a dictionary for JSON. A table has its names. A statement has its kind, its
    default database, the database that it creates, alters or drops, and the updated tables.
    """
    if isinstance(subject, TableSubject):
        return {"kind": "rows", "database": subject.database, "table": subject.table}
    return {
        "kind": subject.kind.value,
        "current_database": subject.current_database,
        "database": subject.database,
        "updated": subject.updated,
    }


def set_as_dict(found: ExplainedSet, filters: Filters) -> dict[str, Any]:
    """Return the decisions about all tables and statements of a binlog set as a dictionary for JSON.

    ``filters`` are the filters that made these decisions. The result includes the filters' rules. Sizes are in bytes.
    """
    counts = asdict(found.counts)
    # Stand-ins are sent to real replicas alone.
    del counts["bytes_gtid"]
    return {
        "rules": rules_as_list(filters),
        "subjects": [
            subject_as_dict(each.subject)
            | {"events": each.events, "bytes": each.size}
            | decision_as_dict(each.decision)
            for each in found.subjects
        ],
        "others": [
            {"why": why, "events": events, "bytes": size} for why, (events, size) in found.others.items()
        ],
        "counts": counts,
        "warnings": [warning_as_dict(each) for each in found.warnings],
    }


def event_as_dict(event: ExplainedEvent) -> dict[str, Any]:
    """Return one event, with the reason why it is sent or dropped, as a dictionary for JSON."""
    return {
        "file": event.file,
        "position": event.position,
        "inside": event.inside,
        "bytes": event.size,
        "type": event.type,
        "sent": event.sent,
        "subject": None if event.subject is None else subject_as_dict(event.subject),
    } | decision_as_dict(event.decision, event.why)


def statement_as_dict(found: ExplainedStatement, filters: Filters) -> dict[str, Any]:
    """Return the decision of ``filters`` about a statement, and the steps that led to the decision, as a dictionary for
    JSON.
    """
    path = [stop._asdict() | {"rule": _rule(stop.rule)} for stop in found.path]
    decided = subject_as_dict(found.statement) | decision_as_dict(found.decision)
    return {"rules": rules_as_list(filters), **decided, "path": path}


def rules_as_list(filters: Filters) -> list[str]:
    """Return all rules of ``filters`` as options such as ``--replicate-do-db=shop``.

    The rules with which the server writes its binlog, such as ``--binlog-do-db``, come before the slave's rules.
    """
    return [str(rule) for rule in (*filters.write.rules, *filters.slave.rules)]


def print_set(found: ExplainedSet, filters: Filters, console: Console, *, top: int) -> None:
    """Print the decisions of ``filters`` about a binlog set: for the ``top`` tables and statements with the most bytes,
    and in total.
    """
    _print_rules(filters, console)
    shown = found.subjects[:top]
    rows = [
        (
            describe(each.subject),
            _current(each.subject),
            f"{each.events:,}",
            f"{each.size:,}",
            _colored(verdict_word(each.decision)),
            each.decision.step.name,
            str(each.decision.rule or ""),
        )
        for each in shown
    ]
    numbers = ("events", "bytes")
    heads = ("what", "USE", *numbers, "verdict", "step", "rule")
    console.print(table(heads, rows, title="What becomes of it", numbers=numbers))
    if len(found.subjects) > top:
        hidden = len(found.subjects) - top
        console.print(f"… and {hidden} smaller ones (--top {len(found.subjects)} shows all)")
    for step in dict.fromkeys(each.decision.step for each in shown):
        console.print(Text(f"{step.name}: {step.value}"), soft_wrap=True)
    if found.others:
        sums = [(why, f"{events:,}", f"{size:,}") for why, (events, size) in found.others.items()]
        title = "Events that no rule is asked about"
        console.print(table(("why", *numbers), sums, title=title, numbers=numbers))
    counts = found.counts
    console.print(
        f"sent: {counts.events_sent:,} of {counts.events_read:,} events, {counts.bytes_sent:,} of "
        f"{counts.bytes_read:,} bytes; of {counts.transactions_read:,} transactions "
        f"{counts.transactions_dropped:,} are not sent at all",
        soft_wrap=True,
    )
    if counts.events_undecided:
        console.print(
            f"undecided: {counts.events_undecided:,} events that the master cannot decide are sent, and the "
            "slave decides",
            soft_wrap=True,
        )


def print_events(events: Iterable[ExplainedEvent], console: Console) -> None:
    """Print one line for each event: its position and type, and why it is sent or dropped.

    A line is printed as soon as ``events`` yields the event. In a pipe, tabs separate the columns.
    """
    separator = "  " if console.is_terminal else "\t"
    for event in events:
        what = "" if event.subject is None else describe(event.subject)
        if isinstance(event.subject, Statement):
            what += f" (USE {event.subject.current_database or 'none'})"
        why = event.why
        if event.decision is not None:
            why = f"{verdict_word(event.decision)}: {_why(event.decision)}"
            if event.decision.rule is not None:
                why += f" ({event.decision.rule})"
        place = f"{event.file}:{event.position}" + ("" if event.inside is None else f"+{event.inside}")
        cells = [place, event.type, "sent" if event.sent else "dropped", what, why]
        print(separator.join(map(visible, cells)), file=console.file)


def print_statement(found: ExplainedStatement, filters: Filters, console: Console) -> None:
    """Print the decision about a statement, and the steps through the server's flow chart of rules that led to it."""
    _print_rules(filters, console)
    statement = found.statement
    console.print(Text(f"kind: {statement.kind.value}"))
    console.print(_text(f"current database: {_current(statement)}"))
    if statement.kind.is_database:
        console.print(_text(f"database: {statement.database or _current(statement)}"))
    else:
        updated = _tables(statement.updated) or "none that a table rule is asked about"
        console.print(_text(f"tables it updates: {updated}"))
    for number, stop in enumerate(found.path, 1):
        about = f" [{stop.name}]" if stop.name else ""
        rule = "" if stop.rule is None else f" ({stop.rule})"
        console.print(_text(f"{number}. {stop.text}{about}{rule}: {stop.then}"), soft_wrap=True)
    line = Text("verdict: ")
    line.append_text(_colored(verdict_word(found.decision)))
    if found.decision.rule is not None:
        line.append_text(_text(f", by {found.decision.rule}"))
    if found.decision.verdict is Verdict.UNDECIDED:
        line.append(" (it is sent, and the slave decides)")
    console.print(line, soft_wrap=True)


def _why(decision: Decision) -> str:
    named = decision.name and decision.step is not Step.NO_RULES
    return f"{decision.step.value} [{decision.name}]" if named else decision.step.value


def _colored(word: str) -> Text:
    colors = {"execute": "green", "ignore": "red", _NOT_WRITTEN: "red", "undecided": "yellow"}
    return Text(word, style=colors[word])


def _print_rules(filters: Filters, console: Console) -> None:
    console.print(_text("rules: " + (" ".join(rules_as_list(filters)) or "none")), soft_wrap=True)

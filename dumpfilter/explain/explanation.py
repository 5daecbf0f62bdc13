"""Explanations for ``dumpfilter explain``: the reasons why events are sent, dropped or left to the slave.

:func:`explain_set` and :func:`explain_events` run the dump thread over a binlog set. :func:`explain_statement` asks the
filters about a statement's text. Its answer has the steps of the manual's flow chart that led to the verdict.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import HEADER_LENGTH, EventType, event_name
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump import Counts, DumpThread
from dumpfilter.filter import Decision, Filter, ReplicationFilter, Rule, RuleKind, Step, Verdict
from dumpfilter.filter.collation import as_parsed
from dumpfilter.filter.factory import FilterOptions
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.rules import ValueForm
from dumpfilter.index.fileset import BinlogFile, BinlogSet, SegmentReader
from dumpfilter.index.segment import Segment
from dumpfilter.index.statements import decode_statement_event
from dumpfilter.index.subjects import Subject, Subjects
from dumpfilter.index.xa import NONE_PREPARED, ended_xid
from dumpfilter.statement import Statement, StatementText, TableName, make_statement, read_text

UNMAPPED = "Rows without a table map cannot be decided, so they are sent"
XA_END = "The end of an XA transaction goes with what is kept of it"

BY_ROLE = {
    R.FILE: "It belongs to the file, not to a transaction: never filtered",
    R.GTID: "It goes with its transaction",
    R.FRAME: "It goes with its transaction",
    R.CONTEXT: "It goes with the statement that follows",
    R.DUMMY_ROWS: "It only ends a statement, and goes with it",
    R.KEEP: Step.NEVER_FILTERED.value,
    R.XA: "The frame of an XA transaction is never filtered",
    R.PAYLOAD: "A compressed transaction is decided by what is in it",
}
"""The reason why events of each role are sent or dropped, for roles that no rule is asked about."""


@dataclass(frozen=True)
class Filters:
    """The filters that an event must pass: the write side's, when there is one, then the slave's."""

    slave: ReplicationFilter
    write: ReplicationFilter | None = None

    @classmethod
    def of(cls, options: FilterOptions, written_by: NameRules) -> Filters:
        """Return the filters that a command's options describe, for a binlog of this server."""
        return cls(options.slave_filter(written_by), options.write_filter(written_by))

    def decide(self, subject: Subject) -> Decision:
        """Decide a subject's events. The write side's filter is asked first."""
        if self.write is not None and self.write.is_on:
            written = self.write.decide(subject)
            if not written.verdict.passes:
                return written
        return self.slave.decide(subject)

    def flags(self, subjects: Subjects) -> TableFlags:
        """Return the table flags of both filters for the dump thread."""
        return TableFlags(self.slave, subjects, write_filter=self.write)


def _as_filters(filters: Filters | ReplicationFilter) -> Filters:
    return filters if isinstance(filters, Filters) else Filters(filters)


# Binlog sets.


@dataclass(frozen=True)
class ExplainedSubject:
    """A subject with the number of its events in the set, their bytes (``size``), and the decision."""

    subject: Subject
    events: int
    size: int
    decision: Decision


@dataclass
class ExplainedSet:
    """A binlog set with the decisions about its subjects, the largest first.

    ``others`` has number and bytes of the events that no rule is asked about, by reason.
    """

    subjects: list[ExplainedSubject] = field(default_factory=list)
    others: dict[str, tuple[int, int]] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    """The events and bytes that a dump of the whole set reads, sends and drops."""


@dataclass(frozen=True)
class ExplainedEvent:
    """One event with its place and the reason why it is sent or dropped.

    ``decision`` is None when no rule is asked about the event.
    """

    file: str
    position: int
    inside: int | None
    """The offset in the uncompressed bytes, for an event in a compressed transaction. ``position`` is then the
    transaction's. None for other events."""
    size: int
    type: str
    subject: Subject | None
    decision: Decision | None
    why: str
    sent: bool


def explain_set(
    binlogs: BinlogSet, filters: Filters | ReplicationFilter, *, verify: bool = True
) -> ExplainedSet:
    """Explain what the filters do with a whole binlog set, subject by subject. Nothing is sent.

    ``verify``: verify the events' checksums. Raises BinlogError where the set is damaged.

    >>> from importlib import resources
    >>> from dumpfilter.filter import Filter
    >>> recording = resources.files("dumpfilter.demo") / "recording"
    >>> binlogs = BinlogSet.open(recording)
    >>> explained = explain_set(binlogs, Filter.from_options(["--replicate-do-db=shop"]))
    >>> explained.counts.events_sent < explained.counts.events_read
    True
    """
    filters = _as_filters(filters)
    subjects, sources = Subjects(), SourceNumbers()
    thread = DumpThread(filters.flags(subjects), sources)
    found, sums, xa_ends = ExplainedSet(), _Sums(subjects), _XaEnds()
    file = ""
    for reader, segment in binlogs.segments(subjects, sources, verify=verify):
        if segment.file != file:
            file = segment.file
            thread.start_file(reader.file.first_event, reader.file.read)
        for plan in thread.plan(segment):
            found.counts.add(plan.counts)
        sums.add(segment, xa_ends.of(reader, segment))
        for payload in segment.payloads.values():
            sums.add(payload)
    found.subjects = [
        ExplainedSubject(subjects[number], events, size, filters.decide(subjects[number]))
        for number, (events, size) in sums.of_subjects().items()
    ]
    found.subjects.sort(key=lambda each: -each.size)
    found.others = sums.others
    return found


class _Sums:
    """Numbers and bytes of events, by subject, and for events without a subject by reason."""

    def __init__(self, subjects: Subjects) -> None:
        self._subjects = subjects
        self._by_subject: npt.NDArray[np.int64] = np.zeros((2, 0), np.int64)
        self.others: dict[str, tuple[int, int]] = {}

    def add(self, segment: Segment, xa_ends: Sequence[int] = ()) -> None:
        missing = len(self._subjects) - self._by_subject.shape[1]
        if missing > 0:
            self._by_subject = np.pad(self._by_subject, ((0, 0), (0, missing + len(self._subjects))))
        owned = segment.subject >= 0
        if len(xa_ends):
            ends = np.array(xa_ends)
            owned[ends] = False
            self._other(XA_END, len(ends), int(segment.size[ends].sum()))
        self._by_subject += _counted(segment.subject[owned], segment.size[owned], self._by_subject.shape[1])
        unmapped = segment.subject == R.UNMAPPED
        if unmapped.any():
            self._other(UNMAPPED, int(unmapped.sum()), int(segment.size[unmapped].sum()))
        rest = (segment.subject < 0) & ~unmapped
        roles = _counted(segment.role[rest] & 0x7F, segment.size[rest], 128)
        for role in np.flatnonzero(roles[0]).tolist():
            self._other(BY_ROLE[role], *roles[:, role].tolist())

    def of_subjects(self) -> dict[int, tuple[int, int]]:
        """Return number and bytes of events by subject number."""
        return {
            number: (int(self._by_subject[0, number]), int(self._by_subject[1, number]))
            for number in np.flatnonzero(self._by_subject[0]).tolist()
        }

    def _other(self, why: str, events: int, size: int) -> None:
        before = self.others.get(why, (0, 0))
        self.others[why] = (before[0] + events, before[1] + size)


class _XaEnds:
    """A finder of XA COMMIT and XA ROLLBACK events.

    The dump thread gives them the subject of the prepared transaction, so that the subject does not tell them apart.
    """

    def __init__(self) -> None:
        self._any_prepared = False

    def of(self, reader: SegmentReader, segment: Segment) -> list[int]:
        """Return the numbers of these events in a reader's last segment. Call it with all segments in their order."""
        self._any_prepared |= any(
            bool((part.type == EventType.XA_PREPARE).any()) for part in (segment, *segment.payloads.values())
        )
        if not self._any_prepared:
            return []
        alone = segment.role == R.STATEMENT | R.ENDS
        alone &= np.isin(segment.type, (EventType.QUERY, EventType.QUERY_COMPRESSED))
        return [number for number in np.flatnonzero(alone).tolist() if self._is_end(reader, segment, number)]

    def _is_end(self, reader: SegmentReader, segment: Segment, number: int) -> bool:
        start = int(segment.offset[number]) - reader.data_offset
        fd = segment.format_description
        body = reader.data[start + HEADER_LENGTH : start + int(segment.size[number]) - fd.checksum_length]
        query = decode_statement_event(EventType(int(segment.type[number])), body.tobytes(), fd)
        return ended_xid(query.raw) is not None


def _counted(
    owner: npt.NDArray[np.integer], size: npt.NDArray[np.int64], width: int
) -> npt.NDArray[np.int64]:
    """Return number and bytes of events by subject number: int64, 2 rows of ``width``."""
    return np.stack(
        [
            np.bincount(owner, minlength=width),
            np.bincount(owner, weights=size, minlength=width).astype(np.int64),
        ]
    )


def explain_events(binlogs: BinlogSet, filters: Filters, *, verify: bool = True) -> Iterator[ExplainedEvent]:
    """Yield every event of a set in order, with the reason why the dump thread sends or drops the event.

    The events inside a compressed transaction follow the transaction's event. Raises BinlogError where the set is
    damaged, after the events of the files before.
    """
    subjects, sources = Subjects(), SourceNumbers()
    thread = DumpThread(filters.flags(subjects), sources)
    why, xa_ends = _Why(subjects, filters), _XaEnds()
    prepared = NONE_PREPARED
    names = binlogs.names
    for name in names:
        with binlogs.file(name) as file:
            first = SegmentReader(file, subjects, sources, verify=verify, prepared=prepared)
            sent = _sent(file, thread, first, name == names[-1])
            again = SegmentReader(file, subjects, sources, verify=False, prepared=prepared)
            prepared = first.prepared
            while (segment := again.next()) is not None:
                ends = set(xa_ends.of(again, segment))
                for number in range(len(segment.offset)):
                    position = int(segment.offset[number])
                    is_sent = sent.holds(position)
                    event = why.event(segment, number, position, None, is_sent)
                    if number in ends:
                        event = replace(event, subject=None, decision=None, why=XA_END)
                    yield event
                    if number in segment.payloads:
                        yield from why.inside(segment.payloads[number], position, is_sent)


class _Why:
    """The reasons why a set's events are sent or dropped."""

    def __init__(self, subjects: Subjects, filters: Filters) -> None:
        self._subjects, self._filters = subjects, filters
        self._decisions: dict[int, Decision] = {}

    def event(
        self, segment: Segment, number: int, position: int, inside: int | None, sent: bool
    ) -> ExplainedEvent:
        owner = int(segment.subject[number])
        subject = decision = None
        if owner == R.UNMAPPED:
            why = UNMAPPED
        elif owner < 0:
            why = BY_ROLE[int(segment.role[number]) & 0x7F]
        elif self._subjects.members(owner) is not None:
            why = XA_END  # the prepared transaction has several subjects
        else:
            subject = self._subjects[owner]
            if owner not in self._decisions:
                self._decisions[owner] = self._filters.decide(subject)
            decision = self._decisions[owner]
            why = decision.step.value
        return ExplainedEvent(
            segment.file,
            position,
            inside,
            int(segment.size[number]),
            event_name(int(segment.type[number])),
            subject,
            decision,
            why,
            sent,
        )

    def inside(self, payload: Segment, position: int, sent: bool) -> Iterator[ExplainedEvent]:
        """Yield the events of a compressed transaction. Events that no rule is asked about go with the transaction."""
        for number in range(len(payload.offset)):
            event = self.event(payload, number, position, int(payload.offset[number]), sent)
            kept = sent and (event.decision is None or event.decision.verdict.passes)
            yield replace(event, sent=kept)


class _Ranges:
    """The byte ranges of one file that are sent."""

    def __init__(self, ranges: list[tuple[int, int]]) -> None:
        ranges.sort()
        self._starts = [start for start, _ in ranges]
        self._ends = [end for _, end in ranges]

    def holds(self, offset: int) -> bool:
        at = bisect.bisect_right(self._starts, offset) - 1
        return at >= 0 and offset < self._ends[at]


def _sent(file: BinlogFile, thread: DumpThread, reader: SegmentReader, last: bool) -> _Ranges:
    """Dump one file and return the byte ranges that are sent.

    A later segment may send what the dump thread put aside. The whole file is dumped before the answer is known.
    """
    ranges: list[tuple[int, int]] = []
    thread.start_file(file.first_event, file.read)
    while (segment := reader.next()) is not None:
        for plan in thread.plan(segment):
            for offset, size, patch in plan.ranges[:, :3].tolist():
                # the size is of the patched event. Such a range has one event, whose first byte is enough.
                ranges.append((offset, offset + (size if patch in _AS_THEY_STAND else 1)))
    reader.check_end(last=last)
    return _Ranges(ranges)


_AS_THEY_STAND = (0, 1)
"""The kinds of patch that do not change the sizes of a range's events (``dump/decide.py``, C_PATCH)."""


# Statements.


class PathStep(NamedTuple):
    """One step through the manual's flow chart."""

    text: str
    """The finding of the step, in the manual's words."""
    name: str | None
    """The name that was compared with the rules, after rewriting."""
    rule: Rule | None
    then: str
    """The consequence: ``go on``, or the verdict."""


@dataclass(frozen=True)
class ExplainedStatement:
    """A statement's text, parsed, with the filters' decision."""

    statement: Statement
    decision: Decision
    path: tuple[PathStep, ...]
    choices: tuple[tuple[tuple[TableName, ...], Decision], ...] = ()
    """The possible decisions about an UPDATE of several tables, by the tables that it updates. The event tells which
    tables it updates, the text does not."""


_FRAME = re.compile(
    r"\s*(BEGIN|START\s+TRANSACTION|COMMIT|ROLLBACK|SAVEPOINT|RELEASE\s+SAVEPOINT|XA)\b", re.IGNORECASE
)
_MOST_CHOICES = 5
"""The most tables of an UPDATE for which every choice of updated tables is tried."""


def explain_statement(
    text: str, filters: Filters | ReplicationFilter, *, current_database: str | None = None
) -> ExplainedStatement:
    """Explain what the filters do with a statement that is logged as such by a session in ``current_database``.

    Servers log CREATE, ALTER and DROP DATABASE with the named database as the current one. The explanation does, too.

    >>> from dumpfilter.filter import Filter
    >>> rules = Filter.from_options(["--replicate-do-table=shop.orders"])
    >>> found = explain_statement("UPDATE orders SET total = 1", rules, current_database="shop")
    >>> found.decision.verdict.value, str(found.decision.rule)
    ('execute', '--replicate-do-table=shop.orders')
    """
    filters = _as_filters(filters)
    parsed = read_text(text, family=filters.slave.names.family)
    if _FRAME.match(text):
        statement = make_statement(parsed, current_database=current_database)
        decision = Decision(Verdict.EXECUTE, Step.NEVER_FILTERED)
        return ExplainedStatement(
            statement, decision, (PathStep(decision.step.value, None, None, decision.verdict.value),)
        )
    if parsed.kind.is_database and parsed.database is not None:
        current_database = parsed.database
    statement = make_statement(parsed, current_database=current_database)
    choices = tuple(
        (tables, filters.decide(replace(statement, updated=(tables,)))) for tables in _choices(parsed)
    )
    decision = filters.decide(statement)
    if choices and len({choice.verdict for _, choice in choices}) == 1:
        # every choice of updated tables has the same verdict
        statement = replace(statement, updated=(choices[0][0],))
        decision = choices[0][1]
    return ExplainedStatement(statement, decision, tuple(path_of(statement, filters)), choices)


def _choices(parsed: StatementText) -> list[tuple[TableName, ...]]:
    """Return the lists of updated tables that an UPDATE of several tables can have. Empty for too many tables."""
    if parsed.listed is None or parsed.objects is None or not parsed.listed_whole:
        return []
    tables = [name for name in dict.fromkeys(parsed.listed) if name in parsed.objects]
    if len(tables) > _MOST_CHOICES:
        return []
    masks = sorted(range(1, 1 << len(tables)), key=lambda mask: (mask.bit_count(), mask))
    return [tuple(t for n, t in enumerate(tables) if mask >> n & 1) for mask in masks]


def path_of(statement: Statement, filters: Filters) -> Iterator[PathStep]:
    """Yield the steps of a statement through the flow chart. The last step has :meth:`Filters.decide`'s verdict."""
    if filters.write is not None and filters.write.is_on:
        written = filters.write.decide_statement(statement)
        yield _stop(written, go_on=written.verdict.passes)
        if not written.verdict.passes:
            return
    if isinstance(filters.slave, Filter):
        yield from _classic_path(statement, filters.slave)
    else:
        yield from _effective_path(statement, filters.slave)


def _stop(decision: Decision, *, go_on: bool = False, text: str | None = None) -> PathStep:
    return PathStep(
        text or decision.step.value,
        decision.name,
        decision.rule,
        "go on" if go_on else decision.verdict.value,
    )


_DB_KINDS = [kind for kind in RuleKind if kind.form is ValueForm.DATABASE]
_TABLE_FORMS = (ValueForm.TABLE, ValueForm.WILD_TABLE)
_MATCHES = (Step.DO_TABLE, Step.IGNORE_TABLE, Step.WILD_DO_TABLE, Step.WILD_IGNORE_TABLE)


def _only(rules: Filter, kinds: Sequence[RuleKind]) -> Filter:
    """Return the filter that has only the rules of these kinds."""
    return Filter(
        [rule for rule in rules.rules if rule.kind in kinds],
        names=rules.names,
    )


def _classic_path(statement: Statement, rules: Filter) -> Iterator[PathStep]:
    current = None if statement.current_database is None else rules.rewrite_db(statement.current_database)
    # the database rules alone decide a name that is rewritten already
    database = _only(rules, _DB_KINDS).decide_rows(current or "", "")
    if rules.db_rules_on:
        yield _stop(database, go_on=database.verdict.passes)
    else:
        yield PathStep("There are no replicate-do-db and no replicate-ignore-db rules", None, None, "go on")
    if not database.verdict.passes:
        return
    final = rules.decide_statement(statement)
    if statement.kind.is_database:
        yield _stop(final)
    elif not rules.table_rules_on:
        yield PathStep(Step.NO_TABLE_RULES.value, None, None, Verdict.EXECUTE.value)
    elif not statement.updated:
        yield _stop(final)
    else:
        tables_alone = _only(rules, [kind for kind in RuleKind if kind.form in _TABLE_FORMS])
        yield from _tables_path(statement, current or "", tables_alone, final)


def _tables_path(statement: Statement, current: str, rules: Filter, final: Decision) -> Iterator[PathStep]:
    assert statement.updated is not None
    for number, tables in enumerate(statement.updated, 1):
        matched: Decision | None = None
        for table in tables:
            one = rules.decide_rows(*_named(table, current, rules))
            if one.step in _MATCHES:
                matched = one
                break
            yield _stop(one, go_on=True, text="The table matches no rule")
        passes = rules.tables_ok(_named(table, current, rules) for table in tables)
        if not passes or number == len(statement.updated):
            yield _stop(final, text=f"{final.step.value}; {_ONLY_IF_FOUND}" if _is_open(final) else None)
            return
        yield _stop(matched or Decision(Verdict.EXECUTE, Step.NO_TABLE_MATCHED), go_on=True)


_ONLY_IF_FOUND = "but the slave asks about these tables only when it has the table that is granted on"


def _is_open(decision: Decision) -> bool:
    """Tell whether rules have decided, and the slave still decides whether the rules are asked."""
    return decision.verdict is Verdict.UNDECIDED and decision.step is not Step.UNKNOWN_TABLES


def _named(table: TableName, current: str, rules: ReplicationFilter) -> tuple[str, str]:
    """Return database and table as a server's parser reads the name."""
    database = current if table.database is None else as_parsed(table.database, rules.names.family)
    return database, as_parsed(table.table, rules.names.family)


def _effective_path(statement: Statement, rules: ReplicationFilter) -> Iterator[PathStep]:
    final = rules.decide_statement(statement)
    if not statement.kind.is_database and final.name is not None:
        for table in chain.from_iterable(statement.updated or ()):
            one = rules.decide_rows(*_named(table, statement.current_database or "", rules))
            if one == final:
                break
            yield _stop(one, go_on=True)
    yield _stop(final)

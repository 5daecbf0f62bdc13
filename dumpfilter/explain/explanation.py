"""Why events are sent, dropped or left to the slave: what ``dumpfilter explain`` tells.

A binlog set is explained by the dump thread itself (:func:`explain_set`, :func:`explain_events`), a statement's text
by the filter it would meet (:func:`explain_statement`), with the way through the manual's flow chart that led there.
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
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump import Counts, DumpThread
from dumpfilter.filter import Decision, Filter, ReplicationFilter, Rule, RuleKind, Step, Verdict, WriteFilter
from dumpfilter.filter.collation import as_parsed
from dumpfilter.filter.flags import TableFlags
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
"""Why an event of this role, which no rule is asked about, is sent or not."""


@dataclass(frozen=True)
class Filters:
    """What stands between a statement and a slave: the write side, where there is one, then the slave's filter."""

    slave: ReplicationFilter
    write: WriteFilter | None = None

    def decide(self, subject: Subject) -> Decision:
        """What happens to a subject's events, by whichever of the two keeps them out first."""
        if self.write is not None and self.write.is_on:
            written = self.write.decide(subject)
            if not written.verdict.passes:
                return written
        return self.slave.decide(subject)

    def flags(self, subjects: Subjects) -> TableFlags:
        """The same, as the dump thread asks it."""
        return TableFlags(self.slave, subjects, write_filter=self.write)


def _as_filters(filters: Filters | ReplicationFilter) -> Filters:
    return filters if isinstance(filters, Filters) else Filters(filters)


# Binlog sets.


@dataclass(frozen=True)
class ExplainedSubject:
    """A table or a statement's shape with what the set has of it and what becomes of it. ``size`` in bytes."""

    subject: Subject
    events: int
    size: int
    decision: Decision


@dataclass
class ExplainedSet:
    """A set: its subjects, the largest first; the other events by why they are sent or not (number, bytes)."""

    subjects: list[ExplainedSubject] = field(default_factory=list)
    others: dict[str, tuple[int, int]] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    """What a dump of the whole set reads, sends, drops."""


@dataclass(frozen=True)
class ExplainedEvent:
    """One event: where, what, and why. ``decision`` is None where no rule is asked about it."""

    file: str
    position: int
    inside: int | None
    """Of an event in a compressed transaction: its offset in the opened bytes; ``position`` is the transaction's."""
    size: int
    type: str
    subject: Subject | None
    decision: Decision | None
    why: str
    sent: bool


def explain_set(
    binlogs: BinlogSet, filters: Filters | ReplicationFilter, *, verify: bool = True
) -> ExplainedSet:
    """Run the dump thread over a whole set without sending anything, and explain its decisions.

    Raises BinlogError where the set is damaged.
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
    """Events and bytes by subject, and of what has none by why."""

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
        """Of the tables and statements."""
        return {
            number: (int(self._by_subject[0, number]), int(self._by_subject[1, number]))
            for number in np.flatnonzero(self._by_subject[0]).tolist()
        }

    def _other(self, why: str, events: int, size: int) -> None:
        before = self.others.get(why, (0, 0))
        self.others[why] = (before[0] + events, before[1] + size)


class _XaEnds:
    """Tells XA COMMIT and XA ROLLBACK from other statements: to the dump their subject is what the prepared transaction
    holds."""

    def __init__(self) -> None:
        self._any_prepared = False

    def of(self, reader: SegmentReader, segment: Segment) -> list[int]:
        """The numbers of those events of a reader's last segment. Segments come in the order of the stream."""
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
    """Number and bytes by owner."""
    return np.stack(
        [
            np.bincount(owner, minlength=width),
            np.bincount(owner, weights=size, minlength=width).astype(np.int64),
        ]
    )


def explain_events(binlogs: BinlogSet, filters: Filters, *, verify: bool = True) -> Iterator[ExplainedEvent]:
    """Every event of a set, in order, as the dump thread treats it; those of a compressed transaction after it.
    Raises BinlogError where the set is damaged, after the events of the files before."""
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
    """The reasons of a set's events."""

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
            why = XA_END  # of several
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
        """The events of a compressed transaction. Those no rule is asked about are told as the whole is."""
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
    """A dump of one file. What is put aside is sent by a later segment: so all of it, then the answer."""
    ranges: list[tuple[int, int]] = []
    thread.start_file(file.first_event, file.read)
    while (segment := reader.next()) is not None:
        for plan in thread.plan(segment):
            for offset, size, patch in plan.ranges[:, :3].tolist():
                # an event in another form has another size, but stands alone
                ranges.append((offset, offset + (size if patch in _AS_THEY_STAND else 1)))
    reader.check_end(last=last)
    return _Ranges(ranges)


_AS_THEY_STAND = (0, 1)
"""The patches of a range that leave its events' sizes alone (``dump/decide.py``, C_PATCH)."""


# Statements.


class PathStep(NamedTuple):
    """One stop on the way through the flow chart."""

    text: str
    """What was found there, in the manual's words."""
    name: str | None
    """What was compared, as it is after rewriting."""
    rule: Rule | None
    then: str
    """``go on``, or the verdict."""


@dataclass(frozen=True)
class ExplainedStatement:
    """A statement's text, read and decided."""

    statement: Statement
    decision: Decision
    path: tuple[PathStep, ...]
    choices: tuple[tuple[tuple[TableName, ...], Decision], ...] = ()
    """UPDATE of several tables, whose text does not tell which of them it updates (the event does): each answer
    there could be."""


_FRAME = re.compile(
    r"\s*(BEGIN|START\s+TRANSACTION|COMMIT|ROLLBACK|SAVEPOINT|RELEASE\s+SAVEPOINT|XA)\b", re.IGNORECASE
)
_MOST_CHOICES = 5
"""Tables of an UPDATE up to which every choice of them is tried."""


def explain_statement(
    text: str, filters: Filters | ReplicationFilter, *, current_database: str | None = None
) -> ExplainedStatement:
    """Explain a statement that a session in ``current_database`` writes to the binlog.

    Servers log CREATE, ALTER and DROP DATABASE with the database that the statement names as the current one, whatever
    database the session is in. The explanation follows the servers.
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
        # whichever it updates: the answer is the same
        statement = replace(statement, updated=(choices[0][0],))
        decision = choices[0][1]
    return ExplainedStatement(statement, decision, tuple(path_of(statement, filters)), choices)


def _choices(parsed: StatementText) -> list[tuple[TableName, ...]]:
    """The lists of updated tables that an UPDATE of several tables can have; none where it has too many."""
    if parsed.listed is None or parsed.objects is None or not parsed.listed_whole:
        return []
    tables = [name for name in dict.fromkeys(parsed.listed) if name in parsed.objects]
    if len(tables) > _MOST_CHOICES:
        return []
    masks = sorted(range(1, 1 << len(tables)), key=lambda mask: (mask.bit_count(), mask))
    return [tuple(t for n, t in enumerate(tables) if mask >> n & 1) for mask in masks]


def path_of(statement: Statement, filters: Filters) -> Iterator[PathStep]:
    """The way of a statement through the flow chart. Its last stop has the verdict of :meth:`Filters.decide`."""
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


_DB_KINDS = (RuleKind.DO_DB, RuleKind.IGNORE_DB)
_MATCHES = (Step.DO_TABLE, Step.IGNORE_TABLE, Step.WILD_DO_TABLE, Step.WILD_IGNORE_TABLE)


def _only(rules: Filter, kinds: Sequence[RuleKind]) -> Filter:
    """The filter that these kinds of its rules make."""
    return Filter(
        [rule for rule in rules.rules if rule.kind in kinds],
        names=rules.names,
    )


def _classic_path(statement: Statement, rules: Filter) -> Iterator[PathStep]:
    current = None if statement.current_database is None else rules.rewrite_db(statement.current_database)
    # of the database rules alone, a name that is rewritten already
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
        tables_alone = _only(rules, [kind for kind in RuleKind if "table" in kind.value])
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
    """Whether rules have answered, and the slave still decides whether they are asked."""
    return decision.verdict is Verdict.UNDECIDED and decision.step is not Step.UNKNOWN_TABLES


def _named(table: TableName, current: str, rules: ReplicationFilter) -> tuple[str, str]:
    """A table as a server's parser reads its name."""
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

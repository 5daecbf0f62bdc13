"""The greedy search for the few rules that save most: it repeatedly adds the best remaining rule.

The candidates are rules for a database, for a table, and for tables with a common name prefix. A rule that drops
everything would save most. The search therefore multiplies the saved bytes by the fraction of tables that are still
sent. To check a rule, it compares the faults that lint finds in the same binlogs with and without the rule.

A pass over the binlogs makes a tally: bytes counted by the condition under which a filter sends them. From the tally,
:class:`Traffic` computes the bytes that a filter passes, without reading the binlogs again. Each event of a compressed
transaction counts with its share of the compressed bytes, since the size of a part of the transaction is unknown. For
the suggested rules, a second pass counts the exact bytes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from dumpfilter.analyse.by_heading import Headings, flat_events, flat_segment
from dumpfilter.analyse.lint.findings import Code, FilterWarning
from dumpfilter.analyse.lint.knowledge import SetKnowledge
from dumpfilter.analyse.lint.linting import lint
from dumpfilter.analyse.traffic.facts import (
    Facts,
    Ints,
    SubjectFlags,
    flags_of,
    merge,
    wants,
)
from dumpfilter.analyse.traffic.tally import Tally
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.filter import make_filter, parse_option
from dumpfilter.filter.base import OriginFilter, ReplicationFilter
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, TableFlags
from dumpfilter.filter.rules import EffectiveRuleKind, FilterSemantics, Rule, RuleKind, escaped, make_rule
from dumpfilter.index.fileset import open_file
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subject, Subjects, TableSubject, numbers_on_tables
from dumpfilter.spark_jobs.bandwidth.job import nothing_passes
from dumpfilter.spark_jobs.engines import Runner, step
from dumpfilter.spark_jobs.options import ReadOptions
from dumpfilter.spark_jobs.ranges import IndexedSet, Range, ReadRanges, amount_of, grouped, state_of_thread
from dumpfilter.spark_jobs.suggest.results import RejectedRule
from dumpfilter.topology.slaves_file import SlaveDefinition

_BUCKET_SECONDS = 1 << 40
"""The length of a time bucket, seconds. It exceeds any binlog's span, because suggestions do not use times."""


@dataclass(frozen=True, kw_only=True)
class MeasureRanges(ReadRanges):
    """A task, for threads of this process, that counts the traffic of some ranges (parts of binlog files).

    Each thread has separate counts and cached filter results, so that each filter is evaluated only once per table and
    thread.
    """

    filters: Sequence[ReplicationFilter] | None
    """The filters for which compressed transactions are cut exactly. None: the events inside compressed transactions
    are counted, each with its share of the compressed bytes. The counts are then valid for every filter.
    """

    def __call__(self, ranges: Iterable[Range]) -> tuple[Facts, bool]:
        """Read the ranges. Return the traffic by the condition under which a filter sends it, and whether parts of
        compressed transactions make it an estimate. Raises BinlogError with file and position.
        """
        subjects, sources, tally = state_of_thread(self.job, self._state)
        is_estimate = False
        tally.take()
        for wanted in ranges:
            with open_file(wanted.path) as file:
                for block in self.blocks(file, wanted, subjects, sources):
                    segment = block.segment
                    if self.filters is None and segment.payloads:
                        is_estimate |= any(len(_subjects(inner)) != 1 for inner in segment.payloads.values())
                        flat = flat_events(segment, block.data, segment.start)
                        segment = flat_segment(segment, flat, flat.stored)
                    tally.add(segment, file.read)
        return tally.take(), is_estimate

    def _state(self) -> tuple[Subjects, SourceNumbers, Tally]:
        subjects, sources = Subjects(), SourceNumbers()
        given = [TableFlags(one, subjects) for one in self.filters or ()]
        tally = Tally(subjects, sources, filters=given, bucket_seconds=_BUCKET_SECONDS)
        return subjects, sources, tally


def _subjects(segment: Segment) -> npt.NDArray[np.int32]:
    """Return the distinct numbers of the tables and statements to which the events of ``segment`` belong."""
    return np.unique(segment.subject[segment.subject >= 0])


def measure(
    indexed: IndexedSet,
    filters: Sequence[ReplicationFilter] | None,
    run: Runner,
    options: ReadOptions,
    label: str,
) -> tuple[Facts, bool]:
    """Count the traffic of a binlog set, so that the bytes that a filter passes can be computed without reading the
    binlogs again. The second result tells whether parts of compressed transactions make the bytes an estimate.

    The result is exact for ``filters``. With None it is valid for every filter. ``run`` executes the tasks, and
    ``label`` describes the work to the user. Raises BinlogError with file and position.
    """
    task = MeasureRanges(options=options, filters=filters)
    groups = grouped(indexed.ranges, options.range_size)
    parts = run(task, groups, label, amount=amount_of(indexed.ranges)) or [task([])]
    return merge([facts for facts, _ in parts]), any(is_estimate for _, is_estimate in parts)


class Traffic:
    """Computes how many bytes a filter passes, and to which tables they belong, from the measurements of a binlog set.

    The attribute ``subjects`` has the tables and statements of the measurements. Tables that only statements name are
    appended, so that filters are also evaluated for their rows.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        known = {subject for subject in facts.subjects if isinstance(subject, TableSubject)}
        named = dict.fromkeys(
            table for subject in facts.subjects for table in tables_of(subject) if table not in known
        )
        self.subjects: tuple[Subject, ...] = (*facts.subjects, *named)
        self.is_table: npt.NDArray[np.bool_] = np.array(
            [isinstance(subject, TableSubject) for subject in self.subjects], np.bool_
        )
        self._headings = Headings(facts)
        self._on_tables = np.array(numbers_on_tables(facts.subjects), np.int64)

    @property
    def tables(self) -> list[TableSubject]:
        """All tables that rows events or statements of the binlog set change."""
        return [subject for subject in self.subjects if isinstance(subject, TableSubject)]

    def wanted_origins(self, origin: OriginFilter | None) -> tuple[bool, ...]:
        """Return for each server and domain of the set whether a slave wants its transactions.

        ``origin`` is the slave's filter of server ids and domain ids, such as ``IGNORE_SERVER_IDS``. None: the slave
        wants all.
        """
        return tuple(wants(origin, each) for each in self._facts.origins)

    def ask_about(
        self, one: ReplicationFilter, before: SubjectFlags | None, changed: Sequence[int]
    ) -> SubjectFlags:
        """Evaluate a filter for some tables and statements, and return its decisions about all of them as bits.

        ``before`` has the decisions of a filter with one rule less (None: it had no rules). ``changed`` has the indexes
        of tables and statements about which the new rule may decide otherwise. All other decisions are copied.
        """
        flags = TableFlags(one, Subjects())
        if before is None:
            found = np.full(len(self.subjects), FILTER_BINLOG_SEND_F, np.uint32)
        else:
            found = before.copy()
        for number in changed:
            found[number] = flags.bits(self.subjects[number])
        return found

    def bytes(self, flags: SubjectFlags | None, origin: OriginFilter | None) -> int:
        """Return the bytes that a slave receives. The sizes of parts of compressed transactions are estimates.

        ``flags`` has the decisions of the slave's filter about all tables and statements (None: no rules). ``origin``
        is the slave's filter of server ids and domain ids (None: none).
        """
        return int(self._facts.bytes[self._facts.sent(flags, origin)].sum())

    def count_tables(self, flags: SubjectFlags | None) -> int:
        """Return the number of tables whose rows a filter sends. ``flags`` has the filter's decisions about all tables
        and statements (None: no rules).
        """
        return int(np.count_nonzero(self._sent(flags) & self.is_table))

    def nothing_passes(self, flags: SubjectFlags | None) -> bool:
        """Tell whether a filter drops all rows and all statements on tables. ``flags`` has the filter's decisions about
        all tables and statements (None: no rules).
        """
        return nothing_passes(flags, self._on_tables)

    def weights(self, flags: SubjectFlags | None, origin: OriginFilter | None) -> Ints:
        """Return for each table and statement an upper bound of the bytes that a slave would save by dropping its
        events.

        Events that the slave's filter drops already count as 0. The bytes of a transaction with several tables count
        for each of them. ``flags`` has the filter's decisions (None: no rules), and ``origin`` is the filter of server
        ids and domain ids (None: none).
        """
        facts = self._facts
        sent = facts.sent(flags, origin)
        of_condition = np.bincount(
            facts.condition[sent], weights=facts.bytes[sent], minlength=len(facts.conditions)
        )
        found: npt.NDArray[np.float64] = np.zeros(len(self.subjects))
        conditions = facts.conditions
        lengths = np.diff(conditions.start)
        if len(conditions.member):
            among = conditions.member >= 0
            np.add.at(found, conditions.member[among], np.repeat(of_condition, lengths)[among])
        required = conditions.required >= 0
        np.add.at(found, conditions.required[required], of_condition[required])
        found[~self._sent(flags)] = 0
        return np.ceil(found).astype(np.int64)

    def by_name(self, flags: SubjectFlags | None, origin: OriginFilter | None) -> dict[str, int]:
        """Return the bytes that a slave receives by the name of the table (``schema.table``).

        ``flags`` has the decisions of the slave's filter (None: no rules), and ``origin`` is its filter of server ids
        and domain ids (None: none).
        """
        return self._headings.by_name(self._facts.bytes, self._facts.sent(flags, origin))

    def _sent(self, flags: SubjectFlags | None) -> npt.NDArray[np.bool_]:
        if flags is None:
            return np.ones(len(self.subjects), np.bool_)
        sent: npt.NDArray[np.bool_] = flags & FILTER_BINLOG_SEND_F != 0
        return sent


def tables_of(subject: Subject) -> list[TableSubject]:
    """Return the tables that the events of a table, or a statement, change. For a statement they are the tables that
    its text shows.
    """
    return [TableSubject(table.database, table.table) for table in subject.tables() if table.database]


_ESCAPE = re.compile(r"""\\(?=[ntrbs"'\\]|$)|"|\n|\r""")
"""The characters that need an escape sequence in an option file: quotes, line ends, and a backslash that would begin
a sequence.
"""

_SEQUENCES = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r"}

_PLAIN = re.compile(r"[^#'\"\s;]*")


def option_line(rule: Rule) -> str:
    r"""Return a rule as one line of an option file such as ``my.cnf``.

    A backslash before ``_`` or ``%`` is kept, because option files have no such escape sequence.

    >>> from dumpfilter.filter.rules import parse_option
    >>> print(option_line(parse_option(r"--replicate-wild-ignore-table=shop\_01.tmp\_%")))
    replicate-wild-ignore-table=shop\_01.tmp\_%
    >>> print(option_line(parse_option("--replicate-ignore-table=shop.a #1")))
    replicate-ignore-table="shop.a #1"
    """
    value = _ESCAPE.sub(lambda match: _SEQUENCES[match[0]], rule.value)
    if _PLAIN.fullmatch(rule.value) is None:
        value = f'"{value}"'
    return f"{rule.kind.option}={value}"


SYSTEM_SCHEMAS = frozenset({"mysql", "sys", "information_schema", "performance_schema"})
"""The servers' own schemas. A replica that ignores them can lose accounts and functions."""

MOST_OF_A_KIND = 60
"""The maximum number of candidate rules of each kind. The ones with the most bytes are chosen."""

_SHORTEST_PREFIX = 2
_PREFIX = re.compile(r"_|(?<=\D)(?=\d)")
"""The positions at which a common prefix of table names can end: after an underscore, and before a number."""


@dataclass(frozen=True)
class Candidate:
    """A rule that the search for suggestions tries: it ignores the tables of a database, one table, or tables with a
    common name prefix.
    """

    database: str | None
    """The database. None for all databases."""
    table: str | None
    """The table's name, or the tables' name prefix. None for all tables of the database."""
    is_prefix: bool
    tables: frozenset[TableSubject]
    """The tables of the binlog set whose events the rule would drop."""
    keeps_database: bool = False
    """Whether the rule drops the database's tables but passes CREATE DATABASE.

    Routines, events and renamed tables need the database, and table rules do not drop them.
    """

    @property
    def breadth(self) -> int:
        """A penalty for wildcards in the rule: one for each wildcard in the pattern of tables, and two for a rule about
        all databases. Of two rules with equal effect the one with the lower value is better.
        """
        of_table = (self.table is None) + self.is_prefix + self.keeps_database
        return (self.database is None) * 2 + of_table

    def rule(self, semantics: FilterSemantics) -> Rule:
        r"""Return this candidate as a filter rule. Wildcards in names are escaped.

        ``semantics`` says whether the rule is one of the servers' ``--replicate-*`` options (classic) or one of MySQL's
        worklog 2516 (effective).

        >>> print(Candidate("shop_01", "tmp_", True, frozenset()).rule(FilterSemantics.CLASSIC))
        --replicate-wild-ignore-table=shop\_01.tmp\_%
        >>> print(Candidate("shop", None, False, frozenset()).rule(FilterSemantics.CLASSIC))
        --replicate-wild-ignore-table=shop.%
        >>> print(Candidate("shop", None, False, frozenset(), keeps_database=True).rule(FilterSemantics.CLASSIC))
        --replicate-wild-ignore-table=shop._%
        >>> print(Candidate("a_b", None, False, frozenset()).rule(FilterSemantics.EFFECTIVE))
        --ignore=a\_b.%
        """
        if (
            semantics is FilterSemantics.CLASSIC
            and None not in (self.database, self.table)
            and not self.is_prefix
        ):
            return make_rule(RuleKind.IGNORE_TABLE, f"{self.database}.{self.table}")
        database = "%" if self.database is None else escaped(self.database)
        table = "%" if self.table is None else escaped(self.table) + ("%" if self.is_prefix else "")
        if semantics is FilterSemantics.EFFECTIVE:
            # The first dot without a backslash separates the two patterns of an expression.
            return make_rule(EffectiveRuleKind.IGNORE, f"{database.replace('.', chr(92) + '.')}.{table}")
        # A server compares CREATE DATABASE as a name with an empty table.
        return make_rule(
            RuleKind.WILD_IGNORE_TABLE, f"{database}.{'_' if self.keeps_database else ''}{table}"
        )


def candidates(
    weights: Mapping[TableSubject, int], kept: Iterable[TableSubject] = ()
) -> list[tuple[Candidate, int]]:
    """Return the rules that a search for suggestions tries, each with the total bytes of the tables that the rule
    ignores.

    ``weights`` has the bytes of each table. No rule ignores a table in ``kept``. Of each kind of rules, the 60 with the
    most bytes are returned.
    """
    untouchable = set(kept)
    # A LIKE pattern is about the text db.table. With a dot in a name, a pattern can match tables that nobody means.
    has_dots = any("." in table.database or "." in table.table for table in weights)
    groups: dict[tuple[str | None, str | None, bool], set[TableSubject]] = defaultdict(set)
    for table in weights:
        prefixes = [table.table[: match.end()] for match in _PREFIX.finditer(table.table)]
        prefixes = [prefix for prefix in prefixes if len(prefix) >= _SHORTEST_PREFIX]
        groups[None, table.table, False].add(table)
        for prefix in prefixes:
            groups[None, prefix, True].add(table)
        if table.database.lower() in SYSTEM_SCHEMAS or not table.database:
            # No rule for all databases may match such a table by chance.
            untouchable.add(table)
            continue
        groups[table.database, None, False].add(table)
        if "." not in table.database:
            # A server takes the text before the first dot of a rule as the database.
            groups[table.database, table.table, False].add(table)
        for prefix in prefixes:
            groups[table.database, prefix, True].add(table)
    by_kind: dict[tuple[bool, bool, bool], list[tuple[Candidate, int]]] = defaultdict(list)
    for (database, name, is_prefix), tables in groups.items():
        is_pattern = is_prefix or database is None
        if (
            untouchable & tables
            or (is_pattern and len(tables) < 2)
            or (has_dots and (is_pattern or name is None))
        ):
            continue
        weight = sum(weights[each] for each in tables)
        candidate = Candidate(database, name, is_prefix, frozenset(tables))
        by_kind[database is None, name is None, is_prefix].append((candidate, weight))
        if name is None:
            by_kind[False, True, True].append((replace(candidate, keeps_database=True), weight))
    found: list[tuple[Candidate, int]] = []
    for same_kind in by_kind.values():
        same_kind.sort(key=lambda pair: (-pair[1], str(pair[0].rule(FilterSemantics.CLASSIC))))
        found += same_kind[:MOST_OF_A_KIND]
    return found


BREAKING = frozenset(
    {
        Code.FOREIGN_KEY,
        Code.LEFT_TABLE,
        Code.LOST_STATEMENT,
        Code.LEFT_OBJECT,
        Code.MISSING_DATABASE,
        Code.MISSING_OBJECT,
        Code.MISSING_TABLE,
        Code.UNKNOWN,
        Code.NOTHING_PASSES,
        Code.READS_DROPPED,
        Code.SCHEMA_DRIFT,
        Code.TEMPORARY_TABLE,
        Code.TRIGGER,
        Code.ROUTINE,
        Code.UNWANTED_STATEMENT,
        Code.XA_DROPPED,
    }
)
"""The codes of faults that stop a replica or change its data. Lint's other warnings are about rules without effect."""


LEAST_SHARE = 0.01
"""The minimum score of a suggested rule, as a fraction of the bytes that slaves currently receive. The score is the
saved bytes times the fraction of tables still sent.
"""

_EQUAL = 0.001
"""The relative difference of scores up to which two rules count as equally good. The narrower one is then suggested."""

_MOST_REJECTED = 20
"""The maximum number of rejected rules in a search, because each check goes over all statements."""


@dataclass(frozen=True)
class Slave:
    """One slave, or several with equal filters, with the rules that the search has added, and the traffic that one
    slave then receives.
    """

    names: tuple[str, ...]
    definition: SlaveDefinition
    added: tuple[Rule, ...] = ()
    flags: SubjectFlags | None = field(default=None, compare=False)
    """The filter's verdicts about all tables and statements, as bits. None: a filter without rules."""
    nbytes: int = field(default=0, compare=False)
    """The bytes that one slave receives. With compressed transactions it is an estimate."""
    tables: int = field(default=0, compare=False)
    """The number of tables whose rows the filter passes."""

    @property
    def count(self) -> int:
        """The number of slaves with this filter, for which the figures count."""
        return len(self.names)

    def filter(self, written_by: NameRules) -> ReplicationFilter:
        """Return the slave's replication filter with its own rules and those that the search added.

        ``written_by`` has the settings by which the binlog's server compares names.
        """
        one = self.definition
        rules = [parse_option(rule, one.semantics) for rule in one.rules]
        names = written_by._replace(lower_case_table_names=one.lower_case_table_names)
        return make_filter(one.semantics, [*rules, *self.added], names=names)


@dataclass(frozen=True)
class Step:
    """A rule that the search tries, and its effect on several slaves: the saved bytes, and the score by which rules are
    compared.
    """

    candidate: Candidate
    slaves: tuple[Slave, ...]
    """All slaves with the rule added to their filters, except where the rule saves nothing or would drop all tables."""
    saved: int
    score: float


@dataclass(frozen=True)
class Found:
    """The result of a search: the suggested rules, best first, and the rules rejected because they would break
    replication.
    """

    steps: tuple[Step, ...] = ()
    rejected: tuple[RejectedRule, ...] = ()


class Search:
    """Finds rules that save bytes for slaves.

    Parameters:
        traffic: the measurements of the binlog set.
        written_by: the settings by which the binlogs' server compares schema and table names.
        kept: tables that no suggested rule may drop.
        knowledge: the data about the set that ``dumpfilter lint`` needs. A rule that would break replication is
            rejected. None: rules are not checked.
    """

    def __init__(
        self,
        traffic: Traffic,
        written_by: NameRules,
        kept: Sequence[TableSubject] = (),
        knowledge: SetKnowledge | None = None,
    ) -> None:
        self._traffic = traffic
        self._written_by = written_by
        self._kept = kept
        self._knowledge = knowledge
        self._faults: dict[Slave, list[FilterWarning]] = {}
        self._subjects_of_table: dict[TableSubject, list[int]] = defaultdict(list)
        self._subjects_of_schema: dict[str, list[int]] = defaultdict(list)
        for number, subject in enumerate(traffic.subjects):
            for table in tables_of(subject):
                self._subjects_of_table[table].append(number)
            schemas = set(subject.schemas())
            if not isinstance(subject, TableSubject) and subject.current_database:
                schemas.add(subject.current_database)
            for schema in schemas:
                self._subjects_of_schema[schema].append(number)

    def plan(self, slaves: Sequence[Slave], most: int) -> Found:
        """Return at most ``most`` rules that together save most for these slaves, best first, and the rejected rules.

        Each rule is added to the filter of every slave for which the rule saves bytes. Rules are rejected if they would
        break replication.
        """
        steps: list[Step] = []
        rejected: dict[Candidate, RejectedRule] = {}
        least = LEAST_SHARE * sum(one.nbytes * one.count for one in slaves)
        while len(steps) < most and len(rejected) < _MOST_REJECTED:
            best = self._best(slaves, least, rejected)
            if best is None:
                break
            fault = self._fault(slaves, best)
            if fault is not None:
                rejected[best.candidate] = RejectedRule(
                    rule=str(best.candidate.rule(slaves[0].definition.semantics)),
                    saving=best.saved,
                    code=fault.code.value,
                    fault=fault.what,
                    cure=fault.cure,
                    event=str(fault.evidence[0]) if fault.evidence else "",
                )
                continue
            # A trial asks the filter only about what the rule names. A rule can also drop other statements.
            slaves = tuple(map(self.measured, best.slaves))
            steps.append(replace(best, slaves=slaves))
        return Found(tuple(steps), tuple(sorted(rejected.values(), key=lambda one: -one.saving)))

    def _fault(self, slaves: Sequence[Slave], step: Step) -> FilterWarning | None:
        """Return a fault that a candidate rule would add to the filter of a slave for which it saves bytes. None: no
        fault.
        """
        for before, after in zip(slaves, step.slaves, strict=True):
            if after != before:
                had = {(one.code, one.rules) for one in self._lint(before)}
                for one in self._lint(after):
                    if (one.code, one.rules) not in had:
                        return one
        return None

    def _lint(self, slave: Slave) -> list[FilterWarning]:
        """Return lint's warnings about a slave's filter that mean a broken replica. The list is empty if rules are
        not checked.
        """
        if self._knowledge is None:
            return []
        if slave not in self._faults:
            warnings = lint(slave.filter(self._written_by), self._knowledge)
            self._faults[slave] = [one for one in warnings if one.code in BREAKING]
        return self._faults[slave]

    def measured(self, slave: Slave) -> Slave:
        """Return the slave with new values of ``flags`` (its filter's verdicts about all tables and statements),
        ``nbytes`` and ``tables``. The filter includes the rules that the search added.
        """
        return self._with_flags(slave, flags_of(slave.filter(self._written_by), self._traffic.subjects))

    def _with_flags(self, slave: Slave, flags: SubjectFlags | None) -> Slave:
        nbytes = self._traffic.bytes(flags, slave.definition.origin)
        return replace(slave, flags=flags, nbytes=nbytes, tables=self._traffic.count_tables(flags))

    def _best(self, slaves: Sequence[Slave], least: float, rejected: Container[Candidate]) -> Step | None:
        """Return the best rule to add, or None if no rule has a score above ``least`` bytes."""
        tables = sum(one.tables * one.count for one in slaves)
        best: Step | None = None
        # The weight of a candidate is at least what the candidate saves, so most candidates need not be tried.
        for candidate, weight in self._candidates(slaves):
            if weight <= max(least, 0 if best is None else best.score * (1 - _EQUAL)):
                break
            if candidate in rejected:
                continue
            # A search reads nothing, and ends here after Ctrl-C.
            step(0)
            one = self._try(slaves, candidate, tables)
            if one.score <= least:
                continue
            narrower = best is not None and candidate.breadth < best.candidate.breadth
            if best is None or one.score > best.score * (1 - _EQUAL if narrower else 1 + _EQUAL):
                best = one
        return best

    def _candidates(self, slaves: Sequence[Slave]) -> list[tuple[Candidate, int]]:
        """Return all candidate rules, each with an upper bound of its saving, in descending order of this bound."""
        of_subject: npt.NDArray[np.int64] = np.zeros(len(self._traffic.subjects), np.int64)
        for one in slaves:
            of_subject += one.count * self._traffic.weights(one.flags, one.definition.origin)
        weights = {
            table: int(of_subject[numbers].sum()) for table, numbers in self._subjects_of_table.items()
        }
        found = []
        for candidate, weight in candidates(weights, self._kept):
            if candidate.table is None and candidate.database is not None:
                # A rule for a database also drops statements without known tables.
                weight = int(of_subject[self._subjects_of_schema[candidate.database]].sum())
            found.append((candidate, weight))
        return sorted(found, key=lambda pair: (-pair[1], pair[0].breadth))

    def _changed_by(self, candidate: Candidate) -> Sequence[int]:
        """Return the indexes of the tables and statements that a candidate rule can drop."""
        if candidate.table is None and candidate.database is not None:
            return self._subjects_of_schema[candidate.database]
        return sorted({number for table in candidate.tables for number in self._subjects_of_table[table]})

    def _try(self, slaves: Sequence[Slave], candidate: Candidate, tables: int) -> Step:
        """Return the effect of a candidate rule on all slaves. ``tables`` is the number of tables that slaves
        currently receive, summed over the slaves.
        """
        changed = self._changed_by(candidate)
        after = tuple(self._with_rule(one, candidate, changed) for one in slaves)
        saved = sum(one.count * (one.nbytes - new.nbytes) for one, new in zip(slaves, after, strict=True))
        left = sum(one.count * one.tables for one in after)
        return Step(candidate, after, saved, saved * left / max(tables, 1))

    def _with_rule(self, slave: Slave, candidate: Candidate, changed: Sequence[int]) -> Slave:
        """Return a slave with the rule of ``candidate``, or unchanged if the rule saves nothing or drops all tables.

        ``changed`` has the indexes of the tables and statements that the rule can drop.
        """
        semantics = slave.definition.semantics
        if candidate.keeps_database and semantics is FilterSemantics.EFFECTIVE:
            return slave
        if slave.flags is not None:
            changed = [number for number in changed if slave.flags[number] & FILTER_BINLOG_SEND_F]
        if not changed:
            return slave
        after = replace(slave, added=(*slave.added, candidate.rule(semantics)))
        flags = self._traffic.ask_about(after.filter(self._written_by), slave.flags, changed)
        after = self._with_flags(after, flags)
        return after if after.nbytes < slave.nbytes and after.tables else slave

"""The greedy search for the few filter rules that save most bytes. It repeatedly adds the best remaining rule.

The candidates are rules for a database, for a table, and for tables with a common name prefix. A rule that drops
everything would save most. The search therefore multiplies the saved bytes by the fraction of tables that are still
sent. To check a rule, the search compares the faults (what breaks replication) that ``dumpfilter lint`` finds in the
same binlogs with and without the rule.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.analyse.by_heading import Headings
from dumpfilter.analyse.lint.findings import Code, FilterWarning
from dumpfilter.analyse.lint.knowledge import SetKnowledge
from dumpfilter.analyse.lint.linting import lint
from dumpfilter.analyse.traffic.facts import Facts, Ints, Mask, SubjectFlags, flags_of
from dumpfilter.binlog.format import NameRules
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, TableFlags
from dumpfilter.filter.rules import EffectiveRuleKind, FilterSemantics, Rule, RuleKind, escaped, make_rule
from dumpfilter.index.subjects import Subject, Subjects, TableSubject, numbers_on_tables
from dumpfilter.spark_jobs.bandwidth.job import nothing_passes
from dumpfilter.spark_jobs.engines import step
from dumpfilter.spark_jobs.suggest.results import RejectedRule
from dumpfilter.topology.slaves_file import SlaveDefinition


def tables_of(subject: Subject) -> list[TableSubject]:
    """Return the tables that belong to ``subject``, a table or statement about which filters decide. For a table the
    list has only this table, and for a statement the tables that its text shows. Tables whose database is not known are
    left out, such as a table that a statement names without a database in a session without a default database.
    """
    return [TableSubject(table.database, table.table) for table in subject.tables() if table.database]


def tables_among(subjects: Iterable[Subject]) -> list[TableSubject]:
    """Return the tables that belong to any of ``subjects`` (tables and statements), without repetitions. The tables of
    a statement are those that its text shows.
    """
    return [*dict.fromkeys(table for subject in subjects for table in tables_of(subject))]


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
    """A rule that the search for rules that save bytes tries. The rule ignores the tables of a database, one table, or
    tables with a common name prefix.
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
        worklog 2516 (effective). The field ``keeps_database`` has no effect on an effective rule.

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
    """Return the rules that a search for rules that save bytes tries, each with the total bytes of the tables that the
    rule ignores.

    ``weights`` has the bytes of each table. No rule ignores a table in ``kept`` or a table of the servers' own schemas.
    Of each kind of rules, the 60 with the most bytes are returned.
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
        if (
            table.database.lower() in SYSTEM_SCHEMAS
            or not table.database
            or "\0" in table.database + table.table
        ):
            # No rule for all databases may match such a table by chance. No rule can name a table with a NUL character.
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
"""The codes of the warnings of ``dumpfilter lint`` about faults that stop a replica or change its data. Lint's other
warnings are about rules without effect.
"""


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
    """One slave, or several with equal filters, and the traffic that one of them receives. The search for rules that
    save bytes adds rules to ``definition``, which has the slave's filter.
    """

    names: tuple[str, ...]
    definition: SlaveDefinition
    flags: SubjectFlags | None = field(default=None, compare=False)
    """The filter's verdicts about the tables and statements in :attr:`Search.subjects`, one uint32 of flags such as
    FILTER_BINLOG_SEND_F for each. None: a filter without rules.
    """
    nbytes: int = field(default=0, compare=False)
    """The bytes that one slave receives. With compressed transactions it is an estimate."""
    tables: int = field(default=0, compare=False)
    """The number of tables whose rows the filter passes."""
    nothing_passes: bool = field(default=False, compare=False)
    """Whether the filter drops all rows and all statements on tables."""

    @property
    def count(self) -> int:
        """The number of slaves that have this filter. The other attributes have the traffic of one of them, so that
        sums multiply the traffic by this number.
        """
        return len(self.names)


class Found(NamedTuple):
    """The result of a search for rules that save bytes for a slave: the suggested rules, best first, and the rules
    rejected because they would break replication.
    """

    stages: Sequence[Slave]
    """Copies of the slave with its rules and traffic: first without a suggested rule, and then after each of ``rules``.
    """
    rules: Sequence[Rule] = ()
    rejected: Sequence[RejectedRule] = ()


class Search:
    """The search for rules that save bytes for slaves.

    The bytes that a filter passes are computed from measurements, without reading the binlogs again. The attribute
    ``subjects`` has the tables and statements of the measurements. Tables that only statements name are appended, so
    that filters are also evaluated for their rows.

    Parameters:
        facts: the counts of the set's bytes, by the condition under which a filter sends them.
        names: the settings by which the binlogs' server compares schema and table names.
        kept: tables that no suggested rule may drop.
        knowledge: the data about the set that ``dumpfilter lint`` needs. A rule that would break replication is
            rejected. None: rules are not checked.
    """

    def __init__(
        self,
        facts: Facts,
        names: NameRules,
        kept: Collection[TableSubject] = (),
        knowledge: SetKnowledge | None = None,
    ) -> None:
        self._facts, self._names, self._kept, self._knowledge = facts, names, kept, knowledge
        self.subjects: Sequence[Subject] = [*dict.fromkeys((*facts.subjects, *tables_among(facts.subjects)))]
        self._is_table = np.array([isinstance(one, TableSubject) for one in self.subjects], np.bool_)
        self._is_kept = np.array([one in kept for one in self.subjects], np.bool_)
        self._headings = Headings(facts)
        self._on_tables = np.array(numbers_on_tables(facts.subjects), np.int64)
        self._faults: dict[SlaveDefinition, list[FilterWarning]] = {}
        self._subjects_of_table: dict[TableSubject, list[int]] = defaultdict(list)
        self._subjects_of_schema: dict[str, list[int]] = defaultdict(list)
        for number, subject in enumerate(self.subjects):
            for table in tables_of(subject):
                self._subjects_of_table[table].append(number)
            schemas = set(subject.schemas())
            if not isinstance(subject, TableSubject) and subject.current_database:
                schemas.add(subject.current_database)
            for schema in schemas:
                self._subjects_of_schema[schema].append(number)

    def measured(self, slave: Slave, flags: SubjectFlags | None = None) -> Slave:
        """Return a copy of ``slave`` with the figures of the traffic that its filter passes: bytes, tables, and whether
        nothing passes.

        ``flags`` has the filter's verdicts about the tables and statements in ``subjects``, one uint32 of flags (such
        as FILTER_BINLOG_SEND_F) for each. None: the filter is evaluated for all of them.
        """
        if flags is None:
            flags = flags_of(slave.definition.filter(self._names), self.subjects)
        return replace(
            slave,
            flags=flags,
            nbytes=int(self._facts.bytes[self._facts.sent(flags, slave.definition.origin)].sum()),
            tables=int(np.count_nonzero(self._passing(flags) & self._is_table)),
            nothing_passes=nothing_passes(flags, self._on_tables),
        )

    def by_name(self, slave: Slave) -> dict[str, int]:
        """Return the bytes that a slave receives, by the name under which reports count them: ``schema.table``,
        ``schema (statements)``, ``(several tables)``, or ``(no table)``.
        """
        return self._headings.by_name(
            self._facts.bytes, self._facts.sent(slave.flags, slave.definition.origin)
        )

    def plan(self, slave: Slave, most: int) -> Found:
        """Return at most ``most`` rules that together save most bytes for a slave, best first. The result also has the
        slave with its traffic after each rule, and the rejected rules. Rules are rejected if they would break
        replication.
        """
        stages, rules = [slave], list[Rule]()
        rejected: dict[Candidate, RejectedRule | None] = {}
        least = LEAST_SHARE * slave.nbytes
        while len(rules) < most and len(rejected) < _MOST_REJECTED:
            best = self._best(stages[-1], least, rejected)
            if best is None:
                break
            rule = best.candidate.rule(slave.definition.semantics)
            # A trial asks the filter only about what the rule names. A rule can also drop other statements.
            after = self.measured(_ruled(stages[-1], rule))
            if (self._is_kept & self._passing(stages[-1].flags) & ~self._passing(after.flags)).any():
                # The slave compares names without case, so that the rule matches tables of other spellings, too.
                rejected[best.candidate] = None
                continue
            fault = self._fault(stages[-1], after)
            if fault is not None:
                rejected[best.candidate] = RejectedRule(
                    rule=str(rule),
                    saving=best.saved * slave.count,
                    code=fault.code.value,
                    fault=fault.what,
                    cure=fault.cure,
                    event=str(fault.evidence[0]) if fault.evidence else "",
                )
                continue
            stages.append(after)
            rules.append(rule)
        found = filter(None, rejected.values())
        return Found(stages, rules, sorted(found, key=lambda one: -one.saving))

    def _fault(self, before: Slave, after: Slave) -> FilterWarning | None:
        """Return the first fault that a new rule adds to a slave's filter, or None. ``before`` is the slave without the
        rule, and ``after`` the slave with it. The faults are those of ``dumpfilter lint`` that break replication, and a
        rule with such a fault is rejected.
        """
        had = {(one.code, one.rules) for one in self._lint(before.definition)}
        return next((one for one in self._lint(after.definition) if (one.code, one.rules) not in had), None)

    def _lint(self, definition: SlaveDefinition) -> list[FilterWarning]:
        """Return the warnings of ``dumpfilter lint`` about faults in a slave's filter that break replication. The list
        is empty if the search has no data for lint, so that rules are not checked.
        """
        if self._knowledge is None:
            return []
        if definition not in self._faults:
            warnings = lint(definition.filter(self._names), self._knowledge)
            self._faults[definition] = [one for one in warnings if one.code in BREAKING]
        return self._faults[definition]

    def _best(self, slave: Slave, least: float, rejected: Container[Candidate]) -> _Trial | None:
        """Return the rule that saves most if it is added to a slave's filter, with its effect. None if no rule has a
        score above ``least``.

        The score is the saved bytes times the fraction of tables still sent. Rules in ``rejected`` are not tried,
        because they would break replication. No rule takes the last table from the slave.
        """
        best: _Trial | None = None
        # The weight of a candidate is at least what the candidate saves, so most candidates need not be tried.
        for candidate, weight in self._candidates(slave):
            if weight <= max(least, 0 if best is None else best.score * (1 - _EQUAL)):
                break
            if candidate in rejected:
                continue
            # A search reads nothing, and ends here after Ctrl-C.
            step(0)
            after = self._with_rule(slave, candidate)
            if slave.tables and not after.tables:
                continue
            saved = slave.nbytes - after.nbytes
            score = saved * after.tables / max(slave.tables, 1)
            if score <= least:
                continue
            narrower = best is not None and candidate.breadth < best.candidate.breadth
            if best is None or score > best.score * (1 - _EQUAL if narrower else 1 + _EQUAL):
                best = _Trial(candidate, saved, score)
        return best

    def _candidates(self, slave: Slave) -> list[tuple[Candidate, int]]:
        """Return all rules that the search may add next, each with an upper bound of the bytes that it saves, in
        descending order of this bound.
        """
        of_subject = self._weights(slave)
        weights = {
            table: int(of_subject[numbers].sum()) for table, numbers in self._subjects_of_table.items()
        }
        found = []
        for candidate, weight in candidates(weights, self._kept):
            if candidate.table is None and candidate.database is not None:
                # A rule for a database also drops statements without known tables.
                weight = int(of_subject[self._changed_by(candidate)].sum())
            found.append((candidate, weight))
        return sorted(found, key=lambda pair: (-pair[1], pair[0].breadth))

    def _weights(self, slave: Slave) -> Ints:
        """Return an integer array with an entry for each table and statement in ``subjects``: an upper bound of the
        bytes that a slave would save by dropping its events.

        Events that the slave's filter drops already count as 0. The bytes of a transaction with several tables count
        for each of them.
        """
        facts, conditions = self._facts, self._facts.conditions
        sent = facts.sent(slave.flags, slave.definition.origin)
        of_condition = np.bincount(facts.condition[sent], facts.bytes[sent], len(conditions))
        found: npt.NDArray[np.float64] = np.zeros(len(self.subjects))
        among, required = conditions.member >= 0, conditions.required >= 0
        np.add.at(found, conditions.member[among], np.repeat(of_condition, conditions.lengths)[among])
        np.add.at(found, conditions.required[required], of_condition[required])
        found[~self._passing(slave.flags)] = 0
        return np.ceil(found).astype(np.int64)

    def _passing(self, flags: SubjectFlags | None) -> Mask:
        found: Mask = (
            np.ones(len(self.subjects), np.bool_) if flags is None else flags & FILTER_BINLOG_SEND_F != 0
        )
        return found

    def _changed_by(self, candidate: Candidate) -> Sequence[int]:
        """Return the indexes in ``subjects`` of the tables and statements that a candidate rule can drop."""
        if candidate.table is None and candidate.database is not None:
            return self._subjects_of_schema[candidate.database]
        return sorted({number for table in candidate.tables for number in self._subjects_of_table[table]})

    def _with_rule(self, slave: Slave, candidate: Candidate) -> Slave:
        """Return a copy of ``slave`` with the rule of ``candidate`` and its new traffic. If the rule drops nothing,
        return the slave unchanged.

        The slave is also returned unchanged if it has effective rules (MySQL's worklog 2516) and ``candidate`` has
        ``keeps_database``. Effective rules decide by the tables that a statement changes, and cannot express such a
        candidate's rule, which passes CREATE DATABASE.
        """
        definition, passing = slave.definition, self._passing(slave.flags)
        changed = [number for number in self._changed_by(candidate) if passing[number]]
        if not changed or (candidate.keeps_database and definition.semantics is FilterSemantics.EFFECTIVE):
            return slave
        after = _ruled(slave, candidate.rule(definition.semantics))
        asked = TableFlags(after.definition.filter(self._names), Subjects())
        flags = np.full(len(self.subjects), FILTER_BINLOG_SEND_F, np.uint32)
        if slave.flags is not None:
            flags[:] = slave.flags
        flags[changed] = [asked.bits(self.subjects[number]) for number in changed]
        return self.measured(after, flags)


def _ruled(slave: Slave, rule: Rule) -> Slave:
    """Return a copy of ``slave`` with one more rule. The copy's figures (bytes and tables) are still those without the
    rule.
    """
    definition = slave.definition
    return replace(slave, definition=replace(definition, rules=(*definition.rules, str(rule))))


class _Trial(NamedTuple):
    """A rule (``candidate``) that may be added to a slave's filter, with its effect: the bytes that the rule saves
    (``saved``), and the score by which rules are compared.
    """

    candidate: Candidate
    saved: int
    score: float
    """The saved bytes times the fraction of tables still sent, by which rules are compared."""

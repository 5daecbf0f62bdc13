"""The greedy search for the few rules that save most: it repeatedly adds the best remaining rule.

A rule that drops everything would save most. The search therefore multiplies the saved bytes by the fraction of
tables that are still sent. To check a rule, it compares the faults that lint finds in the same binlogs with and
without the rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from dumpfilter.analyse.lint.findings import Code, FilterWarning
from dumpfilter.analyse.lint.knowledge import SetKnowledge
from dumpfilter.analyse.lint.linting import lint
from dumpfilter.analyse.traffic.facts import SubjectFlags
from dumpfilter.binlog.format import NameRules
from dumpfilter.filter import make_filter, parse_option
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F
from dumpfilter.filter.rules import FilterSemantics, Rule
from dumpfilter.index.subjects import TableSubject
from dumpfilter.spark_jobs.engines import step
from dumpfilter.spark_jobs.suggest.candidates import Candidate, candidates
from dumpfilter.spark_jobs.suggest.results import RejectedRule
from dumpfilter.spark_jobs.suggest.traffic import Traffic, tables_of
from dumpfilter.topology.slaves_file import SlaveDefinition

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
    """The slaves afterwards. Those for which the rule saves bytes have it."""
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
        return self._with_flags(slave, self._traffic.ask(slave.filter(self._written_by)))

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

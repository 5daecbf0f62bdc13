"""Counts of rule hits by kind (``performance_schema.replication_applier_filters.COUNTER``, WL#7361).

MySQL 9.7 counts as follows, for any ``replica_parallel_workers`` (recorded in tests/filter/data). A rule is hit when
the rule is asked and matches. The rules are asked once for each table map, not for each rows event, and once for each
statement. A do-db or ignore-db rule that matches counts, and after it the table rule that decides. GRANT on a table
counts a rule for that table and a rule for the grant tables. No match counts nothing. A rewrite counts once for each
table map, and once for each statement whose current database is renamed.

MySQL also counts rules that are asked while a statement is executed: by triggers, stored functions and DROP PROCEDURE,
and rewrites of the current database of SAVEPOINT and XA keywords. This module does not count those hits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.rules import SLAVE_RULE_KINDS, BaseRuleKind
from dumpfilter.index.subjects import Subject

Hits = Counter[BaseRuleKind]
"""Numbers of hits by kind of rule."""

KINDS = SLAVE_RULE_KINDS
"""The kinds of rule in the order of the columns of arrays of hits."""
COLUMN = {kind: number for number, kind in enumerate(KINDS)}
"""The column of each kind in arrays of hits."""


class HitCounter:
    """A counter of one filter's hits over a stream of subjects. The filter is asked once for each different subject.

    >>> from dumpfilter.index.subjects import TableSubject
    >>> from dumpfilter.filter import Filter, RuleKind
    >>> counter = HitCounter(Filter.from_options(["--replicate-ignore-db=d1"]))
    >>> counter.add([TableSubject("d1", "t")] * 2 + [TableSubject("d2", "t")])
    >>> counter.counts[RuleKind.IGNORE_DB]
    2
    """

    _MOST = 65536

    def __init__(self, rules: ReplicationFilter) -> None:
        self._rules = rules
        self._known: dict[Subject, tuple[BaseRuleKind, ...]] = {}
        self.counts: Hits = Counter()

    def add(self, subjects: Iterable[Subject]) -> None:
        """Count a table map or a statement of each of these subjects."""
        for subject in subjects:
            hits = self._known.get(subject)
            if hits is None:
                if len(self._known) >= self._MOST:
                    self._known.clear()
                hits = self._known[subject] = self._rules.hits(subject)
            for kind in hits:
                self.counts[kind] += 1

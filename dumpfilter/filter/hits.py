"""How often a filter's rules were hit, by kind (``performance_schema.replication_applier_filters.COUNTER``, WL#7361).

What MySQL 9.7 counts, whatever ``replica_parallel_workers`` is (recorded in tests/filter/data): a rule is hit when it
is asked and matches. Rows ask once for each table map, not for each rows event; a statement asks once. A do-db or
ignore-db rule that matches counts, and after it the table rule that decides; of GRANT on a table one for that table and
one for the grant tables. That no rule matched counts nowhere. A rewrite counts once for each table map and each
statement whose current database is renamed.

What it counts besides is not counted here, for it belongs to executing a statement, not to filtering: what a trigger,
a stored function or DROP PROCEDURE asks while it runs; a rewritten current database of SAVEPOINT and XA keywords.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.rules import SLAVE_RULE_KINDS, BaseRuleKind
from dumpfilter.index.subjects import Subject

Hits = Counter[BaseRuleKind]
"""How often rules of each kind were hit."""

KINDS = SLAVE_RULE_KINDS
"""The kinds of rule in the order of the columns of arrays of hits."""
COLUMN = {kind: number for number, kind in enumerate(KINDS)}
"""The column of each kind in arrays of hits."""


class HitCounter:
    """Counts the hits of one filter over the subjects that come to it; asks it once for each.

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

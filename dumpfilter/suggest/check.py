"""The faults that suggested rules would bring, as lint finds them in the same binlogs."""

from __future__ import annotations

from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.lint.findings import Code, FilterWarning
from dumpfilter.lint.knowledge import SetKnowledge
from dumpfilter.lint.linting import lint

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
"""The faults that stop a replica or change its data. The others are about rules that are written in vain."""


class Check:
    """Compares what lint says about a filter with and without a suggested rule."""

    def __init__(self, knowledge: SetKnowledge) -> None:
        self._knowledge = knowledge
        self._known: dict[object, list[FilterWarning]] = {}

    def new_faults(
        self, before: tuple[object, ReplicationFilter], after: tuple[object, ReplicationFilter]
    ) -> list[FilterWarning]:
        """Return the warnings about the filter ``after`` that the filter ``before`` does not have.

        Each filter comes with a key under which its warnings are remembered. Only faults that break a replica count.
        """
        had = {(one.code, one.rules) for one in self.faults(*before)}
        return [one for one in self.faults(*after) if (one.code, one.rules) not in had]

    def faults(self, key: object, rule_filter: ReplicationFilter) -> list[FilterWarning]:
        """Return the warnings about a filter that break a replica. They are remembered under the key."""
        if key not in self._known:
            self._known[key] = [one for one in lint(rule_filter, self._knowledge) if one.code in BREAKING]
        return self._known[key]

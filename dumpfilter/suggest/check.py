"""The faults that suggested rules would bring, as lint finds them in the same binlogs."""

from __future__ import annotations

from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.lint.findings import FilterWarning, Level
from dumpfilter.lint.knowledge import SetKnowledge
from dumpfilter.lint.linting import lint


class Check:
    """Compares what lint says about a filter with and without a suggested rule."""

    def __init__(self, knowledge: SetKnowledge) -> None:
        self._knowledge = knowledge
        self._known: dict[object, list[FilterWarning]] = {}

    def new_faults(
        self, before: tuple[object, ReplicationFilter], after: ReplicationFilter
    ) -> list[FilterWarning]:
        """Return the warnings about the filter ``after`` that the filter ``before`` does not have.

        ``before`` has a key under which its warnings are remembered. Notes do not count.
        """
        key, rule_filter = before
        if key not in self._known:
            self._known[key] = lint(rule_filter, self._knowledge)
        had = {(one.code, one.rules) for one in self._known[key]}
        return [
            one
            for one in lint(after, self._knowledge)
            if one.level is Level.WARNING and (one.code, one.rules) not in had
        ]

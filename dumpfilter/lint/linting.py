"""Lint: the warnings about a filter, for the binlog set that the filter is meant for."""

from __future__ import annotations

from dumpfilter.filter import ReplicationFilter
from dumpfilter.lint.findings import FilterWarning
from dumpfilter.lint.knowledge import SetKnowledge


def lint(rule_filter: ReplicationFilter, knowledge: SetKnowledge) -> list[FilterWarning]:
    """Return the warnings about a filter, for the set that ``knowledge`` describes. Those of rules come first."""
    return []

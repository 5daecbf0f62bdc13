"""The replication filters: options → rules → decisions → flags per table."""

from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.decision import Decision, Step
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import Rule, RuleKind, make_rule, parse_option
from dumpfilter.filter.verdict import Verdict

__all__ = [
    "Decision",
    "Filter",
    "ReplicationFilter",
    "Rule",
    "RuleKind",
    "Step",
    "Verdict",
    "make_rule",
    "parse_option",
]

"""The replication filters: options → rules → decisions → flags per table."""

from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.decision import Decision, Step
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.factory import make_filter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import (
    EffectiveRuleKind,
    FilterSemantics,
    Rule,
    RuleKind,
    make_rule,
    parse_option,
)
from dumpfilter.filter.verdict import Verdict
from dumpfilter.filter.write import WriteFilter, WriteRuleKind, WriteSemantics

__all__ = [
    "Decision",
    "EffectiveFilter",
    "EffectiveRuleKind",
    "Filter",
    "FilterSemantics",
    "ReplicationFilter",
    "Rule",
    "RuleKind",
    "Step",
    "Verdict",
    "WriteFilter",
    "WriteRuleKind",
    "WriteSemantics",
    "make_filter",
    "make_rule",
    "parse_option",
]

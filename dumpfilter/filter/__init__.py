"""The replication filters: options → rules → verdicts → flags per table."""

from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import Rule, RuleKind, make_rule, parse_option
from dumpfilter.filter.verdict import Verdict

__all__ = ["Filter", "Rule", "RuleKind", "Verdict", "make_rule", "parse_option"]

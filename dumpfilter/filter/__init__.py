"""Replication filters: the rules, and the classes that decide by rules which events of a binlog a slave is sent.

Enters: options such as ``--replicate-do-db=shop``. Leaves: verdicts about tables and statements, with the rule that
decided. The package imports index, binlog and base.

Python imports the names below when they are first used. ``dumpfilter --help`` needs the table of rule kinds and must
not wait for compiled code, which the filters load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dumpfilter.base.lazy import lazy_names

if TYPE_CHECKING:
    from dumpfilter.filter.base import Decision as Decision
    from dumpfilter.filter.base import ReplicationFilter as ReplicationFilter
    from dumpfilter.filter.base import Step as Step
    from dumpfilter.filter.base import Verdict as Verdict
    from dumpfilter.filter.effective import EffectiveFilter as EffectiveFilter
    from dumpfilter.filter.filter import Filter as Filter
    from dumpfilter.filter.filter import WriteFilter as WriteFilter
    from dumpfilter.filter.filter import make_filter as make_filter
    from dumpfilter.filter.rules import EffectiveRuleKind as EffectiveRuleKind
    from dumpfilter.filter.rules import FilterSemantics as FilterSemantics
    from dumpfilter.filter.rules import Rule as Rule
    from dumpfilter.filter.rules import RuleKind as RuleKind
    from dumpfilter.filter.rules import WriteRuleKind as WriteRuleKind
    from dumpfilter.filter.rules import WriteSemantics as WriteSemantics
    from dumpfilter.filter.rules import make_rule as make_rule
    from dumpfilter.filter.rules import parse_option as parse_option

__getattr__ = lazy_names(__name__, ("rules", "base", "effective", "filter"))

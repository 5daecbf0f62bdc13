"""Replication filters: the rules, and the classes that decide by rules which events of a binlog a slave is sent.

Enters: options such as ``--replicate-do-db=shop``. Leaves: verdicts about tables and statements, with the rule that
decided. The package imports index, binlog and base.

Python imports the names below when they are first used. ``dumpfilter --help`` needs the table of rule kinds and must
not wait for compiled code, which the filters load.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dumpfilter.filter.base import ReplicationFilter
    from dumpfilter.filter.decision import Decision, Step, Verdict
    from dumpfilter.filter.effective import EffectiveFilter
    from dumpfilter.filter.factory import make_filter
    from dumpfilter.filter.filter import Filter
    from dumpfilter.filter.rules import (
        EffectiveRuleKind,
        FilterSemantics,
        Rule,
        RuleKind,
        WriteRuleKind,
        WriteSemantics,
        make_rule,
        parse_option,
    )
    from dumpfilter.filter.write import WriteFilter

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

_MODULE_BY_NAME = {
    "ReplicationFilter": "base",
    "Decision": "decision",
    "Step": "decision",
    "Verdict": "decision",
    "EffectiveFilter": "effective",
    "make_filter": "factory",
    "Filter": "filter",
    "WriteFilter": "write",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULE_BY_NAME.get(name, 'rules')}")
    return getattr(module, name)

"""From semantics and rules to the filter that reads them so, of a slave and of a binlog."""

from __future__ import annotations

from collections.abc import Iterable

from dumpfilter.binlog.format import NameRules
from dumpfilter.errors import OptionError
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import EffectiveRuleKind, FilterSemantics, Rule, WriteSemantics
from dumpfilter.filter.write import WriteFilter


def make_filter(
    semantics: FilterSemantics,
    rules: Iterable[Rule],
    *,
    names: NameRules = NameRules(),
) -> ReplicationFilter:
    """A slave's filter. Raises OptionError for a rule that these semantics do not know."""
    rules = tuple(rules)
    for rule in rules:
        semantics.check(rule.kind)
    kind = EffectiveFilter if semantics is FilterSemantics.EFFECTIVE else Filter
    return kind(rules, names=names)


def make_write_filter(
    semantics: WriteSemantics,
    rules: Iterable[Rule],
    *,
    names: NameRules = NameRules(),
) -> ReplicationFilter:
    """A binlog's filter. In effective semantics its rules are DO and IGNORE (a binlog renames nothing), and the
    server's are unknown; otherwise the reverse. Raises OptionError.

    >>> from dumpfilter.filter.rules import parse_clause
    >>> binlog = make_write_filter(WriteSemantics.EFFECTIVE, [parse_clause("IGNORE='%_backup.table2'")])
    >>> binlog.rows_ok("shop_backup", "table2"), binlog.rows_ok("shop", "table2")
    (False, True)
    """
    rules = tuple(rules)
    if semantics is not WriteSemantics.EFFECTIVE:
        return WriteFilter(rules, semantics=semantics, names=names)
    for rule in rules:
        if rule.kind not in (EffectiveRuleKind.DO, EffectiveRuleKind.IGNORE):
            raise OptionError(
                f"unknown option '--{rule.kind.option}' in effective filter semantics; the binlog's are: "
                "--binlog-do, --binlog-ignore"
            )
    return EffectiveFilter(rules, names=names)

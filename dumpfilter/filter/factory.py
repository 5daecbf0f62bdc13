"""From options, semantics and rules to the filter that reads the rules so, for a slave and for a binlog."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.errors import OptionError
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.kinds import KindFilter
from dumpfilter.filter.rules import EffectiveRuleKind, FilterSemantics, Rule, WriteSemantics
from dumpfilter.filter.write import WriteFilter


@dataclass(frozen=True)
class FilterOptions:
    """The filter of a command, from its options to the filters that the dump thread asks.

    Filters compare names as the binlog's server does. They are made when the binlog is open.
    """

    rules: tuple[Rule, ...] = ()
    """The slave's rules."""
    semantics: FilterSemantics = FilterSemantics.CLASSIC
    write_rules: tuple[Rule, ...] = ()
    """The write side's rules."""
    write_semantics: WriteSemantics = WriteSemantics.SERVER
    only_kinds: tuple[str, ...] = ()
    """``--statement-kind``: the kinds of statement that pass. Empty: all kinds."""
    ignored_kinds: tuple[str, ...] = ()
    """``--ignore-statement-kind``: the kinds of statement that are dropped."""
    clever: bool = False
    """Whether the filter follows tables (see :class:`~dumpfilter.filter.clever.CleverFilter`)."""
    lower_case_table_names: int = 0

    def __post_init__(self) -> None:
        self.kind_filter()
        self.slave_filter(NameRules())
        self.write_filter(NameRules())

    def slave_filter(self, written_by: NameRules) -> ReplicationFilter:
        """Return the slave's filter for a binlog of this server. Raises OptionError for a rule of other semantics."""
        return make_filter(self.semantics, self.rules, names=self._names(written_by))

    def write_filter(self, written_by: NameRules) -> ReplicationFilter:
        """Return the write side's filter for a binlog of this server. Raises OptionError as slave_filter does."""
        return make_write_filter(self.write_semantics, self.write_rules, names=self._names(written_by))

    def kind_filter(self) -> KindFilter:
        """Return the filter of kinds of statement. Raises OptionError for a kind that does not exist."""
        return KindFilter(self.only_kinds, self.ignored_kinds)

    def _names(self, written_by: NameRules) -> NameRules:
        return written_by._replace(lower_case_table_names=self.lower_case_table_names)


def make_filter(
    semantics: FilterSemantics,
    rules: Iterable[Rule],
    *,
    names: NameRules = DEFAULT_NAMES,
) -> ReplicationFilter:
    """Return a slave's filter. Raises OptionError for a rule that the semantics do not have."""
    rules = tuple(rules)
    for rule in rules:
        semantics.check(rule.kind)
    kind = EffectiveFilter if semantics is FilterSemantics.EFFECTIVE else Filter
    return kind(rules, names=names)


def make_write_filter(
    semantics: WriteSemantics,
    rules: Iterable[Rule],
    *,
    names: NameRules = DEFAULT_NAMES,
) -> ReplicationFilter:
    """Return the filter of a binlog's write side.

    In effective semantics the rules are DO and IGNORE, since a binlog renames nothing. In the other semantics they
    are ``--binlog-do-db`` and ``--binlog-ignore-db``. Raises OptionError for a rule of other semantics.

    >>> from dumpfilter.filter.rules import parse_clause
    >>> binlog = make_write_filter(WriteSemantics.EFFECTIVE, [parse_clause("IGNORE='%_backup.table2'")])
    >>> binlog.rows_ok("shop_backup", "table2"), binlog.rows_ok("shop", "table2")
    (False, True)
    """
    rules = tuple(rules)
    if semantics is not WriteSemantics.EFFECTIVE:
        return WriteFilter(rules, semantics=semantics, names=names)
    for rule in rules:
        if not isinstance(rule.kind, EffectiveRuleKind) or not rule.kind.binlog_option:
            options = ", ".join(f"--{kind.binlog_option}" for kind in EffectiveRuleKind if kind.binlog_option)
            raise OptionError(
                f"unknown option '--{rule.kind.option}' in effective filter semantics; the binlog's are: {options}"
            )
    return EffectiveFilter(rules, names=names)

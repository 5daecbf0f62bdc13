"""Construction of filters from rules: the filter of a slave, and the filter of the server that writes a binlog."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.kinds import KindFilter
from dumpfilter.filter.rules import EffectiveRuleKind, FilterSemantics, Rule, RuleKind, WriteSemantics
from dumpfilter.filter.write import WriteFilter


@dataclass(frozen=True)
class FilterOptions:
    """The filter options of a command, such as ``--replicate-do-db``, from which the command's filters are made.

    The filters are made later, when the binlog is open. Filters compare names as the server that wrote the binlog does,
    and only the binlog tells which server that is. The constructor raises OptionError for rules that no filter accepts.
    """

    rules: tuple[Rule, ...] = ()
    """The rules of the slave, such as ``--replicate-do-db=shop``."""
    semantics: FilterSemantics = FilterSemantics.CLASSIC
    write_rules: tuple[Rule, ...] = ()
    """The rules of the server that writes the binlog, such as ``--binlog-do-db=shop``."""
    write_semantics: WriteSemantics = WriteSemantics.SERVER
    only_kinds: tuple[str, ...] = ()
    """``--statement-kind``: the kinds of statement that pass. Empty: all kinds."""
    ignored_kinds: tuple[str, ...] = ()
    """``--ignore-statement-kind``: the kinds of statement that are dropped."""
    clever: bool = False
    """Whether the rules apply to renamed tables under their first name (the clever filter)."""
    lower_case_table_names: int = 0

    def __post_init__(self) -> None:
        self.kind_filter()
        self.slave_filter(NameRules())
        self.write_filter(NameRules())

    @property
    def has_database_rules(self) -> bool:
        """Whether any rule is about databases, so that a statement's default database may decide whether the statement
        passes.
        """
        kinds = {rule.kind for rule in self.rules}
        return bool(self.write_rules or kinds & {RuleKind.DO_DB, RuleKind.IGNORE_DB})

    def slave_filter(self, written_by: NameRules) -> ReplicationFilter:
        """Return the slave's filter. ``written_by`` has the settings by which the server that wrote the binlog compares
        names.

        Raises OptionError when effective rules (DO, IGNORE, REWRITE) and classic rules (``--replicate-*``) are mixed.
        """
        return make_filter(self.semantics, self.rules, names=self._names(written_by))

    def write_filter(self, written_by: NameRules) -> ReplicationFilter:
        """Return the filter by which the server that wrote the binlog kept events out of it (``--binlog-do-db`` and the
        like).

        ``written_by`` has the settings by which this server compares names. Raises OptionError for a rule that the
        semantics ``write_semantics`` do not have.
        """
        return make_write_filter(self.write_semantics, self.write_rules, names=self._names(written_by))

    def kind_filter(self) -> KindFilter:
        """Return the filter of the options ``--statement-kind`` and ``--ignore-statement-kind``, which drops statements
        by their kind, such as DROP TABLE.

        Raises OptionError for a kind that does not exist.
        """
        return KindFilter(self.only_kinds, self.ignored_kinds)

    def _names(self, written_by: NameRules) -> NameRules:
        return written_by._replace(lower_case_table_names=self.lower_case_table_names)


def make_filter(
    semantics: FilterSemantics,
    rules: Iterable[Rule],
    *,
    names: NameRules = DEFAULT_NAMES,
) -> ReplicationFilter:
    """Return a slave's filter with the given rules. ``names`` has the settings by which the filter compares names.

    Classic semantics take ``--replicate-*`` rules, and effective semantics take DO, IGNORE and REWRITE rules. Raises
    OptionError for a rule of the other semantics.
    """
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
    """Return the filter of the server that writes a binlog. The filter keeps events out of the binlog for all slaves.

    In effective semantics the rules are DO and IGNORE. REWRITE is missing, since a server renames nothing in its
    binlog. The other semantics take ``--binlog-do-db`` and ``--binlog-ignore-db``. Raises OptionError for other rules.

    >>> from dumpfilter.filter.rules import parse_option
    >>> rule = parse_option("--ignore=%_backup.table2", FilterSemantics.EFFECTIVE)
    >>> binlog = make_write_filter(WriteSemantics.EFFECTIVE, [rule])
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

"""The filter options of ``dumpfilter binlog``: rules such as ``--replicate-do-db``, and kinds of statements."""

from __future__ import annotations

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import Settings, repeated, setting
from dumpfilter.commands.option_groups.rules import Rules, rule_option
from dumpfilter.filter.factory import FilterOptions
from dumpfilter.filter.rules import Rule, RuleKind, WriteRuleKind, make_rule, make_rules

_REWRITE = "FROM->TO: the rules compare TO, and the text has TO. With --raw the events keep FROM."


class BinlogFilterOptions(Settings, panel="Filter"):
    """The filter options of ``dumpfilter binlog``.

    They are a replica's options such as ``--replicate-do-db``, a master's such as ``--binlog-do-db``, and the shorter
    spellings that WL#40 proposes, such as ``--do-db``.
    """

    rules: Rules = repeated(rule_option(kind, _REWRITE if kind.is_rewrite else "") for kind in RuleKind)
    worklog_rules: Rules = repeated(
        rule_option(kind, f"The same as --{kind.option}.", kind.worklog_option)
        for kind in RuleKind
        if kind.worklog_option
    )
    lower_case_table_names: int = setting(0, min=0, max=2)
    """How names compare: 0 as they are, 1 and 2 without case."""
    clever: bool = False
    """Follow tables: renamed tables keep their verdict under the new name. A table is ignored when its CREATE TABLE
    … LIKE or SELECT is left out because it needs an ignored one."""
    statement_kind: list[str] | None = setting(None, metavar="KIND")
    """Only statements of this kind (INSERT, create-table …); ROWS stands for row events. Repeatable."""
    ignore_statement_kind: list[str] | None = setting(None, metavar="KIND")
    """No statements of this kind. Repeatable."""
    write_rules: Rules = repeated(
        [
            rule_option(WriteRuleKind.DO_DB, "Keep only what a master with this rule would have written."),
            rule_option(WriteRuleKind.IGNORE_DB, "Drop what a master with this rule would not have written."),
        ]
    )

    def filter_options(self) -> FilterOptions:
        """Return the filter that the options describe.

        Raises OptionError for a bad value, and for a kind of rule that has values under both of its names.
        """
        return FilterOptions(
            rules=tuple(rule for kind in RuleKind for rule in self._rules(kind)),
            write_rules=tuple(make_rules(self.write_rules)),
            only_kinds=tuple(self.statement_kind or ()),
            ignored_kinds=tuple(self.ignore_statement_kind or ()),
            clever=self.clever,
            lower_case_table_names=self.lower_case_table_names,
        )

    def _rules(self, kind: RuleKind) -> list[Rule]:
        short = f"--{kind.worklog_option}"
        values = self.rules.get(kind, ())
        if kind not in self.worklog_rules:
            return [make_rule(kind, value) for value in values]
        if values:
            raise OptionError(f"--{kind.option} and {short} are the same rule: use one of the two")
        try:
            return [make_rule(kind, value) for value in self.worklog_rules[kind]]
        except OptionError as error:
            raise OptionError(str(error).replace(f"--{kind.option}", short)) from None

"""The options of filters, one for each kind of filter rule, such as ``--replicate-do-db``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import SkipValidation

from dumpfilter.base.options.settings import Repeated, Settings, repeated, setting
from dumpfilter.filter.rules import (
    SLAVE_RULE_KINDS,
    BaseRuleKind,
    EffectiveRuleKind,
    FilterSemantics,
    WriteRuleKind,
    WriteSemantics,
    make_rule,
    make_rules,
)

if TYPE_CHECKING:
    from dumpfilter.filter.channels import ChannelFilters
    from dumpfilter.filter.filter import FilterOptions

Rules = Annotated[Mapping[BaseRuleKind, Sequence[str]], SkipValidation]
"""The values of the filter options that the user gave, by kind of rule."""

WRITE_PANEL = "Write side"


def rule_option(kind: BaseRuleKind, help: str = "", name: str = "") -> Repeated:
    """Return the command line option for a kind of filter rule, such as ``--replicate-do-db`` for Replicate_Do_DB.

    ``help`` and ``name``, unless empty, replace the help text and the option's name that the kind itself has.
    """
    return Repeated(name or kind.option, kind, help or kind.help, kind.metavar)


class SlaveFilterOptions(Settings, panel="Filter"):
    """The options of a slave's filter: rules such as ``--replicate-do-db``, their semantics, and how names compare."""

    rules: Rules = repeated(map(rule_option, SLAVE_RULE_KINDS))
    filter_semantics: FilterSemantics = FilterSemantics.CLASSIC
    """classic: the --replicate-* rules. effective: --do, --ignore and --rewrite, which look at what a statement changes
    and never at the current database."""
    lower_case_table_names: int = setting(0, min=0, max=2)
    """The comparison of names of databases and tables: 0 with case, 1 and 2 without case."""

    def channel_filters(self) -> ChannelFilters:
        """Return the filter of each of the slave's channels, from the rules in these options.

        A rule such as ``ch1:shop`` is for the channel ``ch1``, and a rule without a channel's name is for all channels
        without a rule of this kind. Raises OptionError for a rule that the chosen ``--filter-semantics`` do not have.
        """
        from dumpfilter.filter.channels import ChannelFilters, split_channel

        filters = ChannelFilters()
        for kind, values in self.rules.items():
            self.filter_semantics.check(kind)
            for value in values:
                channel, rule = split_channel(value)
                filters.startup(channel, [make_rule(kind, rule)])
        return filters

    def filter_options(self, written: WriteRuleOptions | None = None) -> FilterOptions:
        """Return the slave's filter from the rules in these options, together with the rules of the server that writes
        the binlog.

        ``written`` has the rules by which that server keeps databases out of its binlog; None: it writes everything.
        Raises OptionError for a bad value.
        """
        from dumpfilter.filter.filter import FilterOptions

        written = written or WriteRuleOptions()
        return FilterOptions(
            rules=tuple(make_rules(self.rules)),
            semantics=self.filter_semantics,
            write_rules=tuple(make_rules(written.write_rules)),
            write_semantics=written.binlog_filter_semantics,
            lower_case_table_names=self.lower_case_table_names,
        )


class WriteRuleOptions(Settings, panel=WRITE_PANEL):
    """The rules by which the server that writes a binlog keeps databases out of it, such as ``--binlog-do-db``."""

    write_rules: Rules = repeated(map(rule_option, WriteRuleKind))
    binlog_filter_semantics: WriteSemantics = WriteSemantics.SERVER
    """Statements without a current database, under any rule: server: as the binlog's server does (MySQL writes them; in
    MariaDB they are in no database). worklog: not written. effective: --binlog-do and --binlog-ignore, by what is
    changed, instead."""


_EFFECTIVE = {
    EffectiveRuleKind.DO: "Keep changes of tables that match, although --binlog-ignore matches them too.",
    EffectiveRuleKind.IGNORE: "Drop changes of tables that match.",
}


class MasterRuleOptions(WriteRuleOptions, panel=WRITE_PANEL):
    """The rules by which a master hides events from all its slaves.

    They are ``--binlog-do-db`` and ``--binlog-ignore-db``, or the effective rules ``--binlog-do`` and
    ``--binlog-ignore``, which look at the tables that a statement changes.
    """

    write_rules: Rules = repeated(
        [
            *map(rule_option, WriteRuleKind),
            *(
                rule_option(kind, f"{text} Effective semantics.", kind.binlog_option)
                for kind, text in _EFFECTIVE.items()
            ),
        ]
    )
    lower_case_table_names: int = setting(0, min=0, max=2)
    """The comparison of names in the --binlog-do-db and --binlog-ignore-db rules: 0 with case, 1 and 2 without case."""

"""The options of a slave's filter, one for each kind of rule, such as ``--replicate-do-db``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

import typer

from dumpfilter.filter.rules import (
    BaseRuleKind,
    EffectiveRuleKind,
    FilterSemantics,
    RuleKind,
    make_rule,
)
from dumpfilter.options.group import OptionGroup, option

if TYPE_CHECKING:
    from dumpfilter.filter.channels import ChannelFilters

PANEL = "Filter"

Kind = TypeVar("Kind", bound=BaseRuleKind)


def names_option(side: str, panel: str = PANEL) -> Parameter:
    """Return the option ``--lower-case-table-names``, which says how rules compare names.

    ``side`` is a phrase for the option's help that says whose names are compared.
    """
    help = f"How {side} compare: 0 as they are, 1 and 2 without case."
    info = typer.Option(help=help, min=0, max=2, rich_help_panel=panel)
    return option("lower_case_table_names", Annotated[int, info], 0)


def rule_option(name: str, kind: BaseRuleKind, help: str = "", panel: str = PANEL) -> Parameter:
    """Return the repeatable option that adds filter rules of one kind, such as ``--replicate-do-db``.

    ``name`` is the option's name without dashes at the front. ``help`` replaces the kind's own help text.
    """
    help = f"{help or kind.help} Repeatable."
    info = typer.Option(f"--{name}", help=help, metavar=kind.metavar, rich_help_panel=panel)
    return option(parameter_name(name), Annotated[list[str] | None, info])


def parameter_name(name: str) -> str:
    """Return the Python parameter name for an option name: ``do_db`` for ``do-db``."""
    return name.replace("-", "_")


def gather(values: Mapping[str, Any], options: Iterable[tuple[str, Kind]]) -> Mapping[Kind, Sequence[str]]:
    """Collect the values of all rule options that the user gave, for each kind of rule.

    ``options`` lists the options with their kinds. ``values`` has the values that Typer parsed, by parameter name.
    """
    return {kind: given for name, kind in options if (given := values[parameter_name(name)])}


@dataclass(frozen=True)
class SlaveFilterOptions(OptionGroup):
    """The options of a slave's filter: rules such as ``--replicate-do-db``, their semantics, and case of names."""

    values: Mapping[BaseRuleKind, Sequence[str]]
    semantics: FilterSemantics
    lower_case_table_names: int

    _OPTIONS = tuple((kind.option, kind) for kind in (*RuleKind, *EffectiveRuleKind))

    @classmethod
    def parameters(cls) -> Iterator[Parameter]:
        """Yield the group's options in the order of ``--help``, as parameters of a function for Typer."""
        semantics = typer.Option(
            help="classic: the --replicate-* rules. effective: --do, --ignore and --rewrite, which look at what a "
            "statement changes and never at the current database.",
            rich_help_panel=PANEL,
        )
        for name, kind in cls._OPTIONS:
            yield rule_option(name, kind)
        yield option("filter_semantics", Annotated[FilterSemantics, semantics], FilterSemantics.CLASSIC)
        yield names_option("names")

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Return a group object for the values that Typer parsed, by parameter name."""
        rules = gather(values, cls._OPTIONS)
        return cls(rules, values["filter_semantics"], values["lower_case_table_names"])

    def channel_filters(self) -> ChannelFilters:
        """Return the filters of the channels. Raises OptionError for rules that contradict the semantics."""
        from dumpfilter.filter.channels import ChannelFilters, split_channel

        filters = ChannelFilters()
        for kind, values in self.values.items():
            self.semantics.check(kind)
            for value in values:
                channel, rule = split_channel(value)
                filters.startup(channel, [make_rule(kind, rule)])
        return filters

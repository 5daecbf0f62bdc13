"""The options of filters. One option for each kind of rule comes from the table of rule kinds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Annotated, Any, Self, TypeVar

import typer

from dumpfilter.commands.option_groups.group import OptionGroup, option
from dumpfilter.filter.rules import (
    BaseRuleKind,
    EffectiveRuleKind,
    FilterSemantics,
    RuleKind,
)

PANEL = "Filter"

Kind = TypeVar("Kind", bound=BaseRuleKind)


def names_option(side: str, panel: str = PANEL) -> Parameter:
    """Return ``--lower-case-table-names``. ``side`` says in the help whose names are compared."""
    help = f"How {side} compare: 0 as they are, 1 and 2 without case."
    info = typer.Option(help=help, min=0, max=2, rich_help_panel=panel)
    return option("lower_case_table_names", Annotated[int, info], 0)


def rule_option(name: str, kind: BaseRuleKind, help: str = "", panel: str = PANEL) -> Parameter:
    """Return the repeatable option ``--name`` for rules of a kind."""
    help = f"{help or kind.help} Repeatable."
    info = typer.Option(f"--{name}", help=help, metavar=kind.metavar, rich_help_panel=panel)
    return option(parameter_name(name), Annotated[list[str] | None, info])


def parameter_name(name: str) -> str:
    """Return the name of the parameter for an option."""
    return name.replace("-", "_")


def gather(values: Mapping[str, Any], options: Iterable[tuple[str, Kind]]) -> Mapping[Kind, Sequence[str]]:
    """Return the values of the rule options that are given, by kind of rule."""
    return {kind: given for name, kind in options if (given := values[parameter_name(name)])}


@dataclass(frozen=True)
class SlaveFilterOptions(OptionGroup):
    """A slave's filter, as its options describe it. Every kind of rule has an option."""

    values: Mapping[BaseRuleKind, Sequence[str]]
    semantics: FilterSemantics
    lower_case_table_names: int

    _OPTIONS = tuple((kind.option, kind) for kind in (*RuleKind, *EffectiveRuleKind))

    @classmethod
    def parameters(cls) -> Iterator[Parameter]:
        """Yield the options of the rules, and the two that say how the rules are read."""
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
        """Return the group for the values of its options."""
        rules = gather(values, cls._OPTIONS)
        return cls(rules, values["filter_semantics"], values["lower_case_table_names"])

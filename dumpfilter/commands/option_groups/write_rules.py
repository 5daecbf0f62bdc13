"""The options for rules like ``--binlog-do-db``, by which a server keeps events out of its binlog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Annotated, Any, Self

import typer

from dumpfilter.commands.option_groups.rules import gather, names_option, rule_option
from dumpfilter.filter.rules import (
    BaseRuleKind,
    EffectiveRuleKind,
    WriteRuleKind,
    WriteSemantics,
)
from dumpfilter.options.group import OptionGroup, option

PANEL = "Write side"


@dataclass(frozen=True)
class WriteRuleOptions(OptionGroup):
    """The options ``--binlog-do-db`` and ``--binlog-ignore-db``, by which a server keeps databases out of its binlog.

    ``--binlog-filter-semantics`` says how these rules treat statements without a current database.
    """

    values: Mapping[BaseRuleKind, Sequence[str]]
    semantics: WriteSemantics

    _OPTIONS = tuple((kind.option, kind) for kind in WriteRuleKind)

    @classmethod
    def parameters(cls) -> Iterator[Parameter]:
        """Yield the group's options in the order of ``--help``, as parameters of a function for Typer."""
        semantics = typer.Option(
            help="Statements without a current database, under any rule: server: as the binlog's server does "
            "(MySQL writes them; in MariaDB they are in no database). worklog: not written. effective: "
            "--binlog-do and --binlog-ignore, by what is changed, instead.",
            rich_help_panel=PANEL,
        )
        for name, kind in cls._OPTIONS:
            yield rule_option(name, kind, panel=PANEL)
        yield option("binlog_filter_semantics", Annotated[WriteSemantics, semantics], WriteSemantics.SERVER)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Return a group object for the values that Typer parsed, by parameter name."""
        return cls(gather(values, cls._OPTIONS), values["binlog_filter_semantics"])


_EFFECTIVE_HELP = {
    EffectiveRuleKind.DO: "Keep changes of tables that match, although --binlog-ignore matches them too.",
    EffectiveRuleKind.IGNORE: "Drop changes of tables that match.",
}


@dataclass(frozen=True)
class MasterRuleOptions(WriteRuleOptions):
    """The options for rules that make a master hide events from all its slaves.

    They are ``--binlog-do-db`` and ``--binlog-ignore-db``, or the effective rules ``--binlog-do`` and
    ``--binlog-ignore``, which look at the tables that a statement changes.
    """

    lower_case_table_names: int = 0

    _EFFECTIVE = tuple((kind.binlog_option, kind) for kind in EffectiveRuleKind if kind.binlog_option)

    @classmethod
    def parameters(cls) -> Iterator[Parameter]:
        """Yield the group's options in the order of ``--help``, as parameters of a function for Typer."""
        *rules, semantics = super().parameters()
        yield from rules
        for name, kind in cls._EFFECTIVE:
            yield rule_option(name, kind, f"{_EFFECTIVE_HELP[kind]} Effective semantics.", PANEL)
        yield semantics
        yield names_option("the write side's names", PANEL)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Return a group object for the values that Typer parsed, by parameter name."""
        rules: dict[BaseRuleKind, Sequence[str]] = {}
        rules.update(gather(values, cls._OPTIONS))
        rules.update(gather(values, cls._EFFECTIVE))
        return cls(rules, values["binlog_filter_semantics"], values["lower_case_table_names"])

"""The filter options of ``dumpfilter binlog``: rules such as ``--replicate-do-db``, and kinds of statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Annotated, Any, Self

import typer

from dumpfilter.commands.option_groups.rules import PANEL, gather, names_option, rule_option
from dumpfilter.filter.rules import RuleKind, WriteRuleKind
from dumpfilter.options.group import OptionGroup, option

_REWRITE_HELP = "FROM->TO: the rules compare TO, and the text has TO. With --raw the events keep FROM."
_WRITE_HELP = {
    WriteRuleKind.DO_DB: "Keep only what a master with this rule would have written.",
    WriteRuleKind.IGNORE_DB: "Drop what a master with this rule would not have written.",
}


@dataclass(frozen=True)
class BinlogFilterOptions(OptionGroup):
    """The filter options of ``dumpfilter binlog``.

    They are a replica's options such as ``--replicate-do-db``, a master's such as ``--binlog-do-db``, and the shorter
    spellings that WL#40 proposes, such as ``--do-db``.
    """

    values: Mapping[RuleKind, Sequence[str]]
    worklog_values: Mapping[RuleKind, Sequence[str]]
    """The values of the options in WL#40's spelling (``--do-db``), for each kind of rule such as RuleKind.DO_DB."""
    write_values: Mapping[WriteRuleKind, Sequence[str]]
    lower_case_table_names: int
    clever: bool
    statement_kinds: Sequence[str]
    ignored_statement_kinds: Sequence[str]

    _SERVER = tuple((kind.option, kind) for kind in RuleKind)
    _WORKLOG = tuple((kind.worklog_option, kind) for kind in RuleKind if kind.worklog_option)
    _WRITE = tuple((kind.option, kind) for kind in WriteRuleKind)

    @classmethod
    def parameters(cls) -> Iterator[Parameter]:
        """Yield the group's options in the order of ``--help``, as parameters of a function for Typer."""
        for name, kind in cls._SERVER:
            yield rule_option(name, kind, _REWRITE_HELP if kind.is_rewrite else "")
        for name, kind in cls._WORKLOG:
            yield rule_option(name, kind, f"The same as --{kind.option}.")
        yield names_option("names")
        clever = typer.Option(
            "--clever",
            help="Follow tables: renamed tables keep their verdict under the new name, and a table is ignored when its "
            "CREATE TABLE … LIKE or SELECT is left out because it needs an ignored one.",
            rich_help_panel=PANEL,
        )
        yield option("clever", Annotated[bool, clever], False)
        yield _kinds(
            "statement_kind",
            "Only statements of this kind (INSERT, create-table …); ROWS stands for row events. Repeatable.",
        )
        yield _kinds("ignore_statement_kind", "No statements of this kind. Repeatable.")
        for name, write_kind in cls._WRITE:
            yield rule_option(name, write_kind, _WRITE_HELP[write_kind])

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Return a group object for the values that Typer parsed, by parameter name."""
        return cls(
            gather(values, cls._SERVER),
            gather(values, cls._WORKLOG),
            gather(values, cls._WRITE),
            values["lower_case_table_names"],
            values["clever"],
            values["statement_kind"] or (),
            values["ignore_statement_kind"] or (),
        )


def _kinds(name: str, help: str) -> Parameter:
    info = typer.Option(help=help, metavar="KIND", rich_help_panel=PANEL)
    return option(name, Annotated[list[str] | None, info])

"""The options of a slave's filter, which several sub-commands have."""

from __future__ import annotations

import enum
from typing import Annotated

import typer


class Semantics(enum.StrEnum):
    """How the filter's rules are read."""

    CLASSIC = "classic"
    EFFECTIVE = "effective"


_RULE = "A rule of the slave's filter, as mysqld and mariadbd spell it. Repeatable."


def rule_option(name: str, help: str = _RULE) -> object:
    """The option of one kind of rule."""
    return typer.Option(f"--{name}", help=help, metavar="RULE", rich_help_panel="Filter")


Rules = list[str] | None
DoDb = Annotated[Rules, rule_option("replicate-do-db")]
IgnoreDb = Annotated[Rules, rule_option("replicate-ignore-db")]
DoTable = Annotated[Rules, rule_option("replicate-do-table")]
IgnoreTable = Annotated[Rules, rule_option("replicate-ignore-table")]
WildDoTable = Annotated[Rules, rule_option("replicate-wild-do-table")]
WildIgnoreTable = Annotated[Rules, rule_option("replicate-wild-ignore-table")]
RewriteDb = Annotated[Rules, rule_option("replicate-rewrite-db")]

Do = Annotated[Rules, rule_option("do", "Pass db.table although --ignore matches it. Repeatable.")]
Ignore = Annotated[Rules, rule_option("ignore", "Drop db.table. Repeatable.")]
Rewrite = Annotated[Rules, rule_option("rewrite", "Call db1.% db2.% (db1.%->db2.%). Repeatable.")]

FilterSemantics = Annotated[
    Semantics,
    typer.Option(
        help="classic: the --replicate-* rules. effective: --do, --ignore and --rewrite, which ask what a "
        "statement changes and never for the current database.",
        rich_help_panel="Filter",
    ),
]
LowerCaseTableNames = Annotated[
    int,
    typer.Option(
        help="How names compare: 0 as they are, 1 and 2 without case.",
        min=0,
        max=2,
        rich_help_panel="Filter",
    ),
]

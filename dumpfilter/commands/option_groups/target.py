"""The options that say what a slave applies transactions to, and what it prints at the end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from dumpfilter.commands.option_groups.group import OptionGroup


@dataclass(frozen=True)
class TargetOptions(OptionGroup):
    """The options of a slave's target, and of the summary that the slave prints at the end."""

    target: Annotated[str, typer.Option(help="The name of the target that transactions are applied to.")] = (
        "summary"
    )
    summary: Annotated[Literal["table", "json", "none"], typer.Option(help="What to print at the end.")] = (
        "table"
    )
    summary_file: Annotated[
        Path | None, typer.Option(help="Write the summary to this file instead of standard output.")
    ] = None

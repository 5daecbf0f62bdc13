"""The options for those who operate a master: how it ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from dumpfilter.commands.option_groups.group import OptionGroup

PANEL = "Operation"


@dataclass(frozen=True)
class OperationOptions(OptionGroup):
    """The options of a master's end."""

    drain_seconds: Annotated[
        float,
        typer.Option(
            help="At SIGTERM, wait so long for running dumps to end between two transactions; 0 ends them at once.",
            min=0,
            rich_help_panel=PANEL,
        ),
    ] = 10.0
